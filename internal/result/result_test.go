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

	"isolio/internal/experiment"
)

func TestJain(t *testing.T) {
	tests := []struct {
		name string
		rate []float64
		w    []int
		want float64
	}{
		{"by weight", []float64{1000, 500, 250, 100}, []int{1000, 500, 250, 100}, 1},
		// y = 1/1000, 1/500, 1/250, 1/100; sum 0.017, squares 0.000121;
		// 0.000289 / 0.000484.
		{"equal under 10:5:2.5:1", []float64{1, 1, 1, 1}, []int{1000, 500, 250, 100}, 289.0 / 484.0},
		{"one has all", []float64{7, 0, 0, 0}, []int{1, 1, 1, 1}, 0.25},
		// y = 1, 2: 9 / (2 * 5).
		{"twice its due", []float64{1, 2}, []int{1, 1}, 0.9},
		{"nothing", []float64{0, 0}, []int{1, 1}, 0},
		{"nobody", nil, nil, 0},
	}
	for _, tt := range tests {
		var cs []Container
		for i := range tt.rate {
			cs = append(cs, Container{Weight: tt.w[i], BytesPS: tt.rate[i]})
		}
		if got := Jain(cs); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: Jain = %.15f, want %.15f", tt.name, got, tt.want)
		}
	}
}

// run makes a run whose four containers have the given MiB/s.
func run(scheduler string, mibs ...float64) Run {
	r := Run{
		Scheduler: scheduler, Device: "null_blk, completion 1000 us, 1 queue of 32 tags, 4096 MiB",
		Kernel: "6.1.0-56-cloud-amd64", Fio: "fio-3.33",
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
	}
}

func TestMergeOrdersAndCompares(t *testing.T) {
	d, err := Merge(testExperiment("none", "bfq"), []Run{run("bfq", 30, 15, 7.5, 3), run("none", 30, 30, 30, 30)})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		{high(metric(experiment.TotalBytesPS, ""), 1), "bfq: total_bytes_per_s <= 1: measured 5.8196e+07"},
		{high(metric(experiment.Share, "w100"), 0.05), "bfq: share:w100 <= 0.05: measured 0.0540541"},
		{high(metric(experiment.ReadP99US, "w100"), 63000), ""},
		{high(metric(experiment.WriteP99US, "w100"), 63000), "bfq: write_p99_us:w100 <= 63000: not measured"},
	}
	for _, tt := range tests {
		e := testExperiment("none", "bfq")
		e.Expect = []experiment.Expectation{tt.x}
		d, err := Merge(e, []Run{run("none", 30, 30, 30, 30), run("bfq", 30, 15, 7.5, 3)})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Unmet, "|"); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.x, got, tt.want)
		}
	}
}

func TestWriteJSONRoundsAndKeepsTheDocument(t *testing.T) {
	d, err := Merge(testExperiment("none", "bfq"), []Run{run("none", 10.1234567, 10, 10, 10), run("bfq", 9, 4.5, 2.25, 0.9)})
	if err != nil {
		t.Fatal(err)
	}
	share := d.Runs[0].Containers[0].Share
	var a, b bytes.Buffer
	if err = d.WriteJSON(&a); err != nil {
		t.Fatal(err)
	}
	if err = d.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
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
	for _, no := range []string{`"write"`, `"unmet"`, `"settings"`} {
		if strings.Contains(a.String(), no) {
			t.Errorf("%s is printed although it is empty", no)
		}
	}
	var back Document
	if err := json.Unmarshal(a.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&back, d.rounded()) {
		t.Error("the printed document reads back as another")
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, d *Document) {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "many.txt", d)
}
