// SPDX-License-Identifier: MIT

package lab

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const loader = "/lib64/ld-linux-x86-64.so.2"

// mergedRoot is a root whose /lib, /lib64 and /bin are links below /usr, one
// absolute, as Debian has it.
func mergedRoot(t *testing.T) rootFS {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/lib/x86_64-linux-gnu/ceph", "usr/lib64"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.Symlink("usr/lib", filepath.Join(root, "lib")))
	must(t, os.Symlink("/usr/lib64", filepath.Join(root, "lib64")))
	must(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	return rootFS(root)
}

func TestClosure(t *testing.T) {
	root := mergedRoot(t)
	lib := filepath.Join(string(root), "usr/lib/x86_64-linux-gnu")
	elfFile{interp: loader, needed: []string{"liba.so.1", "libc.so.6"}}.write(t, filepath.Join(string(root), "usr/bin/fio"))
	elfFile{needed: []string{"libdeep.so.2", "libc.so.6"}, runpath: "$ORIGIN/ceph"}.write(t, filepath.Join(lib, "liba.so.1.2.3"))
	must(t, os.Symlink("liba.so.1.2.3", filepath.Join(lib, "liba.so.1")))
	elfFile{needed: []string{"liba.so.1"}}.write(t, filepath.Join(lib, "ceph/libdeep.so.2")) // a loop
	elfFile{needed: []string{"ld-linux-x86-64.so.2"}}.write(t, filepath.Join(lib, "libc.so.6"))
	elfFile{needed: []string{}}.write(t, filepath.Join(lib, "ld-linux-x86-64.so.2"))
	must(t, os.Symlink("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", filepath.Join(string(root), "usr/lib64/ld-linux-x86-64.so.2")))
	elfFile{needed: []string{}}.write(t, filepath.Join(lib, "libunused.so.1"))

	fio, err := root.find(binDirs, "fio")
	must(t, err)
	got := map[string]string{}
	must(t, root.closure(fio, got))
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
	root := mergedRoot(t)
	program := filepath.Join(string(root), "usr/bin/fio")
	elfFile{needed: []string{"libc.so.6"}}.write(t, program)
	err := root.closure(program, map[string]string{})
	if err == nil || !strings.Contains(err.Error(), "libc.so.6") || !strings.Contains(err.Error(), "usr/bin/fio") {
		t.Errorf("error %v names neither library nor program", err)
	}
}

func TestResolveStaysInside(t *testing.T) {
	root := mergedRoot(t)
	must(t, os.WriteFile(filepath.Join(string(root), "usr/lib64/x"), nil, 0o644))
	must(t, os.Symlink("../../../../lib64/x", filepath.Join(string(root), "usr/lib/up")))
	got, err := root.resolve("/lib/up")
	must(t, err)
	if want := filepath.Join(string(root), "usr/lib64/x"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	must(t, os.Symlink("loop", filepath.Join(string(root), "usr/lib/loop")))
	if _, err := root.resolve("/lib/loop"); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a link to itself: %v", err)
	}
}

// moduleRoot is a root with four stock modules and one built in.
func moduleRoot(t *testing.T) rootFS {
	t.Helper()
	root := mergedRoot(t)
	dir := filepath.Join(string(root), "usr/lib/modules/6.1-test")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "modules.dep"), []byte(""+
		"kernel/block/bfq.ko:\n"+
		"kernel/block/kyber-iosched.ko.xz:\n"+
		"kernel/fs/configfs.ko:\n"+
		"kernel/lib/base.ko:\n"+
		"kernel/lib/mid.ko: kernel/lib/base.ko\n"+
		"kernel/drivers/null_blk.ko: kernel/lib/mid.ko kernel/fs/configfs.ko kernel/lib/base.ko\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte("kernel/block/mq-deadline.ko\n"), 0o644))
	return root
}

func TestModuleOrder(t *testing.T) {
	index, err := readModules(moduleRoot(t), "6.1-test")
	must(t, err)
	list, err := index.order("bfq", "null_blk", "mid", "mq-deadline", "kyber_iosched", "bfq")
	must(t, err)
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
	if _, err := readModules(mergedRoot(t), "6.1-test"); err == nil {
		t.Error("a root without modules was taken")
	}
}

func TestInitramfsModules(t *testing.T) {
	dir := t.TempDir()
	ko := filepath.Join(dir, "kyber-fairness-iosched.ko")
	elfFile{modinfo: []string{"license=GPL", "depends=mid", "name=kyber_fairness_iosched"}}.write(t, ko)
	spare := filepath.Join(dir, "spare.ko")
	elfFile{modinfo: []string{"depends="}}.write(t, spare)
	c := contents{
		kernel: &Kernel{Release: "6.1-test", root: moduleRoot(t)},
		stock:  []string{"configfs a=1 b=2"}, extra: []string{ko}, carry: []string{spare},
	}
	a := newArchive()
	got, err := c.addModules(a)
	must(t, err)
	want := []module{
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
	if _, err := c.addModules(newArchive()); err == nil || !strings.Contains(err.Error(), "make modules") {
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
	opts, _ := fakeLab(t, "")
	must(t, os.Remove(filepath.Join(opts.Build, clockLibrary)))
	_, err := OpenKernel(opts.Build, opts.Line)
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v does not say what to do", err)
	}
}
