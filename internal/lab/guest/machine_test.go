// SPDX-License-Identifier: MIT

package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/must"
	"isolio/internal/plan"
)

// fakeMachine is a directory that behaves like sysfs and cgroup v2 as far as
// the engine needs: a new group has its files, a removed one must be empty of
// processes, and the scheduler file shows what was written.
type fakeMachine struct {
	plan.OS
	t    *testing.T
	root string
	log  []string // of all changes, paths relative to root
	fail int      // the index in log of the change that fails, -1 for none
}

func (m *fakeMachine) record(entry string) error {
	m.log = append(m.log, strings.ReplaceAll(entry, m.root+"/", ""))
	if len(m.log)-1 == m.fail {
		return syscall.EIO
	}
	return nil
}

func (m *fakeMachine) Mkdir(path string) error {
	if err := m.record("mkdir " + path); err != nil {
		return err
	}
	if err := m.OS.Mkdir(path); err != nil {
		return err
	}
	for _, name := range []string{
		"cgroup.subtree_control", "cgroup.procs", "cgroup.freeze", "memory.max", "io.stat", "io.weight", "io.bfq.weight", "io.kyber.weight",
		"queue_mode", "irqmode", "completion_nsec", "hw_queue_depth", "submit_queues", "size", "power",
		"model", "preset", "scale", "seed", "queues", "poll_queues", "tags", "size_mib", "memory_backed", "write_cache", "discard",
		"nvme/dies", "stall_us",
	} {
		m.file(filepath.Join(path, name), "")
	}
	return nil
}

func (m *fakeMachine) Rmdir(path string) error {
	if err := m.record("rmdir " + path); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(text)) {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			return fmt.Errorf("rmdir %s: process %s is still there", path, pid)
		}
	}
	return os.RemoveAll(path)
}

func (m *fakeMachine) Write(path, value string) error {
	if err := m.record(path + " = " + value); err != nil {
		return err
	}
	if filepath.Base(path) == "scheduler" {
		value = strings.Replace("none mq-deadline kyber bfq kyber-fairness rsd sfq", value, "["+value+"]", 1)
	}
	if filepath.Base(path) == "power" && value == "1" {
		m.disk(filepath.Base(filepath.Dir(path)), "252:1")
		m.file(filepath.Join(filepath.Dir(path), "stat"), "reads 10\nhost_pages 5\nmedia_pages 7\ndepth_max 3\n")
	}
	return m.OS.Write(path, value)
}

func (m *fakeMachine) Run(command []string) error { return m.record(strings.Join(command, " ")) }

func (m *fakeMachine) Mount(device, path, kind string) error {
	return m.record("mount " + kind + " " + device + " " + path)
}

func (m *fakeMachine) Unmount(path string) error { return m.record("unmount " + path) }

func (m *fakeMachine) file(path, text string) {
	m.t.Helper()
	must.OK(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(m.t, os.WriteFile(path, []byte(text), 0o644))
}

func (m *fakeMachine) disk(name, majMin string) {
	for file, text := range map[string]string{
		"dev": majMin, "size": "8388608", "queue/scheduler": "none [mq-deadline] kyber bfq kyber-fairness rsd sfq", "queue/nr_requests": "64",
		"queue/iosched/low_latency": "1", "stat": "1 0 8 0 1 0 8 0 0 0 0",
	} {
		m.file(filepath.Join(m.root, "sys/block", name, file), text+"\n")
	}
	m.file(filepath.Join(m.root, "dev", name), "")
}

// newMachine is a machine with one disk, nullb0, and fio a shell script whose
// job is body. There, $name and $out are fio's options; the function barrier
// does what fio does with exec_prerun, the function report writes the JSON, and
// count R W sets the bytes that the kernel counted for the container, 4 KiB a
// request; stat sets what a modeldisk says of itself. load is until SIGINT, or for a minute.
func newMachine(t *testing.T, body string) (*fakeMachine, Env) {
	t.Helper()
	m := &fakeMachine{t: t, root: t.TempDir(), fail: -1}
	m.disk("nullb0", "252:0")
	for file, text := range map[string]string{
		"proc/self/mountinfo":                  "",
		"proc/swaps":                           "",
		"proc/stat":                            "cpu  9 0 9 90 9 0 0 0 0 0\ncpu0 9 0 9 90 9 0 0 0 0 0\n",
		"proc/sys/kernel/osrelease":            "6.1.0-test\n",
		"proc/sys/vm/drop_caches":              "0\n",
		"sys/kernel/config/nullb/features":     "",
		"sys/kernel/config/modeldisk/models":   "nvme: p4500-2tb\n",
		"sys/fs/cgroup/cgroup.controllers":     "cpu io memory\n",
		"sys/fs/cgroup/cgroup.subtree_control": "memory\n",
		"sys/fs/cgroup/io.cost.qos":            "",
		"sys/fs/cgroup/io.cost.model":          "",
	} {
		m.file(filepath.Join(m.root, file), text)
	}
	fixture, err := filepath.Abs("fio/testdata/mixed.json")
	must.OK(t, err)
	script := filepath.Join(m.root, "fio")
	m.file(script, `#!/bin/sh
for a; do
	case $a in
	--name=*) name=${a#*=} ;;
	--output=*) out=${a#*=} ;;
	--exec_prerun=*) prerun=${a#*=} ;;
	esac
done
trap stopped=1 INT
count() { echo "252:0 rbytes=$1 wbytes=$2 rios=$(($1 / 4096)) wios=$(($2 / 4096)) dbytes=0 dios=0" > $GROUP/io.stat; }
load() { for tenth in $(seq 600); do test "$stopped" && return; sleep 0.1; done; }
barrier() { sh -c "$prerun > $name.prerun.txt 2>&1"; }
report() { sed "s/w1000/$name/" `+fixture+` > $out; }
stat() { echo "reads $1\nhost_pages $2\nmedia_pages $3\ndepth_max $4" > `+m.root+`/sys/kernel/config/modeldisk/isolio0/stat; }
trace() { echo "$1 $name" >> `+m.root+`/trace; }
`+body+"\n")
	must.OK(t, os.Chmod(script, 0o755))
	e := NewEnv(m.root)
	e.Fio, e.machine = script, m
	e.Find = func() (*Disk, error) {
		d, err := System{Root: m.root}.disk("nullb0")
		if err == nil {
			d.About = "nullb0, 4096 MiB, nr_requests 64"
		}
		return d, err
	}
	e.limits = limits{ready: 20 * time.Second, slack: 20 * time.Second, setup: 20 * time.Second, killed: 20 * time.Second}
	e.user = nil // who runs the tests may not become another
	// A process group stands for the cgroup: what fio starts is in it too.
	// cgroup.procs is brought up to date when the engine looks.
	leaders := map[string]int{}
	e.start = func(cmd *exec.Cmd, group string) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Env = append(os.Environ(), "GROUP="+e.Cgroups.Path(group))
		err := cmd.Start()
		if err == nil {
			leaders[group] = cmd.Process.Pid
		}
		return err
	}
	e.procs = func(group string) ([]int, error) {
		if leader := leaders[group]; leader > 0 {
			m.file(e.Cgroups.Path(group, "cgroup.procs"), members(t, leader))
		} else { // processes came by themselves; the kernel drops the dead
			text, _ := os.ReadFile(e.Cgroups.Path(group, "cgroup.procs"))
			alive := ""
			for pid := range strings.FieldsSeq(string(text)) {
				if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
					alive += pid + "\n"
				}
			}
			m.file(e.Cgroups.Path(group, "cgroup.procs"), alive)
		}
		return e.Cgroups.Procs(group)
	}
	return m, e
}

// members lists the living processes of a process group, one a line.
func members(t *testing.T, pgrp int) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	must.OK(t, err)
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone
		}
		// PID (COMMAND) STATE PARENT PGRP ...
		words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if words[2] == strconv.Itoa(pgrp) && words[0] != "Z" && words[0] != "X" {
			fmt.Fprintln(&b, filepath.Base(filepath.Dir(file)))
		}
	}
	return b.String()
}

// checkClean fails the test unless the machine is as it was before the run.
func (m *fakeMachine) checkClean() {
	m.t.Helper()
	left, err := filepath.Glob(filepath.Join(m.root, "sys/fs/cgroup/isolio-*"))
	if err != nil || len(left) != 0 {
		m.t.Errorf("cgroups left behind: %v, %v", left, err)
	}
	text, err := os.ReadFile(filepath.Join(m.root, "sys/block/nullb0/queue/scheduler"))
	if err != nil || !strings.Contains(string(text), "[mq-deadline]") {
		m.t.Errorf("scheduler is %q, %v; it was mq-deadline", text, err)
	}
	tmp, err := filepath.Glob(filepath.Join(os.TempDir(), "isolio-bench-*"))
	if err != nil || len(tmp) != 0 {
		m.t.Errorf("temporary directories left behind: %v, %v", tmp, err)
	}
}

func parse(t *testing.T, more string) *experiment.Experiment {
	t.Helper()
	x, err := experiment.Parse("x.toml", []byte(`name = "x"
question = "Who gets what?"
schedulers = ["none", "mq-deadline", "kyber", "bfq", "iocost", "kyber-fairness", "kyber-report", "rsd", "sfq"]
ramp_s = 0.0
duration_s = 0.1
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randrw"
bs = "4k"
[[container]]
name = "a"
weight = 300
[[container]]
name = "b"
weight = 100
`+more))
	must.OK(t, err)
	return x
}

// decide plans a run in the experiment's first case, runOn runs it.
func decide(t *testing.T, e Env, x *experiment.Experiment, scheduler string) (*Plan, error) {
	t.Helper()
	return Decide(e, x, &x.Cases[0], scheduler)
}

func runOn(ctx context.Context, e Env, x *experiment.Experiment, scheduler string, progress func(Progress)) (result.Run, error) {
	return Run(ctx, e, x, &x.Cases[0], scheduler, progress)
}
