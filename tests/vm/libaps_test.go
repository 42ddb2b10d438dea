// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// libapsDir is where the guest finds what `make setup WITH=libaps` built.
const libapsDir = "/tests/libaps/"

// withLibaps skips a test where libaps was not built.
func withLibaps(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(libapsDir); errors.Is(err, fs.ErrNotExist) {
		t.Skip("libaps is not built for this kernel: make vm does that")
	}
}

// Its own tests, under ASan and UBSan: every way of waiting on a disk with poll queues,
// on one without, on one that cannot be read; signals, closed files, ends, cancelled
// requests; contexts over the life of threads and processes, and without io_uring.
func TestLibaps(t *testing.T) {
	withLibaps(t)
	withModelDisk(t)
	polled := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "memory_backed=1", "poll_queues=1"})
	plain := newModelDisk(t, []string{"model=fixed", "size_mib=16"})
	for _, program := range []struct {
		name  string
		tests int
	}{{"ring-test", 24}, {"life-test", 17}} {
		// Its requests fail in turn, so each program has one of its own.
		bad := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "poll_queues=1"})
		bad.fail(t, "error_every=2")
		out, err := exec.Command(libapsDir+program.name, "--overwrite", "/dev/"+polled.name, "/dev/"+plain.name, "/dev/"+bad.name).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", program.name, err, out)
		}
		if passed := strings.Count("\n"+string(out), "\nok "); passed < program.tests {
			t.Errorf("%s: %d tests passed, want %d:\n%s", program.name, passed, program.tests, out)
		}
		if strings.Contains(string(out), "# skipped") {
			t.Errorf("%s: a test was skipped:\n%s", program.name, out)
		}
	}
}

// matrixWanted asks for TestLibapsMatrix, which takes half an hour; "all" for every configuration, 1 for one.
const matrixWanted = "ISOLIO_LIBAPS_MATRIX"

// Every test of libaps in every configuration of its contexts and rings, on every kind of
// disk; and every system call fails once. On disks without poll queues what is about polling
// alone is skipped. `make vm T=libaps` runs it.
func TestLibapsMatrix(t *testing.T) {
	if os.Getenv(matrixWanted) == "" {
		t.Skip("needs " + matrixWanted + ": make vm T=libaps")
	}
	withLibaps(t)
	withModelDisk(t)
	for _, d := range []*disk{
		newDisk(t, []string{"irqmode=2", "completion_nsec=20000", "submit_queues=1", "poll_queues=1", "size=16", "memory_backed=1"}),
		newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "memory_backed=1", "poll_queues=1"}),
		loopDisk(t),
		polledNVMe(t),
	} {
		for _, program := range []string{"ring-test", "life-test", "fault-plain"} {
			args := []string{"--overwrite", "/dev/" + d.name}
			if os.Getenv(matrixWanted) == "all" && program != "fault-plain" {
				args = append([]string{"--matrix"}, args...)
			}
			out, err := exec.Command(libapsDir+program, args...).CombinedOutput()
			text := "\n" + string(out)
			t.Logf("%s on %s: %d tests passed, %d parts skipped", program, d.name, strings.Count(text, "\nok "), strings.Count(text, "\n# skipped"))
			if err != nil {
				t.Errorf("%s on %s: %v\n%s", program, d.name, err, out)
			}
		}
	}
}

// Polled and interrupt I/O in one event loop: what libaps decides takes no longer than either,
// and less of the CPU than polling.
func TestLibapsReactor(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "poll_queues=1"})
	took, cpu := map[string]float64{}, map[string]float64{}
	for _, mode := range []string{"interrupt", "poll", "aps"} {
		out, err := exec.Command(libapsDir+"reactor", "/dev/"+d.name, "3", mode).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", mode, err, out)
		}
		t.Logf("%s: %s", mode, out)
		found := regexp.MustCompile(`^\d+ reads of ([0-9.]+) us; [1-9]\d* scans; (\d+) % CPU`).FindSubmatch(out)
		if found == nil {
			t.Fatalf("%s: no figures: %s", mode, out)
		}
		took[mode], err = strconv.ParseFloat(string(found[1]), 64)
		must(t, err)
		cpu[mode], err = strconv.ParseFloat(string(found[2]), 64)
		must(t, err)
	}
	if took["aps"] > 1.05*min(took["interrupt"], took["poll"]) {
		t.Errorf("a read takes %.1f us, want no more than with interrupts (%.1f) and polling (%.1f)", took["aps"], took["interrupt"], took["poll"])
	}
	if cpu["aps"] > 0.9*cpu["poll"] {
		t.Errorf("the loop has %.0f %% of the CPU, want less than with polling (%.0f)", cpu["aps"], cpu["poll"])
	}
}

// The package for Go: what libaps decides takes no longer than polling, and less of the CPU. The log
// has package os as well, which is as fast here.
func TestLibapsGo(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "poll_queues=1"})
	cmd := exec.Command(libapsDir+"go-test", "-test.run=-", "-test.bench=.", "-test.benchtime=2000x")
	cmd.Env = append(os.Environ(), "APS_DISK=/dev/"+d.name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	took, cpu := map[string]float64{}, map[string]float64{}
	for _, found := range regexp.MustCompile(`(?m)^BenchmarkReadAt/(\w+)\s+2000\s+(\d+) ns/op\s+([0-9.]+) %CPU`).FindAllSubmatch(out, -1) {
		way := string(found[1])
		took[way], err = strconv.ParseFloat(string(found[2]), 64)
		must(t, err)
		cpu[way], err = strconv.ParseFloat(string(found[3]), 64)
		must(t, err)
	}
	if took["os"] == 0 || took["poll"] == 0 || took["aps"] == 0 {
		t.Fatalf("no figures:\n%s", out)
	}
	if took["aps"] > 1.05*took["poll"] {
		t.Errorf("a read takes %.0f ns, want no more than with polling (%.0f)", took["aps"], took["poll"])
	}
	if cpu["aps"] > 0.9*cpu["poll"] {
		t.Errorf("reads have %.0f %% of the CPU, want less than with polling (%.0f)", cpu["aps"], cpu["poll"])
	}
}

// polledNVMe is QEMU's NVMe disk, with poll queues: its driver makes them when it starts.
func polledNVMe(t *testing.T) *disk {
	t.Helper()
	d := realDisks(t, []string{"nvme"})["nvme"][0]
	write(t, "/sys/module/nvme/parameters/poll_queues", "1")
	device, err := filepath.EvalSymlinks(filepath.Join("/sys/block", d.name, "device/device"))
	must(t, err)
	driver, err := filepath.EvalSymlinks(filepath.Join(device, "driver"))
	must(t, err)
	for _, file := range []string{"unbind", "bind"} {
		write(t, filepath.Join(driver, file), filepath.Base(device))
	}
	d = realDisks(t, []string{"nvme"})["nvme"][0]
	if got := strings.TrimSpace(read(t, d.queue("io_poll"))); got != "1" {
		t.Fatalf("%s has no poll queues", d.name)
	}
	return d
}

// 8 threads with 1,000 files each lose nothing, whatever happens to threads, children and
// contexts, under ASan.
func TestLibapsStress(t *testing.T) {
	withLibaps(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "memory_backed=1", "poll_queues=1"})
	if out, err := exec.Command(libapsDir+"stress-test", "--overwrite", "/dev/"+d.name).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An instruction is a nanosecond here: what is decided and learnt for an I/O takes
// 260 at most.
func TestLibapsCost(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	out, err := exec.Command(libapsDir + "cost").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	found := regexp.MustCompile(`(?m)^(\d+) ns a decision$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no figure:\n%s", out)
	}
	if ns, err := strconv.Atoi(string(found[1])); err != nil || ns < 20 || ns > 260 {
		t.Errorf("%d instructions a decision, want 260 at most (%v)", ns, err)
	}
}

// pings is what apsping said of its reads.
type pings struct {
	polled, halfSlept, deep int // how they were waited for
}

var pingWaits = regexp.MustCompile(`waits: \d+ interrupt, (\d+) poll, (\d+) hybrid, (\d+) deep;`)

// ping reads the disk so many times, one read after the other, from inside the group.
func ping(t *testing.T, d *disk, group, mode string, reads int) (p pings) {
	t.Helper()
	dir, err := os.Open(group)
	must(t, err)
	defer dir.Close()
	cmd := exec.Command(libapsDir+"apsping", "-q", "-i", "0", "-c", strconv.Itoa(reads), "-m", mode, "/dev/"+d.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("apsping: %v\n%s", err, out)
	}
	t.Logf("%s: %s", filepath.Base(group), out)
	found := pingWaits.FindSubmatch(out)
	if found == nil {
		t.Fatalf("apsping said nothing of waits:\n%s", out)
	}
	for i, to := range []*int{&p.polled, &p.halfSlept, &p.deep} {
		*to, err = strconv.Atoi(string(found[i+1]))
		must(t, err)
	}
	if sum := p.polled + p.halfSlept + p.deep; sum < reads {
		t.Errorf("%d waits for %d reads", sum, reads)
	}
	return p
}

// spins checks that a reader in the group sleeps lightly and polls, in one of five runs.
// What ran just before it counts until the window of readings has passed; and one worker
// of the kernel that wants the CPU in the moment of a reading counts as long: for 340 ms
// the reads then sleep deep, which is a large part of a run.
func spins(t *testing.T, d *disk, group string, reads int) {
	t.Helper()
	var p pings
	var all int
	for range 5 {
		p = ping(t, d, group, "aps", reads)
		all = p.polled + p.halfSlept + p.deep
		if p.polled+p.halfSlept >= all/4 && p.deep <= all/4 {
			return
		}
	}
	t.Errorf("no other task wants the CPU: %d of %d waits were polled after a light sleep or none, %d slept deep", p.polled+p.halfSlept, all, p.deep)
}

// cpuGroup makes a cgroup, and writes files of the CPU's controllers there.
func cpuGroup(t *testing.T, name string, settings ...string) string {
	t.Helper()
	write(t, filepath.Join(cgroupRoot, "cgroup.subtree_control"), "+cpu +cpuset")
	t.Cleanup(func() { write(t, filepath.Join(cgroupRoot, "cgroup.subtree_control"), "-cpu -cpuset") })
	group := newGroup(t, name)
	for _, s := range settings {
		file, value, _ := strings.Cut(s, "=")
		write(t, filepath.Join(group, file), value)
	}
	return group
}

// throttled is how often the group had used up its quota.
func throttled(t *testing.T, group string) int {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(group, "cpu.stat"))) {
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); found {
			times, err := strconv.Atoi(n)
			must(t, err)
			return times
		}
	}
	t.Fatalf("%s/cpu.stat has no nr_throttled", group)
	return 0
}

// A container's quota is its margin: a program that spins through it is throttled, and
// libaps sleeps deep where it would be. Without a quota or neighbours it sleeps lightly.
func TestLibapsQuota(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "poll_queues=1"})
	const reads = 4000
	free := cpuGroup(t, "free")
	ping(t, d, free, "aps", reads) // what the test before left to be done is then done
	spins(t, d, free, 2*reads)
	const quota = "cpu.max=50000 100000"
	spun, slept := cpuGroup(t, "spun", quota), cpuGroup(t, "slept", quota)
	ping(t, d, spun, "poll", reads)
	if times := throttled(t, spun); times < 2 {
		t.Errorf("polling was throttled %d times: the quota is not what it runs into", times)
	}
	if p := ping(t, d, slept, "aps", reads); p.deep < reads*9/10 {
		t.Errorf("half a CPU: %d of %d reads slept deep, want nine of ten", p.deep, reads)
	}
	if times := throttled(t, slept); times > 0 {
		t.Errorf("it was throttled %d times", times)
	}
}

// In a cpuset only its CPUs count: a neighbour on another is none, one on the same is.
func TestLibapsCpuset(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	withModelDisk(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU: build/vm-run --cpus 2")
	}
	d := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=32", "size_mib=16", "poll_queues=2", "queues=2"})
	const reads = 2000
	neighbours := cpuGroup(t, "neighbours", "cpuset.cpus=1")
	dir, err := os.Open(neighbours)
	must(t, err)
	defer dir.Close()
	busy := exec.Command("sh", "-c", "while :; do :; done")
	busy.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(t, busy.Start())
	defer func() { _, _ = busy.Process.Kill(), busy.Wait() }()
	apart := cpuGroup(t, "apart", "cpuset.cpus=0")
	spins(t, d, apart, 2*reads)
	together := cpuGroup(t, "together", "cpuset.cpus=1")
	if p := ping(t, d, together, "aps", reads); p.deep < reads*3/4 {
		t.Errorf("on the neighbour's CPU: %d of %d reads slept deep, want three of four", p.deep, reads)
	}
}
