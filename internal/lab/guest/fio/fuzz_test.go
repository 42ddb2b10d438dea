// SPDX-License-Identifier: MIT

package fio

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

// FuzzDecode reads fio's output. What is taken are figures: none is infinite, not
// a number, or negative.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no outputs: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.OK(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(16<<20+1000*len(text)), func() {
			out, err := Decode(text)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "fio: ") {
					t.Errorf("error %q", err)
				}
				return
			}
			for _, d := range []*result.Direction{out.Read, out.Write, out.Both} {
				if d == nil {
					continue
				}
				for _, figure := range []float64{d.BytesPS, d.IOPS, d.Requests, d.Lat.Mean, d.Lat.P50, d.Lat.P99, d.Lat.Max} {
					if figure < 0 || math.IsInf(figure, 0) || math.IsNaN(figure) {
						t.Errorf("a figure is %g", figure)
					}
				}
			}
		})
	})
}
