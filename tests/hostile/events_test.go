// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/vm"
	"isolio/tests/guest"
	"isolio/tests/hostile/script"
)

// doRemoval takes a disk away while it is used, and brings it back.
func doRemoval(w *world, a *actor, op script.Op) error {
	var disks []*disk
	for _, d := range w.disks {
		if d.mayGo() && !d.isSwap {
			disks = append(disks, d)
		}
	}
	d := pick(disks, op.A)
	if d == nil {
		return errNothing
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.doing.Store("remove " + d.name)
	if loopsAtRemoval {
		liftMax(d)
		a.sleep(200 * time.Millisecond) // what it held is sent on by timers
	}
	w.forgetDisk(d)
	if err := d.powerOff(); err != nil {
		w.fail("%v", err)
	}
	a.doing.Store("wait for the loads of " + d.name + " to end")
	for _, k := range w.keepers {
		for k.d == d && k.pid() != 0 {
			k.signal(unix.SIGKILL)
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, r := range d.regions {
		r.words[wordBegan] = 0
		r.ledger.Forget() // what was in memory is gone
	}
	a.sleep(time.Duration(op.B%400) * time.Millisecond)
	a.doing.Store("return " + d.name)
	if d.network != nil {
		d.network.connections = 1 + int(op.C%mostConnections)
		if changesMeetSwitches {
			w.loading.Lock()
			defer w.loading.Unlock()
		}
		defer w.keepCPUs()()
	}
	if err := d.powerOn(); err != nil {
		w.fail("%v", err)
	}
	d.changed.Store(int64(monotonic()))
	d.present.Store(true)
	return nil
}

// doReset resets an NVMe controller under load: what is in flight is sent again, by hardware
// contexts that are set up anew.
func doReset(w *world, a *actor, op script.Op) error {
	file := pick(list("/sys/class/nvme/nvme*/reset_controller"), op.A)
	if file == "" || resetLoses {
		return errNothing
	}
	defer w.keepCPUs()()
	return a.put(file, "1")
}

// resetLoses is set on kernels whose NVMe driver does not survive resets. Before 6.7 a
// reset takes the lock of CPU hotplug to spread its interrupts, while a CPU that leaves
// holds it and waits for its queue's requests, which wait for the reset (0263f92fadbb,
// "avoid acquiring cpu hotplug lock"). Before 6.9 requests that are sent again use shadow
// doorbells that the controller does not look at yet, and are lost until they time
// out ("nvme-pci: set doorbell config before unquiescing").
var resetLoses = isOlderThan(6, 9)

func isOlderThan(major, minor int) bool {
	var name unix.Utsname
	var hasMajor, hasMinor int
	if unix.Uname(&name) != nil {
		return false
	}
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &hasMajor, &hasMinor)
	return err == nil && (hasMajor < major || hasMajor == major && hasMinor < minor)
}

// forgetDisk keeps what is counted of a disk that is about to go.
func (w *world) forgetDisk(d *disk) {
	d.changed.Store(int64(monotonic()))
	d.present.Store(false)
	d.gone += d.statistics(0, 4, 11, 15)
}

// Modules of schedulers: files, and the scheduler that each makes.
var schedulerModules = []struct{ file, scheduler string }{
	{"kyber-fairness-iosched.ko", "kyber-fairness"}, {"sfq-iosched.ko", "sfq"}, {"rsd-iosched.ko", "rsd"},
	{"kyber-iosched.ko*", "kyber"}, {"bfq.ko*", "bfq"}, {"mq-deadline.ko*", "mq-deadline"},
}

// doModule unloads a scheduler's module and loads it again. Disks that have the
// scheduler get another one first, each second time.
func doModule(w *world, a *actor, op script.Op) error {
	m := pick(schedulerModules, op.A)
	file := pick(list(filepath.Join(vm.ModuleDir, m.file)), 0)
	if file == "" {
		return errNothing // the kernel has it built in
	}
	if op.B%4 != 0 {
		for _, d := range w.disks {
			if _, active := d.schedulers(); active == m.scheduler {
				_ = a.put(d.queue("scheduler"), "none") // it may just have gone
			}
		}
	}
	a.doing.Store("unload " + m.scheduler)
	err := w.unload(m.scheduler, moduleName(file))
	if err == nil {
		w.count("unloads", 1)
	}
	a.sleep(time.Duration(op.C%100) * time.Millisecond)
	a.doing.Store("load " + m.scheduler)
	if looksUpTwice(w.disks) {
		w.loading.Lock()
		defer w.loading.Unlock()
	}
	return errors.Join(err, loadModule(file))
}

// looksUpTwice tells kernels that look a scheduler up by name twice: before they
// allocate what it needs, and when they switch to it. One that is registered in
// between starts with nothing: 7.2's own kyber then oopses, ours fails to start,
// and the directory of the scheduler before stays in sysfs for ever. So no
// scheduler is loaded there while a disk is switched. These kernels have the
// file async_depth.
func looksUpTwice(disks []*disk) bool {
	for _, d := range disks {
		if exists(d.queue("async_depth")) {
			return true
		}
	}
	return false
}

func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// loadModule loads a module that may be there.
func loadModule(file string) error {
	err := guest.LoadModule(file)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

var modelFaults = []string{"refuse_every", "requeue_every", "lose_every", "error_every", "stall_every", "fault_all", "lose_ok", "lose_resets"}

// doModelFault has the first model disk fail so many requests.
func doModelFault(w *world, a *actor, op script.Op) error {
	for _, d := range w.disks {
		if !d.mayFail || d.config == "" {
			continue
		}
		d.faulty.Store(1 << 62)
		every := 3 + op.B%60
		switch op.Kind {
		case "lose":
			every = 50 + op.B%200
			if err := a.putAll(d.config, "lose_resets", op.C%3, "lose_ok", op.C>>2%2); err != nil {
				return err
			}
		case "stall":
			every = 100 + op.B%300
			if err := a.putAll(d.config, "stall_us", op.C%1_000_000); err != nil {
				return err
			}
		}
		return a.putAll(d.config, "fault_all", op.C>>8%2, op.Kind+"_every", every)
	}
	return errNothing
}

const scsiDebug = "/sys/bus/pseudo/drivers/scsi_debug"

// What scsi_debug does with each so many-th command.
const (
	scsiLoses     = 4
	scsiRecovers  = 8
	scsiTransport = 16
	scsiBusy      = 0x8000
)

// doScsiFault has scsi_debug's disk fail each so many-th command.
func doScsiFault(w *world, a *actor, op script.Op) error {
	if !exists(scsiDebug) {
		return errNothing
	}
	for _, d := range w.disks {
		if isScsiDebug(d.name) {
			d.faulty.Store(1 << 62)
			_ = put(d.sys("device/timeout"), "2") // seconds until a lost command times out
		}
	}
	opts, every := pick([]int{scsiRecovers, scsiTransport, scsiBusy, scsiLoses}, op.A), 20+op.B%200
	if opts == scsiLoses {
		every *= 10
	}
	err := a.put(scsiDebug+"/opts", fmt.Sprint(opts))
	return errors.Join(err, a.put(scsiDebug+"/every_nth", fmt.Sprint(every)))
}

func doNoFault(w *world, a *actor, _ script.Op) error {
	for _, d := range w.disks {
		if !d.mayFail || d.config == "" {
			continue
		}
		for _, fault := range modelFaults {
			if err := a.put(filepath.Join(d.config, fault), "0"); err != nil {
				return err
			}
		}
	}
	if exists(scsiDebug) {
		return a.put(scsiDebug+"/every_nth", "0")
	}
	return nil
}

// doMemory limits the memory of the hog's group, so that it swaps, or of a group
// of loads.
func doMemory(w *world, a *actor, op script.Op) error {
	sizes := []string{"24M", "32M", "40M", "64M", "max"}
	if op.A%3 == 0 {
		return a.put(filepath.Join(w.anyGroup(op.B), "memory.high"), pick([]string{"64M", "128M", "max", "max"}, op.C))
	}
	file := pick([]string{"memory.high", "memory.max"}, op.B)
	return a.put(filepath.Join(groupRoot, "memory", file), pick(sizes, op.C))
}

func doSwap(w *world, a *actor, _ script.Op) error {
	for _, d := range w.disks {
		if d.isSwap {
			// All comes back from swap, for which a group with a limit has no room
			// and which takes long while the hog sends more. And swapoff spins while
			// a task that ends has pages there, which that one, at the lowest
			// priority, has hardly any time to give back.
			for _, k := range w.keepers {
				if k.d == nil {
					k.isAway.Store(true)
					defer k.isAway.Store(false)
					a.doing.Store("end of " + k.name)
					k.end()
				}
			}
			for _, file := range []string{"memory.max", "memory.high"} {
				if err := a.put(filepath.Join(groupRoot, "memory", file), "max"); err != nil {
					return err
				}
			}
			a.doing.Store("swapoff and swapon")
			w.swapping.Store(true)
			defer w.swapping.Store(false)
			if err := swap(unix.SYS_SWAPOFF, d); err != nil {
				return err
			}
			return swap(unix.SYS_SWAPON, d)
		}
	}
	return errNothing
}

func doDropCaches(_ *world, a *actor, op script.Op) error {
	return a.put("/proc/sys/vm/drop_caches", fmt.Sprint(1+op.A%3))
}

func doSync(w *world, a *actor, op script.Op) error {
	if op.A%2 == 0 {
		a.doing.Store("sync")
		unix.Sync()
		return nil
	}
	d := pick(w.disks, op.B)
	a.doing.Store("BLKFLSBUF " + d.name)
	return d.ioctl(unix.BLKFLSBUF)
}
