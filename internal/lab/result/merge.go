// SPDX-License-Identifier: MIT

package result

import (
	"cmp"
	"fmt"
	"slices"

	"isolio/internal/lab/experiment"
)

// Sum fills in what follows from the containers' own figures: the run's totals,
// what each container is entitled to, and its share and the Jain index in bytes.
// CPU percentages add up because all are of one CPU.
func (r *Run) Sum() {
	var weights int
	r.TotalBytesPS, r.TotalIOPS, r.CPUUserPct, r.CPUSystemPct = 0, 0, 0, 0
	for _, c := range r.Containers {
		weights += c.weight()
		r.TotalBytesPS += c.BytesPS
		r.TotalIOPS += c.IOPS
		r.CPUUserPct += c.CPUUserPct
		r.CPUSystemPct += c.CPUSystemPct
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.EntitledShare = ratio(float64(c.weight()), float64(weights))
	}
	r.share(func(c *Container) float64 { return c.BytesPS })
}

// Entitle says what the containers are entitled to, where that is not by their
// weights alone.
func (r *Run) Entitle(shares []float64) {
	for i := range r.Containers {
		r.Containers[i].EntitledShare = shares[i]
	}
	r.share(func(c *Container) float64 { return c.BytesPS })
}

// Merge makes one document of the runs, in the order of the experiment's cases
// and schedulers whatever the order they ended in. What one run says of another
// is computed here, where all are known: totals against none, shares in the
// experiment's unit. Expectations are judged.
// Every scheduler must have run in every case that it belongs to, on the same kernel and with the
// same fio.
func Merge(e *experiment.Experiment, runs []Run) (*Document, error) {
	d := &Document{
		Schema: Schema, Experiment: e.Name, Question: e.Question, Answers: e.Answers,
		ShareUnit: cmp.Or(e.ShareUnit, experiment.UnitBytes), Critical: e.Critical,
	}
	for i := range e.Cases {
		k := &e.Cases[i]
		for _, scheduler := range e.SchedulersIn(k) {
			if err := d.add(runs, k, e.Contender(scheduler)); err != nil {
				return nil, fmt.Errorf("merge %s: %w", e.Name, err)
			}
		}
	}
	d.shares(d.ShareUnit)
	for i := range d.Runs {
		r := &d.Runs[i]
		r.TotalVsNone = r.totalVs(d.run(r.Case, "none"))
		if r.ReferenceCase != "" {
			r.TotalVsReference = r.totalVs(d.run(r.ReferenceCase, "none"))
		}
	}
	for i := range e.Cases {
		d.ownDisk(&e.Cases[i], runs)
	}
	for _, x := range e.Expect {
		v := d.judge(e, x)
		d.Verdicts = append(d.Verdicts, v)
		switch {
		case v.Met:
		case v.Got == nil:
			d.Unmet = append(d.Unmet, x.String()+": not measured")
		default:
			d.Unmet = append(d.Unmet, x.String()+": measured "+experiment.Figure(*v.Got))
		}
	}
	return d, nil
}

// totalVs is the run's total over that of another, nil if there is none.
func (r *Run) totalVs(other *Run) *float64 {
	if other == nil || other.TotalBytesPS <= 0 {
		return nil
	}
	versus := r.TotalBytesPS / other.TotalBytesPS
	return &versus
}

// add takes the run of a contender in a case over from runs.
func (d *Document) add(runs []Run, k *experiment.Case, c experiment.Contender) error {
	name, scheduler := k.Name, c.Name
	i := slices.IndexFunc(runs, func(r Run) bool { return r.Case == name && r.Scheduler == scheduler })
	if i < 0 {
		return fmt.Errorf("no run of %s", Label(name, scheduler))
	}
	run := runs[i]
	if len(d.Runs) == 0 {
		d.Kernel, d.Fio = run.Kernel, run.Fio
	}
	d.Fio = cmp.Or(d.Fio, run.Fio) // in some cases there may be commands alone
	if run.Kernel != d.Kernel || run.Fio != "" && run.Fio != d.Fio {
		return fmt.Errorf("%s ran on kernel %s with %s, the runs before on %s with %s: not comparable",
			Label(name, scheduler), run.Kernel, run.Fio, d.Kernel, d.Fio)
	}
	run.Kernel, run.Fio, run.ReferenceCase = "", "", k.ReferenceCase
	if c.Scheduler != c.Name {
		run.Variant = &Variant{Of: c.Scheduler, Label: c.Label, Changes: c.Changes()}
	}
	d.Runs = append(d.Runs, run)
	return nil
}

// Label puts a case's name before what is said of it, if there is one: before
// the name of a scheduler for a run.
func Label(name, what string) string {
	if name == "" {
		return what
	}
	return name + ": " + what
}

// Cases are the names of the document's cases in their order; one of them, "",
// if it has none.
func (d *Document) Cases() []string {
	var names []string
	for _, r := range d.Runs {
		if !slices.Contains(names, r.Case) {
			names = append(names, r.Case)
		}
	}
	return names
}

// In are the document's runs in a case.
func (d *Document) In(name string) []Run {
	return slices.DeleteFunc(slices.Clone(d.Runs), func(r Run) bool { return r.Case != name })
}

func (d *Document) run(name, scheduler string) *Run {
	for i := range d.Runs {
		if d.Runs[i].Case == name && d.Runs[i].Scheduler == scheduler {
			return &d.Runs[i]
		}
	}
	return nil
}
