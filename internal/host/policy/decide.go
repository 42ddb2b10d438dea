// SPDX-License-Identifier: MIT

package policy

import (
	"maps"
	"slices"

	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

// State is what a weight in io.kyber.weight is, against what is asked for.
type State string

// States of weights. They are stable: `isolio explain --json` prints them.
const (
	// Default is the kernel's, and no rule or file asks for another one.
	Default State = "default"
	// ByHand was written by another program, and no rule or file asks for any.
	ByHand State = "by-hand"
	// InEffect is as it was asked for.
	InEffect State = "in-effect"
	// Overridden is another one than is asked for, and stays: an operator wrote it after
	// the daemon, or before it came.
	Overridden State = "overridden"
	// Pending is another one than is asked for, which the daemon changes.
	Pending State = "pending"
	// Leftover is what the daemon wrote and no rule or file asks for any more. It takes it back.
	Leftover State = "leftover"
)

// Change is one weight to be written; 0 takes it back.
type Change struct {
	Disk   string
	Weight weight.Value
}

// StateOf tells what a cgroup's weight on a disk is. A zero want is none.
//
// What others wrote stays until something else is asked for than last time: that
// is how an operator overrides the daemon. The kernel's default is not an operator's: that
// is what a weight is after the module was loaded again.
//
// A raised weight is asked for by no other than the weight that it was raised from.
func StateOf(disk string, want Want, have weight.Values, last state.Applied) State {
	target := want.Weight
	asked := target != 0
	now, there := number(have, disk)
	isDefault := !there || disk == EveryDisk && now == weight.Default
	old, known := last[disk]
	ours := known && (now == old.Weight || now == old.Before)
	switch {
	case !asked && isDefault:
		return Default
	case !asked && !ours:
		return ByHand
	case !asked:
		return Leftover
	case now == target:
		return InEffect
	case !known && !isDefault:
		return Overridden
	case known && old.AskedFor() == want.AskedFor() && !isDefault && !ours:
		return Overridden
	}
	return Pending
}

// Decide compares what a cgroup is to have with what its io.kyber.weight holds,
// and returns what to write, and the mark to leave before that.
func Decide(wants map[string]Want, have weight.Values, last state.Applied) ([]Change, state.Applied) {
	var changes []Change
	next := state.Applied{}
	for _, disk := range slices.Sorted(maps.Keys(union(wants, last))) {
		want := wants[disk]
		target := want.Weight
		now, _ := number(have, disk)
		old, known := last[disk]
		switch state := StateOf(disk, want, have, last); {
		case state == Default, state == ByHand:
			// Taken back, or not ours to take back: there is no mark any more.
		case state == Overridden && known:
			next[disk] = old
		case state == Overridden, state == InEffect:
			next[disk] = written(want, target)
		default:
			next[disk] = written(want, now)
			changes = append(changes, Change{disk, target})
		}
	}
	return changes, next
}

// written is the mark of a want.
func written(want Want, before weight.Value) state.Written {
	w := state.Written{Weight: want.Weight, Before: before}
	if asked := want.AskedFor(); asked != want.Weight {
		w.Asked = asked
	}
	return w
}

func union(wants map[string]Want, last state.Applied) map[string]bool {
	all := map[string]bool{}
	for disk := range wants {
		all[disk] = true
	}
	for disk := range last {
		all[disk] = true
	}
	return all
}

// number is the disk's weight in a file's values; there is false for one that
// has none of its own.
func number(v weight.Values, disk string) (n weight.Value, there bool) {
	if disk == EveryDisk {
		return v.Default, true
	}
	n, there = v.Devices[disk]
	return n, there
}
