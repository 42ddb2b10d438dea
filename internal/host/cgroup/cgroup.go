// SPDX-License-Identifier: MIT

// Package cgroup works on a cgroup v2 tree below any directory, so that tests
// need no root. Changes are returned as steps of a plan.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// Tree is a cgroup v2 hierarchy.
type Tree struct {
	// Root is where it is mounted, such as /sys/fs/cgroup.
	Root string
}

// v1 is where disks are shared on a machine with cgroup v1.
const v1 = "blkio"

// Check returns nil if the tree is there and has the io controller.
func (t Tree) Check() error {
	controllers, err := t.words("cgroup.controllers")
	if errors.Is(err, fs.ErrNotExist) && t.Has(v1) {
		return failure.Unsupportedf("%s is of cgroup v1, and isolio works with v2 only; boot with systemd.unified_cgroup_hierarchy=1", t.Path(v1))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Unsupportedf("%s is not a cgroup v2 tree; boot with systemd.unified_cgroup_hierarchy=1", t.Root)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(controllers, "io") {
		return failure.Unsupportedf("%s has no io controller (it has: %s); free it from cgroup v1 with systemd.unified_cgroup_hierarchy=1",
			filepath.Join(t.Root, "cgroup.controllers"), strings.Join(controllers, " "))
	}
	return nil
}

// Has reports whether a file is in the root group, such as "io.cost.qos".
func (t Tree) Has(file string) bool {
	_, err := os.Stat(filepath.Join(t.Root, file))
	return err == nil
}

// Path is where a group or file of the tree is.
func (t Tree) Path(elem ...string) string {
	return filepath.Join(append([]string{t.Root}, elem...)...)
}

// words reads a file of the root group that holds words.
func (t Tree) words(file string) ([]string, error) {
	text, err := os.ReadFile(t.Path(file))
	return strings.Fields(string(text)), err
}

// Enable returns the steps that give the root group's children the controllers
// that they do not have.
func (t Tree) Enable(controllers []string) ([]plan.Step, error) {
	enabled, err := t.words("cgroup.subtree_control")
	if err != nil {
		return nil, err
	}
	var steps []plan.Step
	for _, name := range controllers {
		if !slices.Contains(enabled, name) {
			steps = append(steps, plan.Step{Path: t.Path("cgroup.subtree_control"), Value: "+" + name, Undo: "-" + name})
		}
	}
	return steps, nil
}

// Make returns the steps that make a group with children, and everything on
// the way to them. leaves are paths below group; all of them, and group itself,
// must not exist yet. Groups on the way pass the controllers on.
func (t Tree) Make(group string, leaves, controllers []string) []plan.Step {
	steps := t.inner(group, controllers)
	made := map[string]bool{}
	for _, leaf := range leaves {
		for i := range leaf {
			if dir := leaf[:i]; leaf[i] == '/' && !made[dir] {
				made[dir] = true
				steps = append(steps, t.inner(filepath.Join(group, dir), controllers)...)
			}
		}
		steps = append(steps, t.mkdir(filepath.Join(group, leaf)))
	}
	return steps
}

// inner makes a group that passes the controllers on.
func (t Tree) inner(group string, controllers []string) []plan.Step {
	steps := []plan.Step{t.mkdir(group)}
	for _, name := range controllers {
		steps = append(steps, plan.Step{Path: t.Path(group, "cgroup.subtree_control"), Value: "+" + name})
	}
	return steps
}

func (t Tree) mkdir(group string) plan.Step {
	return plan.Step{Mkdir: true, Path: t.Path(group), Explain: func(err error) error {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cgroup %s is there already: is the same experiment running? If not, remove it with rmdir", t.Path(group))
		}
		return err
	}}
}

// Set returns the step that writes value to a file of a group.
func (t Tree) Set(group, file, value string) plan.Step {
	return plan.Step{Path: t.Path(group, file), Value: value, Name: filepath.Join(filepath.Base(group), file)}
}

// Open opens a group's directory, to start a process in it.
func (t Tree) Open(group string) (*os.File, error) {
	return os.OpenFile(t.Path(group), os.O_RDONLY|syscall.O_DIRECTORY, 0)
}

// Kill kills every process in a group and below. Kernels before 5.14, which
// cannot do that, have the group's own processes killed one by one.
func (t Tree) Kill(group string) error {
	err := plan.OS{}.Write(t.Path(group, "cgroup.kill"), "1")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pids, err := t.Procs(group)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d of %s: %w", pid, t.Path(group), err)
		}
	}
	return nil
}

// Freeze stops a group's processes where they are, and no longer with on
// false. What they have sent to a disk completes.
func (t Tree) Freeze(group string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	err := plan.OS{}.Write(t.Path(group, "cgroup.freeze"), value)
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Unsupportedf("pause: %w; Linux 5.2 or newer is needed", err)
	}
	return err
}

// Procs are the processes in a group, without those that are dead but not yet
// waited for.
func (t Tree) Procs(group string) ([]int, error) {
	file := t.Path(group, "cgroup.procs")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 { // 0 is a process outside this PID namespace
			return nil, fmt.Errorf("%s: %q is not a process of this machine", file, word)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
