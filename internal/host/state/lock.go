// SPDX-License-Identifier: MIT

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DaemonLock is held by the daemon as long as it runs, Disks by any program of isolio that changes a
// disk's scheduler.
const (
	DaemonLock = "daemon"
	DisksLock  = "disks"
)

// LockFile is where a lock of the machine below root is, "" for /. A boot removes it.
func LockFile(root, name string) string {
	return pathOf(root, "run/isolio/"+name+".lock")
}

// lockPause is the time between two tries.
const lockPause = 20 * time.Millisecond

// Lock takes a lock, and waits so long for another process to give it back.
func Lock(ctx context.Context, root, name string, wait time.Duration) (release func(), err error) {
	file := LockFile(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	// For root alone: a user that may open it may hold it, and keep all others away.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// Locked reports whether a process holds a lock. Root alone can tell; for others
// held is false, and known as well.
func Locked(root, name string) (held, known bool) {
	f, err := os.Open(LockFile(root, name))
	if err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK), true
}
