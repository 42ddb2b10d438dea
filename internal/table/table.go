// SPDX-License-Identifier: MIT

// Package table prints rows of text in columns that line up.
package table

import (
	"io"
	"strings"
	"unicode/utf8"

	"isolio/internal/printable"
)

// Column is a column's heading, and on which side its cells line up.
type Column struct {
	Head  string
	Right bool // numbers
}

// Write writes the rows below their headings. Two spaces separate columns; one
// that has nothing in any row is left out.
func Write(w io.Writer, columns []Column, rows [][]string) error {
	widths := make([]int, len(columns))
	rows = shown(rows)
	for i := range columns {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(columns[i].Head))
		}
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	var b strings.Builder
	for _, row := range append([][]string{heads}, rows...) {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] == 0 {
				continue
			}
			if line.Len() > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if columns[i].Right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

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
