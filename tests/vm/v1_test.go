// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountBlkio mounts the controller as cgroup v1 until the test ends. It leaves the unified hierarchy once no
// cgroup there has it, which takes a moment after the last one was removed.
func mountBlkio(t *testing.T) string {
	t.Helper()
	control := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	write(t, control, "-io")
	dir := t.TempDir()
	var err error
	for range 300 {
		if err = unix.Mount("blkio", dir, "cgroup", 0, "blkio"); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, unix.EBUSY) {
		// Pages in the cache keep the cgroups of tests before.
		write(t, control, "+io")
		t.Skip("make vm T=fresh runs it: removed cgroups have the controller")
	}
	must(t, err)
	t.Cleanup(func() {
		// A hierarchy that is unmounted while a removed cgroup is still there stays, and keeps the controller.
		untilSo(t, "the removed cgroups are gone", func() bool {
			for line := range strings.Lines(read(t, "/proc/cgroups")) {
				if f := strings.Fields(line); f[0] == "blkio" {
					return f[2] == "1"
				}
			}
			return false
		})
		must(t, unix.Unmount(dir, 0))
		untilSo(t, "the controller is back on cgroup v2", func() bool {
			return slices.Contains(strings.Fields(read(t, filepath.Join(cgroupRoot, "cgroup.controllers"))), "io")
		})
		write(t, control, "+io")
	})
	return dir
}

// untilSo waits for ten seconds at most.
func untilSo(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("not in 10 s: %s", what)
}

// On cgroup v1 the weight is in blkio.kyber.weight, and counts (Kyber Fairness report, figures 2 and 9).
func TestWeightV1(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=16", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	root := mountBlkio(t)
	if exists(filepath.Join(root, "blkio.kyber.weight")) {
		t.Error("the root has a weight")
	}
	var loads []*load
	for _, g := range []struct{ name, weight string }{{"video", "300"}, {"compile", "100"}} {
		group := filepath.Join(root, g.name)
		must(t, os.Mkdir(group, 0o755))
		t.Cleanup(func() { must(t, removeGroup(group)) })
		file := filepath.Join(group, "blkio.kyber.weight")
		if got := strings.TrimSpace(read(t, file)); got != "default 100" {
			t.Errorf("a new cgroup's weight reads %q", got)
		}
		write(t, file, g.weight)
		if got := strings.TrimSpace(read(t, file)); got != "default "+g.weight {
			t.Errorf("after %s the weight reads %q", g.weight, got)
		}
		l := &load{disk: d, group: group}
		// A process moves itself: clone takes cgroups of v2 alone.
		l.cmd = exec.Command("sh", "-c", `echo $$ >"$0/cgroup.procs" && exec fio "$@"`, group,
			"--name=load", "--filename=/dev/"+d.name, "--ioengine=libaio", "--direct=1", "--bs=4k", "--iodepth=32", "--rw=randread",
			"--norandommap=1", "--time_based", "--ramp_time=1", "--runtime=2", "--output-format=terse", "--terse-version=3")
		l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
		must(t, l.cmd.Start())
		loads = append(loads, l)
	}
	for _, l := range loads {
		l.wait(t)
	}
	a, b := float64(loads[0].kib(t)), float64(loads[1].kib(t))
	if ratio := a / b; math.Abs(ratio-3) > 0.3 {
		t.Errorf("weights 300 and 100 gave %.0f and %.0f KiB, ratio %.2f; want 2.7..3.3", a, b, ratio)
	}
}
