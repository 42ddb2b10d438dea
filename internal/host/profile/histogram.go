// SPDX-License-Identifier: MIT

package profile

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts latencies. A bucket is 1/32 of an octave of nanoseconds wide,
// so a percentile is at most 3.2 % above the true one.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
	sumNS  float64
	max    time.Duration
}

const (
	fineBits = 5 // of an octave: 32 buckets
	fine     = 1 << fineBits
	octaves  = 36 // up to 2^41 ns, 36 minutes
	buckets  = octaves * fine
)

// bucketOf is the bucket of a latency. The first two octaves' worth of buckets
// hold a nanosecond each.
func bucketOf(ns uint64) int {
	if ns < 2*fine {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - fineBits
	return min(buckets-1, shift*fine+int(ns>>shift))
}

// top is the largest latency of a bucket.
func top(bucket int) uint64 {
	if bucket < 2*fine {
		return uint64(bucket)
	}
	shift := bucket/fine - 1
	return uint64(bucket%fine+fine+1)<<shift - 1
}

// Add counts one request.
func (h *Histogram) Add(d time.Duration) {
	d = max(0, d)
	h.counts[bucketOf(uint64(d))]++
	h.n++
	h.sumNS += float64(d)
	h.max = max(h.max, d)
}

// Merge adds another histogram's requests.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sumNS += o.sumNS
	h.max = max(h.max, o.max)
}

// N is how many requests were counted.
func (h *Histogram) N() uint64 { return h.n }

// Mean is their mean latency, 0 if there were none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(math.Round(h.sumNS / float64(h.n)))
}

// Max is the longest latency.
func (h *Histogram) Max() time.Duration { return h.max }

// Percentile is the latency that so many percent of the requests did not exceed.
func (h *Histogram) Percentile(percent float64) time.Duration {
	want := uint64(math.Ceil(float64(h.n) * percent / 100))
	var seen uint64
	for i, n := range h.counts {
		seen += uint64(n)
		if n > 0 && seen >= want {
			return min(h.max, time.Duration(top(i)))
		}
	}
	return h.max
}
