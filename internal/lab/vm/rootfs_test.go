// SPDX-License-Identifier: MIT

package vm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/vm/vmtest"
	"isolio/internal/must"
)

const loader = "/lib64/ld-linux-x86-64.so.2"

func TestClosure(t *testing.T) {
	root := rootFS(vmtest.Root(t))
	lib := filepath.Join(string(root), "usr/lib/x86_64-linux-gnu")
	vmtest.ELF{Interp: loader, Needed: []string{"liba.so.1", "libc.so.6"}}.Write(t, filepath.Join(string(root), "usr/bin/fio"))
	vmtest.ELF{Needed: []string{"libdeep.so.2", "libc.so.6"}, Runpath: "$ORIGIN/ceph"}.Write(t, filepath.Join(lib, "liba.so.1.2.3"))
	must.OK(t, os.Symlink("liba.so.1.2.3", filepath.Join(lib, "liba.so.1")))
	vmtest.ELF{Needed: []string{"liba.so.1"}}.Write(t, filepath.Join(lib, "ceph/libdeep.so.2")) // a loop
	vmtest.ELF{Needed: []string{"ld-linux-x86-64.so.2"}}.Write(t, filepath.Join(lib, "libc.so.6"))
	vmtest.ELF{Needed: []string{}}.Write(t, filepath.Join(lib, "ld-linux-x86-64.so.2"))
	must.OK(t, os.Symlink("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", filepath.Join(string(root), "usr/lib64/ld-linux-x86-64.so.2")))
	vmtest.ELF{Needed: []string{}}.Write(t, filepath.Join(lib, "libunused.so.1"))

	fio, err := root.find(binDirs, "fio")
	must.OK(t, err)
	got := map[string]string{}
	must.OK(t, root.closure(fio, got))
	want := map[string]string{
		loader:                                filepath.Join(lib, "ld-linux-x86-64.so.2"),
		"/lib/x86_64-linux-gnu/liba.so.1":     filepath.Join(lib, "liba.so.1.2.3"),
		"/lib/x86_64-linux-gnu/libdeep.so.2":  filepath.Join(lib, "ceph/libdeep.so.2"),
		"/lib/x86_64-linux-gnu/libc.so.6":     filepath.Join(lib, "libc.so.6"),
		"/lib/x86_64-linux-gnu/" + loader[7:]: filepath.Join(lib, "ld-linux-x86-64.so.2"),
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A library of the host must not come in for one that the root lacks.
func TestClosureMissing(t *testing.T) {
	root := rootFS(vmtest.Root(t))
	program := filepath.Join(string(root), "usr/bin/fio")
	vmtest.ELF{Needed: []string{"libc.so.6"}}.Write(t, program)
	err := root.closure(program, map[string]string{})
	if err == nil || !strings.Contains(err.Error(), "libc.so.6") || !strings.Contains(err.Error(), "usr/bin/fio") {
		t.Errorf("error %v names neither library nor program", err)
	}
}

func TestResolveStaysInside(t *testing.T) {
	root := rootFS(vmtest.Root(t))
	must.OK(t, os.WriteFile(filepath.Join(string(root), "usr/lib64/x"), nil, 0o644))
	must.OK(t, os.Symlink("../../../../lib64/x", filepath.Join(string(root), "usr/lib/up")))
	got, err := root.resolve("/lib/up")
	must.OK(t, err)
	if want := filepath.Join(string(root), "usr/lib64/x"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	must.OK(t, os.Symlink("loop", filepath.Join(string(root), "usr/lib/loop")))
	if _, err := root.resolve("/lib/loop"); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestModuleOrder(t *testing.T) {
	index, err := readModules(rootFS(vmtest.ModuleRoot(t)), "6.1-test")
	must.OK(t, err)
	list, err := index.order("bfq", "null_blk", "mid", "mq-deadline", "kyber_iosched", "bfq")
	must.OK(t, err)
	var got []string
	for _, file := range list {
		got = append(got, filepath.Base(file))
	}
	want := []string{"bfq.ko", "base.ko", "configfs.ko", "mid.ko", "null_blk.ko", "kyber-iosched.ko.xz"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := index.order("zram"); err == nil || !strings.Contains(err.Error(), "no module zram") {
		t.Errorf("an unknown module: %v", err)
	}
	if _, err := readModules(rootFS(vmtest.Root(t)), "6.1-test"); err == nil {
		t.Error("a root without modules was taken")
	}
}

func TestInitramfsModules(t *testing.T) {
	dir := t.TempDir()
	ko := filepath.Join(dir, "kyber-fairness-iosched.ko")
	vmtest.ELF{Modinfo: []string{"license=GPL", "depends=mid", "name=kyber_fairness_iosched"}}.Write(t, ko)
	spare := filepath.Join(dir, "spare.ko")
	vmtest.ELF{Modinfo: []string{"depends="}}.Write(t, spare)
	c := contents{
		kernel: &Kernel{Release: "6.1-test", root: rootFS(vmtest.ModuleRoot(t))},
		stock:  []string{"configfs a=1 b=2"}, extra: []string{ko}, carry: []string{spare},
	}
	a := newArchive()
	got, err := c.addModules(a)
	must.OK(t, err)
	want := []Module{
		{Path: "/isolio/modules/configfs.ko", Params: "a=1 b=2"},
		{Path: "/isolio/modules/base.ko"},
		{Path: "/isolio/modules/mid.ko"},
		{Path: "/isolio/modules/kyber-fairness-iosched.ko"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !a.has("/isolio/modules/spare.ko") {
		t.Error("the module that is only carried is not there")
	}
	c.extra = []string{filepath.Join(dir, "gone.ko")}
	if _, err := c.addModules(newArchive()); err == nil || !strings.Contains(err.Error(), "make setup") {
		t.Errorf("a module that is not built: %v", err)
	}
}

func TestOpenKernelMissing(t *testing.T) {
	_, err := OpenKernel(t.TempDir(), "6.1")
	if err == nil || !strings.Contains(err.Error(), "make setup KERNEL=6.1") {
		t.Errorf("error %v does not say what to do", err)
	}
}

func TestOpenKernelWithoutClock(t *testing.T) {
	build := t.TempDir()
	dir := filepath.Join(build, "kernel/6.1")
	must.OK(t, os.MkdirAll(dir, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(dir, "release"), []byte("6.1-test\n"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(dir, "vmlinuz"), nil, 0o644))
	must.OK(t, os.Symlink(vmtest.ModuleRoot(t), filepath.Join(dir, "root")))
	_, err := OpenKernel(build, "6.1")
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v does not say what to do", err)
	}
}
