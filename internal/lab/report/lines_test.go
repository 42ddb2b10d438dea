// SPDX-License-Identifier: MIT

package report

import (
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/result"
)

func TestLines(t *testing.T) {
	level := 114.0
	svg, err := Lines([]Line{
		{Name: "requests", X: []float64{10, 90, 200}, Y: []float64{116, 124, 125}, Level: &level},
		{Name: "another", X: []float64{10, 200}, Y: []float64{120, 121}},
	}, Axes{X: "age_th", Y: "a second"}, "Requests along age_th")
	if err != nil {
		t.Fatal(err)
	}
	text := string(svg)
	for _, want := range []string{`<svg xmlns="http://www.w3.org/2000/svg"`, "Requests along age_th", ">requests<", ">another<", ">age_th<", ">a second<", ">110<", ">200<", "stroke-dasharray"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if again, err := Lines([]Line{{Name: "one", X: []float64{1, 2}, Y: []float64{50, 51}}}, Axes{X: "x", Y: "y", FromZero: true}, "alt"); err != nil || !strings.Contains(string(again), ">0<") {
		t.Errorf("an axis that begins at 0 does not: %v", err)
	}
}

// A legend that is wider than the picture has another row.
func TestLegendOfManyLines(t *testing.T) {
	pic := &linesPicture{}
	for range 12 {
		pic.lines = append(pic.lines, Line{Name: "a name of some length", X: []float64{0}, Y: []float64{1}})
	}
	if rows := pic.legend(nil); rows < 3 || rows > 6 {
		t.Errorf("12 names of some 150 units have %d rows", rows)
	}
}

func TestDistributionsOfRuns(t *testing.T) {
	run := &result.Run{
		Delays: result.NewDelays(map[uint64]uint64{0: 3, 10: 1}, 10),
		Containers: []result.Container{
			{Name: "a", Read: &result.Direction{IOPS: 1, Lat: result.Latency{Mean: 2000, P10: 1000, P50: 2000, Max: 5000}}},
			{Name: "idle"},
		},
	}
	delays, ok := DelayDistribution("run", run)
	if !ok || !slices.Equal(delays.X, []float64{0, 10}) || !slices.Equal(delays.Y, []float64{0.75, 1}) {
		t.Errorf("delays %v, %v", delays, ok)
	}
	reads, ok := ReadDistribution("run", run, "a")
	if !ok || reads.X[0] != 1 || reads.Y[0] != 0.1 || reads.X[len(reads.X)-1] != 5 || reads.Y[len(reads.Y)-1] != 1 {
		t.Errorf("reads in ms %v, %v", reads, ok)
	}
	if _, ok := ReadDistribution("run", run, "idle"); ok {
		t.Error("a container that read nothing has a distribution")
	}
	if _, ok := DelayDistribution("run", &result.Run{}); ok {
		t.Error("a run without delay counts has a distribution")
	}
}
