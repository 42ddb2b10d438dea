// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The stack: a mirror of two disks of different drivers, and a linear mapping of it.
const (
	mirrorDisk = "md0"
	linearName = "hostile"
)

// stack puts a mirror below a linear mapping above the second disks of two drivers, if
// the VM came with such and the kernel stacks disks. The legs have no load of their own:
// only their schedulers and tunables change. It returns the disk on top, nil if there is none.
func stack(disks []*disk) (*disk, error) {
	var legs []*disk
	for _, prefix := range []string{"vd", "sd"} {
		count := 0
		for _, d := range disks {
			if !strings.HasPrefix(d.name, prefix) || d.mayFail {
				continue
			}
			if count++; count == 2 {
				legs = append(legs, d)
			}
		}
	}
	if len(legs) < 2 || !exists("/sys/module/dm_mod") || !exists("/sys/module/raid1") {
		return nil, nil
	}
	err := command("mdadm", "--create", "/dev/"+mirrorDisk, "--run", "--assume-clean", "--metadata=1.0", "--level=1", "--bitmap=internal",
		"--raid-devices=2", legs[0].path(), legs[1].path())
	if err != nil {
		return nil, err
	}
	sectors := get(filepath.Join("/sys/block", mirrorDisk, "size"))
	err = command("dmsetup", "create", linearName, "--noudevsync", "--noudevrules", "--table", fmt.Sprintf("0 %s linear /dev/%s 0", sectors, mirrorDisk))
	if err != nil {
		return nil, err
	}
	for _, leg := range legs {
		leg.isLeg = true
	}
	names, err := filepath.Glob("/sys/block/dm-*")
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("dmsetup made %d disks, want 1: %w", len(names), err)
	}
	return &disk{name: filepath.Base(names[0]), isStack: true, takesBios: true}, nil
}

// unstack takes the stack down. A program that looks at a disk that has just changed
// may hold it for a moment.
func unstack() error {
	err := command("dmsetup", "remove", "--noudevsync", "--noudevrules", "--retry", linearName)
	for try := 0; err == nil && try < 50; try++ {
		if err = command("mdadm", "--stop", "/dev/"+mirrorDisk); err == nil {
			return nil
		}
		if try < 49 {
			err = nil
			time.Sleep(100 * time.Millisecond)
		}
	}
	return err
}

// command runs a program; what it printed is in the error.
func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PATH=/bin:/sbin:/usr/bin:/usr/sbin", "DM_DISABLE_UDEV=1")
	output, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err), errors.New(strings.TrimSpace(string(output))))
	}
	return nil
}
