// SPDX-License-Identifier: MIT

package slo

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/usage"
)

// disk reads 10,000 times a second at depth 16 and more, and writes 2,500 times at 4.
func disk() *profile.Profile {
	load := func(name string, readPct int, alone, most float64) profile.Load {
		l := profile.Load{Name: name, Kind: profile.Kind{Random: true, ReadPct: readPct, BlockBytes: block}}
		for depth := 1; depth <= 64; depth *= 2 {
			rate := min(float64(depth)/alone, most)
			l.Points = append(l.Points, profile.Point{Depth: depth, IOPS: rate, LowIOPS: rate})
		}
		l.KneeDepth = profile.Knee(l.Points)
		return l
	}
	return &profile.Profile{Loads: []profile.Load{load("randread-4k", 100, 1.6e-3, 10000), load("randwrite-4k", 0, 1.6e-3, 2500)}}
}

// second is what happens in one second: the tenant's reads and writes, and what they took.
type second struct {
	reads, writes uint64
	took          time.Duration // of each
	sentMore      uint64        // reads, beyond those that were served
	stalled       float64       // -1: PSI does not say
	throttled     float64
	share         float64
	disk          uint64 // other reads
	inFlight      int    // of the tenant, at the end
	off           bool   // another scheduler
	diskInFlight  int
	slow          uint64 // reads of 100 ms beside
}

// series are readings of such seconds, and one before them.
func series(all []second) []Reading {
	r := Reading{At: time.Unix(1000, 0), Active: true, Disk: DiskReading{InFlight: 16}}
	if len(all) > 0 && all[0].stalled < 0 {
		r.Stalled = -1
	}
	readings := []Reading{r}
	reads, writes, slow := map[time.Duration]uint64{}, map[time.Duration]uint64{}, uint64(0)
	sent := cgroup.IOStat{}
	for _, s := range all {
		r.At = r.At.Add(time.Second)
		r.Active = !s.off
		sent = sent.Plus(transfers(s.reads+s.slow+s.sentMore, s.writes))
		r.Sent = sent.Plus(transfers(uint64(s.inFlight), 0))
		reads[bucketOf(s.took)] += s.reads
		writes[bucketOf(s.took)] += s.writes
		slow += s.slow
		r.Service.IOStat = transfers(total(reads)+slow+uint64(s.inFlight), total(writes))
		r.Service.ThrottledUS += uint64(s.throttled * 1e6)
		r.Latency = usage.Histograms{Read: histogram(reads), Write: histogram(writes)}
		if slow > 0 {
			r.Latency.Read = append(r.Latency.Read, usage.Bucket{Under: bucketOf(100 * time.Millisecond), Count: slow})
		}
		r.SharePPM = uint64(s.share * 1e6)
		if s.stalled >= 0 {
			r.Stalled += time.Duration(s.stalled * 1e9)
		}
		r.Disk.IOStat = r.Disk.Plus(transfers(s.reads+s.slow+s.disk, s.writes))
		r.Disk.Busy += time.Second
		r.Disk.InFlight = 16
		if s.diskInFlight > 0 {
			r.Disk.InFlight = s.diskInFlight
		}
		readings = append(readings, r)
	}
	return readings
}

func transfers(reads, writes uint64) cgroup.IOStat {
	return cgroup.IOStat{ReadIOs: reads, WriteIOs: writes, ReadBytes: reads * block, WriteBytes: writes * block}
}

func total(of map[time.Duration]uint64) (n uint64) {
	for _, k := range of {
		n += k
	}
	return n
}

func histogram(of map[time.Duration]uint64) (h usage.Histogram) {
	for under, n := range of {
		h = append(h, usage.Bucket{Under: under, Count: n})
	}
	return h
}

func repeated(s second, n int) (all []second) {
	for range n {
		all = append(all, s)
	}
	return all
}

const ms = time.Millisecond

func TestVerdicts(t *testing.T) {
	reads := Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), Depth: 3.2, Share: 0.2}
	mix := reads
	mix.Write = rule.Amount{IOPS: 100}
	p99 := reads
	p99.P99 = 20 * ms
	oversold := reads
	oversold.Oversold = true
	noProfile := Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block}
	for name, c := range map[string]struct {
		terms Terms
		does  second
		want  string // of the last of 8 seconds
	}{
		"idle":                               {reads, second{share: 0.2, disk: 9000}, notDemanded},
		"what was promised":                  {reads, second{reads: 2000, took: 2 * ms, share: 0.2, stalled: 1, disk: 8000}, kept},
		"more":                               {reads, second{reads: 5000, took: 2 * ms, share: 0.2, stalled: 1}, kept},
		"less, with pauses":                  {reads, second{reads: 1000, took: 2 * ms, share: 0.2, stalled: 0.5, disk: 9000}, notDemanded},
		"less than one outstanding":          {reads, second{reads: 400, took: 2 * ms, share: 0.2, stalled: 0.95, disk: 9000}, notDemanded},
		"slow disk":                          {reads, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: 1, disk: 4000}, "disk"},
		"slow disk, AIO":                     {reads, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: -1, disk: 4000, inFlight: 2}, "disk"},
		"slow disk, AIO, sometimes none":     {reads, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: -1, disk: 4000}, notDemanded},
		"slow disk, AIO, throttled":          {reads, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: -1, disk: 4000, throttled: 1}, "disk"},
		"small share":                        {reads, second{reads: 1000, took: 4 * ms, share: 0.1, stalled: 1, disk: 9000}, "oversold"},
		"one at a time":                      {reads, second{reads: 660, took: 1500 * time.Microsecond, share: 0.2, stalled: 1, disk: 9300}, "depth"},
		"few in flight in the disk, as said": {reads, second{reads: 1240, took: 1600 * time.Microsecond, share: 1, stalled: 1, diskInFlight: 2}, "depth"},
		"nothing shows":                      {reads, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: 1, disk: 9000}, "unknown"},
		"nothing shows, too much sold":       {oversold, second{reads: 1000, took: 4 * ms, share: 0.2, stalled: 1, disk: 9000}, "oversold"},
		"no profile":                         {noProfile, second{reads: 1000, took: 4 * ms, stalled: 1, disk: 1}, "unknown"},
		"sent, not served":                   {reads, second{reads: 1000, sentMore: 1000, took: 4 * ms, share: 0.1, disk: 9000}, "oversold"},
		"writes take its time":               {reads, second{reads: 1000, writes: 250, took: 4 * ms, share: 0.2, stalled: 1, disk: 8000}, kept},
		"a mix":                              {mix, second{reads: 2000, writes: 100, took: 4 * ms, share: 0.3, stalled: 1}, kept},
		"a mix without writes":               {mix, second{reads: 2400, took: 4 * ms, share: 0.3, stalled: 1}, kept},
		"a mix, slow disk":                   {mix, second{reads: 1000, writes: 50, took: 8 * ms, share: 0.3, stalled: 1}, "disk"},
		"other scheduler, enough":            {reads, second{reads: 2000, off: true, stalled: 1}, kept},
		"other scheduler":                    {reads, second{reads: 1000, off: true, stalled: 1}, "scheduler"},
		"other scheduler, AIO":               {reads, second{reads: 1000, off: true, stalled: -1}, "scheduler"},
		"other scheduler, a little":          {reads, second{reads: 100, off: true, stalled: -1}, notDemanded},
		"p99":                                {p99, second{reads: 500, took: 2 * ms, stalled: 0.5, share: 0.2, disk: 9000}, kept},
		"p99, 1 of 100 slow":                 {p99, second{reads: 495, slow: 5, took: 2 * ms, stalled: 0.5, share: 0.2, disk: 9000}, kept},
		"p99, slow in the disk":              {p99, second{reads: 490, slow: 10, took: 2 * ms, stalled: 0.5, share: 0.2, disk: 9000}, "disk"},
		"p99, throttled by others":           {p99, second{reads: 490, slow: 10, took: 2 * ms, stalled: 0.5, share: 0.1, disk: 9000, throttled: 0.3}, "oversold"},
		"p99, asks for more than promised":   {p99, second{reads: 2500, slow: 100, took: 2 * ms, stalled: 1, share: 0.2, disk: 7000}, kept},
	} {
		j := NewJudge(c.terms)
		for i, r := range series(repeated(c.does, 8)) {
			v, ok := j.Next(r)
			if ok != (i > 0) {
				t.Fatalf("%s: reading %d: ok = %v", name, i, ok)
			}
			if i == 8 && word(v) != c.want {
				t.Errorf("%s: %s, want %s", name, word(v), c.want)
			}
		}
	}
}

// A p99 is about 100 requests, however long they take to come.
func TestRareRequests(t *testing.T) {
	terms := Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), P99: 20 * ms}
	j := NewJudge(terms)
	demanded, missed := 0, 0
	for _, r := range series(repeated(second{reads: 9, slow: 1, took: 2 * ms, stalled: 0.1}, 40)) {
		if v, ok := j.Next(r); ok && v.Demanded {
			demanded++
			if !v.Kept {
				missed++
			}
		}
	}
	if demanded != 4 || missed != 4 {
		t.Errorf("of 400 requests: judged %d times, %d missed; want 4 and 4", demanded, missed)
	}
}

// A disk that stands still is slow for a tenant that waits for it, and for no other.
func TestStandsStill(t *testing.T) {
	for _, c := range []struct {
		waiting, inDisk int
		stalled         float64
		want            string
	}{{4, 16, 1, "disk"}, {4, 16, -1, "disk"}, {0, 16, 0, notDemanded}, {4, 0, 0, notDemanded}} {
		j := NewJudge(Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), Depth: 3, Share: 0.2})
		readings := series(repeated(second{stalled: c.stalled, inFlight: c.waiting, share: 0.2}, 6))
		for i := range readings {
			readings[i].Disk.InFlight = c.inDisk
			if i == 0 {
				readings[i].Service.IOStat = transfers(uint64(c.waiting), 0)
			}
			if v, ok := j.Next(readings[i]); ok && word(v) != c.want {
				t.Errorf("%+v: %s", c, word(v))
			}
		}
	}
}

// Requests that were counted when they were dispatched and never when they completed are in
// flight for no longer than forgetAfter.
func TestDrift(t *testing.T) {
	j := NewJudge(Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk()})
	demanded := 0
	for _, r := range series(repeated(second{inFlight: 1}, 100)) {
		if v, ok := j.Next(r); ok && v.Demanded {
			demanded++
		}
	}
	if most := 31; demanded == 0 || demanded > most {
		t.Errorf("an idle tenant demanded %d of 100 intervals, want at most %d", demanded, most)
	}
}

// A disk that does reads and writes together is not slow because these hold each other up, as
// its profile says.
func TestInterference(t *testing.T) {
	p := disk()
	p.Loads = append(p.Loads, profile.Load{
		Name: "mix", Kind: profile.Kind{Random: true, ReadPct: 50, BlockBytes: block}, KneeDepth: 16,
		Points: []profile.Point{{Depth: 16, IOPS: 2667, LowIOPS: 2667}}, // alone 4000: 1.5 times as long
	})
	j := NewJudge(Terms{Read: rule.Amount{IOPS: 1500}, Write: rule.Amount{IOPS: 500}, BlockBytes: block, Profile: p, Depth: 4, Share: 0.4})
	v := Verdict{}
	for _, r := range series(repeated(second{reads: 900, writes: 300, disk: 4600, took: 4 * ms, stalled: 1, share: 0.3}, 8)) {
		v, _ = j.Next(r)
	}
	if word(v) != "oversold" { // (900 + 4600) / 10000 + 300 / 2500 = 0.67 of the disk's time, and 1.5 times that
		t.Errorf("%s", word(v))
	}
}

// The share is a gauge, and 0 where the tenant is idle just when it is read.
func TestShareWhileIdle(t *testing.T) {
	j := NewJudge(Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), Depth: 3, Share: 0.2})
	readings := series(repeated(second{reads: 1000, took: 4 * ms, share: 0.1, stalled: 1, disk: 9000}, 8))
	for i := range readings {
		if i%2 == 0 {
			readings[i].SharePPM = 0
		}
		if v, ok := j.Next(readings[i]); ok && word(v) != "oversold" {
			t.Errorf("%d: %s", i, word(v))
		}
	}
}

// In the second in which a weight is taken away, or given back, the share is one at one end
// and another at the other.
func TestShareChanges(t *testing.T) {
	full, less := second{reads: 2000, took: 2 * ms, share: 0.2, stalled: 1, disk: 8000}, second{reads: 500, took: 8 * ms, share: 0.05, stalled: 1, disk: 9500}
	taken, given := less, full
	taken.reads, given.reads = 1100, 1200
	all := slices.Concat(repeated(full, 6), []second{taken}, repeated(less, 4), []second{given}, repeated(full, 3))
	j := NewJudge(Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk(), Depth: 3, Share: 0.2})
	for i, r := range series(all) {
		want := "kept"
		if i > 6 && i <= 12 {
			want = "oversold"
		}
		if v, ok := j.Next(r); ok && i > 4 && word(v) != want {
			t.Errorf("%d: %s, want %s", i, word(v), want)
		}
	}
}

// Readings between which nothing can be said are not judged, and no debt outlives them.
func TestUnjudged(t *testing.T) {
	all := series(repeated(second{reads: 2000, took: 2 * ms, stalled: 1, share: 0.2}, 4))
	for name, change := range map[string]func(r *Reading){
		"a pause":                    func(r *Reading) { r.At = r.At.Add(time.Minute) },
		"a clock that went back":     func(r *Reading) { r.At = r.At.Add(-time.Minute) },
		"another cgroup of the name": func(r *Reading) { r.Sent, r.Service.IOStat = transfers(1, 0), transfers(1, 0) },
		"a scheduler that came anew": func(r *Reading) { r.Service = usage.Counters{} },
		"another disk":               func(r *Reading) { r.Disk.IOStat = transfers(1, 0) },
	} {
		j := NewJudge(Terms{Read: rule.Amount{IOPS: 2000}, BlockBytes: block, Profile: disk()})
		j.Next(all[0])
		j.Next(all[1])
		r := all[2]
		change(&r)
		if v, ok := j.Next(r); ok {
			t.Errorf("%s: judged: %+v", name, v)
		}
		if j.behind != [3]float64{} || j.waits != 0 {
			t.Errorf("%s: %+v is carried over", name, j.behind)
		}
	}
}

// Over any intervals in a row that were kept, service is what was promised, but for the
// allowance: a tenant that always gets a little too little is found out.
func TestServiceCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		rate := 100 + 5000*r.Float64()
		j := NewJudge(Terms{Read: rule.Amount{IOPS: rate}, BlockBytes: block})
		mean, spread := 0.9+0.15*r.Float64(), 0.2*r.Float64()
		var all []second
		for range 50 {
			n := uint64(rate * max(0, mean+spread*(r.Float64()-0.5)))
			all = append(all, second{reads: n, took: time.Duration(2e9 / rate), stalled: 1, sentMore: uint64(rate)})
		}
		allowed := max(allowance.Seconds()*rate, allowanceRequests) + 1e-6
		missing, missed := 0.0, 0
		for i, reading := range series(all) {
			v, ok := j.Next(reading)
			if !ok {
				continue
			}
			missing = max(0, missing+rate-float64(all[i-1].reads))
			if (missing > allowed) == v.Kept {
				t.Fatalf("rate %.0f: %.1f requests behind, allowed %.1f, and kept is %v", rate, missing, allowed, v.Kept)
			}
			if !v.Kept {
				missing = 0
				missed++
			}
		}
		if mean+spread/2 < 0.95 && missed == 0 {
			t.Errorf("%.2f of what was promised, always, and nothing was missed", mean)
		}
	}
}

// Whatever the counters are, a verdict is one that can be, and no tenant has a claim that
// sent nothing and has nothing in flight.
func FuzzJudge(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		terms := Terms{Read: rule.Amount{IOPS: float64(r.IntN(3)) * 1000}, Write: rule.Amount{BytesPS: float64(r.IntN(2)) * 1e6}, BlockBytes: block, P99: time.Duration(r.IntN(2)) * ms,
			Depth: float64(r.IntN(5)), Share: r.Float64(), Oversold: r.IntN(2) == 0}
		if terms.Read.IOPS == 0 {
			terms.Read.IOPS = 1
		}
		if r.IntN(2) == 0 {
			terms.Profile = disk()
		}
		j := NewJudge(terms)
		at := time.Unix(0, 0)
		sum := cgroup.IOStat{}
		judged, final := 0, 0
		for range 50 {
			at = at.Add(time.Duration(r.IntN(3000)-200) * ms)
			did := transfers(uint64(r.IntN(3000)), uint64(r.IntN(300)))
			quiet := r.IntN(4) == 0
			if quiet {
				did = cgroup.IOStat{}
			}
			sum = sum.Plus(did)
			reading := Reading{At: at, Active: r.IntN(5) > 0, Sent: sum, Stalled: time.Duration(r.IntN(4)-1) * time.Second, SharePPM: uint64(r.IntN(1000001))}
			reading.Service.IOStat = sum
			reading.Latency.Read = usage.Histogram{{Under: bucketOf(time.Duration(r.IntN(1e9))), Count: sum.ReadIOs}}
			reading.Latency.Write = usage.Histogram{{Under: usage.NoBound, Count: sum.WriteIOs}}
			reading.Disk = DiskReading{IOStat: sum, Busy: time.Duration(r.IntN(100)) * time.Second, InFlight: r.IntN(30)}
			v, ok := j.Next(reading)
			if ok {
				judged++
			}
			final += len(j.Settled())
			if open := judged - final; open < 0 || open >= waitsLeast {
				t.Fatalf("%d judged, %d final", judged, final)
			}
			if v.Kept && !v.Demanded || v.Cause < 0 || v.Cause >= NrCauses || !ok && v != (Verdict{}) {
				t.Fatalf("%+v, %v", v, ok)
			}
		}
		if final += len(j.Close()); final != judged {
			t.Fatalf("%d judged, %d final", judged, final)
		}
	})
}
