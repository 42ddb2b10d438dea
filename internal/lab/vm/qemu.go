// SPDX-License-Identifier: MIT

package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/failure"
)

// kernelArgs is the kernel command line. The first line makes memory layout
// and random numbers the same in every boot. The second is about clocks: time
// comes from the TSC. The rest makes every kind of failure end the VM or show
// on the console.
const kernelArgs = "norandmaps nokaslr mitigations=off random.trust_cpu=off random.trust_bootloader=off " +
	"tsc=reliable no_timer_check " +
	"panic=-1 oops=panic softlockup_panic=1 hung_task_panic=1 " +
	"sysctl.kernel.hung_task_timeout_secs=60 sysctl.kernel.watchdog_thresh=3 " +
	"console=ttyS0,115200 loglevel=7"

// oneCPUArgs has timer interrupts come from the HPET, because the local APIC's
// timer would first be calibrated in a busy loop of 0.2 s that takes 2.6 s of
// wall time, half of the boot. The HPET serves one CPU; several need a timer each.
const oneCPUArgs = " nolapic_timer"

// commandLine is the kernel command line of a machine with so many CPUs, with
// these arguments more.
func commandLine(cpus int, more []string) string {
	line := kernelArgs
	if cpus <= 1 {
		line += oneCPUArgs
	}
	return strings.Join(append([]string{line}, more...), " ")
}

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

// fairVersion is the first QEMU whose CPUs share what is left until the next
// timer. Before it one that spins uses it all up, and the others never run:
// the kernel does not get beyond starting the second.
var fairVersion = [2]int{8, 1}

var versionPattern = regexp.MustCompile(`version (\d+)\.(\d+)`)

// newerQEMU is what `make setup WITH=qemu` makes, below the build directory.
const newerQEMU = "qemu-system-x86_64"

// qemuFor is the QEMU for a machine with so many CPUs: newer, a file that need
// not be there, where the one that was asked for or found is too old.
func qemuFor(ctx context.Context, cpus int, newer string) (string, error) {
	program, err := qemuProgram()
	if err != nil || cpus <= 1 {
		return program, err
	}
	version, err := qemuVersion(ctx, program)
	if err != nil || slices.Compare(version[:], fairVersion[:]) >= 0 {
		return program, err
	}
	if _, err := os.Stat(newer); err == nil && os.Getenv("ISOLIO_QEMU") == "" {
		return newer, nil
	}
	return "", failure.Unsupportedf("lab: cpus = %d: %s is version %d.%d, whose CPUs starve each other in virtual time; "+
		"QEMU %d.%d or newer is needed: `make setup WITH=qemu` gets one, or set ISOLIO_QEMU",
		cpus, program, version[0], version[1], fairVersion[0], fairVersion[1])
}

// qemuVersionLine is what a QEMU says of itself, such as "QEMU emulator version 7.2.22
// (Debian 1:7.2+dfsg-7+deb12u18)".
func qemuVersionLine(ctx context.Context, program string) (string, error) {
	text, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("lab: %s --version: %w", program, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line, nil
}

// QEMUVersion is what the QEMU says of itself that boots a VM of the kernel with so many
// CPUs in virtual time.
func (k *Kernel) QEMUVersion(ctx context.Context, cpus int) (string, error) {
	command, err := k.qemuCommand(ctx, cpus, false)
	if err != nil {
		return "", err
	}
	return qemuVersionLine(ctx, command[len(command)-1])
}

// qemuVersion is that line's version.
func qemuVersion(ctx context.Context, program string) (version [2]int, err error) {
	text, err := qemuVersionLine(ctx, program)
	if err != nil {
		return version, err
	}
	found := versionPattern.FindStringSubmatch(text)
	if found == nil {
		return version, fmt.Errorf("lab: %s --version says %q, which names no version", program, text)
	}
	for i := range version {
		if version[i], err = strconv.Atoi(found[i+1]); err != nil {
			return version, fmt.Errorf("lab: %s --version: %w", program, err)
		}
	}
	return version, nil
}

// ClockLibrary is the time of day for QEMU, below the build directory: with the
// host's, how fast the host is would show in the guest (clock/qemu-clock.c).
const ClockLibrary = "qemu-clock.so"

// qemuCommand is the program to start with the arguments of qemuArgs. In real time,
// as with several CPUs, an older QEMU does not do: its guests' memory is corrupted at
// random.
func (k *Kernel) qemuCommand(ctx context.Context, cpus int, parallel bool) ([]string, error) {
	if parallel {
		cpus = max(cpus, 2)
	}
	program, err := qemuFor(ctx, cpus, k.QEMU)
	if err != nil || k.Clock == "" || parallel {
		return []string{program}, err
	}
	return []string{"env", "LD_PRELOAD=" + k.Clock, program}, nil
}

// notPreloaded is what the dynamic linker says of a library that it leaves out.
const notPreloaded = "cannot be preloaded"

// cpuModel is a fixed one, not "max": that one grows with every QEMU version,
// and takes 1.3 s longer to boot here. cpuWithout takes random number
// instructions off every CPU of it.
const (
	cpuModel   = "Nehalem-v1"
	cpuWithout = ",-rdrand,-rdseed"
)

// qemuArgs is the machine. Time in it is the number of instructions executed
// (icount shift=0: 1 ns each); an idle machine jumps to its next timer
// (sleep=off).
//
// QEMU's main thread makes that jump. At times it takes a CPU for idle that has
// halted but whose last instructions are not counted yet, and jumps too far: 3
// of 8 runs of many short sleeps differed on a loaded host. Recording
// (rr=record) keeps the main thread out while the CPU runs: 0 of 8 did. It is
// on for that alone, takes 15 % more host CPU, and no program reads the record.
//
// Several CPUs take turns on one host thread, each for a while, and every
// instruction of any of them is a nanosecond: two that are both busy are half
// as fast each. So they show what happens when one CPU's work falls between
// another's, and not how much faster two are. QEMU does not record a machine
// with -smp 2; the CPUs after the first are devices of it, which it does.
//
// Whatever could bring the host's time or randomness in is left out: no
// network, no random number instructions, a fixed seed, clock chips on virtual
// time, and both serial ports written to plain files, which take every byte at
// once (a pipe or a socket could be full, and the wait would show). The CPU is
// a fixed model, not "max": that one grows with every QEMU version, and takes
// 1.3 s longer to boot here.
//
// A machine with real drivers is in real time (parallel): QEMU serves a disk in the
// host's time, and in virtual time an idle machine would not wait for it but jump from
// timer to timer, past the drivers' timeouts.
func qemuArgs(vmlinuz, initrd, console, events string, memoryMiB, cpus int, parallel bool, kernelMore []string) []string {
	args := append([]string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc", "-m", strconv.Itoa(memoryMiB),
	}, timeArgs(cpus, parallel)...)
	args = append(args,
		"-cpu", cpuModel+cpuWithout, "-seed", "1",
		"-rtc", "base=2026-01-01T00:00:00,clock=vm",
		"-serial", "file:"+console, "-serial", "file:"+events,
		"-kernel", vmlinuz, "-initrd", initrd, "-append", commandLine(cpus, kernelMore),
	)
	for i := 1; i < cpus && !parallel; i++ {
		args = append(args, "-device", fmt.Sprintf("%s-x86_64-cpu,socket-id=0,core-id=%d,thread-id=0", cpuModel, i))
	}
	return args
}

// timeArgs says how many CPUs there are, and what their time is. Parallel ones
// have a host thread each and real time: races between CPUs show there, and no
// two runs are the same.
func timeArgs(cpus int, parallel bool) []string {
	if parallel {
		return []string{"-smp", strconv.Itoa(cpus), "-accel", "tcg,thread=multi"}
	}
	return []string{
		"-smp", fmt.Sprintf("1,sockets=1,cores=%d,threads=1,maxcpus=%d", cpus, cpus),
		"-accel", "tcg", "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null",
	}
}

// parallelKernelArgs are for CPUs that run only when the host lets them. Time
// comes from the TSC, which is the host's; its rate (in kHz, 0: not known) would
// be measured wrong. The HPET does as well, but every look at it stops all
// CPUs: fio then does a hundredth of its requests. And a CPU may stand still for
// longer. A later argument wins.
func parallelKernelArgs(rate uint64) string {
	clock := "tsc=unstable clocksource=hpet"
	if rate > 0 {
		clock = fmt.Sprint("tsc_early_khz=", rate)
	}
	return clock + " sysctl.kernel.watchdog_thresh=60 sysctl.kernel.hung_task_timeout_secs=180 rcupdate.rcu_cpu_stall_timeout=300"
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
