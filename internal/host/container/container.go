// SPDX-License-Identifier: MIT

// Package container finds the containers that run on a machine, with their
// names, pods and cgroups, in the files that runtimes keep. It asks no daemon:
// what it finds is there while a daemon restarts, and in a tree of files too.
package container

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
)

// Container is a container that runs: it has a cgroup.
type Container struct {
	// ID is what its runtime calls it, mostly 64 hexadecimal digits.
	ID string
	// Name is what its user calls it, "" if no file tells.
	Name string
	// Engine is "docker", "podman", "containerd" or "cri-o", "" if not known.
	Engine string
	// Namespace and Pod are Kubernetes', "" outside of it.
	Namespace, Pod string
	// PodUID is the pod's in Kubernetes.
	PodUID string
	// Sandbox is true for a pod's own container, which only holds it together.
	Sandbox     bool
	Labels      map[string]string
	Annotations map[string]string
	// Cgroup is where its weight competes with its siblings', as a path below
	// the tree's root.
	Cgroup string
	// SpecRead is true if its OCI specification or its engine's own file was
	// read; Weight is the blockIO weight there, 0 for none.
	SpecRead bool
	Weight   int
	// ByCrun is true if crun started it in a systemd scope: then systemd writes
	// its weight.
	ByCrun bool
}

// innerName is what crun calls the cgroup that it makes inside a container's scope.
const innerName = "container"

// InnerGroup is the cgroup inside of the container's own that crun puts its
// processes in, alone there; "" for other runtimes. It is given the container's
// weight as well; an older crun, such as 1.8, gives it alone a weight that is changed later.
func (c Container) InnerGroup() string {
	if !c.ByCrun {
		return ""
	}
	return path.Join(c.Cgroup, innerName)
}

// ScopeOf is the cgroup of the container that a cgroup may be inside of, by its
// name; "" if it is none of crun's.
func ScopeOf(group string) string {
	dir, name := path.Split(group)
	if name != innerName {
		return ""
	}
	return path.Clean(dir)
}

// DisplayName is the best name there is.
func (c Container) DisplayName() string {
	name := cmp.Or(c.Name, c.ShortID())
	if c.Pod != "" {
		return c.Namespace + "/" + c.Pod + "/" + name
	}
	return name
}

// ShortID is the first digits of the ID, as engines print it.
func (c Container) ShortID() string {
	if hexID.MatchString(c.ID) {
		return c.ID[:12]
	}
	return c.ID
}

var (
	hexID = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// groupName is a container's cgroup: that of systemd's scopes has the
	// engine's prefix, that of cgroupfs may have none. What engines start beside a
	// container, such as libpod-conmon-ID.scope, does not match.
	groupName = regexp.MustCompile(`^(?:(docker|libpod|crio|cri-containerd|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// engines are who uses a prefix of groupName.
var engines = map[string]string{
	"docker": "docker", "libpod": "podman", "crio": "cri-o", "cri-containerd": "containerd", "nerdctl": "containerd",
}

// Finder finds containers again and again, for several at a time: it reads a
// file just once as long as that is the same.
type Finder struct {
	// Root is the machine's root directory, "" for /.
	Root string

	mu   sync.Mutex
	told map[string]told
}

// List returns the containers that run on the machine below root, "" for /,
// sorted by cgroup. groups are the paths of all cgroups.
func List(root string, groups []string) ([]Container, error) {
	return (&Finder{Root: root}).List(groups)
}

// List returns the containers that run, sorted by cgroup. groups are the paths of
// all cgroups.
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
	found := inGroups(groups)
	there := make(map[string]bool, len(groups))
	for _, group := range groups {
		there[group] = true
	}
	d := disk{root: filepath.Join("/", f.Root), told: f.told, trust: trust, now: time.Now()}
	defer d.forget()
	for _, read := range []func() ([]Container, error){d.docker, d.storage, d.containerd} {
		told, err := read()
		if err != nil {
			return nil, err
		}
		for _, c := range told {
			known, ok := found[c.ID]
			switch {
			case ok:
				found[c.ID] = known.with(c)
			case there[c.Cgroup]:
				found[c.ID] = c
			}
		}
	}
	all := slices.Collect(maps.Values(found))
	for i := range all {
		all[i].name()
		all[i].ByCrun = strings.HasSuffix(all[i].Cgroup, ".scope") && d.isCruns(all[i])
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

// inGroups finds containers by the names of their cgroups.
func inGroups(groups []string) map[string]Container {
	found := map[string]Container{}
	for _, group := range groups {
		m := groupName.FindStringSubmatch(filepath.Base(group))
		if m == nil {
			continue
		}
		if _, ok := found[m[2]]; ok {
			continue // one of the same name inside the container
		}
		c := Container{ID: m[2], Engine: engines[m[1]], Cgroup: group}
		if dir := filepath.Base(filepath.Dir(group)); c.Engine == "" && dir == "docker" {
			c.Engine = dir
		}
		found[c.ID] = c
	}
	return found
}

// with adds what another file tells of the same container.
func (c Container) with(more Container) Container {
	c.Name = cmp.Or(c.Name, more.Name)
	c.Engine = cmp.Or(c.Engine, more.Engine)
	c.Weight = cmp.Or(c.Weight, more.Weight)
	c.SpecRead = c.SpecRead || more.SpecRead
	c.Labels = merged(c.Labels, more.Labels)
	c.Annotations = merged(c.Annotations, more.Annotations)
	return c
}

func merged(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	a = maps.Clone(a)
	maps.Copy(a, b)
	return a
}

// Keys under which runtimes note what Kubernetes calls a container: in
// annotations of an OCI specification, or in labels.
var (
	nameKeys      = []string{"io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"}
	podKeys       = []string{"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"}
	namespaceKeys = []string{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"}
	podUIDKeys    = []string{"io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"}
	typeKeys      = []string{"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType", "io.kubernetes.docker.type"}
)

// name takes names from annotations and labels.
func (c *Container) name() {
	told := func(keys []string) string {
		for _, key := range keys {
			if value := cmp.Or(c.Annotations[key], c.Labels[key]); value != "" {
				return value
			}
		}
		return ""
	}
	c.Pod, c.Namespace, c.PodUID = told(podKeys), told(namespaceKeys), told(podUIDKeys)
	kind := told(typeKeys)
	c.Sandbox = kind == "sandbox" || kind == "podsandbox"
	if name := told(nameKeys); name != "" && (c.Pod != "" || c.Name == "") {
		c.Name = name
	}
}

// PodGroup is the cgroup of the container's pod, "" if it is in none.
func (c Container) PodGroup() string {
	dir := filepath.Dir(c.Cgroup)
	if name := filepath.Base(dir); c.Pod != "" || podGroup.MatchString(name) {
		return dir
	}
	return ""
}

// podGroup is a pod's cgroup: Kubernetes' with both drivers, and podman's.
var podGroup = regexp.MustCompile(`^(?:kubepods.*-)?pod[0-9a-f][0-9a-f_-]{31,}(?:\.slice)?$|libpod_pod_[0-9a-f]{64}`)
