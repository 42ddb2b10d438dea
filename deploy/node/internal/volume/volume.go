// SPDX-License-Identifier: MIT

// Package volume tells which disks the volumes of a pod lie on, by the node's table of
// mounts and sysfs. It opens no volume.
package volume

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"isolio/internal/host/block"
)

// Table is what is mounted on a node, in the order of its mounts.
type Table struct{ block.Mounts }

// Read reads a file such as /proc/1/mountinfo.
func Read(name string) (Table, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Table{}, err
	}
	t, err := Parse(text)
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Parse reads the text of mountinfo.
func Parse(text []byte) (Table, error) {
	mounts, err := block.ParseMounts(text)
	return Table{mounts}, err
}

// Real is the path of the node, without symbolic links, of what is mounted at name in a container
// with the table own. A container has but its own mounts of the node's files, and cannot follow
// links of the node: the path is that of the same part of the same file system on the node. It is
// name itself where that is one of several such paths. False if there is none.
func (t Table) Real(own Table, name string) (string, bool) {
	i := slices.IndexFunc(own.Mounts, func(m block.Mount) bool { return m.Point == name })
	if i < 0 {
		return "", false
	}
	for at := i + 1; at < len(own.Mounts); at++ {
		if own.Mounts[at].Point == name {
			i = at // it hides those before
		}
	}
	best, root, found := "", "", false
	for _, m := range t.Mounts {
		if m.MajMin != own.Mounts[i].MajMin || !block.Within(own.Mounts[i].Root, m.Root) {
			continue
		}
		is := path.Join(m.Point, strings.TrimPrefix(own.Mounts[i].Root, m.Root))
		if at, _ := t.At(is); at != m {
			continue // another mount hides it
		}
		if is == name {
			return is, true
		}
		if !found || len(m.Root) > len(root) {
			best, root, found = is, m.Root, true
		}
	}
	return best, found
}

// Volume is a volume of a pod, and where it is on the node.
type Volume struct {
	Name  string
	Mount block.Mount
}

// Most is how many volumes of a pod are looked at. Kubernetes has no limit but the size of a pod, in
// which there is room for more than 40,000.
const Most = 256

// longestPath is PATH_MAX: nothing can be mounted from a longer one.
const longestPath = 4096

// Declared is a volume of a pod's specification that may lie on a disk of its node: a hostPath with
// its path, or an emptyDir.
type Declared struct{ Name, Path string }

// In are the first volumes of a pod that are such.
func In(pod *core.Pod) []Declared {
	var all []Declared
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case len(all) == Most:
			return all
		case v.EmptyDir != nil && v.EmptyDir.Medium == core.StorageMediumDefault:
			all = append(all, Declared{Name: v.Name})
		case v.HostPath != nil && v.HostPath.Path != "" && len(v.HostPath.Path) < longestPath:
			all = append(all, Declared{v.Name, path.Clean(v.HostPath.Path)})
		}
	}
	return all
}

// Of are the volumes of a pod that may lie on disks of its node: those that are declared, and what is
// mounted for the pod, such as by CSI or for a local volume; also those that a pod has as devices. dir
// is the kubelet's, such as /var/lib/kubelet.
func (t Table) Of(uid string, declared []Declared, dir string) []Volume {
	var all []Volume
	own := path.Join(dir, "pods", uid, "volumes")
	for _, v := range declared {
		at := v.Path
		if at == "" {
			at = path.Join(own, "kubernetes.io~empty-dir", v.Name)
		}
		if m, ok := t.At(at); ok {
			all = append(all, Volume{v.Name, m})
		}
	}
	for _, m := range t.Mounts {
		switch {
		case block.Within(m.Point, own) && m.Type != "tmpfs":
			// .../volumes/PLUGIN/NAME, and with CSI /mount after it
			if words := strings.Split(strings.TrimPrefix(m.Point, own+"/"), "/"); len(words) > 1 && words[0] != "kubernetes.io~empty-dir" {
				all = append(all, Volume{words[1], m})
			}
		case m.Type == "devtmpfs" && path.Base(m.Point) == uid:
			// A device: .../volumeDevices/NAME/dev/UID
			if words := strings.Split(m.Point, "/"); len(words) > 3 {
				all = append(all, Volume{words[len(words)-3], m})
			}
		}
	}
	return all
}
