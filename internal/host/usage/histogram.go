// SPDX-License-Identifier: MIT

package usage

import (
	"cmp"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Histogram is one direction of a line of io.kyber.latency: all requests since
// the disk has the scheduler. Buckets are by growing latency; one that counted
// nothing is left out.
type Histogram []Bucket

// Bucket counts requests that took less than Under, and not less than the
// bucket before. The last one, of those that took longest, has no such bound.
type Bucket struct {
	Under time.Duration // NoBound for none
	Count uint64
}

// NoBound is the Under of the bucket without one.
const NoBound time.Duration = -1

// Histograms are those of a cgroup on one disk.
type Histograms struct {
	MajMin      string
	Read, Write Histogram
}

// ReadLatency reads the io.kyber.latency in a cgroup's directory. A cgroup that
// is gone has none.
func ReadLatency(dir string) ([]Histograms, error) {
	var all []Histograms
	err := eachLine(filepath.Join(dir, LatencyFile), func(majMin string, words []byte) error {
		h := Histograms{MajMin: majMin}
		var wrong error
		err := eachNumber(words, func(key string, n uint64) {
			if err := h.add(key, n); err != nil {
				wrong = err
			}
		})
		if err == nil {
			err = wrong
		}
		h.Read.sort()
		h.Write.sort()
		all = append(all, h)
		return err
	})
	return all, err
}

// add takes one KEY=NUMBER: r20480=17, wmore=1.
func (h *Histograms) add(key string, n uint64) error {
	to := &h.Read
	bound, ok := strings.CutPrefix(key, "r")
	if !ok {
		to = &h.Write
		bound, ok = strings.CutPrefix(key, "w")
	}
	under := NoBound
	if bound != "more" {
		ns, err := strconv.ParseInt(bound, 10, 64)
		ok = ok && err == nil && ns > 0
		under = time.Duration(ns)
	}
	if !ok {
		return fmt.Errorf("%q is not a bucket of reads or writes", key)
	}
	*to = append(*to, Bucket{Under: under, Count: n})
	return nil
}

// sort puts the bucket without bound last.
func (h Histogram) sort() {
	slices.SortFunc(h, func(a, b Bucket) int {
		switch {
		case a.Under == NoBound:
			return 1
		case b.Under == NoBound:
			return -1
		}
		return cmp.Compare(a.Under, b.Under)
	})
}

// firstUnder is the bound of the first bucket, which begins at 0.
const firstUnder = 1280 * time.Nanosecond

// Middle is the middle of the bucket: it is a quarter of an octave wide, so the
// bound is 5, 6, 7 or 8 quarters of a power of two. Of the bucket without a
// bound only the begin is known.
func (b Bucket) Middle() time.Duration {
	switch {
	case b.Under == NoBound:
		return lastBegin
	case b.Under <= firstUnder:
		return b.Under / 2
	}
	octave := time.Duration(1) << (bits.Len64(uint64(b.Under-1)) - 1)
	return b.Under - octave/8
}

// Begin is the least that a request of the bucket took.
func (b Bucket) Begin() time.Duration {
	switch {
	case b.Under == NoBound:
		return lastBegin
	case b.Under <= firstUnder:
		return 0
	}
	octave := time.Duration(1) << (bits.Len64(uint64(b.Under-1)) - 1)
	return b.Under - octave/4
}

// lastBegin is where the bucket without a bound begins: the kernel has 96 of
// them, four to an octave, from 1024 ns on.
const lastBegin = 7 << 31 * time.Nanosecond

// Since is what was counted after last. Counts of which one went back were begun
// again.
func (h Histogram) Since(last Histogram) Histogram {
	before := map[time.Duration]uint64{}
	for _, b := range last {
		before[b.Under] = b.Count
	}
	var did Histogram
	for _, b := range h {
		if b.Count < before[b.Under] {
			return h
		}
		if n := b.Count - before[b.Under]; n > 0 {
			did = append(did, Bucket{b.Under, n})
		}
		delete(before, b.Under)
	}
	if len(before) > 0 { // a bucket that has nothing any more
		return h
	}
	return did
}

// Plus is both. Neither is changed.
func (h Histogram) Plus(more Histogram) Histogram {
	sum := slices.Clone(h)
	for _, b := range more {
		at := slices.IndexFunc(sum, func(have Bucket) bool { return have.Under == b.Under })
		if at < 0 {
			sum = append(sum, b)
			continue
		}
		sum[at].Count += b.Count
	}
	sum.sort()
	return sum
}
