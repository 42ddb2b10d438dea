// SPDX-License-Identifier: MIT

package report

import (
	"slices"
	"testing"

	"isolio/internal/lab/result"
)

func TestAnswer(t *testing.T) {
	versus := func(v float64) *float64 { return &v }
	run := func(name string, share, total float64) result.Run {
		return result.Run{Scheduler: name, TotalVsNone: versus(total), Containers: []result.Container{
			{Name: "a", EntitledShare: 0.75, Share: share}, {Name: "b", EntitledShare: 0.25, Share: 1 - share},
		}}
	}
	doc := &result.Document{
		Runs:     []result.Run{run("none", 0.5, 1), run("bfq", 0.7, 0.5), run("kyber-fairness", 0.75, 0.9)},
		Verdicts: []result.Verdict{{Met: true}, {Met: true}},
	}
	nearest := "1 of 3 contenders keep each container within 2 % of its share: kyber-fairness at 0.90 of the total of none."
	if got := answer(doc); !slices.Equal(got, []string{nearest, "All 2 expectations are met."}) {
		t.Errorf("%q", got)
	}
	doc.Verdicts[1].Met = false
	for i := range doc.Runs {
		doc.Runs[i].Case = "deep"
	}
	if got := answer(doc); !slices.Equal(got, []string{"deep: " + nearest}) {
		t.Errorf("%q", got)
	}
	doc.Runs[2].Containers = doc.Runs[1].Containers
	want := "deep: none of the 3 contenders keeps each container within 2 % of its share. bfq comes nearest, within 20.0 % at 0.50 of the total of none."
	if got := answer(doc); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	for i := range doc.Runs { // nothing is shared
		doc.Runs[i].Containers = doc.Runs[i].Containers[:1]
	}
	if got := answer(doc); got != nil {
		t.Errorf("%q", got)
	}
}
