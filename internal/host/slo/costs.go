// SPDX-License-Identifier: MIT

package slo

import (
	"fmt"
	"math"
	"time"

	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
)

// costs are what requests cost on one disk: time of the disk, and charges of its scheduler.
type costs struct {
	profile      *profile.Profile
	shareBy      string
	interference float64
	// dearest is the most time of the disk for a charge that any kind of request takes
	// that was measured or promised.
	dearest float64
	// read and write are the scheduler's model of the disk, for shareBy "time".
	read, write model
}

// model is kyber-fairness' cost_model in one direction: rates of requests of 4 KiB, and
// of bytes in large ones.
type model struct{ iops, bps float64 }

const (
	smallBytes = 4 << 10
	largeBytes = 128 << 10
)

func newCosts(p *profile.Profile, shareBy string) costs {
	c := costs{profile: p, shareBy: shareBy, interference: p.Interference()}
	c.read, c.write = c.modelOf(100), c.modelOf(0)
	for _, l := range p.Loads {
		if l.ReadPct != 0 && l.ReadPct != 100 {
			continue // made of reads and writes
		}
		if t, ok := c.time(l.Random, l.ReadPct == 0, l.BlockBytes); ok {
			c.dearest = max(c.dearest, t/c.charge(l.ReadPct == 0, l.BlockBytes))
		}
	}
	return c
}

// modelOf is the model of one direction; zero where it was not measured. Small requests
// are random ones, large ones sequential, where both were measured.
func (c *costs) modelOf(readPct int) model {
	of := func(random bool, blockBytes int) float64 {
		seconds, ok := c.profile.RequestTime(random, readPct, blockBytes)
		if !ok {
			seconds, _ = c.profile.RequestTime(!random, readPct, blockBytes)
		}
		return seconds
	}
	small, large := of(true, smallBytes), of(false, largeBytes)
	if small == 0 {
		return model{}
	}
	return model{iops: 1 / small, bps: largeBytes / large}
}

// model is the text for the file cost_model, "" where a direction was not measured: the
// file takes all four figures or none.
func (c *costs) model() string {
	if c.shareBy != "time" || c.read.iops == 0 || c.write.iops == 0 {
		return ""
	}
	return fmt.Sprintf("rbps=%.0f riops=%.0f wbps=%.0f wiops=%.0f", c.read.bps, c.read.iops, c.write.bps, c.write.iops)
}

// time is what a request takes the disk, beside requests of the other direction.
func (c *costs) time(random, write bool, blockBytes int) (seconds float64, ok bool) {
	readPct := 100
	if write {
		readPct = 0
	}
	seconds, ok = c.profile.RequestTime(random, readPct, blockBytes)
	return seconds * c.interference, ok
}

// charge is what the scheduler charges for a request.
func (c *costs) charge(write bool, blockBytes int) float64 {
	switch c.shareBy {
	case "bytes":
		return float64(blockBytes)
	case "iops":
		return 1
	}
	m := c.read
	if write {
		m = c.write
	}
	// As kf_model_set() has it: a time of its own, and one for each byte.
	own := max(0, 1/m.iops-smallBytes/m.bps)
	return own + float64(blockBytes)/m.bps
}

// missing says that a promise needs a load that was not measured.
func missing(d SoldDisk, r rule.Promise, write bool) *PlanError {
	key, allowed := "read", fmt.Sprintf("none before `isolio measure %s`", d.Name)
	if write {
		key, allowed = "write", fmt.Sprintf("none before `isolio measure %s --allow-writes`, on a disk that nothing uses", d.Name)
	}
	order := "random"
	if r.Sequential {
		order = "sequential"
	}
	return &PlanError{Promise: r, Key: key, What: fmt.Sprintf("the profile of %s has no %s %ss", d.Name, order, key), Allowed: allowed}
}

// tenant is what one promise comes to by itself.
func (c *costs) tenant(d SoldDisk, r rule.Promise) (Tenant, error) {
	t := Tenant{For: r.Selector(), Line: r.Line, Count: r.Count, Read: r.Read.String(), Write: r.Write.String(), P99MS: milliseconds(r.P99), Rule: r}
	use := 0.0
	for _, write := range []bool{false, true} {
		rate := r.Read.RequestsPS(r.BlockBytes)
		if write {
			rate = r.Write.RequestsPS(r.BlockBytes)
		}
		if rate == 0 {
			continue
		}
		seconds, ok := c.time(!r.Sequential, write, r.BlockBytes)
		if !ok {
			return t, missing(d, r, write)
		}
		use += rate * seconds
		t.charge += rate * c.charge(write, r.BlockBytes)
		readPct := 100
		if write {
			readPct = 0
		}
		t.inFlight += rate * seconds * c.profile.MostInFlight(!r.Sequential, readPct, r.BlockBytes)
	}
	t.UsePct = 100 * use
	t.Depth = whole(t.inFlight)
	bound := c.latencyBound(r)
	if r.P99 > 0 {
		t.Bound = milliseconds(bound)
		if bound > r.P99 {
			return t, &PlanError{Promise: r, Key: "p99", What: fmt.Sprintf("%s is less than %s keeps while it is shared", r.P99, d.Name), Allowed: fmt.Sprintf("%s or more", ceil(bound))}
		}
	}
	return t, nil
}

// ceil rounds a latency up to two digits, so that what a message allows is allowed.
func ceil(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return (d + unit - 1) / unit * unit
}

// alone refuses a promise that the disk could not keep without the others. free is the
// part of the disk that can be sold, sold what all promises use.
func (c *costs) alone(d SoldDisk, t *Tenant, free, sold float64) error {
	use := t.UsePct / 100 * float64(t.Count)
	if use <= free+slack {
		return nil
	}
	r := t.Rule
	read := r.Read.RequestsPS(r.BlockBytes) * float64(t.Count)
	write := r.Write.RequestsPS(r.BlockBytes) * float64(t.Count)
	readTime, _ := c.time(!r.Sequential, false, r.BlockBytes)
	writeTime, _ := c.time(!r.Sequential, true, r.BlockBytes)
	// The direction that takes more of the disk is the one to change, beside the other.
	key, amount, seconds, beside := "read", r.Read, readTime, write*writeTime
	if write*writeTime > read*readTime {
		key, amount, seconds, beside = "write", r.Write, writeTime, read*readTime
	}
	fits := func(part float64) string {
		return like(amount, max(0, part-beside)/seconds/float64(t.Count), r.BlockBytes)
	}
	allowed := "up to " + fits(free)
	if others := sold - use; others > 0 {
		allowed += fmt.Sprintf(", and %s with the other promises", fits(max(0, free-others)))
	}
	if t.Count > 1 {
		allowed += fmt.Sprintf(", for each of %d", t.Count)
	}
	return &PlanError{Promise: r, Key: key, What: fmt.Sprintf("%s is more than %s has", amount, d.Name), Allowed: allowed}
}

// like is a rate in the unit of an amount, rounded down.
func like(amount rule.Amount, requestsPS float64, blockBytes int) string {
	if amount.BytesPS > 0 {
		return rule.Number(down(requestsPS*float64(blockBytes)/(1<<20))) + " MiB/s"
	}
	return rule.Number(down(requestsPS)) + " IOPS"
}

// down rounds down to three digits, as rule.Number prints them, or to whole numbers.
func down(n float64) float64 {
	if n >= 100 || n <= 0 {
		return math.Floor(max(0, n) + tiny)
	}
	unit := math.Pow(10, math.Floor(math.Log10(n))-2)
	return math.Floor(n/unit+tiny) * unit
}

// tiny is what a quotient may be short of a whole number because of how floating point rounds.
const tiny = 1e-6

// latencyBound is the p99 that a tenant can count on while it asks for no more than it
// was promised: its requests go first, and wait for those in flight, of which
// kyber-fairness lets be as many as its ceiling.
func (c *costs) latencyBound(r rule.Promise) time.Duration {
	inFlight := 0.0
	if l := c.profile.Load(profile.Kind{Random: true, ReadPct: 100, BlockBytes: smallBytes}); l != nil {
		inFlight = profile.Ceiling(l.Points)
	}
	worst := 0.0 // us
	for i := range c.profile.Loads {
		l := &c.profile.Loads[i]
		isRead := r.Read != rule.Amount{} && l.ReadPct > 0
		isWrite := r.Write != rule.Amount{} && l.ReadPct < 100
		mixed := l.ReadPct > 0 && l.ReadPct < 100
		if !isRead && !isWrite || !mixed && (l.Random == r.Sequential || !near(c.profile, l, r.BlockBytes)) {
			continue
		}
		depth := max(inFlight, profile.Ceiling(l.Points))
		if isRead {
			worst = max(worst, l.P99(depth, false))
		}
		if isWrite {
			worst = max(worst, l.P99(depth, true))
		}
		if !mixed { // twice the mean, by Little's law
			worst = max(worst, 2e6*depth/l.LowIOPS(depth))
		}
	}
	return time.Duration(worst * 1e3)
}

// near reports whether no other load of this order and direction is of a size nearer to this.
func near(p *profile.Profile, l *profile.Load, blockBytes int) bool {
	return p.Nearest(l.Random, l.ReadPct, blockBytes) == l
}

// room is what else could be promised.
func (c *costs) room(part float64) []Room {
	var all []Room
	for _, x := range []struct {
		kind          string
		random, write bool
		block         int
	}{
		{"random reads of 4 KiB", true, false, smallBytes},
		{"sequential reads of 128 KiB", false, false, largeBytes},
		{"random writes of 4 KiB", true, true, smallBytes},
		{"sequential writes of 128 KiB", false, true, largeBytes},
	} {
		if seconds, ok := c.time(x.random, x.write, x.block); ok {
			n := max(0, part) / seconds
			all = append(all, Room{Kind: x.kind, IOPS: math.Floor(n), BytesPS: math.Floor(n * float64(x.block))})
		}
	}
	return all
}

// notes say what the plan rests on.
func (c *costs) notes() []string {
	var all []string
	if c.write.iops == 0 {
		all = append(all, "the profile has no writes: weights and latencies hold only while no cgroup writes to the disk")
	}
	if c.interference > 1.01 {
		all = append(all, fmt.Sprintf("reads and writes together take %.0f %% longer than apart; each promise is charged for that", 100*(c.interference-1)))
	}
	return all
}

// RoomFor is what a disk without any promise has, for a message about an amount.
func RoomFor(d SoldDisk, sla rule.SLA, write, sequential bool, blockBytes int) string {
	c := newCosts(d.Profile, sla.ShareBy)
	seconds, ok := c.time(!sequential, write, blockBytes)
	if !ok {
		return ""
	}
	free := (1 - sla.ReservePct/100) / seconds
	return fmt.Sprintf("%s has up to %s, or %s in requests of %s", d.Name, like(rule.Amount{IOPS: 1}, free, blockBytes), like(rule.Amount{BytesPS: 1}, free, blockBytes), size(blockBytes))
}
