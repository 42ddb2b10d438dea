// SPDX-License-Identifier: MIT

package top

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzReplay plays any file. An error is one line that names the file; each sample can be shown as lines again.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"schema":1,"time":"2026-01-02T03:04:05Z","interval_s":1,"device":"sda","cgroup":"/a","read":{"bytes_ps":1,"iops":2},"write":{}}` + "\n" +
		`{"schema":1,"time":"2026-01-02T03:04:06Z","interval_s":1e300,"cgroup":"../..","container":"\u001b[2J"}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"schema":1,"time":"2026-01-02T03:04:05Z"} {"schema":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "record")
		testtree.File(t, file, string(text))
		fuzzlimit.Run(t, uint64(4<<20+4000*len(text)), func() {
			r, err := OpenReplay(file, time.Time{})
			if err != nil {
				if s := err.Error(); strings.Contains(s, "\n") || !strings.Contains(s, file) {
					t.Errorf("%q is not one line about the file", s)
				}
				return
			}
			defer r.in.Close()
			for range min(len(r.times)+1, 100) {
				sample, err := r.Sample()
				if err != nil {
					if strings.Contains(err.Error(), "\n") {
						t.Errorf("%q is not one line", err)
					}
					return
				}
				if sample.Over < 0 {
					t.Errorf("a sample over %s", sample.Over)
				}
				var b bytes.Buffer
				must.OK(t, WriteJSON(&b, sample, DefaultView().Apply(sample.Rows)))
			}
		})
	})
}
