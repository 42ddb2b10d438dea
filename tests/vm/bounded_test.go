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
	"time"

	"golang.org/x/sys/unix"
)

// directIO opens a disk for one direct request of a page at a time. A request's
// function returns how long it took.
func directIO(t *testing.T, d *disk) (read, write func(page int64) (time.Duration, error)) {
	t.Helper()
	fd, err := unix.Open("/dev/"+d.name, unix.O_RDWR|unix.O_DIRECT, 0)
	must(t, err)
	buf := func() []byte {
		page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
		must(t, err)
		t.Cleanup(func() { must(t, unix.Munmap(page)) })
		return page
	}
	in, out := buf(), buf()
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	timed := func(io func(fd int, p []byte, offset int64) (int, error), p []byte) func(int64) (time.Duration, error) {
		return func(page int64) (time.Duration, error) {
			began := time.Now()
			_, err := io(fd, p, page*4096)
			return time.Since(began), err
		}
	}
	return timed(unix.Pread, in), timed(unix.Pwrite, out)
}

// A write goes to a disk that has room for it, however long that disk takes for a
// read: sfq holds it back for a moment only, to see what reads take alone.
func TestSFQWriteBesideSlowRead(t *testing.T) {
	withSFQ(t)
	const service = 2 * time.Second
	d := newDisk(t, []string{"irqmode=2", fmt.Sprint("completion_nsec=", service.Nanoseconds()), "hw_queue_depth=8", "submit_queues=1", "size=64"})
	d.use(t, "sfq")
	readPage, writePage := directIO(t, d)
	done := make(chan error, 1)
	go func() {
		// The task's own io_context, which sfq takes for that of a process.
		runtime.LockOSThread()
		_, err := readPage(0)
		done <- err
	}()
	for d.inside(t) == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(40 * time.Millisecond)
	took, err := writePage(1000)
	must(t, err)
	must(t, <-done)
	if most := service + 200*time.Millisecond; took > most {
		t.Errorf("the write took %v, want at most %v: it waited for the read", took, most)
	}
}

// watchPauses looks every few milliseconds at how many requests the disk has completed.
// The function that it returns ends that, and says the longest time without one.
func (d *disk) watchPauses() func() time.Duration {
	file := filepath.Join("/sys/block", d.name, "stat")
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var last string
		var pause time.Duration
		since := time.Now()
		for {
			select {
			case <-stop:
				longest <- pause
				return
			case <-time.After(2 * time.Millisecond):
			}
			text, err := os.ReadFile(file)
			fields := strings.Fields(string(text))
			if err != nil || len(fields) < 5 {
				pause = time.Hour // the disk is gone
				continue
			}
			if now := fields[0] + " " + fields[4]; now != last {
				last, since = now, time.Now()
			}
			pause = max(pause, time.Since(since))
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-longest
	}
}

// A cgroup that is deleted with requests queued holds no other one up.
func TestGroupRemovedStopsNoOther(t *testing.T) {
	severalCPUs(t)
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=4", fmt.Sprint("submit_queues=", runtime.NumCPU()), "size=256"})
	d.use(t, elevator)
	loads := pinnedLoads(t, d)
	longest := d.watchPauses()
	for i := range 3 {
		group := newGroup(t, fmt.Sprint("gone", i))
		write(t, filepath.Join(group, weightFile), "10")
		l := startFio(t, d, group, "--rw=randread", "--iodepth=64", "--time_based", "--runtime=600", "--cpus_allowed=1")
		l.untilBusy(t)
		time.Sleep(100 * time.Millisecond)
		pids := strings.Fields(read(t, filepath.Join(group, "cgroup.procs")))
		for _, pid := range pids {
			write(t, filepath.Join(cgroupRoot, "cgroup.procs"), pid)
		}
		must(t, removeGroup(group))
		for _, pid := range pids { // what is queued stays, and no more comes
			n, err := strconv.Atoi(pid)
			must(t, err)
			_ = unix.Kill(n, unix.SIGKILL)
		}
		_ = l.cmd.Wait()
		time.Sleep(200 * time.Millisecond)
	}
	pause := longest()
	stopLoads(t, d, loads)
	if most := longestPause(t); pause > most {
		t.Errorf("no request completed for %v, want at most %v", pause, most)
	}
}

// longestPause is how long no request may complete while several cgroups send some. A debugging kernel
// is slow, and its CPUs run in real time, beside whatever else the host does.
func longestPause(t *testing.T) time.Duration {
	t.Helper()
	if onDebugKernel(t) {
		return 5 * time.Second
	}
	return 500 * time.Millisecond
}

// A disk that gives requests back gives their cgroup what they were charged. That
// cgroup may go on, and holds up no other.
func TestRequeueStopsNoOther(t *testing.T) {
	withModelDisk(t)
	loaded(t)
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=4", "fixed/read_ns=1000000", "fixed/write_ns=1000000", "size_mib=256", "tags=8"})
	d.use(t, elevator)
	loads := startLoads(t, d)
	d.fail(t, "requeue_every=3")
	longest := d.watchPauses()
	time.Sleep(2 * time.Second)
	pause := longest()
	if d.stat(t, "requeued") == 0 {
		t.Error("no request was given back")
	}
	d.fail(t, "requeue_every=0")
	stopLoads(t, d, loads)
	if most := longestPause(t); pause > most {
		t.Errorf("no request completed for %v, want at most %v", pause, most)
	}
}

// Where a disk completes requests in the task that submits them, the kernel's time of a
// completion may be older than that of the submission.
func TestLatencyIsNeverNegative(t *testing.T) {
	loaded(t)
	d := newDisk(t, []string{"irqmode=0", "hw_queue_depth=64", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	group := newGroup(t, "a")
	startFio(t, d, group, "--iodepth=32", "--iodepth_batch=16", "--number_ios=20000").wait(t)
	text := read(t, filepath.Join(group, "io.kyber.latency"))
	if !strings.Contains(text, d.number) || strings.Contains(text, "more=") {
		t.Errorf("io.kyber.latency: %q; want requests, and none of more than 14 s", text)
	}
}

// A disk may get more hardware queues while it has a scheduler. What that counts by
// queue, and how many requests it takes the disk for, follows.
func TestDiskGetsMoreQueues(t *testing.T) {
	severalCPUs(t)
	withGuard(t)
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			d := newDisk(t, []string{"irqmode=2", "completion_nsec=5000000", "hw_queue_depth=8", "submit_queues=1", "size=256"})
			d.use(t, scheduler)
			before, err := os.ReadDir(filepath.Join("/sys/block", d.name, "mq")) // also for polling
			must(t, err)
			// A scheduler that knows of those alone lets so many go, and perhaps one more. With two
			// CPUs the queues there are then have no more tags.
			least := 8*len(before) + 1
			if least >= 8*runtime.NumCPU() {
				least = 8
			}
			write(t, filepath.Join(d.config, "submit_queues"), fmt.Sprint(runtime.NumCPU()))
			if _, active := d.schedulers(t); active != scheduler {
				t.Skipf("the kernel leaves the disk with %q after that", active)
			}
			d.set(t, "age_th", 20)
			startFio(t, d, newGroup(t, "a"), "--number_ios=1000", "--numjobs=4", "--iodepth=32").wait(t)
			if got := d.guardStat(t, "inside"); got != 0 {
				t.Errorf("%d requests are in flight at the end by the guard's count", got)
			}
			most := d.guardStat(t, "inside_max")
			t.Logf("at most %d requests were in flight of %d", most, 8*runtime.NumCPU())
			if most <= least || most > 8*runtime.NumCPU() {
				t.Errorf("at most %d requests were in flight, want more than %d and at most %d", most, least, 8*runtime.NumCPU())
			}
			d.use(t, "none")
		})
	}
}

// Hardware queues that share the disk's tags have no more in flight than there are,
// all together, and none of them waits for ever for one that another gives back.
func TestGuardWithSharedTags(t *testing.T) {
	severalCPUs(t)
	withGuard(t)
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			const tags = 8
			probe := newDisk(t, []string{"size=64"})
			if !exists(filepath.Join(probe.config, "shared_tag_bitmap")) {
				t.Skip("this kernel's null_blk cannot share tags")
			}
			d := newDisk(t, []string{"irqmode=2", "completion_nsec=100000", fmt.Sprint("hw_queue_depth=", tags), fmt.Sprint("submit_queues=", runtime.NumCPU()), "shared_tag_bitmap=1", "size=256"})
			d.use(t, scheduler)
			d.set(t, "age_th", 20)
			startFio(t, d, newGroup(t, "a"), "--number_ios=4000", "--numjobs=4", "--iodepth=32").wait(t)
			if most := d.guardStat(t, "inside_max"); most > tags {
				t.Errorf("at most %d requests were in flight by the guard's count, and there are %d tags", most, tags)
			}
			d.use(t, "none")
		})
	}
}

// A request of a throttled cgroup waits for ten seconds at most.
func TestHeldBackAtMost(t *testing.T) {
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=20000000", "hw_queue_depth=2", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	write(t, filepath.Join(heavy, weightFile), "10000")
	write(t, filepath.Join(light, weightFile), "1")
	startFio(t, d, heavy, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=8").untilBusy(t)
	startFio(t, d, light, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=1").untilBusy(t)
	// By its share it has a read in 100 seconds, of the disk's 100 a second. When the disk is filled
	// to see what it can do, a moment of a minute, it has what it can.
	const most, late = 10 * time.Second, time.Second
	var waits []time.Duration
	last, seen := time.Now(), readBytes(t, light, d)
	for began := last; time.Since(began) < 35*time.Second; time.Sleep(100 * time.Millisecond) {
		if now := readBytes(t, light, d); now != seen {
			waits = append(waits, time.Since(last).Round(100*time.Millisecond))
			last, seen = time.Now(), now
		}
	}
	waits = append(waits, time.Since(last).Round(100*time.Millisecond))
	t.Logf("reads came after %v", waits)
	if longest := slices.Max(waits); longest < most-late || longest > most+late {
		d.logState(t)
		t.Errorf("a read came after %v, want %v", longest, most)
	}
}

// A task that is killed does not wait for its cgroup's share, but for what it has sent: ten seconds at most.
func TestKilledTaskGetsOut(t *testing.T) {
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=20000000", "hw_queue_depth=2", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	write(t, d.queue("nr_requests"), "8")
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	write(t, filepath.Join(heavy, weightFile), "10000")
	write(t, filepath.Join(light, weightFile), "1")
	startFio(t, d, heavy, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=8").untilBusy(t)
	l := startFio(t, d, light, "--time_based", "--runtime=60", "--rw=randread", "--ioengine=psync", "--numjobs=8")
	l.untilBusy(t)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	write(t, filepath.Join(light, "cgroup.kill"), "1")
	_ = l.cmd.Wait()
	for {
		procs := strings.TrimSpace(read(t, filepath.Join(light, "cgroup.procs")))
		if procs == "" {
			break
		}
		if time.Since(began) > 15*time.Second {
			d.logState(t)
			logProcesses(t, light)
			t.Fatalf("processes %q live on 15 s after they were killed", strings.ReplaceAll(procs, "\n", " "))
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("all were gone after %v", time.Since(began).Round(time.Millisecond))
}

// wbtState is what the kernel says of a disk's writeback throttling, or "".
func (d *disk) wbtState() string {
	text, err := os.ReadFile(filepath.Join("/sys/kernel/debug/block", d.name, "rqos/wbt/enabled"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// io.cost, switched off, sets the default of writeback throttling. With the scheduler
// that is off, on kernels that ask a scheduler.
func TestWritebackThrottlingAfterIOCost(t *testing.T) {
	loaded(t)
	if version := kernelVersion(t); version < 602 {
		t.Skipf("this kernel, %d, does not ask", version)
	}
	d := newDisk(t, fast)
	qos := filepath.Join(cgroupRoot, "io.cost.qos")
	if d.wbtState() == "" || !exists(qos) {
		t.Skip("this kernel has no writeback throttling of this disk, or no io.cost")
	}
	d.use(t, elevator)
	before := d.wbtState()
	write(t, qos, d.number+" enable=1")
	write(t, qos, d.number+" enable=0")
	if after := d.wbtState(); after != before {
		t.Errorf("writeback throttling is %s after io.cost came and went, want %s as before", after, before)
	}
}

// kernelVersion is the major version times 100, and the minor one.
func kernelVersion(t *testing.T) int {
	t.Helper()
	major, rest, _ := strings.Cut(kernelRelease(t), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	must(t, err)
	b, err := strconv.Atoi(strings.TrimRight(minor, "-+abcdefghijklmnopqrstuvwxyz"))
	must(t, err)
	return 100*a + b
}
