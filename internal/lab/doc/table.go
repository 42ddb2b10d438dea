// SPDX-License-Identifier: MIT

package doc

import (
	"regexp"
	"strings"
)

// figure is a cell that is a number, with a unit or others beside it, and not a name that begins with one.
var figure = regexp.MustCompile(`^\**[<>=+-]* ?[0-9][0-9.,]*( ?(%|(m?s|us|MB|of|to)\b|[/(0-9]).*)?\**$|^-$`)

// markdown writes rows as a table, the first of them as its head. A column of which more than half are
// figures is to the right.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, cells := range rows {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i > 0 {
			continue
		}
		for column := range cells {
			figures := 0
			for _, row := range rows[1:] {
				if figure.MatchString(row[column]) {
					figures++
				}
			}
			if b.WriteString("|--"); 2*figures > len(rows)-1 {
				b.WriteString(":")
			} else {
				b.WriteString("-")
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}
