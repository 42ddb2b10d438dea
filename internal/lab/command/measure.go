// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/report"
	"isolio/internal/lab/result"
)

// measurement is what `bench` and `lab` have in common: an experiment comes
// in, a document goes out.
type measurement struct {
	json       bool
	report     string
	check      bool
	schedulers []string
	cases      []string
}

func (m *measurement) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&m.json, "json", false, "print the result as JSON, not as a table")
	f.StringVar(&m.report, "report", "", "also write the result as an HTML page to `FILE`")
	f.BoolVar(&m.check, "check", false, "exit 1 if an expectation of the experiment is not met")
	f.StringSliceVar(&m.schedulers, "schedulers", nil, "compare only these of the experiment's schedulers (`LIST`: a,b,c)")
	f.StringSliceVar(&m.cases, "cases", nil, "measure only these of the experiment's cases (`LIST`: a,b,c)")
	offer(cmd, map[string]cobra.CompletionFunc{
		"cases":      completeOf(caseNames),
		"schedulers": completeOf(func(x *experiment.Experiment) []string { return x.Schedulers }),
	})
}

// load reads the experiment and checks all that can be checked before
// anything runs for minutes.
func (m *measurement) load(file string) (*experiment.Experiment, error) {
	file, err := experiment.Find(file)
	if err != nil {
		return nil, err
	}
	x, err := experiment.Load(file)
	if err != nil {
		return nil, err
	}
	if x, err = x.Select(m.schedulers, m.cases); err != nil {
		return nil, err
	}
	if len(x.Schedulers) == 0 {
		return nil, failure.Usagef("--schedulers: is empty; leave it out for all of the experiment's")
	}
	if len(x.Cases) == 0 {
		return nil, failure.Usagef("--cases: is empty; leave it out for all of the experiment's")
	}
	if m.check && len(x.Expect) == 0 {
		return nil, failure.Usagef("%s: --check: nothing to check: no expectation is about %s alone; add one, or measure more",
			file, strings.Join(slices.Concat(m.cases, []string{strings.Join(x.Schedulers, ", ")}), " and "))
	}
	if m.report != "" {
		if err := report.CheckPath(m.report); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// finish prints the document and writes the report; command is the line that
// makes them again. With --check an unmet expectation is an error.
func (m *measurement) finish(stdout io.Writer, doc *result.Document, command string) error {
	var err error
	if m.json {
		err = doc.WriteJSON(stdout)
	} else {
		err = doc.WriteTable(stdout)
	}
	if m.report != "" {
		err = errors.Join(err, report.Write(m.report, doc, report.Command(command)))
	}
	if err != nil {
		return err
	}
	if m.check && len(doc.Unmet) > 0 {
		return fmt.Errorf("%s: %d of %d expectations not met: %s",
			doc.Experiment, len(doc.Unmet), len(doc.Verdicts), strings.Join(doc.Unmet, "; "))
	}
	return nil
}

// command is the line that measures the same again.
func (m *measurement) command(words ...string) string {
	if m.schedulers != nil {
		words = append(words, "--schedulers", strings.Join(m.schedulers, ","))
	}
	if m.cases != nil {
		words = append(words, "--cases", strings.Join(m.cases, ","))
	}
	return "isolio " + strings.Join(words, " ")
}
