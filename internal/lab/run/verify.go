// SPDX-License-Identifier: MIT

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/table"
)

// tolerance is by how much a kind of figure may differ where a case is measured again. The
// modules, the compiler and QEMU may be others than those of the result, and the least change
// of timing moves all figures a little. Where one VM is run twice the figures are the same.
type tolerance struct {
	figure string
	// pct is of what the figure was; a difference of least is small whatever the figure.
	pct, least float64
	// of are the figures of a run by what they are of, such as a container.
	of func(r *result.Run) []figure
}

type figure struct {
	of    string
	value float64
}

var tolerances = []tolerance{
	{"total bytes/s", 2, 0, func(r *result.Run) []figure { return []figure{{"", r.TotalBytesPS}} }},
	{"total requests/s", 2, 0, func(r *result.Run) []figure { return []figure{{"", r.TotalIOPS}} }},
	{"Jain index", 0, 0.02, func(r *result.Run) []figure { return []figure{{"", r.JainWeighted}} }},
	{"share", 2, 0.002, func(r *result.Run) (all []figure) {
		for _, c := range r.Containers {
			all = append(all, figure{c.Name, c.Share})
		}
		return all
	}},
	{"mean latency, us", 5, 10, latencies(func(l result.Latency) float64 { return l.Mean })},
	{"p99 latency, us", 20, 50, latencies(func(l result.Latency) float64 { return l.P99 })},
}

// latencies are those of each container in each direction that has some.
func latencies(of func(result.Latency) float64) func(*result.Run) []figure {
	return func(r *result.Run) (all []figure) {
		for _, c := range r.Containers {
			for _, d := range []struct {
				name string
				*result.Direction
			}{{"read", c.Read}, {"write", c.Write}, {"sync", c.Sync}, {"operations", c.Operations}} {
				if d.Direction != nil {
					all = append(all, figure{c.Name + " " + d.name, of(d.Lat)})
				}
			}
		}
		return all
	}
}

// allows reports whether a figure may become another.
func (t tolerance) allows(was, is float64) bool {
	return math.Abs(is-was) <= max(t.least, t.pct/100*math.Abs(was))
}

func (t tolerance) String() string {
	var parts []string
	if t.pct > 0 {
		parts = append(parts, experiment.Figure(t.pct)+" %")
	}
	if t.least > 0 {
		parts = append(parts, experiment.Figure(t.least))
	}
	return strings.Join(parts, " or ")
}

// Verify measures one case of an experiment again, and compares it with its result figure by
// figure. It fails where a figure is out of its tolerance of a contender that an expectation
// is about, and of none. What it compared is written to out.
func Verify(ctx context.Context, t archive.Tree, opts Options, name, ofCase string, out io.Writer) error {
	x, doc, err := caseOf(t, name, ofCase)
	if err != nil {
		return err
	}
	why, err := t.Old(x, doc)
	if err != nil {
		return err
	}
	if len(why) > 0 {
		fmt.Fprintf(out, "%s: the result is older than the code: %s\n", name, strings.Join(why, ", "))
	}
	opts.Line = x.Kernel
	if x, err = x.Select(nil, casesOf(ofCase)); err != nil {
		return err
	}
	now, err := Experiment(ctx, opts, x, nil)
	if err != nil {
		return err
	}
	return compare(name, doc.In(ofCase), now.In(ofCase), judged(x), out)
}

// casesOf is what Select takes for a case: nil for the only one of an experiment that
// lists none.
func casesOf(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// caseOf finds an experiment with its result.
func caseOf(t archive.Tree, name, ofCase string) (*experiment.Experiment, *result.Document, error) {
	all, err := t.Measured()
	if err != nil {
		return nil, nil, err
	}
	for _, x := range all {
		if x.Name != name {
			continue
		}
		doc, err := t.Read(name)
		if err != nil {
			return nil, nil, err
		}
		if doc == nil {
			return nil, nil, failure.Usagef("verify: there is no results/%s.jsonl; `make results ONLY=%s` makes it", name, name)
		}
		if len(doc.In(ofCase)) == 0 {
			return nil, nil, failure.Usagef("verify: %s has no case %q; allowed: %s", name, ofCase, strings.Join(doc.Cases(), ", "))
		}
		return x, doc, nil
	}
	return nil, nil, failure.Usagef("verify: no experiment is called %q; allowed: a name from experiments/", name)
}

// judged is which contenders must not have moved: those that an expectation is about, and
// none, with which totals are compared. The experiment claims nothing of the others, and
// the least change of timing moves some by more than movedPct: a message of the engine in
// other words took 3 % of bfq's total in kf-nested.
func judged(x *experiment.Experiment) map[string]bool {
	names := map[string]bool{"none": true}
	for i := range x.Expect {
		names[x.Expect[i].Scheduler] = true
	}
	return names
}

// compare fails for what is out of tolerance of the contenders in judged, and tells out of
// the others.
func compare(name string, was, is []result.Run, judged map[string]bool, out io.Writer) error {
	if len(was) != len(is) {
		return fmt.Errorf("verify: %s: has %d runs, had %d; measure it anew with `make results ONLY=%[1]s`", name, len(is), len(was))
	}
	var wrong, moved []error
	rows := make([][]string, len(tolerances))
	for i, t := range tolerances {
		n, outside, furthest := 0, 0, 0.0
		for j := range was {
			a, b := &was[j], &is[j]
			before, after := t.of(a), t.of(b)
			if a.Scheduler != b.Scheduler || !slices.EqualFunc(before, after, func(a, b figure) bool { return a.of == b.of }) {
				return fmt.Errorf("verify: %s: run %d was of %s with other containers, is of %s; measure it anew with `make results ONLY=%[1]s`",
					name, j+1, a.Scheduler, b.Scheduler)
			}
			for k := range before {
				n++
				if before[k].value != 0 {
					furthest = max(furthest, 100*math.Abs(after[k].value/before[k].value-1))
				}
				if t.allows(before[k].value, after[k].value) {
					continue
				}
				outside++
				what := fmt.Errorf("verify: %s: %s: %s: was %s, is %s", name, a.Scheduler, strings.TrimSpace(t.figure+" "+before[k].of),
					experiment.Figure(before[k].value), experiment.Figure(after[k].value))
				if judged[a.Scheduler] {
					wrong = append(wrong, what)
				} else {
					moved = append(moved, fmt.Errorf("%w; no expectation is about %s", what, a.Scheduler))
				}
			}
		}
		rows[i] = []string{t.figure, t.String(), fmt.Sprint(n), fmt.Sprint(outside), fmt.Sprintf("%.2f %%", furthest)}
	}
	columns := []table.Column{{Head: "figure"}, {Head: "may differ by"}, {Head: "compared", Right: true}, {Head: "outside", Right: true}, {Head: "furthest", Right: true}}
	if err := table.Write(out, columns, rows); err != nil {
		return err
	}
	for _, what := range moved {
		fmt.Fprintln(out, what)
	}
	return errors.Join(wrong...)
}
