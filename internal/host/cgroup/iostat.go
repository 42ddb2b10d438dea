// SPDX-License-Identifier: MIT

package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// IOStat counts what a group, and those below it, submitted to one disk since
// the group was made. A request that the kernel splits counts once for each
// of its parts; those that a scheduler merges count one by one.
type IOStat struct {
	ReadBytes, WriteBytes, ReadIOs, WriteIOs uint64
}

// IOs are both directions'.
func (s IOStat) IOs() uint64 { return s.ReadIOs + s.WriteIOs }

// Plus adds what another group did.
func (s IOStat) Plus(other IOStat) IOStat {
	return IOStat{
		s.ReadBytes + other.ReadBytes, s.WriteBytes + other.WriteBytes,
		s.ReadIOs + other.ReadIOs, s.WriteIOs + other.WriteIOs,
	}
}

// WentBack reports whether any counter is lower than it was last: then they were
// begun again, and their difference means nothing.
func (s IOStat) WentBack(last IOStat) bool {
	return s.ReadBytes < last.ReadBytes || s.WriteBytes < last.WriteBytes || s.ReadIOs < last.ReadIOs || s.WriteIOs < last.WriteIOs
}

// Minus is what was counted since it was last.
func (s IOStat) Minus(last IOStat) IOStat {
	return IOStat{
		s.ReadBytes - last.ReadBytes, s.WriteBytes - last.WriteBytes,
		s.ReadIOs - last.ReadIOs, s.WriteIOs - last.WriteIOs,
	}
}

// IOStat reads a group's counters for the disk "MAJ:MIN". They are all 0
// until the group's first request.
func (t Tree) IOStat(group, majMin string) (IOStat, error) {
	r, err := t.OpenIOStat(group, majMin)
	if err != nil {
		return IOStat{}, err
	}
	defer r.Close()
	return r.Read()
}

// IOStatReader reads a group's counters for one disk again and again, with one
// system call each time.
type IOStatReader struct {
	file   string
	fd     int
	majMin []byte
	text   []byte // room for the file
}

// OpenIOStat opens a group's counters for the disk "MAJ:MIN".
func (t Tree) OpenIOStat(group, majMin string) (*IOStatReader, error) {
	file := t.Path(group, "io.stat")
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	return &IOStatReader{file: file, fd: fd, majMin: []byte(majMin), text: make([]byte, 4096)}, nil
}

// Close closes the file.
func (r *IOStatReader) Close() {
	_ = unix.Close(r.fd) // nothing was written
}

// Read reads the counters as they are.
func (r *IOStatReader) Read() (IOStat, error) {
	for {
		n, err := unix.Pread(r.fd, r.text, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return IOStat{}, &fs.PathError{Op: "read", Path: r.file, Err: err}
		case n == len(r.text): // many disks
			r.text = make([]byte, 2*len(r.text))
		default:
			return r.parse(r.text[:n])
		}
	}
}

func (r *IOStatReader) parse(text []byte) (s IOStat, err error) {
	for line := range bytes.Lines(text) {
		disk, counters, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if !bytes.Equal(disk, r.majMin) {
			continue
		}
		for word := range bytes.FieldsSeq(counters) {
			name, value, _ := bytes.Cut(word, []byte{'='})
			to := s.Counter(string(name))
			if to == nil { // discards, and what schedulers and controllers add
				continue
			}
			if *to, err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return IOStat{}, fmt.Errorf("%s: %s: %q is not a number", r.file, r.majMin, word)
			}
		}
	}
	return s, nil
}

// Counter is the member that has the kernel's name, nil for none.
func (s *IOStat) Counter(name string) *uint64 {
	switch name {
	case "rbytes":
		return &s.ReadBytes
	case "wbytes":
		return &s.WriteBytes
	case "rios":
		return &s.ReadIOs
	case "wios":
		return &s.WriteIOs
	}
	return nil
}
