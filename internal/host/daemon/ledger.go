// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/slo"
	"isolio/internal/host/state"
	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// interval is how often promises are judged. Each one is up to a twentieth longer or
// shorter: a tenant whose bursts keep time with the clock is not met in the same state each time.
const interval = time.Second

// keepEvery is how often what was counted is written to the histories.
const keepEvery = 10 * time.Second

// ledger keeps account of promises. The daemon tells it who they are for; it reads
// counters, has account judge them, and history keep the result.
type ledger struct {
	sys   block.System
	tree  cgroup.Tree
	store slo.History
	log   *slog.Logger

	mu   sync.Mutex
	sold []*sold

	// plans are of the promises in force, by disk; profiles are those that were read.
	plans    []planned
	profiles map[string]profileOf
	holder   holder
	// faults are what cannot be kept, by what that is. Histories are written beside what is judged,
	// so they have a lock of their own.
	faults   map[fault]string
	muFaults sync.Mutex
	// now tells the time.
	now func() time.Time
}

// planned is one promise, and what is known of its disk.
type planned struct {
	rule.Promise
	meta  slo.Meta
	disk  *block.Device
	terms slo.Terms
}

// profileOf is a profile as it was read, for as long as its file is the same.
type profileOf struct {
	modified time.Time
	size     int64
	profile  *profile.Profile
}

// sold is one promise, with those that it is for.
type sold struct {
	planned
	members []*member
	// total is since the daemon began; pending is not in the history yet.
	total, pending slo.Counts
	// raised is how often a weight was raised for it.
	raised uint64
}

// member is a container, pod or unit that a promise is for.
type member struct {
	group  string
	groups []string // it, and those below
	judge  *slo.Judge
	// law raises its weight, nil where the promise is not held; held is what it did.
	law  *slo.Law
	held state.Boost
	// byHand is true if an operator wrote its weight, which stays.
	byHand bool
}

func newLedger(root string, tree cgroup.Tree, log *slog.Logger, found []state.Boost) *ledger {
	return &ledger{
		holder: newHolder(found),
		sys:    block.System{Root: root}, tree: tree, store: slo.HistoryAt(root), log: log,
		profiles: map[string]profileOf{}, faults: map[fault]string{}, now: time.Now,
	}
}

// plan finds the disks of promises, and what a plan counts on. What is wrong is returned
// by promise: it is judged all the same, with what is known.
func (l *ledger) plan(config rule.Config) (faults map[string]string) {
	faults = map[string]string{}
	l.plans = nil
	on := map[string][]int{}
	for _, p := range config.Promises {
		name := p.Selector() + " on " + p.Device
		d, err := l.sys.One(p.Device)
		if err != nil {
			faults[name] = err.Error() + "; no account is kept of the promise"
			continue
		}
		one := planned{Promise: p, disk: d, meta: slo.Meta{
			Promise: p.Selector(), Disk: d.Name, Terms: p.Terms(), ObjectivePct: config.SLA.ObjectivePct,
		}}
		if one.meta.Identity, err = block.DiskID(l.sys, d); err != nil {
			one.meta.Identity = "name-" + d.Name // its history ends where the disk has another name
		}
		measured, err := l.profile(d, one.meta.Identity)
		if err != nil {
			faults[name] = err.Error() + "; whether the disk is slow is not known"
		}
		one.terms = slo.TermsOf(p, measured, nil, true)
		on[d.Name] = append(on[d.Name], len(l.plans))
		l.plans = append(l.plans, one)
	}
	for disk, indices := range on {
		if err := l.planDisk(disk, indices, config.SLA); err != nil {
			faults[disk] = err.Error() + "; isolio sla plan says more"
		}
	}
	return faults
}

// planDisk has a plan made of the promises on one disk.
func (l *ledger) planDisk(disk string, indices []int, sla rule.SLA) error {
	measured := l.plans[indices[0]].terms.Profile
	if measured == nil {
		return nil
	}
	var promises []rule.Promise
	for _, i := range indices {
		promises = append(promises, l.plans[i].Promise)
	}
	plan, err := slo.Make(slo.SoldDisk{Name: disk, Profile: measured}, promises, sla)
	for n, i := range indices {
		switch {
		case err != nil: // one of them is more than the disk has alone
			wrong, ok := errors.AsType[*slo.PlanError](err)
			l.plans[i].terms.Oversold = ok && wrong.Promise.Line == l.plans[i].Line
		default:
			l.plans[i].terms = slo.TermsOf(promises[n], measured, &plan.Tenants[n], plan.Fits)
		}
	}
	if err == nil && !plan.Fits {
		err = errors.New(plan.Problem)
	}
	return err
}

// profile is that of a disk, nil for none.
func (l *ledger) profile(d *block.Device, id string) (*profile.Profile, error) {
	info, err := os.Stat(profile.File(l.sys, id))
	if err == nil {
		if k := l.profiles[id]; k.profile != nil && k.modified.Equal(info.ModTime()) && k.size == info.Size() {
			return k.profile, nil
		}
	}
	p, errRead := profile.Read(l.sys, d)
	if errRead != nil {
		delete(l.profiles, id)
		return nil, errRead
	}
	if err == nil {
		l.profiles[id] = profileOf{info.ModTime(), info.Size(), p}
	}
	return p, nil
}

// set tells who the promises are for now. What was counted of those that are the same goes
// on. It returns, by promise, where there are more than were promised.
func (l *ledger) set(m *policy.Policy, groups []string) (faults map[string]string) {
	faults = map[string]string{}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.heldNow()
	before := map[string]*sold{}
	for _, s := range l.sold {
		before[s.meta.File()] = s
	}
	l.sold = nil
	for _, p := range l.plans {
		one := &sold{planned: p}
		known := map[string]*member{}
		if old := before[p.meta.File()]; old != nil {
			one.total, one.pending, one.raised = old.total, old.pending, old.raised
			delete(before, p.meta.File())
			for _, m := range old.members {
				if old.terms == p.terms {
					known[m.group] = m
				}
			}
		}
		for _, group := range groups { // sorted: parents come before children
			if !m.IsTenantOf(&p.Promise, group) {
				continue
			}
			if len(one.members) == p.Count {
				faults[p.meta.Promise] = fmt.Sprintf("is for %d at a time, and more match: %s and others have no account; raise count", p.Count, group)
				break
			}
			who := known[group]
			if who == nil {
				who = &member{group: group, judge: slo.NewJudge(p.terms)}
			}
			who.groups = below(groups, group)
			if more := len(who.groups) - mostCounted; more > 0 {
				who.groups = who.groups[:mostCounted]
				faults[group] = fmt.Sprintf("has %d cgroups inside: what %d of them are served is not counted; limit them with cgroup.max.descendants", mostCounted+more-1, more)
			}
			one.members = append(one.members, who)
		}
		l.sold = append(l.sold, one)
	}
	for _, old := range before { // what they have pending is kept still
		if old.pending.Judged > 0 {
			old.members = nil
			l.sold = append(l.sold, old)
		}
	}
	l.holdAgain(was)
	return faults
}

// mostCounted is how many cgroups of a tenant are read each second. A tenant makes as many as it
// likes, and each costs the time to read two files.
const mostCounted = 100

// below are a group and those below it.
func below(groups []string, group string) []string {
	all := []string{group}
	for _, other := range groups {
		if strings.HasPrefix(other, group+"/") {
			all = append(all, other)
		}
	}
	return all
}

// run judges each interval until ctx ends.
func (l *ledger) run(ctx context.Context) {
	kept := make(chan map[slo.Meta]slo.Counts)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.keep(kept)
	}()
	defer func() {
		l.end()
		kept <- l.take()
		close(kept)
		<-done
	}()
	next := time.NewTimer(interval)
	defer next.Stop()
	last := l.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(time.Duration((0.95 + 0.1*rand.Float64()) * float64(interval)))
		l.judge()
		if l.now().Sub(last) < keepEvery {
			continue
		}
		last = l.now()
		counts := l.take()
		select {
		case kept <- counts:
		default: // the disk is slow to write the last ones: the next time
			l.giveBack(counts)
		}
	}
}

// judge judges the interval that ends now.
func (l *ledger) judge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	disks := map[string]diskNow{}
	for _, s := range l.sold {
		if len(s.members) == 0 {
			continue
		}
		d, ok := disks[s.disk.Name]
		if !ok {
			d = l.readDisk(s.disk)
			disks[s.disk.Name] = d
		}
		if d.err != nil {
			continue
		}
		for _, m := range s.members {
			r, err := l.readMember(m, s.disk.MajMin, d)
			if err != nil {
				continue // it is going, or its files are not as they should be: not judged
			}
			v, ok := m.judge.Next(r)
			s.count(m.judge.Settled())
			if ok {
				l.hold(s, m, v)
			}
		}
	}
}

// count counts verdicts that are final.
func (s *sold) count(final []slo.Verdict) {
	for _, v := range final {
		s.total.Count(v)
		s.pending.Count(v)
	}
}

// end counts the intervals whose verdicts are open.
func (l *ledger) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sold {
		for _, m := range s.members {
			s.count(m.judge.Close())
		}
	}
}

// diskNow is what is read of a disk once in an interval.
type diskNow struct {
	slo.DiskReading
	active bool
	err    error
}

func (l *ledger) readDisk(d *block.Device) (now diskNow) {
	scheduler, _, err := d.Schedulers()
	if err != nil {
		return diskNow{err: err}
	}
	stat, err := d.Statistics()
	if err != nil {
		return diskNow{err: err}
	}
	inFlight, err := d.InFlight()
	if err != nil {
		return diskNow{err: err}
	}
	now.active = scheduler == usage.Scheduler
	now.IOStat = cgroup.IOStat{ReadIOs: stat.Reads, ReadBytes: stat.ReadBytes, WriteIOs: stat.Writes, WriteBytes: stat.WrittenBytes}
	now.Busy, now.InFlight = stat.Busy, inFlight
	return now
}

// readMember reads a tenant's counters for a disk.
func (l *ledger) readMember(m *member, majMin string, d diskNow) (slo.Reading, error) {
	r := slo.Reading{Active: d.active, Disk: d.DiskReading}
	sent, err := l.tree.IOStats(m.group)
	if err != nil {
		return r, err
	}
	r.Sent = sent[majMin]
	if r.Stalled, err = l.tree.Stalled(m.group); err != nil {
		return r, err
	}
	for _, group := range m.groups {
		dir := l.tree.Path(group)
		stats, err := usage.ReadStat(dir)
		if err != nil {
			return r, err
		}
		for i := range stats {
			if s := &stats[i]; s.MajMin == majMin {
				r.Service.Add(s.Counters)
				r.SharePPM += s.SharePPM
			}
		}
		histograms, err := usage.ReadLatency(dir)
		if err != nil {
			return r, err
		}
		for _, h := range histograms {
			if h.MajMin == majMin {
				r.Latency.Read, r.Latency.Write = r.Latency.Read.Plus(h.Read), r.Latency.Write.Plus(h.Write)
			}
		}
	}
	r.At = l.now()
	return r, nil
}

// take takes what is to be kept.
func (l *ledger) take() map[slo.Meta]slo.Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[slo.Meta]slo.Counts{}
	l.sold = slices.DeleteFunc(l.sold, func(s *sold) bool {
		if s.pending.Judged > 0 {
			all[s.meta] = s.pending
			s.pending = slo.Counts{}
		}
		return s.isGone(l.plans)
	})
	return all
}

// isGone reports whether a promise is no longer among those in force.
func (s *sold) isGone(plans []planned) bool {
	return !slices.ContainsFunc(plans, func(p planned) bool { return p.meta.File() == s.meta.File() })
}

func (l *ledger) giveBack(counts map[slo.Meta]slo.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sold {
		if c, ok := counts[s.meta]; ok {
			s.pending = s.pending.Plus(c)
		}
	}
}

// keep writes counts to the histories until there are no more. It may wait for a slow disk,
// while promises are judged.
func (l *ledger) keep(from <-chan map[slo.Meta]slo.Counts) {
	open := map[slo.Meta]*slo.Series{}
	of := func(meta slo.Meta) fault {
		return fault{notKept, filepath.Join("/", slo.HistoryDir, meta.File())}
	}
	defer func() {
		for meta, series := range open {
			l.tell(of(meta), series.Close())
		}
	}()
	for counts := range from {
		for meta, series := range open {
			if _, still := counts[meta]; !still { // not judged any more
				l.tell(of(meta), series.Close())
				delete(open, meta)
			}
		}
		now := map[fault]bool{}
		for meta, c := range counts {
			now[of(meta)] = true
			l.tell(of(meta), l.add(open, meta, c))
		}
		l.muFaults.Lock()
		maps.DeleteFunc(l.faults, func(f fault, _ string) bool { return f.what == notKept && !now[f] })
		l.muFaults.Unlock()
	}
}

func (l *ledger) add(open map[slo.Meta]*slo.Series, meta slo.Meta, c slo.Counts) error {
	series := open[meta]
	if series == nil {
		var err error
		if series, err = l.store.Open(meta, l.now()); err != nil {
			return fmt.Errorf("promise to %s: what was counted is lost: %w", meta.Promise, err)
		}
		open[meta] = series
		if series.Aside != "" {
			l.log.Warn(notKept, "of", series.Aside, "warning", "the history of the promise to "+meta.Promise+" was damaged: this is how it was; what is whole of it goes on")
		}
	}
	return series.Add(l.now(), c)
}

// tell logs an error, once for as long as it is the same; nil ends it.
func (l *ledger) tell(f fault, err error) {
	l.muFaults.Lock()
	defer l.muFaults.Unlock()
	switch {
	case err == nil:
		delete(l.faults, f)
	case l.faults[f] != err.Error():
		l.faults[f] = err.Error()
		l.log.Error(f.what, "of", f.with, "error", err.Error())
	}
}

// problems is how many faults there are; 0 for no ledger.
func (l *ledger) problems() int {
	if l == nil {
		return 0
	}
	l.muFaults.Lock()
	defer l.muFaults.Unlock()
	return len(l.faults)
}

var (
	byPromise = []string{"promise", "device"}
	demanded  = describe("promise_demanded_intervals_total", "Intervals of a second in which the promise was demanded: the tenant asked for what it was promised.", byPromise)
	keptOnes  = describe("promise_kept_intervals_total", "Demanded intervals in which the tenant got it.", byPromise)
	missed    = describe("promise_missed_intervals_total", "Demanded intervals in which the tenant did not get it, by cause: scheduler, disk, oversold, depth (the tenant kept too few requests outstanding), unknown.", append(slices.Clip(byPromise), "cause"))
	judged    = describe("promise_judged_intervals_total", "Intervals in which the counters could be read.", byPromise)
	heldBy    = describe("promise_held_factor", "What the weight is multiplied by because the promise was missed, of promises with mode hold: 1 for a weight that is not raised; the largest of several.", byPromise)
	raises    = describe("promise_weight_raises_total", "How often a weight was raised for the promise.", byPromise)
	objective = describe("promise_objective_ratio", "The part of the demanded intervals that is to be kept.", byPromise)
)

// Describe tells the metrics of promises.
func (l *ledger) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{demanded, keptOnes, missed, judged, heldBy, raises, objective} {
		to <- d
	}
}

// Collect tells what was counted since the daemon began.
func (l *ledger) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := map[[2]string]bool{}
	for _, s := range l.sold {
		of := []string{printable.Text(s.meta.Promise), s.meta.Disk}
		// Two names may look the same once they are valid: the second has no metrics.
		key := [2]string{of[0], of[1]}
		if shown[key] || s.isGone(l.plans) {
			continue
		}
		shown[key] = true
		number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, of ...string) {
			if metric, err := prometheus.NewConstMetric(d, kind, v, of...); err == nil {
				to <- metric
			}
		}
		count := func(d *prometheus.Desc, n uint32, of ...string) {
			number(d, prometheus.CounterValue, float64(n), of...)
		}
		count(demanded, s.total.Demanded, of...)
		count(keptOnes, s.total.Kept, of...)
		count(judged, s.total.Judged, of...)
		for cause := range slo.NrCauses {
			count(missed, s.total.Missed[cause], append(slices.Clip(of), cause.String())...)
		}
		if s.Hold > 0 {
			factor := 1.0
			for _, m := range s.members {
				if m.law != nil {
					factor = max(factor, m.law.Factor())
				}
			}
			number(heldBy, prometheus.GaugeValue, factor, of...)
			number(raises, prometheus.CounterValue, float64(s.raised), of...)
		}
		number(objective, prometheus.GaugeValue, math.Round(s.meta.ObjectivePct*1e6)/1e8, of...) // 99.9 / 100 is not 0.999
	}
}

// keepAccount tells the ledger what the last look found. Plans are made anew when everything
// was looked at: a disk may have been measured meanwhile.
func (d *Daemon) keepAccount(at scope) {
	if d.ledger == nil || !at.all && !at.moved {
		return
	}
	if at.all {
		d.settle(notPlanned, d.ledger.planAgain(d.config))
	}
	d.settle(tooManyTenants, d.ledger.set(policy.New(d.config, d.disks, d.containers), d.groups))
}

// planAgain is plan under the lock that judge takes: it reads files, none of them of a tenant.
func (l *ledger) planAgain(config rule.Config) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plan(config)
}

// account starts the ledger. It ends with ctx; the function waits for that.
func (d *Daemon) account(ctx context.Context) (wait func()) {
	found, err := state.LoadBoosts(d.Root)
	if err != nil {
		// Its weights are lowered, and raised again where the promises are missed.
		kept, errKeep := state.SetAsideBoosts(d.Root)
		d.Log.Warn(badHeld, "of", kept, "warning", errors.Join(err, errKeep).Error())
	}
	d.ledger = newLedger(d.Root, d.tree, d.Log, found)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.ledger.run(ctx)
	}()
	return func() { <-done }
}
