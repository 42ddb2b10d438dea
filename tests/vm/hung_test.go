// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's own detection of hung tasks does not see all of them. It counts a
// task that did not run at all for a minute in TASK_UNINTERRUPTIBLE. A task that
// waits for a request in the block layer (submit_bio_wait(), direct I/O) wakes up
// every half of that time to escape it, one that waits for a page sleeps in
// TASK_KILLABLE, and one that waits for io_uring or libaio is interruptible. So
// the tests look themselves: at every task that sleeps where no signal wakes it,
// and at every disk that has requests in flight.
const (
	// hungAfter is how long a task or a disk may make no progress, on the guest's
	// clock.
	hungAfter = 60 * time.Second
	hungLook  = 5 * time.Second
	// A task that escapes the kernel's detection runs this often meanwhile.
	hungRuns = 4
	// leftAfter is how long a task may still sleep like that when its test has
	// ended, with its disks and cgroups gone.
	leftAfter = 5 * time.Second
)

// hangEnv has TestHang hang, as vm-run --hangs wants: in a task that the kernel
// sees, or in one that only the watch does.
const hangEnv = "ISOLIO_HANG"

// progress is what a task or a disk had done when it was first seen to wait.
type progress struct {
	name  string
	since time.Time
	done  int
}

// hangs are tasks and disks that wait, by what names them for good.
type hangs map[string]progress

// look returns those that have waited for so long.
func (h hangs) look(after time.Duration) (hung []string) {
	now := time.Now()
	waiting := map[string]progress{}
	blockedTasks(waiting)
	busyDisks(waiting)
	for id := range h {
		if _, ok := waiting[id]; !ok {
			delete(h, id)
		}
	}
	for id, p := range waiting {
		before, ok := h[id]
		tolerated := 0
		if strings.HasPrefix(id, "/proc/") {
			tolerated = hungRuns
		}
		if !ok || p.done > before.done+tolerated {
			h[id] = progress{p.name, now, p.done}
			continue
		}
		if now.Sub(before.since) >= after {
			hung = append(hung, id)
		}
	}
	return hung
}

// blockedTasks adds every task that sleeps where no signal but a fatal one wakes
// it, with how often it has run.
func blockedTasks(into map[string]progress) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, dir := range dirs {
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil { // it has ended
			continue
		}
		field := func(name string) string {
			_, rest, _ := strings.Cut("\n"+string(status), "\n"+name+":")
			value, _, _ := strings.Cut(rest, "\n")
			return strings.TrimSpace(value)
		}
		if !strings.HasPrefix(field("State"), "D") {
			continue
		}
		runs, _ := strconv.Atoi(field("voluntary_ctxt_switches"))
		into[dir] = progress{name: fmt.Sprint("task ", field("Name"), ":", field("Pid")), done: runs}
	}
}

// busyDisks adds every disk that has requests in flight, with how many it has
// completed.
func busyDisks(into map[string]progress) {
	dirs, _ := filepath.Glob("/sys/block/*")
	for _, dir := range dirs {
		inflight, err := os.ReadFile(filepath.Join(dir, "inflight"))
		if err != nil || strings.Trim(string(inflight), " 0\n") == "" {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		done := 0
		for i, field := range strings.Fields(string(stat)) {
			switch i {
			case 0, 4, 11, 15: // reads, writes, discards, flushes
				n, _ := strconv.Atoi(field)
				done += n
			}
		}
		into[dir] = progress{name: "disk " + filepath.Base(dir), done: done}
	}
}

// describe says where in the kernel a task waits, or what a disk and its scheduler
// hold.
func describe(id string) string {
	var b strings.Builder
	files := []string{filepath.Join(id, "wchan"), filepath.Join(id, "stack")}
	if disk, ok := strings.CutPrefix(id, "/sys/block/"); ok {
		files = []string{filepath.Join(id, "inflight"), filepath.Join(id, "stat"), filepath.Join(id, "queue/scheduler")}
		for _, pattern := range []string{"sched/*", "hctx*/sched/*", "hctx*/state", "hctx*/dispatch", "hctx*/busy"} {
			more, _ := filepath.Glob(filepath.Join("/sys/kernel/debug/block", disk, pattern))
			files = append(files, more...)
		}
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			fmt.Fprintf(&b, "%s: %s\n", file, strings.TrimSpace(string(text)))
		}
	}
	return b.String()
}

// watchHangs ends the VM when a task or a disk hangs, with a complaint in the
// kernel's log: whatever waits for it would never end. A look takes 12 ms of the CPU
// and has a thread of the lowest priority for it, so that no load misses them.
func watchHangs() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
	h := hangs{}
	for {
		time.Sleep(hungLook)
		hung := h.look(hungAfter)
		if len(hung) == 0 {
			continue
		}
		for _, id := range hung {
			line := fmt.Sprintf("INFO: %s blocked for more than %.0f seconds.", h[id].name, hungAfter.Seconds())
			fmt.Printf("%s\n%s", line, describe(id))
			_ = os.WriteFile("/dev/kmsg", []byte(line+"\n"), 0o200)
		}
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("w"), 0o200) // where all of them are
		time.Sleep(time.Second)                                     // what was printed gets out
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0o200)
	}
}

// noneBlocked fails the test if it leaves a task that does not wake up.
func noneBlocked(t *testing.T) {
	t.Helper()
	h := hangs{}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		hung := h.look(leftAfter)
		for _, id := range hung {
			t.Errorf("the test leaves %s blocked for %v:\n%s", h[id].name, leftAfter, describe(id))
		}
		if len(hung) > 0 || len(h) == 0 || time.Since(begin) > 2*leftAfter {
			return
		}
	}
}

// The kernel's detection is on in every VM that runs tests, and is what the lab's
// command line says.
func TestHungTaskDetection(t *testing.T) {
	for file, want := range map[string]string{"hung_task_timeout_secs": "60", "hung_task_panic": "1"} {
		if got := strings.TrimSpace(read(t, filepath.Join("/proc/sys/kernel", file))); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	must(t, err)
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == "khungtaskd" {
			return
		}
	}
	t.Error("there is no khungtaskd")
}

// lossy is a disk that answers no request; each fails after the time-out.
func lossy(t *testing.T, timeout time.Duration) *disk {
	t.Helper()
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=fixed", "fixed/read_ns=20000", "fixed/write_ns=20000", "tags=32", "size_mib=64"})
	write(t, d.queue("io_timeout"), fmt.Sprint(timeout.Milliseconds()))
	d.fail(t, "lose_every=1")
	return d
}

// The watch sees what the kernel does not: a task in direct I/O, one that waits for
// a page, and a disk whose submitter waits interruptibly. And it takes no task for
// hung that waits for a slow disk again and again.
func TestHangsAreSeen(t *testing.T) {
	const after = 5 * time.Second
	lost, alive := lossy(t, 4*after), newDisk(t, slow)
	loads := []*load{
		startFio(t, lost, newGroup(t, "direct"), "--ioengine=psync", "--rw=randread", "--number_ios=1"),
		startFio(t, lost, newGroup(t, "buffered"), "--ioengine=psync", "--direct=0", "--rw=randread", "--number_ios=1"),
		startFio(t, lost, newGroup(t, "aio"), "--rw=randread", "--number_ios=1"),
	}
	busy := startFio(t, alive, newGroup(t, "alive"), "--ioengine=psync", "--rw=randread", "--time_based", "--runtime=600")
	for lost.inside(t) < len(loads) {
		time.Sleep(10 * time.Millisecond)
	}
	h := hangs{}
	var seen []string
	for begin := time.Now(); time.Since(begin) < after+hungLook; time.Sleep(100 * time.Millisecond) {
		seen = h.look(after)
	}
	found := map[string]bool{}
	for _, id := range seen {
		t.Logf("%s is seen", h[id].name)
		found[id] = true
		if strings.HasPrefix(id, "/proc/") {
			found[strings.TrimPrefix(strings.TrimSpace(lastLine(read(t, filepath.Join(id, "cgroup")))), "0::")] = true
		}
	}
	for _, want := range []string{"/direct", "/buffered", "/sys/block/" + lost.name} {
		if !found[want] {
			t.Errorf("%s hangs and is not seen", want)
		}
	}
	for _, not := range []string{"/alive", "/aio", "/sys/block/" + alive.name} {
		if found[not] {
			t.Errorf("%s is taken for hung", not)
		}
	}
	busy.stop(t)
	lost.fail(t, "lose_every=0")
	for _, l := range loads { // their requests time out
		_ = l.cmd.Wait()
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestHang hangs, for vm-run --hangs, which sees that the VM fails for it. "kernel"
// is a task that waits until a disk is frozen: the kernel's own detection sees it.
// "watch" is one that waits for a request: only the tests' watch does.
func TestHang(t *testing.T) {
	kind := os.Getenv(hangEnv)
	if kind == "" {
		t.Skip("hangs on purpose: vm-run --hangs")
	}
	d := lossy(t, time.Hour)
	d.use(t, "mq-deadline")
	startFio(t, d, newGroup(t, "hangs"), "--ioengine=psync", "--rw=randread", "--number_ios=1")
	for d.inside(t) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if kind == "kernel" {
		must(t, put(d.queue("scheduler"), "none")) // waits until none is in flight
	}
	time.Sleep(5 * hungAfter)
	t.Error("nothing saw that a task hangs")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // no cleanup: it would wait for the disk
}
