// SPDX-License-Identifier: MIT

package result

import (
	"strings"

	"isolio/internal/lab/experiment"
)

// judge measures the document against an expectation of the experiment.
func (d *Document) judge(e *experiment.Experiment, x experiment.Expectation) Verdict {
	v := Verdict{
		Case: x.Case, Scheduler: x.Scheduler, Wanted: x.Wanted(),
		Metric: strings.TrimPrefix(x.Subject(), Label(x.Case, x.Scheduler)+": "),
	}
	got, ok := d.Figure(e, x)
	if reference, beside := x.OfReference(); ok && beside {
		var of float64
		if of, ok = d.Figure(e, reference); ok {
			x = x.Beside(of)
		}
	}
	if ok {
		v.Got, v.Met = &got, x.Met(got)
	}
	return v
}

// Figure is what was measured of x, which is an expectation of the experiment or as
// experiment.Asked returns it; false if no run has it.
func (d *Document) Figure(e *experiment.Experiment, x experiment.Expectation) (float64, bool) {
	r := d.run(x.Case, x.Scheduler)
	if r == nil {
		return 0, false
	}
	if name, scheduler, compares := x.Reference(); compares {
		other := d.run(name, scheduler)
		if other == nil {
			return 0, false
		}
		return r.versus(other, x)
	}
	switch x.Metric.Kind {
	case experiment.JainWeighted:
		return r.JainWeighted, true
	case experiment.ShareErrorPct:
		return r.ShareErrorPct(x.Container)
	case experiment.TotalBytesPS:
		return r.TotalBytesPS, true
	case experiment.TotalIOPS:
		return r.TotalIOPS, true
	case experiment.CPUNsPerIO:
		return r.cpuNsPerIO()
	case experiment.DeviceStat:
		got, ok := r.DeviceStat[x.Metric.Arg]
		return got, ok
	case experiment.GuardStat:
		got, ok := r.GuardStat[x.Metric.Arg]
		return got, ok
	case experiment.DelayCount:
		if r.Delays != nil {
			return r.Delays.statistic(x.Metric.Arg)
		}
	case experiment.CPUPct:
		return r.cpuPct(x.Container)
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
	case experiment.OwnDisk, experiment.OwnDiskP99, experiment.OwnDiskLeast, experiment.OwnDiskP99Most:
		return r.ownDisk(x.Metric)
	case experiment.P99VsFair:
		return r.p99VsFair(e.CaseNamed(x.Case), x)
	case experiment.SettleMS:
		return r.settle(x)
	case experiment.GapMS:
		return r.gapMS(x.Container)
	case experiment.LatVsBest, experiment.BytesVsBest, experiment.FinishVsBest:
		return d.versusBest(e, r, x)
	case experiment.FinishMS:
		return r.finishMS(x.Container)
	case experiment.Share:
		if t := r.container(x.Metric.Arg); t != nil {
			return t.Share, true
		}
	}
	return 0, false
}

// versus is a figure of the run over that of another.
func (r *Run) versus(other *Run, x experiment.Expectation) (float64, bool) {
	over := func(a, b float64) (float64, bool) { return ratio(a, b), b > 0 }
	switch x.Metric.Kind {
	case experiment.TotalVsNone, experiment.TotalVs, experiment.TotalVsCase, experiment.TotalVsRef:
		return over(r.TotalBytesPS, other.TotalBytesPS)
	case experiment.IOPSVsCase:
		return over(r.TotalIOPS, other.TotalIOPS)
	case experiment.CPUNsPerIOVs, experiment.CPUNsPerIOVsCase:
		a, known := r.cpuNsPerIO()
		b, alsoKnown := other.cpuNsPerIO()
		got, ok := over(a, b)
		return got, ok && known && alsoKnown
	case experiment.P99Vs:
		return r.latVs(other, x, "p99")
	case experiment.LatVs:
		statistic, _, _ := strings.Cut(x.Metric.Arg, "/")
		return r.latVs(other, x, statistic)
	case experiment.CPUPctVs:
		a, known := r.cpuPct(x.Container)
		b, alsoKnown := other.cpuPct(x.Container)
		got, ok := over(a, b)
		return got, ok && known && alsoKnown
	case experiment.RateVsCase:
		bytes := func(r *Run) (float64, bool) {
			return r.rate(x, func(t *Container) float64 { return t.BytesPS }, func(d *Direction) float64 { return d.BytesPS })
		}
		a, known := bytes(r)
		b, alsoKnown := bytes(other)
		got, ok := over(a, b)
		return got, ok && known && alsoKnown
	case experiment.P99VsCase:
		return r.latVs(other, x, "p99")
	case experiment.SoonerPctVsCase:
		return r.soonerPct(other, x)
	case experiment.P999VsCase:
		return r.latencyVersus(other, x, "p99_9")
	case experiment.MaxVsCase:
		return r.latencyVersus(other, x, "max")
	}
	return 0, false
}

// latencyVersus is the highest latency of all containers' reads, over that of
// another run.
func (r *Run) latencyVersus(other *Run, x experiment.Expectation, statistic string) (float64, bool) {
	a, known := r.latency("", x.Direction, statistic)
	b, alsoKnown := other.latency("", x.Direction, statistic)
	return ratio(a, b), known && alsoKnown && b > 0
}

// soonerPct is how much of the container's requests took less than the same part did in the other run: where
// the two distributions cross for the first time, between the percentiles that there are.
func (r *Run) soonerPct(other *Run, x experiment.Expectation) (float64, bool) {
	for i := range r.Containers {
		ours := &r.Containers[i]
		theirs := other.container(ours.Name)
		if x.Container != "" && ours.Name != x.Container || theirs == nil {
			continue
		}
		a, b := ours.direction(x.Direction), theirs.direction(x.Direction)
		if !a.timed() || !b.timed() {
			continue
		}
		before := Quantile{}
		for j, q := range a.Lat.Quantiles() {
			later := q.US - b.Lat.Quantiles()[j].US
			if later >= 0 && before.US < 0 {
				return 100 * (before.Part + (q.Part-before.Part)*before.US/(before.US-later)), true
			}
			if later >= 0 {
				return 0, true
			}
			before = Quantile{q.Part, later}
		}
		return 100, true
	}
	return 0, false
}

// versusBest is a figure of the run over the best that another scheduler has in
// the same case: of times the shortest, of rates the highest.
func (d *Document) versusBest(e *experiment.Experiment, r *Run, x experiment.Expectation) (float64, bool) {
	figure := func(r *Run) (float64, bool) {
		switch x.Metric.Kind {
		case experiment.LatVsBest:
			return r.latency(x.Container, x.Direction, x.Metric.Arg)
		case experiment.FinishVsBest:
			return r.finishMS(x.Container)
		default:
			return r.rate(x, func(t *Container) float64 { return t.BytesPS }, func(d *Direction) float64 { return d.BytesPS })
		}
	}
	var best float64
	for _, name := range e.OthersIn(e.CaseNamed(x.Case), x.Scheduler) {
		got, ok := 0.0, false
		if other := d.run(x.Case, name); other != nil {
			got, ok = figure(other)
		}
		switch {
		case !ok || got <= 0: // it came to no figure
		case best == 0:
			best = got
		case x.Metric.Kind == experiment.BytesVsBest:
			best = max(best, got)
		default:
			best = min(best, got)
		}
	}
	own, ok := figure(r)
	return ratio(own, best), ok && best > 0
}

// finishMS is how long one container's job took, or the longest of all that end
// by themselves; false if one of them did not.
func (r *Run) finishMS(container string) (longest float64, ok bool) {
	for i := range r.Containers {
		t := &r.Containers[i]
		if container != "" && t.Name != container || t.FinishMS == nil {
			continue
		}
		longest, ok = max(longest, *t.FinishMS), true
	}
	return longest, ok
}

// ShareErrorPct is how far a container's share is from what it is entitled to,
// in percent of that; of all containers ("") the furthest.
func (r *Run) ShareErrorPct(container string) (furthest float64, ok bool) {
	for _, t := range r.Containers {
		if t.EntitledShare > 0 && (container == "" || t.Name == container) {
			furthest, ok = max(furthest, t.errorPct()), true
		}
	}
	return furthest, ok
}

// cpuNsPerIO is the CPU time that the whole machine used, over the requests of the same
// time: as many a byte as the containers' are.
func (r *Run) cpuNsPerIO() (float64, bool) {
	iops := r.TotalIOPS
	if r.DiskBytesPS > 0 && r.TotalBytesPS > 0 {
		iops *= r.DiskBytesPS / r.TotalBytesPS
	}
	return ratio(r.CPUBusyPct/100*1e9, iops), r.CPUBusyPct > 0 && iops > 0
}

// p99VsFair is the highest quotient, of the containers and directions that the
// expectation is about, of the p99 and the container's fair latency. By Little's
// law that is its requests outstanding over those that it completes a second,
// in both directions together, while it sends. It is not known if any container
// completed nothing.
func (r *Run) p99VsFair(k *experiment.Case, x experiment.Expectation) (highest float64, ok bool) {
	for _, job := range k.Containers {
		if x.Container != "" && job.Name != x.Container {
			continue
		}
		t := r.container(job.Name)
		if t == nil || t.IOPS <= 0 {
			return 0, false
		}
		fairUS := float64(job.Job.Depth()*job.Members()) * sendingS(k, job) / k.DurationS / t.IOPS * 1e6
		for _, name := range directionNames(x.Direction) {
			if d := t.direction(name); d != nil && d.Lat.P99 > 0 {
				highest, ok = max(highest, d.Lat.P99/fairUS), true
			}
		}
	}
	return highest, ok
}

// sendingS is for how long of the counted time a container is there and not paused.
func sendingS(k *experiment.Case, t experiment.Container) float64 {
	_, seconds := k.CountedS(t)
	for _, p := range t.Pauses {
		seconds -= max(0, p.ToS-max(p.FromS, k.RampS))
	}
	return seconds
}

// cpuPct is the CPU time of a container's fio, or of all, in percent of one CPU.
func (r *Run) cpuPct(container string) (sum float64, ok bool) {
	for i := range r.Containers {
		if t := &r.Containers[i]; container == "" || t.Name == container {
			sum, ok = sum+t.CPUUserPct+t.CPUSystemPct, true
		}
	}
	return sum, ok
}

// latVs is the highest quotient, of the containers and directions that the
// expectation is about, of a statistic and that of the same container in another
// run. Where that completed nothing there is no quotient; where only this one
// did not, the whole is not known.
func (r *Run) latVs(other *Run, x experiment.Expectation, name string) (highest float64, ok bool) {
	statistic := func(d *Direction) float64 {
		if d == nil {
			return 0
		}
		us, known := d.Lat.Statistic(name)
		if !known {
			return 0
		}
		return *us
	}
	for i := range other.Containers {
		theirs := &other.Containers[i]
		if x.Container != "" && theirs.Name != x.Container {
			continue
		}
		ours := r.container(theirs.Name)
		for _, direction := range directionNames(x.Direction) {
			b := statistic(theirs.direction(direction))
			if b <= 0 {
				continue
			}
			if ours == nil {
				return 0, false
			}
			a := statistic(ours.direction(direction))
			if a <= 0 {
				return 0, false
			}
			highest, ok = max(highest, a/b), true
		}
	}
	return highest, ok
}

// directionNames are the directions that one, or "" for each of the two, stands for.
func directionNames(one string) []string {
	if one != "" {
		return []string{one}
	}
	return []string{"read", "write"}
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
// containers'; false if none had such a request.
func (r *Run) latency(container, direction, name string) (highest float64, ok bool) {
	for i := range r.Containers {
		t := &r.Containers[i]
		d := t.direction(direction)
		if !d.timed() || container != "" && t.Name != container {
			continue
		}
		if us, known := d.Lat.Statistic(name); known {
			highest, ok = max(highest, *us), true
		}
	}
	return highest, ok
}

// container is the run's container of that name, nil if there is none.
func (r *Run) container(name string) *Container {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return &r.Containers[i]
		}
	}
	return nil
}

// direction is what the container did in one, nil if nothing. All requests of one that
// only reads, or only writes, are those.
func (t *Container) direction(name string) *Direction {
	switch {
	case name == "sync":
		return t.Sync
	case name == "operations":
		return t.Operations
	case name == "write" || name == "both" && t.Read == nil:
		return t.Write
	case name == "both" && t.Write != nil:
		return t.Both
	default:
		return t.Read
	}
}
