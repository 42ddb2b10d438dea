// SPDX-License-Identifier: MIT

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/pelletier/go-toml/v2"

	"isolio/internal/host/weight"
)

// disk is a machine's files below a root.
type disk struct {
	root string
	// told is what files told when they were read, by path; nil to read them anew.
	told map[string]told
	// trust is true if what is told is taken for true still.
	trust bool
	now   time.Time
}

// told is what a file tells of containers, and which file that was.
type told struct {
	inode      uint64
	modified   time.Time
	size       int64
	containers []Container
	at         time.Time // when it was last asked for
}

// settled is how long ago a file must have been written for another write to
// show in its times.
const settled = time.Second

// of returns what a file tells of containers. parse is called if the file is
// another one than before, with its text; nil is a file that is not there.
func (d disk) of(file string, parse func(text []byte) []Container) ([]Container, error) {
	if known, ok := d.told[file]; ok && d.trust {
		return d.keep(file, known), nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	next := told{modified: info.ModTime(), size: info.Size(), at: d.now}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		next.inode = stat.Ino
	}
	if known, ok := d.told[file]; ok && known.inode == next.inode && known.size == next.size && known.modified.Equal(next.modified) {
		return d.keep(file, known), nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	next.containers = parse(text)
	if d.told != nil && d.now.Sub(next.modified) > settled {
		d.told[file] = next
	}
	return next.containers, nil
}

// keep returns what a file told, which is not forgotten.
func (d disk) keep(file string, known told) []Container {
	known.at = d.now
	d.told[file] = known
	return known.containers
}

// forget drops what is known of files that nobody asked for this time.
func (d disk) forget() {
	maps.DeleteFunc(d.told, func(_ string, known told) bool { return known.at != d.now })
}

func (d disk) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

func (d disk) exists(elem ...string) bool {
	_, err := os.Stat(d.path(elem...))
	return err == nil
}

// json reads a file into to. It is false where there is no such file, and for
// one that is just being written: its container is as good as not there.
func (d disk) json(to any, file string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(text, to) == nil, nil
}

// docker reads the Docker daemon's own files.
func (d disk) docker() ([]Container, error) {
	dirs, err := filepath.Glob(d.path(d.dockerRoot(), "containers/*"))
	if err != nil {
		return nil, err
	}
	var all []Container
	for _, dir := range dirs {
		config, err := d.of(filepath.Join(dir, "config.v2.json"), dockerConfig)
		if err != nil {
			return nil, err
		}
		// `docker update` writes this one, and not the OCI specification.
		host, err := d.of(filepath.Join(dir, "hostconfig.json"), dockerHost)
		if err != nil {
			return nil, err
		}
		for _, c := range config {
			for _, h := range host {
				c.SpecRead, c.Weight = true, h.Weight
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// Each of these takes a file's text, and returns nothing for one that is just
// being written: its container is as good as not there.

func dockerConfig(text []byte) []Container {
	var config struct {
		ID, Name string
		Config   struct{ Labels map[string]string }
	}
	if json.Unmarshal(text, &config) != nil {
		return nil
	}
	return []Container{{ID: config.ID, Name: strings.TrimPrefix(config.Name, "/"), Engine: "docker", Labels: config.Config.Labels}}
}

func dockerHost(text []byte) []Container {
	var host struct{ BlkioWeight int }
	if json.Unmarshal(text, &host) != nil {
		return nil
	}
	return []Container{{Weight: inRange(host.BlkioWeight)}}
}

// dockerRoot is where Docker keeps its data.
func (d disk) dockerRoot() string {
	var daemon struct {
		DataRoot string `json:"data-root"`
	}
	if ok, err := d.json(&daemon, d.path("etc/docker/daemon.json")); ok && err == nil && daemon.DataRoot != "" {
		return daemon.DataRoot
	}
	return "var/lib/docker"
}

// storage reads what podman and CRI-O keep: names in one file, specifications
// in one for each container.
func (d disk) storage() ([]Container, error) {
	graphRoot, runRoot := d.storageRoots()
	var all []Container
	for _, root := range []string{graphRoot, runRoot} {
		// One directory for each storage driver: overlay-containers, vfs-containers.
		lists, err := filepath.Glob(d.path(root, "*-containers/*containers.json"))
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			named, err := d.of(list, names)
			if err != nil {
				return nil, err
			}
			all = append(all, named...)
		}
		more, err := d.specs(d.path(root, "*-containers/*/userdata"), func(dir string) string {
			return filepath.Base(filepath.Dir(dir))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// names takes a list of containers/storage: containers.json, or
// volatile-containers.json for those that go with their end.
func names(text []byte) []Container {
	var listed []struct {
		ID    string
		Names []string
	}
	if json.Unmarshal(text, &listed) != nil {
		return nil
	}
	var all []Container
	for _, one := range listed {
		c := Container{ID: one.ID}
		if len(one.Names) > 0 {
			c.Name = one.Names[0]
		}
		all = append(all, c)
	}
	return all
}

// storageRoots are the directories of containers/storage.
func (d disk) storageRoots() (graph, run string) {
	graph, run = "var/lib/containers/storage", "run/containers/storage"
	var conf struct {
		Storage struct {
			GraphRoot string `toml:"graphroot"`
			RunRoot   string `toml:"runroot"`
		} `toml:"storage"`
	}
	text, err := os.ReadFile(d.path("etc/containers/storage.conf"))
	if err != nil || toml.Unmarshal(text, &conf) != nil {
		return graph, run
	}
	if conf.Storage.GraphRoot != "" {
		graph = conf.Storage.GraphRoot
	}
	if conf.Storage.RunRoot != "" {
		run = conf.Storage.RunRoot
	}
	return graph, run
}

// containerd reads the bundles of its tasks: one directory for each of its
// namespaces, "k8s.io" for Kubernetes, "moby" for Docker.
func (d disk) containerd() ([]Container, error) {
	all, err := d.specs(d.path("run/containerd/io.containerd.runtime.v2.task/*/*"), filepath.Base)
	for i := range all {
		all[i].Engine = "containerd"
	}
	return all, err
}

// specs reads the OCI specifications in directories that match a pattern.
func (d disk) specs(pattern string, id func(dir string) string) ([]Container, error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	var all []Container
	for _, dir := range dirs {
		found, err := d.of(filepath.Join(dir, "config.json"), spec)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			c.ID = id(dir)
			all = append(all, c)
		}
	}
	return all, nil
}

// spec takes an OCI specification.
func spec(text []byte) []Container {
	var spec specs.Spec
	if json.Unmarshal(text, &spec) != nil {
		return nil
	}
	c := Container{Annotations: spec.Annotations, SpecRead: true}
	// CRI-O has the pod's own labels and annotations as JSON.
	c.Labels = unpacked(spec.Annotations["io.kubernetes.cri-o.Labels"])
	c.Annotations = merged(c.Annotations, unpacked(spec.Annotations["io.kubernetes.cri-o.Annotations"]))
	if linux := spec.Linux; linux != nil {
		c.Cgroup = groupOf(linux.CgroupsPath)
		if r := linux.Resources; r != nil && r.BlockIO != nil && r.BlockIO.Weight != nil {
			c.Weight = inRange(int(*r.BlockIO.Weight))
		}
	}
	return []Container{c}
}

// inRange is a weight that engines take, 0 for any other number.
func inRange(n int) int {
	if n < 0 || n > weight.OCIMax {
		return 0
	}
	return n
}

func unpacked(text string) map[string]string {
	var m map[string]string
	if json.Unmarshal([]byte(text), &m) != nil {
		return nil
	}
	return m
}

// groupOf is the cgroup of an OCI cgroupsPath: a path, or "SLICE:PREFIX:NAME"
// for a scope of systemd; "" for one that no cgroup has.
func groupOf(path string) string {
	if len(path) > pathMax {
		return ""
	}
	group := groupAt(path)
	if !filepath.IsLocal(group) || len(group) > pathMax {
		return ""
	}
	return group
}

// What the kernel takes: bytes of a path, and of a name in it.
const (
	pathMax = 4096
	nameMax = 255
)

func groupAt(path string) string {
	parts := strings.Split(path, ":")
	if len(parts) != 3 {
		return strings.TrimPrefix(filepath.Clean(path), "/")
	}
	slice, prefix, name := parts[0], parts[1], parts[2]
	if slice == "" {
		slice = "system.slice"
	}
	if prefix != "" {
		name = prefix + "-" + name
	}
	return filepath.Join(SlicePath(slice), name+".scope")
}

// SlicePath is the cgroup of a systemd slice: a-b.slice lies in a.slice.
func SlicePath(slice string) string {
	if len(slice) > nameMax {
		return slice // there is none: the path would grow with the square
	}
	name := strings.TrimSuffix(slice, ".slice")
	var dirs []string
	for i := range name {
		if name[i] == '-' {
			dirs = append(dirs, name[:i]+".slice")
		}
	}
	return filepath.Join(append(dirs, slice)...)
}
