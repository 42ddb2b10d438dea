// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ioctls of nbd, flags of its disk, and commands of its protocol.
const (
	nbdSetSock    = 0xab00
	nbdSetBlock   = 0xab01
	nbdDoIt       = 0xab03
	nbdClearSock  = 0xab04
	nbdSetBlocks  = 0xab07
	nbdDisconnect = 0xab08
	nbdSetTimeout = 0xab09
	nbdSetFlags   = 0xab0a

	nbdFlags = 1<<0 | 1<<2 | 1<<3 | 1<<5 | 1<<6 // flush, FUA, trim, write zeroes

	nbdRead, nbdWrite, nbdEnd, nbdFlush, nbdTrim, nbdZero = 0, 1, 2, 3, 4, 6

	nbdRequest, nbdReply = 0x25609513, 0x67446698
)

// nbdDisk is a file in memory behind a network block device, whose server is this
// program.
func nbdDisk(t *testing.T) *disk {
	t.Helper()
	back, err := os.CreateTemp("", "nbd")
	must(t, err)
	must(t, errors.Join(os.Remove(back.Name()), back.Truncate(drives)))
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	f, err := os.OpenFile("/dev/nbd0", os.O_RDWR, 0)
	must(t, err)
	for _, set := range []struct{ request, value int }{
		{nbdSetBlock, 512}, {nbdSetBlocks, drives / 512}, {nbdSetFlags, nbdFlags}, {nbdSetTimeout, 60}, {nbdSetSock, pair[0]},
	} {
		must(t, unix.IoctlSetInt(int(f.Fd()), uint(set.request), set.value))
	}
	served, done := make(chan error, 1), make(chan error, 1)
	go func() { served <- serveNBD(os.NewFile(uintptr(pair[1]), "nbd"), back) }()
	go func() {
		runtime.LockOSThread()
		done <- unix.IoctlSetInt(int(f.Fd()), nbdDoIt, 0)
	}()
	d := existing(t, "nbd0")
	for range 1000 {
		if read(t, "/sys/block/nbd0/size") != "0\n" && exists("/sys/block/nbd0/pid") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Cleanup(func() {
		must(t, unix.IoctlSetInt(int(f.Fd()), nbdDisconnect, 0))
		must(t, <-served)
		t.Log("the kernel ended nbd:", <-done) // after a disconnect, with an error or none
		must(t, unix.IoctlSetInt(int(f.Fd()), nbdClearSock, 0))
		must(t, errors.Join(unix.Close(pair[0]), f.Close(), back.Close()))
	})
	return d
}

// serveNBD answers requests until the disk says that it ends.
func serveNBD(conn *os.File, back *os.File) error {
	defer conn.Close()
	var head [28]byte
	buf := make([]byte, 32<<20)
	for {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		if binary.BigEndian.Uint32(head[:]) != nbdRequest {
			return errors.New("nbd: not a request")
		}
		command := binary.BigEndian.Uint16(head[6:])
		at, size := int64(binary.BigEndian.Uint64(head[16:])), int64(binary.BigEndian.Uint32(head[24:]))
		reply := make([]byte, 16)
		binary.BigEndian.PutUint32(reply, nbdReply)
		copy(reply[8:], head[8:16])
		var err error
		switch command {
		case nbdEnd:
			return nil
		case nbdRead:
			if _, err = back.ReadAt(buf[:size], at); err == nil {
				reply = append(reply, buf[:size]...)
			}
		case nbdWrite:
			if _, err = io.ReadFull(conn, buf[:size]); err == nil {
				_, err = back.WriteAt(buf[:size], at)
			}
		case nbdTrim, nbdZero:
			err = unix.Fallocate(int(back.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
		case nbdFlush:
		default:
			err = errors.New("nbd: unknown command")
		}
		if err != nil {
			binary.BigEndian.PutUint32(reply[4:], uint32(unix.EIO))
		}
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}
