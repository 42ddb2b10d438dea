// SPDX-License-Identifier: MIT

package doc

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// otherwise are the pages of results with tables that no program fills.
var otherwise = map[string]string{
	"law.md":         "other laws that were tried",
	"reliability.md": "make vm T=hostile",
	"scaling.md":     "rates of 16 CPUs",
	"libaps.md":      "the settings of the APS paper, beside markers",
}

// figureCell is a cell of a table that is a figure, or begins with one.
var figureCell = regexp.MustCompile(`\| *\**[+-]?[0-9][0-9.,]*`)

// typed are the lines of a document's tables that have figures, and stand between no markers.
func typed(text string) (lines []string) {
	between := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, begin):
			between = true
		case line == after:
			between = false
		case !between && figureCell.MatchString(line):
			lines = append(lines, line)
		}
	}
	return lines
}

// No figure of a page of results is typed in: each table is filled.
func TestFiguresAreOfResults(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/results/*.md")
	noError(t, err)
	if len(pages) < 8 {
		t.Fatalf("%d pages: where are the others?", len(pages))
	}
	for _, page := range pages {
		if otherwise[filepath.Base(page)] != "" {
			continue
		}
		text, err := os.ReadFile(page)
		noError(t, err)
		for _, line := range typed(string(text)) {
			t.Errorf("%s: %q is typed in: a marker must fill it", page, line)
		}
	}
}

func TestTyped(t *testing.T) {
	text := "| a | b |\n|---|---|\n| x | 1.5 |\n| y | **0.9** of it |\n" + begin + "\n" + ends + "\n| z | 2 |\n" + after + "\n" +
		"| v | no |\n| 4 |\n"
	if got := strings.Join(typed(text), "; "); got != "| x | 1.5 |; | y | **0.9** of it |; | 4 |" {
		t.Errorf("found %q", got)
	}
}
