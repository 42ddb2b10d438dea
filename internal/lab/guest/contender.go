// SPDX-License-Identifier: MIT

package guest

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// contender is how one name of an experiment's schedulers is set up.
type contender struct {
	experiment.Contender // what the experiment says of it

	scheduler string // for queue/scheduler
	// weightFile is the cgroup file that takes weights, "" if the contender
	// knows none; weightFormat is what is written, maxWeight the most it takes.
	weightFile   string
	weightFormat string
	maxWeight    int
	// strict is a tunable without whose value weights are not kept.
	strict tunable
	// times are the tunables that are lengths of time.
	times  []timeTunable
	iocost bool
}

// tunable is a file in queue/iosched and what to write to it.
type tunable struct{ name, value string }

// timeTunable is a file in queue/iosched and its default, in its own unit.
type timeTunable struct {
	name  string
	value int64
}

// tunables are the values to write for a disk that is slowed down by the factor
// scale. The schedulers' waits and target latencies are multiplied by it too, since
// all of them are relative to the disk's time. With a slow disk and fast clocks kyber
// would take every latency for a missed target, and bfq's idling would cost next to
// nothing. The experiment's own tunables come last and replace those.
func (c contender) tunables(scale int) []tunable {
	var all []tunable
	if c.strict.name != "" {
		all = append(all, c.strict)
	}
	if scale > 1 {
		for _, t := range c.times {
			all = append(all, tunable{t.name, scaled(t.value, scale)})
		}
	}
	all = slices.DeleteFunc(all, func(t tunable) bool { return c.Tunables[t.name] != "" })
	for _, name := range slices.Sorted(maps.Keys(c.Tunables)) {
		value := c.Tunables[name]
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && experiment.IsTime(name) {
			value = scaled(n, scale)
		}
		all = append(all, tunable{name, value})
	}
	return all
}

// scaled is a time for a disk that is slowed down by the factor scale.
func scaled(n int64, scale int) string {
	return strconv.FormatInt(n*int64(max(1, scale)), 10)
}

// contenderOf is how the experiment's contender of that name is set up.
func contenderOf(x *experiment.Experiment, name string) contender {
	declared := x.Contender(name)
	c := contenderFor(declared.Scheduler)
	c.Contender = declared
	return c
}

func contenderFor(name string) contender {
	switch name {
	case "bfq":
		// With low_latency, the default, queues that are new count as
		// interactive and their weights are raised for seconds.
		return contender{
			scheduler: name, weightFile: "io.bfq.weight", weightFormat: "%d", maxWeight: 1000,
			strict: tunable{"low_latency", "0"},
			// Its turns of timeout_sync, 125 ms, stay: turns of 2 s, at scale 16,
			// cost as much (17,250 random reads a second against 16,970) and
			// take minutes to add up to the weights.
			times: []timeTunable{{"slice_idle_us", 8000}},
		}
	case "kyber":
		return contender{scheduler: name, times: kyberTimes}
	case "kyber-fairness":
		return contender{
			scheduler: name, weightFile: "io.kyber.weight", weightFormat: "default %d", maxWeight: 10000,
			times: kyberTimes,
		}
	case "kyber-report":
		return contender{
			scheduler: name, weightFile: "io.kyber-report.weight", weightFormat: "default %d", maxWeight: 10000,
			times: append(slices.Clone(kyberTimes), timeTunable{"refill_ms", 100}),
		}
	case "mq-deadline":
		return contender{scheduler: name, times: []timeTunable{{"read_expire", 500}, {"write_expire", 5000}}}
	case "sfq":
		return contender{scheduler: name, times: []timeTunable{{"read_expire_ms", 500}, {"write_expire_ms", 5000}, {"quiet_ms", 100}, {"patience_us", 2000}}}
	case "iocost":
		return contender{scheduler: "none", weightFile: "io.weight", weightFormat: "default %d", maxWeight: 10000, iocost: true}
	default: // none
		return contender{scheduler: name}
	}
}

var kyberTimes = []timeTunable{{"read_lat_nsec", 2_000_000}, {"write_lat_nsec", 10_000_000}}

// weights are the containers' weights as the contender takes them: in
// proportion, the heaviest at its limit, when one is above it.
func (c contender) weights(containers []experiment.Container) []int {
	heaviest := 0
	for _, t := range containers {
		heaviest = max(heaviest, t.Weight)
	}
	weights := make([]int, len(containers))
	for i, t := range containers {
		weights[i] = t.Weight
		if heaviest > c.maxWeight {
			scaled := float64(t.Weight) * float64(c.maxWeight) / float64(heaviest)
			weights[i] = max(1, int(math.Round(scaled)))
		}
	}
	return weights
}

const (
	costModel = "io.cost.model"
	costQoS   = "io.cost.qos"
)

// iocostSteps enable the kernel's io.cost for its own contender, and make
// sure that it is off for the others. Parameters that are set on the machine
// already are kept.
func (e Env) iocostSteps(c contender, d *Disk, k *experiment.Case) ([]plan.Step, error) {
	if !e.Cgroups.Has(costQoS) {
		if c.iocost {
			return nil, failure.Unsupportedf("%s is not there: the kernel lacks CONFIG_BLK_CGROUP_IOCOST", e.Cgroups.Path(costQoS))
		}
		return nil, nil
	}
	text, err := os.ReadFile(e.Cgroups.Path(costQoS))
	if err != nil {
		return nil, err
	}
	enabled := false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		enabled = enabled || len(words) > 0 && words[0] == d.MajMin && slices.Contains(words, "enable=1")
	}
	set := func(file, value, undo string) plan.Step {
		return plan.Step{
			Path: e.Cgroups.Path(file), Name: file,
			Value: d.MajMin + " " + value, Undo: d.MajMin + " " + undo,
		}
	}
	switch {
	case c.iocost == enabled:
		return nil, nil
	case enabled:
		return []plan.Step{set(costQoS, "enable=0", "enable=1")}, nil
	case e.Find != nil:
		// A disk of the machine: the kernel's own parameters for its kind.
		if c.Tells() {
			return nil, failure.Usagef("contender %s: its iocost needs a model of the disk; [device.iocost] is the one of the lab's disk, not of %s; "+
				"allowed: leave it out with --schedulers", c.Name, d.Name)
		}
		return []plan.Step{set(costQoS, "enable=1 ctrl=auto", "enable=0")}, nil
	}
	m := c.Costs(costs(k.Device)).Scaled(k.Device.Model.Scale)
	return []plan.Step{
		set(costModel, linearModel(m), "ctrl=auto"),
		set(costQoS, costLimits(m), "enable=0"),
	}, nil
}

// costs is what is true of a disk that the engine made, without its scale.
func costs(d experiment.Device) experiment.Iocost {
	if d.Kind == experiment.NullBlk {
		return nullBlkCost(d)
	}
	return *d.Model.Iocost
}

func linearModel(m experiment.Iocost) string {
	return fmt.Sprintf("ctrl=user model=linear rbps=%d rseqiops=%d rrandiops=%d wbps=%d wseqiops=%d wrandiops=%d",
		m.RBPS, m.RSeqIOPS, m.RRandIOPS, m.WBPS, m.WSeqIOPS, m.WRandIOPS)
}

// costLimits has io.cost hand out what it was told that the disk can do, and
// never more; less, down to half of it, when more than 5 % of the requests take
// longer than it was told, if it was told so. How good the contender is, the
// experiment's file decides.
func costLimits(m experiment.Iocost) string {
	least := "100.00"
	target := func(direction string, us int64) string {
		if us == 0 {
			return fmt.Sprintf("%spct=0.00 %slat=0", direction, direction)
		}
		least = "50.00"
		return fmt.Sprintf("%spct=95.00 %slat=%d", direction, direction, us)
	}
	read, write := target("r", m.RLatUS), target("w", m.WLatUS)
	return "enable=1 ctrl=user " + read + " " + write + " min=" + least + " max=100.00"
}

// nullBlkCost states what a null_blk can do. With T tags on each of Q
// queues and L microseconds a request, whatever its kind and size, it completes
//
//	R = Q T 10^6 / L   requests a second
//
// which is every IOPS parameter. io.cost charges a request a fixed part and a
// part for each of its 4 KiB pages, 4096/bps seconds a page. As size costs
// this device nothing, bps is set so high (64 MiB a request) that 1 MiB costs
// 1/64 more than the fixed part. The disk counts as overloaded when requests
// take longer than twice what it needs.
func nullBlkCost(d experiment.Device) experiment.Iocost {
	iops := int64(d.Queues) * int64(d.Tags) * 1_000_000 / int64(max(1, d.CompletionUS))
	bps := iops * (64 << 20)
	limit := int64(2 * max(1, d.CompletionUS))
	return experiment.Iocost{
		RBPS: bps, RSeqIOPS: iops, RRandIOPS: iops, WBPS: bps, WSeqIOPS: iops, WRandIOPS: iops,
		RLatUS: limit, WLatUS: limit,
	}
}

// settings lists what was written for the contender, for the result.
func settings(steps []plan.Step) []string {
	var lines []string
	for _, s := range steps {
		if s.Name != "" {
			lines = append(lines, filepath.ToSlash(s.Name)+" = "+s.Value)
		}
	}
	return lines
}
