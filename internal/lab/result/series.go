// SPDX-License-Identifier: MIT

package result

import (
	"math"

	"isolio/internal/lab/experiment"
)

// Series is what a container submitted in each step of the counted time.
type Series struct {
	// StartS is when the first step begins, in seconds after the load's start.
	StartS float64 `json:"start_s"`
	StepMS int     `json:"step_ms"`
	// LateUS is by how much the latest reading of the counters was late.
	LateUS float64 `json:"late_us"`
	// Bytes and IOs have an element for each step. A request counts when it is
	// submitted, and each of its parts if it is split.
	Bytes []uint64 `json:"bytes"`
	IOs   []uint64 `json:"ios"`
}

// step is the first step that begins at a time or after it.
func (s *Series) step(atS float64) int {
	// A time such as 2.1 is not quite a multiple of the step in binary.
	const slack = 1e-6
	return int(math.Ceil((atS-s.StartS)*1000/float64(s.StepMS) - slack))
}

// mean is the bytes of a step, on average from one step to before another.
func (s *Series) mean(from, to int) float64 {
	sum := 0.0
	for _, n := range s.Bytes[from:to] {
		sum += float64(n)
	}
	return sum / float64(to-from)
}

// half are the steps of the second half of w's time, false if the series does
// not cover the time or it is too short for w's windows.
func (s *Series) half(w experiment.Settle) (from, to int, ok bool) {
	from, to = s.step(w.AfterS), s.step(w.UntilS)
	length := w.WindowMS / s.StepMS
	return from + (to-from)/2, to, from >= 0 && to <= len(s.Bytes) && length > 0 && to-from >= 2*length
}

// SettleMS is how long after w.AfterS the rate has settled: from then on until
// w.UntilS every window has at least w.Fraction of wanted, in bytes a step.
// Windows begin with each step, so that is the error of the
// result; and a window in which so few requests complete that one is more than
// 1 - w.Fraction of them does not settle before the time is over. A rate that
// never settles takes all of the time.
func (s *Series) SettleMS(w experiment.Settle, wanted float64) float64 {
	from, to := s.step(w.AfterS), s.step(w.UntilS)
	length := w.WindowMS / s.StepMS
	first := from
	for i := from; i+length <= to; i++ {
		if s.mean(i, i+length) < w.Fraction*wanted {
			first = i + 1
		}
	}
	if first+length > to {
		first = to
	}
	return float64((first - from) * s.StepMS)
}

// settle is the settling of the container that an expectation is about. It is
// false if its series does not cover the time, or if nothing was submitted in
// the second half by those whose rate it should have.
func (r *Run) settle(x experiment.Expectation) (ms float64, ok bool) {
	t := r.container(x.Container)
	if t == nil || t.Series == nil || x.Settle == nil {
		return 0, false
	}
	from, to, ok := t.Series.half(*x.Settle)
	if !ok {
		return 0, false
	}
	wanted := t.Series.mean(from, to)
	if x.Settle.OfTotal > 0 {
		wanted = 0
		for i := range r.Containers {
			if s := r.Containers[i].Series; s != nil && to <= len(s.Bytes) {
				wanted += x.Settle.OfTotal * s.mean(from, to)
			}
		}
	}
	if wanted == 0 {
		return 0, false
	}
	return t.Series.SettleMS(*x.Settle, wanted), true
}

// gapMS is the longest time in which no request was submitted.
func (s *Series) gapMS() float64 {
	longest, now := 0, 0
	for _, n := range s.IOs {
		if now++; n > 0 {
			now = 0
		}
		longest = max(longest, now)
	}
	return float64(longest * s.StepMS)
}

// gapMS is that of one container, or the longest of all containers'; false if one has no
// series.
func (r *Run) gapMS(container string) (longest float64, ok bool) {
	for i := range r.Containers {
		t := &r.Containers[i]
		if container != "" && t.Name != container {
			continue
		}
		if t.Series == nil {
			return 0, false
		}
		longest, ok = max(longest, t.Series.gapMS()), true
	}
	return longest, ok
}
