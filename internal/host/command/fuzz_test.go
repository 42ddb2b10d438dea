// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
)

// FuzzJournal reads what journalctl prints, in which fields may have any bytes, and prints it.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"1700000000000000","ISOLIO_CGROUP":"/a","ISOLIO_DISK":"8:0","ISOLIO_BEFORE":"8:0 100","ISOLIO_VALUE":"8:0 300","ISOLIO_BY":"daemon"}`))
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"1","ISOLIO_NAME":[27,91,50,74],"ISOLIO_VALUE":["a",null,["b",1]]}{"__REALTIME_TIMESTAMP":["2","3"]}`))
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"-9223372036854775808"}`))
	f.Add([]byte(`{"ISOLIO_WHY":[[[[]]]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(1<<20+4000*len(text)), func() {
			entries, err := readJournal(bytes.NewReader(text))
			if err != nil {
				if s := err.Error(); !strings.HasPrefix(s, "read the journal: ") {
					t.Errorf("%q does not say what failed", s)
				}
				return
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Weight, e.Disk+" ") && e.Disk != "" && strings.Count(e.Weight, e.Disk+" ") == 1 {
					t.Errorf("%+v: the weight has its disk", e)
				}
				for name := range e.Fields() {
					if name == "" || strings.ToUpper(name) != name {
						t.Errorf("field %q", name)
					}
				}
			}
		})
	})
}
