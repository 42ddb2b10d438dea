// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// setOnline takes every CPU but the first one away, or brings it back.
func setOnline(t *testing.T, online string) {
	t.Helper()
	for cpu := 1; cpu < runtime.NumCPU(); cpu++ {
		write(t, fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), online)
	}
}

// pinnedLoads runs a load in a group of its own on each CPU, so that every
// hardware queue has requests waiting.
func pinnedLoads(t *testing.T, d *disk) []*load {
	t.Helper()
	var loads []*load
	for cpu := range runtime.NumCPU() {
		loads = append(loads, startFio(t, d, newGroup(t, fmt.Sprint("cpu", cpu)), "--time_based", "--runtime=600",
			"--iodepth=64", fmt.Sprint("--cpus_allowed=", cpu)))
	}
	return loads
}

// A CPU goes offline with requests queued on it. If it is the last one of a hardware
// queue, the kernel waits until the queue is empty: the scheduler must not throttle
// its requests for ever. Every group goes on, on the CPUs that are left.
func TestCPUGoesUnderLoad(t *testing.T) {
	severalCPUs(t)
	onDisks(t, func(t *testing.T, d *disk) {
		t.Cleanup(func() { setOnline(t, "1") })
		d.use(t, elevator)
		loads := pinnedLoads(t, d)
		for range 3 {
			for _, online := range []string{"0", "1"} {
				untilAllBusy(t, loads)
				setOnline(t, online)
			}
		}
		untilAllBusy(t, loads)
		stopLoads(t, d, loads)
	})
}

// The kernel waits for the requests of a CPU's hardware queue when the CPU goes. Those of a
// cgroup that has next to nothing of the disk do not wait for their share meanwhile.
func TestCPUGoesWithThrottledRequests(t *testing.T) {
	severalCPUs(t)
	loaded(t)
	d := newDisk(t, []string{
		"irqmode=2", "completion_nsec=5000000", "hw_queue_depth=16",
		fmt.Sprint("submit_queues=", runtime.NumCPU()), "size=256",
	})
	t.Cleanup(func() { setOnline(t, "1") })
	d.use(t, elevator)
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	write(t, filepath.Join(heavy, weightFile), "10000")
	write(t, filepath.Join(light, weightFile), "1")
	loads := []*load{
		startFio(t, d, heavy, "--time_based", "--runtime=600", "--iodepth=64", "--cpus_allowed=0"),
		startFio(t, d, light, "--time_based", "--runtime=600", "--iodepth=64", "--cpus_allowed=1"),
	}
	for range 3 {
		loads[0].untilBusy(t)
		time.Sleep(time.Second)
		start := time.Now()
		setOnline(t, "0")
		took := time.Since(start)
		t.Logf("a CPU went in %v", took)
		if took > time.Second {
			t.Errorf("a CPU whose requests are throttled went in %v; want 1 s at most", took)
		}
		setOnline(t, "1")
	}
	stopLoads(t, d, loads)
}

// untilAllBusy waits until each of the loads has done I/O since now.
func untilAllBusy(t *testing.T, loads []*load) {
	t.Helper()
	for _, l := range loads {
		l.untilBusy(t)
	}
}

// A scheduler that comes while a CPU is away knows it when it is back.
func TestSchedulerChosenWithoutCPU(t *testing.T) {
	severalCPUs(t)
	onDisks(t, func(t *testing.T, d *disk) {
		t.Cleanup(func() { setOnline(t, "1") })
		setOnline(t, "0")
		d.use(t, elevator)
		setOnline(t, "1")
		loads := pinnedLoads(t, d)
		untilAllBusy(t, loads)
		setOnline(t, "0")
		d.use(t, "none")
		setOnline(t, "1")
		d.use(t, elevator)
		untilAllBusy(t, loads)
		stopLoads(t, d, loads)
	})
}

// Shares are as entitled after CPUs went and came.
func TestSharesAfterCPUWent(t *testing.T) {
	severalCPUs(t)
	comparesRates(t)
	for _, queues := range []int{1, runtime.NumCPU()} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			loaded(t)
			d := newDisk(t, []string{
				"irqmode=2", "completion_nsec=1000000", fmt.Sprint("hw_queue_depth=", 16/queues),
				fmt.Sprint("submit_queues=", queues), "size=256",
			})
			d.use(t, elevator)
			busy := startFio(t, d, newGroup(t, "busy"), "--time_based", "--runtime=600", "--iodepth=64")
			for range 3 {
				untilBusy(t, d)
				setOnline(t, "0")
				untilBusy(t, d)
				setOnline(t, "1")
			}
			must(t, busy.cmd.Process.Signal(unix.SIGINT))
			_ = busy.cmd.Wait()
			a, b := newGroup(t, "a"), newGroup(t, "b")
			write(t, filepath.Join(a, weightFile), "300")
			write(t, filepath.Join(b, weightFile), "100")
			rates := readRates(t, d, []string{a, b})
			ratio := rates[0] / rates[1]
			t.Logf("weights 300 and 100 gave %.0f and %.0f KiB in a second, ratio %.2f", rates[0]/1024, rates[1]/1024, ratio)
			if math.Abs(ratio-3) > 0.3 {
				t.Errorf("ratio %.2f; want 2.7..3.3", ratio)
			}
		})
	}
}
