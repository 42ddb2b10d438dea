// SPDX-License-Identifier: MIT

package slo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
)

// A plan turns what containers were sold of a disk into weights, and refuses
// to sell more than the disk's profile has. It is arithmetic alone.
//
// Each request takes the disk a time: 1 / the rate of a disk that is full of such
// requests. A promise uses the part of the disk's time that its requests take, and
// all promises together must leave the reserve. That is what decides whether they fit.
//
// A scheduler shares charges: bytes, requests, or time by its own model of the disk.
// What a tenant of share s gets is s of all charges a second, C. C is least when
// cgroups without a promise send what takes the disk the most time for a charge, d.
// With U, the part of the disk that all promises use, and Q, what they are charged:
//
//	C = Q + (1 - U) / d
//
// So a tenant that is charged q for what it was promised needs the share q / C, and
// cgroups without a promise together have the rest. The reserve is there for a disk
// that serves less than its profile: where it serves the part 1 - m of it, all charges
// are (1 - m) C, so the share is q / ((1 - m) C). The margin m is the reserve, but
// cgroups without a promise keep half of the reserve as their share, and weights end at
// MostWeight. Weights are the smallest whole numbers that give each tenant its share or
// more beside them.
//
// A tenant has what it was promised only while it keeps so many requests outstanding
// as that rate has in flight on a full disk: by Little's law the rate times the
// latency there. The scheduler fills the disk up to its ceiling, whatever the disk needs
// to be busy. So the latency is N / X, with X requests a second, and N in flight: the
// ceiling, or the depth that the disk needs if that is more. On a disk that serves the
// part 1 - m it is 1 / (1 - m) times as long.
//
// A cgroup that keeps n requests outstanding, and for which the others wait, empties the
// disk until n is its share of what is in flight. With minTotalPct they wait for it only if
// n requests would have its share on a disk that has no others, see struct kf_level in clock.h.
// To wait for one that keeps fewer cannot give it its share, and takes the others theirs.
// A tenant that keeps its depth has three times as many, so they wait for it, even where
// the others' requests take the disk longer in flight than its own.

// MaxWeight is the largest weight that kyber-fairness takes.
const MaxWeight = 10000

// minTotalPct is how much of what it can the disk does at least while the others wait for a
// cgroup: all of it.
const minTotalPct = 100

// defaultWeight is that of a cgroup that was given none.
const defaultWeight = 100

// SoldDisk is what a plan knows of one disk.
type SoldDisk struct {
	Name    string
	Profile *profile.Profile
}

// Plan is what becomes of all promises on one disk.
type Plan struct {
	Disk     string `json:"disk"`
	Identity string `json:"identity"`
	// Fits is whether all of it can be kept; Problem says why not.
	Fits    bool   `json:"fits"`
	Problem string `json:"problem,omitempty"`
	// The parts of the disk's time, in percent: Promised + Left + Reserve is 100, with a
	// Left below 0 where too much is promised.
	PromisedPct float64 `json:"promised_pct"`
	LeftPct     float64 `json:"left_pct"`
	ReservePct  float64 `json:"reserve_pct"`
	// Interference is by how much reads and writes together take longer than each for
	// itself; it is in all parts.
	Interference float64  `json:"interference"`
	Tenants      []Tenant `json:"tenants"`
	// Others are the cgroups without a promise.
	Others Others `json:"others"`
	// Room is what could still be promised, one of them.
	Room []Room `json:"room"`
	// Drop is what to give up where too much is promised.
	Drop []string `json:"drop,omitempty"`
	// MarginPct is by how much less than its profile the disk may serve.
	MarginPct float64 `json:"margin_pct"`
	// ShareBy, CostModel and MinTotalPct are what the disk's scheduler must be told.
	ShareBy     string   `json:"share_by"`
	CostModel   string   `json:"cost_model,omitempty"`
	MinTotalPct int      `json:"min_total_pct"`
	Notes       []string `json:"notes,omitempty"`
}

// Tenant is a promise and what follows from it.
type Tenant struct {
	For    string       `json:"for"`
	Line   int          `json:"line,omitempty"` // 0 for one of --what-if
	Count  int          `json:"count"`
	Read   string       `json:"read,omitempty"`
	Write  string       `json:"write,omitempty"`
	P99MS  float64      `json:"p99_ms,omitempty"`
	UsePct float64      `json:"use_pct"` // of the disk's time, for each of Count
	Weight int          `json:"weight"`
	Share  float64      `json:"share"` // of charges, by the weights of all
	Depth  int          `json:"depth"` // requests to keep outstanding
	Bound  float64      `json:"p99_bound_ms,omitempty"`
	Why    string       `json:"why"`
	Rule   rule.Promise `json:"-"`

	charge   float64 // a second, for each
	inFlight float64 // of its requests, on a full disk that is as in its profile
}

// Others are the cgroups without a promise.
type Others struct {
	BestEffort int     `json:"best_effort"`
	Weight     int     `json:"weight"` // of all together, at most
	Share      float64 `json:"share"`
}

// Room is what could still be promised of one kind of requests.
type Room struct {
	Kind    string  `json:"kind"`
	IOPS    float64 `json:"iops"`
	BytesPS float64 `json:"bytes_per_s"`
}

// PlanError is a promise that a disk cannot keep, whatever else is promised.
type PlanError struct {
	Promise rule.Promise
	Key     string // of the promise
	What    string
	Allowed string
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("%s: %s; allowed: %s", e.Key, e.What, e.Allowed)
}

// Make plans the promises of one disk. An error is a promise that the disk alone
// could not keep; promises that are too much together make a plan that does not fit.
func Make(d SoldDisk, promises []rule.Promise, sla rule.SLA) (*Plan, error) {
	c := newCosts(d.Profile, sla.ShareBy)
	p := &Plan{
		Disk: d.Name, Identity: d.Profile.Disk.Identity, ReservePct: sla.ReservePct, Interference: c.interference,
		ShareBy: sla.ShareBy, CostModel: c.model(), MinTotalPct: minTotalPct, Others: Others{BestEffort: sla.BestEffort, Weight: sla.BestEffort * defaultWeight},
	}
	sold := 0.0
	for _, r := range promises {
		t, err := c.tenant(d, r)
		if err != nil {
			return nil, err
		}
		sold += t.UsePct / 100 * float64(t.Count)
		p.Tenants = append(p.Tenants, t)
	}
	free := 1 - sla.ReservePct/100
	for i := range p.Tenants {
		if err := c.alone(d, &p.Tenants[i], free, sold); err != nil {
			return nil, err
		}
	}
	p.PromisedPct, p.LeftPct = 100*sold, 100*(free-sold)
	p.Notes = c.notes()
	p.Fits = p.LeftPct >= -slack
	if !p.Fits {
		p.Problem = fmt.Sprintf("%.1f %% of the disk is promised, and at most %.1f %% can be", p.PromisedPct, 100*free)
		p.Drop = drop(p.Tenants, sold-free)
		return p, nil
	}
	p.Room = c.room(free - sold)
	p.weigh(c, sold)
	return p, nil
}

// slack is what may be missing because of how floating point rounds, in percent.
const slack = 1e-9

// weigh finds the weights.
func (p *Plan) weigh(c costs, sold float64) {
	charged := 0.0
	for _, t := range p.Tenants {
		charged += t.charge * float64(t.Count)
		// A tenant gets more than it was promised where its weight was rounded up.
		c.dearest = max(c.dearest, t.UsePct/100/t.charge)
	}
	all := charged + (1-sold)/c.dearest
	reserve := p.ReservePct / 100
	most := max(0, min(reserve, 1-charged/all/(1-reserve/2)))
	margin := 0.0
	var weights []int
	var sum int
	for step := marginSteps; step >= 0 && weights == nil; step-- {
		margin = most * float64(step) / marginSteps
		weights, sum = solve(p.Tenants, all*(1-margin), p.Others.Weight)
	}
	if weights == nil {
		p.Fits = false
		p.Problem = fmt.Sprintf("weights above %d would be needed beside %d cgroups of weight %d", MaxWeight, p.Others.BestEffort, defaultWeight)
		if p.ShareBy != "time" {
			p.Problem += fmt.Sprintf("; what they send can take the disk far more time for what %s charges: share_by = \"time\" does not let them", p.ShareBy)
		}
		p.Drop = []string{"a smaller best_effort, or a larger reserve_pct"}
		return
	}
	p.MarginPct = 100 * margin
	for i := range p.Tenants {
		t := &p.Tenants[i]
		t.Depth = whole(t.inFlight / (1 - margin))
		t.Weight, t.Share = weights[i], float64(weights[i])/float64(sum)
		t.Why = fmt.Sprintf("%s: %.2f %% of the disk's time each; weight %d of %d", t.promised(), t.UsePct, t.Weight, sum)
	}
	p.Others.Share = float64(p.Others.Weight) / float64(sum)
}

// marginSteps are the parts of the margin of which as many are given up as weights take.
const marginSteps = 20

// whole is a number of requests that is no less, and 1 at least.
func whole(n float64) int { return max(1, int(math.Ceil(n-slack))) }

// solve returns the smallest whole weights that give each tenant its part of all
// charges, beside others of a weight, and the sum of all weights; nil if one would be
// above MostWeight. Raising one weight lowers the shares of the others, so it goes round
// until none is too small: each round only raises, and stops at the least solution.
func solve(tenants []Tenant, all float64, others int) (weights []int, sum int) {
	weights = make([]int, len(tenants))
	for i := range weights {
		weights[i] = 1
	}
	for {
		sum = others
		for i, t := range tenants {
			sum += weights[i] * t.Count
		}
		raised := false
		for i, t := range tenants {
			need := int(math.Ceil(t.charge/all*float64(sum) - slack))
			if need > MaxWeight {
				return nil, 0
			}
			if need > weights[i] {
				weights[i], raised = need, true
			}
		}
		if !raised {
			return weights, sum
		}
	}
}

// promised is the promise in words.
func (t *Tenant) promised() string {
	text := ""
	if t.Read != "" {
		text = t.Read + " of reads"
	}
	if t.Write != "" {
		if text != "" {
			text += " and "
		}
		text += t.Write + " of writes"
	}
	order := "random"
	if t.Rule.Sequential {
		order = "sequential"
	}
	return fmt.Sprintf("%s, %s, %s", text, order, size(t.Rule.BlockBytes))
}

func size(bytes int) string {
	if bytes%1024 != 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%d KiB", bytes/1024)
}

// drop says what to give up so that so much of the disk is free again: the smallest
// promise that is enough alone; where none is, the largest until it is enough.
func drop(tenants []Tenant, excess float64) []string {
	use := func(t Tenant) float64 { return t.UsePct / 100 * float64(t.Count) }
	order := slices.Clone(tenants)
	slices.SortStableFunc(order, func(a, b Tenant) int {
		switch d := use(a) - use(b); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	for _, t := range order {
		if use(t) >= excess {
			return []string{t.name()}
		}
	}
	var names []string
	for _, t := range slices.Backward(order) {
		names = append(names, t.name())
		if excess -= use(t); excess <= 0 {
			break
		}
	}
	return names
}

// name is the tenant for a message.
func (t *Tenant) name() string {
	if t.Line == 0 {
		return t.For + " (--what-if)"
	}
	return fmt.Sprintf("%s (line %d)", t.For, t.Line)
}

// milliseconds of a latency.
func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
