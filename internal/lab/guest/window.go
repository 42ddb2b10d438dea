// SPDX-License-Identifier: MIT

package guest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"isolio/internal/lab/result"
)

// The counted window. All containers are counted over the same time, which
// the engine opens and closes by reading the kernel's counters of every
// container's cgroup. fio's own counts would not do: a fio ends its ramp with
// the first request that completes after it, so a container that starves then
// is counted later and longer than the others, and alone at its end.
//
// The kernel counts a request when it is submitted. What is in flight when the
// window closes counts, what was in flight when it opened does not. But for writes of the
// page cache: a container has seconds of those in flight, so that what is under
// writeback is taken off at both ends, and bytes are those that were completed.

// sample is a container's counters at a time.
type sample struct {
	at time.Time
	io counters
	// user and system are CPU time of a command, with what its setup left running; fio
	// tells its own.
	user, system time.Duration
}

// window holds, for each job, a sample of each of its containers at its open
// and its close, and what the disk said of itself then.
type window struct {
	open, close       [][]sample
	openTold, told    told
	openCPU, closeCPU spent
	keeper            *timekeeper // has series and pauses
}

// told is what others count of the disk's work: each is nil where none does.
type told struct {
	disk      map[string]uint64 // a modeldisk, of itself
	overtaken map[string]uint64 // the same: requests by how often they were
	guard     map[string]uint64 // the scheduler's starvation guard
}

// ask reads all that is told of a disk.
func ask(d *Disk) (t told, err error) {
	if t.disk, err = d.Stat(); err != nil {
		return t, err
	}
	if t.overtaken, err = d.Overtaken(); err != nil {
		return t, err
	}
	t.guard, err = d.GuardStat()
	return t, err
}

// spent is the CPU time of the machine, and what its disk did for it, at a time. To
// read a thousand containers takes a good part of the window, in which the load has no
// CPU: what a request costs is to be of the same time as those requests.
type spent struct {
	cpu        cpuTime
	movedBytes uint64
}

func (e Env) spent(d *Disk) (s spent, err error) {
	if s.movedBytes, err = d.movedBytes(); err == nil {
		s.cpu, err = e.cpuTime()
	}
	return s, err
}

// diskBytesPS is what the disk moved from then until now, a second.
func (s spent) diskBytesPS(then spent) float64 {
	seconds := s.cpu.at.Sub(then.cpu.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(s.movedBytes-then.movedBytes) / seconds
}

// take reads all containers' counters, back to back. Each has its own time:
// the engine may lose the CPU between two of them.
func (e Env) take(p *Plan) ([][]sample, error) {
	samples := make([][]sample, len(p.Jobs))
	for i, j := range p.Jobs {
		for _, group := range j.Groups {
			io, err := e.Cgroups.Counters(group, p.disk.MajMin)
			if err != nil {
				return nil, fmt.Errorf("container %s: %w", j.Name, err)
			}
			at := time.Now()
			if p.mounted != "" {
				late, err := e.Cgroups.Writeback(group)
				if err != nil {
					return nil, fmt.Errorf("container %s: %w", j.Name, err)
				}
				io.WriteBytes -= min(io.WriteBytes, late)
			}
			s := sample{at: at, io: io}
			if j.Container.Program != nil {
				if s.user, s.system, err = e.Cgroups.CPUTime(group); err != nil {
					return nil, fmt.Errorf("container %s: %w", j.Name, err)
				}
			}
			samples[i] = append(samples[i], s)
		}
	}
	return samples, nil
}

// span is the counted time of job i.
func (w window) span(i int) span { return span{w.open[i][0].at, w.close[i][0].at} }

// cpuPct is the CPU time of job i's command over the window, in percent of one CPU.
func (w window) cpuPct(i int) (user, system float64) {
	open, closed := w.open[i][0], w.close[i][0]
	seconds := w.span(i).seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return (closed.user - open.user).Seconds() / seconds * 100, (closed.system - open.system).Seconds() / seconds * 100
}

// rates are the rates of job i over the window, of all its containers together
// and without latencies, and of each in bytes. A direction in which nothing was
// submitted is nil.
func (w window) rates(i int) (read, write *result.Direction, each []float64) {
	for n := range w.open[i] {
		r, s := memberRates(w.open[i][n], w.close[i][n])
		read, write = add(read, r), add(write, s)
		var bytesPS float64
		for _, d := range []*result.Direction{r, s} {
			if d != nil {
				bytesPS += d.BytesPS
			}
		}
		each = append(each, bytesPS)
	}
	return read, write, each
}

// add is the sum of two rates, of which either may be none.
func add(a, b *result.Direction) *result.Direction {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &result.Direction{BytesPS: a.BytesPS + b.BytesPS, IOPS: a.IOPS + b.IOPS}
}

// memberRates are the rates of one container.
func memberRates(from, to sample) (read, write *result.Direction) {
	seconds := to.at.Sub(from.at).Seconds()
	rate := func(bytes, ios uint64) *result.Direction {
		if ios == 0 || seconds <= 0 {
			return nil
		}
		return &result.Direction{BytesPS: float64(bytes) / seconds, IOPS: float64(ios) / seconds}
	}
	return rate(to.io.ReadBytes-from.io.ReadBytes, to.io.ReadIOs-from.io.ReadIOs),
		rate(to.io.WriteBytes-from.io.WriteBytes, to.io.WriteIOs-from.io.WriteIOs)
}

// isState reports whether what a disk says of itself is a state, an average or
// a maximum, as it was at that moment, and not a count since it was made.
func isState(name string) bool {
	return name == "depth" || strings.Contains(name, "_max") || strings.HasSuffix(name, "_milli")
}

// deviceStat is what the disk counted in the window, and what else it said at
// its close. Of a disk that wrote pages it has the quotient of all pages and
// those of commands as well.
func (w window) deviceStat() map[string]float64 {
	if w.told.disk == nil {
		return nil
	}
	stat := map[string]float64{}
	for name, n := range w.told.disk {
		if !isState(name) {
			n -= w.openTold.disk[name]
		}
		stat[name] = float64(n)
	}
	if host := stat["host_pages"]; host > 0 {
		stat["write_amplification"] = stat["media_pages"] / host
	}
	return stat
}

// guardCounts are what the guard counts; what else it says is as it was at
// that moment, or a maximum.
var guardCounts = []string{"completed", "requeued", "held", "closings", "closed_us"}

// guardStat is what the starvation guard counted in the window, and what else
// it said at its close; and closed_pct, for how much of the window its gate was
// closed.
func (w window) guardStat() map[string]float64 {
	if w.told.guard == nil {
		return nil
	}
	stat := map[string]float64{}
	for name, n := range w.told.guard {
		if slices.Contains(guardCounts, name) {
			n -= w.openTold.guard[name]
		}
		stat[name] = float64(n)
	}
	if us := w.length().Microseconds(); us > 0 {
		stat["closed_pct"] = stat["closed_us"] / float64(us) * 100
	}
	return stat
}

// length is that of the first container's window: all are as long, but for
// what it takes to read them.
func (w window) length() time.Duration {
	if len(w.open) == 0 || len(w.open[0]) == 0 {
		return 0
	}
	return w.close[0][0].at.Sub(w.open[0][0].at)
}

// delays are the delay counts of the requests that the disk completed in the window;
// nil for a disk that does not count them.
func (w window) delays() (*result.Delays, error) {
	if w.told.overtaken == nil {
		return nil, nil
	}
	counts := map[uint64]uint64{}
	for least, n := range w.told.overtaken {
		times, err := strconv.ParseUint(least, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the model disk's file `overtaken`: %q is not a count", least)
		}
		counts[times] = n - w.openTold.overtaken[least]
	}
	return result.NewDelays(counts, w.told.disk["overtaken_max"]), nil
}

// action is what the engine does at a time after the load's start.
type action struct {
	at time.Duration
	do func() error
}

// holdParent freezes the fio that started several containers' processes. It looks
// after each of them a hundred times a second, which took two thirds of the CPU
// with a thousand; they do not need it until they are to end.
func (e Env) holdParent(j Job, on bool) error {
	if j.Container.Count == 0 {
		return nil
	}
	if err := e.Cgroups.Freeze(j.Cgroup, on); err != nil {
		return fmt.Errorf("container %s: %w", j.Name, err)
	}
	return nil
}

// schedule lists what happens during the load, in order. Of what happens at
// the same time, the window comes first: it closes before a container is stopped.
func (e Env) schedule(p *Plan, running []*process, w *window) []action {
	actions := []action{
		{p.Ramp, func() (err error) {
			if w.openTold, err = ask(p.disk); err != nil {
				return err
			}
			if w.open, err = e.take(p); err == nil {
				w.openCPU, err = e.spent(p.disk) // without what the readings cost
			}
			return err
		}},
		{p.Load, func() (err error) {
			if w.closeCPU, err = e.spent(p.disk); err != nil {
				return err
			}
			if w.close, err = e.take(p); err == nil {
				w.told, err = ask(p.disk)
			}
			return err
		}},
	}
	for _, r := range running {
		actions = append(actions,
			action{r.job.Start, func() error { return errors.Join(r.release(), e.holdParent(r.job, true)) }},
			action{r.job.End, func() error { return errors.Join(e.holdParent(r.job, false), r.interrupt()) }})
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	return actions
}
