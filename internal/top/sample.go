// SPDX-License-Identifier: MIT

// Package top samples which container uses which disk, and shows it: as a live
// table, as a plain one, as lines of JSON.
package top

import (
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"isolio/internal/block"
	"isolio/internal/failure"
	"isolio/internal/meter"
)

// Row is what one cgroup did on one disk between two samples.
type Row struct {
	Cgroup string // path below the root of the tree, "/" for the root itself
	Name   string // of the container, "" for a cgroup that is none's
	Disk   string
	Weight int // 0: none of its own, the root cgroup
	// Shares of the disk, 0 to 1: what it is entitled to among those active
	// when the sample was taken, and what it had of all that was served.
	Entitled, Actual float64
	Read, Write      Traffic
	// ThrottledPct is how much of the time its requests waited because it had
	// had its share; the sum over hardware queues, so it may be over 100.
	ThrottledPct float64
	// History is bytes a second of this and earlier samples, oldest first.
	History []float64

	cost  float64 // what Actual is a part of
	never bool    // it has not sent a request yet
	depth int     // in a tree
}

// Traffic is one direction of a Row.
type Traffic struct {
	BytesPS, IOPS float64
	Latency       meter.Latency // of the last 5 to 10 s
}

// BytesPS is both directions'.
func (r *Row) BytesPS() float64 { return r.Read.BytesPS + r.Write.BytesPS }

// IOPS is both directions'.
func (r *Row) IOPS() float64 { return r.Read.IOPS + r.Write.IOPS }

// Sample is what all cgroups did in one interval.
type Sample struct {
	At   time.Time
	Over time.Duration // 0 for the first sample, which has no rates
	Rows []Row
}

// historyLen is how many samples a sparkline goes back.
const historyLen = 16

// Sampler takes samples of one machine.
type Sampler struct {
	System block.System
	// Name is what a cgroup's container is called, "" if it is none's.
	Name func(cgroup string) string
	// Now tells the time; time.Now if nil.
	Now func() time.Time

	last    map[source]meter.Counters
	lastAt  time.Time
	history map[source][]float64
}

// source is a cgroup and a disk.
type source struct{ cgroup, disk string }

// disk is one that has the scheduler.
type disk struct {
	name string
	unit meter.Unit
}

// Check returns nil if there is a disk to look at.
func (s *Sampler) Check() error {
	if err := meter.Check(s.tree()); err != nil {
		return err
	}
	disks, err := s.disks()
	if err == nil && len(disks) == 0 {
		return failure.Unsupportedf("no disk has the scheduler %s; `isolio enable DEV` gives it to one", meter.Scheduler)
	}
	return err
}

func (s *Sampler) tree() string { return s.System.Path("sys/fs/cgroup") }

// disks finds the disks that have the scheduler, by number.
func (s *Sampler) disks() (map[string]disk, error) {
	names, err := s.System.List()
	if err != nil {
		return nil, err
	}
	all := map[string]disk{}
	for _, name := range names {
		d, err := s.System.Find(name)
		if err != nil {
			continue // gone since it was listed
		}
		active, _, err := d.Schedulers()
		if err != nil || active != meter.Scheduler {
			continue
		}
		unit, err := meter.ReadUnit(s.System.Path("sys/block", name, "queue"))
		if meter.Gone(err) { // another scheduler came just now
			continue
		}
		if err != nil {
			return nil, err
		}
		all[d.MajMin] = disk{name, unit}
	}
	return all, nil
}

// Sample reads all counters; rates are since the sample before.
func (s *Sampler) Sample() (Sample, error) {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	disks, err := s.disks()
	if err != nil {
		return Sample{}, err
	}
	at := now()
	sample := Sample{At: at}
	if !s.lastAt.IsZero() {
		sample.Over = at.Sub(s.lastAt)
	}
	counters := map[source]meter.Counters{}
	err = walk(s.tree(), func(cgroup string) error {
		stats, err := meter.ReadStat(filepath.Join(s.tree(), cgroup))
		for i := range stats {
			if d, ok := disks[stats[i].MajMin]; ok {
				counters[source{cgroup, d.name}] = stats[i].Counters
				sample.Rows = append(sample.Rows, s.row(cgroup, d, &stats[i], sample.Over))
			}
		}
		return err
	})
	if err != nil {
		return Sample{}, err
	}
	share(sample.Rows)
	s.last, s.lastAt = counters, at
	s.remember(sample)
	return sample, nil
}

// walk calls do for each cgroup, parents first, with its path from "/".
func walk(root string, do func(cgroup string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if meter.Gone(err) && path != root {
			return nil
		}
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		return do("/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
	})
}

func (s *Sampler) row(cgroup string, d disk, stat *meter.Stat, over time.Duration) Row {
	r := Row{
		Cgroup: cgroup, Disk: d.name, Weight: stat.Weight,
		Entitled: float64(stat.SharePPM) / 1e6,
		Read:     Traffic{Latency: stat.Read},
		Write:    Traffic{Latency: stat.Write},
		never:    stat.ReadIOs+stat.WriteIOs == 0,
	}
	if s.Name != nil {
		r.Name = s.Name(cgroup)
	}
	if over <= 0 {
		return r
	}
	// A cgroup that is new did all it has done since the last sample.
	did := since(stat.Counters, s.last[source{cgroup, d.name}])
	seconds := over.Seconds()
	r.Read.BytesPS, r.Read.IOPS = float64(did.ReadBytes)/seconds, float64(did.ReadIOs)/seconds
	r.Write.BytesPS, r.Write.IOPS = float64(did.WriteBytes)/seconds, float64(did.WriteIOs)/seconds
	r.ThrottledPct = 100 * float64(did.ThrottledUS) / 1e6 / seconds
	r.cost = d.unit.Cost(did)
	return r
}

// since is what was counted after last. Counters that went back were begun
// again, by a change of scheduler.
func since(now, last meter.Counters) meter.Counters {
	if now.ReadIOs < last.ReadIOs || now.WriteIOs < last.WriteIOs || now.ThrottledUS < last.ThrottledUS {
		return now
	}
	return meter.Counters{
		ReadBytes:   now.ReadBytes - last.ReadBytes,
		WriteBytes:  now.WriteBytes - last.WriteBytes,
		ReadIOs:     now.ReadIOs - last.ReadIOs,
		WriteIOs:    now.WriteIOs - last.WriteIOs,
		ThrottledUS: now.ThrottledUS - last.ThrottledUS,
	}
}

// share sets what each row had of its disk.
func share(rows []Row) {
	total := map[string]float64{}
	for i := range rows {
		total[rows[i].Disk] += rows[i].cost
	}
	for i := range rows {
		if all := total[rows[i].Disk]; all > 0 {
			rows[i].Actual = rows[i].cost / all
		}
	}
}

// remember gives the rows their histories, and forgets those of cgroups that
// are gone. The first sample has no rate to remember.
func (s *Sampler) remember(sample Sample) {
	history := map[source][]float64{}
	for i := range sample.Rows {
		r := &sample.Rows[i]
		k := source{r.Cgroup, r.Disk}
		h := s.history[k]
		if sample.Over > 0 {
			h = append(h[max(0, len(h)-historyLen+1):len(h):len(h)], r.BytesPS())
		}
		history[k], r.History = h, h
	}
	s.history = history
}
