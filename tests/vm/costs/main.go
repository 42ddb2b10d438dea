// SPDX-License-Identifier: MIT

// Command costs writes what the daemon cost in TestDaemonIsCheap into a document, as a
// table between two marks: a row for each number of containers.
//
//	go run ./tests/vm/costs docs/daemon.md build/daemon-*.jsonl
package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"isolio/tests/vm/measured"
)

// cost is a line of the data.
type cost struct {
	Containers int
	LookMS     float64 `json:"look_ms"`
	ComesMS    float64 `json:"comes_ms"`
	ScrapeMS   float64 `json:"scrape_ms"`
	PeakKB     int     `json:"peak_kb"`
}

var costs = measured.Table[cost]{
	Name: "costs", Test: "TestDaemonIsCheap", Target: "daemon-cost", Text: table,
	Check: func(c *cost) error {
		if c.Containers == 0 {
			return errors.New("no containers")
		}
		return nil
	},
}

func main() { costs.Main() }

// everySeconds is how often the daemon looks at everything, and scrapeSeconds how often
// Prometheus asks by default.
const (
	everySeconds  = 60
	scrapeSeconds = 15
)

func table(all []cost) string {
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.Containers, b.Containers) })
	var b strings.Builder
	b.WriteString("| containers | look at everything | at one a minute | a container that comes | scrape | at one in 15 s | memory at most |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %d | %.0f ms | %.2f %% | %.0f ms | %.0f ms | %.1f %% | %.0f MB |\n", c.Containers,
			c.LookMS, c.LookMS/everySeconds/10, c.ComesMS, c.ScrapeMS, c.ScrapeMS/scrapeSeconds/10, float64(c.PeakKB)/1024)
	}
	return b.String()
}
