// SPDX-License-Identifier: MIT

package doc

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
)

// Sampled are the names of the results of which a page reads the samples of rates: in a table
// of promises, and in a column that is computed from them.
func Sampled(t archive.Tree) (names []string, err error) {
	files, err := pages(t)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(string(t), file))
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		lines := slices.Collect(bytes.Lines(text))
		for i := range lines {
			if _, inLine, is := marker(lines[i]); !is || inLine {
				continue
			}
			var b block // of other kinds of markers nothing but its zero values
			if err := toml.Unmarshal(bytes.Join(lines[i+1:find(lines, i, ends)], nil), &b); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			if b.Table != "promises" && !slices.ContainsFunc(b.Columns, column.sampled) {
				continue
			}
			names = append(names, b.Result)
			for _, r := range b.Rows {
				names = append(names, cmp.Or(r.Result, b.Result))
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), nil
}

// sampled reports whether the figure is computed from samples.
func (c column) sampled() bool {
	return slices.Contains([]string{experiment.SettleMS, experiment.GapMS}, c.Metric)
}
