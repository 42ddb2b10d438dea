// SPDX-License-Identifier: MIT

package block

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

// A file system whose server does not answer, such as a dead NFS server's, hangs a program that looks below it. A name
// there, as rules of the daemon have, is told from a disk's all the same.
func TestMountIsDead(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"proc/self/mountinfo": "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n21 20 0:50 / /mnt/dead rw - fuse.sshfs host:/ rw\n",
		"sys/block/sda/dev":   "8:0\n", "sys/block/sda/sda2/dev": "8:2\n", "sys/block/sda/sda2/partition": "2\n",
	})
	point := filepath.Join(root, "mnt/dead")
	must.OK(t, os.MkdirAll(point, 0o755))
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	if err := syscall.Mount("dead", point, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())); err != nil {
		_ = server.Close()
		t.Skipf("may not mount here: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Unmount(point, syscall.MNT_DETACH)
		_ = server.Close() // ends what hangs
	})
	done := make(chan error, 1)
	go func() {
		_, err := System{Root: root}.Resolve("/mnt/dead/a/b")
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "is on fuse.sshfs, which is no disk") {
			t.Errorf("below a dead mount: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a dead mount hangs the program")
	}
}
