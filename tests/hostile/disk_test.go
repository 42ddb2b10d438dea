// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"isolio/tests/guest"
)

// disk is one disk that the suite torments.
type disk struct {
	name string
	// config is its directory in configfs, "" for a real one.
	config   string
	settings []string
	// mayFail is set where faults are injected, which need not be now.
	mayFail bool
	// isSwap is set where the VM swaps to: it has no other load, and stays.
	isSwap bool
	// isLeg is set where the disk is below the stack: it has no other load either.
	isLeg bool
	// isStack is set for the disk on top.
	isStack bool
	// takesBios is set where no scheduler can be: the kernel refuses all of them.
	takesBios bool
	// network is set for a disk that is away when its connection is.
	network *network
	regions []*region
	// fioFrom is where fio's part begins, in MiB, and fioMiB its size.
	fioFrom, fioMiB int

	mu      sync.Mutex // one removal at a time, and on some kernels no io.max meanwhile
	present atomic.Bool
	changed atomic.Int64 // monotonic() when it was last removed or returned
	faulty  atomic.Int64 // monotonic() until when injected errors may show
	gone    uint64       // requests it did before it was last removed
}

// The disks that the suite makes. Their data is in memory, so that it is checked.
// The faults are injected into the first model disk, through its own files. It
// takes no FUA writes: mq-deadline of 6.1 counts one that the driver gives back
// as inserted, and never as completed, and warns of it in dd_exit_sched().
var made = []struct {
	kind, name string
	mayFail    bool
	settings   []string
}{
	{"nullb", "hna", false, []string{"memory_backed=1", "size=32", "irqmode=2", "completion_nsec=100000", "hw_queue_depth=16", "submit_queues=2", "discard=1"}},
	{"nullb", "hnb", false, []string{"memory_backed=1", "cache_size=4", "size=32", "irqmode=2", "completion_nsec=2000000", "hw_queue_depth=4", "submit_queues=1"}},
	{"nullb", swapDisk, false, []string{"memory_backed=1", "size=64", "irqmode=2", "completion_nsec=200000", "hw_queue_depth=16", "submit_queues=2"}},
	{"modeldisk", "hma", true, []string{"model=fixed", "fixed/parallel=16", "fixed/read_ns=200000", "fixed/write_ns=300000", "memory_backed=1", "write_cache=1", "discard=1", "write_zeroes_kib=1024", "size_mib=32", "tags=32", "queues=2"}},
	{"modeldisk", "hmb", false, []string{"model=fixed", "fixed/parallel=2", "fixed/read_ns=1000000", "fixed/write_ns=1500000", "memory_backed=1", "write_cache=1", "fua=1", "write_zeroes_kib=64", "size_mib=32", "tags=8", "queues=1"}},
}

const swapDisk = "hnw"

// regionsOfDisk are how many a disk has; threads of two workers use them.
const regionsOfDisk = 6

// makeDisks makes the suite's disks and finds the real ones.
func makeDisks(isLight bool) (disks []*disk, err error) {
	for _, m := range made {
		if isLight && m.name == "hnb" {
			continue
		}
		dir := filepath.Join("/sys/kernel/config", m.kind)
		if !exists(dir) {
			continue
		}
		d := &disk{name: m.name, config: filepath.Join(dir, m.name), settings: m.settings, mayFail: m.mayFail, isSwap: m.name == swapDisk}
		if err := os.Mkdir(d.config, 0o755); err != nil {
			return nil, err
		}
		for _, setting := range m.settings {
			key, value, _ := strings.Cut(setting, "=")
			if err := put(filepath.Join(d.config, key), value); err != nil {
				return nil, err
			}
		}
		disks = append(disks, d)
	}
	for _, device := range []func() (*disk, error){loopDisk, networkDisk, zramDisk} {
		d, err := device()
		if err != nil {
			return nil, err
		}
		if d != nil {
			disks = append(disks, d)
		}
	}
	disks = append(disks, realDisks()...)
	if !isLight {
		top, err := stack(disks)
		if err != nil {
			return nil, err
		}
		if top != nil {
			disks = append(disks, top)
		}
	}
	for i, d := range disks {
		if d.mayGo() {
			if err := d.powerOn(); err != nil {
				return nil, err
			}
		}
		d.present.Store(true)
		switch {
		case d.isLeg:
		case d.isSwap:
			err = startSwap(d)
		default:
			err = d.divide(i)
		}
		if err != nil {
			return nil, err
		}
	}
	return disks, nil
}

// loopDisk makes a loop device of a file in memory, if the kernel has them.
func loopDisk() (*disk, error) {
	const device, size = "/dev/loop0", 24 << 20
	if !exists(device) {
		return nil, nil
	}
	file, err := os.OpenFile("/dev/shm/loop0.img", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the device holds it
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(file.Fd())); err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	return &disk{name: "loop0"}, nil
}

// zramDisk is compressed memory, if the kernel has it: a disk that takes bios.
func zramDisk() (*disk, error) {
	d := &disk{name: zram, takesBios: true}
	if !exists(d.sys("disksize")) {
		return nil, nil
	}
	if err := put(d.sys("disksize"), "16M"); err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	return d, nil
}

const zram = "zram0"

// realDisks are those that the VM came with: the guest's root is in memory.
func realDisks() (disks []*disk) {
	names, err := os.ReadDir("/sys/block")
	if err != nil {
		return nil
	}
	for _, entry := range names {
		name := entry.Name()
		for _, prefix := range []string{"vd", "sd", "nvme", "mmcblk"} {
			if strings.HasPrefix(name, prefix) && !strings.Contains(name, "boot") {
				disks = append(disks, &disk{name: name, mayFail: isScsiDebug(name)})
				break
			}
		}
	}
	return disks
}

// isScsiDebug tells a disk of scsi_debug, which can be told to fail.
func isScsiDebug(name string) bool {
	model, err := os.ReadFile(filepath.Join("/sys/block", name, "device/model"))
	return err == nil && strings.HasPrefix(string(model), "scsi_debug")
}

// divide gives the disk its regions, and fio the rest.
func (d *disk) divide(index int) error {
	text, err := os.ReadFile(filepath.Join("/sys/block", d.name, "size"))
	if err != nil {
		return err
	}
	sectors, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	count := min(regionsOfDisk, sectors/2048)
	for n := range count {
		r, err := openRegion(regionOrder{
			Memory:     fmt.Sprintf("/dev/shm/%s.%d", d.name, n),
			ID:         uint64(index+1)<<32 | uint64(n),
			First:      uint64(n) * regionBlocks,
			IsBuffered: n%4 == 3,
		})
		if err != nil {
			return err
		}
		d.regions = append(d.regions, r)
	}
	d.fioFrom = count
	d.fioMiB = min(16, sectors/2048-count)
	return nil
}

// mayGo tells whether the suite can take the disk away and bring it back.
func (d *disk) mayGo() bool { return d.config != "" || d.network != nil }

func (d *disk) powerOn() error {
	if d.network != nil {
		return d.network.connect(d.name)
	}
	if err := put(filepath.Join(d.config, "power"), "1"); err != nil {
		return fmt.Errorf("%s: power on: %w", d.name, err)
	}
	if !d.mayFail {
		return nil // a VM that the host lets wait must not take that for a lost request
	}
	// A lost request times out after this many milliseconds.
	return put(d.queue("io_timeout"), "2000")
}

func (d *disk) powerOff() error {
	if d.network != nil {
		return d.network.nbd.Disconnect()
	}
	if err := put(filepath.Join(d.config, "power"), "0"); err != nil {
		return fmt.Errorf("%s: power off: %w", d.name, err)
	}
	return nil
}

func (d *disk) path() string             { return filepath.Join("/dev", d.name) }
func (d *disk) sys(file string) string   { return filepath.Join("/sys/block", d.name, file) }
func (d *disk) queue(file string) string { return d.sys(filepath.Join("queue", file)) }
func (d *disk) debug() string            { return filepath.Join("/sys/kernel/debug/block", d.name) }

// number is MAJ:MIN, "" while the disk is away.
func (d *disk) number() string {
	text, err := os.ReadFile(d.sys("dev"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// schedulers are those the disk offers, and the active one; "" while it is away.
func (d *disk) schedulers() (offered []string, active string) {
	text, err := os.ReadFile(d.queue("scheduler"))
	if err != nil {
		return nil, ""
	}
	for name := range strings.FieldsSeq(string(text)) {
		if bare := strings.Trim(name, "[]"); bare != name {
			active, name = bare, bare
		}
		offered = append(offered, name)
	}
	return offered, active
}

// requests is how many requests the disk has done in the whole run.
func (d *disk) requests() uint64 { return d.gone + d.statistics(0, 4, 11, 15) }

// statistics sums fields of the disk's stat file; 0 while it is away.
func (d *disk) statistics(fields ...int) (sum uint64) {
	text, err := os.ReadFile(d.sys("stat"))
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	for _, field := range fields {
		if field < len(words) {
			n, _ := strconv.ParseUint(words[field], 10, 64)
			sum += n
		}
	}
	return sum
}

// mayError tells whether an I/O error of now can be one that the suite caused.
func (d *disk) mayError() bool {
	now := int64(monotonic())
	return now < d.faulty.Load() || !d.present.Load() || now-d.changed.Load() < int64(5*time.Second)
}

func put(file, text string) error { return guest.Put(file, text) }

func exists(file string) bool { return guest.Exists(file) }

// get reads a small file and returns its text without white space around it.
func get(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// ioctl without an argument on a disk.
func (d *disk) ioctl(request uint) error {
	f, err := os.Open(d.path())
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}
