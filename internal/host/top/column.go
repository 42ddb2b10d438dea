// SPDX-License-Identifier: MIT

package top

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// Row is a line of the table.
type Row struct {
	usage.Row
	depth int // in a tree
}

// column is one of the table: what it is called, what it shows of a row, and
// how rows are ordered by it.
type column struct {
	title   string
	text    func(*Row) string
	compare func(a, b *Row) int
	isLeft  bool // aligned to the left
	rank    int  // which column goes first from a narrow screen: 1, then 2; 0 stays
	isSpare bool // goes before all others where it is the same in each line
}

// columns are those of the table, from left to right.
func columns() []column {
	return []column{
		{"CONTAINER", (*Row).label, func(a, b *Row) int { return cmp.Compare(b.label(), a.label()) }, true, 0, false},
		{"DISK", func(r *Row) string { return r.Disk }, func(a, b *Row) int { return cmp.Compare(b.Disk, a.Disk) }, true, 8, true},
		{"WEIGHT", (*Row).weight, func(a, b *Row) int { return cmp.Compare(a.Weight, b.Weight) }, false, 4, false},
		{"ENTITLED%", func(r *Row) string { return percent(r.Entitled) }, by(func(r *Row) float64 { return r.Entitled }), false, 0, false},
		{"ACTUAL%", func(r *Row) string { return percent(r.Actual) }, by(func(r *Row) float64 { return r.Actual }), false, 0, false},
		{"MiB/s", func(r *Row) string { return figure(r.BytesPS() / (1 << 20)) }, by(func(r *Row) float64 { return r.BytesPS() }), false, 6, false},
		{"IOPS", func(r *Row) string { return figure(r.IOPS()) }, by(func(r *Row) float64 { return r.IOPS() }), false, 2, false},
		{"READ p50/p99", func(r *Row) string { return latency(r.Read.Latency) }, by(func(r *Row) float64 { return float64(r.Read.Latency.P99US) }), false, 5, true},
		{"WRITE p50/p99", func(r *Row) string { return latency(r.Write.Latency) }, by(func(r *Row) float64 { return float64(r.Write.Latency.P99US) }), false, 3, true},
		{"THROTTLED%", func(r *Row) string { return figure(r.ThrottledPct) }, by(func(r *Row) float64 { return r.ThrottledPct }), false, 7, false},
		{pressure, (*Row).pressure, by(func(r *Row) float64 { return value(r.Pressure) }), false, 1, false},
		{weightBy, (*Row).decided, func(a, b *Row) int { return cmp.Compare(b.decided(), a.decided()) }, true, 1, true},
	}
}

// Titles of columns that are there if a row tells something in them: what decided a weight,
// and how long tasks waited for I/O.
const (
	weightBy = "WEIGHT BY"
	pressure = "PSI%"
)

// mayLack reports whether a column goes where no row has anything in it.
func (c *column) mayLack() bool { return c.title == weightBy || c.title == pressure }

// defaultOrder is the column that the table is ordered by at first: ACTUAL%.
const defaultOrder = 4

func by(value func(*Row) float64) func(a, b *Row) int {
	return func(a, b *Row) int { return cmp.Compare(value(a), value(b)) }
}

// label is the name of the container or the unit, or the cgroup's path, as in `isolio status`; a tree
// shows just its last part, indented.
func (r *Row) label() string {
	if r.depth > 0 {
		name := path.Base(r.Cgroup)
		if r.Cgroup == r.Within {
			name = r.Name
		}
		return strings.Repeat("  ", r.depth) + printable.Text(name)
	}
	group := strings.Trim(r.Cgroup, "/")
	return printable.Text(cmp.Or(r.Name, target.ShortIDs(cmp.Or(target.UnitOf(group), group)), "/"))
}

func (r *Row) weight() string {
	if r.Cgroup == "/" || r.Weight == 0 { // one that sent nothing to the disk has none there
		return "-"
	}
	return strconv.Itoa(r.Weight)
}

func (r *Row) pressure() string {
	if r.Pressure == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *r.Pressure)
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// decided is what gave it its weight, "" where that is not known.
func (r *Row) decided() string {
	if r.Reasons == nil {
		return ""
	}
	return printable.Text(r.Reasons.Short())
}

// percent writes a part of one; nothing of it is a dash, so that an idle cgroup
// does not look like one that is throttled.
func percent(part float64) string {
	if part == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*part)
}

// figure writes a rate with as many decimals as it needs.
func figure(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func latency(l usage.Latency) string {
	if l.IOs == 0 {
		return "-"
	}
	return duration(l.P50()) + "/" + duration(l.P99())
}

// duration writes a time in three figures.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", d.Seconds()*1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// View is which rows are shown, and in which order.
type View struct {
	Order   int  // index of the column
	Reverse bool // least first
	Tree    bool
	Filter  string // part of the container's name, its cgroup or the disk
	Busy    bool   // only cgroups that did something
}

// DefaultView is every cgroup that has sent a request; the one that had most of a disk first.
func DefaultView() View { return View{Order: defaultOrder} }

// Apply returns the rows that the view shows, in its order: one for each
// container, or in a tree one for each cgroup.
func (v View) Apply(rows []usage.Row) []Row {
	compare := v.compare()
	if v.Tree {
		return usageTree(v.filter(rows), rows, compare)
	}
	shown := v.filter(usage.Fold(rows))
	slices.SortStableFunc(shown, func(a, b Row) int { return compare(&a, &b) })
	return shown
}

func (v View) filter(rows []usage.Row) []Row {
	var shown []Row
	for _, r := range rows {
		if v.shows(&r) {
			shown = append(shown, Row{Row: r})
		}
	}
	return shown
}

func (v View) shows(r *usage.Row) bool {
	if r.Counters.IOs() == 0 || v.Busy && r.IOPS() == 0 {
		return false
	}
	for _, text := range []string{r.Name, r.Cgroup, r.Disk} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(v.Filter)) {
			return true
		}
	}
	return false
}

// compare orders rows; equal ones by name, so that no row jumps.
func (v View) compare() func(a, b *Row) int {
	byColumn := columns()[v.Order].compare
	return func(a, b *Row) int {
		n := -byColumn(a, b)
		if v.Reverse {
			n = -n
		}
		return cmp.Or(n, cmp.Compare(a.label(), b.label()), cmp.Compare(a.Disk, b.Disk))
	}
}
