// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
)

// Seeds is how one container's reads or writes differ over several seeds.
type Seeds struct {
	// Requests are all that were counted, with all seeds.
	Requests float64 `json:"requests"`
	// Least and Most are the least and the most of each figure, of whichever seed.
	Least Extreme `json:"least"`
	Most  Extreme `json:"most"`
}

// Extreme is the least, or the most, of each figure.
type Extreme struct {
	BytesPS float64 `json:"bytes_per_s"`
	Lat     Latency `json:"lat_us"`
}

// RunSeeds is how the figures of all containers differ over several seeds.
type RunSeeds struct {
	Least RunExtreme `json:"least"`
	Most  RunExtreme `json:"most"`
}

// RunExtreme is the least, or the most, of each figure, of whichever seed. Shares are of bytes.
type RunExtreme struct {
	TotalBytesPS  float64 `json:"total_bytes_per_s"`
	TotalIOPS     float64 `json:"total_iops"`
	JainWeighted  float64 `json:"jain_weighted"`
	ShareErrorPct float64 `json:"share_error_pct"`
}

func (e *RunExtreme) all() []*float64 {
	return []*float64{&e.TotalBytesPS, &e.TotalIOPS, &e.JainWeighted, &e.ShareErrorPct}
}

// runSeeds are the extremes of runs.
func runSeeds(runs []Run) *RunSeeds {
	var s RunSeeds
	for i := range runs {
		r := &runs[i]
		errorPct, _ := r.ShareErrorPct("")
		for k, v := range []float64{r.TotalBytesPS, r.TotalIOPS, r.JainWeighted, errorPct} {
			least, most := s.Least.all()[k], s.Most.all()[k]
			if i == 0 || v < *least {
				*least = v
			}
			if i == 0 || v > *most {
				*most = v
			}
		}
	}
	return &s
}

// Spread is the least and the most of a figure over the seeds of its run; false where there is one seed, or where
// the figure is one that is not kept of each.
func (d *Document) Spread(x experiment.Expectation) (least, most float64, ok bool) {
	r := d.run(x.Case, x.Scheduler)
	if r == nil || r.Seeds < 2 {
		return 0, 0, false
	}
	ofShares := slices.Contains([]string{experiment.JainWeighted, experiment.ShareErrorPct}, x.Metric.Kind)
	all := slices.Index([]string{experiment.TotalBytesPS, experiment.TotalIOPS, experiment.JainWeighted, experiment.ShareErrorPct}, x.Metric.Kind)
	if all >= 0 {
		if r.OverSeeds == nil || x.Container != "" || ofShares && d.ShareUnit != experiment.UnitBytes {
			return 0, 0, false
		}
		return *r.OverSeeds.Least.all()[all], *r.OverSeeds.Most.all()[all], true
	}
	t := r.container(x.Container)
	if t == nil && len(r.Containers) == 1 && x.Container == "" {
		t = &r.Containers[0]
	}
	if t == nil {
		return 0, 0, false
	}
	of := t.direction(x.Direction)
	if of == nil || of.Seeds == nil {
		return 0, 0, false
	}
	switch x.Metric.Kind {
	case experiment.BytesPS:
		return of.Seeds.Least.BytesPS, of.Seeds.Most.BytesPS, true
	case experiment.LatUS:
		a, known := of.Seeds.Least.Lat.Statistic(x.Metric.Arg)
		b, _ := of.Seeds.Most.Lat.Statistic(x.Metric.Arg)
		if known {
			return *a, *b, true
		}
	}
	return 0, 0, false
}

// OfSeeds makes one run of those of a case with several seeds, which must be of
// the same containers in the same order. A rate is the mean of theirs; a latency,
// or a time to finish, their median: the maximum of a run depends on how many
// requests it has, and the highest of several on how many runs there are.
func OfSeeds(runs []Run) Run {
	if len(runs) == 1 {
		return runs[0]
	}
	sum := runs[0]
	sum.Seeds, sum.OverSeeds = len(runs), runSeeds(runs)
	sum.CPUBusyPct = mean(runs, func(r *Run) float64 { return r.CPUBusyPct })
	sum.DiskBytesPS = mean(runs, func(r *Run) float64 { return r.DiskBytesPS })
	sum.DeviceStat = maps.Clone(sum.DeviceStat)
	for name := range sum.DeviceStat {
		sum.DeviceStat[name] = mean(runs, func(r *Run) float64 { return r.DeviceStat[name] })
	}
	sum.GuardStat = maps.Clone(sum.GuardStat)
	for name := range sum.GuardStat {
		sum.GuardStat[name] = mean(runs, func(r *Run) float64 { return r.GuardStat[name] })
	}
	sum.Delays = nil // a histogram of one run
	sum.Containers = slices.Clone(sum.Containers)
	var entitled []float64
	for i := range sum.Containers {
		c := &sum.Containers[i]
		var each []Container
		for _, r := range runs {
			each = append(each, r.Containers[i])
		}
		c.BytesPS = mean(each, func(c *Container) float64 { return c.BytesPS })
		c.IOPS = mean(each, func(c *Container) float64 { return c.IOPS })
		c.CPUUserPct = mean(each, func(c *Container) float64 { return c.CPUUserPct })
		c.CPUSystemPct = mean(each, func(c *Container) float64 { return c.CPUSystemPct })
		c.FinishMS = medianOrNone(each, func(c *Container) *float64 { return c.FinishMS })
		c.Read = ofSeeds(each, func(c *Container) *Direction { return c.Read })
		c.Write = ofSeeds(each, func(c *Container) *Direction { return c.Write })
		c.Both = ofSeeds(each, func(c *Container) *Direction { return c.Both })
		c.Sync = ofSeeds(each, func(c *Container) *Direction { return c.Sync })
		c.Operations = ofSeeds(each, func(c *Container) *Direction { return c.Operations })
		entitled = append(entitled, c.EntitledShare)
	}
	sum.Sum()
	sum.Entitle(entitled)
	return sum
}

// ofSeeds is one direction over all seeds; nil if there was nothing with any.
func ofSeeds(each []Container, direction func(*Container) *Direction) *Direction {
	var all []Direction
	for i := range each {
		d := direction(&each[i])
		if d == nil {
			d = &Direction{}
		}
		all = append(all, *d)
	}
	if !slices.ContainsFunc(all, func(d Direction) bool { return d.IOPS > 0 }) {
		return nil
	}
	rate := func(d *Direction) float64 { return d.BytesPS }
	sum := Direction{
		BytesPS: mean(all, rate),
		IOPS:    mean(all, func(d *Direction) float64 { return d.IOPS }),
		Seeds:   &Seeds{Least: Extreme{BytesPS: all[0].BytesPS}, Most: Extreme{BytesPS: all[0].BytesPS}},
	}
	for i := range all {
		sum.Seeds.Requests += all[i].Requests
		sum.Seeds.Least.BytesPS = min(sum.Seeds.Least.BytesPS, all[i].BytesPS)
		sum.Seeds.Most.BytesPS = max(sum.Seeds.Most.BytesPS, all[i].BytesPS)
	}
	for i, s := range sum.Lat.all() {
		var values []float64
		for j := range all {
			if all[j].IOPS > 0 {
				values = append(values, *all[j].Lat.all()[i].value)
			}
		}
		*s.value = median(values)
		*sum.Seeds.Least.Lat.all()[i].value = slices.Min(values)
		*sum.Seeds.Most.Lat.all()[i].value = slices.Max(values)
	}
	return &sum
}

func mean[T any](all []T, figure func(*T) float64) float64 {
	sum := 0.0
	for i := range all {
		sum += figure(&all[i])
	}
	return ratio(sum, float64(len(all)))
}

// median is the middle one, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// medianOrNone is nil if one of them has no such figure.
func medianOrNone(all []Container, figure func(*Container) *float64) *float64 {
	var values []float64
	for i := range all {
		f := figure(&all[i])
		if f == nil {
			return nil
		}
		values = append(values, *f)
	}
	m := median(values)
	return &m
}

func (s *RunSeeds) rounded() *RunSeeds {
	if s == nil {
		return nil
	}
	c := *s
	for _, e := range []*RunExtreme{&c.Least, &c.Most} {
		round(1, &e.TotalBytesPS, &e.TotalIOPS)
		round(6, &e.JainWeighted, &e.ShareErrorPct)
	}
	return &c
}

// rounded is a copy of s, as WriteJSON shows it.
func (s *Seeds) rounded() *Seeds {
	if s == nil {
		return nil
	}
	c := *s
	round(0, &c.Requests)
	for _, e := range []*Extreme{&c.Least, &c.Most} {
		round(1, &e.BytesPS)
		for _, figure := range e.Lat.all() {
			round(1, figure.value)
		}
	}
	return &c
}

// tails lists means, 99.9th percentiles and maxima, for runs of several seeds
// with the least and the most of the maxima, and how many requests that is of.
func (s section) tails(b *strings.Builder) {
	for _, dir := range []struct {
		name string
		of   func(*Container) *Direction
	}{
		{"read", func(c *Container) *Direction { return c.Read }},
		{"write", func(c *Container) *Direction { return c.Write }},
		{"fsync", func(c *Container) *Direction { return c.Sync }},
		{"operation", func(c *Container) *Direction { return c.Operations }},
	} {
		rows := [][]string{{"scheduler", "container", "requests", "mean", "p99.9", "max", "least max", "most max"}}
		for _, r := range s.runs {
			for i := range r.Containers {
				d := dir.of(&r.Containers[i])
				if d == nil || d.Seeds == nil {
					continue
				}
				rows = append(rows, []string{
					r.Scheduler, r.Containers[i].Name, fmt.Sprintf("%.0f", d.Seeds.Requests), millis(d.Lat.Mean),
					millis(d.Lat.P999), millis(d.Lat.Max), millis(d.Seeds.Least.Lat.Max), millis(d.Seeds.Most.Lat.Max),
				})
			}
		}
		if len(rows) > 1 {
			writeBlock(b, dir.name+" latency over the seeds, ms: medians", rows, 3)
		}
	}
}

// finishes lists how long jobs took that end by themselves.
func (s section) finishes(b *strings.Builder) {
	rows := [][]string{{"scheduler", "container", "ms"}}
	for _, r := range s.runs {
		for _, c := range r.Containers {
			if c.FinishMS != nil {
				rows = append(rows, []string{r.Scheduler, c.Name, fmt.Sprintf("%.0f", *c.FinishMS)})
			}
		}
	}
	if len(rows) > 1 {
		writeBlock(b, "finished", rows, 2)
	}
}
