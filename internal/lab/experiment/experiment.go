// SPDX-License-Identifier: MIT

// Package experiment reads an experiment file: one question about how
// containers share a disk, with the load that answers it and what is expected.
package experiment

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// Experiment is one question, asked of several schedulers with the same load.
type Experiment struct {
	// File is where the experiment was read, for messages.
	File string `json:"-"`

	Name     string `json:"name,omitzero"` // lower case letters, digits, '.', '_', '-'
	Question string `json:"-"`
	Answers  string `json:"-"` // seed document and figure, "" if there is none
	// Kernel is the line of the kernel that the lab boots, DefaultKernel where the
	// file names none.
	Kernel string `json:"kernel,omitzero"`
	// Schedulers are the contenders' names, in the order of the result: those of
	// Known, or of Contenders.
	Schedulers []string `json:"schedulers,omitzero"`
	// Programs are those that the containers' commands call by themselves, such as a shell's
	// commands: the lab's machine has these as well.
	Programs []string `json:"programs,omitzero"`
	// Contenders are the variants that the file declares.
	Contenders []Contender `json:"contenders,omitzero"`
	// NrRequests is how many requests each scheduler may hold for a hardware
	// queue (queue/nr_requests), 4..2048; 0 leaves the kernel's default, which
	// is twice the device's tags. Without a scheduler the tags are the limit.
	NrRequests int `json:"nr_requests,omitzero"`
	// ShareUnit is what containers share, and are entitled to parts of: one of
	// ShareUnits.
	ShareUnit string `json:"share_unit,omitzero"`
	// Critical is the container whose latency a plot shows against the total, ""
	// for no such plot.
	Critical string `json:"-"`
	// Cases are what contenders are measured in, all of them unless a case lists
	// some: one case or more.
	Cases  []Case        `json:"cases,omitzero"`
	Expect []Expectation `json:"expect,omitzero"`
}

// DefaultKernel is the line of kernels that experiments are run on.
const DefaultKernel = "6.1"

// Writes reports whether any container's job writes to a device.
func (e *Experiment) Writes() bool {
	return slices.ContainsFunc(e.Cases, func(k Case) bool { return k.writes() })
}

// UsesLibaps reports whether any container's fio has an engine of libaps.
func (e *Experiment) UsesLibaps() bool {
	return slices.ContainsFunc(e.Cases, func(k Case) bool {
		return slices.ContainsFunc(k.Containers, func(t Container) bool { return t.Job.UsesLibaps() })
	})
}

// Known lists the contenders that the engine can set up. "iocost" stands for
// the scheduler none with the kernel's io.cost controller enabled.
func Known() []string {
	return append([]string{"none", "mq-deadline", "kyber", "bfq", "iocost"}, Own()...)
}

// Own lists the schedulers that are modules of this project.
func Own() []string { return []string{"kyber-fairness", "kyber-report", "rsd", "sfq"} }

// ModulesIn are the project's modules that a contender of a case needs: its scheduler, and
// ModelDisk where the disk is one. Each has its sources in kernel/NAME.
func (e *Experiment) ModulesIn(k *Case, name string) (all []string) {
	if scheduler := e.Contender(name).Scheduler; slices.Contains(Own(), scheduler) {
		all = append(all, scheduler)
	}
	if k.Device.Kind == ModelDisk {
		all = append(all, ModelDisk)
	}
	return all
}

// Modules are the project's modules that any contender needs, each once, by name.
func (e *Experiment) Modules() (all []string) {
	for i := range e.Cases {
		for _, name := range e.SchedulersIn(&e.Cases[i]) {
			all = append(all, e.ModulesIn(&e.Cases[i], name)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Load reads and checks the file at path.
func Load(path string) (*Experiment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, failure.Usagef("read experiment: %w", err)
	}
	return Parse(path, text)
}

// CaseNamed is the case of that name, nil if there is none.
func (e *Experiment) CaseNamed(name string) *Case {
	for i := range e.Cases {
		if e.Cases[i].Name == name {
			return &e.Cases[i]
		}
	}
	return nil
}

// SchedulersIn are the names of the contenders that run in a case, in the
// experiment's order.
func (e *Experiment) SchedulersIn(k *Case) []string {
	if k.Schedulers == nil {
		return e.Schedulers
	}
	return slices.DeleteFunc(slices.Clone(e.Schedulers), func(name string) bool { return !slices.Contains(k.Schedulers, name) })
}

// OthersIn are the contenders of a case that are another scheduler than that of
// the named one: not itself, and not its variants.
func (e *Experiment) OthersIn(k *Case, name string) []string {
	of := e.Contender(name).Scheduler
	return slices.DeleteFunc(slices.Clone(e.SchedulersIn(k)), func(other string) bool { return e.Contender(other).Scheduler == of })
}

// caseNames are the names of the cases; none for an experiment that lists none.
func (e *Experiment) caseNames() []string {
	var names []string
	for i := range e.Cases {
		if name := e.Cases[i].Name; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Select returns the experiment with only the named schedulers and cases, nil
// for all, in the experiment's own order, and the expectations that they can
// answer. Cases in which none of the schedulers runs are left out. Without the runs that device time is computed from, shares are those
// of bytes, and nothing is expected of them.
func (e *Experiment) Select(schedulers, cases []string) (*Experiment, error) {
	selected := *e
	if schedulers != nil {
		if err := e.among("schedulers", schedulers, e.Schedulers); err != nil {
			return nil, err
		}
		selected.Schedulers = slices.DeleteFunc(slices.Clone(e.Schedulers), func(name string) bool { return !slices.Contains(schedulers, name) })
	}
	if cases != nil {
		if err := e.among("cases", cases, e.caseNames()); err != nil {
			return nil, err
		}
		selected.Cases = slices.DeleteFunc(slices.Clone(e.Cases), func(k Case) bool { return !slices.Contains(cases, k.Name) })
	}
	if err := selected.leaveOutIdle(); err != nil {
		return nil, err
	}
	selected.Expect = nil
	for _, x := range e.Expect {
		if selected.answers(x) && (!x.Metric.OfOthers() || slices.Equal(selected.OthersIn(selected.CaseNamed(x.Case), x.Scheduler), e.OthersIn(e.CaseNamed(x.Case), x.Scheduler))) {
			selected.Expect = append(selected.Expect, x)
		}
	}
	for i := range selected.Cases {
		if k := &selected.Cases[i]; !selected.measures(k.ReferenceCase, "none") {
			k.ReferenceCase = ""
		}
	}
	if e.ShareUnit == UnitDeviceTime && slices.ContainsFunc(selected.Cases, func(k Case) bool { return !selected.HasSolos(&k) }) {
		selected.ShareUnit = UnitBytes
		selected.Expect = slices.DeleteFunc(selected.Expect, func(x Expectation) bool { return x.Metric.OfShares() })
	}
	return &selected, nil
}

// leaveOutIdle takes out cases without a scheduler, and schedulers without a
// case. It is an error if that is all of them.
func (e *Experiment) leaveOutIdle() error {
	var cases, schedulers []string
	for i := range e.Cases {
		cases = append(cases, e.Cases[i].Name)
		schedulers = slices.Concat(schedulers, e.SchedulersIn(&e.Cases[i]))
	}
	if len(cases) > 0 && len(e.Schedulers) > 0 && len(schedulers) == 0 {
		return failure.Usagef("%s: schedulers: %s: not in case %s; allowed: a scheduler and a case that has it",
			e.File, strings.Join(e.Schedulers, ", "), strings.Join(cases, ", "))
	}
	e.Cases = slices.DeleteFunc(slices.Clone(e.Cases), func(k Case) bool { return len(e.SchedulersIn(&k)) == 0 })
	if len(e.Cases) > 0 {
		e.Schedulers = slices.DeleteFunc(slices.Clone(e.Schedulers), func(name string) bool { return !slices.Contains(schedulers, name) })
	}
	return nil
}

// answers reports whether the experiment measures what an expectation needs.
func (e *Experiment) answers(x Expectation) bool {
	if !e.measures(x.Case, x.Scheduler) {
		return false
	}
	if x.OrTimesReference > 0 && !e.measures(x.ReferenceCase, "none") {
		return false
	}
	if x.Metric.OfOwnDisk() && !e.CaseNamed(x.Case).OwnDisk {
		return false
	}
	name, scheduler, compares := x.Reference()
	return !compares || e.measures(name, scheduler)
}

// measures reports whether a scheduler runs in a case.
func (e *Experiment) measures(name, scheduler string) bool {
	k := e.CaseNamed(name)
	return k != nil && slices.Contains(e.SchedulersIn(k), scheduler)
}

// among refuses names that the experiment's list of them does not have.
func (e *Experiment) among(key string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return failure.Usagef("%s: %s: %q is not among the experiment's; allowed: %s",
				e.File, key, name, cmp.Or(strings.Join(all, ", "), "none, it lists no cases"))
		}
	}
	return nil
}

// Runs is how many contenders there are in all cases together: so many VMs the lab boots.
func (e *Experiment) Runs() (n int) {
	for i := range e.Cases {
		n += len(e.SchedulersIn(&e.Cases[i]))
	}
	return n + len(e.OwnDisks())
}

// VirtualS is how many seconds of their own time those VMs are under load.
func (e *Experiment) VirtualS() (s float64) {
	for i := range e.Cases {
		k := &e.Cases[i]
		s += float64(len(e.SchedulersIn(k))*k.Seeds) * (k.RampS + k.DurationS)
	}
	for _, k := range e.OwnDisks() {
		s += float64(k.Seeds) * (k.RampS + k.DurationS)
	}
	return s
}
