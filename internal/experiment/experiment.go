// SPDX-License-Identifier: MIT

// Package experiment reads an experiment file: one question about how
// containers share a disk, with the load that answers it and what is expected.
package experiment

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// Experiment is one question, asked of several schedulers with the same load.
// All times are seconds of the clock of the machine that runs the load.
type Experiment struct {
	// File is where the experiment was read, for messages; Source its text.
	File   string
	Source []byte

	Name     string // lower case letters, digits, '.', '_', '-'
	Question string
	Answers  string // seed document and figure, "" if there is none
	// Schedulers are the contenders, in the order of the result.
	Schedulers []string
	// RampS is how long load runs before anything is counted, 0..3600.
	RampS float64
	// DurationS is how long is counted after the ramp, above 0..86400.
	DurationS float64
	// NrRequests is how many requests each scheduler may hold for a hardware
	// queue (queue/nr_requests), 4..2048; 0 leaves the kernel's default, which
	// is twice the device's tags. Without a scheduler the tags are the limit.
	NrRequests int
	Device     Device
	Containers []Container
	Expect     []Expectation
}

// Device is the disk that the lab makes for the load.
type Device struct {
	Kind string // "null_blk"
	// CompletionUS is the microseconds the device takes for a request of any size.
	CompletionUS int
	Tags         int // requests a hardware queue holds at once
	Queues       int // hardware queues
	SizeMiB      int
}

// String describes the device in one line.
func (d Device) String() string {
	queues := "1 queue"
	if d.Queues != 1 {
		queues = fmt.Sprintf("%d queues", d.Queues)
	}
	return fmt.Sprintf("%s, completion %d us, %s of %d tags, %d MiB", d.Kind, d.CompletionUS, queues, d.Tags, d.SizeMiB)
}

// Container is one tenant: a cgroup with a weight and a fio job in it.
type Container struct {
	Name   string
	Weight int // 1..10000, as in io.weight
	// Cgroup is the path below the experiment's own cgroup.
	Cgroup string
	// StartS and EndS bound the load, in seconds after the load's start;
	// 0 <= StartS < EndS <= RampS + DurationS.
	StartS, EndS float64
	// Job is the file's [job] overlaid with the container's own.
	Job Job
}

// CountedS returns for how many seconds c's load runs before it is counted,
// and for how many it is counted: the part of [StartS, EndS] before and after
// the ramp's end.
func (e *Experiment) CountedS(c Container) (uncounted, counted float64) {
	uncounted = max(0, e.RampS-c.StartS)
	return uncounted, c.EndS - c.StartS - uncounted
}

// Writes reports whether any container's job writes to the device.
func (e *Experiment) Writes() bool {
	return slices.ContainsFunc(e.Containers, func(c Container) bool { return c.Job.Writes() })
}

// Known lists the contenders that the engine can set up. "iocost" stands for
// the scheduler none with the kernel's io.cost controller enabled.
func Known() []string {
	return []string{"none", "mq-deadline", "kyber", "bfq", "iocost", "kyber-fairness"}
}

// Load reads and checks the file at path.
func Load(path string) (*Experiment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, failure.Usagef("read experiment: %w", err)
	}
	return Parse(path, text)
}

// Select returns the experiment with only the named schedulers, in the
// experiment's own order, and the expectations that they can answer.
func (e *Experiment) Select(names []string) (*Experiment, error) {
	for _, name := range names {
		if !slices.Contains(e.Schedulers, name) {
			return nil, failure.Usagef("%s: schedulers: %q is not among the experiment's; allowed: %s",
				e.File, name, strings.Join(e.Schedulers, ", "))
		}
	}
	selected := *e
	selected.Schedulers = nil
	for _, name := range e.Schedulers {
		if slices.Contains(names, name) {
			selected.Schedulers = append(selected.Schedulers, name)
		}
	}
	selected.Expect = nil
	for _, x := range e.Expect {
		reference := x.Metric.Reference()
		if slices.Contains(names, x.Scheduler) && (reference == "" || slices.Contains(names, reference)) {
			selected.Expect = append(selected.Expect, x)
		}
	}
	return &selected, nil
}
