// SPDX-License-Identifier: MIT

package profile

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
)

func openFile(t *testing.T, size int64, flags int) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.WriteFile(name, make([]byte, size), 0o600))
	f, err := os.OpenFile(name, flags, 0)
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// What completes is counted once, in windows of their number, by direction.
func TestRun(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name         string
		job          Job
		reads, wrote bool
	}{
		{"random reads", Job{Block: 4096, Depth: 4, ReadPct: 100, Random: true}, true, false},
		{"sequential reads, several workers", Job{Block: 65536, Depth: 40, ReadPct: 100}, true, false},
		{"random writes", Job{Block: 4096, Depth: 3, ReadPct: 0, Random: true}, false, true},
		{"both", Job{Block: 16384, Depth: 1, ReadPct: 50, Random: true}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := os.O_RDONLY
			if c.job.ReadPct < 100 {
				flags = os.O_RDWR
			}
			f := openFile(t, size, flags)
			c.job.Bytes = size
			windows, err := RunJob(t.Context(), f, c.job, 10*time.Millisecond, func(w []Window) bool { return len(w) == 8 })
			must.OK(t, err)
			var all Window
			for i := range windows {
				all.Latency[ReadIO].Merge(&windows[i].Latency[ReadIO])
				all.Latency[WriteIO].Merge(&windows[i].Latency[WriteIO])
			}
			if len(windows) != 8 || (all.Latency[ReadIO].N() > 0) != c.reads || (all.Latency[WriteIO].N() > 0) != c.wrote {
				t.Errorf("%d windows, %d reads, %d writes", len(windows), all.Latency[ReadIO].N(), all.Latency[WriteIO].N())
			}
			now, err := os.ReadFile(f.Name())
			must.OK(t, err)
			if changed := !bytes.Equal(now, make([]byte, size)); changed != c.wrote || len(now) != size {
				t.Errorf("the file has %d bytes, changed: %v", len(now), changed)
			}
		})
	}
}

// An error of the disk ends the load, with what failed and where.
func TestRunFails(t *testing.T) {
	never := func([]Window) bool { return false }
	_, err := RunJob(t.Context(), openFile(t, 4096, os.O_RDONLY), Job{Bytes: 8192, Block: 8192, Depth: 1, ReadPct: 100}, time.Millisecond, never)
	if err == nil || !strings.HasSuffix(err.Error(), "read of 8192 bytes at 0: 4096 of 8192 bytes") {
		t.Errorf("beyond the end: %v", err)
	}
	_, err = RunJob(t.Context(), openFile(t, 4096, os.O_RDONLY), Job{Bytes: 4096, Block: 4096, Depth: 1}, time.Millisecond, never)
	if err == nil || !strings.Contains(err.Error(), "bad file descriptor") {
		t.Errorf("a write to a file open for reading: %v", err)
	}
	_, err = RunJob(t.Context(), openFile(t, 4096, os.O_RDONLY), Job{Bytes: 4096, Block: 8192, Depth: 1, ReadPct: 100}, time.Millisecond, never)
	if err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("smaller than a request: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = RunJob(ctx, openFile(t, 4096, os.O_RDONLY), Job{Bytes: 4096, Block: 4096, Depth: 1, ReadPct: 100}, time.Hour, never)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Percentiles are those of the sorted latencies, at most a bucket's width above.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int64{60, 5000, 1e9, 1e12} {
		var all []time.Duration
		var parts [2]Histogram
		var sum time.Duration
		for i := range 5000 {
			d := time.Duration(random.Int64N(most))
			all = append(all, d)
			parts[i%2].Add(d)
			sum += d
		}
		h := &parts[0]
		h.Merge(&parts[1])
		slices.Sort(all)
		for _, percent := range []float64{0.1, 50, 90, 99, 99.9, 100} {
			want := all[max(0, int(float64(len(all))*percent/100+0.9999)-1)]
			got := h.Percentile(percent)
			if got < want || float64(got) > float64(want)*1.032+1 {
				t.Errorf("below %d: %g %%: %d, want %d to 3.2 %% more", most, percent, got, want)
			}
		}
		if mean := sum / 5000; h.N() != 5000 || h.Mean() < mean-1 || h.Mean() > mean+1 || h.Max() != all[4999] {
			t.Errorf("below %d: %d, mean %v, want %v, max %v", most, h.N(), h.Mean(), mean, h.Max())
		}
	}
	if (&Histogram{}).Mean() != 0 || (&Histogram{}).Percentile(99) != 0 {
		t.Error("of nothing there is a mean or percentile")
	}
}

// Every bucket's top is in it, and the next nanosecond is in the next.
func TestBuckets(t *testing.T) {
	for b := range buckets - 1 {
		if bucketOf(top(b)) != b || bucketOf(top(b)+1) != b+1 {
			t.Fatalf("bucket %d: its top %d is in %d, the next in %d", b, top(b), bucketOf(top(b)), bucketOf(top(b)+1))
		}
	}
	if bucketOf(1<<63) != buckets-1 {
		t.Error("a latency beyond all buckets is not in the last one")
	}
}
