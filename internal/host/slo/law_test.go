// SPDX-License-Identifier: MIT

package slo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"isolio/internal/host/state"
)

// holder is a tenant of the model: its weight, what it was promised and sends at most, in parts of the
// disk at full speed.
type holder struct {
	base, promise, sends float64
	law                  *Law
	behind               float64
	// Of the present interval, and counts.
	rate, share              float64
	missed, raises, lowers   int
	missedLate, changesLater int
}

func (h *holder) weight() float64 {
	return float64(state.Boosted(int(h.base), h.law.factor, h.law.most, 10000))
}

// world is a disk that is shared by weight: each tenant gets what it sends, or its share of
// what the others leave.
type world struct {
	speed   float64
	noise   float64
	holders []*holder
	// others have no promise: weight, and what they send at most.
	others [][2]float64
	random *rand.Rand
}

// fill shares what the disk serves: max-min fairness by weight.
func fill(total float64, weights, sends []float64) []float64 {
	got := make([]float64, len(weights))
	open := make([]bool, len(weights)) // it takes all that it is given
	for i := range weights {
		open[i] = sends[i] > 0
	}
	for {
		sum := 0.0
		for i, w := range weights {
			if open[i] {
				sum += w
			}
		}
		rest, done := total, true
		for i, w := range weights {
			if open[i] && sends[i] <= total*w/sum {
				got[i], open[i], done = sends[i], false, false
				rest -= sends[i]
			}
		}
		if done {
			for i, w := range weights {
				if open[i] {
					got[i] = total * w / sum
				}
			}
			return got
		}
		total = max(0, rest)
	}
}

// step is one interval. late counts what happens from then on.
func (w *world) step(t *testing.T, late bool) {
	t.Helper()
	var weights, sends []float64
	sum, sumBase, others := 0.0, 0.0, 0.0
	for _, h := range w.holders {
		weights, sends = append(weights, h.weight()), append(sends, h.sends)
		if h.sends > 0 {
			sum += h.weight()
			sumBase += h.base
		}
	}
	for _, o := range w.others {
		weights, sends = append(weights, o[0]), append(sends, o[1])
		if o[1] > 0 {
			others += o[0]
		}
	}
	wobble := func() float64 { return 1 + w.noise*(2*w.random.Float64()-1) }
	got := fill(w.speed*wobble(), weights, sends)
	total := 0.0
	for _, g := range got {
		total += g
	}
	most := 1.0
	for _, h := range w.holders {
		most = max(most, h.law.most)
	}
	// What a cgroup of weight 1 is entitled to, against what it would be by the tenants' own weights.
	if now, own := 1/(sum+others+1), 1/(sumBase+others+1); now < own/most*(1-1e-9) {
		t.Fatalf("another cgroup is entitled to %.4f of its own share, bound 1/%g", now/own, most)
	}
	for i, h := range w.holders {
		if h.law.factor < 1 || h.law.factor > h.law.most {
			t.Fatalf("factor %g, at most %g", h.law.factor, h.law.most)
		}
		s := LawSample{Asked: h.sends >= h.promise || got[i] < h.sends*0.999 && h.sends > 0, Throttled: got[i] < h.sends*0.999}
		got[i] *= wobble()
		h.rate = got[i]
		if s.Attained = got[i] / h.promise; h.sends > 0 {
			s.Share = weights[i] / (sum + others)
		}
		h.share = s.Share
		if total > 0 {
			s.Need = h.promise / total * wobble()
		}
		if h.behind = max(0, h.behind+1-min(2, s.Attained)); s.Asked && h.behind > 0.05 {
			s.Missed = s.Throttled && total > 0
			h.missed++
			if late {
				h.missedLate++
			}
			h.behind = 0
		}
		if !s.Asked {
			h.behind = 0
		}
		switch h.law.Next(s) {
		case Raised:
			h.raises++
			if late {
				h.changesLater++
			}
		case Lowered:
			h.lowers++
			if late {
				h.changesLater++
			}
		case Unchanged:
		}
	}
}

// suffices is the least factors that keep all promises with the margin, by iterating to the fixed point;
// the most where there are none.
func (w *world) suffices(margin float64) (factors []float64, within bool) {
	factors = make([]float64, len(w.holders))
	for i := range factors {
		factors[i] = 1
	}
	within = true
	for range 10000 {
		for i, h := range w.holders {
			rest := 0.0
			for k, other := range w.holders {
				if k != i {
					rest += other.base * factors[k]
				}
			}
			for _, o := range w.others {
				rest += o[0]
			}
			factors[i] = min(h.law.most, max(factors[i], rest/h.base*odds(min(h.promise/w.speed*(1+margin), 1))))
		}
	}
	for i, h := range w.holders {
		within = within && factors[i] < h.law.most*0.999
	}
	return factors, within
}

func randomWorld(r *rand.Rand) *world {
	w := &world{speed: 1, noise: 0.02 * r.Float64(), random: r}
	left := 0.85
	sum := 0.0
	most := 1.5 + 6*r.Float64()
	for range 1 + r.IntN(3) {
		p := left * (0.1 + 0.4*r.Float64())
		left -= p
		w.holders = append(w.holders, &holder{promise: p, sends: 1 + r.Float64(), law: NewLaw(most, 1)})
		sum += p
	}
	nr := 1 + r.IntN(9)
	for range nr {
		w.others = append(w.others, [2]float64{100, 1})
	}
	// Weights as a plan has them: each tenant's share is its promise and a little more.
	for _, h := range w.holders {
		h.base = math.Ceil(100 * float64(nr) * h.promise * 1.03 / (1 - 1.03*sum))
	}
	return w
}

// Whatever the disk, its tenants and the noise are: in a constant environment each promise is
// kept in the end where the bound allows it, with few changes, and no cgroup is starved on the way.
func TestConverges(t *testing.T) {
	slow, bound := 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(25, seed))
		w := randomWorld(r)
		for range 60 {
			w.step(t, false)
		}
		for _, h := range w.holders {
			if h.law.factor > 1.15 {
				t.Errorf("seed %d: factor %.2f on a disk as planned", seed, h.law.factor)
			}
		}
		w.speed = 0.3 + 0.65*r.Float64()
		_, possible := w.suffices(3 * margin)
		never, _ := w.suffices(-2 * margin)
		for range 120 {
			w.step(t, false)
		}
		const later = 7200
		for range later {
			w.step(t, true)
		}
		for i, h := range w.holders {
			what := fmt.Sprintf("seed %d, tenant %d of %d, speed %.2f, promise %.2f, most %.2f", seed, i, len(w.holders), w.speed, h.promise, h.law.most)
			// Without noise these are mistaken probes, after 300, 600, 1200 s and so on, and mistaken evidence, after
			// 30, 60 and so on, of two changes each. Where noise decides whether the weight suffices there are more.
			if h.changesLater > later/180 {
				t.Errorf("%s: %d changes in %d s, factor %.2f", what, h.changesLater, later, h.law.factor)
			}
			switch {
			case possible:
				slow++
				if h.missedLate*1000 > 6*later {
					t.Errorf("%s: missed %d of %d s, factor %.2f", what, h.missedLate, later, h.law.factor)
				}
			case never[i] >= h.law.most:
				bound++
				if h.law.factor < h.law.most*0.7 {
					t.Errorf("%s: factor %.2f, and more would be needed", what, h.law.factor)
				}
			}
		}
	}
	if slow < 40 || bound < 20 {
		t.Errorf("%d tenants could be held, %d not: the cases are too much alike", slow, bound)
	}
}

// When the disk has recovered, weights go back to what they were, all the way.
func TestGoesBack(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(26, seed))
		w := randomWorld(r)
		w.speed = 0.4 + 0.3*r.Float64()
		for range 600 {
			w.step(t, false)
		}
		raised := false
		for _, h := range w.holders {
			raised = raised || h.law.factor > 1.2
		}
		if !raised {
			t.Errorf("seed %d: no weight was raised on a disk of speed %.2f", seed, w.speed)
		}
		w.speed = 1.02
		for range 1800 {
			w.step(t, false)
		}
		for i, h := range w.holders {
			if h.law.factor > 1.15 {
				t.Errorf("seed %d, tenant %d: factor %.2f half an hour after the disk recovered", seed, i, h.law.factor)
			}
		}
	}
}

// A tenant that does not ask loses what was raised within a quiet time.
func TestGoesBackWhenIdle(t *testing.T) {
	w := randomWorld(rand.New(rand.NewPCG(27, 1)))
	w.speed = 0.5
	for range 100 {
		w.step(t, false)
	}
	h := w.holders[0]
	if h.law.factor < 1.2 {
		t.Fatalf("factor %.2f", h.law.factor)
	}
	h.sends = 0
	for range 2*quiet + 2 {
		w.step(t, false)
	}
	if h.law.factor != 1 {
		t.Errorf("factor %.2f of an idle tenant", h.law.factor)
	}
}

// One that sends too little to get what it was promised has no weight raised for it.
func TestTooLittle(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(28, seed))
		w := randomWorld(r)
		w.holders = w.holders[:1]
		h := w.holders[0]
		// Half of the promise, whatever the speed: of its share it leaves a part.
		h.sends, w.speed = h.promise*(0.2+0.4*r.Float64()), 0.7+0.3*r.Float64()
		for range 1000 {
			w.step(t, false)
		}
		if h.raises > 0 {
			t.Errorf("seed %d: %d raises for a tenant that sends %.2f of its promise", seed, h.raises, h.sends/h.promise)
		}
	}
}

// On a disk that is slower than all promises together, tenants are to one another as their own weights
// are, and the others keep their part by the bound.
func TestAllAtTheBound(t *testing.T) {
	w := &world{speed: 0.3, random: rand.New(rand.NewPCG(29, 1))}
	for _, p := range []float64{0.2, 0.4} {
		w.holders = append(w.holders, &holder{promise: p, sends: 2, base: 1000 * p, law: NewLaw(4, 1)})
	}
	w.others = [][2]float64{{400, 1}}
	for range 3000 {
		w.step(t, false)
	}
	a, b := w.holders[0], w.holders[1]
	if a.law.factor != 4 || b.law.factor != 4 || math.Abs(b.rate/a.rate-2) > 1e-9 || a.lowers+b.lowers > 0 {
		t.Errorf("factors %g and %g, rates %g and %g, %d lowered", a.law.factor, b.law.factor, a.rate, b.rate, a.lowers+b.lowers)
	}
	if part := 0.3 - a.rate - b.rate; part < 0.3*400/1000/4 {
		t.Errorf("%g is left to the others", part)
	}
}

// A disk that collects garbage, for seconds at a time, every few seconds: the weight is what those need,
// and is not written each time.
func TestSteadyUnderPauses(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(30, seed))
		w := randomWorld(r)
		for _, h := range w.holders {
			h.law = NewLaw(6, 1)
		}
		period, lasts := 4+r.IntN(20), 1+r.IntN(3)
		for at := range 3600 {
			w.speed = 1
			if at%period < lasts {
				w.speed = 0.6
			}
			w.step(t, at > 600)
		}
		for i, h := range w.holders {
			if h.changesLater > 22 {
				t.Errorf("seed %d, tenant %d: %d changes in 50 minutes, one pause of %d s each %d s", seed, i, h.changesLater, lasts, period)
			}
		}
	}
}
