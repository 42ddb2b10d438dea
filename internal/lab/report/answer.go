// SPDX-License-Identifier: MIT

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"isolio/internal/lab/result"
)

// answer is what came of the question, in a sentence or two: which contenders keep the
// shares, and at what total; and whether all expectations are met.
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

// exactPct is the share error up to which shares count as kept.
const exactPct = 2

// nearest says which contenders of a case keep the shares, and at what total; "" where
// there is nothing to share or to compare.
func nearest(runs []result.Run) string {
	type contender struct {
		name          string
		errorPct, sum float64
		total         string // against none
	}
	var all, exact []contender
	for i := range runs {
		r := &runs[i]
		errorPct, ok := r.ShareErrorPct("")
		if !ok || len(r.Containers) < 2 {
			return ""
		}
		c := contender{name: r.Scheduler, errorPct: errorPct, sum: r.TotalBytesPS}
		if r.TotalVsNone != nil {
			c.total = " at " + fixed(*r.TotalVsNone, 2) + " of the total of none"
		}
		all = append(all, c)
		if errorPct <= exactPct {
			exact = append(exact, c)
		}
	}
	if len(all) < 2 {
		return ""
	}
	if len(exact) == 0 {
		best := slices.MinFunc(all, func(a, b contender) int { return cmp.Compare(a.errorPct, b.errorPct) })
		return fmt.Sprintf("none of the %d contenders keeps each container within %d %% of its share. %s comes nearest, within %s %%%s.",
			len(all), exactPct, best.name, fixed(best.errorPct, 1), best.total)
	}
	slices.SortStableFunc(exact, func(a, b contender) int { return cmp.Compare(b.sum, a.sum) })
	var names []string
	for _, c := range exact {
		names = append(names, c.name+c.total)
	}
	return fmt.Sprintf("%d of %d contenders keep each container within %d %% of its share: %s.",
		len(exact), len(all), exactPct, strings.Join(names, "; "))
}
