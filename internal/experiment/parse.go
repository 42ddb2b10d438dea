// SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"isolio/internal/failure"
)

// The file's own shape. Pointers tell a missing key from a zero.
type file struct {
	Name          *string         `toml:"name"`
	Question      *string         `toml:"question"`
	Answers       *string         `toml:"answers"`
	Schedulers    []string        `toml:"schedulers"`
	Contender     []fileContender `toml:"contender"`
	RampS         *float64        `toml:"ramp_s"`
	DurationS     *float64        `toml:"duration_s"`
	NrRequests    *int64          `toml:"nr_requests"`
	CPUs          *int64          `toml:"cpus"`
	SampleMS      *int64          `toml:"sample_ms"`
	ShareUnit     *string         `toml:"share_unit"`
	ReferenceCase *string         `toml:"reference_case"`
	Critical      *string         `toml:"critical"`
	Device        *fileDevice     `toml:"device"`
	Job           map[string]any  `toml:"job"`
	Container     []fileContainer `toml:"container"`
	Parent        []fileParent    `toml:"parent"`
	Case          []fileCase      `toml:"case"`
	Expect        []fileExpect    `toml:"expect"`
}

// Parse reads an experiment from text; name stands for the file in messages.
// The error is one line: FILE:LINE: KEY: what is wrong; allowed: ...
func Parse(name string, text []byte) (*Experiment, error) {
	var f file
	dec := toml.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, decodeError(name, err)
	}
	c := &checker{lines: indexLines(text)}
	e := c.experiment(&f)
	if p := c.first(); p != nil {
		return nil, p.in(name)
	}
	e.File, e.Source = name, bytes.Clone(text)
	return e, nil
}

// decodeError turns the TOML library's error into the one line of the house.
func decodeError(name string, err error) error {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
		d := &missing.Errors[0]
		line, _ := d.Position()
		return problem{line, keyPath(d.Key()), "unknown key", strings.Join(allowedKeys(d.Key()), ", ")}.in(name)
	}
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := d.Position()
		if t := fieldType(d.Key()); t != nil {
			return problem{line, keyPath(d.Key()), "has the wrong type", describe(t)}.in(name)
		}
		return problem{line, keyPath(d.Key()), strings.TrimPrefix(d.Error(), "toml: "), "TOML 1.0"}.in(name)
	}
	return failure.Usagef("%s: %w", name, err)
}

func keyPath(key toml.Key) string { return strings.Join(key, ".") }

// structAt follows key through the file's shape to the last table on its way,
// and returns how many parts of key lead there.
func structAt(key toml.Key) (reflect.Type, int) {
	t := reflect.TypeFor[file]()
	for i, part := range key {
		next := memberType(t, part)
		if next == nil || next.Kind() != reflect.Struct {
			return t, i
		}
		t = next
	}
	return t, len(key)
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

func allowedKeys(key toml.Key) []string {
	t, _ := structAt(key)
	return keysOf(t)
}

// keysOf are the keys of a table of the file.
func keysOf(t reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		names = append(names, field.Tag.Get("toml"))
	}
	return names
}

// fieldType is the type of the member that key names, nil if it names none.
func fieldType(key toml.Key) reflect.Type {
	t, depth := structAt(key)
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
		if t.Elem().Kind() == reflect.Slice {
			return "a list of pairs of numbers"
		}
		return "a list of strings"
	default:
		return "a table"
	}
}

// namePattern keeps names fit for cgroups and file names.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

const nameRule = "1 to 64 of a-z, 0-9, '.', '_', '-', not starting with a mark"

// experiment checks f and returns what it says. The caller looks at
// c.first before it uses the result.
func (c *checker) experiment(f *file) *Experiment {
	e := &Experiment{
		Name:     c.name("name", f.Name),
		Question: required(c, "question", f.Question, "a sentence"),
		Answers:  value(f.Answers, ""),
	}
	if f.NrRequests != nil {
		e.NrRequests = c.integer("nr_requests", f.NrRequests, nil, 4, 2048)
	}
	if strings.TrimSpace(e.Question) == "" || strings.Contains(e.Question, "\n") {
		c.fail("question", "must be one line of text", "a sentence")
	}
	e.Contenders = c.contenders(f)
	e.Schedulers = c.schedulers(f.Schedulers, e.Contenders)
	e.Cases = c.cases(f, e.Schedulers)
	c.iocostNeedsModel(e)
	c.shareUnit(f, e)
	c.plots(f, e)
	for i := range f.Expect {
		e.Expect = append(e.Expect, c.expectations(fmt.Sprintf("expect[%d]", i), &f.Expect[i], e)...)
	}
	return e
}

func (c *checker) job(key string, set map[string]any) Job {
	job := Job{}
	for name, v := range set {
		text, wrong, allowed := checkOption(name, v)
		if wrong != "" {
			c.fail(key+"."+name, wrong, allowed)
			continue
		}
		job[name] = text
	}
	return job
}
