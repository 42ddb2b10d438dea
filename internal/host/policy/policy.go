// SPDX-License-Identifier: MIT

// Package policy decides which weight a cgroup is to have in io.kyber.weight, and
// on what reasons. It is the one source of truth: the daemon writes what it says,
// and status, weight and explain show it. It also tells what part of a disk each cgroup is
// entitled to among the active ones, and what part it got (entitlement.go).
// It reads no files: a machine.Snapshot has what it decides by, and a Reader reads weights.
package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// EveryDisk is the key of the weight on all disks that have none of their own;
// others are "MAJ:MIN".
const EveryDisk = "default"

// Want is a weight that a cgroup is to have, and who decided it.
type Want struct {
	Weight weight.Value `json:"weight"`
	By     weight.By    `json:"by"`
	// Rule is the rule's number in its file, from 1; 0 for none.
	Rule int `json:"rule,omitempty"`
	// File is that file, "" for none.
	File string `json:"file,omitempty"`
	// Class is the class whose weight it is, "" for none.
	Class string `json:"class,omitempty"`
	Why   string `json:"why"`
	// Limit is the most that could be had where more was asked for, 0 if that is not so.
	Limit int `json:"limit,omitempty"`
	// Base is what was raised, and Promise for what, where By is ByBoost.
	Base    weight.Value `json:"base,omitempty"`
	Promise string       `json:"promise,omitempty"`

	of string // what decided Base
	// given is true of a share and of a rule's weight: other pods have what these leave.
	given bool
}

// AskedFor is the weight that was asked for: a raise does not ask for another.
func (w Want) AskedFor() weight.Value {
	if w.By == ByBoost {
		return w.Base
	}
	return w.Weight
}

// Decided reports whether a rule or a pod decided, and not what a runtime or systemd
// was asked for.
func (w Want) Decided() bool {
	return w.By == weight.ByRule || w.By == weight.ByDefault || w.By == weight.ByPod || w.By == weight.ByClass || w.By == ByClaim || w.By == ByCluster || w.By == ByBoost || w.Limit != 0
}

// Source is what decided, for a reader.
func (w Want) Source() string {
	switch {
	case w.By == ByBoost, w.Rule == 0:
		return w.Why
	case w.By == weight.ByDefault:
		return "default of " + w.RuleName()
	}
	return w.RuleName()
}

// RuleName is the rule that decided, with its file.
func (w Want) RuleName() string { return rule.Place{Nr: w.Rule, File: w.File}.FullRule() }

// MaxOfPod is the most that a pod may ask for in an annotation where no rule says
// another: its author need not be the machine's owner.
const MaxOfPod = 1000

// Policy is what is known of the machine besides its cgroups.
type Policy struct {
	rules   []rule.Rule
	classes map[string]rule.Class
	// disks are those that have the scheduler.
	disks DiskNumbers
	// containers are by the cgroup that competes for them; pods by theirs.
	containers, pods map[string]target.Container
	// held are weights that are raised, by cgroup.
	held map[string][]state.Boost

	// told is what systemd says of its units, nil where it is not asked. What the files of a cgroup
	// say may make the last answer doubtful.
	told func(doubt bool) map[string]target.Told

	once sync.Once
	// rests are what is left of disks of which pods have claimed shares.
	rests map[string]rest
}

// New is a machine with these rules and classes, disks that have the scheduler, and
// containers.
func New(config rule.Config, disks DiskNumbers, all []target.Container) *Policy {
	m := &Policy{rules: config.Rules, classes: config.Classes, disks: disks, containers: map[string]target.Container{}, pods: map[string]target.Container{}}
	for _, c := range all {
		m.containers[c.Cgroup] = c
		// The pod's own container stands for the pod: its annotations are the pod's.
		if group := c.PodGroup(); group != "" && (c.Sandbox || m.pods[group].Pod == "") {
			m.pods[group] = c
		}
	}
	return m
}

// Ask has systemd say what units were given; the devices of what it says are numbers of disks. Where
// it is asked in doubt, files differ from its last answer.
func (m *Policy) Ask(systemd func(doubt bool) map[string]target.Told) *Policy {
	m.told = systemd
	return m
}

// Unsure reports whether too little is known of a cgroup's container to decide:
// then the weight that it has stays.
func (m *Policy) Unsure(group string) bool {
	return m.containers[group].Unsure || m.pods[group].Unsure
}

// Name is the name of the container whose cgroup it is, "" for none.
func (m *Policy) Name(group string) string {
	if c, ok := m.containers[group]; ok {
		return c.DisplayName()
	}
	return ""
}

// Reader reads a weight file of a cgroup; there is false if it has none.
type Reader func(group, file string) (v weight.Values, there bool, err error)

// Wants are the weights that a cgroup is to have, by disk, and what was asked for
// in the files that runtimes and systemd write. None: no weight is asked for.
func (m *Policy) Wants(group string, read Reader) (map[string]Want, weight.Asked, error) {
	wants, asked, err := m.own(group, read)
	if err == nil {
		m.capToUnclaimed(wants, group, read)
	}
	return wants, asked, err
}

// own is Wants without regard to what other pods were given.
func (m *Policy) own(group string, read Reader) (map[string]Want, weight.Asked, error) {
	asked, err := m.Asked(group, read)
	if err != nil {
		return nil, asked, err
	}
	wants := map[string]Want{}
	if m.IsInner(group) {
		return wants, asked, nil
	}
	if want, ok := m.ofPod(group); ok {
		wants[EveryDisk] = want
	} else if asked.File != "" {
		wants[EveryDisk] = m.limited(group, Want{Weight: weight.Value(asked.Weight), By: asked.By, Why: asked.How}, weight.Max)
	}
	devices, err := m.AskedOn(group, read)
	if err != nil {
		return nil, asked, err
	}
	for majMin, n := range devices {
		// The kernel takes a disk's weight only where the disk shares by it.
		if slices.ContainsFunc(slices.Collect(maps.Values(m.disks)), func(numbers []string) bool { return slices.Contains(numbers, majMin) }) {
			wants[majMin] = m.limited(group, Want{Weight: weight.Value(n), By: weight.BySystemd, Why: fmt.Sprintf("IODeviceWeight=%s %d", m.called(majMin), n)}, weight.Max)
		}
	}
	maps.Copy(wants, m.ofClaims(group))
	_, said := wants[EveryDisk]
	if want, ok := m.ofClass(group); ok && !said {
		wants[EveryDisk], said = want, true
	}
	// The first rule for a disk wins; so it is the last one that is set. A weight wins
	// over what is asked for, and over defaults wherever they stand.
	for _, kind := range []struct {
		by     weight.By
		why    string
		weight func(r *rule.Rule) weight.Value
	}{
		{weight.ByDefault, "default of ", func(r *rule.Rule) weight.Value { return weight.Value(r.Default) }},
		{weight.ByRule, "", func(r *rule.Rule) weight.Value { return r.Weight }},
	} {
		if said && kind.by == weight.ByDefault {
			continue
		}
		for i := len(m.rules) - 1; i >= 0; i-- {
			r := &m.rules[i]
			n := kind.weight(r)
			if n == 0 {
				continue
			}
			disks := []string{EveryDisk}
			if r.Device != "" {
				disks = m.disks[r.Device]
			}
			if len(disks) == 0 || !m.isFor(r, group) {
				continue
			}
			want := Want{Weight: n, By: kind.by, Rule: r.At.Nr, File: r.At.File, Class: r.From, Why: kind.why + r.At.Rule(), given: kind.by == weight.ByRule}
			if r.From != "" {
				want.Why += ", class " + r.From
			}
			if r.Device == "" && kind.by == weight.ByRule {
				// The administrator's word for all disks is above a claim on one.
				maps.DeleteFunc(wants, func(_ string, of Want) bool { return of.By == ByClaim })
			}
			for _, disk := range disks {
				wants[disk] = want
			}
		}
	}
	if want, ok := m.ofCluster(group); ok && wants[EveryDisk].Weight == 0 {
		wants[EveryDisk] = want
	}
	return wants, asked, m.raise(group, wants, read)
}

// Annotation is the weight that a pod's author asks for, for the pod or for one of
// its containers, in the annotation key: 0 for none. The error says what is allowed.
func (m *Policy) Annotation(group string) (n int, key string, err error) {
	if c, ok := m.containers[group]; ok {
		if c.Sandbox {
			return 0, "", nil
		}
		return rule.ContainerWeight(c)
	}
	if c, ok := m.pods[group]; ok {
		return rule.PodWeight(c)
	}
	return 0, "", nil
}

// ofPod is what comes of an annotation.
func (m *Policy) ofPod(group string) (Want, bool) {
	n, key, err := m.Annotation(group)
	if err != nil || n == 0 {
		return Want{}, false
	}
	return m.limited(group, Want{Weight: weight.Value(n), By: weight.ByPod, Why: fmt.Sprintf("annotation %s: %d", key, n)}, MaxOfPod), true
}

// ofClass is what comes of the class that the label of a container, or an annotation of a
// pod, names. It is the pod's where there is one: its containers share what it has.
func (m *Policy) ofClass(group string) (Want, bool) {
	c, ok := m.containers[group]
	switch {
	case ok && (c.Pod != "" || c.Sandbox):
		return Want{}, false
	case !ok:
		if c, ok = m.pods[group]; !ok {
			return Want{}, false
		}
	}
	name, by := rule.Named(c)
	class, there := m.classes[name]
	if !there || !class.Labels {
		return Want{}, false
	}
	want := Want{Weight: weight.Value(class.Weight), By: weight.ByClass, Class: name, Why: fmt.Sprintf("class %s: %d, by its %s", name, class.Weight, by)}
	return m.limited(group, want, weight.Max), true
}

// limited is what may be had of what is asked for: the first rule with a limit
// tells, or most is the limit.
func (m *Policy) limited(group string, want Want, most int) Want {
	by := "the most without a rule"
	for i := range m.rules {
		if r := &m.rules[i]; r.MaxWeight != 0 && m.isFor(r, group) {
			most, by = r.MaxWeight, "the most by "+r.At.Rule()
			break
		}
	}
	if want.Weight > weight.Value(most) {
		want.Weight, want.Limit = weight.Value(most), most
		want.Why += fmt.Sprintf("; %d is %s", most, by)
	}
	return want
}

// Refused says what is wrong with the annotations of pods and containers, by
// cgroup: those that are no weight, and those that ask for more than they may have.
func (m *Policy) Refused() map[string]string {
	all := map[string]string{}
	for _, from := range []map[string]target.Container{m.containers, m.pods} {
		for group := range from {
			if text := m.RefusedOf(group); text != "" {
				all[group] = text
			}
		}
	}
	return all
}

// RefusedOf says what is wrong with the annotation of one cgroup's pod or
// container, "" for nothing.
func (m *Policy) RefusedOf(group string) string {
	_, key, err := m.Annotation(group)
	if err != nil {
		return fmt.Sprintf("%s: annotation %s: %v", m.podName(group), key, err)
	}
	if want, ok := m.ofPod(group); ok && want.Limit != 0 {
		return fmt.Sprintf("%s: %s", m.podName(group), want.Why)
	}
	return ""
}

// podName is the name of the container or the pod whose cgroup it is.
func (m *Policy) podName(group string) string {
	if name := m.Name(group); name != "" {
		return name
	}
	return m.pods[group].Namespace + "/" + m.pods[group].Pod
}

// IsInner reports whether a group is the one that crun makes inside a container's
// scope, alone there, and writes the weight to as well, on runc's scale.
func (m *Policy) IsInner(group string) bool {
	scope := target.ScopeOf(group)
	return scope != "" && m.containers[scope].ByCrun
}

// IsTenantOf reports whether a group is one of those that a promise is for: a container,
// a pod, or a unit of the host's systemd. A cgroup that a tenant made inside its own is none, whatever
// it is called.
func (m *Policy) IsTenantOf(p *rule.Promise, group string) bool {
	if m.IsInner(group) {
		return false
	}
	if _, isContainer := m.containers[group]; !isContainer {
		if outer := target.TenantOf(group); outer != "" && outer != group {
			return false
		}
	}
	return m.isFor(&p.For, group)
}

// HasMetrics reports whether a group has metrics of its own. The first rule that says
// something of them decides. A rule for a pod is for the pod's containers as well, of
// which metrics are.
func (m *Policy) HasMetrics(group string) bool {
	for i := range m.rules {
		r := &m.rules[i]
		if r.Metrics == rule.Unsaid {
			continue
		}
		c, isContainer := m.containers[group]
		if m.isFor(r, group) || isContainer && r.ForPod(c) {
			return r.Metrics == rule.Apart
		}
	}
	return true
}

func (m *Policy) isFor(r *rule.Rule, group string) bool {
	if c, ok := m.containers[group]; ok {
		return r.ForContainer(c)
	}
	if c, ok := m.pods[group]; ok && r.ForPod(c) {
		return true
	}
	return r.ForUnit(path.Base(group))
}

// Asked is what runtimes or systemd were asked for.
func (m *Policy) Asked(group string, read Reader) (weight.Asked, error) {
	c, isContainer := m.containers[group]
	e := weight.Evidence{Container: isContainer, ByCrun: c.ByCrun, SpecRead: c.SpecRead, OCI: c.Weight}
	inner := c.InnerGroup()
	for _, from := range []struct {
		group, file string
		to          *int
	}{
		{group, weight.BFQ.File(), &e.BFQ}, {group, weight.IOCost.File(), &e.IO},
		{inner, weight.BFQ.File(), &e.InnerBFQ}, {inner, weight.IOCost.File(), &e.InnerIO},
	} {
		if from.group == "" {
			continue
		}
		v, there, err := read(from.group, from.file)
		if err != nil {
			return weight.Asked{}, err
		}
		if there {
			*from.to = int(v.Default)
		}
	}
	told, known := m.toldOf(group, func(told target.Told) bool { return e.IO == 0 || e.IO == told.InFile() })
	e.SystemdAsked, e.ToldIO, e.ToldBlockIO = known, told.IO, told.BlockIO
	asked := e.Decode()
	if asked.File == "" && c.SpecRead && c.Weight > 0 {
		// systemd has taken back what a runtime wrote behind its back, as it does
		// when it is reloaded. The user asked all the same.
		asked = weight.Asked{
			Weight: c.Weight, File: "config.json", By: weight.BySpec,
			How: fmt.Sprintf("--blkio-weight %d, which is in its specification alone", c.Weight),
		}
	}
	return asked, nil
}

// toldOf is what systemd says of the unit that a cgroup is of, if it says anything. Where the files do
// not fit that, it is asked anew: a unit may just have been told something else.
func (m *Policy) toldOf(group string, fits func(target.Told) bool) (told target.Told, known bool) {
	unit := target.UnitOf(group)
	if _, isContainer := m.containers[group]; isContainer || unit == "" || m.told == nil {
		return target.Told{}, false
	}
	if told, known = m.told(false)[unit]; known && !fits(told) {
		told, known = m.told(true)[unit]
	}
	return told, known
}

// AskedOn is what systemd was asked for on single disks, by "MAJ:MIN", of a unit that is no container.
func (m *Policy) AskedOn(group string, read Reader) (map[string]int, error) {
	_, isContainer := m.containers[group]
	if isContainer || target.UnitOf(group) == "" {
		return nil, nil
	}
	v, there, err := read(group, weight.IOCost.File())
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for majMin, n := range v.Devices {
		all[majMin] = int(n)
	}
	told, _ := m.toldOf(group, func(told target.Told) bool { return !there || maps.Equal(all, told.Devices) })
	maps.Copy(all, told.Devices) // the kernel's file has those alone that a disk takes
	return all, nil
}

// called is the name of a disk for a reader.
func (m *Policy) called(majMin string) string {
	for _, name := range slices.Sorted(maps.Keys(m.disks)) {
		if slices.Contains(m.disks[name], majMin) && !strings.ContainsAny(name, ":/") {
			return "/dev/" + name
		}
	}
	return majMin
}

// ComparedIn tells in which cgroup a group's weight is compared with those of other children,
// and whether there are any. That is its parent. Where the parent has no other child and
// weighs what its children do, the weight is compared where the parent's is. The root's
// own tasks compete with its children.
func ComparedIn(groups []string, group string, by weight.Mechanism, read Reader) (in string, others bool) {
	in = path.Dir(group)
	if in == RootGroup || slices.ContainsFunc(groups, func(other string) bool { return other != group && path.Dir(other) == in }) {
		return in, true
	}
	if by != weight.Kyber {
		return in, false
	}
	if v, there, err := read(in, by.File()); err != nil || !there || !v.Sums() {
		return in, false
	}
	return ComparedIn(groups, in, by, read)
}

// DiskNumbers are "MAJ:MIN" of disks, by each name that rules have for them: the
// kernel's, and what they are, which may be more than one disk.
type DiskNumbers map[string][]string

// Count is how many disks there are.
func (d DiskNumbers) Count() int {
	numbers := map[string]bool{}
	for _, of := range d {
		for _, number := range of {
			numbers[number] = true
		}
	}
	return len(numbers)
}
