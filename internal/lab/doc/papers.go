// SPDX-License-Identifier: MIT

package doc

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
	"isolio/internal/tomlfile"
)

// papersFile has what the documents say that the project comes from.
const papersFile = "docs/papers.toml"

// paper is a table of what a document says, beside what was measured here; of all of them, how many rows of
// each have which verdict.
type paper struct {
	Paper string `toml:"paper"`
}

// allPapers is the Paper of the table of all.
const allPapers = "all"

// documents are the file's.
type documents struct {
	Papers []struct {
		Name   string  `toml:"name"`
		Claims []claim `toml:"claims"`
	} `toml:"paper"`
}

// claim is one figure, table or statement of a document. What it is compared with is a figure of a
// result; or a test that shows it; or lines of code. Without any of them it is not run.
type claim struct {
	Paper string `toml:"-"`
	At    string `toml:"at"` // its figure, table or section
	What  string `toml:"what"`
	// Value is what it says, in the figure's unit. Says stands in its place where it says it in words.
	Value *float64 `toml:"value"`
	Says  string   `toml:"says"`
	Unit  string   `toml:"unit"`
	// Change says that Value is a change in percent, as the document has it, and the figure a ratio.
	Change bool `toml:"change"`
	// Outside of Min and Max, in the figure's unit, the claim is not so. WithinPct is how far from Value
	// the figure may be and be the same: 10 where there is neither Min nor Max.
	Min       *float64 `toml:"min"`
	Max       *float64 `toml:"max"`
	WithinPct *float64 `toml:"within_pct"`

	// Run is the result, its case, "" if it lists none, and the contender.
	Run       []string `toml:"run"`
	Metric    string   `toml:"metric"`
	Direction string   `toml:"direction"`
	Container string   `toml:"container"`
	Times     float64  `toml:"times"`
	Decimals  *int64   `toml:"decimals"`

	// Test is FILE:NAME. Lines are directories with the sources to count.
	Test  string   `toml:"test"`
	Lines []string `toml:"lines"`

	Why string `toml:"why"`
}

// The verdicts.
const (
	reproduced   = "reproduced"
	differs      = "differs"
	contradicted = "contradicted"
	notRun       = "not run"
)

// defaultWithinPct is how far a figure may be from the document's.
const defaultWithinPct = 10

// papers are the claims of the tree, read once.
func (f *Filler) papers() []claim {
	if f.claims == nil {
		text := must(os.ReadFile(filepath.Join(string(f.Tree), papersFile)))
		var all documents
		must(true, tomlfile.Decode(papersFile, text, &all))
		for _, document := range all.Papers {
			for _, c := range document.Claims {
				c.Paper = document.Name
				f.claims = append(f.claims, c)
			}
		}
	}
	return f.claims
}

func (b *paper) fill(f *Filler, p place, filled *Filled) string {
	if b.Paper == allPapers {
		return f.verdictsOfPapers(p, filled)
	}
	rows := [][]string{{"where", "what", "paper", "here", "ratio", "verdict", "why"}}
	count := map[string]int{}
	sources := map[string]source{}
	for _, c := range f.papers() {
		if c.Paper != b.Paper {
			continue
		}
		cells, verdict := c.row(f, p, filled, sources)
		count[verdict]++
		rows = append(rows, cells)
	}
	if len(rows) == 1 {
		p.refuse("paper", fmt.Sprintf("%s has no claim of %q", papersFile, b.Paper), "a paper that it names")
	}
	text := markdown(rows) + fmt.Sprintf("\nOf %d rows %d are reproduced, %d differ, %d are contradicted, %d are not run.\n",
		len(rows)-1, count[reproduced], count[differs], count[contradicted], count[notRun])
	return text + versions(sources)
}

// verdictsOfPapers is the table of all documents, in the order in which the file has them.
func (f *Filler) verdictsOfPapers(p place, filled *Filled) string {
	verdicts := []string{reproduced, differs, contradicted, notRun}
	rows := [][]string{append([]string{"document", "rows"}, verdicts...)}
	var names []string
	count := map[string]map[string]int{}
	for _, c := range f.papers() {
		if count[c.Paper] == nil {
			names, count[c.Paper] = append(names, c.Paper), map[string]int{}
		}
		_, verdict := c.row(f, p, filled, map[string]source{})
		count[c.Paper][verdict]++
		count[c.Paper][""]++
	}
	for _, name := range names {
		cells := []string{name, fmt.Sprint(count[name][""])}
		for _, verdict := range verdicts {
			cells = append(cells, fmt.Sprint(count[name][verdict]))
		}
		rows = append(rows, cells)
	}
	return markdown(rows)
}

// versions says which results the figures are of, and at which versions.
func versions(sources map[string]source) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		text := "`" + name + "`"
		if s.doc.Provenance != nil {
			text += " at version " + s.doc.Provenance.Version
		}
		if s.old {
			text += older
		}
		all = append(all, text)
	}
	if all == nil {
		return ""
	}
	return "Measured: " + strings.Join(all, "; ") + ".\n"
}

// problem is what is wrong with a claim by itself, "" for nothing.
func (c *claim) problem() string {
	ways := 0
	for _, has := range []bool{c.Metric != "", c.Test != "", c.Lines != nil} {
		if has {
			ways++
		}
	}
	switch {
	case c.Paper == "" || c.At == "" || c.What == "":
		return "has no paper, no at or no what"
	case c.Value == nil && c.Says == "":
		return "has neither value nor says"
	case ways > 1:
		return "has several of metric, test and lines"
	case c.Why == "":
		return "has no why"
	case (c.Metric != "") != (len(c.Run) == 3):
		return "has a metric without a run of three, or the reverse"
	case (c.Metric != "" || c.Lines != nil) && c.Value == nil && c.Min == nil && c.Max == nil:
		return "has nothing that a figure is compared with: value, min or max"
	}
	return ""
}

// row is the claim's in the table.
func (c *claim) row(f *Filler, p place, filled *Filled, sources map[string]source) (cells []string, verdict string) {
	if what := c.problem(); what != "" {
		p.refuse("paper", fmt.Sprintf("%s: %s, %s: %q %s", papersFile, c.Paper, c.At, c.What, what), "a claim as internal/lab/doc/papers.go has it")
	}
	here, ratio, why := "-", "-", c.Why
	verdict = notRun
	switch got, ok := c.figure(f, p, filled, sources); {
	case c.Test != "":
		c.checkTest(f, p)
		_, name, _ := strings.Cut(c.Test, ":")
		here, verdict = "`"+name+"`", reproduced
	case ok:
		here, verdict = c.text(got), c.verdict(got)
		if c.Value != nil {
			ratio = fmt.Sprintf("%.2f", c.ratio(got))
		}
	case c.Metric != "":
		why = fmt.Sprintf("`make results ONLY=%s` measures it", c.Run[0])
	}
	said := c.Says
	if said == "" {
		said = c.said()
	}
	return []string{c.At, c.What, said, here, ratio, verdict, why}, verdict
}

// figure is what was measured or counted here; false if nothing was.
func (c *claim) figure(f *Filler, p place, filled *Filled, sources map[string]source) (float64, bool) {
	if c.Lines != nil {
		return c.count(f), true
	}
	if c.Metric == "" {
		return 0, false
	}
	doc := f.document(p, c.Run[0])
	if doc == nil || f.experiments[c.Run[0]].CaseNamed(c.Run[1]) != nil && !slices.Contains(doc.Cases(), c.Run[1]) {
		return 0, false // it was measured before there was that case, or not at all
	}
	s := f.source(p, c.Run[0], c.Run[1], filled)
	if !s.isOf(c.Run[2]) {
		return 0, false
	}
	got, ok := s.figure(p, s.k, c.Run[2], column{Metric: c.Metric, Direction: c.Direction, Container: c.Container})
	if ok {
		sources[c.Run[0]] = s
	}
	return got * cmp.Or(c.Times, 1), ok && !math.IsNaN(got) && !math.IsInf(got, 0)
}

// isOf reports whether the contender's run is of the scheduler that the experiment has it be: an older result
// may have one of the same name that was another.
func (s source) isOf(contender string) bool {
	for _, run := range s.doc.In(s.k.Name) {
		if run.Scheduler == contender {
			of := contender
			if run.Variant != nil {
				of = run.Variant.Of
			}
			return of == s.x.Contender(contender).Scheduler
		}
	}
	return false
}

// count is the lines of C, to the thousand: so a change of the code changes no page.
func (c *claim) count(f *Filler) float64 {
	lines := 0
	for _, dir := range c.Lines {
		for _, pattern := range []string{"*.c", "*.h"} {
			for _, file := range must(filepath.Glob(filepath.Join(string(f.Tree), dir, pattern))) {
				lines += strings.Count(string(must(os.ReadFile(file))), "\n")
			}
		}
	}
	return math.Round(float64(lines)/1000) * 1000
}

// checkTest refuses a test that is not there.
func (c *claim) checkTest(f *Filler, p place) {
	file, name, _ := strings.Cut(c.Test, ":")
	text, err := os.ReadFile(filepath.Join(string(f.Tree), file))
	if err != nil || name == "" || !strings.Contains(string(text), name+"(") {
		p.refuse("paper", fmt.Sprintf("%s: %s, %s: there is no test %s", papersFile, c.Paper, c.At, c.Test), "FILE:NAME of a test")
	}
}

// ratio is the figure over the document's.
func (c *claim) ratio(got float64) float64 {
	if c.Change {
		return got / (1 + *c.Value/100)
	}
	return got / *c.Value
}

// verdict is that on a figure.
func (c *claim) verdict(got float64) string {
	if c.Min != nil && got < *c.Min || c.Max != nil && got > *c.Max {
		return contradicted
	}
	within := c.WithinPct
	if within == nil && c.Min == nil && c.Max == nil {
		within = new(float64)
		*within = defaultWithinPct
	}
	if within != nil && c.Value != nil && math.Abs(c.ratio(got)-1)*100 > *within {
		return differs
	}
	return reproduced
}

// text is a figure as a cell.
func (c *claim) text(got float64) string {
	if c.Change {
		return fmt.Sprintf("%+.0f %%", (got-1)*100)
	}
	text := ""
	if c.Decimals != nil {
		text = fmt.Sprintf("%.*f", *c.Decimals, got)
	} else {
		text = significant(got)
	}
	if c.Unit != "" {
		text += " " + c.Unit
	}
	return text
}

// said is the document's figure as a cell.
func (c *claim) said() string {
	if c.Change {
		return fmt.Sprintf("%+.3g %%", *c.Value)
	}
	text := experiment.Figure(*c.Value)
	if c.Unit != "" {
		text += " " + c.Unit
	}
	return text
}
