// SPDX-License-Identifier: MIT

package doc

import (
	"cmp"
	"fmt"

	"isolio/internal/lab/experiment"
)

// verdicts makes a table with a row for each expectation: what was wanted, and what was measured.
func (f *Filler) verdicts(p place, b *block, filled *Filled) (string, error) {
	sources, names, err := f.sources(p, b, filled)
	if err != nil {
		return "", err
	}
	head := []string{cmp.Or(b.Head, "scheduler"), "figure"}
	if names != nil {
		head = append([]string{"case"}, head...)
	}
	rows := [][]string{append(head, "wanted", "measured", "met")}
	met := 0
	for i, s := range sources {
		for _, v := range s.verdicts() {
			cells := []string{v.Scheduler, "`" + v.Metric + "`"}
			if names != nil {
				cells = append([]string{names[i]}, cells...)
			}
			got, isMet := "-", "no"
			if v.Got != nil {
				got = experiment.Figure(*v.Got)
			}
			if v.Met {
				isMet = "yes"
				met++
			}
			rows = append(rows, append(cells, v.Wanted, got, isMet))
		}
	}
	if len(rows) == 1 {
		return "", p.wrong("table", fmt.Sprintf("%s expects nothing there", b.Result), "an experiment with [[expect]] tables")
	}
	return markdown(rows) + sources[0].measured() + countText(met, len(rows)-1) + "\n", nil
}
