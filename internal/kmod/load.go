// SPDX-License-Identifier: MIT

package kmod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
)

// Load loads the module file ko into the running kernel, with parameters as
// insmod takes them ("name=value name=value"), after comparing its layout
// record with the running kernel's BTF.
func Load(ko, parameters string) error {
	spec, err := LoadSpec(RunningBTF)
	if err != nil {
		return err
	}
	if err := CheckLayout(ko, spec); err != nil {
		return err
	}
	return Insert(ko, parameters)
}

// Insert loads a module file without a comparison: for the kernel's own
// modules, which have no layout record.
func Insert(ko, parameters string) error {
	file, err := os.Open(ko)
	if err != nil {
		return failure.Usagef("%w", err)
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), parameters, compressed(ko)); err != nil {
		return fmt.Errorf("load %s: %w", ko, loadError(err))
	}
	return nil
}

// compressed is the flag for a file that the kernel has to unpack first.
func compressed(ko string) int {
	if filepath.Ext(ko) == ".ko" {
		return 0
	}
	return unix.MODULE_INIT_COMPRESSED_FILE
}

// loadError says what the kernel means; finit_module(2) has the codes.
func loadError(err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("a module of this name is loaded already: %w", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("loading modules takes root, and a kernel that is not locked down: %w", err)
	case errors.Is(err, unix.EKEYREJECTED):
		return failure.Unsupportedf("this kernel takes signed modules only: sign it with a key that the kernel trusts: %w", err)
	case errors.Is(err, unix.ENOEXEC):
		return failure.Unsupportedf("the kernel refuses it, and the kernel log says why; %s: %w", remedy, err)
	case errors.Is(err, unix.ENOENT):
		return failure.Unsupportedf("the kernel lacks a symbol that it needs, see the kernel log; %s: %w", remedy, err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("the kernel has no free slot for another cgroup policy (CONFIG has room for six): unload one, such as bfq: %w", err)
	}
	return err
}

// Unload removes the module called name (with hyphens or underscores).
func Unload(name string) error {
	err := unix.DeleteModule(asKernel(name), unix.O_NONBLOCK)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("unload %s: it is in use: switch every device to another scheduler first: %w", name, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("unload %s: it is not loaded: %w", name, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("unload %s: unloading modules takes root: %w", name, err)
	}
	return fmt.Errorf("unload %s: %w", name, err)
}
