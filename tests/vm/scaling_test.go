// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scalingSeconds says how long each load of TestScaling runs; without it, the test is
// skipped: it measures, and takes its time. scalingRepeats is how often it goes through
// the schedulers, there and back each time. scalingJobs are the numbers of jobs, with
// commas between; without it 1, 2, 4 and so on, up to the number of CPUs. scalingScript asks for
// what Yu Kuai's script for batch dispatch does: jobs of one cgroup, with 32 requests each, on a
// null_blk that completes at once.
const (
	scalingSeconds = "ISOLIO_SCALING_SECONDS"
	scalingRepeats = "ISOLIO_SCALING_REPEATS"
	scalingJobs    = "ISOLIO_SCALING_JOBS"
	scalingScript  = "ISOLIO_SCALING_SCRIPT"
)

// scalingSchedulers are compared. Kernels without one of them leave it out.
var scalingSchedulers = []string{"none", "mq-deadline", "kyber", "bfq", elevator}

// scalingLoad is so many jobs, each pinned to a CPU, in so many cgroups, with so many
// requests outstanding each.
type scalingLoad struct{ jobs, groups, depth int }

// scalingCell is what TestScaling tells of a scheduler under a load.
type scalingCell struct {
	Kernel    string    `json:"kernel"`
	CPUs      int       `json:"cpus"`
	Scheduler string    `json:"scheduler"`
	Jobs      int       `json:"jobs"`
	Groups    int       `json:"groups"`
	Depth     int       `json:"depth"`
	PerSecond []float64 `json:"per_second"`
}

// scalingDepth is what a job has outstanding where requests wait for one another.
const scalingDepth = 32

// What more CPUs add where the CPU is the limit: null_blk disks with a queue for each CPU.
// One completes a request where it is submitted; the other takes 100 us for it, and each
// job has many outstanding.
func TestScaling(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv(scalingSeconds))
	if err != nil || seconds < 1 {
		t.Skip("measures, if " + scalingSeconds + " says for how long: make vm T=scaling")
	}
	repeats, err := strconv.Atoi(os.Getenv(scalingRepeats))
	if err != nil || repeats < 1 {
		repeats = 1
	}
	loaded(t)
	cpus := runtime.NumCPU()
	null := func(more ...string) *disk {
		return newDisk(t, append([]string{"queue_mode=2", "hw_queue_depth=64", fmt.Sprint("submit_queues=", cpus), "size=256"}, more...))
	}
	if os.Getenv(scalingScript) != "" {
		var loads []scalingLoad
		for _, jobs := range scalingNumbers(t, cpus) {
			loads = append(loads, scalingLoad{jobs, 1, scalingDepth})
		}
		scale(t, "jobs", map[int]*disk{scalingDepth: null("irqmode=0")}, loads, seconds, repeats)
		return
	}
	disks := map[int]*disk{1: null("irqmode=0"), scalingDepth: null("irqmode=2", "completion_nsec=100000")}
	var loads []scalingLoad
	for _, jobs := range scalingNumbers(t, cpus) {
		loads = append(loads, scalingLoad{jobs, 1, 1})
		if jobs > 1 {
			loads = append(loads, scalingLoad{jobs, jobs, 1})
		}
	}
	for _, jobs := range scalingNumbers(t, cpus) {
		loads = append(loads, scalingLoad{jobs, jobs, scalingDepth})
	}
	scale(t, "boot", disks, loads, seconds, repeats)
}

// scale measures the loads under each scheduler, on the disk of their depth, and tells the table.
func scale(t *testing.T, table string, disks map[int]*disk, loads []scalingLoad, seconds, repeats int) {
	t.Helper()
	cpus := runtime.NumCPU()
	offered, _ := disks[loads[0].depth].schedulers(t)
	there := slices.DeleteFunc(slices.Clone(scalingSchedulers), func(s string) bool { return !slices.Contains(offered, s) })
	back := slices.Clone(there)
	slices.Reverse(back)
	groups := make([]string, cpus)
	for i := range groups {
		groups[i] = newGroup(t, fmt.Sprint("cpu", i))
	}
	for _, load := range loads {
		d := disks[load.depth]
		rates := map[string][]float64{}
		for range repeats {
			for _, scheduler := range slices.Concat(there, back) {
				d.use(t, scheduler)
				rates[scheduler] = append(rates[scheduler], scalingRate(t, d, load, groups, seconds))
			}
		}
		for _, scheduler := range there {
			t.Logf("%d jobs of depth %d in %d cgroups, %s: %.0f requests a second", load.jobs, load.depth, load.groups, scheduler, rates[scheduler])
			send(t, table, scalingCell{kernelRelease(t), cpus, scheduler, load.jobs, load.groups, load.depth, rates[scheduler]})
		}
		d.use(t, "none")
	}
}

// scalingNumbers are the numbers of jobs.
func scalingNumbers(t *testing.T, cpus int) []int {
	t.Helper()
	var numbers []int
	if text := os.Getenv(scalingJobs); text != "" {
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 || n > cpus {
				t.Fatalf("%s=%s: allowed: numbers from 1 to %d, with commas between", scalingJobs, text, cpus)
			}
			numbers = append(numbers, n)
		}
		return numbers
	}
	for n := 1; n < cpus; n *= 2 {
		numbers = append(numbers, n)
	}
	return append(numbers, cpus)
}

// scalingRate runs the jobs side by side and returns the requests a second of the disk
// while all of them run.
func scalingRate(t *testing.T, d *disk, of scalingLoad, groups []string, seconds int) float64 {
	t.Helper()
	started := make([]*load, of.jobs)
	engine := "--ioengine=psync"
	if of.depth > 1 {
		engine = "--ioengine=libaio"
	}
	for i := range started {
		started[i] = startFio(t, d, groups[i%of.groups], engine, fmt.Sprint("--iodepth=", of.depth), "--rw=randread", "--time_based",
			"--gtod_reduce=1", fmt.Sprint("--cpus_allowed=", i), fmt.Sprint("--runtime=", seconds+60))
	}
	for _, l := range started {
		l.untilBusy(t)
	}
	time.Sleep(time.Second) // jobs of one cgroup look alike: the last one starts, too
	before, begin := d.ios(t), time.Now()
	time.Sleep(time.Duration(seconds) * time.Second)
	rate := float64(d.ios(t)-before) / time.Since(begin).Seconds()
	for _, l := range started {
		l.stop(t)
	}
	return rate
}
