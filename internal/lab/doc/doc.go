// SPDX-License-Identifier: MIT

// Package doc fills the tables, plots and transcripts of Markdown pages. What stands between two
// markers is a function of the first marker, which is TOML, and of what was measured:
//
//	<!-- results
//	table = "contenders"
//	result = "report-rand-read"
//	case = "depth-32"
//	columns = [{ head = "total / none", metric = "total_vs_none" }]
//	-->
//	| scheduler | total / none |
//	...
//	<!-- end of results -->
//
// A marker with one key may stand on one line. There are four kinds: tables and plots of results/,
// whose metrics are those of an experiment's expectations (docs/experiments.md); with `data`, a table
// of lines that a test or program printed; with `step`, a command and what it printed; with `paper`, what
// a document of docs/papers.toml says, beside what was measured.
package doc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/tomlfile"
)

// The markers, each on a line of its own.
const (
	begin = "<!-- results"
	ends  = "-->"
	after = "<!-- end of results -->"
)

// Filler fills pages of a tree.
type Filler struct {
	Tree archive.Tree

	experiments map[string]*experiment.Experiment
	results     map[string]*result.Document
	claims      []claim
}

// Filled is a page and the files of its plots, by their paths.
type Filled struct {
	Text  []byte
	Plots map[string][]byte
	// Results are the names of the results that it has figures of.
	Results []string

	data Data
	used map[string]bool // tables and steps of the data
}

// Fill fills the page that is in file. A table or step without data keeps its text.
func (f *Filler) Fill(file string, text []byte, data Data) (*Filled, error) {
	filled := &Filled{Plots: map[string][]byte{}, data: data, used: map[string]bool{}}
	var out bytes.Buffer
	lines := slices.Collect(bytes.Lines(text))
	for i := 0; i < len(lines); i++ {
		out.Write(lines[i])
		asked, inLine, is := marker(lines[i])
		if !is {
			continue
		}
		end, first := i, i
		if !inLine {
			first = i + 1
			end = find(lines, first, ends)
		}
		last := find(lines, end, after)
		if last == len(lines) {
			return nil, failure.Usagef("%s:%d: has no end; allowed: %q after what it asks for, then %q", file, i+1, ends, after)
		}
		if !inLine {
			asked = bytes.Join(lines[first:end], nil)
			out.Write(asked)
			out.Write(lines[end])
		}
		p := place{file, i + 1}
		// Empty lines before it: so messages have the page's own lines.
		made, err := f.make(p, slices.Concat(bytes.Repeat([]byte("\n"), first), asked), filled)
		if err != nil {
			return nil, err
		}
		if made == "" {
			made = string(bytes.Join(lines[end+1:last], nil))
		}
		out.WriteString(made + after + "\n")
		i = last
	}
	filled.Text = out.Bytes()
	slices.Sort(filled.Results)
	filled.Results = slices.Compact(filled.Results)
	return filled, data.placed(file, filled.used)
}

// marker tells whether a line begins a marker; one on a single line has what it asks for.
func marker(line []byte) (asked []byte, inLine, is bool) {
	text := strings.TrimRight(string(line), "\r\n")
	if text == begin {
		return nil, false, true
	}
	text, isBegun := strings.CutPrefix(text, begin+" ")
	text, isEnded := strings.CutSuffix(text, " "+ends)
	return []byte(text + "\n"), true, isBegun && isEnded
}

// find is the first line from i on that is this text, or how many there are.
func find(lines [][]byte, i int, text string) int {
	for ; i < len(lines); i++ {
		if strings.TrimRight(string(lines[i]), "\r\n") == text {
			break
		}
	}
	return i
}

// place is where a marker begins.
type place struct {
	file string
	line int // from 1 on
}

// refusal is an error on its way to Fill, as a panic: no table goes on after one.
type refusal struct{ error }

// refuse is of what is wrong with a marker, or with what it asks for.
func (p place) refuse(key, what, allowed string) {
	panic(refusal{tomlfile.Problem{Line: p.line, Key: key, What: what, Allowed: allowed}.In(p.file)})
}

// must is the value that there is without an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(refusal{err})
	}
	return value
}

// make is what comes between the markers, "" to keep what is there.
func (f *Filler) make(p place, asked []byte, filled *Filled) (text string, err error) {
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case refusal:
			err = problem.error
		default:
			panic(problem)
		}
	}()
	var kind map[string]any
	if err := toml.Unmarshal(asked, &kind); err != nil {
		kind = nil // decoded tells it with its line
	}
	switch {
	case kind["data"] != nil:
		return decoded[lines](p, asked).fill(p, filled), nil
	case kind["paper"] != nil:
		return decoded[paper](p, asked).fill(f, p, filled), nil
	case kind["step"] != nil:
		return decoded[step](p, asked).fill(f, p, filled), nil
	default:
		return f.fill(p, decoded[block](p, asked), filled), nil
	}
}

func decoded[T any](p place, asked []byte) *T {
	var b T
	return must(&b, tomlfile.Decode(p.file, asked, &b))
}

// All are the tree's pages with their plots, and the indexes of its experiments, by their paths in the
// tree: as results and the data that is kept have them be.
func All(t archive.Tree) (map[string][]byte, error) {
	all, err := Indexes(t)
	if err != nil {
		return nil, err
	}
	files, err := pages(t)
	if err != nil {
		return nil, err
	}
	filler := Filler{Tree: t}
	for _, file := range files {
		data, err := keptData(t, file)
		if err != nil {
			return nil, err
		}
		if err := filler.into(all, file, data); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// into adds the filled page and its plots.
func (f *Filler) into(all map[string][]byte, file string, data Data) error {
	text, err := os.ReadFile(filepath.Join(string(f.Tree), file))
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	filled, err := f.Fill(file, text, data)
	if err != nil {
		return err
	}
	all[file] = filled.Text
	maps.Copy(all, filled.Plots)
	return nil
}

// pages are the tree's Markdown files that may have markers: on top, and those in docs.
func pages(t archive.Tree) ([]string, error) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		more, err := fs.Glob(os.DirFS(string(t)), pattern)
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		files = append(files, more...)
	}
	return files, nil
}

// Page is the file of a page that has data: docs/results/NAME.md, or docs/NAME.md without that one.
func Page(t archive.Tree, name string) (string, error) {
	for _, file := range []string{"docs/results/" + name + ".md", "docs/" + name + ".md"} {
		if _, err := os.Stat(filepath.Join(string(t), file)); err == nil {
			return file, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("page: %w", err)
		}
	}
	return "", failure.Usagef("page %q: there is no such page; allowed: a file of docs/results/ or docs/, without .md", name)
}

// One are the files of a page: with the data of the files named, which replace that of the same tables,
// or without files with what is kept. What is kept of the data is one of the files.
func One(t archive.Tree, name, version string, dataFiles []string) (map[string][]byte, error) {
	file, err := Page(t, name)
	if err != nil {
		return nil, err
	}
	data, err := keptData(t, file)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	if len(dataFiles) > 0 {
		if err := data.replace(dataFiles, version); err != nil {
			return nil, err
		}
		all[keptFile(file)] = data.kept()
	}
	return all, (&Filler{Tree: t}).into(all, file, data)
}
