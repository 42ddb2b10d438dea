// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Filesystem is a kind of file system that can be made on a disk.
type Filesystem struct {
	// Name is the kernel's name of it. Its program is mkfs.NAME.
	Name string
	// LeastMiB is the smallest disk that the program takes.
	LeastMiB int
	// Mkfs are the program's options, without the disk.
	Mkfs []string
	// Package is the one of Debian that has the program. Only the tree of containers'
	// programs has it where Extra is set.
	Package string
	Extra   bool
	// Helpers are modules that the kernel's own one of that name asks for by another name.
	// Not every kernel has them as modules.
	Helpers []string
	// Swap is whether the kernel swaps to a file that was only allocated on it.
	Swap bool
}

// filesystemUUID is that of the file systems that are made, so that two are the same.
const filesystemUUID = "6f10a3c2-5b1e-4d0a-9a57-1a0b2c3d4e5f"

var filesystems = []Filesystem{
	{
		// All of its tables now and not by the kernel during the load.
		Name: "ext4", LeastMiB: 1, Package: "e2fsprogs", Swap: true,
		Mkfs: []string{"-q", "-F", "-U", filesystemUUID,
			"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=" + filesystemUUID},
	},
	{
		Name: "xfs", LeastMiB: 300, Package: "xfsprogs", Swap: true, Helpers: []string{"crc32c_generic"},
		Mkfs: []string{"-q", "-f", "-K", "-m", "uuid=" + filesystemUUID},
	},
	{
		Name: "btrfs", LeastMiB: 128, Package: "btrfs-progs", Extra: true, Helpers: []string{"crc32c_generic"},
		Mkfs: []string{"-q", "-f", "-K", "-U", filesystemUUID},
	},
}

// Filesystems lists what can be made on a disk.
func Filesystems() (names []string) {
	for i := range filesystems {
		names = append(names, filesystems[i].Name)
	}
	return names
}

// FilesystemNamed is the one of that name, which must be one of Filesystems.
func FilesystemNamed(name string) Filesystem {
	return filesystems[slices.IndexFunc(filesystems, func(f Filesystem) bool { return f.Name == name })]
}

// FilesystemsUsed are those of the experiment's cases.
func (e *Experiment) FilesystemsUsed() (used []Filesystem) {
	for i := range e.Cases {
		name := e.Cases[i].Device.Filesystem
		if name != "" && !slices.ContainsFunc(used, func(f Filesystem) bool { return f.Name == name }) {
			used = append(used, FilesystemNamed(name))
		}
	}
	return used
}

// Swaps reports whether the kernel may swap to the disk of any case.
func (e *Experiment) Swaps() bool {
	return slices.ContainsFunc(e.Cases, func(k Case) bool { return k.Device.SwapMiB > 0 })
}

// SwapPrograms are those that make and use a file for swap.
func SwapPrograms() []string { return []string{"fallocate", "chmod", "mkswap", "swapon", "swapoff"} }

// SwapUUID is that of a file for swap.
const SwapUUID = filesystemUUID

// filesystem checks what is made on the disk d, and how much of it is swap.
func (c *checker) filesystem(f *fileDevice, d *Device) {
	d.Filesystem = value(f.Filesystem, "")
	if f.Filesystem == nil {
		if f.SwapMiB != nil {
			c.fail("device.swap_mib", "needs a file system to be a file of", "device.filesystem = "+swapOn())
		}
		return
	}
	if !d.Model.MemoryBacked {
		c.fail("device.filesystem", "needs a disk that keeps what is written", "memory_backed = true, with size_mib; or no filesystem")
	}
	if !slices.Contains(Filesystems(), d.Filesystem) {
		c.fail("device.filesystem", fmt.Sprintf("unknown file system %q", d.Filesystem), strings.Join(Filesystems(), ", "))
		return
	}
	kind := FilesystemNamed(d.Filesystem)
	if d.SizeMiB > 0 && d.SizeMiB < kind.LeastMiB {
		c.fail("device.size_mib", fmt.Sprintf("%d is too small for %s", d.SizeMiB, kind.Name), fmt.Sprintf("%d and up", kind.LeastMiB))
	}
	if f.SwapMiB == nil {
		return
	}
	if !kind.Swap {
		c.fail("device.swap_mib", "does not go with "+kind.Name, "device.filesystem = "+swapOn())
	}
	d.SwapMiB = c.integer("device.swap_mib", f.SwapMiB, nil, 1, int64(max(1, d.SizeMiB/2)))
}

// swapOn lists the file systems that a file for swap may be on.
func swapOn() string {
	var names []string
	for _, kind := range filesystems {
		if kind.Swap {
			names = append(names, fmt.Sprintf("%q", kind.Name))
		}
	}
	return strings.Join(names, " or ")
}
