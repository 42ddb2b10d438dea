// SPDX-License-Identifier: MIT

package target

import (
	"cmp"
	"path"
	"path/filepath"
	"regexp"

	"isolio/internal/host/state"
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
	Sandbox bool
	// Labels and Annotations are those that the Finder keeps. The author of an image or
	// a pod chooses them: they say what a user wants, and never identify a container.
	Labels      map[string]string
	Annotations map[string]string
	// Given is what the cluster gave its pod, nil for nothing.
	Given *state.PodClaims
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
	// InFiles is true if its engine's own files tell of it, and not a report alone.
	InFiles bool
	// Unsure is true if a file about it cannot be read now and never could: what is
	// known may be less than there is to know.
	Unsure bool
	// asCRIO is who the container is if CRI-O runs it. Its files lie among podman's,
	// and only the cgroup tells them apart.
	asCRIO identity
	// podAt is the cgroup of the pod of a sandbox, as its runtime tells, and turn its
	// place among all that it told.
	podAt string
	turn  int
}

// identity is who a container is, from keys that its engine writes itself.
type identity struct {
	name, namespace, pod, podUID string
	sandbox                      bool
}

func (c *Container) is(i identity) {
	c.Name, c.Namespace, c.Pod, c.PodUID, c.Sandbox = i.name, i.namespace, i.pod, i.podUID, i.sandbox
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

// PodGroup is the cgroup of the container's pod, "" if it is in none.
func (c Container) PodGroup() string {
	// By its name alone: a container of a pod that lies elsewhere, such as among all
	// of Docker's, must not have the weight of its pod given to all of them.
	if dir := filepath.Dir(c.Cgroup); podGroup.MatchString(filepath.Base(dir)) {
		return dir
	}
	return ""
}

// podGroup is a pod's cgroup: Kubernetes' with both drivers, and podman's. Below kubelet's
// --cgroup-root=/kubelet the slices of the driver systemd begin with "kubelet-".
var podGroup = regexp.MustCompile(`^(?:(?:.+-)?kubepods.*-)?pod[0-9a-f][0-9a-f_-]{31,}(?:\.slice)?$|libpod_pod_[0-9a-f]{64}`)
