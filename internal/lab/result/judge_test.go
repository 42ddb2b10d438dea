// SPDX-License-Identifier: MIT

package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// inCases is an experiment with a case of two containers, "both", that is
// compared with a calmer one, and the runs that a test changes: a small
// container that reads, and a large one that reads and writes.
func inCases(t *testing.T, more string) (*experiment.Experiment, func(name, scheduler string) *Run, *[]Run) {
	t.Helper()
	e, err := experiment.Parse("x", []byte(`name = "x"
question = "Who gets what?"
schedulers = ["none", "bfq", "fast"]
duration_s = 4
`+more+`
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
ioengine = "libaio"
iodepth = 8
[[contender]]
name = "fast"
scheduler = "bfq"
label = "idle = 0"
tunables = { slice_idle = 0 }
[[container]]
name = "small"
weight = 300
[[container]]
name = "large"
weight = 100
end_s = 3
job.rw = "randrw"
job.numjobs = 2
[[case]]
name = "both"
[[case]]
name = "solo-small"
[[case.container]]
name = "small"
weight = 1
[[case]]
name = "solo-large"
[[case.container]]
name = "large"
weight = 1
job.rw = "randrw"
job.numjobs = 2
`))
	must.OK(t, err)
	var runs []Run
	for _, k := range e.Cases {
		for _, scheduler := range e.Schedulers {
			r := Run{Case: k.Name, Scheduler: scheduler, Device: "null_blk", Kernel: "6.1.0", Fio: "fio-3.33", CPUBusyPct: 50}
			for _, c := range k.Containers {
				t := Container{Name: c.Name, Weight: c.Weight, BytesPS: 4096_000, IOPS: 1000}
				t.Read = &Direction{BytesPS: 4096_000, IOPS: 1000, Lat: Latency{P99: 4000}}
				if c.Job.Writes() {
					t.Read.BytesPS, t.Read.IOPS = 2048_000, 500
					t.Write = &Direction{BytesPS: 2048_000, IOPS: 500, Lat: Latency{P99: 12000}}
				}
				r.Containers = append(r.Containers, t)
			}
			runs = append(runs, r)
		}
	}
	return e, func(name, scheduler string) *Run {
		i := slices.IndexFunc(runs, func(r Run) bool { return r.Case == name && r.Scheduler == scheduler })
		return &runs[i]
	}, &runs
}

// judged is what a document of the runs says of an expectation of bfq in "both".
func judged(t *testing.T, e *experiment.Experiment, runs []Run, m experiment.Metric, direction, container string) *float64 {
	t.Helper()
	for i := range runs {
		runs[i].Sum()
	}
	e.Expect = []experiment.Expectation{{
		Case: "both", Scheduler: "bfq", Metric: m, Direction: direction, Container: container, Min: new(float64),
	}}
	d, err := Merge(e, runs)
	must.OK(t, err)
	return d.Verdicts[0].Got
}

// Calls of fsync are a direction of their own: they are not among the writes.
func TestFiguresOfFsyncs(t *testing.T) {
	e, at, runs := inCases(t, "")
	for scheduler, us := range map[string]float64{"bfq": 30_000, "none": 10_000} {
		at("both", scheduler).Containers[1].Sync = &Direction{IOPS: 40, Requests: 160, Lat: Latency{P99: us}}
	}
	for _, tt := range []struct {
		metric experiment.Metric
		want   float64
	}{
		{experiment.Metric{Kind: experiment.LatUS, Arg: "p99"}, 30_000},
		{experiment.Metric{Kind: experiment.IOPS}, 40},
		{experiment.Metric{Kind: experiment.P99Vs, Arg: "none"}, 3},
	} {
		if got := judged(t, e, *runs, tt.metric, "sync", ""); got == nil || *got != tt.want {
			t.Errorf("%s of fsyncs is %v, want %g", tt.metric, got, tt.want)
		}
		if got := judged(t, e, *runs, tt.metric, "write", ""); got == nil || *got == tt.want {
			t.Errorf("%s of writes is %v, and so is that of fsyncs", tt.metric, got)
		}
	}
	if got := judged(t, e, *runs, experiment.Metric{Kind: experiment.LatUS, Arg: "p99"}, "sync", "small"); got != nil {
		t.Errorf("the reader has a latency of fsyncs, %g", *got)
	}
}

// Shares of operations, and their latencies. A container that says nothing has none.
func TestFiguresOfOperations(t *testing.T) {
	e, at, runs := inCases(t, "")
	e.ShareUnit = experiment.UnitOperations
	for i, perS := range []float64{300, 100} {
		c := &at("both", "bfq").Containers[i]
		c.Operations = &Direction{IOPS: perS, Lat: Latency{P99: perS * 10}}
	}
	for _, tt := range []struct {
		metric    experiment.Metric
		container string
		want      float64
	}{
		{experiment.Metric{Kind: experiment.LatUS, Arg: "p99"}, "", 3000},
		{experiment.Metric{Kind: experiment.IOPS}, "", 400},
		{experiment.Metric{Kind: experiment.IOPS}, "large", 100},
	} {
		if got := judged(t, e, *runs, tt.metric, "operations", tt.container); got == nil || *got != tt.want {
			t.Errorf("%s of operations of %q is %v, want %g", tt.metric, tt.container, got, tt.want)
		}
	}
	// Of a command's own requests only the kernel knows, and not how long they took.
	at("both", "bfq").Containers[0].Read.Lat = Latency{}
	if got := judged(t, e, *runs, experiment.Metric{Kind: experiment.LatUS, Arg: "p99"}, "read", "small"); got != nil {
		t.Errorf("the latency of reads that nobody measured is %g", *got)
	}
	if got := judged(t, e, *runs, experiment.Metric{Kind: experiment.Share, Arg: "small"}, "", ""); got == nil || *got != 0.75 {
		t.Errorf("the share of operations is %v, want 0.75", got)
	}
}

func TestMetricsThatCompare(t *testing.T) {
	const unknown = -1.0
	for _, tt := range []struct {
		kind, arg, direction, container string
		change                          func(run func(name, scheduler string) *Run)
		want                            float64
	}{
		// Equal rates under 3 : 1 are 50 % for 75 and 25.
		{kind: experiment.ShareErrorPct, want: 100},
		{kind: experiment.ShareErrorPct, container: "small", want: 100.0 / 3},
		{kind: experiment.ShareErrorPct, change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].BytesPS *= 3
		}, want: 0},

		// small: 8 outstanding at 1000 a second are 8 ms each; its p99 is 4 ms.
		// large: 16, for 3 of the 4 s, at 1000 a second over all 4, are 12 ms.
		{kind: experiment.P99VsFair, container: "small", want: 0.5},
		{kind: experiment.P99VsFair, container: "large", want: 1},
		{kind: experiment.P99VsFair, container: "large", direction: "read", want: 4.0 / 12},
		{kind: experiment.P99VsFair, direction: "read", want: 0.5}, // the worst of both
		{kind: experiment.P99VsFair, container: "small", direction: "write", want: unknown},
		{kind: experiment.P99VsFair, change: func(run func(string, string) *Run) { // one starves
			run("both", "bfq").Containers[0] = Container{Name: "small", Weight: 300}
		}, want: unknown},

		{kind: experiment.P99Vs, arg: "fast", want: 1},
		{kind: experiment.P99Vs, arg: "fast", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].Write.Lat.P99 = 6000
			run("both", "bfq").Containers[0].Read.Lat.P99 = 3000
		}, want: 1}, // large's reads
		{kind: experiment.P99Vs, arg: "fast", container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Read.Lat.P99 = 3000
		}, want: 0.75},
		{kind: experiment.P99Vs, arg: "fast", direction: "write", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].Write.Lat.P99 = 30000
		}, want: 2.5},
		// Of all requests together, where it has both, else of those that it has.
		{kind: experiment.P99Vs, arg: "fast", direction: "both", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].Both = &Direction{Lat: Latency{P99: 9000}}
			run("both", "fast").Containers[1].Both = &Direction{Lat: Latency{P99: 6000}}
			run("both", "bfq").Containers[1].Write.Lat.P99 = 30000
			run("both", "bfq").Containers[0].Read.Lat.P99 = 5000
		}, want: 1.5},
		{kind: experiment.P99Vs, arg: "fast", direction: "both", change: func(run func(string, string) *Run) {
			for _, name := range []string{"bfq", "fast"} {
				run("both", name).Containers[1].Read = nil
			}
			run("both", "bfq").Containers[1].Write.Lat.P99 = 30000
		}, want: 2.5},
		{kind: experiment.P99Vs, arg: "fast", direction: "both", change: func(run func(string, string) *Run) { // ours has none
			run("both", "fast").Containers[1].Both = &Direction{Lat: Latency{P99: 6000}}
		}, want: unknown},

		{kind: experiment.P99Vs, arg: "fast", change: func(run func(string, string) *Run) { // ours starves
			run("both", "bfq").Containers[0].Read = nil
		}, want: unknown},
		{kind: experiment.P99Vs, arg: "fast", change: func(run func(string, string) *Run) { // ours had not one
			run("both", "bfq").Containers[0].Read.Lat.P99 = 0
		}, want: unknown},
		{kind: experiment.P99Vs, arg: "fast", change: func(run func(string, string) *Run) { // theirs starves
			run("both", "fast").Containers[1].Write = nil
			run("both", "bfq").Containers[1].Write.Lat.P99 = 30000
		}, want: 1},

		{kind: experiment.LatVs, arg: "p99/fast", want: 1},
		{kind: experiment.LatVs, arg: "p99_9/fast", container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Read.Lat.P999 = 3000
			run("both", "fast").Containers[0].Read.Lat.P999 = 12000
		}, want: 0.25},
		{kind: experiment.LatVs, arg: "p99_9/fast", container: "small", want: unknown}, // neither has one
		{kind: experiment.P99VsCase, arg: "solo-small/fast", container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Read.Lat.P99 = 3000
			run("solo-small", "fast").Containers[0].Read.Lat.P99 = 2000
		}, want: 1.5},
		{kind: experiment.P99VsCase, arg: "solo-small", container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Read.Lat.P99 = 3000
			run("solo-small", "none").Containers[0].Read.Lat.P99 = 12000
		}, want: 0.25},
		{kind: experiment.P99VsCase, arg: "solo-small", container: "small", direction: "operations", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Operations = &Direction{Lat: Latency{P99: 500}}
			run("solo-small", "none").Containers[0].Operations = &Direction{Lat: Latency{P99: 1000}}
		}, want: 0.5},
		{kind: experiment.P99VsCase, arg: "solo-small", container: "large", want: unknown}, // it is not there

		{kind: experiment.GapMS, change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Series = &Series{StepMS: 50, IOs: []uint64{0, 0, 3, 1, 0, 0, 0, 2}}
			run("both", "bfq").Containers[1].Series = &Series{StepMS: 50, IOs: []uint64{1, 1, 1, 0, 0, 0, 0, 0}}
		}, want: 250},
		{kind: experiment.GapMS, container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Series = &Series{StepMS: 50, IOs: []uint64{0, 0, 3, 1, 0, 0, 0, 2}}
		}, want: 150},
		{kind: experiment.GapMS, container: "small", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].Series = &Series{StepMS: 50, IOs: []uint64{1, 2, 3}}
		}, want: 0},
		{kind: experiment.GapMS, change: func(run func(string, string) *Run) { // the other has no samples
			run("both", "bfq").Containers[0].Series = &Series{StepMS: 50, IOs: []uint64{1, 2, 3}}
		}, want: unknown},

		{kind: experiment.CPUPct, change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[0].CPUUserPct = 10
			run("both", "bfq").Containers[1].CPUSystemPct = 30
		}, want: 40},
		{kind: experiment.CPUPctVs, arg: "fast", container: "large", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].CPUSystemPct = 30
			run("both", "fast").Containers[1].CPUUserPct = 60
		}, want: 0.5},
		{kind: experiment.CPUPctVs, arg: "fast", container: "large", want: unknown},

		{kind: experiment.RateVsCase, arg: "solo-large", container: "large", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].BytesPS /= 4
		}, want: 0.25},
		{kind: experiment.RateVsCase, arg: "solo-small/fast", container: "small", change: func(run func(string, string) *Run) {
			run("solo-small", "fast").Containers[0].BytesPS *= 2
		}, want: 0.5},
		{kind: experiment.RateVsCase, arg: "solo-small", container: "large", want: unknown}, // it is not there

		{kind: experiment.TotalVsCase, arg: "solo-small", want: 2},
		{kind: experiment.TotalVsCase, arg: "solo-small/fast", change: func(run func(string, string) *Run) {
			run("solo-small", "fast").Containers[0].BytesPS *= 4
		}, want: 0.5},
		{kind: experiment.TotalVsCase, arg: "solo-small", change: func(run func(string, string) *Run) {
			run("solo-small", "none").Containers[0] = Container{Name: "small", Weight: 1}
		}, want: unknown},
		{kind: experiment.IOPSVsCase, arg: "solo-small", change: func(run func(string, string) *Run) {
			run("solo-small", "none").Containers[0].IOPS = 500
		}, want: 4},
		{kind: experiment.IOPSVsCase, arg: "both/fast", want: 1},

		// Half of a CPU for 2000 requests a second is 250 us each.
		{kind: experiment.CPUNsPerIO, want: 250_000},
		{kind: experiment.CPUNsPerIO, change: func(run func(string, string) *Run) { run("both", "bfq").CPUBusyPct = 0 }, want: unknown},
		// The disk did twice as much while the CPU was looked at.
		{kind: experiment.CPUNsPerIO, change: func(run func(string, string) *Run) {
			run("both", "bfq").DiskBytesPS = 2 * 2 * 4096_000
		}, want: 125_000},
		{kind: experiment.CPUNsPerIOVs, arg: "fast", change: func(run func(string, string) *Run) { run("both", "fast").CPUBusyPct = 40 }, want: 1.25},
		{kind: experiment.CPUNsPerIOVs, arg: "fast", change: func(run func(string, string) *Run) { run("both", "fast").CPUBusyPct = 0 }, want: unknown},
		// The same scheduler there: 50 % for 1000; or another, at 20 %.
		{kind: experiment.CPUNsPerIOVsCase, arg: "solo-small", want: 0.5},
		{kind: experiment.CPUNsPerIOVsCase, arg: "solo-small/none", change: func(run func(string, string) *Run) {
			run("solo-small", "none").CPUBusyPct = 20
		}, want: 1.25},
	} {
		e, run, runs := inCases(t, "")
		if tt.change != nil {
			tt.change(run)
		}
		got := judged(t, e, *runs, experiment.Metric{Kind: tt.kind, Arg: tt.arg}, tt.direction, tt.container)
		what := strings.TrimSpace(tt.kind + " " + tt.arg + " " + tt.direction + " " + tt.container)
		switch {
		case got == nil && tt.want != unknown:
			t.Errorf("%s: not measured, want %g", what, tt.want)
		case got != nil && math.Abs(*got-tt.want) > 1e-9:
			t.Errorf("%s: %g, want %g", what, *got, tt.want)
		}
	}
}

// A container that is paused has its requests outstanding only while it is not.
func TestPausesAreNoWaiting(t *testing.T) {
	k := &experiment.Case{RampS: 1, DurationS: 4}
	for _, tt := range []struct {
		pauses []experiment.Pause
		want   float64
	}{
		{nil, 4},
		{[]experiment.Pause{{FromS: 2, ToS: 3}, {FromS: 4, ToS: 4.5}}, 2.5},
		{[]experiment.Pause{{FromS: 0.25, ToS: 0.75}, {FromS: 0.9, ToS: 1.5}}, 3.5}, // before it counts, and partly
	} {
		if got := sendingS(k, experiment.Container{EndS: 5, Pauses: tt.pauses}); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v: %g s, want %g", tt.pauses, got, tt.want)
		}
	}
}

func TestShareUnits(t *testing.T) {
	for _, tt := range []struct {
		unit       string
		share, err float64 // of small
	}{
		// small has 1000 requests of 4 KiB, large 250 of 64 KiB. Alone, small has
		// 1600 and large 1000: 5/8 against 2/8.
		{"bytes", 0.2, 100 * (1 - 0.2/0.75)},
		{"iops", 0.8, 100 * (0.8/0.75 - 1)},
		{"device_time", 5.0 / 7, 100 * (1 - 5.0/7/0.75)},
	} {
		e, run, runs := inCases(t, `share_unit = "`+tt.unit+`"`)
		large := &run("both", "bfq").Containers[1]
		large.IOPS, large.BytesPS = 250, 250*65536
		run("solo-small", "none").Containers[0].BytesPS = 1600 * 4096
		run("solo-large", "none").Containers[0].BytesPS = 1000 * 65536
		run("solo-large", "bfq").Containers[0].BytesPS = 1 // none's counts
		got := judged(t, e, *runs, experiment.Metric{Kind: experiment.ShareErrorPct}, "", "small")
		if got == nil || math.Abs(*got-tt.err) > 1e-6 {
			t.Errorf("%s: share error %v, want %g", tt.unit, got, tt.err)
		}
		got = judged(t, e, *runs, experiment.Metric{Kind: experiment.Share, Arg: "small"}, "", "")
		if got == nil || math.Abs(*got-tt.share) > 1e-9 {
			t.Errorf("%s: share %v, want %g", tt.unit, got, tt.share)
		}
		y := []float64{tt.share / 0.75, (1 - tt.share) / 0.25}
		jain := (y[0] + y[1]) * (y[0] + y[1]) / (2 * (y[0]*y[0] + y[1]*y[1]))
		got = judged(t, e, *runs, experiment.Metric{Kind: experiment.JainWeighted}, "", "")
		if got == nil || math.Abs(*got-jain) > 1e-9 {
			t.Errorf("%s: Jain %v, want %g", tt.unit, got, jain)
		}
	}
}

// The document says what its contenders are, and what they are compared with.
func TestDocumentOfVariants(t *testing.T) {
	e, run, runs := inCases(t, "share_unit = \"device_time\"\nreference_case = \"solo-small\"\ncritical = \"small\"")
	run("both", "fast").Containers[0].BytesPS *= 2
	judged(t, e, *runs, experiment.Metric{Kind: experiment.JainWeighted}, "", "")
	d, err := Merge(e, *runs)
	must.OK(t, err)
	r := d.run("both", "fast")
	if v := r.Variant; v == nil || v.Of != "bfq" || v.Label != "idle = 0" || v.Changes["slice_idle"] != "0" {
		t.Errorf("variant %+v", r.Variant)
	}
	if d.run("both", "bfq").Variant != nil {
		t.Error("bfq is a variant of itself")
	}
	if r.TotalVsReference == nil || *r.TotalVsReference != 3 || *r.TotalVsNone != 1.5 {
		t.Errorf("total_vs_reference %v, total_vs_none %v", r.TotalVsReference, r.TotalVsNone)
	}
	golden(t, "reference.txt", d)
	var b bytes.Buffer
	must.OK(t, d.WriteJSON(&b))
	var back Document
	must.OK(t, json.Unmarshal(b.Bytes(), &back))
	for _, want := range []string{
		`"share_unit": "device_time"`, `"reference_case": "solo-small"`, `"critical": "small"`, `"cpu_busy_pct": 50`, `"total_vs_reference": 3`, `"slice_idle": "0"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// A case may be of some contenders only, and each case has a reference of its own.
func TestMergeOfSomeSchedulers(t *testing.T) {
	e, run, runs := inCases(t, "")
	e.Cases[0].ReferenceCase, e.Cases[1].ReferenceCase = "solo-small", "solo-small"
	e.Cases[1].Schedulers = []string{"none"}
	e.Cases[2].Schedulers, e.Cases[2].ReferenceCase = []string{"fast", "none"}, "solo-large"
	run("solo-large", "fast").Containers[0].BytesPS /= 2
	for i := range *runs {
		(*runs)[i].Sum()
	}
	// What was left over from the others is not the document's.
	d, err := Merge(e, *runs)
	must.OK(t, err)
	var of []string
	for i := range d.Runs {
		r := &d.Runs[i]
		of = append(of, fmt.Sprintf("%s/%s %.1f", r.Case, r.Scheduler, *r.TotalVsReference))
	}
	want := []string{"both/none 2.0", "both/bfq 2.0", "both/fast 2.0", "solo-small/none 1.0", "solo-large/none 1.0", "solo-large/fast 0.5"}
	if !slices.Equal(of, want) {
		t.Errorf("runs %q, want %q", of, want)
	}
	var b bytes.Buffer
	must.OK(t, d.WriteTable(&b))
	for _, heading := range []string{"== both: reference: none in solo-small\n", "== solo-large: reference: none in solo-large\n"} {
		if !strings.Contains(b.String(), heading) {
			t.Errorf("no %q in\n%s", heading, b.String())
		}
	}
	*runs = slices.DeleteFunc(*runs, func(r Run) bool { return r.Case == "solo-large" && r.Scheduler == "fast" })
	if _, err := Merge(e, *runs); err == nil || !strings.Contains(err.Error(), "no run of solo-large: fast") {
		t.Errorf("one run less: %v", err)
	}
}

// The RSD paper's table 1, of depths 1 and 31, in the percentiles that it has: it reads 85 % off its figure 2.
func TestSoonerPct(t *testing.T) {
	run := func(l Latency) *Run {
		return &Run{Containers: []Container{{Name: "a", Read: &Direction{IOPS: 1, Lat: l}}}}
	}
	shallow := run(Latency{Mean: 430, P10: 397, P30: 417, P50: 430, P70: 441, P90: 460, P95: 470, P99: 490, P999: 509, P9999: 513, Max: 513})
	deep := run(Latency{Mean: 260, P10: 36, P30: 97, P50: 179, P70: 304, P90: 527, P95: 671, P99: 1030, P999: 1507, P9999: 1565, Max: 1565})
	for _, c := range []struct {
		name       string
		run, other *Run
		want       float64
	}{
		{"the curves cross", deep, shallow, 70 + 20*137.0/204},
		{"all are later, at first", shallow, deep, 0},
		{"all are sooner", run(Latency{Mean: 1, P10: 1, P30: 1, P50: 1, P70: 1, P90: 1, P95: 1, P99: 1, P999: 1, P9999: 1, Max: 1}), deep, 100},
		{"the same", deep, deep, 0},
	} {
		got, ok := c.run.soonerPct(c.other, experiment.Expectation{})
		if !ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, %v, want %v", c.name, got, ok, c.want)
		}
	}
	if _, ok := deep.soonerPct(shallow, experiment.Expectation{Container: "b"}); ok {
		t.Error("a container that is not there has a figure")
	}
}
