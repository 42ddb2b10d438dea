// SPDX-License-Identifier: MIT

// Package block reads and changes block devices below a root directory, so
// that tests need no root rights and no device.
package block

import (
	"cmp"
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

	"isolio/internal/failure"
	"isolio/internal/plan"
	"isolio/internal/printable"
)

// System is where the kernel's file systems are.
type System struct {
	// Root is the directory that holds sys, proc and dev; "" stands for /.
	Root string
}

// Path is a path below the root.
func (s System) Path(elem ...string) string {
	root := s.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// Device is a whole disk.
type Device struct {
	sys       System
	Name      string // as in /sys/block, such as "nvme0n1"
	Node      string // path of its device node
	MajMin    string // "259:0"
	SizeBytes int64
}

// sectorBytes is the unit of sysfs, whatever the disk's own sectors are.
const sectorBytes = 512

// List names the whole disks of the machine, sorted.
func (s System) List() ([]string, error) {
	entries, err := os.ReadDir(s.Path("sys/block"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Unsupportedf("%s: is not there; needed: sysfs", s.Path("sys/block"))
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// Find returns the disk that name means: "sdb", "/dev/sdb", a link such as
// /dev/disk/by-id/... to it, its directory in /sys, or what it is, as Selected says.
func (s System) Find(name string) (*Device, error) {
	if name == "" {
		return nil, failure.Usagef("device %q: it is empty; %s", name, s.allowed())
	}
	if _, _, ok := selector(name); ok {
		return s.only(name)
	}
	if strings.HasPrefix(name, "/sys/") { // as systemd has it
		name = filepath.Base(name)
	}
	node := name
	if !strings.Contains(name, "/") {
		node = "/dev/" + strings.ReplaceAll(name, "!", "/")
	}
	if !strings.HasPrefix(node, s.Path()) || s.Path() == "/" {
		node = s.Path(node)
	}
	target, err := filepath.EvalSymlinks(node)
	if err != nil {
		target = node // the disk may be there without a node; sysfs decides
	}
	// A "/" in a disk's name is a "!" in sysfs: /dev/cciss/c0d0.
	dev, err := filepath.EvalSymlinks(s.Path("dev"))
	if err != nil {
		dev = s.Path("dev")
	}
	rel, err := filepath.Rel(dev, target)
	if err != nil || strings.HasPrefix(rel, "..") {
		if err := s.notItself(name); err != nil {
			return nil, err
		}
		return nil, failure.Usagef("device %s: not below /dev; %s", name, s.allowed())
	}
	d := &Device{sys: s, Name: strings.ReplaceAll(rel, "/", "!"), Node: target}
	majMin, err := d.read("dev")
	var sectors int64
	if err == nil {
		sectors, err = d.readInt("size")
	}
	if failure.IsGone(err) {
		if err := s.notItself(name); err != nil {
			return nil, err
		}
		return nil, failure.Usagef("device %s: there is no such disk; %s", printable.Text(name), s.allowed())
	}
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	d.MajMin, d.SizeBytes = majMin, sectors*sectorBytes
	return d, nil
}

// allowed lists the disks for a message.
func (s System) allowed() string {
	names, err := s.List()
	names = slices.DeleteFunc(names, nvmePath.MatchString)
	// Dozens of loop devices and RAM disks would hide the few disks.
	disks := slices.DeleteFunc(names, func(name string) bool {
		d := &Device{sys: s, Name: name}
		size, err := d.read("size")
		scheduler, noQueue := d.read("queue/scheduler")
		return err == nil && size == "0" || d.kind() == Loop || d.kind() == Memory ||
			noQueue == nil && !strings.Contains(scheduler, "[") && len(s.below(name, true)) == 0 // as a volume of ZFS
	})
	if err != nil || len(disks) == 0 {
		return "this machine has no disk to share"
	}
	return "allowed: " + strings.Join(disks, ", ")
}

// diskOf is the disk that a partition is on, "" if the name is none.
func (s System) diskOf(partition string) string {
	disks, _ := s.List() // without it there is none
	for _, disk := range disks {
		if _, err := os.Stat(s.Path("sys/block", disk, partition, "partition")); err == nil && !strings.Contains(partition, "/") {
			return disk
		}
	}
	return ""
}

// path is a file of the disk in sysfs.
func (d *Device) path(elem ...string) string {
	return d.sys.Path(append([]string{"sys/block", d.Name}, elem...)...)
}

// readFile is os.ReadFile; tests have it fail.
var readFile = os.ReadFile

func (d *Device) read(elem ...string) (string, error) {
	text, err := readFile(d.path(elem...))
	return strings.TrimSpace(string(text)), err
}

func (d *Device) readInt(elem ...string) (int64, error) {
	text, err := d.read(elem...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", d.path(elem...), text)
	}
	return n, nil
}

// NrRequests is how many requests a hardware queue's scheduler holds at once.
func (d *Device) NrRequests() (int, error) {
	n, err := d.readInt("queue/nr_requests")
	return int(n), err
}

// SetNrRequests returns the step that gives the active scheduler room for n
// requests. Without a scheduler the device's own tags are the limit, and more
// is refused.
func (d *Device) SetNrRequests(n int) plan.Step {
	return plan.Step{Path: d.path("queue/nr_requests"), Value: strconv.Itoa(n), Name: "queue/nr_requests"}
}

// KeepNrRequests returns a step that changes nothing, and whose undoing brings
// back today's nr_requests: a change of scheduler resets it. It comes before
// such a change, and so is undone after it.
func (d *Device) KeepNrRequests() (plan.Step, error) {
	n, err := d.NrRequests()
	if err != nil {
		return plan.Step{}, err
	}
	s := d.SetNrRequests(n)
	s.Name, s.Undo = "", s.Value
	return s, nil
}

// String describes the disk in one line.
func (d *Device) String() string {
	about := []string{d.Name}
	if model, err := d.read("device/model"); err == nil && model != "" {
		about[0] += " (" + model + ")"
	}
	about = append(about, fmt.Sprintf("%d MiB", d.SizeBytes>>20))
	if n, err := d.NrRequests(); err == nil {
		about = append(about, fmt.Sprintf("nr_requests %d", n))
	}
	return strings.Join(about, ", ")
}

// Schedulers reads the active scheduler and all that are loaded.
func (d *Device) Schedulers() (active string, loaded []string, err error) {
	text, err := d.read("queue/scheduler")
	if err != nil {
		return "", nil, err
	}
	active = "none" // a disk without queues of its own shows just "none"
	for word := range strings.FieldsSeq(text) {
		name := strings.Trim(word, "[]")
		if name != word {
			active = name
		}
		loaded = append(loaded, name)
	}
	return active, loaded, nil
}

// SetScheduler returns the steps that make a scheduler active; none if it is.
// Writing a name loads the module of that name, where there is a modprobe.
func (d *Device) SetScheduler(name string) ([]plan.Step, error) {
	active, _, err := d.Schedulers()
	if err != nil {
		return nil, err
	}
	if active == name {
		return nil, nil
	}
	return []plan.Step{{
		Path: d.path("queue/scheduler"), Value: name, Undo: active, Name: "queue/scheduler",
		Explain: func(cause error) error { return d.explainScheduler(name, cause) },
	}}, nil
}

// SetTunable returns the step that sets a tunable of a scheduler, which is or
// will be active then. Another scheduler's coming takes the value with it;
// only where the scheduler is active already is there one to bring back.
func (d *Device) SetTunable(scheduler, name, value string) (plan.Step, error) {
	file := filepath.Join(tunables, name)
	explain := func(cause error) error { return d.explainTunable(scheduler, name, value, cause) }
	s := plan.Step{Path: d.path(file), Value: value, Name: file, Explain: explain}
	active, _, err := d.Schedulers()
	if err != nil {
		return plan.Step{}, err
	}
	if active == scheduler {
		if s.Undo, err = d.Tunable(name); err != nil {
			err = explain(err)
		}
	}
	return s, err
}

// Tunable is what a file of the active scheduler has in force.
func (d *Device) Tunable(name string) (string, error) {
	text, err := d.read(tunables, name)
	return TunableNow(name, text), err
}

// tunables is the directory of the active scheduler's tunables.
const tunables = "queue/iosched"

// explainTunable says why a tunable could not be set.
func (d *Device) explainTunable(scheduler, name, value string, cause error) error {
	switch {
	case errors.Is(cause, syscall.EINVAL), errors.Is(cause, syscall.ERANGE):
		return failure.Usagef("scheduler %s refuses %q for its tunable %s: %w", scheduler, value, name, cause)
	case !errors.Is(cause, fs.ErrNotExist):
		return cause
	}
	var names []string
	entries, _ := os.ReadDir(d.path(tunables)) // one that is not there holds none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return failure.Usagef("scheduler %s has no tunable %s; allowed: %s", scheduler, name, cmp.Or(strings.Join(names, ", "), "none, it has no tunables"))
}

// explainScheduler says why a scheduler could not be set.
func (d *Device) explainScheduler(name string, cause error) error {
	_, loaded, err := d.Schedulers()
	if err != nil || slices.Contains(loaded, name) {
		return cause
	}
	return failure.Unsupportedf("device %s: scheduler %s is not there (available: %s); load it with `modprobe %s-iosched`, "+
		"or `modprobe bfq` for bfq: %w", d.Name, name, strings.Join(loaded, ", "), name, cause)
}

// MovedBytes reads how much was read from the disk and written to it since it is
// there, whatever asked for it.
func (d *Device) MovedBytes() (uint64, error) {
	// Reads, merged ones, sectors, milliseconds; writes, merged ones, sectors, ...
	numbers, err := d.numbers("stat", 7)
	if err != nil {
		return 0, err
	}
	return (numbers[2] + numbers[6]) * sectorBytes, nil
}

// Statistics are what a disk completed since it is there, whatever asked for it.
type Statistics struct {
	Reads, ReadBytes, Writes, WrittenBytes uint64
	// Busy is how long it had a request.
	Busy time.Duration
}

// Statistics reads them.
func (d *Device) Statistics() (s Statistics, err error) {
	// Reads, merged ones, sectors, milliseconds; the same of writes; in flight, milliseconds busy, ...
	numbers, err := d.numbers("stat", 10)
	if err != nil {
		return s, err
	}
	return Statistics{
		Reads: numbers[0], ReadBytes: numbers[2] * sectorBytes, Writes: numbers[4], WrittenBytes: numbers[6] * sectorBytes,
		Busy: time.Duration(numbers[9]) * time.Millisecond,
	}, nil
}

// InFlight reads how many requests the disk itself has now, without those that its scheduler
// has queued. (The number in stat counts these as well, on some kernels.)
func (d *Device) InFlight() (int, error) {
	numbers, err := d.numbers("inflight", 2) // reads, writes
	if err != nil {
		return 0, err
	}
	return int(numbers[0] + numbers[1]), nil
}

// numbers reads a file of so many numbers or more.
func (d *Device) numbers(file string, least int) ([]uint64, error) {
	text, err := d.read(file)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	if len(words) < least {
		return nil, fmt.Errorf("%s: %d numbers, want %d or more", d.path(file), len(words), least)
	}
	var numbers []uint64
	for _, word := range words[:least] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a number", d.path(file), word)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
