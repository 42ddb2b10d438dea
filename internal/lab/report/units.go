// SPDX-License-Identifier: MIT

package report

import (
	"math"
	"strconv"
	"strings"
)

// scale prints a quantity: divided by div, in unit, with the same number of
// decimals everywhere, so that a column of them lines up.
type scale struct {
	div      float64
	unit     string
	decimals int
}

// extent is the range of the values above zero that one scale has to print.
// The zero value is empty.
type extent struct{ min, max float64 }

func (e *extent) add(values ...float64) {
	for _, v := range values {
		if v <= 0 {
			continue
		}
		if e.min == 0 || v < e.min {
			e.min = v
		}
		e.max = math.Max(e.max, v)
	}
}

func (e extent) empty() bool { return e.max == 0 }

// format prints v in the scale's unit, without the unit.
func (s scale) format(v float64) string {
	return fixed(v/s.div, s.decimals)
}

// bytesScale chooses the unit of throughput: binary, as fio and the terminal's
// table have it.
func bytesScale(e extent) scale {
	switch {
	case e.max >= 10<<30:
		return newScale(1<<30, "GiB/s", e)
	case e.max < 1<<20 && !e.empty():
		return newScale(1<<10, "KiB/s", e)
	}
	return newScale(1<<20, "MiB/s", e)
}

func iopsScale(e extent) scale { return newScale(1, "IOPS", e) }

// latencyScale chooses the unit of latencies, which arrive in microseconds.
func latencyScale(e extent) scale {
	if e.max >= 10_000 {
		return newScale(1000, "ms", e)
	}
	return newScale(1, "µs", e)
}

// newScale picks the decimals: three significant digits for the smallest
// value, but at most five for the largest and at most three decimals.
func newScale(div float64, unit string, e extent) scale {
	s := scale{div: div, unit: unit}
	if e.empty() {
		return s
	}
	small := int(math.Floor(math.Log10(e.min / div)))
	large := int(math.Floor(math.Log10(e.max / div)))
	s.decimals = max(0, min(2-small, 4-large, 3))
	return s
}

// fixed prints v with so many decimals and commas between thousands.
func fixed(v float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(v), 'f', decimals, 64)
	whole, frac, _ := strings.Cut(text, ".")
	var b strings.Builder
	if v < 0 && strings.Trim(text, "0.") != "" {
		b.WriteByte('-')
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if frac != "" {
		b.WriteString("." + frac)
	}
	return b.String()
}

// percent prints a share of 1 as a percentage without the sign.
func percent(share float64) string { return fixed(100*share, 2) }

// ratio prints a quotient of two totals. Below 0.1 it keeps three digits.
func ratio(r float64) string {
	if r > 0 && r < 0.1 {
		return strconv.FormatFloat(r, 'g', 3, 64)
	}
	return fixed(r, 3)
}

// linearTop returns the end of an axis that starts at 0 and holds most, and
// the distance of its ticks: 1, 2 or 5 times a power of ten, three to five
// ticks.
func linearTop(most float64) (top, step float64) {
	if most <= 0 {
		return 1, 0.5
	}
	step = math.Pow10(int(math.Floor(math.Log10(most))))
	for _, factor := range []float64{0.2, 0.5, 1, 2} {
		if s := step * factor; most/s <= 5 {
			return s * math.Ceil(most/s-1e-9), s
		}
	}
	return most, step
}

// linearRange returns the ends of an axis that need not begin at 0, with some air
// around lo and hi, and the distance of its ticks.
func linearRange(lo, hi float64) (bottom, top, step float64) {
	air := math.Max((hi-lo)*0.08, hi*0.01)
	bottom, top = math.Max(0, lo-air), hi+air
	_, step = linearTop(top - bottom)
	return math.Floor(bottom/step) * step, math.Ceil(top/step) * step, step
}

// logRange widens e to the nearest 1, 2 or 5 times a power of ten on either
// side, and to a factor of ten at least, so that small differences look small.
func logRange(e extent) (lo, hi float64) {
	if e.empty() {
		return 1, 10
	}
	lo, hi = roundLog(e.min, false), roundLog(e.max, true)
	for up := false; hi/lo < 9.99; up = !up {
		if up {
			hi = roundLog(hi*1.01, true)
		} else {
			lo = roundLog(lo*0.99, false)
		}
	}
	return lo, hi
}

// roundLog rounds v to 1, 2 or 5 times a power of ten.
func roundLog(v float64, up bool) float64 {
	exp := int(math.Floor(math.Log10(v)))
	best := logStep(1, exp)
	for _, m := range []float64{1, 2, 5, 10} {
		s := logStep(m, exp)
		if up && s >= v {
			return s
		}
		if !up && s <= v {
			best = s
		}
	}
	return best
}

// logStep is m * 10^exp, computed so that equal steps are equal floats.
func logStep(m float64, exp int) float64 {
	if exp < 0 {
		return m / math.Pow10(-exp)
	}
	return m * math.Pow10(exp)
}
