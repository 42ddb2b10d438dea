// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"testing"

	"isolio/internal/must"
)

const paused = `name = "p"
question = "How soon?"
schedulers = ["bfq"]
ramp_s = 0.5
duration_s = 3.5
sample_ms = 5
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
pauses = [[1, 2.0], [2.5, 3.0]]
[[container]]
name = "b"
weight = 100
start_s = 0.1
[[expect]]
scheduler = "bfq"
metric = "settle_ms"
container = "b"
after_s = 1.0
until_s = 2
max = 20
`

func TestParsePauses(t *testing.T) {
	e, err := Parse("x", []byte(paused))
	must.OK(t, err)
	k := e.Cases[0]
	if want := []Pause{{1, 2}, {2.5, 3}}; k.SampleMS != 5 || !reflect.DeepEqual(k.Containers[0].Pauses, want) || k.Containers[1].Pauses != nil {
		t.Errorf("sample_ms %d, pauses %v and %v", k.SampleMS, k.Containers[0].Pauses, k.Containers[1].Pauses)
	}
	if want := (Settle{AfterS: 1, UntilS: 2, Fraction: 0.95, WindowMS: 10}); *e.Expect[0].Settle != want {
		t.Errorf("settle %+v, want %+v", *e.Expect[0].Settle, want)
	}
	if got, want := e.Expect[0].String(), "bfq: settle_ms of b to 95 % in windows of 10 ms from 1 to 2 s <= 20"; got != want {
		t.Errorf("expectation %q, want %q", got, want)
	}
}

func TestParseRefusesPauses(t *testing.T) {
	const between = "; allowed: from below to, in order, between start_s 0 and end_s 4, without overlap"
	refuses(t, paused, []struct{ name, old, new, want string }{
		{"no pairs", "[[1, 2.0], [2.5, 3.0]]", "[1.0, 2.0]", "x:16: container.pauses: has the wrong type; allowed: a list of pairs of numbers"},
		{"three numbers", "[1, 2.0]", "[1, 2.0, 3.0]",
			"x:16: container.pauses: a pause has 3 numbers; allowed: [from, to] in seconds after the load's start"},
		{"backwards", "[1, 2.0]", "[2, 1.0]", "x:16: container.pauses: [2, 1] is out of place" + between},
		{"one in another", "2.5, 3.0", "1.5, 3.0", "x:16: container.pauses: [1.5, 3] is out of place" + between},
		{"after the end", "2.5, 3.0", "2.5, 4.5", "x:16: container.pauses: [2.5, 4.5] is out of place" + between},
		{"before the start", "start_s = 0.1", "start_s = 0.1\npauses = [[0.0, 1.0]]",
			"x:21: container.pauses: [0, 1] is out of place; allowed: from below to, in order, between start_s 0.1 and end_s 4, without overlap"},
	})
}

func TestParseRefusesSettle(t *testing.T) {
	refuses(t, paused, []struct{ name, old, new, want string }{
		{"too seldom", "sample_ms = 5", "sample_ms = 1001", "x:6: sample_ms: 1001 is out of range; allowed: an integer 0..1000"},
		{"too many samples", "duration_s = 3.5\nsample_ms = 5", "duration_s = 35\nsample_ms = 1",
			"x:6: sample_ms: 1 ms makes 70000 samples of all containers; allowed: up to 50000: fewer, or a shorter duration_s"},
		{"no samples", "sample_ms = 5\n", "", "x:22: expect.metric: settle_ms needs samples; allowed: sample_ms at the top or in the case, 1..1000"},
		{"no samples for gaps", "sample_ms = 5\n", "[[expect]]\nscheduler = \"bfq\"\nmetric = \"gap_ms\"\nmax = 1\n", "x:8: expect.metric: gap_ms needs samples; allowed: sample_ms at the top or in the case, 1..1000"},
		{"no container", "container = \"b\"\n", "", "x:21: expect.container: is missing; allowed: whose rate it is"},
		{"direction", "max = 20", "max = 20\ndirection = \"read\"",
			"x:28: expect.direction: means nothing for settle_ms; allowed: only with iops, bytes_per_s, lat_us, p99_vs_fair, p99_vs, lat_us_vs, bytes_per_s_vs_case, lat_vs_best, bytes_per_s_vs_best, sooner_pct_vs_case, p99_vs_case"},
		{"before the counted time", "after_s = 1.0", "after_s = 0.4", "x:25: expect.after_s: 0.4 is out of range; allowed: in the counted time, 0.5 to below 4"},
		{"backwards", "until_s = 2", "until_s = 1", "x:26: expect.until_s: 1 is out of range; allowed: above after_s, at most ramp_s + duration_s = 4"},
		{"fraction", "max = 20", "fraction = 1.1\nmax = 20", "x:27: expect.fraction: 1.1 is out of range; allowed: above 0, at most 1"},
		{"share of the total", "max = 20", "of_total = 0\nmax = 20", "x:27: expect.of_total: 0 is out of range; allowed: a share above 0, at most 1"},
		{"one sample", "max = 20", "window_ms = 5\nmax = 20",
			"x:27: expect.window_ms: 5 ms is not two or more samples of 5 ms; allowed: a multiple of sample_ms from 10 on"},
		{"no multiple", "max = 20", "window_ms = 12\nmax = 20",
			"x:27: expect.window_ms: 12 ms is not two or more samples of 5 ms; allowed: a multiple of sample_ms from 10 on"},
		{"long window", "max = 20", "window_ms = 505\nmax = 20",
			"x:27: expect.window_ms: 505 ms is more than half of after_s to until_s; allowed: at most 500"},
		{"another metric", "settle_ms", "iops", "x:25: expect.after_s: means nothing for iops; allowed: only with settle_ms"},
	})
}
