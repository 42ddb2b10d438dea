// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/vm"
)

const failslab = "/sys/kernel/debug/failslab"

// withFailslab skips the test on a kernel that cannot make allocations fail, and
// lets those that may wait fail as well.
func withFailslab(t *testing.T) {
	t.Helper()
	if !exists(failslab) {
		t.Skip("this kernel has no failslab: make vm T=debug")
	}
	write(t, filepath.Join(failslab, "verbose"), "0")
	write(t, filepath.Join(failslab, "ignore-gfp-wait"), "0")
	t.Cleanup(func() {
		write(t, filepath.Join(failslab, "probability"), "0")
		write(t, filepath.Join(failslab, "ignore-gfp-wait"), "1")
	})
}

// failing does something once for each allocation that it makes: the first time
// the first one fails, and so on, until there is none left to fail. check looks
// at what came of it, and takes it back. Only this thread's allocations fail.
func failing(t *testing.T, do func() error, check func(nth int, err error)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file := fmt.Sprintf("/proc/self/task/%d/fail-nth", unix.Gettid())
	fd, err := unix.Open(file, unix.O_RDWR, 0)
	must(t, err)
	defer unix.Close(fd)
	const most = 20000 // more than anything here allocates
	injected := 0
	for nth := 1; nth < most; nth++ {
		must(t, failNth(fd, nth))
		err := do()
		left, failure := failNthLeft(fd)
		must(t, failure)
		must(t, failNth(fd, 0))
		check(nth, err)
		if t.Failed() {
			t.Fatalf("allocation %d, which failed: %v; error %v", nth, left == 0, err)
		}
		if left == 0 {
			injected++
			continue
		}
		if err != nil {
			t.Fatalf("without a failed allocation: %v", err)
		}
		if injected == 0 {
			t.Fatal("there was no allocation to fail")
		}
		t.Logf("each of %d allocations failed once", injected)
		return
	}
	t.Fatalf("it still makes allocations after %d", most)
}

func failNth(fd, nth int) error {
	_, err := unix.Pwrite(fd, []byte(fmt.Sprint(nth)), 0)
	return err
}

// failNthLeft returns how many allocations there were still to be made.
func failNthLeft(fd int) (left int, err error) {
	buf := make([]byte, 32)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(buf[:n]), &left)
	return left, err
}

// noMemory reports whether there is no error but one that says so.
func noMemory(err error) bool { return err == nil || errors.Is(err, unix.ENOMEM) }

// scarceDisk is a disk for failing(): a null_blk has faults of its own to inject,
// and would take the turn of an allocation for one of them.
func scarceDisk(t *testing.T) *disk {
	t.Helper()
	return newModelDisk(t, []string{"model=fixed", "size_mib=64"})
}

// directRead reads 4 KiB at the offset from the disk itself.
func directRead(t *testing.T, d *disk) func(offset int64) error {
	t.Helper()
	fd, err := unix.Open("/dev/"+d.name, unix.O_RDONLY|unix.O_DIRECT, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	page[0] = 1 // have it there
	t.Cleanup(func() { must(t, unix.Munmap(page)) })
	return func(offset int64) error {
		_, err := unix.Pread(fd, page, offset)
		return err
	}
}

// The scheduler comes to a disk or does not, and nothing is left of it.
func TestNoMemoryToChoose(t *testing.T) {
	withFailslab(t)
	withModelDisk(t)
	d := scarceDisk(t)
	newGroup(t, "a")
	readAt := directRead(t, d)
	must(t, readAt(0))
	d.use(t, "none")
	fd, err := unix.Open(d.queue("scheduler"), unix.O_WRONLY, 0)
	must(t, err)
	defer unix.Close(fd)
	choose := func() error {
		_, err := unix.Pwrite(fd, []byte(elevator), 0)
		return err
	}
	failing(t, choose, func(_ int, err error) {
		_, active := d.schedulers(t)
		want := elevator
		if err != nil {
			want = "none"
		}
		if active != want || !noMemory(err) {
			t.Errorf("scheduler is %q, want %q", active, want)
		}
		must(t, readAt(4096))
		d.use(t, "none")
	})
}

// A cgroup is made or not. While it is not, no cgroup has its weight.
func TestNoMemoryForGroup(t *testing.T) {
	withFailslab(t)
	withModelDisk(t)
	d := scarceDisk(t)
	d.use(t, elevator)
	dir := filepath.Join(cgroupRoot, "scarce")
	mkdir := func() error { return unix.Mkdir(dir, 0o755) }
	failing(t, mkdir, func(_ int, err error) {
		if exists(dir) != (err == nil) || !noMemory(err) {
			t.Errorf("the group is there: %v", exists(dir))
		}
		if err == nil {
			if w := weights(t, dir); len(w) != 1 || w[0] != "default 100" {
				t.Errorf("its weights are %q", w)
			}
			must(t, removeGroup(dir))
		}
	})
}

// The first request of a cgroup to a disk makes what the scheduler keeps of the
// two. Without the memory for it the request is dispatched all the same, and the kernel
// charges an ancestor. The next request is charged to the cgroup.
func TestNoMemoryForFirstRequest(t *testing.T) {
	withFailslab(t)
	withModelDisk(t)
	d := scarceDisk(t)
	d.use(t, elevator)
	readAt := directRead(t, d)
	must(t, readAt(0))
	home := func() { write(t, filepath.Join(cgroupRoot, "cgroup.procs"), "0") }
	group := ""
	enter := func(name string) {
		group = newGroup(t, name)
		t.Cleanup(home) // before the group's own, which kills who is in it
		write(t, filepath.Join(group, "cgroup.procs"), "0")
	}
	enter("first")
	charged, elsewhere := 0, 0
	failing(t, func() error { return readAt(4096) }, func(nth int, err error) {
		if !noMemory(err) {
			t.Errorf("reading: %v", err)
		}
		if readBytes(t, group, d) > 0 {
			charged++
		} else if err == nil {
			elsewhere++
		}
		must(t, readAt(8192))
		if !strings.Contains(readStat(t, group), d.number+" ") {
			t.Errorf("the second request is not the group's:\n%s", readStat(t, group))
		}
		home()
		must(t, removeGroup(group))
		enter(fmt.Sprint("first", nth))
	})
	t.Logf("the first request was charged to the group %d times, to one above %d times", charged, elsewhere)
	if elsewhere == 0 {
		t.Error("there was always memory for the group's part of the disk")
	}
}

func readStat(t *testing.T, group string) string {
	t.Helper()
	return read(t, filepath.Join(group, "io.kyber.stat"))
}

// A weight for one disk makes the same as a first request does; it is set or not.
func TestNoMemoryForWeight(t *testing.T) {
	withFailslab(t)
	withModelDisk(t)
	d := scarceDisk(t)
	d.use(t, elevator)
	group, fd := "", -1
	next := func(nth int) {
		group = newGroup(t, fmt.Sprint("weighed", nth))
		var err error
		fd, err = unix.Open(filepath.Join(group, weightFile), unix.O_WRONLY, 0)
		must(t, err)
	}
	next(0)
	text := []byte(d.number + " 321")
	set := func() error {
		_, err := unix.Pwrite(fd, text, 0)
		return err
	}
	failing(t, set, func(nth int, err error) {
		must(t, unix.Close(fd))
		if w := weights(t, group); (len(w) == 2) != (err == nil) || !noMemory(err) {
			t.Errorf("the weights are %q", w)
		}
		must(t, removeGroup(group))
		next(nth)
	})
	must(t, unix.Close(fd))
}

// failingBelow lets only allocations fail that the kernel's function makes, or
// whom it calls, but for those below another function.
func failingBelow(t *testing.T, function, except string) {
	t.Helper()
	for which, name := range map[string]string{"require": function, "reject": except} {
		start, end := addresses(t, name)
		write(t, filepath.Join(failslab, which+"-start"), fmt.Sprintf("%#x", start))
		write(t, filepath.Join(failslab, which+"-end"), fmt.Sprintf("%#x", end))
	}
	t.Cleanup(func() { // the kernel's defaults: all, and none
		write(t, filepath.Join(failslab, "require-start"), "0")
		write(t, filepath.Join(failslab, "require-end"), "0xffffffffffffffff")
		write(t, filepath.Join(failslab, "reject-start"), "0")
		write(t, filepath.Join(failslab, "reject-end"), "0")
	})
}

// addresses returns where a function of the kernel begins, and the next one.
func addresses(t *testing.T, function string) (start, end uint64) {
	t.Helper()
	var all []uint64
	for line := range strings.Lines(read(t, "/proc/kallsyms")) {
		fields := strings.Fields(line)
		address, err := strconv.ParseUint(fields[0], 16, 64)
		must(t, err)
		if fields[2] == function {
			start = address
		}
		all = append(all, address)
	}
	if start == 0 {
		t.Fatalf("the kernel has no function %s", function)
	}
	end = math.MaxUint64
	for _, address := range all {
		if address > start {
			end = min(end, address)
		}
	}
	return start, end
}

// A module is loaded or not, and what is loaded can go again. What fails is what
// its initialisation allocates to get at the kernel's BTF, and to register. Reading
// the BTF is left out, as each of its thousand pages is an allocation of the same
// kind; so are the cgroup's files: the kernel itself warns of files and
// tracepoints that it has no memory for.
func TestNoMemoryToLoad(t *testing.T) {
	withFailslab(t)
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	newGroup(t, "a")
	f, err := os.Open(filepath.Join(vm.ModuleDir, moduleFile))
	must(t, err)
	defer f.Close()
	insert := func() error { return unix.FinitModule(int(f.Fd()), "", 0) }
	for _, function := range []string{"kern_mount", "file_open_root", "blkcg_policy_register"} {
		failingBelow(t, function, "cgroup_add_cftypes")
		failing(t, insert, func(_ int, err error) {
			if there := moduleLoaded(t); there != (err == nil) {
				t.Errorf("the module is there: %v", there)
			}
			if err == nil {
				must(t, unloadModule())
			}
		})
	}
	must(t, loadModule())
}

// Half of all allocations that may not wait fail, while groups come and go and
// schedulers change under load.
func TestNoMemoryUnderLoad(t *testing.T) {
	withFailslab(t)
	onDisks(t, func(t *testing.T, d *disk) {
		d.use(t, elevator)
		loads := startLoads(t, d)
		untilBusy(t, d)
		write(t, filepath.Join(failslab, "ignore-gfp-wait"), "1")
		write(t, filepath.Join(failslab, "times"), "-1")
		write(t, filepath.Join(failslab, "probability"), "50")
		for i := range len(others) {
			group := newGroup(t, fmt.Sprint("scarce", i))
			startFio(t, d, group, "--size=128k").wait(t)
			must(t, removeGroup(group))
			d.use(t, others[i])
			d.use(t, elevator)
		}
		write(t, filepath.Join(failslab, "probability"), "0")
		untilBusy(t, d)
		stopLoads(t, d, loads)
	})
}
