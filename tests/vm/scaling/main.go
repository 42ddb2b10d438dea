// SPDX-License-Identifier: MIT

// Command scaling prints what TestScaling measured as a table: a row for each load, a
// column for each scheduler.
//
//	go run ./tests/vm/scaling build/bench-smp/boot.jsonl
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// cell is a line of the data: one scheduler under one load.
type cell struct {
	Kernel    string    `json:"kernel"`
	CPUs      int       `json:"cpus"`
	Scheduler string    `json:"scheduler"`
	Jobs      int       `json:"jobs"`
	Groups    int       `json:"groups"`
	Depth     int       `json:"depth"`
	PerSecond []float64 `json:"per_second"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "scaling: usage: scaling DATA; `make bench-smp` writes the data")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scaling:", err)
		os.Exit(1)
	}
}

func run(file string, out io.Writer) error {
	cells, err := measured.Lines(file, "TestScaling", func(c *cell) error {
		if len(c.PerSecond) == 0 {
			return fmt.Errorf("%s has no figures", c.Scheduler)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, table(cells))
	return err
}

// table has thousand requests a second: median, and least to most.
func table(cells []cell) string {
	var schedulers, loads []string
	at := map[string]map[string]cell{}
	for _, c := range cells {
		load := fmt.Sprintf("%d | %d | %d | %d", c.CPUs, c.Jobs, c.Groups, c.Depth)
		if at[load] == nil {
			at[load] = map[string]cell{}
			loads = append(loads, load)
		}
		if !slices.Contains(schedulers, c.Scheduler) {
			schedulers = append(schedulers, c.Scheduler)
		}
		at[load][c.Scheduler] = c
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Kernel %s.\n\n| CPUs | jobs | cgroups | depth | %s |\n|--:|--:|--:|--:%s|\n", cells[0].Kernel,
		strings.Join(schedulers, " | "), strings.Repeat("|--:", len(schedulers)))
	for _, load := range loads {
		fmt.Fprintf(&b, "| %s |", load)
		for _, scheduler := range schedulers {
			rates := slices.Sorted(slices.Values(at[load][scheduler].PerSecond))
			if len(rates) == 0 {
				b.WriteString(" |")
				continue
			}
			median := (rates[(len(rates)-1)/2] + rates[len(rates)/2]) / 2
			fmt.Fprintf(&b, " %.1f (%.1f to %.1f) |", median/1000, rates[0]/1000, rates[len(rates)-1]/1000)
		}
		b.WriteString("\n")
	}
	return b.String()
}
