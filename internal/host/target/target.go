// SPDX-License-Identifier: MIT

// Package target finds the cgroup that a user means: by its path, a systemd
// unit, a container's name or ID, or a pod (target.go). It finds containers and pods in the
// files that engines write (container.go and the files after it), and asks systemd to change
// the weights of its units (unit.go).
package target

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/cgroup"
	"isolio/internal/plan/shell"
)

// Kind is what a target was named as.
type Kind string

// Kinds of targets.
const (
	CgroupKind    Kind = "cgroup"
	UnitKind      Kind = "unit"
	ContainerKind Kind = "container"
	PodKind       Kind = "pod"
)

// Target is a cgroup whose weight can be set.
type Target struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Group is its path below the tree's root.
	Group string `json:"cgroup"`
	// UnitKind is the systemd unit that owns the cgroup, "" for none.
	Unit string `json:"unit,omitempty"`
}

// String is the target for a message.
func (t Target) String() string {
	if t.Kind == CgroupKind {
		return "cgroup " + t.Group
	}
	return fmt.Sprintf("%s %s (cgroup %s)", t.Kind, t.Name, t.Group)
}

// Word is the target as an argument of a command that a user may paste. A name
// that a command would take for a flag is given as the path of its cgroup.
func (t Target) Word() string {
	if strings.HasPrefix(t.Name, "-") {
		return shell.Quote("/" + t.Group)
	}
	return shell.Quote(t.Name)
}

// World is where targets are looked for.
type World struct {
	Tree       cgroup.Tree
	Groups     []string
	Containers []Container
}

// ReadWorld reads the cgroups and containers of the machine below root. keep chooses the
// containers' labels and annotations, by their keys; nil for none.
func ReadWorld(root string, keep func(key string) bool) (World, error) {
	tree, err := cgroup.Find(root)
	if err != nil {
		return World{}, err
	}
	if err := tree.Check(); err != nil {
		return World{}, err
	}
	groups, err := tree.Groups()
	if err != nil {
		return World{}, err
	}
	finder := Finder{Root: root}
	finder.Keep(keep)
	containers, err := finder.List(groups)
	return World{tree, groups, containers}, err
}

// Of is what a cgroup is.
func (w World) Of(group string) Target {
	t := Target{Kind: CgroupKind, Name: group, Group: group, Unit: UnitOf(group)}
	if t.Unit != "" {
		t.Kind, t.Name = UnitKind, t.Unit
	}
	for _, c := range w.Containers {
		switch group {
		case c.Cgroup:
			t.Kind, t.Name = ContainerKind, c.DisplayName()
			return t
		case c.PodGroup():
			t.Kind, t.Name = PodKind, podName(c)
		}
	}
	return t
}

// podName is "NAMESPACE/NAME" in Kubernetes; podman's pods have an ID only.
func podName(c Container) string {
	if c.Pod != "" {
		return c.Namespace + "/" + c.Pod
	}
	return strings.TrimSuffix(filepath.Base(c.PodGroup()), ".slice")
}

// Find returns the one target that name means. A word with a "/" is a cgroup's
// path if there is such a cgroup; another may be the name of more than that.
func (w World) Find(name string) (Target, error) {
	if name == "" {
		return Target{}, failure.Usagef("target %q: it is empty; `isolio status --all` lists what there is", name)
	}
	group, ok := w.path(name)
	switch {
	case ok && strings.Contains(name, "/"):
		return w.Of(group), nil
	case group == "." || group == "":
		return Target{}, failure.Usagef("target %q: is the root of all cgroups, which has no weight; `isolio status --all` lists those in it", name)
	}
	var found []string
	add := func(group string) {
		if !slices.Contains(found, group) {
			found = append(found, group)
		}
	}
	if ok {
		add(group)
	}
	for _, group := range w.Groups {
		if of := UnitOf(group); of != "" && (of == name || of == name+".service") || machineOf(group) == name {
			add(group)
		}
	}
	for _, c := range w.Containers {
		if isContainer(c, name) {
			add(c.Cgroup)
		}
		if pod := c.PodGroup(); pod != "" && isPod(c, name) {
			add(pod)
		}
	}
	switch len(found) {
	case 0:
		return Target{}, failure.Usagef("target %q: no cgroup, unit, running container or pod of this name; `isolio status --all` lists them%s%s", name, w.like(name), hint())
	case 1:
		return w.Of(found[0]), nil
	}
	more := ""
	if rest := len(found) - mostListed; rest > 0 {
		found, more = found[:mostListed], fmt.Sprintf(" and %d more", rest)
	}
	return Target{}, failure.Usagef("target %q: matches more than one cgroup; give the path of one: /%s%s", name, strings.Join(found, ", /"), more)
}

// like asks whether names are meant that begin as the one given, or have a few letters others.
func (w World) like(name string) string {
	var names []string
	add := func(known string) {
		short, _, _ := strings.Cut(known, ".")
		far := min(distance(name, known), distance(name, short))
		if known != "" && !slices.Contains(names, known) && (strings.HasPrefix(known, name) && len(name) > 1 || far <= len(name)/3) {
			names = append(names, known)
		}
	}
	for _, group := range w.Groups {
		add(UnitOf(group))
		add(machineOf(group))
	}
	for _, c := range w.Containers {
		add(c.Name)
		add(c.Pod)
	}
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names[:min(mostListed, len(names))], " or ") + "?"
}

// distance is how many letters are other, missing or too many; two that changed places are one.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last = last, next
	}
	return last[len(b)]
}

// hint is for a user that does not see all names.
func hint() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return " (root may be needed: engines show no other user their containers' names)"
}

// mostListed is how many targets of a name a message lists.
const mostListed = 3

// path is the group that a path means: below the tree's root, or with where
// the tree is mounted before it.
func (w World) path(name string) (string, bool) {
	path := filepath.Clean(name) + "/"
	if rel, ok := strings.CutPrefix(path, w.Tree.Root+"/"); ok {
		path = rel
	}
	if rel, ok := strings.CutPrefix(path, "/sys/fs/cgroup/"); ok {
		path = rel
	}
	path = strings.Trim(path, "/")
	return path, slices.Contains(w.Groups, path)
}

// leastDigits of an ID name a container, as engines take it.
const leastDigits = 4

func isContainer(c Container, name string) bool {
	return !c.Sandbox && (name == c.Name || name == c.DisplayName()) || name == c.ID || len(name) >= leastDigits && strings.HasPrefix(c.ID, name)
}

func isPod(c Container, name string) bool {
	id := strings.TrimPrefix(filepath.Base(c.PodGroup()), "machine-libpod_pod_")
	return c.Pod != "" && (name == c.Pod || name == podName(c) || name == c.PodUID) || len(name) >= leastDigits && strings.HasPrefix(id, name)
}

// ShortIDs is a name that a table has room for: of long IDs it has the first digits.
func ShortIDs(name string) string {
	var b strings.Builder
	run := 0
	for i := range len(name) { // bytes: a name need not be UTF-8
		run++
		if strings.IndexByte("0123456789abcdef", name[i]) < 0 {
			run = 0
		}
		if run <= idDigits {
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// idDigits is how many digits of an ID engines print.
const idDigits = 12
