// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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
	if len(uses) == 0 {
		// Whoever else opened it exclusively (a file system of another mount
		// namespace, mkfs, a userspace driver) shows here.
		f, err := os.OpenFile(d.Node, os.O_RDONLY|syscall.O_EXCL, 0)
		if errors.Is(err, syscall.EBUSY) {
			uses = append(uses, "another program or mount namespace holds it")
		} else if err == nil {
			f.Close()
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
	text, err := os.ReadFile(s.Path("proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	var at []string
	for line := range strings.Lines(string(text)) {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[2] == majMin && !slices.Contains(at, fields[4]) {
			at = append(at, fields[4])
		}
	}
	return at, nil
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
