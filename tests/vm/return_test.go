// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scsiDebug makes disks of scsi_debug, which ask for no hardware.
const scsiDebug = "/sys/bus/pseudo/drivers/scsi_debug/add_host"

// A disk of scsi_debug goes and comes back: a block layer that keeps the hardware queues of a
// SCSI device, but not their directories in debugfs, must not be led back to those.
func TestSCSIDiskReturns(t *testing.T) {
	if !exists(scsiDebug) {
		t.Skip("this kernel has no scsi_debug")
	}
	loaded(t)
	withGuard(t)
	if len(disksBelow(t, "/sys/devices/pseudo_0")) == 0 {
		write(t, scsiDebug, "1")
		t.Cleanup(func() { write(t, scsiDebug, "-1") })
	}
	returns(t, untilDisks(t, "/sys/devices/pseudo_0", 1)[0])
}

// The same for each kind of disk that the machine has, by each driver that it hangs on. Takes a
// machine with disks: vm-run --kernel 7.2-generic --disks all.
func TestRealDisksReturn(t *testing.T) {
	wanted := os.Getenv("ISOLIO_DISKS")
	if wanted == "" {
		t.Skip("no disks of real drivers: vm-run --kernel 7.2-generic --disks all")
	}
	loaded(t)
	withGuard(t)
	kinds := strings.Split(wanted, ",")
	disks := realDisks(t, kinds)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { returns(t, disks[kind][0]) })
	}
}

// returns has a disk leave and return by each of its drivers, under load and idle. A scheduler is
// chosen before that, or for the first time once the disk is back, as a udev rule does.
func returns(t *testing.T, d *disk) {
	t.Helper()
	group := newGroup(t, "returning")
	for _, parent := range driversOf(t, d) {
		for _, scheduler := range guarded {
			for _, before := range []string{"mq-deadline", scheduler} {
				t.Logf("%s: %s is unbound from %s, under %s", scheduler, filepath.Base(parent.device), filepath.Base(parent.driver), before)
				d.use(t, before)
				readFirst(t, d)
				var l *load
				if before == scheduler {
					l = startFio(t, d, group, "--time_based", "--runtime=600", "--rw=randread")
					untilBusy(t, d)
				}
				n := len(disksBelow(t, parent.device))
				write(t, filepath.Join(parent.driver, "unbind"), filepath.Base(parent.device))
				untilNoDisk(t, parent.device)
				if l != nil {
					write(t, filepath.Join(group, "cgroup.kill"), "1") // where it has not ended with errors
					_ = l.cmd.Wait()
				}
				write(t, filepath.Join(parent.driver, "bind"), filepath.Base(parent.device))
				d = untilTakeSchedulers(t, parent.device, n)
				for range 4 {
					for _, after := range []string{scheduler, "mq-deadline"} {
						d.use(t, after)
						readFirst(t, d)
						showState(t, d)
					}
				}
				d.use(t, "none")
			}
		}
	}
}

// bound is a device and the driver that it is bound to.
type bound struct{ device, driver string }

// driversOf are the drivers that a disk hangs on, the nearest first, which take an unbind.
func driversOf(t *testing.T, d *disk) []bound {
	t.Helper()
	at, err := filepath.EvalSymlinks(filepath.Join("/sys/block", d.name, "device"))
	must(t, err)
	var found []bound
	for ; at != "/sys/devices"; at = filepath.Dir(at) {
		driver, err := filepath.EvalSymlinks(filepath.Join(at, "driver"))
		if err == nil && exists(filepath.Join(driver, "unbind")) && !isBridge(driver) {
			found = append(found, bound{at, driver})
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s hangs on no driver that can be unbound", d.name)
	}
	return found
}

// isBridge tells drivers whose devices carry more than disks.
func isBridge(driver string) bool {
	return slices.Contains([]string{"pcieport", "usb", "hub", "scsi_debug"}, filepath.Base(driver))
}

// disksBelow are the disks whose device is below a directory of /sys/devices.
func disksBelow(t *testing.T, dir string) []*disk {
	t.Helper()
	entries, err := os.ReadDir("/sys/block")
	must(t, err)
	var found []*disk
	for _, e := range entries {
		at, err := filepath.EvalSymlinks(filepath.Join("/sys/block", e.Name()))
		if err == nil && strings.HasPrefix(at, dir+"/") && exists(filepath.Join(at, "queue/scheduler")) && kindOf(e.Name()) != "" {
			found = append(found, existing(t, e.Name()))
		}
	}
	return found
}

// untilDisks waits for so many disks below a directory, and for their device files.
func untilDisks(t *testing.T, dir string, n int) []*disk {
	t.Helper()
	for range 600 {
		found := disksBelow(t, dir)
		if len(found) >= n && exists(filepath.Join("/dev", found[0].name)) {
			return found
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: no disk in 30 s", dir)
	return nil
}

// untilTakeSchedulers waits for so many disks below a directory, and until each takes a scheduler:
// Linux 7 refuses one with EBUSY while another disk of the same controller is made.
func untilTakeSchedulers(t *testing.T, dir string, n int) *disk {
	t.Helper()
	var err error
	for range 600 {
		disks := untilDisks(t, dir, n)
		err = nil
		for _, d := range disks {
			err = errors.Join(err, os.WriteFile(d.queue("scheduler"), []byte("mq-deadline"), 0))
		}
		if err == nil {
			return disks[0]
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: its disks take no scheduler in 30 s: %v", dir, err)
	return nil
}

func untilNoDisk(t *testing.T, dir string) {
	t.Helper()
	for range 600 {
		if len(disksBelow(t, dir)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: its disk is there 30 s after it was unbound", dir)
}

// readFirst reads the start of a disk.
func readFirst(t *testing.T, d *disk) {
	t.Helper()
	f, err := os.Open(filepath.Join("/dev", d.name))
	must(t, err)
	defer f.Close()
	must(t, dropCache(f))
	if _, err := f.Read(make([]byte, 1<<16)); err != nil {
		t.Errorf("%s: %v", d.name, err)
	}
}

// showState reads what the scheduler has in debugfs, all of it.
func showState(t *testing.T, d *disk) {
	t.Helper()
	for _, pattern := range []string{"sched/*", "hctx*/sched/*"} {
		files, err := filepath.Glob(filepath.Join("/sys/kernel/debug/block", d.name, pattern))
		must(t, err)
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Error(fmt.Errorf("%s: %w", d.name, err))
			}
		}
	}
}
