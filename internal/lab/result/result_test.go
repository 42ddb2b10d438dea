// SPDX-License-Identifier: MIT

package result

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

func TestJain(t *testing.T) {
	tests := []struct {
		name string
		rate []float64
		w    []float64
		want float64
	}{
		{"by weight", []float64{1000, 500, 250, 100}, []float64{1000, 500, 250, 100}, 1},
		// y = 1/1000, 1/500, 1/250, 1/100; sum 0.017, squares 0.000121;
		// 0.000289 / 0.000484.
		{"equal under 10:5:2.5:1", []float64{1, 1, 1, 1}, []float64{1000, 500, 250, 100}, 289.0 / 484.0},
		{"one has all", []float64{7, 0, 0, 0}, []float64{1, 1, 1, 1}, 0.25},
		// y = 1, 2: 9 / (2 * 5).
		{"twice its due", []float64{1, 2}, []float64{1, 1}, 0.9},
		{"nothing", []float64{0, 0}, []float64{1, 1}, 0},
		{"nobody", nil, nil, 0},
	}
	for _, tt := range tests {
		if got := Jain(tt.rate, tt.w); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: Jain = %.15f, want %.15f", tt.name, got, tt.want)
		}
	}
}

// run makes a run whose four containers have the given MiB/s.
func run(scheduler string, mibs ...float64) Run {
	r := Run{
		Scheduler: scheduler, Device: "null_blk, completion 1000 us, 1 queue of 32 tags, 4096 MiB",
		Kernel: "6.1.0-56-cloud-amd64", Fio: "fio-3.33", CPUBusyPct: 52,
	}
	for i, weight := range []int{1000, 500, 250, 100} {
		rate := mibs[i] * (1 << 20)
		r.Containers = append(r.Containers, Container{
			Name: fmt.Sprintf("w%d", weight), Weight: weight, BytesPS: rate, IOPS: rate / 4096,
			CPUUserPct: 1.5, CPUSystemPct: 10,
			Read: &Direction{BytesPS: rate, IOPS: rate / 4096, Lat: Latency{
				Mean: 1100, P50: 1004.512, P90: 2000, P99: 62390.26, P999: 70000, P9999: 80000, Max: 1052770.123}},
		})
	}
	r.Sum()
	return r
}

func TestLatencyOf(t *testing.T) {
	var us []float64
	for i := range 1000 {
		us = append(us, float64(1000-i))
	}
	l := LatencyOf(us)
	want := Latency{Mean: 500.5, P10: 100, P30: 300, P50: 500, P70: 700, P90: 900, P95: 950, P99: 990, P999: 999, P9999: 1000, Max: 1000}
	if l != want {
		t.Errorf("of 1 to 1000:\n got %+v\nwant %+v", l, want)
	}
	if one := LatencyOf([]float64{7}); one.P10 != 7 || one.Max != 7 || one.Mean != 7 {
		t.Errorf("of one: %+v", one)
	}
	if none := LatencyOf(nil); none != (Latency{}) {
		t.Errorf("of none: %+v", none)
	}
}

func TestSum(t *testing.T) {
	r := run("bfq", 40, 20, 10, 4)
	if r.TotalBytesPS != 74*(1<<20) || r.TotalIOPS != 74*256 {
		t.Errorf("totals %g bytes/s, %g IOPS", r.TotalBytesPS, r.TotalIOPS)
	}
	if r.CPUUserPct != 6 || r.CPUSystemPct != 40 {
		t.Errorf("CPU %g user, %g system", r.CPUUserPct, r.CPUSystemPct)
	}
	if got, want := r.Containers[3].EntitledShare, 100.0/1850; got != want {
		t.Errorf("entitled %g, want %g", got, want)
	}
	if got, want := r.Containers[3].Share, 4.0/74; math.Abs(got-want) > 1e-15 {
		t.Errorf("share %g, want %g", got, want)
	}
	if math.Abs(r.JainWeighted-1) > 1e-12 {
		t.Errorf("Jain %g, want 1", r.JainWeighted)
	}
	before := r
	before.Containers = slices.Clone(r.Containers)
	r.Sum()
	if !reflect.DeepEqual(r, before) {
		t.Error("a second Sum changes the run")
	}
}

func testExperiment(schedulers ...string) *experiment.Experiment {
	return &experiment.Experiment{
		Name: "report-rand-read", Question: "Do four containers share 4 KiB random reads by weight?",
		Answers: "document 004, figure 36a", Schedulers: schedulers,
		Cases: []experiment.Case{{}},
	}
}

func TestMergeOrdersAndCompares(t *testing.T) {
	d, err := Merge(testExperiment("none", "bfq"), []Run{run("bfq", 30, 15, 7.5, 3), run("none", 30, 30, 30, 30)})
	must.OK(t, err)
	if d.Runs[0].Scheduler != "none" || d.Runs[1].Scheduler != "bfq" {
		t.Errorf("order %s, %s", d.Runs[0].Scheduler, d.Runs[1].Scheduler)
	}
	if d.Kernel != "6.1.0-56-cloud-amd64" || d.Fio != "fio-3.33" || d.Runs[0].Kernel != "" {
		t.Errorf("kernel %q, fio %q, run's kernel %q", d.Kernel, d.Fio, d.Runs[0].Kernel)
	}
	if got := *d.Runs[1].TotalVsNone; got != 55.5/120 {
		t.Errorf("total_vs_none = %g, want %g", got, 55.5/120)
	}
}

func TestMergeWithoutNone(t *testing.T) {
	d, err := Merge(testExperiment("bfq"), []Run{run("bfq", 30, 15, 7.5, 3)})
	must.OK(t, err)
	if d.Runs[0].TotalVsNone != nil {
		t.Errorf("total_vs_none = %g, want null", *d.Runs[0].TotalVsNone)
	}
}

func TestMergeRefuses(t *testing.T) {
	other := run("bfq", 1, 1, 1, 1)
	other.Kernel = "6.12.1"
	if _, err := Merge(testExperiment("none", "bfq"), []Run{run("none", 1, 1, 1, 1), other}); err == nil {
		t.Error("Merge took runs of two kernels")
	}
	if _, err := Merge(testExperiment("none", "bfq"), []Run{run("none", 1, 1, 1, 1)}); err == nil {
		t.Error("Merge took a document without bfq's run")
	}
}

func TestExpectations(t *testing.T) {
	metric := func(kind, arg string) experiment.Metric { return experiment.Metric{Kind: kind, Arg: arg} }
	low := func(m experiment.Metric, v float64) experiment.Expectation {
		return experiment.Expectation{Scheduler: "bfq", Metric: m, Min: &v}
	}
	high := func(m experiment.Metric, v float64) experiment.Expectation {
		return experiment.Expectation{Scheduler: "bfq", Metric: m, Max: &v}
	}
	// bfq: 30, 15, 7.5, 3 of 55.5 MiB/s: by weight. none: 120 MiB/s.
	tests := []struct {
		x    experiment.Expectation
		want string // "" if it holds
	}{
		{low(metric(experiment.JainWeighted, ""), 0.9999), ""},
		{high(metric(experiment.JainWeighted, ""), 0.9), "bfq: jain_weighted <= 0.9: measured 1"},
		{low(metric(experiment.TotalVsNone, ""), 0.4625), ""},
		{low(metric(experiment.TotalVsNone, ""), 0.9), "bfq: total_vs_none >= 0.9: measured 0.4625"},
		{low(metric(experiment.TotalVs, "none"), 0.47), "bfq: total_vs:none >= 0.47: measured 0.4625"},
		{low(metric(experiment.TotalIOPS, ""), 14208), ""},
		{high(metric(experiment.TotalBytesPS, ""), 1), "bfq: total_bytes_per_s <= 1: measured 58196000"},
		{high(metric(experiment.Share, "w100"), 0.05), "bfq: share:w100 <= 0.05: measured 0.0540541"},
		{high(metric(experiment.ReadP99US, "w100"), 63000), ""},
		{high(metric(experiment.WriteP99US, "w100"), 63000), "bfq: write_p99_us:w100 <= 63000: not measured"},
	}
	for _, tt := range tests {
		e := testExperiment("none", "bfq")
		e.Expect = []experiment.Expectation{tt.x}
		d, err := Merge(e, []Run{run("none", 30, 30, 30, 30), run("bfq", 30, 15, 7.5, 3)})
		must.OK(t, err)
		if got := strings.Join(d.Unmet, "|"); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.x, got, tt.want)
		}
	}
}

// withCases are two contenders in two cases, of which the second is half as fast.
func withCases(t *testing.T, expect ...experiment.Expectation) *Document {
	t.Helper()
	e := testExperiment("none", "bfq")
	e.Cases = []experiment.Case{{Name: "full"}, {Name: "half"}}
	e.Expect = expect
	var runs []Run
	for i, k := range e.Cases {
		by := float64(i + 1)
		none, bfq := run("none", 30/by, 30/by, 30/by, 30/by), run("bfq", 30/by, 15/by, 7.5/by, 3)
		none.Case, bfq.Case = k.Name, k.Name
		none.Device = "modeldisk " + k.Name
		bfq.Device = none.Device
		bfq.DeviceStat = map[string]float64{"write_amplification": 1.25 * by}
		bfq.Containers[1].Read.Lat.P95 = 5000 * by
		bfq.Containers[2].Write = &Direction{BytesPS: 4096, IOPS: 1, Lat: Latency{P10: 10, Max: 20}}
		runs = append(runs, bfq, none)
	}
	d, err := Merge(e, runs)
	must.OK(t, err)
	return d
}

func TestMergeCases(t *testing.T) {
	d := withCases(t)
	var order []string
	for _, r := range d.Runs {
		order = append(order, Label(r.Case, r.Scheduler))
	}
	if want := []string{"full: none", "full: bfq", "half: none", "half: bfq"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	// Against none of the same case: 55.5 of 120 and 29.25 of 60 MiB/s.
	if full, half := *d.Runs[1].TotalVsNone, *d.Runs[3].TotalVsNone; full != 55.5/120 || half != 29.25/60 {
		t.Errorf("total_vs_none %g and %g", full, half)
	}
	e := testExperiment("none")
	e.Cases = []experiment.Case{{Name: "other"}}
	if _, err := Merge(e, d.Runs); err == nil || !strings.Contains(err.Error(), "no run of other: none") {
		t.Errorf("Merge without a case's run: %v", err)
	}
	golden(t, "cases.txt", d)
}

func TestVerdicts(t *testing.T) {
	want, pct := 55.5*256, 1.0
	expect := func(kind, arg, direction, container string) experiment.Expectation {
		return experiment.Expectation{
			Case: "full", Scheduler: "bfq", Metric: experiment.Metric{Kind: kind, Arg: arg},
			Direction: direction, Container: container, Want: &want, WithinPct: &pct,
		}
	}
	tests := []struct {
		x      experiment.Expectation
		metric string
		got    float64 // below 0: not measured
	}{
		{expect(experiment.IOPS, "", "", ""), "iops", 55.5 * 256},
		{expect(experiment.IOPS, "", "read", "w250"), "iops of reads of w250", 7.5 * 256},
		{expect(experiment.IOPS, "", "write", ""), "iops of writes", 1},
		{expect(experiment.BytesPS, "", "", "w100"), "bytes_per_s of w100", 3 << 20},
		{expect(experiment.BytesPS, "", "write", "w100"), "bytes_per_s of writes of w100", 0},
		{expect(experiment.LatUS, "p95", "read", ""), "lat_us.p95 of reads", 5000}, // the slowest container's
		{expect(experiment.LatUS, "p50", "read", "w500"), "lat_us.p50 of reads of w500", 1004.512},
		{expect(experiment.LatUS, "p10", "write", ""), "lat_us.p10 of writes", 10},
		{expect(experiment.LatUS, "p10", "write", "w100"), "lat_us.p10 of writes of w100", -1},
		{expect(experiment.DeviceStat, "write_amplification", "", ""), "device_stat.write_amplification", 1.25},
		{expect(experiment.DeviceStat, "news", "", ""), "device_stat.news", -1},
	}
	for _, tt := range tests {
		v := withCases(t, tt.x).Verdicts[0]
		if v.Case != "full" || v.Scheduler != "bfq" || v.Metric != tt.metric || v.Wanted != "14208 within 1 %" {
			t.Errorf("verdict %+v", v)
		}
		switch {
		case tt.got < 0 && v.Got != nil:
			t.Errorf("%s: got %g, want nothing", v.Metric, *v.Got)
		case tt.got >= 0 && (v.Got == nil || *v.Got != tt.got):
			t.Errorf("%s: got %v, want %g", v.Metric, v.Got, tt.got)
		case v.Met != (tt.got == want):
			t.Errorf("%s: met %t", v.Metric, v.Met)
		}
	}
}

// A case has its own heading, and a disk of its own if they differ; what was
// expected stands at the end.
func TestTableOfExpectations(t *testing.T) {
	want, pct, high := 60.0, 3.0, 15.0
	golden(t, "expected.txt", withCases(t,
		experiment.Expectation{Case: "full", Scheduler: "none", Metric: experiment.Metric{Kind: experiment.TotalIOPS}, Want: &want, WithinPct: &pct},
		experiment.Expectation{Case: "half", Scheduler: "bfq", Metric: experiment.Metric{Kind: experiment.LatUS, Arg: "p10"}, Direction: "write", Max: &high},
		experiment.Expectation{Case: "half", Scheduler: "none", Metric: experiment.Metric{Kind: experiment.DeviceStat, Arg: "stalls"}, Max: &high},
	))
}

func TestWriteJSONOfCases(t *testing.T) {
	want, pct := 1.0, 100.0
	d := withCases(t, experiment.Expectation{
		Case: "half", Scheduler: "bfq", Metric: experiment.Metric{Kind: experiment.JainWeighted}, Want: &want, WithinPct: &pct,
	})
	d.Runs[1].DeviceStat["write_amplification"] = 4.0 / 3
	var b bytes.Buffer
	must.OK(t, d.WriteJSON(&b))
	for _, want := range []string{
		`"case": "half",`, `"write_amplification": 1.333333`, `"p95": 10000,`, `"met": true`,
		`"metric": "jain_weighted",`, `"wanted": "1 within 100 %",`, `"got": 0.89`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	if d.Runs[1].DeviceStat["write_amplification"] != 4.0/3 || *d.Verdicts[0].Got != d.Runs[3].JainWeighted {
		t.Error("WriteJSON rounded the document itself")
	}
}

func TestWriteJSONRoundsAndKeepsTheDocument(t *testing.T) {
	d, err := Merge(testExperiment("none", "bfq"), []Run{run("none", 10.1234567, 10, 10, 10), run("bfq", 9, 4.5, 2.25, 0.9)})
	must.OK(t, err)
	share := d.Runs[0].Containers[0].Share
	var a, b bytes.Buffer
	must.OK(t, d.WriteJSON(&a))
	must.OK(t, d.WriteJSON(&b))
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two writes differ")
	}
	if d.Runs[0].Containers[0].Share != share {
		t.Error("WriteJSON rounded the document itself")
	}
	for _, want := range []string{
		`"schema": 1`, `"total_vs_none": 0.414969`, `"share": 0.252308`, `"entitled_share": 0.540541`,
		`"p50": 1004.5`, `"p99": 62390.3`, `"max": 1052770.1`, `"p99_9": 70000`, `"lat_us": {`,
	} {
		if !strings.Contains(a.String(), want) {
			t.Errorf("no %s in\n%s", want, a.String())
		}
	}
	for _, no := range []string{`"write"`, `"unmet"`, `"settings"`, `"case"`, `"expectations"`, `"device_stat"`} {
		if strings.Contains(a.String(), no) {
			t.Errorf("%s is printed although it is empty", no)
		}
	}
	var back Document
	must.OK(t, json.Unmarshal(a.Bytes(), &back))
	if !reflect.DeepEqual(&back, d.rounded()) {
		t.Error("the printed document reads back as another")
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, d *Document) {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, d.WriteTable(&b))
	for line := range strings.Lines(b.String()) {
		if len(strings.TrimRight(line, "\n")) > tableWidth {
			t.Errorf("line wider than %d: %q", tableWidth, line)
		}
		if strings.HasSuffix(line, " \n") {
			t.Errorf("space at the end of %q", line)
		}
	}
	file := "testdata/" + name
	if *update {
		must.OK(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	must.OK(t, err)
	if b.String() != string(want) {
		t.Errorf("table:\n%s\nwant %s:\n%s", b.String(), file, want)
	}
}

func TestTable(t *testing.T) {
	e := testExperiment("none", "bfq", "kyber-fairness")
	low := 0.9
	e.Expect = []experiment.Expectation{{Scheduler: "bfq", Metric: experiment.Metric{Kind: experiment.TotalVsNone}, Min: &low}}
	kf := run("kyber-fairness", 62, 31, 15.5, 6.2)
	kf.Containers[3].Write = &Direction{Lat: Latency{P50: 12.3, P99: 123456}}
	d, err := Merge(e, []Run{run("none", 30, 30, 30, 30), run("bfq", 30, 15, 7.5, 3), kf})
	must.OK(t, err)
	golden(t, "four.txt", d)
}

func TestTableOfManyContainersWraps(t *testing.T) {
	r := run("none", 1, 1, 1, 1)
	for i := range 12 {
		c := r.Containers[0]
		c.Name = fmt.Sprintf("another-%d", i)
		r.Containers = append(r.Containers, c)
	}
	r.Sum()
	d, err := Merge(testExperiment("none"), []Run{r})
	must.OK(t, err)
	golden(t, "many.txt", d)
}
