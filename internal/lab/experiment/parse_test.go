// SPDX-License-Identifier: MIT

package experiment

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const valid = `name = "two"
question = "Do two containers share by weight?"
schedulers = ["none",
  "bfq",
  "kyber-fairness"]
ramp_s = 0.5
duration_s = 2

[device]
kind = "null_blk"
completion_us = 1000
tags = 32

[job]
rw = "randread"
bs = "4k"
iodepth = 32

[[container]]
name = "video"
weight = 800

[[container]]
name = "compile"
weight = 400
cgroup = "build/compile"
start_s = 1.0
end_s = 2.0
[container.job]
rw = "randwrite"

[[expect]]
scheduler = "bfq"
metric = "jain_weighted"
min = 0.99
`

func TestParse(t *testing.T) {
	e, err := Parse("two.toml", []byte(valid))
	must.OK(t, err)
	low := 0.99
	want := &Experiment{
		File: "two.toml",
		Name: "two", Kernel: DefaultKernel, Question: "Do two containers share by weight?", ShareUnit: UnitBytes,
		Schedulers: []string{"none", "bfq", "kyber-fairness"},
		Cases: []Case{{
			RampS: 0.5, DurationS: 2, CPUs: 1, Seeds: 1,
			Device: Device{Kind: "null_blk", CompletionUS: 1000, Tags: 32, Queues: 1, SizeMiB: 4096},
			Containers: []Container{
				{Name: "video", Weight: 800, Cgroup: "video", EndS: 2.5,
					Job: Job{"rw": "randread", "bs": "4k", "iodepth": "32"}},
				{Name: "compile", Weight: 400, Cgroup: "build/compile", StartS: 1, EndS: 2,
					Job: Job{"rw": "randwrite", "bs": "4k", "iodepth": "32"}},
			},
		}},
		Expect: []Expectation{{Scheduler: "bfq", Metric: Metric{Kind: JainWeighted}, Min: &low}},
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("Parse:\n got %+v\nwant %+v", e, want)
	}
	if !e.Writes() {
		t.Error("Writes = false, want true: compile writes")
	}
}

func TestCountedS(t *testing.T) {
	k := Case{RampS: 1, DurationS: 4}
	tests := []struct {
		name               string
		start, end         float64
		uncounted, counted float64
	}{
		{"whole", 0, 5, 1, 4},
		{"late", 2, 5, 0, 3},
		{"starts in the ramp", 0.25, 5, 0.75, 4},
		{"leaves early", 0, 3, 1, 2},
	}
	for _, tt := range tests {
		uncounted, counted := k.CountedS(Container{StartS: tt.start, EndS: tt.end})
		if uncounted != tt.uncounted || counted != tt.counted {
			t.Errorf("%s: CountedS = %g, %g, want %g, %g", tt.name, uncounted, counted, tt.uncounted, tt.counted)
		}
	}
}

// TestParseRefuses changes one line of the valid file at a time and checks
// the whole message.
func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name     string
		old, new string
		want     string
	}{
		{"unknown top key", "ramp_s = 0.5", "ramp = 0.5",
			"x:6: ramp: unknown key; allowed: name, question, answers, schedulers, programs, contender, program, ramp_s, duration_s, kernel, nr_requests, cpus, seeds, sample_ms, share_unit, reference_case, sharing_reference, own_disk, critical, device, job, weights, container, parent, change, case, expect"},
		{"unknown table", "[device]", "[disk]",
			"x:9: disk: unknown key; allowed: name, question, answers, schedulers, programs, contender, program, ramp_s, duration_s, kernel, nr_requests, cpus, seeds, sample_ms, share_unit, reference_case, sharing_reference, own_disk, critical, device, job, weights, container, parent, change, case, expect"},
		{"unknown device key", "tags = 32", "tag = 32",
			"x:12: device.tag: unknown key; allowed: disk, kind, completion_us, model, preset, scale, seed, tags, queues, " +
				"poll_queues, size_mib, memory_backed, write_cache, discard, filesystem, swap_mib, params, iocost"},
		{"unknown container key", "weight = 400", "wieght = 400",
			"x:25: container.wieght: unknown key; allowed: name, weight, count, memory_mib, cgroup, start_s, end_s, pauses, job, program, command, setup, ends, output"},
		{"unknown expect key", "min = 0.99", "minimum = 0.99",
			"x:35: expect.minimum: unknown key; allowed: case, scheduler, metric, direction, container, min, max, want, within_pct, or_times_reference, after_s, until_s, fraction, window_ms, of_total, source, cases, schedulers, containers, metrics"},
		{"wrong type", "weight = 400", `weight = "400"`,
			"x:25: container.weight: has the wrong type; allowed: an integer"},
		{"wrong type of list", "schedulers = [\"none\",", "schedulers = [1,",
			"x:3: schedulers: has the wrong type; allowed: a list of strings"},
		{"missing weight", "weight = 400\n", "",
			"x:23: container.weight: is missing; allowed: an integer 1..10000"},
		{"weight 0", "weight = 400", "weight = 0",
			"x:25: container.weight: 0 is out of range; allowed: an integer 1..10000"},
		{"weight above", "weight = 400", "weight = 10001",
			"x:25: container.weight: 10001 is out of range; allowed: an integer 1..10000"},
		{"unknown scheduler", `  "bfq",`, `  "cfq",`,
			`x:4: schedulers: unknown scheduler "cfq"; allowed: none, mq-deadline, kyber, bfq, iocost, kyber-fairness, kyber-report, rsd, sfq`},
		{"scheduler twice", `  "bfq",`, `  "none",`,
			`x:4: schedulers: "none" is listed twice; allowed: each scheduler once`},
		{"missing name", `name = "two"` + "\n", "",
			"x: name: is missing; allowed: " + nameRule},
		{"name with a slash", `name = "two"`, `name = "a/b"`,
			`x:1: name: "a/b" is not a name; allowed: ` + nameRule},
		{"negative ramp", "ramp_s = 0.5", "ramp_s = -1.0",
			"x:6: ramp_s: -1 is out of range; allowed: 0..3600 seconds"},
		{"nan ramp", "ramp_s = 0.5", "ramp_s = nan",
			"x:6: ramp_s: NaN is out of range; allowed: 0..3600 seconds"},
		{"no duration", "duration_s = 2", "duration_s = 0",
			"x:7: duration_s: 0 is out of range; allowed: above 0 seconds, at most 86400"},
		{"kernel is no line", "duration_s = 2", "duration_s = 2\nkernel = \"../6.1\"",
			"x:8: kernel: \"../6.1\" is no line of kernels; allowed: as make setup KERNEL=LINE takes it, such as 6.1, 7.2 or 6.12-rt"},
		{"nr_requests out of range", "duration_s = 2", "duration_s = 2\nnr_requests = 3",
			"x:8: nr_requests: 3 is out of range; allowed: an integer 4..2048"},
		{"unknown device kind", `kind = "null_blk"`, `kind = "nvme"`,
			`x:10: device.kind: unknown kind "nvme"; allowed: null_blk, modeldisk`},
		{"tags out of range", "tags = 32", "tags = 0",
			"x:12: device.tags: 0 is out of range; allowed: an integer 1..10240"},
		{"fio option unknown", "iodepth = 32", "io_depth = 32",
			"x:17: job.io_depth: unknown fio option; allowed: rw, bs, iodepth, iodepth_batch_submit, " +
				"iodepth_batch_complete_min, iodepth_batch_complete_max, ioengine, direct, numjobs, rwmixread, size, " +
				"offset, offset_increment, zonesize, zoneskip, rate, rate_iops, thinktime, thinktime_blocks, number_ios, invalidate, fsync, fdatasync, prio, prioclass, thread, mode, fallback, poll_margin_ppm, hybrid_margin_ppm, hybrid_sleep_ppm, deep_sleep_ppm, min_sleep_ns, sched_rr, show_stats, work"},
		{"fio option out of range", "iodepth = 32", "iodepth = 0",
			`x:17: job.iodepth: "0" is not allowed; allowed: an integer 1..65536`},
		{"fio size", `bs = "4k"`, `bs = "4kib"`,
			`x:16: job.bs: "4kib" is not allowed; allowed: 512 to 64m, in bytes or with k, m, g or t for powers of 1024`},
		{"fio option of a wrong type", `bs = "4k"`, `bs = true`,
			`x:16: job.bs: true is neither a string nor an integer; allowed: 512 to 64m, in bytes or with k, m, g or t for powers of 1024`},
		{"rw of a container", `rw = "randwrite"`, `rw = "trim"`,
			`x:30: container.job.rw: "trim" is not allowed; allowed: read, write, rw, readwrite, randread, randwrite, randrw`},
		{"rw missing", "rw = \"randread\"\n", "",
			"x:18: container.job.rw: is missing; allowed: set rw in [job] or in the container's own job"},
		{"duplicate container", `name = "compile"`, `name = "video"`,
			`x:24: container.name: "video" is the name of an earlier container; allowed: a name of its own`},
		{"cgroup outside", `cgroup = "build/compile"`, `cgroup = "../x"`,
			`x:26: container.cgroup: "../x" is not a path below the experiment's cgroup; allowed: a relative path without '..'`},
		{"cgroup in another", `cgroup = "build/compile"`, `cgroup = "video/x"`,
			`x:26: container.cgroup: "video" and "video/x" are nested; allowed: a leaf: cgroup v2 keeps processes out of inner groups`},
		{"ends before it starts", "end_s = 2.0", "end_s = 0.75",
			"x:28: container.end_s: 0.75 is out of range; allowed: above start_s and ramp_s, at most ramp_s + duration_s = 2.5"},
		{"ends after the load", "end_s = 2.0", "end_s = 9.0",
			"x:28: container.end_s: 9 is out of range; allowed: above start_s and ramp_s, at most ramp_s + duration_s = 2.5"},
		{"unknown metric", `metric = "jain_weighted"`, `metric = "jain"`,
			`x:34: expect.metric: unknown metric "jain"; allowed: ` + allMetrics()},
		{"metric of an unknown container", `metric = "jain_weighted"`, `metric = "share:tv"`,
			`x:34: expect.metric: "tv" is not one of the experiment's containers; allowed: video, compile`},
		{"metric against an absent scheduler", `metric = "jain_weighted"`, `metric = "total_vs:kyber"`,
			`x:34: expect.metric: "kyber" is not one of the experiment's schedulers; allowed: none, bfq, kyber-fairness`},
		{"metric with a needless argument", `metric = "jain_weighted"`, `metric = "total_iops:bfq"`,
			`x:34: expect.metric: "total_iops" takes nothing after it; allowed: ` + allMetrics()},
		{"expectation of an absent scheduler", `scheduler = "bfq"`, `scheduler = "kyber"`,
			`x:33: expect.scheduler: "kyber" is not one of the experiment's schedulers; allowed: none, bfq, kyber-fairness`},
		{"no bound", "min = 0.99\n", "",
			"x:32: expect.min: is missing; allowed: min, max or both, or want and within_pct"},
		{"empty bounds", "min = 0.99", "min = 0.99\nmax = 0.5",
			"x:35: expect.min: min 0.99 is above max 0.5; allowed: min <= max"},
		{"not TOML", "ramp_s = 0.5", "ramp_s 0.5",
			"x:6: expected '=' after key; allowed: TOML 1.0"},
		{"two problems: the upper one", "tags = 32", "tags = 0\nqueues = 0",
			"x:12: device.tags: 0 is out of range; allowed: an integer 1..10240"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(valid, tt.old, tt.new, 1)
			if text == valid {
				t.Fatalf("%q is not in the valid file", tt.old)
			}
			_, err := Parse("x", []byte(text))
			if err == nil {
				t.Fatal("Parse took it")
			}
			if err.Error() != tt.want {
				t.Errorf("Parse:\n got %s\nwant %s", err, tt.want)
			}
			if code := failure.Code(err); code != failure.Usage {
				t.Errorf("exit code %d, want %d", code, failure.Usage)
			}
		})
	}
}

func TestInlineTablesHaveLines(t *testing.T) {
	text := strings.Replace(valid, "[device]\nkind = \"null_blk\"\ncompletion_us = 1000\ntags = 32\n",
		"device = { kind = \"null_blk\", completion_us = -1, tags = 32 }\n", 1)
	_, err := Parse("x", []byte(text))
	if err == nil || !strings.HasPrefix(err.Error(), "x:9: device.completion_us: -1 is out of range") {
		t.Errorf("Parse: %v", err)
	}
}

func TestSelect(t *testing.T) {
	text := valid + `
[[expect]]
scheduler = "kyber-fairness"
metric = "total_vs:bfq"
min = 1.0
`
	e, err := Parse("x", []byte(text))
	must.OK(t, err)
	s, err := e.Select([]string{"kyber-fairness", "none"}, nil)
	must.OK(t, err)
	if want := []string{"none", "kyber-fairness"}; !reflect.DeepEqual(s.Schedulers, want) {
		t.Errorf("schedulers = %v, want %v: the experiment's order", s.Schedulers, want)
	}
	if len(s.Expect) != 0 {
		t.Errorf("expectations = %v, want none: both need bfq", s.Expect)
	}
	if len(e.Schedulers) != 3 || len(e.Expect) != 2 {
		t.Error("Select changed the experiment it was called on")
	}
	if _, err = e.Select([]string{"kyber"}, nil); failure.Code(err) != failure.Usage {
		t.Errorf("Select of an absent scheduler: %v", err)
	}
}

// TestShippedExperiments loads every experiment that the project ships.
func TestShippedExperiments(t *testing.T) {
	files, err := filepath.Glob("../../../experiments/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("experiments: %v, %v", files, err)
	}
	for _, file := range files {
		e, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".toml"); e.Name != want {
			t.Errorf("%s: name = %q, want the file's", file, e.Name)
		}
		text, err := os.ReadFile(file)
		must.OK(t, err)
		if !strings.HasPrefix(string(text), "# SPDX-License-Identifier: MIT\n") {
			t.Errorf("%s: the first line is not the licence", file)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "absent.toml")
	_, err := Load(file)
	if failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), file) {
		t.Errorf("Load(%s) = %v", file, err)
	}
	if _, statErr := os.Stat(file); statErr == nil {
		t.Error("Load made the file")
	}
}
