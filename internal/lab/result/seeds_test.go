// SPDX-License-Identifier: MIT

package result

import (
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// seeded is a run of a reader whose requests took so long at most.
func seeded(bytesPS, maxUS, finishMS float64) Run {
	r := Run{Scheduler: "bfq", DeviceStat: map[string]float64{"stalls": maxUS}, Containers: []Container{{
		Name: "app", Weight: 1, BytesPS: bytesPS, IOPS: bytesPS / 4096, FinishMS: &finishMS,
		Read: &Direction{BytesPS: bytesPS, IOPS: bytesPS / 4096, Requests: 100, Lat: Latency{Mean: maxUS / 10, P999: maxUS / 2, Max: maxUS}},
	}}}
	r.Sum()
	return r
}

func TestOfSeeds(t *testing.T) {
	r := OfSeeds([]Run{seeded(3000, 900, 70), seeded(1000, 100, 10), seeded(2000, 200, 30)})
	c := r.Containers[0]
	for what, pair := range map[string][2]float64{
		"seeds":         {float64(r.Seeds), 3},
		"total":         {r.TotalBytesPS, 2000},
		"least total":   {r.OverSeeds.Least.TotalBytesPS, 1000},
		"most total":    {r.OverSeeds.Most.TotalBytesPS, 3000},
		"rate":          {c.Read.BytesPS, 2000},
		"maximum":       {c.Read.Lat.Max, 200},
		"mean":          {c.Read.Lat.Mean, 20},
		"least maximum": {c.Read.Seeds.Least.Lat.Max, 100},
		"most maximum":  {c.Read.Seeds.Most.Lat.Max, 900},
		"least rate":    {c.Read.Seeds.Least.BytesPS, 1000},
		"requests":      {c.Read.Seeds.Requests, 300},
		"finish":        {*c.FinishMS, 30},
		"device":        {r.DeviceStat["stalls"], 400},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %g, want %g", what, pair[0], pair[1])
		}
	}
	// Of an even number the middle is between two.
	if two := OfSeeds([]Run{seeded(1, 100, 10), seeded(1, 300, 20)}); two.Containers[0].Read.Lat.Max != 200 {
		t.Errorf("the median of 100 and 300 is %g", two.Containers[0].Read.Lat.Max)
	}
	if one := OfSeeds([]Run{seeded(1, 100, 10)}); one.Seeds != 0 || one.OverSeeds != nil || one.Containers[0].Read.Seeds != nil {
		t.Errorf("one seed is %+v", one)
	}
}

// The spread is of what is kept of each seed, and of nothing else.
func TestSpread(t *testing.T) {
	runs := []Run{seeded(3000, 900, 70), seeded(1000, 100, 10)}
	for i := range runs {
		runs[i].Sum()
	}
	d := Document{ShareUnit: experiment.UnitBytes, Runs: []Run{OfSeeds(runs)}}
	scheduler := d.Runs[0].Scheduler
	asked := func(kind, arg, direction, container string) experiment.Expectation {
		return experiment.Expectation{Scheduler: scheduler, Metric: experiment.Metric{Kind: kind, Arg: arg}, Direction: direction, Container: container}
	}
	for _, c := range []struct {
		x           experiment.Expectation
		least, most float64
	}{
		{asked(experiment.LatUS, "max", "read", "app"), 100, 900},
		{asked(experiment.LatUS, "max", "read", ""), 100, 900},
		{asked(experiment.BytesPS, "", "read", "app"), 1000, 3000},
		{asked(experiment.TotalBytesPS, "", "", ""), 1000, 3000},
		{asked(experiment.JainWeighted, "", "", ""), 1, 1},
		{asked(experiment.ShareErrorPct, "", "", ""), 0, 0},
	} {
		if least, most, ok := d.Spread(c.x); !ok || least != c.least || most != c.most {
			t.Errorf("%s: %g to %g, %v, want %g to %g", c.x.Subject(), least, most, ok, c.least, c.most)
		}
	}
	for _, x := range []experiment.Expectation{
		asked(experiment.TotalVsNone, "", "", ""), asked(experiment.LatUS, "max", "write", "app"), asked(experiment.LatUS, "max", "read", "none"),
	} {
		if _, _, ok := d.Spread(x); ok {
			t.Errorf("%s has a spread", x.Subject())
		}
	}
	d.Runs = []Run{runs[0]}
	if _, _, ok := d.Spread(asked(experiment.LatUS, "max", "read", "app")); ok {
		t.Error("one seed has a spread")
	}
}

func TestOfSeedsOfFsyncs(t *testing.T) {
	with := func(perS, maxUS float64) Run {
		r := seeded(1000, 100, 10)
		r.Containers[0].Sync = &Direction{IOPS: perS, Requests: perS, Lat: Latency{Max: maxUS}}
		return r
	}
	r := OfSeeds([]Run{with(30, 700), with(10, 500), with(20, 900)})
	if d := r.Containers[0].Sync; d == nil || d.IOPS != 20 || d.Lat.Max != 700 || d.Seeds.Requests != 60 {
		t.Errorf("fsyncs over the seeds: %+v", d)
	}
}

// A seed with which nothing was read is a rate of 0, and no latency. A job that
// did not end with one of them has no time to finish.
func TestOfSeedsWithNothing(t *testing.T) {
	idle := seeded(0, 0, 0)
	idle.Containers[0].Read, idle.Containers[0].FinishMS = nil, nil
	r := OfSeeds([]Run{seeded(1000, 100, 10), idle})
	if d := r.Containers[0].Read; d.BytesPS != 500 || d.Lat.Max != 100 || d.Seeds.Least.BytesPS != 0 || r.Containers[0].FinishMS != nil {
		t.Errorf("got %+v, finished after %v", d, r.Containers[0].FinishMS)
	}
	if r = OfSeeds([]Run{idle, idle}); r.Containers[0].Read != nil {
		t.Errorf("of nothing came %+v", r.Containers[0].Read)
	}
}

func TestSeedsInTheTable(t *testing.T) {
	finish := 30.0
	d := Document{Experiment: "x", Runs: []Run{OfSeeds([]Run{seeded(3000, 900, finish), seeded(1000, 100, finish), seeded(2000, 200, finish)})}}
	var b strings.Builder
	must.OK(t, d.WriteTable(&b))
	for _, want := range []string{"read latency over the seeds, ms: medians", "bfq              app       300  0.020  0.100  0.200      0.100     0.900", "finished\nscheduler  container  ms\nbfq              app  30"} {
		if !strings.Contains(b.String(), want) && !strings.Contains(strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

func TestVersusBest(t *testing.T) {
	const unknown = -1.0
	for _, tt := range []struct {
		metric    experiment.Metric
		direction string
		change    func(run func(name, scheduler string) *Run)
		want      float64
	}{
		{metric: experiment.Metric{Kind: experiment.LatVsBest, Arg: "p99"}, direction: "read", want: 1},
		{metric: experiment.Metric{Kind: experiment.LatVsBest, Arg: "p99"}, direction: "read", change: func(run func(string, string) *Run) {
			run("both", "none").Containers[0].Read.Lat.P99 = 8000
			run("both", "none").Containers[1].Read.Lat.P99 = 8000
			run("both", "fast").Containers[0].Read.Lat.P99 = 1 // a variant of the same
		}, want: 0.5},
		{metric: experiment.Metric{Kind: experiment.BytesVsBest}, direction: "write", change: func(run func(string, string) *Run) {
			run("both", "bfq").Containers[1].Write.BytesPS /= 2
		}, want: 0.5},
		{metric: experiment.Metric{Kind: experiment.FinishVsBest}, want: unknown},
		{metric: experiment.Metric{Kind: experiment.FinishVsBest}, change: func(run func(string, string) *Run) {
			ms := 5.0
			run("both", "bfq").Containers[0].FinishMS = &ms // the others did not finish
		}, want: unknown},
		{metric: experiment.Metric{Kind: experiment.FinishVsBest}, change: func(run func(string, string) *Run) {
			five, ten := 5.0, 10.0
			run("both", "bfq").Containers[0].FinishMS, run("both", "none").Containers[0].FinishMS = &five, &ten
		}, want: 0.5},
	} {
		e, run, runs := inCases(t, "")
		if tt.change != nil {
			tt.change(run)
		}
		got := unknown
		if v := judged(t, e, *runs, tt.metric, tt.direction, ""); v != nil {
			got = *v
		}
		if got != tt.want {
			t.Errorf("%s of %ss is %g, want %g", tt.metric, tt.direction, got, tt.want)
		}
	}
}
