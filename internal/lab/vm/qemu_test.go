// SPDX-License-Identifier: MIT

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

// One CPU is timed by the HPET; each of several has a timer of its own, and the
// others are devices, as QEMU records no machine that begins with several.
func TestQemuArgsCPUs(t *testing.T) {
	for _, cpus := range []int{1, 4} {
		args := qemuArgs("vmlinuz", "initrd", "console", "events", 256, cpus, false, []string{"panic_on_warn=1", "quiet"})
		line := strings.Join(args, " ")
		if got := strings.Contains(args[slices.Index(args, "-append")+1], "nolapic_timer"); got != (cpus == 1) {
			t.Errorf("%d CPUs: nolapic_timer is on the kernel's command line: %t", cpus, got)
		}
		if !strings.HasSuffix(line[:strings.Index(line+" -device", " -device")], " panic_on_warn=1 quiet") {
			t.Errorf("%d CPUs: the kernel's command line does not end with what was asked for: %s", cpus, line)
		}
		if want := fmt.Sprintf("-smp 1,sockets=1,cores=%d,threads=1,maxcpus=%[1]d ", cpus); !strings.Contains(line, want) {
			t.Errorf("%d CPUs: no %q in %s", cpus, want, line)
		}
		if got := strings.Count(line, "-device Nehalem-v1-x86_64-cpu,socket-id=0,core-id="); got != cpus-1 {
			t.Errorf("%d CPUs: %d devices are CPUs: %s", cpus, got, line)
		}
	}
}

// Parallel CPUs have real time: nothing counts instructions.
func TestQemuArgsParallel(t *testing.T) {
	line := strings.Join(qemuArgs("vmlinuz", "initrd", "console", "events", 256, 2, true, []string{parallelKernelArgs(0)}), " ")
	if !strings.Contains(line, "-smp 2 -accel tcg,thread=multi ") || strings.Contains(line, "icount") || strings.Contains(line, "-device") {
		t.Errorf("parallel CPUs: %s", line)
	}
	if first, last := strings.Index(line, "watchdog_thresh=3 "), strings.Index(line, parallelKernelArgs(0)); first < 0 || last < first {
		t.Errorf("the relaxed limit does not follow the lab's: %s", line)
	}
}

func TestQemuFor(t *testing.T) {
	dir := t.TempDir()
	qemu, newer := filepath.Join(dir, "qemu-system-x86_64"), filepath.Join(dir, "newer")
	for _, tt := range []struct {
		says   string
		cpus   int
		asked  bool // by ISOLIO_QEMU, not found in PATH
		newer  bool // is there
		want   string
		refuse string // part of the error, "" for none
	}{
		{says: "QEMU emulator version 7.2.22 (Debian 1:7.2)", cpus: 1, newer: true, want: qemu},
		{says: "QEMU emulator version 7.2.22 (Debian 1:7.2)", cpus: 2, newer: true, want: newer},
		{says: "QEMU emulator version 7.2.22 (Debian 1:7.2)", cpus: 2, refuse: "cpus = 2: " + qemu + " is version 7.2,"},
		{says: "QEMU emulator version 8.0.5", cpus: 8, asked: true, newer: true, refuse: "QEMU 8.1 or newer is needed: `make setup WITH=qemu` gets one"},
		{says: "QEMU emulator version 8.1.0", cpus: 2, newer: true, want: qemu},
		{says: "QEMU emulator version 10.0.2", cpus: 8, asked: true, want: qemu},
	} {
		must.OK(t, os.WriteFile(qemu, []byte("#!/bin/sh\necho '"+tt.says+"'\n"), 0o755))
		must.OK(t, os.RemoveAll(newer))
		if tt.newer {
			must.OK(t, os.WriteFile(newer, nil, 0o755))
		}
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		t.Setenv("ISOLIO_QEMU", "")
		if tt.asked {
			t.Setenv("ISOLIO_QEMU", qemu)
		}
		got, err := qemuFor(context.Background(), tt.cpus, newer)
		switch {
		case tt.refuse == "" && (err != nil || got != tt.want):
			t.Errorf("%s, %d CPUs: %s, %v, want %s", tt.says, tt.cpus, got, err, tt.want)
		case tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse) || failure.Code(err) != failure.Unsupported):
			t.Errorf("%s, %d CPUs: %v (code %d), want %q", tt.says, tt.cpus, err, failure.Code(err), tt.refuse)
		}
	}
	must.OK(t, os.WriteFile(qemu, []byte("#!/bin/sh\necho hello\n"), 0o755))
	if _, err := qemuFor(context.Background(), 2, newer); err == nil || !strings.Contains(err.Error(), `says "hello"`) {
		t.Errorf("a program that is no QEMU: %v", err)
	}
}
