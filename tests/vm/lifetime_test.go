// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/testtree"
)

// fioErrors reports whether fio's terse line counts a failed I/O, or its
// messages name one.
func fioErrors(l *load) bool {
	for line := range strings.Lines(l.out.String()) {
		if f := strings.Split(line, ";"); f[0] == "3" && len(f) > 4 && f[4] != "0" {
			return true
		}
		if strings.Contains(line, "io_u error") || strings.Contains(line, "verify:") {
			return true
		}
	}
	return false
}

// A process leaves its cgroup with requests queued, and the group is deleted
// while they are: they belong to a group that is going.
func TestGroupRemovedWithRequestsQueued(t *testing.T) {
	loaded(t)
	d := newDisk(t, slow)
	d.use(t, elevator)
	const total = 128 // requests a round, all of them submitted at once
	for i := range 8 {
		group := newGroup(t, fmt.Sprint("gone", i))
		write(t, filepath.Join(group, weightFile), fmt.Sprint(10+i))
		before := d.ios(t)
		l := startFio(t, d, group, "--rw=randread", "--iodepth=128", "--size=512k")
		untilBusy(t, d)
		for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
			write(t, filepath.Join(cgroupRoot, "cgroup.procs"), pid)
		}
		must(t, removeGroup(group))
		if left := total - (d.ios(t) - before); left < total/2 {
			t.Errorf("round %d: only %d of %d requests were waiting", i, left, total)
		}
		l.wait(t)
		if got := l.kib(t); got != total*4 || fioErrors(l) {
			t.Errorf("round %d: fio read %d of %d KiB:\n%s", i, got, total*4, l.out.String())
		}
	}
}

// Many groups come and go while a load runs in others.
func TestGroupsComeAndGo(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	l := startFio(t, d, newGroup(t, "steady"), "--time_based", "--runtime=60")
	l.untilBusy(t)
	for i := range 40 {
		dir := filepath.Join(cgroupRoot, fmt.Sprint("brief", i))
		must(t, os.Mkdir(dir, 0o755))
		write(t, filepath.Join(dir, weightFile), fmt.Sprint(1+i))
		if i%8 == 0 {
			startFio(t, d, dir, "--size=128k").wait(t)
		}
		must(t, removeGroup(dir))
	}
	l.stop(t)
}

// What is written is read back, through flushes, merges and scheduler switches.
func TestDataIntegrity(t *testing.T) {
	loaded(t)
	d := newDisk(t, []string{
		"memory_backed=1", "cache_size=4", "irqmode=2", "completion_nsec=20000",
		"hw_queue_depth=16", "submit_queues=1", "size=64",
	})
	d.use(t, elevator)
	if mode := strings.TrimSpace(read(t, d.queue("write_cache"))); mode != "write back" {
		t.Fatalf("the disk has no cache to flush: %q", mode)
	}
	flushes := func() string { return strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))[15] }
	group := newGroup(t, "a")
	jobs := [][]string{
		{"--rw=randwrite", "--bs=4k", "--size=4m", "--fsync=16"},
		{"--rw=write", "--bs=4k", "--size=4m", "--iodepth_batch=16", "--fdatasync=64"},
		{"--rw=randrw", "--bsrange=4k-128k", "--size=8m", "--fsync=8"},
	}
	for _, job := range jobs {
		before := flushes()
		l := startFio(t, d, group, append(job, "--norandommap=0", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1")...)
		l.wait(t)
		if fioErrors(l) || l.kib(t) == 0 {
			t.Errorf("%v:\n%s", job, l.out.String())
		}
		if flushes() == before {
			t.Errorf("%v: no flush reached the disk", job)
		}
	}
	l := startFio(t, d, group, "--rw=randwrite", "--bs=4k", "--size=16m", "--norandommap=0", "--verify=crc32c", "--verify_fatal=1", "--fsync=32")
	for _, other := range others {
		untilBusy(t, d)
		d.use(t, other)
		d.use(t, elevator)
	}
	l.wait(t)
	if fioErrors(l) {
		t.Errorf("switching while writing:\n%s", l.out.String())
	}
}

// Writeback throttling is off while the scheduler is on, and on again afterwards. A
// value that the administrator set stays.
func TestWritebackThrottling(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	file := filepath.Join("/sys/kernel/debug/block", d.name, "rqos/wbt/enabled")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("this kernel throttles no writeback of this disk: %v", err)
	}
	// The kernel's names: on and off, by default and by hand.
	const on, byHand, off = "1", "2", "3"
	state := func() string {
		t.Helper()
		text, err := os.ReadFile(file)
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	steps := []struct {
		scheduler, want string
	}{{"none", on}, {elevator, off}, {"mq-deadline", on}, {elevator, off}, {"none", on}}
	for _, step := range steps {
		d.use(t, step.scheduler)
		if got := state(); got != step.want {
			t.Errorf("with %s writeback throttling is %s, want %s", step.scheduler, got, step.want)
		}
	}
	testtree.File(t, d.queue("wbt_lat_usec"), "5000")
	d.use(t, elevator)
	if got := state(); got != byHand {
		t.Errorf("set by hand, writeback throttling is %s, want %s", got, byHand)
	}
}

// A load of many short sleeps is where a virtual machine's clock goes wrong
// first. What it did is printed, so that `vm-run --twice` compares it.
func TestShortSleeps(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	l := startFio(t, d, newGroup(t, "a"), "--rw=randread", "--iodepth=1", "--time_based", "--runtime=1")
	l.wait(t)
	t.Logf("%d reads of 4 KiB in a second at depth 1", l.kib(t)/4)
	if l.kib(t) == 0 || fioErrors(l) {
		t.Errorf("fio:\n%s", l.out.String())
	}
}

// A cgroup is deleted while its request waits for the disk to come out of a
// freeze, and the disk comes out of it with the scheduler. Some kernels give the
// deleted cgroup its part of the scheduler then, and take it away unannounced.
func TestGroupRemovedWhileSchedulerComes(t *testing.T) {
	loaded(t)
	d := newDisk(t, append(slices.Clone(fast), "completion_nsec=3000000000"))
	d.use(t, "none")
	first := startFio(t, d, newGroup(t, "first"), "--rw=randread", "--iodepth=1", "--size=4k")
	for d.inside(t) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	chosen := make(chan error, 1)
	go func() { chosen <- put(d.queue("scheduler"), elevator) }() // waits for the first
	time.Sleep(100 * time.Millisecond)
	group := newGroup(t, "gone")
	second := startFio(t, d, group, "--rw=randread", "--iodepth=1", "--size=4k")
	untilBlocked(t, group)
	for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
		write(t, filepath.Join(cgroupRoot, "cgroup.procs"), pid)
	}
	must(t, removeGroup(group))
	if len(chosen) > 0 {
		t.Fatalf("the scheduler came before the group was gone: %v", <-chosen)
	}
	must(t, <-chosen)
	for _, l := range []*load{first, second} {
		l.wait(t)
		if fioErrors(l) || l.kib(t) != 4 {
			t.Errorf("fio:\n%s", l.out.String())
		}
	}
	loads := startLoads(t, d) // refills look at every active group
	untilBusy(t, d)
	untilBusy(t, d)
	stopLoads(t, d, loads)
}

// untilBlocked waits until a process of the group sleeps where no signal wakes it.
func untilBlocked(t *testing.T, group string) {
	t.Helper()
	for range 500 {
		for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
			stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
			if err == nil && strings.Contains(string(stat), ") D ") {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nobody in %s waits for a disk", group)
}
