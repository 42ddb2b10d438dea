// SPDX-License-Identifier: MIT

package result

import (
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// What exact sharing allows bounds the total; a p99 may be above its bound where the disk
// alone is.
func TestReferenceOfSharing(t *testing.T) {
	e, err := experiment.Parse("x", []byte(`name = "x"
question = "How near to what exact shares allow?"
schedulers = ["none", "bfq"]
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
ioengine = "libaio"
iodepth = 8
[[container]]
name = "large"
weight = 1000
[[container]]
name = "small"
weight = 500
[[case]]
name = "c"
sharing_reference = true
[[expect]]
scheduler = "bfq"
metric = "total_vs_reference"
min = 0.95
[[expect]]
scheduler = "bfq"
metric = "p99_vs_fair"
max = 2
or_times_reference = 1.1
`))
	must.OK(t, err)
	// Fair is 8 requests over 1000 a second for one, 12 over 2000 for the reference.
	container := func(name string, iops, p99 float64) Container {
		return Container{Name: name, IOPS: iops, BytesPS: iops * 4096, Read: &Direction{IOPS: iops, BytesPS: iops * 4096, Lat: Latency{P99: p99}}}
	}
	run := func(name, scheduler string, of ...Container) Run {
		r := Run{Case: name, Scheduler: scheduler, Containers: of}
		r.Sum()
		return r
	}
	for _, tt := range []struct {
		name                string
		total, p99, diskP99 float64
		totalMet, p99Met    bool
		vsReference, vsFair float64
	}{
		{"as fast as it can be", 1000, 12_000, 6_000, true, true, 1, 1.5},
		{"slow, and long", 900, 20_000, 6_000, false, false, 0.9, 2.25},
		{"as long as the disk alone", 1000, 19_000, 13_200, true, true, 1, 2.375}, // 2.2 of its own fair latency
		{"longer than that", 1000, 20_000, 13_200, true, false, 1, 2.5},
	} {
		d, err := Merge(e, []Run{
			run("c", "none", container("large", 500, 1), container("small", 500, 1)),
			run("c", "bfq", container("large", tt.total, tt.p99), container("small", tt.total, 1)),
			run("c-reference", "none", container("all", 2000, tt.diskP99)),
		})
		must.OK(t, err)
		total, p99 := d.Verdicts[0], d.Verdicts[1]
		if total.Met != tt.totalMet || !near(*total.Got, tt.vsReference) {
			t.Errorf("%s: total %g of the reference, met %t", tt.name, *total.Got, total.Met)
		}
		if p99.Met != tt.p99Met || !near(*p99.Got, tt.vsFair) || p99.Wanted != "<= 2 or <= 1.1 times the reference's" {
			t.Errorf("%s: p99 %g of fair, met %t, wanted %s", tt.name, *p99.Got, p99.Met, p99.Wanted)
		}
	}
}

func near(a, b float64) bool { return a > b-1e-9 && a < b+1e-9 }
