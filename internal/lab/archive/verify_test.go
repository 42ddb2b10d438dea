// SPDX-License-Identifier: MIT

package archive

import (
	"strings"
	"testing"

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
	if err := near("x", runs(100, 0.5), runs(101.9, 0.491)); err != nil {
		t.Error(err)
	}
	err := near("x", runs(100, 0.5), runs(97.9, 0.511))
	if err == nil || !strings.Contains(err.Error(), "bfq: bytes a second: was 100, is 97.9") || !strings.Contains(err.Error(), "bfq: share of a: was 0.5, is 0.511") {
		t.Error(err)
	}
	if err := near("x", runs(100, 0.5), nil); err == nil {
		t.Error("no runs are near")
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
