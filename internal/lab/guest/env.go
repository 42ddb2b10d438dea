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
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// Env is the machine that an experiment runs on. NewEnv makes one.
type Env struct {
	System  System
	Cgroups Cgroups
	// Find finds the disk to use, and makes sure that nothing else uses it; nil has the
	// experiment's own device made for the run.
	Find func() (*Disk, error)
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
	procs  func(group string) ([]int, error)
	limits limits
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
	sys := System{Root: root}
	e := Env{
		System:  sys,
		Cgroups: Cgroups{Root: sys.Path("sys/fs/cgroup")},
		machine: plan.OS{},
		limits:  limits{ready: time.Minute, slack: time.Minute, setup: SetupLimit, killed: 10 * time.Second},
		user:    &syscall.Credential{Uid: nobody, Gid: nobody},
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

// device finds the disk, or makes the case's own.
func (e Env) device(a *plan.Applied, k *experiment.Case) (*Disk, error) {
	if e.Find != nil {
		d, err := e.found()
		if err == nil && d.Check != nil {
			err = d.Check()
		}
		return d, err
	}
	create := e.System.createModelDisk
	if k.Device.Kind == experiment.NullBlk {
		create = e.System.createNullBlk
	}
	steps, err := create(ownDevice, k.Device)
	if err != nil {
		return nil, err
	}
	if err = a.Apply(steps); err != nil {
		return nil, fmt.Errorf("make %s: %w", k.Device.Kind, err)
	}
	d, err := e.System.disk(ownDevice)
	if err != nil {
		return nil, err
	}
	about := k.Device
	if about.Kind == experiment.ModelDisk {
		about.Model.Preset, err = e.System.preset(ownDevice)
	}
	d.About = about.String()
	return d, err
}

// found is the disk that is there already.
func (e Env) found() (*Disk, error) {
	d, err := e.Find()
	if err == nil {
		d.sys = e.System
	}
	return d, err
}

// kernel is the running kernel's release.
func (e Env) kernel() (string, error) {
	text, err := os.ReadFile(e.System.Path("proc/sys/kernel/osrelease"))
	return strings.TrimSpace(string(text)), err
}
