// SPDX-License-Identifier: MIT

package experiment

import (
	"strings"
	"testing"

	"isolio/internal/must"
)

// starting is an application that starts while something else writes.
const starting = `name = "starting"
question = "How long does it take?"
schedulers = ["none", "bfq"]
ramp_s = 1
duration_s = 2
seeds = 3
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "app"
weight = 1
start_s = 1.5
job.number_ios = 100
[[container]]
name = "copy"
weight = 1
job.rw = "write"
[[expect]]
scheduler = "bfq"
metric = "finish_vs_best"
max = 1
`

func TestSeeds(t *testing.T) {
	e, err := Parse("x", []byte(starting))
	must.OK(t, err)
	k := &e.Cases[0]
	if k.Seeds != 3 || k.Seed != 0 {
		t.Errorf("%d seeds, the first is %d", k.Seeds, k.Seed)
	}
	if !k.Containers[0].Job.Ends() || k.Containers[1].Job.Ends() {
		t.Error("the wrong job ends by itself")
	}
	if len(e.Expect) != 1 || e.Expect[0].Subject() != "bfq: finish_vs_best" {
		t.Errorf("expected %v", e.Expect)
	}
}

// What the best of the others is, is known when all of them ran.
func TestSelectLeavesOutTheBestOfOthers(t *testing.T) {
	e, err := Parse("x", []byte(strings.Replace(starting, `"bfq"]`, `"bfq", "kyber"]`, 1)))
	must.OK(t, err)
	for _, tt := range []struct {
		schedulers []string
		want       int
	}{{nil, 1}, {[]string{"none", "bfq"}, 0}, {[]string{"bfq", "kyber", "none"}, 1}} {
		selected, err := e.Select(tt.schedulers, nil)
		must.OK(t, err)
		if len(selected.Expect) != tt.want {
			t.Errorf("%v: %d expectations, want %d", tt.schedulers, len(selected.Expect), tt.want)
		}
	}
}

func TestOthersIn(t *testing.T) {
	variants := "[[contender]]\nname = \"bfq-2\"\nscheduler = \"bfq\"\n"
	e, err := Parse("x", []byte(strings.Replace(starting, "[device]", variants+"[device]", 1)))
	must.OK(t, err)
	for name, want := range map[string]string{"bfq": "none", "bfq-2": "none", "none": "bfq bfq-2"} {
		if got := strings.Join(e.OthersIn(&e.Cases[0], name), " "); got != want {
			t.Errorf("others than %s: %q, want %q", name, got, want)
		}
	}
}

func TestParseRefusesSeeds(t *testing.T) {
	refuses(t, starting, []struct{ name, old, new, want string }{
		{"no seed", "seeds = 3", "seeds = 0", "x:6: seeds: 0 is out of range; allowed: an integer 1..32"},
		{"with samples", "seeds = 3", "seeds = 3\nsample_ms = 5",
			"x:6: seeds: does not go with sample_ms; allowed: one or the other: a rate over time is of one run"},
		{"an end before anything is counted", "start_s = 1.5", "start_s = 0.5",
			"x:17: container.job.number_ios: its time would not be counted; allowed: start_s of at least ramp_s, for a job that ends by itself"},
		{"ends of many", "start_s = 1.5", "start_s = 1.5\ncount = 2",
			"x:18: container.job.number_ios: does not go with count; allowed: one container"},
		{"nobody else", `"none", "bfq"]`, `"bfq"]`,
			"x:24: expect.metric: finish_vs_best needs another scheduler to compare with; allowed: another metric, or add a scheduler"},
	})
}
