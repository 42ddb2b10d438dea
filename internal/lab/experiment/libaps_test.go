// SPDX-License-Identifier: MIT

package experiment

import (
	"maps"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const waiting = `name = "waiting"
question = "How to wait?"
schedulers = ["none"]
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[contender]]
name = "poll"
scheduler = "none"
job.reader.mode = "poll"
job.reader.poll_margin_ppm = 200_000
[[container]]
name = "reader"
weight = 100
job.ioengine = "aps"
job.iodepth = 4
job.thread = 1
[[container]]
name = "neighbour"
weight = 100
job.ioengine = "compute"
job.work = 50
[[expect]]
scheduler = "poll"
metric = "lat_us_vs:p99_9/none"
max = 1
[[expect]]
scheduler = "poll"
metric = "cpu_pct_vs:none"
container = "reader"
max = 1
`

func TestContendersMayBePrograms(t *testing.T) {
	e, err := Parse("x", []byte(waiting))
	must.OK(t, err)
	if !e.UsesLibaps() {
		t.Error("no engine of libaps")
	}
	poll, none := e.Contender("poll"), e.Contender("none")
	reader, neighbour := &e.Cases[0].Containers[0], &e.Cases[0].Containers[1]
	want := Job{
		"rw": "randread", "ioengine": "aps", "iodepth": "4", "thread": "1", "mode": "poll", "poll_margin_ppm": "200000",
	}
	if got := poll.JobOf(reader); !maps.Equal(got, want) {
		t.Errorf("reader's job %v, want %v", got, want)
	}
	if got := none.JobOf(reader); got["mode"] != "" {
		t.Errorf("another contender's reader: %v", got)
	}
	if got := poll.JobOf(neighbour); !maps.Equal(got, neighbour.Job) {
		t.Errorf("neighbour's job %v", got)
	}
	if got := poll.Changes(); !maps.Equal(got, map[string]string{"job.reader.mode": "poll", "job.reader.poll_margin_ppm": "200000"}) {
		t.Errorf("changes %v", got)
	}
	if got := reader.Job.Depth(); got != 4 {
		t.Errorf("depth %d", got)
	}
	if name, scheduler, ok := e.Expect[0].Reference(); name != "" || scheduler != "none" || !ok {
		t.Errorf("lat_us_vs compares with %q %q %t", name, scheduler, ok)
	}
}

func TestParseRefusesJobsOfContenders(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"no such container", "job.reader.mode", "job.raeder.mode",
			`x:11: contender.job.raeder: there is no container "raeder"; allowed: neighbour, reader`},
		{"another engine's option", "job.reader.mode", "job.neighbour.mode",
			`x:14: contender.job.neighbour.mode: is an option of the engine aps; allowed: with ioengine = "aps"`},
		{"no such mode", `"poll"
job.reader.poll`, `"spin"
job.reader.poll`, `x:14: contender.job.reader.mode: "spin" is not allowed; allowed: interrupt, poll, hybrid, aps, ring-hybrid, published`},
		{"a container's option of another engine", "job.iodepth = 4", "job.work = 4",
			`x:20: container.job.work: is an option of the engine compute; allowed: with ioengine = "compute"`},
		{"no such statistic", "lat_us_vs:p99_9/none", "lat_us_vs:p98/none",
			`x:29: expect.metric: "p98" is not a statistic of latencies; allowed: ` + strings.Join(LatencyStatistics(), ", ")},
		{"no such contender", "lat_us_vs:p99_9/none", "lat_us_vs:p99_9/spin",
			`x:29: expect.metric: "spin" is not one of the experiment's schedulers; allowed: none, poll`},
	} {
		text := strings.Replace(waiting, tt.old, tt.new, 1)
		if text == waiting {
			t.Fatalf("%s: nothing replaced", tt.name)
		}
		_, err := Parse("x", []byte(text))
		if err == nil || err.Error() != tt.want || failure.Code(err) != failure.Usage {
			t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}
