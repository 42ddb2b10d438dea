// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
)

// One CPU is timed by the HPET; each of several has a timer of its own, and the
// others are devices, as QEMU records no machine that begins with several.
func TestQemuArgsCPUs(t *testing.T) {
	for _, cpus := range []int{1, 4} {
		args := qemuArgs("vmlinuz", "initrd", "console", "events", 256, cpus, []string{"panic_on_warn=1", "quiet"})
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

func TestCheckQEMU(t *testing.T) {
	qemu := filepath.Join(t.TempDir(), "qemu")
	t.Setenv("ISOLIO_QEMU", qemu)
	for _, tt := range []struct {
		says string
		cpus int
		want string // part of the error, "" for none
	}{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2)", 1, ""},
		{"QEMU emulator version 7.2.22 (Debian 1:7.2)", 2, "cpus = 2: " + qemu + " is version 7.2,"},
		{"QEMU emulator version 8.0.5", 8, "QEMU 8.1 or newer is needed: set ISOLIO_QEMU"},
		{"QEMU emulator version 8.1.0", 2, ""},
		{"QEMU emulator version 10.0.2", 8, ""},
	} {
		must(t, os.WriteFile(qemu, []byte("#!/bin/sh\necho '"+tt.says+"'\n"), 0o755))
		err := checkQEMU(context.Background(), tt.cpus)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s, %d CPUs: %v", tt.says, tt.cpus, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != failure.Unsupported):
			t.Errorf("%s, %d CPUs: %v (code %d), want %q", tt.says, tt.cpus, err, failure.Code(err), tt.want)
		}
	}
	must(t, os.WriteFile(qemu, []byte("#!/bin/sh\necho hello\n"), 0o755))
	if err := checkQEMU(context.Background(), 2); err == nil || !strings.Contains(err.Error(), `says "hello"`) {
		t.Errorf("a program that is no QEMU: %v", err)
	}
}
