// SPDX-License-Identifier: MIT

package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"
)

// File types of a newc header's mode field, as in stat(2).
const (
	modeDir     = 0o040000
	modeFile    = 0o100000
	modeSymlink = 0o120000
)

// archiveMTime is the time stamp of every member, seconds since 1970
// (2026-01-01): the bytes must depend on names and contents only.
const archiveMTime = 1767225600

// archive collects the files of an initramfs and writes them as a newc cpio.
// Two archives with the same names, modes and contents are the same bytes, in
// whatever order and on whatever machine they were put together.
type archive struct {
	members map[string]member
}

type member struct {
	mode uint32 // type and permission bits
	data []byte // contents, or a symlink's target
	host string // file on the host with the contents, used when not ""
}

func newArchive() *archive { return &archive{members: map[string]member{}} }

// addBytes puts a regular file with the given permission bits at name.
func (a *archive) addBytes(name string, perm uint32, data []byte) error {
	return a.add(name, member{mode: modeFile | perm, data: data})
}

// addFile puts a copy of the host's file at name. It is read when the archive
// is written.
func (a *archive) addFile(name string, perm uint32, host string) error {
	return a.add(name, member{mode: modeFile | perm, host: host})
}

func (a *archive) addSymlink(name, target string) error {
	return a.add(name, member{mode: modeSymlink | 0o777, data: []byte(target)})
}

func (a *archive) addDir(name string) error {
	return a.add(name, member{mode: modeDir | 0o755})
}

func (a *archive) has(name string) bool {
	_, ok := a.members[archiveName(name)]
	return ok
}

func archiveName(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// add takes the member and makes its parent directories. The same name twice
// is an error: the later one would silently win in the guest.
func (a *archive) add(name string, m member) error {
	clean := archiveName(name)
	if clean == "" {
		return fmt.Errorf("initramfs: %q is not a file name", name)
	}
	if old, ok := a.members[clean]; ok {
		if old.mode&modeDir != 0 && old.mode == m.mode {
			return nil
		}
		return fmt.Errorf("initramfs: /%s is there twice", clean)
	}
	if dir := path.Dir(clean); dir != "." {
		if err := a.addDir(dir); err != nil {
			return err
		}
	}
	a.members[clean] = m
	return nil
}

// writeTo writes the archive, padded with zero bytes to a multiple of
// pad bytes (at least 4), and returns its length.
func (a *archive) writeTo(w io.Writer, pad int64) (int64, error) {
	names := make([]string, 0, len(a.members))
	for name := range a.members {
		names = append(names, name)
	}
	sort.Strings(names) // a directory sorts before what is in it

	out := &cpioWriter{w: bufio.NewWriterSize(w, 1<<20)}
	for i, name := range names {
		if err := out.member(uint32(i+1), name, a.members[name]); err != nil {
			return out.n, err
		}
	}
	out.header(0, "TRAILER!!!", 0, 0)
	out.align(max(pad, 4))
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return out.n, fmt.Errorf("initramfs: %w", out.err)
	}
	return out.n, nil
}

// cpioWriter writes newc records; the first error sticks.
type cpioWriter struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (c *cpioWriter) member(ino uint32, name string, m member) error {
	if m.host == "" {
		c.header(ino, name, m.mode, int64(len(m.data)))
		c.write(m.data)
		c.align(4)
		return nil
	}
	f, err := os.Open(m.host)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	if st.Size() > 1<<32-1 {
		return fmt.Errorf("initramfs: %s has %d bytes; the format holds at most 4 GiB a file", m.host, st.Size())
	}
	c.header(ino, name, m.mode, st.Size())
	if c.err != nil {
		return nil
	}
	n, err := io.CopyN(c.w, f, st.Size())
	c.n += n
	if err != nil {
		return fmt.Errorf("initramfs: %s: %w", m.host, err)
	}
	c.align(4)
	return nil
}

func (c *cpioWriter) header(ino uint32, name string, mode uint32, size int64) {
	// magic ino mode uid gid nlink mtime filesize dev(2) rdev(2) namesize check
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		ino, mode, 0, 0, 1, archiveMTime, size, 0, 0, 0, 0, len(name)+1, 0, name))
	c.align(4)
}

func (c *cpioWriter) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = err
}

func (c *cpioWriter) align(to int64) {
	if rest := c.n % to; rest != 0 {
		c.write(make([]byte, to-rest))
	}
}
