// SPDX-License-Identifier: MIT

// Package kernels has the table of the kernels that isolio is built for and tested on.
package kernels

import (
	_ "embed"
	"strings"
)

// Row is a row of kernels.txt, which says what each column means.
type Row struct{ Line, Suite, Package, Tests, Name string }

//go:embed kernels.txt
var text string

// columns are those before the name.
const columns = 4

// Table is the whole table.
func Table() (rows []Row) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= columns || fields[0] == "#" {
			continue
		}
		rows = append(rows, Row{fields[0], fields[1], fields[2], fields[3], strings.Join(fields[columns:], " ")})
	}
	return rows
}

// Default is the kernel line that is booted unless another is named.
func Default() string { return Table()[0].Line }

// EveryChange are the kernel lines that every change is tested on.
func EveryChange() (lines []string) {
	for _, row := range Table() {
		if row.Tests == "whole" || row.Tests == "short" {
			lines = append(lines, row.Line)
		}
	}
	return lines
}
