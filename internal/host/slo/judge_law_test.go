// SPDX-License-Identifier: MIT

package slo

import (
	"math"
	"math/rand/v2"
	"testing"

	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
)

// loop is the account and the law around a simulated disk.
type loop struct {
	*host
	one    *tenant
	base   int
	judge  *Judge
	law    *Law
	plan   Tenant
	raises int
	random *rand.Rand
}

func newLoop(t *testing.T, seed uint64, most float64) *loop {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	h := &host{servers: 8 << random.IntN(2), service: 0.008 * (1 + 2*random.Float64()), random: random,
		speed: func(float64) float64 { return 1 }, fair: func(float64) bool { return true }}
	measured := h.profile()
	h.ceiling = int(profile.Ceiling(measured.Loads[0].Points))
	others := 3 + random.IntN(5)
	sold := rule.Promise{For: rule.Rule{Unit: "a"}, Read: rule.Amount{IOPS: (0.15 + 0.15*random.Float64()) * float64(h.servers) / h.service}, BlockBytes: block, Count: 1}
	plan, err := Make(SoldDisk{Name: "sda", Profile: measured}, []rule.Promise{sold}, rule.SLA{ReservePct: 10, BestEffort: others, ShareBy: "time"})
	if err != nil || !plan.Fits {
		t.Fatalf("%+v, %v", plan, err)
	}
	l := &loop{host: h, plan: plan.Tenants[0], base: plan.Tenants[0].Weight, law: NewLaw(most, 1), random: random}
	l.one = &tenant{weight: float64(l.base), depth: 4 * l.plan.Depth}
	l.tenants = []*tenant{l.one}
	for range others {
		l.tenants = append(l.tenants, &tenant{weight: 100, depth: h.ceiling, aio: true})
	}
	l.judge = NewJudge(TermsOf(sold, measured, &l.plan, plan.Fits))
	return l
}

// seconds goes on, and counts what was demanded and kept.
func (l *loop) seconds(n int) (demanded, kept int) {
	for range n {
		l.run(l.now + 0.95 + 0.1*l.random.Float64())
		v, ok := l.judge.Next(l.read(l.one))
		if !ok {
			continue
		}
		if v.Demanded {
			demanded++
		}
		if v.Kept {
			kept++
		}
		m := l.judge.Measured()
		s := LawSample{
			Asked: v.Demanded, Missed: v.Demanded && !v.Kept && (v.Cause == SlowDisk || v.Cause == Oversold),
			Throttled: m.Waited, Attained: m.Attained, Share: m.Share, Need: m.Need,
		}
		if l.law.Next(s) == Raised {
			l.raises++
		}
		l.one.weight = float64(state.Boosted(l.base, l.law.Factor(), 6, 10000))
	}
	return demanded, kept
}

// With the account's own figures the law holds a promise on a disk of 0.6 of its speed, and lets go when the
// disk has recovered.
func TestHold(t *testing.T) {
	for seed := range uint64(3) {
		l := newLoop(t, seed, 6)
		l.start()
		l.seconds(10)
		if l.raises > 0 {
			t.Errorf("seed %d: factor %.2f on a disk as planned", seed, l.law.Factor())
		}
		l.speed = func(float64) float64 { return 0.6 }
		l.seconds(15)
		held := l.law.Factor()
		if demanded, kept := l.seconds(60); demanded < 55 || kept < demanded*95/100 {
			t.Errorf("seed %d: %d of %d s kept, factor %.2f", seed, kept, demanded, l.law.Factor())
		}
		if now := l.law.Factor(); held < 1.3 || math.Abs(now/held-1) > 0.25 {
			t.Errorf("seed %d: factor %.2f, and %.2f a minute later", seed, held, now)
		}
		l.speed = func(float64) float64 { return 1 }
		l.seconds(140)
		if now := l.law.Factor(); now > 1.12 {
			t.Errorf("seed %d: factor %.2f, raised to %.2f, two minutes after the disk recovered", seed, now, held)
		}
	}
}

// A tenant that keeps half of the plan's depth is not raised for it, on a disk as planned.
func TestHoldIsNotForDepth(t *testing.T) {
	for seed := range uint64(3) {
		l := newLoop(t, seed, 6)
		l.one.depth = max(1, l.plan.Depth/2)
		l.start()
		l.seconds(60)
		if l.raises > 0 {
			t.Errorf("seed %d: raised %d times, to %.2f", seed, l.raises, l.law.Factor())
		}
	}
}
