// SPDX-License-Identifier: MIT

package profile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"isolio/internal/host/block"
)

// machine is what measures; tests have one that computes.
type machine struct {
	run func(ctx context.Context, job Job, window time.Duration, enough func([]Window) bool) ([]Window, error)
	// moved is how much was read from the disk and written to it, by any program.
	moved func() (uint64, error)
}

// window is the time between two looks at a rate.
const window = 100 * time.Millisecond

// runs is how often each point is measured. All points of loads that only read are measured
// once before any is measured again, so that a disk that grows slower with time shows it. Then
// come the loads that write, in the same way. A disk goes on writing from its buffer, and
// collects garbage, after the last write was acknowledged: reads that follow take longer.
const runs = 2

// sample is what one run of a point gave.
type sample struct {
	Run
	latency [2]Histogram
	bytes   uint64
	written uint64
}

// measure runs all loads and puts the profile together.
func (s *Survey) measure(ctx context.Context, m machine, tell func(string)) (*Profile, error) {
	begin := time.Now()
	samples := make([]map[int][]sample, len(s.kinds)) // by depth
	for pass := range 2 * runs {
		run, onlyReads := pass%runs, pass < runs
		for i, k := range s.kinds {
			if (k.ReadPct == 100) != onlyReads {
				continue
			}
			if run == 0 {
				samples[i] = map[int][]sample{}
			}
			for n, depth := range k.depths {
				if run > 0 && samples[i][depth] == nil {
					continue // beyond the knee
				}
				one, err := s.point(ctx, m, k, depth, n == 0, uint64(run*1000+depth))
				if err != nil {
					return nil, fmt.Errorf("load %s at depth %d: %w", k.name, depth, err)
				}
				samples[i][depth] = append(samples[i][depth], one)
				tell(line(run, k, depth, one))
				if run == 0 && !k.fixed && past(k, points(k, samples[i])) {
					break
				}
			}
		}
	}
	p := &Profile{
		Schema: Schema,
		Disk:   Disk{Identity: s.identity, Name: s.disk.Name, Model: s.info.Model, SizeBytes: s.disk.SizeBytes},
		Kernel: block.System{Root: s.options.Root}.Release(), Version: s.options.Version,
		Scheduler:  cmp.Or(s.options.Scheduler, s.info.Scheduler),
		MeasuredAt: begin.UTC().Truncate(time.Second), TookS: time.Since(begin).Seconds(),
	}
	for i, k := range s.kinds {
		l := Load{Name: k.name, Kind: k.Kind, Points: points(k, samples[i])}
		l.KneeDepth = Knee(l.Points)
		p.Loads = append(p.Loads, l)
		for _, all := range samples[i] {
			for _, one := range all {
				p.WrittenBytes += int64(one.written)
			}
		}
	}
	explain(p)
	p.Notes = notes(p)
	return p, nil
}

// point runs one load until its rate is steady, or for so long that it will not be.
func (s *Survey) point(ctx context.Context, m machine, k kind, depth int, first bool, seed uint64) (sample, error) {
	least, most := s.options.Time, max(10*s.options.Time, patience)
	if k.ReadPct < 100 {
		least = 2 * s.options.Time
		if first { // what answers first is to be used up
			least, most = 5*s.options.Time, max(60*s.options.Time, patience)
		}
	}
	var settled Settled
	before, err := m.moved()
	if err != nil {
		return sample{}, err
	}
	job := Job{Bytes: s.disk.SizeBytes, Block: k.BlockBytes, Depth: depth, ReadPct: k.ReadPct, Random: k.Random, Seed: seed}
	windows, err := m.run(ctx, job, window, func(all []Window) bool {
		took := time.Duration(len(all)) * window
		if took < least {
			return false
		}
		settled = Settle(counts(all), window)
		steady := time.Duration(len(all)-settled.From) * window
		return settled.Is && steady >= s.options.Time && settled.PerSecond*steady.Seconds() >= enoughRequests || took >= most
	})
	if err != nil {
		return sample{}, err
	}
	after, err := m.moved()
	if err != nil {
		return sample{}, err
	}
	one := sample{Run: Run{
		IOPS: settled.PerSecond, Settled: settled.Is, SpreadPct: settled.SpreadPct, Burst: settled.Before,
		Seconds: (time.Duration(len(windows)-settled.From) * window).Seconds(),
	}}
	if settled.PerSecond == 0 {
		return one, fmt.Errorf("nothing completed in %s", time.Duration(len(windows))*window)
	}
	for i := range windows {
		one.bytes += windows[i].Requests() * uint64(k.BlockBytes)
		one.written += windows[i].Latency[WriteIO].N() * uint64(k.BlockBytes)
		if i >= settled.From {
			one.latency[ReadIO].Merge(&windows[i].Latency[ReadIO])
			one.latency[WriteIO].Merge(&windows[i].Latency[WriteIO])
		}
	}
	// What was in flight at the end, and was sent until the load stopped, is its own as well.
	one.bytes += 2 * uint64(depth*k.BlockBytes)
	if all := after - before; all > one.bytes {
		one.OthersPct = 100 * float64(all-one.bytes) / float64(all)
	}
	return one, nil
}

// patience is how long a point has at least to become steady: a hard disk completes
// some 80 requests a second.
const patience = 10 * time.Second

// enoughRequests is how many the steady part must have: a count of n requests
// differs by some sqrt(n) by itself.
const enoughRequests = 400

func counts(all []Window) []uint64 {
	counts := make([]uint64, len(all))
	for i := range all {
		counts[i] = all[i].Requests()
	}
	return counts
}

// beyond is how many times as deep as its knee a load goes: a disk whose dies meet by
// chance can stand still for a step and grow with the next.
const beyond = 4

// past reports whether deeper points would tell nothing new.
func past(k kind, points []Point) bool {
	knee := Knee(points)
	last := points[len(points)-1]
	if knee == 0 || last.Depth < beyond*knee {
		return false
	}
	return !k.curve || float64(last.Depth) >= Ceiling(points)
}

// points are what the samples of a load come to.
func points(k kind, samples map[int][]sample) []Point {
	var all []Point
	for depth, some := range samples {
		p := Point{Depth: depth}
		var latency [2]Histogram
		lows, highs := some[0].IOPS, some[0].IOPS
		for i := range some {
			p.IOPS += some[i].IOPS / float64(len(some))
			lows, highs = min(lows, some[i].IOPS), max(highs, some[i].IOPS)
			p.Runs = append(p.Runs, some[i].Run)
			latency[ReadIO].Merge(&some[i].latency[ReadIO])
			latency[WriteIO].Merge(&some[i].latency[WriteIO])
		}
		p.LowIOPS, p.DifferPct = lows, 100*(highs-lows)/p.IOPS
		p.BytesPS = p.IOPS * float64(k.BlockBytes)
		p.Read, p.Write = summary(&latency[ReadIO]), summary(&latency[WriteIO])
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Point) int { return a.Depth - b.Depth })
	return all
}

// summary is nil for no requests.
func summary(h *Histogram) *Latency {
	if h.N() == 0 {
		return nil
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return &Latency{Mean: us(h.Mean()), P50: us(h.Percentile(50)), P99: us(h.Percentile(99)), P999: us(h.Percentile(99.9)), Max: us(h.Max())}
}

// line tells of a point.
func line(run int, k kind, depth int, one sample) string {
	text := fmt.Sprintf("run %d of %d: %s, depth %d: %.0f IOPS, %.1f MiB/s", run+1, runs, k.name, depth, one.IOPS, one.IOPS*float64(k.BlockBytes)/(1<<20))
	if b := one.Burst; b != nil {
		text += fmt.Sprintf("; first %.0f IOPS for %.1f s", b.IOPS, b.Seconds)
	}
	if !one.Settled {
		text += fmt.Sprintf("; not steady: parts differ by %.0f %%", one.SpreadPct)
	}
	return text
}
