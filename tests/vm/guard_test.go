// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// set writes a tunable of the disk's scheduler.
func (d *disk) set(t *testing.T, tunable string, value int) {
	t.Helper()
	write(t, d.queue(filepath.Join("iosched", tunable)), fmt.Sprint(value))
}

// guardStat returns one figure of the guard's.
func (d *disk) guardStat(t *testing.T, name string) int {
	t.Helper()
	for line := range strings.Lines(read(t, d.queue("iosched/guard_stat"))) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, err := strconv.Atoi(value)
			must(t, err)
			return n
		}
	}
	t.Fatalf("guard_stat has no %s", name)
	return 0
}

// No request is overtaken more often than the tunable allows, by the disk's own
// count, which is the guard's.
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
				if got := d.guardStat(t, "delay_max"); got != worst {
					t.Errorf("the guard saw one overtaken %d times, the disk %d", got, worst)
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
	if ageTh < 2 || ageTh > 2000 || service < 100 || bound > wait || bound < wait-1-service/1000 {
		t.Errorf("age_th %d for %d ms at %d us a request, which bounds %d ms", ageTh, wait, service, bound)
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
	for file, value := range map[string]string{"age_th": "65537", "max_wait_ms": "3600001"} {
		expectErrno(t, file, put(d.queue("iosched/"+file), value), unix.ERANGE)
	}
	for file, value := range map[string]string{"age_th": "-1", "guard_stat": "1"} {
		expectErrno(t, file, put(d.queue("iosched/"+file), value), unix.EINVAL)
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

// The driver gives requests back, or loses them until they time out: neither
// stops the guard.
func TestGuardWithFaults(t *testing.T) {
	withGuard(t)
	for _, fault := range []string{"requeue_inject", "timeout_inject"} {
		d := newDisk(t, fast)
		inject := filepath.Join(d.config, fault)
		if !exists(inject) {
			t.Skip("this kernel's null_blk has no faults")
		}
		write(t, d.queue("io_timeout"), "100")
		d.use(t, "rsd")
		d.set(t, "age_th", 1)
		l := startFio(t, d, newGroup(t, fault), "--time_based", "--runtime=600", "--continue_on_error=all")
		l.untilBusy(t)
		write(t, filepath.Join(inject, "verbose"), "0")
		write(t, filepath.Join(inject, "times"), "-1")
		write(t, filepath.Join(inject, "probability"), "1")
		for range 5 {
			untilBusy(t, d)
		}
		write(t, filepath.Join(inject, "probability"), "0")
		untilBusy(t, d)
		if name := map[string]string{"requeue_inject": "requeued", "timeout_inject": "closings"}[fault]; d.guardStat(t, name) == 0 {
			t.Errorf("%s: the guard saw no fault", fault)
		}
		must(t, l.cmd.Process.Signal(unix.SIGINT))
		_ = l.cmd.Wait()
		d.use(t, "none")
	}
}
