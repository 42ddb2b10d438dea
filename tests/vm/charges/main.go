// SPDX-License-Identifier: MIT

// Command charges writes what TestWritebackIsCharged measured into a document, as tables
// between two marks: one for each kernel, with a row for what a container does.
//
//	go run ./tests/vm/charges docs/filesystems.md build/writeback-*.jsonl
package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// charge is a line of the data.
type charge struct {
	Kernel, Filesystem, What string

	Own   int `json:"own_kib"`
	Other int `json:"other_kib"`
	None  int `json:"none_kib"`
}

var charges = measured.Table[charge]{
	Name: "charges", Test: "TestWritebackIsCharged", Target: "writeback", Text: tables,
	Check: func(c *charge) error {
		if c.Kernel == "" || c.Filesystem == "" || c.What == "" {
			return errors.New("a name is missing")
		}
		return nil
	},
}

func main() { charges.Main() }

func tables(all []charge) string {
	var b strings.Builder
	for _, kernel := range measured.Distinct(all, func(c charge) string { return c.Kernel }) {
		here := slices.DeleteFunc(slices.Clone(all), func(c charge) bool { return c.Kernel != kernel })
		kinds := measured.Distinct(here, func(c charge) string { return c.Filesystem })
		fmt.Fprintf(&b, "Kernel %s:\n\n| what the container does | %s |\n|---|%s\n", kernel, strings.Join(kinds, " | "), strings.Repeat("--:|", len(kinds)))
		for _, what := range measured.Distinct(here, func(c charge) string { return c.What }) {
			cells := []string{what}
			for _, kind := range kinds {
				cell := "-"
				for _, c := range here {
					if c.What == what && c.Filesystem == kind {
						cell = fmt.Sprintf("%d / %d / %d", c.Own, c.Other, c.None)
					}
				}
				cells = append(cells, cell)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
