// SPDX-License-Identifier: MIT

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

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
)

// Find returns the cgroup v2 tree of the machine below root, "" for /. Where there are several
// mounts, it is the one with the io controller, and first one of the whole tree. Without any, the tree
// is where it should be, and Check says what is missing.
func Find(root string) (Tree, error) {
	sys := block.System{Root: root}
	usual := Tree{Root: filepath.Join("/", root, "sys/fs/cgroup"), lacks: lacking(sys, false)}
	mounts, err := sys.Mounts()
	if errors.Is(err, fs.ErrNotExist) {
		return usual, nil
	}
	if err != nil {
		return usual, err
	}
	var whole, parts []Tree
	v1 := slices.ContainsFunc(mounts, func(m block.Mount) bool {
		return m.Type == "cgroup" && slices.Contains(strings.Split(m.Options, ","), "blkio")
	})
	for _, m := range mounts {
		t := Tree{Root: filepath.Join("/", root, m.Point), lacks: lacking(sys, v1)}
		switch {
		case m.Type != "cgroup2":
		case m.Root == "/":
			whole = append(whole, t)
		default:
			parts = append(parts, t)
		}
	}
	found := append(whole, parts...)
	for _, t := range found {
		if controllers, err := t.words("cgroup.controllers"); err == nil && slices.Contains(controllers, "io") {
			return t, nil
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	return usual, nil
}

// lacking is why a kernel whose cgroup v1 has no disks either has no io controller, and what to do.
func lacking(sys block.System, v1 bool) string {
	text, err := os.ReadFile(sys.Path("proc/cgroups"))
	if err != nil || v1 {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		// The name, the number of its hierarchy of v1, cgroups, and whether it is enabled.
		if words := strings.Fields(line); len(words) > 3 && words[0] == "blkio" && words[1] != "0" {
			return ""
		}
	}
	commandLine, _ := os.ReadFile(sys.Path("proc/cmdline"))
	for word := range strings.FieldsSeq(string(commandLine)) {
		if off, is := strings.CutPrefix(word, "cgroup_disable="); is && strings.Contains(off, "io") {
			return "take " + word + " off the kernel's command line"
		}
	}
	if strings.Contains(sys.Release(), "microsoft") {
		return "WSL's kernel lacks it: build one with CONFIG_BLK_CGROUP=y, and name it as kernel= in .wslconfig"
	}
	return "this kernel lacks it: use one with CONFIG_BLK_CGROUP=y"
}

// Groups lists all groups below the root, by their paths from there, parents
// before children.
func (t Tree) Groups() ([]string, error) {
	var groups []string
	var list func(group string) error
	list = func(group string) error {
		entries, err := os.ReadDir(t.Path(group))
		if err != nil && group != "" {
			return nil // it went while we looked
		}
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			child := filepath.Join(group, entry.Name())
			if len(t.Path(child)) > longest {
				continue
			}
			groups = append(groups, child)
			if t.isLeaf(child) {
				continue
			}
			if err := list(child); err != nil {
				return err
			}
		}
		return nil
	}
	return groups, list("")
}

// longest is the longest path of a group whose files the kernel opens by path.
// A tenant that makes cgroups below that has no weights there; others keep theirs.
const longest = unix.PathMax - 1 - len("/cgroup.subtree_control")

// isLeaf reports whether a group has no children: its directory has two links
// then, its own and its name. So the fifty files of each need not be listed. File
// systems that do not count links say 1.
func (t Tree) isLeaf(group string) bool {
	var stat syscall.Stat_t
	return syscall.Lstat(t.Path(group), &stat) == nil && stat.Nlink == 2
}

// Weights reads a weight file of a group; there is false if it has no such
// file, or is gone.
func (t Tree) Weights(group, file string) (v weight.Values, there bool, err error) {
	var room [512]byte // most have one line
	text, err := read(t.Path(group, file), room[:])
	if failure.IsGone(err) {
		return weight.Values{Default: weight.Default}, false, nil
	}
	if err != nil {
		return v, false, err
	}
	if v, err = weight.Parse(string(text)); err != nil {
		return v, false, fmt.Errorf("%s: %w", t.Path(group, file), err)
	}
	return v, true, nil
}

// largest is more than any file of the kernel's here has.
const largest = 1 << 20

// read reads a file with as few system calls as can be, into the room or what is
// made for it: hundreds of files are read again and again.
func read(file string, room []byte) ([]byte, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Pread(fd, room, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: file, Err: err}
		case n < len(room):
			return room[:n], nil
		case len(room) > largest:
			return nil, &fs.PathError{Op: "read", Path: file, Err: unix.EFBIG}
		default:
			room = make([]byte, 4*len(room))
		}
	}
}

// SetWeight returns the step that writes a group's weight, on one disk
// "MAJ:MIN" or with "" on all that have none of their own. 0 takes back what
// was said.
func (t Tree) SetWeight(group, file, majMin string, n weight.Value) (plan.Step, error) {
	now, _, err := t.Weights(group, file)
	if err != nil {
		return plan.Step{}, err
	}
	s := t.Set(group, file, n.String())
	s.Undo = now.Default.String()
	if n == 0 {
		s.Value = strconv.Itoa(weight.Default)
	}
	if majMin == "" {
		return s, nil
	}
	s.Value, s.Undo = majMin+" "+s.Value, majMin+" default"
	if n == 0 {
		s.Value = majMin + " default"
	}
	if old, ok := now.Devices[majMin]; ok {
		s.Undo = majMin + " " + old.String()
	}
	return s, nil
}

// Passes reports whether a group's children get the io controller.
func (t Tree) Passes(group string) (bool, error) {
	words, err := t.words(filepath.Join(group, "cgroup.subtree_control"))
	if failure.IsGone(err) {
		return false, nil
	}
	return slices.Contains(words, "io"), err
}

// IOCost lists the disks, by "MAJ:MIN", that io.cost is enabled on.
func (t Tree) IOCost() (map[string]bool, error) {
	text, err := os.ReadFile(t.Path("io.cost.qos"))
	if err != nil && !failure.IsGone(err) {
		return nil, err
	}
	enabled := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if slices.Contains(words, "enable=1") {
			enabled[words[0]] = true
		}
	}
	return enabled, nil
}
