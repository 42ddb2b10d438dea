// SPDX-License-Identifier: MIT

// Package fuzzlimit says how much memory and time a parser may take for an
// input: fuzz targets call it.
package fuzzlimit

import (
	"runtime/metrics"
	"testing"
	"time"
)

// Slow is how long a parser may take for an input that a fuzz target makes: it
// is generous, because machines are busy.
const Slow = 10 * time.Second

const allocated = "/gc/heap/allocs:bytes"

// Run calls parse, and fails the test if that allocates more than so many bytes
// or takes longer than Slow. Memory that is freed again counts as well. Small
// objects are counted a few KiB late.
func Run(t testing.TB, bytes uint64, parse func()) {
	t.Helper()
	sample := []metrics.Sample{{Name: allocated}}
	metrics.Read(sample)
	before, start := sample[0].Value.Uint64(), time.Now()
	parse()
	took := time.Since(start)
	metrics.Read(sample)
	if got := sample[0].Value.Uint64() - before; got > bytes {
		t.Fatalf("allocated %d bytes, want %d at most", got, bytes)
	}
	if took > Slow {
		t.Fatalf("took %s, want %s at most", took, Slow)
	}
}
