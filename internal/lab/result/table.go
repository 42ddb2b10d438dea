// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/lab/experiment"
)

// Text and tables keep within these columns of a terminal; more containers than
// fit go to further blocks.
const (
	textWidth  = 80
	tableWidth = 100
)

// WriteTable writes the document for a reader: for each case, totals and shares
// with a row for each scheduler, then latencies; the answer first, and what was expected last.
func (d *Document) WriteTable(w io.Writer) error {
	var b strings.Builder
	wrap(&b, strings.Fields(d.Experiment+": "+d.Question), " ")
	for _, sentence := range d.Answer() {
		wrap(&b, strings.Fields(sentence), " ")
	}
	about := []string{"kernel " + d.Kernel}
	if d.Fio != "" {
		about = append(about, d.Fio)
	}
	devices := d.devices()
	if len(devices) == 1 {
		about = append(about, devices...)
	}
	if d.Answers != "" {
		about = append(about, "answers "+d.Answers)
	}
	references := d.references()
	if len(references) == 1 {
		about = append(about, "reference: none in "+references[0])
	}
	wrap(&b, about, "; ")
	for _, name := range d.Cases() {
		runs := d.In(name)
		if name != "" {
			heading := []string{"== " + name}
			if len(devices) > 1 {
				heading = append(heading, runs[0].Device)
			}
			if reference := runs[0].ReferenceCase; len(references) > 1 && reference != "" {
				heading = append(heading, "reference: none in "+reference)
			}
			b.WriteString("\n")
			wrap(&b, heading, ": ")
		}
		one := section{runs, d.ShareUnit}
		one.totals(&b)
		one.ownDisks(&b)
		one.members(&b)
		one.latencies(&b)
		one.delays(&b)
		one.tails(&b)
		one.finishes(&b)
	}
	d.verdicts(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// references are the cases that totals are compared with, each once.
func (d *Document) references() []string {
	var all []string
	for _, r := range d.Runs {
		if r.ReferenceCase != "" && !slices.Contains(all, r.ReferenceCase) {
			all = append(all, r.ReferenceCase)
		}
	}
	return all
}

// devices are the descriptions of the disks, each once.
func (d *Document) devices() []string {
	var all []string
	for _, r := range d.Runs {
		if !slices.Contains(all, r.Device) {
			all = append(all, r.Device)
		}
	}
	return all
}

// verdicts lists what was expected, with what came.
func (d *Document) verdicts(b *strings.Builder) {
	if len(d.Verdicts) == 0 {
		return
	}
	rows := [][]string{{"expected of", "wanted", "measured", ""}}
	for _, v := range d.Verdicts {
		got, met := "-", "not met"
		if v.Got != nil {
			got = experiment.Figure(*v.Got)
		}
		if v.Met {
			met = "ok"
		}
		rows = append(rows, []string{Label(v.Case, v.Scheduler) + ": " + v.Metric, v.Wanted, got, met})
	}
	widths := columnWidths(rows)
	b.WriteString("\n")
	for _, row := range rows {
		line := fmt.Sprintf("%-*s  %*s  %*s  %s", widths[0], row[0], widths[1], row[1], widths[2], row[2], row[3])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// wrap joins parts into lines of at most textWidth where the parts allow it.
func wrap(b *strings.Builder, parts []string, sep string) {
	line := ""
	for _, part := range parts {
		switch {
		case line == "":
			line = part
		case len(line)+len(sep)+len(part) > textWidth:
			b.WriteString(line + strings.TrimRight(sep, " ") + "\n")
			line = part
		default:
			line += sep + part
		}
	}
	b.WriteString(line + "\n")
}

// section is the runs of one case.
type section struct {
	runs []Run
	unit string // of the shares
}

// shareOf is what the shares are of, for a title.
func (s section) shareOf() string {
	switch s.unit {
	case experiment.UnitIOPS:
		return "requests"
	case experiment.UnitDeviceTime:
		return "disk's time"
	case experiment.UnitOperations:
		return "operations"
	}
	return "total"
}

func (s section) totals(b *strings.Builder) {
	head := []string{"scheduler", "MiB/s", "IOPS", "vs none", "Jain", "CPU %"}
	const versusAt = 4 // a column for the reference, where there is one
	referenced := slices.ContainsFunc(s.runs, func(r Run) bool { return r.TotalVsReference != nil })
	if referenced {
		head = slices.Insert(head, versusAt, "vs ref")
	}
	var rows [][]string
	for _, r := range s.runs {
		row := []string{
			r.Scheduler, fmt.Sprintf("%.1f", r.TotalBytesPS/(1<<20)), fmt.Sprintf("%.0f", r.TotalIOPS),
			quotient(r.TotalVsNone), fmt.Sprintf("%.4f", r.JainWeighted), fmt.Sprintf("%.0f", r.CPUBusyPct),
		}
		if referenced {
			row = slices.Insert(row, versusAt, quotient(r.TotalVsReference))
		}
		rows = append(rows, row)
	}
	entitled := make([]string, len(head))
	entitled[0] = "by weight"
	s.blocks(b, "share of the "+s.shareOf()+", %", head, rows, entitled, func(c Container) string {
		return fmt.Sprintf("%.2f", 100*c.Share)
	}, func(c Container) string {
		return fmt.Sprintf("%.2f", 100*c.EntitledShare)
	})
}

func quotient(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

func (s section) latencies(b *strings.Builder) {
	type direction struct {
		name string
		of   func(Container) *Direction
	}
	for _, dir := range []direction{
		{"read", func(c Container) *Direction { return c.Read }},
		{"write", func(c Container) *Direction { return c.Write }},
		{"fsync", func(c Container) *Direction { return c.Sync }},
		{"operation", func(c Container) *Direction { return c.Operations }},
	} {
		if dir.name == "operation" {
			s.operations(b)
		}
		var rows [][]string
		measured := false
		for _, r := range s.runs {
			rows = append(rows, []string{r.Scheduler})
			for _, c := range r.Containers {
				measured = measured || dir.of(c).timed()
			}
		}
		if !measured {
			continue
		}
		s.blocks(b, dir.name+" latency, ms: p50 / p99", []string{"scheduler"}, rows, nil, func(c Container) string {
			if !dir.of(c).timed() {
				return "-"
			}
			lat := dir.of(c).Lat
			return millis(lat.P50) + " / " + millis(lat.P99)
		}, nil)
	}
}

// operations lists how many operations a second the containers' programs did.
func (s section) operations(b *strings.Builder) {
	var rows [][]string
	measured := false
	for _, r := range s.runs {
		rows = append(rows, []string{r.Scheduler})
		measured = measured || slices.ContainsFunc(r.Containers, func(c Container) bool { return c.Operations != nil })
	}
	if !measured {
		return
	}
	s.blocks(b, "operations a second", []string{"scheduler"}, rows, nil, func(c Container) string {
		if c.Operations == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f", c.Operations.IOPS)
	}, nil)
}

// delays lists the delay counts of requests in the disk, and what the starvation
// guard did about them. It lists the runs that have either.
func (s section) delays(b *strings.Builder) {
	rows := [][]string{{"delay count", "p50", "p99", "p99.9", "max", "gate closed %", "times", "held"}}
	for _, r := range s.runs {
		d := r.Delays
		if d == nil || d.Max == 0 {
			continue
		}
		row := []string{r.Scheduler}
		for _, v := range []float64{d.P50, d.P99, d.P999, d.Max} {
			row = append(row, fmt.Sprintf("%.0f", v))
		}
		if g := r.GuardStat; g["completed"] > 0 {
			row = append(row, fmt.Sprintf("%.1f", g["closed_pct"]), fmt.Sprintf("%.0f", g["closings"]), fmt.Sprintf("%.0f", g["held"]))
		} else {
			row = append(row, "-", "-", "-")
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return
	}
	widths := columnWidths(rows)
	b.WriteString("\n")
	for _, row := range rows {
		fmt.Fprintf(b, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(b, "  %*s", widths[i+1], cell)
		}
		b.WriteString("\n")
	}
}

// millis writes microseconds as milliseconds, with three figures.
func millis(us float64) string {
	ms := us / 1000
	switch {
	case ms >= 100:
		return strconv.FormatFloat(ms, 'f', 0, 64)
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	case ms >= 1:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	}
	return strconv.FormatFloat(ms, 'f', 3, 64)
}

// blocks writes one aligned block with a row for each run: the left columns,
// then one column for each container. Containers that do not fit in the
// table's width follow in blocks of their own, beside the scheduler only.
func (s section) blocks(b *strings.Builder, title string, head []string, left [][]string, first []string,
	cell, firstCell func(Container) string,
) {
	if len(s.runs) == 0 {
		return
	}
	columns := len(s.runs[0].Containers)
	for from := 0; from < columns; {
		heads, table := [][]string{head}, [][]string{}
		if first != nil {
			table = append(table, first)
		}
		table = append(table, left...)
		to := from
		for to < columns {
			wider := withColumn(heads, table, s.runs, to, first != nil, cell, firstCell)
			if to > from && width(wider) > tableWidth {
				break
			}
			heads, table = wider[:1], wider[1:]
			to++
		}
		writeBlock(b, title, append(heads, table...), len(head))
		from = to
		head = head[:1]
		for i := range left {
			left[i] = left[i][:1]
		}
		if first != nil {
			first = first[:1]
		}
	}
}

// withColumn is heads and table with container i's column added.
func withColumn(heads, table [][]string, runs []Run, i int, hasFirst bool, cell, firstCell func(Container) string) [][]string {
	add := func(row []string, cell string) []string {
		return append(append([]string(nil), row...), cell)
	}
	wider := [][]string{add(heads[0], runs[0].Containers[i].Name)}
	if hasFirst {
		wider = append(wider, add(table[0], firstCell(runs[0].Containers[i])))
		table = table[1:]
	}
	for r := range runs {
		wider = append(wider, add(table[r], cell(runs[r].Containers[i])))
	}
	return wider
}

func columnWidths(table [][]string) []int {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, s := range row {
			widths[i] = max(widths[i], len(s))
		}
	}
	return widths
}

func width(table [][]string) int {
	total := 0
	for _, w := range columnWidths(table) {
		total += w + 2
	}
	return total - 2
}

// writeBlock writes table under a line that puts title above the columns that
// follow the first `left`.
func writeBlock(b *strings.Builder, title string, table [][]string, left int) {
	widths := columnWidths(table)
	indent := 0
	for _, w := range widths[:left] {
		indent += w + 2
	}
	fmt.Fprintf(b, "\n%*s%s\n", indent, "", title)
	for _, row := range table {
		var line strings.Builder
		for i, s := range row {
			if i == 0 {
				fmt.Fprintf(&line, "%-*s", widths[i], s)
			} else {
				fmt.Fprintf(&line, "  %*s", widths[i], s)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
