// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/must"
)

// schedulers is an experiment without cases.
func schedulers(names ...string) *experiment.Experiment {
	return &experiment.Experiment{Schedulers: names, Cases: []experiment.Case{{}}}
}

func TestProgressLine(t *testing.T) {
	var b bytes.Buffer
	l := newProgressLine(&b, schedulers("none", "bfq", "kyber"))
	l.out, l.columns = &b, 60
	l.now = func() time.Time { return l.began.Add(83 * time.Second) }
	l.show(guest.Progress{Scheduler: "none", Phase: guest.PhaseDone, Fraction: 1})
	l.show(guest.Progress{Scheduler: "bfq", Phase: guest.PhaseMeasure, Fraction: 0.5})
	l.show(guest.Progress{Scheduler: "kyber", Phase: guest.PhaseSetup})
	if got, want := l.text(), " 50 %  1:23  bfq: measure 50 %, kyber: setup 0 %"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	l.columns = 20
	if got := l.text(); len(got) != 19 {
		t.Errorf("line %q is not cut to the terminal", got)
	}
	l.clear()
	if !strings.HasSuffix(b.String(), eraseLine) {
		t.Errorf("the line is left on the terminal: %q", b.String())
	}
}

func TestProgressOfCases(t *testing.T) {
	x := schedulers("none", "bfq")
	x.Cases = []experiment.Case{{Name: "deep"}, {Name: "flat"}}
	l := newProgressLine(&bytes.Buffer{}, x)
	l.out, l.columns = &bytes.Buffer{}, 80
	l.show(guest.Progress{Case: "deep", Scheduler: "bfq", Phase: guest.PhaseDone, Fraction: 1})
	l.show(guest.Progress{Case: "flat", Scheduler: "bfq", Phase: guest.PhaseRamp, Fraction: 0.2})
	if got, want := l.text(), " 30 %  0:00  flat: bfq: ramp 20 %"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	for range 2 {
		l := newProgressLine(&b, schedulers("none"))
		l.show(guest.Progress{Scheduler: "none", Phase: guest.PhaseSetup})
		l.clear()
	}
	if b.Len() != 0 {
		t.Errorf("written to a buffer: %q", b.String())
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	must.OK(t, err)
	defer file.Close()
	l := newProgressLine(file, schedulers("none"))
	l.show(guest.Progress{Scheduler: "none"})
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("written to a file: %v bytes, %v", info.Size(), err)
	}
}
