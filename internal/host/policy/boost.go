// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"

	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

// ByBoost is a promise that is missed, for which the daemon raised the weight.
const ByBoost weight.By = "hold"

// Hold tells which weights are raised.
func (m *Policy) Hold(all []state.Boost) *Policy {
	m.held = map[string][]state.Boost{}
	for _, h := range all {
		m.held[h.Cgroup] = append(m.held[h.Cgroup], h)
	}
	return m
}

// raise raises what a cgroup is to have, on the disks where it is held. What is raised is the disk's own
// weight where one is asked for, else what the file has for all disks.
func (m *Policy) raise(group string, wants map[string]Want, read Reader) error {
	if len(m.held[group]) == 0 {
		return nil
	}
	have, there, err := read(group, weight.Kyber.File())
	if err != nil || !there {
		return err
	}
	for _, h := range m.held[group] {
		want, ok := wants[h.Disk]
		if !ok {
			if want, ok = wants[EveryDisk]; !ok || want.Weight != have.Default {
				want = Want{Why: "what " + weight.Kyber.File() + " has for all disks"}
			}
			want.Weight = have.Default
		}
		base := want.Weight
		if want.By == ByBoost {
			base = want.Base // a second promise for the same
		}
		n := weight.Value(state.Boosted(int(base), h.Factor, h.Max, weight.Max))
		if base < 1 || n <= want.Weight { // of a sum, and where nothing is raised
			continue
		}
		source := want.Source()
		if want.By == ByBoost {
			source = want.of
		}
		want.Why = fmt.Sprintf("%s by %s, raised for the promise to %s: %s; at most %s", base, source, h.Promise, meaning(h.Cause), weight.Value(state.Boosted(int(base), h.Max, h.Max, weight.Max)))
		want.Weight, want.Base, want.By, want.Promise, want.of = n, base, ByBoost, h.Promise, source
		wants[h.Disk] = want
	}
	return nil
}

// meaning is a cause in words.
func meaning(cause string) string {
	switch cause {
	case "disk":
		return "the disk is slower than its profile"
	case "oversold":
		return "others are entitled to too much of the disk"
	}
	return "it was missed"
}
