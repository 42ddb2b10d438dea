// SPDX-License-Identifier: MIT

package report

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"isolio/internal/must"

	"golang.org/x/net/html"
	plottext "gonum.org/v1/plot/text"
)

var (
	filled  = regexp.MustCompile(`fill:var\(--(c[0-9]+|plain)\)`)
	stroked = regexp.MustCompile(`stroke:var\(--(c[0-9]+|ink)\)`)
	point   = regexp.MustCompile(`[ML](-?[0-9.e+-]+),(-?[0-9.e+-]+)`)
)

// shape is one path of a drawing: its colour's name and its corners.
type shape struct {
	colour string
	xs, ys []float64
}

// shapes returns the paths of a plot that match in style.
func shapes(t *testing.T, n *html.Node, style *regexp.Regexp) []shape {
	t.Helper()
	var found []shape
	for _, path := range all(n, "path") {
		m := style.FindStringSubmatch(attr(path, "style"))
		if m == nil {
			continue
		}
		s := shape{colour: m[1]}
		for _, p := range point.FindAllStringSubmatch(attr(path, "d"), -1) {
			x, errX := strconv.ParseFloat(p[1], 64)
			y, errY := strconv.ParseFloat(p[2], 64)
			if errX != nil || errY != nil {
				t.Fatalf("path %q", attr(path, "d"))
			}
			s.xs, s.ys = append(s.xs, x), append(s.ys, y)
		}
		found = append(found, s)
	}
	return found
}

func (s shape) width() float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range s.xs {
		lo, hi = math.Min(lo, x), math.Max(hi, x)
	}
	return hi - lo
}

func TestBarsAreInProportion(t *testing.T) {
	doc := document()
	figures := all(section(parse(t, render(t, doc)), "share"), "figure")
	var perShare float64 // width of a share of 1, equal in all panels
	for i, run := range doc.Runs {
		bars := shapes(t, figures[i], filled)
		if len(bars) != len(run.Containers) {
			t.Fatalf("%s: %d bars for %d containers", run.Scheduler, len(bars), len(run.Containers))
		}
		for k, c := range run.Containers {
			width := bars[k].width()
			if perShare == 0 {
				perShare = width / c.Share
			}
			if math.Abs(width-c.Share*perShare) > 0.1 {
				t.Errorf("%s, %s: bar of %.2f, want %.2f", run.Scheduler, c.Name, width, c.Share*perShare)
			}
		}
		marks := shapes(t, figures[i], stroked)
		for k, c := range run.Containers {
			fromZero := marks[k].xs[0] - bars[k].xs[0]
			if math.Abs(fromZero-c.EntitledShare*perShare) > 0.1 {
				t.Errorf("%s, %s: mark at %.2f, want %.2f", run.Scheduler, c.Name, fromZero, c.EntitledShare*perShare)
			}
		}
	}
}

func TestContainersKeepTheirColour(t *testing.T) {
	doc := document()
	cs := doc.Runs[2].Containers
	cs[0], cs[3] = cs[3], cs[0] // another order in one run
	root := parse(t, render(t, doc))
	want := map[string]string{"w1000": "c0", "w500": "c1", "w250": "c2", "w100": "c3"}
	for _, id := range []string{"share", "latency-reads"} {
		style := filled
		if id != "share" {
			style = stroked
		}
		for i, figure := range all(section(root, id), "figure") {
			for k, s := range shapes(t, figure, style)[:4] {
				name := doc.Runs[i].Containers[k].Name
				if id == "share" && s.colour != want[name] {
					t.Errorf("%s, %s: %s has colour %s, want %s", id, doc.Runs[i].Scheduler, name, s.colour, want[name])
				}
				if id != "share" && len(s.xs) == len(percentiles) && s.colour != want[name] {
					t.Errorf("%s, %s: %s has colour %s, want %s", id, doc.Runs[i].Scheduler, name, s.colour, want[name])
				}
			}
		}
	}
}

func TestLatencyIsLogarithmic(t *testing.T) {
	doc := document()
	figures := all(section(parse(t, render(t, doc)), "latency-reads"), "figure")
	var perDecade float64
	for i, run := range doc.Runs {
		var curves []shape
		for _, s := range shapes(t, figures[i], stroked) {
			if len(s.ys) == len(percentiles) {
				curves = append(curves, s)
			}
		}
		if len(curves) != len(run.Containers) {
			t.Fatalf("%s: %d curves for %d containers", run.Scheduler, len(curves), len(run.Containers))
		}
		for k, c := range run.Containers {
			rise := curves[k].ys[5] - curves[k].ys[0]
			decades := math.Log10(c.Read.Lat.Max / c.Read.Lat.P50)
			if perDecade == 0 {
				perDecade = rise / decades
			}
			if math.Abs(rise-decades*perDecade) > 0.2 {
				t.Errorf("%s, %s: the curve rises %.2f, want %.2f", run.Scheduler, c.Name, rise, decades*perDecade)
			}
		}
	}
}

// TestNothingIsClipped measures all text with the font the plots are laid
// out in: it must lie within the plot's own frame.
func TestNothingIsClipped(t *testing.T) {
	doc := crowd(20, 8)
	doc.Runs[3].Containers[4].Name = "a-container-name-that-is-much-longer-than-any-row-of-the-plot/has.room.for"
	doc.Runs[5].Scheduler = "another-name-that-is-far-too-long-for-the-plot"
	long := cases(2, 8, "a-case-with-a-name-that-is-much-longer-than-its-row-has-room-for", "b")
	font := textStyle(plottext.XLeft)
	figures := append(all(parse(t, render(t, doc)), "figure"), all(parse(t, render(t, long)), "figure")...)
	figures = append(figures, all(parse(t, render(t, curve())), "figure")...)
	for _, figure := range figures {
		width, err := strconv.ParseFloat(attr(all(figure, "svg")[0], "width"), 64)
		must.OK(t, err)
		for _, words := range all(figure, "text") {
			x, err := strconv.ParseFloat(attr(words, "x"), 64)
			must.OK(t, err)
			if words.Parent.Parent.Data == "g" {
				continue // turned by a quarter: the vertical axis's name
			}
			if right := x + font.Width(textOf(words)).Points(); x < 0 || right > width+0.05 {
				t.Errorf("%q reaches from %.1f to %.1f, the plot from 0 to %g", textOf(words), x, right, width)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{fixed(0, 0), "0"},
		{fixed(999.5, 0), "1,000"},
		{fixed(1234567.891, 2), "1,234,567.89"},
		{fixed(-0.001, 2), "0.00"},
		{fixed(-1234.5, 1), "-1,234.5"},
		{percent(0.054054), "5.41"},
		{ratio(0.98765), "0.988"},
		{ratio(0.01234), "0.0123"},
		{ratio(0), "0.000"},
		{bytesScale(extent{1 << 20, 3 << 20}).format(3 << 19), "1.50"},
		{bytesScale(extent{1024, 4096}).format(2048), "2.00"},
		{bytesScale(extent{1 << 30, 20 << 30}).unit, "GiB/s"},
		{bytesScale(extent{}).unit, "MiB/s"},
		{latencyScale(extent{5, 900}).unit, "µs"},
		{latencyScale(extent{5, 90_000}).format(1234), "1.234"},
		{iopsScale(extent{900, 31_000}).format(31_000.4), "31,000"},
		{quote("a b"), "'a b'"},
		{quote("a/b.toml"), "a/b.toml"},
		{logLabel(0.05), "0.05"},
		{logLabel(20_000), "20,000"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestAxes(t *testing.T) {
	for v := 0.0013; v < 1e7; v *= 1.37 {
		top, step := linearTop(v)
		if n := top / step; top < v*(1-1e-9) || n > 5.001 || math.Abs(n-math.Round(n)) > 1e-9 {
			t.Errorf("linearTop(%g) = %g in steps of %g", v, top, step)
		}
		for _, most := range []float64{v, v * 1.01, v * 30, v * 7000} {
			lo, hi := logRange(extent{v, most})
			if lo > v || hi < most || hi/lo < 9.99 {
				t.Errorf("logRange(%g, %g) = %g, %g", v, most, lo, hi)
			}
			if n := len(logTicks(lo, hi)); n < 2 || n > 12 {
				t.Errorf("%d ticks from %g to %g", n, lo, hi)
			}
		}
	}
}
