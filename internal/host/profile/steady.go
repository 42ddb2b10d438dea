// SPDX-License-Identifier: MIT

package profile

import (
	"math"
	"time"
)

// Settled is what windows of a load tell: from when on its rate is steady, and
// what came before.
type Settled struct {
	// Is is false where the rate has not become steady. From is then where the
	// last half begins.
	Is   bool
	From int // first window of the steady part
	// PerSecond is the rate of the steady part; SpreadPct is how far its groups of
	// windows are from it at most.
	PerSecond float64
	SpreadPct float64
	// Before is what was faster by a fifth or more at first, nil for nothing.
	Before *Burst
}

// Burst is a rate that did not last.
type Burst struct {
	Seconds float64 `json:"seconds"`
	IOPS    float64 `json:"iops"`
}

// How a rate is told to be steady. Windows are put together until a group has
// fewRequests; the last groups of them must each be near their mean, and their
// first half near their last half. How near depends on how many requests a group has:
// the count of n requests differs by some sqrt(n) by itself.
const (
	groups      = 6
	fewRequests = 100
	nearGroup   = 0.05
	nearHalf    = 0.02
	nearSteady  = 0.10
	burstMore   = 0.20
)

// Settle judges the counts of requests in windows of equal length.
func Settle(counts []uint64, window time.Duration) Settled {
	for size := 1; size*groups <= len(counts); size *= 2 {
		if s, ok := settleBy(counts, size, window); ok {
			return s
		}
	}
	if len(counts) == 0 {
		return Settled{}
	}
	from := len(counts) / 2
	s := Settled{From: from, PerSecond: rate(counts[from:], window)}
	part := max(1, (len(counts)-from)/2)
	for at := from; at+part <= len(counts); at += part {
		s.SpreadPct = max(s.SpreadPct, 100*off(rate(counts[at:at+part], window), s.PerSecond))
	}
	return s
}

// settleBy judges groups of so many windows, the last of which end with the last window.
func settleBy(counts []uint64, size int, window time.Duration) (Settled, bool) {
	tail := counts[len(counts)-groups*size:]
	mean := rate(tail, window)
	perGroup := mean * window.Seconds() * float64(size)
	if perGroup < fewRequests {
		return Settled{}, false
	}
	noise := 1 / math.Sqrt(perGroup)
	half := len(tail) / 2
	if off(rate(tail[:half], window), rate(tail[half:], window)) > nearHalf+noise/2 {
		return Settled{}, false
	}
	for at := 0; at < len(tail); at += size {
		if off(rate(tail[at:at+size], window), mean) > nearGroup+noise {
			return Settled{}, false
		}
	}
	// What lies before belongs to it as long as it is near.
	from := len(counts) - len(tail)
	for from >= size && off(rate(counts[from-size:from], window), mean) <= nearSteady+noise {
		from -= size
	}
	s := Settled{Is: true, From: from, PerSecond: rate(counts[from:], window)}
	for at := len(counts) - size; at >= from; at -= size {
		s.SpreadPct = max(s.SpreadPct, 100*off(rate(counts[at:at+size], window), s.PerSecond))
	}
	s.Before = burst(counts[:from], size, s.PerSecond*(1+burstMore+noise), window)
	return s, true
}

// burst is what was faster than least, in groups of so many windows, before the steady
// part. It begins at once, or after a group that started slowly; what is left of a
// group at the beginning does not count.
func burst(counts []uint64, size int, least float64, window time.Duration) *Burst {
	var b Burst
	seconds := window.Seconds() * float64(size)
	for group := range len(counts) / size {
		at := len(counts)%size + group*size
		switch r := rate(counts[at:at+size], window); {
		case r > least:
			b.Seconds += seconds
			b.IOPS += r * seconds
		case group == 1 && b.Seconds == 0:
			return nil
		}
	}
	if b.Seconds == 0 {
		return nil
	}
	b.IOPS /= b.Seconds
	return &b
}

// rate is requests a second.
func rate(counts []uint64, window time.Duration) float64 {
	var n uint64
	for _, c := range counts {
		n += c
	}
	return float64(n) / (window.Seconds() * float64(len(counts)))
}

// off is by which part a differs from b.
func off(a, b float64) float64 {
	if b == 0 {
		return math.Abs(a)
	}
	return math.Abs(a-b) / b
}
