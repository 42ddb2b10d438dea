// SPDX-License-Identifier: MIT

package result

import (
	"maps"
	"slices"
)

// Delays are delay counts: how many requests that came to the disk later completed
// before a request. The disk counts them in buckets an eighth wide, one for each
// count below 16.
type Delays struct {
	// A percentile is the least count of its request's bucket.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	// Max is exact, and since the disk was made.
	Max     float64       `json:"max"`
	Buckets []DelayBucket `json:"buckets"`
}

// DelayBucket is the requests with a delay count of Least, or a little more.
type DelayBucket struct {
	Least    uint64 `json:"least"`
	Requests uint64 `json:"requests"`
}

// NewDelays makes delays of counts by least count; nil if there was no request.
func NewDelays(counts map[uint64]uint64, worst uint64) *Delays {
	d := &Delays{Max: float64(worst)}
	for _, least := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[least]; n > 0 {
			d.Buckets = append(d.Buckets, DelayBucket{least, n})
		}
	}
	if len(d.Buckets) == 0 {
		return nil
	}
	d.P50, d.P90, d.P99, d.P999 = d.quantile(500), d.quantile(900), d.quantile(990), d.quantile(999)
	return d
}

// Requests is how many there are.
func (d *Delays) Requests() (sum uint64) {
	for _, b := range d.Buckets {
		sum += b.Requests
	}
	return sum
}

// quantile is the count that so many of a thousand requests keep to.
func (d *Delays) quantile(permille uint64) float64 {
	rank := (d.Requests()*permille + 999) / 1000
	for _, b := range d.Buckets {
		if rank <= b.Requests {
			return float64(b.Least)
		}
		rank -= b.Requests
	}
	return d.Max
}

// statistic is a delay count by its name in JSON, false if it is no such name.
func (d *Delays) statistic(name string) (float64, bool) {
	values := map[string]float64{"p50": d.P50, "p90": d.P90, "p99": d.P99, "p99_9": d.P999, "max": d.Max}
	v, ok := values[name]
	return v, ok
}
