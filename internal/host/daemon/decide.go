// SPDX-License-Identifier: MIT

package daemon

import (
	"maps"
	"slices"

	"isolio/internal/host/weight"
)

// change is one weight to be written; 0 takes it back.
type change struct {
	disk   string
	weight int
}

// decide compares what a cgroup should have with what its io.kyber.weight holds,
// and returns what to write, and the mark to leave before that.
//
// What others wrote there stays until something else is asked for than last
// time: that is how an operator overrides the daemon. The kernel's default is
// nobody's: that is what a weight is after the module was loaded again.
func decide(want map[string]int, have weight.Values, last mark) ([]change, mark) {
	var changes []change
	next := mark{}
	for _, disk := range slices.Sorted(maps.Keys(union(want, last))) {
		target, asked := want[disk]
		now, there := number(have, disk)
		isDefault := !there || disk == everyDisk && now == weight.Default
		old, known := last[disk]
		ours := known && (now == old.Weight || now == old.Before)
		switch {
		case !asked && (isDefault || !ours):
			// Taken back, or not ours to take back: there is no mark any more.
		case asked && now == target, asked && !known && !isDefault:
			// It is as it should be; or it was there before we were.
			next[disk] = written{Weight: target, Before: target}
		case asked && known && old.Weight == target && !isDefault && !ours:
			next[disk] = old // overridden
		default:
			next[disk] = written{Weight: target, Before: now}
			changes = append(changes, change{disk, target})
		}
	}
	return changes, next
}

func union(want map[string]int, last mark) map[string]bool {
	all := map[string]bool{}
	for disk := range want {
		all[disk] = true
	}
	for disk := range last {
		all[disk] = true
	}
	return all
}
