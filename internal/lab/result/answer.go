// SPDX-License-Identifier: MIT

package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/lab/experiment"
)

// Answer is what came of the question, in a sentence for each case and one of the
// expectations: which contenders keep what the weights promise, at what total, and how far
// off the others are.
func (d *Document) Answer() []string {
	var all []string
	for _, name := range d.Cases() {
		if text := d.kept(name); text != "" {
			if name == "" {
				text = strings.ToUpper(text[:1]) + text[1:]
			}
			all = append(all, Label(name, text))
		}
		if len(all) == mostAnswers {
			break // the other cases follow below
		}
	}
	return append(all, d.expected()...)
}

// mostAnswers is how many cases are answered: a reader takes no more in.
const mostAnswers = 2

// Up to this share error shares count as kept; from this part of a disk of its own on a
// container has one.
const (
	exactPct = 2
	ownLeast = 0.95
)

// answered is how far a contender keeps what the weights promise.
type answered struct {
	name  string
	kept  bool
	off   float64 // more is worse
	how   string
	total string
	sum   float64
}

// AsksForOwnDisks reports whether the experiment asks for disks of their own, and not for shares.
func (d *Document) AsksForOwnDisks() bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.Metric == experiment.OwnDiskLeast })
}

// kept says which contenders of a case do; "" where there is nothing to share or to compare.
func (d *Document) kept(name string) string {
	runs := d.In(name)
	ofOwn := d.AsksForOwnDisks()
	var all []answered
	for i := range runs {
		a, ok := runs[i].answered(ofOwn)
		if !ok {
			return ""
		}
		all = append(all, a)
	}
	if len(all) < 2 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b answered) int { // those that keep it by total, then the others
		if a.kept != b.kept {
			return map[bool]int{true: -1, false: 1}[a.kept]
		}
		if a.kept {
			return cmp.Compare(b.sum, a.sum)
		}
		return cmp.Compare(a.off, b.off)
	})
	what := fmt.Sprintf("each container has its share within %d %%", exactPct)
	if ofOwn {
		what = fmt.Sprintf("each container has at least %g of a disk of its own", ownLeast)
	}
	var kept, others []string
	for _, a := range all {
		if text := a.name + " (" + a.how + a.total + ")"; a.kept {
			kept = append(kept, text)
		} else {
			others = append(others, text)
		}
	}
	text := what + " with " + strings.Join(kept, "; ") + "."
	if len(kept) == 0 {
		text = what + " with none of " + fmt.Sprint(len(all)) + " contenders."
	}
	if len(others) == 0 {
		return text
	}
	return text + " Not with " + strings.Join(others[:min(len(others), mostOthers)], "; ") + more(len(others)-mostOthers) + "."
}

// mostOthers is how many contenders that do not keep it are named.
const mostOthers = 3

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

// answered is false for a run that shares nothing, or was not measured so.
func (r *Run) answered(ofOwn bool) (a answered, ok bool) {
	a = answered{name: cmp.Or(called[r.Scheduler], r.Scheduler), sum: r.TotalBytesPS}
	if r.TotalVsNone != nil {
		a.total = fmt.Sprintf(", total %.2f", *r.TotalVsNone)
	}
	if len(r.Containers) < 2 {
		return a, false
	}
	if ofOwn {
		if r.OwnDiskLeast == nil {
			return a, false
		}
		a.kept, a.off, a.how = *r.OwnDiskLeast >= ownLeast, -*r.OwnDiskLeast, fmt.Sprintf("%.2f", *r.OwnDiskLeast)
		return a, true
	}
	errorPct, ok := r.ShareErrorPct("")
	a.kept, a.off, a.how = errorPct <= exactPct, errorPct, "off by "+percent(errorPct)
	return a, ok
}

// called are contenders whose names do not say what a reader knows them by.
var called = map[string]string{"kyber-fairness": "isolio's kyber-fairness", "iocost": "io.cost"}

// percent has as many digits as tell something.
func percent(v float64) string {
	switch {
	case v < 1:
		return strconv.FormatFloat(v, 'f', 2, 64) + " %"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

// expected says how many expectations are met, and by how much the others are missed.
func (d *Document) expected() []string {
	var missed []string
	for _, v := range d.Verdicts {
		if !v.Met {
			missed = append(missed, v.missed())
		}
	}
	n := len(d.Verdicts)
	switch {
	case n == 0:
		return nil
	case n == 1 && len(missed) == 0:
		return []string{"The expectation is met."}
	case len(missed) == 0:
		return []string{fmt.Sprintf("All %d expectations are met.", n)}
	}
	return []string{fmt.Sprintf("%d of %d expectations are met; not %s.", n-len(missed), n,
		strings.Join(missed[:min(len(missed), mostOthers)], "; ")+more(len(missed)-mostOthers))}
}

// missed is an expectation that is not met, with what was measured and by how much that is
// off, where the bound is one number.
func (v Verdict) missed() string {
	text := Label(v.Case, v.Scheduler) + ": " + v.Metric + " " + v.Wanted
	if v.Got == nil {
		return text + " (not measured)"
	}
	_, number, _ := strings.Cut(v.Wanted, " ")
	bound, err := strconv.ParseFloat(number, 64)
	if err != nil || bound == 0 {
		return text + " (" + experiment.Figure(*v.Got) + ")"
	}
	return fmt.Sprintf("%s (%s, %s off)", text, experiment.Figure(*v.Got), percent(100*math.Abs(*v.Got/bound-1)))
}
