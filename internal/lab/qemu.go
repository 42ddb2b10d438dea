// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// kernelArgs is the kernel command line. The first line makes memory layout
// and random numbers the same in every boot. The second is about clocks: time
// comes from the TSC, timer interrupts from the HPET, because the local APIC's
// timer would first be calibrated in a busy loop of 0.2 s that takes 2.6 s of
// wall time, half of the boot. The rest makes every kind of failure end the VM
// or show on the console.
const kernelArgs = "norandmaps nokaslr mitigations=off random.trust_cpu=off random.trust_bootloader=off " +
	"tsc=reliable no_timer_check nolapic_timer " +
	"panic=-1 oops=panic softlockup_panic=1 hung_task_panic=1 " +
	"sysctl.kernel.hung_task_timeout_secs=60 sysctl.kernel.watchdog_thresh=3 " +
	"console=ttyS0,115200 loglevel=7"

// qemuProgram is the QEMU to run: ISOLIO_QEMU, or the one in PATH.
func qemuProgram() (string, error) {
	name := os.Getenv("ISOLIO_QEMU")
	if name == "" {
		name = "qemu-system-x86_64"
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the lab needs QEMU: %w; install the package qemu-system-x86, or set ISOLIO_QEMU", err)
	}
	return file, nil
}

// clockLibrary is the time of day for QEMU, below the build directory: with the
// host's, how fast the host is would show in the guest (clock/qemu-clock.c).
const clockLibrary = "qemu-clock.so"

// qemuCommand is the program to start with the arguments of qemuArgs.
func qemuCommand(clock string) ([]string, error) {
	program, err := qemuProgram()
	if err != nil || clock == "" {
		return []string{program}, err
	}
	return []string{"env", "LD_PRELOAD=" + clock, program}, nil
}

// notPreloaded is what the dynamic linker says of a library that it leaves out.
const notPreloaded = "cannot be preloaded"

// qemuArgs is the machine. Time in it is the number of instructions executed
// (icount shift=0: 1 ns each); an idle machine jumps to its next timer
// (sleep=off).
//
// QEMU's main thread makes that jump. At times it takes a CPU for idle that has
// halted but whose last instructions are not counted yet, and jumps too far: 3
// of 8 runs of many short sleeps differed on a loaded host. Recording
// (rr=record) keeps the main thread out while the CPU runs: 0 of 8 did. It is
// on for that alone, takes 15 % more host CPU, and nobody reads the record.
//
// Whatever could bring the host's time or randomness in is left out: no
// network, no random number instructions, a fixed seed, clock chips on virtual
// time, and both serial ports written to plain files, which take every byte at
// once (a pipe or a socket could be full, and the wait would show). The CPU is
// a fixed model, not "max": that one grows with every QEMU version, and takes
// 1.3 s longer to boot here.
func qemuArgs(vmlinuz, initrd, console, events string, memoryMiB int) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc", "-m", strconv.Itoa(memoryMiB), "-smp", "1",
		"-accel", "tcg", "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null",
		"-cpu", "Nehalem-v1,-rdrand,-rdseed", "-seed", "1",
		"-rtc", "base=2026-01-01T00:00:00,clock=vm",
		"-serial", "file:" + console, "-serial", "file:" + events,
		"-kernel", vmlinuz, "-initrd", initrd, "-append", kernelArgs,
	}
}

// shellLine renders a command so that a shell runs the same one.
func shellLine(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}
