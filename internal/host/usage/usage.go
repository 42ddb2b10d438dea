// SPDX-License-Identifier: MIT

// Package usage tells which container uses which disk. It reads what kyber-fairness counts for each
// cgroup and disk (stat.go, histogram.go), what a request is charged (unit.go) and how cgroups take turns
// (clock.go), and samples what each cgroup is entitled to and what it had between two samples.
package usage

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/host/target"
)

// Row is what one cgroup did on one disk between two samples.
type Row struct {
	Cgroup string // path below the root of the tree, "/" for the root itself
	// Name is the container's, "" for a cgroup that is none's. A container's
	// cgroups lie in the one that competes for it, Within.
	Name, Within string
	Disk, MajMin string
	Weight       int
	// Shares of the disk, 0 to 1: what it is entitled to among those active
	// when the sample was taken, and what it had of all that was served.
	Entitled, Actual float64
	Read, Write      Traffic
	// ThrottledPct is how much of the time its requests waited because it had
	// had its share; the sum over hardware queues, so it may be over 100.
	ThrottledPct float64
	// Pressure is how much of the last 10 s some task of the cgroup waited for I/O, on any
	// disk, in percent; nil where the kernel does not tell, or the sampler does not ask.
	Pressure *float64
	// History is bytes a second of this and earlier samples, oldest first, where the
	// sampler has histories.
	History []float64
	// Counters are since the disk has the scheduler.
	Counters Counters
	// Did is what was counted since the sample before; of a cgroup that is new, all.
	Did Counters
	// Reasons are why it has its weight, nil where that is not known.
	Reasons *policy.Reasons
	// Cost is how much of what is shared that is: bytes, requests, or seconds of the
	// disk. Actual is its part of all cgroups'.
	Cost float64
}

// Traffic is one direction of a Row.
type Traffic struct {
	BytesPS, IOPS float64
	Latency       Latency // of the last 5 to 10 s
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
	// Skipped are cgroups and disks that could not be read, with the reason. They cost
	// the others nothing.
	Skipped map[string]string
}

// HistoryLen is how many samples a history goes back.
const HistoryLen = 16

// Sampler takes samples of one machine.
type Sampler struct {
	System block.System
	// Containers finds containers among cgroups, which it gets as paths from the
	// root of the tree; nil for none.
	Containers func(groups []string) ([]target.Container, error)
	// Reasons returns what tells why a cgroup has its weight on a disk; nil for nothing.
	Reasons func(all []target.Container) (func(group, majMin string) *policy.Reasons, error)
	// Histories has rows have histories, and Pressures their pressure.
	Histories, Pressures bool
	// Most is how many cgroups inside of a tenant's are read, 0 for all.
	Most int
	// Now tells the time; time.Now if nil.
	Now func() time.Time

	groups  []string // that containers were looked for in
	ownedAt time.Time
	owners  map[string]owner
	found   []target.Container
	last    map[source]Counters
	lastAt  time.Time
	history map[source][]float64
}

// owner is the container that a cgroup is of, or is in.
type owner struct{ name, within string }

// source is a cgroup and a disk.
type source struct{ cgroup, disk string }

// disk is one that has the scheduler.
type disk struct {
	name, majMin string
	unit         Unit
}

// Check returns nil if there is a disk to look at.
func (s *Sampler) Check() error {
	tree, err := cgroup.Find(s.System.Root)
	if err != nil {
		return err
	}
	if err := tree.Check(); err != nil {
		return err
	}
	if err := Check(tree.Root); err != nil {
		return err
	}
	disks, err := s.disks(map[string]string{})
	if err == nil && len(disks) == 0 {
		return failure.Unsupportedf("no disk has the scheduler %s; `isolio status` says how one gets it", Scheduler)
	}
	return err
}

// disks finds the disks that have the scheduler, by number.
func (s *Sampler) disks(skipped map[string]string) (map[string]disk, error) {
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
		if err != nil || active != Scheduler {
			continue
		}
		unit, err := ReadUnit(s.System.Path("sys/block", name, "queue"))
		if failure.IsGone(err) { // another scheduler came just now
			continue
		}
		if err != nil {
			skipped[name] = err.Error()
			continue
		}
		all[d.MajMin] = disk{name, d.MajMin, unit}
	}
	return all, nil
}

// Sample reads all counters; rates are since the sample before.
func (s *Sampler) Sample() (Sample, error) {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	sample := Sample{Skipped: map[string]string{}}
	disks, err := s.disks(sample.Skipped)
	if err != nil {
		return Sample{}, err
	}
	at := now()
	sample.At = at
	if !s.lastAt.IsZero() {
		sample.Over = at.Sub(s.lastAt)
	}
	tree, err := cgroup.Find(s.System.Root)
	if err != nil {
		return Sample{}, err
	}
	groups, err := tree.Groups()
	if err != nil {
		return Sample{}, err
	}
	var over map[string]int
	if s.Most > 0 {
		groups, over = target.LimitPerTenant(groups, s.Most)
	}
	if err := s.own(groups, at); err != nil {
		return Sample{}, err
	}
	counters := make(map[source]Counters, len(s.last))
	for _, group := range append([]string{""}, groups...) {
		stats, err := ReadStat(tree.Path(group))
		if err != nil {
			sample.Skipped["/"+group] = err.Error()
			continue
		}
		var pressure *float64
		if s.Pressures && len(stats) > 0 {
			pressure = readPressure(tree.Path(group))
		}
		for i := range stats {
			if d, ok := disks[stats[i].MajMin]; ok {
				r := s.row("/"+group, d, &stats[i], sample.Over)
				r.Pressure = pressure
				counters[source{r.Cgroup, r.Disk}] = r.Counters
				sample.Rows = append(sample.Rows, r)
			}
		}
	}
	if len(sample.Rows) == 0 && len(sample.Skipped) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(sample.Skipped)))
		return Sample{}, fmt.Errorf("%s: %s; so are %d others", first, sample.Skipped[first], len(sample.Skipped)-1)
	}
	for tenant, nr := range over {
		sample.Skipped["/"+tenant] = fmt.Sprintf("has %d cgroups inside, of which %d are not read", nr, nr-s.Most)
	}
	s.ground(&sample)
	share(sample.Rows)
	s.last, s.lastAt = counters, at
	s.remember(sample)
	return sample, nil
}

// ground tells why each cgroup that used a disk has its weight there. Mistakes in the rules
// leave that unknown.
func (s *Sampler) ground(sample *Sample) {
	if s.Reasons == nil {
		return
	}
	of, err := s.Reasons(s.found)
	if err != nil {
		sample.Skipped["weights"] = err.Error()
		return
	}
	for i := range sample.Rows {
		if r := &sample.Rows[i]; r.Counters.IOs() > 0 && r.Cgroup != "/" {
			r.Reasons = of(strings.TrimPrefix(r.Cgroup, "/"), r.MajMin)
		}
	}
}

// ownEvery is how often names are looked for where no cgroup came or went: a
// container may be renamed.
const ownEvery = 10 * time.Second

// own finds out whose the cgroups are.
func (s *Sampler) own(groups []string, now time.Time) error {
	if s.Containers == nil || s.owners != nil && slices.Equal(groups, s.groups) && now.Sub(s.ownedAt) < ownEvery {
		return nil
	}
	all, err := s.Containers(groups)
	if err != nil {
		return err
	}
	owners := map[string]owner{}
	for _, c := range all {
		owners["/"+c.Cgroup] = owner{c.DisplayName(), "/" + c.Cgroup}
	}
	for _, group := range groups { // parents come before children
		if o, ok := owners[path.Dir("/"+group)]; ok {
			owners["/"+group] = o
		}
	}
	s.owners, s.found, s.groups, s.ownedAt = owners, all, groups, now
	return nil
}

func (s *Sampler) row(group string, d disk, stat *Stat, over time.Duration) Row {
	r := Row{
		Cgroup: group, Name: s.owners[group].name, Within: s.owners[group].within,
		Disk: d.name, MajMin: d.majMin, Weight: stat.Weight, Counters: stat.Counters,
		Entitled: float64(stat.SharePPM) / 1e6,
		Read:     Traffic{Latency: stat.Read},
		Write:    Traffic{Latency: stat.Write},
	}
	// A cgroup that is new did all it has done since the last sample.
	did := since(stat.Counters, s.last[source{group, d.name}])
	r.Did = did
	if over <= 0 {
		return r
	}
	seconds := over.Seconds()
	r.Read.BytesPS, r.Read.IOPS = float64(did.ReadBytes)/seconds, float64(did.ReadIOs)/seconds
	r.Write.BytesPS, r.Write.IOPS = float64(did.WriteBytes)/seconds, float64(did.WriteIOs)/seconds
	r.ThrottledPct = 100 * float64(did.ThrottledUS) / 1e6 / seconds
	r.Cost = d.unit.Cost(did)
	return r
}

// since is what was counted after last. Counters of which one went back were
// begun again, by a change of scheduler or a new cgroup of the same name.
func since(now, last Counters) Counters {
	if now.WentBack(last.IOStat) || now.ThrottledUS < last.ThrottledUS {
		return now
	}
	return Counters{IOStat: now.Minus(last.IOStat), ThrottledUS: now.ThrottledUS - last.ThrottledUS}
}

// share sets what each row had of its disk.
func share(rows []Row) {
	total := map[string]float64{}
	for i := range rows {
		total[rows[i].Disk] += rows[i].Cost
	}
	for i := range rows {
		if all := total[rows[i].Disk]; all > 0 {
			rows[i].Actual = rows[i].Cost / all
		}
	}
}

// remember gives the rows their histories, and forgets those of cgroups that
// are gone. The first sample has no rate to remember.
func (s *Sampler) remember(sample Sample) {
	if !s.Histories {
		return
	}
	history := map[source][]float64{}
	for i := range sample.Rows {
		r := &sample.Rows[i]
		k := source{r.Cgroup, r.Disk}
		h := s.history[k]
		if sample.Over > 0 {
			h = append(h[max(0, len(h)-HistoryLen+1):len(h):len(h)], r.BytesPS())
		}
		history[k], r.History = h, h
	}
	s.history = history
}

// Fold adds what cgroups inside a container did to the container's own row,
// which has the weight that counts.
func Fold(rows []Row) []Row {
	var folded []Row
	at := map[source]int{}
	for i := range rows {
		r := rows[i]
		if r.Within == "" || r.Within == r.Cgroup {
			at[source{r.Cgroup, r.Disk}] = len(folded)
			folded = append(folded, r)
			continue
		}
		// The kernel makes parents before children; a container without a row of
		// its own is one that is just going.
		if to, ok := at[source{r.Within, r.Disk}]; ok {
			folded[to].Add(&r)
		}
	}
	return folded
}

// Add adds what another cgroup on the same disk did. Of latencies it takes
// those of who sent more requests: percentiles cannot be added.
func (r *Row) Add(other *Row) {
	r.Entitled += other.Entitled
	r.Actual += other.Actual
	r.ThrottledPct += other.ThrottledPct
	r.Read.add(other.Read)
	r.Write.add(other.Write)
	r.History = addHistory(r.History, other.History)
	r.Counters.Add(other.Counters)
	r.Did.Add(other.Did)
	r.Cost += other.Cost
}

func (t *Traffic) add(other Traffic) {
	t.BytesPS += other.BytesPS
	t.IOPS += other.IOPS
	if other.Latency.IOs > t.Latency.IOs {
		t.Latency = other.Latency
	}
}

// addHistory adds two histories that end at the same sample.
func addHistory(a, b []float64) []float64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	a = slices.Clone(a)
	for i := range b {
		a[len(a)-len(b)+i] += b[i]
	}
	return a
}
