// SPDX-License-Identifier: MIT

package vm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/lab/vm/vmtest"
	"isolio/internal/must"
)

// fakeQemu is a VM of a kernel root, and the script in QEMU's place.
func fakeQemu(t *testing.T, script string) (vm VM, pid string) {
	t.Helper()
	init, pid := vmtest.QEMU(t, script)
	return VM{
		Kernel:  &Kernel{Release: "6.1-test", Vmlinuz: "/boot/vmlinuz", root: rootFS(vmtest.ModuleRoot(t))},
		Init:    init,
		Payload: Payload{Argv: []string{"/bin/true"}},
	}, pid
}

// gone checks that the script's process has ended.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	must.OK(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must.OK(t, err)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestBootOutcome(t *testing.T) {
	vm, pid := fakeQemu(t, `
		printf '[    0.000000] Linux version 6.1\r\n' >"$console"
		event '{"event":"boot","line":"6.1-test"}'
		printf '{"event":"out' >>"$events"; sleep 0.2; event 'put","line":"hello"}'
		event '{"event":"data","data":{"a":1}}'
		event '{"event":"exit","code":7}'`)
	var kinds []string
	out, err := Boot(context.Background(), vm, func(ev Event) {
		kinds = append(kinds, ev.Kind+ev.Line+string(ev.Data))
	})
	must.OK(t, err)
	gone(t, pid)
	if out.Code != 7 || !strings.Contains(out.Log, "Linux version 6.1\n") {
		t.Errorf("outcome %+v", out)
	}
	want := []string{"boot6.1-test", "outputhello", `data{"a":1}`, "exit"}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %q, want %q", kinds, want)
	}
}

func TestBootFailures(t *testing.T) {
	cases := []struct {
		name, script   string
		timeout, stall time.Duration
		reason         string
		also           []string // in the whole message
	}{
		{
			name: "qemu refuses", script: `echo "qemu: could not load kernel" >&2; exit 1`,
			reason: "QEMU failed: exit status 1", also: []string{"could not load kernel"},
		},
		{
			name: "no sign of life", stall: 2 * time.Second,
			script: `echo '[    0.5] last words' >"$console"; exec sleep 60`,
			reason: "the guest hangs: no sign of life for 2s", also: []string{"last words"},
		},
		{
			name: "alive but too long", timeout: 4 * time.Second, stall: 3 * time.Second,
			script: `while :; do event '{"event":"beat"}'; event '{"event":"output","line":"still here"}'; sleep 0.1; done`,
			reason: "the VM did not finish within 4s", also: []string{"still here"},
		},
		{
			name: "panic", script: `
				event '{"event":"boot"}'
				echo '[    1.234567] Kernel panic - not syncing: sysrq' >"$console"`,
			reason: "the guest's kernel complained: [    1.234567] Kernel panic - not syncing: sysrq",
		},
		{
			name: "complaint in a good run", script: `
				echo '[    1.234567] WARNING: CPU: 0 PID: 1 at x.c:1' >"$console"
				event '{"event":"exit","code":0}'`,
			reason: "the guest's kernel complained: [    1.234567] WARNING: CPU: 0 PID: 1 at x.c:1",
		},
		{
			name: "guest's own error", script: `
				: >"$console"
				event '{"event":"output","line":"fio: no such device"}'
				event '{"event":"error","line":"init: module bfq.ko does not load"}'`,
			reason: "the guest gave up: init: module bfq.ko does not load", also: []string{"no such device"},
		},
		{
			name: "ends without a word", script: `echo '[    1.0] reboot: Power down' >"$console"`,
			reason: "the guest ended before its payload did", also: []string{"Power down"},
		},
		{
			name: "garbage on the channel", script: `: >"$console"; event 'garbage'; exec sleep 60`,
			reason: `the guest wrote something that is no event: "garbage"`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			vm, pid := fakeQemu(t, c.script)
			vm.Timeout, vm.Stall = c.timeout, c.stall
			began := time.Now()
			_, err := Boot(context.Background(), vm, nil)
			var fail *Failure
			if !errors.As(err, &fail) {
				t.Fatalf("error %v is no Failure", err)
			}
			gone(t, pid)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
			if fail.Reason != c.reason {
				t.Errorf("reason %q, want %q", fail.Reason, c.reason)
			}
			for _, s := range append(c.also, "-icount", "/boot/vmlinuz", "--keep DIR") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the message lacks %q:\n%v", s, err)
				}
			}
		})
	}
}

func TestBootCancelled(t *testing.T) {
	vm, pid := fakeQemu(t, `while :; do event '{"event":"beat"}'; sleep 0.05; done`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Boot(ctx, vm, func(Event) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	gone(t, pid)
}

// A kept directory stays, and what an earlier run left in it is not read.
func TestBootKeeps(t *testing.T) {
	vm, _ := fakeQemu(t, `sleep 0.3; : >"$console"; event '{"event":"exit","code":0}'`)
	vm.Keep = filepath.Join(t.TempDir(), "kept")
	must.OK(t, os.Mkdir(vm.Keep, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(vm.Keep, "events.jsonl"), []byte(`{"event":"error","line":"stale"}`+"\n"), 0o644))
	_, err := Boot(context.Background(), vm, nil)
	must.OK(t, err)
	for _, name := range []string{"initramfs.cpio", "console.log", "events.jsonl"} {
		if _, err := os.Stat(filepath.Join(vm.Keep, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestNoQemu(t *testing.T) {
	vm, _ := fakeQemu(t, "")
	t.Setenv("ISOLIO_QEMU", "/nowhere/qemu")
	_, err := Boot(context.Background(), vm, nil)
	if err == nil || !strings.Contains(err.Error(), "/nowhere/qemu") || !strings.Contains(err.Error(), "qemu-system-x86") {
		t.Errorf("error %v does not say what to install", err)
	}
}

func TestShellLine(t *testing.T) {
	got := shellLine([]string{"qemu", "-append", "a b", "it's", "", "file:/x"})
	if want := `qemu -append 'a b' 'it'\''s' '' file:/x`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A library that the dynamic linker leaves out is no clock: the run would be
// as the host's.
func TestBootWithoutClock(t *testing.T) {
	vm, _ := fakeQemu(t, `: >"$console"; event '{"event":"exit","code":0}'`)
	vm.Kernel.Clock = filepath.Join(t.TempDir(), "gone.so")
	_, err := Boot(context.Background(), vm, nil)
	if err == nil || !strings.Contains(err.Error(), "without the lab's clock") {
		t.Errorf("error %v", err)
	}
}
