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
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// operation is one thing that a program, a file system or an administrator asks of
// a disk.
type operation struct {
	name string
	do   func(*target) error
	when when
}

// when is whether a load is on the disk during an operation.
type when int

const (
	always when = iota
	// idle: while there is swap on a disk, the kernel lets nothing else write to it.
	idle
	// busy: file systems take seconds to make.
	busy
)

// isDone reports whether the operation is done on a disk with or without a load.
func (o operation) isDone(load bool) bool {
	return o.when == always || (o.when == busy) == load
}

// target is what an operation is sent to: an area at the beginning of a disk, which
// a load leaves alone.
type target struct {
	path  string
	name  string   // of the disk, below /sys/block
	file  *os.File // with O_DIRECT
	area  int64    // bytes
	round int      // counts the cells of the matrix, so that no two write the same
}

// errUnsupported is what an operation returns that the disk or the kernel has not.
var errUnsupported = errors.New("not supported")

// unsupported makes an error that says as much of the kernel's answers that do:
// those to ioctls that a driver does not know, and to requests that a disk lacks.
func unsupported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
		return errUnsupported
	}
	return err
}

// operations are those of disks that are written anywhere.
var operations = []operation{
	{name: "read", do: readBoth},
	{name: "write", do: func(g *target) error { return g.writeAndCompare(4096, 0, 0) }},
	{name: "write 1 MiB", do: func(g *target) error { return g.writeAndCompare(1<<20, 0, 0) }},
	{name: "flush", do: func(g *target) error { return g.file.Sync() }},
	{name: "FUA write", do: func(g *target) error { return g.writeAndCompare(4096, unix.O_DSYNC, 0) }},
	{name: "FUA write of one call", do: func(g *target) error { return g.writeAndCompare(4096, 0, unix.RWF_DSYNC) }},
	{name: "buffered write and flush", do: bufferedWrite},
	{name: "discard", do: func(g *target) error { return g.eraseArea(unix.BLKDISCARD) }},
	{name: "secure erase", do: func(g *target) error { return g.eraseArea(unix.BLKSECDISCARD) }},
	{name: "write zeroes", do: func(g *target) error { return g.zero(func() error { return g.eraseArea(unix.BLKZEROOUT) }) }},
	{name: "zero range", do: func(g *target) error { return g.zero(func() error { return g.fallocate(unix.FALLOC_FL_ZERO_RANGE) }) }},
	{name: "punch hole", do: func(g *target) error { return g.zero(func() error { return g.fallocate(unix.FALLOC_FL_PUNCH_HOLE) }) }},
	{name: "SCSI inquiry", do: scsiInquiry},
	{name: "SCSI read", do: scsiRead},
	{name: "SCSI write", do: scsiWrite},
	{name: "SCSI flush", do: scsiFlush},
	{name: "NVMe identify", do: nvmeIdentify},
	{name: "NVMe read", do: nvmeRead},
	{name: "NVMe write", do: nvmeWrite},
	{name: "NVMe flush", do: nvmeFlush},
	{name: "MMC status", do: mmcStatus},
	{name: "MMC read", do: mmcRead},
	{name: "virtio serial number", do: virtioSerial},
	{name: "swap", do: swapOn, when: idle},
	{name: "ext4", when: busy, do: func(g *target) error {
		return g.fileSystem("ext4", "-q", "-F", "-b", "1024", g.path, fmt.Sprint(g.area>>10))
	}},
	{name: "xfs", when: busy, do: func(g *target) error {
		return g.fileSystem("xfs", "-q", "-f", "--unsupported", "-d", fmt.Sprint("size=", g.area), g.path)
	}},
	{name: "btrfs", when: busy, do: func(g *target) error {
		return g.fileSystem("btrfs", "-q", "-f", "--mixed", "-b", fmt.Sprint(g.area), g.path)
	}},
}

// aligned is memory that O_DIRECT takes; it holds a pattern of the seed.
func aligned(size, seed int) []byte {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err) // no memory
	}
	for i := 0; seed != 0 && i < size; i += 8 {
		*(*uint64)(unsafe.Pointer(&b[i])) = uint64(seed)<<32 | uint64(i)
	}
	return b
}

func readBoth(g *target) error {
	for _, size := range []int{4096, 128 << 10} {
		b := aligned(size, 0)
		defer func() { _ = unix.Munmap(b) }()
		if _, err := g.file.ReadAt(b, 0); err != nil {
			return err
		}
	}
	return nil
}

// writeAndCompare writes with the flags of open and of the call, and reads it back.
func (g *target) writeAndCompare(size, open, call int) error {
	f, err := os.OpenFile(g.path, os.O_RDWR|unix.O_DIRECT|open, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, back := aligned(size, g.round), aligned(size, 0)
	defer func() { _ = unix.Munmap(b) }()
	defer func() { _ = unix.Munmap(back) }()
	if n, err := unix.Pwritev2(int(f.Fd()), [][]byte{b}, 1<<20, call); err != nil || n != size {
		return fmt.Errorf("wrote %d of %d bytes: %w", n, size, err)
	}
	if _, err := g.file.ReadAt(back, 1<<20); err != nil {
		return err
	}
	if !bytes.Equal(b, back) {
		return errors.New("what was written is not there")
	}
	return nil
}

// bufferedWrite dirties the page cache, and waits until the disk has it for good.
func bufferedWrite(g *target) error {
	f, err := os.OpenFile(g.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := aligned(256<<10, g.round)
	defer func() { _ = unix.Munmap(b) }()
	if _, err := f.WriteAt(b, 4<<20); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return err
	}
	back := aligned(256<<10, 0)
	defer func() { _ = unix.Munmap(back) }()
	if _, err := g.file.ReadAt(back, 4<<20); err != nil {
		return err
	}
	if !bytes.Equal(b, back) {
		return errors.New("what was written is not there")
	}
	return nil
}

// Where an operation erases, and how much: more than a disk takes in one request.
const erasedAt, erased = 8 << 20, 4 << 20

func (g *target) eraseArea(request uint) error {
	area := [2]uint64{erasedAt, erased}
	return unsupported(ioctl(g.file, request, unsafe.Pointer(&area)))
}

func (g *target) fallocate(how uint32) error {
	return unsupported(unix.Fallocate(int(g.file.Fd()), how|unix.FALLOC_FL_KEEP_SIZE, erasedAt, erased))
}

// zero writes where it is to be erased, erases it, and reads zeroes.
func (g *target) zero(erase func() error) error {
	b := aligned(64<<10, g.round)
	defer func() { _ = unix.Munmap(b) }()
	if _, err := g.file.WriteAt(b, erasedAt); err != nil {
		return err
	}
	if err := erase(); err != nil {
		return err
	}
	if _, err := g.file.ReadAt(b, erasedAt); err != nil {
		return err
	}
	if len(bytes.Trim(b, "\x00")) > 0 {
		return errors.New("what was erased is still there")
	}
	return nil
}

func ioctl(f *os.File, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// fileSystem makes one in the area, writes to it, and finds it there when it is
// mounted once more.
func (g *target) fileSystem(kind string, mkfs ...string) error {
	if !knownFileSystem(kind) {
		return errUnsupported
	}
	if err := run("mkfs."+kind, mkfs...); err != nil {
		return err
	}
	at, err := os.MkdirTemp("", "mnt")
	if err != nil {
		return err
	}
	defer os.Remove(at)
	text := bytes.Repeat([]byte(fmt.Sprintln(g.path, g.round)), 10000)
	err = mounted(g.path, at, kind, func() error {
		f, err := os.Create(filepath.Join(at, "file"))
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Sync(), f.Close(), os.Mkdir(filepath.Join(at, "directory"), 0o755))
	})
	if err != nil {
		return err
	}
	return mounted(g.path, at, kind, func() error {
		back, err := os.ReadFile(filepath.Join(at, "file"))
		if err == nil && !bytes.Equal(text, back) {
			err = errors.New("a file is not as it was written")
		}
		return err
	})
}

func mounted(path, at, kind string, do func() error) error {
	if err := unix.Mount(path, at, kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", kind, err)
	}
	return errors.Join(do(), unix.Unmount(at, 0))
}

func knownFileSystem(kind string) bool {
	text, err := os.ReadFile("/proc/filesystems")
	return err == nil && strings.Contains(string(text), "\t"+kind+"\n")
}

// run runs a program; the error has what it said.
func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return err
}

// swapper is the environment variable that makes the test program one that uses
// more memory than its cgroup has.
const swapper = "ISOLIO_SWAPPER"

// swapOn has a process of little memory swap to the disk.
func swapOn(g *target) error {
	if strings.HasPrefix(g.name, "loop") || strings.HasPrefix(g.name, "nbd") {
		return errUnsupported // what is behind it is memory, of the process that is to give up memory or of this one
	}
	if err := makeSwap(g.file, g.area); err != nil {
		return err
	}
	path, err := unix.BytePtrFromString(g.path)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		return fmt.Errorf("swapon: %w", errno)
	}
	err = swapOut(filepath.Join(cgroupRoot, "swapper"))
	if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		err = errors.Join(err, fmt.Errorf("swapoff: %w", errno))
	}
	return err
}

// makeSwap writes what mkswap would.
func makeSwap(f *os.File, size int64) error {
	page := aligned(4096, 0)
	defer func() { _ = unix.Munmap(page) }()
	*(*uint32)(unsafe.Pointer(&page[1024])) = 1 // version
	*(*uint32)(unsafe.Pointer(&page[1028])) = uint32(size>>12) - 1
	copy(page[4086:], "SWAPSPACE2")
	_, err := f.WriteAt(page, 0)
	return err
}

// Memory that the process uses besides its own, and how much of both may be in
// memory: a few MiB are swapped out.
const swapperBytes, swapperMax = 12 << 20, 12 << 20

func swapOut(group string) error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	defer func() { _ = removeGroup(group) }()
	if err := put(filepath.Join(group, "memory.max"), fmt.Sprint(swapperMax)); err != nil {
		return err
	}
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	defer dir.Close()
	self := exec.Command("/proc/self/exe")
	self.Env = []string{swapper + "=1", "GOMAXPROCS=1"}
	self.SysProcAttr = inGroup(dir)
	if out, err := self.CombinedOutput(); err != nil {
		return fmt.Errorf("a process that swaps: %w: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(group, "memory.stat"))
	if err == nil && !strings.Contains(string(text), "pswpout") { // 6.12 and newer count it
		return nil
	}
	if err == nil && strings.Contains(string(text), "pswpout 0\n") {
		err = errors.New("nothing was swapped out")
	}
	return err
}

// swapPages is the process that swapOut starts. It reads backwards: the pages that
// it used last are in memory, and of the others each is read once.
func swapPages() error {
	b := aligned(swapperBytes, 1)
	for i := len(b) - 4096; i >= 0; i -= 4096 {
		if got, want := *(*uint64)(unsafe.Pointer(&b[i])), uint64(1)<<32|uint64(i); got != want {
			return fmt.Errorf("memory at %d is %#x, want %#x", i, got, want)
		}
	}
	return nil
}

// zoneOperations are those of disks whose zones are written in order.
var zoneOperations = []operation{
	{name: "report zones", do: func(g *target) error { _, err := g.zones(1); return err }},
	{name: "reset zone", do: func(g *target) error { return g.zone(blkResetZone) }},
	{name: "open zone", do: func(g *target) error { return g.zone(blkOpenZone) }},
	{name: "write", do: writeZone},
	{name: "read", do: readBoth},
	{name: "flush", do: func(g *target) error { return g.file.Sync() }},
	{name: "close zone", do: func(g *target) error { return g.zone(blkCloseZone) }},
	{name: "finish zone", do: func(g *target) error { return g.zone(blkFinishZone) }},
	{name: "reset full zone", do: func(g *target) error { return g.zone(blkResetZone) }},
	{name: "NVMe identify", do: nvmeIdentify},
	{name: "NVMe read", do: nvmeRead},
	{name: "NVMe flush", do: nvmeFlush},
}

const (
	blkReportZone = 0xc0101282
	blkResetZone  = 0x40101283
	blkOpenZone   = 0x40101286
	blkCloseZone  = 0x40101287
	blkFinishZone = 0x40101288
)

// zoneReport is the kernel's struct blk_zone_report with room for some zones.
type zoneReport struct {
	sector       uint64
	count, flags uint32
	zones        [4]struct {
		start, length, pointer uint64 // sectors
		_                      [40]byte
	}
}

func (g *target) zones(count uint32) (*zoneReport, error) {
	r := &zoneReport{count: count}
	err := ioctl(g.file, blkReportZone, unsafe.Pointer(r))
	if err == nil && (r.count != count || r.zones[0].length == 0) {
		err = fmt.Errorf("%d zones, the first of %d sectors", r.count, r.zones[0].length)
	}
	return r, err
}

// zone asks something of the first zone.
func (g *target) zone(request uint) error {
	r, err := g.zones(1)
	if err != nil {
		return err
	}
	span := [2]uint64{r.zones[0].start, r.zones[0].length}
	return ioctl(g.file, request, unsafe.Pointer(&span))
}

// writeZone writes three times where the first zone says, and compares.
func writeZone(g *target) error {
	b, back := aligned(16<<10, g.round), aligned(16<<10, 0)
	defer func() { _ = unix.Munmap(b) }()
	defer func() { _ = unix.Munmap(back) }()
	for range 3 {
		r, err := g.zones(1)
		if err != nil {
			return err
		}
		at := int64(r.zones[0].pointer) * 512
		if _, err := g.file.WriteAt(b, at); err != nil {
			return err
		}
		if _, err := g.file.ReadAt(back, at); err != nil {
			return err
		}
		if !bytes.Equal(b, back) {
			return errors.New("what was written is not there")
		}
	}
	return nil
}

// bounded does an operation, and waits for it for so long. Where it hangs, done is
// false: the thread that waits for the disk can not be stopped.
func bounded(limit time.Duration, do func() error) (took time.Duration, done bool, err error) {
	result := make(chan error, 1)
	began := time.Now()
	go func() { result <- do() }()
	select {
	case err := <-result:
		return time.Since(began), true, err
	case <-time.After(limit):
		return time.Since(began), false, nil
	}
}
