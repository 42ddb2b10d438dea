// SPDX-License-Identifier: MIT

package archive

import (
	"io"
	"maps"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

func runs(total, share float64) []result.Run {
	return []result.Run{{Scheduler: "bfq", TotalBytesPS: total, Containers: []result.Container{{Name: "a", Share: share}}}}
}

func TestSame(t *testing.T) {
	if err := same("x", runs(100, 0.5), runs(100, 0.5)); err != nil {
		t.Error(err)
	}
	if err := same("x", runs(100, 0.5), runs(100, 0.50001)); err == nil || !strings.Contains(err.Error(), `was "share": 0.5, is "share": 0.50001`) {
		t.Error(err)
	}
	if err := same("x", runs(100, 0.5), append(runs(100, 0.5), runs(1, 1)...)); err == nil {
		t.Error("a run more is the same")
	}
}

func TestNear(t *testing.T) {
	all := map[string]bool{"bfq": true}
	if err := near("x", runs(100, 0.5), runs(101.9, 0.491), all, io.Discard); err != nil {
		t.Error(err)
	}
	err := near("x", runs(100, 0.5), runs(97.9, 0.511), all, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "bfq: bytes a second: was 100, is 97.9") || !strings.Contains(err.Error(), "bfq: share of a: was 0.5, is 0.511") {
		t.Error(err)
	}
	if err := near("x", runs(100, 0.5), nil, nil, io.Discard); err == nil {
		t.Error("no runs are near")
	}
	var out strings.Builder
	if err := near("x", runs(100, 0.5), runs(97.9, 0.5), map[string]bool{"none": true}, &out); err != nil {
		t.Errorf("a contender that no expectation is about: %v", err)
	}
	if want := "verify: x: bfq: bytes a second: was 100, is 97.9; no expectation is about it\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

func TestJudged(t *testing.T) {
	got := judged(&experiment.Experiment{Expect: []experiment.Expectation{{Scheduler: "rsd"}, {Scheduler: "rsd"}}})
	if want := map[string]bool{"none": true, "rsd": true}; !maps.Equal(got, want) {
		t.Errorf("judged %v, want %v", got, want)
	}
}

func TestVerifyNeedsAResult(t *testing.T) {
	tree := newTree(t)
	for _, c := range []struct{ name, want string }{
		{"two", `no experiment is called "two"`}, {"one", "there is no results/one.json"},
	} {
		if _, _, err := tree.caseOf(c.name, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	must(t, tree.Write(&result.Document{Schema: result.Schema, Experiment: "one", Runs: []result.Run{{Scheduler: "none"}}}))
	if _, _, err := tree.caseOf("one", "deep"); err == nil || !strings.Contains(err.Error(), `one has no case "deep"`) {
		t.Error(err)
	}
	if _, _, err := tree.caseOf("one", ""); err != nil {
		t.Error(err)
	}
}
