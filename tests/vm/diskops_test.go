// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// everyScheduler are the stock schedulers and this project's.
var everyScheduler = append(slices.Clone(others), elevator, "rsd", "sfq")

// The ioctls of a block device that golang.org/x/sys/unix lacks.
const (
	blkSecureErase = 0x127d // BLKSECDISCARD
	blkZeroOut     = 0x127f // BLKZEROOUT
)

// A request that takes longer than opLimit hangs: the longest that one waits on
// purpose is three timeouts, which the kernel rounds up to a second each.
const opLimit = 20 * time.Second

// manyOps is a disk that does all that modeldisk can.
var manyOps = []string{
	"model=fixed", "fixed/read_ns=200000", "fixed/write_ns=200000", "fixed/other_ns=300000", "fixed/parallel=8",
	"size_mib=16", "tags=16", "memory_backed=1", "write_cache=1", "fua=1", "discard=1", "discard_kib=256",
	"discard_segments=16", "write_zeroes_kib=128", "secure_erase_kib=64",
}

// blockFile is a block device that is read and written past the page cache.
type blockFile struct {
	fd   int
	want []byte // what the part that is tested holds
	buf  []byte // aligned, as long as want
}

// openBlock opens the disk; its first bytes are what is tested, zeros before.
func openBlock(t *testing.T, d *disk, bytes int) *blockFile {
	t.Helper()
	fd, err := unix.Open("/dev/"+d.name, unix.O_RDWR|unix.O_DIRECT, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	buf, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(buf)) })
	return &blockFile{fd: fd, want: make([]byte, bytes), buf: buf}
}

// put writes the value to a range; flags are those of pwritev2(2).
func (b *blockFile) put(value byte, at, length, flags int) error {
	for i := range length {
		b.buf[i], b.want[at+i] = value, value
	}
	n, err := unix.Pwritev2(b.fd, [][]byte{b.buf[:length]}, int64(at), flags)
	if err == nil && n != length {
		err = fmt.Errorf("wrote %d of %d bytes", n, length)
	}
	return err
}

// zero has the device zero a range, by the ioctl.
func (b *blockFile) zero(ioctl uint, at, length int) error {
	clear(b.want[at : at+length])
	return ioctlRange(b.fd, ioctl, at, length)
}

// ioctlRange is an ioctl that takes a range of bytes.
func ioctlRange(fd int, ioctl uint, at, length int) error {
	area := [2]uint64{uint64(at), uint64(length)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(ioctl), uintptr(unsafe.Pointer(&area))); errno != 0 {
		return errno
	}
	return nil
}

// check reads everything and compares it.
func (b *blockFile) check() error {
	n, err := unix.Pread(b.fd, b.buf, 0)
	if err != nil || n != len(b.buf) {
		return fmt.Errorf("read %d of %d bytes: %w", n, len(b.buf), err)
	}
	for i := range b.want {
		if b.buf[i] != b.want[i] {
			return fmt.Errorf("byte %d is %#x, want %#x", i, b.buf[i], b.want[i])
		}
	}
	return nil
}

// steps sends each operation, at sizes below, at and above the disk's limits and
// not aligned to its pages.
func (b *blockFile) steps() []func() error {
	const kib = 1 << 10
	return []func() error{
		func() error { return b.put(0x11, 0, len(b.buf), 0) },
		b.check,
		func() error { return b.put(0x22, 3*512, 64*kib, unix.RWF_DSYNC) }, // FUA
		func() error { return unix.Fsync(b.fd) },
		func() error { return b.zero(blkZeroOut, 8*kib+512, 7*512) },
		func() error { return b.zero(blkZeroOut, 100*kib-512, 400*kib+1024) },
		b.check,
		func() error { return b.put(0x33, 200*kib, 100*kib, 0) },
		func() error { return b.zero(unix.BLKDISCARD, 4*kib, 8*kib) },
		func() error { return b.zero(unix.BLKDISCARD, 220*kib, 700*kib) },
		b.check,
		func() error { return b.put(0x44, 256*kib, 256*kib, unix.RWF_DSYNC) },
		func() error { return b.zero(blkSecureErase, 260*kib, 200*kib) },
		func() error { return unix.Fsync(b.fd) },
		b.check,
	}
}

// run takes the steps. One that does not end in time fails the test at once.
func (b *blockFile) run(t *testing.T, d *disk) {
	t.Helper()
	for i, step := range b.steps() {
		done := make(chan error, 1)
		started := time.Now()
		go func() { done <- step() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("step %d: %v", i, err)
			}
			if took := time.Since(started); took > opLimit/2 {
				t.Errorf("step %d took %v", i, took)
			}
		case <-time.After(opLimit):
			d.logState(t)
			t.Fatalf("step %d hangs", i)
		}
	}
}

// neighbour keeps the part of the disk behind the tested one busy, with all that
// is queued there: reads, writes and discards.
func neighbour(t *testing.T, d *disk, group string) *load {
	t.Helper()
	return startFio(t, d, group, "--rw=randrw", "--offset=8m", "--size=8m", "--bsrange=512-64k", "--iodepth=8",
		"--fsync=32", "--time_based", "--runtime=600")
}

// Every operation ends in bounded time and does what it says, under every
// scheduler, alone and beside a busy neighbour, on a disk that works and on
// disks that give requests back, refuse them, lose them and stall them.
func TestEveryOperation(t *testing.T) {
	misbehaviours := map[string][]string{
		"works":    {"fault_all=0"},
		"requeues": {"requeue_every=3", "fault_all=1"},
		"refuses":  {"refuse_every=3", "fault_all=1"},
		"stalls":   {"stall_every=4", "stall_us=150000", "fault_all=1"},
		"loses":    {"lose_every=29", "lose_ok=1", "lose_resets=1", "fault_all=1"},
	}
	for _, scheduler := range append(slices.Clone(everyScheduler), reportElevator) {
		t.Run(scheduler, func(t *testing.T) {
			withGuard(t)
			if scheduler == reportElevator {
				withReport(t)
			}
			plain := newModelDisk(t, manyOps)
			plain.use(t, scheduler)
			openBlock(t, plain, 1<<20).run(t, plain)
			d := newModelDisk(t, append(slices.Clone(manyOps), "power_loss=1"))
			d.use(t, scheduler)
			write(t, d.queue("io_timeout"), "200")
			b := openBlock(t, d, 1<<20)
			l := neighbour(t, d, newGroup(t, "neighbour"))
			l.untilBusy(t)
			for _, name := range slices.Sorted(maps.Keys(misbehaviours)) {
				d.fail(t, misbehaviours[name]...)
				b.run(t, d)
				d.fail(t, "requeue_every=0", "refuse_every=0", "lose_every=0", "stall_every=0")
			}
			l.stop(t)
			d.countsEverything(t)
		})
	}
}

// countsEverything checks that the disk was sent each operation, and that each
// fault happened.
func (d *disk) countsEverything(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"reads", "writes", "flushes", "discards", "write_zeroes", "secure_erases", "requeued", "refused", "lost", "stalled",
	} {
		if d.stat(t, name) == 0 {
			t.Errorf("the disk counts no %s", name)
		}
	}
	if depth := d.stat(t, "depth"); depth != 0 {
		t.Errorf("%d requests are still in flight", depth)
	}
}

// The block layer is told what the disk does, and a disk that is told nothing has none of it.
func TestModelDiskLimits(t *testing.T) {
	withModelDisk(t)
	limits := func(d *disk) map[string]string {
		got := map[string]string{}
		for _, file := range []string{"discard_max_bytes", "discard_granularity", "max_discard_segments", "write_zeroes_max_bytes", "fua", "write_cache"} {
			got[file] = strings.TrimSpace(read(t, d.queue(file)))
		}
		return got
	}
	able := newModelDisk(t, append(slices.Clone(manyOps), "discard_granularity_kib=16"))
	if got, want := limits(able), map[string]string{
		"discard_max_bytes": "262144", "discard_granularity": "16384", "max_discard_segments": "16",
		"write_zeroes_max_bytes": "131072", "fua": "1", "write_cache": "write back",
	}; !maps.Equal(got, want) {
		t.Errorf("limits are %v, want %v", got, want)
	}
	plain := newModelDisk(t, []string{"size_mib=16"})
	if got, want := limits(plain), map[string]string{
		"discard_max_bytes": "0", "discard_granularity": "0", "max_discard_segments": "1",
		"write_zeroes_max_bytes": "0", "fua": "0", "write_cache": "write through",
	}; !maps.Equal(got, want) {
		t.Errorf("limits without settings are %v, want %v", got, want)
	}
	b := openBlock(t, plain, 4096)
	expectErrno(t, "a secure erase on a disk without", b.zero(blkSecureErase, 0, 4096), unix.EOPNOTSUPP)
}

// addPartition makes a part of the disk a block device, and opens it.
func addPartition(t *testing.T, d *disk, b *blockFile, number int32, at, length int64) int {
	t.Helper()
	const addPartition, blkPG = 1, 0x1269 // BLKPG_ADD_PARTITION, BLKPG
	part := struct {
		start, length int64
		number        int32
		names         [128]byte
		_             [4]byte
	}{start: at, length: length, number: number}
	arg := struct {
		op, flags, length int32
		_                 [4]byte
		part              unsafe.Pointer
	}{op: addPartition, length: int32(unsafe.Sizeof(part)), part: unsafe.Pointer(&part)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.fd), blkPG, uintptr(unsafe.Pointer(&arg))); errno != 0 {
		t.Fatalf("%s: adding a partition: %v", d.name, errno)
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/%sp%d", d.name, number), unix.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Discards that are no neighbours become one request of several ranges, and
// each range is discarded. The kernel takes one discard at a time of a block
// device, so each range lies in a partition.
func TestModelDiskDiscardRanges(t *testing.T) {
	const ranges, stride, length = 16, 64 << 10, 4096
	for _, scheduler := range everyScheduler {
		t.Run(scheduler, func(t *testing.T) {
			withGuard(t)
			// Slow: while one discard is in flight the others wait, and merge.
			d := newModelDisk(t, append(slices.Clone(manyOps), "fixed/other_ns=300000000", "fixed/parallel=1", "tags=2"))
			d.use(t, scheduler)
			b := openBlock(t, d, 1<<20)
			must(t, b.put(0x55, 0, len(b.buf), 0))
			done := make(chan error, ranges)
			for i := range ranges {
				clear(b.want[i*stride : i*stride+length])
				fd := addPartition(t, d, b, int32(i+1), int64(i)*stride, stride)
				go func() { done <- ioctlRange(fd, unix.BLKDISCARD, 0, length) }()
			}
			for range ranges {
				must(t, <-done)
			}
			must(t, b.check())
			if discarded := d.stat(t, "discard_bytes"); discarded != ranges*length {
				t.Errorf("%d bytes were discarded, want %d", discarded, ranges*length)
			}
			requests := d.stat(t, "discards")
			t.Logf("%d ranges in %d requests", ranges, requests)
			if scheduler == elevator && requests == ranges {
				t.Error("no discards were merged")
			}
		})
	}
}

// A lost request ends when the timeout handler has given it as much more time as
// it is told to, with an error or well.
func TestModelDiskLosesRequests(t *testing.T) {
	for _, scheduler := range everyScheduler {
		t.Run(scheduler, func(t *testing.T) {
			withGuard(t)
			d := newModelDisk(t, manyOps)
			d.use(t, scheduler)
			write(t, d.queue("io_timeout"), "200")
			b := openBlock(t, d, 4096)
			lose := func(settings ...string) (time.Duration, error) {
				d.fail(t, append(settings, "lose_every=1")...)
				started := time.Now()
				_, err := unix.Pread(b.fd, b.buf, 0)
				d.fail(t, "lose_every=0")
				return time.Since(started), err
			}
			once, err := lose("lose_resets=0", "lose_ok=0")
			expectErrno(t, "reading what is lost", err, unix.ETIMEDOUT, unix.EIO)
			late, err := lose("lose_resets=3", "lose_ok=1")
			if err != nil {
				t.Errorf("reading what only the interrupt of was lost: %v", err)
			}
			if once < 200*time.Millisecond || late < once+600*time.Millisecond || late > opLimit/2 {
				t.Errorf("it took %v, and %v with three timeouts more; io_timeout is 200 ms", once, late)
			}
		})
	}
}

// The power goes while writes are cached and in flight. What was flushed or
// written with FUA stays, nothing is torn within a block, and the rest is kept
// or lost by the seed: the same again with the same seed.
func TestModelDiskLosesPower(t *testing.T) {
	withModelDisk(t)
	const size = 1 << 20
	settings := append(slices.Clone(manyOps), "power_loss=1")
	after := func(seed string) []byte {
		d := newModelDisk(t, settings)
		b := openBlock(t, d, size)
		must(t, b.put(0x11, 0, size, 0))
		must(t, unix.Fsync(b.fd))
		must(t, b.put(0x33, 0, size/8, unix.RWF_DSYNC))
		must(t, b.put(0x22, size/8, size/2-size/8, 0))
		cut := filepath.Join(d.config, "power_cut")
		write(t, cut, seed)
		if got := strings.TrimSpace(read(t, cut)); got != seed {
			t.Errorf("power_cut is %s, want %s", got, seed)
		}
		_, err := unix.Pread(b.fd, b.buf, 0)
		expectErrno(t, "reading without power", err, unix.EIO)
		expectErrno(t, "cutting the power twice", put(cut, "3"), unix.EBUSY)
		write(t, cut, "0")
		n, err := unix.Pread(b.fd, b.buf, 0)
		must(t, err)
		t.Logf("seed %s: %d blocks kept, %d lost", seed, d.stat(t, "cached_blocks_kept"), d.stat(t, "cached_blocks_lost"))
		return bytes.Clone(b.buf[:n])
	}
	mixed := 0
	for seed := range 8 {
		data := after(fmt.Sprint(seed + 1))
		if again := after(fmt.Sprint(seed + 1)); !bytes.Equal(data, again) {
			t.Errorf("two cuts of seed %d differ", seed+1)
		}
		found := map[byte]int{}
		for block := range size / 512 {
			b := data[block*512 : block*512+512]
			if bytes.Count(b, b[:1]) != 512 {
				t.Fatalf("block %d is torn", block)
			}
			old, now := byte(0x11), byte(0x22)
			if block*512 < size/8 {
				old, now = 0x33, 0x33
			} else if block*512 >= size/2 {
				now = 0x11
			}
			if b[0] != old && b[0] != now {
				t.Fatalf("block %d holds %#x, want %#x or %#x", block, b[0], old, now)
			}
			found[b[0]]++
		}
		if found[0x22] > 0 && found[0x22] < (size/2-size/8)/512 {
			mixed++
		}
	}
	if mixed == 0 {
		t.Error("no seed lost some blocks and kept others")
	}
	expectErrno(t, "cutting the power of a disk that cannot lose it",
		put(filepath.Join(newModelDisk(t, manyOps).config, "power_cut"), "1"), unix.EINVAL)
	bad := filepath.Join(modelDiskRoot, "unbacked")
	must(t, os.Mkdir(bad, 0o755))
	defer func() { must(t, os.Remove(bad)) }()
	write(t, filepath.Join(bad, "power_loss"), "1")
	expectErrno(t, "power_loss without memory_backed", put(filepath.Join(bad, "power"), "1"), unix.EINVAL)
	if log := kernelLog(t); !strings.Contains(log, "modeldisk: unbacked: power_loss is 1: needs memory_backed 1\n") {
		t.Error("the kernel's log does not say why the disk is refused")
	}
}
