// SPDX-License-Identifier: MIT

package slo

import "math"

// The law raises the weight of a tenant whose promise is missed because its weight no
// longer suffices, and lowers it again. law.go is the control law, and arithmetic alone.
//
// What is controlled. A factor of 1 to Most, by which the tenant's own weight is multiplied.
// A scheduler that shares by weight gives a backlogged tenant of weight w the share
// s = w / (w + W) of what the disk serves, beside others of weight W in all. The promise takes the
// share n of that, its need. On a disk of half the speed n is twice as large.
// The weight that gives n is W n / (1 - n), so the need as a factor of the own weight b is
//
//	f(n) = W/b n/(1 - n),    with W = w (1 - s)/s from the share that the kernel reports
//
// A disk of one's own has no need: weights do nothing there.
//
// Raise. In a second in which the tenant asked, got the part a < 1, was throttled, and the
// cause is the disk or its share, its need is n = s/a. The factor becomes f(n (1 + margin)), at
// most step times as much as before, and at most Most. The second after a raise is not
// judged: it has requests of before.
//
// Lower. A quiet time is one without a raise. Its need is the largest need of its seconds: what was promised
// over what the disk served then. If the factor is more than that by the margin after a quiet time, the factor becomes that
// need (evidence). A disk that others leave idle serves little, and shows a need
// that is too large. So after a quiet time of its own, ten times as long, the square root of the factor is
// tried (probe). What is given up wrongly is missed, and raised again; then that kind of quiet time is
// twice as long from then on, up to longest, and half as long after each that was right.
//
// Why it converges. A raise multiplies the odds s/(1 - s) by more than 1 + margin, as a < 1. So
// there are at most ln(Most) / ln(1 + margin) raises in a row, 29 for a Most of 4, whatever
// the disk, the others and the noise do. In a constant environment the factor that suffices is either
// reached by then, or more than Most.
//
// Why it does not oscillate. Between two raises after a mistaken lowering lies a quiet time of
// its kind. Each mistake doubles that. So in a constant environment k mistakes of a kind take at least
// 30 s (2^k - 1), and there is one of each an hour in the end. A mistake costs a missed second, and
// one that is not judged: 4 in 3600, about the 0.1 % that an objective of 99.9 % allows. Where
// noise alone decides whether a weight suffices, the simulation finds no more than one change in three minutes.
//
// Why it starves no other tenant. No weight is multiplied by more than Most. So a cgroup of weight
// v that was entitled to v / (v + W) is entitled to v / (v + Most W) or more, which is more
// than 1/Most of it, however many tenants are held. Where all needs together are more than the
// disk, all factors are Most in the end, and tenants are to one another as their own weights are.
//
// A tenant that keeps too few requests outstanding is not throttled, and is not raised for it.

const (
	// margin is what a raise aims at beyond the need. Two runs of `isolio measure` may be as
	// far apart, and the account allows a tenant to be behind by as much of a second.
	margin = 0.05
	// step is the most that a factor is multiplied by at a time: a disk that stops for a part
	// of a second must not look like one that is slow for good.
	step = 2
	// settles is how many intervals after a change are not judged.
	settles = 1
	// quiet is the shortest quiet time, in intervals. A raise lasts as long at least, so a weight
	// is written at most four times a minute once it has settled. A device that stalls
	// every few seconds has a constant weight.
	quiet = 30
	// longest is the longest quiet time: see above.
	longest = 3600
	// least is the factor that counts as none: weights are whole numbers.
	least = 1.01
)

// LawSample is what one interval says of a tenant.
type LawSample struct {
	// Asked is whether it asked for what it was promised.
	Asked bool
	// Missed is whether it got less, and the account found the disk or the share to be the cause.
	Missed bool
	// Throttled is whether its requests waited for its share.
	Throttled bool
	// Attained is the part of the promise that it got.
	Attained float64
	// Share is what it was entitled to, 0 to 1.
	Share float64
	// Need is the part of all that the disk served that the promise takes; 0 for unknown.
	Need float64
}

// Change is what the law did.
type Change int

// Changes.
const (
	Unchanged Change = iota
	Raised
	Lowered
)

// patience is a kind of quiet time: how long it must be at least, must be now, and is.
type patience struct{ least, must, is int }

// Law is the control law of one tenant.
type Law struct {
	most, factor float64
	// settling is how many intervals are not judged yet.
	settling int
	// peak is the largest need, as a factor, since the quiet time began.
	peak            float64
	evidence, probe patience
	// trial is the kind of quiet time that the last lowering went by, for as long as that
	// may show to be wrong.
	trial *patience
	tried int
}

// NewLaw is the law of a tenant whose weight may be multiplied by most, and is by factor now.
func NewLaw(most, factor float64) *Law {
	return &Law{most: most, factor: min(max(factor, 1), most), peak: 1, evidence: patience{least: quiet, must: quiet}, probe: patience{least: 10 * quiet, must: 10 * quiet}}
}

// Factor is what the weight is to be multiplied by.
func (l *Law) Factor() float64 { return l.factor }

// odds is the weight that gives a share beside others of weight 1.
func odds(share float64) float64 {
	if share >= 1 {
		return math.Inf(1)
	}
	return share / (1 - share)
}

// wants is the factor that gives a share, by the share that the present factor gives.
func (l *Law) wants(need, share float64) float64 {
	return l.factor * odds(need) / odds(share)
}

// needs is the factor that an interval without a miss asks for.
func (l *Law) needs(s *LawSample) float64 {
	switch {
	case !s.Asked || s.Share >= 1:
		return 1
	case s.Need <= 0 || s.Share <= 0:
		return l.factor // it says nothing
	case l.wants(s.Need, s.Share) <= 1:
		return 1
	}
	return min(max(l.wants(s.Need*(1+margin), s.Share), 1), l.most)
}

// Next takes the sample of an interval.
func (l *Law) Next(s LawSample) Change {
	if l.settling > 0 {
		l.settling--
		return Unchanged
	}
	if s.Missed && s.Throttled && s.Attained > 0 && s.Attained < 1 && s.Share > 0 && s.Share < 1 {
		return l.raise(&s)
	}
	return l.lower(&s)
}

func (l *Law) raise(s *LawSample) Change {
	l.evidence.is, l.probe.is, l.peak = 0, 0, 1
	if l.trial != nil {
		l.trial.must = min(2*l.trial.must, longest)
		l.trial = nil
	}
	to := min(l.wants(s.Share/s.Attained*(1+margin), s.Share), l.factor*step, l.most)
	if to <= l.factor {
		return Unchanged // at the bound
	}
	l.factor, l.settling = to, settles
	return Raised
}

func (l *Law) lower(s *LawSample) Change {
	if l.trial != nil {
		if l.tried++; l.tried == quiet {
			l.trial.must = max(l.trial.least, l.trial.must/2)
			l.trial = nil
		}
	}
	if s.Missed { // for want of something that a weight does not give
		l.peak = max(l.peak, l.factor)
	}
	l.peak = max(l.peak, l.needs(s))
	l.evidence.is++
	l.probe.is++
	if l.factor == 1 {
		return Unchanged
	}
	if l.evidence.is >= l.evidence.must {
		peak := l.peak
		l.evidence.is, l.peak = 0, 1
		if peak == 1 || l.factor > peak*(1+margin) {
			return l.to(peak, &l.evidence)
		}
	}
	if l.probe.is >= l.probe.must {
		return l.to(math.Sqrt(l.factor), &l.probe)
	}
	return Unchanged
}

// to lowers the factor, after a quiet time of that kind.
func (l *Law) to(factor float64, by *patience) Change {
	if factor < least {
		factor = 1
	}
	l.factor, l.settling = factor, settles
	l.evidence.is, l.probe.is, l.peak = 0, 0, 1
	l.trial, l.tried = by, 0
	return Lowered
}
