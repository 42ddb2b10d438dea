// SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Program is a command that is a container's load, in place of a fio job. It runs in a
// directory of its own on the case's file system, and not as root.
type Program struct {
	// Command is the program and its arguments.
	Command []string `json:"command,omitzero"`
	// Setup are commands that run before any load begins, one after another, in the same
	// directory and cgroup. What they leave running, as a server, is part of the container.
	Setup [][]string `json:"setup,omitzero"`
	// Ends is whether the command comes to its own end. Others run until they are stopped.
	Ends bool `json:"ends,omitzero"`
	// Output says what to read from what the command prints.
	Output Output `json:"output,omitzero"`
}

// Output is where the figures of a program are in what it prints: regular expressions by
// what they find. Each has one group, which is a number.
type Output struct {
	// PerS finds its operations a second, "" for nothing; the last match counts.
	PerS string `json:"per_s,omitzero"`
	// Latency finds how long one operation took, "" for nothing; each match is one
	// operation. Where it has a group "at", that is when the operation ended, in seconds
	// of the Unix epoch, and only those of the counted time count.
	Latency string `json:"latency,omitzero"`
	// Statistics find statistics of latencies by their names, such as "p99"; the last match
	// counts.
	Statistics map[string]string `json:"statistics,omitzero"`
	// Unit is that of all these times: one of TimeUnits.
	Unit string `json:"unit,omitzero"`
}

// atGroup is the name of the group that says when an operation ended.
const atGroup = "at"

// timeUnits are units of latencies, in microseconds.
var timeUnits = map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}

// TimeUnits are the units that a program may print its times in.
func TimeUnits() []string { return []string{"ns", "us", "ms", "s"} }

// Microseconds is how many of them one of the output's unit is.
func (o *Output) Microseconds() float64 { return timeUnits[o.Unit] }

// Measures reports whether anything is read from what the program prints.
func (o *Output) Measures() bool { return o.PerS != "" || o.Latency != "" || len(o.Statistics) > 0 }

// Counts reports whether the output says how many operations there were.
func (o *Output) Counts() bool { return o.PerS != "" || o.Latency != "" }

// All are the commands in the order in which they are started.
func (p *Program) All() [][]string { return append(slices.Clone(p.Setup), p.Command) }

// UsesPrograms reports whether any container runs a command in place of fio.
func (e *Experiment) UsesPrograms() bool {
	return slices.ContainsFunc(e.Cases, func(k Case) bool { return k.UsesPrograms() })
}

// UsesPrograms reports whether any container of the case runs a command.
func (k *Case) UsesPrograms() bool {
	return slices.ContainsFunc(k.Containers, func(t Container) bool { return t.Program != nil })
}

// outputKeys are the keys of a table output.
func outputKeys() []string {
	return append([]string{"per_s", "latency", "unit"}, LatencyStatistics()...)
}

// The file's own shape: a program that containers have by its name. A container's own has
// the same keys but for the name.
type fileProgram struct {
	Name    *string           `toml:"name"`
	Command []string          `toml:"command"`
	Setup   [][]string        `toml:"setup"`
	Ends    *bool             `toml:"ends"`
	Output  map[string]string `toml:"output"`
}

// namedPrograms checks the file's tables of programs.
func (c *checker) namedPrograms(f *file) {
	c.programs = map[string]*Program{}
	for i := range f.Program {
		key := fmt.Sprintf("program[%d]", i)
		name := c.name(key+".name", f.Program[i].Name)
		if c.programs[name] != nil {
			c.fail(key+".name", fmt.Sprintf("%q is the name of an earlier program", name), "a name of its own")
		}
		if f.Program[i].Command == nil {
			c.fail(key+".command", "is missing", "a program and its arguments")
		}
		c.programs[name] = c.commands(key, &f.Program[i])
	}
}

// program checks what a container runs in place of fio, nil for one with a job.
func (c *checker) program(key string, f *fileContainer, k *Case) *Program {
	own := f.Command != nil
	for _, other := range []struct {
		name  string
		given bool
	}{{"setup", f.Setup != nil}, {"ends", f.Ends != nil}, {"output", f.Output != nil}} {
		if other.given && !own {
			c.fail(key+"."+other.name, "goes with command", "command = [\"PROGRAM\", \"ARGUMENT\", ...]")
		}
	}
	what := "command"
	if f.Program != nil {
		what = "program"
	}
	switch {
	case f.Program == nil && !own:
		return nil
	case f.Program != nil && own:
		c.fail(key+".program", "does not go with command", "one or the other")
	case f.Job != nil:
		c.fail(key+"."+what, "does not go with job", "a command, or fio's options in job")
	case f.Count != nil:
		c.fail(key+"."+what, "does not go with count", "one container for each command")
	case k.Device.Filesystem == "":
		c.fail(key+"."+what, "needs a file system to run on", "device.filesystem, one of "+strings.Join(Filesystems(), ", "))
	}
	if f.Program == nil {
		return c.commands(key, &fileProgram{Command: f.Command, Setup: f.Setup, Ends: f.Ends, Output: f.Output})
	}
	p := c.programs[*f.Program]
	if p == nil {
		names := slices.Sorted(maps.Keys(c.programs))
		c.fail(key+".program", fmt.Sprintf("there is no program %q", *f.Program), cmp.Or(strings.Join(names, ", "), "a [[program]] of that name"))
		p = &Program{}
	}
	return p
}

// commands checks a table's commands, and what is read from their output.
func (c *checker) commands(key string, f *fileProgram) *Program {
	p := &Program{Command: f.Command, Setup: f.Setup, Ends: value(f.Ends, false)}
	if f.Command != nil {
		c.words(key+".command", p.Command)
	}
	for i, words := range p.Setup {
		c.words(fmt.Sprintf("%s.setup[%d]", key, i), words)
	}
	p.Output = c.output(key+".output", f.Output)
	return p
}

// words checks a program and its arguments.
func (c *checker) words(key string, words []string) {
	switch {
	case len(words) == 0 || words[0] == "":
		c.fail(key, "names no program", "a program and its arguments")
	case slices.ContainsFunc(words, func(word string) bool { return strings.ContainsRune(word, 0) }):
		c.fail(key, "has a zero byte", "a program and its arguments")
	}
}

// output checks what is to be read from a command's output.
func (c *checker) output(key string, set map[string]string) Output {
	o := Output{Unit: "us"}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		text := set[name]
		switch {
		case name == "unit":
			if o.Unit = text; !slices.Contains(TimeUnits(), text) {
				c.fail(key+"."+name, fmt.Sprintf("unknown unit %q", text), strings.Join(TimeUnits(), ", "))
			}
		case name == "per_s":
			o.PerS = c.pattern(key+"."+name, text, false)
		case name == "latency":
			o.Latency = c.pattern(key+"."+name, text, true)
		case slices.Contains(LatencyStatistics(), name):
			if o.Statistics == nil {
				o.Statistics = map[string]string{}
			}
			o.Statistics[name] = c.pattern(key+"."+name, text, false)
		default:
			c.fail(key+"."+name, "unknown key", strings.Join(outputKeys(), ", "))
		}
	}
	if o.Latency != "" && len(o.Statistics) > 0 {
		c.fail(key+".latency", "does not go with statistics that the program computes itself",
			"latency, or "+strings.Join(LatencyStatistics(), ", "))
	}
	return o
}

// pattern checks a regular expression with one group for a number, and perhaps one for when.
func (c *checker) pattern(key, text string, mayHaveAt bool) string {
	const allowed = "a regular expression of Go with one group, which is a number"
	re, err := regexp.Compile(text)
	if err != nil {
		c.fail(key, fmt.Sprintf("%q is no regular expression", text), allowed)
		return text
	}
	groups := re.NumSubexp()
	if re.SubexpIndex(atGroup) >= 0 && mayHaveAt {
		groups--
	}
	if groups != 1 {
		c.fail(key, fmt.Sprintf("%q has %d groups", text, groups), allowed+"; (?:...) is none")
	}
	return text
}

// Groups are the indices of a pattern's group for the number, and of that for when, which is
// -1 where it has none.
func Groups(re *regexp.Regexp) (number, at int) {
	at = re.SubexpIndex(atGroup)
	if number = 1; at == 1 {
		number = 2
	}
	return number, at
}

// programsNeeded checks the names of programs that commands call by themselves.
func (c *checker) programsNeeded(f *file, e *Experiment) {
	e.Programs = f.Programs
	if f.Programs != nil && !e.UsesPrograms() {
		c.fail("programs", "goes with containers that have a command", "leave it out")
	}
	for i, name := range f.Programs {
		if name == "" || strings.Contains(name, "/") {
			c.fail(fmt.Sprintf("programs[%d]", i), fmt.Sprintf("%q is not a program's name", name), "names without a directory, such as \"postgres\"")
		}
	}
}
