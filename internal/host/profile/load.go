// SPDX-License-Identifier: MIT

package profile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Job is one kind of load.
type Job struct {
	// Bytes is how much of the device is used, from its beginning.
	Bytes int64
	Block int
	Depth int // requests outstanding
	// ReadPct is the part of the requests that read, in percent; where it is
	// below 100, the device's contents are overwritten.
	ReadPct int
	Random  bool
	Seed    uint64
}

// Window is what completed in a window of time: the latencies of reads, and of
// writes.
type Window struct {
	Latency [2]Histogram
}

// Requests is how many requests completed.
func (w *Window) Requests() uint64 { return w.Latency[ReadIO].N() + w.Latency[WriteIO].N() }

// Kinds of requests in Window.Latency.
const (
	ReadIO = iota
	WriteIO
)

// hung is how long a disk may complete nothing.
const hung = time.Minute

// RunJob keeps the job going on the open device until enough returns true, which
// is asked after each window with all windows so far.
func RunJob(ctx context.Context, device *os.File, job Job, window time.Duration, enough func([]Window) bool) ([]Window, error) {
	if job.Bytes/int64(job.Block) < 1 {
		return nil, fmt.Errorf("%s: %d bytes are too few for requests of %d", device.Name(), job.Bytes, job.Block)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64 // block of a sequential load
	workers := make([]*worker, workersFor(job.Depth))
	begin := time.Now()
	var wait sync.WaitGroup
	for i := range workers {
		depth := job.Depth / len(workers)
		if i < job.Depth%len(workers) {
			depth++
		}
		workers[i] = &worker{job: job, depth: depth, device: device, fd: uint32(device.Fd()), next: &next, begin: begin, window: window,
			random: rand.New(rand.NewPCG(job.Seed, uint64(i)))}
		wait.Go(func() {
			if err := workers[i].run(ctx); err != nil {
				stop(err)
			}
		})
	}
	windows, err := collect(ctx, workers, begin, window, enough)
	stop(err)
	wait.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return windows, err
}

// workersFor is how many threads keep so many requests outstanding: one drives
// some hundred thousand requests a second.
func workersFor(depth int) int {
	const perWorker, most = 16, 8
	return max(1, min(depth/perWorker, most, runtime.GOMAXPROCS(0)))
}

// collect gathers windows that are over from the workers.
func collect(ctx context.Context, workers []*worker, begin time.Time, window time.Duration, enough func([]Window) bool) ([]Window, error) {
	var windows []Window
	for {
		end := begin.Add(time.Duration(len(windows)+1) * window)
		select {
		case <-ctx.Done():
			return windows, context.Cause(ctx)
		case <-time.After(time.Until(end)):
		}
		var w Window
		for _, x := range workers {
			x.take(len(windows), &w)
		}
		windows = append(windows, w)
		if enough(windows) {
			return windows, nil
		}
	}
}

// worker keeps its part of the requests outstanding.
type worker struct {
	job    Job
	depth  int
	device *os.File
	fd     uint32
	next   *atomic.Int64
	random *rand.Rand
	begin  time.Time
	window time.Duration

	mu      sync.Mutex
	windows []numbered // that have requests and were not taken, in order of time
}

// numbered is a window and its number.
type numbered struct {
	Window
	n int
}

// take adds window n to sum, with what an earlier take came too soon for.
func (w *worker) take(n int, sum *Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.windows) > 0 && w.windows[0].n <= n {
		for i := range sum.Latency {
			sum.Latency[i].Merge(&w.windows[0].Latency[i])
		}
		w.windows = w.windows[1:]
	}
}

// windowAt is the window of a time, which is not before that of the last call.
func (w *worker) windowAt(now time.Time) *Window {
	n := int(now.Sub(w.begin) / w.window)
	if last := len(w.windows) - 1; last < 0 || w.windows[last].n < n {
		w.windows = append(w.windows, numbered{n: n})
	}
	return &w.windows[len(w.windows)-1].Window
}

// slot is one request with its buffer.
type slot struct {
	cb     *iocb
	buffer []byte
	sentAt time.Time
	kind   int
}

func (w *worker) run(ctx context.Context) error {
	r, err := openRing(w.depth)
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(-1, 0, w.depth*w.job.Block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		r.close()
		return fmt.Errorf("memory for %d requests of %d bytes: %w", w.depth, w.job.Block, err)
	}
	defer func() {
		r.close() // waits: only then nothing is written to the memory
		_ = unix.Munmap(memory)
	}()
	slots := make([]slot, w.depth)
	cbs := make([]iocb, w.depth)
	batch := make([]*iocb, w.depth)
	now := time.Now()
	for i := range slots {
		s := &slots[i]
		s.cb, s.buffer = &cbs[i], memory[i*w.job.Block:(i+1)*w.job.Block]
		w.fill(s.buffer)
		w.prepare(s, uint64(i), now)
		batch[i] = s.cb
	}
	defer runtime.KeepAlive(cbs)
	if err := r.submit(batch); err != nil {
		return err
	}
	for ctx.Err() == nil {
		events, err := r.wait(hung)
		if err != nil {
			return err
		}
		now = time.Now()
		if err := w.count(slots, events, now); err != nil {
			return err
		}
		batch = batch[:0]
		for _, e := range events {
			w.prepare(&slots[e.data], e.data, now)
			batch = append(batch, slots[e.data].cb)
		}
		if err := r.submit(batch); err != nil {
			return err
		}
	}
	return nil
}

// count notes what has completed.
func (w *worker) count(slots []slot, events []ioEvent, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	window := w.windowAt(now)
	for i := range events {
		s := &slots[events[i].data]
		if err := events[i].failed(w.job.Block); err != nil {
			return fmt.Errorf("%s: %s of %d bytes at %d: %w", w.device.Name(), [...]string{"read", "write"}[s.kind], w.job.Block, s.cb.offset, err)
		}
		window.Latency[s.kind].Add(now.Sub(s.sentAt))
	}
	return nil
}

// prepare makes a slot's next request.
func (w *worker) prepare(s *slot, at uint64, now time.Time) {
	blocks := w.job.Bytes / int64(w.job.Block)
	block := int64(0)
	if w.job.Random {
		block = w.random.Int64N(blocks)
	} else {
		block = (w.next.Add(1) - 1) % blocks
	}
	s.kind, s.sentAt = ReadIO, now
	opcode := uint16(opRead)
	if w.job.ReadPct < 100 && w.random.IntN(100) >= w.job.ReadPct {
		s.kind, opcode = WriteIO, opWrite
		w.stamp(s.buffer)
	}
	*s.cb = iocb{data: at, opcode: opcode, fd: w.fd, buffer: address(s.buffer), bytes: uint64(w.job.Block), offset: block * int64(w.job.Block)}
}

// fill has a buffer hold what no disk compresses.
func (w *worker) fill(buffer []byte) {
	if w.job.ReadPct == 100 {
		return
	}
	for i := 0; i+8 <= len(buffer); i += 8 {
		binary.LittleEndian.PutUint64(buffer[i:], w.random.Uint64())
	}
}

// stamp changes each 512 bytes of a buffer, so that no disk has written the same before.
func (w *worker) stamp(buffer []byte) {
	for i := 0; i+8 <= len(buffer); i += 512 {
		binary.LittleEndian.PutUint64(buffer[i:], w.random.Uint64())
	}
}
