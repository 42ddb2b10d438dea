// SPDX-License-Identifier: MIT

package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/policy"
	"isolio/internal/host/weight"
	"isolio/internal/plan/shell"
)

// judge tells what comes of a weight in a file.
func (m *statusReader) judge(g Group, by weight.Mechanism, v weight.Values) Weight {
	w := Weight{File: by.File(), Default: v.Default, Devices: v.Devices, ActsOn: []string{}}
	for _, d := range m.disks {
		if slices.Contains(d.WeightsBy, by) {
			w.ActsOn = append(w.ActsOn, d.Name)
		}
	}
	if by != weight.Kyber && v.Default != weight.Default && m.carried(g) {
		w.CarriedBy = weight.Kyber.File()
	}
	if by == weight.IOCost && v.Default != weight.Default && len(w.ActsOn) == 0 && m.passedOn(g, v.Default) {
		w.CarriedBy = weight.BFQ.File()
	}
	w.Means = means(g.Asked, by, v, len(w.ActsOn) > 0)
	decided := g.ground(policy.EveryDisk)
	if by == weight.Kyber && decided != nil && decided.Want != nil && decided.State == policy.InEffect {
		w.Means = decided.Want.Why + ": " + multiple(v.Default)
	}
	if by != weight.Kyber && v.Said() && decided != nil && decided.Want != nil && decided.Want.Decided() && decided.State == policy.InEffect {
		w.DecidedBy = decided.Want.Why
	}
	// Where nothing shares, no weight is taken, and that comes first.
	reads, shared := m.reads()
	if parent, others := policy.ComparedIn(m.world.Groups, g.Group, by, m.read); !others && shared {
		w.ActsOn = []string{}
		w.Inert = append(w.Inert, Inert{
			Why:    "a weight is compared with those of siblings, and it has no sibling in " + parent,
			Remedy: fmt.Sprintf("isolio weight %s %s", m.world.Of(parent).Word(), intended(g, by, v, reads)),
		})
		return w
	}
	if inert, ok := m.inertDefault(g, by, v, w.ActsOn); ok && w.CarriedBy == "" {
		w.Inert = append(w.Inert, inert)
	}
	for _, majMin := range slices.Sorted(maps.Keys(v.Devices)) {
		if inert, ok := m.inertDevice(g, by, majMin, v.Devices[majMin]); ok {
			w.Inert = append(w.Inert, inert)
		}
	}
	return w
}

// ground is why the cgroup has its weight on a disk, nil if nothing is known.
func (g *Group) ground(disk string) *policy.Reasons {
	for i := range g.Reasons {
		if g.Reasons[i].Disk == disk {
			return &g.Reasons[i]
		}
	}
	return nil
}

// intended is the weight that was meant by writing v, in the range of what reads weights.
func intended(g Group, by weight.Mechanism, v weight.Values, reads weight.Mechanism) weight.Value {
	n := v.Default
	if g.Asked.File == by.File() || g.Asked.File == weight.OfSystemd {
		n = weight.Value(g.Asked.Weight)
	}
	return min(n, weight.Value(reads.Max()))
}

// means explains a file's number: which program asked for it, in which words, and its
// ratio to the default weight; where the number acts, also its effect.
func means(asked weight.Asked, by weight.Mechanism, v weight.Values, acts bool) string {
	text := multiple(v.Default)
	if asked.File != by.File() {
		return text
	}
	switch want := weight.Value(asked.Weight); {
	case want != v.Default && acts:
		return fmt.Sprintf("%s: %s x default, acts as %s x", asked.How, times(want), times(v.Default))
	case want != v.Default:
		return fmt.Sprintf("%s: %s x default", asked.How, times(want))
	}
	return asked.How + ": " + text
}

// multiple is a weight in words.
func multiple(n weight.Value) string {
	switch n {
	case weight.Default:
		return "default"
	case weight.Sum:
		return "what its active children weigh together"
	}
	return times(n) + " x default"
}

// times is a number as a multiple of the default, in two figures after the point at most.
func times(n weight.Value) string {
	text := fmt.Sprintf("%.2f", float64(n)/weight.Default)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// inertDefault is why a weight for all disks does nothing on any.
func (m *statusReader) inertDefault(g Group, by weight.Mechanism, v weight.Values, actsOn []string) (Inert, bool) {
	if v.Default == weight.Default || len(actsOn) > 0 || m.carried(g) {
		return Inert{}, false
	}
	inert := Inert{Why: fmt.Sprintf("no disk shares by %s", by), Remedy: m.enable(g)}
	reads, shared := m.reads()
	if !shared || v.Default == weight.Sum { // which kyber-fairness alone takes
		return inert, true
	}
	inert.Why += fmt.Sprintf(", and %s reads %s", reads, reads.File())
	inert.Remedy = fmt.Sprintf("isolio weight %s %s", g.Word(), intended(g, by, v, reads))
	if reads != weight.Kyber {
		return inert, true
	}
	inert.Remedy += ", or have `isolio daemon` do it"
	switch decided := g.ground(policy.EveryDisk); {
	case decided == nil || decided.Want == nil:
	case decided.Want.Decided() && decided.State == policy.InEffect:
		return Inert{}, false // a rule decided otherwise, and holds
	case decided.State == policy.Overridden:
		return Inert{}, false // an operator did
	case decided.Want.Decided():
		inert.Why = fmt.Sprintf("%s decides %s", decided.Want.Source(), decided.Want.Weight)
		inert.Remedy = "none: `isolio daemon` is about to write it"
		if m.daemon == DaemonStopped {
			inert.Why += ", and the daemon that follows rules is stopped"
			inert.Remedy = startDaemon(m.sys)
		}
	case decided.State == policy.Pending && m.daemon == DaemonRuns:
		inert.Remedy = "none: `isolio daemon` is about to write it"
	}
	return inert, true
}

// reads is by what disks share, of several ways the first of isolio's order.
func (m *statusReader) reads() (weight.Mechanism, bool) {
	for _, by := range weight.Mechanisms() {
		if m.sharedBy(by) {
			return by, true
		}
	}
	return "", false
}

// carried reports whether what was asked in a group is in its file of
// kyber-fairness, and acts there.
func (m *statusReader) carried(g Group) bool {
	v, ok := m.weights[weight.Kyber.File()][g.Group]
	return ok && v.Default == weight.Value(g.Asked.Weight) && m.sharedBy(weight.Kyber)
}

// passedOn reports whether systemd wrote what io.weight holds to bfq's file too, on its scale.
func (m *statusReader) passedOn(g Group, n weight.Value) bool {
	v, there := m.weights[weight.BFQ.File()][g.Group]
	return there && int(v.Default) == weight.BFQFromSystemd(int(n)) && m.sharedBy(weight.BFQ)
}

func (m *statusReader) sharedBy(by weight.Mechanism) bool {
	return slices.ContainsFunc(m.disks, func(d Disk) bool { return slices.Contains(d.WeightsBy, by) })
}

// enable is how to have a cgroup's weight act, on a disk that it has used if there is one.
func (m *statusReader) enable(g Group) string {
	var infos []block.Info
	for _, d := range m.disks {
		infos = append(infos, d.Info)
	}
	stats, _ := m.world.Tree.IOStats(g.Group) // a cgroup without the controller has used none
	if disk := block.Fit(infos, func(majMin string) bool { return stats[majMin].IOs() > 0 }); disk != "" {
		return "isolio enable " + shell.Quote(disk)
	}
	return "none: this machine has no disk that takes a scheduler"
}

// inertDevice is why a weight for one disk does nothing.
func (m *statusReader) inertDevice(g Group, by weight.Mechanism, majMin string, n weight.Value) (Inert, bool) {
	at := slices.IndexFunc(m.disks, func(d Disk) bool { return d.MajMin == majMin })
	if at < 0 {
		return Inert{On: majMin, Why: "there is no such disk", Remedy: shell.Echo(majMin+" default", m.shownPath(g.Group, by.File()))}, true
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
		Remedy: fmt.Sprintf("isolio weight %s %s --device %s", g.Word(), n, d.Name),
	}, true
}

// shownPath is a cgroup's file as a user of the machine calls it.
func (m *statusReader) shownPath(group, file string) string {
	return strings.TrimPrefix(m.world.Tree.Path(group, file), m.sys.Root)
}
