// SPDX-License-Identifier: MIT

package profile

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
)

// FuzzDecode reads a profile. One that is accepted can be counted with, and is the same when it is kept and read again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	must.OK(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.OK(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"schema":1,"loads":[{"name":"a","read_pct":100,"block_bytes":4096,"knee_depth":4,"points":[{"depth":1,"iops":10,"low_iops":9},{"depth":4,"iops":30,"low_iops":29}]}]}`))
	f.Add([]byte(`{"schema":1,"loads":[{"points":[{"depth":1,"iops":1e308,"low_iops":1e-308}],"block_bytes":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(1<<20+2000*len(text)), func() {
			p, err := Decode(text)
			if err != nil {
				return
			}
			for i := range p.Loads {
				l := &p.Loads[i]
				if at := l.Full(); !(at.IOPS > 0) || at.Depth < 1 {
					t.Errorf("%+v is full at %+v", l, at)
				}
				if knee := Knee(l.Points); knee < 0 || knee > l.Points[len(l.Points)-1].Depth {
					t.Errorf("%+v has its knee at %d", l, knee)
				}
			}
			kept, err := p.Encode()
			must.OK(t, err)
			again, err := Decode([]byte(kept))
			must.OK(t, err)
			if kept2, err := again.Encode(); err != nil || !reflect.DeepEqual(kept, kept2) {
				t.Errorf("%s is read again as %s: %v", kept, kept2, err)
			}
		})
	})
}
