// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// withMkfs puts the programs that make file systems and swap into the path. They are not run.
func withMkfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	programs := experiment.SwapPrograms()
	for _, kind := range experiment.Filesystems() {
		programs = append(programs, "mkfs."+kind)
	}
	for _, name := range programs {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
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

// Each kind is made with its own options, and mounted as what it is.
func TestFilesystemKinds(t *testing.T) {
	for _, tt := range []struct{ kind, mkfs string }{
		{"ext4", "-q -F -U " + uuid + " -E lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=" + uuid},
		{"xfs", "-q -f -K -m uuid=" + uuid}, {"btrfs", "-q -f -K -U " + uuid},
	} {
		dir := withMkfs(t)
		m, e := newMachine(t, honest)
		x := parse(t, "")
		x.Cases[0].Device.Filesystem = tt.kind
		p, err := decide(t, e, x, "bfq")
		must.OK(t, err)
		var b strings.Builder
		must.OK(t, p.Print(&b))
		text := strings.NewReplacer(dir+"/", "", m.root+"/", "").Replace(b.String())
		at := filepath.Join(os.TempDir(), "isolio-x")
		want := "mkfs." + tt.kind + " " + tt.mkfs + " dev/nullb0\nmkdir " + at + "\nmount -t " + tt.kind + " dev/nullb0 " + at + "\n"
		if !strings.Contains(text, want) {
			t.Errorf("%s: no\n%s in\n%s", tt.kind, want, text)
		}
	}
}

const uuid = "6f10a3c2-5b1e-4d0a-9a57-1a0b2c3d4e5f"

// A limit is set for each cgroup of a container, and is in force before the load; what the
// kernel swaps to is a file, which jobs' files leave room for, and which is given up again.
func TestMemoryAndSwap(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	withMkfs(t)
	m, e := newMachine(t, `trap 'report; exit 128' INT; barrier; load`)
	x := parse(t, "")
	x.Cases[0].Device.Filesystem, x.Cases[0].Device.SwapMiB = "ext4", 1024
	x.Cases[0].Containers[0].MemoryMiB = 48
	p, err := decide(t, e, x, "bfq")
	must.OK(t, err)
	if got, want := p.Jobs[0].SizeBytes, fileBytes((4<<30-1<<30)/2); got != want {
		t.Errorf("a file of %d bytes, want %d", got, want)
	}
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	m.checkClean()
	file := filepath.Join(os.TempDir(), "isolio-x", ".swap")
	log := strings.Join(m.log, "\n")
	last := -1
	for _, want := range []string{
		"isolio-x/a/memory.max = 50331648\n", "mount ext4 ",
		"fallocate -l 1024MiB " + file, "mkswap -q -U " + uuid + " " + file, "swapon " + file, "swapoff " + file, "unmount ",
	} {
		at := strings.Index(log, want)
		if at <= last {
			t.Errorf("no %q in its place among the changes:\n%s", want, log)
		}
		last = at
	}
	if strings.Contains(log, "b/memory.max") || strings.Contains(strings.Join(run.Settings, "\n"), "memory.max") {
		t.Errorf("b is limited, or the limit is among the contender's settings: %q", run.Settings)
	}
}

// A limit needs the controller, on a disk without a file system as well.
func TestMemoryOnARawDisk(t *testing.T) {
	x := parse(t, "")
	k := &x.Cases[0]
	if got := controllers(k); len(got) != 1 {
		t.Errorf("controllers %q", got)
	}
	k.Containers[1].MemoryMiB, k.Containers[1].Count = 16, 3
	if got := strings.Join(controllers(k), " "); got != "io memory" {
		t.Errorf("controllers %q", got)
	}
	if steps := (Env{}).limitMemory(k, "isolio-x"); len(steps) != 3 || !strings.HasSuffix(steps[2].Path, "isolio-x/b-0002/memory.max") {
		t.Errorf("limits %v", steps)
	}
}

func TestSwapNeedsItsPrograms(t *testing.T) {
	_, e := newMachine(t, honest)
	t.Setenv("PATH", withMkfs(t))
	for _, name := range experiment.SwapPrograms() {
		dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
		must.OK(t, os.Remove(filepath.Join(dir, name)))
		t.Setenv("PATH", dir)
		x := parse(t, "")
		x.Cases[0].Device.Filesystem, x.Cases[0].Device.SwapMiB = "ext4", 64
		_, err := decide(t, e, x, "bfq")
		if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "install util-linux and mount") {
			t.Errorf("Decide = %v", err)
		}
		t.Setenv("PATH", withMkfs(t))
	}
}
