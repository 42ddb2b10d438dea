// SPDX-License-Identifier: MIT

package slo

import (
	"container/heap"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/usage"
)

// A host is a disk of so many servers behind a fair queue, its tenants, and the counters that
// the kernel would have of them. Time is in seconds.
type host struct {
	servers int
	service float64 // of one request, at speed 1
	speed   func(at float64) float64
	ceiling int // requests in flight in the disk
	fair    func(at float64) bool
	tenants []*tenant

	now    float64
	events eventHeap
	free   int
	inDisk []*request // waiting for a server, in order
	used   int        // in flight
	busy   time.Duration
	idleAt float64
	done   uint64
	random *rand.Rand
}

// tenant sends requests: depth of them always, or burst of them every period.
type tenant struct {
	weight         float64
	depth, burst   int
	period         float64
	aio            bool // PSI sees no stall
	queue          []*request
	vtime          float64
	outstanding    int
	dispatched     uint64
	sent           uint64
	latency        map[time.Duration]uint64
	stalled        float64
	stalledSince   float64
	throttled      float64
	throttledSince float64
	lastSeen       float64
}

type request struct {
	of   *tenant
	sent float64
}

type event struct {
	at float64
	do func()
}
type eventHeap []event

func (h eventHeap) Len() int           { return len(h) }
func (h eventHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h eventHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)        { *h = append(*h, e.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (h *host) at(when float64, do func()) { heap.Push(&h.events, event{when, do}) }

func (h *host) start() {
	h.free = h.servers
	for _, t := range h.tenants {
		t.latency = map[time.Duration]uint64{}
		t.lastSeen = -1
		switch {
		case t.period > 0:
			var again func()
			again = func() {
				for range t.burst {
					h.send(t)
				}
				h.at(h.now+t.period, again)
			}
			h.at(h.random.Float64()*t.period, again)
		default:
			for range t.depth {
				h.at(0, func() { h.send(t) })
			}
		}
	}
}

func (h *host) run(until float64) {
	for len(h.events) > 0 && h.events[0].at <= until {
		e := heap.Pop(&h.events).(event)
		h.now = e.at
		e.do()
	}
	h.now = until
}

func (h *host) send(t *tenant) {
	if h.now-t.lastSeen > 0.1 { // it was idle: it begins at the clock
		t.vtime = max(t.vtime, h.clock())
	}
	t.lastSeen = h.now
	if t.outstanding == 0 {
		t.stalledSince = h.now
	}
	t.outstanding++
	t.sent++
	if len(t.queue) == 0 {
		t.throttledSince = h.now
	}
	t.queue = append(t.queue, &request{t, h.now})
	h.dispatch()
}

// clock is the least virtual time of those that have requests.
func (h *host) clock() float64 {
	least, found := 0.0, false
	for _, t := range h.tenants {
		if t.outstanding > 0 && (!found || t.vtime < least) {
			least, found = t.vtime, true
		}
	}
	return least
}

func (h *host) dispatch() {
	for {
		var next *tenant
		for _, t := range h.tenants {
			if len(t.queue) == 0 {
				continue
			}
			better := next == nil || t.vtime < next.vtime
			if next != nil && !h.fair(h.now) {
				better = t.queue[0].sent < next.queue[0].sent
			}
			if better {
				next = t
			}
		}
		if next == nil || h.used >= h.ceiling {
			return
		}
		r := next.queue[0]
		next.queue = next.queue[1:]
		next.throttled += h.now - next.throttledSince
		next.throttledSince = h.now
		next.vtime += 1 / next.weight
		next.dispatched++
		if h.used == 0 {
			h.idleAt = h.now
		}
		h.used++
		h.inDisk = append(h.inDisk, r)
		h.serve()
	}
}

func (h *host) serve() {
	for h.free > 0 && len(h.inDisk) > 0 {
		r := h.inDisk[0]
		h.inDisk = h.inDisk[1:]
		h.free--
		h.at(h.ends(h.service*(0.8+0.4*h.random.Float64())), func() { h.complete(r) })
	}
}

// ends is when so much work is done, at a speed that changes.
func (h *host) ends(work float64) float64 {
	const step = 0.001
	at := h.now
	for {
		speed := h.speed(at)
		if work <= speed*step {
			if speed > 0 {
				return at + work/speed
			}
		}
		work -= speed * step
		at += step
	}
}

func (h *host) complete(r *request) {
	h.free++
	h.used--
	h.done++
	if h.used == 0 {
		h.busy += time.Duration((h.now - h.idleAt) * 1e9)
	}
	t := r.of
	t.latency[bucketOf(time.Duration((h.now-r.sent)*1e9))]++
	t.outstanding--
	t.lastSeen = h.now
	if t.outstanding == 0 {
		t.stalled += h.now - t.stalledSince
	}
	if t.period == 0 {
		h.send(t)
	}
	h.serve()
	h.dispatch()
}

// bucketOf is the kernel's bucket: a quarter of an octave.
func bucketOf(d time.Duration) time.Duration {
	if d < 1280 {
		return 1280
	}
	octave := time.Duration(1) << (bits.Len64(uint64(d)) - 1)
	return octave + octave/4*((d-octave)/(octave/4)+1)
}

const block = 4096

// read is what the kernel says of a tenant.
func (h *host) read(t *tenant) Reading {
	r := Reading{At: time.Unix(0, 0).Add(time.Duration(h.now * 1e9)), Active: h.fair(h.now)}
	r.Sent.ReadIOs, r.Sent.ReadBytes = t.sent, t.sent*block
	if r.Active {
		r.Service.ReadIOs, r.Service.ReadBytes = t.dispatched, t.dispatched*block
		throttled := t.throttled
		if len(t.queue) > 0 {
			throttled += h.now - t.throttledSince
		}
		r.Service.ThrottledUS = uint64(throttled * 1e6)
		for under, n := range t.latency {
			r.Latency.Read = append(r.Latency.Read, usage.Bucket{Under: under, Count: n})
		}
		active := 0.0
		for _, other := range h.tenants {
			if other.outstanding > 0 || h.now-other.lastSeen < 0.1 {
				active += other.weight
			}
		}
		r.SharePPM = uint64(t.weight / active * 1e6)
	}
	if !t.aio {
		stalled := t.stalled
		if t.outstanding > 0 {
			stalled += h.now - t.stalledSince
		}
		r.Stalled = time.Duration(stalled * 1e9)
	}
	r.Disk.ReadIOs, r.Disk.ReadBytes = h.done, h.done*block
	r.Disk.Busy, r.Disk.InFlight = h.busy, h.used
	if h.used > 0 {
		r.Disk.Busy += time.Duration((h.now - h.idleAt) * 1e9)
	}
	return r
}

// profile is what `isolio measure` finds of the disk.
func (h *host) profile() *profile.Profile {
	l := profile.Load{Name: "randread-4k", Kind: profile.Kind{Random: true, ReadPct: 100, BlockBytes: block}}
	for depth := 1; depth <= 4*h.servers; depth *= 2 {
		rate := float64(min(depth, h.servers)) / h.service
		lat := &profile.Latency{Mean: float64(depth) / rate * 1e6, P99: 1.3 * float64(depth) / rate * 1e6}
		l.Points = append(l.Points, profile.Point{Depth: depth, IOPS: rate, LowIOPS: rate, Read: lat})
	}
	l.KneeDepth = profile.Knee(l.Points)
	return &profile.Profile{Disk: profile.Disk{Identity: "wwid-1"}, Loads: []profile.Load{l}}
}

const (
	kept        = "kept"
	notDemanded = "not demanded"
	// noClaim is either that or Depth: of a tenant that sends little, one request or another may
	// be outstanding at any time.
	noClaim = "no claim"
)

// scenario is a violation, or none, of which the cause is known.
type scenario struct {
	name, want string
	// change makes it of a host on which a tenant with a promise, and others, fill the disk.
	change func(h *host, t *tenant, plan Tenant)
}

var scenarios = []scenario{
	{"asks for more than was promised", kept, func(_ *host, t *tenant, p Tenant) { t.depth = 3 * p.Depth }},
	{"keeps the depth of the plan", kept, func(_ *host, t *tenant, p Tenant) { t.depth = p.Depth + 1 }},
	{"alone, all of the disk", kept, func(h *host, t *tenant, _ Tenant) { h.tenants, t.depth = h.tenants[:1], h.servers }},
	{"idle", notDemanded, func(_ *host, t *tenant, _ Tenant) { t.depth = 0 }},
	{"sends a little", noClaim, func(_ *host, t *tenant, p Tenant) { t.burst, t.period = 1, 4/p.Rule.Read.IOPS }},
	{"bursts, and pauses", notDemanded, func(_ *host, t *tenant, p Tenant) {
		t.burst, t.period = int(p.Rule.Read.IOPS*0.4*0.73), 0.73
	}},
	{"a little, on a disk of half the speed", noClaim, func(h *host, t *tenant, p Tenant) {
		t.burst, t.period = 1, 8/p.Rule.Read.IOPS
		h.speed = func(float64) float64 { return 0.5 }
	}},
	{"half the speed", SlowDisk.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = 2 * p.Depth
		h.speed = func(float64) float64 { return 0.5 }
	}},
	{"three quarters of the speed, with the depth of the plan", SlowDisk.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = p.Depth + 1
		h.speed = func(float64) float64 { return 0.7 }
	}},
	{"pauses, as one that collects garbage", SlowDisk.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = 2 * p.Depth
		h.speed = func(at float64) float64 {
			if at-float64(int(at*5))/5 < 0.08 {
				return 0
			}
			return 1
		}
	}},
	{"stands still for ten seconds", SlowDisk.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = 2 * p.Depth
		h.speed = func(at float64) float64 {
			if int(at)%20 < 10 {
				return 0
			}
			return 0.5
		}
	}},
	{"half the weight", Oversold.String(), func(_ *host, t *tenant, p Tenant) {
		t.depth = 2 * p.Depth
		t.weight /= 2
	}},
	{"twice as many others", Oversold.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = 2 * p.Depth
		for _, other := range h.tenants[1:] {
			more := *other
			h.tenants = append(h.tenants, &more)
		}
	}},
	{"half the depth", TooFewRequests.String(), func(_ *host, t *tenant, p Tenant) { t.depth = max(1, p.Depth/2) }},
	{"a third of the depth", TooFewRequests.String(), func(_ *host, t *tenant, p Tenant) { t.depth = max(1, p.Depth/3) }},
	{"without the scheduler", NoScheduler.String(), func(h *host, t *tenant, p Tenant) {
		t.depth = p.Depth
		h.fair = func(float64) bool { return false }
	}},
}

// play runs a scenario and counts verdicts.
func play(t *testing.T, s scenario, seed uint64, got map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	h := &host{servers: 8 << random.IntN(3), service: 0.008 * (1 + 2*random.Float64()), random: random,
		speed: func(float64) float64 { return 1 }, fair: func(float64) bool { return true }}
	measured := h.profile()
	h.ceiling = int(profile.Ceiling(measured.Loads[0].Points))
	most := float64(h.servers) / h.service
	part := 0.2 + 0.25*random.Float64()
	others := 3 + random.IntN(5)
	sold := rule.Promise{For: rule.Rule{Unit: "a"}, Read: rule.Amount{IOPS: part * most}, BlockBytes: block, Count: 1}
	plan, err := Make(SoldDisk{Name: "sda", Profile: measured}, []rule.Promise{sold}, rule.SLA{ReservePct: 10, BestEffort: others, ShareBy: "time"})
	if err != nil || !plan.Fits {
		t.Fatalf("%+v, %v", plan, err)
	}
	p := plan.Tenants[0]
	one := &tenant{weight: float64(p.Weight), aio: random.IntN(2) == 0}
	h.tenants = []*tenant{one}
	for range others {
		h.tenants = append(h.tenants, &tenant{weight: 100, depth: h.ceiling, aio: true})
	}
	s.change(h, one, p)
	h.start()
	j := NewJudge(TermsOf(sold, measured, &p, plan.Fits))
	at := 2.0
	for range 44 {
		h.run(at)
		j.Next(h.read(one))
		for _, v := range j.Settled() {
			got[word(v)]++
		}
		at += 0.95 + 0.1*random.Float64()
	}
	for _, v := range j.Close() {
		got[word(v)]++
	}
}

func word(v Verdict) string {
	switch {
	case !v.Demanded:
		return notDemanded
	case v.Kept:
		return kept
	}
	return v.Cause.String()
}

// Every violation is attributed to its cause, in 95 of 100 intervals and more, and what
// is none is taken for none.
func TestConfusion(t *testing.T) {
	columns := append([]string{notDemanded, kept}, causes[:]...)
	matrix := map[string]map[string]int{}
	for _, s := range scenarios {
		got := map[string]int{}
		for seed := range uint64(5) {
			play(t, s, seed, got)
		}
		if matrix[s.want] == nil {
			matrix[s.want] = map[string]int{}
		}
		all := 0
		for word, n := range got {
			matrix[s.want][word] += n
			all += n
		}
		right := got[s.want]
		if s.want == noClaim {
			right = got[notDemanded] + got[TooFewRequests.String()]
		}
		if right*100 < all*95 {
			t.Errorf("%s: %d of %d are %q: %v", s.name, right, all, s.want, got)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", "is, found:")
	for _, c := range columns {
		fmt.Fprintf(&b, "%14s", c)
	}
	for _, is := range append([]string{noClaim}, columns...) {
		if matrix[is] == nil {
			continue
		}
		fmt.Fprintf(&b, "\n%-14s", is)
		for _, c := range columns {
			fmt.Fprintf(&b, "%14d", matrix[is][c])
		}
	}
	t.Logf("\n%s", b.String())
}
