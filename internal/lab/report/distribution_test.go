// SPDX-License-Identifier: MIT

package report

import (
	"math"
	"slices"
	"testing"

	"isolio/internal/lab/result"
)

// reordering is two contenders on a disk that reorders: the second one's delay counts
// are at most 40.
func reordering() *result.Document {
	doc := document()
	doc.Critical = "w1000"
	doc.Verdicts = append(doc.Verdicts, result.Verdict{Scheduler: "none", Metric: "delay_count.max", Wanted: "<= 200", Met: true})
	doc.Runs = doc.Runs[:2]
	doc.Runs[0].Delays = result.NewDelays(map[uint64]uint64{0: 50, 40: 40, 160: 10}, 160)
	doc.Runs[1].Delays = result.NewDelays(map[uint64]uint64{0: 60, 40: 40}, 40)
	return doc
}

func TestDistributions(t *testing.T) {
	root := parse(t, render(t, reordering()))
	s := section(root, "distributions")
	if s == nil {
		t.Fatal("the page has no distributions")
	}
	var names []string
	for _, entry := range all(s, "li") {
		names = append(names, textOf(entry))
	}
	if want := []string{"none", "mq-deadline"}; !slices.Equal(names, want) {
		t.Errorf("lines of %q, want %q", names, want)
	}
	figures := all(s, "figure")
	if len(figures) != 2 {
		t.Fatalf("%d plots, want delay counts and latencies", len(figures))
	}
	lines := map[string]shape{}
	for _, line := range shapes(t, figures[0], stroked) {
		if _, seen := lines[line.colour]; !seen {
			lines[line.colour] = line
		}
	}
	first, second := lines["c0"], lines["c1"]
	if len(first.xs) != 3 || len(second.xs) != 2 {
		t.Fatalf("lines of %d and %d points, want one for each bucket", len(first.xs), len(second.xs))
	}
	// 0, 40 and 160 times: half, nine tenths, and all of the requests.
	if got := (first.xs[2] - first.xs[0]) / (first.xs[1] - first.xs[0]); math.Abs(got-4) > 0.02 {
		t.Errorf("160 is %g times as far as 40", got)
	}
	if got := (first.ys[2] - first.ys[0]) / (first.ys[1] - first.ys[0]); math.Abs(got-1.25) > 0.02 {
		t.Errorf("all is %g times as high above half as nine tenths", got)
	}
	if math.Abs(second.xs[1]-first.xs[1]) > 0.5 || math.Abs(second.ys[1]-first.ys[2]) > 0.5 {
		t.Errorf("40 times and all of them is at %g,%g", second.xs[1], second.ys[1])
	}
	// The slowest requests there are of interest, against the total as well.
	if trade := all(section(root, "trade"), "figure"); len(trade) != 4 {
		t.Errorf("%d plots against the total, want share error, p99, p99.9 and longest", len(trade))
	}
}

func TestDistributionsOfLittle(t *testing.T) {
	none := reordering()
	none.Runs[0].Delays, none.Runs[1].Delays = result.NewDelays(map[uint64]uint64{0: 9}, 0), nil
	many := reordering()
	for len(many.Runs) <= distributionLines {
		many.Runs = append(many.Runs, many.Runs[0])
	}
	noQuestion := reordering()
	noQuestion.Verdicts = nil
	for name, doc := range map[string]*result.Document{
		"none bypassed": none, "no model disk": document(), "too many": many, "of no interest": noQuestion,
	} {
		if section(parse(t, render(t, doc)), "distributions") != nil {
			t.Errorf("%s: the page has distributions", name)
		}
	}
	noReads := reordering()
	noReads.Critical = ""
	if figures := all(section(parse(t, render(t, noReads)), "distributions"), "figure"); len(figures) != 1 {
		t.Errorf("%d plots without a critical container, want one", len(figures))
	}
}

func TestRunNames(t *testing.T) {
	b := newBuilder(reordering())
	b.doc.Runs[1].Variant = &result.Variant{Of: "rsd", Label: "age_th 40"}
	for i, want := range []string{"none", "age_th 40"} {
		if got := b.runName(&b.doc.Runs[i]); got != want {
			t.Errorf("run %d is %q, want %q", i, got, want)
		}
	}
	b.doc.Runs[0].Case, b.doc.Runs[1].Case = "deep", "flat"
	if got := b.runName(&b.doc.Runs[1]); got != "flat, age_th 40" {
		t.Errorf("one of two cases and schedulers is %q", got)
	}
	b.doc.Runs[1].Scheduler = "none"
	if got := b.runName(&b.doc.Runs[1]); got != "flat" {
		t.Errorf("one of two cases of a scheduler is %q", got)
	}
}
