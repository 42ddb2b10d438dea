// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"slices"

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

// Merge makes one document of the runs, in the order of the experiment's
// schedulers whatever the order they ended in. Totals against none are
// computed here, where all runs are known, and expectations are judged.
// Every scheduler must have run, on the same kernel and with the same fio.
func Merge(e *experiment.Experiment, runs []Run) (*Document, error) {
	d := &Document{Schema: Schema, Experiment: e.Name, Question: e.Question, Answers: e.Answers}
	for _, scheduler := range e.Schedulers {
		i := slices.IndexFunc(runs, func(r Run) bool { return r.Scheduler == scheduler })
		if i < 0 {
			return nil, fmt.Errorf("merge %s: no run of %s", e.Name, scheduler)
		}
		run := runs[i]
		if len(d.Runs) == 0 {
			d.Kernel, d.Fio = run.Kernel, run.Fio
		}
		if run.Kernel != d.Kernel || run.Fio != d.Fio {
			return nil, fmt.Errorf("merge %s: %s ran on kernel %s with %s, the runs before on %s with %s: not comparable",
				e.Name, scheduler, run.Kernel, run.Fio, d.Kernel, d.Fio)
		}
		run.Kernel, run.Fio = "", ""
		d.Runs = append(d.Runs, run)
	}
	if none := d.run("none"); none != nil && none.TotalBytesPS > 0 {
		for i := range d.Runs {
			versus := d.Runs[i].TotalBytesPS / none.TotalBytesPS
			d.Runs[i].TotalVsNone = &versus
		}
	}
	for _, x := range e.Expect {
		if line := d.judge(x); line != "" {
			d.Unmet = append(d.Unmet, line)
		}
	}
	return d, nil
}

func (d *Document) run(scheduler string) *Run {
	for i := range d.Runs {
		if d.Runs[i].Scheduler == scheduler {
			return &d.Runs[i]
		}
	}
	return nil
}

// judge returns "" if the expectation holds, and else one line that says what
// was expected and what was measured.
func (d *Document) judge(x experiment.Expectation) string {
	got, ok := d.value(x)
	if !ok {
		return fmt.Sprintf("%s: not measured", x)
	}
	if (x.Min != nil && got < *x.Min) || (x.Max != nil && got > *x.Max) {
		return fmt.Sprintf("%s: measured %.6g", x, got)
	}
	return ""
}

// value is the figure that an expectation bounds; false if no run has it.
func (d *Document) value(x experiment.Expectation) (float64, bool) {
	r := d.run(x.Scheduler)
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
		other := d.run(x.Metric.Reference())
		if other == nil || other.TotalBytesPS == 0 {
			return 0, false
		}
		return r.TotalBytesPS / other.TotalBytesPS, true
	}
	i := slices.IndexFunc(r.Containers, func(c Container) bool { return c.Name == x.Metric.Arg })
	if i < 0 {
		return 0, false
	}
	c := r.Containers[i]
	switch {
	case x.Metric.Kind == experiment.Share:
		return c.Share, true
	case x.Metric.Kind == experiment.ReadP99US && c.Read != nil:
		return c.Read.Lat.P99, true
	case x.Metric.Kind == experiment.WriteP99US && c.Write != nil:
		return c.Write.Lat.P99, true
	}
	return 0, false
}
