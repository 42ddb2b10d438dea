// SPDX-License-Identifier: MIT

package fio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"isolio/internal/lab/result"
)

// Output is what fio reports of one job.
type Output struct {
	Version string // such as "fio-3.33"
	Job     string
	// UserPct and SystemPct are CPU time in percent of one CPU; of several
	// processes (numjobs) fio gives the mean.
	UserPct, SystemPct float64
	// RuntimeMS is how long the job ran, from its first request on.
	RuntimeMS float64
	// Ended is whether the job came to its own end; for the caller to say.
	Ended bool
	// Read and Write are nil where the job did no such I/O. Their rates are
	// over fio's own time, which need not be that of another fio.
	Read, Write *result.Direction
	// Both is of all requests together; nil where all are of one direction.
	Both *result.Direction
	// Sync is of the job's calls of fsync and fdatasync; nil where it made none.
	Sync *result.Direction
}

// The parts of fio's JSON that are used. Other members are ignored: they
// differ between fio's versions.
type document struct {
	Version string `json:"fio version"`
	Jobs    []job  `json:"jobs"`
}

type job struct {
	Name   string    `json:"jobname"`
	Error  int       `json:"error"` // an errno, 0 if all went well
	UsrCPU float64   `json:"usr_cpu"`
	SysCPU float64   `json:"sys_cpu"`
	Read   direction `json:"read"`
	Write  direction `json:"write"`
	Mixed  direction `json:"mixed"` // all requests, beside the two
	Sync   direction `json:"sync"`  // has no bytes and no runtime
}

type direction struct {
	IOBytes   float64 `json:"io_bytes"`
	TotalIOs  float64 `json:"total_ios"`
	RuntimeMS float64 `json:"runtime"` // milliseconds
	LatNS     struct {
		N          *float64           `json:"N"` // how many were measured
		Mean       float64            `json:"mean"`
		Max        float64            `json:"max"`
		Percentile map[string]float64 `json:"percentile"`
	} `json:"lat_ns"`
}

// Decode reads fio's JSON output of one job. Lines before the JSON, where fio
// writes its complaints, become part of the error when fio failed.
func Decode(text []byte) (*Output, error) {
	start := bytes.IndexByte(text, '{')
	if start < 0 {
		return nil, fmt.Errorf("fio: output is not JSON: %q", excerpt(text))
	}
	var d document
	if err := json.NewDecoder(bytes.NewReader(text[start:])).Decode(&d); err != nil {
		return nil, fmt.Errorf("fio: output is not JSON: %w", err)
	}
	if len(d.Jobs) != 1 {
		return nil, fmt.Errorf("fio: output has %d jobs, want 1", len(d.Jobs))
	}
	j := d.Jobs[0]
	if j.Error != 0 {
		return nil, fmt.Errorf("fio: job %s failed with errno %d: %s", j.Name, j.Error, excerpt(text[:start]))
	}
	out := &Output{Version: d.Version, Job: j.Name, UserPct: j.UsrCPU, SystemPct: j.SysCPU, RuntimeMS: max(j.Read.RuntimeMS, j.Write.RuntimeMS)}
	var err error
	if out.Read, err = j.Read.result(); err != nil {
		return nil, fmt.Errorf("fio: job %s: read: %w", j.Name, err)
	}
	if out.Write, err = j.Write.result(); err != nil {
		return nil, fmt.Errorf("fio: job %s: write: %w", j.Name, err)
	}
	j.Sync.RuntimeMS = out.RuntimeMS
	if out.Sync, err = j.Sync.result(); err != nil {
		return nil, fmt.Errorf("fio: job %s: sync: %w", j.Name, err)
	}
	if out.Read == nil || out.Write == nil {
		return out, nil
	}
	if out.Both, err = j.Mixed.result(); err != nil {
		return nil, fmt.Errorf("fio: job %s: reads and writes together: %w", j.Name, err)
	}
	return out, nil
}

// result converts to bytes, seconds and microseconds; nil if there was no I/O,
// or none that was measured because fio was stopped in its ramp.
func (d direction) result() (*result.Direction, error) {
	if d.TotalIOs == 0 || d.RuntimeMS == 0 || d.LatNS.N != nil && *d.LatNS.N == 0 {
		return nil, nil
	}
	lat := result.Latency{Mean: d.LatNS.Mean / 1e3, Max: d.LatNS.Max / 1e3}
	for _, p := range []struct {
		percent float64
		to      *float64
	}{
		{10, &lat.P10}, {30, &lat.P30}, {50, &lat.P50}, {70, &lat.P70}, {90, &lat.P90}, {95, &lat.P95},
		{99, &lat.P99}, {99.9, &lat.P999}, {99.99, &lat.P9999},
	} {
		ns, ok := percentile(d.LatNS.Percentile, p.percent)
		if !ok {
			return nil, fmt.Errorf("output has no latency percentile %g", p.percent)
		}
		*p.to = ns / 1e3
	}
	// The requests that completed, as the bytes are of those. total_ios counts submissions:
	// after a ramp it lacks the requests that were in flight when the ramp ended.
	requests := d.TotalIOs
	if d.LatNS.N != nil {
		requests = *d.LatNS.N
	}
	seconds := d.RuntimeMS / 1e3
	return &result.Direction{BytesPS: d.IOBytes / seconds, IOPS: requests / seconds, Lat: lat, Requests: requests}, nil
}

// percentile finds a percentile whatever number of decimals its key has.
func percentile(all map[string]float64, percent float64) (ns float64, ok bool) {
	for key, ns := range all {
		if p, err := strconv.ParseFloat(key, 64); err == nil && p == percent {
			return ns, true
		}
	}
	return 0, false
}

// excerpt is the text on one line, cut to what fits a message.
func excerpt(text []byte) string {
	const limit = 300
	s := string(bytes.Join(bytes.Fields(text), []byte(" ")))
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return s
}
