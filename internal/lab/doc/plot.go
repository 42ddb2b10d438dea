// SPDX-License-Identifier: MIT

package doc

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"isolio/internal/lab/report"
	"isolio/internal/lab/result"
)

// plots are the kinds of plots.
func (t tables) plots() map[string]func() string {
	return map[string]func() string{
		"shares": t.ofCases(report.Shares), "own-disk": t.ofCases(report.OwnDisk), "delays": t.delays, "reads": t.reads, "curve": t.curve,
	}
}

// picture puts a plot beside the document, and returns how it is named there.
func (t tables) picture(svg []byte, err error) string {
	must(svg, err)
	t.filled.Plots[filepath.Join(filepath.Dir(t.p.file), filepath.FromSlash(t.b.File))] = svg
	return "![" + t.b.Alt + "](" + t.b.File + ")\n"
}

// checkPicture refuses a plot without a place, or without words for those who cannot see it.
func (t tables) checkPicture() {
	several := t.b.Plot == "shares" || t.b.Plot == "own-disk"
	if t.b.File == "" || path.Ext(t.b.File) != ".svg" || path.IsAbs(t.b.File) || several && strings.Count(t.b.File, "*") != min(1, len(t.b.Rows)) {
		t.p.refuse("file", "is not an SVG file beside the document", "such as plots/shares.svg; with rows, plots/shares-*.svg")
	}
	if t.b.Alt == "" {
		t.p.refuse("alt", "is missing", "what the picture shows, for those who cannot see it")
	}
}

// ofCases makes the picture of a case, or those of all rows.
func (t tables) ofCases(draw func(*result.Document, report.Picture) ([]byte, error)) func() string {
	return func() (text string) {
		for _, s := range t.sources() {
			pic := report.Picture{Case: s.k.Name, Contenders: t.b.Contenders, Title: s.name, Alt: t.b.Alt}
			if s.name != "" {
				pic.Alt += ": " + s.name
			}
			file := strings.Replace(t.b.File, "*", s.k.Name, 1)
			t.filled.Plots[filepath.Join(filepath.Dir(t.p.file), filepath.FromSlash(file))] = must(draw(s.doc, pic))
			text += "![" + pic.Alt + "](" + file + ")\n"
		}
		return text
	}
}

// delays and reads make the picture of distributions, with a line for each contender of each case.
func (t tables) delays() string {
	return t.distributions(report.Axes{X: "delay count, at most", Y: "part of the requests", FromZero: true}, func(name string, _ source, run *result.Run) (report.Line, bool) {
		return report.DelayDistribution(name, run)
	})
}

func (t tables) reads() string {
	return t.distributions(report.Axes{X: "latency, at most (ms)", Y: "part of the reads", FromZero: true}, func(name string, s source, run *result.Run) (report.Line, bool) {
		return report.ReadDistribution(name, run, s.doc.Critical)
	})
}

func (t tables) distributions(axes report.Axes, line func(string, source, *result.Run) (report.Line, bool)) string {
	var lines []report.Line
	t.runs(func(s source, run *result.Run, name string) {
		l, ok := line(name, s, run)
		if !ok {
			t.p.refuse("plot", fmt.Sprintf("%s has no distribution of %s in case %s", s.doc.Experiment, run.Scheduler, s.k.Name), "a run that has one")
		}
		lines = append(lines, l)
	})
	return t.picture(report.Lines(lines, axes, t.b.Alt))
}

// curve makes the picture of the columns' figures along contenders whose labels are numbers. A contender
// whose label is none is a level.
func (t tables) curve() string {
	if len(t.b.Columns) == 0 || t.b.X == "" || t.b.Y == "" {
		t.p.refuse("plot", "has no columns, no x or no y", "a list of tables with head and metric, and the names of the axes")
	}
	lines := make([]report.Line, len(t.b.Columns))
	t.runs(func(s source, run *result.Run, _ string) {
		x, err := strconv.ParseFloat(label(run), 64)
		for i, c := range t.b.Columns {
			got, ok := s.figure(t.p, s.k, run.Scheduler, c)
			if c.Times != 0 {
				got *= c.Times
			}
			switch {
			case !ok:
				t.p.refuse("plot", fmt.Sprintf("%s has no %s of %s in case %s", s.doc.Experiment, c.Metric, run.Scheduler, s.k.Name), "a figure that was measured")
			case err != nil:
				lines[i].Level = &got
			default:
				lines[i].X, lines[i].Y = append(lines[i].X, x), append(lines[i].Y, got)
			}
		}
	})
	for i, c := range t.b.Columns {
		if lines[i].Name = c.Head; len(lines[i].X) < 2 {
			t.p.refuse("plot", "has no two contenders with numbers for labels", "variants of a tunable")
		}
	}
	return t.picture(report.Lines(lines, report.Axes{X: t.b.X, Y: t.b.Y, FromZero: t.b.FromZero}, t.b.Alt))
}

// label is what the run's contender is called in plots.
func label(run *result.Run) string {
	if run.Variant != nil && run.Variant.Label != "" {
		return run.Variant.Label
	}
	return run.Scheduler
}

// runs are the contenders of the cases that were measured, each with a name that tells it from the others.
func (t tables) runs(do func(s source, run *result.Run, name string)) {
	all := t.sources()
	for _, s := range all {
		contenders := t.contendersOf(s)
		for _, run := range s.doc.In(s.k.Name) {
			for _, contender := range contenders {
				if run.Scheduler != contender {
					continue
				}
				name := label(&run)
				if len(contenders) == 1 && s.name != "" {
					name = s.name
				}
				do(s, &run, name)
			}
		}
	}
}
