// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestModuleLoads(t *testing.T) {
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	d := newDisk(t, fast)
	if offered, _ := d.schedulers(t); slices.Contains(offered, elevator) {
		t.Fatalf("%s is offered before its module is loaded", elevator)
	}
	must(t, loadModule())
	if offered, _ := d.schedulers(t); !slices.Contains(offered, elevator) {
		t.Errorf("%s is not among the offered %v", elevator, offered)
	}
	expectErrno(t, "loading it again", loadModule(), unix.EEXIST)
	must(t, unloadModule())
	if offered, _ := d.schedulers(t); slices.Contains(offered, elevator) {
		t.Errorf("%s is still offered after unloading", elevator)
	}
}

func TestSwitchByName(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	d.use(t, elevator) // again is no error
	for _, other := range others {
		d.use(t, other)
		d.use(t, elevator)
	}
	expectErrno(t, "an unknown scheduler", put(d.queue("scheduler"), "no-such"), unix.EINVAL)
	if _, active := d.schedulers(t); active != elevator {
		t.Errorf("scheduler is %q after a refused name", active)
	}
	if exists(d.queue("iosched")) {
		for _, f := range list(t, d.queue("iosched")) { // every tunable reads
			read(t, filepath.Join(d.queue("iosched"), f))
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Under every scheduler of the round the disk has to make progress, and fio
// must not see an error.
func TestSwitchUnderLoad(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	loads := startLoads(t, d)
	for range 5 {
		for _, other := range others {
			d.use(t, elevator)
			untilBusy(t, d)
			d.use(t, other)
			untilBusy(t, d)
		}
	}
	d.use(t, elevator)
	untilBusy(t, d)
	stopLoads(t, d, loads)
}

// The state of a scheduler may be read while it comes and goes: what a file shows is of the
// one that the disk has, or the read fails.
func TestStateReadDuringSwitch(t *testing.T) {
	withGuard(t)
	d := newDisk(t, fast)
	stop, sum := make(chan struct{}), make(chan int)
	go func() {
		texts := 0
		for {
			select {
			case <-stop:
				sum <- texts
				return
			default:
			}
			for _, pattern := range []string{"sched/*", "hctx*/sched/*"} {
				files, _ := filepath.Glob(filepath.Join("/sys/kernel/debug/block", d.name, pattern)) // the pattern is right
				for _, file := range files {
					if text, err := os.ReadFile(file); err == nil && len(text) > 0 { // else it has just gone
						texts++
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	loads := startLoads(t, d)
	for range 10 {
		for _, scheduler := range append(slices.Clone(guarded), "none") {
			d.use(t, scheduler)
			untilBusy(t, d)
		}
	}
	close(stop)
	if texts := <-sum; texts < 100 {
		t.Errorf("%d files were read during 40 switches, want 100 and more", texts)
	}
	stopLoads(t, d, loads)
}

func TestUnloadRefusedWhileActive(t *testing.T) {
	loaded(t)
	d, spare := newDisk(t, fast), newDisk(t, fast)
	group := newGroup(t, "a")
	d.use(t, elevator)
	spare.use(t, elevator)
	expectErrno(t, "unloading with two disks", unloadModule(), unix.EAGAIN, unix.EBUSY)
	spare.use(t, "none")
	expectErrno(t, "unloading with one disk", unloadModule(), unix.EAGAIN, unix.EBUSY)
	startFio(t, d, group, "--size=4m").wait(t)
	d.use(t, "none")
	must(t, unloadModule())
	if exists(filepath.Join(group, weightFile)) {
		t.Errorf("%s is still there after unloading", weightFile)
	}
}

// A file in debugfs may be open when its scheduler leaves the disk, and its module the kernel. It
// tells nothing then, and is closed like any other.
func TestDebugfsFileOutlivesModule(t *testing.T) {
	loaded(t)
	withSFQ(t)
	for _, m := range []struct{ elevator, module, file string }{
		{elevator, moduleName, "sched/clock"},
		{elevator, moduleName, "sched/queues"},
		{"sfq", sfqModuleName, "sched/queues"},
	} {
		if !inserted(t, m.module) {
			must(t, insertModule(m.elevator+"-iosched.ko"))
		}
		d := newDisk(t, fast)
		d.use(t, m.elevator)
		f, err := os.Open(filepath.Join("/sys/kernel/debug/block", d.name, m.file))
		if os.IsNotExist(err) {
			t.Skipf("this kernel has no such file: %v", err)
		}
		must(t, err)
		if _, err := f.Read(make([]byte, 16)); err != nil {
			t.Errorf("%s: %v", m.file, err)
		}
		d.use(t, "none")
		must(t, unix.DeleteModule(m.module, unix.O_NONBLOCK))
		_, err = f.Read(make([]byte, 16))
		if err == nil {
			t.Errorf("%s is still read once its module is unloaded", m.file)
		}
		must(t, f.Close())
	}
}

func TestReloadLoop(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	group := newGroup(t, "a")
	for range 20 {
		if !moduleLoaded(t) {
			must(t, loadModule())
		}
		d.use(t, elevator)
		write(t, filepath.Join(group, weightFile), "200")
		startFio(t, d, group, "--size=256k").wait(t)
		d.use(t, "none")
		must(t, unloadModule())
	}
}

// A disk may go with requests queued: the load ends, with errors, and the
// weight that was set for the disk goes too.
func TestDeviceRemovedUnderLoad(t *testing.T) {
	loaded(t)
	group := newGroup(t, "a")
	for range 5 {
		d := newDisk(t, fast)
		d.use(t, elevator)
		write(t, filepath.Join(group, weightFile), d.number+" 77")
		l := startFio(t, d, group, "--time_based", "--runtime=60", "--iodepth=128")
		untilBusy(t, d)
		write(t, filepath.Join(d.config, "power"), "0")
		if err := l.cmd.Wait(); err == nil {
			t.Error("fio did not notice that its disk is gone")
		}
		must(t, os.Remove(d.config))
		if w := weights(t, group); len(w) != 1 {
			t.Errorf("the gone disk's weight is still there: %v", w)
		}
	}
}

// A scheduler is chosen with the disk's queue frozen: memory that is had by writing to that disk
// never comes. So none of its allocations may start I/O.
func TestAllocationsWhileFrozenStartNoIO(t *testing.T) {
	withGuard(t)
	loaded(t)
	d := newDisk(t, fast)
	events, err := filepath.Glob("/sys/kernel/tracing/events/kmem/km*alloc*/enable")
	must(t, err)
	if len(events) == 0 {
		t.Skip("this kernel does not trace allocations")
	}
	enable := func(value string) {
		for _, file := range events {
			write(t, file, value)
		}
	}
	enable("1")
	t.Cleanup(func() { enable("0") })
	for _, scheduler := range guarded {
		d.use(t, "none")
		write(t, "/sys/kernel/tracing/trace", "")
		d.use(t, scheduler)
		allocations := 0
		for line := range strings.Lines(read(t, "/sys/kernel/tracing/trace")) {
			_, site, ok := strings.Cut(line, "call_site=")
			if !ok || !strings.Contains(site, "["+strings.ReplaceAll(scheduler, "-", "_")+"_iosched]") {
				continue
			}
			allocations++
			if strings.Contains(site, "gfp_flags=GFP_KERNEL") {
				t.Errorf("%s: %s", scheduler, strings.TrimSpace(site))
			}
		}
		if allocations == 0 {
			t.Errorf("%s: no allocation was traced", scheduler)
		}
	}
}
