// SPDX-License-Identifier: MIT

package report

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"gonum.org/v1/plot/vg"

	"isolio/internal/lab/result"
)

// labelled are the places of the words in a plot.
func labelled(t *testing.T, figure *html.Node) map[string][2]float64 {
	t.Helper()
	at := map[string][2]float64{}
	for _, words := range all(figure, "text") {
		x, errX := strconv.ParseFloat(attr(words, "x"), 64)
		y, errY := strconv.ParseFloat(attr(words, "y"), 64)
		if errX != nil || errY != nil {
			t.Fatalf("text %q at %q, %q", textOf(words), attr(words, "x"), attr(words, "y"))
		}
		at[textOf(words)] = [2]float64{x, y}
	}
	return at
}

// A line joins the variants that set the same tunables, in proportion to their
// totals and the logarithms of their figures; every contender has its label.
func TestTradeJoinsVariants(t *testing.T) {
	doc := curve()
	figures := all(section(parse(t, render(t, doc)), "trade"), "figure")
	if len(figures) != 2 {
		t.Fatalf("%d plots, want share error and latency", len(figures))
	}
	for i, figure := range figures {
		words := labelled(t, figure)
		for _, label := range []string{"none", "kyber", "bfq", "iocost", "kyber-fairness", "slice_idle 2", "low_latency", "bfq-3"} {
			if _, found := words[label]; !found {
				t.Errorf("plot %d has no label %q", i, label)
			}
		}
		var lines []shape
		for _, s := range shapes(t, figure, stroked) {
			if len(s.xs) == 2 && s.colour == "c2" { // the third scheduler of the page
				lines = append(lines, s)
			}
		}
		if len(lines) != 1 {
			t.Fatalf("plot %d: %d lines of bfq, want one from its first variant to its third", i, len(lines))
		}
		if lines[0].xs[1] <= lines[0].xs[0] {
			t.Errorf("plot %d: the line goes to the left", i)
		}
	}
	first, third := doc.Runs[5], doc.Runs[7]
	a, _ := first.ShareErrorPct("")
	b, _ := third.ShareErrorPct("")
	var line shape
	for _, s := range shapes(t, figures[0], stroked) {
		if len(s.xs) == 2 && s.colour == "c2" {
			line = s
		}
	}
	decade := ticksApart(t, figures[0], "100", "10")
	if rise, want := math.Abs(line.ys[1]-line.ys[0]), math.Abs(math.Log10(b/a))*decade; math.Abs(rise-want) > 0.2 {
		t.Errorf("the line rises %.2f, want %.2f for %.1f and %.1f %%", rise, want, a, b)
	}
}

// ticksApart is the distance of two ticks on the vertical axis.
func ticksApart(t *testing.T, figure *html.Node, a, b string) float64 {
	t.Helper()
	words := labelled(t, figure)
	if _, found := words[a]; !found {
		t.Fatalf("no tick %s", a)
	}
	return math.Abs(words[a][1] - words[b][1])
}

func TestTradeComparesWithWhatThereIs(t *testing.T) {
	q := func(v float64) *float64 { return &v }
	referenced := curve()
	for i := range referenced.Runs {
		referenced.Runs[i].ReferenceCase = "calm"
		referenced.Runs[i].TotalVsReference = q(0.5 + float64(i)/20)
	}
	partly := curve()
	partly.Runs[0].ReferenceCase, partly.Runs[0].TotalVsReference = "calm", q(1)
	alone := curve()
	for i := range alone.Runs {
		alone.Runs[i].TotalVsNone = nil
	}
	for _, tt := range []struct {
		name, axis, says string
		doc              *result.Document
	}{
		{"none", "total bytes per second (quotient by none)", "divided by that of none.", curve()},
		{"a reference", "total bytes per second (quotient by the reference)", "divided by that of none in case calm.", referenced},
		{"a reference that some lack", "total bytes per second (quotient by none)", "divided by that of none.", partly},
		{"nothing", "total bytes per second (MiB/s)", "A point is a contender. Further right", alone},
	} {
		s := section(parse(t, render(t, tt.doc)), "trade")
		if _, found := labelled(t, all(s, "figure")[0])[tt.axis]; !found {
			t.Errorf("%s: no axis %q", tt.name, tt.axis)
		}
		if words := strings.Join(strings.Fields(textOf(s)), " "); !strings.Contains(words, tt.says) {
			t.Errorf("%s: %q does not say %q", tt.name, words, tt.says)
		}
	}
}

// Nothing is drawn where nothing can be compared, and only what there is.
func TestTradeOfLittle(t *testing.T) {
	one := curve()
	one.Runs = one.Runs[:1]
	lonely := curve() // one container: no share error
	for i := range lonely.Runs {
		lonely.Runs[i].Containers = lonely.Runs[i].Containers[:1]
	}
	writers := curve() // the critical container reads nothing
	for i := range writers.Runs {
		writers.Runs[i].Containers[0].Read = nil
	}
	exact := curve() // all shares are exact: below the axis
	for i := range exact.Runs {
		for j := range exact.Runs[i].Containers {
			exact.Runs[i].Containers[j].Share = exact.Runs[i].Containers[j].EntitledShare
		}
	}
	reference := cases(2, 2, "calm", "storm") // calm has none alone
	reference.Runs = slices.Delete(reference.Runs, 1, 2)
	for _, tt := range []struct {
		name, id string
		doc      *result.Document
		plots    []string
	}{
		{"one run", "trade", one, nil},
		{"one container", "trade", lonely, []string{"Reads of w1000"}},
		{"no reads", "trade", writers, []string{"Share error"}},
		{"exact", "trade", exact, []string{"Share error", "Reads of w1000"}},
		{"the reference itself", "case-1-trade", reference, nil},
		{"beside the reference", "case-2-trade", reference, []string{"Share error"}},
	} {
		page := render(t, tt.doc)
		var plots []string
		if s := section(parse(t, page), tt.id); s != nil {
			for _, name := range all(s, "figcaption") {
				plots = append(plots, textOf(name))
			}
		}
		if !slices.Equal(plots, tt.plots) {
			t.Errorf("%s: plots %q, want %q", tt.name, plots, tt.plots)
		}
		if bad := regexp.MustCompile(`NaN|[-+]Inf|%!`).FindString(page); bad != "" {
			t.Errorf("%s: the page has %q", tt.name, bad)
		}
	}
}

func TestLabelsDoNotOverlap(t *testing.T) {
	frame := vg.Rectangle{Max: vg.Point{X: 400, Y: 300}}
	var taken []vg.Rectangle
	for i := range 12 { // all at nearly one place, in a corner
		at := vg.Point{X: 380 + vg.Length(i%3), Y: 290}
		box, far := place(at, vg.Point{X: 90, Y: 11.5}, frame, taken)
		if !inside(box, frame) {
			t.Errorf("label %d is at %v, outside the frame", i, box)
		}
		for j, other := range taken {
			if overlap(box, other) {
				t.Errorf("label %d overlaps label %d", i, j)
			}
		}
		if i == 0 && far || i == 11 && !far {
			t.Errorf("label %d stands apart: %t", i, far)
		}
		taken = append(taken, box)
	}
}

func TestSharesNameTheirUnit(t *testing.T) {
	for unit, want := range map[string]string{"": "bytes", "bytes": "bytes", "iops": "requests", "device_time": "disk time"} {
		doc := document()
		doc.ShareUnit = unit
		root := parse(t, render(t, doc))
		if _, found := labelled(t, all(section(root, "share"), "figure")[0])["share of all "+want+" (%)"]; !found {
			t.Errorf("%q: the axis does not say %s", unit, want)
		}
		if words := textOf(section(root, "figures")); !strings.Contains(words, "% of "+want) {
			t.Errorf("%q: the table does not say %s", unit, want)
		}
		if got := strings.Contains(textOf(section(root, "reading")), "Share of disk time"); got != (unit == "device_time") {
			t.Errorf("%q: disk time is explained: %t", unit, got)
		}
	}
}

func TestLinearRange(t *testing.T) {
	for lo := 0.0013; lo < 1e6; lo *= 3.7 {
		for _, hi := range []float64{lo, lo * 1.001, lo * 1.3, lo * 50} {
			bottom, top, step := linearRange(lo, hi)
			if n := (top - bottom) / step; bottom > lo || top < hi || bottom < 0 || n < 1.99 || n > 8.01 || math.Abs(n-math.Round(n)) > 1e-6 {
				t.Errorf("linearRange(%g, %g) = %g, %g in steps of %g", lo, hi, bottom, top, step)
			}
		}
	}
}
