// SPDX-License-Identifier: MIT

package result

import (
	"encoding/json"
	"io"
	"math"
	"slices"
)

// WriteJSON writes the document, indented, with its figures rounded to what a
// reader can use: rates, IOPS and microseconds to 1 decimal, CPU percentages
// to 2, shares, ratios and indices to 6. The same document gives the same bytes.
func (d *Document) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d.rounded())
}

// rounded is a copy of d that shares nothing that rounding changes.
func (d *Document) rounded() *Document {
	c := *d
	c.Runs = slices.Clone(d.Runs)
	for i := range c.Runs {
		r := &c.Runs[i]
		round(1, &r.TotalBytesPS, &r.TotalIOPS)
		round(2, &r.CPUUserPct, &r.CPUSystemPct)
		round(6, &r.JainWeighted)
		if r.TotalVsNone != nil {
			versus := *r.TotalVsNone
			round(6, &versus)
			r.TotalVsNone = &versus
		}
		r.Containers = slices.Clone(r.Containers)
		for j := range r.Containers {
			t := &r.Containers[j]
			round(1, &t.BytesPS, &t.IOPS)
			round(2, &t.CPUUserPct, &t.CPUSystemPct)
			round(6, &t.EntitledShare, &t.Share)
			t.Read, t.Write = t.Read.rounded(), t.Write.rounded()
		}
	}
	return &c
}

func (d *Direction) rounded() *Direction {
	if d == nil {
		return nil
	}
	c := *d
	l := &c.Lat
	round(1, &c.BytesPS, &c.IOPS, &l.Mean, &l.P50, &l.P90, &l.P99, &l.P999, &l.P9999, &l.Max)
	return &c
}

func round(decimals int, values ...*float64) {
	scale := math.Pow10(decimals)
	for _, v := range values {
		*v = math.Round(*v*scale) / scale
	}
}
