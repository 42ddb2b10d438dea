// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"strings"

	"isolio/internal/tomlfile"
)

// checker collects problems with the lines they are on.
type checker struct {
	lines map[string]int
	// within is the case that is checked, as "case[1].". What a key says may
	// stand there or, for all cases, at the top.
	within   string
	programs map[string]*Program // of the file's [[program]] tables, by name
	problems []tomlfile.Problem
}

// fail records a problem with key, which is written as in "container[1].job.rw"
// (counted from 0) and shown without the counts.
func (c *checker) fail(key, what, allowed string) {
	key, line := c.place(key)
	c.problems = append(c.problems, tomlfile.Problem{Line: line, Key: shown(key), What: what, Allowed: allowed})
}

// first is the problem nearest to the file's top, nil if there is none.
func (c *checker) first() *tomlfile.Problem {
	var first *tomlfile.Problem
	for i := range c.problems {
		if p := &c.problems[i]; first == nil || p.Line < first.Line {
			first = p
		}
	}
	return first
}

// place is the whole key, with the case that it stands in, and its line; a key
// that is missing has that of its table, or 0 at the top.
func (c *checker) place(key string) (whole string, line int) {
	for part := key; part != ""; part = part[:max(0, strings.LastIndexAny(part, ".["))] {
		if line, ok := c.lines[c.within+part]; ok {
			return c.within + key, line
		}
		if line, ok := c.lines[part]; ok {
			return key, line
		}
	}
	return key, 0
}

func shown(key string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(key, ".") {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		name, _, _ := strings.Cut(part, "[")
		b.WriteString(name)
	}
	return b.String()
}

func (c *checker) name(key string, v *string) string {
	name := required(c, key, v, nameRule)
	if v != nil && !namePattern.MatchString(name) {
		c.fail(key, fmt.Sprintf("%q is not a name", name), nameRule)
	}
	return name
}

// integer checks v against low..high; def stands for a missing key, nil if
// the key is required.
func (c *checker) integer(key string, v, def *int64, low, high int64) int {
	allowed := fmt.Sprintf("an integer %d..%d", low, high)
	if v == nil && def != nil {
		v = def
	}
	n := required(c, key, v, allowed)
	if v != nil && (n < low || n > high) {
		c.fail(key, fmt.Sprintf("%d is out of range", n), allowed)
	}
	return int(n)
}

// number fails if v is given and not ok.
func (c *checker) number(key string, given bool, v float64, ok bool, allowed string) {
	if given && !ok {
		c.fail(key, fmt.Sprintf("%g is out of range", v), allowed)
	}
}

func required[T any](c *checker, key string, v *T, allowed string) T {
	if v == nil {
		c.fail(key, "is missing", allowed)
	}
	return value(v, *new(T))
}

func value[T any](v *T, def T) T {
	if v == nil {
		return def
	}
	return *v
}
