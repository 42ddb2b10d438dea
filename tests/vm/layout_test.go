// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/kmod"
	"isolio/internal/lab/vm"
)

// A module whose layout record differs from the running kernel's BTF is not
// loaded; the one that fits is, once.
func TestLayoutIsCheckedBeforeLoading(t *testing.T) {
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	fits := filepath.Join(vm.ModuleDir, moduleFile)
	differs, _ := unfit(t, moduleFile, 16)

	expectError(t, "loading what does not fit", kmod.Load(differs, ""), "struct "+alteredStruct+": member "+alteredMember)
	if moduleLoaded(t) {
		t.Fatal("a module that does not fit was loaded")
	}
	must(t, kmod.Load(fits, ""))
	if !moduleLoaded(t) {
		t.Fatal("the module was not loaded")
	}
	expectError(t, "loading it again", kmod.Load(fits, ""), "loaded already")
	must(t, kmod.Unload(moduleName))
	expectError(t, "unloading it again", kmod.Unload(moduleName), "it is not loaded")
}

// The entry of the layout record that unfit changes.
const alteredStruct, alteredMember = "elevator_mq_ops", "dispatch_request"

// unfit writes a copy of a module of the lab, in which one offset of the layout
// record is larger: it is the module of a kernel that differs in this one number.
// complaint is what the kernel says of it.
func unfit(t *testing.T, file string, by uint32) (copied, complaint string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vm.ModuleDir, file))
	must(t, err)
	// An entry of the record: two names of 48 bytes, offset and size.
	entry := make([]byte, 96)
	copy(entry, alteredStruct)
	copy(entry[48:], alteredMember)
	at := bytes.Index(data, entry)
	if at < 0 {
		t.Fatalf("%s has no record of %s.%s", file, alteredStruct, alteredMember)
	}
	number := data[at+len(entry):]
	offset := binary.LittleEndian.Uint32(number)
	binary.LittleEndian.PutUint32(number, offset+by)
	copied = filepath.Join(t.TempDir(), file)
	must(t, os.WriteFile(copied, data, 0o644))
	return copied, fmt.Sprintf("built for another kernel: struct %s: %s is at offset %d, this kernel has it at %d;",
		alteredStruct, alteredMember, offset+by, offset)
}

// ours are the modules of this project: file, name in the kernel, scheduler.
var ours = []struct{ file, module, scheduler string }{
	{moduleFile, moduleName, elevator},
	{"kyber-report-iosched.ko", reportModule, reportElevator},
	{"rsd-iosched.ko", "rsd_iosched", "rsd"},
	{"sfq-iosched.ko", "sfq_iosched", "sfq"},
	{"modeldisk.ko", "modeldisk", ""},
}

// withoutOurs starts a test with none of our modules loaded.
func withoutOurs(t *testing.T) {
	t.Helper()
	watchLog(t)
	for _, m := range ours {
		if inserted(t, m.module) {
			must(t, unix.DeleteModule(m.module, unix.O_NONBLOCK))
		}
	}
}

// leavesNoTrace checks that a refused module has registered nothing.
func leavesNoTrace(t *testing.T, d *disk, group string) {
	t.Helper()
	for _, m := range ours {
		if inserted(t, m.module) || exists(filepath.Join("/sys/module", m.module)) {
			t.Errorf("%s is loaded", m.module)
		}
		if offered, _ := d.schedulers(t); m.scheduler != "" && slices.Contains(offered, m.scheduler) {
			t.Errorf("%s is offered: %v", m.scheduler, offered)
		}
	}
	if exists(filepath.Join(group, weightFile)) {
		t.Errorf("cgroups have %s", weightFile)
	}
	if exists("/sys/kernel/config/modeldisk") {
		t.Error("modeldisk's directory in configfs is there")
	}
}

// logSince returns a function that returns what the kernel has said since then.
func logSince(t *testing.T) func() string {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		t.Fatal(err)
	}
	return func() string {
		var log strings.Builder
		buf := make([]byte, 8192)
		for {
			n, err := unix.Read(fd, buf) // one record: prefix;message\n
			if err != nil {
				return log.String()
			}
			_, message, _ := strings.Cut(string(buf[:n]), ";")
			log.WriteString(message)
		}
	}
}

// complains checks that the kernel said why it refused, in one line.
func complains(t *testing.T, log, module, complaint string) {
	t.Helper()
	want := module + ": refused: " + complaint
	if strings.Count(log, "refused") != 1 || !strings.Contains(log, want) {
		t.Errorf("the kernel says %q, want %q once", log, want)
	}
}

// finit loads a module file with the system call itself, as insmod does.
func finit(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// Each of the modules refuses to start with one offset changed, whichever system
// call loads it, and leaves nothing behind. The one that fits starts.
func TestUnfitModuleRefusesToStart(t *testing.T) {
	withoutOurs(t)
	d, group := newDisk(t, fast), newGroup(t, "a")
	for _, m := range ours {
		file, complaint := unfit(t, m.file, 8)
		data, err := os.ReadFile(file)
		must(t, err)
		for call, load := range map[string]func() error{
			"finit_module": func() error { return finit(file) },
			"init_module":  func() error { return unix.InitModule(data, "") },
		} {
			log := logSince(t)
			if err := load(); !errors.Is(err, unix.ENOEXEC) {
				t.Errorf("%s of %s: got error %v, want %v", call, m.file, err, unix.ENOEXEC)
			}
			complains(t, log(), m.module, complaint)
			leavesNoTrace(t, d, group)
		}
		started := time.Now()
		must(t, insertModule(m.file))
		t.Logf("%s: loaded in %v", m.file, time.Since(started).Round(time.Millisecond))
		must(t, unix.DeleteModule(m.module, unix.O_NONBLOCK))
	}
}

// withModprobe gives the kernel a modprobe, and it the module files.
func withModprobe(t *testing.T, files ...string) {
	t.Helper()
	var uts unix.Utsname
	must(t, unix.Uname(&uts))
	release := unix.ByteSliceToString(uts.Release[:])
	dir := filepath.Join("/lib/modules", release)
	must(t, os.MkdirAll(filepath.Join(dir, "updates"), 0o755))
	must(t, os.MkdirAll("/sbin", 0o755))
	tools := []string{"/sbin/modprobe", "/sbin/depmod"}
	for _, tool := range tools {
		must(t, os.Symlink("/bin/kmod", tool))
	}
	t.Cleanup(func() {
		must(t, os.RemoveAll(dir))
		for _, tool := range tools {
			must(t, os.Remove(tool))
		}
	})
	for _, index := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		must(t, os.WriteFile(filepath.Join(dir, index), nil, 0o644))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "updates", filepath.Base(file)), data, 0o644))
	}
	if out, err := exec.Command("/sbin/depmod", "-a", release).CombinedOutput(); err != nil {
		t.Fatalf("depmod: %v: %s", err, out)
	}
}

// A write to queue/scheduler makes the kernel start modprobe, which is what udev's
// rules come to as well. A module that does not fit is refused there, too; the
// stock schedulers and the module that fits are not.
func TestUnfitModuleIsNotLoadedByName(t *testing.T) {
	for _, m := range ours {
		if m.scheduler == "" {
			continue
		}
		t.Run(m.scheduler, func(t *testing.T) {
			withoutOurs(t)
			d, group := newDisk(t, fast), newGroup(t, "a")
			file, complaint := unfit(t, m.file, 8)
			t.Run("unfit", func(t *testing.T) {
				withModprobe(t, file)
				log := logSince(t)
				out, err := exec.Command("/sbin/modprobe", m.module).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "Exec format error") {
					t.Errorf("modprobe: error %v: %s", err, out)
				}
				complains(t, log(), m.module, complaint)
				leavesNoTrace(t, d, group)

				log = logSince(t)
				err = os.WriteFile(d.queue("scheduler"), []byte(m.scheduler), 0)
				if !errors.Is(err, unix.EINVAL) {
					t.Errorf("choosing %s: error %v, want %v", m.scheduler, err, unix.EINVAL)
				}
				complains(t, log(), m.module, complaint)
				leavesNoTrace(t, d, group)
				for _, other := range others {
					d.use(t, other)
				}
			})
			withModprobe(t, filepath.Join(vm.ModuleDir, m.file))
			d.use(t, m.scheduler)
			d.use(t, "none")
			must(t, unix.DeleteModule(m.module, unix.O_NONBLOCK))
		})
	}
}

// What the loading process has at /sys does not matter: nothing, or other files.
func TestFitIsCheckedAgainstTheKernelAlone(t *testing.T) {
	withoutOurs(t)
	d, group := newDisk(t, fast), newGroup(t, "a")
	file, complaint := unfit(t, moduleFile, 8)
	check := func(where string, load func(file string) error) {
		log := logSince(t)
		if err := load(file); !errors.Is(err, unix.ENOEXEC) {
			t.Errorf("%s: got error %v, want %v", where, err, unix.ENOEXEC)
		}
		complains(t, log(), moduleName, complaint)
		leavesNoTrace(t, d, group)
		if err := load(filepath.Join(vm.ModuleDir, moduleFile)); err != nil {
			t.Errorf("%s: loading what fits: %v", where, err)
			return
		}
		must(t, unloadModule())
	}

	empty := t.TempDir()
	check("below an empty root", func(file string) error { return finitBelow(empty, file) })

	const shown = "/sys/kernel/btf"
	must(t, unix.Mount("tmpfs", shown, "tmpfs", 0, ""))
	defer func() { must(t, unix.Unmount(shown, 0)) }()
	check("without BTF in /sys", finit)
	must(t, os.WriteFile(filepath.Join(shown, "vmlinux"), []byte("another kernel's"), 0o444))
	check("with another file in /sys", finit)
}

// finitBelow loads a module from a process whose root is dir.
func finitBelow(dir, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this function
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(dir)
		}
		if err == nil {
			err = unix.FinitModule(int(f.Fd()), "", 0)
		}
		done <- err
	}()
	return <-done
}

func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got error %v, want %q", what, err, want)
	}
}
