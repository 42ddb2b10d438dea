// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/lab"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// movedPct is by how much a figure may differ where sources or programs are others than
// those that were measured.
const movedPct = 2

// Verify measures one case of an experiment again. Where sources and programs are those of
// the result, it must be the same to the last byte. Elsewhere totals and shares may differ
// by 2 % of each contender that an expectation is about, and of none. What it compared, and
// how far the other contenders moved, is written to out.
func (t Tree) Verify(ctx context.Context, opts lab.Options, name, ofCase string, out io.Writer) error {
	x, doc, err := t.caseOf(name, ofCase)
	if err != nil {
		return err
	}
	opts.Line = x.Kernel
	why, err := t.Stale(x, doc)
	if err != nil {
		return err
	}
	release, versions, err := lab.Versions(ctx, opts, x)
	if err != nil {
		return err
	}
	why = append(why, Outdated(doc, release, &versions)...)
	if x, err = x.Select(nil, casesOf(ofCase)); err != nil {
		return err
	}
	now, err := lab.Run(ctx, opts, x, nil)
	if err != nil {
		return err
	}
	// A case that runs only programs does not tell fio's version.
	if len(why) == 0 && now.Fio != "" && now.Fio != doc.Fio {
		why = append(why, fmt.Sprintf("fio: %s, now %s", doc.Fio, now.Fio))
	}
	was := doc.In(ofCase)
	if len(why) > 0 {
		fmt.Fprintf(out, "%s: not as it was measured: %s; totals and shares are compared to %d %%\n", name, strings.Join(why, ", "), movedPct)
		return near(name, was, now.In(ofCase), judged(x), out)
	}
	fmt.Fprintf(out, "%s: sources and programs are those that were measured; %d runs are compared to the last byte\n", name, len(was))
	return same(name, was, now.In(ofCase))
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
func (t Tree) caseOf(name, ofCase string) (*experiment.Experiment, *result.Document, error) {
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
			return nil, nil, failure.Usagef("verify: there is no results/%s.json; `make results ONLY=%s` makes it", name, name)
		}
		if len(doc.In(ofCase)) == 0 {
			return nil, nil, failure.Usagef("verify: %s has no case %q; allowed: %s", name, ofCase, strings.Join(doc.Cases(), ", "))
		}
		return x, doc, nil
	}
	return nil, nil, failure.Usagef("verify: no experiment is called %q; allowed: a name from experiments/", name)
}

// same compares runs to the last byte of what is written of them.
func same(name string, was, is []result.Run) error {
	text := func(runs []result.Run) (string, error) {
		var b bytes.Buffer
		err := (&result.Document{Runs: runs}).WriteJSON(&b)
		return b.String(), err
	}
	a, err := text(was)
	if err != nil {
		return err
	}
	b, err := text(is)
	if err != nil {
		return err
	}
	if a == b {
		return nil
	}
	old, now := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			return fmt.Errorf("verify: %s differs from its result: was %s, is %s", name, trim(old[i]), trim(now[i]))
		}
	}
	return fmt.Errorf("verify: %s differs from its result: %d lines, were %d", name, len(now), len(old))
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

// near compares totals and shares. It fails for what moved of the contenders in judged, and
// tells out of the others.
func near(name string, was, is []result.Run, judged map[string]bool, out io.Writer) error {
	var wrong []error
	compare := func(scheduler, what string, a, b float64) {
		if math.Abs(b-a) <= movedPct/100.0*a {
			return
		}
		moved := fmt.Errorf("verify: %s: %s: %s: was %s, is %s", name, scheduler, what, experiment.Figure(a), experiment.Figure(b))
		if judged[scheduler] {
			wrong = append(wrong, moved)
		} else {
			fmt.Fprintf(out, "%v; no expectation is about it\n", moved)
		}
	}
	if len(was) != len(is) {
		return fmt.Errorf("verify: %s: had %d runs, has %d", name, len(was), len(is))
	}
	for i := range was {
		a, b := &was[i], &is[i]
		if a.Scheduler != b.Scheduler || len(a.Containers) != len(b.Containers) {
			return fmt.Errorf("verify: %s: run %d was of %s with %d containers, is of %s with %d", name, i+1,
				a.Scheduler, len(a.Containers), b.Scheduler, len(b.Containers))
		}
		compare(a.Scheduler, "bytes a second", a.TotalBytesPS, b.TotalBytesPS)
		for j := range a.Containers {
			compare(a.Scheduler, "share of "+a.Containers[j].Name, a.Containers[j].Share, b.Containers[j].Share)
		}
	}
	return errors.Join(wrong...)
}

// trim leaves of a line of JSON what a message needs.
func trim(line string) string { return strings.TrimSuffix(strings.TrimSpace(line), ",") }
