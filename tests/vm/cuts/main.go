// SPDX-License-Identifier: MIT

// Command cuts writes what the tests of power cuts found into a document, as tables between two
// marks: a row for each file system and scheduler, and columns for each kernel.
//
//	go run ./tests/vm/cuts docs/results/reliability.md build/powercut-*.jsonl
package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// found is a line of the data: what came of the cuts of one disk.
type found struct {
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Scheduler  string `json:"scheduler"` // "" where each cut has the next one
	NoFlushes  bool   `json:"no_flushes"`
	Databases  bool   `json:"databases"` // wrote, in place of the writers of one system call
	Seed       int    `json:"seed"`
	Cuts       int    `json:"cuts"`
	Acked      int    `json:"acknowledged"`
	Lost       int    `json:"lost"`
	Unclean    int    `json:"unclean"`
}

var cuts = measured.Table[found]{
	Name: "cuts", Test: "TestPowerCut", Target: "test-powercut", Text: tables,
	Check: func(f *found) error {
		if f.Kernel == "" || f.Filesystem == "" || f.Scheduler == "" && !f.NoFlushes {
			return errors.New("a name is missing")
		}
		if f.Cuts == 0 {
			return errors.New("no cut was made")
		}
		return nil
	},
}

func main() { cuts.Main() }

// thousands is a number as it is read aloud, 12,345.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func tables(all []found) string {
	var b strings.Builder
	write := func(title string, of []found) {
		b.WriteString(title)
		kernels := measured.Distinct(of, func(f found) string { return f.Kernel })
		b.WriteString("| file system | scheduler |")
		for _, kernel := range kernels {
			fmt.Fprintf(&b, " cuts, %s | acknowledged | losses | not clean |", kernel)
		}
		fmt.Fprintf(&b, "\n|---|---|%s\n", strings.Repeat("--:|--:|--:|--:|", len(kernels)))
		for _, fs := range measured.Distinct(of, func(f found) string { return f.Filesystem }) {
			for _, scheduler := range measured.Distinct(of, func(f found) string { return f.Scheduler }) {
				fmt.Fprintf(&b, "| %s | %s |", fs, scheduler)
				for _, kernel := range kernels {
					b.WriteString(cells(sum(of, func(f found) bool {
						return f.Kernel == kernel && f.Filesystem == fs && f.Scheduler == scheduler
					})))
				}
				b.WriteString("\n")
			}
		}
		b.WriteString("| all | |")
		for _, kernel := range kernels {
			b.WriteString(cells(sum(of, func(f found) bool { return f.Kernel == kernel })))
		}
		b.WriteString("\n\n")
	}
	only := func(is func(found) bool) []found {
		return slices.DeleteFunc(slices.Clone(all), func(f found) bool { return !is(f) })
	}
	write("", only(func(f found) bool { return !f.NoFlushes && !f.Databases }))
	if of := only(func(f found) bool { return !f.NoFlushes && f.Databases }); len(of) > 0 {
		write("PostgreSQL, and SQLite with its rollback journal and with its write-ahead log, together; acknowledged are commits, a loss is a database that lacks one or finds itself inconsistent:\n\n", of)
	}
	b.WriteString("The check of the check, without flushes (the kernel told that the disk writes through):\n\n")
	b.WriteString("| kernel | file system | writers | cuts | acknowledged | cuts that lost some |\n|---|---|---|--:|--:|--:|\n")
	for _, f := range only(func(f found) bool { return f.NoFlushes }) {
		writers := "system calls"
		if f.Databases {
			writers = "SQLite"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s | %d |\n", f.Kernel, f.Filesystem, writers, f.Cuts, thousands(f.Acked), f.Lost)
	}
	return b.String()
}

// sum is what came of all those lines.
func sum(all []found, is func(found) bool) (s found) {
	for _, f := range all {
		if is(f) {
			s.Cuts += f.Cuts
			s.Acked += f.Acked
			s.Lost += f.Lost
			s.Unclean += f.Unclean
		}
	}
	return s
}

func cells(f found) string {
	if f.Cuts == 0 {
		return " - | - | - | - |"
	}
	return fmt.Sprintf(" %d | %s | %d | %d |", f.Cuts, thousands(f.Acked), f.Lost, f.Unclean)
}
