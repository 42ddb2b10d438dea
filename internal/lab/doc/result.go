// SPDX-License-Identifier: MIT

package doc

import (
	"cmp"
	"fmt"
	"maps"
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
	// Plot is "shares".
	Plot string `toml:"plot"`
	// Result and Case are the experiment's and its case's names.
	Result string `toml:"result"`
	Case   string `toml:"case"`
	// Contenders are the rows or the columns; all of the case if there are none.
	Contenders []string `toml:"contenders"`
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
	// File is the plot's, beside the document; Alt says what it shows.
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
	// Beside are cases of the same result that columns with Over compare with.
	Beside map[string]string `toml:"beside"`
}

// lowest is Over the lowest of all.
const lowest = "lowest"

func (f *Filler) fill(p place, b *block, filled *Filled) (string, error) {
	kinds := []string{"", "contenders", "cases", "promises", "verdicts"}
	switch {
	case b.Table != "" && b.Plot != "":
		return "", p.wrong("plot", "beside table", "one of the two")
	case !slices.Contains(kinds, b.Table):
		return "", p.wrong("table", fmt.Sprintf("%q is not a kind of table", b.Table), strings.Join(kinds[1:], ", "))
	case b.Table == "" && b.Plot != "shares":
		return "", p.wrong("plot", fmt.Sprintf("%q is not a kind of plot", b.Plot), `shares; or table = "contenders" or "cases"`)
	case b.Table == "cases" && b.Verdicts && slices.ContainsFunc(b.Rows, func(r row) bool { return r.Result != b.Rows[0].Result }):
		return "", p.wrong("verdicts", "are asked for of rows that have several results", "rows of one, or no verdicts")
	}
	if text, err := f.unmeasured(p, b); text != "" || err != nil {
		return text, err
	}
	switch b.Table {
	case "contenders":
		return f.contenders(p, b, filled)
	case "cases":
		return f.cases(p, b, filled)
	case "promises":
		return f.promises(p, b, filled)
	case "verdicts":
		return f.verdicts(p, b, filled)
	default:
		return f.shares(p, b, filled)
	}
}

// source is a case of a result, with its experiment.
type source struct {
	x   *experiment.Experiment
	k   *experiment.Case
	doc *result.Document
	row row
}

// experiment finds one by its name.
func (f *Filler) experiment(p place, name string) (*experiment.Experiment, error) {
	if f.experiments == nil {
		all, err := f.Tree.Measured()
		if err != nil {
			return nil, err
		}
		f.experiments, f.results = map[string]*experiment.Experiment{}, map[string]*result.Document{}
		for _, x := range all {
			f.experiments[x.Name] = x
		}
	}
	if f.experiments[name] == nil {
		return nil, p.wrong("result", fmt.Sprintf("no experiment is called %q", name), "a name from experiments/")
	}
	return f.experiments[name], nil
}

// document finds a result by its name.
func (f *Filler) document(p place, name string) (doc *result.Document, err error) {
	if _, err := f.experiment(p, name); err != nil {
		return nil, err
	}
	if doc = f.results[name]; doc == nil {
		if doc, err = f.Tree.Read(name); err != nil {
			return nil, err
		}
		if doc == nil {
			return nil, p.wrong("result", fmt.Sprintf("there is no results/%s.json", name), fmt.Sprintf("`make results ONLY=%s` makes it", name))
		}
		f.results[name] = doc
	}
	return doc, nil
}

// source finds a case by names.
func (f *Filler) source(p place, name, ofCase string, filled *Filled) (s source, err error) {
	if s.doc, err = f.document(p, name); err != nil {
		return s, err
	}
	s.x = f.experiments[name]
	if s.k = s.x.CaseNamed(ofCase); s.k == nil || !slices.Contains(s.doc.Cases(), ofCase) {
		return s, p.wrong("case", fmt.Sprintf("%s has no case %q", name, ofCase), strings.Join(s.doc.Cases(), ", "))
	}
	filled.Results = append(filled.Results, name)
	return s, nil
}

// unmeasured says how to measure the results that the block lacks, "" if all are there.
func (f *Filler) unmeasured(p place, b *block) (string, error) {
	names := []string{}
	for _, r := range b.Rows {
		names = append(names, cmp.Or(r.Result, b.Result))
	}
	if len(b.Rows) == 0 {
		names = append(names, b.Result)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range slices.Compact(names) {
		if _, err := f.experiment(p, name); err != nil {
			return "", err
		}
		doc, err := f.Tree.Read(name)
		if err != nil {
			return "", err
		}
		if doc == nil {
			fmt.Fprintf(&text, "Not measured yet: `make results ONLY=%s` measures it.\n", name)
		}
	}
	return text.String(), nil
}

// contenders makes a table with a row for each, of a case or of several.
func (f *Filler) contenders(p place, b *block, filled *Filled) (string, error) {
	if len(b.Columns) == 0 {
		return "", p.wrong("columns", "are missing", "a list of tables with head and metric")
	}
	sources, names, err := f.sources(p, b, filled)
	if err != nil {
		return "", err
	}
	if len(sources) == 0 {
		return "", p.wrong("rows", "is empty", "a list of tables with name and case, or none for all cases")
	}
	head := []string{cmp.Or(b.Head, "scheduler")}
	if names != nil {
		head = []string{"case", cmp.Or(b.Head, "scheduler")}
	}
	for _, c := range b.Columns {
		head = append(head, c.Head)
	}
	rows := [][]string{head}
	var verdicts []result.Verdict
	for i, s := range sources {
		contenders := contendersOf(b, s)
		if s.row.As != "" && len(contenders) != 1 {
			return "", p.wrong("rows.as", fmt.Sprintf("%q is in place of %d contenders", s.row.As, len(contenders)), "one, with contenders = [NAME]")
		}
		for _, name := range contenders {
			var cells []string
			if names != nil {
				cells = append(cells, names[i])
			}
			cells = append(cells, cmp.Or(s.row.As, name))
			for _, c := range b.Columns {
				if !s.has(c.Container) && slices.ContainsFunc(sources, func(o source) bool { return o.has(c.Container) }) {
					cells = append(cells, "-")
					continue
				}
				text, err := s.cell(p, name, c)
				if err != nil {
					return "", err
				}
				cells = append(cells, text)
			}
			rows = append(rows, cells)
		}
		verdicts = append(verdicts, s.verdicts()...)
	}
	text := markdown(rows) + sources[0].measured()
	if b.Verdicts {
		text += verdictText(verdicts, names != nil)
	}
	return text, nil
}

// sources are the cases of a table of contenders, with their names if it may have several.
func (f *Filler) sources(p place, b *block, filled *Filled) (all []source, names []string, err error) {
	rows := b.Rows
	switch {
	case b.Case != "":
		s, err := f.source(p, b.Result, b.Case, filled)
		return []source{s}, nil, err
	case rows == nil:
		doc, err := f.document(p, b.Result)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range doc.Cases() {
			rows = append(rows, row{Name: name, Case: name})
		}
	}
	for _, r := range rows {
		s, err := f.source(p, cmp.Or(r.Result, b.Result), r.Case, filled)
		if err != nil {
			return nil, nil, err
		}
		s.row = r
		all = append(all, s)
		names = append(names, cmp.Or(r.Name, r.Case))
	}
	return all, names, nil
}

// contendersOf are those of the block, or all of the case. Where there are several cases
// they need not all be in each.
func contendersOf(b *block, s source) []string {
	all := s.x.SchedulersIn(s.k)
	switch {
	case b.Contenders == nil:
		return all
	case b.Case != "":
		return b.Contenders
	}
	return slices.DeleteFunc(slices.Clone(b.Contenders), func(name string) bool { return !slices.Contains(all, name) })
}

// verdicts are those of the case.
func (s source) verdicts() []result.Verdict {
	return slices.DeleteFunc(slices.Clone(s.doc.Verdicts), func(v result.Verdict) bool { return v.Case != s.k.Name })
}

// verdictText says which of the expectations are not met.
func verdictText(verdicts []result.Verdict, withCase bool) string {
	var met int
	var unmet []string
	for _, v := range verdicts {
		what := fmt.Sprintf("- `%s: %s %s`: ", v.Scheduler, v.Metric, v.Wanted)
		if withCase {
			what = fmt.Sprintf("- `%s: %s: %s %s`: ", v.Case, v.Scheduler, v.Metric, v.Wanted)
		}
		switch {
		case v.Met:
			met++
		case v.Got == nil:
			unmet = append(unmet, what+"not measured\n")
		default:
			unmet = append(unmet, what+"measured "+experiment.Figure(*v.Got)+"\n")
		}
	}
	text := countText(met, met+len(unmet))
	if len(unmet) > 0 {
		text += " Not met:\n\n" + strings.Join(unmet, "")
		return text
	}
	return text + "\n"
}

// countText says how many of the expectations are met.
func countText(met, of int) string {
	return fmt.Sprintf("\nOf %d expectations of the experiment, %d are met.", of, met)
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
	return text + ".\n"
}

// cases makes a table with a row for each case and a column for each contender.
func (f *Filler) cases(p place, b *block, filled *Filled) (string, error) {
	if len(b.Rows) == 0 || len(b.Columns) == 0 || len(b.Contenders) == 0 {
		return "", p.wrong("table", "cases have no rows, no columns or no contenders",
			"rows = [{ name, result, case }], columns = [{ metric }], contenders = [...]")
	}
	rows := [][]string{append([]string{cmp.Or(b.Head, "workload")}, b.Contenders...)}
	var below string
	var verdicts []result.Verdict
	for _, r := range b.Rows {
		s, err := f.source(p, r.Result, r.Case, filled)
		if err != nil {
			return "", err
		}
		below = s.measured()
		verdicts = append(verdicts, s.verdicts()...)
		cells := []string{r.Name}
		for _, name := range b.Contenders {
			var figures []string
			for _, c := range b.Columns {
				text, err := s.cell(p, name, c)
				if err != nil {
					return "", err
				}
				figures = append(figures, text)
			}
			cells = append(cells, strings.Join(figures, ", "))
		}
		rows = append(rows, cells)
	}
	text := markdown(rows)
	if b.Verdicts {
		text += below + verdictText(verdicts, true)
	}
	return text, nil
}

// has tells whether the case has a container of that name.
func (s source) has(container string) bool {
	return slices.ContainsFunc(s.k.Containers, func(c experiment.Container) bool { return c.Name == container })
}

// cell is one figure as text, "-" if it was not measured.
func (s source) cell(p place, contender string, c column) (string, error) {
	got, ok, err := s.figure(p, s.k, contender, c)
	if ok && c.Over != "" {
		var other float64
		other, ok, err = s.beside(p, contender, c)
		got /= other
	}
	if !ok || err != nil {
		return "-", err
	}
	if c.Times != 0 {
		got *= c.Times
	}
	if c.Decimals != nil {
		return fmt.Sprintf("%.*f", *c.Decimals, got), nil
	}
	return significant(got), nil
}

// figure is a column's in a case of the result; false if it was not measured.
func (s source) figure(p place, k *experiment.Case, contender string, c column) (float64, bool, error) {
	x, problem := s.x.Asked(k, contender, c.Metric, c.Direction, c.Container)
	if problem != nil {
		return 0, false, p.wrong("columns."+problem.Key, problem.What, problem.Allowed)
	}
	got, ok := s.doc.Figure(s.x, x)
	return got, ok, nil
}

// beside is what a column divides by: false if it was not measured, or is 0.
func (s source) beside(p place, contender string, c column) (float64, bool, error) {
	names := []string{c.Over}
	if c.Over == lowest {
		names = slices.Sorted(maps.Keys(s.row.Beside))
	}
	var figures []float64
	for _, name := range names {
		k := s.x.CaseNamed(s.row.Beside[name])
		if k == nil {
			return 0, false, p.wrong("columns.over", fmt.Sprintf("beside of row %q has no case for %q", cmp.Or(s.row.Name, s.row.Case), name),
				strings.Join(append(slices.Sorted(maps.Keys(s.row.Beside)), lowest), ", "))
		}
		got, ok, err := s.figure(p, k, contender, c)
		if !ok || err != nil {
			return 0, false, err
		}
		figures = append(figures, got)
	}
	if len(figures) == 0 || slices.Min(figures) <= 0 {
		return 0, false, nil
	}
	return slices.Min(figures), true, nil
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
