// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"maps"
	"math"
	"slices"

	"isolio/internal/host/policy"
	"isolio/internal/host/slo"
	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

// holder is what a ledger knows of raised weights. Its lock is the ledger's.
type holder struct {
	// found are those of a daemon before this one, until the promises are known.
	found []state.Boost
	// changed are the cgroups with another factor than the loop was told of.
	changed map[string]bool
	// news is sent to when there are any.
	news chan struct{}
}

func newHolder(found []state.Boost) holder {
	return holder{found: found, changed: map[string]bool{}, news: make(chan struct{}, 1)}
}

// tellOf has the loop look at a cgroup.
func (h *holder) tellOf(group string) {
	h.changed[group] = true
	select {
	case h.news <- struct{}{}:
	default: // it was told, and has not looked yet
	}
}

// held are the weights that are raised now. The caller has the lock.
func (l *ledger) heldNow() []state.Boost {
	all := slices.Clone(l.holder.found)
	for _, s := range l.sold {
		for _, m := range s.members {
			if m.law != nil && m.law.Factor() > 1 {
				m.held.Factor = m.law.Factor()
				all = append(all, m.held)
			}
		}
	}
	return all
}

// held is heldNow for others.
func (l *ledger) held() []state.Boost {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heldNow()
}

// takeChanged takes the cgroups whose weight is to be another.
func (l *ledger) takeChanged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups := slices.Collect(maps.Keys(l.holder.changed))
	clear(l.holder.changed)
	return groups
}

// holdAgain gives members of promises in force their laws, and has weights lowered that no promise
// holds any more. was is what was raised before.
func (l *ledger) holdAgain(was []state.Boost) {
	for _, s := range l.sold {
		for _, m := range s.members {
			if s.Hold == 0 || s.isGone(l.plans) {
				m.law = nil
				continue
			}
			// A disk that comes again, as one that is plugged in, may have another number.
			if m.law != nil && m.held.Max == s.Hold && m.held.Disk == s.disk.MajMin {
				continue
			}
			m.held = state.Boost{Cgroup: m.group, Disk: s.disk.MajMin, Promise: s.meta.Promise, Max: s.Hold}
			factor := 1.0
			for _, h := range was {
				if h.Cgroup == m.held.Cgroup && h.Disk == m.held.Disk && h.Promise == m.held.Promise {
					factor, m.held.Cause, m.held.Since = h.Factor, h.Cause, h.Since
				}
			}
			m.law = slo.NewLaw(s.Hold, factor)
		}
	}
	l.holder.found = nil
	now := l.heldNow()
	if slices.Equal(was, now) {
		return
	}
	for _, all := range [][]state.Boost{was, now} {
		for _, h := range all {
			l.holder.tellOf(h.Cgroup)
		}
	}
	l.saveHeld()
}

// hold takes what an interval says of a tenant whose promise is held.
func (l *ledger) hold(s *sold, m *member, v slo.Verdict) {
	if m.law == nil || m.byHand {
		return
	}
	had := m.judge.Measured()
	before := m.law.Factor()
	change := m.law.Next(slo.LawSample{
		Asked: v.Demanded, Missed: v.Demanded && !v.Kept && (v.Cause == slo.SlowDisk || v.Cause == slo.Oversold),
		Throttled: had.Waited, Attained: had.Attained, Share: had.Share, Need: had.Need,
	})
	now := m.law.Factor()
	attrs := []any{
		"promise", s.meta.Promise, "cgroup", m.group, "disk", s.disk.Name, "factor", digits(now), "before", digits(before), "most", s.Hold,
		"attained", digits(had.Attained), "share", digits(had.Share),
	}
	switch change {
	case slo.Unchanged:
		return
	case slo.Raised:
		s.raised++
		m.held.Cause = v.Cause.String()
		if before == 1 {
			m.held.Since = l.now()
		}
		l.log.Info("hold", append(attrs, "code", "hold-raised", "cause", m.held.Cause)...)
	case slo.Lowered:
		l.log.Info("hold", append(attrs, "code", "hold-lowered", "need", digits(had.Need))...)
	}
	l.holder.tellOf(m.group)
	l.saveHeld()
}

// digits rounds for a reader.
func digits(n float64) float64 { return math.Round(n*1000) / 1000 }

// saveHeld keeps what is raised. It is in memory, so it may be done under the lock.
func (l *ledger) saveHeld() {
	l.tell(fault{badHeld, "file"}, state.SaveBoosts(l.sys.Root, l.heldNow()))
}

// letGo lowers all weights: no daemon will.
func (l *ledger) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.heldNow() {
		l.holder.tellOf(h.Cgroup)
	}
	l.holder.found = nil
	for _, s := range l.sold {
		for _, m := range s.members {
			m.law = nil
		}
	}
	l.saveHeld()
}

// sees tells the ledger which weights of a cgroup an operator wrote: those are not raised.
func (l *ledger) sees(group string, wants map[string]policy.Want, have weight.Values, last state.Applied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sold {
		for _, m := range s.members {
			if m.group != group || m.law == nil {
				continue
			}
			disk := s.disk.MajMin
			state := policy.StateOf(disk, wants[disk], have, last)
			was := m.byHand
			if m.byHand = state == policy.Overridden || state == policy.ByHand; m.byHand == was {
				continue
			}
			l.log.Info("hold", "promise", s.meta.Promise, "cgroup", group, "disk", s.disk.Name, "code", handCode(m.byHand))
			if m.law.Factor() > 1 {
				m.law = slo.NewLaw(s.Hold, 1)
				l.holder.tellOf(group)
				l.saveHeld()
			}
		}
	}
}

func handCode(byHand bool) string {
	if byHand {
		return "hold-suspended"
	}
	return "hold-resumed"
}

// heldChanged tells of raised and lowered weights.
func (d *Daemon) heldChanged() <-chan struct{} {
	if d.ledger == nil {
		return nil
	}
	return d.ledger.holder.news
}

// raised are the weights that are raised: the ledger's, or for a daemon that looks once those that
// another one raised.
func (d *Daemon) raised() []state.Boost {
	if d.ledger != nil {
		return d.ledger.held()
	}
	return d.loadHeld()
}

func (d *Daemon) loadHeld() []state.Boost {
	all, err := state.LoadBoosts(d.Root)
	if err != nil {
		d.settle(badHeld, map[string]string{"file": err.Error()})
		return nil
	}
	return all
}

// lower lowers all weights that were raised, as the daemon ends.
func (d *Daemon) lower(ctx context.Context) {
	d.ledger.letGo()
	at := scope{}
	for _, group := range d.ledger.takeChanged() {
		at.add(group)
	}
	if len(at.groups) == 0 {
		return
	}
	if _, err := d.write(ctx, at); err != nil {
		d.Log.ErrorContext(ctx, "look", "error", err.Error())
	}
}
