// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"slices"

	"isolio/internal/lab/result"
)

// answer is what came of the question, in a sentence or two: how near to their shares the
// containers came, for the contender that is best at it and the one after it, and at what
// total; and whether all expectations are met.
func answer(doc *result.Document) []string {
	var all []string
	for _, name := range doc.Cases() {
		if text := nearest(doc.In(name)); text != "" {
			all = append(all, result.Label(name, text))
			break // the other cases follow below
		}
	}
	met := 0
	for _, v := range doc.Verdicts {
		if v.Met {
			met++
		}
	}
	if met > 0 && met == len(doc.Verdicts) { // others are named below it
		all = append(all, fmt.Sprintf("All %d expectations are met.", met))
	}
	return all
}

// nearest compares the contenders of a case by their share errors; "" where there is
// nothing to share or to compare.
func nearest(runs []result.Run) string {
	type contender struct {
		name     string
		errorPct float64
		versus   *float64
	}
	var all []contender
	for i := range runs {
		errorPct, ok := runs[i].ShareErrorPct("")
		if !ok || len(runs[i].Containers) < 2 {
			return ""
		}
		all = append(all, contender{runs[i].Scheduler, errorPct, runs[i].TotalVsNone})
	}
	if len(all) < 2 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b contender) int {
		switch {
		case a.errorPct < b.errorPct:
			return -1
		case a.errorPct > b.errorPct:
			return 1
		}
		return 0
	})
	total := func(c contender) string {
		if c.versus == nil {
			return ""
		}
		return " at " + fixed(*c.versus, 2) + " of the total of none"
	}
	a, b := all[0], all[1]
	return fmt.Sprintf("%s comes nearest to the weights: each container is within %s %% of its share%s. Next is %s, within %s %%%s.",
		a.name, errorText(a.errorPct), total(a), b.name, errorText(b.errorPct), total(b))
}

// errorText has two digits at least.
func errorText(pct float64) string {
	if pct < 10 {
		return fixed(pct, 2)
	}
	return fixed(pct, 0)
}
