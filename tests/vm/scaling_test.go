// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// scalingSeconds says how long each load of TestScaling runs; without it, the test is
// skipped: it measures, and takes its time. scalingRepeats is how often it goes through
// the schedulers, there and back each time.
const (
	scalingSeconds = "ISOLIO_SCALING_SECONDS"
	scalingRepeats = "ISOLIO_SCALING_REPEATS"
)

// scalingSchedulers are compared. Kernels without one of them leave it out.
var scalingSchedulers = []string{"none", "mq-deadline", "kyber", "bfq", elevator}

// scalingLoad is so many jobs, each pinned to a CPU, in so many cgroups.
type scalingLoad struct{ jobs, groups int }

// scalingCell is what TestScaling tells of a scheduler under a load.
type scalingCell struct {
	Kernel    string    `json:"kernel"`
	CPUs      int       `json:"cpus"`
	Scheduler string    `json:"scheduler"`
	Jobs      int       `json:"jobs"`
	Groups    int       `json:"groups"`
	PerSecond []float64 `json:"per_second"`
}

// What a second CPU adds where the device takes no time: a null_blk with a queue for
// each CPU that completes a request where it is submitted.
func TestScaling(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv(scalingSeconds))
	if err != nil || seconds < 1 {
		t.Skip("measures, if " + scalingSeconds + " says for how long: make bench-smp")
	}
	repeats, err := strconv.Atoi(os.Getenv(scalingRepeats))
	if err != nil || repeats < 1 {
		repeats = 1
	}
	loaded(t)
	cpus := runtime.NumCPU()
	d := newDisk(t, []string{"irqmode=0", "queue_mode=2", "hw_queue_depth=64", fmt.Sprint("submit_queues=", cpus), "size=256"})
	loads := []scalingLoad{{1, 1}}
	if cpus > 1 {
		loads = append(loads, scalingLoad{cpus, 1}, scalingLoad{cpus, cpus})
	}
	offered, _ := d.schedulers(t)
	there := slices.DeleteFunc(slices.Clone(scalingSchedulers), func(s string) bool { return !slices.Contains(offered, s) })
	back := slices.Clone(there)
	slices.Reverse(back)
	groups := make([]string, cpus)
	for i := range groups {
		groups[i] = newGroup(t, fmt.Sprint("cpu", i))
	}
	for _, load := range loads {
		rates := map[string][]float64{}
		for range repeats {
			for _, scheduler := range slices.Concat(there, back) {
				d.use(t, scheduler)
				rates[scheduler] = append(rates[scheduler], scalingRate(t, d, load, groups, seconds))
			}
		}
		for _, scheduler := range there {
			t.Logf("%d jobs in %d cgroups, %s: %.0f requests a second", load.jobs, load.groups, scheduler, rates[scheduler])
			tellScaling(t, scalingCell{kernelRelease(t), cpus, scheduler, load.jobs, load.groups, rates[scheduler]})
		}
	}
	d.use(t, "none")
}

// scalingRate runs the jobs side by side and returns the requests a second of the disk
// while all of them run.
func scalingRate(t *testing.T, d *disk, of scalingLoad, groups []string, seconds int) float64 {
	t.Helper()
	started := make([]*load, of.jobs)
	for i := range started {
		started[i] = startFio(t, d, groups[i%of.groups], "--ioengine=psync", "--iodepth=1", "--rw=randread", "--time_based",
			"--gtod_reduce=1", fmt.Sprint("--cpus_allowed=", i), fmt.Sprint("--runtime=", seconds+60))
	}
	for _, l := range started {
		l.untilBusy(t)
	}
	time.Sleep(2 * time.Second) // jobs of one cgroup look alike: the last one starts, too
	before, begin := d.ios(t), time.Now()
	time.Sleep(time.Duration(seconds) * time.Second)
	rate := float64(d.ios(t)-before) / time.Since(begin).Seconds()
	for _, l := range started {
		l.stop(t)
	}
	return rate
}

func tellScaling(t *testing.T, c scalingCell) {
	t.Helper()
	text, err := json.Marshal(c)
	must(t, err)
	_, err = dataOut.Write(append(text, '\n'))
	must(t, err)
}
