// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
)

// ownDisk fills in what the containers of a case have, over what each has alone on a disk of
// its own, as far as such references ran.
func (d *Document) ownDisk(k *experiment.Case, runs []Run) {
	for i, ref := range k.OwnDisks() {
		var alone *Container
		for j := range runs {
			if runs[j].Case == ref.Name && len(runs[j].Containers) == 1 {
				alone = &runs[j].Containers[0]
			}
		}
		if alone == nil {
			return // on a disk of the host's there are none
		}
		for j := range d.Runs {
			if r := &d.Runs[j]; r.Case == k.Name {
				r.Containers[i].compare(alone)
			}
		}
	}
	for i := range d.Runs {
		if r := &d.Runs[i]; r.Case == k.Name {
			r.ownDiskExtremes()
		}
	}
}

// compare divides by what the container has alone: bytes a second, or a program's operations.
// A job that ends, and counts none, is as fast as it ends early.
func (c *Container) compare(alone *Container) {
	own, ref := c.BytesPS/float64(c.members()), alone.BytesPS
	switch {
	case c.Operations != nil && alone.Operations != nil:
		own, ref = c.Operations.IOPS, alone.Operations.IOPS
	case c.FinishMS != nil && alone.FinishMS != nil:
		own, ref = *alone.FinishMS, *c.FinishMS
	}
	if ref > 0 {
		c.OwnDisk = new(own / ref)
	}
	for _, of := range []func(*Container) *Direction{
		func(c *Container) *Direction { return c.Read },
		func(c *Container) *Direction { return c.Sync },
		func(c *Container) *Direction { return c.Write },
		func(c *Container) *Direction { return c.Operations },
	} {
		if us := of(alone); us.timed() && us.Lat.P99 > 0 {
			if ours := of(c); ours.timed() {
				c.OwnDiskP99 = new(ours.Lat.P99 / us.Lat.P99)
			}
			return
		}
	}
}

// ownDiskExtremes are those of all containers; none where one of them has no such figure. Of
// a container that stands for several, the one with the least counts.
func (r *Run) ownDiskExtremes() {
	var least, most *float64
	leastKnown, mostKnown := true, true
	for _, c := range r.Containers {
		if leastKnown = leastKnown && c.OwnDisk != nil; leastKnown {
			rate := *c.OwnDisk
			if c.Members != nil {
				rate *= c.Members.Least
			}
			if least == nil || rate < *least {
				least = &rate
			}
		}
		if mostKnown = mostKnown && c.OwnDiskP99 != nil; mostKnown && (most == nil || *c.OwnDiskP99 > *most) {
			most = new(*c.OwnDiskP99)
		}
	}
	if leastKnown {
		r.OwnDiskLeast = least
	}
	if mostKnown {
		r.OwnDiskP99Most = most
	}
}

// ownDisk is one of the figures that a metric names; false if there is none.
func (r *Run) ownDisk(m experiment.Metric) (float64, bool) {
	figure := map[string]*float64{experiment.OwnDiskLeast: r.OwnDiskLeast, experiment.OwnDiskP99Most: r.OwnDiskP99Most}[m.Kind]
	if c := r.container(m.Arg); c != nil {
		figure = map[string]*float64{experiment.OwnDisk: c.OwnDisk, experiment.OwnDiskP99: c.OwnDiskP99}[m.Kind]
	}
	if figure == nil {
		return 0, false
	}
	return *figure, true
}

// ownDisks writes a row for each contender: the least rate and the highest p99 of all
// containers, and both of each, over those on a disk of its own.
func (s section) ownDisks(b *strings.Builder) {
	var rows [][]string
	measured := false
	for _, r := range s.runs {
		rows = append(rows, []string{r.Scheduler, ownDiskText(r.OwnDiskLeast, r.OwnDiskP99Most)})
		measured = measured || slices.ContainsFunc(r.Containers, func(c Container) bool { return c.OwnDisk != nil })
	}
	if !measured {
		return
	}
	s.blocks(b, "rate / p99, over a disk of its own", []string{"scheduler", "worst"}, rows, nil, func(c Container) string {
		return ownDiskText(c.OwnDisk, c.OwnDiskP99)
	}, nil)
}

// ownDiskText has both figures; two digits are what a reader compares.
func ownDiskText(rate, p99 *float64) string {
	text := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *v)
	}
	return text(rate) + " / " + text(p99)
}
