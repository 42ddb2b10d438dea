// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sgHeader is the kernel's struct sg_io_hdr.
type sgHeader struct {
	interfaceID                                   int32
	direction                                     int32
	cmdLen, maxSense                              uint8
	iovecs                                        uint16
	dataLen                                       uint32
	data, cmd, sense                              unsafe.Pointer
	timeoutMS, flags                              uint32
	packID                                        int32
	_                                             int32
	_                                             unsafe.Pointer
	status, maskedStatus, messageStatus, senseLen uint8
	hostStatus, driverStatus                      uint16
	residual                                      int32
	duration, info                                uint32
}

const (
	sgIO      = 0x2285
	sgNone    = -1
	sgToDisk  = -2
	sgFromDsk = -3
)

// scsi sends a SCSI command past the file system and the page cache.
func (g *target) scsi(direction int32, cmd, data []byte) error {
	sense := make([]byte, 64)
	h := sgHeader{
		interfaceID: 'S', direction: direction, cmdLen: uint8(len(cmd)), maxSense: uint8(len(sense)),
		dataLen: uint32(len(data)), cmd: unsafe.Pointer(&cmd[0]), sense: unsafe.Pointer(&sense[0]), timeoutMS: 60000,
	}
	if len(data) > 0 {
		h.data = unsafe.Pointer(&data[0])
	}
	// Drivers of disks that are no SCSI disks know no such ioctl.
	if err := ioctl(g.file, sgIO, unsafe.Pointer(&h)); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return errUnsupported
		}
		return unsupported(err)
	}
	if h.status != 0 || h.hostStatus != 0 {
		return fmt.Errorf("SCSI status %#x, host %#x, sense % x", h.status, h.hostStatus, sense[:h.senseLen])
	}
	return nil
}

func scsiInquiry(g *target) error {
	b := aligned(4096, 0)
	defer func() { _ = unix.Munmap(b) }()
	return g.scsi(sgFromDsk, []byte{0x12, 0, 0, 0, 96, 0}, b[:96])
}

// Where passthrough reads and writes, in sectors of 512 bytes, and how much.
const passedAt, passedSectors = 64 << 10 / 512, 8

// scsi10 is READ(10), WRITE(10) and the like.
func scsi10(code byte) []byte {
	cmd := make([]byte, 10)
	cmd[0] = code
	binary.BigEndian.PutUint32(cmd[2:], passedAt)
	binary.BigEndian.PutUint16(cmd[7:], passedSectors)
	return cmd
}

func scsiRead(g *target) error {
	b := aligned(passedSectors*512, 0)
	defer func() { _ = unix.Munmap(b) }()
	return g.scsi(sgFromDsk, scsi10(0x28), b)
}

func scsiWrite(g *target) error {
	return g.passed(func(b []byte) error { return g.scsi(sgToDisk, scsi10(0x2a), b) })
}

func scsiFlush(g *target) error { return g.scsi(sgNone, scsi10(0x35), nil) }

// passed writes with a command of the disk's own, and compares.
func (g *target) passed(write func([]byte) error) error {
	b, back := aligned(passedSectors*512, g.round), aligned(passedSectors*512, 0)
	defer func() { _ = unix.Munmap(b) }()
	defer func() { _ = unix.Munmap(back) }() // it is gone with the test at the latest
	if err := write(b); err != nil {
		return err
	}
	if _, err := g.file.ReadAt(back, passedAt*512); err != nil {
		return err
	}
	if !bytes.Equal(b, back) {
		return errors.New("what was written is not there")
	}
	return nil
}

// nvmeCommand is the kernel's struct nvme_passthru_cmd.
type nvmeCommand struct {
	opcode, flags        uint8
	_                    uint16
	namespace            uint32
	_                    [2]uint32
	_                    uint64
	data                 unsafe.Pointer
	metadataLen, dataLen uint32
	words                [6]uint32 // 10 to 15 of the command
	timeoutMS, result    uint32
}

const (
	nvmeAdmin = 0xc0484e41
	nvmeIO    = 0xc0484e43
)

func (g *target) nvme(ioctlNumber uint, opcode uint8, words [6]uint32, data []byte) error {
	c := nvmeCommand{opcode: opcode, namespace: 1, words: words, dataLen: uint32(len(data)), timeoutMS: 60000}
	if len(data) > 0 {
		c.data = unsafe.Pointer(&data[0])
	}
	if !strings.HasPrefix(g.name, "nvme") {
		if err := ioctl(g.file, ioctlNumber, unsafe.Pointer(&c)); err == nil {
			return errors.New("a disk that is no NVMe one took an NVMe command")
		}
		return errUnsupported
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, g.file.Fd(), uintptr(ioctlNumber), uintptr(unsafe.Pointer(&c)))
	if errno != 0 {
		return errno
	}
	return nil
}

func nvmeIdentify(g *target) error {
	b := aligned(4096, 0)
	defer func() { _ = unix.Munmap(b) }()
	return g.nvme(nvmeAdmin, 0x06, [6]uint32{1}, b) // the controller
}

func nvmeRead(g *target) error {
	b := aligned(passedSectors*512, 0)
	defer func() { _ = unix.Munmap(b) }()
	return g.nvme(nvmeIO, 0x02, [6]uint32{passedAt, 0, passedSectors - 1}, b)
}

func nvmeWrite(g *target) error {
	return g.passed(func(b []byte) error {
		return g.nvme(nvmeIO, 0x01, [6]uint32{passedAt, 0, passedSectors - 1}, b)
	})
}

func nvmeFlush(g *target) error { return g.nvme(nvmeIO, 0x00, [6]uint32{}, nil) }

// mmcCommand is the kernel's struct mmc_ioc_cmd.
type mmcCommand struct {
	write, isAppCommand int32
	opcode, argument    uint32
	response            [4]uint32
	flags               uint32
	blockSize, blocks   uint32
	sleepMin, sleepMax  uint32 // us
	dataNS, commandMS   uint32
	_                   uint32
	data                unsafe.Pointer
}

const mmcIOC = 0xc048b300

func (g *target) mmc(c mmcCommand) error {
	if !strings.HasPrefix(g.name, "mmcblk") {
		if err := ioctl(g.file, mmcIOC, unsafe.Pointer(&c)); err == nil {
			return errors.New("a disk that is no card took a card's command")
		}
		return errUnsupported
	}
	return ioctl(g.file, mmcIOC, unsafe.Pointer(&c))
}

// Response types of the commands (MMC_RSP_R1; with data, MMC_CMD_ADTC).
const mmcR1, mmcR1Data = 0x15, 0x35

func mmcStatus(g *target) error {
	var rca uint64
	text, err := os.ReadFile(filepath.Join("/sys/block", g.name, "device/rca"))
	if err == nil {
		rca, err = strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
	}
	if err != nil && strings.HasPrefix(g.name, "mmcblk") {
		return err
	}
	return g.mmc(mmcCommand{opcode: 13, argument: uint32(rca) << 16, flags: mmcR1})
}

func mmcRead(g *target) error {
	b := aligned(4096, 0)
	defer func() { _ = unix.Munmap(b) }()
	return g.mmc(mmcCommand{opcode: 17, flags: mmcR1Data, blockSize: 512, blocks: 1, data: unsafe.Pointer(&b[0])})
}

// virtioSerial has the driver ask the disk, with a request of the driver's own.
func virtioSerial(g *target) error {
	text, err := os.ReadFile(filepath.Join("/sys/block", g.name, "serial"))
	if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(g.name, "mmcblk") {
		return errUnsupported
	}
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = errors.New("the serial number is empty")
	}
	return err
}
