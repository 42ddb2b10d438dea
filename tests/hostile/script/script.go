// SPDX-License-Identifier: MIT

// Package script decides what the hostile suite does: for each actor a list of
// operations that a seed gives. The list does not depend on what happens when it
// runs, so a seed repeats it, and parts of it may be left out.
package script

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is one kind of operation, and how often an actor does it compared with
// the actor's other kinds.
type Kind struct {
	Name  string
	Share int
}

// Actor does one operation after another.
type Actor struct {
	Name string
	// Pause is the mean time between two operations.
	Pause time.Duration
	Kinds []Kind
}

// Op is an operation. The program that executes it maps its arguments to what exists: A
// modulo the number of disks, for example.
type Op struct {
	Pause   time.Duration
	Kind    string
	A, B, C uint32
}

// Ops is an actor's endless list.
type Ops struct {
	actor  Actor
	rng    *rand.Rand
	shares int
}

// Ops starts the actor's list for a seed.
func (a Actor) Ops(seed uint64) *Ops {
	name := fnv.New64a()
	name.Write([]byte(a.Name))
	ops := &Ops{actor: a, rng: rand.New(rand.NewPCG(seed, name.Sum64()))}
	for _, kind := range a.Kinds {
		ops.shares += kind.Share
	}
	return ops
}

// Next is the next operation.
func (o *Ops) Next() Op {
	op := Op{Pause: time.Duration(o.rng.ExpFloat64() * float64(o.actor.Pause)).Truncate(time.Microsecond)}
	op.Pause = min(op.Pause, 5*o.actor.Pause)
	at := o.rng.IntN(o.shares)
	for _, kind := range o.actor.Kinds {
		op.Kind = kind.Name
		if at -= kind.Share; at < 0 {
			break
		}
	}
	op.A, op.B, op.C = o.rng.Uint32(), o.rng.Uint32(), o.rng.Uint32()
	return op
}

// Choice says what of a seed's lists runs, and for how long.
type Choice struct {
	Seed    uint64
	Seconds int
	// IsLight has all loads do less, for VMs whose time is counted in instructions.
	IsLight bool
	// Without are the kinds of operations that are left out.
	Without []string
	// Cuts are how many operations an actor does, for those that end early.
	Cuts map[string]int
}

// Slower is a load's pause.
func (c Choice) Slower(pause time.Duration) time.Duration {
	if c.IsLight {
		return 8 * pause
	}
	return pause
}

// Environment is what the guest is told.
func (c Choice) Environment() []string {
	var cuts []string
	for _, name := range slices.Sorted(maps.Keys(c.Cuts)) {
		cuts = append(cuts, fmt.Sprintf("%s=%d", name, c.Cuts[name]))
	}
	return []string{
		fmt.Sprint("HOSTILE_SEED=", c.Seed), fmt.Sprint("HOSTILE_SECONDS=", c.Seconds), fmt.Sprint("HOSTILE_LIGHT=", c.IsLight),
		"HOSTILE_WITHOUT=" + strings.Join(c.Without, ","), "HOSTILE_CUTS=" + strings.Join(cuts, ","),
	}
}

// FromEnvironment reads it back.
func FromEnvironment(getenv func(string) string) (c Choice, err error) {
	if c.Seed, err = strconv.ParseUint(getenv("HOSTILE_SEED"), 10, 64); err != nil {
		return c, fmt.Errorf("HOSTILE_SEED: %w", err)
	}
	if c.Seconds, err = strconv.Atoi(getenv("HOSTILE_SECONDS")); err != nil {
		return c, fmt.Errorf("HOSTILE_SECONDS: %w", err)
	}
	if c.IsLight, err = strconv.ParseBool(getenv("HOSTILE_LIGHT")); err != nil {
		return c, fmt.Errorf("HOSTILE_LIGHT: %w", err)
	}
	if list := getenv("HOSTILE_WITHOUT"); list != "" {
		c.Without = strings.Split(list, ",")
	}
	c.Cuts = map[string]int{}
	for cut := range strings.FieldsFuncSeq(getenv("HOSTILE_CUTS"), func(r rune) bool { return r == ',' }) {
		name, number, _ := strings.Cut(cut, "=")
		if c.Cuts[name], err = strconv.Atoi(number); err != nil {
			return c, fmt.Errorf("HOSTILE_CUTS: %s: %w", cut, err)
		}
	}
	return c, nil
}

// Runs tells whether the actor's operation with this index and kind runs.
func (c Choice) Runs(actor string, index int, kind string) bool {
	if cut, ok := c.Cuts[actor]; ok && index >= cut {
		return false
	}
	return !slices.Contains(c.Without, kind)
}

// Actors are all there are.
var Actors = []Actor{
	{Name: "switch", Pause: 120 * time.Millisecond, Kinds: []Kind{{"switch", 10}, {"nr-requests", 3}, {"queues", 2}, {"garbage", 1}}},
	{Name: "switch-too", Pause: 250 * time.Millisecond, Kinds: []Kind{{"switch", 10}, {"nr-requests", 1}}},
	{Name: "group", Pause: 80 * time.Millisecond, Kinds: []Kind{{"make", 6}, {"remove", 5}, {"move", 8}, {"freeze", 2}, {"kill", 1}}},
	{Name: "weight", Pause: 60 * time.Millisecond, Kinds: []Kind{{"weight", 8}, {"garbage", 2}, {"io-max", 2}, {"io-cost", 1}, {"io-prio", 2}}},
	{Name: "weight-too", Pause: 90 * time.Millisecond, Kinds: []Kind{{"weight", 8}, {"garbage", 2}}},
	{Name: "tune", Pause: 60 * time.Millisecond, Kinds: []Kind{{"tunable", 5}, {"garbage", 2}}},
	{Name: "tune-too", Pause: 100 * time.Millisecond, Kinds: []Kind{{"tunable", 5}, {"garbage", 2}}},
	{Name: "read", Pause: 25 * time.Millisecond, Kinds: []Kind{{"read-queue", 3}, {"read-debug", 3}, {"read-group", 3}, {"poke", 1}}},
	{Name: "cpu", Pause: 900 * time.Millisecond, Kinds: []Kind{{"cpu", 1}}},
	{Name: "removal", Pause: 1800 * time.Millisecond, Kinds: []Kind{{"removal", 4}, {"reset", 1}}},
	{Name: "module", Pause: 1200 * time.Millisecond, Kinds: []Kind{{"module", 1}}},
	{Name: "fault", Pause: 700 * time.Millisecond, Kinds: []Kind{{"refuse", 3}, {"requeue", 3}, {"lose", 1}, {"stall", 1}, {"error", 3}, {"scsi-fault", 2}, {"no-fault", 4}}},
	{Name: "memory", Pause: 500 * time.Millisecond, Kinds: []Kind{{"memory", 4}, {"swap", 1}, {"drop-caches", 1}, {"sync", 2}}},
}

// Kinds are the names of all kinds of operations, sorted.
func Kinds() []string {
	names := map[string]bool{}
	for _, actor := range Actors {
		for _, kind := range actor.Kinds {
			names[kind.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Sequence are the operations that a choice with cuts runs, in the order of
// their times if none took any, one line each.
func (c Choice) Sequence() (lines []string) {
	type timed struct {
		at   time.Duration
		line string
	}
	var all []timed
	for _, actor := range Actors {
		ops := actor.Ops(c.Seed)
		at := time.Duration(0)
		for i := range c.Cuts[actor.Name] {
			op := ops.Next()
			at += op.Pause
			if c.Runs(actor.Name, i, op.Kind) {
				all = append(all, timed{at, fmt.Sprintf("%8.3f s %s %d: %s %d %d %d", at.Seconds(), actor.Name, i, op.Kind, op.A, op.B, op.C)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	for _, one := range all {
		lines = append(lines, one.line)
	}
	return lines
}
