// SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Metric names one figure of a run. Kind is one of the constants below; Arg
// is what follows a colon or a dot in the file.
type Metric struct {
	Kind string `json:"kind,omitzero"`
	Arg  string `json:"arg,omitzero"`
}

// The figures that an expectation may bound.
const (
	JainWeighted = "jain_weighted"
	Share        = "share" // :CONTAINER, of the sum of all, in the experiment's unit
	// How far a container's share is from what it is entitled to, in percent of that.
	ShareErrorPct = "share_error_pct"

	TotalBytesPS = "total_bytes_per_s"
	TotalIOPS    = "total_iops"
	TotalVsNone  = "total_vs_none"
	TotalVs      = "total_vs"           // :SCHEDULER, ratio of the totals in bytes/s
	TotalVsCase  = "total_vs_case"      // :CASE, by none's total there, or :CASE/SCHEDULER
	TotalVsRef   = "total_vs_reference" // by none's total in the case's reference case
	IOPSVsCase   = "iops_vs_case"       // likewise, in requests/s

	IOPS    = "iops"
	BytesPS = "bytes_per_s"

	LatUS      = "lat_us"       // .STATISTIC
	ReadP99US  = "read_p99_us"  // :CONTAINER, latency of its reads
	WriteP99US = "write_p99_us" // :CONTAINER, latency of its writes
	// A container's p99 over the mean latency that Little's law gives it: the
	// requests that it keeps outstanding over those that it completes a second.
	P99VsFair = "p99_vs_fair"
	P99Vs     = "p99_vs"    // :SCHEDULER, over the same container's p99 there
	LatVs     = "lat_us_vs" // :STATISTIC/SCHEDULER, likewise

	// A container's fio, user and system time in percent of one CPU.
	CPUPct   = "cpu_pct"
	CPUPctVs = "cpu_pct_vs" // :SCHEDULER
	// A container's rate over its rate in another case.
	RateVsCase = "bytes_per_s_vs_case" // :CASE, the same scheduler there, or :CASE/SCHEDULER

	// A container's rate and p99 over those alone on a disk of its share's speed; and of all
	// containers' the least and the most.
	OwnDisk        = "own_disk"     // :CONTAINER
	OwnDiskP99     = "own_disk_p99" // :CONTAINER
	OwnDiskLeast   = "own_disk_least"
	OwnDiskP99Most = "own_disk_p99_most"

	// CPU time in use on the whole machine, over the requests.
	CPUNsPerIO       = "cpu_ns_per_io"
	CPUNsPerIOVs     = "cpu_ns_per_io_vs"      // :SCHEDULER
	CPUNsPerIOVsCase = "cpu_ns_per_io_vs_case" // :CASE, the same scheduler there, or :CASE/SCHEDULER

	// Of the best of the others: contenders that are another scheduler, in the same case.
	LatVsBest    = "lat_vs_best"         // .STATISTIC, over their lowest
	BytesVsBest  = "bytes_per_s_vs_best" // over their highest
	FinishVsBest = "finish_vs_best"      // over their shortest

	// How long a container's job took that ends by itself.
	FinishMS = "finish_ms"

	// What a modeldisk counted of itself.
	DeviceStat = "device_stat" // .NAME
	// How many later requests bypassed a request in a modeldisk.
	DelayCount = "delay_count" // .STATISTIC
	// What the scheduler's starvation guard counted.
	GuardStat = "guard_stat" // .NAME

	// Latencies of reads over those of another run, the highest of all containers.
	P999VsCase = "p99_9_vs_case" // :CASE, by none's there, or :CASE/SCHEDULER
	MaxVsCase  = "max_vs_case"   // likewise

	// The part of a container's requests, the quickest first, that take less than in another run, in percent.
	SoonerPctVsCase = "sooner_pct_vs_case" // :CASE, the same scheduler there, or :CASE/SCHEDULER

	// A container's p99 over its p99 in another case.
	P99VsCase = "p99_vs_case" // :CASE, by none's there, or :CASE/SCHEDULER

	// How long a container takes to have its rate; goes with the keys of Settle.
	SettleMS = "settle_ms"
	// The longest time in which a container sent no request; needs samples.
	GapMS = "gap_ms"
)

// argument is what follows a metric's kind.
type argument int

const (
	noArgument argument = iota
	schedulerArgument
	containerArgument
	caseArgument // CASE or CASE/SCHEDULER
	statisticArgument
	statArgument  // a name in the device's stat file, or the guard's
	delayArgument // a statistic of delay counts
	statisticSchedulerArgument
)

// metricForm is how a metric may be written, and what it goes with.
type metricForm struct {
	kind                 string
	argument             argument
	direction, container bool // it may be narrowed to
	// calls is whether its direction may be what has a time and no bytes: calls of fsync,
	// or a program's operations.
	calls bool
}

// metricForms are all metrics.
var metricForms = []metricForm{
	{kind: JainWeighted},
	{kind: Share, argument: containerArgument},
	{kind: ShareErrorPct, container: true},
	{kind: TotalBytesPS},
	{kind: TotalIOPS},
	{kind: TotalVsNone},
	{kind: TotalVs, argument: schedulerArgument},
	{kind: TotalVsCase, argument: caseArgument},
	{kind: TotalVsRef},
	{kind: IOPSVsCase, argument: caseArgument},
	{kind: IOPS, direction: true, container: true, calls: true},
	{kind: BytesPS, direction: true, container: true},
	{kind: LatUS, argument: statisticArgument, direction: true, container: true, calls: true},
	{kind: ReadP99US, argument: containerArgument},
	{kind: WriteP99US, argument: containerArgument},
	{kind: P99VsFair, direction: true, container: true},
	{kind: P99Vs, argument: schedulerArgument, direction: true, container: true, calls: true},
	{kind: LatVs, argument: statisticSchedulerArgument, direction: true, container: true, calls: true},
	{kind: OwnDisk, argument: containerArgument},
	{kind: OwnDiskP99, argument: containerArgument},
	{kind: OwnDiskLeast},
	{kind: OwnDiskP99Most},
	{kind: CPUPct, container: true},
	{kind: CPUPctVs, argument: schedulerArgument, container: true},
	{kind: RateVsCase, argument: caseArgument, direction: true, container: true},
	{kind: LatVsBest, argument: statisticArgument, direction: true, container: true, calls: true},
	{kind: BytesVsBest, direction: true, container: true},
	{kind: FinishVsBest, container: true},
	{kind: FinishMS, container: true},
	{kind: CPUNsPerIO},
	{kind: CPUNsPerIOVs, argument: schedulerArgument},
	{kind: CPUNsPerIOVsCase, argument: caseArgument},
	{kind: DeviceStat, argument: statArgument},
	{kind: DelayCount, argument: delayArgument},
	{kind: GuardStat, argument: statArgument},
	{kind: P999VsCase, argument: caseArgument},
	{kind: MaxVsCase, argument: caseArgument},
	{kind: SoonerPctVsCase, argument: caseArgument, direction: true, container: true, calls: true},
	{kind: P99VsCase, argument: caseArgument, direction: true, container: true, calls: true},
	{kind: SettleMS, container: true},
	{kind: GapMS, container: true},
}

// form is that of the metric; false if there is no such metric.
func (m Metric) form() (metricForm, bool) {
	i := slices.IndexFunc(metricForms, func(f metricForm) bool { return f.kind == m.Kind })
	if i < 0 {
		return metricForm{}, false
	}
	return metricForms[i], true
}

// separator is what stands between the kind and the argument.
func (f metricForm) separator() string {
	if f.argument == statisticArgument || f.argument == statArgument || f.argument == delayArgument {
		return "."
	}
	return ":"
}

// String is how the metric is written, for messages.
func (f metricForm) String() string {
	names := map[argument]string{
		schedulerArgument: "SCHEDULER", containerArgument: "CONTAINER", caseArgument: "CASE[/SCHEDULER]",
		statisticArgument: "STATISTIC", statArgument: "NAME", delayArgument: "STATISTIC",
		statisticSchedulerArgument: "STATISTIC/SCHEDULER",
	}
	if f.argument == noArgument {
		return f.kind
	}
	return f.kind + f.separator() + names[f.argument]
}

// allMetrics lists how a metric may be written.
func allMetrics() string {
	var all []string
	for _, f := range metricForms {
		all = append(all, f.String())
	}
	return strings.Join(all, ", ")
}

// kindsWith lists the metrics that may be narrowed in some way.
func kindsWith(has func(metricForm) bool) string {
	var kinds []string
	for _, f := range metricForms {
		if has(f) {
			kinds = append(kinds, f.kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// LatencyStatistics are what a result has of latencies.
func LatencyStatistics() []string {
	return []string{"mean", "p10", "p30", "p50", "p70", "p90", "p95", "p99", "p99_9", "p99_99", "max"}
}

// DelayStatistics are what a result has of delay counts.
func DelayStatistics() []string { return []string{"p50", "p90", "p99", "p99_9", "max"} }

// String writes the metric as the file has it.
func (m Metric) String() string {
	if m.Arg == "" {
		return m.Kind
	}
	f, _ := m.form()
	return m.Kind + f.separator() + m.Arg
}

// OfOthers reports whether the figure compares with whichever contender is best.
func (m Metric) OfOthers() bool {
	return m.Kind == LatVsBest || m.Kind == BytesVsBest || m.Kind == FinishVsBest
}

// OfContainer reports whether the metric itself names a container.
func (m Metric) OfContainer() bool {
	f, _ := m.form()
	return f.argument == containerArgument
}

// OfOwnDisk reports whether the figure compares with disks of the containers' own.
func (m Metric) OfOwnDisk() bool {
	return slices.Contains([]string{OwnDisk, OwnDiskP99, OwnDiskLeast, OwnDiskP99Most}, m.Kind)
}

// OfShares reports whether the figure is about how the containers share.
func (m Metric) OfShares() bool {
	return m.Kind == JainWeighted || m.Kind == Share || m.Kind == ShareErrorPct
}

// Reference is the run that the expectation's metric compares with: a scheduler
// in a case. ok is false for a metric that compares with none.
func (x Expectation) Reference() (name, scheduler string, ok bool) {
	switch x.Metric.Kind {
	case TotalVsNone:
		return x.Case, "none", true
	case TotalVsRef:
		return x.ReferenceCase, "none", true
	case TotalVs, P99Vs, CPUNsPerIOVs, CPUPctVs:
		return x.Case, x.Metric.Arg, true
	case LatVs:
		_, scheduler, _ = strings.Cut(x.Metric.Arg, "/")
		return x.Case, scheduler, true
	case TotalVsCase, IOPSVsCase, P99VsCase, P999VsCase, MaxVsCase:
		name, scheduler, _ = strings.Cut(x.Metric.Arg, "/")
		return name, cmp.Or(scheduler, "none"), true
	case CPUNsPerIOVsCase, RateVsCase, SoonerPctVsCase:
		name, scheduler, _ = strings.Cut(x.Metric.Arg, "/")
		return name, cmp.Or(scheduler, x.Scheduler), true
	}
	return "", "", false
}

// parseMetric reads a metric; problem is "" when it is one, and else says
// what is wrong, allowed what would be right.
func (e *Experiment) parseMetric(text string, containers []string) (m Metric, problem, allowed string) {
	end := len(text)
	if i := strings.IndexAny(text, ":."); i >= 0 {
		end = i
	}
	m.Kind = text[:end]
	if end < len(text) {
		m.Arg = text[end+1:]
	}
	f, known := m.form()
	if !known {
		return m, fmt.Sprintf("unknown metric %q", text), allMetrics()
	}
	switch f.argument {
	case noArgument:
		if end < len(text) {
			problem = fmt.Sprintf("%q takes nothing after it", m.Kind)
		}
	case schedulerArgument:
		problem, allowed = oneOf(m.Arg, e.Schedulers, "schedulers")
	case containerArgument:
		problem, allowed = oneOf(m.Arg, containers, "containers")
	case caseArgument:
		problem, allowed = e.checkCaseArgument(m.Arg)
	case statisticArgument:
		if !slices.Contains(LatencyStatistics(), m.Arg) {
			problem, allowed = fmt.Sprintf("%q is not a statistic of latencies", m.Arg), strings.Join(LatencyStatistics(), ", ")
		}
	case delayArgument:
		if !slices.Contains(DelayStatistics(), m.Arg) {
			problem, allowed = fmt.Sprintf("%q is not a statistic of delay counts", m.Arg), strings.Join(DelayStatistics(), ", ")
		}
	case statisticSchedulerArgument:
		statistic, scheduler, _ := strings.Cut(m.Arg, "/")
		if problem, allowed = oneOf(scheduler, e.Schedulers, "schedulers"); !slices.Contains(LatencyStatistics(), statistic) {
			problem, allowed = fmt.Sprintf("%q is not a statistic of latencies", statistic), strings.Join(LatencyStatistics(), ", ")
		}
	case statArgument:
		if m.Arg == "" {
			problem = "names nothing of the " + map[string]string{DeviceStat: "device's stat file", GuardStat: "guard's file guard_stat"}[m.Kind]
		}
	}
	if problem == "" && m.String() != text {
		problem = fmt.Sprintf("unknown metric %q", text)
	}
	return m, problem, cmp.Or(allowed, allMetrics())
}

// checkCaseArgument checks CASE or CASE/SCHEDULER.
func (e *Experiment) checkCaseArgument(arg string) (problem, allowed string) {
	name, scheduler, given := strings.Cut(arg, "/")
	if problem, allowed = oneOf(name, e.caseNames(), "cases"); problem != "" {
		return problem, allowed
	}
	if !given {
		return "", ""
	}
	if problem, allowed = oneOf(scheduler, e.Schedulers, "schedulers"); problem == "" && !e.measures(name, scheduler) {
		problem, allowed = notIn(name, scheduler), strings.Join(e.SchedulersIn(e.CaseNamed(name)), ", ")
	}
	return problem, allowed
}

// notIn says that a scheduler does not run in a case.
func notIn(name, scheduler string) string {
	return fmt.Sprintf("%s does not run in case %s", scheduler, name)
}

func oneOf(name string, all []string, what string) (problem, allowed string) {
	if slices.Contains(all, name) {
		return "", ""
	}
	return fmt.Sprintf("%q is not one of the experiment's %s", name, what), cmp.Or(strings.Join(all, ", "), "none, it lists no "+what)
}

// Depth is how many requests the job keeps outstanding at most: engines that
// wait for each request keep one a process, whatever iodepth says.
func (j Job) Depth() int {
	depth := 1
	if engine := j["ioengine"]; engine == "libaio" || engine == "io_uring" || engine == engineAPS {
		depth = j.Count("iodepth", 1)
	}
	return depth * j.Count("numjobs", 1)
}
