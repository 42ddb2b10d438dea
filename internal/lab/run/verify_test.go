// SPDX-License-Identifier: MIT

package run

import (
	"io"
	"maps"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

func runs(total, share float64) []result.Run {
	return []result.Run{{Scheduler: "bfq", TotalBytesPS: total, Containers: []result.Container{{Name: "a", Share: share}}}}
}

func TestCompare(t *testing.T) {
	all := map[string]bool{"bfq": true}
	var out strings.Builder
	if err := compare("x", runs(100, 0.5), runs(101.9, 0.491), all, &out); err != nil {
		t.Error(err)
	}
	// The tolerances stand beside what was compared.
	for _, want := range []string{"total bytes/s     2 %", "share             2 % or 0.002          1        0    1.80 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	err := compare("x", runs(100, 0.5), runs(97.9, 0.511), all, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "bfq: total bytes/s: was 100, is 97.9") || !strings.Contains(err.Error(), "bfq: share a: was 0.5, is 0.511") {
		t.Error(err)
	}
	for _, is := range [][]result.Run{nil, {{Scheduler: "bfq"}}, {{Scheduler: "kyber", Containers: []result.Container{{Name: "a"}}}}} {
		if err := compare("x", runs(100, 0.5), is, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "make results ONLY=x") {
			t.Errorf("%+v: %v", is, err)
		}
	}
	out.Reset()
	if err := compare("x", runs(100, 0.5), runs(97.9, 0.5), map[string]bool{"none": true}, &out); err != nil {
		t.Errorf("a contender that no expectation is about: %v", err)
	}
	if want := "verify: x: bfq: total bytes/s: was 100, is 97.9; no expectation is about bfq\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

// Each kind of figure is looked at, and what is small differs by its least.
func TestTolerances(t *testing.T) {
	whole := func(by float64) []result.Run {
		r := runs(100*by, 0.5*by)
		r[0].TotalIOPS, r[0].JainWeighted = 10*by, 0.9*by
		r[0].Containers[0].Read = &result.Direction{Lat: result.Latency{Mean: 1000 * by, P99: 4000 * by}}
		return r
	}
	err := compare("x", whole(1), whole(1.25), map[string]bool{"bfq": true}, io.Discard)
	for _, tol := range tolerances {
		if err == nil || !strings.Contains(err.Error(), "bfq: "+tol.figure) {
			t.Errorf("%s may grow by a quarter: %v", tol.figure, err)
		}
	}
	if tol := (tolerance{pct: 5, least: 10}); !tol.allows(1, 11) || tol.allows(1, 11.1) || !tol.allows(1000, 1050) || tol.allows(1000, 1051) || tol.String() != "5 % or 10" {
		t.Errorf("%s", tol)
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
		if _, _, err := caseOf(tree, c.name, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	must.OK(t, tree.Write(&result.Document{Schema: result.Schema, Experiment: "one", Runs: []result.Run{{Scheduler: "none"}}}))
	if _, _, err := caseOf(tree, "one", "deep"); err == nil || !strings.Contains(err.Error(), `one has no case "deep"`) {
		t.Error(err)
	}
	if _, _, err := caseOf(tree, "one", ""); err != nil {
		t.Error(err)
	}
}
