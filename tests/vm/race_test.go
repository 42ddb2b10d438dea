// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// raceTime is how long each load of TestRaces runs. A kernel that looks for data
// races sees one in so many accesses: more time shows more of them.
func raceTime(t *testing.T) time.Duration {
	if strings.HasSuffix(kernelRelease(t), "-kcsan") {
		return 8 * time.Second
	}
	return time.Second
}

// tunableValues are what the schedulers' tunables are set to while requests pass:
// two values in turn, both allowed.
var tunableValues = map[string][]string{
	"age_th": {"3", "40"}, "max_wait_ms": {"20", "0"}, "guard_stat": {"0"},
	"share_by": {"bytes", "iops", "time"}, "cost_model": {"auto", givenModel},
	"min_total_pct": {"0", "45", "100"},
	"read_lat_nsec": {"1000000", "2000000"}, "write_lat_nsec": {"5000000", "10000000"}, "discard_lat_nsec": {"5000000000", "1000000000"},
	"patience_us": {"0", "500", "2000"}, "quiet_ms": {"0", "100"}, "unit_kib": {"4", "128"}, "reads_first": {"0", "1"},
	"writes_inside_pct": {"25", "100"}, "read_expire_ms": {"50", "500"}, "write_expire_ms": {"500", "5000"},
	"sync_selections": {"1", "3"}, "turn_requests": {"3", "6"}, "turn_reads": {"2", "4"}, "turn_writes": {"1", "3"},
}

// raceDisks are disks with a queue for each CPU and with one: of null_blk the
// timer completes a request on the CPU that took it, of a model disk on any.
func raceDisks(t *testing.T) (disks []*disk, names []string) {
	t.Helper()
	cpus := runtime.NumCPU()
	null := func(queues int, more ...string) *disk {
		return newDisk(t, append([]string{
			"irqmode=2", "completion_nsec=100000", "hw_queue_depth=16", fmt.Sprint("submit_queues=", queues), "size=256",
		}, more...))
	}
	disks = []*disk{
		null(cpus),
		null(1, "irqmode=1"),
		newModelDisk(t, []string{
			"model=fixed", "fixed/parallel=16", "fixed/read_ns=200000", "fixed/write_ns=400000",
			"size_mib=256", "tags=16", "discard=1", "write_cache=1", fmt.Sprint("queues=", cpus),
		}),
	}
	return disks, []string{"null_blk, a queue for each CPU", "null_blk, one queue", "modeldisk, a queue for each CPU"}
}

// On several CPUs everything happens at once: requests of five cgroups, weights,
// tunables, files that are read, and completions. Nothing is expected but that the
// disk goes on and that the kernel has no complaint; on the kernel line "kcsan"
// that includes data races.
func TestRaces(t *testing.T) {
	severalCPUs(t)
	for _, scheduler := range guarded {
		t.Run(scheduler, func(t *testing.T) {
			loaded(t)
			withGuard(t)
			disks, names := raceDisks(t)
			for i, d := range disks {
				t.Run(names[i], func(t *testing.T) {
					d.use(t, scheduler)
					raceOn(t, d)
					d.use(t, "none")
				})
			}
		})
	}
}

// raceOn runs the load, and meanwhile writes and reads all that there is. The load leaves alone
// the block that briefGroup writes through the page cache: of direct writes to what the cache
// holds, Linux lets a later fsync() fail.
func raceOn(t *testing.T, d *disk) {
	t.Helper()
	cpus := fmt.Sprint("--cpus_allowed=0-", runtime.NumCPU()-1)
	var groups []string
	var loads []*load
	start := func(options ...string) *load {
		groups = append(groups, newGroup(t, fmt.Sprint("race", len(groups))))
		return startFio(t, d, groups[len(groups)-1], append(options,
			"--offset=1m", "--time_based", "--runtime=600", "--group_reporting", cpus)...)
	}
	for _, options := range [][]string{
		{"--rw=randrw", "--iodepth=32", "--numjobs=2"},
		{"--rw=randread", "--iodepth=4", "--thinktime=2000", "--thinktime_blocks=20"},
		{"--rw=randrw", "--rwmixread=20", "--bsrange=4k-128k", "--iodepth=32", "--fsync=64"},
		{"--rw=rw", "--ioengine=psync", "--numjobs=3", "--bs=8k"},
	} {
		loads = append(loads, start(options...))
	}
	if strings.TrimSpace(read(t, d.queue("discard_max_bytes"))) != "0" {
		trims := start("--rw=randtrim", "--iodepth=4", "--bs=64k")
		defer func() { // it reads and writes nothing
			must(t, trims.cmd.Process.Signal(unix.SIGINT))
			_ = trims.cmd.Wait()
			if fioErrors(trims) {
				t.Errorf("fio saw an error:\n%s", trims.out.String())
			}
		}()
	}
	untilAllBusy(t, loads)
	meanwhile(t, d, groups)
	untilAllBusy(t, loads)
	t.Logf("%d requests", d.ios(t))
	if text, err := os.ReadFile("/sys/kernel/debug/kcsan"); err == nil {
		t.Logf("%s", strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", "))
	}
	for _, l := range loads {
		l.stop(t)
	}
}

// meanwhile writes and reads the files of the disk, its scheduler and its cgroups
// for a while, each kind again and again, all kinds at once.
func meanwhile(t *testing.T, d *disk, groups []string) {
	t.Helper()
	stop := make(chan struct{})
	var others sync.WaitGroup
	for _, do := range []func(i int) error{
		func(i int) error { return writeTunable(d, i) },
		func(int) error { return readFiles(filepath.Dir(d.tunable("x")), "*") },
		func(int) error {
			return readFiles(filepath.Join("/sys/kernel/debug/block", d.name), "sched/*", "hctx*/sched/*")
		},
		func(i int) error {
			group := groups[i%len(groups)]
			weight, onDisk := fmt.Sprint(1+i*7919%weightMax), fmt.Sprint(1+i*104729%weightMax)
			if i%3 == 0 {
				weight = "sum"
			}
			if i%7 == 0 {
				onDisk = "sum"
			}
			if err := put(filepath.Join(group, weightFile), weight); err != nil {
				return err
			}
			// Of a disk that has another scheduler there is no weight to set.
			err := put(filepath.Join(group, weightFile), d.number+" "+onDisk)
			if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
				return err
			}
			return readFiles(group, "io.*")
		},
		func(int) error { return briefGroup(groups[0]+"-brief", d) },
	} {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := do(i); err != nil {
					t.Errorf("under load: %v", err)
					return
				}
			}
		})
	}
	time.Sleep(raceTime(t))
	close(stop)
	others.Wait()
}

// briefGroup makes a cgroup, has a process in it write to the disk, and removes it.
func briefGroup(dir string, d *disk) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	writer := exec.Command("sh", "-c", "echo x >/dev/"+d.name)
	writer.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	return errors.Join(writer.Run(), removeGroup(dir))
}

// writeTunable writes the i-th of the disk's tunables.
func writeTunable(d *disk, i int) error {
	files, err := os.ReadDir(d.queue("iosched"))
	if err != nil {
		return err
	}
	name := files[i%len(files)].Name()
	values, ok := tunableValues[name]
	if !ok {
		return fmt.Errorf("tunableValues has no %s", name)
	}
	return put(d.tunable(name), values[i/len(files)%len(values)])
}

// readFiles reads the files of a directory that match.
func readFiles(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if st, err := os.Stat(file); err != nil || st.IsDir() || st.Mode()&0o444 == 0 {
				continue
			}
			if _, err := os.ReadFile(file); err != nil {
				return err
			}
		}
	}
	return nil
}
