// SPDX-License-Identifier: MIT

// Command costs writes what the daemon cost in TestDaemonIsCheap into a document, as a
// table between two marks: a row for each number of containers.
//
//	go run ./tests/vm/costs docs/daemon.md build/daemon-*.jsonl
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The marks in the document.
const (
	begins = "<!-- costs: written by tests/vm/costs -->\n"
	ends   = "<!-- end of the costs -->\n"
)

// cost is a line of the data.
type cost struct {
	Containers int
	LookMS     float64 `json:"look_ms"`
	ComesMS    float64 `json:"comes_ms"`
	ScrapeMS   float64 `json:"scrape_ms"`
	PeakKB     int     `json:"peak_kb"`
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "costs: usage: costs DOCUMENT DATA...; `make daemon-cost` writes the data")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "costs:", err)
		os.Exit(1)
	}
}

func run(document string, files []string) error {
	var all []cost
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for in := json.NewDecoder(bytes.NewReader(text)); ; {
			var c cost
			err := in.Decode(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || c.Containers == 0 {
				return fmt.Errorf("%s: is not what TestDaemonIsCheap sends: %w", file, cmp.Or(err, errors.New("no containers")))
			}
			all = append(all, c)
		}
	}
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, err := filled(string(old), all)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(text), 0o644)
}

func filled(document string, all []cost) (string, error) {
	before, rest, ok := strings.Cut(document, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !ok || !ended {
		return "", fmt.Errorf("has not both marks, %q and %q", strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	if len(all) == 0 {
		return "", errors.New("the data is empty: the test sent nothing")
	}
	return before + begins + table(all) + ends + after, nil
}

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
