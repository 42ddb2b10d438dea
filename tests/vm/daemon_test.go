// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"isolio/internal/host/daemon"
)

// startDaemon runs a daemon for this machine until the test ends or stop is
// called, as a kill would end it: it takes nothing back.
func startDaemon(t *testing.T, every time.Duration) (stop func()) {
	t.Helper()
	d := &daemon.Daemon{RuleFile: filepath.Join(t.TempDir(), "isolio.toml"), Every: every, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	must(t, d.Open())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// untilWeights waits until a group's weight file holds just these lines.
func untilWeights(t *testing.T, group string, want ...string) {
	t.Helper()
	for range 600 {
		if slices.Equal(weights(t, group), want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: weights %q, want %q", group, weights(t, group), want)
}

// The kernel's own files: what is written to io.weight is seen, in groups that
// were there and in those that come, long before everything is looked at again.
// What the daemon knows outlives it, and the module.
func TestDaemonFollows(t *testing.T) {
	loaded(t)
	before := newGroup(t, "before")
	write(t, filepath.Join(before, "io.weight"), "300")
	stop := startDaemon(t, time.Hour)
	untilWeights(t, before, "default 300")
	write(t, filepath.Join(before, "io.weight"), "350")
	untilWeights(t, before, "default 350")

	after, byHand := newGroup(t, "after"), newGroup(t, "byhand")
	write(t, filepath.Join(after, "io.weight"), "50")
	write(t, filepath.Join(byHand, "io.weight"), "60")
	untilWeights(t, after, "default 50")
	untilWeights(t, byHand, "default 60")
	write(t, filepath.Join(byHand, weightFile), "70")

	// A unit that starts again has a group of the same name.
	must(t, removeGroup(after))
	must(t, os.Mkdir(after, 0o755))
	write(t, filepath.Join(after, "io.weight"), "55")
	untilWeights(t, after, "default 55")
	write(t, filepath.Join(after, "io.weight"), "50")
	untilWeights(t, after, "default 50")
	stop()

	write(t, filepath.Join(before, "io.weight"), "100")
	stop = startDaemon(t, time.Hour)
	untilWeights(t, before, "default 100")
	untilWeights(t, after, "default 50")
	untilWeights(t, byHand, "default 70")
	stop()
}

// What the daemon may take of one virtual CPU, which executes an instruction a
// nanosecond, and of memory, with 200 containers.
const (
	cpuBound = 0.01
	// memoryBoundKB is what it may have at any time, for mostContainers as well.
	memoryBoundKB  = 40 << 10
	memoryOfMostKB = 64 << 10
	mostContainers = 1000
	// quietTime has one look at everything; as a user has it, there is one a minute.
	quietTime = 40 * time.Second
)

// manyContainers is how many there are: the environment may say.
func manyContainers(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ISOLIO_CONTAINERS")
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// costs is what the daemon took, for the table in docs/daemon.md.
type costs struct {
	Kernel     string  `json:"kernel"`
	Containers int     `json:"containers"`
	LookMS     float64 `json:"look_ms"`
	ComesMS    float64 `json:"comes_ms"`
	ScrapeMS   float64 `json:"scrape_ms"`
	PeakKB     int     `json:"peak_kb"`
}

// crowd are many containers, as Docker has them with runc's cgroupfs driver.
type crowd struct {
	t   *testing.T
	d   *disk
	top string
	nr  int // how many there have been
}

// newCrowd starts so many containers.
func newCrowd(t *testing.T, d *disk, many int) (c *crowd, groups []string) {
	t.Helper()
	c = &crowd{t: t, d: d, top: newGroup(t, "crowd")}
	write(t, filepath.Join(c.top, "cgroup.subtree_control"), "+io")
	for range many {
		groups = append(groups, c.start())
	}
	return c, groups
}

// fits checks what a daemon had in memory at most, with so many containers, and returns that.
func fits(t *testing.T, pid, many int) (peakKB int) {
	t.Helper()
	bound := memoryBoundKB
	if many > 200 {
		bound = memoryOfMostKB
	}
	peakKB = statusKB(t, pid, "VmHWM:")
	t.Logf("%d containers: the daemon has %d KB in memory, and had %d at most; %d are allowed", many, statusKB(t, pid, "VmRSS:"), peakKB, bound)
	if peakKB > bound {
		t.Errorf("the daemon had %d KB in memory, more than %d", peakKB, bound)
	}
	return peakKB
}

// start makes a container's files and cgroup, and reads once from the disk in it.
func (c *crowd) start() (group string) {
	c.t.Helper()
	c.nr++
	id := strings.Repeat(fmt.Sprintf("%04x", c.nr), 16)
	dir := filepath.Join("/var/lib/docker/containers", id)
	must(c.t, os.MkdirAll(dir, 0o755))
	c.t.Cleanup(func() { must(c.t, os.RemoveAll(dir)) })
	put := func(dir, name, text string) {
		must(c.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put(dir, "config.v2.json", fmt.Sprintf(`{"ID":%q,"Name":"/c%d"}`, id, c.nr))
	put(dir, "hostconfig.json", `{"BlkioWeight":200}`)
	bundle := filepath.Join(filepath.Dir(bundles), "moby", id)
	must(c.t, os.MkdirAll(bundle, 0o755))
	c.t.Cleanup(func() { must(c.t, os.RemoveAll(bundle)) })
	spec := specOf(id, 200, c.d)
	spec.Linux.CgroupsPath = filepath.Join("/", filepath.Base(c.top), id)
	spec.Linux.Seccomp = &specs.LinuxSeccomp{Syscalls: []specs.LinuxSyscall{{Names: slices.Repeat([]string{"clock_nanosleep_time64"}, 400)}}}
	text, err := json.Marshal(spec)
	must(c.t, err)
	put(bundle, "config.json", string(text))

	group = filepath.Join(c.top, id)
	must(c.t, os.Mkdir(group, 0o755))
	c.t.Cleanup(func() { _ = removeGroup(group) })
	write(c.t, filepath.Join(group, "io.weight"), "1920") // --blkio-weight 200
	readIn(c.t, group, c.d)
	return group
}

// readIn reads 4 KiB from a disk in a cgroup.
func readIn(t *testing.T, group string, d *disk) {
	t.Helper()
	write(t, filepath.Join(group, "cgroup.procs"), "0")
	defer write(t, filepath.Join(cgroupRoot, "cgroup.procs"), "0")
	readOnce(t, d)
}

// readOnce reads 4 KiB from a disk.
func readOnce(t *testing.T, d *disk) {
	t.Helper()
	fd, err := unix.Open("/dev/"+d.name, unix.O_RDONLY|unix.O_DIRECT, 0)
	must(t, err)
	defer unix.Close(fd)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	must(t, err)
	defer func() { must(t, unix.Munmap(page)) }()
	_, err = unix.Pread(fd, page, 0)
	must(t, err)
}

// loopback is for who serves and who asks on one machine.
func loopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	must(t, err)
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up))
}

// cpuOf is the time that all threads of a process have run.
func cpuOf(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	must(t, err)
	for _, file := range files {
		ran, err := strconv.ParseInt(strings.Fields(read(t, file))[0], 10, 64)
		must(t, err)
		total += time.Duration(ran)
	}
	return total
}

// statusKB is what a process has in memory, or had at most: "VmRSS:", "VmHWM:".
func statusKB(t *testing.T, pid int, field string) int {
	t.Helper()
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/status", pid))) {
		if text, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.Atoi(strings.Fields(text)[0])
			must(t, err)
			return kb
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// The daemon as a user runs it, with many containers: while nothing happens,
// while every second one goes and another comes, and when metrics are read.
func TestDaemonIsCheap(t *testing.T) {
	loaded(t)
	loopback(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	many := manyContainers(t)
	c, groups := newCrowd(t, d, many)
	config := filepath.Join(t.TempDir(), "isolio.toml")
	must(t, os.WriteFile(config, []byte(`metrics = "127.0.0.1:9188"`), 0o644))
	cmd := exec.Command("isolio", "daemon", "--config", config, "--every", quietTime.String())
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for _, group := range groups {
		untilWeights(t, group, "default 200")
	}
	scrape(t, many)
	time.Sleep(2 * time.Second) // it has read all files by then, and starts no more threads

	used := func(do func()) time.Duration {
		before := cpuOf(t, cmd.Process.Pid)
		do()
		return cpuOf(t, cmd.Process.Pid) - before
	}
	quiet := used(func() { time.Sleep(quietTime) })
	busy := used(func() {
		for i := range 3 {
			must(t, removeGroup(groups[i]))
			groups[i] = c.start()
			time.Sleep(time.Second)
		}
	})
	scraped := used(func() { scrape(t, many) })
	t.Logf("CPU while nothing happens: %.2f %%; for a container that comes: %v; for a scrape: %v", 100*quiet.Seconds()/quietTime.Seconds(), busy/3, scraped)
	peak := fits(t, cmd.Process.Pid, many)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	send(t, "costs", costs{kernelLine(t), many, ms(quiet), ms(busy / 3), ms(scraped), peak})
	if !onDebugKernel(t) && many < mostContainers && quiet.Seconds() > cpuBound*quietTime.Seconds() {
		t.Errorf("%v of CPU in %v, more than %g %%", quiet, quietTime, 100*cpuBound)
	}
	for _, group := range groups {
		untilWeights(t, group, "default 200")
	}
}

// scrape reads the metrics, which are of all containers.
func scrape(t *testing.T, many int) {
	t.Helper()
	if nr := strings.Count(metrics(t), "\nisolio_weight{"); nr < many {
		t.Errorf("metrics of %d containers, want %d", nr, many)
	}
}

// metrics is what Prometheus gets.
func metrics(t *testing.T) string {
	t.Helper()
	response, err := http.Get("http://127.0.0.1:9188/metrics")
	must(t, err)
	text, err := io.ReadAll(response.Body)
	must(t, err)
	must(t, response.Body.Close())
	return string(text)
}
