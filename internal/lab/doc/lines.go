// SPDX-License-Identifier: MIT

package doc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// lines is a table of data. Where, Sort, Each, Across and the columns' cells are expressions
// (https://expr-lang.org) in which a line's members are variables.
type lines struct {
	// Data is the table that the lines name.
	Data string `toml:"data"`
	// Where tells which lines are taken, and Sort what they are sorted by.
	Where string `toml:"where"`
	Sort  string `toml:"sort"`
	// Each makes a table for each of its values, below Title, in which {} is the value.
	Each  string `toml:"each"`
	Title string `toml:"title"`
	// Across repeats the columns with {} in their heads for each of its values.
	Across string `toml:"across"`
	// Total names a last row, of all lines.
	Total   string       `toml:"total"`
	Columns []lineColumn `toml:"columns"`
}

// lineColumn is a column.
type lineColumn struct {
	// Head is its head; Heads are those of several columns, of which each cell knows its own as `head`.
	Head  string   `toml:"head"`
	Heads []string `toml:"heads"`
	// Cell is what is in it. It has the members of the row's first line, and `lines` is all of the row.
	Cell string `toml:"cell"`
	// Name says that lines with the same cell are one row. Without such a column each line is one.
	Name bool `toml:"name"`
}

// functions are what expressions have besides the language's own.
var functions = []expr.Option{
	expr.Function("printf", func(args ...any) (any, error) {
		format, _ := args[0].(string)
		text := fmt.Sprintf(format, args[1:]...)
		if strings.Contains(text, "%!") {
			return nil, fmt.Errorf("%s; numbers are %%.0f", text)
		}
		return text, nil
	}, new(func(string, ...any) string)),
	expr.Function("thousands", func(args ...any) (any, error) {
		n, ok := args[0].(float64)
		if !ok {
			return nil, fmt.Errorf("thousands(%v): not a number", args[0])
		}
		return thousands(int(n)), nil
	}, new(func(any) string)),
}

// thousands is a number as it is read aloud, 12,345.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// expressions are those of one marker, compiled.
type expressions struct {
	p        place
	programs map[string]*vm.Program
}

// value is that of an expression for lines, of which there are some; key names it in messages.
func (t *expressions) value(key, text string, lines []line, head string) any {
	program, err := t.programs[text], error(nil)
	if program == nil {
		if program, err = expr.Compile(text, functions...); err != nil {
			t.p.refuse(key, oneLine(err), "an expression of expr-lang.org")
		}
		t.programs[text] = program
	}
	variables := maps.Clone(lines[0])
	variables["lines"], variables["head"] = lines, head
	value, err := expr.Run(program, map[string]any(variables))
	if err == nil && value == nil {
		err = fmt.Errorf("%s has no value", text)
	}
	if err != nil {
		t.p.refuse(key, oneLine(err), "members that each line has, or a default: NAME ?? 0")
	}
	return value
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

// text is a value as it is in a cell; that of no expression is empty.
func (t *expressions) text(key, text string, lines []line, head string) string {
	if text == "" {
		return ""
	}
	value := t.value(key, text, lines, head)
	if number, is := value.(float64); is {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// distinct are the values of all lines, in the order in which they come first.
func (t *expressions) distinct(key, text string, all []line) (values []string) {
	for _, l := range all {
		if value := t.text(key, text, []line{l}, ""); !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// only are the lines that have a value.
func (t *expressions) only(key, text string, all []line, value string) []line {
	return slices.DeleteFunc(slices.Clone(all), func(l line) bool { return t.text(key, text, []line{l}, "") != value })
}

func (b *lines) fill(p place, filled *Filled) string {
	filled.used[b.Data] = true
	all := filled.data[b.Data]
	if all == nil {
		return ""
	}
	if i := slices.IndexFunc(b.Columns, func(c lineColumn) bool { return c.Cell == "" }); i >= 0 || b.Columns == nil {
		p.refuse("columns", "are missing, or one has no cell", "[{ head, cell }] with expressions of expr-lang.org")
	}
	t := &expressions{p: p, programs: map[string]*vm.Program{}}
	all = b.chosen(t, all)
	var text strings.Builder
	for i, part := range t.distinct("each", b.Each, all) {
		if i > 0 || b.Title != "" {
			text.WriteString("\n")
		}
		if b.Title != "" {
			text.WriteString(strings.ReplaceAll(b.Title, "{}", part) + "\n\n")
		}
		text.WriteString(markdown(b.rows(t, t.only("each", b.Each, all, part))))
	}
	return text.String() + measuredAt(all)
}

// chosen are the lines of the table, in their order.
func (b *lines) chosen(t *expressions, all []line) []line {
	some := slices.Clone(all)
	if b.Where != "" {
		some = slices.DeleteFunc(some, func(l line) bool { return t.value("where", b.Where, []line{l}, "") != true })
	}
	if len(some) == 0 {
		t.p.refuse("where", fmt.Sprintf("none of the %d lines of %s is for this table", len(all), b.Data), "data of all tables of that name on the page")
	}
	if b.Sort != "" {
		slices.SortStableFunc(some, func(x, y line) int {
			return compare(t.value("sort", b.Sort, []line{x}, ""), t.value("sort", b.Sort, []line{y}, ""))
		})
	}
	return some
}

// compare compares numbers, and anything else as text.
func compare(a, b any) int {
	x, errX := strconv.ParseFloat(fmt.Sprint(a), 64)
	y, errY := strconv.ParseFloat(fmt.Sprint(b), 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// made is a column as it is in the table.
type made struct {
	lineColumn
	repeated bool
	value    string // of Across, where it is repeated
}

// made are the columns: each with Heads as several, and those across repeated for each value, side by side
// where they are neighbours.
func (b *lines) made(t *expressions, all []line) (columns []made) {
	var repeated []lineColumn
	flush := func() {
		for _, value := range t.distinct("across", b.Across, all) {
			for _, c := range repeated {
				c.Head = strings.ReplaceAll(c.Head, "{}", value)
				columns = append(columns, made{c, true, value})
			}
		}
		repeated = nil
	}
	for _, c := range b.Columns {
		if b.Across != "" && strings.Contains(c.Head, "{}") {
			repeated = append(repeated, c)
			continue
		}
		flush()
		if c.Heads == nil {
			c.Heads = []string{c.Head}
		}
		for _, head := range c.Heads {
			c.Head = head
			columns = append(columns, made{lineColumn: c})
		}
	}
	flush()
	return columns
}

// groups are the lines of each row: those of the same names. Rows of the same first name stand together.
func (t *expressions) groups(all []line, names []made) (rows [][]line) {
	if len(names) == 0 {
		return [][]line{all}
	}
	for _, value := range t.distinct("columns.cell", names[0].Cell, all) {
		rows = append(rows, t.groups(t.only("columns.cell", names[0].Cell, all, value), names[1:])...)
	}
	return rows
}

// rows are the table's, the first of them its head.
func (b *lines) rows(t *expressions, all []line) [][]string {
	columns := b.made(t, all)
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	names := slices.DeleteFunc(slices.Clone(columns), func(c made) bool { return !c.Name })
	groups := t.groups(all, names)
	if len(names) == 0 {
		groups = slices.Collect(slices.Chunk(all, 1))
	}
	if b.Total != "" {
		groups = append(groups, all)
	}
	rows := [][]string{heads}
	for n, group := range groups {
		isTotal := b.Total != "" && n == len(groups)-1
		cells := make([]string, len(columns))
		for i, c := range columns {
			of := group
			if c.repeated {
				of = t.only("across", b.Across, group, c.value)
			}
			switch {
			case isTotal && c.Name:
			case len(of) == 0:
				cells[i] = "-"
			default:
				cells[i] = t.text("columns.cell", c.Cell, of, c.Head)
			}
		}
		if isTotal {
			cells[0] = b.Total
		}
		rows = append(rows, cells)
	}
	return rows
}

// measuredAt says what lines that name a kernel were measured with, below their table.
func measuredAt(all []line) string {
	of := func(key string) string {
		var values []string
		for _, l := range all {
			if value, is := l[key].(string); is && !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		return strings.Join(values, " and ")
	}
	kernel, version := of("kernel"), of("version")
	if kernel == "" {
		return ""
	}
	if version != "" {
		version = ", at version " + version
	}
	return "\nMeasured on kernel " + kernel + version + ".\n"
}
