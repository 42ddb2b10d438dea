// SPDX-License-Identifier: MIT

// Package archive keeps what experiments measured in a source tree: results/NAME.jsonl for
// experiments/.../NAME.toml, and results/NAME@LINE.jsonl for the same on another kernel line.
// A file has a line for the experiment and one for each run, with samples of rates only where
// a document reads them. A result says at which version of the tree it was measured, and has the sums of what it
// depends on. So the archive tells which are older than the tree; nothing fails by it.
package archive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// Tree is a source tree by its directory.
type Tree string

// Experiments are the tree's experiments by the order of their names. Each has the name
// of its file.
func (t Tree) Experiments() ([]*experiment.Experiment, error) {
	return experiment.All(filepath.Join(string(t), "experiments"))
}

// KernelMark is between an experiment's name and a kernel line in the name of a result.
const KernelMark = "@"

// OnKernel is an experiment on a kernel line: itself on its own.
func OnKernel(x *experiment.Experiment, line string) *experiment.Experiment {
	if x.Kernel == line {
		return x
	}
	other := *x
	other.Name, other.Kernel = x.Name+KernelMark+line, line
	return &other
}

// Measured are the tree's experiments, and after each those on other kernels that there are
// results of: they have the names of these results.
func (t Tree) Measured() ([]*experiment.Experiment, error) {
	all, err := t.Experiments()
	if err != nil {
		return nil, err
	}
	names, err := t.Names()
	if err != nil {
		return nil, err
	}
	lines := map[string][]string{}
	for _, name := range names {
		if of, line, is := strings.Cut(name, KernelMark); is {
			lines[of] = append(lines[of], line)
		}
	}
	var measured []*experiment.Experiment
	for _, x := range all {
		measured = append(measured, x)
		for _, line := range lines[x.Name] {
			measured = append(measured, OnKernel(x, line))
		}
		delete(lines, x.Name)
	}
	for _, of := range slices.Sorted(maps.Keys(lines)) {
		return nil, failure.Usagef("results/%s%s%s.jsonl: no experiment is called %q", of, KernelMark, lines[of][0], of)
	}
	return measured, nil
}

// suffix is that of a result's file: JSON Lines.
const suffix = ".jsonl"

// file is where an experiment's result is.
func (t Tree) file(name string) string {
	return filepath.Join(string(t), "results", name+suffix)
}

// Read returns the result of an experiment, and nil if there is none. One of another
// schema is refused.
func (t Tree) Read(name string) (*result.Document, error) {
	file := t.file(name)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	doc, err := Decode(file, text)
	if err != nil {
		return nil, failure.Usagef("%w; `make results ONLY=%s` makes it anew", err, name)
	}
	if doc.Experiment != name {
		return nil, failure.Usagef("result %s: is of experiment %q, not %q", file, doc.Experiment, name)
	}
	return doc, nil
}

// Allowed is what a user may give for a result.
const Allowed = "a file that `isolio lab --json` made, or the name of one in results/"

// Decode reads a document of the archive, or one that `isolio lab --json` wrote; file is its
// name for errors.
func Decode(file string, text []byte) (*result.Document, error) {
	doc, err := result.Read(bytes.NewReader(text))
	if _, is := errors.AsType[*json.SyntaxError](err); is {
		return nil, failure.Usagef("result %s: is no JSON; allowed: "+Allowed, file)
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		err = fmt.Errorf("%s is not its %s", wrong.Value, cmp.Or(strings.TrimPrefix(wrong.Field, "Document."), "object"))
	}
	if err != nil {
		return nil, failure.Usagef("result %s: is no result: %w; allowed: "+Allowed, file, err)
	}
	return doc, nil
}

// Write makes the document the result of its experiment. A reader sees the old one or
// the new one.
func (t Tree) Write(doc *result.Document) error {
	var text bytes.Buffer
	err := doc.WriteLines(&text)
	file := t.file(doc.Experiment)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(file, text.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// Names are those of the results that are there, and of no experiment any more too.
func (t Tree) Names() ([]string, error) {
	files, err := filepath.Glob(t.file("*"))
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(filepath.ToSlash(file)), suffix))
	}
	return names, nil
}
