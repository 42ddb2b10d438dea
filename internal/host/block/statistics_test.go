// SPDX-License-Identifier: MIT

package block

import (
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		stat, inFlight, wrong string
		want                  Statistics
		now                   int
	}{
		{"5 1 80 7 2 0 16 3 4 1500 10 0 0 0 0\n", "       3        4\n", "", Statistics{5, 80 * 512, 2, 16 * 512, 1500 * time.Millisecond}, 7},
		{"5 1 80 7 2 0 16\n", "0 0", "7 numbers, want 10 or more", Statistics{}, 0},
		{"5 1 80 7 2 0 16 3 4 x\n", "0 0", `"x" is not a number`, Statistics{}, 0},
		{"5 1 80 7 2 0 16 3 4 0\n", "1", "1 numbers, want 2 or more", Statistics{5, 80 * 512, 2, 16 * 512, 0}, 0},
	} {
		sys := System{Root: t.TempDir()}
		for file, text := range map[string]string{"dev": "8:0\n", "size": "8\n", "stat": c.stat, "inflight": c.inFlight} {
			name := sys.Path("sys/block/sda", file)
			testtree.File(t, name, text)
		}
		d, err := sys.Find("sda")
		must.OK(t, err)
		s, err := d.Statistics()
		now, errNow := d.InFlight()
		if err == nil {
			err = errNow
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if s != c.want || now != c.now || !strings.Contains(said, c.wrong) || (c.wrong == "") != (err == nil) {
			t.Errorf("%q: %+v, %d, %v", c.stat, s, now, err)
		}
	}
}
