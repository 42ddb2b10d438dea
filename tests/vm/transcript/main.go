// SPDX-License-Identifier: MIT

// Command transcript writes what a test such as TestFirstHour ran and what that printed into
// a document, each step between two marks that name it. It adds the steps that need no host.
//
//	go run ./tests/vm/transcript docs/results/first-hour.md build/first-hour.jsonl
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"isolio/tests/vm/measured"
)

// step is a line of the data.
type step struct {
	Step, Command, Output string
}

// here are the steps that are run where the document is written, if it has a place for them: the result that `make
// demo` measures again, as it is kept in results/.
var here = map[string]string{"demo": "isolio report report-rand-read | sed -n '/^== depth-32/,/^kyber-fairness/p'"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "transcript: usage: transcript DOCUMENT DATA; `make first-hour` writes the data")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "transcript:", err)
		os.Exit(1)
	}
}

func run(document, data string) error {
	steps, err := readSteps(data)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	for name, command := range here {
		if !strings.Contains(string(old), begin(name)) {
			continue
		}
		if steps[name], err = ran(name, command); err != nil {
			return err
		}
	}
	text, err := filled(string(old), steps)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(text), 0o644)
}

// ran is a step with what its command prints, by the programs in build/.
func ran(name, command string) (step, error) {
	programs, err := filepath.Abs("build")
	if err != nil {
		return step{}, err
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil && len(out) == 0 {
		err = errors.New("printed nothing")
	}
	if err != nil {
		return step{}, fmt.Errorf("step %q: %s: %w", name, command, err)
	}
	return step{name, command, string(out)}, nil
}

func readSteps(file string) (map[string]step, error) {
	all, err := measured.Lines[step](file, "TestFirstHour", nil)
	steps := map[string]step{}
	for _, s := range all {
		steps[s.Step] = s
	}
	return steps, err
}

// begin is the mark before a step.
func begin(name string) string { return "<!-- step: " + name + " -->\n" }

// marked is a step's place in the document.
var marked = regexp.MustCompile(`(?s)<!-- step: ([a-z ]+) -->\n.*?<!-- end of step -->\n`)

// filled is the document with each step's command and output in its place. A place
// without a step, and a step without a place, are mistakes.
func filled(document string, steps map[string]step) (string, error) {
	var errs []error
	seen := map[string]bool{}
	text := marked.ReplaceAllStringFunc(document, func(place string) string {
		name := marked.FindStringSubmatch(place)[1]
		seen[name] = true
		s, ok := steps[name]
		if !ok {
			errs = append(errs, fmt.Errorf("no step %q among the data", name))
			return place
		}
		return begin(name) + block(s) + "<!-- end of step -->\n"
	})
	for name := range steps {
		if !seen[name] {
			errs = append(errs, fmt.Errorf("has no place for the step %q", name))
		}
	}
	return text, errors.Join(errs...)
}

// block shows a step as a terminal does.
func block(s step) string {
	var b strings.Builder
	b.WriteString("\n    $ " + s.Command + "\n")
	for line := range strings.Lines(strings.TrimRight(s.Output, "\n")) {
		b.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	b.WriteString("\n")
	return b.String()
}
