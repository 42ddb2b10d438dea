// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"isolio/tests/hostile/script"
)

// actor does its list of operations.
type actor struct {
	script.Actor
	w     *world
	index atomic.Int64  // operations begun or left out
	began atomic.Uint64 // monotonic() when the one in flight began; 0 for none
	doing atomic.Value  // string: what it is
}

// operations are what the kinds of the script mean. An error that the kernel
// lawfully gives is none: most writes of garbage are refused. They return how
// the operation went, for the counts.
var operations = map[string]func(w *world, a *actor, op script.Op) error{
	"switch":      doSwitch,
	"nr-requests": doRequests,
	"queues":      doQueues,
	"garbage":     doGarbage,
	"make":        doMake,
	"remove":      doRemove,
	"move":        doMove,
	"freeze":      doFreeze,
	"kill":        doKill,
	"weight":      doWeight,
	"io-max":      doMax,
	"io-cost":     doCost,
	"io-prio":     doPriority,
	"tunable":     doTunable,
	"read-queue":  doReadQueue,
	"read-debug":  doReadDebug,
	"read-group":  doReadGroup,
	"poke":        doPoke,
	"cpu":         doCPU,
	"removal":     doRemoval,
	"reset":       doReset,
	"module":      doModule,
	"refuse":      doModelFault,
	"requeue":     doModelFault,
	"lose":        doModelFault,
	"stall":       doModelFault,
	"error":       doModelFault,
	"scsi-fault":  doScsiFault,
	"no-fault":    doNoFault,
	"memory":      doMemory,
	"swap":        doSwap,
	"drop-caches": doDropCaches,
	"sync":        doSync,
}

// startActors starts all actors; wait returns when they have ended.
func (w *world) startActors() (wait func()) {
	var all sync.WaitGroup
	for _, one := range script.Actors {
		a := &actor{Actor: one, w: w}
		a.doing.Store("")
		w.actors = append(w.actors, a)
	}
	for _, a := range w.actors {
		all.Go(a.run)
	}
	return all.Wait
}

func (a *actor) run() {
	ops := a.Ops(a.w.choice.Seed)
	for i := 0; !a.w.over.Load(); i++ {
		op := ops.Next()
		a.sleep(op.Pause)
		for a.w.calm.Load() && !a.w.over.Load() {
			time.Sleep(50 * time.Millisecond)
		}
		a.index.Store(int64(i + 1))
		if !a.w.choice.Runs(a.Name, i, op.Kind) {
			continue
		}
		a.doing.Store(op.Kind)
		a.began.Store(monotonic())
		err := operations[op.Kind](a.w, a, op)
		a.began.Store(0)
		a.w.note(fmt.Sprintf("%.3f s %s %d: %s, %s: %v", float64(monotonic())/1e9, a.Name, i, op.Kind, a.doing.Load(), err))
		if err == nil {
			a.w.count(op.Kind, 1)
		} else {
			a.w.count(op.Kind+"-refused", 1)
		}
	}
}

// sleep is short enough for the end of the run to come soon.
func (a *actor) sleep(d time.Duration) {
	for end := time.Now().Add(d); !a.w.over.Load(); {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, 100*time.Millisecond))
	}
}

// put is an operation that writes text to a file; what it writes shows in a dump.
func (a *actor) put(file, text string) error {
	shown := text
	if len(shown) > 60 {
		shown = shown[:60] + "..."
	}
	a.doing.Store(fmt.Sprintf("write %q to %s", shown, file))
	return put(file, text)
}

// putAll writes numbers to files of a directory: names and numbers in turn.
func (a *actor) putAll(dir string, pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := a.put(filepath.Join(dir, fmt.Sprint(pairs[i])), fmt.Sprint(pairs[i+1])); err != nil {
			return err
		}
	}
	return nil
}

// pick is the member of a list that a number means.
func pick[T any](list []T, n uint32) (one T) {
	if len(list) == 0 {
		return one
	}
	return list[n%uint32(len(list))]
}

// reads reads a file and forgets what it says.
func (a *actor) reads(file string) error {
	a.doing.Store("read " + file)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf [16 << 10]byte
	for range 64 {
		if _, err := f.Read(buf[:]); err != nil {
			return nil // its end, or it does not want to be read
		}
	}
	return nil
}
