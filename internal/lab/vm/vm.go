// SPDX-License-Identifier: MIT

// Package vm boots virtual machines whose time is the number of instructions executed:
// two runs give the same bytes, on any host, however loaded it is. The host side builds an
// initramfs (a program as init, other programs, kernel modules, a manifest), boots a
// stock kernel in QEMU, and follows what the guest reports. The guest side (guest*.go) is
// that init.
package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// VM is one virtual machine to boot: what is in it and how long it may take.
type VM struct {
	// Kernel is the kernel to boot; its root gives programs and stock modules.
	Kernel *Kernel
	// Init is the program that becomes the guest's init, isolio-guest or isolio; "" stands
	// for the running program.
	Init string
	// Programs are programs of the kernel root to take along, such as "fio".
	Programs []string
	// FromPrograms takes them from the root of OpenPrograms instead, and with each what
	// that root lists with it.
	FromPrograms bool
	// Built are host paths, by guest path, of programs and libraries that were
	// built in the kernel root, below it. The libraries they need come with them.
	Built map[string]string
	// Stock are the kernel's own modules to load, such as "bfq" or
	// "null_blk nr_devices=0". What they depend on comes with them.
	Stock []string
	// Extra are module files to load after those, in this order.
	Extra []string
	// Carry are module files that are there (in ModuleDir), but not loaded.
	Carry []string
	// Disks are kinds of real drivers' disks, of DiskKinds; their drivers are loaded
	// after the stock modules. A VM with disks runs in the host's time, not in
	// virtual time: two runs of it differ.
	Disks []string
	// Tree is a newc archive with a distribution below guestTree, "" for none. With
	// one, its own init is process 1, and starts the payload when it has booted.
	Tree string
	// Payload is what runs.
	Payload Payload
	// WorkMiB is the guest's memory besides what the initramfs takes;
	// 0 stands for 192.
	WorkMiB int
	// CPUs is how many the machine has; 0 stands for 1.
	CPUs int
	// Parallel runs the CPUs side by side in real time instead of in turns in
	// virtual time. It takes QEMU 8.1 or newer, and no two runs are the same.
	Parallel bool
	// Args are kernel arguments besides the lab's own, such as "panic_on_warn=1".
	Args []string
	// Limit bounds the payload on the guest's clock; 0 stands for 5 minutes.
	Limit time.Duration
	// Timeout bounds the whole VM on the wall clock; 0 is no bound.
	Timeout time.Duration
	// Stall is how long on the wall clock the guest may show no sign of life;
	// 0 stands for 90 seconds.
	Stall time.Duration
	// Keep is a directory where initramfs, kernel log and events stay; "" is a
	// temporary one that is removed.
	Keep string
}

// ModuleDir is where the guest finds the module files of VM.Carry and VM.Extra.
const ModuleDir = guestModules

// ConsoleFile is the kernel's log in the directory VM.Keep.
const ConsoleFile = "console.log"

// Command is the init of a guest: called as another process it is the program
// that VM.Init names, as anywhere.
const Command = guestInit

// Payload is the program that a VM runs. It finds /proc, /sys, /dev, /tmp,
// cgroup v2, configfs, debugfs and tracefs mounted. Lines on its standard
// output and error become output events, lines on file 3 data events.
type Payload struct {
	Argv []string
	// Env is NAME=value; nothing is inherited.
	Env []string
	// Files are host files to put in the guest, by guest path.
	Files map[string]string
	// Data are small files to put in the guest, by guest path.
	Data map[string][]byte
}

// Outcome is how a VM ended when the VM itself did well.
type Outcome struct {
	// Code is the payload's exit status; 128 + n after signal n.
	Code int
	// Output is the end of what the payload printed.
	Output []string
	// Log is the kernel's log.
	Log string
	// Command is the QEMU command line.
	Command string
}

// Failure is one of the payload, in a VM that itself did well.
func (o *Outcome) Failure(reason, kept string) *Failure {
	return &Failure{Reason: reason, Lines: o.Output, Log: lastLines(o.Log, logLines), Command: o.Command, Kept: kept}
}

// Failure is a VM that did not do its work.
type Failure struct {
	// Reason says in one line what happened.
	Reason string
	// Lines are what the reason is about: complaints of the kernel, what
	// QEMU printed, the last output of the payload.
	Lines []string
	// Log is the end of the kernel's log.
	Log []string
	// Command is the QEMU command line.
	Command string
	// Kept is the directory with the artifacts, "" if they are gone.
	Kept string
	// Unborn is whether the guest hung before its init said anything.
	Unborn bool
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString("lab: " + f.Reason)
	for _, line := range f.Lines {
		b.WriteString("\n  " + line)
	}
	if len(f.Log) > 0 {
		b.WriteString("\nend of the kernel log:")
	}
	for _, line := range f.Log {
		b.WriteString("\n  " + line)
	}
	if f.Command != "" {
		b.WriteString("\ncommand: " + f.Command)
	}
	if f.Kept != "" {
		b.WriteString("\nkept: " + f.Kept)
	} else if f.Command != "" {
		b.WriteString("\n(the files it names are removed; --keep DIR keeps them)")
	}
	return b.String()
}

// Boot boots the VM, calls on for every event as it comes (from one goroutine),
// and waits for the end. The error is a *Failure if the VM could not be
// started, ended without the payload's exit status, took too long, or if its
// kernel complained; it is ctx's error if ctx ended it.
func Boot(ctx context.Context, vm VM, on func(Event)) (*Outcome, error) {
	dir, done, err := WorkDir(vm.Keep)
	if err != nil {
		return nil, err
	}
	defer done()
	img, err := vm.Image(filepath.Join(dir, "base.cpio"))
	if err != nil {
		return nil, err
	}
	return img.Boot(ctx, vm, dir, on)
}

// WorkDir makes the directory for a VM's files. done removes it if it is
// temporary.
func WorkDir(keep string) (dir string, done func(), err error) {
	if keep != "" {
		if err := os.MkdirAll(keep, 0o755); err != nil {
			return "", nil, fmt.Errorf("lab: %w", err)
		}
		return keep, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "isolio-lab-")
	if err != nil {
		return "", nil, fmt.Errorf("lab: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// Image is the first part of an initramfs, on disk.
type Image struct {
	File    string
	Modules []Module // load order
}

// Image writes the part of the initramfs that does not depend on the manifest.
func (vm VM) Image(file string) (*Image, error) {
	init := vm.Init
	if init == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("lab: where the isolio binary is: %w", err)
		}
		init = self
	}
	drivers, err := diskModules(vm.Disks)
	if err != nil {
		return nil, err
	}
	c := contents{
		kernel: vm.Kernel, root: vm.root(), init: init, programs: vm.Programs, built: vm.Built,
		stock: slices.Concat(vm.Stock, drivers), extra: vm.Extra, carry: vm.Carry, files: vm.Payload.Files, tree: vm.Tree,
	}
	a, modules, err := c.base()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	_, err = a.writeTo(f, 4096)
	if err == nil && vm.Tree != "" {
		err = appendFile(f, vm.Tree)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Image{File: file, Modules: modules}, nil
}

// root is that of the programs, "" for the kernel's.
func (vm VM) root() rootFS {
	if vm.FromPrograms {
		return vm.Kernel.programs
	}
	return ""
}

// Boot runs one VM with the image and vm's manifest, its files below dir. It is as the
// function Boot otherwise.
func (img *Image) Boot(ctx context.Context, vm VM, dir string, on func(Event)) (*Outcome, error) {
	m := manifest{
		Modules: img.Modules, Argv: vm.Payload.Argv, Env: vm.Payload.Env,
		LimitMS: cmp.Or(vm.Limit, defaultLimit).Milliseconds(), BeatMS: beat.Milliseconds(),
		Tree: vm.Tree != "",
	}
	base, err := os.Open(img.File)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer base.Close()
	initrd := filepath.Join(dir, "initramfs.cpio")
	size, err := writeInitramfs(initrd, base, m, vm.Payload.Data)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	parallel := vm.Parallel || len(vm.Disks) > 0
	argv, err := vm.Kernel.qemuCommand(ctx, vm.CPUs, parallel)
	if err != nil {
		return nil, err
	}
	disks, err := diskArgs(dir, vm.Disks)
	if err != nil {
		return nil, err
	}
	console, events := filepath.Join(dir, ConsoleFile), filepath.Join(dir, "events.jsonl")
	for _, old := range []string{console, events} { // an earlier run's, in a kept directory
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	kernelMore := vm.Args
	if parallel {
		kernelMore = append([]string{parallelKernelArgs(tscKHz())}, kernelMore...)
	}
	argv = append(argv,
		qemuArgs(vm.Kernel.Vmlinuz, initrd, console, events,
			memoryMiB(size, cmp.Or(vm.WorkMiB, defaultWorkMiB)), max(vm.CPUs, 1), parallel, kernelMore)...)
	argv = append(argv, disks...)
	return watch{
		argv: argv, console: console, events: events,
		timeout: vm.Timeout, stall: cmp.Or(vm.Stall, defaultStall), kept: vm.Keep,
	}.run(ctx, on)
}

// memoryMiB is the guest's memory: the initramfs is there twice for a moment,
// as it came and unpacked, and the root file system may fill half the memory.
func memoryMiB(initramfs int64, work int) int {
	need := 2*int(initramfs>>20) + work
	return (need + memoryStepMiB - 1) / memoryStepMiB * memoryStepMiB
}
