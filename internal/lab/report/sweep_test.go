// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"isolio/internal/lab/result"
)

// swept has none and four variants of rsd, of a tunable from 10 to off.
func swept() *result.Document {
	doc := document()
	doc.Critical = "w1000"
	first := doc.Runs[0]
	doc.Runs = doc.Runs[:1]
	for i, label := range []string{"10", "30", "90", ""} {
		run := first
		run.Scheduler = fmt.Sprint("variant-", i)
		run.Variant = &result.Variant{Of: "rsd", Label: label, Changes: map[string]string{"age_th": label}}
		run.TotalIOPS = 100 + 10*float64(i*i)
		run.Containers = slices.Clone(first.Containers)
		for c := range run.Containers {
			read := *run.Containers[c].Read
			read.Lat.P50, read.Lat.Max = float64(1000*(4-i)), float64(2000*(i+1))
			run.Containers[c].Read = &read
		}
		doc.Runs = append(doc.Runs, run)
	}
	return doc
}

// Each variant has a place, in order; totals and latencies are in proportion.
func TestSweep(t *testing.T) {
	s := section(parse(t, render(t, swept())), "sweep-0")
	if s == nil {
		t.Fatal("the page has no sweep")
	}
	figures := all(s, "figure")
	if len(figures) != 2 {
		t.Fatalf("%d plots, want total and reads", len(figures))
	}
	words := labelled(t, figures[0])
	for _, label := range []string{"10", "30", "90", "variant-3", "rsd age_th"} {
		if _, found := words[label]; !found {
			t.Errorf("no label %q", label)
		}
	}
	if words["10"][0] >= words["30"][0] || words["30"][0] >= words["90"][0] || words["90"][0] >= words["variant-3"][0] {
		t.Errorf("places %v are not in the experiment's order", words)
	}
	lines := func(i int) (found []shape) {
		for _, line := range shapes(t, figures[i], stroked) {
			if len(line.xs) == 4 && line.colour != "grid" {
				found = append(found, line)
			}
		}
		return found
	}
	total := lines(0)
	if len(total) != 1 {
		t.Fatalf("%d lines of four points, want the total", len(total))
	}
	ys := total[0].ys // 100, 110, 140, 190
	if got := (ys[3] - ys[0]) / (ys[1] - ys[0]); math.Abs(got-9) > 0.1 {
		t.Errorf("90 more is %g times as high as 10 more", got)
	}
	reads := lines(1)
	if len(reads) != len(percentiles) {
		t.Fatalf("%d lines, want one for each of %d percentiles", len(reads), len(percentiles))
	}
	p50, longest := reads[0].ys, reads[len(reads)-1].ys
	if got := (longest[3] - longest[0]) / (p50[0] - p50[3]); math.Abs(got-2) > 0.05 {
		t.Errorf("the longest rises %g times as much as the median falls", got)
	}
}

func TestSweepOfLittle(t *testing.T) {
	few, other, noReads := swept(), swept(), swept()
	few.Runs = few.Runs[:leastSweep]
	for i := range other.Runs[1:] {
		other.Runs[i+1].Variant = &result.Variant{Of: "rsd", Changes: map[string]string{fmt.Sprint("tunable-", i): "1"}}
	}
	noReads.Critical = ""
	for name, doc := range map[string]*result.Document{
		"few": few, "different tunables": other, "nobody critical": noReads, "no variants": document(),
	} {
		if section(parse(t, render(t, doc)), "sweep-0") != nil {
			t.Errorf("%s: the page has a sweep", name)
		}
	}
}
