// SPDX-License-Identifier: MIT

package slo

import (
	"strings"
	"testing"
	"time"

	"isolio/internal/host/rule"
	"isolio/internal/host/usage"
)

// waiting has a judge read a tenant of so many requests outstanding on a disk that serves 1,868 a second, 470 of
// them the tenant's, with 36 in flight, as kyber-fairness had it on a model disk. queued are in the scheduler at a reading.
func waiting(outstanding float64, seconds int, queued, inDisk func(second int) uint64) (v Verdict, m Measure) {
	j := NewJudge(Terms{Read: rule.Amount{IOPS: 774}, BlockBytes: block})
	latency := time.Duration(outstanding / 470 * 1e9)
	under := bucketOf(latency)
	for n := range seconds {
		done := uint64(470 * n)
		r := Reading{At: time.Unix(int64(n), 0), Active: true, Stalled: -1}
		r.Service.ReadIOs = done + inDisk(n)
		r.Service.ReadBytes = r.Service.ReadIOs * block
		r.Service.ThrottledUS = uint64(25_000 * n)
		r.Sent.ReadIOs = r.Service.ReadIOs + queued(n)
		r.Sent.ReadBytes = r.Sent.ReadIOs * block
		r.Latency.Read = usage.Histogram{{Under: under, Count: done}}
		r.Disk.ReadIOs, r.Disk.ReadBytes, r.Disk.InFlight = uint64(1868*n), uint64(1868*n*block), 36
		v, _ = j.Next(r)
		m = j.Measured()
	}
	return v, m
}

func always9(int) uint64 { return 9 }

// A tenant whose requests wait before a full disk waits for its share, though it is hardly ever out of budget.
// One whose requests are all in the disk does not.
func TestWaited(t *testing.T) {
	if _, m := waiting(20, 10, func(int) uint64 { return 11 }, always9); !m.Waited {
		t.Errorf("20 outstanding, 9 of them in the disk: %+v", m)
	}
	if _, m := waiting(9, 10, func(int) uint64 { return 0 }, always9); m.Waited {
		t.Errorf("9 outstanding, all in the disk: %+v", m)
	}
}

// A reading that meets all requests in the scheduler's queue finds a tenant that asks.
func TestQueuedIsDemanded(t *testing.T) {
	none := func(n int) uint64 {
		if n%3 == 2 {
			return 0
		}
		return 9
	}
	queue := func(n int) uint64 { return 2 + 9 - none(n) }
	for seconds := 8; seconds < 14; seconds++ {
		if v, _ := waiting(11, seconds, queue, none); !v.Demanded {
			t.Errorf("after %d s: %+v", seconds, v)
		}
	}
	// Without any at some readings it may be bursts with pauses.
	if v, _ := waiting(11, 12, func(int) uint64 { return 0 }, none); v.Demanded {
		t.Errorf("none outstanding every third second: %+v", v)
	}
}

// Whether a tenant asked all the time shows at the fourth reading that meets requests. The intervals before are counted
// as that says, each once, and until then as nothing.
func TestSettled(t *testing.T) {
	terms := Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), Depth: 3, Share: 0.2}
	missed := second{reads: 1000, took: 4 * ms, share: 0.1, stalled: -1, disk: 9000, inFlight: 4}
	none := missed
	none.inFlight = 0
	off := missed
	off.off = true
	for name, c := range map[string]struct {
		does []second
		want []string // after each reading, what became final; " " between two
		end  string
	}{
		"asks from the first second on": {repeated(missed, 6), []string{"", "", "", "oversold oversold oversold oversold", "oversold", "oversold"}, ""},
		"bursts, met three times":       {[]second{missed, missed, missed, none, missed}, []string{"", "", "", "not demanded not demanded not demanded not demanded", ""}, "not demanded"},
		"another scheduler comes":       {[]second{missed, missed, off, off}, []string{"", "", "not demanded not demanded scheduler", "scheduler"}, ""},
	} {
		words := func(all []Verdict) string {
			var text []string
			for _, v := range all {
				text = append(text, word(v))
			}
			return strings.Join(text, " ")
		}
		j := NewJudge(terms)
		for i, r := range series(c.does) {
			j.Next(r)
			if i > 0 && words(j.Settled()) != c.want[i-1] {
				t.Errorf("%s: after %d s final: %q, want %q", name, i, words(j.Settled()), c.want[i-1])
			}
		}
		if got := words(j.Close()); got != c.end {
			t.Errorf("%s: open at the end: %q, want %q", name, got, c.end)
		}
	}
}
