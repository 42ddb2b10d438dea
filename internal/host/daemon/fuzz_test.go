// SPDX-License-Identifier: MIT

package daemon

import (
	"encoding/json"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/weight"
)

// FuzzDecide decides from a mark, which the owner of a cgroup's directory can
// write, and from a weight file. What is written is a weight that was asked for,
// or takes back one that is there; after it there is nothing left to write.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"default":{"weight":300,"before":100}}`), "default 300\n8:0 50\n", uint16(0), false)
	f.Add([]byte(`{"8:0":{"weight":50,"before":0},"default 10000\n":{"weight":1,"before":1}}`), "default 100\n8:0 50\n", uint16(200), true)
	f.Add([]byte(`null`), "100", uint16(10000), true)
	f.Fuzz(func(t *testing.T, attribute []byte, file string, target uint16, asked bool) {
		fuzzlimit.Run(t, uint64(64<<20+1000*(len(attribute)+len(file))), func() {
			var last mark
			if json.Unmarshal(attribute, &last) != nil {
				last = nil
			}
			have, err := weight.Parse(file)
			if err != nil {
				return
			}
			want := map[string]int{}
			if asked {
				want[everyDisk] = 1 + int(target)%10000
			}
			changes, next := decide(want, have, last)
			for _, c := range changes {
				_, there := number(have, c.disk)
				if !there && want[c.disk] == 0 {
					t.Errorf("writes %d for the disk %q, which the file has not", c.weight, c.disk)
				}
				if c.weight != want[c.disk] {
					t.Errorf("writes %d for the disk %q, want %d", c.weight, c.disk, want[c.disk])
				}
				apply(&have, c)
			}
			if again, _ := decide(want, have, next); len(again) != 0 {
				t.Errorf("has %+v to write after %+v", again, changes)
			}
		})
	})
}

// apply is what the kernel makes of a change.
func apply(have *weight.Values, c change) {
	switch {
	case c.disk == everyDisk && c.weight == 0:
		have.Default = weight.Default
	case c.disk == everyDisk:
		have.Default = c.weight
	case c.weight == 0:
		delete(have.Devices, c.disk)
	default:
		have.Devices[c.disk] = c.weight
	}
}
