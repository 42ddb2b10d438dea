// SPDX-License-Identifier: MIT

package view

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/machine"
)

const (
	// wakeupUs is about what an interrupt, and a switch of tasks to the thread that waits, take
	// on a CPU that does not idle.
	wakeupUs = 2
	// leastGainPct is the part of a read below which another way of waiting is not noticed.
	leastGainPct = 3
)

// polling are the file systems whose files the kernel polls, Linux 6.1 and later.
var polling = map[string]bool{"ext4": true, "xfs": true, "f2fs": true, "gfs2": true, "zonefs": true, "erofs": true}

// ExamineForLibaps looks at what libaps can gain on the machine below root, "" for /.
func ExamineForLibaps(root string) (*Diagnosis, error) {
	m := examination{sys: block.System{Root: root}}
	m.Snapshot, m.noCgroups = machine.Read(root)
	m.release = m.sys.Release()
	var err error
	if m.disks, err = m.sys.All(); err != nil {
		return nil, err
	}
	mounts, err := m.sys.Mounts()
	if err != nil {
		return nil, err
	}
	idle, sleeps := m.idleUs()
	d := &Diagnosis{Schema: DiagnosisSchema, Kernel: m.release}
	d.Checks = append(d.Checks, m.rings()...)
	d.Checks = append(d.Checks, sleeps...)
	d.Checks = append(d.Checks, m.mitigations()...)
	for _, disk := range m.disks {
		if disk.SizeBytes > 0 && len(disk.On) == 0 && disk.Queues > 0 {
			d.Checks = append(d.Checks, m.gains(disk, mounts, wakeupUs+idle)...)
		}
	}
	return d, nil
}

// rings tells whether programs get rings of io_uring.
func (m *examination) rings() []Check {
	const name = "io_uring"
	var major, minor int
	if n, _ := fmt.Sscanf(m.release, "%d.%d", &major, &minor); n == 2 && (major < 5 || major == 5 && minor < 11) {
		return fails(name, "Linux "+m.release+" is older than 5.11: I/O is done without a ring, one at a time", "boot a newer kernel")
	}
	const file = "/proc/sys/kernel/io_uring_disabled"
	switch m.read(file) {
	case "1":
		return warning(name, "only for processes with CAP_SYS_ADMIN or of the group in kernel.io_uring_group", "sysctl kernel.io_uring_disabled=0")
	case "2":
		return fails(name, "forbidden for every process: I/O is done without a ring, one at a time", "sysctl kernel.io_uring_disabled=0")
	}
	return ok(name, "allowed on the host; containers need a seccomp profile that allows it")
}

// idleUs is how long a CPU takes to leave its deepest idle state, 0 where that is not known.
func (m *examination) idleUs() (deepest int, checks []Check) {
	const name = "idle states"
	dirs, _ := filepath.Glob(m.sys.Path("/sys/devices/system/cpu/cpu0/cpuidle/state*"))
	var state string
	for _, dir := range dirs {
		file := func(name string) string { return m.read(strings.TrimPrefix(path.Join(dir, name), m.sys.Root)) }
		us, err := strconv.Atoi(file("latency"))
		if err == nil && file("disable") != "1" && us > deepest {
			deepest, state = us, file("name")
		}
	}
	switch {
	case len(dirs) == 0:
		return 0, ok(name, "none that the kernel tells of")
	case deepest > 10:
		return deepest, warning(name, fmt.Sprintf("leaving %s takes %d us: threads that sleep wake late, and libaps polls instead", state, deepest),
			"for reads of 10 us: cpupower idle-set -D 10")
	}
	return deepest, ok(name, "leaving the deepest takes %d us", deepest)
}

// mitigations tells of those that make each system call slower.
func (m *examination) mitigations() []Check {
	const name = "mitigations"
	var slow []string
	for _, of := range []struct{ file, word string }{{"meltdown", "PTI"}, {"retbleed", "IBRS"}} {
		if strings.Contains(m.read("/sys/devices/system/cpu/vulnerabilities/"+of.file), of.word) {
			slow = append(slow, fmt.Sprintf("%s (%s)", of.word, of.file))
		}
	}
	if len(slow) == 0 {
		return ok(name, "none that slow down system calls")
	}
	return warning(name, strings.Join(slow, " and ")+": each system call takes longer, and a read through libaps makes one to three",
		"a newer CPU has none; mitigations=off is for hosts that run no code of others")
}

// readUs is the mean time of the disk's reads since the boot, and how many there were.
func (m *examination) readUs(disk block.Info) (us float64, reads int) {
	fields := strings.Fields(m.read("/sys/block/" + disk.Name + "/stat"))
	if len(fields) < 4 {
		return 0, 0
	}
	reads, _ = strconv.Atoi(fields[0])
	ms, _ := strconv.Atoi(fields[3])
	if reads == 0 {
		return 0, 0
	}
	return 1000 * float64(ms) / float64(reads), reads
}

// gains tells what polling can take off a read of the disk.
func (m *examination) gains(disk block.Info, mounts block.Mounts, wakeUs int) []Check {
	name := "disk " + disk.Name
	us, reads := m.readUs(disk)
	if disk.Rotational || us > 0 && 100*float64(wakeUs)/us < leastGainPct {
		return ok(name, "nothing to gain: a read takes %.0f us, of which waking up is %d", us, wakeUs)
	}
	finding := "no reads since the boot, so what can be gained is not known"
	if us > 0 {
		gain := min(float64(wakeUs), us/2)
		finding = fmt.Sprintf("a read takes %.1f us (mean of %d), of which libaps saves up to %.1f: %.0f %%", us, reads, gain, 100*gain/us)
	}
	if m.read("/sys/block/"+disk.Name+"/queue/io_poll") != "1" {
		remedy := "its driver has none that it could make"
		if strings.HasPrefix(disk.Name, "nvme") {
			remedy = "nvme.poll_queues=4 on the kernel's command line"
		}
		return warning(name, finding+"; it has no poll queues", remedy)
	}
	for _, mount := range mounts {
		if mount.MajMin == disk.MajMin && !polling[mount.Type] {
			return warning(name, fmt.Sprintf("%s; %s is %s, whose files are not polled", finding, mount.Point, mount.Type), "use ext4, XFS or the bare disk")
		}
	}
	if disk.Scheduler != "none" {
		return warning(name, fmt.Sprintf("%s; the scheduler %s adds CPU time to each request", finding, disk.Scheduler),
			"where no container is to be kept from others: echo none >/sys/block/"+disk.Name+"/queue/scheduler")
	}
	return ok(name, "%s; poll queues, no scheduler: open files with O_DIRECT", finding)
}
