// SPDX-License-Identifier: MIT

package policy

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/weight"
)

// A group's part is its weight among its active siblings' times its parent's part. A group is
// active if it, or one below it, did I/O between two samples. Requests of a group's own tasks
// compete with its children as one more child of weight 100; so do the root group's. A group
// whose weight is the sum weighs what all these weigh together.

// RootGroup is the path of the root group.
const RootGroup = "."

// IOSample is all groups' counters at one time.
type IOSample struct {
	At time.Time
	// Groups have parents before children; the root group comes first.
	Groups []string
	// Stats are by group and disk "MAJ:MIN"; they include the groups below.
	Stats map[string]map[string]cgroup.IOStat
}

// Unit is what a disk's parts are counted in.
type Unit string

// Units of shares; kyber-fairness's share_by says which, all others share
// something that is nearest to bytes.
const (
	Bytes Unit = "bytes"
	IOs   Unit = "iops"
)

// Entitlement is a group's part of one disk between two samples.
type Entitlement struct {
	Group string
	// Weight is a number: the sum where that is the group's weight.
	Weight int
	Active bool
	// Entitled is 0 for a cgroup that is not active; both are 0..1.
	Entitled, Actual float64
	// Rates are per second.
	ReadBytes, WriteBytes, ReadIOs, WriteIOs float64
}

// Entitlements are all groups' parts of the disk "MAJ:MIN" between two samples, in
// the order of the later one. weights is a group's weight on that disk.
func Entitlements(a, b IOSample, majMin string, unit Unit, weights func(group string) weight.Value) []Entitlement {
	c := counts{unit: unit, used: map[string]cgroup.IOStat{}, below: map[string]float64{}}
	for _, group := range b.Groups {
		c.used[group] = since(a.Stats[group][majMin], b.Stats[group][majMin])
		if group != RootGroup {
			c.below[filepath.Dir(group)] += c.of(group)
		}
	}
	// A kernel that shows no io.stat in the root group: all is below it.
	total := max(c.of(RootGroup), c.below[RootGroup])
	seconds := b.At.Sub(a.At).Seconds()
	parts := make([]Entitlement, len(b.Groups))
	entitled := map[string]float64{}
	numbers, rivals := c.weigh(b.Groups, weights)
	for i, group := range b.Groups {
		used := c.used[group]
		p := Entitlement{Group: group, Weight: numbers[group], Active: c.of(group) > 0}
		switch {
		case group == RootGroup:
			p.Weight, p.Active = weight.Default, total > 0
			if p.Active {
				p.Entitled = 1
			}
		case p.Active:
			p.Entitled = entitled[filepath.Dir(group)] * float64(p.Weight) / float64(rivals[filepath.Dir(group)])
		}
		if total > 0 {
			p.Actual = c.of(group) / total
		}
		if seconds > 0 {
			p.ReadBytes, p.WriteBytes = float64(used.ReadBytes)/seconds, float64(used.WriteBytes)/seconds
			p.ReadIOs, p.WriteIOs = float64(used.ReadIOs)/seconds, float64(used.WriteIOs)/seconds
		}
		entitled[group] = p.Entitled
		parts[i] = p
	}
	return parts
}

// counts is what groups used of one disk.
type counts struct {
	unit Unit
	used map[string]cgroup.IOStat
	// below is what a group's children used, in the unit.
	below map[string]float64
}

// of is what a group used, in the unit.
func (c counts) of(group string) float64 {
	used := c.used[group]
	if c.unit == IOs {
		return float64(used.IOs())
	}
	return float64(used.ReadBytes + used.WriteBytes)
}

// weigh returns each group's weight as a number, and the sum of the weights of its
// active children, and of its own tasks where they are active. Children come after
// their parents in groups.
func (c counts) weigh(groups []string, weights func(string) weight.Value) (numbers, rivals map[string]int) {
	numbers, rivals = map[string]int{}, map[string]int{}
	for _, group := range slices.Backward(groups) {
		if c.below[group] > 0 && c.of(group)-c.below[group] > ownLeast*c.of(group) {
			rivals[group] += weight.Default
		}
		numbers[group] = int(weights(group))
		if weights(group) == weight.Sum {
			numbers[group] = cmp.Or(rivals[group], weight.Default)
		}
		if group != RootGroup && c.of(group) > 0 {
			rivals[filepath.Dir(group)] += numbers[group]
		}
	}
	return numbers, rivals
}

// ownLeast is the part of a group's I/O from which on its own tasks count as
// one more child. The root group counts requests when they complete, all
// others when they are sent: there is always a small difference.
const ownLeast = 0.05

// since is what was counted between two readings; a counter that went back
// belongs to a new group of the same name.
func since(a, b cgroup.IOStat) cgroup.IOStat {
	if b.WentBack(a) {
		return b
	}
	return b.Minus(a)
}
