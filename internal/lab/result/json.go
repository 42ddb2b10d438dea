// SPDX-License-Identifier: MIT

package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// WriteJSON writes the document, indented, with its figures rounded to what a
// reader can use: rates, IOPS and microseconds to 1 decimal, CPU percentages
// to 2, shares, ratios, indices and others to 6. The same document gives the same bytes.
func (d *Document) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d.rounded())
}

// WriteLines writes the document as it is archived, with the same figures: a line that has all
// but the runs, and how many they are, and a line for each run.
func (d *Document) WriteLines(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	c := d.rounded()
	if err := enc.Encode(header{c, len(c.Runs)}); err != nil {
		return err
	}
	for i := range c.Runs {
		if err := enc.Encode(&c.Runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// header is the first line of an archived document.
type header struct {
	*Document
	Runs int `json:"runs"`
}

// Read reads what WriteJSON or WriteLines wrote.
func Read(r io.Reader) (*Document, error) {
	var d Document
	var first struct {
		*Document
		Runs json.RawMessage `json:"runs"`
	}
	first.Document = &d
	dec := json.NewDecoder(r)
	if err := dec.Decode(&first); err != nil {
		return nil, ended(err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("has schema %d, this program reads schema %d", d.Schema, Schema)
	}
	var lines int
	if json.Unmarshal(first.Runs, &lines) != nil {
		if err := json.Unmarshal(first.Runs, &d.Runs); err != nil {
			return nil, fmt.Errorf("runs: %w", err)
		}
	}
	for range lines {
		var run Run
		if err := dec.Decode(&run); err != nil {
			return nil, fmt.Errorf("%w after %d of %d runs", ended(err), len(d.Runs), lines)
		}
		d.Runs = append(d.Runs, run)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more after its last run")
	}
	return &d, nil
}

// ended has the end of a file where there should be more in words.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends")
	}
	return err
}

// WithoutSeries is the document without the samples of its containers' rates.
func (d *Document) WithoutSeries() *Document {
	c := *d
	c.Runs = slices.Clone(d.Runs)
	for i := range c.Runs {
		c.Runs[i].Containers = slices.Clone(c.Runs[i].Containers)
		for j := range c.Runs[i].Containers {
			c.Runs[i].Containers[j].Series = nil
		}
	}
	return &c
}

// rounded is a copy of d that shares nothing that rounding changes.
func (d *Document) rounded() *Document {
	c := *d
	c.Runs = slices.Clone(d.Runs)
	for i := range c.Runs {
		r := &c.Runs[i]
		round(1, &r.TotalBytesPS, &r.TotalIOPS, &r.DiskBytesPS)
		round(2, &r.CPUUserPct, &r.CPUSystemPct, &r.CPUBusyPct)
		round(6, &r.JainWeighted)
		r.OverSeeds = r.OverSeeds.rounded()
		r.OwnDiskLeast, r.OwnDiskP99Most = sixDecimals(r.OwnDiskLeast), sixDecimals(r.OwnDiskP99Most)
		r.TotalVsNone, r.TotalVsReference = sixDecimals(r.TotalVsNone), sixDecimals(r.TotalVsReference)
		r.DeviceStat = maps.Clone(r.DeviceStat)
		for name, value := range r.DeviceStat {
			round(6, &value)
			r.DeviceStat[name] = value
		}
		r.GuardStat = maps.Clone(r.GuardStat)
		for name, value := range r.GuardStat {
			round(6, &value)
			r.GuardStat[name] = value
		}
		r.Containers = slices.Clone(r.Containers)
		for j := range r.Containers {
			t := &r.Containers[j]
			round(1, &t.BytesPS, &t.IOPS)
			round(2, &t.CPUUserPct, &t.CPUSystemPct)
			round(6, &t.EntitledShare, &t.Share)
			t.Read, t.Write, t.Both = t.Read.rounded(), t.Write.rounded(), t.Both.rounded()
			t.Sync, t.Operations = t.Sync.rounded(), t.Operations.rounded()
			t.Members = t.Members.rounded()
			t.OwnDisk, t.OwnDiskP99 = sixDecimals(t.OwnDisk), sixDecimals(t.OwnDiskP99)
			t.FinishMS = sixDecimals(t.FinishMS)
			t.PausesS = slices.Clone(t.PausesS)
			for k := range t.PausesS {
				round(6, &t.PausesS[k][0], &t.PausesS[k][1])
			}
			if t.Series != nil {
				series := *t.Series
				round(6, &series.StartS)
				round(1, &series.LateUS)
				t.Series = &series
			}
		}
	}
	c.Verdicts = slices.Clone(d.Verdicts)
	for i := range c.Verdicts {
		c.Verdicts[i].Got = sixDecimals(c.Verdicts[i].Got)
	}
	return &c
}

func (d *Direction) rounded() *Direction {
	if d == nil {
		return nil
	}
	c := *d
	round(1, &c.BytesPS, &c.IOPS)
	for _, s := range c.Lat.all() {
		round(1, s.value)
	}
	c.Seeds = d.Seeds.rounded()
	return &c
}

// sixDecimals is a rounded copy, nil of nil.
func sixDecimals(v *float64) *float64 {
	if v == nil {
		return nil
	}
	c := *v
	round(6, &c)
	return &c
}

func round(decimals int, values ...*float64) {
	scale := math.Pow10(decimals)
	for _, v := range values {
		*v = math.Round(*v*scale) / scale
	}
}
