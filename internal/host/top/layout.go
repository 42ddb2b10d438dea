// SPDX-License-Identifier: MIT

package top

import (
	"slices"

	"charm.land/lipgloss/v2"

	"isolio/internal/host/usage"
)

// layout is what of a table fits on a screen.
type layout struct {
	shown  []int // the columns, from left to right
	widths []int // of all columns
	spark  int   // of the sparkline, 0 for none
}

// What the name and the sparkline keep on a narrow screen. Columns of lower ranks than fewColumns go before
// a name has less than goodName.
const (
	goodName   = 24
	minName    = 12
	minSpark   = 8
	fewColumns = 4
)

// fit lays out a table of these titles and cells on a screen, 0 for one of any
// width. What does not fit goes in this order: most of the sparkline, spare columns
// that tell nothing, the begin of long names, the sparkline, columns that tell least, more of names. The
// column that the table is ordered by stays, and names have what room is left.
func fit(all []column, titles []string, lines [][]string, order, width int) layout {
	l := layout{widths: make([]int, len(all)), spark: usage.HistoryLen}
	for i := range all {
		if !all[i].mayLack() || i == order || slices.ContainsFunc(lines, func(line []string) bool { return line[i] != "" }) {
			l.shown = append(l.shown, i)
		}
		l.widths[i] = lipgloss.Width(titles[i])
		for _, line := range lines {
			l.widths[i] = max(l.widths[i], lipgloss.Width(line[i]))
		}
	}
	if width == 0 {
		return l
	}
	l.spark -= min(max(0, l.over(width)), l.spark-minSpark)
	l.drop(width, func(i int) bool { return i != order && all[i].isSpare && tellsNothing(lines, i) })
	whole := l.widths[0]
	l.widths[0] -= min(max(0, l.over(width)), max(0, l.widths[0]-goodName))
	if l.over(width) > 0 {
		l.spark = 0
	}
	for rank := 1; rank < len(all); rank++ {
		if rank == fewColumns {
			l.widths[0] -= min(max(0, l.over(width)), max(0, l.widths[0]-minName))
		}
		l.drop(width, func(i int) bool { return i != order && all[i].rank == rank })
	}
	l.widths[0] += min(max(0, -l.over(width)), whole-l.widths[0])
	return l
}

// over is by how much the table is wider than the screen. Nothing is right of the
// last column.
func (l *layout) over(width int) int {
	total := -columnGap
	for _, i := range l.shown {
		total += l.widths[i] + columnGap
	}
	if l.spark > 0 {
		total += l.spark + columnGap
	}
	return total - width
}

// drop takes columns away, the last first, until the rest fits.
func (l *layout) drop(width int, may func(column int) bool) {
	for _, i := range slices.Backward(slices.Clone(l.shown)) {
		if l.over(width) > 0 && may(i) {
			l.shown = slices.DeleteFunc(l.shown, func(other int) bool { return other == i })
		}
	}
}

// tellsNothing reports whether a column holds the same in each line: one disk, or
// no writes.
func tellsNothing(lines [][]string, i int) bool {
	return !slices.ContainsFunc(lines, func(line []string) bool { return line[i] != lines[0][i] })
}
