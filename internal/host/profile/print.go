// SPDX-License-Identifier: MIT

package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"isolio/internal/table"
)

// WriteTable prints the profile: a line for each point, the knee marked.
func (p *Profile) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, measured %s under %s in %.0f s\n\n", p.title(), p.Disk.Identity, p.MeasuredAt.Format("2006-01-02 15:04 MST"), p.Scheduler, p.TookS)
	columns := []table.Column{
		{Head: "load"}, {Head: "depth", Right: true}, {Head: "IOPS", Right: true}, {Head: "MiB/s", Right: true},
		{Head: "mean us", Right: true}, {Head: "p99 us", Right: true}, {Head: "p99.9 us", Right: true}, {Head: "runs apart", Right: true}, {Head: ""},
	}
	if err := table.Write(w, columns, p.rows()); err != nil {
		return err
	}
	notes := p.notes()
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range notes {
		if _, err := fmt.Fprintf(w, "note: %s\n", n); err != nil {
			return err
		}
	}
	return nil
}

// rows are the points as text, a load's name beside its first one.
func (p *Profile) rows() [][]string {
	var rows [][]string
	for _, l := range p.Loads {
		for i, at := range l.Points {
			label, word := l.Name, ""
			if i > 0 {
				label = ""
			}
			if at.Depth == l.KneeDepth {
				word = "knee"
			}
			lat := at.slower()
			rows = append(rows, []string{
				label, fmt.Sprint(at.Depth), fmt.Sprintf("%.0f", at.IOPS), fmt.Sprintf("%.1f", at.BytesPS/(1<<20)),
				fmt.Sprintf("%.0f", lat.Mean), fmt.Sprintf("%.0f", lat.P99), fmt.Sprintf("%.0f", lat.P999), fmt.Sprintf("%.1f %%", at.DifferPct), word,
			})
		}
	}
	return rows
}

// slower is the latency of the direction that takes longer.
func (p *Point) slower() Latency {
	lat := p.Read
	if lat == nil || p.Write != nil && p.Write.P99 > lat.P99 {
		lat = p.Write
	}
	if lat == nil {
		return Latency{}
	}
	return *lat
}

// notes are those of the profile, and why runs differ.
func (p *Profile) notes() []string {
	notes := slices.Clone(p.Notes)
	for _, l := range p.Loads {
		for _, at := range l.Points {
			if at.Why != "" {
				notes = append(notes, fmt.Sprintf("%s, depth %d: two runs are %.0f %% apart: %s", l.Name, at.Depth, at.DifferPct, at.Why))
			}
		}
	}
	return notes
}

// title is the disk's name and model.
func (p *Profile) title() string {
	if p.Disk.Model == "" {
		return p.Disk.Name
	}
	return fmt.Sprintf("%s (%s)", p.Disk.Name, strings.TrimSpace(p.Disk.Model))
}
