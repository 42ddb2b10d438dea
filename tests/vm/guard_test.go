// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guarded are the schedulers that have the starvation guard.
var guarded = []string{"rsd", "sfq", elevator}

// reordering is a disk of 31 tags with a fast arm and a firmware that takes what
// is near: some requests are passed over a hundred times.
var reordering = []string{
	"model=hdd", "hdd/rpm=30000", "hdd/seek_ns=100000", "hdd/seek_sqrt_ns=1000000", "hdd/seek_stroke_ns=500000",
	"hdd/overhead_ns=20000", "hdd/guard_ns=0", "hdd/age_limit_ns=0", "hdd/ncq_depth=31", "tags=31", "write_cache=1",
}

// withGuard starts a test of the guard: all modules are loaded, and the kernel's
// log must be clean at the end.
func withGuard(t *testing.T) {
	t.Helper()
	withModelDisk(t)
	for _, name := range []string{"rsd", "sfq"} {
		if !inserted(t, name+"_iosched") {
			must(t, insertModule(name+"-iosched.ko"))
		}
	}
}

// guardFile is a file of the guard's. kyber-fairness has some of them in debugfs.
func (d *disk) guardFile(t *testing.T, name string) string {
	t.Helper()
	tunable := d.tunable(name)
	if exists(tunable) {
		return tunable
	}
	file := filepath.Join("/sys/kernel/debug/block", d.name, "sched", name)
	if !exists(file) {
		t.Skipf("this kernel shows no scheduler's state in debugfs: there is no %s", file)
	}
	return file
}

// set writes a file of the guard's.
func (d *disk) set(t *testing.T, name string, value int) {
	t.Helper()
	write(t, d.guardFile(t, name), fmt.Sprint(value))
}

// guardStat returns one figure of the guard's.
func (d *disk) guardStat(t *testing.T, name string) int {
	t.Helper()
	for line := range strings.Lines(read(t, d.guardFile(t, "guard_stat"))) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, err := strconv.Atoi(value)
			must(t, err)
			return n
		}
	}
	t.Fatalf("guard_stat has no %s", name)
	return 0
}

// A hardware queue that no CPU uses has no tags, and the block layer asks the scheduler
// about it all the same: when the gate opens, and when the disk gives requests back.
func TestGuardWithQueueWithoutCPU(t *testing.T) {
	withGuard(t)
	if release := kernelRelease(t); strings.HasPrefix(release, "6.12.") {
		t.Skipf("kernel %s warns of a disk with more queues than CPUs, whatever its scheduler is (group_cpus_evenly)", release)
	}
	polled := runtime.NumCPU() + 2
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			d := newModelDisk(t, append([]string{fmt.Sprint("poll_queues=", polled)}, reordering...))
			queues, err := filepath.Glob(filepath.Join("/sys/block", d.name, "mq/*"))
			must(t, err)
			if len(queues) == 0 || len(queues) > polled { // only those with CPUs are there
				t.Fatalf("%d of %d hardware queues have CPUs, want fewer", len(queues), 1+polled)
			}
			d.use(t, scheduler)
			d.set(t, "age_th", 4)
			d.fail(t, "requeue_every=7")
			startFio(t, d, newGroup(t, "a"), "--number_ios=600", "--rw=randread", "--iodepth=32").wait(t)
			if closings, requeued := d.guardStat(t, "closings"), d.stat(t, "requeued"); closings == 0 || requeued == 0 {
				t.Errorf("the gate closed %d times, and %d requests were given back; want some of both", closings, requeued)
			}
			if got := d.guardStat(t, "inside"); got != 0 {
				t.Errorf("%d requests are in flight at the end by the guard's count", got)
			}
			d.use(t, "none")
		})
	}
}

// No delay count exceeds what the tunable allows, by the disk's own count, which is the
// guard's too.
func TestGuardBounds(t *testing.T) {
	const requests, depth, watch = 800, 31, 65536
	for _, scheduler := range guarded {
		for _, ageTh := range []int{watch, 5} {
			t.Run(fmt.Sprint(scheduler, " age_th ", ageTh), func(t *testing.T) {
				withGuard(t)
				d := newModelDisk(t, reordering)
				d.use(t, scheduler)
				d.set(t, "age_th", ageTh)
				l := startFio(t, d, newGroup(t, "a"), "--rw=randread", "--iodepth=64", fmt.Sprint("--number_ios=", requests))
				l.wait(t)
				worst, bound := d.stat(t, "overtaken_max"), ageTh+depth-1
				if worst > bound {
					t.Errorf("a request was overtaken %d times, want %d at most", worst, bound)
				}
				// Two CPUs may hand their requests over in another order than the guard saw.
				got := d.guardStat(t, "delay_max")
				if runtime.NumCPU() == 1 && got != worst || got > bound {
					t.Errorf("the guard saw one overtaken %d times, the disk %d, and %d are allowed", got, worst, bound)
				}
				if got := d.guardStat(t, "completed"); got < requests {
					t.Errorf("%d requests completed, want %d", got, requests)
				}
				closings, held := d.guardStat(t, "closings"), d.guardStat(t, "held")
				if closed := ageTh != watch; closed != (closings > 0) || closed != (held > 0) || closed != (d.guardStat(t, "closed_us") > 0) {
					t.Errorf("the gate closed %d times, %d requests had to wait", closings, held)
				}
				// Without the guard there is something to be bounded.
				if ageTh == watch && scheduler == "rsd" && worst <= 5+depth-1 {
					t.Errorf("nothing starves on this disk: overtaken %d times at most", worst)
				}
				if inside := d.guardStat(t, "inside"); inside != 0 {
					t.Errorf("%d requests are left inside", inside)
				}
			})
		}
	}
}

// The threshold follows the wait that is asked for, and goes with it.
func TestGuardFindsThreshold(t *testing.T) {
	withGuard(t)
	d := newModelDisk(t, reordering)
	d.use(t, "rsd")
	const wait = 200
	d.set(t, "max_wait_ms", wait)
	l := startFio(t, d, newGroup(t, "a"), "--rw=randread", "--iodepth=64", "--number_ios=800")
	l.wait(t)
	ageTh, service, bound := d.guardStat(t, "age_th"), d.guardStat(t, "service_us"), d.guardStat(t, "wait_bound_ms")
	// One more would be a service more, and a little for the spread.
	if ageTh < 2 || ageTh > 2000 || service < 100 || bound > wait || bound < wait-1-2*service/1000 {
		t.Errorf("age_th %d for %d ms at %d us a request, which bounds %d ms", ageTh, wait, service, bound)
	}
	if deviation := d.guardStat(t, "service_deviation_us"); deviation == 0 || deviation > service {
		t.Errorf("services of %d us deviate by %d us", service, deviation)
	}
	d.set(t, "max_wait_ms", 0)
	if got := d.guardStat(t, "age_th"); got != 0 {
		t.Errorf("age_th is %d without a wait", got)
	}
	d.set(t, "age_th", 7)
	d.set(t, "max_wait_ms", 0) // was 0: what was given stays
	if got := d.guardStat(t, "age_th"); got != 7 {
		t.Errorf("age_th is %d, want what was given, 7", got)
	}
	guardFilesRefuse(t, d)
}

// The files of kyber-fairness that are in debugfs are those that rsd has in sysfs.
func TestGuardFilesInDebugfs(t *testing.T) {
	withGuard(t)
	d := newModelDisk(t, reordering)
	d.use(t, elevator)
	guardFilesRefuse(t, d)
	d.set(t, "age_th", 40)
	if got := strings.TrimSpace(read(t, d.guardFile(t, "age_th"))); got != "40" || d.guardStat(t, "age_th") != 40 {
		t.Errorf("age_th is %s after 40 was written", got)
	}
	startFio(t, d, newGroup(t, "a"), "--rw=randread", "--number_ios=50").wait(t)
	if got := d.guardStat(t, "completed"); got < 50 {
		t.Errorf("%d requests completed, want 50", got)
	}
	d.set(t, "guard_stat", 0)
	if got := d.guardStat(t, "completed"); got != 0 {
		t.Errorf("%d requests completed once the counts are reset", got)
	}
}

// guardFilesRefuse writes what the guard does not take.
func guardFilesRefuse(t *testing.T, d *disk) {
	t.Helper()
	for file, value := range map[string]string{"age_th": "65537", "max_wait_ms": "3600001"} {
		expectErrno(t, file, put(d.guardFile(t, file), value), unix.ERANGE)
	}
	for file, value := range map[string]string{"age_th": "-1", "max_wait_ms": "5\x00xxx", "guard_stat": "1"} {
		expectErrno(t, file, put(d.guardFile(t, file), value), unix.EINVAL)
	}
}

// Tunables, tags and schedulers change, and at last the disk goes, while the gate
// closes and opens; flushes come by. With a hardware queue for each CPU, too.
func TestGuardUnderLoad(t *testing.T) {
	for _, queues := range slices.Compact([]int{1, runtime.NumCPU()}) {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			withGuard(t)
			d := newModelDisk(t, append(slices.Clone(reordering), fmt.Sprint("queues=", queues)))
			d.use(t, "rsd")
			d.set(t, "age_th", 1)
			l := startFio(t, d, newGroup(t, "a"), "--time_based", "--runtime=600", "--iodepth=64", "--fsync=32", fmt.Sprint("--numjobs=", queues),
				fmt.Sprint("--cpus_allowed=0-", runtime.NumCPU()-1), "--cpus_allowed_policy=split")
			l.untilBusy(t)
			guardChanges(t, d)
			must(t, os.Remove(d.config))
			if err := l.cmd.Wait(); err == nil {
				t.Error("fio did not notice that its disk is gone")
			}
		})
	}
}

// guardChanges changes all that can be changed under a load, and sees that the
// load goes on.
func guardChanges(t *testing.T, d *disk) {
	t.Helper()
	for _, ageTh := range []int{0, 3, 0, 65536, 1} {
		d.set(t, "age_th", ageTh)
		untilBusy(t, d)
	}
	d.set(t, "max_wait_ms", 1)
	before := strings.TrimSpace(read(t, d.queue("nr_requests")))
	for _, tags := range []string{"4", before} {
		write(t, d.queue("nr_requests"), tags)
		untilBusy(t, d)
	}
	for _, scheduler := range slices.Concat(guarded, []string{"none", "rsd"}, guarded) {
		d.use(t, scheduler) // the one that leaves is audited
		if scheduler != "none" {
			d.set(t, "age_th", 1)
		}
		untilBusy(t, d)
	}
}

// faults are what a model disk can be told to do wrong, each so many-th read or
// write, by the figure of its stat file that counts it.
var faults = map[string]string{"refused": "refuse_every=11", "requeued": "requeue_every=13", "errors": "error_every=17", "lost": "lose_every=401"}

// closedByLost waits until the gate is closed and stays so: nothing completes.
func closedByLost(t *testing.T, d *disk) {
	t.Helper()
	last := -1
	for range 3000 {
		completed := d.guardStat(t, "completed")
		if d.guardStat(t, "closed") == 1 && completed == last {
			return
		}
		last = completed
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: no lost request closes the gate:\n%s", d.name, read(t, d.guardFile(t, "guard_stat")))
}

// A disk that refuses requests, gives them back, ends them with errors and loses
// them does not stop the guard: all requests end, none starves, the gate is open at
// last, and the accounts are right. The scheduler or the disk may also be removed
// while a lost request keeps the gate closed.
func TestGuardWithFaults(t *testing.T) {
	const requests, depth, ageTh = 500, 31, 5
	const goesOn, ignore = "--continue_on_error=all", "--ignore_error=5:110,5:110" // EIO, ETIMEDOUT
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			withGuard(t)
			d := newModelDisk(t, reordering)
			write(t, d.queue("io_timeout"), "100")
			d.use(t, scheduler)
			d.set(t, "age_th", ageTh)
			d.fail(t, slices.Collect(maps.Values(faults))...)
			l := startFio(t, d, newGroup(t, "a"), goesOn, ignore, "--iodepth=64", fmt.Sprint("--number_ios=", requests))
			l.wait(t)
			for figure, fault := range faults {
				if d.stat(t, figure) == 0 {
					t.Errorf("%s: nothing was %s", fault, figure)
				}
			}
			guardIsRight(t, d, requests, ageTh+depth-1)

			d.fail(t, "refuse_every=0", "requeue_every=0", "error_every=0", "lose_every=0")
			startFio(t, d, newGroup(t, "b"), "--number_ios=64").wait(t)

			endless := startFio(t, d, newGroup(t, "c"), goesOn, ignore, "--iodepth=64", "--time_based", "--runtime=600")
			endless.untilBusy(t)
			d.fail(t, "lose_every=50")
			lost := d.stat(t, "lost")
			closedByLost(t, d)
			d.use(t, "none") // the scheduler is audited
			if d.stat(t, "lost") == lost {
				t.Error("no request was lost when the scheduler went")
			}
			if scheduler == "rsd" {
				d.use(t, scheduler)
				d.set(t, "age_th", ageTh)
				closedByLost(t, d)
				must(t, os.Remove(d.config))
			}
			must(t, endless.cmd.Process.Signal(unix.SIGINT))
			_ = endless.cmd.Wait()
		})
	}
}

// guardIsRight looks at the guard of a disk that has no load any more, after so
// many requests with faults.
func guardIsRight(t *testing.T, d *disk, requests, bound int) {
	t.Helper()
	if got := d.guardStat(t, "delay_max"); got > bound {
		t.Errorf("a request was overtaken %d times, want %d at most", got, bound)
	}
	// What goes to the disk again without passing the scheduler is new to the disk,
	// and as old as it was to the guard.
	requeued := d.guardStat(t, "requeued")
	again := d.stat(t, "requeued") - requeued
	if got := d.stat(t, "overtaken_max"); got > bound+again {
		t.Errorf("a request was overtaken %d times by the disk's count, want %d at most", got, bound+again)
	}
	if requeued == 0 || again <= 0 {
		t.Errorf("%d requests were given back and came to the scheduler again, and %d did not", requeued, again)
	}
	if got := d.guardStat(t, "completed"); got < requests {
		t.Errorf("%d requests completed, want %d at least", got, requests)
	}
	for figure, want := range map[string]bool{"inside": false, "closed": false, "closings": true, "held": true} {
		if got := d.guardStat(t, figure); got > 0 != want {
			t.Errorf("%s is %d", figure, got)
		}
	}
}

// A device whose tags were made fewer, without a scheduler: a request that waits for one of them
// is not in flight.
func TestGuardCountsTagsThatAreLeft(t *testing.T) {
	withGuard(t)
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			d := newDisk(t, []string{"irqmode=2", "completion_nsec=200000", "hw_queue_depth=64", "size=64"})
			d.use(t, "none")
			write(t, d.queue("nr_requests"), "8")
			d.use(t, scheduler)
			d.set(t, "age_th", 1000)
			startFio(t, d, newGroup(t, "a"), "--size=4m", "--iodepth=64").wait(t)
			if most := d.guardStat(t, "inside_max"); most > 8 {
				t.Errorf("%d requests counted in flight on a device of 8 tags", most)
			}
		})
	}
}
