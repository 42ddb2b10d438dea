// SPDX-License-Identifier: MIT

// Package profile measures what a disk can do for long and keeps it, as `isolio measure` does:
// load.go keeps requests outstanding on a device, survey.go decides which loads run and runs each
// twice until its rate is steady, profile.go is the file that comes of it and what follows from it for
// loads that were not measured themselves.
package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/plan"
)

// Schema is the version of the document.
const Schema = 1

// Profile is what a disk can do for long.
type Profile struct {
	Schema int  `json:"schema"`
	Disk   Disk `json:"disk"`
	// Scheduler is the one that the disk had meanwhile.
	Scheduler  string    `json:"scheduler"`
	Kernel     string    `json:"kernel"`
	Version    string    `json:"version"` // of isolio
	MeasuredAt time.Time `json:"measured_at"`
	TookS      float64   `json:"took_s"`
	// WrittenBytes is how much was written to the disk meanwhile.
	WrittenBytes int64  `json:"written_bytes"`
	Loads        []Load `json:"loads"`
	// Notes say what a reader of the figures has to know.
	Notes []string `json:"notes,omitempty"`
}

// Disk says which disk it is.
type Disk struct {
	Identity  string `json:"identity"`
	Name      string `json:"name"` // that it had when it was measured
	Model     string `json:"model,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
}

// Load is one kind of load, at several depths.
type Load struct {
	Name string `json:"name"`
	Kind
	// Points are by growing depth.
	Points []Point `json:"points"`
	// KneeDepth is the least depth from which on the rate grows no more; 0 where it
	// still grew at the last one.
	KneeDepth int `json:"knee_depth"`
}

// Kind is what a load's requests are.
type Kind struct {
	Random     bool `json:"random"`
	ReadPct    int  `json:"read_pct"`
	BlockBytes int  `json:"block_bytes"`
}

// Point is a load at one depth.
type Point struct {
	Depth int `json:"depth"`
	// IOPS is the mean of the runs, LowIOPS the lowest of them.
	IOPS    float64 `json:"iops"`
	LowIOPS float64 `json:"low_iops"`
	BytesPS float64 `json:"bytes_per_s"`
	// Read and Write are of the requests while the rate was steady, of all runs.
	Read  *Latency `json:"read_lat_us,omitempty"`
	Write *Latency `json:"write_lat_us,omitempty"`
	Runs  []Run    `json:"runs"`
	// DifferPct is how far the runs are apart, in percent of their mean; Why says
	// why, where that is more than Repeatable.
	DifferPct float64 `json:"differ_pct"`
	Why       string  `json:"why,omitempty"`
}

// Repeatable is how far two runs may be apart, in percent.
const Repeatable = 5

// Latency is of requests, in microseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Run is one time that a point was measured.
type Run struct {
	IOPS    float64 `json:"iops"`
	Seconds float64 `json:"seconds"` // of the steady part
	Settled bool    `json:"settled"`
	// SpreadPct is how far parts of the steady part are from its mean.
	SpreadPct float64 `json:"spread_pct"`
	// Burst is what was faster before.
	Burst *Burst `json:"burst,omitempty"`
	// OthersPct is the part of the disk's bytes that others moved meanwhile.
	OthersPct float64 `json:"others_pct"`
}

// Dir is where profiles are kept, below the root.
const Dir = "var/lib/isolio/profiles"

// File is where the profile of a disk is kept.
func File(sys block.System, id string) string {
	return sys.Path(Dir, id+".json")
}

// ErrNone says that a disk was not measured.
var ErrNone = errors.New("has no profile")

// most is how large a profile may be.
const most = 4 << 20

// Read returns the profile of a disk; the error is ErrNone where there is none.
func Read(sys block.System, d *block.Device) (*Profile, error) {
	id, err := block.DiskID(sys, d)
	if err != nil {
		return nil, err
	}
	name := File(sys, id)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Usagef("device %s: %w; first: isolio measure %s", d.Name, ErrNone, d.Name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, err
	}
	p, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; measure it anew: isolio measure %s", name, err, d.Name)
	}
	if p.Disk.Identity != id {
		return nil, fmt.Errorf("%s: is of the disk %s; measure it anew: isolio measure %s", name, p.Disk.Identity, d.Name)
	}
	return p, nil
}

// Decode reads a profile and checks that it can be counted with.
func Decode(text []byte) (*Profile, error) {
	var p Profile
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&p); err != nil {
		return nil, err
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("schema %d is not known; known: %d", p.Schema, Schema)
	}
	for _, l := range p.Loads {
		if len(l.Points) == 0 || l.BlockBytes < 1 || l.ReadPct < 0 || l.ReadPct > 100 {
			return nil, fmt.Errorf("load %s: damaged: no point, or an unknown kind", l.Name)
		}
		depth := 0
		for _, at := range l.Points {
			if at.Depth <= depth || !(at.IOPS > 0) || !(at.LowIOPS > 0) || at.LowIOPS > at.IOPS*1.0001 {
				return nil, fmt.Errorf("load %s: depth %d: damaged: the depth or the rate is out of range", l.Name, at.Depth)
			}
			depth = at.Depth
		}
	}
	return &p, nil
}

// Encode is the profile as text.
func (p *Profile) Encode() (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	err := enc.Encode(p)
	return b.String(), err
}

// Keep returns the step that keeps the profile.
func (p *Profile) Keep(sys block.System) (plan.Step, error) {
	text, err := p.Encode()
	return plan.Step{Create: true, Path: File(sys, p.Disk.Identity), Value: text}, err
}

// grows is by which part a rate must grow to be growing.
const grows = 0.05

// Knee is the least depth from which on no deeper one has a rate that is higher by
// more than a twentieth; 0 if that is the last one, as more may have more.
func Knee(points []Point) int {
	for i := range points {
		best := 0.0
		for _, deeper := range points[i+1:] {
			best = max(best, deeper.IOPS)
		}
		if i+1 < len(points) && best <= points[i].IOPS*(1+grows) {
			return points[i].Depth
		}
	}
	return 0
}

// Load is the load of a kind, nil if it was not measured.
func (p *Profile) Load(k Kind) *Load {
	for i := range p.Loads {
		if p.Loads[i].Kind == k {
			return &p.Loads[i]
		}
	}
	return nil
}

// Full is what the load needs to have the disk busy: its knee, or the deepest point.
func (l *Load) Full() Point {
	for _, at := range l.Points {
		if at.Depth == l.KneeDepth {
			return at
		}
	}
	return l.Points[len(l.Points)-1]
}

// LowIOPS is the lower rate of the runs at a depth. Between two depths that were
// measured it is on the line between them, which is not above a rate that grows
// ever more slowly.
func (l *Load) LowIOPS(depth float64) float64 {
	return l.at(depth, func(p Point) float64 { return p.LowIOPS })
}

// at interpolates what a point has.
func (l *Load) at(depth float64, of func(Point) float64) float64 {
	first, last := l.Points[0], l.Points[len(l.Points)-1]
	switch {
	case depth <= float64(first.Depth):
		return of(first) * min(1, depth/float64(first.Depth))
	case depth >= float64(last.Depth):
		return of(last)
	}
	i := slices.IndexFunc(l.Points, func(p Point) bool { return float64(p.Depth) >= depth })
	a, b := l.Points[i-1], l.Points[i]
	part := (depth - float64(a.Depth)) / float64(b.Depth-a.Depth)
	return of(a) + part*(of(b)-of(a))
}

// sizes are the loads of reads or of writes alone, random or sequential, by growing size.
func (p *Profile) sizes(random bool, readPct int) []*Load {
	var all []*Load
	for i := range p.Loads {
		if l := &p.Loads[i]; l.Random == random && l.ReadPct == readPct {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Load) int { return a.BlockBytes - b.BlockBytes })
	return all
}

// RequestTime is the disk's time for a request: 1 / the rate of a disk that is full
// of such requests. Between sizes that were measured it is on the line between
// them; a smaller request takes as long as the smallest, and beyond the largest
// each byte takes as long as it does there. ok is false where no size was measured.
func (p *Profile) RequestTime(random bool, readPct, blockBytes int) (seconds float64, ok bool) {
	all := p.sizes(random, readPct)
	if len(all) == 0 {
		return 0, false
	}
	timeOf := func(l *Load) float64 { return 1 / l.Full().LowIOPS }
	first, last := all[0], all[len(all)-1]
	switch {
	case blockBytes <= first.BlockBytes:
		return timeOf(first), true
	case blockBytes >= last.BlockBytes:
		return timeOf(last) * float64(blockBytes) / float64(last.BlockBytes), true
	}
	i := slices.IndexFunc(all, func(l *Load) bool { return l.BlockBytes >= blockBytes })
	a, b := all[i-1], all[i]
	part := float64(blockBytes-a.BlockBytes) / float64(b.BlockBytes-a.BlockBytes)
	return timeOf(a) + part*(timeOf(b)-timeOf(a)), true
}

// LikelyTime is RequestTime where the order of the requests is not sure: that of the order
// that is likely, if requests of the size were measured in it, or else that of the other one. A
// size that was measured in neither takes the lesser of both.
func (p *Profile) LikelyTime(random bool, readPct, blockBytes int) (seconds float64, ok bool) {
	for _, order := range []bool{random, !random} {
		all := p.sizes(order, readPct)
		if len(all) > 0 && blockBytes >= all[0].BlockBytes && blockBytes <= all[len(all)-1].BlockBytes {
			return p.RequestTime(order, readPct, blockBytes)
		}
	}
	seconds, ok = p.RequestTime(random, readPct, blockBytes)
	if other, okOther := p.RequestTime(!random, readPct, blockBytes); okOther && (!ok || other < seconds) {
		return other, true
	}
	return seconds, ok
}

// Interference is by how much reads and writes together take longer than each for
// itself: the largest of the mixes that were measured, and 1 if none does.
func (p *Profile) Interference() float64 {
	worst := 1.0
	for _, l := range p.Loads {
		if l.ReadPct == 0 || l.ReadPct == 100 {
			continue
		}
		read, hasRead := p.RequestTime(l.Random, 100, l.BlockBytes)
		write, hasWrite := p.RequestTime(l.Random, 0, l.BlockBytes)
		if !hasRead || !hasWrite {
			continue
		}
		reads := float64(l.ReadPct) / 100
		worst = max(worst, 1/l.Full().LowIOPS/(reads*read+(1-reads)*write))
	}
	return worst
}

// Nearest is the load of this order and part of reads whose size is nearest, nil if
// there is none.
func (p *Profile) Nearest(random bool, readPct, blockBytes int) *Load {
	far := func(l *Load) float64 { return math.Abs(math.Log(float64(l.BlockBytes) / float64(blockBytes))) }
	var near *Load
	for _, l := range p.sizes(random, readPct) {
		if near == nil || far(l) < far(near) {
			near = l
		}
	}
	return near
}

// KneeDepth is how many requests the disk needs in flight to be busy with this kind: that
// of the nearest size, 0 if none was measured.
func (p *Profile) KneeDepth(random bool, readPct, blockBytes int) int {
	near := p.Nearest(random, readPct, blockBytes)
	if near == nil {
		return 0
	}
	return near.Full().Depth
}

// MostInFlight is how many requests of this kind are in flight while cgroups fill the disk with
// them: kyber-fairness' ceiling, or as many as the disk needs to be busy if that is more. They are
// those of the nearest size, 0 if none was measured.
func (p *Profile) MostInFlight(random bool, readPct, blockBytes int) float64 {
	near := p.Nearest(random, readPct, blockBytes)
	if near == nil {
		return 0
	}
	return max(float64(near.Full().Depth), Ceiling(near.Points))
}

// P99 is the p99 of the load's reads, or writes, at a depth, in microseconds. Beyond the
// deepest that was measured each further request waits for all before it.
func (l *Load) P99(depth float64, write bool) float64 {
	last := l.Points[len(l.Points)-1]
	us := l.at(max(depth, float64(l.Points[0].Depth)), func(p Point) float64 {
		lat := p.Read
		if write {
			lat = p.Write
		}
		if lat == nil {
			return 0
		}
		return lat.P99
	})
	return us * max(1, depth/float64(last.Depth))
}

// BDP is the bandwidth-delay product: how many requests a disk needs in flight to
// be busy if each took as long as one alone, its best rate times that latency.
func BDP(points []Point) float64 {
	best := 0.0
	for _, at := range points {
		best = max(best, at.IOPS)
	}
	first := points[0]
	return best * float64(first.Depth) / first.IOPS
}

// Ceiling is how many requests kyber-fairness lets be in flight at most while cgroups
// share the disk: three times the product, and 32 in any case.
func Ceiling(points []Point) float64 { return CeilingOf(BDP(points)) }

// CeilingOf is the same of a product.
func CeilingOf(product float64) float64 { return max(32, 3*product) }
