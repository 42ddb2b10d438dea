// SPDX-License-Identifier: MIT

package block

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
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
)

// CheckFree returns nil if nothing uses the disk or a partition of it: no
// mounted file system, no swap, no device on top (LVM, RAID, dm-crypt), and
// no one who holds it for himself. The error says who does.
func (d *Device) CheckFree() error {
	uses, err := d.uses()
	if err != nil {
		return fmt.Errorf("device %s: %w", d.Name, err)
	}
	if len(uses) > 0 {
		return failure.Usagef("device %s: in use: %s; allowed: a disk that nothing uses", d.Name, strings.Join(uses, "; "))
	}
	return nil
}

func (d *Device) uses() ([]string, error) {
	parts := []string{""} // the disk itself, then its partitions
	entries, err := os.ReadDir(d.path())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := os.Stat(d.path(e.Name(), "partition")); err == nil {
			parts = append(parts, e.Name())
		}
	}
	var uses []string
	for _, part := range parts {
		more, err := d.usesOf(part)
		if err != nil {
			return nil, err
		}
		uses = append(uses, more...)
	}
	if len(uses) > 0 {
		return uses, nil
	}
	// An opener that holds it exclusively (a file system of another mount
	// namespace, mkfs, a userspace driver) shows here.
	f, err := os.OpenFile(d.Node, os.O_RDONLY|syscall.O_EXCL, 0)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return []string{"another program or mount namespace holds it"}, nil
	case err != nil: // a disk that cannot be opened is not known to be free
		return nil, err
	}
	f.Close()
	// udev and others look at a disk for a moment.
	for range openerLooks {
		if uses, err = d.openers(parts); err != nil || len(uses) == 0 {
			return uses, err
		}
		time.Sleep(openerPause)
	}
	return uses, nil
}

// How often a disk must be open at a look to be in use, and the time between.
const (
	openerLooks = 3
	openerPause = 150 * time.Millisecond
)

// openers are other processes that hold the disk or a partition open, and not
// exclusively: a VM whose disk it is, or a database on it.
func (d *Device) openers(parts []string) ([]string, error) {
	var nodes []fs.FileInfo
	numbers := map[string]bool{}
	for _, part := range parts {
		node := d.Node
		if part != "" {
			node = filepath.Join(filepath.Dir(d.Node), strings.ReplaceAll(part, "!", "/"))
		}
		if info, err := os.Stat(node); err == nil {
			nodes = append(nodes, info)
		}
		number, err := d.read(part, "dev")
		if err != nil {
			return nil, err
		}
		numbers[number] = true
	}
	is := func(info fs.FileInfo) bool {
		// A container has nodes of its own, of the same number.
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0 {
			return numbers[majMin(st.Rdev)]
		}
		return slices.ContainsFunc(nodes, func(node fs.FileInfo) bool { return os.SameFile(node, info) })
	}
	processes, err := os.ReadDir(d.sys.Path("proc"))
	if err != nil {
		return nil, err
	}
	var uses []string
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := d.sys.Path("proc", process.Name())
		descriptors, _ := os.ReadDir(filepath.Join(dir, "fd")) // none of one that has ended
		for _, fd := range descriptors {
			if info, err := os.Stat(filepath.Join(dir, "fd", fd.Name())); err == nil && is(info) {
				name, _ := os.ReadFile(filepath.Join(dir, "comm"))
				uses = append(uses, fmt.Sprintf("process %d (%s) has it open", pid, strings.TrimSpace(string(name))))
				break
			}
		}
	}
	return uses, nil
}

// usesOf finds who uses the disk (part "") or one partition of it.
func (d *Device) usesOf(part string) ([]string, error) {
	name := d.Name
	if part != "" {
		name = part
	}
	majMin, err := d.read(part, "dev")
	if err != nil {
		return nil, err
	}
	var uses []string
	mounts, err := d.sys.mountsOf(majMin)
	if err != nil {
		return nil, err
	}
	for _, at := range mounts {
		uses = append(uses, name+" is mounted at "+at)
	}
	holders, err := os.ReadDir(d.path(part, "holders"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, h := range holders {
		uses = append(uses, name+" is part of "+h.Name())
	}
	swap, err := d.sys.isSwap(name)
	if err != nil {
		return nil, err
	}
	if swap {
		uses = append(uses, name+" is swap space")
	}
	return uses, nil
}

// mountsOf lists where a device is mounted, each place once.
func (s System) mountsOf(majMin string) ([]string, error) {
	mounts, err := s.Mounts()
	var at []string
	for _, m := range mounts {
		if m.MajMin == majMin && !slices.Contains(at, m.Point) {
			at = append(at, m.Point)
		}
	}
	return at, err
}

func (s System) isSwap(name string) (bool, error) {
	text, err := os.ReadFile(s.Path("proc/swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a kernel without swap
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[1] == "partition" && strings.ReplaceAll(strings.TrimPrefix(fields[0], "/dev/"), "/", "!") == name {
			return true, nil
		}
	}
	return false, nil
}

// CheckNode returns nil if the disk's node is the block device it should be.
// fio would make a file of that name, as big as the disk, if it were not.
func (d *Device) CheckNode() error {
	info, err := os.Stat(d.Node)
	if err != nil {
		return fmt.Errorf("device %s: %w", d.Name, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return fmt.Errorf("device %s: %s is not a block device's node", d.Name, d.Node)
	}
	if got := majMin(st.Rdev); got != d.MajMin {
		return fmt.Errorf("device %s: %s is the node of %s, want %s", d.Name, filepath.Clean(d.Node), got, d.MajMin)
	}
	return nil
}

// majMin writes a device number as sysfs does.
func majMin(rdev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev))
}
