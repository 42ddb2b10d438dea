// SPDX-License-Identifier: MIT

// Command attribution writes what TestViolationsAreAttributed found into a document, as tables between two marks: the
// confusion matrix over all disks, each violation on each disk, and what mode = "hold" kept.
//
//	go run ./tests/vm/attribution docs/results/promises.md build/promises-*.jsonl
package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// found is a line of the data: the seconds that the account made of one violation on one disk.
type found struct {
	Disk      string         `json:"attribution"`
	Kernel    string         `json:"kernel"`
	Did       string         `json:"did"`
	Want      string         `json:"want"`
	IfMissed  string         `json:"if_missed"` // right as well, in place of kept
	Held      bool           `json:"held"`
	Promised  int            `json:"promised_iops"`
	Got       float64        `json:"got_iops"`
	Depth     int            `json:"depth"`
	PlanDepth int            `json:"plan_depth"`
	Seconds   map[string]int `json:"found"`
}

// columns are what a second can be found to be.
var columns = []string{"kept", "not demanded", "scheduler", "disk", "oversold", "depth", "unknown"}

var attribution = measured.Table[found]{
	Name: "attribution", Test: "TestViolationsAreAttributed", Target: "test-promises", Text: tables,
	Check: func(f *found) error {
		if f.Disk == "" {
			return errors.New("no disk")
		}
		return nil
	},
}

func main() { attribution.Main() }

// right is how many seconds are what was done. A tenant that keeps too few requests outstanding has no claim, whether it
// is seen to ask all the time or not.
func (f *found) right() int {
	n := f.Seconds[f.Want] + f.Seconds[f.IfMissed]
	if f.Want == "depth" {
		n += f.Seconds["not demanded"]
	}
	return n
}

func (f *found) all() (n int) {
	for _, one := range f.Seconds {
		n += one
	}
	return n
}

// row is the seconds of some violations, with the part that is right.
func row(head []string, some []found) string {
	right, all := 0, 0
	cells := slices.Clone(head)
	for _, c := range columns {
		n := 0
		for i := range some {
			n += some[i].Seconds[c]
		}
		cells = append(cells, fmt.Sprint(n))
	}
	for i := range some {
		right, all = right+some[i].right(), all+some[i].all()
	}
	cells = append(cells, fmt.Sprintf("%.1f %%", 100*float64(right)/float64(max(1, all))))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func header(names ...string) string {
	return "| " + strings.Join(append(names, columns...), " | ") + " | right |\n" + strings.Repeat("|---", len(names)) + strings.Repeat("|--:", len(columns)+1) + "|\n"
}

func tables(all []found) string {
	var kernels, disks []string
	var violations, held []found
	for _, f := range all {
		if !slices.Contains(kernels, f.Kernel) {
			kernels = append(kernels, f.Kernel)
		}
		if !slices.Contains(disks, f.Disk) {
			disks = append(disks, f.Disk)
		}
		if f.Held {
			held = append(held, f)
		} else {
			violations = append(violations, f)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Seconds found, over all disks (%s):\n\n", strings.Join(disks, ", "))
	b.WriteString(header("done"))
	for _, kind := range []struct{ name, want, ifMissed string }{
		{"no violation", "kept", ""}, {"too few requests for the plan: kept, or `depth`", "kept", "depth"},
		{"`scheduler`", "scheduler", ""}, {"`disk`", "disk", ""}, {"`oversold`", "oversold", ""}, {"`depth`", "depth", ""},
	} {
		var some []found
		for _, f := range violations {
			if f.Want == kind.want && f.IfMissed == kind.ifMissed {
				some = append(some, f)
			}
		}
		if len(some) > 0 {
			b.WriteString(row([]string{kind.name}, some))
		}
	}
	b.WriteString("\nEach violation on each disk:\n\n")
	b.WriteString(header("done", "disk", "promised, IOPS", "got", "outstanding, of the plan's"))
	slices.SortStableFunc(violations, func(x, y found) int { return cmp.Compare(at(all, x.Did), at(all, y.Did)) })
	for _, f := range violations {
		b.WriteString(row([]string{f.Did, f.Disk, fmt.Sprint(f.Promised), fmt.Sprintf("%.0f", f.Got), fmt.Sprintf("%d of %d", f.Depth, f.PlanDepth)}, []found{f}))
	}
	if len(held) > 0 {
		b.WriteString("\n| held | disk | promised, IOPS | got | kept, s | missed, s |\n|---|---|--:|--:|--:|--:|\n")
		for _, f := range held {
			fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %d | %d |\n", f.Did, f.Disk, f.Promised, f.Got, f.Seconds["kept"], f.all()-f.Seconds["kept"])
		}
	}
	fmt.Fprintf(&b, "\nMeasured on kernel %s.\n", strings.Join(kernels, ", "))
	return b.String()
}

// at is where a violation was first.
func at(all []found, did string) int {
	return slices.IndexFunc(all, func(f found) bool { return f.Did == did })
}
