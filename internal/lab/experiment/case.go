// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Case is a device and a load on it. All times are seconds of the clock of the
// machine that runs the load.
type Case struct {
	// Name is "" for the only case of an experiment that lists none.
	Name string `json:"name,omitzero"`
	// Schedulers are the contenders that run in it, nil for all of the
	// experiment's. See Experiment.SchedulersIn.
	Schedulers []string `json:"schedulers,omitzero"`
	// ReferenceCase is the case with whose total, with the scheduler none, this one's
	// totals are compared, "" for none in the same case.
	ReferenceCase string `json:"reference_case,omitzero"`
	// OwnDisk is whether its containers are compared with disks of their own: see OwnDisks.
	// Not so for one that is alone.
	OwnDisk bool `json:"own_disk,omitzero"`
	// Part is which of so many Parts of the disk the first container has, from 0 on. Parts
	// is 0 in a case of the file's: each container has one.
	Part  int `json:"part,omitzero"`
	Parts int `json:"parts,omitzero"`
	// RampS is how long load runs before anything is counted, 0..3600.
	RampS float64 `json:"ramp_s,omitzero"`
	// DurationS is how long is counted after the ramp, above 0..86400.
	DurationS float64 `json:"duration_s,omitzero"`
	// CPUs is how many virtual CPUs the lab's machine has, 1..8.
	CPUs int `json:"cpus,omitzero"`
	// Seeds is how many times it is measured, each with random numbers of its own,
	// 1..32. Seed is which of those times this is, from 0 on.
	Seeds int `json:"seeds,omitzero"`
	Seed  int `json:"seed,omitzero"`
	// SampleMS is every how many milliseconds of the counted time each
	// container's counters are read as well, 1..1000; 0 is never.
	SampleMS   int         `json:"sample_ms,omitzero"`
	Device     Device      `json:"device,omitzero"`
	Containers []Container `json:"containers,omitzero"`
	// Parents are the cgroups with a weight of their own that hold containers'.
	Parents []Parent `json:"parents,omitzero"`
	// Changes are what happens to the disk while it is under load.
	Changes []Change `json:"changes,omitzero"`
}

// Container is one tenant: a cgroup with a weight and a fio job, or a command, in it.
type Container struct {
	Name   string `json:"name,omitzero"`
	Weight int    `json:"weight,omitzero"` // 1..10000, as in io.weight
	// Count is how many containers of the same weight and job this one stands
	// for, 1..4096; 0 for one that is just itself.
	Count int `json:"count,omitzero"`
	// MemoryMiB is how much memory it may have, 0 for no limit. Beyond that the kernel
	// takes pages from it: those of files, and others if it can swap.
	MemoryMiB int `json:"memory_mib,omitzero"`
	// Cgroup is the path below the experiment's own cgroup.
	Cgroup string `json:"cgroup,omitzero"`
	// StartS and EndS bound the load, in seconds after the load's start;
	// 0 <= StartS < EndS <= RampS + DurationS.
	StartS float64 `json:"start_s,omitzero"`
	EndS   float64 `json:"end_s,omitzero"`
	// Pauses are when its processes are frozen, in order, in seconds after the
	// load's start.
	Pauses []Pause `json:"pauses,omitzero"`
	// Job is the file's [job], overlaid with the case's and with the
	// container's own; nil for one that has a Program.
	Job Job `json:"job,omitzero"`
	// Program is what it runs in place of fio, nil for one with a Job.
	Program *Program `json:"program,omitzero"`
}

// CountedS returns for how many seconds t's load runs before it is counted,
// and for how many it is counted: the part of [StartS, EndS] before and after
// the ramp's end.
func (k *Case) CountedS(t Container) (uncounted, counted float64) {
	uncounted = max(0, k.RampS-t.StartS)
	return uncounted, t.EndS - t.StartS - uncounted
}

// writes reports whether any container's job writes to the device, or a file
// system is made on it.
func (k *Case) writes() bool {
	return k.Device.Filesystem != "" || slices.ContainsFunc(k.Containers, func(t Container) bool { return t.Job.Writes() })
}

func (k *Case) containerNames() []string {
	var names []string
	for _, t := range k.Containers {
		names = append(names, t.Name)
	}
	return names
}

// The file's own shape.
type fileCase struct {
	Name             *string         `toml:"name"`
	Schedulers       []string        `toml:"schedulers"`
	RampS            *float64        `toml:"ramp_s"`
	DurationS        *float64        `toml:"duration_s"`
	CPUs             *int64          `toml:"cpus"`
	Seeds            *int64          `toml:"seeds"`
	SampleMS         *int64          `toml:"sample_ms"`
	ReferenceCase    *string         `toml:"reference_case"`
	SharingReference *bool           `toml:"sharing_reference"`
	OwnDisk          *bool           `toml:"own_disk"`
	Device           *fileDevice     `toml:"device"`
	Job              map[string]any  `toml:"job"`
	Weights          []int64         `toml:"weights"`
	Container        []fileContainer `toml:"container"`
	Parent           []fileParent    `toml:"parent"`
	Change           []fileChange    `toml:"change"`
}

type fileContainer struct {
	Name   *string        `toml:"name"`
	Weight *int64         `toml:"weight"`
	Count  *int64         `toml:"count"`
	Memory *int64         `toml:"memory_mib"`
	Cgroup *string        `toml:"cgroup"`
	StartS *float64       `toml:"start_s"`
	EndS   *float64       `toml:"end_s"`
	Pauses [][]float64    `toml:"pauses"`
	Job    map[string]any `toml:"job"`

	// Program is the name of a [[program]], in place of the following keys.
	Program *string           `toml:"program"`
	Command []string          `toml:"command"`
	Setup   [][]string        `toml:"setup"`
	Ends    *bool             `toml:"ends"`
	Output  map[string]string `toml:"output"`
}

// cases are the file's, with their own keys in place of the file's, or the
// file itself as the only one.
func (c *checker) cases(f *file, schedulers []string) []Case {
	top := c.containers(containerSet{}, f.Weights, f.Container)
	base := fileCase{
		RampS: f.RampS, DurationS: f.DurationS, CPUs: f.CPUs, Seeds: f.Seeds, SampleMS: f.SampleMS, ReferenceCase: f.ReferenceCase, OwnDisk: f.OwnDisk,
		Device: c.onDisk(f.Device), Job: f.Job, Parent: f.Parent, Change: f.Change,
	}
	if len(f.Case) == 0 {
		return []Case{c.oneCase(&base, top, "parent")}
	}
	var cases []Case
	for i := range f.Case {
		own := &f.Case[i]
		c.within = fmt.Sprintf("case[%d].", i)
		common, over := base, *own
		containers, parents := top, "parent"
		if len(own.Weights) > 0 || len(own.Container) > 0 {
			containers = c.containers(top, own.Weights, own.Container)
			common.Parent = nil // they hold other containers
		}
		if len(own.Parent) > 0 {
			parents = c.within + parents
		}
		common.Device, over.Device = base.Device.forCase(own.Device), c.onDisk(own.Device)
		k := c.oneCase(new(overlaid(common, over)), containers, parents)
		k.Name = c.name(c.within+"name", own.Name)
		k.Schedulers = c.caseSchedulers(own.Schedulers, schedulers)
		if own.Name != nil && slices.ContainsFunc(cases, func(earlier Case) bool { return earlier.Name == k.Name }) {
			c.fail(c.within+"name", fmt.Sprintf("%q is the name of an earlier case", k.Name), "a name of its own")
		}
		cases = append(cases, k)
	}
	c.within = ""
	for _, name := range schedulers {
		if !slices.ContainsFunc(cases, func(k Case) bool { return k.Schedulers == nil || slices.Contains(k.Schedulers, name) }) {
			c.fail("schedulers", fmt.Sprintf("%q runs in no case", name), "in one of them, or leave it out")
		}
	}
	return cases
}

// caseSchedulers checks which of the experiment's contenders a case lists.
func (c *checker) caseSchedulers(listed, all []string) []string {
	if listed != nil && len(listed) == 0 {
		c.fail("schedulers", "is empty", strings.Join(all, ", "))
	}
	for i, name := range listed {
		key := fmt.Sprintf("schedulers[%d]", i)
		if problem, allowed := oneOf(name, all, "schedulers"); problem != "" {
			c.fail(key, problem, allowed)
		}
		if slices.Contains(listed[:i], name) {
			c.fail(key, fmt.Sprintf("%q is listed twice", name), "each scheduler once")
		}
	}
	return listed
}

// overlaid is a table with the keys of another in place of its own: tables in
// them likewise, lists as a whole.
func overlaid[T any](base, over T) T {
	to, from := reflect.ValueOf(&base).Elem(), reflect.ValueOf(over)
	for i := range to.NumField() {
		dst, src := to.Field(i), from.Field(i)
		switch {
		case src.IsZero():
		case dst.IsZero():
			dst.Set(src)
		default:
			dst.Set(merged(dst, src))
		}
	}
	return base
}

func merged(base, over reflect.Value) reflect.Value {
	switch both := base.Interface().(type) {
	case map[string]any:
		all := maps.Clone(both)
		maps.Copy(all, over.Interface().(map[string]any))
		return reflect.ValueOf(all)
	case *fileDevice:
		return reflect.ValueOf(new(overlaid(*both, *over.Interface().(*fileDevice))))
	case *fileIocost:
		return reflect.ValueOf(new(overlaid(*both, *over.Interface().(*fileIocost))))
	}
	return over
}

// oneCase checks a case with these containers; parents is the key of those tables.
func (c *checker) oneCase(f *fileCase, containers containerSet, parents string) Case {
	k := Case{
		RampS:     value(f.RampS, 0),
		DurationS: required(c, "duration_s", f.DurationS, "a number of seconds above 0, at most 86400"),
		CPUs:      c.integer("cpus", f.CPUs, new(int64(1)), 1, 8),
		Seeds:     c.integer("seeds", f.Seeds, new(int64(1)), 1, 32),
		SampleMS:  c.integer("sample_ms", f.SampleMS, new(int64(0)), 0, 1000),
		Device:    c.device(f.Device),

		ReferenceCase: value(f.ReferenceCase, ""),
	}
	c.number("ramp_s", f.RampS != nil, k.RampS, k.RampS >= 0 && k.RampS <= 3600, "0..3600 seconds")
	c.number("duration_s", f.DurationS != nil, k.DurationS, k.DurationS > 0 && k.DurationS <= 86400, "above 0 seconds, at most 86400")
	job := c.job("job", f.Job)
	for i, key := range containers.keys {
		k.Containers = append(k.Containers, c.container(key, &containers.tables[i], &k, job))
	}
	if len(k.Containers) == 0 {
		c.fail("container", "is missing", "weights, or one [[container]] or more, each with name and weight")
	}
	c.parents(parents, f.Parent, &k)
	c.changes(f.Change, &k)
	c.samples(&k)
	if k.OwnDisk = value(f.OwnDisk, false) && k.members() > 1; len(c.problems) == 0 {
		c.ownDisk(&k)
	}
	if k.Seeds > 1 && k.SampleMS > 0 {
		c.fail("seeds", "does not go with sample_ms", "one or the other: a rate over time is of one run")
	}
	return k
}

func (c *checker) container(key string, f *fileContainer, k *Case, common Job) Container {
	t := Container{
		Name:   c.name(key+".name", f.Name),
		Weight: c.integer(key+".weight", f.Weight, nil, 1, maxWeight),
		Count:  c.count(key, f),
		StartS: value(f.StartS, 0),
		EndS:   value(f.EndS, k.RampS+k.DurationS),
		Job:    common.overlaid(c.job(key+".job", f.Job)),
	}
	if t.Program = c.program(key, f, k); t.Program != nil {
		t.Job = nil
	}
	if o, found := t.Job.misplaced(); found {
		c.misplaced(key+".job."+o.name, o)
	}
	if f.Memory != nil {
		t.MemoryMiB = c.integer(key+".memory_mib", f.Memory, nil, 1, maxMemoryMiB)
	}
	t.Cgroup = value(f.Cgroup, t.Name)
	for _, earlier := range k.Containers {
		if f.Name != nil && earlier.Name == t.Name {
			c.fail(key+".name", fmt.Sprintf("%q is the name of an earlier container", t.Name), "a name of its own")
		}
		if f.Cgroup != nil && earlier.Cgroup == t.Cgroup {
			c.fail(key+".cgroup", fmt.Sprintf("%q is the cgroup of an earlier container", t.Cgroup), "a cgroup of its own")
		}
		if nested(earlier.Cgroup, t.Cgroup) {
			c.fail(key+".cgroup", fmt.Sprintf("%q and %q are nested", earlier.Cgroup, t.Cgroup),
				"a leaf: cgroup v2 keeps processes out of inner groups")
		}
	}
	if f.Cgroup != nil && (t.Cgroup != path.Clean(t.Cgroup) || t.Cgroup == "." || path.IsAbs(t.Cgroup) || strings.HasPrefix(t.Cgroup, "..")) {
		c.fail(key+".cgroup", fmt.Sprintf("%q is not a path below the experiment's cgroup", t.Cgroup), "a relative path without '..'")
	}
	end := k.RampS + k.DurationS
	c.number(key+".start_s", f.StartS != nil, t.StartS, t.StartS >= 0 && t.StartS < end, fmt.Sprintf("0 to below ramp_s + duration_s = %g", end))
	c.number(key+".end_s", f.EndS != nil, t.EndS, t.EndS > max(t.StartS, k.RampS) && t.EndS <= end,
		fmt.Sprintf("above start_s and ramp_s, at most ramp_s + duration_s = %g", end))
	c.processes(key, &t)
	t.Pauses = c.pauses(key+".pauses", f.Pauses, &t)
	if t.Job.Ends() && t.StartS < k.RampS {
		c.fail(key+".job.number_ios", "its time would not be counted", "start_s of at least ramp_s, for a job that ends by itself")
	}
	if t.Job.Ends() && f.Count != nil {
		c.fail(key+".job.number_ios", "does not go with count", "one container")
	}
	if _, ok := t.Job["rw"]; !ok && t.Program == nil {
		c.fail(key+".job.rw", "is missing", "set rw in [job] or in the container's own job")
	}
	return t
}

// maxWeight is the highest that a cgroup can have.
const maxWeight = 10000

// maxMemoryMiB is the most that a container's memory may be limited to: 1 TiB.
const maxMemoryMiB = 1 << 20

func nested(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
