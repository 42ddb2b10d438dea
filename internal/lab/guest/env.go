// SPDX-License-Identifier: MIT

// Package guest runs an experiment's load on this machine under one scheduler
// and measures what each got. The same code runs on a host and in a lab VM.
//
// Decide turns an experiment into a Plan: every write, every process. Run
// applies it, waits, and takes everything back, whatever happened.
package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// Env is the machine that an experiment runs on. NewEnv makes one.
type Env struct {
	System  block.System
	Cgroups cgroup.Tree
	// Device is the disk to use, such as "/dev/nvme0n1"; "" has the
	// experiment's own device made for the run.
	Device string
	// Fio is the load generator's file; "" looks for fio in $PATH.
	Fio string
	// Engines is the directory with libaps' engines for fio, "" for none.
	Engines string
	// Outrank lets the engine have a priority above all loads where it needs one: on
	// a machine that does nothing else, as a VM of the lab.
	Outrank bool

	machine plan.Machine
	// user runs the containers' commands; nil is this process's own user.
	user *syscall.Credential
	// start starts a process in a cgroup of Cgroups.
	start func(cmd *exec.Cmd, group string) error
	// procs are the processes that are in a cgroup of Cgroups.
	procs func(group string) ([]int, error)
	// checkNode makes sure that a disk's node is that disk.
	checkNode func(*block.Device) error
	limits    limits
}

// limits bound the waiting for fio.
type limits struct {
	// ready is from fio's start to when all of its processes are set up.
	ready time.Duration
	// slack is how long fio may run on after it was stopped: requests that
	// are still in flight then are waited for.
	slack time.Duration
	// setup is how long one command of a container's setup may take.
	setup time.Duration
	// killed is how long killed processes may take to be gone.
	killed time.Duration
}

// SetupLimit is how long one command of a container's setup may take.
const SetupLimit = 5 * time.Minute

// NewEnv is the machine below root, "" for /.
func NewEnv(root string) Env {
	sys := block.System{Root: root}
	e := Env{
		System:    sys,
		Cgroups:   cgroup.Tree{Root: sys.Path("sys/fs/cgroup")},
		machine:   plan.OS{},
		checkNode: (*block.Device).CheckNode,
		limits:    limits{ready: time.Minute, slack: time.Minute, setup: SetupLimit, killed: 10 * time.Second},
		user:      &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	e.start = e.startInCgroup
	e.procs = e.Cgroups.Procs
	return e
}

// startInCgroup starts a process that is in its cgroup from its first
// instruction on: nothing that it does is accounted elsewhere.
func (e Env) startInCgroup(cmd *exec.Cmd, group string) error {
	dir, err := e.Cgroups.Open(group)
	if err != nil {
		return err
	}
	defer dir.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	if err = cmd.Start(); errors.Is(err, syscall.ENOSYS) {
		return failure.Unsupportedf("start %s in %s: %w; Linux 5.7 or newer is needed", cmd.Path, e.Cgroups.Path(group), err)
	}
	return err
}

// check says what the machine lacks, before anything is changed.
func (e Env) check() (Env, error) {
	if err := e.Cgroups.Check(); err != nil {
		return e, err
	}
	if e.Fio == "" {
		e.Fio = "fio"
	}
	fio, err := exec.LookPath(e.Fio)
	if err != nil {
		return e, failure.Unsupportedf("the load generator is missing: %w; install fio", err)
	}
	e.Fio = fio
	if _, err := os.Stat("/bin/sh"); err != nil {
		return e, failure.Unsupportedf("fio starts through the shell: %w", err)
	}
	return e, nil
}

// ownDevice is the name of the disk that is made for a run.
const ownDevice = "isolio0"

// device finds the disk, or makes the case's own, and describes it.
func (e Env) device(a *plan.Applied, k *experiment.Case) (*block.Device, string, error) {
	name := e.Device
	if name == "" {
		steps, err := e.ownDevice(k.Device)
		if err != nil {
			return nil, "", err
		}
		if err = a.Apply(steps); err != nil {
			return nil, "", fmt.Errorf("make %s: %w", k.Device.Kind, err)
		}
		name = ownDevice
	}
	d, err := e.System.Find(name)
	if err != nil {
		return nil, "", err
	}
	if e.Device != "" {
		return d, d.String(), nil
	}
	about := k.Device
	if about.Kind == experiment.ModelDisk {
		about.Model.Preset, err = e.System.ModelDiskPreset(name)
	}
	return d, about.String(), err
}

// ownDevice returns the steps that make the disk of a case.
func (e Env) ownDevice(d experiment.Device) ([]plan.Step, error) {
	if d.Kind == experiment.NullBlk {
		return e.System.CreateNullBlk(block.NullBlk{
			Name: ownDevice, CompletionUS: d.CompletionUS, Tags: d.Tags, Queues: d.Queues, SizeMiB: d.SizeMiB,
		})
	}
	return e.System.CreateModelDisk(block.ModelDisk{
		Name: ownDevice, Model: d.Model.Name, Preset: d.Model.Preset, Params: d.Model.Params,
		SizeMiB: d.SizeMiB, Scale: d.Model.Scale, Seed: d.Model.Seed,
		Queues: d.Queues, PollQueues: d.Model.PollQueues, Tags: d.Tags,
		MemoryBacked: d.Model.MemoryBacked, WriteCache: d.Model.WriteCache, Discard: d.Model.Discard,
	})
}

// kernel is the running kernel's release.
func (e Env) kernel() (string, error) {
	text, err := os.ReadFile(e.System.Path("proc/sys/kernel/osrelease"))
	return strings.TrimSpace(string(text)), err
}
