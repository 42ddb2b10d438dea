// SPDX-License-Identifier: MIT

package document

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
)

// The markers of what a document says until a result is there:
//
//	<!-- until "rsd-depth" is measured -->
//	...
//	<!-- end of until -->
//
// Filling drops it, markers and all, when results/rsd-depth.json is there. So figures that were
// typed in stand nowhere beside those that were measured.
const (
	untilBegin = `<!-- until "`
	untilEnd   = `" is measured -->`
	untilAfter = "<!-- end of until -->"
)

// awaited is the result that a line waits for; "" if it is not such a marker.
func awaited(line []byte) string {
	name, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r\n"), untilBegin)
	if name, ok2 := strings.CutSuffix(name, untilEnd); ok && ok2 {
		return name
	}
	return ""
}

// until returns what of the lines from i on stays, and the last line that it looked at: line i
// is a marker that waits for a result.
func (f *Filler) until(file string, lines [][]byte, i int, name string) (kept []byte, last int, err error) {
	last = find(lines, i, untilAfter)
	if last == len(lines) {
		return nil, 0, failure.Usagef("%s:%d: has no end; allowed: %q after what stands until %s is measured", file, i+1, untilAfter, name)
	}
	measured, err := f.measured(place{file, i + 1}, name)
	if err != nil {
		return nil, 0, err
	}
	if !measured {
		return bytes.Join(lines[i:last+1], nil), last, nil
	}
	// The empty line after it goes with it.
	if last+1 < len(lines) && len(bytes.TrimSpace(lines[last+1])) == 0 {
		last++
	}
	return nil, last, nil
}

// measured tells whether an experiment has a result.
func (f *Filler) measured(p place, name string) (bool, error) {
	if _, err := f.experiment(p, name); err != nil {
		return false, err
	}
	doc, err := f.Tree.Read(name)
	return doc != nil, err
}

// unmeasured says which results the block lacks, and how to measure them; "" if all are there.
// Names of cases, contenders and columns are checked by the experiment, so that a block is right
// before its result is there.
func (f *Filler) unmeasured(p place, b *block) (string, error) {
	rows := b.Rows
	if len(rows) == 0 {
		rows = []row{{Case: b.Case}}
	}
	var missing []string
	var all []source
	for _, r := range rows {
		name := cmp.Or(r.Result, b.Result)
		measured, err := f.measured(p, name)
		if err != nil {
			return "", err
		}
		if !measured && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		of, err := casesOf(p, f.experiments[name], r.Case)
		if err != nil && !measured {
			return "", err
		}
		all = append(all, of...)
	}
	if missing == nil {
		return "", nil
	}
	if err := checkColumns(p, b, all); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range missing {
		fmt.Fprintf(&text, "Not measured yet: `make results ONLY=%s` measures it.\n", name)
	}
	return text.String(), nil
}

// casesOf are a case of an experiment, or all of them if it is "".
func casesOf(p place, x *experiment.Experiment, name string) (all []source, err error) {
	for i := range x.Cases {
		if k := &x.Cases[i]; name == "" || k.Name == name {
			all = append(all, source{x: x, k: k})
		}
	}
	if all == nil {
		return nil, p.wrong("case", fmt.Sprintf("%s has no case %q", x.Name, name), "those in the experiment's file")
	}
	return all, nil
}

// checkColumns checks contenders and columns of a table by the experiments of its cases.
func checkColumns(p place, b *block, all []source) error {
	for _, s := range all {
		for _, name := range contendersOf(b, s) {
			for _, c := range b.Columns {
				if !s.has(c.Container) && slices.ContainsFunc(all, func(o source) bool { return o.has(c.Container) }) {
					continue // the cell is "-"
				}
				if _, problem := s.x.Asked(s.k, name, c.Metric, c.Direction, c.Container); problem != nil {
					return p.wrong("columns."+problem.Key, problem.What, problem.Allowed)
				}
			}
		}
	}
	return nil
}
