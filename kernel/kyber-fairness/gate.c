// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate: which vtimes may go, the hardware contexts that wait for it, and the probes.
 *
 * The clock is found by a walk over the active cgroups, once the last one is older than a step:
 * by a dispatch while a hardware context waits, or by an insertion that is throttled. The
 * walk has kf_queue.lock, interrupts on. What comes of it is one word, gate.limit, that all
 * CPUs read.
 *
 * A hardware context whose backlogs are all throttled puts itself on a list of kf_queue.waiting.
 * While a request is in flight a completion follows, and either that one is the last in
 * flight, and runs all that wait; or the clock is older than some steps, and it runs one of
 * them, which finds the clock and runs the others if it moved. A timer does that while the
 * device is empty.
 */
#include "kyber-fairness.h"
#include "trace.h"

/* Waiting contexts are run when the limit has moved by one part in so many of a lead. */
#define KF_KICK_PART	16

/*
 * Whether all requests of a backlog are in flight, and for long none has completed, nor was
 * any throttled.
 */
static bool kf_backlog_is_stuck(struct kf_backlog *kb, u64 idle_ns, u64 now_ns)
{
	struct kf_queue *kq = kb->kg->kq;
	u64 eligible_at_ns;

	if (likely(idle_ns <= KF_STUCK_NS) || READ_ONCE(kb->nr_waiting))
		return false;
	eligible_at_ns = READ_ONCE(kb->eligible_at_ns);
	if (now_ns < eligible_at_ns + idle_ns)
		idle_ns = now_ns > eligible_at_ns ? now_ns - eligible_at_ns : 0;
	return idle_ns > kf_clock_stuck_ns(READ_ONCE(kq->slowest_ns));
}

/*
 * Whether others may wait for a backlog that has @nr requests. For discards and the like
 * they never do, and not for ever for what the device does not complete.
 */
static bool kf_backlog_is_present(struct kf_backlog *kb, unsigned int nr, u64 idle_ns,
				  u64 now_ns)
{
	u64 grace_ns = kf_clock_grace_ns(READ_ONCE(kb->kg->kq->gate.alone_ns));

	if (kf_clock_is_present(0, idle_ns, grace_ns))
		return true;
	return nr && nr > atomic_read(&kb->nr_other) &&
	       !kf_backlog_is_stuck(kb, idle_ns, now_ns);
}

/*
 * Whether a group has requests, or had a moment ago, by a look at all hardware contexts on
 * which it may have.
 */
bool kf_group_is_present(struct kf_group *kg, u64 now_ns)
{
	u64 busy_ns = kg->last_busy_ns;
	bool is_present = false;
	unsigned int i;

	lockdep_assert_held(&kg->kq->lock);

	for (i = kf_group_next_busy(kg, 0); i < kg->nr_backlogs;
	     i = kf_group_next_busy(kg, i + 1)) {
		struct kf_backlog *kb = READ_ONCE(kg->backlog[i]);
		unsigned int nr = kf_backlog_nr(kb);
		u64 done_ns = READ_ONCE(kb->done_ns);
		u64 idle_ns = now_ns > done_ns ? now_ns - done_ns : 0;

		busy_ns = max(busy_ns, nr ? now_ns : done_ns);
		if (!kf_backlog_is_present(kb, nr, idle_ns, now_ns)) {
			clear_bit(i, kg->busy);
			/* Pairs with kf_group_account_insert(): the bit before the count. */
			smp_mb__after_atomic();
			kf_group_account_load(kg, kb, now_ns);
			if (kf_backlog_nr(kb) <= nr)
				continue;
			set_bit(i, kg->busy);
		}
		is_present = true;
	}
	WRITE_ONCE(kg->last_busy_ns, busy_ns);
	return is_present;
}

/*
 * The active group of least vtime that is present, of those awaited or of all; and their
 * shares together. Only one that would be the first is looked at on all its hardware
 * contexts: one that is absent stays behind the others, and is found to be by the next walk
 * or so.
 */
static struct kf_group *kf_gate_first(struct kf_queue *kq, bool of_all, u64 now_ns,
				      u64 *share_sum)
{
	struct kf_group *kg, *first = NULL;
	u64 first_vtime = 0;

	lockdep_assert_held(&kq->lock);

	*share_sum = 0;
	list_for_each_entry(kg, &kq->active, active_node) {
		u64 vtime = atomic64_read(&kg->vtime);

		if (!(of_all || kg->is_awaited) || READ_ONCE(kg->is_dead) ||
		    !kf_group_is_busy(kg))
			continue;
		if (!first || kf_vtime_before(vtime, first_vtime)) {
			if (!kf_group_is_present(kg, now_ns))
				continue;
			first = kg;
			first_vtime = vtime;
		}
		*share_sum += kg->share;
	}
	return first;
}

/*
 * The active group of least vtime that has requests, of those for which no other waits: all
 * are deleted, or only discard. The clock goes on with them.
 */
static struct kf_group *kf_gate_first_other(struct kf_queue *kq, u64 *share_sum)
{
	struct kf_group *kg, *first = NULL;

	lockdep_assert_held(&kq->lock);

	*share_sum = 0;
	list_for_each_entry(kg, &kq->active, active_node) {
		if (!kf_group_has_requests(kg))
			continue;
		*share_sum += kg->share;
		if (!first || kf_vtime_before(atomic64_read(&kg->vtime),
					      atomic64_read(&first->vtime)))
			first = kg;
	}
	return first;
}

/**
 * kf_clock_update - set the clock
 * @kq: device
 *
 * Return: whether it moved by so much that waiting contexts have to be run, which is
 * for the caller to do once it holds no lock.
 */
bool kf_clock_update(struct kf_queue *kq)
{
	u64 now_ns = ktime_get_ns(), limit, free, lead, share_sum;
	unsigned int nr_lowered = kq->gate.nr_lowered;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	if (READ_ONCE(kq->shares_are_stale) && now_ns >= kq->shares_due_ns) {
		kf_update_shares(kq);
		now_ns = ktime_get_ns();
	}
	kf_groups_update_owed(kq, now_ns);
	kg = kf_gate_first(kq, false, now_ns, &share_sum) ?:
	     kf_gate_first(kq, true, now_ns, &share_sum) ?:
	     kf_gate_first_other(kq, &share_sum);
	if (kg) {
		WRITE_ONCE(kq->gate.vtime, atomic64_read(&kg->vtime));
		/* One came back: the others were further ahead without it than they may be. */
		if (share_sum > kq->share_sum)
			kf_groups_lower(kq);
		if (share_sum != kq->share_sum)
			kq->share_sum = share_sum;
	}

	lead = kf_clock_lead_vtime(READ_ONCE(kq->lead_bytes), kq->share_sum);
	if (lead != kq->gate.lead)
		WRITE_ONCE(kq->gate.lead, lead);
	free = kq->gate.vtime + lead;
	limit = kf_hold_limit(kq->gate.limit, free, kq->pace.bytes_per_s,
			      now_ns - kq->gate.clock_ns, kq->hold);
	WRITE_ONCE(kq->gate.limit, limit);
	if (kq->hold)
		kf_groups_lower_owed(kq);
	WRITE_ONCE(kq->gate.clock_ns, now_ns);
	kq->walk_ns = kf_clock_walk_ns(kq->walk_ns, ktime_get_ns() - now_ns);
	WRITE_ONCE(kq->gate.step_ns,
		   kf_clock_step_ns(READ_ONCE(kq->gate.alone_ns), kq->walk_ns,
				    READ_ONCE(kq->gate.is_slack)));
	trace_kf_clock(kq, kg, limit);

	if (kf_vtime_before(limit, kq->kicked_limit))
		kq->kicked_limit = limit;
	if (limit - kq->kicked_limit < lead / KF_KICK_PART && kq->gate.nr_lowered == nr_lowered)
		return false;
	kq->kicked_limit = limit;
	return true;
}

/**
 * kf_clock_try_update - set the clock, unless another CPU does
 * @kq: device
 *
 * Return: as kf_clock_update(). Called with kf_hctx.lock held.
 */
bool kf_clock_try_update(struct kf_queue *kq)
{
	bool has_moved;

	if (!spin_trylock_bh(&kq->lock))
		return false;
	has_moved = kf_clock_update(kq);
	spin_unlock_bh(&kq->lock);
	return has_moved;
}

/**
 * kf_wait_for - put a hardware context on a list of those that wait
 * @kq: device
 * @kh: the hardware context
 * @what: it waits for
 *
 * The caller looks once more then: what it waits for may have come before it was on the list.
 *
 * Return: whether it was not on it.
 */
bool kf_wait_for(struct kf_queue *kq, struct kf_hctx *kh, enum kf_wait_for what)
{
	unsigned long flags;

	/* The bit goes before the context is run: that run comes after this look. */
	if (test_bit(what, &kh->flags) || test_and_set_bit(what, &kh->flags))
		return false;
	spin_lock_irqsave(&kq->wait_lock, flags);
	list_add_tail(&kh->waiting_node[what], &kq->waiting[what]);
	spin_unlock_irqrestore(&kq->wait_lock, flags);
	/* On the list before the look; kf_gate_kick() pairs. */
	smp_mb();
	return true;
}

/**
 * kf_gate_wait - have a hardware context run when the gate may let it
 * @kq: device
 * @kh: the hardware context; all its backlogs were seen to be throttled
 *
 * Return: whether it has to wait. Any context, no lock needed.
 */
bool kf_gate_wait(struct kf_queue *kq, struct kf_hctx *kh)
{
	if (kf_wait_for(kq, kh, KF_FOR_CLOCK)) {
		trace_kf_wait(kq->dev, kh->hctx->queue_num);
		/* If no completion comes for long, which cgroups are awaited changes. */
		kf_update_soon(kq);
	}
	/* No completion comes to have the clock set. */
	if (kf_is_empty(kq) && !hrtimer_is_queued(&kq->pace_timer))
		hrtimer_start(&kq->pace_timer, ns_to_ktime(KF_PACE_NS), HRTIMER_MODE_REL);
	return !kf_hctx_may_go(kq, kh);
}

/*
 * Take those off a list that are to run: all, or up to the first one that has requests. Those
 * stay that have waited for less, so that no completion sees the list without them.
 */
static void kf_gate_take(struct kf_queue *kq, enum kf_wait_for what, bool all,
			 struct list_head *taken)
{
	struct list_head *list = &kq->waiting[what], *last;
	struct kf_hctx *kh;
	unsigned long flags;

	spin_lock_irqsave(&kq->wait_lock, flags);
	last = list->prev;
	if (!all) {
		list_for_each_entry(kh, list, waiting_node[what]) {
			if (READ_ONCE(kh->has_ready)) {
				last = &kh->waiting_node[what];
				break;
			}
		}
	}
	list_cut_position(taken, list, last);
	spin_unlock_irqrestore(&kq->wait_lock, flags);
}

/**
 * kf_gate_kick - run hardware contexts that wait
 * @kq: device
 * @what: they wait for
 * @all: all of them; else the one that has requests and has waited for longest
 * @self: not this one, which is about to look by itself; or NULL
 *
 * Any context; workers run them, so the caller may hold the lock of a hardware context.
 */
void kf_gate_kick(struct kf_queue *kq, enum kf_wait_for what, bool all, struct kf_hctx *self)
{
	struct kf_hctx *kh, *next;
	LIST_HEAD(taken);

	/* What lets them go before the look at the list; kf_wait_for() pairs. */
	smp_mb();
	if (!kf_waits_for(kq, what))
		return;

	kf_gate_take(kq, what, all, &taken);
	list_for_each_entry_safe(kh, next, &taken, waiting_node[what]) {
		/* The list's while it has the bit. */
		list_del(&kh->waiting_node[what]);
		clear_bit_unlock(what, &kh->flags);
		/* It may be put on the list again, before it is run; kf_wait_for() pairs. */
		smp_mb__after_atomic();
		if (kh != self)
			blk_mq_run_hw_queue(kh->hctx, true);
	}
}

/* More may go than before: no completion may come to tell those that wait. */
void kf_gate_kick_all(struct kf_queue *kq)
{
	kf_gate_kick(kq, KF_FOR_PLACE, true, NULL);
	kf_large_kick(kq);
	kf_gate_kick(kq, KF_FOR_CLOCK, true, NULL);
}

/* The clock may be set again: those that wait are run, and do it. */
static enum hrtimer_restart kf_pace_timer(struct hrtimer *timer)
{
	kf_gate_kick_all(container_of(timer, struct kf_queue, pace_timer));
	return HRTIMER_NORESTART;
}

void kf_gate_init(struct kf_queue *kq)
{
	isolio_hrtimer_setup(&kq->pace_timer, kf_pace_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	kq->gate.is_open = true;
	kq->gate.most_places = U32_MAX;
}

/*
 * A dispatch that comes with a new request sets a clock that is a step old. If none has,
 * a completion after so many has it done by a worker, which costs a switch of tasks.
 */
#define KF_DONE_STEPS	4

/**
 * kf_gate_done - a request left the device
 * @kq: device
 * @now_ns: when one of its cgroup last completed there
 *
 * Called after its place came back, in any context. After the last one in flight no
 * other comes to run the hardware contexts that wait, whatever they wait for.
 */
void kf_gate_done(struct kf_queue *kq, u64 now_ns)
{
	bool waits = kf_waits_for(kq, KF_FOR_CLOCK);

	/* kf_put_place() was a full barrier; kf_wait_for() pairs. */
	if (likely(!waits && !kf_waits_for_large(kq) && !kf_waits_for(kq, KF_FOR_PLACE)))
		return;
	if (kf_is_empty(kq))
		kf_gate_kick_all(kq);
	else if (waits && kf_clock_is_older(kq, KF_DONE_STEPS, now_ns))
		kf_gate_kick(kq, KF_FOR_CLOCK, false, NULL);
}

/* The hardware context goes. The queue is quiesced, and those left run when it is not. */
void kf_gate_stop_waiting(struct kf_queue *kq)
{
	struct kf_hctx *kh, *next;
	int what;

	/* It runs those that wait, and no dispatch starts it again. */
	hrtimer_cancel(&kq->pace_timer);
	for (what = 0; what < KF_NR_WAITS; what++) {
		LIST_HEAD(taken);

		kf_gate_take(kq, what, true, &taken);
		list_for_each_entry_safe(kh, next, &taken, waiting_node[what]) {
			list_del(&kh->waiting_node[what]);
			clear_bit_unlock(what, &kh->flags);
		}
	}
}

/**
 * kf_gate_publish - publish the estimator's limits to dispatch
 * @kq: device; its band_lock is held
 *
 * Return: whether more may go than before. Then the caller calls kf_gate_kick_all() once it
 * holds no lock.
 */
bool kf_gate_publish(struct kf_queue *kq)
{
	struct kf_band *band = &kq->band;
	unsigned int ceiling = kq->nr_places, was = kq->ceiling;
	bool is_open, was_open = kq->gate.is_open;
	unsigned int id;
	u64 lead_ns;

	lockdep_assert_held(&kq->band_lock);

	for (id = 0; id < KF_NR_KINDS; id++)
		WRITE_ONCE(kq->quick_ns[id], kf_quick_ns(&band->kind[id]));
	kf_cost_set(kq);
	if (!kq->is_shared && band->phase != KF_BAND_STEADY)
		kf_band_end_probe(band, kf_is_empty(kq), ktime_get_ns());
	if (kq->is_shared)
		ceiling = min(ceiling, kf_band_ceiling(band));
	/* A probe lets each go, or it would see only those whose turn it is. */
	is_open = !kq->is_shared || band->phase != KF_BAND_STEADY;
	WRITE_ONCE(kq->gate.alone_ns, band->alone_ns);
	lead_ns = kf_clock_lead_ns(band->alone_ns, READ_ONCE(kq->gate.step_ns));
	WRITE_ONCE(kq->lead_bytes, kf_clock_lead_bytes(band->bytes_per_s, lead_ns,
						       band->mean_cost_bytes));
	if (band->phase != kq->gate.phase)
		trace_kf_band(kq->dev, band);
	WRITE_ONCE(kq->gate.phase, band->phase);
	WRITE_ONCE(kq->gate.probes_writes, kf_band_probes_writes(band));
	WRITE_ONCE(kq->gate.is_open, is_open);
	band->keeps_out = READ_ONCE(kq->has_limited) || kf_waits_for_large(kq);
	WRITE_ONCE(kq->gate.is_slack, kf_band_is_slack(band));
	WRITE_ONCE(kq->gate.is_shared, kq->is_shared);
	if (ceiling != was)
		WRITE_ONCE(kq->ceiling, ceiling);
	return ceiling > was || (is_open && !was_open);
}

/**
 * kf_probe_done - a request completed in a probe
 * @kg: its group
 * @is_write: or a read
 * @bytes: of it
 * @is_alone: no other was in flight when it was dispatched
 * @io_ns: from dispatch to completion
 *
 * Called before its place comes back, in any context.
 */
void kf_probe_done(struct kf_group *kg, bool is_write, u32 bytes, bool is_alone, u64 io_ns)
{
	struct kf_queue *kq = kg->kq;
	/* What is charged may be another than when it was dispatched. */
	u32 cost_bytes = kf_cost_bytes(READ_ONCE(kq->cost_rate[is_write]), bytes);
	unsigned int kind = kf_kind(is_write, bytes);
	bool is_more = false, is_sample;
	unsigned long flags;
	u64 now_ns;

	spin_lock_irqsave(&kq->band_lock, flags);
	now_ns = ktime_get_ns();
	if (kq->band.phase != KF_BAND_STEADY) {
		kq->has_probed = true;
		is_sample = kf_band_samples(&kq->band, kind, is_alone);
		if (kf_band_done(&kq->band, kind, bytes, cost_bytes, is_alone, io_ns, now_ns) ||
		    kf_band_update(&kq->band, true, now_ns))
			is_more = kf_gate_publish(kq);
		WRITE_ONCE(kq->gate.probes_writes, kf_band_probes_writes(&kq->band));
		if (is_sample)
			kf_slowness_account(&kg->slowness, &kq->band.kind[kind], io_ns);
	}
	spin_unlock_irqrestore(&kq->band_lock, flags);
	if (is_more)
		kf_gate_kick_all(kq);
}

/**
 * kf_gate_account - see what completed since the last look, and set the band by it
 * @kq: device
 * @sample: the differences of all CPUs' counts
 * @was_idle: no request completed for some time since the last look
 *
 * Called from latency_work.
 */
void kf_gate_account(struct kf_queue *kq, const struct kf_cpu_sample *sample, bool was_idle)
{
	struct kf_band *band = &kq->band;
	bool is_held, is_more, may_probe;
	unsigned int id, nr_in_flight;
	u64 now_ns;

	kf_large_account(kq, sample);
	spin_lock_irq(&kq->band_lock);
	now_ns = ktime_get_ns();
	/* A discard may take seconds, and a probe waits for what is in flight. */
	may_probe = kq->is_shared && !sample->nr_done[KF_DISCARD];
	is_held = READ_ONCE(kq->saw_throttled) || kf_waits_for(kq, KF_FOR_CLOCK);
	WRITE_ONCE(kq->is_held, is_held);
	if (is_held)
		band->was_held = true;
	if (READ_ONCE(kq->saw_full))
		band->was_full = true;
	WRITE_ONCE(kq->saw_throttled, false);
	WRITE_ONCE(kq->saw_full, false);
	kf_band_give_up(band, kf_is_empty(kq), now_ns);
	if ((kq->has_probed || was_idle) && band->phase == KF_BAND_STEADY) {
		/* What the sample has is partly of the probe, or of a time without requests. */
		kq->has_probed = false;
		kf_band_begin_sample(band, now_ns);
	} else if (band->phase == KF_BAND_STEADY) {
		for (id = 0; id < KF_NR_KINDS; id++)
			kf_band_count(band, id, sample->nr_kind[id], sample->nr_quick[id], 0);
		band->done_bytes += (u64)sample->cost_units << KF_COST_UNIT_SHIFT;
		nr_in_flight = atomic_read(&kq->nr_in_flight);
		band->is_busy = kf_band_is_busy(band, nr_in_flight);
		kf_band_update(band, may_probe, now_ns);
	}
	is_more = kf_gate_publish(kq);
	spin_unlock_irq(&kq->band_lock);
	if (is_more)
		kf_gate_kick_all(kq);
}
