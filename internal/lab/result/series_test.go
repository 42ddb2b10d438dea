// SPDX-License-Identifier: MIT

package result

import (
	"bytes"
	"encoding/json"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// Steps of 5 ms from 1 s on: nothing until 1.100 s, then a rise to 100 a step.
func TestSettleMS(t *testing.T) {
	rising := func(rise ...uint64) *Series {
		s := &Series{StartS: 1, StepMS: 5, Bytes: make([]uint64, 20)}
		s.Bytes = append(s.Bytes, rise...)
		for len(s.Bytes) < 60 {
			s.Bytes = append(s.Bytes, 100)
		}
		return s
	}
	w := experiment.Settle{AfterS: 1.1, UntilS: 1.3, Fraction: 0.95, WindowMS: 10}
	for _, tt := range []struct {
		name   string
		series *Series
		change func(*experiment.Settle)
		want   float64
		ok     bool
	}{
		{"at once", rising(), nil, 0, true},
		{"one step without anything", rising(0), nil, 5, true},
		{"two steps", rising(0, 50), nil, 10, true},
		{"95 of 100 are enough", rising(90, 100, 90), nil, 0, true},
		{"94.5 of 100 are not", rising(89, 100, 89), nil, 15, true},
		{"a gap later on", rising(100, 100, 100, 80), nil, 20, true},
		{"a longer window sees less of it", rising(100, 100, 100, 80), func(s *experiment.Settle) { s.WindowMS = 20 }, 0, true},
		{"a smaller fraction", rising(50, 60), func(s *experiment.Settle) { s.Fraction = 0.5 }, 0, true},
		{"windows begin where the time does", rising(), func(s *experiment.Settle) { s.AfterS = 1.09 }, 10, true},
		{"not before the series", rising(), func(s *experiment.Settle) { s.AfterS = 0.9 }, 0, false},
		{"not after it", rising(), func(s *experiment.Settle) { s.UntilS = 1.4 }, 0, false},
		{"nothing at all", &Series{StartS: 1, StepMS: 5, Bytes: make([]uint64, 60)}, nil, 0, false},
	} {
		of := w
		if tt.change != nil {
			tt.change(&of)
		}
		if got, ok := settled(tt.series, of); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %g ms, %t, want %g, %t", tt.name, got, ok, tt.want, tt.ok)
		}
	}
	// A rate that goes up and down to the end takes all of the time.
	never := rising()
	for i := range never.Bytes {
		never.Bytes[i] = uint64((i + 2) / 2 % 2 * 100)
	}
	if got, ok := settled(never, w); got != 200 || !ok {
		t.Errorf("never: %g ms, %t, want 200", got, ok)
	}
}

// settled is what an expectation of the only container measures.
func settled(s *Series, w experiment.Settle) (float64, bool) {
	r := Run{Containers: []Container{{Name: "a", Series: s}}}
	return r.settle(experiment.Expectation{Container: "a", Settle: &w})
}

// A third of the total is wanted, and a gets a fourth of it.
func TestSettleOfTotal(t *testing.T) {
	of := func(rate uint64) *Series {
		s := &Series{StepMS: 5}
		for range 20 {
			s.Bytes = append(s.Bytes, rate)
		}
		return s
	}
	a := of(25)
	a.Bytes[0] = 0
	r := Run{Containers: []Container{{Name: "a", Series: a}, {Name: "b", Series: of(75)}}}
	for _, tt := range []struct {
		ofTotal, fraction, want float64
	}{{0, 0.9, 5}, {0.25, 0.9, 5}, {1.0 / 3, 0.9, 100}, {1.0 / 3, 0.7, 5}} {
		x := experiment.Expectation{Container: "a", Settle: &experiment.Settle{UntilS: 0.1, WindowMS: 10, Fraction: tt.fraction, OfTotal: tt.ofTotal}}
		if got, ok := r.settle(x); !ok || got != tt.want {
			t.Errorf("%g of %g of the total: %g ms, %t, want %g", tt.fraction, tt.ofTotal, got, ok, tt.want)
		}
	}
}

func TestSettleOfAContainer(t *testing.T) {
	series := &Series{StepMS: 5, Bytes: []uint64{0, 0, 9, 9, 9, 9, 9, 9}, IOs: make([]uint64, 8)}
	e, err := experiment.Parse("x", []byte(`name = "x"
question = "When?"
schedulers = ["none"]
duration_s = 0.04
sample_ms = 5
[device]
kind = "null_blk"
completion_us = 1
tags = 1
[job]
rw = "read"
[[container]]
name = "a"
weight = 1
[[container]]
name = "b"
weight = 1
[[expect]]
scheduler = "none"
metric = "settle_ms"
container = "b"
after_s = 0.0
until_s = 0.04
max = 9
`))
	must.OK(t, err)
	d, err := Merge(e, []Run{{Scheduler: "none", Containers: []Container{{Name: "a"}, {Name: "b", Series: series}}}})
	must.OK(t, err)
	const want = "none: settle_ms of b to 95 % in windows of 10 ms from 0 to 0.04 s <= 9: measured 10"
	if len(d.Unmet) != 1 || d.Unmet[0] != want {
		t.Errorf("unmet %q, want %q", d.Unmet, want)
	}
	var text bytes.Buffer
	var back Document
	if err = d.WriteJSON(&text); err == nil {
		err = json.Unmarshal(text.Bytes(), &back)
	}
	if err != nil || len(back.Runs[0].Containers[1].Series.Bytes) != 8 || back.Runs[0].Containers[0].Series != nil {
		t.Errorf("JSON: %v\n%s", err, text.String())
	}
}
