// SPDX-License-Identifier: MIT

package aps

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// openDirect is a new file of so many bytes, opened with O_DIRECT.
func openDirect(tb testing.TB, bytes int64) *os.File {
	tb.Helper()
	file, err := os.OpenFile(filepath.Join(tb.TempDir(), "file"), os.O_RDWR|os.O_CREATE|syscall.O_DIRECT, 0o600)
	if err == nil {
		err = file.Truncate(bytes)
	}
	if err != nil {
		tb.Skip("no O_DIRECT here: ", err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	return file
}

// Goroutines write and read blocks of their own together, in every mode.
func TestGoroutinesReadWhatTheyWrote(t *testing.T) {
	for _, mode := range []Mode{Interrupt, Poll, Hybrid, Adaptive} {
		f, err := New(openDirect(t, 1<<20), mode)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for nr := range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				out, in := Block(4096), Block(4096)
				for round := range 20 {
					copy(out, bytes.Repeat([]byte{byte(17*nr + round + 1)}, len(out)))
					if _, err := f.WriteAt(out, int64(nr)<<12); err != nil {
						t.Error(err)
					}
					if n, err := f.ReadAt(in, int64(nr)<<12); n != len(in) || err != nil || !bytes.Equal(in, out) {
						t.Errorf("goroutine %d read %d bytes (%v), and not what it wrote", nr, n, err)
					}
				}
			}()
		}
		all.Wait()
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestEndsAndErrors(t *testing.T) {
	file := openDirect(t, 4096+100)
	f, err := New(file, Adaptive)
	if err != nil {
		t.Fatal(err)
	}
	p := Block(8192)
	if n, err := f.ReadAt(p, 0); n != 4196 || err != io.EOF {
		t.Errorf("a file of 4196 bytes: read %d, %v, want all and io.EOF", n, err)
	}
	if n, err := f.ReadAt(p, 8192); n != 0 || err != io.EOF {
		t.Errorf("beyond the end: %d, %v, want io.EOF", n, err)
	}
	if _, err := f.ReadAt(p, -1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a negative offset: %v, want EINVAL", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	_ = file.Close()
	if _, err := New(file, Poll); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a closed file: %v, want EBADF", err)
	}
}

// BenchmarkReadAt reads blocks of the disk APS_DISK at random, one at a time: with the os
// package, and in each mode. It tells of the CPU time as well.
func BenchmarkReadAt(b *testing.B) {
	disk := os.Getenv("APS_DISK")
	if disk == "" {
		b.Skip("needs APS_DISK, a disk")
	}
	file, err := os.OpenFile(disk, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	blocks, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		b.Fatal(err)
	}
	blocks /= blockBytes
	b.Run("os", func(b *testing.B) { readAtRandom(b, file, blocks) })
	for _, way := range []struct {
		name string
		mode Mode
	}{{"interrupt", Interrupt}, {"poll", Poll}, {"aps", Adaptive}} {
		b.Run(way.name, func(b *testing.B) {
			f, err := New(file, way.mode)
			if err != nil {
				b.Fatal(err)
			}
			readAtRandom(b, f, blocks)
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func readAtRandom(b *testing.B, r io.ReaderAt, blocks int64) {
	b.Helper()
	p, random := Block(blockBytes), rand.New(rand.NewPCG(1, 1))
	from := cpuTime()
	for b.Loop() {
		if _, err := r.ReadAt(p, random.Int64N(blocks)*blockBytes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(cpuTime()-from)/float64(b.Elapsed()), "%CPU")
}

func Example() {
	file, err := os.OpenFile("/dev/nvme0n1", os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	f, err := New(file, Adaptive)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	p := Block(4096)
	n, err := f.ReadAt(p, 0)
	fmt.Println(n, err)
}
