// SPDX-License-Identifier: MIT

package result

import (
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
)

func TestDelays(t *testing.T) {
	d := NewDelays(map[uint64]uint64{0: 500, 1: 0, 7: 400, 16: 90, 18: 9, 120: 1}, 123)
	for name, want := range map[string]float64{"p50": 0, "p90": 7, "p99": 16, "p99_9": 18, "max": 123} {
		if got, ok := d.statistic(name); got != want || !ok {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
	}
	if _, ok := d.statistic("p42"); ok {
		t.Error("there is a p42")
	}
	if len(d.Buckets) != 5 || d.Buckets[1] != (DelayBucket{7, 400}) || d.Requests() != 1000 {
		t.Errorf("buckets %v, of %d requests", d.Buckets, d.Requests())
	}
	if none := NewDelays(map[uint64]uint64{0: 0}, 0); none != nil {
		t.Errorf("delays of no request: %v", none)
	}
}

// A run of a guard and one without, in the table and before the judge.
func TestDelaysAreToldAndJudged(t *testing.T) {
	lat := func(p999, longest float64) []Container {
		return []Container{{Name: "a", Read: &Direction{IOPS: 1, Lat: Latency{P999: p999, Max: longest}}}}
	}
	d := &Document{Runs: []Run{
		{Case: "deep", Scheduler: "rsd", Delays: NewDelays(map[uint64]uint64{3: 1000}, 80), Containers: lat(800, 900),
			GuardStat: map[string]float64{"completed": 1000, "closed_pct": 12.34, "closings": 5, "held": 17}},
		{Case: "flat", Scheduler: "none", Delays: NewDelays(map[uint64]uint64{3: 1000}, 170), Containers: lat(1000, 1000)},
	}}
	var b strings.Builder
	section{runs: d.Runs}.delays(&b)
	for _, want := range []string{"rsd            3    3      3   80           12.3      5    17", "none           3    3      3  170              -      -     -"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, tt := range []struct {
		metric experiment.Metric
		want   float64
		ok     bool
	}{
		{experiment.Metric{Kind: experiment.DelayCount, Arg: "max"}, 80, true},
		{experiment.Metric{Kind: experiment.GuardStat, Arg: "held"}, 17, true},
		{experiment.Metric{Kind: experiment.GuardStat, Arg: "nothing"}, 0, false},
		{experiment.Metric{Kind: experiment.P999VsCase, Arg: "flat"}, 0.8, true},
		{experiment.Metric{Kind: experiment.MaxVsCase, Arg: "flat/none"}, 0.9, true},
		{experiment.Metric{Kind: experiment.MaxVsCase, Arg: "flat/bfq"}, 0, false},
	} {
		got, ok := d.Figure(nil, experiment.Expectation{Case: "deep", Scheduler: "rsd", Metric: tt.metric})
		if got != tt.want || ok != tt.ok {
			t.Errorf("%v is %v, %v; want %v, %v", tt.metric, got, ok, tt.want, tt.ok)
		}
	}
}
