// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cutWriterOf is the variable that has this program write and sync until a call
// fails: "KIND DIRECTORY". It tells each number that is on the disk to file 3,
// which is shared memory: a number counts from the moment at which it is there.
const cutWriterOf = "ISOLIO_CUT_WRITER"

// A record is what one numbered write leaves: blocks that each tell the number,
// so that a mixture of two writes, or half a block, is seen.
const (
	recordBytes = 4096
	blockBytes  = 512
	cutSlots    = 64 // records in a file that is overwritten
)

// cutWriter writes records in one way. Numbers start at 1, and each is on the disk
// before the next is tried.
type cutWriter struct {
	// prepare makes what the writer needs, before the first number.
	prepare func(dir string) error
	// write has number n on the disk when it returns nil.
	write func(dir string, n uint64) error
	// check says what of the numbers 1 to acked is missing; those up to tried may
	// be there, each instead of the ones that it replaces.
	check func(dir string, acked, tried uint64) error
}

// cutWriters are the ways in which programs put data on a disk for good.
var cutWriters = map[string]cutWriter{
	"append":    {prepare: prepareNone, write: appendRecord, check: checkAppended},
	"create":    {prepare: prepareNone, write: createFile, check: checkCreated},
	"rename":    {prepare: prepareNone, write: renameFile, check: checkRenamed},
	"overwrite": {prepare: prepareSlots, write: overwriteSlot(unix.O_WRONLY), check: checkSlots},
	"dsync":     {prepare: prepareSlots, write: overwriteSlot(unix.O_WRONLY | unix.O_DIRECT | unix.O_DSYNC), check: checkSlots},
}

// writeUntilCut is the writer's process. It ends with an error always.
func writeUntilCut(kind, dir string) error {
	w := cutWriters[kind]
	acked, err := sharedNumber(3)
	if err != nil {
		return err
	}
	if err := w.prepare(dir); err != nil {
		return err
	}
	for n := uint64(1); ; n++ {
		if err := w.write(dir, n); err != nil {
			return err
		}
		acked.Store(n)
	}
}

// sharedNumber is a number in the memory that a file stands for.
func sharedNumber(fd int) (*atomic.Uint64, error) {
	b, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return (*atomic.Uint64)(unsafe.Pointer(&b[0])), nil
}

// fillRecord fills a record's blocks with the number n of what; each word of a
// block depends on all of that.
func fillRecord(record []byte, what, n uint64) {
	for at := 0; at < len(record); at += 8 {
		word := n
		if at%blockBytes != 0 {
			word = (n*0x9e3779b97f4a7c15 + what*0xbf58476d1ce4e5b9 + uint64(at)) * 0x94d049bb133111eb
		}
		binary.LittleEndian.PutUint64(record[at:], word)
	}
}

// blockNumbers returns the number that each block of a record tells.
func blockNumbers(record []byte, what uint64) ([]uint64, error) {
	want := make([]byte, len(record))
	var numbers []uint64
	for at := 0; at < len(record); at += blockBytes {
		n := binary.LittleEndian.Uint64(record[at:])
		fillRecord(want, what, n)
		if string(record[at:at+blockBytes]) != string(want[at:at+blockBytes]) {
			return nil, fmt.Errorf("block %d of record %d begins with %#x and is not of one write", at/blockBytes, what, n)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// checkRecord wants each block of a record to tell number least or a later one that
// was tried.
func checkRecord(record []byte, what, least, tried uint64) error {
	numbers, err := blockNumbers(record, what)
	if err != nil {
		return err
	}
	for i, got := range numbers {
		if got < least || got > tried {
			return fmt.Errorf("block %d of record %d is of write %d, want %d to %d", i, what, got, least, tried)
		}
	}
	return nil
}

func record(what, n uint64) []byte {
	b := make([]byte, recordBytes)
	fillRecord(b, what, n)
	return b
}

// writeAt opens a file, writes a record there and syncs it.
func writeAt(file string, flags int, at int64, what, n uint64) (err error) {
	f, err := os.OpenFile(file, flags, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(record(what, n), at); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir has the names in the directory on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func prepareNone(string) error { return nil }

// appendRecord makes a file longer.
func appendRecord(dir string, n uint64) error {
	return writeAt(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE, int64(n-1)*recordBytes, n, n)
}

func checkAppended(dir string, acked, _ uint64) error {
	data, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil && (acked > 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	if uint64(len(data)) < acked*recordBytes {
		return fmt.Errorf("%d bytes, want at least %d", len(data), acked*recordBytes)
	}
	for n := uint64(1); n <= acked; n++ {
		if err := checkRecord(data[(n-1)*recordBytes:n*recordBytes], n, n, n); err != nil {
			return err
		}
	}
	return nil
}

// createFile makes a file for each number.
func createFile(dir string, n uint64) error {
	if err := writeAt(filepath.Join(dir, fmt.Sprint(n)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0, n, n); err != nil {
		return err
	}
	return syncDir(dir)
}

func checkCreated(dir string, acked, _ uint64) error {
	for n := uint64(1); n <= acked; n++ {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			return err
		}
		if len(data) != recordBytes {
			return fmt.Errorf("file %d has %d bytes", n, len(data))
		}
		if err := checkRecord(data, n, n, n); err != nil {
			return err
		}
	}
	return nil
}

// renameFile puts a file in the place of another, as editors do.
func renameFile(dir string, n uint64) error {
	temporary := filepath.Join(dir, "new")
	if err := writeAt(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0, 0, n); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, "config")); err != nil {
		return err
	}
	return syncDir(dir)
}

func checkRenamed(dir string, acked, tried uint64) error {
	data, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil && (acked > 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	if err != nil {
		return nil
	}
	if len(data) != recordBytes {
		return fmt.Errorf("config has %d bytes", len(data))
	}
	numbers, err := blockNumbers(data, 0)
	if err != nil {
		return err
	}
	// Synced before it was renamed: all of it is of one number.
	if numbers[0] < acked || numbers[0] > tried {
		return fmt.Errorf("config is of write %d, want %d to %d", numbers[0], acked, tried)
	}
	return checkRecord(data, 0, numbers[0], numbers[0])
}

// slotOf is where number n goes in a file that is overwritten.
func slotOf(n uint64) uint64 { return (n * 0x9e3779b97f4a7c15 >> 32) % cutSlots }

// prepareSlots writes number 0 to each slot.
func prepareSlots(dir string) error {
	f, err := os.Create(filepath.Join(dir, "slots"))
	if err != nil {
		return err
	}
	for slot := range uint64(cutSlots) {
		if _, err := f.Write(record(slot, 0)); err != nil {
			return err
		}
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(dir))
}

// overwriteSlot overwrites records in place, through the page cache with
// fdatasync, or directly.
func overwriteSlot(flags int) func(dir string, n uint64) error {
	return func(dir string, n uint64) (err error) {
		fd, err := unix.Open(filepath.Join(dir, "slots"), flags, 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
		buf := make([]byte, 2*recordBytes)
		buf = buf[recordBytes-uintptr(unsafe.Pointer(&buf[0]))%recordBytes:][:recordBytes]
		fillRecord(buf, slotOf(n), n)
		if _, err := unix.Pwrite(fd, buf, int64(slotOf(n)*recordBytes)); err != nil {
			return err
		}
		if flags&unix.O_DSYNC != 0 {
			return nil
		}
		return unix.Fdatasync(fd)
	}
}

func checkSlots(dir string, acked, tried uint64) error {
	if acked == 0 {
		return nil // perhaps not prepared
	}
	data, err := os.ReadFile(filepath.Join(dir, "slots"))
	if err != nil {
		return err
	}
	if len(data) != cutSlots*recordBytes {
		return fmt.Errorf("slots has %d bytes", len(data))
	}
	var last [cutSlots]uint64
	for n := uint64(1); n <= acked; n++ {
		last[slotOf(n)] = n
	}
	for slot, n := range last {
		if err := checkRecord(data[slot*recordBytes:(slot+1)*recordBytes], uint64(slot), n, tried); err != nil {
			return err
		}
	}
	return nil
}
