// SPDX-License-Identifier: MIT

package doc

import (
	"fmt"
	"slices"
	"strings"
)

// step shows a command and what it printed, as a terminal does.
type step struct {
	Step string `toml:"step"`
	// Report is a result, of whose table the step shows the case, up to the line that begins with UpTo: what a
	// reader gets of it without measuring. Without a report the step is one of the data.
	Report string `toml:"report"`
	Case   string `toml:"case"`
	UpTo   string `toml:"up_to"`
}

func (s *step) fill(f *Filler, p place, filled *Filled) string {
	if s.Report != "" {
		return s.report(f, p, filled)
	}
	filled.used[steps+" "+s.Step] = true
	all := filled.data[steps]
	if all == nil {
		return ""
	}
	i := slices.IndexFunc(all, func(l line) bool { return l["step"] == s.Step })
	if i < 0 {
		p.refuse("step", fmt.Sprintf("the data has no step %q", s.Step), "those of the test that prints it")
	}
	return terminal(fmt.Sprint(all[i]["command"]), fmt.Sprint(all[i]["output"]))
}

func (s *step) report(f *Filler, p place, filled *Filled) string {
	var table strings.Builder
	must(true, f.source(p, s.Report, s.Case, filled).doc.WriteTable(&table))
	_, rest, _ := strings.Cut(table.String(), "\n== "+s.Case)
	lines := strings.SplitAfter("== "+s.Case+rest, "\n")
	last := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, s.UpTo) })
	if s.UpTo == "" || last < 0 {
		p.refuse("up_to", fmt.Sprintf("no line of the report begins with %q", s.UpTo), "one of the case's schedulers")
	}
	command := fmt.Sprintf("isolio report %s | sed -n '/^== %s/,/^%s/p'", s.Report, s.Case, s.UpTo)
	return terminal(command, strings.Join(lines[:last+1], ""))
}

func terminal(command, output string) string {
	var b strings.Builder
	b.WriteString("\n    $ " + command + "\n")
	for line := range strings.Lines(strings.TrimRight(output, "\n")) {
		b.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	return b.String() + "\n"
}
