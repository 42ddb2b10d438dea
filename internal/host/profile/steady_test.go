// SPDX-License-Identifier: MIT

package profile

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// series has rates, each for so many windows of 100 ms, with noise in percent.
func series(noise float64, parts ...[2]float64) []uint64 {
	random := rand.New(rand.NewPCG(3, 4))
	var counts []uint64
	for _, p := range parts {
		for range int(p[1]) {
			counts = append(counts, uint64(math.Round(p[0]/10*(1+noise/100*(2*random.Float64()-1)))))
		}
	}
	return counts
}

func TestSettle(t *testing.T) {
	const window = 100 * time.Millisecond
	stalls := []uint64{}
	for range 60 { // a collection of 300 ms in each second
		stalls = append(stalls, 100, 100, 100, 100, 100, 100, 100, 0, 0, 0)
	}
	falling := []uint64{}
	for i := range 40 {
		falling = append(falling, uint64(2000-40*i))
	}
	for _, c := range []struct {
		name    string
		counts  []uint64
		settled bool
		rate    float64 // within 2 %
		burst   float64 // rate, 0 for none
		seconds float64
	}{
		{"steady from the start", series(1, [2]float64{5000, 12}), true, 5000, 0, 0},
		{"a slow start is no burst", series(1, [2]float64{100, 1}, [2]float64{5000, 12}), true, 5000, 0, 0},
		{"a buffer first", series(1, [2]float64{30000, 5}, [2]float64{2400, 12}), true, 2400, 30000, 0.5},
		{"pre-erased blocks for long", series(3, [2]float64{20000, 80}, [2]float64{6000, 20}), true, 6000, 20000, 8},
		{"too few requests to tell", series(0, [2]float64{80, 60}), false, 80, 0, 0},
		{"too short to tell", series(0, [2]float64{5000, 5}), false, 5000, 0, 0},
		{"collection in bursts", stalls, true, 700, 0, 0},
		{"still falling", falling, false, 0, 0, 0},
		{"nothing completes", make([]uint64, 40), false, 0, 0, 0},
		{"few requests", series(0, [2]float64{80, 96}), true, 80, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Settle(c.counts, window)
			if s.Is != c.settled || c.rate > 0 && math.Abs(s.PerSecond/c.rate-1) > 0.02 {
				t.Errorf("%+v, want settled %v at %.0f a second", s, c.settled, c.rate)
			}
			switch {
			case (s.Before != nil) != (c.burst > 0):
				t.Errorf("burst %+v, want %.0f a second", s.Before, c.burst)
			case s.Before != nil && (math.Abs(s.Before.IOPS/c.burst-1) > 0.02 || math.Abs(s.Before.Seconds-c.seconds) > 0.01):
				t.Errorf("burst %+v, want %.0f a second for %.1f s", s.Before, c.burst, c.seconds)
			}
		})
	}
}

// Whatever the counts, the part that is called steady is there, and its rate is its own.
func FuzzSettle(f *testing.F) {
	f.Add([]byte{9, 9, 9, 9, 9, 9, 3, 3, 3, 3, 3, 3, 3})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		counts := make([]uint64, len(text))
		for i, b := range text {
			counts[i] = uint64(b)
		}
		s := Settle(counts, time.Second)
		if len(counts) == 0 {
			return
		}
		if s.From < 0 || s.From >= len(counts) {
			t.Fatalf("%v: from %d", counts, s.From)
		}
		if want := rate(counts[s.From:], time.Second); s.PerSecond != want || math.IsNaN(s.SpreadPct) {
			t.Errorf("%v: %+v, want a rate of %g", counts, s, want)
		}
	})
}
