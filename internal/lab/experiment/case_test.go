// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"slices"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const withCases = `name = "m"
question = "What changes?"
schedulers = ["none", "bfq"]
ramp_s = 1
duration_s = 2

[device]
kind = "modeldisk"
model = "hdd"
preset = "desktop"
[device.params]
ncq_depth = 4
rpm = 7200

[job]
rw = "randread"
bs = "4k"

[[container]]
name = "a"
weight = 100

[[case]]
name = "base"

[[case]]
name = "deep"
duration_s = 20.5
cpus = 4
[case.device]
tags = 32
[case.device.params]
ncq_depth = 31
[case.job]
bs = "8k"

[[case]]
name = "nvme"
[case.device]
model = "nvme"
[[case.container]]
name = "x"
weight = 1
[[case.container]]
name = "y"
weight = 2
start_s = 0.5
[case.container.job]
rw = "write"

[[case]]
name = "ideal"
[case.device]
kind = "null_blk"
completion_us = 1000
tags = 32

[[expect]]
scheduler = "none"
metric = "total_iops"
min = 1

[[expect]]
scheduler = "bfq"
case = "nvme"
metric = "lat_us.p99_9"
container = "y"
direction = "write"
want = 100
within_pct = 5
`

func parseCases(t *testing.T) *Experiment {
	t.Helper()
	e, err := Parse("x", []byte(withCases))
	must.OK(t, err)
	return e
}

func TestParseCases(t *testing.T) {
	a := Container{Name: "a", Weight: 100, Cgroup: "a", EndS: 3, Job: Job{"rw": "randread", "bs": "4k"}}
	hdd := Model{Name: "hdd", Preset: "desktop", Scale: 1, Seed: 1, Params: map[string]int64{"ncq_depth": 4, "rpm": 7200}}
	deep, deepA := hdd, a
	deep.Params = map[string]int64{"ncq_depth": 31, "rpm": 7200}
	deepA.EndS, deepA.Job = 21.5, Job{"rw": "randread", "bs": "8k"}
	want := []Case{
		{Name: "base", RampS: 1, DurationS: 2, CPUs: 1, Seeds: 1, Device: Device{Kind: ModelDisk, Tags: 64, Queues: 1, Model: hdd}, Containers: []Container{a}},
		{Name: "deep", RampS: 1, DurationS: 20.5, CPUs: 4, Seeds: 1, Device: Device{Kind: ModelDisk, Tags: 32, Queues: 1, Model: deep}, Containers: []Container{deepA}},
		// Another model has nothing of the preset and the parameters.
		{Name: "nvme", RampS: 1, DurationS: 2, CPUs: 1, Seeds: 1,
			Device: Device{Kind: ModelDisk, Tags: 64, Queues: 1, Model: Model{Name: "nvme", Scale: 1, Seed: 1}},
			Containers: []Container{
				{Name: "x", Weight: 1, Cgroup: "x", EndS: 3, Job: Job{"rw": "randread", "bs": "4k"}},
				{Name: "y", Weight: 2, Cgroup: "y", StartS: 0.5, EndS: 3, Job: Job{"rw": "write", "bs": "4k"}},
			}},
		{Name: "ideal", RampS: 1, DurationS: 2, CPUs: 1, Seeds: 1, Device: Device{Kind: NullBlk, CompletionUS: 1000, Tags: 32, Queues: 1, SizeMiB: 4096},
			Containers: []Container{a}},
	}
	e := parseCases(t)
	for i := range want {
		if !reflect.DeepEqual(e.Cases[i], want[i]) {
			t.Errorf("case %s\n got %+v\nwant %+v", want[i].Name, e.Cases[i], want[i])
		}
	}
	if !e.Writes() {
		t.Error("Writes = false, want true: y of nvme writes")
	}
	// Without a case, an expectation is about each of them.
	var about []string
	for _, x := range e.Expect {
		about = append(about, x.String())
	}
	if want := []string{
		"base: none: total_iops >= 1", "deep: none: total_iops >= 1", "nvme: none: total_iops >= 1", "ideal: none: total_iops >= 1",
		"nvme: bfq: lat_us.p99_9 of writes of y 100 within 5 %",
	}; !slices.Equal(about, want) {
		t.Errorf("expectations\n got %q\nwant %q", about, want)
	}
}

func TestSelectCases(t *testing.T) {
	e := parseCases(t)
	s, err := e.Select([]string{"none"}, []string{"nvme", "deep"})
	must.OK(t, err)
	if len(s.Cases) != 2 || s.Cases[0].Name != "deep" || s.Cases[1].Name != "nvme" {
		t.Errorf("cases %+v, want deep and nvme, in the experiment's order", s.Cases)
	}
	if len(s.Expect) != 2 || s.Expect[0].Case != "deep" || s.Expect[1].Case != "nvme" {
		t.Errorf("expectations %v, want those of none in deep and nvme", s.Expect)
	}
	if len(e.Cases) != 4 || len(e.Schedulers) != 2 {
		t.Error("Select changed the experiment it was called on")
	}
	if _, err = e.Select(nil, []string{"flat"}); failure.Code(err) != failure.Usage ||
		err.Error() != `x: cases: "flat" is not among the experiment's; allowed: base, deep, nvme, ideal` {
		t.Errorf("Select of an absent case: %v", err)
	}
	e, err = Parse("x", []byte(valid))
	must.OK(t, err)
	if _, err = e.Select(nil, []string{""}); err == nil || err.Error() != `x: cases: "" is not among the experiment's; allowed: none, it lists no cases` {
		t.Errorf("Select of a case where there are none: %v", err)
	}
}

func TestParseRefusesCases(t *testing.T) {
	refuses(t, withCases, []struct{ name, old, new, want string }{
		{"wrong in all cases", "bs = \"4k\"", "bs = \"4q\"",
			`x:17: job.bs: "4q" is not allowed; allowed: 512 to 64m, in bytes or with k, m, g or t for powers of 1024`},
		{"wrong in one case", "tags = 32", "tags = 0",
			"x:31: case.device.tags: 0 is out of range; allowed: an integer 1..10240"},
		{"unknown key", "duration_s = 20.5", "duration = 20.5",
			"x:28: case.duration: unknown key; allowed: name, schedulers, ramp_s, duration_s, cpus, seeds, sample_ms, reference_case, sharing_reference, own_disk, device, job, weights, container, parent, change"},
		{"too many CPUs", "cpus = 4", "cpus = 9", "x:29: case.cpus: 9 is out of range; allowed: an integer 1..8"},
		{"bad duration", "duration_s = 20.5", "duration_s = 0.0",
			"x:28: case.duration_s: 0 is out of range; allowed: above 0 seconds, at most 86400"},
		{"missing in a case's container", "weight = 1\n", "",
			"x:41: case.container.weight: is missing; allowed: an integer 1..10000; or the name of a"},
		{"two of one name", `name = "deep"`, `name = "base"`,
			`x:27: case.name: "base" is the name of an earlier case; allowed: a name of its own`},
		{"no name", "name = \"base\"\n", "", "x:23: case.name: is missing; allowed: " + nameRule},
		{"key of another kind", "[case.device]\ntags", "[case.device]\ncompletion_us = 3\ntags",
			"x:31: case.device.completion_us: is not a key of kind modeldisk; allowed: " +
				"model, preset, scale, seed, tags, queues, poll_queues, size_mib, memory_backed, write_cache, discard, filesystem, swap_mib, params, iocost"},
		{"another kind starts from nothing", "completion_us = 1000\n", "",
			"x:53: case.device.completion_us: is missing; allowed: an integer 0..10000000"},
		{"expectation of an absent case", `case = "nvme"`, `case = "flat"`,
			`x:65: expect.case: "flat" is not one of the experiment's cases; allowed: base, deep, nvme, ideal`},
		{"container that the case lacks", `case = "nvme"`, `case = "deep"`,
			`x:67: expect.container: "y" is not one of the experiment's containers; allowed: a`},
		{"container that a case lacks", "case = \"nvme\"\n", "",
			`x:66: expect.container: "y" is not one of the experiment's containers; allowed: a`},
	})
}

func TestParseRefusesExpectations(t *testing.T) {
	refuses(t, withCases, []struct{ name, old, new, want string }{
		{"unknown statistic", "lat_us.p99_9", "lat_us.p98",
			`x:66: expect.metric: "p98" is not a statistic of latencies; allowed: mean, p10, p30, p50, p70, p90, p95, p99, p99_9, p99_99, max`},
		{"colon for a dot", "lat_us.p99_9", "lat_us:p99_9",
			`x:66: expect.metric: unknown metric "lat_us:p99_9"; allowed: ` + allMetrics()},
		{"statistic of nothing", "lat_us.p99_9", "device_stat.",
			"x:66: expect.metric: names nothing of the device's stat file; allowed: " + allMetrics()},
		{"direction of a metric that has none", `metric = "total_iops"`, "metric = \"total_iops\"\ndirection = \"read\"",
			"x:61: expect.direction: means nothing for total_iops; allowed: only with iops, bytes_per_s, lat_us, p99_vs_fair, p99_vs, lat_us_vs, bytes_per_s_vs_case, lat_vs_best, bytes_per_s_vs_best, sooner_pct_vs_case, p99_vs_case"},
		{"container of a metric that has none", `metric = "total_iops"`, "metric = \"total_iops\"\ncontainer = \"a\"",
			"x:61: expect.container: means nothing for total_iops; allowed: only with share_error_pct, iops, bytes_per_s, lat_us, p99_vs_fair, p99_vs, lat_us_vs, cpu_pct, cpu_pct_vs, bytes_per_s_vs_case, lat_vs_best, bytes_per_s_vs_best, finish_vs_best, finish_ms, sooner_pct_vs_case, p99_vs_case, settle_ms, gap_ms"},
		{"direction", `direction = "write"`, `direction = "trim"`,
			`x:68: expect.direction: "trim" is not allowed; allowed: read, write, both, sync, operations`},
		{"want alone", "within_pct = 5\n", "", "x:63: expect.within_pct: is missing; allowed: a percentage above 0, at most 100"},
		{"within_pct alone", "want = 100\n", "", "x:63: expect.want: is missing; allowed: what within_pct is about, above 0"},
		{"within_pct 0", "within_pct = 5", "within_pct = 0", "x:70: expect.within_pct: 0 is out of range; allowed: above 0, at most 100"},
		{"want 0", "want = 100", "want = 0", "x:69: expect.want: 0 is out of range; allowed: above 0"},
		{"want and min", "want = 100", "want = 100\nmin = 1",
			"x:69: expect.want: does not go with min and max; allowed: either min, max or both, or want and within_pct"},
	})
}

func TestMet(t *testing.T) {
	low, high, want, pct := 1.0, 2.0, 100.0, 3.0
	for _, tt := range []struct {
		x    Expectation
		got  float64
		want bool
	}{
		{Expectation{Min: &low}, 1, true}, {Expectation{Min: &low}, 0.999, false},
		{Expectation{Max: &high}, 2, true}, {Expectation{Max: &high}, 2.001, false},
		{Expectation{Min: &low, Max: &high}, 1.5, true}, {Expectation{Min: &low, Max: &high}, 3, false},
		{Expectation{Want: &want, WithinPct: &pct}, 97, true}, {Expectation{Want: &want, WithinPct: &pct}, 103, true},
		{Expectation{Want: &want, WithinPct: &pct}, 96.9, false}, {Expectation{Want: &want, WithinPct: &pct}, 103.1, false},
	} {
		if got := tt.x.Met(tt.got); got != tt.want {
			t.Errorf("%s: Met(%g) = %t", tt.x.Wanted(), tt.got, got)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.99: "0.99", 1518338.048: "1518340", 1.0 / 3: "0.333333", 1e-7: "0.0000001", 76.077792: "76.0778"} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%g) = %s, want %s", v, got, want)
		}
	}
}
