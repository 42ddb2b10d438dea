// SPDX-License-Identifier: MIT

package page

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"
)

// A chart is well-formed XML, whatever its names and figures are.
func TestSVG(t *testing.T) {
	c := Chart{Label: `<a> & "b"`, X: "depth", Y: "IOPS\x1b[2J", Curves: []Curve{
		{Name: "</svg><script>", Points: []Point{{1, 100, false}, {2, 200, true}, {1024, 5e6, false}}},
		{Name: "none", Points: []Point{{1, 0, false}, {math.NaN(), 1, false}, {math.Inf(1), 3, false}}},
	}}
	for _, c.FromZero = range []bool{false, true} {
		svg := c.svg()
		var into struct {
			XMLName   xml.Name
			Label     string     `xml:"aria-label,attr"`
			Circles   []struct{} `xml:"circle"`
			Polylines []struct{} `xml:"polyline"`
		}
		if err := xml.Unmarshal([]byte(svg), &into); err != nil {
			t.Fatalf("%v: %s", err, svg)
		}
		want := 4 // three points and a ring; and on a scale from 0, the point at 0
		if c.FromZero {
			want = 5
		}
		if into.Label != c.Label || len(into.Circles) != want || len(into.Polylines) != 2 || strings.ContainsAny(svg, "\x1b") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%d circles, %d lines: %s", len(into.Circles), len(into.Polylines), svg)
		}
	}
	if svg := (Chart{Curves: []Curve{{Points: []Point{{0, 0, false}}}}}).svg(); svg != "" {
		t.Errorf("a chart of nothing: %s", svg)
	}
	one := Chart{Curves: []Curve{{Points: []Point{{4, 4, false}}}}}.svg()
	if !strings.Contains(one, "circle") || strings.Contains(one, "NaN") {
		t.Errorf("a chart of one point: %s", one)
	}
}

// Points lie where the axes say: twice as much is the same way up anywhere.
func TestAxis(t *testing.T) {
	a := newAxis(100, true)
	a.add(1)
	a.add(16)
	for v, want := range map[float64]float64{1: 0, 2: 25, 4: 50, 16: 100} {
		if got := a.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g is at %g, want %g", v, got, want)
		}
	}
	for _, most := range []float64{3, 16, 700, 4096, 1e9} {
		for _, log := range []bool{true, false} {
			a := newAxis(100, log)
			a.add(1)
			a.add(most)
			ticks := a.ticks()
			if len(ticks) < 2 || len(ticks) > mostTicks+4 {
				t.Errorf("1 to %g has %d ticks: %v", most, len(ticks), ticks)
			}
			for i := range ticks {
				if ticks[i] > most*1.001 || i > 0 && ticks[i] <= ticks[i-1] {
					t.Errorf("1 to %g: %v", most, ticks)
				}
			}
		}
	}
}

// Ticks are numbers that people count in.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		values, want []float64
	}{
		{[]float64{1, 16, 64}, []float64{1, 2, 4, 8, 16, 32, 64}},
		{[]float64{1, 3, 10, 64}, []float64{1, 2, 5, 10, 20, 50}},
		{[]float64{11534, 942598}, []float64{20e3, 50e3, 100e3, 200e3, 500e3}},
		{[]float64{3, 8e6}, []float64{10, 100, 1000, 1e4, 1e5, 1e6}},
		{[]float64{298, 311}, []float64{298, 300, 302, 304, 306, 308, 310}},
		{[]float64{299}, nil},
	} {
		a := newAxis(100, true)
		for _, v := range c.values {
			a.add(v)
		}
		got := a.ticks()
		same := len(got) == len(c.want)
		for i := range got {
			same = same && math.Abs(got[i]/c.want[i]-1) < 1e-9
		}
		if !same {
			t.Errorf("%g: ticks %g, want %g", c.values, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.3: "0.3", 1: "1", 12.345: "12.3", 100: "100", 1999.6: "2000", 15170: "15.2k", 2e6: "2M", 0.00125: "0.00125"} {
		if got := short(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}
