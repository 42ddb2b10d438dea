// SPDX-License-Identifier: MIT

package experiment

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/tomlfile"
)

// shared has two containers in a case, each of them alone in two others, and an
// expectation.
const shared = `name = "shared"
question = "Who gets how much of the disk's time?"
schedulers = ["none", "bfq", "kyber"]
share_unit = "device_time"
reference_case = "calm"
critical = "small"
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[case]]
name = "both"
[[case.container]]
name = "small"
weight = 200
[[case.container]]
name = "large"
weight = 100
[case.container.job]
bs = "128k"
[[case]]
name = "calm"
[[case.container]]
name = "small"
weight = 200
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
[case.container.job]
bs = "128k"
[[expect]]
case = "both"
scheduler = "bfq"
metric = "share_error_pct"
max = 2
`

func TestMetrics(t *testing.T) {
	const same = "both"
	for _, tt := range []struct {
		lines, subject  string
		name, scheduler string // of the run that it compares with
	}{
		{`metric = "share_error_pct"`, "share_error_pct", "", ""},
		{"metric = \"share_error_pct\"\ncontainer = \"small\"", "share_error_pct of small", "", ""},
		{`metric = "p99_vs_fair"`, "p99_vs_fair", "", ""},
		{"metric = \"p99_vs_fair\"\ndirection = \"write\"\ncontainer = \"large\"", "p99_vs_fair of writes of large", "", ""},
		{`metric = "p99_vs:kyber"`, "p99_vs:kyber", same, "kyber"},
		{"metric = \"p99_vs:none\"\ndirection = \"read\"", "p99_vs:none of reads", same, "none"},
		{"metric = \"p99_vs:none\"\ndirection = \"both\"", "p99_vs:none of reads and writes together", same, "none"},
		{`metric = "lat_vs_best.p99_9"`, "lat_vs_best.p99_9 of reads", "", ""},
		{"metric = \"lat_us.p99\"\ndirection = \"sync\"", "lat_us.p99 of fsyncs", "", ""},
		{"metric = \"bytes_per_s_vs_best\"\ndirection = \"write\"", "bytes_per_s_vs_best of writes", "", ""},
		{`metric = "total_vs_none"`, "total_vs_none", same, "none"},
		{`metric = "total_vs_case:calm"`, "total_vs_case:calm", "calm", "none"},
		{`metric = "total_vs_case:calm/bfq"`, "total_vs_case:calm/bfq", "calm", "bfq"},
		{`metric = "iops_vs_case:solo-small"`, "iops_vs_case:solo-small", "solo-small", "none"},
		{`metric = "iops_vs_case:calm/kyber"`, "iops_vs_case:calm/kyber", "calm", "kyber"},
		{`metric = "cpu_ns_per_io"`, "cpu_ns_per_io", "", ""},
		{`metric = "cpu_ns_per_io_vs:kyber"`, "cpu_ns_per_io_vs:kyber", same, "kyber"},
		{`metric = "cpu_ns_per_io_vs_case:calm"`, "cpu_ns_per_io_vs_case:calm", "calm", "bfq"}, // the same scheduler
		{`metric = "cpu_ns_per_io_vs_case:calm/kyber"`, "cpu_ns_per_io_vs_case:calm/kyber", "calm", "kyber"},
	} {
		e, err := Parse("x", []byte(strings.Replace(shared, `metric = "share_error_pct"`, tt.lines, 1)))
		if err != nil {
			t.Error(err)
			continue
		}
		x := e.Expect[0]
		if want := "both: bfq: " + tt.subject; x.Subject() != want {
			t.Errorf("subject %q, want %q", x.Subject(), want)
		}
		if name, scheduler, ok := x.Reference(); name != tt.name || scheduler != tt.scheduler || ok != (tt.name != "") {
			t.Errorf("%s compares with %q, %q, %t", tt.subject, name, scheduler, ok)
		}
	}
}

func TestParseRefusesMetrics(t *testing.T) {
	const old = `metric = "share_error_pct"`
	cases := "both, calm, solo-small, solo-large"
	refuses(t, shared, []struct{ name, old, new, want string }{
		{"share error with an argument", old, `metric = "share_error_pct:small"`,
			`x:44: expect.metric: "share_error_pct" takes nothing after it; allowed: ` + allMetrics()},
		{"bytes of fsyncs", old, "metric = \"bytes_per_s\"\ndirection = \"sync\"\nmin = 1",
			`x:45: expect.direction: "sync" is not allowed; allowed: read, write, both`},
		{"share error of a direction", old, old + "\ndirection = \"read\"",
			"x:45: expect.direction: means nothing for share_error_pct; allowed: only with iops, bytes_per_s, lat_us, p99_vs_fair, p99_vs, lat_us_vs, bytes_per_s_vs_case, lat_vs_best, bytes_per_s_vs_best, sooner_pct_vs_case, p99_vs_case"},
		{"share error of nobody", old, old + "\ncontainer = \"tv\"",
			`x:45: expect.container: "tv" is not one of the experiment's containers; allowed: small, large`},
		{"p99 against nobody", old, `metric = "p99_vs"`,
			`x:44: expect.metric: "" is not one of the experiment's schedulers; allowed: none, bfq, kyber`},
		{"p99 against an absent scheduler", old, `metric = "p99_vs:iocost"`,
			`x:44: expect.metric: "iocost" is not one of the experiment's schedulers; allowed: none, bfq, kyber`},
		{"total against an absent case", old, `metric = "total_vs_case:storm"`,
			`x:44: expect.metric: "storm" is not one of the experiment's cases; allowed: ` + cases},
		{"total against no case", old, `metric = "total_vs_case:"`,
			`x:44: expect.metric: "" is not one of the experiment's cases; allowed: ` + cases},
		{"requests against an absent scheduler", old, `metric = "iops_vs_case:calm/iocost"`,
			`x:44: expect.metric: "iocost" is not one of the experiment's schedulers; allowed: none, bfq, kyber`},
		{"a dot for a colon", old, `metric = "total_vs_case.calm"`,
			`x:44: expect.metric: unknown metric "total_vs_case.calm"; allowed: ` + allMetrics()},
		{"CPU of a container", old, "metric = \"cpu_ns_per_io\"\ncontainer = \"small\"",
			"x:45: expect.container: means nothing for cpu_ns_per_io; allowed: only with share_error_pct, iops, bytes_per_s, lat_us, p99_vs_fair, p99_vs, lat_us_vs, cpu_pct, cpu_pct_vs, bytes_per_s_vs_case, lat_vs_best, bytes_per_s_vs_best, finish_vs_best, finish_ms, sooner_pct_vs_case, p99_vs_case, settle_ms, gap_ms"},
		{"CPU against an absent case", old, `metric = "cpu_ns_per_io_vs_case:storm"`,
			`x:44: expect.metric: "storm" is not one of the experiment's cases; allowed: ` + cases},

		{"unknown unit", `"device_time"`, `"seconds"`,
			`x:4: share_unit: unknown unit "seconds"; allowed: bytes, iops, device_time, operations`},
		{"device time without none", `["none", `, "[",
			"x:4: share_unit: device_time needs none among the schedulers; allowed: another unit, or add none"},
		{"device time without a container's own case", `"solo-large"`, `"alone-large"`,
			"x:4: share_unit: device_time needs a case solo-large; allowed: a case with that container alone, or another unit"},
		{"somebody else in a container's own case", "name = \"solo-small\"\n[[case.container]]\nname = \"small\"", "name = \"solo-small\"\n[[case.container]]\nname = \"large\"",
			"x:4: share_unit: case solo-small is not of container small alone; allowed: one container, of that name"},
		{"another job alone", "weight = 100\n[case.container.job]\nbs = \"128k\"", "weight = 100\n[case.container.job]\nbs = \"64k\"",
			"x:4: share_unit: container large has another job or device in case solo-large than in case both; allowed: the same, so that the rates compare"},
		{"another device alone", `name = "solo-small"`, "name = \"solo-small\"\ndevice.tags = 16",
			"x:4: share_unit: container small has another job or device in case solo-small than in case both; allowed: the same, so that the rates compare"},
		{"absent reference", `reference_case = "calm"`, `reference_case = "storm"`,
			`x:5: reference_case: "storm" is not one of the experiment's cases; allowed: ` + cases},
		{"absent critical container", `critical = "small"`, `critical = "tiny"`,
			`x:6: critical: "tiny" is not one of the experiment's containers; allowed: large, small`},
	})
	noNone := strings.NewReplacer(`["none", `, "[", "device_time", "bytes", old, `metric = "total_vs_case:calm"`).Replace(shared)
	refuses(t, noNone, []struct{ name, old, new, want string }{
		{"a reference without none", `name = "shared"`, `name = "other"`,
			`x:5: reference_case: "none" is not one of the experiment's schedulers; allowed: bfq, kyber`},
		{"a total without none", "reference_case = \"calm\"\n", "",
			`x:43: expect.metric: total_vs_case needs none among the schedulers; allowed: another metric, or add none`},
	})
	refuses(t, valid, []struct{ name, old, new, want string }{
		{"a case where there is none", `metric = "jain_weighted"`, `metric = "total_vs_case:x"`,
			`x:34: expect.metric: "x" is not one of the experiment's cases; allowed: none, it lists no cases`},
	})
}

// What a selection cannot answer is dropped, and only that.
func TestSelectKeepsWhatItMeasures(t *testing.T) {
	text := strings.Replace(shared, "[[expect]]", `[[expect]]
case = "both"
scheduler = "bfq"
metric = "total_vs_case:calm/kyber"
min = 1
[[expect]]
case = "both"
scheduler = "bfq"
metric = "cpu_ns_per_io_vs_case:calm"
max = 1
[[expect]]`, 1)
	e, err := Parse("x", []byte(text))
	must.OK(t, err)
	for _, tt := range []struct {
		schedulers, cases []string
		kinds             []string
		unit, reference   string
	}{
		{nil, nil, []string{TotalVsCase, CPUNsPerIOVsCase, ShareErrorPct}, UnitDeviceTime, "calm"},
		{[]string{"none", "bfq"}, nil, []string{CPUNsPerIOVsCase, ShareErrorPct}, UnitDeviceTime, "calm"},
		{[]string{"bfq", "kyber"}, nil, []string{TotalVsCase, CPUNsPerIOVsCase}, UnitBytes, ""},
		{nil, []string{"both", "solo-small", "solo-large"}, []string{ShareErrorPct}, UnitDeviceTime, ""},
		{nil, []string{"both", "solo-small"}, nil, UnitBytes, ""},
		{nil, []string{"calm"}, nil, UnitBytes, "calm"},
	} {
		s, err := e.Select(tt.schedulers, tt.cases)
		must.OK(t, err)
		var kinds []string
		for _, x := range s.Expect {
			kinds = append(kinds, x.Metric.Kind)
		}
		if !slices.Equal(kinds, tt.kinds) || s.ShareUnit != tt.unit || s.Cases[0].ReferenceCase != tt.reference {
			t.Errorf("%q in %q: expectations %q, unit %s, reference %q", tt.schedulers, tt.cases, kinds, s.ShareUnit, s.Cases[0].ReferenceCase)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, tt := range []struct {
		job  Job
		want int
	}{
		{Job{}, 1},
		{Job{"iodepth": "32"}, 1}, // fio's own engine waits for each request
		{Job{"iodepth": "32", "ioengine": "psync", "numjobs": "3"}, 3},
		{Job{"iodepth": "32", "ioengine": "libaio"}, 32},
		{Job{"iodepth": "32", "ioengine": "io_uring", "numjobs": "4"}, 128},
	} {
		if got := tt.job.Depth(); got != tt.want {
			t.Errorf("%v: depth %d, want %d", tt.job, got, tt.want)
		}
	}
}

// docs/experiments.md names every metric, every disk and every key of the file's top, and its
// first example is one that is taken.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/experiments.md")
	must.OK(t, err)
	doc := string(text)
	for _, f := range metricForms {
		written := strings.TrimSuffix(f.String(), "[/SCHEDULER]")
		if !strings.Contains(doc, "`"+written+"`") {
			t.Errorf("docs/experiments.md has no `%s`", written)
		}
	}
	keys := slices.Concat(tomlfile.Keys(reflect.TypeFor[fileContender]()), tomlfile.Keys(reflect.TypeFor[fileProgram]()))
	for _, key := range append(keys, "programs", "per_s", "latency", "unit", "share_unit", "critical", "reference_case", "case", "expect") {
		if !strings.Contains(doc, key) {
			t.Errorf("docs/experiments.md has no key %s", key)
		}
	}
	for _, name := range diskNames() {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("docs/experiments.md has no disk `%s`", name)
		}
	}
	var example strings.Builder
	for line := range strings.Lines(doc[strings.Index(doc, "    name ="):strings.Index(doc, "\n## ")]) {
		example.WriteString(strings.TrimPrefix(line, "    "))
	}
	if _, err := Parse("docs/experiments.md", []byte(example.String())); err != nil {
		t.Error(err)
	}
}
