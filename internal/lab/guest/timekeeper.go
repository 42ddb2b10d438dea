// SPDX-License-Identifier: MIT

package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/result"
)

// The timekeeper does what must happen at its time and not a little later:
// pauses, changes, and the readings of the counters that make a series. It is a thread
// of its own, which sleeps until absolute times and runs before the load; the
// runtime's timers are up to a millisecond late, and on a busy CPU more.
type timekeeper struct {
	actions []action
	begin   time.Duration // on CLOCK_MONOTONIC
	series  []sampled     // one for each job; none without samples
	pauses  [][][2]float64
}

// sampled is a series that is being read.
type sampled struct {
	counters   []*counterReader // of each container of the job
	bytes, ios uint64           // at the last reading, together
	result.Series
}

// timekeeper prepares what p has to be done at a time. close ends it.
func (e Env) timekeeper(p *Plan) (k *timekeeper, err error) {
	k = &timekeeper{pauses: make([][][2]float64, len(p.Jobs))}
	if p.Sample > 0 {
		if err = e.openSeries(k, p); err != nil {
			k.close()
			return nil, err
		}
		for n := range int((p.Load-p.Ramp)/p.Sample) + 1 {
			k.actions = append(k.actions, action{p.Ramp + time.Duration(n)*p.Sample, func() error { return k.sample(n == 0) }})
		}
	}
	for i, j := range p.Jobs {
		for _, pause := range j.Container.Pauses {
			k.actions = append(k.actions,
				action{seconds(pause.FromS), func() error { return k.pause(e, p, i, true) }},
				action{seconds(pause.ToS), func() error { return k.pause(e, p, i, false) }})
		}
	}
	for _, c := range p.Changes {
		k.actions = append(k.actions, action{c.At, func() error { return c.apply(e) }})
	}
	// A reading comes before a pause or change of the same time: it ends a step.
	slices.SortStableFunc(k.actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	return k, nil
}

func (e Env) openSeries(k *timekeeper, p *Plan) error {
	steps := int((p.Load - p.Ramp) / p.Sample)
	for i, j := range p.Jobs {
		k.series = append(k.series, sampled{Series: result.Series{
			StartS: p.Ramp.Seconds(), StepMS: int(p.Sample.Milliseconds()),
			Bytes: make([]uint64, 0, steps), IOs: make([]uint64, 0, steps),
		}})
		for _, group := range j.Groups {
			counters, err := e.Cgroups.OpenCounters(group, p.disk.MajMin)
			if err != nil {
				return fmt.Errorf("container %s: %w", j.Name, err)
			}
			k.series[i].counters = append(k.series[i].counters, counters)
		}
	}
	return nil
}

func (k *timekeeper) close() {
	for i := range k.series {
		for _, counters := range k.series[i].counters {
			counters.Close()
		}
	}
}

// longestSleep is how long the timekeeper may not notice that ctx is done.
const longestSleep = 100 * time.Millisecond

// keepTime gives this thread a priority above loads that have none, if it may, and if
// outrank has not given it a higher one.
func keepTime() error {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy == unix.SCHED_FIFO {
		return err
	}
	err = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
	}, 0)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// run does all actions at their times after begin, on CLOCK_MONOTONIC.
func (k *timekeeper) run(ctx context.Context, begin time.Duration) error {
	if len(k.actions) == 0 {
		return nil
	}
	// The thread ends with the goroutine, as it is not unlocked, and its
	// priority with it.
	runtime.LockOSThread()
	if err := keepTime(); err != nil {
		return fmt.Errorf("the timekeeper's priority: %w", err)
	}
	k.begin = begin
	for _, a := range k.actions {
		if err := sleepUntil(ctx, begin+a.at); err != nil {
			return err
		}
		if err := a.do(); err != nil {
			return err
		}
	}
	return nil
}

func sleepUntil(ctx context.Context, at time.Duration) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := monotonic()
		if err != nil || now >= at {
			return err
		}
		until := unix.NsecToTimespec(min(at, now+longestSleep).Nanoseconds())
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("sleep: %w", err)
		}
	}
}

// monotonic is the time on CLOCK_MONOTONIC.
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// sample reads all counters; the first reading is what the others count from.
func (k *timekeeper) sample(first bool) error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	for i := range k.series {
		s := &k.series[i]
		var bytes, ios uint64
		for _, counters := range s.counters {
			io, err := counters.Read()
			if err != nil {
				return err
			}
			bytes += io.ReadBytes + io.WriteBytes
			ios += io.ReadIOs + io.WriteIOs
		}
		if !first {
			s.Bytes = append(s.Bytes, bytes-s.bytes)
			s.IOs = append(s.IOs, ios-s.ios)
		}
		due := k.begin + seconds(s.StartS) + time.Duration(len(s.Bytes)*s.StepMS)*time.Millisecond
		s.LateUS = max(s.LateUS, float64((now-due).Nanoseconds())/1000)
		s.bytes, s.ios = bytes, ios
	}
	return nil
}

// pause freezes or thaws job i's container, and notes when that was done.
func (k *timekeeper) pause(e Env, p *Plan, i int, on bool) error {
	for _, group := range p.Jobs[i].Groups {
		if err := e.Cgroups.Freeze(group, on); err != nil {
			return fmt.Errorf("container %s: %w", p.Jobs[i].Name, err)
		}
	}
	now, err := monotonic()
	at := (now - k.begin).Seconds()
	if on {
		k.pauses[i] = append(k.pauses[i], [2]float64{at, at})
	} else {
		k.pauses[i][len(k.pauses[i])-1][1] = at
	}
	return err
}

// measured hands the job's series and pauses over.
func (k *timekeeper) measured(i int) (*result.Series, [][2]float64) {
	if k.series == nil {
		return nil, k.pauses[i]
	}
	return &k.series[i].Series, k.pauses[i]
}
