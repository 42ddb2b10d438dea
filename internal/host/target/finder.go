// SPDX-License-Identifier: MIT

package target

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"isolio/internal/host/state"
)

// Finder finds containers again and again, for several at a time: it reads a
// file just once as long as that is the same.
type Finder struct {
	// Root is the machine's root directory, "" for /.
	Root string

	mu     sync.Mutex
	keep   func(key string) bool
	told   map[string]told
	faults map[string]string
	report *state.PodReport
}

// ListContainers returns the containers that run on the machine below root, "" for /,
// sorted by cgroup. groups are the paths of all cgroups. Labels and annotations
// are left out.
func ListContainers(root string, groups []string) ([]Container, error) {
	return (&Finder{Root: root}).List(groups)
}

// Keep says which labels and annotations are kept, by their keys; nil is none.
// Images have labels of any number and size, and the memory is the daemon's.
func (f *Finder) Keep(keep func(key string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep = keep
	for file, known := range f.told {
		known.stale = true
		f.told[file] = known
	}
}

// Faults are the files that could not be read or understood when containers were
// listed last, by path, with the reason. What such a file told before holds.
func (f *Finder) Faults() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.faults)
}

// ListContainers returns the containers that run, sorted by cgroup. groups are the paths of
// all cgroups, parents before children.
func (f *Finder) List(groups []string) ([]Container, error) { return f.list(groups, false) }

// ListNew is List, but takes files that were read before for the same still. A
// container's rarely change.
func (f *Finder) ListNew(groups []string) ([]Container, error) { return f.list(groups, true) }

func (f *Finder) list(groups []string, trust bool) ([]Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == nil {
		f.told = map[string]told{}
	}
	if !trust {
		f.faults = map[string]string{}
	}
	d := &disk{root: filepath.Join("/", f.Root), told: f.told, faults: f.faults, trust: trust, keep: f.keep, now: time.Now()}
	records := map[string]Container{}
	reported, sureReported := d.reported(f.report)
	for i, c := range slices.Concat(reported, d.docker(), d.storage(), d.containerd()) {
		c.InFiles = i >= len(reported)
		if known, ok := records[c.ID]; ok {
			c = known.with(c)
		}
		records[c.ID] = c
	}
	given, sureGiven := d.given()
	d.forget()
	all := placed(records, groups)
	for i := range all {
		c := &all[i]
		c.ByCrun = strings.HasSuffix(c.Cgroup, ".scope") && d.isCruns(*c)
		if c.Engine == "cri-o" {
			name := cmp.Or(c.asCRIO.name, c.Name)
			c.is(c.asCRIO)
			c.Name = name
		}
		c.asCRIO, c.podAt, c.turn = identity{}, "", 0
		c.Given = given.Find(c.PodUID)
		c.Unsure = c.Unsure || !(sureReported && sureGiven) && c.PodGroup() != ""
	}
	slices.SortFunc(all, func(a, b Container) int { return strings.Compare(a.Cgroup, b.Cgroup) })
	return all, nil
}

// userSlice is the cgroup of all that a user has started.
var userSlice = regexp.MustCompile(`^user\.slice/user-([0-9]+)\.slice/`)

// isCruns reports whether crun keeps something about a container: root's, or that
// of the user in whose slice it is.
func (d disk) isCruns(c Container) bool {
	if m := userSlice.FindStringSubmatch(c.Cgroup); m != nil && d.exists("run/user", m[1], "crun", c.ID) {
		return true
	}
	return d.exists("run/crun", c.ID)
}

// placed finds the cgroup of each container that runs.
//
// A tenant who may make cgroups makes them with any name, such as the scope of a
// neighbour's container inside of its own. So an engine's own file decides where
// a container is. Without such a file the name of a cgroup counts, but not inside
// a container, nor in what a user's own systemd manages. A cgroup with the name
// of a container there is one without a name that no rule matches.
func placed(records map[string]Container, groups []string) []Container {
	there := make(map[string]bool, len(groups))
	for _, group := range groups {
		there[group] = true
	}
	at := map[string]Container{} // by cgroup
	for _, id := range slices.Sorted(maps.Keys(records)) {
		c := records[id]
		if _, taken := at[c.Cgroup]; there[c.Cgroup] && !taken {
			c.Engine = cmp.Or(engineOf(c.Cgroup), c.Engine)
			at[c.Cgroup] = c
		}
	}
	named := map[string]bool{}
	for _, c := range at {
		named[c.ID] = true
	}
	inside := func(group string) bool {
		for dir := path.Dir(group); dir != "."; dir = path.Dir(dir) {
			if _, ok := at[dir]; ok {
				return true
			}
		}
		return TenantOf(path.Dir(group)) != ""
	}
	var foreign []Container
	for _, group := range groups { // parents come before children
		m := groupName.FindStringSubmatch(path.Base(group))
		if _, known := at[group]; m == nil || known || named[m[2]] {
			continue
		}
		c := Container{ID: m[2], Engine: engineOf(group), Cgroup: group}
		record, told := records[c.ID]
		switch {
		case inside(group):
			foreign = append(foreign, c)
			continue
		case told && record.Cgroup != "":
			// It is not where its engine started it, so it is another one.
		case told:
			record.Cgroup, record.Engine = group, cmp.Or(c.Engine, record.Engine)
			c = record
		}
		at[group], named[c.ID] = c, true
	}
	for _, c := range foreign {
		if !named[c.ID] {
			at[c.Cgroup], named[c.ID] = c, true
		}
	}
	return append(slices.Collect(maps.Values(at)), podsAlone(records, at, there)...)
}

// podsAlone are the sandboxes that stand for pods of which no cgroup tells but the
// pod's own: no container is there yet, and the sandbox has no cgroup, or not where
// it was looked for. The last one that was told counts. Where it would compete
// there is no cgroup.
func podsAlone(records, at map[string]Container, there map[string]bool) []Container {
	known := map[string]bool{}
	for _, c := range at {
		known[c.PodGroup()] = true
	}
	last := map[string]Container{}
	for _, c := range records {
		if !c.Sandbox || c.podAt == "" {
			continue
		}
		c.Cgroup = path.Join(c.podAt, c.ID)
		if group := c.PodGroup(); group != "" && there[group] && !known[group] && c.turn >= last[group].turn {
			last[group] = c
		}
	}
	return slices.Collect(maps.Values(last))
}

// engineOf is the engine that names its cgroups so, "" for any.
func engineOf(group string) string {
	m := groupName.FindStringSubmatch(path.Base(group))
	switch {
	case m == nil:
		return ""
	case m[1] == "" && path.Base(path.Dir(group)) == "docker":
		return "docker"
	}
	return engines[m[1]]
}

// with adds what another file tells of the same container.
func (c Container) with(more Container) Container {
	if c.Name == "" && c.Pod == "" {
		c.is(identity{more.Name, more.Namespace, more.Pod, more.PodUID, more.Sandbox})
	}
	if c.asCRIO == (identity{}) {
		c.asCRIO = more.asCRIO
	}
	c.Engine = cmp.Or(c.Engine, more.Engine)
	c.podAt, c.turn = cmp.Or(c.podAt, more.podAt), cmp.Or(c.turn, more.turn)
	c.Cgroup = cmp.Or(c.Cgroup, more.Cgroup)
	c.Weight = cmp.Or(c.Weight, more.Weight)
	c.SpecRead = c.SpecRead || more.SpecRead
	c.Unsure = c.Unsure || more.Unsure
	c.InFiles = c.InFiles || more.InFiles
	c.Labels = merged(c.Labels, more.Labels)
	c.Annotations = merged(c.Annotations, more.Annotations)
	return c
}

// merged is both; what the first has stays.
func merged(first, more map[string]string) map[string]string {
	if len(first) == 0 && more != nil {
		return more
	}
	if len(more) == 0 {
		return first
	}
	all := maps.Clone(more)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, first)
	return all
}
