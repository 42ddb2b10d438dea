// SPDX-License-Identifier: MIT

package top

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/usage"
)

// Source has the samples that are shown.
type Source interface {
	Sample() (usage.Sample, error)
}

// Recorder passes on another source's samples, and writes them to a file as lines of JSON.
type Recorder struct {
	Source
	File *os.File
}

// OpenRecord opens a file to add samples to. Its names of containers are for root's group only.
func OpenRecord(file string) (*os.File, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return nil, failure.Usagef("--record %s: is no regular file; allowed: a file to add lines to", file)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, failure.Usagef("--record: %w; allowed: a file, new or old", err)
	}
	return f, nil
}

// Sample takes a sample, and keeps it unless it is the first, which has no rates.
func (r *Recorder) Sample() (usage.Sample, error) {
	sample, err := r.Source.Sample()
	if err != nil || sample.Over == 0 {
		return sample, err
	}
	return sample, WriteJSON(r.File, sample, DefaultView().Apply(sample.Rows))
}

// Replay has the samples of a file with lines of --record or --json.
type Replay struct {
	file    string
	in      *os.File
	begins  []int64 // offsets of samples
	times   []time.Time
	next    int
	history map[source][]float64
}

// OpenReplay opens a file, and begins at the first sample that is not before at.
func OpenReplay(file string, at time.Time) (*Replay, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, failure.Usagef("--replay: %w", err)
	}
	r := &Replay{file: file, in: in}
	if err := r.index(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	for r.next < len(r.times)-1 && r.times[r.next].Before(at) {
		r.next++
	}
	if last := r.times[len(r.times)-1]; last.Before(at) {
		return nil, errors.Join(failure.Usagef("--at: %s is after the recording; allowed: %s to %s", at.Format(time.DateTime),
			r.times[0].Local().Format(time.DateTime), last.Local().Format(time.DateTime)), in.Close())
	}
	return r, nil
}

// lineMost is how long a line may be, and overMost the time between two samples.
const (
	lineMost = 1 << 20
	overMost = 100 * 24 * time.Hour
)

// index finds where samples begin: lines of the same time are one.
func (r *Replay) index() error {
	scanner := bufio.NewScanner(r.in)
	scanner.Buffer(nil, lineMost)
	offset, n := int64(0), 0
	for scanner.Scan() {
		n++
		var line struct {
			Schema int       `json:"schema"`
			Time   time.Time `json:"time"`
			Over   float64   `json:"interval_s"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil || line.Schema != Schema || line.Time.IsZero() || line.Over < 0 || line.Over > overMost.Seconds() {
			return failure.Usagef("--replay %s:%d: is no line of isolio top; allowed: what --record or --json wrote", r.file, n)
		}
		if len(r.times) == 0 || !r.times[len(r.times)-1].Equal(line.Time) {
			r.begins, r.times = append(r.begins, offset), append(r.times, line.Time)
		}
		offset += int64(len(scanner.Bytes())) + 1
	}
	if err := scanner.Err(); err != nil {
		return failure.Usagef("--replay %s:%d: %w; allowed: what --record or --json wrote", r.file, n+1, err)
	}
	if n == 0 {
		return failure.Usagef("--replay %s: is empty; allowed: what --record or --json wrote", r.file)
	}
	return nil
}

// Left is how many samples come.
func (r *Replay) Left() int { return len(r.times) - r.next }

// Skip goes so many samples on, or back; the next one is where it ends.
func (r *Replay) Skip(n int) {
	r.next = min(max(r.next+n, 0), len(r.times)-1)
	r.history = nil
}

// Sample is the next one; after the last, that again.
func (r *Replay) Sample() (usage.Sample, error) {
	at := min(r.next, len(r.times)-1)
	if _, err := r.in.Seek(r.begins[at], io.SeekStart); err != nil {
		return usage.Sample{}, fmt.Errorf("replay: %w", err)
	}
	sample := usage.Sample{At: r.times[at].Local()}
	for decoder := json.NewDecoder(bufio.NewReader(r.in)); ; {
		var line Line
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return usage.Sample{}, fmt.Errorf("replay %s: %w", r.file, err)
		}
		if when, err := time.Parse(time.RFC3339Nano, line.Time); err != nil || !when.Equal(r.times[at]) {
			break
		}
		sample.Over = time.Duration(line.IntervalS * float64(time.Second))
		sample.Rows = append(sample.Rows, line.row())
	}
	if r.next < len(r.times) {
		r.next++
		r.remember(sample.Rows)
	}
	return sample, nil
}

// remember gives rows their histories of what was played before.
func (r *Replay) remember(rows []usage.Row) {
	history := map[source][]float64{}
	for i := range rows {
		k := source{rows[i].Cgroup, rows[i].Disk}
		h := r.history[k]
		h = append(h[max(0, len(h)-usage.HistoryLen+1):len(h):len(h)], rows[i].BytesPS())
		history[k], rows[i].History = h, h
	}
	r.history = history
}

// row is what a line says.
func (l *Line) row() usage.Row {
	r := usage.Row{
		Cgroup: path.Clean("/" + l.Cgroup), Name: l.Container, Disk: l.Device, Weight: l.Weight, Reasons: l.Reasons,
		Entitled: l.EntitledShare, Actual: l.Share, ThrottledPct: l.ThrottledPct, Pressure: l.Pressure,
		Read: l.Read.traffic(), Write: l.Write.traffic(),
	}
	if r.Name != "" {
		r.Within = r.Cgroup
	}
	r.Counters.ReadIOs = 1 // it had sent requests, or would have no line
	return r
}

func (t jsonTraffic) traffic() usage.Traffic {
	return usage.Traffic{BytesPS: t.BytesPS, IOPS: t.IOPS, Latency: usage.Latency{IOs: t.Lat.IOs, P50US: t.Lat.P50, P90US: t.Lat.P90, P99US: t.Lat.P99, P999US: t.Lat.P999}}
}
