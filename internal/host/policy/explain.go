// SPDX-License-Identifier: MIT

package policy

import (
	"maps"
	"slices"

	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

// Reasons are why a cgroup has its weight in io.kyber.weight on a disk: what is to
// be there, what is, and who wrote it.
type Reasons struct {
	// Disk is EveryDisk, or "MAJ:MIN" of a disk that has a weight of its own.
	Disk string `json:"disk"`
	// Weight is what the file holds, 0 where it has none for the disk.
	Weight weight.Value `json:"weight"`
	// Want is what is to be there, nil if none is asked for.
	Want *Want `json:"want,omitempty"`
	// State is what the one is to the other.
	State State `json:"state"`
	// Mark is what the daemon wrote last, nil for nothing.
	Mark *state.Written `json:"daemon_wrote,omitempty"`
}

// Short is what decided, in few words.
func (g *Reasons) Short() string {
	why := ""
	if g.Want != nil {
		why = g.Want.Why
	}
	switch g.State {
	case ByHand:
		return "by hand"
	case Overridden:
		return "by hand, over " + why
	case Pending:
		return why + ", not yet"
	case Leftover:
		return "left by the daemon"
	case InEffect:
		return why
	}
	return "-"
}

// ReasonsOn are the Reasons that count on one disk, nil for none: those of the disk, else those of all disks.
func (m *Policy) ReasonsOn(majMin, group string, read Reader, last state.Applied) (*Reasons, error) {
	all, _, err := m.Reasons(group, read, last)
	var of *Reasons
	for i := range all { // the one of all disks is first
		if g := &all[i]; g.Disk == EveryDisk || g.Disk == majMin {
			of = g
		}
	}
	return of, err
}

// Reasons tells of all disks and of each that has a weight of its own, or is to
// have one. There are none for a cgroup without the file.
func (m *Policy) Reasons(group string, read Reader, last state.Applied) ([]Reasons, weight.Asked, error) {
	wants, asked, err := m.Wants(group, read)
	if err != nil {
		return nil, asked, err
	}
	have, there, err := read(group, weight.Kyber.File())
	if err != nil || !there {
		return nil, asked, err
	}
	disks := union(wants, last)
	disks[EveryDisk] = true
	for disk := range have.Devices {
		disks[disk] = true
	}
	var all []Reasons
	for _, disk := range slices.Sorted(maps.Keys(disks)) {
		g := Reasons{Disk: disk, State: StateOf(disk, wants[disk], have, last)}
		g.Weight, _ = number(have, disk)
		if want, ok := wants[disk]; ok {
			g.Want = &want
		}
		if written, ok := last[disk]; ok {
			g.Mark = &written
		}
		all = append(all, g)
	}
	// "default" sorts after the numbers of disks, and is what a reader looks for first.
	slices.SortStableFunc(all, func(a, b Reasons) int {
		switch {
		case a.Disk == b.Disk:
			return 0
		case a.Disk == EveryDisk:
			return -1
		case b.Disk == EveryDisk:
			return 1
		}
		return 0
	})
	return all, asked, nil
}

// WouldRevert reports whether the daemon would replace a weight that an operator
// writes now, and what it is to be in its view; nil if none is asked for.
func (m *Policy) WouldRevert(group, disk string, n weight.Value, read Reader, last state.Applied) (want *Want, back bool, err error) {
	wants, _, err := m.Wants(group, read)
	if err != nil {
		return nil, false, err
	}
	asked, ok := wants[disk]
	if !ok {
		return nil, false, nil
	}
	have, _, err := read(group, weight.Kyber.File())
	if err != nil {
		return nil, false, err
	}
	if disk == EveryDisk {
		have.Default = n
	} else {
		have.Devices = maps.Clone(have.Devices)
		if have.Devices == nil {
			have.Devices = map[string]weight.Value{}
		}
		have.Devices[disk] = n
	}
	return &asked, StateOf(disk, asked, have, last) == Pending, nil
}
