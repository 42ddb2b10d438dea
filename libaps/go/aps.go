// SPDX-License-Identifier: MIT

// Package aps reads and writes files on ultra-low-latency disks through libaps: it polls,
// sleeps and polls, or sleeps, as other programs leave CPU time.
//
// A file that is opened with O_DIRECT takes offsets, lengths and memory in whole blocks of
// the disk: Block returns such memory.
package aps

/*
#cgo pkg-config: libaps
#include <aps.h>

static int aps_open_file(struct aps **ctx, int mode, int fd)
{
	struct aps_options o;
	int err;

	aps_options_init(&o, sizeof(o));
	o.mode = mode;
	o.flags = APS_FALLBACK;
	o.depth = 1;
	o.files = 1;
	err = aps_open(ctx, &o);
	if (!err)
		err = aps_add_file(*ctx, fd);
	if (err && *ctx)
		aps_close(*ctx);
	return err;
}
*/
import "C"

import (
	"io"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Mode is how a file is waited for.
type Mode int

// The modes of libaps.
const (
	Interrupt  Mode = C.APS_INTERRUPT
	Poll       Mode = C.APS_POLL
	Hybrid     Mode = C.APS_HYBRID
	Adaptive   Mode = C.APS_ADAPTIVE
	RingHybrid Mode = C.APS_RING_HYBRID
)

const blockBytes = 4096

// Block is memory of so many bytes that O_DIRECT takes.
func Block(bytes int) []byte {
	all := make([]byte, bytes+blockBytes)
	at := -int(uintptr(unsafe.Pointer(&all[0]))) & (blockBytes - 1)
	return all[at : at+bytes : at+bytes]
}

// File is a file whose I/O libaps does. Goroutines may use it together: each I/O has a
// context of its own, of which there come to be as many as there were at once.
type File struct {
	file *os.File
	mode Mode
	mu   sync.Mutex
	free []*C.struct_aps
}

// New does the file's I/O through libaps. The file stays the caller's, who closes it after
// the File. A file that cannot be polled is waited for by interrupts.
func New(file *os.File, mode Mode) (*File, error) {
	f := &File{file: file, mode: mode}
	ctx, err := f.take()
	if err != nil {
		return nil, err
	}
	f.give(ctx)
	return f, nil
}

func (f *File) take() (ctx *C.struct_aps, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.free); n > 0 {
		ctx, f.free = f.free[n-1], f.free[:n-1]
		return ctx, nil
	}
	if n := C.aps_open_file(&ctx, C.int(f.mode), C.int(f.file.Fd())); n < 0 {
		return nil, &os.PathError{Op: "aps_open", Path: f.file.Name(), Err: syscall.Errno(-n)}
	}
	return ctx, nil
}

func (f *File) give(ctx *C.struct_aps) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, ctx)
}

// ReadAt is of io.ReaderAt.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) {
	return f.transfer("read", p, offset, func(ctx *C.struct_aps, p []byte, offset int64) C.ssize_t {
		return C.aps_read(ctx, 0, unsafe.Pointer(&p[0]), C.size_t(len(p)), C.int64_t(offset))
	})
}

// WriteAt is of io.WriterAt.
func (f *File) WriteAt(p []byte, offset int64) (n int, err error) {
	return f.transfer("write", p, offset, func(ctx *C.struct_aps, p []byte, offset int64) C.ssize_t {
		return C.aps_write(ctx, 0, unsafe.Pointer(&p[0]), C.size_t(len(p)), C.int64_t(offset))
	})
}

func (f *File) transfer(op string, p []byte, offset int64, do func(*C.struct_aps, []byte, int64) C.ssize_t) (n int, err error) {
	ctx, err := f.take()
	if err != nil {
		return 0, err
	}
	defer f.give(ctx)
	for n < len(p) {
		switch done := do(ctx, p[n:], offset+int64(n)); {
		case done < 0:
			return n, &os.PathError{Op: op, Path: f.file.Name(), Err: syscall.Errno(-done)}
		case done == 0 && op == "write":
			return n, io.ErrShortWrite
		case done == 0:
			return n, io.EOF
		// The rest of what ended amid a block cannot be read: it is beyond the end.
		case op == "read" && n+int(done) < len(p) && done%512 != 0:
			return n + int(done), io.EOF
		default:
			n += int(done)
		}
	}
	return n, nil
}

// Sync is fsync(2).
func (f *File) Sync() error {
	ctx, err := f.take()
	if err != nil {
		return err
	}
	defer f.give(ctx)
	if n := C.aps_fsync(ctx, 0); n < 0 {
		return &os.PathError{Op: "fsync", Path: f.file.Name(), Err: syscall.Errno(-n)}
	}
	return nil
}

// Close frees the contexts. No I/O is under way, and none may follow.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ctx := range f.free {
		if n := C.aps_close(ctx); n < 0 {
			return &os.PathError{Op: "aps_close", Path: f.file.Name(), Err: syscall.Errno(-n)}
		}
	}
	f.free = nil
	return nil
}
