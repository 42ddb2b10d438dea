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
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// drive is a disk that operations are sent to: one row of the matrix.
type drive struct {
	*disk
	kind  string
	zoned bool
	slow  bool // some twenty requests a second, or a cipher on an emulated CPU
	// below are the disks that the drive consists of; where it has no scheduler
	// of its own, they have.
	below []*disk
}

// elevators are the disks whose scheduler orders the drive's requests.
func (d *drive) elevators() []*disk {
	if len(d.below) == 0 {
		return []*disk{d.disk}
	}
	return d.below
}

// existing is a disk that is there.
func existing(t *testing.T, name string) *disk {
	t.Helper()
	return &disk{name: name, number: strings.TrimSpace(read(t, filepath.Join("/sys/block", name, "dev")))}
}

// kindOf is a disk's kind: what drives one of the devices that it hangs on.
func kindOf(name string) string {
	dir := filepath.Join("/sys/block", name)
	at, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil || strings.HasPrefix(name, "mmcblk") && strings.Contains(name, "boot") {
		return ""
	}
	for ; at != "/"; at = filepath.Dir(at) {
		driver, err := os.Readlink(filepath.Join(at, "driver"))
		if err != nil {
			continue
		}
		kind := kinds[filepath.Base(driver)]
		if zoned, _ := os.ReadFile(filepath.Join(dir, "queue/zoned")); kind == "nvme" && string(zoned) == "host-managed\n" {
			kind = "nvme-zoned"
		}
		if kind != "" {
			return kind
		}
	}
	return ""
}

// kinds are the kinds by their drivers.
var kinds = map[string]string{
	"nvme": "nvme", "virtio_blk": "virtio-blk", "virtio_scsi": "virtio-scsi", "ahci": "ahci", "megaraid_sas": "megasas", "mptsas": "mptsas",
	"mmcblk": "sd-card", "usb-storage": "usb-storage", "uas": "usb-uas", "scsi_debug": "scsi_debug",
}

// realDisks are the machine's disks by kind, in the order of their names, when
// those of all wanted kinds are there: drivers look for theirs by and by.
func realDisks(t *testing.T, wanted []string) map[string][]*disk {
	t.Helper()
	var found map[string][]*disk
	for range 600 {
		found = map[string][]*disk{}
		entries, err := os.ReadDir("/sys/block")
		must(t, err)
		for _, e := range entries {
			if kind := kindOf(e.Name()); kind != "" {
				found[kind] = append(found[kind], existing(t, e.Name()))
			}
		}
		if !slices.ContainsFunc(wanted, func(kind string) bool { return len(found[kind]) < disksOf[kind] }) {
			return found
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, kind := range wanted {
		t.Logf("%s: %d disks, %d wanted", kind, len(found[kind]), disksOf[kind])
	}
	t.Fatal("not all disks that the machine has were found")
	return nil
}

// disksOf are how many disks there are of a kind.
var disksOf = map[string]int{
	"nvme": 1, "nvme-zoned": 1, "virtio-blk": 2, "virtio-scsi": 2, "ahci": 1, "megasas": 3, "mptsas": 2,
	"sd-card": 1, "usb-storage": 1, "usb-uas": 1, "scsi_debug": 1,
}

// maker makes a drive for the time of a test.
type maker struct {
	kind  string
	needs []string // kinds of real disks
	make  func(t *testing.T, disks map[string][]*disk) *drive
}

// makers are all kinds of drives. For each kind of real disk there is another.
var makers = []maker{
	{"null_blk", nil, func(t *testing.T, _ map[string][]*disk) *drive {
		return &drive{disk: newDisk(t, []string{
			"irqmode=2", "completion_nsec=20000", "hw_queue_depth=32", "submit_queues=2", "size=256", "memory_backed=1", "discard=1",
		})}
	}},
	{"null_blk zoned", nil, func(t *testing.T, _ map[string][]*disk) *drive {
		return &drive{zoned: true, disk: newDisk(t, []string{
			"irqmode=2", "completion_nsec=20000", "hw_queue_depth=32", "submit_queues=2", "size=256", "memory_backed=1",
			"zoned=1", "zone_size=4",
		})}
	}},
	{"modeldisk", nil, func(t *testing.T, _ map[string][]*disk) *drive {
		withModelDisk(t)
		return &drive{disk: newModelDisk(t, []string{
			"model=fixed", "fixed/parallel=32", "fixed/read_ns=20000", "fixed/write_ns=20000",
			"size_mib=256", "memory_backed=1", "tags=32", "queues=2",
		})}
	}},
	{"loop", nil, func(t *testing.T, _ map[string][]*disk) *drive { return &drive{disk: loopDisk(t)} }},
	{"nbd", nil, func(t *testing.T, _ map[string][]*disk) *drive { return &drive{disk: nbdDisk(t)} }},
	{"dm-linear on virtio-blk", []string{"virtio-blk"}, func(t *testing.T, disks map[string][]*disk) *drive {
		base := disks["virtio-blk"][0]
		dm := mapper(t, "linear", fmt.Sprintf("0 %d linear /dev/%s 2048", drives>>9-4096, base.name))
		return &drive{disk: dm, below: []*disk{base}}
	}},
	{"dm-crypt on nvme", []string{"nvme"}, func(t *testing.T, disks map[string][]*disk) *drive {
		base := disks["nvme"][0]
		dm := mapper(t, "crypt", fmt.Sprintf("0 %d crypt aes-xts-plain64 %s 0 /dev/%s 0 1 allow_discards",
			drives>>9, strings.Repeat("0123456789abcdef", 4), base.name))
		return &drive{disk: dm, below: []*disk{base}, slow: true}
	}},
	{"dm-thin on virtio-scsi", []string{"virtio-scsi"}, thinDisk},
	{"dm-multipath on virtio-scsi", []string{"virtio-scsi"}, func(t *testing.T, disks map[string][]*disk) *drive {
		base := disks["virtio-scsi"][0]
		dm := mapper(t, "multipath", fmt.Sprintf("0 %d multipath 0 0 1 1 round-robin 0 1 1 /dev/%s 1000", drives>>9, base.name))
		return &drive{disk: dm, below: []*disk{dm, base}}
	}},
	{"raid1 on megasas", []string{"megasas"}, func(t *testing.T, disks map[string][]*disk) *drive {
		return &drive{disk: mirror(t, disks["megasas"][:2]), below: disks["megasas"][:2]}
	}},
}

// drives is the size of a real disk.
const drives = 256 << 20

// realMaker makes a drive of a real disk: the last of those behind its controller.
func realMaker(kind string) maker {
	return maker{kind, []string{kind}, func(_ *testing.T, disks map[string][]*disk) *drive {
		return &drive{disk: disks[kind][len(disks[kind])-1], zoned: strings.HasSuffix(kind, "-zoned"), slow: kind == "sd-card"}
	}}
}

// mapper makes a device-mapper disk from a table; it goes when the test ends.
func mapper(t *testing.T, name, table string) *disk {
	t.Helper()
	must(t, run("dmsetup", "create", name, "--noudevsync", "--noudevrules", "--table", table))
	t.Cleanup(func() { must(t, run("dmsetup", "remove", "--noudevsync", "--noudevrules", "--retry", name)) })
	files, err := filepath.Glob("/sys/block/dm-*/dm/name")
	must(t, err)
	for _, file := range files {
		if strings.TrimSpace(read(t, file)) == name {
			return existing(t, filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
	}
	t.Fatalf("%s: dmsetup made no disk", name)
	return nil
}

// thinDisk is a thin volume whose pool has its metadata on another disk.
func thinDisk(t *testing.T, disks map[string][]*disk) *drive {
	t.Helper()
	base := disks["virtio-scsi"]
	meta := mapper(t, "meta", fmt.Sprintf("0 32768 linear /dev/%s 0", base[1].name))
	f, err := os.OpenFile("/dev/"+meta.name, os.O_RDWR, 0)
	must(t, err)
	_, err = f.Write(make([]byte, 64<<10)) // the pool makes new metadata
	must(t, errors.Join(err, f.Sync(), f.Close()))
	pool := mapper(t, "pool", fmt.Sprintf("0 %d thin-pool /dev/%s /dev/%s 128 0", drives>>9, meta.name, base[0].name))
	must(t, run("dmsetup", "message", "pool", "0", "create_thin 0"))
	return &drive{disk: mapper(t, "thin", fmt.Sprintf("0 %d thin /dev/%s 0", drives>>9, pool.name)), below: base}
}

// mirror is a RAID 1 of two disks.
func mirror(t *testing.T, disks []*disk) *disk {
	t.Helper()
	must(t, run("mdadm", "--create", "/dev/md0", "--run", "--assume-clean", "--metadata=1.0", "--level=1", "--bitmap=internal",
		"--raid-devices=2", "/dev/"+disks[0].name, "/dev/"+disks[1].name))
	t.Cleanup(func() {
		must(t, run("mdadm", "--stop", "/dev/md0"))
		must(t, run("mdadm", "--zero-superblock", "/dev/"+disks[0].name, "/dev/"+disks[1].name))
	})
	return existing(t, "md0")
}

const (
	loopSetFD   = 0x4c00
	loopClearFD = 0x4c01
)

// loopDisk is a file in memory behind a loop device.
func loopDisk(t *testing.T) *disk {
	t.Helper()
	back, err := os.CreateTemp("", "loop")
	must(t, err)
	defer back.Close()
	must(t, errors.Join(os.Remove(back.Name()), back.Truncate(256<<20)))
	d, _ := attachLoop(t, back)
	return d
}

// A zram disk takes bios, not requests: there is nothing that a scheduler could
// order, and none is offered or taken.
func TestZramRefused(t *testing.T) {
	loaded(t)
	if !exists("/sys/block/zram0") {
		t.Skip("this kernel has no zram")
	}
	zram := existing(t, "zram0")
	if !exists(zram.queue("scheduler")) {
		return // newer kernels do not even have the file
	}
	if offered, _ := zram.schedulers(t); strings.Join(offered, " ") != "none" {
		t.Errorf("zram offers the schedulers %q", offered)
	}
	for _, name := range schedulers {
		err := put(zram.queue("scheduler"), name)
		if now, _ := zram.schedulers(t); strings.Join(now, " ") != "none" {
			t.Errorf("zram has the schedulers %q after writing %s (%v)", now, name, err)
		}
	}
}

// sizeOf is a disk's size in bytes.
func sizeOf(f *os.File) (int64, error) {
	var size uint64
	err := ioctl(f, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return int64(size), err
}

// inGroup starts a process in a cgroup.
func inGroup(dir *os.File) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
}

// attachLoop makes a loop device of an open file until the test ends, and returns the device opened as well.
func attachLoop(t *testing.T, back *os.File) (*disk, *os.File) {
	t.Helper()
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	must(t, err)
	defer ctl.Close()
	n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
	must(t, err)
	name := fmt.Sprint("loop", n)
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
	must(t, err)
	must(t, unix.IoctlSetInt(int(f.Fd()), loopSetFD, int(back.Fd())))
	t.Cleanup(func() { must(t, errors.Join(unix.IoctlSetInt(int(f.Fd()), loopClearFD, 0), f.Close())) })
	return existing(t, name), f
}
