// SPDX-License-Identifier: MIT

// Package tomlfile reads files that people write: strictly, and with messages
// that name file, line, key and what is allowed.
package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"isolio/internal/failure"
)

// Problem is one thing that is wrong with a file. Line is 1-based, 0 if the
// place is unknown.
type Problem struct {
	Line    int
	Key     string
	What    string
	Allowed string
}

// In is the problem as an error, on one line.
func (p Problem) In(file string) error {
	place := file
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", file, p.Line)
	}
	if p.Key != "" {
		place += ": " + p.Key
	}
	return failure.Usagef("%s: %s; allowed: %s", place, p.What, p.Allowed)
}

// Bare is the text without the byte order mark with which some editors begin a file.
func Bare(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// Decode reads text into the struct that to points to; a key that the struct does
// not have is an error, which names the key that has the tag `was` with its name.
// name stands for the file in messages.
func Decode(name string, text []byte, to any) error {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return Problem{0, "", "is in UTF-16", "UTF-8"}.In(name)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return Problem{0, "", "is no text", "TOML 1.0"}.In(name)
	}
	dec := toml.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		if d, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := d.Position()
			if yaml.Match(lineOf(text, line)) {
				return Problem{line, "", "looks like YAML", `TOML 1.0, such as unit = "web"`}.In(name)
			}
			if typographic(text, line) != "" {
				return Problem{line, "", "has " + typographic(text, line), `", ' and plain spaces`}.In(name)
			}
		}
		return decodeError(name, reflect.TypeOf(to).Elem(), err)
	}
	return nil
}

// looksPlain are characters of word processors and web pages that TOML takes for no quote or space.
var looksPlain = map[rune]string{
	'\u201c': "the curly quote “", '\u201d': "the curly quote ”", '\u2018': "the curly quote ‘", '\u2019': "the curly quote ’",
	'\u00a0': "a no-break space, U+00A0", '\u200b': "a space of no width, U+200B", '\ufeff': "a byte order mark, U+FEFF",
}

// yaml is a line of YAML that is none of TOML.
var yaml = regexp.MustCompile(`^\s*(- *)?[\w.-]+:(\s|$)|^---\s*$`)

// lineOf is the line of a number, from 1.
func lineOf(text []byte, line int) []byte {
	lines := bytes.Split(text, []byte("\n"))
	if line < 1 || line > len(lines) {
		return nil
	}
	return lines[line-1]
}

// typographic is the first such character in a line, "" for none.
func typographic(text []byte, line int) string {
	for _, r := range string(lineOf(text, line)) {
		if looksPlain[r] != "" {
			return looksPlain[r]
		}
	}
	return ""
}

// decodeError turns the TOML library's error into the one line of the house.
func decodeError(name string, shape reflect.Type, err error) error {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
		d := &missing.Errors[0]
		line, _ := d.Position()
		return Problem{line, keyPath(d.Key()), "unknown key", strings.Join(allowedKeys(shape, d.Key()), ", ")}.In(name)
	}
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := d.Position()
		if t := fieldType(shape, d.Key()); t != nil && t.Kind() != reflect.Interface {
			allowed := describe(t)
			if len(d.Key()) == 1 && isList(shape, d.Key()[0]) {
				allowed = "a list of tables: [[" + d.Key()[0] + "]]"
			}
			return Problem{line, keyPath(d.Key()), "has the wrong type", allowed}.In(name)
		}
		return Problem{line, keyPath(d.Key()), strings.TrimPrefix(d.Error(), "toml: "), "TOML 1.0"}.In(name)
	}
	return failure.Usagef("%s: %w", name, err)
}

func keyPath(key toml.Key) string { return strings.Join(key, ".") }

// structAt follows key through the file's shape to the last table on its way,
// and returns how many parts of key lead there.
func structAt(t reflect.Type, key toml.Key) (reflect.Type, int) {
	last, depth := t, 0 // a table of tables has keys of the reader's own
	for i, part := range key {
		var next reflect.Type
		if t.Kind() == reflect.Map {
			next = t.Elem()
		} else {
			next = memberType(t, part)
		}
		if next == nil || next.Kind() != reflect.Struct && (next.Kind() != reflect.Map || next.Elem().Kind() != reflect.Struct) {
			break
		}
		if t = next; t.Kind() == reflect.Struct {
			last, depth = t, i+1
		}
	}
	return last, depth
}

// isList reports whether t's member named key is a list of tables.
func isList(t reflect.Type, key string) bool {
	for field := range t.Fields() {
		if field.Tag.Get("toml") == key {
			return field.Type.Kind() == reflect.Slice && slices.Contains([]reflect.Kind{reflect.Struct, reflect.Map}, field.Type.Elem().Kind())
		}
	}
	return false
}

// memberType is the type of t's member named key, without pointer and slice.
func memberType(t reflect.Type, key string) reflect.Type {
	for field := range t.Fields() {
		if field.Tag.Get("toml") == key {
			m := field.Type
			if m.Kind() == reflect.Pointer || m.Kind() == reflect.Slice && m.Elem().Kind() == reflect.Struct {
				m = m.Elem()
			}
			return m
		}
	}
	return nil
}

func allowedKeys(shape reflect.Type, key toml.Key) []string {
	t, _ := structAt(shape, key)
	for field := range t.Fields() {
		if was := field.Tag.Get("was"); was != "" && was == key[len(key)-1] {
			return []string{field.Tag.Get("toml") + ", its new name"}
		}
	}
	return Keys(t)
}

// Keys are the keys of a table of the file.
func Keys(t reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		names = append(names, field.Tag.Get("toml"))
	}
	return names
}

// fieldType is the type of the member that key names, nil if it names none.
func fieldType(shape reflect.Type, key toml.Key) reflect.Type {
	t, depth := structAt(shape, key)
	if depth == len(key) {
		if depth == 0 {
			return nil
		}
		return t
	}
	return memberType(t, key[depth])
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.Slice:
			return "a list of pairs of numbers"
		case reflect.Map, reflect.Struct:
			return "a list of tables"
		case reflect.Int64:
			return "a list of integers"
		}
		return "a list of strings"
	default:
		return "a table"
	}
}

// Lines maps each key of a valid TOML text to its line: tables of an
// array and elements of a list are counted from 0, as "container[1].weight"
// and "schedulers[2]".
func Lines(text []byte) map[string]int {
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
