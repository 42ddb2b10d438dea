// SPDX-License-Identifier: MIT

package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// OS is the machine that this program runs on.
type OS struct{}

// Mkdir makes one directory, whose parent exists.
func (OS) Mkdir(path string) error {
	return os.Mkdir(path, 0o755)
}

// Read reads a file's text without the space around it.
func (OS) Read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// Write writes value in one system call, as kernel files want it. The file
// must exist: a kernel file that is not there is not made.
func (OS) Write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// A cgroup whose last process was killed stays busy until the kernel has
// taken the process apart.
const (
	busyWait  = 10 * time.Second
	busyRetry = 20 * time.Millisecond
)

// Rmdir removes one directory, and waits while the kernel calls it busy.
func (OS) Rmdir(path string) error {
	for deadline := time.Now().Add(busyWait); ; time.Sleep(busyRetry) {
		// Not os.Remove: it would unlink a file of that name.
		err := syscall.Rmdir(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return &fs.PathError{Op: "rmdir", Path: path, Err: err}
		}
	}
}

// Create makes a file, and the directory it is in, with this text. A reader sees
// the old text or the new one, also after a power cut.
func (OS) Create(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := renameio.WriteFile(path, []byte(text), 0o644, renameio.WithStaticPermissions(0o644), renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// KeepAside keeps a damaged file under another name as well, which it returns, in place of one that
// was kept before. The file itself is there until another one takes its place.
func KeepAside(path string) (kept string, err error) {
	kept = path + ".damaged"
	if err := os.Remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	return kept, os.Link(path, kept)
}

// syncDir has the names in a directory on the disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// A file system that cannot do it, such as that of a network, says so.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Remove removes one file; none there is as good.
func (OS) Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Run runs a program to its end. The error has what it said.
func (OS) Run(command []string) error {
	said, err := exec.Command(command[0], command[1:]...).CombinedOutput() //nolint:gosec // a plan's own
	if err != nil {
		return fmt.Errorf("%s: %w; it says: %s", strings.Join(command, " "), err, strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}

// Mount mounts a device's file system.
func (OS) Mount(device, path, kind string) error {
	if err := unix.Mount(device, path, kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s as %s: %w", device, path, kind, err)
	}
	return nil
}

// Unmount writes out what is not on the disk yet, and unmounts. It waits while
// the kernel calls it busy.
func (OS) Unmount(path string) error {
	for deadline := time.Now().Add(busyWait); ; time.Sleep(busyRetry) {
		err := unix.Unmount(path, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// cause drops the path that os puts into its errors, where the message around
// them has it already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
