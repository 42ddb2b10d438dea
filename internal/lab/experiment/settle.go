// SPDX-License-Identifier: MIT

package experiment

import "fmt"

// Settle says over what a container's settling is measured: from AfterS, when
// something changed, until UntilS, in seconds after the load's start. Its rate
// counts as settled when every window of WindowMS from then on has at least
// Fraction of its mean rate in the second half of that time.
type Settle struct {
	AfterS   float64 `json:"after_s,omitzero"`
	UntilS   float64 `json:"until_s,omitzero"`
	Fraction float64 `json:"fraction,omitzero"`
	WindowMS int     `json:"window_ms,omitzero"`
	// OfTotal is a share of what all containers get in that half, to take in
	// place of the container's own rate there; 0 is the own rate.
	OfTotal float64 `json:"of_total,omitzero"`
}

// String is a part of an expectation's subject.
func (s *Settle) String() string {
	of := ""
	if s.OfTotal > 0 {
		of = fmt.Sprintf(" of %.4g of the total", s.OfTotal)
	}
	return fmt.Sprintf("to %g %%%s in windows of %d ms from %g to %g s", 100*s.Fraction, of, s.WindowMS, s.AfterS, s.UntilS)
}

const (
	defaultFraction = 0.95
	defaultWindowMS = 10
	// minWindow is the least number of samples in a window: with one, each
	// window is a sample, and its bounds are off by up to its length.
	minWindow = 2
)

// settle reads the keys of settle_ms, and refuses them for other metrics.
func (c *checker) settle(key string, f *fileExpect, x *Expectation, k *Case) {
	if x.Metric.Kind == GapMS && k.SampleMS == 0 {
		c.fail(key+".metric", "gap_ms needs samples", "sample_ms at the top or in the case, 1..1000")
	}
	if x.Metric.Kind != SettleMS {
		for name, set := range map[string]bool{
			"after_s": f.AfterS != nil, "until_s": f.UntilS != nil, "fraction": f.Fraction != nil, "window_ms": f.WindowMS != nil,
			"of_total": f.OfTotal != nil,
		} {
			if set && x.Metric.Kind != "" {
				c.fail(key+"."+name, "means nothing for "+x.Metric.Kind, "only with settle_ms")
			}
		}
		return
	}
	required(c, key+".container", f.Container, "whose rate it is")
	s := &Settle{
		AfterS:   required(c, key+".after_s", f.AfterS, "seconds after the load's start"),
		UntilS:   required(c, key+".until_s", f.UntilS, "seconds after the load's start"),
		Fraction: value(f.Fraction, defaultFraction),
		WindowMS: c.integer(key+".window_ms", f.WindowMS, new(int64(defaultWindowMS)), 1, 60_000),
		OfTotal:  value(f.OfTotal, 0),
	}
	x.Settle = s
	if k.SampleMS == 0 {
		c.fail(key+".metric", "settle_ms needs samples", "sample_ms at the top or in the case, 1..1000")
		return
	}
	end := k.RampS + k.DurationS
	c.number(key+".after_s", f.AfterS != nil, s.AfterS, s.AfterS >= k.RampS && s.AfterS < end,
		fmt.Sprintf("in the counted time, %g to below %g", k.RampS, end))
	c.number(key+".until_s", f.UntilS != nil, s.UntilS, s.UntilS > s.AfterS && s.UntilS <= end,
		fmt.Sprintf("above after_s, at most ramp_s + duration_s = %g", end))
	c.number(key+".fraction", f.Fraction != nil, s.Fraction, s.Fraction > 0 && s.Fraction <= 1, "above 0, at most 1")
	c.number(key+".of_total", f.OfTotal != nil, s.OfTotal, s.OfTotal > 0 && s.OfTotal <= 1, "a share above 0, at most 1")
	if s.WindowMS < minWindow*k.SampleMS || s.WindowMS%k.SampleMS != 0 {
		c.fail(key+".window_ms", fmt.Sprintf("%d ms is not two or more samples of %d ms", s.WindowMS, k.SampleMS),
			fmt.Sprintf("a multiple of sample_ms from %d on", minWindow*k.SampleMS))
	}
	if half := 1000 * (s.UntilS - s.AfterS) / 2; s.UntilS > s.AfterS && float64(s.WindowMS) > half {
		c.fail(key+".window_ms", fmt.Sprintf("%d ms is more than half of after_s to until_s", s.WindowMS), fmt.Sprintf("at most %g", half))
	}
}

// Samples take the engine's time, and room in the result.
const (
	maxSampled = 64
	maxSamples = 50_000
)

// samples refuses more samples than can be read and told.
func (c *checker) samples(k *Case) {
	if k.SampleMS == 0 {
		return
	}
	if k.members() > maxSampled {
		c.fail("sample_ms", fmt.Sprintf("%d containers are too many to read so often", k.members()), fmt.Sprintf("up to %d containers", maxSampled))
	} else if n := k.DurationS * 1000 / float64(k.SampleMS) * float64(len(k.Containers)); n > maxSamples {
		c.fail("sample_ms", fmt.Sprintf("%d ms makes %.0f samples of all containers", k.SampleMS, n),
			fmt.Sprintf("up to %d: fewer, or a shorter duration_s", maxSamples))
	}
}
