// SPDX-License-Identifier: MIT

package profile

import (
	"fmt"
	"slices"
)

// othersMost is the part of the disk's bytes, in percent, that others may move
// without a word about it.
const othersMost = 2

// throughout is by which percent the second run of the middle point must differ for
// the disk as a whole to have changed.
const throughout = 2

// explain says of each point whose runs differ why they do.
func explain(p *Profile) {
	change := changePct(p)
	for i := range p.Loads {
		for j := range p.Loads[i].Points {
			if at := &p.Loads[i].Points[j]; at.DifferPct > Repeatable {
				at.Why = why(at, change)
			}
		}
	}
}

// changePct is by how many percent the last run was faster than the first, of the
// point in the middle.
func changePct(p *Profile) float64 {
	var all []float64
	for _, l := range p.Loads {
		for _, at := range l.Points {
			if first := at.Runs[0].IOPS; len(at.Runs) > 1 && first > 0 {
				all = append(all, 100*(at.Runs[len(at.Runs)-1].IOPS/first-1))
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func why(at *Point, change float64) string {
	others, spread, settled := 0.0, 0.0, true
	for _, r := range at.Runs {
		others = max(others, r.OthersPct)
		if !r.Settled {
			settled, spread = false, max(spread, r.SpreadPct)
		}
	}
	longest := 0.0 // of a request, in ms
	for _, l := range []*Latency{at.Read, at.Write} {
		if l != nil && l.Max > pauses*l.Mean {
			longest = max(longest, l.Max/1e3)
		}
	}
	first, last := at.Runs[0].IOPS, at.Runs[len(at.Runs)-1].IOPS
	switch {
	case others > othersMost:
		return fmt.Sprintf("others moved up to %.0f %% of the disk's bytes meanwhile", others)
	case !settled:
		return fmt.Sprintf("a run's rate was not steady: its parts differ by %.0f %%; a longer --time may help", spread)
	case change < -throughout && last < first:
		return fmt.Sprintf("the disk was slower throughout the second run, by %.0f %% in the middle: heat, wear of erased blocks, or load that this host does not see", -change)
	case at.Read != nil && last > first:
		return "the second run was faster: a cache may have kept what the first one read or wrote, or the disk was still busy with earlier writes in the first"
	case longest > 0:
		return fmt.Sprintf("the disk pauses, for up to %.0f ms, as one that collects garbage; a longer --time may help", longest)
	}
	return "no cause found: each run was steady, and no other load was on the disk"
}

// pauses is how many times the mean a request takes that met a pause of the disk.
const pauses = 20

// notes say what a reader of the figures has to know.
func notes(p *Profile) []string {
	var all []string
	if p.Scheduler != "none" {
		all = append(all, fmt.Sprintf("measured under the scheduler %s: what it costs is in the figures; --scheduler none measures the disk alone", p.Scheduler))
	}
	others := 0.0
	for _, l := range p.Loads {
		burst := Burst{}
		unsettled := 0
		for _, at := range l.Points {
			for _, r := range at.Runs {
				others = max(others, r.OthersPct)
				if r.Burst != nil && r.Burst.Seconds > burst.Seconds {
					burst = *r.Burst
				}
				if !r.Settled {
					unsettled++
				}
			}
		}
		if burst.Seconds > 0 {
			what := "a cache"
			if l.ReadPct < 100 {
				what = "a cache or blocks erased beforehand"
			}
			all = append(all, fmt.Sprintf("%s: %.0f IOPS for the first %.1f s, then less: %s took the first requests; the figures are those after it", l.Name, burst.IOPS, burst.Seconds, what))
		}
		if unsettled > 0 {
			all = append(all, fmt.Sprintf("%s: %d of its runs were not steady when their time was over; their figures are of their last half", l.Name, unsettled))
		}
		if l.KneeDepth == 0 {
			all = append(all, fmt.Sprintf("%s: the rate still grew at depth %d, the deepest; the disk may do more", l.Name, l.Points[len(l.Points)-1].Depth))
		}
	}
	if others > othersMost {
		all = append(all, fmt.Sprintf("others moved up to %.0f %% of the disk's bytes meanwhile: the disk alone does more", others))
	}
	if p.WrittenBytes > 0 && p.WrittenBytes < p.Disk.SizeBytes {
		all = append(all, fmt.Sprintf("%d MiB were written, %.0f %% of the disk: where it had blocks erased beforehand, they may have taken all of it, and writes become slower once the whole disk has been overwritten",
			p.WrittenBytes>>20, 100*float64(p.WrittenBytes)/float64(p.Disk.SizeBytes)))
	}
	return all
}
