// SPDX-License-Identifier: MIT

// Package cgroup works on a cgroup v2 tree below any directory, so that tests
// need no root. Changes are returned as steps of a plan.
package cgroup

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// Tree is a cgroup v2 hierarchy.
type Tree struct {
	// Root is where it is mounted, such as /sys/fs/cgroup.
	Root string
	// lacks is why the kernel has no io controller, "" if cgroup v1 has it, or that is not known.
	lacks string
}

// v1 is where disks are shared on a machine with cgroup v1.
const v1 = "blkio"

// Check returns nil if the tree is there and has the io controller.
func (t Tree) Check() error {
	controllers, err := t.words("cgroup.controllers")
	if errors.Is(err, fs.ErrNotExist) && t.Has(v1) {
		return failure.Unsupportedf("%s is of cgroup v1, and isolio works with v2 only; boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line", t.Path(v1))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Unsupportedf("%s is not a cgroup v2 tree; boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line", t.Root)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(controllers, "io") {
		return failure.Unsupportedf("%s has no io controller (it has: %s); %s", t.Path("cgroup.controllers"), cmp.Or(strings.Join(controllers, " "), "none"),
			cmp.Or(t.lacks, "cgroup v1 has it: boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"))
	}
	return nil
}

// Lacks is why the kernel has no weights of disks at all, "" where it has them.
func (t Tree) Lacks() string {
	if controllers, err := t.words("cgroup.controllers"); err != nil || slices.Contains(controllers, "io") {
		return ""
	}
	return t.lacks
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

// ID is the kernel's number of a group. No other group gets it while the machine runs.
func (t Tree) ID(group string) (uint64, error) {
	var stat syscall.Stat_t
	if err := syscall.Stat(t.Path(group), &stat); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: t.Path(group), Err: err}
	}
	return stat.Ino, nil
}

// words reads a file of the root group that holds words.
func (t Tree) words(file string) ([]string, error) {
	text, err := os.ReadFile(t.Path(file))
	return strings.Fields(string(text)), err
}

// Set returns the step that writes value to a file of a group.
func (t Tree) Set(group, file, value string) plan.Step {
	return plan.Step{Path: t.Path(group, file), Value: value, Name: filepath.Join(filepath.Base(group), file)}
}
