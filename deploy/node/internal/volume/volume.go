// SPDX-License-Identifier: MIT

// Package volume tells which disks the volumes of a pod lie on, by the node's table of
// mounts and sysfs. It opens no volume.
package volume

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"isolio/internal/host/block"
)

// Mount is a line of mountinfo.
type Mount struct {
	MajMin, Root, Point, Type, Source string
}

// Table is what is mounted on a node, in the order of its mounts.
type Table []Mount

// Read reads a file such as /proc/1/mountinfo.
func Read(name string) (Table, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Parse reads the text of mountinfo.
func Parse(text []byte) (Table, error) {
	var t Table
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		front, back, ok := strings.Cut(lines.Text(), " - ")
		words, more := strings.Fields(front), strings.Fields(back)
		if !ok || len(words) < 6 || len(more) < 2 {
			return nil, fmt.Errorf("%q is not a line of mountinfo", lines.Text())
		}
		t = append(t, Mount{MajMin: words[2], Root: unescape(words[3]), Point: unescape(words[4]), Type: more[0], Source: unescape(more[1])})
	}
	return t, lines.Err()
}

// unescape takes back what the kernel writes for spaces and the like.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// At is the mount that a path lies on.
func (t Table) At(name string) (Mount, bool) {
	best, found := Mount{}, false
	for _, m := range t {
		// The last one of the same length hides those before.
		if within(name, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// Real is the path of the node, without symbolic links, of what is mounted at name in a container
// with the table own. A container has but its own mounts of the node's files, and cannot follow
// links of the node: the path is that of the same part of the same file system on the node. It is
// name itself where that is one of several such paths. False if there is none.
func (t Table) Real(own Table, name string) (string, bool) {
	i := slices.IndexFunc(own, func(m Mount) bool { return m.Point == name })
	if i < 0 {
		return "", false
	}
	for at := i + 1; at < len(own); at++ {
		if own[at].Point == name {
			i = at // it hides those before
		}
	}
	best, root, found := "", "", false
	for _, m := range t {
		if m.MajMin != own[i].MajMin || !within(own[i].Root, m.Root) {
			continue
		}
		is := path.Join(m.Point, strings.TrimPrefix(own[i].Root, m.Root))
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

func within(name, dir string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

// Volume is a volume of a pod, and where it is on the node.
type Volume struct {
	Name  string
	Mount Mount
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
	for _, m := range t {
		switch {
		case within(m.Point, own) && m.Type != "tmpfs":
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

// Disks are the disks that a mount lies on, each with those that it consists of; none for
// memory and what is on a network.
func Disks(sys block.System, m Mount) ([]string, error) {
	parts, err := devices(sys)
	if err != nil {
		return nil, err
	}
	var disk string
	switch {
	case m.Type == "devtmpfs" && m.Root != "/": // a device node
		disk = parts.byName[strings.ReplaceAll(strings.TrimPrefix(m.Root, "/"), "/", "!")]
	case parts.byNumber[m.MajMin] != "":
		disk = parts.byNumber[m.MajMin]
	case strings.HasPrefix(m.Source, "/dev/"): // btrfs has a number of its own
		disk = parts.byName[strings.ReplaceAll(strings.TrimPrefix(m.Source, "/dev/"), "/", "!")]
	}
	if disk == "" {
		return nil, nil
	}
	return below(sys, parts, disk, nil), nil
}

// below are a disk and those that it consists of.
func below(sys block.System, parts known, disk string, all []string) []string {
	if slices.Contains(all, disk) {
		return all
	}
	all = append(all, disk)
	entries, _ := os.ReadDir(sys.Path("sys/block", disk, "slaves")) // a disk without has none
	for _, e := range entries {
		if name := parts.byName[e.Name()]; name != "" {
			all = below(sys, parts, name, all)
		}
	}
	return all
}

// known are the disks that devices are on, by names and numbers of disks and partitions.
type known struct{ byName, byNumber map[string]string }

func devices(sys block.System) (known, error) {
	k := known{map[string]string{}, map[string]string{}}
	disks, err := sys.List()
	if err != nil {
		return k, err
	}
	read := func(elem ...string) string {
		text, _ := os.ReadFile(sys.Path(append([]string{"sys/block"}, elem...)...))
		return strings.TrimSpace(string(text))
	}
	for _, disk := range disks {
		k.byName[disk], k.byNumber[read(disk, "dev")] = disk, disk
		if name := read(disk, "dm/name"); name != "" {
			k.byName["mapper!"+name] = disk
		}
		found, _ := filepath.Glob(sys.Path("sys/block", disk, "*/partition")) // the pattern is well formed
		for _, file := range found {
			name := filepath.Base(filepath.Dir(file))
			k.byName[name], k.byNumber[read(disk, name, "dev")] = disk, disk
		}
	}
	return k, nil
}
