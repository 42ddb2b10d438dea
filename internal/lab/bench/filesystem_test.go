// SPDX-License-Identifier: MIT

package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
)

// withMkfs puts a mkfs.ext4 into the path, which is not run.
func withMkfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mkfs.ext4"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func TestFilesystem(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := withMkfs(t)
	m, e := newMachine(t, `for a; do case $a in --filename=*) file=${a#*=};; --size=*) trace "$file ${a#*=}";; --readonly) trace readonly;; esac; done
		trap 'report; exit 128' INT; barrier; load`)
	x := parse(t, "")
	x.Cases[0].Device.Filesystem = "ext4"
	for i := range x.Cases[0].Containers {
		x.Cases[0].Containers[i].Job["rw"] = "randread"
	}
	if !x.Writes() {
		t.Error("making a file system is not writing")
	}
	if _, err := runOn(context.Background(), e, x, "bfq", nil); err != nil {
		t.Fatal(err)
	}
	m.checkClean()
	at := filepath.Join(tmp, "isolio-x")
	log := strings.ReplaceAll(strings.Join(m.log, "\n"), dir+"/", "")
	for _, want := range []string{
		"cgroup.subtree_control = +io\nsys/fs/cgroup/isolio-x/cgroup.subtree_control = +memory\n",
		"mkdir " + at + "\nmount ext4 dev/nullb0 " + at + "\n",
		"unmount " + at + "\nrmdir " + at + "\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q among the changes:\n%s", want, log)
		}
	}
	if i, j := strings.Index(log, "mkfs.ext4 -q -F "), strings.Index(log, "mount ext4"); i < 0 || j < i {
		t.Errorf("the file system is not made before it is mounted:\n%s", log)
	}
	// 0.8 of 2 GiB in whole MiB; a read of a file that fio makes also writes.
	trace := strings.Join(traced(t, m), "\n")
	for _, want := range []string{at + "/a 1717567488 a", at + "/b 1717567488 b"} {
		if !strings.Contains(trace, want) {
			t.Errorf("no %q among the files:\n%s", want, trace)
		}
	}
	if strings.Contains(trace, "readonly") {
		t.Error("fio may not write, and could not make its files")
	}
}

func TestFilesystemNeedsMkfs(t *testing.T) {
	_, e := newMachine(t, honest)
	t.Setenv("PATH", t.TempDir())
	x := parse(t, "")
	x.Cases[0].Device.Filesystem = "ext4"
	_, err := decide(t, e, x, "bfq")
	if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "mkfs.ext4") || !strings.Contains(err.Error(), "install e2fsprogs") {
		t.Errorf("Decide = %v", err)
	}
}
