// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onDisks runs a test on a null_blk and on a model disk, each with one hardware
// queue and with one for each CPU. They are about equally fast.
func onDisks(t *testing.T, test func(t *testing.T, d *disk)) {
	t.Helper()
	for _, queues := range slices.Compact([]int{1, runtime.NumCPU()}) {
		t.Run(fmt.Sprintf("null_blk, %d queues", queues), func(t *testing.T) {
			loaded(t)
			test(t, newDisk(t, append(slices.Clone(fast), fmt.Sprint("submit_queues=", queues))))
		})
		t.Run(fmt.Sprintf("modeldisk, %d queues", queues), func(t *testing.T) {
			withModelDisk(t)
			test(t, newModelDisk(t, []string{
				"model=fixed", "fixed/parallel=32", "fixed/read_ns=20000", "fixed/write_ns=20000",
				"size_mib=256", "tags=32", fmt.Sprint("queues=", queues),
			}))
		})
	}
}

// severalCPUs skips a test that a machine with one CPU cannot do.
func severalCPUs(t *testing.T) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("takes two CPUs: vm-run --cpus 2")
	}
}

// startLoads runs two loads of different kinds, each in its own group, until
// stopLoads. Both are doing I/O when it returns.
func startLoads(t *testing.T, d *disk) []*load {
	t.Helper()
	loads := []*load{
		startFio(t, d, newGroup(t, "a"), "--time_based", "--runtime=600"),
		startFio(t, d, newGroup(t, "b"), "--time_based", "--runtime=600", "--bs=64k", "--iodepth=64"),
	}
	for _, l := range loads {
		l.untilBusy(t)
	}
	return loads
}

// stopLoads ends the loads and checks that they did I/O, that none of it failed,
// and that none of it is left inside.
func stopLoads(t *testing.T, d *disk, loads []*load) {
	t.Helper()
	for _, l := range loads {
		l.stop(t)
	}
	if inside := d.inside(t); inside != 0 {
		t.Errorf("%d requests are still inside", inside)
	}
	d.use(t, "none") // the scheduler's accounts are audited when it leaves
}

// A request that comes without a plug and may go is sent to the driver by the task that
// submits it: a worker costs two switches of tasks. On 6.12 the block layer gives each bio a
// plug, and has the task dispatch under any scheduler.
func TestSubmitterDispatches(t *testing.T) {
	loaded(t)
	const nr = 64
	d := newDisk(t, fast)
	d.use(t, elevator)
	lines := issuedWhile(t, d, func() {
		startFio(t, d, newGroup(t, "a"), "--rw=randread", "--ioengine=psync", "--iodepth=1",
			fmt.Sprint("--number_ios=", nr)).wait(t)
	})
	var own, workers int
	for _, line := range lines {
		if strings.HasPrefix(line, "fio-") {
			own++
		} else if strings.HasPrefix(line, "kworker") {
			workers++
		}
	}
	if own < nr || workers > 0 {
		t.Errorf("of %d reads fio itself sent %d to the driver, workers %d:\n%.1000s", nr, own, workers, strings.Join(lines, "\n"))
	}
}

// Requests that are next to each other merge where they wait: forwards, backwards, and those
// of two processes of a container. What a process submits at a time follows itself, so this
// does not tell how many of the last requests are looked at.
func TestNeighboursMerge(t *testing.T) {
	loaded(t)
	d := newDisk(t, slow)
	d.use(t, elevator)
	group := newGroup(t, "a")
	for _, options := range [][]string{
		{"--rw=read"},
		{"--rw=write:-8k"}, // each before the last one
		{"--rw=write", "--numjobs=2", "--offset_increment=16m"},
	} {
		before := d.merges(t)
		startFio(t, d, group, append(options, "--iodepth=16", "--size=1m")...).wait(t)
		if merged := d.merges(t) - before; merged < 64 {
			t.Errorf("%v: of 256 requests or more %d were merged", options, merged)
		}
	}
}

// merges is how many bios the block layer has put into requests of others.
func (d *disk) merges(t *testing.T) int {
	t.Helper()
	fields := strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))
	var n [2]int
	for i, field := range []string{fields[1], fields[5]} { // of reads, of writes
		var err error
		n[i], err = strconv.Atoi(field)
		must(t, err)
	}
	return n[0] + n[1]
}

// issuedWhile is what the kernel traces of requests that go to a disk's driver meanwhile, a
// line each, without spaces before the name of the task that sends it.
func issuedWhile(t *testing.T, d *disk, do func()) []string {
	t.Helper()
	const tracing = "/sys/kernel/tracing"
	enable := filepath.Join(tracing, "events/block/block_rq_issue/enable")
	var number unix.Stat_t
	must(t, unix.Stat("/dev/"+d.name, &number))
	of := fmt.Sprintf("block_rq_issue: %d,%d ", unix.Major(number.Rdev), unix.Minor(number.Rdev))
	must(t, os.Truncate(filepath.Join(tracing, "trace"), 0))
	write(t, enable, "1")
	defer write(t, enable, "0")
	do()
	var issued []string
	for line := range strings.Lines(read(t, filepath.Join(tracing, "trace"))) {
		if strings.Contains(line, of) {
			issued = append(issued, strings.TrimSpace(line))
		}
	}
	return issued
}

// Weights may change at any time, for all disks and for one.
func TestWeightsChangedUnderLoad(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		d.use(t, elevator)
		loads := startLoads(t, d)
		for i := range 100 {
			weight := 1 + i*7919%weightMax
			group := filepath.Join(cgroupRoot, []string{"a", "b"}[i%2])
			write(t, filepath.Join(group, weightFile), fmt.Sprint(weight))
			write(t, filepath.Join(group, weightFile), fmt.Sprint(d.number, " ", weightMax-weight+1))
			if i%3 == 0 {
				write(t, filepath.Join(group, weightFile), d.number+" default")
			}
			if i%50 == 49 {
				untilBusy(t, d)
			}
		}
		stopLoads(t, d, loads)
	})
}

// The number of scheduler tags may change at any time.
func TestTagsChangedUnderLoad(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		d.use(t, elevator)
		before := strings.TrimSpace(read(t, d.queue("nr_requests")))
		loads := startLoads(t, d)
		for range 3 {
			for _, tags := range []string{"4", "17", before} {
				write(t, d.queue("nr_requests"), tags)
				untilBusy(t, d)
			}
		}
		stopLoads(t, d, loads)
	})
}

// A null_blk gets and loses hardware queues while it runs; the scheduler has
// structures for each.
func TestQueuesChangedUnderLoad(t *testing.T) {
	severalCPUs(t)
	for _, shared := range []string{"0", "1"} {
		t.Run("shared_tag_bitmap="+shared, func(t *testing.T) {
			loaded(t)
			d := newDisk(t, append(slices.Clone(fast), "shared_tag_bitmap="+shared))
			d.use(t, elevator)
			loads := startLoads(t, d)
			for range 5 {
				for _, queues := range []string{fmt.Sprint(runtime.NumCPU()), "1"} {
					untilBusy(t, d)
					write(t, filepath.Join(d.config, "submit_queues"), queues)
					if _, active := d.schedulers(t); active != elevator {
						t.Fatalf("scheduler is %q with %s queues", active, queues)
					}
				}
			}
			untilBusy(t, d)
			stopLoads(t, d, loads)
		})
	}
}

// The driver takes a request and gives it back: it is charged once, and has one
// token, however often.
func TestRequestsGivenBack(t *testing.T) {
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=fixed", "fixed/read_ns=20000", "fixed/write_ns=20000", "tags=32", "size_mib=256"})
	d.use(t, elevator)
	loads := startLoads(t, d)
	untilBusy(t, d)
	d.fail(t, "requeue_every=3", "refuse_every=5")
	for range 10 {
		untilBusy(t, d)
	}
	d.fail(t, "requeue_every=0", "refuse_every=0")
	if d.stat(t, "requeued") == 0 || d.stat(t, "refused") == 0 {
		t.Error("no request was given back")
	}
	stopLoads(t, d, loads)
}

// A cgroup goes while its requests wait in the scheduler and inside the disk, and
// its CPU's hardware queue is not the only one.
func TestBusyGroupRemoved(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		d.use(t, elevator)
		steady := startFio(t, d, newGroup(t, "steady"), "--time_based", "--runtime=600", "--iodepth=32")
		steady.untilBusy(t)
		for i := range 2 {
			group := newGroup(t, fmt.Sprint("gone", i))
			l := startFio(t, d, group, "--time_based", "--runtime=600", "--iodepth=64", "--numjobs=2",
				fmt.Sprint("--cpus_allowed=0-", runtime.NumCPU()-1), "--cpus_allowed_policy=split")
			l.untilBusy(t)
			if i == 0 { // the processes die with it, or outlive it
				write(t, filepath.Join(group, "cgroup.kill"), "1")
			} else {
				for pid := range strings.FieldsSeq(read(t, filepath.Join(group, "cgroup.procs"))) {
					write(t, filepath.Join(cgroupRoot, "cgroup.procs"), pid)
				}
			}
			must(t, removeGroup(group))
			untilBusy(t, d)
			if i == 1 {
				must(t, l.cmd.Process.Signal(unix.SIGINT))
			}
			_ = l.cmd.Wait()
			if fioErrors(l) {
				t.Errorf("round %d:\n%s", i, l.out.String())
			}
		}
		stopLoads(t, d, []*load{steady})
	})
}

// A disk goes while requests of several groups are queued on every CPU.
func TestBusyDiskRemoved(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		d.use(t, elevator)
		loads := startLoads(t, d)
		must(t, os.Remove(d.config))
		for _, l := range loads {
			if err := l.cmd.Wait(); err == nil {
				t.Error("fio did not notice that its disk is gone")
			}
		}
	})
}
