// SPDX-License-Identifier: MIT

package profile

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is a context of Linux' asynchronous I/O. Unlike io_uring it is allowed
// wherever block devices are: no sysctl and no seccomp profile of a container
// engine turns it off.
type ring struct {
	context uintptr
	events  []ioEvent
}

// iocb is struct iocb of linux/aio_abi.h. What has no name is 0: a key, flags and a
// priority.
type iocb struct {
	data   uint64
	_      [2]uint32
	opcode uint16
	_      int16
	fd     uint32
	buffer uint64
	bytes  uint64
	offset int64
	_      uint64
	_      [2]uint32
}

// ioEvent is struct io_event.
type ioEvent struct {
	data   uint64
	_      uint64
	result int64
	_      int64
}

const (
	opRead  = 0 // IOCB_CMD_PREAD
	opWrite = 1 // IOCB_CMD_PWRITE
)

// openRing makes room for depth requests.
func openRing(depth int) (*ring, error) {
	r := &ring{events: make([]ioEvent, depth)}
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&r.context)), 0)
	switch {
	case errno == unix.EAGAIN:
		return nil, fmt.Errorf("io_setup of %d requests: %w: the limit in /proc/sys/fs/aio-max-nr is reached; raise it", depth, errno)
	case errno != 0:
		return nil, fmt.Errorf("io_setup of %d requests: %w", depth, errno)
	}
	return r, nil
}

// close waits for what is in flight.
func (r *ring) close() {
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, r.context, 0, 0)
}

// submit sends all requests.
func (r *ring) submit(requests []*iocb) error {
	for len(requests) > 0 {
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, r.context, uintptr(len(requests)), uintptr(unsafe.Pointer(&requests[0])))
		if errno == unix.EINTR || errno == unix.EAGAIN {
			continue
		}
		if errno != 0 {
			return fmt.Errorf("io_submit: %w", errno)
		}
		requests = requests[n:]
	}
	runtime.KeepAlive(requests)
	return nil
}

// errTimeout says that no request completed in time.
var errTimeout = errors.New("no request completed")

// wait returns requests that have completed, one or more.
func (r *ring) wait(timeout time.Duration) ([]ioEvent, error) {
	limit := unix.NsecToTimespec(int64(timeout))
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, r.context, 1, uintptr(len(r.events)),
			uintptr(unsafe.Pointer(&r.events[0])), uintptr(unsafe.Pointer(&limit)), 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return nil, fmt.Errorf("io_getevents: %w", errno)
		case n == 0:
			return nil, fmt.Errorf("%w in %s", errTimeout, timeout)
		}
		return r.events[:n], nil
	}
}

// failed is the error that a request ended with, nil for none.
func (e *ioEvent) failed(bytes int) error {
	if e.result < 0 {
		return syscall.Errno(-e.result)
	}
	if e.result != int64(bytes) {
		return fmt.Errorf("%d of %d bytes", e.result, bytes)
	}
	return nil
}

// address is where a buffer outside of Go's memory is.
func address(buffer []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(&buffer[0])))
}
