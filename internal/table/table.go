// SPDX-License-Identifier: MIT

// Package table prints rows of text in columns that line up, no wider than the terminal.
package table

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"isolio/internal/printable"
)

// Column is a column's heading, and how its cells stand.
type Column struct {
	Head  string
	Right bool // numbers
	// Spare columns go from a narrow terminal, the greatest first; 0 stays.
	Spare int
	// Paint is the color of a cell, nil for none.
	Paint func(cell string) Color
}

const (
	gap = 2
	// minText is what a column of text keeps before spare columns go, and before the first has less than its names
	// need; that one keeps minFirst, and others minName.
	minText, minFirst, minName = 36, 24, 12
)

// Write writes the rows below their headings. Two spaces separate columns; one
// that has nothing in any row is left out.
//
// On a terminal, no line is wider than that. Spare columns go, text is wrapped in its column, and a
// name that has no room in the first column has a line of its own.
func Write(w io.Writer, columns []Column, rows [][]string) error {
	rows = shown(rows)
	l := fit(columns, rows, Width(w))
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	p := painter(w)
	var b strings.Builder
	l.row(&b, columns, heads, noColors)
	for _, row := range rows {
		l.row(&b, columns, row, p)
	}
	return raw(w, b.String())
}

// layout is how wide columns are, 0 for one that is left out.
type layout []int

// fit lays out a table on a terminal, 0 for any width.
func fit(columns []Column, rows [][]string, width int) layout {
	l := make(layout, len(columns))
	for i := range columns {
		for _, row := range rows {
			l[i] = max(l[i], runes(row[i]))
		}
		if l[i] > 0 {
			l[i] = max(l[i], runes(columns[i].Head))
		}
	}
	if width == 0 {
		return l
	}
	last := len(columns) - 1
	for last > 0 && l[last] == 0 {
		last--
	}
	text := last > 0 && !columns[last].Right
	for rank := slices.MaxFunc(columns, func(a, b Column) int { return a.Spare - b.Spare }).Spare; rank > 0; rank-- {
		over := l.total() - width
		if text {
			over -= max(0, l[last]-minText)
		}
		for i := range columns {
			if over > 0 && columns[i].Spare == rank && i != last {
				l[i] = 0
			}
		}
	}
	if text {
		over := l.total() - max(0, l[last]-minText) - width
		l[0] -= min(max(0, over), max(0, l[0]-minFirst))
	}
	// The widest column of words gives way, the first one last of all.
	for l.total() > width {
		widest := -1
		for i := len(columns) - 1; i > 0; i-- {
			if !columns[i].Right && l[i] > max(minName, runes(columns[i].Head)) && (widest < 0 || l[i] > l[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		l[widest]--
	}
	if over := l.total() - width; over > 0 {
		l[0] = max(runes(columns[0].Head), l[0]-over)
	}
	return l
}

// total is how wide a line is.
func (l layout) total() int {
	total := -gap
	for _, width := range l {
		if width > 0 {
			total += width + gap
		}
	}
	return total
}

// row writes one, of as many lines as its longest cell needs.
func (l layout) row(b *strings.Builder, columns []Column, row []string, p paint) {
	cells := make([][]string, len(row))
	lines := 1
	for i, cell := range row {
		switch {
		case l[i] == 0:
			continue
		case i == 0 && runes(cell) > l[i]:
			b.WriteString(cell + "\n")
			cells[i] = []string{""}
		default:
			cells[i] = Wrap(cell, l[i])
		}
		lines = max(lines, len(cells[i]))
	}
	for n := range lines {
		var line strings.Builder
		blank := 0 // what stands at the end is left out
		for i := range row {
			if l[i] == 0 {
				continue
			}
			cell := ""
			if n < len(cells[i]) {
				cell = cells[i][n]
			}
			pad := l[i] - runes(cell)
			if columns[i].Right {
				blank += pad
				pad = 0
			}
			if cell != "" {
				line.WriteString(strings.Repeat(" ", blank))
				blank = 0
				if columns[i].Paint != nil {
					cell = p(columns[i].Paint(row[i]), cell)
				}
				line.WriteString(cell)
			}
			blank += pad + gap
		}
		if line.Len() > 0 || runes(row[0]) <= l[0] { // else the name is all there is
			b.WriteString(line.String() + "\n")
		}
	}
}

var (
	// advice begins a line of its own, so that what is to be copied stays whole where it can.
	advice = regexp.MustCompile(`; (?:remedy|first|allowed|needed|usage): `)
	// piece is a word, or a command in backquotes.
	piece = regexp.MustCompile("(?:`[^`]*`|\\S)+")
)

// Wrap are the lines of a text, 0 for any width. Only a command in backquotes may be wider.
func Wrap(text string, width int) []string {
	if width == 0 || runes(text) <= width {
		return []string{text}
	}
	if at := advice.FindStringIndex(text); at != nil {
		return append(Wrap(text[:at[0]+1], width), Wrap(text[at[0]+2:], width)...)
	}
	var lines []string
	line := ""
	for _, word := range piece.FindAllString(text, -1) {
		if line != "" && runes(line)+1+runes(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for runes(word) > width && !strings.Contains(word, " ") {
			at := breakable(word, width)
			lines = append(lines, word[:at])
			word = word[at:]
		}
		line = word
	}
	return append(lines, line)
}

// breakable is where a word that is too long is broken: after a comma or a slash, if there is one.
func breakable(word string, width int) int {
	end := 0
	for range width {
		_, size := utf8.DecodeRuneInString(word[end:])
		end += size
	}
	if at := strings.LastIndexAny(word[:end], ",/"); at > 0 {
		return at + 1
	}
	return end
}

func runes(text string) int { return utf8.RuneCountInString(text) }

// shown are the rows with names that act on no terminal, and are as wide as
// they look.
func shown(rows [][]string) [][]string {
	all := make([][]string, len(rows))
	for i, row := range rows {
		all[i] = make([]string, len(row))
		for j, cell := range row {
			all[i][j] = printable.Text(cell)
		}
	}
	return all
}
