// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disk is a device made through configfs: a null_blk, or a model of a disk.
type disk struct {
	name   string
	config string // its configfs directory
	number string // MAJ:MIN
}

// fast and slow are null_blk settings: 20 us and 32 tags, 5 ms and 2 tags.
var (
	fast = []string{"irqmode=2", "completion_nsec=20000", "hw_queue_depth=32", "submit_queues=1", "size=256"}
	slow = []string{"irqmode=2", "completion_nsec=5000000", "hw_queue_depth=2", "submit_queues=1", "size=256"}
)

var disks int // how many there have been, for names

// newDisk makes a null_blk with the settings; it goes when the test ends.
func newDisk(t *testing.T, settings []string) *disk {
	t.Helper()
	return makeDisk(t, "nullb", settings)
}

// newModelDisk makes a model disk with the settings, files of its directory,
// in their order; it goes when the test ends.
func newModelDisk(t *testing.T, settings []string) *disk {
	t.Helper()
	return makeDisk(t, "modeldisk", settings)
}

// needsTimers skips a test that compares rates, or latencies of few ms, where timers are late. If
// some expire while the handlers of others run, three times in a row, Linux 7 puts off all timers
// by the longest that this ever took since boot. After a test with many requests in flight that
// may be 7 ms, and a disk of 2 ms takes 5. Earlier kernels put them off by what it took then.
func needsTimers(t *testing.T) {
	t.Helper()
	if took := lateBy(t); took > time.Millisecond {
		t.Skipf("the timer interrupt once took %v, and this kernel may put off all timers by that", took)
	}
}

// lateBy is the longest that Linux 7's timer interrupt took since boot, by which it may put off
// all timers; 0 with other kernels.
func lateBy(t *testing.T) time.Duration {
	t.Helper()
	if !strings.HasPrefix(kernelRelease(t), "7.") {
		return 0
	}
	longest := 0
	for line := range strings.Lines(read(t, "/proc/timer_list")) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != ".max_hang_time" {
			continue
		}
		took, err := strconv.Atoi(strings.TrimSpace(value))
		must(t, err)
		longest = max(longest, took)
	}
	return time.Duration(longest)
}

// newSteadyDisk makes a model disk that serves so many requests at a time, each in service.
func newSteadyDisk(t *testing.T, parallel int, service time.Duration) *disk {
	t.Helper()
	ns := service.Nanoseconds()
	return newModelDisk(t, []string{"model=fixed", fmt.Sprint("fixed/parallel=", parallel), fmt.Sprint("tags=", parallel),
		fmt.Sprint("fixed/read_ns=", ns), fmt.Sprint("fixed/write_ns=", ns), "size_mib=256"})
}

func makeDisk(t *testing.T, kind string, settings []string) *disk {
	t.Helper()
	disks++
	d := &disk{name: fmt.Sprint("disk", disks)}
	d.config = filepath.Join("/sys/kernel/config", kind, d.name)
	must(t, os.Mkdir(d.config, 0o755))
	late := lateBy(t)
	t.Cleanup(func() {
		if now := lateBy(t); now > late && now > time.Millisecond {
			t.Logf("from here on this kernel may put off all timers by %v", now)
		}
		if exists(d.config) {
			must(t, os.Remove(d.config))
		}
	})
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		write(t, filepath.Join(d.config, key), value)
	}
	write(t, filepath.Join(d.config, "power"), "1")
	d.number = strings.TrimSpace(read(t, filepath.Join("/sys/block", d.name, "dev")))
	return d
}

func (d *disk) queue(file string) string { return filepath.Join("/sys/block", d.name, "queue", file) }

// schedulers returns the offered schedulers, and the active one.
func (d *disk) schedulers(t *testing.T) (offered []string, active string) {
	t.Helper()
	for name := range strings.FieldsSeq(read(t, d.queue("scheduler"))) {
		if bare := strings.Trim(name, "[]"); bare != name {
			active, name = bare, bare
		}
		offered = append(offered, name)
	}
	return offered, active
}

// use makes name the active scheduler, and checks that it is.
func (d *disk) use(t *testing.T, name string) {
	t.Helper()
	write(t, d.queue("scheduler"), name)
	if _, active := d.schedulers(t); active != name {
		t.Fatalf("%s: scheduler is %q after writing %q", d.name, active, name)
	}
}

// ios is how many reads and writes the disk has completed.
func (d *disk) ios(t *testing.T) int {
	t.Helper()
	fields := strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))
	reads, err := strconv.Atoi(fields[0])
	must(t, err)
	writes, err := strconv.Atoi(fields[4])
	must(t, err)
	return reads + writes
}

// inside is how many reads and writes are in the disk, or queued for it.
func (d *disk) inside(t *testing.T) int {
	t.Helper()
	var reads, writes int
	text := read(t, filepath.Join("/sys/block", d.name, "inflight"))
	if _, err := fmt.Sscan(text, &reads, &writes); err != nil {
		t.Fatalf("%s: inflight: %q: %v", d.name, text, err)
	}
	return reads + writes
}

// logState shows what the disk and its scheduler think, for a test that found
// them stuck.
func (d *disk) logState(t *testing.T) {
	t.Helper()
	t.Logf("%d requests inside", d.inside(t))
	dir := filepath.Join("/sys/kernel/debug/block", d.name)
	for _, name := range []string{"sched/clock", "sched/band", "sched/domains", "sched/queues", "sched/decisions", "hctx*/state", "hctx*/dispatch", "hctx*/busy"} {
		files, err := filepath.Glob(filepath.Join(dir, name))
		must(t, err)
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				t.Logf("%s: %s", strings.TrimPrefix(file, dir+"/"), text)
			}
		}
	}
	logClock(t)
	logBusy(t)
}

// logBusy shows which tasks have had the CPU, by ticks since boot.
func logBusy(t *testing.T) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range stats {
		text, _ := os.ReadFile(file) // the task may have ended
		comm, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 13 && len(f[11])+len(f[12]) > 4 {
			t.Logf("%s): user %s, system %s ticks, state %s", comm, f[11], f[12], f[0])
		}
	}
}

// logClock shows what the kernel measures time with, since rates depend on it, and the end
// of its log.
func logClock(t *testing.T) {
	t.Helper()
	for _, file := range []string{"/sys/devices/system/clocksource/clocksource0/current_clocksource", "/sys/devices/system/clockevents/clockevent0/current_device", "/proc/uptime"} {
		if text, err := os.ReadFile(file); err == nil {
			t.Logf("%s: %s", file, strings.TrimSpace(string(text)))
		}
	}
	for line := range strings.Lines(kernelLog(t)) {
		for _, word := range []string{"clocksource", "hrtimer", "watchdog", "NOHZ", "min_delta"} {
			if strings.Contains(line, word) {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	if text, err := os.ReadFile("/proc/timer_list"); err == nil {
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "hres_active") || strings.Contains(line, "resolution") || strings.Contains(line, "nr_hangs") || strings.Contains(line, "max_hang_time") || strings.Contains(line, "min_delta_ns") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// logProcesses shows where in the kernel the processes of a group are.
func logProcesses(t *testing.T, group string) {
	t.Helper()
	for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
		for _, file := range []string{"stat", "wchan", "stack"} {
			if text, err := os.ReadFile(filepath.Join("/proc", pid, file)); err == nil {
				t.Logf("process %s, %s: %s", pid, file, text)
			}
		}
	}
}

// newGroup makes a cgroup; it goes when the test ends.
func newGroup(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(cgroupRoot, name)
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		if !exists(dir) {
			return
		}
		write(t, filepath.Join(dir, "cgroup.kill"), "1")
		must(t, removeGroup(dir))
	})
	return dir
}

// removeGroup removes a cgroup as soon as its last process is gone.
func removeGroup(dir string) error {
	for try := 0; ; try++ {
		err := os.Remove(dir)
		if !errors.Is(err, unix.EBUSY) || try == 1000 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// load is a running fio.
type load struct {
	disk  *disk
	group string // its cgroup, with nothing else in it
	cmd   *exec.Cmd
	out   bytes.Buffer
}

// startFio runs fio on the disk inside the group. Random blocks are chosen anew each time,
// but for what is verified: a fio that takes each once comes to the last of them in order,
// and those are merged.
func startFio(t *testing.T, d *disk, group string, options ...string) *load {
	t.Helper()
	dir, err := os.Open(group)
	must(t, err)
	defer dir.Close()
	l := &load{disk: d, group: group}
	args := append([]string{
		"--name=load", "--filename=/dev/" + d.name, "--ioengine=libaio", "--direct=1", "--bs=4k",
		"--iodepth=16", "--rw=randrw", "--norandommap=1", "--output-format=terse", "--terse-version=3",
	}, options...)
	l.cmd = exec.Command("fio", args...)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(t, l.cmd.Start())
	return l
}

// wait waits for fio's own end and checks that no I/O failed.
func (l *load) wait(t *testing.T) {
	t.Helper()
	if err := l.cmd.Wait(); err != nil {
		t.Fatalf("fio: %v\n%s", err, l.out.String())
	}
}

// untilBusy waits until the load has done I/O since now: a fio takes a while to
// start, how long differs.
func (l *load) untilBusy(t *testing.T) {
	t.Helper()
	before := readBytes(t, l.group, l.disk)
	for range 3000 { // half a minute: fio takes a second to start on a debugging kernel
		if readBytes(t, l.group, l.disk) > before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.disk.logState(t)
	logProcesses(t, l.group)
	must(t, l.cmd.Process.Kill()) // its output is whole when it has ended
	err := l.cmd.Wait()
	t.Fatalf("%s does no I/O; fio: %v\n%s", l.group, err, l.out.String())
}

// stop ends fio in good order, and checks that it did I/O and that none of it
// failed.
func (l *load) stop(t *testing.T) {
	t.Helper()
	must(t, l.cmd.Process.Signal(unix.SIGINT))
	_ = l.cmd.Wait() // 128 after SIGINT; its I/O errors are what counts
	if l.kib(t) == 0 {
		t.Errorf("fio did no I/O:\n%s", l.out.String())
	}
	if fioErrors(l) {
		t.Errorf("fio saw an error:\n%s", l.out.String())
	}
}

// meanLatency is how long fio's reads and writes took, in microseconds.
func (l *load) meanLatency(t *testing.T) (read, write float64) {
	t.Helper()
	for line := range strings.Lines(l.out.String()) {
		if f := strings.Split(line, ";"); f[0] == "3" && len(f) > 56 {
			return number(t, f[15]), number(t, f[56])
		}
	}
	t.Fatalf("fio told no latencies:\n%s", l.out.String())
	return 0, 0
}

// longestUs is how long the longest of fio's reads and writes took, in microseconds.
func (l *load) longestUs(t *testing.T) (read, write float64) {
	t.Helper()
	for line := range strings.Lines(l.out.String()) {
		if f := strings.Split(line, ";"); f[0] == "3" && len(f) > 55 {
			return number(t, f[14]), number(t, f[55])
		}
	}
	t.Fatalf("fio told no latencies:\n%s", l.out.String())
	return 0, 0
}

// kib is how much fio read and wrote, from its terse line.
func (l *load) kib(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(l.out.String()) {
		if f := strings.Split(line, ";"); f[0] == "3" && len(f) > 46 {
			reads, err := strconv.Atoi(f[5])
			must(t, err)
			writes, err := strconv.Atoi(f[46])
			must(t, err)
			return reads + writes
		}
	}
	t.Fatalf("fio printed no result:\n%s", l.out.String())
	return 0
}

// untilBusy waits until the disk has done I/O since now.
func untilBusy(t *testing.T, d *disk) {
	t.Helper()
	before := d.ios(t)
	for range 500 {
		if d.ios(t) > before+16 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.logState(t)
	t.Fatalf("%s does no I/O", d.name)
}

// discard asks the disk to forget an area: its first byte and its length.
func discard(f *os.File, area *[2]uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(area)))
	if errno != 0 {
		return errno
	}
	return nil
}

// dropCache makes the next read come from the disk.
func dropCache(f *os.File) error {
	return unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0)
}
