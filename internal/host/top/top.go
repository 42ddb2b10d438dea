// SPDX-License-Identifier: MIT

// Package top shows which container uses which disk: `isolio top`, live, as a table, or as lines of
// JSON. It is apart from view because the screen's libraries take 20 ms to start.
package top

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"isolio/internal/host/policy"
	"isolio/internal/host/usage"
	"isolio/internal/table"
)

// WriteTable writes rows as a plain table.
func WriteTable(w io.Writer, rows []Row) error {
	all := slices.DeleteFunc(columns(), func(c column) bool {
		return c.mayLack() && !slices.ContainsFunc(rows, func(r Row) bool { return c.text(&r) != "" })
	})
	var heads []table.Column
	for _, c := range all {
		head := table.Column{Head: c.title, Right: !c.isLeft}
		if c.rank > 0 {
			head.Spare = len(all) + 1 - c.rank
		}
		heads = append(heads, head)
	}
	var lines [][]string
	for i := range rows {
		lines = append(lines, cells(all, &rows[i]))
	}
	return table.Write(w, heads, lines)
}

func cells(all []column, r *Row) []string {
	var texts []string
	for _, c := range all {
		texts = append(texts, c.text(r))
	}
	return texts
}

func align(text string, width int, isLeft bool) string {
	room := strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
	if isLeft {
		return text + room
	}
	return room + text
}

// sparkLevels are a sparkline's characters, from none to most.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// spark draws a history, in parts of its own most.
func spark(history []float64) string {
	most := 0.0
	for _, v := range history {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range history {
		level := 0
		if most > 0 {
			level = int(v / most * float64(len(sparkLevels)-1))
		}
		b.WriteRune(sparkLevels[level])
	}
	return b.String()
}

// Schema is the version of the lines that WriteJSON writes.
const Schema = 1

// Line is one of them: a cgroup, a disk and an interval.
type Line struct {
	Schema    int     `json:"schema"`
	Time      string  `json:"time"`
	IntervalS float64 `json:"interval_s"`
	Cgroup    string  `json:"cgroup"`
	Container string  `json:"container,omitempty"`
	Device    string  `json:"device"`
	Weight    int     `json:"weight"`
	// Reasons are why, as `isolio status` and `isolio explain` have them.
	Reasons       *policy.Reasons `json:"grounds,omitempty"`
	EntitledShare float64         `json:"entitled_share"`
	Share         float64         `json:"share"`
	BytesPS       float64         `json:"bytes_per_s"`
	IOPS          float64         `json:"iops"`
	ThrottledPct  float64         `json:"throttled_pct"`
	Pressure      *float64        `json:"io_pressure_pct,omitempty"`
	Read          jsonTraffic     `json:"read"`
	Write         jsonTraffic     `json:"write"`
}

type jsonTraffic struct {
	BytesPS float64     `json:"bytes_per_s"`
	IOPS    float64     `json:"iops"`
	Lat     jsonLatency `json:"lat_us"`
}

type jsonLatency struct {
	IOs  uint64 `json:"ios"`
	P50  uint64 `json:"p50"`
	P90  uint64 `json:"p90"`
	P99  uint64 `json:"p99"`
	P999 uint64 `json:"p99_9"`
}

func jsonOf(t usage.Traffic) jsonTraffic {
	l := t.Latency
	return jsonTraffic{t.BytesPS, t.IOPS, jsonLatency{l.IOs, l.P50US, l.P90US, l.P99US, l.P999US}}
}

// WriteJSON writes rows as lines of JSON, one object each.
func WriteJSON(w io.Writer, sample usage.Sample, rows []Row) error {
	encoder := json.NewEncoder(w)
	for i := range rows {
		r := &rows[i]
		err := encoder.Encode(Line{
			Schema: Schema, Time: sample.At.UTC().Format(time.RFC3339Nano), IntervalS: sample.Over.Seconds(),
			Cgroup: r.Cgroup, Container: r.Name, Device: r.Disk, Weight: r.Weight, Reasons: r.Reasons,
			EntitledShare: r.Entitled, Share: r.Actual, BytesPS: r.BytesPS(), IOPS: r.IOPS(),
			ThrottledPct: r.ThrottledPct, Pressure: r.Pressure, Read: jsonOf(r.Read), Write: jsonOf(r.Write),
		})
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
	}
	return nil
}
