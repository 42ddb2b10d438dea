// SPDX-License-Identifier: MIT

package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/plan"
)

// Progress is how far a run is.
type Progress struct {
	// Case is "" where the experiment lists none.
	Case      string `json:"case,omitempty"`
	Scheduler string `json:"scheduler"`
	// Phase is one of the constants below.
	Phase string `json:"phase"`
	// Fraction of the run that is done, 0 to 1.
	Fraction float64 `json:"fraction"`
}

// The phases of a run, in order.
const (
	PhaseSetup   = "setup"   // device, scheduler, cgroups
	PhaseStart   = "start"   // fio processes are being set up
	PhaseRamp    = "ramp"    // load that is not counted
	PhaseMeasure = "measure" // load that is counted
	PhaseDone    = "done"
)

// Setting up takes a small part of the time, which the load's part leaves.
const (
	startFraction = 0.02
	loadFraction  = 0.05
)

// Run measures one of the experiment's schedulers in one of its cases on the
// machine, with each of the case's seeds. progress is called from Run's own goroutine; it may be nil. When Run
// returns, whatever the reason, the machine is as it was, or the error says
// what is not.
func Run(ctx context.Context, e Env, x *experiment.Experiment, k *experiment.Case, scheduler string,
	progress func(Progress)) (result.Run, error) {
	var runs []result.Run
	times := max(1, k.Seeds)
	for seed := range times {
		one := *k
		one.Seed = seed
		one.Device.Model.Seed += int64(seed)
		run, err := runOnce(ctx, e, x, &one, scheduler, func(phase string, fraction float64) {
			if progress != nil && (phase != PhaseDone || seed == times-1) {
				done := (float64(seed) + fraction) / float64(times)
				progress(Progress{Case: k.Name, Scheduler: scheduler, Phase: phase, Fraction: done})
			}
		})
		if err != nil {
			return result.Run{}, err
		}
		runs = append(runs, run)
	}
	return result.OfSeeds(runs), nil
}

// runOnce is Run with one seed.
func runOnce(ctx context.Context, e Env, x *experiment.Experiment, k *experiment.Case, scheduler string,
	report func(phase string, fraction float64)) (run result.Run, err error) {
	report(PhaseSetup, 0)
	if e, err = e.check(); err != nil {
		return run, err
	}
	changes := plan.On(e.machine)
	defer func() {
		if undoErr := changes.Undo(); undoErr != nil {
			err = errors.Join(err, undoErr)
		}
	}()
	d, err := e.device(changes, k)
	if err != nil {
		return run, err
	}
	p, err := e.decide(x, k, scheduler, d)
	if err != nil {
		return run, err
	}
	if err = changes.Apply(p.Setup); err != nil {
		return run, fmt.Errorf("set up %s: %w", scheduler, err)
	}
	report(PhaseStart, startFraction)
	outputs, counted, err := e.load(ctx, p, report)
	if err != nil {
		return run, fmt.Errorf("%s: %w", scheduler, err)
	}
	kernel, err := e.kernel()
	if err != nil {
		return run, err
	}
	if run, err = p.result(outputs, counted); err != nil {
		return run, err
	}
	run.Kernel, run.CPUs = kernel, runtime.NumCPU()
	report(PhaseDone, 1)
	return run, nil
}

// result makes a run of what the jobs' processes reported, in the same order,
// and of what was counted: rates are the window's, latencies and CPU fio's. Of a command CPU is the
// window's, too.
func (p *Plan) result(outputs []output, counted window) (result.Run, error) {
	delays, err := counted.delays()
	run := result.Run{
		Case: p.Case, Scheduler: p.Scheduler, Device: p.Device, Settings: p.settings(),
		DeviceStat: counted.deviceStat(), GuardStat: counted.guardStat(), Delays: delays,
		CPUBusyPct:  counted.closeCPU.cpu.busyPct(counted.openCPU.cpu),
		DiskBytesPS: counted.closeCPU.diskBytesPS(counted.openCPU),
	}
	for i, j := range p.Jobs {
		o := outputs[i]
		run.Fio = cmp.Or(run.Fio, o.Version)
		processes := float64(j.Processes())
		c := result.Container{
			Name: j.Container.Name, Weight: j.Container.Weight,
			CPUUserPct:   o.UserPct * processes * j.Counted,
			CPUSystemPct: o.SystemPct * processes * j.Counted,
		}
		var each []float64
		c.Read, c.Write, each = counted.rates(i)
		if j.Container.Count > 0 {
			c.Members = result.NewMembers(each)
		}
		if j.Container.Program != nil {
			c.CPUUserPct, c.CPUSystemPct = counted.cpuPct(i)
		}
		c.FinishMS, c.Operations = o.finishMS, o.operations
		c.Series, c.PausesS = counted.keeper.measured(i)
		for _, d := range []struct{ counted, fio *result.Direction }{{c.Read, o.Read}, {c.Write, o.Write}} {
			if d.counted == nil {
				continue
			}
			if d.fio != nil {
				d.counted.Lat, d.counted.Requests = d.fio.Lat, d.fio.Requests
				// The kernel counts the parts it splits a request into; the
				// program's own requests are as many a byte as fio says.
				d.counted.IOPS = d.counted.BytesPS * d.fio.IOPS / d.fio.BytesPS
			}
			c.BytesPS += d.counted.BytesPS
			c.IOPS += d.counted.IOPS
		}
		if o.Both != nil && c.Read != nil && c.Write != nil {
			c.Both = &result.Direction{BytesPS: c.BytesPS, IOPS: c.IOPS, Lat: o.Both.Lat, Requests: o.Both.Requests}
		}
		c.Sync = o.Sync
		run.Containers = append(run.Containers, c)
	}
	run.Sum()
	run.Entitle(p.Entitled)
	return run, err
}
