// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/result"
	"isolio/internal/printable"
)

// progressLine shows how far a measurement is, on one line of a terminal that
// it writes again and again. On anything but a terminal it is silent.
type progressLine struct {
	out     io.Writer // nil: not a terminal
	columns int
	runs    []string // labels, in the order of the result
	latest  map[string]guest.Progress
	began   time.Time
	now     func() time.Time
}

func newProgressLine(stderr io.Writer, x *experiment.Experiment) *progressLine {
	var runs []string
	for i := range x.Cases {
		k := &x.Cases[i]
		for _, scheduler := range x.SchedulersIn(k) {
			runs = append(runs, result.Label(k.Name, scheduler))
		}
	}
	for _, k := range x.OwnDisks() {
		runs = append(runs, result.Label(k.Name, "none"))
	}
	l := &progressLine{runs: runs, latest: map[string]guest.Progress{}, began: time.Now(), now: time.Now}
	// The line is written with escapes of its own. It has labels of the experiment, which
	// are none.
	if f, ok := printable.Under(stderr).(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.out, l.columns = f, 80
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			l.columns = columns
		}
	}
	return l
}

// eraseLine returns to the line's start and empties it.
const eraseLine = "\r\x1b[K"

// show is called with every progress, from one goroutine at a time.
func (l *progressLine) show(p guest.Progress) {
	if l.out == nil {
		return
	}
	l.latest[result.Label(p.Case, p.Scheduler)] = p
	fmt.Fprint(l.out, eraseLine+l.text())
}

// clear empties the line, so that the result starts on it.
func (l *progressLine) clear() {
	if l.out != nil {
		fmt.Fprint(l.out, eraseLine)
	}
}

// text is the whole measurement's part done and its time, and what runs now.
func (l *progressLine) text() string {
	var done float64
	var running []string
	for _, s := range l.runs {
		p, begun := l.latest[s]
		done += p.Fraction
		if begun && p.Phase != guest.PhaseDone {
			running = append(running, fmt.Sprintf("%s: %s %.0f %%", s, p.Phase, 100*p.Fraction))
		}
	}
	done /= float64(max(1, len(l.runs)))
	elapsed := l.now().Sub(l.began).Round(time.Second)
	line := fmt.Sprintf("%3.0f %%  %d:%02d  %s", 100*done, int(elapsed.Minutes()), int(elapsed.Seconds())%60, strings.Join(running, ", "))
	// A terminal wraps at its last column, and a wrapped line cannot be erased.
	return line[:min(len(line), max(0, l.columns-1))]
}
