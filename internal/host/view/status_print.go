// SPDX-License-Identifier: MIT

package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/table"
)

// WriteTable writes the document for a reader: disks, cgroups, and at the end
// every weight that does nothing, with the reason and the remedy.
func (d *Status) WriteTable(w io.Writer) error { return d.write(w, false) }

// WriteWide writes more of it: what disks are, and whole names and paths.
func (d *Status) WriteWide(w io.Writer) error { return d.write(table.AnyWidth(w), true) }

// WriteNames writes the cgroups' names, a line each, as commands take them. A name that a
// command would take for a flag or for a weight, as a tenant may choose one, is given as
// its path.
func (d *Status) WriteNames(w io.Writer) error {
	for _, g := range d.Groups {
		name := g.Name
		if strings.HasPrefix(name, "-") || weight.Meant(name) {
			name = "/" + g.Group
		}
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *Status) write(w io.Writer, wide bool) error {
	d.wide = wide
	if err := d.writeDisks(w); err != nil {
		return err
	}
	if d.NoCgroups != "" {
		return nil // it is the error
	}
	if len(d.Groups) == 0 {
		_, err := fmt.Fprint(w, "\nno cgroup has a weight or did I/O\n")
		return err
	}
	fmt.Fprintln(w)
	if err := d.WriteGroups(w); err != nil {
		return err
	}
	if err := d.writeOwnDisks(w); err != nil || d.NoRules == "" {
		return err
	}
	fmt.Fprintln(w)
	return table.Lines(w, "rules are not known: "+d.NoRules)
}

// WriteGroups writes the cgroups only.
func (d *Status) WriteGroups(w io.Writer) error {
	if err := d.writeRows(w); err != nil {
		return err
	}
	return d.writeInert(w)
}

func (d *Status) writeDisks(w io.Writer) error {
	var rows [][]string
	unused := 0
	for _, disk := range d.about() {
		if disk.Kind == block.Loop && disk.SizeBytes == 0 {
			unused++
			continue
		}
		acts := "nothing: " + remedied(disk.Why, disk.Remedy)
		if len(disk.On) > 0 {
			acts = disk.Why
			if !d.listed(disk.On) { // else the remedy is in their rows
				acts = remedied(disk.Why, disk.Remedy)
			}
		}
		if len(disk.WeightsBy) > 0 {
			var by []string
			for _, m := range disk.WeightsBy {
				by = append(by, m.File())
			}
			acts = strings.Join(by, ", ") + "; shared: " + disk.ShareBy
		}
		row := []string{
			disk.Name, disk.MajMin, string(disk.Kind), Size(disk.SizeBytes), counted(disk.Queues), counted(disk.NrRequests),
			map[bool]string{true: "yes", false: "no"}[disk.Rotational], disk.Scheduler,
		}
		if d.wide {
			row = append(row, known(disk.WWN), known(disk.Serial), known(disk.Model))
		}
		rows = append(rows, append(row, acts))
	}
	columns := []table.Column{
		{Head: "disk"}, {Head: "number", Spare: 1}, {Head: "kind"}, {Head: "size", Right: true}, {Head: "queues", Right: true, Spare: 3},
		{Head: "requests/queue", Right: true, Spare: 4}, {Head: "rotates", Spare: 2}, {Head: "scheduler"},
	}
	if d.wide {
		columns = append(columns, table.Column{Head: "wwn"}, table.Column{Head: "serial"}, table.Column{Head: "model"})
	}
	err := table.Write(w, append(columns, table.Column{Head: "weights act through"}), rows)
	if err == nil && unused > 0 {
		_, err = fmt.Fprintf(w, "and %s that nothing uses\n", map[bool]string{true: "1 loop device", false: fmt.Sprintf("%d loop devices", unused)}[unused == 1])
	}
	return err
}

// remedied is why a weight does nothing, and what to do, or that nothing helps.
func remedied(why, remedy string) string {
	if fact, none := strings.CutPrefix(remedy, "none: "); none {
		return why + "; " + fact
	}
	if remedy == "" {
		return why
	}
	return why + "; remedy: " + remedy
}

// listed tells whether disks are all shown.
func (d *Status) listed(names []string) bool {
	shown := d.about()
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(shown, func(disk Disk) bool { return disk.Name == name })
	})
}

// about are the disks to show: of the cgroups that were named those that they used, or where their weights act.
func (d *Status) about() []Disk {
	names := map[string]bool{}
	for _, g := range d.Groups {
		for _, s := range g.Shares {
			names[s.Disk] = true
		}
		for _, x := range g.Weights {
			for _, name := range x.ActsOn {
				names[name] = true
			}
		}
	}
	if !d.limited || len(names) == 0 {
		return d.Disks
	}
	return slices.DeleteFunc(slices.Clone(d.Disks), func(disk Disk) bool { return !names[disk.Name] })
}

// known is a text, "-" for none.
func known(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// counted is a number, "-" for none.
func counted(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// Size is a number of bytes with its unit.
func Size(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

func (d *Status) writeRows(w io.Writer) error {
	var rows [][]string
	note := 0
	for _, g := range d.Groups {
		lines := max(1, len(g.Weights), len(g.Shares))
		for i := range lines {
			row := make([]string, len(groupColumns), len(groupColumns)+1)
			if i == 0 {
				row[0], row[1] = d.shown(g.Name), string(g.Kind)
			}
			if i < len(g.Weights) {
				x := g.Weights[i]
				row[2], row[3], row[4] = x.File, values(x), x.Means
				row[5] = strings.Join(x.ActsOn, ",")
				switch {
				case x.CarriedBy != "":
					row[5] = strings.TrimPrefix(row[5]+" through "+x.CarriedBy, " ")
				case x.DecidedBy != "":
					row[5] = strings.TrimPrefix(row[5]+" overruled by "+x.DecidedBy, " ")
				}
				for range x.Inert {
					note++
					row[5] = strings.TrimPrefix(row[5]+fmt.Sprintf(" inert[%d]", note), " ")
				}
			}
			if i < len(g.Shares) {
				s := g.Shares[i]
				row[6], row[7] = s.Disk, fmt.Sprintf("%.2f", 100*s.Entitled)
				if d.IntervalMS > 0 {
					row[8], row[9], row[10] = fmt.Sprintf("%.2f", 100*s.Actual), fmt.Sprintf("%.1f", s.BytesPS/(1<<20)), fmt.Sprintf("%.0f", s.IOPS)
				}
			}
			if d.wide {
				row = append(row, map[bool]string{true: "/" + g.Group}[i == 0])
			}
			rows = append(rows, row)
		}
	}
	columns := groupColumns
	if d.wide {
		columns = append(slices.Clip(columns), table.Column{Head: "path"})
	}
	return table.Write(w, columns, rows)
}

var groupColumns = []table.Column{
	{Head: "cgroup"}, {Head: "is", Spare: 4}, {Head: "file"}, {Head: "value", Right: true}, {Head: "means", Spare: 1}, {Head: "acts on"},
	{Head: "used disk"}, {Head: "entitled %", Right: true}, {Head: "got %", Right: true}, {Head: "MiB/s", Right: true, Spare: 2}, {Head: "IOPS", Right: true, Spare: 3},
}

// values is what a file holds, with the kernel's numbers of disks.
func values(w Weight) string {
	return weight.Values{Default: w.Default, Devices: w.Devices}.String()
}

// shown is a name that a table has room for.
func (d *Status) shown(name string) string {
	if d.wide {
		return name
	}
	return target.ShortIDs(name)
}

func (d *Status) writeInert(w io.Writer) error {
	note := 0
	for _, g := range d.Groups {
		for _, x := range g.Weights {
			for _, inert := range x.Inert {
				if note++; note == 1 {
					fmt.Fprintln(w)
				}
				on := ""
				if inert.On != "" {
					on = " on " + inert.On
				}
				if err := table.Lines(w, fmt.Sprintf("inert[%d] %s: %s%s: %s", note, d.shown(g.Name), x.File, on, remedied(inert.Why, inert.Remedy))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
