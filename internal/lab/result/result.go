// SPDX-License-Identifier: MIT

// Package result holds what an experiment measured, in the shape that
// `isolio lab --json` and `isolio bench --json` print.
//
// Every field carries its unit in its name. Rates are per second of the
// clock of the machine that ran the load (virtual seconds in the lab), over
// the whole counted time: a container that is there for half of it at 100
// bytes a second has 50. They come from the kernel: the difference between two
// readings of each container's io.stat, at the beginning and the end of one
// time that is the same for all, over what passed between the two. The kernel
// counts a request when it is submitted, and one that it splits once for each
// part; bytes of the page cache count when they are on the disk. Latencies and CPU come from fio, which may begin to measure later, as
// it does with the first request that completes after the ramp.
package result

import (
	"math"
	"slices"
)

// Schema is the version of the JSON document. It rises when a field changes
// meaning or goes away; new fields do not raise it.
const Schema = 1

// Document is one experiment over all its contenders.
type Document struct {
	Schema     int    `json:"schema"`
	Experiment string `json:"experiment"`
	// Question is the sentence the experiment answers.
	Question string `json:"question"`
	// Answers names the seed document and figure, "" if there is none.
	Answers string `json:"answers,omitempty"`
	// Kernel is the release (uname -r) of the kernel that ran the load.
	Kernel string `json:"kernel"`
	// Fio is fio's own version line, such as "fio-3.33"; "" where no container ran it.
	Fio string `json:"fio"`
	// ShareUnit is what shares are of: "bytes", "iops" (requests), "device_time" (a
	// container's rate over its rate alone on the disk) or "operations" (what programs say
	// that they did).
	ShareUnit string `json:"share_unit"`
	// Critical is the container whose latency a plot shows.
	Critical string `json:"critical,omitempty"`
	Runs     []Run  `json:"runs"`
	// Verdicts are what the experiment expects, and whether it came so.
	Verdicts []Verdict `json:"expectations,omitempty"`
	// Unmet lists expectations that did not hold, one line each.
	Unmet []string `json:"unmet,omitempty"`
	// Provenance says what was measured with what; null where that is not recorded.
	Provenance *Provenance `json:"provenance,omitempty"`
}

// Provenance is what a result depends on, besides the kernel and fio that the document
// names.
type Provenance struct {
	// Version is the tree's, as git describe has it.
	Version string `json:"version"`
	// Engine is the version of what measured, Plan the sum of the experiment's canonical plan.
	Engine int    `json:"engine"`
	Plan   string `json:"plan"`
	// Code are the sums of the code, without comments and messages, of each of the
	// project's modules that a contender loads, and of libaps where a container uses it.
	Code map[string]string `json:"code,omitempty"`
	// QEMU and Compiler are what the programs say of themselves: the one that booted the
	// VMs, and the one that the modules were built with.
	QEMU     string `json:"qemu"`
	Compiler string `json:"compiler"`
}

// Verdict is one expectation and what was measured.
type Verdict struct {
	Case      string `json:"case,omitempty"`
	Scheduler string `json:"scheduler"`
	// Metric is as in the file, with the direction and container it is about.
	Metric string `json:"metric"`
	// Wanted is the bound, such as ">= 0.99" or "76.2 within 3 %".
	Wanted string   `json:"wanted"`
	Got    *float64 `json:"got"` // null: it was not measured
	Met    bool     `json:"met"`
}

// Run is one contender: the same load under one scheduler.
type Run struct {
	// Case is the experiment's case, "" if it lists none.
	Case string `json:"case,omitempty"`
	// Scheduler is the contender's name; "iocost" means none + io.cost.
	Scheduler string `json:"scheduler"`
	// Variant is what the contender is, where it is not a scheduler as it comes.
	Variant *Variant `json:"variant,omitempty"`
	// Device describes the disk, such as "null_blk, completion 1000 us, 1 queue
	// of 32 tags, 4096 MiB".
	Device string `json:"device"`
	// CPUs is how many processors the machine had that ran the load.
	CPUs int `json:"cpus,omitempty"`
	// Kernel and Fio are the Document's, until Merge moves them there.
	Kernel string `json:"kernel,omitempty"`
	Fio    string `json:"fio,omitempty"`
	// Settings are the lines that were written to make the contender work
	// (io.cost.model, io.cost.qos, weights file), in order.
	Settings     []string `json:"settings,omitempty"`
	TotalBytesPS float64  `json:"total_bytes_per_s"`
	TotalIOPS    float64  `json:"total_iops"`
	TotalVsNone  *float64 `json:"total_vs_none"` // null when "none" did not run
	// TotalVsReference is against none in ReferenceCase, where the case has one.
	ReferenceCase    string   `json:"reference_case,omitempty"`
	TotalVsReference *float64 `json:"total_vs_reference,omitempty"`
	// OwnDiskLeast and OwnDiskP99Most are of the containers' OwnDisk and OwnDiskP99.
	OwnDiskLeast   *float64 `json:"own_disk_least,omitempty"`
	OwnDiskP99Most *float64 `json:"own_disk_p99_most,omitempty"`
	JainWeighted   float64  `json:"jain_weighted"` // on share / entitled_share, 0..1
	CPUUserPct     float64  `json:"cpu_user_pct"`  // of one CPU, all containers' fio
	CPUSystemPct   float64  `json:"cpu_system_pct"`
	// CPUBusyPct is all CPU time in use on the machine, by any program, in
	// percent of one CPU.
	CPUBusyPct float64 `json:"cpu_busy_pct"`
	// DiskBytesPS is what the disk moved in the time that CPUBusyPct is of, by its own
	// count; 0 where that is not known. TotalBytesPS is of the time that the containers
	// are counted in, which with a thousand of them is longer than they had the CPU.
	DiskBytesPS float64 `json:"disk_bytes_per_s,omitempty"`
	// DeviceStat is what a modeldisk said of itself, in the names of its stat
	// file: counts are over the counted time, as is write_amplification; maxima,
	// averages (_milli) and the depth are since it was made, at its end.
	DeviceStat map[string]float64 `json:"device_stat,omitempty"`
	// GuardStat is what the scheduler's starvation guard said of itself, in the
	// names of guard_stat: counts are over the counted time. closed_pct is for how
	// much of it the gate was closed.
	GuardStat map[string]float64 `json:"guard_stat,omitempty"`
	// Delays are the delay counts of requests in a modeldisk, over the counted time.
	Delays *Delays `json:"delays,omitempty"`
	// Seeds is how many times it was measured, each with random numbers of its own,
	// if more than once: then figures are means, and latencies medians.
	Seeds int `json:"seeds,omitempty"`
	// OverSeeds is how the seeds differ in what is of all containers; null for one seed.
	OverSeeds  *RunSeeds   `json:"over_seeds,omitempty"`
	Containers []Container `json:"containers"`
}

// Variant is a scheduler with settings of the experiment's own.
type Variant struct {
	// Of is the scheduler; "iocost" means none + io.cost.
	Of    string `json:"of"`
	Label string `json:"label,omitempty"` // for plots
	// Changes are the tunables that the experiment sets, as it has them, before
	// times are scaled; "iocost.rlat_us" is of what io.cost is told.
	Changes map[string]string `json:"changes,omitempty"`
}

// Container is one tenant in one run.
type Container struct {
	Name          string  `json:"name"`
	Weight        int     `json:"weight"`
	EntitledShare float64 `json:"entitled_share"` // by weight among siblings, at each level
	Share         float64 `json:"share"`          // of all containers', in the document's share_unit
	BytesPS       float64 `json:"bytes_per_s"`
	IOPS          float64 `json:"iops"`
	CPUUserPct    float64 `json:"cpu_user_pct"`
	CPUSystemPct  float64 `json:"cpu_system_pct"`
	// OwnDisk is its rate over its rate alone, with none, on a disk of its share's part of
	// the speed; OwnDiskP99 its p99 over that there, of the first that it has of reads,
	// calls of fsync, writes and operations. Null where that was not measured.
	OwnDisk    *float64 `json:"own_disk,omitempty"`
	OwnDiskP99 *float64 `json:"own_disk_p99,omitempty"`
	// FinishMS is how long its job took, if that ends by itself and did; of
	// several seeds the median.
	FinishMS *float64   `json:"finish_ms,omitempty"`
	Read     *Direction `json:"read,omitempty"`
	Write    *Direction `json:"write,omitempty"`
	// Both is of its reads and writes together; null for one that does not have both.
	Both *Direction `json:"both,omitempty"`
	// Sync is of its calls of fsync and fdatasync: how many a second, and how long each
	// took. They have no bytes. Null for one that made none.
	Sync *Direction `json:"sync,omitempty"`
	// Operations are what a command, in place of fio, says that it did, and how long each
	// operation took. They have no bytes. Null for fio, and where nothing is read from
	// what the command prints.
	Operations *Direction `json:"operations,omitempty"`
	// Members says how the containers share of which this is the sum; null for
	// one that is just itself.
	Members *Members `json:"members,omitempty"`
	// PausesS are when it was frozen and when thawed, in seconds after the
	// load's start.
	PausesS [][2]float64 `json:"pauses_s,omitempty"`
	// Series is its rate over the counted time, if the experiment samples it.
	Series *Series `json:"series,omitempty"`
}

// Direction is the reads or the writes of one container, or all of its requests.
type Direction struct {
	BytesPS float64 `json:"bytes_per_s,omitempty"`
	// Requests are those of the program that the latencies are of.
	Requests float64 `json:"requests,omitempty"`
	// IOPS are requests of the program, whatever the kernel splits them into.
	IOPS float64 `json:"iops"`
	// Lat is submission to completion, as the program sees it; all 0 if none
	// completed while fio measured.
	Lat Latency `json:"lat_us"`
	// Seeds is how the seeds differ of which this is the mean (rates) and the
	// median (latencies); null for one that was measured once.
	Seeds *Seeds `json:"over_seeds,omitempty"`
}

// timed reports whether there are latencies: none of a container that completed nothing, and
// none of a command's reads and writes, which only the kernel counts.
func (d *Direction) timed() bool { return d != nil && d.Lat != (Latency{}) }

// Latency in microseconds.
type Latency struct {
	Mean  float64 `json:"mean"`
	P10   float64 `json:"p10"`
	P30   float64 `json:"p30"`
	P50   float64 `json:"p50"`
	P70   float64 `json:"p70"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	P9999 float64 `json:"p99_99"`
	Max   float64 `json:"max"`
}

// LatencyOf are the statistics of so many latencies, in any order; all 0 of none. A
// percentile is the least that so many percent of them do not exceed.
func LatencyOf(us []float64) (l Latency) {
	if len(us) == 0 {
		return l
	}
	sorted := slices.Sorted(slices.Values(us))
	for _, p := range []struct {
		percent float64
		to      *float64
	}{
		{10, &l.P10}, {30, &l.P30}, {50, &l.P50}, {70, &l.P70}, {90, &l.P90}, {95, &l.P95},
		{99, &l.P99}, {99.9, &l.P999}, {99.99, &l.P9999}, {100, &l.Max},
	} {
		// In tenths of a thousandth, so that 99.9 % of 1000 is 999 of them.
		n := (len(sorted)*int(math.Round(p.percent*100)) + 9999) / 10000
		*p.to = sorted[max(n, 1)-1]
	}
	sum := 0.0
	for _, v := range us {
		sum += v
	}
	l.Mean = sum / float64(len(us))
	return l
}

// Statistic is a latency by its name in JSON, false if it is no such name.
func (l *Latency) Statistic(name string) (*float64, bool) {
	for _, s := range l.all() {
		if s.name == name {
			return s.value, true
		}
	}
	return nil, false
}

// Quantile is the latency that a part of the requests keeps to.
type Quantile struct{ Part, US float64 }

// Quantiles are the distribution, as far as there are percentiles of it.
func (l *Latency) Quantiles() []Quantile {
	return []Quantile{
		{0.1, l.P10}, {0.3, l.P30}, {0.5, l.P50}, {0.7, l.P70}, {0.9, l.P90}, {0.95, l.P95},
		{0.99, l.P99}, {0.999, l.P999}, {0.9999, l.P9999}, {1, l.Max},
	}
}

// statistic is a figure of a Latency with its name in JSON.
type statistic struct {
	name  string
	value *float64
}

func (l *Latency) all() []statistic {
	return []statistic{
		{"mean", &l.Mean}, {"p10", &l.P10}, {"p30", &l.P30}, {"p50", &l.P50}, {"p70", &l.P70}, {"p90", &l.P90},
		{"p95", &l.P95}, {"p99", &l.P99}, {"p99_9", &l.P999}, {"p99_99", &l.P9999}, {"max", &l.Max},
	}
}
