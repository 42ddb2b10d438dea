// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// shownSlowest is how many of the slowest tests are named.
const shownSlowest = 8

// stopwatch passes on what tests print, and takes the host's time that each one needs: what
// makes a run long. A test prints the guest's, in which waiting costs nothing.
type stopwatch struct {
	out   io.Writer
	began time.Time
	tests []timed
}

type timed struct {
	name string
	took time.Duration
}

// Write takes a line at a time.
func (s *stopwatch) Write(line []byte) (int, error) {
	text := string(line)
	if name, ok := strings.CutPrefix(text, "=== RUN   "); ok && !strings.Contains(name, "/") {
		s.began = time.Now()
	}
	if rest, ok := strings.CutPrefix(text, "--- PASS: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		s.tests = append(s.tests, timed{name, time.Since(s.began)})
	}
	return s.out.Write(line)
}

// slowest names the tests that took longest.
func slowest(watches []stopwatch) string {
	var all []timed
	for i := range watches {
		all = append(all, watches[i].tests...)
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	var names []string
	for _, t := range all[:min(len(all), shownSlowest)] {
		names = append(names, fmt.Sprintf("%s %.0f s", t.name, t.took.Seconds()))
	}
	return strings.Join(names, ", ")
}
