// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"isolio/tests/hostile/ledger"
)

// workerEnv is set in a process that is a worker, to its order.
const workerEnv = "HOSTILE_WORKER"

// How a worker ends.
const (
	exitStopped = 0
	exitFailed  = 2 // the worker itself does not work
	exitGone    = 3 // its disk is gone
	exitWrong   = 4 // it read what it must not
	exitNoGroup = 5 // its cgroup was just removed
)

// order tells a worker what to do.
type order struct {
	Device  string
	Regions []regionOrder
	Seed    uint64
	Check   bool // read everything once and end
	Pause   time.Duration
}

// regionOrder is one region of a disk, which one thread of the worker uses.
type regionOrder struct {
	Memory     string // file with the region's words
	ID         uint64
	First      uint64 // its first block on the disk
	IsBuffered bool
}

// loadNice keeps the CPU time that loads want from the actors.
const loadNice = 10

// Each region is 1 MiB.
const regionBlocks = 256

// The words of a region before its ledger tell what its thread does.
const (
	wordBegan  = iota // CLOCK_MONOTONIC in ns when the operation in flight began; 0 for none
	wordWhat          // workerOp
	wordBlock         // its first block
	wordThread        // thread's ID
	wordDone          // operations done
	wordErrors        // of those, failed
	headerWords
)

// workerOp is what a worker's thread does.
type workerOp uint64

const (
	opRead workerOp = iota
	opWrite
	opSyncWrite
	opFlush
	opDiscard
	opZeroes
)

var workerOpNames = [...]string{"read", "write", "FUA or synchronous write", "fsync", "discard", "write zeroes"}

// region is a region's memory, shared by the worker and the process that watches it.
type region struct {
	regionOrder
	words  []uint64
	ledger *ledger.Ledger
}

func openRegion(o regionOrder) (*region, error) {
	size := 8 * (headerWords + ledger.Words(regionBlocks))
	f, err := os.OpenFile(o.Memory, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap %s: %w", o.Memory, err)
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), size/8)
	return &region{regionOrder: o, words: words, ledger: ledger.New(words[headerWords:], o.ID, o.First)}, nil
}

func monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return uint64(now.Nano())
}

// workerMain is a worker's whole life; it returns its exit status.
func workerMain(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println("worker: order:", err)
		return exitFailed
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, loadNice) // who watches comes first
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	var stopped atomic.Bool
	go func() { <-stop; stopped.Store(true) }()

	codes := make([]int, len(o.Regions))
	var threads sync.WaitGroup
	for i, part := range o.Regions {
		threads.Go(func() {
			runtime.LockOSThread()
			w, err := newThread(o, part, i, &stopped)
			if err == nil {
				defer w.close()
				err = w.run(o.Check)
			}
			codes[i] = exitOf(o.Device, err)
			if codes[i] == exitWrong {
				os.Exit(exitWrong) // others may wait for long
			}
		})
	}
	threads.Wait()
	code := exitStopped
	for _, c := range codes {
		code = max(code, c)
	}
	return code
}

var errWrong = errors.New("wrong data")

func exitOf(device string, err error) int {
	switch {
	case err == nil:
		return exitStopped
	case errors.Is(err, errWrong):
		fmt.Printf("WRONG %s: %v\n", device, err)
		return exitWrong
	case isGone(err):
		return exitGone
	default:
		fmt.Printf("worker: %s: %v\n", device, err)
		return exitFailed
	}
}

// isGone tells whether an error is what a disk that was removed gives.
func isGone(err error) bool {
	return errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT)
}

// thread uses one region of a disk.
type thread struct {
	*region
	device           string
	direct, buffered *os.File
	buffer           []byte // aligned
	rng              *rand.Rand
	stopped          *atomic.Bool
	pause            time.Duration
	refused          [opZeroes + 1]bool // operations that the disk does not have
	dirty            []int              // blocks written to the page cache since the last fsync
}

const mostBlocks = 32 // of one operation

func newThread(o order, part regionOrder, index int, stopped *atomic.Bool) (*thread, error) {
	r, err := openRegion(part)
	if err != nil {
		return nil, err
	}
	w := &thread{region: r, device: o.Device, stopped: stopped, pause: o.Pause}
	w.rng = rand.New(rand.NewPCG(o.Seed, uint64(index)))
	w.words[wordThread] = uint64(unix.Gettid())
	w.words[wordBegan] = 0
	if w.direct, err = os.OpenFile(o.Device, os.O_RDWR|unix.O_DIRECT, 0); err != nil {
		return nil, err
	}
	if w.buffered, err = os.OpenFile(o.Device, os.O_RDWR, 0); err != nil {
		return nil, errors.Join(err, w.direct.Close())
	}
	w.buffer, err = unix.Mmap(-1, 0, mostBlocks*ledger.BlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return w, err
}

func (w *thread) close() {
	w.direct.Close()
	w.buffered.Close()
}

// run does operations until the worker is stopped, or checks all blocks once.
func (w *thread) run(check bool) error {
	if check {
		for n := 0; n < regionBlocks; n += mostBlocks {
			if err := w.read(n, mostBlocks); err != nil {
				return err
			}
		}
		return nil
	}
	for !w.stopped.Load() {
		if err := w.step(); err != nil {
			return err
		}
		if w.pause > 0 {
			time.Sleep(time.Duration(w.rng.ExpFloat64() * float64(w.pause)))
		}
	}
	return nil
}

// step does one operation, of random kind and place.
func (w *thread) step() error {
	count := 1 << (w.rng.IntN(4) + w.rng.IntN(8)/6*2) // 1 to 8, at times 32
	n := w.rng.IntN(regionBlocks - count + 1)
	switch at := w.rng.IntN(100); {
	case at < 40:
		return w.read(n, count)
	case at < 80:
		return w.write(n, count, opWrite)
	case at < 90:
		return w.write(n, count, opSyncWrite)
	case at < 94:
		return w.flush(n)
	case at < 97:
		return w.erase(n, count, opDiscard, ledger.Anything, unix.BLKDISCARD)
	default:
		return w.erase(n, count, opZeroes, ledger.Zeroes, unix.BLKZEROOUT)
	}
}

// operation does one operation where the watcher sees how long it takes. An
// error of the disk is reported; one that says the disk is gone is returned.
func (w *thread) operation(what workerOp, n int, do func() error) error {
	w.words[wordWhat], w.words[wordBlock] = uint64(what), w.First+uint64(n)
	atomic.StoreUint64(&w.words[wordBegan], monotonic())
	err := do()
	atomic.StoreUint64(&w.words[wordBegan], 0)
	w.words[wordDone]++
	if err == nil || isGone(err) {
		return err
	}
	w.words[wordErrors]++
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err // a short transfer, for one
	}
	if errno == unix.ENOMEM {
		return nil // the limit of the cgroup
	}
	if (errno == unix.EOPNOTSUPP || errno == unix.EINVAL) && (what == opDiscard || what == opZeroes) {
		w.refused[what] = true
		return nil
	}
	fmt.Printf("ERROR %d %s of block %d on %s: %v\n", int(errno), workerOpNames[what], w.First+uint64(n), w.device, errno)
	return nil
}

func (w *thread) area(n, count int) (offset int64, data []byte) {
	return int64(w.First+uint64(n)) * ledger.BlockBytes, w.buffer[:count*ledger.BlockBytes]
}

func whole(n, want int, err error) error {
	if err == nil && n != want {
		return fmt.Errorf("%d of %d bytes", n, want)
	}
	return err
}

// flush has everything on the disk. What it does not report as failed is there.
func (w *thread) flush(n int) error {
	failed := true
	err := w.operation(opFlush, n, func() error {
		err := w.buffered.Sync()
		failed = err != nil
		return err
	})
	if !failed {
		for _, block := range w.dirty {
			w.ledger.Done(block)
		}
	}
	w.dirty = w.dirty[:0]
	return err
}

// read reads blocks from the disk and checks them.
func (w *thread) read(n, count int) error {
	offset, data := w.area(n, count)
	if w.IsBuffered {
		// What is in the page cache and not on the disk goes there first.
		if err := w.flush(n); err != nil {
			return err
		}
	}
	failed := true
	err := w.operation(opRead, n, func() error {
		got, err := unix.Pread(int(w.direct.Fd()), data, offset)
		err = whole(got, len(data), err)
		failed = err != nil
		return err
	})
	if err != nil || failed {
		return err
	}
	for i := range count {
		if err := w.ledger.Check(data[i*ledger.BlockBytes:(i+1)*ledger.BlockBytes], n+i); err != nil {
			return fmt.Errorf("%w: %w", errWrong, err)
		}
	}
	return nil
}

// write writes patterns.
func (w *thread) write(n, count int, what workerOp) error {
	offset, data := w.area(n, count)
	for i := range count {
		w.ledger.Fill(data[i*ledger.BlockBytes:], n+i, w.ledger.Begin(n+i, ledger.Pattern))
	}
	file, flags := w.direct, 0
	if w.IsBuffered {
		file = w.buffered
	}
	if what == opSyncWrite {
		flags = unix.RWF_DSYNC
	}
	failed := true
	err := w.operation(what, n, func() error {
		got, err := unix.Pwritev2(int(file.Fd()), [][]byte{data}, offset, flags)
		err = whole(got, len(data), err)
		failed = err != nil
		return err
	})
	if err != nil || failed {
		w.doubt()
		return err
	}
	if w.IsBuffered && what != opSyncWrite {
		for i := range count {
			w.dirty = append(w.dirty, n+i)
		}
		return nil
	}
	w.done(n, count)
	return nil
}

// doubt is called after a write that failed: none of those before it that are in the page
// cache, as far as is known, is on the disk after the next fsync. A synchronous write
// reports, instead of that fsync, that one of them was lost, and what the failed write
// left in a block may not be what it was to leave.
func (w *thread) doubt() {
	w.dirty = w.dirty[:0]
}

func (w *thread) done(n, count int) {
	for i := range count {
		w.ledger.Done(n + i)
	}
}

// erase discards blocks or writes zeroes to them.
func (w *thread) erase(n, count int, what workerOp, kind ledger.Kind, request uint) error {
	if w.refused[what] {
		return nil
	}
	offset, data := w.area(n, count)
	for i := range count {
		w.ledger.Begin(n+i, kind)
	}
	area := [2]uint64{uint64(offset), uint64(len(data))}
	failed := true
	err := w.operation(what, n, func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, w.direct.Fd(), uintptr(request), uintptr(unsafe.Pointer(&area)))
		failed = errno != 0
		if failed {
			return errno
		}
		return nil
	})
	if err != nil || failed {
		w.doubt()
		return err
	}
	w.done(n, count)
	return nil
}
