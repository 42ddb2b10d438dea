// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The scheduler of the report as published, which experiments compare others with.
const (
	reportElevator   = "kyber-report"
	reportWeightFile = "io.kyber-report.weight"
	reportModule     = "kyber_report_iosched"
)

// withReport starts a test of it: the kernel's log must be clean at the end.
func withReport(t *testing.T) {
	t.Helper()
	watchLog(t)
	if !inserted(t, reportModule) {
		must(t, insertModule("kyber-report-iosched.ko"))
	}
	t.Cleanup(func() { must(t, unix.DeleteModule(reportModule, unix.O_NONBLOCK)) })
}

// reportDisk has tags for twice 32 requests, which is what these loads have outstanding. A cgroup
// that is out of budget keeps its tags, and with fewer the other one would find none.
var reportDisk = []string{"irqmode=2", "completion_nsec=4000000", "hw_queue_depth=32", "submit_queues=1", "size=256"}

// Two busy cgroups have a device by weight.
func TestReportShares(t *testing.T) {
	withReport(t)
	d := newDisk(t, reportDisk)
	d.use(t, reportElevator)
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	file := filepath.Join(heavy, reportWeightFile)
	write(t, file, "default 200")
	if got := strings.TrimSpace(read(t, file)); got != "default 200" {
		t.Errorf("%s is %q", reportWeightFile, got)
	}
	for bad, want := range map[string]unix.Errno{"0": unix.ERANGE, "10001": unix.ERANGE, "sum": unix.EINVAL, "default": unix.EINVAL} {
		expectErrno(t, fmt.Sprintf("weight %q", bad), put(file, bad), want)
	}
	for _, rw := range []string{"randread", "randwrite"} {
		loads := []*load{
			startFio(t, d, heavy, "--time_based", "--runtime=60", "--rw="+rw, "--iodepth=32"),
			startFio(t, d, light, "--time_based", "--runtime=60", "--rw="+rw, "--iodepth=32"),
		}
		untilBusy(t, d)
		time.Sleep(time.Second)
		a, b := ioBytes(t, heavy, d), ioBytes(t, light, d)
		time.Sleep(2 * time.Second)
		a, b = ioBytes(t, heavy, d)-a, ioBytes(t, light, d)-b
		t.Logf("%s: %d and %d reads or writes in 2 s of 16000", rw, a/4096, b/4096)
		if ratio := float64(a) / float64(b); ratio < 1.8 || ratio > 2.2 {
			t.Errorf("%s: the ratio of 200 to 100 is %.2f", rw, ratio)
		}
		if total := (a + b) / 4096; total < 14400 {
			t.Errorf("%s: %d in 2 s, want 90 %% of 16000", rw, total)
		}
		for _, l := range loads {
			l.stop(t)
		}
	}
	d.use(t, "none")
}

// One cgroup that is alone has the whole device, after another one was there.
func TestReportIdle(t *testing.T) {
	withReport(t)
	d := newDisk(t, reportDisk)
	d.use(t, reportElevator)
	light, heavy := newGroup(t, "light"), newGroup(t, "heavy")
	write(t, filepath.Join(heavy, reportWeightFile), "10000")
	l := startFio(t, d, light, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=32")
	l.untilBusy(t)
	startFio(t, d, heavy, "--time_based", "--runtime=1", "--rw=randread", "--iodepth=32").wait(t)
	time.Sleep(500 * time.Millisecond) // two refills: the heavy one is idle
	before := readBytes(t, light, d)
	time.Sleep(time.Second)
	if reads := (readBytes(t, light, d) - before) / 4096; reads < 7200 {
		t.Errorf("%d reads in 1 s, want 90 %% of 8000", reads)
	}
	l.stop(t)
	d.use(t, "none")
}

// A cgroup is deleted with requests queued, and out of budget.
func TestReportGroupRemoved(t *testing.T) {
	withReport(t)
	d := newDisk(t, slow)
	d.use(t, reportElevator)
	busy := startFio(t, d, newGroup(t, "busy"), "--time_based", "--runtime=60", "--rw=randread", "--iodepth=32")
	busy.untilBusy(t)
	const total = 128
	for i := range 6 {
		group := newGroup(t, fmt.Sprint("gone", i))
		write(t, filepath.Join(group, reportWeightFile), "1")
		l := startFio(t, d, group, "--rw=randread", "--iodepth=128", "--size=512k")
		l.untilBusy(t)
		for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
			write(t, filepath.Join(cgroupRoot, "cgroup.procs"), pid)
		}
		if left := total - readBytes(t, group, d)/4096; left < total/2 {
			t.Errorf("round %d: only %d of %d requests were waiting", i, left, total)
		}
		must(t, removeGroup(group))
		l.wait(t)
		if got := l.kib(t); got != total*4 || fioErrors(l) {
			t.Errorf("round %d: fio read %d of %d KiB:\n%s", i, got, total*4, l.out.String())
		}
	}
	busy.stop(t)
	d.use(t, "none")
}

// The scheduler comes and goes under load, with both kinds of requests and with flushes.
func TestReportSwitch(t *testing.T) {
	withReport(t)
	d := newDisk(t, []string{"memory_backed=1", "cache_size=4", "irqmode=2", "completion_nsec=20000", "hw_queue_depth=16", "submit_queues=1", "size=64"})
	l := startFio(t, d, newGroup(t, "verified"), "--rw=randwrite", "--size=16m", "--norandommap=0", "--verify=crc32c", "--verify_fatal=1", "--fsync=32")
	untilBusy(t, d)
	for _, other := range others {
		d.use(t, reportElevator)
		untilBusy(t, d)
		d.use(t, other)
	}
	d.use(t, reportElevator)
	l.wait(t)
	if fioErrors(l) || l.kib(t) == 0 {
		t.Errorf("switching while writing:\n%s", l.out.String())
	}

	fastDisk := newDisk(t, append(slices.Clone(fast), fmt.Sprint("submit_queues=", runtime.NumCPU())))
	loads := startLoads(t, fastDisk)
	for range 3 {
		for _, other := range others {
			fastDisk.use(t, reportElevator)
			write(t, fastDisk.tunable("refill_ms"), "1")
			untilBusy(t, fastDisk)
			fastDisk.use(t, other)
			untilBusy(t, fastDisk)
		}
	}
	fastDisk.use(t, reportElevator)
	untilBusy(t, fastDisk)
	expectErrno(t, "unloading", unix.DeleteModule(reportModule, unix.O_NONBLOCK), unix.EAGAIN)
	stopLoads(t, fastDisk, loads)
	d.use(t, "none")
}
