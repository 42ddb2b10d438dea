// SPDX-License-Identifier: MIT

package status

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/host/weight"
)

// judge tells what comes of a weight in a file.
func (m *machine) judge(g Group, by weight.Mechanism, v weight.Values) Weight {
	w := Weight{File: by.File(), Default: v.Default, Devices: v.Devices, ActsOn: []string{}}
	for _, d := range m.disks {
		if slices.Contains(d.WeightsBy, by) {
			w.ActsOn = append(w.ActsOn, d.Name)
		}
	}
	if by != weight.Kyber && v.Default != weight.Default && m.carried(g) {
		w.CarriedBy = weight.Kyber.File()
	}
	w.Means = means(g.Asked, by, v, len(w.ActsOn) > 0)
	if !m.siblings(g.Group) {
		w.ActsOn = []string{}
		parent := filepath.Dir(g.Group)
		w.Inert = append(w.Inert, Inert{
			Why:    "a weight is compared with siblings', and it has none in " + parent,
			Remedy: fmt.Sprintf("isolio weight %s %d", quoted(m.world.Of(parent).Name), intended(g, by, v)),
		})
		return w
	}
	if inert, ok := m.inertDefault(g, by, v, w.ActsOn); ok {
		w.Inert = append(w.Inert, inert)
	}
	for _, majMin := range slices.Sorted(maps.Keys(v.Devices)) {
		if inert, ok := m.inertDevice(g, by, majMin, v.Devices[majMin]); ok {
			w.Inert = append(w.Inert, inert)
		}
	}
	return w
}

// intended is the weight that somebody had in mind who made a file hold v.
func intended(g Group, by weight.Mechanism, v weight.Values) int {
	if g.Asked.File == by.File() {
		return g.Asked.Weight
	}
	return v.Default
}

// means is what a file's number says: who asked for it in which words, and what
// it is to who said nothing; where it acts, also what it makes of that.
func means(asked weight.Asked, by weight.Mechanism, v weight.Values, acts bool) string {
	text := fmt.Sprintf("%s x default", times(v.Default))
	if v.Default == weight.Default {
		text = "default"
	}
	if asked.File != by.File() {
		return text
	}
	switch {
	case asked.Weight != v.Default && acts:
		return fmt.Sprintf("%s: %s x default, acts as %s x", asked.How, times(asked.Weight), times(v.Default))
	case asked.Weight != v.Default:
		return fmt.Sprintf("%s: %s x default", asked.How, times(asked.Weight))
	}
	return asked.How + ": " + text
}

// times is a weight as a multiple of the default, in two figures after the point at most.
func times(n int) string {
	text := fmt.Sprintf("%.2f", float64(n)/weight.Default)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// inertDefault is why a weight for all disks does nothing on any.
func (m *machine) inertDefault(g Group, by weight.Mechanism, v weight.Values, actsOn []string) (Inert, bool) {
	if v.Default == weight.Default || len(actsOn) > 0 || m.carried(g) {
		return Inert{}, false
	}
	inert := Inert{Why: fmt.Sprintf("no disk shares by %s", by), Remedy: m.enable()}
	if by != weight.Kyber && slices.ContainsFunc(m.disks, func(d Disk) bool { return slices.Contains(d.WeightsBy, weight.Kyber) }) {
		inert.Why += fmt.Sprintf(", and %s reads %s", weight.Kyber, weight.Kyber.File())
		inert.Remedy = fmt.Sprintf("isolio weight %s %d, or have `isolio daemon` do it", quoted(g.Name), intended(g, by, v))
	}
	return inert, true
}

// carried reports whether what was asked in a group is in its file of
// kyber-fairness, and acts there.
func (m *machine) carried(g Group) bool {
	v, ok := m.weights[weight.Kyber.File()][g.Group]
	return ok && v.Default == g.Asked.Weight && slices.ContainsFunc(m.disks, func(d Disk) bool { return slices.Contains(d.WeightsBy, weight.Kyber) })
}

// enable is how to have weights act somewhere: on a disk that is in use first.
func (m *machine) enable() string {
	best := ""
	for _, d := range m.disks {
		if strings.HasPrefix(d.Remedy, "isolio enable ") && d.SizeBytes > 0 && d.TakesScheduler && (best == "" || d.Kind == "disk") {
			best = d.Remedy
			if d.Kind == "disk" {
				break
			}
		}
	}
	return cmp.Or(best, "none: this machine has no disk that takes a scheduler")
}

// inertDevice is why a weight for one disk does nothing.
func (m *machine) inertDevice(g Group, by weight.Mechanism, majMin string, n int) (Inert, bool) {
	at := slices.IndexFunc(m.disks, func(d Disk) bool { return d.MajMin == majMin })
	if at < 0 {
		return Inert{On: majMin, Why: "there is no such disk", Remedy: fmt.Sprintf("echo '%s default' > %s", majMin, m.shownPath(g.Group, by.File()))}, true
	}
	d := m.disks[at]
	switch {
	case slices.Contains(d.WeightsBy, by):
		return Inert{}, false
	case len(d.WeightsBy) == 0:
		return Inert{On: d.Name, Why: d.Why, Remedy: d.Remedy}, true
	case m.weightOn(d, g.Group) == n:
		return Inert{}, false // carried over
	}
	reads := d.WeightsBy[0]
	return Inert{
		On: d.Name, Why: fmt.Sprintf("%s reads %s", reads, reads.File()),
		Remedy: fmt.Sprintf("isolio weight %s %d --device %s", quoted(g.Name), n, d.Name),
	}, true
}

// shownPath is a cgroup's file as a user of the machine calls it.
func (m *machine) shownPath(group, file string) string {
	return strings.TrimPrefix(m.world.Tree.Path(group, file), m.sys.Root)
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if strings.ContainsAny(word, ` \'"$&;()<>|*?`) {
		return "'" + word + "'"
	}
	return word
}
