// SPDX-License-Identifier: MIT

package slo

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/must"
)

// loadOf is a load of a disk that takes alone for a request and completes most a second.
func loadOf(name string, random bool, readPct, block int, alone, most float64) profile.Load {
	l := profile.Load{Name: name, Kind: profile.Kind{Random: random, ReadPct: readPct, BlockBytes: block}}
	for depth := 1; depth <= 256; depth *= 2 {
		rate := min(float64(depth)/alone, most)
		lat := &profile.Latency{Mean: float64(depth) / rate * 1e6, P99: 1.5 * float64(depth) / rate * 1e6}
		p := profile.Point{Depth: depth, IOPS: rate, LowIOPS: rate}
		if readPct > 0 {
			p.Read = lat
		}
		if readPct < 100 {
			p.Write = lat
		}
		l.Points = append(l.Points, p)
	}
	l.KneeDepth = profile.Knee(l.Points)
	return l
}

// ssd reads 100,000 times a second and 500 MB/s, and writes 20,000 times and 200 MB/s.
// Reads are full at depth 16 (100 us alone), writes at 2.
func ssd() *profile.Profile {
	return &profile.Profile{Disk: profile.Disk{Identity: "wwid-1"}, Loads: []profile.Load{
		loadOf("randread-4k", true, 100, 4096, 100e-6, 100000),
		loadOf("read-128k", false, 100, 128<<10, 300e-6, 500e6/(128<<10)),
		loadOf("randwrite-4k", true, 0, 4096, 50e-6, 20000),
		loadOf("write-128k", false, 0, 128<<10, 700e-6, 200e6/(128<<10)),
	}}
}

func readsOnly() *profile.Profile {
	p := ssd()
	p.Loads = p.Loads[:2]
	return p
}

func to(name string, read, write float64) rule.Promise {
	return rule.Promise{For: rule.Rule{Name: name}, Line: 1, Read: rule.Amount{IOPS: read}, Write: rule.Amount{IOPS: write}, BlockBytes: 4096, Count: 1}
}

// Worked: of 100,000 reads, 30,000 are 30 % of the disk; 2,000 of 20,000 writes 10 %. On a disk that
// serves 90 % of that they are 1/3 and 1/9. Beside ten cgroups of weight 100, which have the other 5/9, the
// weights are 600 and 200.
func TestMake(t *testing.T) {
	p, err := Make(SoldDisk{"sda", ssd()}, []rule.Promise{to("a", 30000, 0), to("b", 0, 2000)}, rule.DefaultSLA)
	must.OK(t, err)
	if !p.Fits || math.Abs(p.PromisedPct-40) > 1e-6 || math.Abs(p.LeftPct-50) > 1e-6 || p.ReservePct != 10 || p.Interference != 1 {
		t.Errorf("%+v", p)
	}
	a, b := p.Tenants[0], p.Tenants[1]
	if a.Weight != 600 || b.Weight != 200 || math.Abs(a.Share-1/3.0) > 1e-9 || math.Abs(b.Share-1/9.0) > 1e-9 || math.Abs(p.MarginPct-10) > 1e-9 {
		t.Errorf("%+v\n%+v", a, b)
	}
	// Reads are full at 16 in flight, writes at 1, but the scheduler lets 32 be. 30 % of them are 9.6, on a disk of
	// 90 % of its speed 10.7; 10 % are 3.2, and 3.6.
	if a.Depth != 11 || b.Depth != 4 {
		t.Errorf("depths %d and %d", a.Depth, b.Depth)
	}
	if p.MinTotalPct != 100 {
		t.Errorf("min_total_pct %d", p.MinTotalPct)
	}
	if want := "30000 IOPS of reads, random, 4 KiB: 30.00 % of the disk's time each; weight 600 of 1800"; a.Why != want {
		t.Errorf("why: %q, want %q", a.Why, want)
	}
	if p.CostModel != "rbps=500000000 riops=100000 wbps=200000000 wiops=20000" {
		t.Errorf("cost_model %q", p.CostModel)
	}
	want := []Room{
		{"random reads of 4 KiB", 50000, 50000 * 4096}, {"sequential reads of 128 KiB", 1907, 249999999},
		{"random writes of 4 KiB", 10000, 10000 * 4096}, {"sequential writes of 128 KiB", 762, 99999999},
	}
	for i, r := range p.Room {
		if r.Kind != want[i].Kind || math.Abs(r.IOPS-want[i].IOPS) > 1 || math.Abs(r.BytesPS-want[i].BytesPS) > 2 {
			t.Errorf("room %+v, want %+v", r, want[i])
		}
	}
}

// More than there is together is refused, and what to drop is said.
func TestOversold(t *testing.T) {
	for _, c := range []struct {
		promises []rule.Promise
		promised float64
		drop     string
	}{
		{[]rule.Promise{to("a", 50000, 0), to("b", 30000, 0), to("c", 15000, 0)}, 95, "name c (line 1)"},
		{[]rule.Promise{to("a", 50000, 0), to("b", 48000, 0), to("c", 5000, 0)}, 103, "name b (line 1)"},
		{[]rule.Promise{to("a", 40000, 0), to("b", 40000, 0), to("c", 40000, 0), to("d", 50000, 0), to("e", 41000, 0)}, 211, "name d (line 1), name e (line 1), name c (line 1)"},
		{[]rule.Promise{to("a", 60000, 0), {For: rule.Rule{Unit: "x"}, Read: rule.Amount{IOPS: 20000}, BlockBytes: 4096, Count: 2}}, 100, "unit x (--what-if)"},
	} {
		p, err := Make(SoldDisk{"sda", ssd()}, c.promises, rule.DefaultSLA)
		must.OK(t, err)
		if p.Fits || math.Abs(p.PromisedPct-c.promised) > 1e-6 || math.Abs(p.LeftPct-(90-c.promised)) > 1e-6 || strings.Join(p.Drop, ", ") != c.drop {
			t.Errorf("%+v, want %.0f %%, drop %s", p, c.promised, c.drop)
		}
		if want := fmt.Sprintf("%.1f %% of the disk is promised, and at most 90.0 %% can be", c.promised); p.Problem != want {
			t.Errorf("%q, want %q", p.Problem, want)
		}
		// Without those it fits.
		var rest []rule.Promise
		for _, r := range c.promises {
			if !strings.Contains(c.drop, r.Selector()) {
				rest = append(rest, r)
			}
		}
		if p, err := Make(SoldDisk{"sda", ssd()}, rest, rule.DefaultSLA); err != nil || !p.Fits {
			t.Errorf("without %s: %+v, %v", c.drop, p, err)
		}
	}
}

// What one promise alone is too much for is an error, with the largest value that fits.
func TestMakeRefuses(t *testing.T) {
	with := func(p rule.Promise, change func(*rule.Promise)) rule.Promise { change(&p); return p }
	for _, c := range []struct {
		name     string
		profile  *profile.Profile
		promises []rule.Promise
		want     string
	}{
		{"reads", ssd(), []rule.Promise{to("a", 200000, 0)}, "read: 200000 IOPS is more than sda has; allowed: up to 90000 IOPS"},
		{"beside others", ssd(), []rule.Promise{to("b", 30000, 0), to("a", 200000, 0)}, "read: 200000 IOPS is more than sda has; allowed: up to 90000 IOPS, and 60000 IOPS with the other promises"},
		{"reads beside its own writes", ssd(), []rule.Promise{to("a", 95000, 10000)}, "read: 95000 IOPS is more than sda has; allowed: up to 40000 IOPS"},
		{"writes beside its own reads", ssd(), []rule.Promise{to("a", 30000, 19000)}, "write: 19000 IOPS is more than sda has; allowed: up to 12000 IOPS"},
		{"each of three", ssd(), []rule.Promise{with(to("a", 50000, 0), func(p *rule.Promise) { p.Count = 3 })}, "read: 50000 IOPS is more than sda has; allowed: up to 30000 IOPS, for each of 3"},
		{
			"bytes", ssd(),
			[]rule.Promise{with(to("a", 0, 0), func(p *rule.Promise) {
				p.Write, p.BlockBytes, p.Sequential = rule.Amount{BytesPS: 1 << 30}, 128<<10, true
			})},
			"write: 1024 MiB/s is more than sda has; allowed: up to 171 MiB/s",
		},
		{"latency", ssd(), []rule.Promise{with(to("a", 10, 0), func(p *rule.Promise) { p.P99 = 100 * time.Microsecond })}, "p99: 100µs is less than sda keeps while it is shared; allowed: 640µs or more"},
		{"writes that were not measured", readsOnly(), []rule.Promise{to("a", 0, 5)}, "write: the profile of sda has no random writes; allowed: none before `isolio measure sda --allow-writes`, on a disk that nothing uses"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Make(SoldDisk{"sda", c.profile}, c.promises, rule.DefaultSLA)
			var e *PlanError
			if !errors.As(err, &e) || err.Error() != c.want {
				t.Fatalf("%+v, %v\nwant %s", p, err, c.want)
			}
			if c.name == "latency" { // what is allowed is allowed
				c.promises[0].P99 = 640 * time.Microsecond
				if p, err := Make(SoldDisk{"sda", c.profile}, c.promises, rule.DefaultSLA); err != nil || p.Tenants[0].Bound > 0.64 {
					t.Errorf("%+v, %v", p, err)
				}
			}
		})
	}
}

// Where bytes are shared, a cgroup that writes at random takes the disk far more time
// for what it is charged; weights that make up for that there are not.
func TestShareByBytes(t *testing.T) {
	sla := rule.SLA{ReservePct: 10, BestEffort: 10, ShareBy: "bytes"}
	reader := rule.Promise{For: rule.Rule{Name: "a"}, Line: 1, Read: rule.Amount{BytesPS: 400e6}, BlockBytes: 128 << 10, Sequential: true, Count: 1}
	p, err := Make(SoldDisk{"sda", ssd()}, []rule.Promise{reader}, sla)
	if err != nil || p.Fits || !strings.HasPrefix(p.Problem, "weights above 10000 would be needed beside 10 cgroups of weight 100; what they send can take") {
		t.Errorf("%+v, %v", p, err)
	}
	sla.ShareBy = "time"
	if p, err = Make(SoldDisk{"sda", ssd()}, []rule.Promise{reader}, sla); err != nil || !p.Fits {
		t.Errorf("%+v, %v", p, err)
	}
}

// A mix that takes longer than its parts is in what every promise uses.
func TestPromiseInterference(t *testing.T) {
	p := ssd()
	p.Loads = append(p.Loads, loadOf("mix70-4k", true, 70, 4096, 100e-6, 1/(1.2*(0.7/100000+0.3/20000))))
	plan, err := Make(SoldDisk{"sda", p}, []rule.Promise{to("a", 30000, 0)}, rule.DefaultSLA)
	if err != nil || math.Abs(plan.Interference-1.2) > 1e-6 || math.Abs(plan.PromisedPct-36) > 1e-6 || len(plan.Notes) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
}

// anyPromises are promises that may or may not fit.
func anyPromises(r *rand.Rand) []rule.Promise {
	var all []rule.Promise
	for i := range 1 + r.IntN(8) {
		p := rule.Promise{For: rule.Rule{Name: fmt.Sprint("t", i)}, Line: i + 1, BlockBytes: 4096 << r.IntN(7), Sequential: r.IntN(2) == 0, Count: 1 + r.IntN(3)*r.IntN(2)}
		if r.IntN(3) > 0 {
			p.Read.IOPS = math.Exp(r.Float64()*8) * 4096 / float64(p.BlockBytes) * 5
		}
		if r.IntN(3) == 0 || p.Read.IOPS == 0 {
			p.Write.BytesPS = math.Exp(10 + 6*r.Float64())
		}
		all = append(all, p)
	}
	return all
}

// A plan that fits keeps every promise, by a scheduler that only knows charges and
// weights and a disk that only knows times: while all cgroups without a promise send what
// takes the disk most for a charge, and while any of the cgroups are idle.
func TestPlansKeepPromises(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	fit := 0
	for range 3000 {
		measured := ssd()
		if r.IntN(2) == 0 {
			measured.Loads = append(measured.Loads, loadOf("mix70-4k", true, 70, 4096, 100e-6, 30000))
		}
		sla := rule.SLA{ReservePct: float64(r.IntN(30)), BestEffort: r.IntN(40), ShareBy: []string{"bytes", "iops", "time"}[r.IntN(3)]}
		p, err := Make(SoldDisk{"sda", measured}, anyPromises(r), sla)
		if err != nil || !p.Fits {
			continue
		}
		fit++
		c := newCosts(measured, sla.ShareBy)
		for _, x := range p.Tenants {
			c.dearest = max(c.dearest, timeOf(t, c, x.Rule)/x.charge)
		}
		others := float64(p.Others.Weight)
		for range 4 {
			active := make([]bool, len(p.Tenants))
			for i := range active {
				active[i] = r.IntN(4) > 0
			}
			keeps(t, p, c, active, others)
			others = math.Floor(others * r.Float64())
		}
		minimal(t, p, c)
		depths(t, p, measured)
	}
	if fit < 300 {
		t.Errorf("only %d of the plans fit", fit)
	}
}

// timeOf is the disk's time for a second's worth of a promise.
func timeOf(t *testing.T, c costs, r rule.Promise) float64 {
	t.Helper()
	read, _ := c.time(!r.Sequential, false, r.BlockBytes)
	write, _ := c.time(!r.Sequential, true, r.BlockBytes)
	return r.Read.RequestsPS(r.BlockBytes)*read + r.Write.RequestsPS(r.BlockBytes)*write
}

// keeps checks that each active tenant that always asks for more gets what it was promised.
func keeps(t *testing.T, p *Plan, c costs, active []bool, others float64) {
	t.Helper()
	weights := others
	busy := others * c.dearest // disk's time for each charge and weight
	for i, x := range p.Tenants {
		if active[i] {
			weights += float64(x.Weight * x.Count)
			busy += float64(x.Weight*x.Count) * timeOf(t, c, x.Rule) / x.charge
		}
	}
	perWeight := (1 - p.MarginPct/100) / busy // charges a second, on the slowest disk that the plan counts on
	for i, x := range p.Tenants {
		if got := perWeight * float64(x.Weight) / x.charge; active[i] && got < 1-1e-9 {
			t.Fatalf("%s has %.4f of its promise with weight %d of %.0f: %+v", x.For, got, x.Weight, weights, p)
		}
	}
}

// minimal checks that weights reproduce shares: no weight could be one less, and each share
// is what is needed or more.
func minimal(t *testing.T, p *Plan, c costs) {
	t.Helper()
	charged, sum := 0.0, p.Others.Weight
	for _, x := range p.Tenants {
		charged += x.charge * float64(x.Count)
		sum += x.Weight * x.Count
	}
	all := (charged + (1-p.PromisedPct/100)/c.dearest) * (1 - p.MarginPct/100)
	total := p.Others.Share
	for _, x := range p.Tenants {
		need := x.charge / all
		total += x.Share * float64(x.Count)
		if x.Weight < 1 || x.Weight > MaxWeight || x.Share < need-1e-9 || math.Abs(x.Share-float64(x.Weight)/float64(sum)) > 1e-9 {
			t.Fatalf("%s needs %g: %+v", x.For, need, p)
		}
		if x.Weight > 1 && float64(x.Weight-1)/float64(sum-1) >= need+1e-9 {
			t.Fatalf("%s: weight %d is more than it needs for %g: %+v", x.For, x.Weight, need, p)
		}
	}
	if math.Abs(total-1) > 1e-9 {
		t.Fatalf("shares are %g together: %+v", total, p)
	}
}

// depths checks by Little's law that a tenant that keeps its depth has its rate while the scheduler fills the disk
// up to its ceiling.
func depths(t *testing.T, p *Plan, measured *profile.Profile) {
	t.Helper()
	for _, x := range p.Tenants {
		need := 0.0
		for _, part := range []struct {
			pct  int
			rate float64
		}{{100, x.Rule.Read.RequestsPS(x.Rule.BlockBytes)}, {0, x.Rule.Write.RequestsPS(x.Rule.BlockBytes)}} {
			if part.rate > 0 {
				seconds, _ := measured.RequestTime(!x.Rule.Sequential, part.pct, x.Rule.BlockBytes)
				l := measured.Nearest(!x.Rule.Sequential, part.pct, x.Rule.BlockBytes)
				inFlight := max(float64(l.Full().Depth), profile.Ceiling(l.Points))
				need += part.rate * seconds * p.Interference * inFlight / (1 - p.MarginPct/100)
			}
		}
		if float64(x.Depth) < need-1e-6 || float64(x.Depth) > need+1+1e-6 {
			t.Fatalf("%s: depth %d, by Little's law %g: %+v", x.For, x.Depth, need, p)
		}
	}
}

// awaited is what kf_clock_is_awaited() says of a cgroup that was not, where all could do more than their shares.
func awaited(outstanding, share, product float64, minTotalPct int) bool {
	return outstanding >= 1.25*share*product*float64(minTotalPct)/100
}

// The others wait for a tenant that keeps its depth, also if its share of the requests is twice its share of the
// disk, as next to writes. They do not wait for one that keeps less than its share of the product.
func TestMinTotalPct(t *testing.T) {
	for _, c := range []struct{ alone, most float64 }{
		{100e-6, 100000}, // the product is 10, the ceiling 32
		{100e-6, 400000}, // 40, and 120: three times the product
		{200e-6, 5000},   // 1, and 32
	} {
		measured := &profile.Profile{Loads: []profile.Load{loadOf("randread-4k", true, 100, 4096, c.alone, c.most)}}
		p, err := Make(SoldDisk{"sda", measured}, []rule.Promise{to("a", c.most/4, 0)}, rule.DefaultSLA)
		must.OK(t, err)
		product := c.alone * c.most
		share := p.Tenants[0].Share
		if depth := p.Tenants[0].Depth; !awaited(float64(depth), 2*share, product, p.MinTotalPct) {
			t.Errorf("product %g: the others do not wait for a tenant that keeps %d outstanding", product, depth)
		}
		if awaited(0.99*share*product, share, product, p.MinTotalPct) {
			t.Errorf("product %g: the others wait for a tenant that could not have its share of an empty disk", product)
		}
	}
}

// The margin is the reserve. Where nearly all of the disk is sold, cgroups without a promise keep half of the
// reserve, and where weights end, as much of it as they allow.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		promised         float64
		count, others    int
		reserve          float64
		least, most      float64 // margin
		leastShareOthers float64
	}{
		{30000, 1, 10, 10, 10, 10, 0.6},
		{20000, 4, 10, 10, 10, 10, 0.1},
		{10000, 9, 10, 10, 5.2, 5.3, 0.049}, // 1 - 0.9 / 0.95
		{90000, 1, 10, 10, 0, 1, 0.09},      // of weight 10000 beside 1000
		{30000, 1, 10, 0, 0, 0, 0.69},
	} {
		promised := to("a", c.promised, 0)
		promised.Count = c.count
		p, err := Make(SoldDisk{"sda", ssd()}, []rule.Promise{promised}, rule.SLA{ReservePct: c.reserve, BestEffort: c.others, ShareBy: "time"})
		if err != nil || !p.Fits || p.MarginPct < c.least-1e-9 || p.MarginPct > c.most+1e-9 || p.Others.Share < c.leastShareOthers {
			t.Errorf("%g to %d: %+v, %v", c.promised, c.count, p, err)
		}
	}
}

// The weights work in a fair queue on a disk that serves one request at a time: the one
// whose charges over weight are least goes next.
func TestWeightsInAQueue(t *testing.T) {
	for _, shareBy := range []string{"bytes", "iops", "time"} {
		sla := rule.SLA{ReservePct: 10, BestEffort: 2, ShareBy: shareBy}
		p, err := Make(SoldDisk{"sda", ssd()}, []rule.Promise{to("a", 10000, 0), to("b", 0, 1000), to("c", 20000, 2000)}, sla)
		if err != nil || !p.Fits {
			t.Fatalf("%s: %+v, %v", shareBy, p, err)
		}
		c := newCosts(ssd(), shareBy)
		type queue struct {
			weight, charge, seconds, promised, served, virtual float64
		}
		var queues []*queue
		for _, x := range p.Tenants { // a request of each: so much of a second's worth
			queues = append(queues, &queue{float64(x.Weight), x.charge / 1000, timeOf(t, c, x.Rule) / 1000, 1000, 0, 0})
		}
		write, _ := c.time(true, true, 4096)
		for range sla.BestEffort {
			queues = append(queues, &queue{100, c.charge(true, 4096), write, 0, 0, 0})
		}
		clock := 0.0
		for clock < 20 {
			next := queues[0]
			for _, q := range queues {
				if q.virtual < next.virtual {
					next = q
				}
			}
			next.virtual += next.charge / next.weight
			next.served++
			clock += next.seconds
		}
		for i, q := range queues {
			if got := q.served / clock; got < q.promised*0.999 {
				t.Errorf("%s: tenant %d has %.1f a second, promised %.0f", shareBy, i, got, q.promised)
			}
		}
	}
}
