// SPDX-License-Identifier: MIT

// Command matrix writes what TestOperations measured into a document, as tables
// between two marks: for each kernel a row a disk and a column a scheduler.
//
//	go run ./tests/vm/matrix docs/results/reliability.md build/drivers-*.jsonl
package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// cell is a line of the data: one disk, one scheduler, without or under load.
type cell struct {
	Kernel    string             `json:"kernel"`
	Disk      string             `json:"disk"`
	Scheduler string             `json:"scheduler"`
	Load      bool               `json:"load"`
	Refused   string             `json:"refused"`
	MS        map[string]float64 `json:"ms"`
	Without   []string           `json:"not_supported"`
	Failed    map[string]string  `json:"failed"`
}

var matrix = measured.Table[cell]{
	Name: "matrix", Test: "TestOperations", Target: "test-drivers",
	Text: func(cells []cell) string { return "\n" + tables(cells) },
}

func main() { matrix.Main() }

func tables(cells []cell) string {
	var b strings.Builder
	for _, kernel := range measured.Distinct(cells, func(c cell) string { return c.Kernel }) {
		own := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.Kernel != kernel })
		schedulers := measured.Distinct(own, func(c cell) string { return c.Scheduler })
		fmt.Fprintf(&b, "### %s\n\n| disk | %s |\n|---%s|\n", kernel, strings.Join(schedulers, " | "), strings.Repeat("|---", len(schedulers)))
		for _, disk := range measured.Distinct(own, func(c cell) string { return c.Disk }) {
			fmt.Fprintf(&b, "| %s |", disk)
			for _, scheduler := range schedulers {
				fmt.Fprintf(&b, " %s |", entry(own, disk, scheduler))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n" + unsupported(own))
	}
	return b.String()
}

// entry is what came of all operations, alone and under load.
func entry(cells []cell, disk, scheduler string) string {
	var done, asked int
	var slowest float64
	var failed []string
	var refused strings.Builder
	for _, c := range cells {
		if c.Disk != disk || c.Scheduler != scheduler {
			continue
		}
		refused.WriteString(c.Refused)
		done += len(c.MS)
		asked += len(c.MS) + len(c.Failed)
		failed = append(failed, slices.Collect(maps.Keys(c.Failed))...)
		for _, ms := range c.MS {
			slowest = max(slowest, ms)
		}
	}
	slices.Sort(failed)
	switch {
	case asked == 0 && refused.Len() > 0:
		return "refused"
	case asked == 0:
		return "-"
	case len(failed) > 0:
		return fmt.Sprintf("%d of %d, **failed: %s**", done, asked, strings.Join(slices.Compact(failed), ", "))
	}
	return fmt.Sprintf("%d of %d, %.0f ms", done, asked, slowest)
}

// others begin the names of operations that only one kind of disk has.
var others = []string{"SCSI ", "NVMe ", "MMC ", "virtio "}

// unsupported names for each disk the operations that it does not have, but for
// other kinds' commands; they are the same under every scheduler.
func unsupported(cells []cell) string {
	var b strings.Builder
	b.WriteString("Not supported by the disk or its driver (besides other kinds' passthrough):\n\n")
	for _, disk := range measured.Distinct(cells, func(c cell) string { return c.Disk }) {
		var without []string
		for _, c := range cells {
			if c.Disk == disk {
				without = append(without, c.Without...)
			}
		}
		without = slices.DeleteFunc(without, func(name string) bool {
			return slices.ContainsFunc(others, func(kind string) bool { return strings.HasPrefix(name, kind) })
		})
		if slices.Sort(without); len(without) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", disk, strings.Join(slices.Compact(without), ", "))
		}
	}
	return b.String() + "\n"
}
