// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/vm"
	"isolio/tests/hostile/script"
)

// TestMain refuses to run on anything but a lab VM.
func TestMain(m *testing.M) {
	if code := join(); code != 0 {
		os.Exit(code)
	}
	if text := os.Getenv(workerEnv); text != "" {
		os.Exit(workerMain(text))
	}
	if text := os.Getenv(hogEnv); text != "" {
		os.Exit(hogMain(text))
	}
	if os.Getppid() != 1 || !exists(vm.ModuleDir) {
		println("these tests run in a lab VM only: make vm T=hostile")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestHostile(t *testing.T) {
	choice, err := script.FromEnvironment(os.Getenv)
	must(t, err)
	w := &world{choice: choice, counts: map[string]int{}, defaults: map[string]string{}}
	loadModules(t, []string{"modeldisk.ko", "kyber-fairness-iosched.ko", "sfq-iosched.ko", "rsd-iosched.ko"})
	before := memory(t)
	must(t, makeGroups())
	w.disks, err = makeDisks(choice.IsLight)
	must(t, err)
	for _, d := range w.disks {
		fmt.Printf("HOSTILE has %s: leg %t, stack %t, may fail %t\n", d.name, d.isLeg, d.isStack, d.mayFail)
	}
	for _, d := range w.disks[:1] {
		must(t, w.learnDefaults(d))
	}
	stop := make(chan struct{})
	must(t, w.watch(stop))
	w.startLoads()
	wait := w.startActors()
	time.Sleep(time.Duration(choice.Seconds) * time.Second)

	w.over.Store(true)
	wait()
	w.progress()
	w.relief()
	w.stopLoads()
	w.checkAll()
	w.report()
	w.takeDown(t)
	close(stop)
	w.checkLog(t)
	w.checkMemory(t, before, memory(t))
	fmt.Println("HOSTILE END passed")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func loadModules(t *testing.T, files []string) {
	t.Helper()
	for _, file := range files {
		must(t, loadModule(filepath.Join(vm.ModuleDir, file)))
	}
}

// takeDown removes all that the suite made. That the modules unload shows that
// no disk, group or request uses them any more.
func (w *world) takeDown(t *testing.T) {
	t.Helper()
	for _, name := range append(groupNames, lasting...) {
		must(t, removeEmpty(filepath.Join(groupRoot, name)))
	}
	must(t, removeEmpty(filepath.Join(groupRoot, "deep")))
	must(t, removeEmpty(groupRoot))
	if slices.ContainsFunc(w.disks, func(d *disk) bool { return d.isStack }) {
		must(t, unstack())
	}
	for _, d := range w.disks {
		if d.isSwap {
			must(t, swap(unix.SYS_SWAPOFF, d))
		}
		if !d.takesBios {
			must(t, put(d.queue("scheduler"), "none"))
		}
		if d.mayGo() {
			must(t, d.powerOff())
		}
		if d.config != "" {
			must(t, os.Remove(d.config))
		}
		if d.network != nil {
			must(t, d.network.back.Close())
		}
		if d.name == zram {
			must(t, put(d.sys("reset"), "1"))
		}
		if d.name == "loop0" {
			must(t, d.ioctl(unix.LOOP_CLR_FD))
			must(t, os.Remove("/dev/shm/loop0.img"))
		}
		for _, r := range d.regions {
			must(t, os.Remove(r.Memory))
		}
	}
	for _, name := range []string{"kyber_fairness_iosched", "sfq_iosched", "rsd_iosched", "modeldisk"} {
		err := unix.DeleteModule(name, unix.O_NONBLOCK)
		for try := 0; err != nil && try < 100; try++ { // groups of removed cgroups go by and by
			time.Sleep(50 * time.Millisecond)
			err = unix.DeleteModule(name, unix.O_NONBLOCK)
		}
		if err != nil {
			t.Errorf("%s does not unload when all is gone: %v", name, err)
		}
	}
}

// removeEmpty removes a group whose processes are gone, or about to be.
func removeEmpty(dir string) error {
	for try := 0; ; try++ {
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) {
			return nil
		}
		if try == 200 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *world) checkLog(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.odd {
		t.Errorf("kernel log: %s", line)
	}
}

// usage is what memory the kernel holds, in KiB.
type usage struct{ available, unreclaimable, perCPU int }

// memory measures after caches are dropped and the kernel had time to free.
func memory(t *testing.T) usage {
	t.Helper()
	for range 5 {
		unix.Sync()
		must(t, put("/proc/sys/vm/drop_caches", "3"))
		time.Sleep(200 * time.Millisecond)
	}
	var u usage
	for line := range strings.Lines(get("/proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		number, _ := strconv.Atoi(strings.Fields(rest)[0])
		switch name {
		case "MemAvailable":
			u.available = number
		case "SUnreclaim":
			u.unreclaimable = number
		case "Percpu":
			u.perCPU = number
		}
	}
	return u
}

// checkMemory allows for what grows once: caches of the kernel's slabs, and this
// process.
func (w *world) checkMemory(t *testing.T, before, after usage) {
	t.Helper()
	fmt.Printf("HOSTILE memory available %d to %d KiB, unreclaimable slabs %d to %d KiB, per CPU %d to %d KiB, dying cgroups %s\n",
		before.available, after.available, before.unreclaimable, after.unreclaimable, before.perCPU, after.perCPU,
		strings.Join(strings.Fields(get(cgroupRoot+"/cgroup.stat")), " "))
	const slack = 48 << 10
	if lost := before.available - after.available; lost > slack {
		t.Errorf("%d KiB of memory did not come back", lost)
	}
	if grown := after.unreclaimable - before.unreclaimable; grown > slack/2 {
		t.Errorf("the kernel's slabs grew by %d KiB", grown)
	}
}
