// SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"isolio/internal/failure"
)

// The file's own shape. Pointers tell a missing key from a zero.
type file struct {
	Name       *string         `toml:"name"`
	Question   *string         `toml:"question"`
	Answers    *string         `toml:"answers"`
	Schedulers []string        `toml:"schedulers"`
	RampS      *float64        `toml:"ramp_s"`
	DurationS  *float64        `toml:"duration_s"`
	NrRequests *int64          `toml:"nr_requests"`
	Device     *fileDevice     `toml:"device"`
	Job        map[string]any  `toml:"job"`
	Container  []fileContainer `toml:"container"`
	Expect     []fileExpect    `toml:"expect"`
}

type fileDevice struct {
	Kind         *string `toml:"kind"`
	CompletionUS *int64  `toml:"completion_us"`
	Tags         *int64  `toml:"tags"`
	Queues       *int64  `toml:"queues"`
	SizeMiB      *int64  `toml:"size_mib"`
}

type fileContainer struct {
	Name   *string        `toml:"name"`
	Weight *int64         `toml:"weight"`
	Cgroup *string        `toml:"cgroup"`
	StartS *float64       `toml:"start_s"`
	EndS   *float64       `toml:"end_s"`
	Job    map[string]any `toml:"job"`
}

type fileExpect struct {
	Scheduler *string  `toml:"scheduler"`
	Metric    *string  `toml:"metric"`
	Min       *float64 `toml:"min"`
	Max       *float64 `toml:"max"`
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
	case reflect.Slice:
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
		Name:      c.name("name", f.Name),
		Question:  required(c, "question", f.Question, "a sentence"),
		Answers:   value(f.Answers, ""),
		RampS:     value(f.RampS, 0),
		DurationS: required(c, "duration_s", f.DurationS, "a number of seconds above 0, at most 86400"),
		Device:    c.device(f.Device),
	}
	if f.NrRequests != nil {
		e.NrRequests = c.integer("nr_requests", f.NrRequests, nil, 4, 2048)
	}
	if strings.TrimSpace(e.Question) == "" || strings.Contains(e.Question, "\n") {
		c.fail("question", "must be one line of text", "a sentence")
	}
	c.number("ramp_s", e.RampS, e.RampS >= 0 && e.RampS <= 3600, "0..3600 seconds")
	c.number("duration_s", e.DurationS, e.DurationS > 0 && e.DurationS <= 86400, "above 0 seconds, at most 86400")
	e.Schedulers = c.schedulers(f.Schedulers)
	job := c.job("job", f.Job)
	for i := range f.Container {
		e.Containers = append(e.Containers, c.container(i, f, e, job))
	}
	if len(e.Containers) == 0 {
		c.fail("container", "is missing", "one [[container]] or more, each with name and weight")
	}
	for i := range f.Expect {
		e.Expect = append(e.Expect, c.expectation(fmt.Sprintf("expect[%d]", i), &f.Expect[i], e))
	}
	return e
}

func (c *checker) schedulers(names []string) []string {
	if len(names) == 0 {
		c.fail("schedulers", "is missing", "a list of "+strings.Join(Known(), ", "))
	}
	for i, name := range names {
		key := fmt.Sprintf("schedulers[%d]", i)
		if !slices.Contains(Known(), name) {
			c.fail(key, fmt.Sprintf("unknown scheduler %q", name), strings.Join(Known(), ", "))
		}
		if slices.Contains(names[:i], name) {
			c.fail(key, fmt.Sprintf("%q is listed twice", name), "each scheduler once")
		}
	}
	return names
}

func (c *checker) device(f *fileDevice) Device {
	if f == nil {
		c.fail("device", "is missing", "a [device] table with kind, completion_us, tags")
		return Device{}
	}
	d := Device{
		Kind:         required(c, "device.kind", f.Kind, "null_blk"),
		CompletionUS: c.integer("device.completion_us", f.CompletionUS, nil, 1, 10_000_000),
		Tags:         c.integer("device.tags", f.Tags, nil, 1, 10240),
		Queues:       c.integer("device.queues", f.Queues, new(int64(1)), 1, 1024),
		SizeMiB:      c.integer("device.size_mib", f.SizeMiB, new(int64(4096)), 16, 1<<24),
	}
	if f.Kind != nil && d.Kind != "null_blk" {
		c.fail("device.kind", fmt.Sprintf("unknown kind %q", d.Kind), "null_blk")
	}
	return d
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

func (c *checker) container(i int, all *file, e *Experiment, common Job) Container {
	f, key := &all.Container[i], fmt.Sprintf("container[%d]", i)
	t := Container{
		Name:   c.name(key+".name", f.Name),
		Weight: c.integer(key+".weight", f.Weight, nil, 1, 10000),
		StartS: value(f.StartS, 0),
		EndS:   value(f.EndS, e.RampS+e.DurationS),
		Job:    common.overlaid(c.job(key+".job", f.Job)),
	}
	t.Cgroup = value(f.Cgroup, t.Name)
	for _, earlier := range e.Containers {
		if f.Name != nil && earlier.Name == t.Name {
			c.fail(key+".name", fmt.Sprintf("%q is the name of an earlier container", t.Name), "a name of its own")
		}
		if f.Cgroup != nil && earlier.Cgroup == t.Cgroup {
			c.fail(key+".cgroup", fmt.Sprintf("%q is the cgroup of an earlier container", t.Cgroup), "a cgroup of its own")
		}
		if nested(earlier.Cgroup, t.Cgroup) {
			c.fail(key+".cgroup", fmt.Sprintf("%q and %q lie one in the other", earlier.Cgroup, t.Cgroup),
				"a leaf: cgroup v2 keeps processes out of inner groups")
		}
	}
	if f.Cgroup != nil && (t.Cgroup != path.Clean(t.Cgroup) || t.Cgroup == "." || path.IsAbs(t.Cgroup) || strings.HasPrefix(t.Cgroup, "..")) {
		c.fail(key+".cgroup", fmt.Sprintf("%q is not a path below the experiment's cgroup", t.Cgroup), "a relative path without '..'")
	}
	end := e.RampS + e.DurationS
	c.number(key+".start_s", t.StartS, t.StartS >= 0 && t.StartS < end, fmt.Sprintf("0 to below ramp_s + duration_s = %g", end))
	c.number(key+".end_s", t.EndS, t.EndS > max(t.StartS, e.RampS) && t.EndS <= end,
		fmt.Sprintf("above start_s and ramp_s, at most ramp_s + duration_s = %g", end))
	if _, ok := t.Job["rw"]; !ok {
		c.fail(key+".job.rw", "is missing", "set rw in [job] or in the container's own job")
	}
	return t
}

func nested(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (c *checker) expectation(key string, f *fileExpect, e *Experiment) Expectation {
	x := Expectation{
		Scheduler: required(c, key+".scheduler", f.Scheduler, strings.Join(e.Schedulers, ", ")),
		Min:       f.Min, Max: f.Max,
	}
	if f.Scheduler != nil && !slices.Contains(e.Schedulers, x.Scheduler) {
		c.fail(key+".scheduler", fmt.Sprintf("%q is not one of the experiment's schedulers", x.Scheduler), strings.Join(e.Schedulers, ", "))
	}
	var containers []string
	for _, t := range e.Containers {
		containers = append(containers, t.Name)
	}
	metric := required(c, key+".metric", f.Metric, metricForms)
	if f.Metric != nil {
		var wrong, allowed string
		if x.Metric, wrong, allowed = parseMetric(metric, e.Schedulers, containers); wrong != "" {
			c.fail(key+".metric", wrong, allowed)
		}
		if x.Metric.Kind == TotalVsNone && !slices.Contains(e.Schedulers, "none") {
			c.fail(key+".metric", "total_vs_none needs none among the schedulers", "another metric, or add none")
		}
	}
	if x.Min == nil && x.Max == nil {
		c.fail(key+".min", "is missing", "min, max or both")
	}
	for _, bound := range []*float64{x.Min, x.Max} {
		if bound != nil && (math.IsNaN(*bound) || math.IsInf(*bound, 0)) {
			c.fail(key, "a bound is not a number", "a finite number")
		}
	}
	if x.Min != nil && x.Max != nil && *x.Min > *x.Max {
		c.fail(key+".min", fmt.Sprintf("min %g is above max %g", *x.Min, *x.Max), "min <= max")
	}
	return x
}
