// SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/tomlfile"
)

// Contender is a scheduler as an experiment sets it up: one of Known as it is,
// or a variant of it that the file declares in a [[contender]].
type Contender struct {
	Name string `json:"name,omitzero"`
	// Scheduler is the one of Known that it is a variant of.
	Scheduler string `json:"scheduler,omitzero"`
	// Label says in a plot what is special about it; "" for its name.
	Label string `json:"-"`
	// Tunables are files in queue/iosched and what is written to them, after
	// what the engine writes by itself and in place of it. A length of time is
	// that of a disk at its real speed, as the engine's own are: on a modeldisk
	// it is multiplied by the disk's scale. See IsTime.
	Tunables map[string]string `json:"tunables,omitzero"`
	// Jobs are fio options of its own for containers, by their names.
	Jobs map[string]Job `json:"jobs,omitzero"`

	// Told is what io.cost is told instead of what [device.iocost] says.
	Told fileIocost `json:"told,omitzero"`
}

// Contender is the one of that name: what the file declares, or else the
// scheduler itself.
func (e *Experiment) Contender(name string) Contender {
	if i := slices.IndexFunc(e.Contenders, func(d Contender) bool { return d.Name == name }); i >= 0 {
		return e.Contenders[i]
	}
	return Contender{Name: name, Scheduler: name}
}

// Tells reports whether the contender changes what io.cost is told.
func (d *Contender) Tells() bool { return d.Told != fileIocost{} }

// Costs is what io.cost is told about a disk of which m is true.
func (d *Contender) Costs(m Iocost) Iocost {
	return Iocost{
		RBPS: value(d.Told.RBPS, m.RBPS), RSeqIOPS: value(d.Told.RSeqIOPS, m.RSeqIOPS), RRandIOPS: value(d.Told.RRandIOPS, m.RRandIOPS),
		WBPS: value(d.Told.WBPS, m.WBPS), WSeqIOPS: value(d.Told.WSeqIOPS, m.WSeqIOPS), WRandIOPS: value(d.Told.WRandIOPS, m.WRandIOPS),
		RLatUS: value(d.Told.RLatUS, m.RLatUS), WLatUS: value(d.Told.WLatUS, m.WLatUS),
	}
}

// Changes are all that sets the contender apart from its scheduler, under the
// names that the file has: tunables, and "iocost.rlat_us" for what io.cost is told.
func (d *Contender) Changes() map[string]string {
	all := maps.Clone(d.Tunables)
	set := func(name, text string) {
		if all == nil {
			all = map[string]string{}
		}
		all[name] = text
	}
	for name, n := range d.Told.members() {
		if n != nil {
			set("iocost."+name, strconv.FormatInt(*n, 10))
		}
	}
	for container, job := range d.Jobs {
		for name, text := range job {
			set("job."+container+"."+name, text)
		}
	}
	return all
}

// JobOf is a container's job with the contender's options in it.
func (d *Contender) JobOf(t *Container) Job {
	if own := d.Jobs[t.Name]; own != nil && t.Program == nil {
		return t.Job.overlaid(own)
	}
	return t.Job
}

// members are the table's keys with their values, nil for one that is not set.
func (f *fileIocost) members() map[string]*int64 {
	return map[string]*int64{
		"rbps": f.RBPS, "rseqiops": f.RSeqIOPS, "rrandiops": f.RRandIOPS,
		"wbps": f.WBPS, "wseqiops": f.WSeqIOPS, "wrandiops": f.WRandIOPS,
		"rlat_us": f.RLatUS, "wlat_us": f.WLatUS,
	}
}

// IsTime reports whether a tunable is a length of time: the unit at the end of
// its name says so. The kernel's own schedulers have some without a unit.
func IsTime(tunable string) bool {
	for _, unit := range []string{"_ns", "_nsec", "_us", "_usec", "_ms", "_msec", "_expire"} {
		if strings.HasSuffix(tunable, unit) {
			return true
		}
	}
	return slices.Contains([]string{"slice_idle", "timeout_sync", "fifo_expire_sync", "fifo_expire_async"}, tunable)
}

// The file's own shape.
type fileContender struct {
	Name      *string        `toml:"name"`
	Scheduler *string        `toml:"scheduler"`
	Label     *string        `toml:"label"`
	Tunables  map[string]any `toml:"tunables"`
	Iocost    *fileIocost    `toml:"iocost"`

	Job map[string]map[string]any `toml:"job"`
}

// tunablePattern keeps a tunable's name one file's name.
var tunablePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_]{0,63}$`)

// contenders are the file's own.
func (c *checker) contenders(f *file) []Contender {
	var all []Contender
	for i := range f.Contender {
		key := fmt.Sprintf("contender[%d]", i)
		d := c.contender(key, &f.Contender[i])
		if f.Contender[i].Name != nil {
			if slices.Contains(Known(), d.Name) {
				c.fail(key+".name", fmt.Sprintf("%q is a scheduler's own name", d.Name), "a name of its own")
			}
			if slices.ContainsFunc(all, func(earlier Contender) bool { return earlier.Name == d.Name }) {
				c.fail(key+".name", fmt.Sprintf("%q is the name of an earlier contender", d.Name), "a name of its own")
			}
		}
		all = append(all, d)
	}
	return all
}

func (c *checker) contender(key string, f *fileContender) Contender {
	known := strings.Join(Known(), ", ")
	d := Contender{
		Name:      c.name(key+".name", f.Name),
		Scheduler: required(c, key+".scheduler", f.Scheduler, known),
		Label:     value(f.Label, ""),
	}
	if f.Scheduler != nil && !slices.Contains(Known(), d.Scheduler) {
		c.fail(key+".scheduler", fmt.Sprintf("unknown scheduler %q", d.Scheduler), known)
		return d
	}
	if f.Label != nil && (strings.TrimSpace(d.Label) == "" || strings.Contains(d.Label, "\n")) {
		c.fail(key+".label", "must be one line of text", "a few words, or leave it out for the name")
	}
	if len(f.Tunables) > 0 && (d.Scheduler == "none" || d.Scheduler == "iocost") {
		c.fail(key+".tunables", d.Scheduler+" has no scheduler with tunables",
			cmp.Or(map[string]string{"iocost": "a table iocost, such as { rlat_us = 170 }"}[d.Scheduler], "leave it out"))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Tunables)) {
		text := c.tunable(key+".tunables."+name, name, f.Tunables[name])
		if d.Tunables == nil {
			d.Tunables = map[string]string{}
		}
		d.Tunables[name] = text
	}
	for _, container := range slices.Sorted(maps.Keys(f.Job)) {
		if d.Jobs == nil {
			d.Jobs = map[string]Job{}
		}
		d.Jobs[container] = c.job(key+".job."+container, f.Job[container])
	}
	if f.Iocost != nil {
		d.Told = *f.Iocost
		c.costs(key+".iocost", &d)
	}
	return d
}

// contenderJobs checks that options of contenders are for containers that there
// are, and every container's that its engine has them.
func (c *checker) contenderJobs(e *Experiment) {
	for i := range e.Contenders {
		d := &e.Contenders[i]
		for _, name := range slices.Sorted(maps.Keys(d.Jobs)) {
			key := fmt.Sprintf("contender[%d].job.%s", i, name)
			var all []string
			for _, k := range e.Cases {
				all = append(all, k.containerNames()...)
				if i := slices.IndexFunc(k.Containers, func(t Container) bool { return t.Name == name && t.Program != nil }); i >= 0 {
					c.fail(key, fmt.Sprintf("container %q has a command, and no fio", name), "containers with a job")
				}
				for _, t := range k.Containers {
					o, found := d.JobOf(&t).misplaced()
					if _, own := d.Jobs[name][o.name]; found && own && t.Name == name {
						c.misplaced(key+"."+o.name, o)
					}
				}
			}
			if !slices.Contains(all, name) {
				slices.Sort(all)
				c.fail(key, fmt.Sprintf("there is no container %q", name), strings.Join(slices.Compact(all), ", "))
			}
		}
	}
}

func (c *checker) misplaced(key string, o option) {
	c.fail(key, "is an option of the engine "+o.engine, fmt.Sprintf("with ioengine = %q", o.engine))
}

// longest keeps a length of time within 64 bits at any scale.
const longest = 1_000_000_000_000

// tunable is what is written to the tunable's file.
func (c *checker) tunable(key, name string, v any) string {
	if !tunablePattern.MatchString(name) {
		c.fail(key, "is not a tunable's name", "a file in the disk's queue/iosched, with that scheduler")
	}
	switch v := v.(type) {
	case int64:
		if IsTime(name) && (v < 0 || v > longest) {
			c.fail(key, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("a length of time, 0..%d", int64(longest)))
		}
		return strconv.FormatInt(v, 10)
	case string:
		if IsTime(name) {
			c.fail(key, fmt.Sprintf("%q is not a number", v), "a length of time in the tunable's own unit, an integer")
		} else if strings.TrimSpace(v) == "" || strings.Contains(v, "\n") {
			c.fail(key, "must be one line of text", "what to write to the file")
		}
		return v
	default:
		c.fail(key, fmt.Sprintf("%v is neither an integer nor a string", v), "what to write to the file")
	}
	return ""
}

// costs checks what io.cost is told instead.
func (c *checker) costs(key string, d *Contender) {
	if d.Scheduler != "iocost" {
		c.fail(key, "means nothing for "+d.Scheduler, "only with scheduler = \"iocost\"")
	}
	if !d.Tells() {
		c.fail(key, "says nothing", strings.Join(tomlfile.Keys(reflect.TypeFor[fileIocost]()), ", "))
	}
	members := d.Told.members()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		n := members[name]
		switch latency := strings.HasSuffix(name, "_us"); {
		case n == nil:
		case latency && (*n < 0 || *n > 10_000_000):
			c.fail(key+"."+name, fmt.Sprintf("%d is out of range", *n), "an integer 0..10000000")
		case !latency && *n < 1:
			c.fail(key+"."+name, fmt.Sprintf("%d is out of range", *n), "an integer 1 and up")
		}
	}
}

// schedulers are the names that the file lists, and after them the contenders
// that it declares and does not list, in their order.
func (c *checker) schedulers(listed []string, declared []Contender) []string {
	known := Known()
	for _, d := range declared {
		known = append(known, d.Name)
	}
	if len(listed) == 0 && len(declared) == 0 {
		c.fail("schedulers", "is missing", "a list of "+strings.Join(known, ", "))
	}
	for i, name := range listed {
		key := fmt.Sprintf("schedulers[%d]", i)
		if !slices.Contains(known, name) {
			c.fail(key, fmt.Sprintf("unknown scheduler %q", name), strings.Join(known, ", "))
		}
		if slices.Contains(listed[:i], name) {
			c.fail(key, fmt.Sprintf("%q is listed twice", name), "each scheduler once")
		}
	}
	all := slices.Clone(listed)
	for _, d := range declared {
		if !slices.Contains(all, d.Name) {
			all = append(all, d.Name)
		}
	}
	return all
}
