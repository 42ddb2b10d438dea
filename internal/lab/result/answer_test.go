// SPDX-License-Identifier: MIT

package result

import (
	"slices"
	"testing"
)

func TestAnswer(t *testing.T) {
	run := func(name string, share, total float64) Run {
		return Run{Scheduler: name, TotalVsNone: new(total), TotalBytesPS: total, OwnDiskLeast: new(share), Containers: []Container{
			{Name: "a", EntitledShare: 0.75, Share: share}, {Name: "b", EntitledShare: 0.25, Share: 1 - share},
		}}
	}
	doc := &Document{
		Runs:     []Run{run("none", 0.5, 1), run("bfq", 0.7, 0.5), run("kyber-fairness", 0.75, 0.9)},
		Verdicts: []Verdict{{Met: true}, {Met: true}},
	}
	is := func(want ...string) {
		t.Helper()
		if got := doc.Answer(); !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	shares := "each container has its share within 2 % with isolio's kyber-fairness (off by 0.00 %, total 0.90). Not with bfq (off by 20 %, total 0.50); none (off by 100 %, total 1.00)."
	is("E"+shares[1:], "All 2 expectations are met.")
	// What is not met stands beside it, with how much that is.
	doc.Verdicts[1] = Verdict{Scheduler: "kyber-fairness", Metric: "p99_vs:iocost", Wanted: "<= 1", Got: new(1.029)}
	is("E"+shares[1:], "1 of 2 expectations are met; not kyber-fairness: p99_vs:iocost <= 1 (1.029, 2.9 % off).")
	doc.Verdicts[1].Got = nil
	doc.Verdicts = append(doc.Verdicts, Verdict{Scheduler: "bfq", Metric: "total_iops", Wanted: "76.2 within 3 %", Got: new(9.0)})
	is("E"+shares[1:], "1 of 3 expectations are met; not kyber-fairness: p99_vs:iocost <= 1 (not measured); bfq: total_iops 76.2 within 3 % (9).")
	doc.Verdicts = nil
	for i := range doc.Runs {
		doc.Runs[i].Case = "deep"
	}
	is("deep: " + shares)
	doc.Runs[2].Containers = doc.Runs[1].Containers
	is("deep: each container has its share within 2 % with none of 3 contenders. Not with bfq (off by 20 %, total 0.50); isolio's kyber-fairness (off by 20 %, total 0.90); none (off by 100 %, total 1.00).")

	// An experiment that asks for disks of their own is answered so.
	doc.Runs[2].OwnDiskLeast = new(1.01)
	doc.Verdicts = []Verdict{{Metric: "own_disk_least", Met: true}}
	is("deep: each container has at least 0.95 of a disk of its own with isolio's kyber-fairness (1.01, total 0.90). Not with bfq (0.70, total 0.50); none (0.50, total 1.00).",
		"The expectation is met.")
	doc.Verdicts = nil
	for i := range doc.Runs { // nothing is shared
		doc.Runs[i].Containers = doc.Runs[i].Containers[:1]
	}
	is()
}
