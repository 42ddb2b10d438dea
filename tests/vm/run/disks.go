// SPDX-License-Identifier: MIT

package main

import (
	"slices"
	"strings"
	"time"

	"isolio/internal/lab/vm"
)

// diskModules are the kernel's own modules that the tests of disks use besides the
// drivers: disks without hardware, stacks, file systems, and the ciphers and
// checksums of those. Not every kernel has all of them.
var diskModules = []string{
	"crc32c_generic", "xxhash_generic", "blake2b_generic", "sha256_generic", "aes_generic", "xts", "ecb", "essiv",
	"loop", "nbd nbds_max=1", "zram", "sd_mod", "sg", "scsi_debug dev_size_mb=256 lbpu=1 lbpws=1 submit_queues=2",
	"dm-mod", "dm-crypt", "dm-thin-pool", "dm-multipath", "dm-round-robin", "raid1",
	"ext4", "xfs", "btrfs",
}

// diskPrograms make stacks, and the file systems that the other tests do without.
var diskPrograms = []string{"mkfs.btrfs", "dmsetup", "mdadm"}

// A machine with disks runs in the host's time, which other work may slow down.
const (
	diskLimit   = 30 * time.Minute
	diskStall   = 3 * time.Minute
	diskWorkMiB = 1024
	diskCPUs    = 2
)

// disksWanted tells the tests which kinds there must be.
const disksWanted = "ISOLIO_DISKS"

// isFaulty reports whether the kernel of the line complains of its own driver: the
// checks of array bounds in 7.2 stop at a table of mptsas, while it starts.
func isFaulty(kind, line string) bool { return kind == "mptsas" && strings.HasPrefix(line, "7.2") }

// addModules has the machine load those of the kernel's modules that there are.
func addModules(machine *vm.VM, modules []string) error {
	names := make([]string, len(modules))
	for i, module := range modules {
		names[i], _, _ = strings.Cut(module, " ")
	}
	there, err := machine.Kernel.Modules(names...)
	if err != nil {
		return err
	}
	for _, module := range modules {
		if name, _, _ := strings.Cut(module, " "); slices.Contains(there, name) {
			machine.Stock = slices.DeleteFunc(machine.Stock, func(s string) bool { return s == name || strings.HasPrefix(s, name+" ") })
			machine.Stock = append(machine.Stock, module)
		}
	}
	return nil
}

// stackModules are those of LVM, LUKS, RAID and loop files, and stacksWanted tells the tests of them.
var stackModules = []string{
	"aes_generic", "xts", "ecb", "loop", "dm-mod", "dm-crypt", "dm-thin-pool", "dm-cache", "dm-cache-smq",
	"dm-multipath", "dm-round-robin", "raid1", "raid10", "raid456", "ext4",
}

const stacksWanted = "ISOLIO_STACKS=1"

// addStacks makes it a machine that can stack disks.
func addStacks(machine *vm.VM) error {
	machine.Programs = append(machine.Programs, "dmsetup", "mdadm")
	machine.Payload.Env = append(machine.Payload.Env, stacksWanted)
	machine.WorkMiB = diskWorkMiB
	return addModules(machine, stackModules)
}

// addDisks makes it a machine with real drivers' disks of the named kinds.
func addDisks(machine *vm.VM, kinds string) error {
	machine.Disks = strings.Split(kinds, ",")
	if kinds == "all" {
		machine.Disks = slices.DeleteFunc(vm.DiskKinds(), func(kind string) bool { return isFaulty(kind, machine.Kernel.Line) })
	}
	if err := addModules(machine, diskModules); err != nil {
		return err
	}
	machine.Programs = append(machine.Programs, diskPrograms...)
	machine.Payload.Env = append(machine.Payload.Env, disksWanted+"="+strings.Join(machine.Disks, ","))
	machine.Payload.Argv[1] = "-test.timeout=" + (diskLimit - time.Minute).String()
	machine.CPUs = max(machine.CPUs, diskCPUs)
	machine.Limit, machine.Stall, machine.WorkMiB = diskLimit, diskStall, diskWorkMiB
	return nil
}
