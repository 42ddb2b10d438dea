// SPDX-License-Identifier: MIT

package report

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/result"
	"isolio/internal/must"
)

func sampledDoc() *result.Document {
	run := func(scheduler string, rate uint64) result.Run {
		r := result.Run{Scheduler: scheduler, Device: "d", TotalBytesPS: 1 << 20}
		for _, name := range []string{"a", "b"} {
			s := &result.Series{StartS: 0.5, StepMS: 5}
			for range 700 {
				s.Bytes = append(s.Bytes, rate)
			}
			r.Containers = append(r.Containers, result.Container{Name: name, Weight: 1, Series: s})
		}
		return r
	}
	return &result.Document{Experiment: "x", Runs: []result.Run{run("none", 5<<20/1000), run("bfq", 2*5<<20/1000)}}
}

func TestTimeline(t *testing.T) {
	doc := sampledDoc()
	b := newBuilder(doc)
	b.turn(doc.Runs)
	line := b.timeline(&doc.Runs[1]).lines[1]
	// 700 steps are 233 points of 3 and the last of 1.
	if len(line.rate) != 234 || line.container != 1 {
		t.Fatalf("%d points of container %d", len(line.rate), line.container)
	}
	for i, rate := range line.rate {
		if math.Abs(rate-2) > 0.001 || math.Abs(line.atS[i]-(0.5+0.015*float64(i))) > 1e-9 {
			t.Fatalf("point %d: %g %s at %g s, want 2 MiB/s", i, rate, b.bytes.unit, line.atS[i])
		}
	}
	var labels []string
	for _, tick := range timeTicks(0.5, 4) {
		labels = append(labels, tick.Label)
	}
	if want := []string{"1", "2", "3", "4"}; !slices.Equal(labels, want) {
		t.Errorf("ticks %q, want %q", labels, want)
	}
}

// The page has a panel of rates for each run that was sampled, and no such
// figure where none was.
func TestPageShowsSeries(t *testing.T) {
	const label = `aria-label="Rate of each container over time under `
	doc := sampledDoc()
	var page bytes.Buffer
	must.OK(t, Render(&page, doc))
	if got := strings.Count(page.String(), label); got != 2 {
		t.Errorf("%d panels of rates over time, want 2", got)
	}
	if got := strings.Count(page.String(), ` b <span class="weight">weight 1`); got != 1 {
		t.Errorf("container b is in %d legends, want 1: no latencies were measured", got)
	}
	for i := range doc.Runs {
		for j := range doc.Runs[i].Containers {
			doc.Runs[i].Containers[j].Series = nil
		}
	}
	page.Reset()
	must.OK(t, Render(&page, doc))
	if strings.Contains(page.String(), "over time") {
		t.Error("rates over time without samples")
	}
}
