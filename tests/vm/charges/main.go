// SPDX-License-Identifier: MIT

// Command charges writes what TestWritebackIsCharged measured into a document, as tables
// between two marks: one for each kernel, with a row for what a container does.
//
//	go run ./tests/vm/charges docs/filesystems.md build/writeback-*.jsonl
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The marks in the document.
const (
	begins = "<!-- charges: written by tests/vm/charges -->\n"
	ends   = "<!-- end of the charges -->\n"
)

// charge is a line of the data.
type charge struct {
	Kernel, Filesystem, What string

	Own   int `json:"own_kib"`
	Other int `json:"other_kib"`
	None  int `json:"none_kib"`
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "charges: usage: charges DOCUMENT DATA...; `make writeback` writes the data")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "charges:", err)
		os.Exit(1)
	}
}

func run(document string, files []string) error {
	var all []charge
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for in := json.NewDecoder(bytes.NewReader(text)); ; {
			var c charge
			err := in.Decode(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || c.Kernel == "" || c.Filesystem == "" || c.What == "" {
				return fmt.Errorf("%s: is not what TestWritebackIsCharged sends: %w", file, cmp.Or(err, errors.New("a name is missing")))
			}
			all = append(all, c)
		}
	}
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, err := filled(string(old), all)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(text), 0o644)
}

func filled(document string, all []charge) (string, error) {
	before, rest, ok := strings.Cut(document, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !ok || !ended {
		return "", fmt.Errorf("has not both marks, %q and %q", strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	if len(all) == 0 {
		return "", errors.New("the data is empty: the test sent nothing")
	}
	return before + begins + tables(all) + ends + after, nil
}

// distinct are the values of all, in the order in which they come first.
func distinct(all []charge, of func(charge) string) (values []string) {
	for _, c := range all {
		if !slices.Contains(values, of(c)) {
			values = append(values, of(c))
		}
	}
	return values
}

func tables(all []charge) string {
	var b strings.Builder
	for _, kernel := range distinct(all, func(c charge) string { return c.Kernel }) {
		here := slices.DeleteFunc(slices.Clone(all), func(c charge) bool { return c.Kernel != kernel })
		kinds := distinct(here, func(c charge) string { return c.Filesystem })
		fmt.Fprintf(&b, "Kernel %s:\n\n| what the container does | %s |\n|---|%s\n", kernel, strings.Join(kinds, " | "), strings.Repeat("--:|", len(kinds)))
		for _, what := range distinct(here, func(c charge) string { return c.What }) {
			cells := []string{what}
			for _, kind := range kinds {
				cell := "-"
				for _, c := range here {
					if c.What == what && c.Filesystem == kind {
						cell = fmt.Sprintf("%d / %d / %d", c.Own, c.Other, c.None)
					}
				}
				cells = append(cells, cell)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
