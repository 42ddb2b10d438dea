// SPDX-License-Identifier: MIT

package slo

import (
	"math"
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/usage"
)

// A judge decides whether a promise was demanded and kept in an interval, and
// what the cause was where it was not. It is arithmetic on counters of the kernel:
// it reads nothing.
//
// Demanded. A tenant that got what it was promised asked for it. One that got less asked for
// more if it sent that much, or had requests outstanding all the time. By Little's law the
// mean number outstanding is the sum of the latencies of what completed, divided by the
// interval; io.kyber.latency has that sum. A mean of one or more is also that of bursts
// with pauses between them. So the tasks must have been stalled for the whole interval
// (PSI), or, where PSI sees no stall as with Linux AIO, requests must have been in flight at
// the ends of four intervals in a row, in the disk or waiting for it, or throttled throughout. An interval
// that may be one of those four stays open until that is known.
//
// Kept. The service that a tenant is behind by is carried over from interval to interval,
// and may be worth 50 ms of the promise, or eight requests: that is how far the scheduler
// lets cgroups be apart. Service is the larger of the rate and of the time of the disk that the
// requests take by its profile: a tenant with a promise of reads that writes uses its part of
// the disk as well.
//
// Cause. A plan counts on three things, and each interval has a factor of what there was
// of them: the requests that the tenant keeps outstanding, the rate of the disk for what
// it has in flight, and the share that the tenant is entitled to. Their product is about what it
// got of its promise. The least factor is the cause, if it accounts for half of what is
// missing.

// Cause is why a promise was not kept.
type Cause int

// Causes. Depth is the tenant's own; the others are the host's.
const (
	NoScheduler Cause = iota
	SlowDisk
	Oversold
	TooFewRequests
	UnknownCause
	NrCauses
)

var causes = [NrCauses]string{"scheduler", "disk", "oversold", "depth", "unknown"}

// String is the cause's code, in metrics and documents.
func (c Cause) String() string { return causes[c] }

var meanings = [NrCauses]string{
	"the disk did not have the scheduler kyber-fairness",
	"the disk was slower than its profile",
	"others were entitled to too much of the disk",
	"the tenant kept too few requests outstanding",
	"none of the known causes shows",
}

// Meaning says it in words.
func (c Cause) Meaning() string { return meanings[c] }

// Terms are a promise in numbers.
type Terms struct {
	Read, Write rule.Amount
	BlockBytes  int
	Sequential  bool
	P99         time.Duration // 0 for none
	// Profile is the disk's, nil for a disk that has none.
	Profile *profile.Profile
	// Depth and Share are what the plan counts on: requests outstanding, and the part of what
	// the scheduler charges. 0 where there is no plan.
	Depth, Share float64
	// Oversold is true where all promises on the disk are more than it has.
	Oversold bool
}

// Reading is the counters of a tenant and of its disk at one time. Those of a tenant are
// sums over its cgroup and those below.
type Reading struct {
	At time.Time
	// Active is true if the disk has kyber-fairness. Without it Service, Latency and
	// SharePPM are nothing.
	Active   bool
	Service  usage.Counters
	Latency  usage.Histograms
	SharePPM uint64
	// Sent is what was submitted to the disk, whatever its scheduler is.
	Sent cgroup.IOStat
	// Stalled is how long some task waited for I/O; below 0 where the kernel does not say.
	Stalled time.Duration
	Disk    DiskReading
}

// DiskReading is what the disk completed, for all that use it.
type DiskReading struct {
	cgroup.IOStat
	// Busy is how long it had a request.
	Busy time.Duration
	// InFlight is how many requests it has now.
	InFlight int
}

// Verdict is about one interval.
type Verdict struct {
	Demanded, Kept bool
	Cause          Cause // where it was demanded and not kept
}

const (
	// allowance is how far behind a tenant may be, in time of its promise, and in requests.
	allowance         = 50 * time.Millisecond
	allowanceRequests = 8
	// waitsLeast is how many readings in a row must find requests in flight for a tenant to have
	// some always: bursts with pauses may meet one or two.
	waitsLeast = 4
	// always is the part of an interval that counts as all of it.
	always = 0.9
	// seen is the part of an interval from which on PSI is known to see the tenant's stalls.
	seen = 0.05
	// queues is how many times as many requests a tenant has outstanding as are in the disk where some wait for its
	// share. kyber-fairness' throttled_usec counts just the time out of budget, and not that before a full disk. Latencies
	// are known to a quarter of an octave.
	queues = 1.25
	// leastJudged is how many requests a p99 is about.
	leastJudged = 100
	// explains is the part of what is missing that a cause must account for.
	explains = 0.5
	// someOf is the part of a promise that a tenant must send to count as asking for it on a
	// disk of which no latency is known.
	someOf = 0.1
	// MostInterval is the longest interval that is judged: in a longer one the reader was away.
	MostInterval = 5 * time.Second
	// forgetAfter is for how long requests may be in flight without any completion. The
	// kernel's counters of what was dispatched and completed may drift apart; what is left
	// then is taken for drift.
	forgetAfter = 30 * time.Second
)

// Measure is what an interval had of what a weight changes. Without the scheduler it is all 0.
type Measure struct {
	// Attained is the part of the promise that the tenant got, by rate or by time of the disk.
	Attained float64
	// Share is what it was entitled to, 0 to 1.
	Share float64
	// Waited is whether its requests waited for its share: a larger one would give it more.
	Waited bool
	// Need is the part of what the disk served that the promise takes, by the profile; 0 for unknown.
	Need float64
}

// Judge keeps account of one promise to one tenant.
type Judge struct {
	terms Terms
	last  *Reading
	// measured is of the last interval.
	measured Measure
	// behind is the service that is missing, in intervals' worth of the promise, by direction,
	// and by time of the disk.
	behind [3]float64
	// slow and done are requests above P99, and all, since a p99 was judged last.
	slow, done uint64
	// waits is how many readings in a row found requests in flight.
	waits int
	// drift is what was dispatched and never completes; quiet is since when nothing completed.
	drift uint64
	quiet time.Time
	// unsent is the least that was submitted and not dispatched, in bytes: the counters may have
	// begun at different times.
	unsent int64
	// open are verdicts on the last intervals, for the case that the tenant asked all the time. settled are those
	// that became final with the last reading.
	open, settled []Verdict
}

// NewJudge is a judge that has read nothing.
func NewJudge(t Terms) *Judge { return &Judge{terms: t} }

// interval is what was counted between two readings.
type interval struct {
	seconds     float64
	did         [2]cgroup.IOStat // served, sent
	latency     usage.Histograms
	throttled   float64 // seconds
	stalled     float64 // part of the interval, below 0 for unknown
	disk        cgroup.IOStat
	diskBusy    float64 // part of the interval
	inFlight    float64 // in the disk
	share       float64
	outstanding float64 // mean, by Little's law
	completed   uint64
	// waited is true if the tenant's requests waited in the scheduler for its share.
	waited bool
	// standsStill is true if the disk had requests of the tenant at both ends, and completed none.
	standsStill bool
	active      bool
}

// Next judges the interval since the last reading, by what is known now; ok is false where that cannot be
// done: for the first reading, after a pause of the reader, and where a counter went back. Settled has what is final.
func (j *Judge) Next(r Reading) (v Verdict, ok bool) {
	j.settled = nil
	last := j.last
	j.last, j.measured = &r, Measure{}
	if last == nil {
		j.unsent = r.unsent()
		return v, false
	}
	took := r.At.Sub(last.At)
	if took <= 0 || took > MostInterval || r.Sent.WentBack(last.Sent) || r.Disk.WentBack(last.Disk.IOStat) {
		j.rest()
		return v, false
	}
	i := j.between(last, &r)
	if !i.active {
		j.rest()
		v = j.unscheduled(&i)
		j.settled = append(j.settled, v)
		return v, true
	}
	if r.Service.WentBack(last.Service.IOStat) || r.Service.ThrottledUS < last.Service.ThrottledUS {
		j.rest()
		return v, false
	}
	return j.judge(&i), true
}

// Settled are the verdicts that became final with the last reading, one for each interval that could be judged. Those on
// up to three intervals are open: whether the tenant asked all the time shows in the next ones.
func (j *Judge) Settled() []Verdict { return j.settled }

// Close returns the verdicts on intervals that are open still, as not demanded.
func (j *Judge) Close() []Verdict {
	j.settled = nil
	j.settle(false)
	return j.settled
}

// settle makes the open verdicts final.
func (j *Judge) settle(asked bool) {
	for _, v := range j.open {
		if !asked {
			v = Verdict{}
		}
		j.settled = append(j.settled, v)
	}
	j.open = nil
}

// Measured is what the last interval had; it goes with the verdict on that.
func (j *Judge) Measured() Measure { return j.measured }

func (j *Judge) measure(i *interval, attained float64) Measure {
	m := Measure{Attained: attained, Share: i.share, Waited: i.waited}
	if promised := j.promisedTime(); promised > 0 {
		if all := diskTime(j.terms.Profile, i.disk, !j.terms.Sequential) / i.seconds; all > 0 {
			m.Need = promised / all
		}
	}
	return m
}

// rest forgets what was carried over.
func (j *Judge) rest() {
	j.settle(false)
	j.behind, j.slow, j.done, j.waits = [3]float64{}, 0, 0, 0
}

func (j *Judge) between(a, b *Reading) interval {
	i := interval{
		seconds: b.At.Sub(a.At).Seconds(), stalled: -1,
		disk: b.Disk.Minus(a.Disk.IOStat), inFlight: float64(max(a.Disk.InFlight, b.Disk.InFlight)),
		share:  meanShare(a.SharePPM, b.SharePPM),
		active: a.Active && b.Active,
	}
	i.diskBusy = max(0, (b.Disk.Busy-a.Disk.Busy).Seconds()/i.seconds)
	i.did[sent] = b.Sent.Minus(a.Sent)
	if a.Stalled >= 0 && b.Stalled >= a.Stalled {
		i.stalled = (b.Stalled - a.Stalled).Seconds() / i.seconds
	}
	if !i.active {
		return i
	}
	i.did[served] = b.Service.Minus(a.Service.IOStat)
	i.throttled = float64(b.Service.ThrottledUS-a.Service.ThrottledUS) / 1e6
	i.latency = usage.Histograms{Read: b.Latency.Read.Since(a.Latency.Read), Write: b.Latency.Write.Since(a.Latency.Write)}
	for dir, h := range [2]usage.Histogram{i.latency.Read, i.latency.Write} {
		if (dir == 0 && j.terms.Read == rule.Amount{}) || (dir == 1 && j.terms.Write == rule.Amount{}) {
			continue
		}
		for _, bucket := range h {
			i.outstanding += float64(bucket.Count) * bucket.Middle().Seconds() / i.seconds
		}
	}
	i.completed = count(i.latency.Read) + count(i.latency.Write)
	i.waited = i.throttled > seen*i.seconds || i.outstanding > queues*i.inDisk()
	i.standsStill = j.inFlight(a, b, i.completed) && i.completed == 0 && min(a.Disk.InFlight, b.Disk.InFlight) > 0
	return i
}

// meanShare is the share during an interval, by what it was at both ends, 0 to 1: a weight may
// change in between. It was 0 for a tenant that was idle just then.
func meanShare(a, b uint64) float64 {
	if a == 0 || b == 0 {
		return float64(a+b) / 1e6
	}
	return float64(a+b) / 2e6
}

// Kinds of counters of an interval.
const (
	served = iota
	sent
)

func count(h usage.Histogram) (n uint64) {
	for _, b := range h {
		n += b.Count
	}
	return n
}

// unsent is what was submitted and not dispatched. Bytes tell: a request may be merged, or split.
func (r *Reading) unsent() int64 {
	return int64(r.Sent.ReadBytes+r.Sent.WriteBytes) - int64(r.Service.ReadBytes+r.Service.WriteBytes)
}

// inDisk is how many of the tenant's requests were in the disk, on average: its part of what completed, of what was
// in flight. All requests inside a disk see about the same latency.
func (i *interval) inDisk() float64 {
	all := i.disk.IOs()
	if all == 0 {
		return i.inFlight
	}
	return i.inFlight * min(1, float64(i.completed)/float64(all))
}

// inFlight counts for how many readings the tenant had requests, in the disk or before it, and reports
// whether it had some in the disk at both ends.
func (j *Judge) inFlight(a, b *Reading, completed uint64) bool {
	inside := func(r *Reading) uint64 {
		done := count(r.Latency.Read) + count(r.Latency.Write)
		return r.Service.IOs() - min(done, r.Service.IOs())
	}
	before, now := inside(a), inside(b)
	if completed > 0 || j.quiet.IsZero() {
		j.quiet = b.At
	}
	j.drift = min(j.drift, before, now)
	if b.At.Sub(j.quiet) > forgetAfter {
		j.drift = now
	}
	j.unsent = min(j.unsent, a.unsent(), b.unsent())
	if now <= j.drift && b.unsent() <= j.unsent {
		j.waits = 0
		return false
	}
	j.waits++
	return now > j.drift && before > j.drift
}

func (j *Judge) judge(i *interval) Verdict {
	attained := j.attained(&i.did[served], i.seconds)
	j.measured = j.measure(i, attained)
	late, judged := j.late(i, attained)
	asks := attained >= 1 || j.asks(i)
	may := !asks && j.mayAsk(i)
	v := Verdict{Demanded: asks || judged, Kept: true}
	if !asks && !may {
		j.behind = [3]float64{}
	} else if j.fallsBehind(&i.did[served], i.seconds) {
		v.Kept, v.Cause = false, j.cause(i, attained)
		j.behind = [3]float64{} // the next interval is judged for itself
	}
	if may && !judged {
		v.Demanded = true
		j.open = append(j.open, v)
		return Verdict{}
	}
	if v.Kept && late {
		v.Kept, v.Cause = false, j.causeOfLate(i)
	}
	v.Kept = v.Kept && v.Demanded
	if j.waits == 0 || j.waits >= waitsLeast {
		j.settle(asks && j.waits > 0)
	}
	j.settled = append(j.settled, v)
	return v
}

// mayAsk reports whether the next intervals may show that the tenant asked for more throughout this one.
func (j *Judge) mayAsk(i *interval) bool {
	return i.outstanding >= always && i.stalled < seen && j.waits > 0 && j.waits < waitsLeast
}

// asks reports whether a tenant that got less than it was promised asked for more.
func (j *Judge) asks(i *interval) bool {
	if j.byRate(&i.did[sent], i.seconds) >= 1 {
		return true
	}
	if i.standsStill {
		return true
	}
	if i.outstanding < always {
		return false
	}
	if i.stalled >= seen {
		return i.stalled >= always
	}
	return j.waits >= waitsLeast || i.throttled >= always*i.seconds
}

// rateOf is the part of an amount that was served.
func rateOf(a rule.Amount, ios, bytes uint64, seconds float64) float64 {
	switch {
	case a.BytesPS > 0:
		return float64(bytes) / seconds / a.BytesPS
	case a.IOPS > 0:
		return float64(ios) / seconds / a.IOPS
	}
	return math.Inf(1)
}

// byRate is the part of the promise that was served, of the direction that has less.
func (j *Judge) byRate(s *cgroup.IOStat, seconds float64) float64 {
	return min(rateOf(j.terms.Read, s.ReadIOs, s.ReadBytes, seconds), rateOf(j.terms.Write, s.WriteIOs, s.WriteBytes, seconds))
}

// byTime is the part of the disk's time that was promised that the requests took, by the
// profile; 0 without one.
func (j *Judge) byTime(s *cgroup.IOStat, seconds float64) float64 {
	promised := j.promisedTime()
	if promised <= 0 {
		return 0
	}
	return diskTime(j.terms.Profile, *s, !j.terms.Sequential) / seconds / promised
}

// promisedTime is the part of the disk's time that the promise takes, 0 without a profile.
func (j *Judge) promisedTime() float64 {
	if j.terms.Profile == nil {
		return 0
	}
	total := 0.0
	for dir, a := range [2]rule.Amount{j.terms.Read, j.terms.Write} {
		rate := a.RequestsPS(j.terms.BlockBytes)
		if rate == 0 {
			continue
		}
		t, ok := j.terms.Profile.LikelyTime(!j.terms.Sequential, 100*(1-dir), j.terms.BlockBytes)
		if !ok {
			return 0
		}
		total += rate * t
	}
	return total
}

// diskTime is the disk's time for requests by its profile. Counters do not tell their order:
// random is the likely one.
func diskTime(p *profile.Profile, s cgroup.IOStat, random bool) float64 {
	total := 0.0
	for dir, n := range [2][2]uint64{{s.ReadIOs, s.ReadBytes}, {s.WriteIOs, s.WriteBytes}} {
		if n[0] == 0 {
			continue
		}
		t, _ := p.LikelyTime(random, 100*(1-dir), int(n[1]/n[0]))
		total += t * float64(n[0])
	}
	return total
}

func (j *Judge) attained(s *cgroup.IOStat, seconds float64) float64 {
	return max(j.byRate(s, seconds), j.byTime(s, seconds))
}

// fallsBehind adds an interval to what the tenant is behind by, and reports whether that
// is more than is allowed, both by rate and by time.
func (j *Judge) fallsBehind(s *cgroup.IOStat, seconds float64) bool {
	least := allowance.Seconds()
	late := func(at int, attained, requestsPS float64) bool {
		j.behind[at] = max(0, j.behind[at]+(1-attained)*seconds)
		allowed := least
		if requestsPS > 0 {
			allowed = max(least, allowanceRequests/requestsPS)
		}
		return j.behind[at] > allowed
	}
	read, write := j.terms.Read.RequestsPS(j.terms.BlockBytes), j.terms.Write.RequestsPS(j.terms.BlockBytes)
	byRate := late(0, min(2, rateOf(j.terms.Read, s.ReadIOs, s.ReadBytes, seconds)), read)
	byRate = late(1, min(2, rateOf(j.terms.Write, s.WriteIOs, s.WriteBytes, seconds)), write) || byRate
	byTime := late(2, min(2, j.byTime(s, seconds)), read+write)
	return byRate && byTime
}

// late reports whether the p99 was judged, and not kept. It is promised to a tenant that
// asks for no more than it was promised.
func (j *Judge) late(i *interval, attained float64) (late, judged bool) {
	if j.terms.P99 == 0 {
		return false, false
	}
	if attained > 1+2*allowance.Seconds() {
		j.slow, j.done = 0, 0
		return false, false
	}
	for _, h := range []usage.Histogram{i.latency.Read, i.latency.Write} {
		for _, b := range h {
			j.done += b.Count
			if b.Begin() >= j.terms.P99 {
				j.slow += b.Count
			}
		}
	}
	if j.done < leastJudged {
		return false, false
	}
	late = j.slow*100 > j.done
	j.slow, j.done = 0, 0
	return late, true
}

// factors are what there was of what a plan counts on; 1 where it is not known.
type factors struct{ depth, disk, share float64 }

func (j *Judge) factors(i *interval) factors {
	f := factors{1, j.diskFactor(i), 1}
	if j.terms.Depth > 0 {
		f.depth = min(1, i.outstanding/j.terms.Depth)
		if i.standsStill {
			f.depth = 1 // what is outstanding does not show until it completes
		}
	}
	if j.terms.Share > 0 && i.share > 0 {
		f.share = min(1, i.share/j.terms.Share)
	}
	return f
}

// diskFactor is what the disk served, of what it serves by its profile with as many
// requests in flight. All are taken for random ones: those take longer, so that a
// disk is not called slow because of their order.
func (j *Judge) diskFactor(i *interval) float64 {
	p := j.terms.Profile
	if p == nil || i.inFlight < 1 {
		return 1
	}
	reads, writes := i.disk, i.disk
	reads.WriteIOs, reads.WriteBytes, writes.ReadIOs, writes.ReadBytes = 0, 0, 0, 0
	readTime, writeTime := diskTime(p, reads, true), diskTime(p, writes, true)
	used := (readTime + writeTime) / i.seconds
	if readTime > 0 && writeTime > 0 {
		used *= p.Interference()
	}
	// Of what a full disk serves, a disk with so many in flight serves this part.
	part := func(readPct int) float64 {
		l := p.Nearest(!j.terms.Sequential, readPct, j.terms.BlockBytes)
		if l == nil {
			l = p.Nearest(j.terms.Sequential, readPct, j.terms.BlockBytes)
		}
		if l == nil {
			return 0
		}
		return min(1, l.LowIOPS(i.inFlight)/l.Full().LowIOPS)
	}
	expected := 0.0
	if all := readTime + writeTime; all > 0 {
		expected = (readTime*part(100) + writeTime*part(0)) / all
	} else {
		expected = max(part(100), part(0))
	}
	if expected <= 0 {
		return 1
	}
	return min(1, used/expected)
}

// cause is why a tenant got only that part of its promise.
func (j *Judge) cause(i *interval, attained float64) Cause {
	f := j.factors(i)
	enough := 1 - explains*(1-min(1, attained))
	least := min(f.depth, f.disk, f.share)
	switch {
	case least > enough:
		if j.terms.Oversold && i.outstanding >= always {
			return Oversold
		}
		return UnknownCause
	case f.depth == least:
		return TooFewRequests
	case f.disk == least:
		return SlowDisk
	}
	return Oversold
}

// slowDisk is the factor below which a disk is slower than its profile says: two runs of
// a measurement may be 5 % apart, and requests come in more sizes than were measured.
const slowDisk = 0.85

// causeOfLate is why a p99 was not kept. Latencies are of requests that the tenant may send
// by its promise. Where it was not throttled, its requests waited in the disk.
func (j *Judge) causeOfLate(i *interval) Cause {
	f := j.factors(i)
	switch {
	case f.share < always && i.throttled > seen*i.seconds:
		return Oversold
	case f.disk < slowDisk || i.throttled <= seen*i.seconds:
		return SlowDisk
	case j.terms.Oversold:
		return Oversold
	}
	return UnknownCause
}

// unscheduled judges an interval in which the disk did not have the scheduler all the
// time. What was sent is all that is counted of the tenant then.
func (j *Judge) unscheduled(i *interval) Verdict {
	attained := j.attained(&i.did[sent], i.seconds)
	if attained >= 1 {
		return Verdict{Demanded: true, Kept: true}
	}
	asks := attained >= someOf && i.diskBusy >= always
	if i.stalled >= seen {
		asks = i.stalled >= always
	}
	return Verdict{Demanded: asks, Cause: NoScheduler}
}

// TermsOf is a promise with its disk's profile, nil for none, and what the plan makes of
// it, nil where there is no plan. fits is false where all promises are more than the disk has.
func TermsOf(p rule.Promise, measured *profile.Profile, planned *Tenant, fits bool) Terms {
	t := Terms{Read: p.Read, Write: p.Write, BlockBytes: p.BlockBytes, Sequential: p.Sequential, P99: p.P99, Profile: measured, Oversold: !fits}
	if planned != nil {
		t.Depth, t.Share = float64(planned.Depth), planned.Share
	}
	return t
}
