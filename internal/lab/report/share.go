// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"math"

	"isolio/internal/lab/result"
)

// sharePanels draws, for each run, every container's share as a
// bar and the share it is entitled to as a mark.
func (b *builder) sharePanels() ([]panel, error) {
	var most float64
	for _, run := range b.runs {
		for _, c := range run.Containers {
			most = math.Max(most, math.Max(c.Share, c.EntitledShare))
		}
	}
	top, step := linearTop(100 * most)
	plots := make([]*barPanel, len(b.runs))
	for i, run := range b.runs {
		plots[i] = &barPanel{
			xLabel: "share of all " + shareOf(b.doc.ShareUnit) + " (%)", yLabel: "container",
			top: top, step: step, decimals: stepDecimals(step),
			baseline: -1,
		}
		for _, c := range run.Containers {
			plots[i].bars = append(plots[i].bars, bar{
				name:  c.Name,
				value: 100 * c.Share,
				mark:  100 * c.EntitledShare,
				text:  fixed(100*c.Share, 1),
				fill:  containerColour(b.index[c.Name]),
			})
		}
	}
	fit(plots)
	panels := make([]panel, len(plots))
	for i, run := range b.runs {
		p, height := plots[i].plot()
		svg, err := drawPanel(p, height, "Share of all "+shareOf(b.doc.ShareUnit)+" of each container under "+run.Scheduler)
		if err != nil {
			return nil, err
		}
		panels[i] = panel{Name: run.Scheduler, Note: "weighted Jain " + fixed(run.JainWeighted, 3), SVG: svg}
	}
	return panels, nil
}

// totalPanels draws what all containers got together under each contender:
// bytes, requests, and how fairly they were shared.
func (b *builder) totalPanels() ([]panel, error) {
	none := b.none()
	bytesPS := b.totals("total bytes per second", b.bytes, none,
		func(r *result.Run) float64 { return r.TotalBytesPS },
		func(r *result.Run) *float64 { return r.TotalVsNone })
	iops := b.totals("total requests per second", b.iops, none,
		func(r *result.Run) float64 { return r.TotalIOPS },
		func(r *result.Run) *float64 {
			if none == nil || none.TotalIOPS <= 0 {
				return nil
			}
			q := r.TotalIOPS / none.TotalIOPS
			return &q
		})
	jain := &barPanel{
		xLabel: "weighted Jain index (1 = exactly by weight)", yLabel: "scheduler",
		top: 1, step: 0.25, decimals: 2, baseline: -1,
	}
	for _, run := range b.runs {
		jain.bars = append(jain.bars, bar{
			name: run.Scheduler, value: math.Min(run.JainWeighted, 1), mark: -1,
			text: fixed(run.JainWeighted, 3), fill: plain,
		})
	}
	names := []string{"Bytes", "Requests", "Fairness"}
	panels := make([]panel, len(names))
	for i, bp := range []*barPanel{bytesPS, iops, jain} {
		fit([]*barPanel{bp})
		p, height := bp.plot()
		svg, err := drawPanel(p, height, names[i]+" under each scheduler")
		if err != nil {
			return nil, err
		}
		panels[i] = panel{Name: names[i], SVG: svg}
	}
	return panels, nil
}

// totals is one panel with a row per run; get reads the total and vsNone its
// quotient by the total of "none", nil when that did not run.
func (b *builder) totals(what string, s scale, none *result.Run, get func(*result.Run) float64,
	vsNone func(*result.Run) *float64) *barPanel {
	var most float64
	for i := range b.runs {
		most = math.Max(most, get(&b.runs[i]))
	}
	div, unit := s.div, s.unit
	if unit == "IOPS" && most >= 10_000 {
		div, unit = 1000, "thousand IOPS"
	}
	var e extent
	e.add(most)
	short := newScale(div, unit, e)
	short.decimals = min(short.decimals, 1)
	top, step := linearTop(most / div)
	bp := &barPanel{
		xLabel: fmt.Sprintf("%s (%s)", what, unit), yLabel: "scheduler",
		top: top, step: step, decimals: stepDecimals(step), baseline: -1,
	}
	if none != nil {
		bp.baseline = get(none) / div
	}
	for i := range b.runs {
		run := &b.runs[i]
		words := short.format(get(run))
		if q := vsNone(run); q != nil && run != none {
			words += " (" + fixed(*q, 2) + "×)"
		}
		bp.bars = append(bp.bars, bar{
			name: run.Scheduler, value: get(run) / div, mark: -1, text: words, fill: plain,
		})
	}
	return bp
}

// stepDecimals is how many decimals tick labels need for a tick distance.
func stepDecimals(step float64) int {
	return max(0, -int(math.Floor(math.Log10(step)+1e-9)))
}
