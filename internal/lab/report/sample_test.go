// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"slices"

	"isolio/internal/lab/result"
)

// tenant is what a test says about one container in one run: the document's
// figures follow from it.
type tenant struct {
	name   string
	weight int
	reads  float64 // IOPS of 4 KiB
	writes float64
	depth  float64 // requests outstanding
	tail   float64 // p99 over p50
}

const blockBytes = 4096

// run builds a run from the tenants' rates. none is the total of "none" in
// bytes per second, 0 if that did not run.
func run(scheduler string, none float64, tenants ...tenant) result.Run {
	r := result.Run{
		Scheduler: scheduler,
		Device:    "null_blk, completion 1000 us, 32 tags, 1 queue, 4096 MiB",
	}
	for _, t := range tenants {
		c := result.Container{
			Name: t.name, Weight: t.weight,
			IOPS:       t.reads + t.writes,
			BytesPS:    (t.reads + t.writes) * blockBytes,
			CPUUserPct: 1.5, CPUSystemPct: 4.25,
		}
		if t.reads > 0 {
			c.Read = t.direction(t.reads, 1)
		}
		if t.writes > 0 {
			c.Write = t.direction(t.writes, 1.7)
		}
		r.Containers = append(r.Containers, c)
	}
	r.Sum()
	if none > 0 {
		q := r.TotalBytesPS / none
		r.TotalVsNone = &q
	}
	return r
}

func (t tenant) direction(iops, slow float64) *result.Direction {
	mean := slow * t.depth / (t.reads + t.writes) * 1e6
	tail := max(t.tail, 1.02)
	return &result.Direction{
		BytesPS: iops * blockBytes, IOPS: iops,
		Lat: result.Latency{
			Mean: mean, P50: mean * 0.97, P90: mean * (1 + (tail-1)*0.4), P99: mean * tail,
			P999: mean * tail * 1.15, P9999: mean * tail * 1.4, Max: mean * tail * 1.9,
		},
	}
}

// contender is a run of four containers with these shares of the total.
func contender(name string, total, none, tail float64, shares ...float64) result.Run {
	weights := []int{1000, 500, 250, 100}
	tenants := make([]tenant, len(weights))
	for i, w := range weights {
		tenants[i] = tenant{
			name: fmt.Sprintf("w%d", w), weight: w,
			reads: total * shares[i], depth: 32, tail: tail,
		}
	}
	return run(name, none*blockBytes, tenants...)
}

// noneIOPS is what the contender none does.
const noneIOPS = 31934.2

// document is four containers under six contenders.
func document() *result.Document {
	const none = noneIOPS
	doc := &result.Document{
		Schema:     result.Schema,
		Experiment: "report-rand-read",
		Question:   "Do four containers share 4 KiB random reads by weight?",
		Answers:    "document 004, figure 36a",
		Kernel:     "6.1.0-56-cloud-amd64",
		Fio:        "fio-3.33",
		Runs: []result.Run{
			contender("none", none, none, 1.05, .25, .2502, .2498, .25),
			contender("mq-deadline", 31871.9, none, 1.3, .251, .249, .25, .25),
			contender("kyber", 31902.1, none, 1.1, .25, .25, .25, .25),
			contender("bfq", 21688.4, none, 6, .49, .275, .16, .075),
			contender("iocost", 27312.7, none, 9, .52, .28, .141, .059),
			contender("kyber-fairness", 31612.8, none, 1.4, .5402, .2704, .1352, .0542),
		},
	}
	expect(doc, "kyber-fairness", 0.9899, true)
	expect(doc, "bfq", 0.679159, false)
	doc.Runs[4].Settings = []string{
		"io.cost.model: 252:0 ctrl=user model=linear rbps=131072000 rseqiops=32000 rrandiops=32000 wbps=131072000 wseqiops=32000 wrandiops=32000",
		"io.cost.qos: 252:0 enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00",
		"io.weight: 1000 500 250 100",
	}
	doc.Runs[3].Settings = []string{"io.bfq.weight: 1000 500 250 100"}
	doc.Runs[5].Settings = []string{"io.kyber.weight: 1000 500 250 100"}
	return doc
}

// curve is document with a critical container, two variants of bfq that are worse
// and worse, and one that sets something else.
func curve() *result.Document {
	doc := document()
	doc.ShareUnit, doc.Critical = "bytes", "w1000"
	for i, v := range []result.Variant{
		{Of: "bfq", Label: "slice_idle 2", Changes: map[string]string{"slice_idle": "2"}},
		{Of: "bfq", Label: "low_latency", Changes: map[string]string{"low_latency": "1"}},
		{Of: "bfq", Changes: map[string]string{"slice_idle": "0"}},
	} {
		r := contender(fmt.Sprintf("bfq-%d", i+1), noneIOPS*(0.7+0.05*float64(i)), noneIOPS, float64(6-i), .45-.05*float64(i), .28, .18, .09+.05*float64(i))
		r.Variant = &v
		doc.Runs = append(doc.Runs, r)
	}
	doc.Runs = slices.Delete(doc.Runs, 1, 2) // mq-deadline: eight are enough
	return doc
}

// expect adds an expectation of a total.
func expect(doc *result.Document, scheduler string, got float64, met bool) {
	doc.Verdicts = append(doc.Verdicts, result.Verdict{
		Scheduler: scheduler, Metric: "total_vs_none", Wanted: ">= 0.9", Got: &got, Met: met,
	})
	if !met {
		doc.Unmet = append(doc.Unmet, fmt.Sprintf("%s: total_vs_none >= 0.9: measured %g", scheduler, got))
	}
}

// cases is n containers under m schedulers, in the cases.
func cases(n, m int, names ...string) *result.Document {
	all := crowd(0, 0)
	for i, name := range names {
		doc := crowd(n+i, m)
		for j := range doc.Runs {
			r := &doc.Runs[j]
			r.Case, r.Device = name, "modeldisk "+name
			r.DeviceStat = map[string]float64{"reads": 12345, "errors": 0, "write_amplification": 1.25}
		}
		all.Runs = append(all.Runs, doc.Runs...)
	}
	return all
}

// crowd is n containers under m schedulers, reads and writes.
func crowd(n, m int) *result.Document {
	doc := document()
	doc.Runs, doc.Unmet, doc.Verdicts = nil, nil, nil
	for j := range m {
		tenants := make([]tenant, n)
		for i := range n {
			tenants[i] = tenant{
				name: fmt.Sprintf("tenant-%02d", i+1), weight: 100 * (i + 1),
				reads: float64(100*(i+1) + 37*j), writes: float64(50 * (n - i)),
				depth: 16, tail: 1.2 + float64(j)/2,
			}
		}
		doc.Runs = append(doc.Runs, run(fmt.Sprintf("scheduler-%d", j+1), 0, tenants...))
	}
	return doc
}
