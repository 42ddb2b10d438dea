// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"slices"
	"strings"

	"isolio/internal/experiment"
)

// Sum fills in what follows from the containers' own figures: the run's
// totals and Jain index, each container's share and what it was entitled to.
// CPU percentages add up because all are of one CPU.
func (r *Run) Sum() {
	var weights int
	r.TotalBytesPS, r.TotalIOPS, r.CPUUserPct, r.CPUSystemPct = 0, 0, 0, 0
	for _, c := range r.Containers {
		weights += c.Weight
		r.TotalBytesPS += c.BytesPS
		r.TotalIOPS += c.IOPS
		r.CPUUserPct += c.CPUUserPct
		r.CPUSystemPct += c.CPUSystemPct
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.EntitledShare = ratio(float64(c.Weight), float64(weights))
		c.Share = ratio(c.BytesPS, r.TotalBytesPS)
	}
	r.JainWeighted = Jain(r.Containers)
}

// Jain is the weighted Jain index of the containers' bandwidth: with
// y = bytes_per_s / weight, (sum y)^2 / (n sum y^2). 1 means that all get
// exactly by weight, 1/n that one gets everything; 0 stands for no I/O at all.
func Jain(containers []Container) float64 {
	var sum, squares float64
	for _, c := range containers {
		y := ratio(c.BytesPS, float64(c.Weight))
		sum += y
		squares += y * y
	}
	return ratio(sum*sum, float64(len(containers))*squares)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Merge makes one document of the runs, in the order of the experiment's cases
// and schedulers whatever the order they ended in. Totals against none are
// computed here, where all runs are known, and expectations are judged.
// Every scheduler must have run in every case, on the same kernel and with the
// same fio.
func Merge(e *experiment.Experiment, runs []Run) (*Document, error) {
	d := &Document{Schema: Schema, Experiment: e.Name, Question: e.Question, Answers: e.Answers}
	for _, k := range e.Cases {
		for _, scheduler := range e.Schedulers {
			if err := d.add(runs, k.Name, scheduler); err != nil {
				return nil, fmt.Errorf("merge %s: %w", e.Name, err)
			}
		}
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		if none := d.run(r.Case, "none"); none != nil && none.TotalBytesPS > 0 {
			versus := r.TotalBytesPS / none.TotalBytesPS
			r.TotalVsNone = &versus
		}
	}
	for _, x := range e.Expect {
		v := d.judge(x)
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

// add takes the run of a scheduler in a case over from runs.
func (d *Document) add(runs []Run, name, scheduler string) error {
	i := slices.IndexFunc(runs, func(r Run) bool { return r.Case == name && r.Scheduler == scheduler })
	if i < 0 {
		return fmt.Errorf("no run of %s", Label(name, scheduler))
	}
	run := runs[i]
	if len(d.Runs) == 0 {
		d.Kernel, d.Fio = run.Kernel, run.Fio
	}
	if run.Kernel != d.Kernel || run.Fio != d.Fio {
		return fmt.Errorf("%s ran on kernel %s with %s, the runs before on %s with %s: not comparable",
			Label(name, scheduler), run.Kernel, run.Fio, d.Kernel, d.Fio)
	}
	run.Kernel, run.Fio = "", ""
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

func (d *Document) judge(x experiment.Expectation) Verdict {
	v := Verdict{
		Case: x.Case, Scheduler: x.Scheduler, Wanted: x.Wanted(),
		Metric: strings.TrimPrefix(x.Subject(), Label(x.Case, x.Scheduler)+": "),
	}
	if got, ok := d.value(x); ok {
		v.Got, v.Met = &got, x.Met(got)
	}
	return v
}

// value is the figure that an expectation bounds; false if no run has it.
func (d *Document) value(x experiment.Expectation) (float64, bool) {
	r := d.run(x.Case, x.Scheduler)
	if r == nil {
		return 0, false
	}
	switch x.Metric.Kind {
	case experiment.JainWeighted:
		return r.JainWeighted, true
	case experiment.TotalBytesPS:
		return r.TotalBytesPS, true
	case experiment.TotalIOPS:
		return r.TotalIOPS, true
	case experiment.TotalVsNone, experiment.TotalVs:
		other := d.run(x.Case, x.Metric.Reference())
		if other == nil || other.TotalBytesPS == 0 {
			return 0, false
		}
		return r.TotalBytesPS / other.TotalBytesPS, true
	case experiment.DeviceStat:
		got, ok := r.DeviceStat[x.Metric.Arg]
		return got, ok
	case experiment.IOPS:
		return r.rate(x, func(t *Container) float64 { return t.IOPS }, func(d *Direction) float64 { return d.IOPS })
	case experiment.BytesPS:
		return r.rate(x, func(t *Container) float64 { return t.BytesPS }, func(d *Direction) float64 { return d.BytesPS })
	case experiment.LatUS:
		return r.latency(x.Container, x.Direction, x.Metric.Arg)
	case experiment.ReadP99US:
		return r.latency(x.Metric.Arg, "read", "p99")
	case experiment.WriteP99US:
		return r.latency(x.Metric.Arg, "write", "p99")
	case experiment.Share:
		for _, t := range r.Containers {
			if t.Name == x.Metric.Arg {
				return t.Share, true
			}
		}
	}
	return 0, false
}

// rate adds up a rate of the containers that an expectation is about, in its
// direction or in both. A direction without requests has the rate 0.
func (r *Run) rate(x experiment.Expectation, both func(*Container) float64, one func(*Direction) float64) (sum float64, ok bool) {
	for i := range r.Containers {
		t := &r.Containers[i]
		if x.Container != "" && t.Name != x.Container {
			continue
		}
		ok = true
		if x.Direction == "" {
			sum += both(t)
		} else if d := t.direction(x.Direction); d != nil {
			sum += one(d)
		}
	}
	return sum, ok
}

// latency is a statistic of one container's latencies, or the highest of all
// containers'; false if nobody had such a request.
func (r *Run) latency(container, direction, name string) (highest float64, ok bool) {
	for i := range r.Containers {
		t := &r.Containers[i]
		d := t.direction(direction)
		if d == nil || container != "" && t.Name != container {
			continue
		}
		if us, known := d.Lat.statistic(name); known {
			highest, ok = max(highest, *us), true
		}
	}
	return highest, ok
}

func (t *Container) direction(name string) *Direction {
	if name == "write" {
		return t.Write
	}
	return t.Read
}
