// SPDX-License-Identifier: MIT

package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
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

	nbdFlags = 1<<0 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<8 // flush, FUA, trim, write zeroes, several connections

	nbdRead, nbdWrite, nbdEnd, nbdFlush, nbdTrim, nbdZero = 0, 1, 2, 3, 4, 6

	nbdRequest, nbdReply = 0x25609513, 0x67446698

	nbdSector   = 512
	nbdMostSize = 32 << 20 // of one request
	nbdHead     = 16       // bytes of a reply before its data

	nbdTimeoutSeconds = 60
)

// NBD is a network block device whose server is this program.
type NBD struct {
	device  *os.File
	sockets []int      // the kernel's ends
	servers chan error // one for each connection
	kernel  chan any   // when the kernel ends the device
}

// ConnectNBD has a network block device, such as "nbd0", hold what is in a file. Each
// connection is a hardware queue of the device.
func ConnectNBD(name string, back *os.File, connections int) (*NBD, error) {
	sys := filepath.Join("/sys/block", name)
	if err := await(func() bool { return !Exists(sys + "/pid") }); err != nil {
		return nil, fmt.Errorf("%s: its former connection is still in use: %w", name, err)
	}
	info, err := back.Stat()
	if err != nil {
		return nil, err
	}
	n := &NBD{servers: make(chan error, connections), kernel: make(chan any, 1)}
	if n.device, err = os.OpenFile(filepath.Join("/dev", name), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	for range connections {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.sockets = append(n.sockets, pair[0])
		go func() { n.servers <- serveNBD(os.NewFile(uintptr(pair[1]), name), back) }()
	}
	began := make(chan error)
	go n.run(info.Size(), began)
	if err := <-began; err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(err, n.close()))
	}
	// The size comes with the device, the process that has it after that.
	err = await(func() bool {
		size, err := os.ReadFile(sys + "/size")
		return err == nil && string(size) != "0\n" && Exists(sys+"/pid")
	})
	if err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, errors.Join(err, n.Disconnect()))
	}
	return n, nil
}

// run sets the device up and is its kernel's side until it ends. All sockets have to
// come from one thread, which a signal would disconnect.
func (n *NBD) run(size int64, began chan<- error) {
	runtime.LockOSThread() // for ever: the thread ends with its signals blocked
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil)
	set := func(request uint, value int) {
		if err == nil {
			err = unix.IoctlSetInt(int(n.device.Fd()), request, value)
		}
	}
	set(nbdSetBlock, nbdSector)
	set(nbdSetBlocks, int(size/nbdSector))
	set(nbdSetFlags, nbdFlags)
	set(nbdSetTimeout, nbdTimeoutSeconds)
	for _, socket := range n.sockets {
		set(nbdSetSock, socket)
	}
	began <- err
	if err == nil {
		n.kernel <- unix.IoctlSetInt(int(n.device.Fd()), nbdDoIt, 0)
	}
}

// Disconnect ends the device: requests in flight fail. Its next connection waits until
// no process has it open. The kernel ends with an error or none; that is no failure.
func (n *NBD) Disconnect() error {
	fd := int(n.device.Fd())
	err := unix.IoctlSetInt(fd, nbdDisconnect, 0)
	for _, socket := range n.sockets {
		if err != nil { // the kernel has not told the servers
			err = errors.Join(err, unix.Shutdown(socket, unix.SHUT_RDWR))
		}
	}
	for range n.sockets {
		err = errors.Join(err, <-n.servers)
	}
	err = errors.Join(err, unix.IoctlSetInt(fd, nbdClearSock, 0))
	<-n.kernel
	return errors.Join(err, n.close())
}

func (n *NBD) close() error {
	err := n.device.Close()
	for _, socket := range n.sockets {
		err = errors.Join(err, unix.Close(socket))
	}
	return err
}

// await waits for a state of the kernel's, for ten seconds at most.
func await(is func() bool) error {
	for range 1000 {
		if is() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return os.ErrDeadlineExceeded
}

// serveNBD answers requests until the disk says that it ends. Its thread must not wait
// for the disk that it serves when it needs memory.
func serveNBD(conn, back *os.File) error {
	defer conn.Close()
	runtime.LockOSThread() // for ever, as the thread stays special
	if err := unix.Prctl(unix.PR_SET_IO_FLUSHER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("nbd: PR_SET_IO_FLUSHER: %w", err)
	}
	var head [28]byte
	buf := make([]byte, nbdHead)
	for {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return fmt.Errorf("nbd: %w", err)
		}
		if binary.BigEndian.Uint32(head[:]) != nbdRequest {
			return errors.New("nbd: not a request")
		}
		command := binary.BigEndian.Uint16(head[6:])
		at, size := int64(binary.BigEndian.Uint64(head[16:])), int(binary.BigEndian.Uint32(head[24:]))
		if command == nbdEnd {
			return nil
		}
		if (command == nbdRead || command == nbdWrite) && len(buf) < nbdHead+size {
			if size > nbdMostSize {
				return fmt.Errorf("nbd: a request of %d bytes; allowed: %d", size, nbdMostSize)
			}
			buf = make([]byte, nbdHead+size)
		}
		reply, err := answerNBD(conn, back, command, at, size, buf)
		binary.BigEndian.PutUint32(reply, nbdReply)
		binary.BigEndian.PutUint32(reply[4:], 0)
		if err != nil {
			binary.BigEndian.PutUint32(reply[4:], uint32(unix.EIO))
		}
		copy(reply[8:], head[8:16])
		if _, err := conn.Write(reply); err != nil {
			return fmt.Errorf("nbd: %w", err)
		}
	}
}

// answerNBD does what a request asks. The reply is a part of buf: room for its head, and data.
func answerNBD(conn, back *os.File, command uint16, at int64, size int, buf []byte) (reply []byte, err error) {
	reply = buf[:nbdHead]
	switch command {
	case nbdRead:
		if _, err = back.ReadAt(buf[nbdHead:nbdHead+size], at); err == nil {
			reply = buf[:nbdHead+size]
		}
	case nbdWrite:
		if _, err = io.ReadFull(conn, buf[nbdHead:nbdHead+size]); err == nil {
			_, err = back.WriteAt(buf[nbdHead:nbdHead+size], at)
		}
	case nbdTrim, nbdZero:
		err = unix.Fallocate(int(back.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, int64(size))
	case nbdFlush: // what is written is in memory
	default:
		err = errors.New("nbd: unknown command")
	}
	return reply, err
}
