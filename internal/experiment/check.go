// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"isolio/internal/failure"
)

// problem is one thing that is wrong with a file. line is 1-based, 0 if the
// place is unknown.
type problem struct {
	line    int
	key     string
	what    string
	allowed string
}

func (p problem) in(file string) error {
	place := file
	if p.line > 0 {
		place = fmt.Sprintf("%s:%d", file, p.line)
	}
	if p.key != "" {
		place += ": " + p.key
	}
	return failure.Usagef("%s: %s; allowed: %s", place, p.what, p.allowed)
}

// checker collects problems with the lines they are on.
type checker struct {
	lines map[string]int
	// within is the case that is checked, as "case[1].". What a key says may
	// stand there or, for all cases, at the top.
	within   string
	problems []problem
}

// fail records a problem with key, which is written as in "container[1].job.rw"
// (counted from 0) and shown without the counts.
func (c *checker) fail(key, what, allowed string) {
	key, line := c.place(key)
	c.problems = append(c.problems, problem{line, shown(key), what, allowed})
}

// first is the problem nearest to the file's top, nil if there is none.
func (c *checker) first() *problem {
	var first *problem
	for i := range c.problems {
		if p := &c.problems[i]; first == nil || p.line < first.line {
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

// present reports whether key stands in the file.
func (c *checker) present(key string) bool {
	_, own := c.lines[c.within+key]
	_, common := c.lines[key]
	return own || common
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

func (c *checker) number(key string, v float64, ok bool, allowed string) {
	if c.present(key) && !ok {
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

// indexLines maps each key of a valid TOML text to its line: tables of an
// array and elements of a list are counted from 0, as "container[1].weight"
// and "schedulers[2]".
func indexLines(text []byte) map[string]int {
	lines := map[string]int{}
	counts := map[string]int{} // of each array's tables so far
	prefix := ""
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		node := p.Expression()
		var parts []string
		line := 0
		for it := node.Key(); it.Next(); {
			if line == 0 {
				line = p.Shape(it.Node().Raw).Start.Line
			}
			parts = append(parts, string(it.Node().Data))
		}
		switch node.Kind {
		case unstable.ArrayTable:
			name := counted(parts[:len(parts)-1], counts) + parts[len(parts)-1]
			prefix = fmt.Sprintf("%s[%d]", name, counts[name])
			counts[name]++
			lines[prefix] = line
			prefix += "."
		case unstable.Table:
			prefix = counted(parts[:len(parts)-1], counts) + parts[len(parts)-1]
			lines[prefix] = line
			prefix += "."
		case unstable.KeyValue:
			key := prefix + strings.Join(parts, ".")
			lines[key] = line
			indexValue(&p, lines, key, node.Value(), line)
		}
	}
	return lines
}

// counted joins parts, with the count of the table last seen where a part
// names an array of tables.
func counted(parts []string, counts map[string]int) string {
	path := ""
	for _, part := range parts {
		path += part
		if n := counts[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
		}
		path += "."
	}
	return path
}

// indexValue adds the elements of lists and inline tables.
func indexValue(p *unstable.Parser, lines map[string]int, key string, v *unstable.Node, line int) {
	switch v.Kind {
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			child := it.Node()
			at := line
			if child.Raw.Length > 0 {
				at = p.Shape(child.Raw).Start.Line
			}
			element := fmt.Sprintf("%s[%d]", key, i)
			lines[element] = at
			indexValue(p, lines, element, child, at)
		}
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			member := it.Node()
			var parts []string
			for k := member.Key(); k.Next(); {
				parts = append(parts, string(k.Node().Data))
			}
			lines[key+"."+strings.Join(parts, ".")] = line
			indexValue(p, lines, key+"."+strings.Join(parts, "."), member.Value(), line)
		}
	}
}
