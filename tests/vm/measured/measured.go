// SPDX-License-Identifier: MIT

// Package measured puts what a test in a VM measured into a document, as text between two
// marks.
package measured

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Table is what is written between the marks of that name.
type Table[T any] struct {
	// Name is the program's, in tests/vm.
	Name string
	// Test sends the data, one T a line, and Target of the Makefile runs it.
	Test, Target string
	// Check tells what is wrong with a line, nil for nothing; nil checks nothing.
	Check func(*T) error
	// Text is made of all lines.
	Text func(all []T) string
}

// Main is that of a program: DOCUMENT DATA...
func (t *Table[T]) Main() {
	if len(os.Args) < 3 {
		fmt.Fprintf(os.Stderr, "%s: usage: %s DOCUMENT DATA...; `make %s` writes the data\n", t.Name, t.Name, t.Target)
		os.Exit(2)
	}
	if err := t.Write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
		os.Exit(1)
	}
}

// Write writes the text of the files' lines into the document.
func (t *Table[T]) Write(document string, files []string) error {
	var all []T
	for _, file := range files {
		more, err := Lines(file, t.Test, t.Check)
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	begins, ends := t.Marks()
	before, rest, ok := strings.Cut(string(old), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !ok || !ended {
		return fmt.Errorf("%s: has not both marks, %q and %q", document, strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	return os.WriteFile(document, []byte(before+begins+t.Text(all)+ends+after), 0o644)
}

// Marks are those in the document.
func (t *Table[T]) Marks() (begins, ends string) {
	return "<!-- " + t.Name + ": written by tests/vm/" + t.Name + " -->\n", "<!-- end of the " + t.Name + " -->\n"
}

// Lines are those of a file, of which there are some.
func Lines[T any](file, test string, check func(*T) error) ([]T, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []T
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var one T
		err := in.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && check != nil {
			err = check(&one)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: is not what %s sends: %w", file, test, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: is empty: %s sent nothing", file, test)
	}
	return all, nil
}

// Distinct are the values of all lines, in the order in which they come first.
func Distinct[T any](all []T, of func(T) string) (values []string) {
	for _, one := range all {
		if v := of(one); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}
