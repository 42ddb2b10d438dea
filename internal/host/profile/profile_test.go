// SPDX-License-Identifier: MIT

package profile

import (
	"math"
	"strings"
	"testing"
)

// at are points of a depth, a rate and a p99 of reads in us.
func at(points ...[3]float64) []Point {
	var all []Point
	for _, p := range points {
		all = append(all, Point{Depth: int(p[0]), IOPS: p[1], LowIOPS: p[1], Read: &Latency{P99: p[2]}})
	}
	return all
}

func TestKnee(t *testing.T) {
	for _, c := range []struct {
		points []Point
		want   int
	}{
		{at([3]float64{1, 100}, [3]float64{2, 200}, [3]float64{4, 400}, [3]float64{8, 410}, [3]float64{16, 415}), 4},
		{at([3]float64{1, 100}, [3]float64{2, 200}, [3]float64{4, 400}), 0},                       // grows still
		{at([3]float64{1, 100}, [3]float64{2, 101}, [3]float64{4, 99}), 1},                        // one at a time
		{at([3]float64{1, 100}, [3]float64{2, 200}, [3]float64{4, 205}, [3]float64{8, 300}), 0},   // stands still and grows on
		{at([3]float64{1, 100}, [3]float64{2, 200}, [3]float64{4, 190}, [3]float64{8, 209.9}), 2}, // within a twentieth
		{at([3]float64{8, 100}), 0},
	} {
		if got := Knee(c.points); got != c.want {
			t.Errorf("%v: %d, want %d", c.points, got, c.want)
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// Between what was measured lies a line; beyond it, what is no better.
func TestInterpolation(t *testing.T) {
	l := &Load{Points: at([3]float64{2, 200, 10}, [3]float64{4, 300, 20}, [3]float64{8, 320, 40}), KneeDepth: 8}
	for depth, want := range map[float64]float64{1: 100, 2: 200, 3: 250, 4: 300, 6: 310, 8: 320, 100: 320} {
		near(t, "rate", l.LowIOPS(depth), want)
	}
	for depth, want := range map[float64]float64{1: 10, 2: 10, 3: 15, 6: 30, 8: 40, 16: 80} {
		near(t, "p99", l.P99(depth, false), want)
	}
	near(t, "p99 of writes, of which there are none", l.P99(4, true), 0)
	near(t, "product", BDP(at([3]float64{1, 10000}, [3]float64{16, 100000})), 10)
	near(t, "ceiling", Ceiling(at([3]float64{1, 10000}, [3]float64{16, 200000})), 60)
	near(t, "least ceiling", Ceiling(at([3]float64{1, 10000}, [3]float64{16, 20000})), 32)
}

func TestRequestTime(t *testing.T) {
	load := func(random bool, readPct, block int, iops float64) Load {
		return Load{Kind: Kind{random, readPct, block}, Points: at([3]float64{1, iops / 2}, [3]float64{8, iops}, [3]float64{16, iops}), KneeDepth: 8}
	}
	p := &Profile{Loads: []Load{load(true, 100, 65536, 1000), load(true, 100, 4096, 10000), load(false, 100, 131072, 500), load(true, 0, 4096, 1000), load(true, 50, 4096, 1000)}}
	for block, want := range map[int]float64{512: 1e-4, 4096: 1e-4, 34816: (1e-4 + 1e-3) / 2, 65536: 1e-3, 131072: 2e-3} {
		got, ok := p.RequestTime(true, 100, block)
		if near(t, "random reads", got, want); !ok {
			t.Errorf("%d: not measured", block)
		}
	}
	if _, ok := p.RequestTime(false, 0, 4096); ok {
		t.Error("sequential writes were measured")
	}
	// Half of the requests 0.1 ms, half 1 ms: 0.55 ms. Together they take 1 ms.
	near(t, "interference", p.Interference(), 1/0.55)
	p.Loads[4] = load(true, 50, 4096, 3000)
	near(t, "a mix that takes less than its parts", p.Interference(), 1)
	if near := p.Nearest(true, 100, 16384); near.BlockBytes != 4096 && near.BlockBytes != 65536 || p.Nearest(true, 100, 20000).BlockBytes != 65536 || p.Nearest(false, 0, 1) != nil {
		t.Errorf("%+v", near)
	}
	if p.KneeDepth(true, 100, 4096) != 8 || p.KneeDepth(false, 0, 4096) != 0 {
		t.Error("knee depth")
	}
}

// A profile that cannot be counted with is refused.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{`:             "unexpected EOF",
		`{"schema": 2}`: "schema 2 is not known; known: 1",
		`{"schema": 1, "loads": [{"name": "x", "block_bytes": 1}]}`:                                                                              "load x: damaged: no point",
		`{"schema": 1, "loads": [{"name": "x", "points": [{}]}]}`:                                                                                "load x: damaged: no point, or an unknown kind",
		`{"schema": 1, "loads": [{"name": "x", "block_bytes": 1, "points": [{"depth": 1, "iops": 5}]}]}`:                                         "load x: depth 1: damaged: the depth or the rate is out of range",
		`{"schema": 1, "loads": [{"name": "x", "block_bytes": 1, "points": [{"depth": 1, "iops": 5, "low_iops": 6}]}]}`:                          "load x: depth 1",
		`{"schema": 1, "loads": [{"name": "x", "block_bytes": 1, "points": [{"depth": 2, "iops": 5, "low_iops": 5}, {"depth": 1, "iops": 5}]}]}`: "load x: depth 1",
	} {
		if p, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, p, err, want)
		}
	}
}

// The time of the order in which a size was measured, the likely one first.
func TestLikelyTime(t *testing.T) {
	load := func(random bool, block int, iops float64) Load {
		return Load{Kind: Kind{Random: random, ReadPct: 100, BlockBytes: block}, Points: []Point{{Depth: 8, IOPS: iops, LowIOPS: iops}}}
	}
	p := &Profile{Loads: []Load{load(true, 4096, 1000), load(true, 16384, 500), load(false, 16384, 800), load(false, 131072, 100)}}
	for _, c := range []struct {
		random bool
		block  int
		want   float64
	}{
		{true, 4096, 1e-3},      // as measured
		{false, 4096, 1e-3},     // measured in random order alone
		{true, 16384, 2e-3},     // both: the likely one
		{false, 16384, 1.25e-3}, //
		{true, 131072, 1e-2},    // in sequence alone; random ones would be guessed at 16 ms
		{true, 262144, 2e-2},    // neither: the lesser
		{false, 512, 1e-3},      //
		{true, 512, 1e-3},       //
		{false, 65536, 0},       // between 16 and 128 KiB
	} {
		got, ok := p.LikelyTime(c.random, 100, c.block)
		if c.block == 65536 {
			c.want, _ = p.RequestTime(false, 100, 65536)
		}
		if !ok {
			t.Fatalf("%+v: none", c)
		}
		near(t, "time", got, c.want)
	}
	if _, ok := p.LikelyTime(true, 0, 4096); ok {
		t.Error("writes were not measured")
	}
}
