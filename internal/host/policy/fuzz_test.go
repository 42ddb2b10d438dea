// SPDX-License-Identifier: MIT

package policy

import (
	"encoding/json"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

// FuzzDecide decides from a mark and from a weight file. What is written is a weight that was asked for,
// or takes back one that is there; after it there is nothing left to write.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"default":{"weight":300,"before":100}}`), "default 300\n8:0 50\n", uint16(0), false)
	f.Add([]byte(`{"8:0":{"weight":50,"before":0},"default 10000\n":{"weight":1,"before":1}}`), "default 100\n8:0 50\n", uint16(200), true)
	f.Add([]byte(`null`), "100", uint16(10000), true)
	f.Add([]byte(`{"default":{"weight":"sum","before":100}}`), "default sum\n8:0 sum\n", uint16(10000), true)
	f.Fuzz(func(t *testing.T, attribute []byte, file string, target uint16, asked bool) {
		fuzzlimit.Run(t, uint64(64<<20+1000*(len(attribute)+len(file))), func() {
			var last state.Applied
			if json.Unmarshal(attribute, &last) != nil {
				last = nil
			}
			have, err := weight.Parse(file)
			if err != nil {
				return
			}
			want := map[string]Want{}
			if asked {
				want[EveryDisk] = Want{Weight: 1 + weight.Value(target)%10001}
				if want[EveryDisk].Weight > 10000 {
					want[EveryDisk] = Want{Weight: weight.Sum}
				}
			}
			changes, next := Decide(want, have, last)
			for _, c := range changes {
				_, there := number(have, c.Disk)
				if !there && want[c.Disk].Weight == 0 {
					t.Errorf("writes %s for the disk %q, which the file has not", c.Weight, c.Disk)
				}
				if c.Weight != want[c.Disk].Weight {
					t.Errorf("writes %s for the disk %q, want %s", c.Weight, c.Disk, want[c.Disk].Weight)
				}
				apply(&have, c)
			}
			if again, _ := Decide(want, have, next); len(again) != 0 {
				t.Errorf("has %+v to write after %+v", again, changes)
			}
		})
	})
}

// apply is what the kernel makes of a change.
func apply(have *weight.Values, c Change) {
	switch {
	case c.Disk == EveryDisk && c.Weight == 0:
		have.Default = weight.Default
	case c.Disk == EveryDisk:
		have.Default = c.Weight
	case c.Weight == 0:
		delete(have.Devices, c.Disk)
	default:
		have.Devices[c.Disk] = c.Weight
	}
}
