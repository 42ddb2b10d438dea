// SPDX-License-Identifier: MIT

package doc

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// block is a table or a plot of results.
type block struct {
	// Table is "contenders", with a row for each contender of a case, or, without one, for
	// each of each of Rows, which are all cases of the result if there are none; or "cases",
	// with a row for each of Rows and a column for each of Contenders; or "promises", with a row for each
	// contender of each case, and in how many of the demanded seconds each promise was kept; or "verdicts",
	// with a row for each expectation of the case, or of the result.
	Table string `toml:"table"`
	// Plot is "shares" or "own-disk", of a case or of all rows; "delays" or "reads", the distributions of delay counts and of the latency of
	// reads; or "curve", the columns' figures along contenders whose labels are numbers, and as a level for one
	// whose label is none.
	Plot string `toml:"plot"`
	// X and Y are the names of a curve's axes; FromZero begins the vertical one at 0.
	X        string `toml:"x"`
	Y        string `toml:"y"`
	FromZero bool   `toml:"from_zero"`
	// Result and Case are the experiment's and its case's names.
	Result string `toml:"result"`
	Case   string `toml:"case"`
	// Contenders are the rows or the columns; all of the case if there are none.
	Contenders []string `toml:"contenders"`
	// Names stand over the columns of a table of cases, in place of the contenders' own.
	Names []string `toml:"names"`
	// Columns are those of a table of contenders; of one of cases, what is in each cell.
	Columns []column `toml:"columns"`
	Rows    []row    `toml:"rows"`
	// Promises and Profile are the files of a table of promises: what was promised, and of which disk.
	Promises string `toml:"promises"`
	Profile  string `toml:"profile"`
	// Head is what stands over the rows' names.
	Head string `toml:"head"`
	// Verdicts has the expectations of the cases listed that are not met, below "contenders" and "cases".
	Verdicts bool `toml:"verdicts"`
	// File is the plot's, beside the document; Alt says what it shows. With Rows there is a plot for
	// each, side by side, below its name, and * in File is the case.
	File string `toml:"file"`
	Alt  string `toml:"alt"`
}

// column is one figure of each contender.
type column struct {
	Head      string `toml:"head"`
	Metric    string `toml:"metric"`
	Direction string `toml:"direction"`
	Container string `toml:"container"`
	// Times is what the figure is multiplied by, 1 if it is 0; Decimals how many follow
	// its point, three significant digits if there are none.
	Times    float64 `toml:"times"`
	Decimals *int64  `toml:"decimals"`
	// Spread adds the least and the most over the seeds, in brackets.
	Spread bool `toml:"spread"`
	// Over divides the figure by that of another case, by its name in the row's Beside;
	// "lowest" is the lowest figure of all cases there.
	Over string `toml:"over"`
}

// row is a case of an experiment with the name that readers know it by.
type row struct {
	Name   string `toml:"name"`
	Result string `toml:"result"`
	Case   string `toml:"case"`
	// As stands in place of the contender's name, where cases and not contenders are what
	// is compared: commands of programs are the same for all contenders.
	As string `toml:"as"`
	// Column is this row's in a table of cases, in place of the table's.
	Column *column `toml:"column"`
	// Contenders are those of this row, in place of the block's.
	Contenders []string `toml:"contenders"`
	// Beside are cases of the same result that columns with Over compare with.
	Beside map[string]string `toml:"beside"`
}

// lowest is Over the lowest of all.
const lowest = "lowest"

// tables makes the tables and plots of a marker.
type tables struct {
	*Filler
	p      place
	b      *block
	filled *Filled
}

func (f *Filler) fill(p place, b *block, filled *Filled) string {
	t := tables{f, p, b, filled}
	kinds := map[string]func() string{"contenders": t.contenders, "cases": t.cases, "promises": t.promises, "verdicts": t.verdicts}
	switch {
	case b.Table != "" && b.Plot != "":
		p.refuse("plot", "beside table", "one of the two")
	case b.Table != "" && kinds[b.Table] == nil:
		p.refuse("table", fmt.Sprintf("%q is not a kind of table", b.Table), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	case b.Table == "" && t.plots()[b.Plot] == nil:
		p.refuse("plot", fmt.Sprintf("%q is not a kind of plot", b.Plot), strings.Join(slices.Sorted(maps.Keys(t.plots())), ", ")+`; or table = "contenders" or "cases"`)
	case b.Table == "cases" && b.Verdicts && slices.ContainsFunc(b.Rows, func(r row) bool { return r.Result != b.Rows[0].Result }):
		p.refuse("verdicts", "are asked for of rows that have several results", "rows of one, or no verdicts")
	}
	if text := t.unmeasured(); text != "" {
		return text
	}
	if b.Plot != "" {
		t.checkPicture()
		return t.plots()[b.Plot]()
	}
	return kinds[b.Table]()
}

// source is a case of a result, with its experiment.
type source struct {
	x    *experiment.Experiment
	k    *experiment.Case
	doc  *result.Document
	row  row
	name string // in the table; "" if there is only this case
	old  bool   // the result is older than the code
}

// document finds a result by its name, nil if the experiment has none.
func (f *Filler) document(p place, name string) *result.Document {
	if f.experiments == nil {
		f.experiments, f.results = map[string]*experiment.Experiment{}, map[string]*result.Document{}
		for _, x := range must(f.Tree.Measured()) {
			f.experiments[x.Name] = x
		}
	}
	if f.experiments[name] == nil {
		p.refuse("result", fmt.Sprintf("no experiment is called %q", name), "a name from experiments/")
	}
	if f.results[name] == nil {
		f.results[name] = must(f.Tree.Read(name))
	}
	return f.results[name]
}

// source finds a case by names.
func (f *Filler) source(p place, name, ofCase string, filled *Filled) source {
	doc := f.document(p, name)
	if doc == nil {
		p.refuse("result", fmt.Sprintf("there is no results/%s.jsonl", name), fmt.Sprintf("`make results ONLY=%s` makes it", name))
	}
	s := source{x: f.experiments[name], doc: doc}
	if s.k = s.x.CaseNamed(ofCase); s.k == nil || !slices.Contains(doc.Cases(), ofCase) {
		p.refuse("case", fmt.Sprintf("%s has no case %q", name, ofCase), strings.Join(doc.Cases(), ", "))
	}
	filled.Results = append(filled.Results, name)
	s.old = len(must(f.Tree.Old(s.x, doc))) > 0
	return s
}

// unmeasured says how to measure the results that the block lacks, "" if all are there.
func (t tables) unmeasured() (text string) {
	names := map[string]bool{}
	for _, r := range t.b.Rows {
		names[cmp.Or(r.Result, t.b.Result)] = true
	}
	if len(t.b.Rows) == 0 {
		names[t.b.Result] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t.document(t.p, name) == nil {
			text += fmt.Sprintf("Not measured yet: `make results ONLY=%s` measures it.\n", name)
		}
	}
	return text
}

// sources are the cases of the table, which have names if it may have several.
func (t tables) sources() (all []source) {
	rows := t.b.Rows
	switch {
	case t.b.Case != "":
		return []source{t.source(t.p, t.b.Result, t.b.Case, t.filled)}
	case rows == nil:
		for _, name := range t.document(t.p, t.b.Result).Cases() {
			rows = append(rows, row{Case: name})
		}
	}
	for _, r := range rows {
		s := t.source(t.p, cmp.Or(r.Result, t.b.Result), r.Case, t.filled)
		s.row, s.name = r, cmp.Or(r.Name, r.Case)
		all = append(all, s)
	}
	if len(all) == 0 {
		t.p.refuse("rows", "is empty", "a list of tables with name and case, or none for all cases")
	}
	return all
}

// heads are the first of a row for each case and contender, names its cells.
func (t tables) heads(all []source) []string {
	return all[0].names(cmp.Or(t.b.Head, "scheduler"), "case")
}

func (s source) names(contender, ofCase string) []string {
	if s.name == "" {
		return []string{contender}
	}
	return []string{ofCase, contender}
}

// contendersOf are those of the block, or all of the case. Where there are several cases
// they need not all be in each.
func (t tables) contendersOf(s source) []string {
	all, asked := s.x.SchedulersIn(s.k), t.b.Contenders
	if s.row.Contenders != nil {
		asked = s.row.Contenders
	}
	switch {
	case asked == nil:
		return all
	case t.b.Case != "":
		return asked
	}
	return slices.DeleteFunc(slices.Clone(asked), func(name string) bool { return !slices.Contains(all, name) })
}

// contenders makes a table with a row for each, of a case or of several.
func (t tables) contenders() string {
	if len(t.b.Columns) == 0 {
		t.p.refuse("columns", "are missing", "a list of tables with head and metric")
	}
	all := t.sources()
	head := t.heads(all)
	for _, c := range t.b.Columns {
		head = append(head, c.Head)
	}
	rows := [][]string{head}
	for _, s := range all {
		contenders := t.contendersOf(s)
		if s.row.As != "" && len(contenders) != 1 {
			t.p.refuse("rows.as", fmt.Sprintf("%q is in place of %d contenders", s.row.As, len(contenders)), "one, with contenders = [NAME]")
		}
		for _, name := range contenders {
			cells := s.names(cmp.Or(s.row.As, name), s.name)
			for _, c := range t.b.Columns {
				if !s.has(c.Container) && slices.ContainsFunc(all, func(o source) bool { return o.has(c.Container) }) {
					cells = append(cells, "-")
				} else {
					cells = append(cells, s.cell(t.p, name, c))
				}
			}
			rows = append(rows, cells)
		}
	}
	return markdown(rows) + all[0].measured() + t.unmet(all)
}

// cases makes a table with a row for each case and a column for each contender.
func (t tables) cases() string {
	if len(t.b.Rows) == 0 || len(t.b.Contenders) == 0 ||
		len(t.b.Columns) == 0 && slices.ContainsFunc(t.b.Rows, func(r row) bool { return r.Column == nil }) {
		t.p.refuse("table", "cases have no rows, no columns or no contenders",
			"rows = [{ name, result, case }], columns = [{ metric }], contenders = [...]")
	}
	all := t.sources()
	names := t.b.Names
	if names == nil {
		names = t.b.Contenders
	} else if len(names) != len(t.b.Contenders) {
		t.p.refuse("names", fmt.Sprintf("are %d, of %d contenders", len(names), len(t.b.Contenders)), "a name for each of contenders, or none")
	}
	rows := [][]string{append([]string{cmp.Or(t.b.Head, "workload")}, names...)}
	for _, s := range all {
		cells, columns := []string{s.row.Name}, t.b.Columns
		if s.row.Column != nil {
			columns = []column{*s.row.Column}
		}
		for _, name := range t.b.Contenders {
			var figures []string
			for _, c := range columns {
				figures = append(figures, s.cell(t.p, name, c))
			}
			cells = append(cells, strings.Join(figures, ", "))
		}
		rows = append(rows, cells)
	}
	if !t.b.Verdicts {
		return markdown(rows)
	}
	return markdown(rows) + all[len(all)-1].measured() + t.unmet(all)
}

// verdicts makes a table with a row for each expectation: what was wanted, and what was measured.
func (t tables) verdicts() string {
	all := t.sources()
	rows := [][]string{append(t.heads(all), "figure", "wanted", "measured", "met")}
	sourced := slices.ContainsFunc(all, func(s source) bool {
		return slices.ContainsFunc(s.x.Expect, func(x experiment.Expectation) bool { return x.Case == s.k.Name && x.Source != "" })
	})
	if sourced {
		rows[0] = append(rows[0], "source")
	}
	met := 0
	for _, s := range all {
		for _, v := range s.verdicts() {
			got, isMet := "-", "no"
			if v.Got != nil {
				got = experiment.Figure(*v.Got)
			}
			if v.Met {
				isMet = "yes"
				met++
			}
			cells := append(s.names(v.Scheduler, s.name), "`"+v.Metric+"`", v.Wanted, got, isMet)
			if sourced {
				cells = append(cells, s.wantedBy(v))
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) == 1 {
		t.p.refuse("table", fmt.Sprintf("%s expects nothing there", t.b.Result), "an experiment with [[expect]] tables")
	}
	return markdown(rows) + all[0].measured() + count(met, len(rows)-1) + "\n"
}

// wantedBy is where the bound of a verdict is from.
func (s source) wantedBy(v result.Verdict) string {
	for _, x := range s.x.Expect {
		if x.Case == v.Case && x.Scheduler == v.Scheduler && x.Wanted() == v.Wanted && strings.HasSuffix(x.Subject(), ": "+v.Metric) {
			return cmp.Or(x.Source, "-")
		}
	}
	return "-"
}

// verdicts are those of the case.
func (s source) verdicts() []result.Verdict {
	return slices.DeleteFunc(slices.Clone(s.doc.Verdicts), func(v result.Verdict) bool { return v.Case != s.k.Name })
}

// unmet says which of the expectations are not met, if the block asks for it.
func (t tables) unmet(all []source) string {
	if !t.b.Verdicts {
		return ""
	}
	var met, of int
	var unmet strings.Builder
	for _, s := range all {
		for _, v := range s.verdicts() {
			if of++; v.Met {
				met++
				continue
			}
			of := ""
			if s.name != "" {
				of = v.Case + ": "
			}
			got := "not measured"
			if v.Got != nil {
				got = "measured " + experiment.Figure(*v.Got)
			}
			fmt.Fprintf(&unmet, "- `%s%s: %s %s`: %s\n", of, v.Scheduler, v.Metric, v.Wanted, got)
		}
	}
	if unmet.Len() == 0 {
		return count(met, of) + "\n"
	}
	return count(met, of) + " Not met:\n\n" + unmet.String()
}

// count says how many of the expectations are met.
func count(met, of int) string {
	return fmt.Sprintf("\nOf %d expectations of the experiment, %d are met.", of, met)
}

// older is added where the result is older than the code.
const older = ", older than the code"

// Same reports whether two texts of a page differ in nothing but the age of results: a change
// of the code makes results older, and no page wrong.
func Same(a, b []byte) bool {
	return bytes.Equal(bytes.ReplaceAll(a, []byte(older), nil), bytes.ReplaceAll(b, []byte(older), nil))
}

// measured says what was measured with what, below a table.
func (s source) measured() string {
	text := "\nMeasured on kernel " + s.doc.Kernel
	if s.doc.Fio != "" {
		text += " with " + s.doc.Fio
	}
	if p := s.doc.Provenance; p != nil {
		text += ", at version " + p.Version
	}
	if s.old {
		text += older
	}
	return text + ".\n"
}

// has tells whether the case has a container of that name.
func (s source) has(container string) bool {
	return slices.ContainsFunc(s.k.Containers, func(c experiment.Container) bool { return c.Name == container })
}

// cell is one figure as text, "-" if it was not measured.
func (s source) cell(p place, contender string, c column) string {
	got, ok := s.figure(p, s.k, contender, c)
	if ok && c.Over != "" {
		var other float64
		other, ok = s.beside(p, contender, c)
		got /= other
	}
	if !ok {
		return "-"
	}
	text := c.text(got)
	if least, most, ok := s.spread(p, contender, c); ok && c.Spread {
		text += " (" + c.text(least) + " to " + c.text(most) + ")"
	}
	return text
}

// text is a figure as the column has it.
func (c column) text(got float64) string {
	if c.Times != 0 {
		got *= c.Times
	}
	if c.Decimals != nil {
		return fmt.Sprintf("%.*f", *c.Decimals, got)
	}
	return significant(got)
}

// spread is that of the column's figure over seeds; false if there is none.
func (s source) spread(p place, contender string, c column) (least, most float64, ok bool) {
	x, problem := s.x.Asked(s.k, contender, c.Metric, c.Direction, c.Container)
	if problem != nil {
		p.refuse("columns."+problem.Key, problem.What, problem.Allowed)
	}
	return s.doc.Spread(x)
}

// figure is a column's in a case of the result; false if it was not measured.
func (s source) figure(p place, k *experiment.Case, contender string, c column) (float64, bool) {
	x, problem := s.x.Asked(k, contender, c.Metric, c.Direction, c.Container)
	if problem != nil {
		p.refuse("columns."+problem.Key, problem.What, problem.Allowed)
	}
	return s.doc.Figure(s.x, x)
}

// beside is what a column divides by: false if it was not measured, or is 0.
func (s source) beside(p place, contender string, c column) (float64, bool) {
	names := []string{c.Over}
	if c.Over == lowest {
		names = slices.Sorted(maps.Keys(s.row.Beside))
	}
	least := math.Inf(1)
	for _, name := range names {
		k := s.x.CaseNamed(s.row.Beside[name])
		if k == nil {
			p.refuse("columns.over", fmt.Sprintf("beside of row %q has no case for %q", s.name, name),
				strings.Join(append(slices.Sorted(maps.Keys(s.row.Beside)), lowest), ", "))
		}
		got, ok := s.figure(p, k, contender, c)
		if !ok {
			return 0, false
		}
		least = min(least, got)
	}
	return least, least > 0 && len(names) > 0
}

// significant has three digits at least, and all before the point.
func significant(v float64) string {
	for decimals, least := range []float64{100, 10, 1} {
		if v >= least || -v >= least {
			return fmt.Sprintf("%.*f", decimals, v)
		}
	}
	return fmt.Sprintf("%.3f", v)
}
