// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk of its own: which groups are awaited, and what the others are owed.
 *
 * The law is in clock.h: struct kf_level, kf_owed_ns() and struct kf_pace.
 */
#include "kyber-fairness.h"
#include "trace.h"

/* The others wait for it, or it is idle. */
void kf_group_clear_owed(struct kf_group *kg)
{
	kg->is_settled = false;
	if (kg->owed_ns)
		WRITE_ONCE(kg->owed_ns, 0);
}

/* What a group's requests on a hardware context took since the last time, but for those first. */
static u64 kf_backlog_load_since(struct kf_backlog *kb, u64 now_ns)
{
	u64 since = kf_load_since(atomic64_read(&kb->load), &kb->load_seen, now_ns);

	/* Not read at a time. */
	return since - min(since, kf_load_since(atomic64_read(&kb->first_load), &kb->first_seen,
						now_ns));
}

void kf_group_account_load(struct kf_group *kg, struct kf_backlog *kb, u64 now_ns)
{
	lockdep_assert_held(&kg->kq->lock);

	kg->depth.sum += kf_backlog_load_since(kb, now_ns);
}

/* What a request took while its group was away that did not complete is no depth. */
void kf_group_skip_load(struct kf_group *kg, struct kf_backlog *kb, u64 now_ns)
{
	lockdep_assert_held(&kg->kq->lock);

	kf_backlog_load_since(kb, now_ns);
}

/* What a group did on a hardware context since the last look. */
static void kf_group_account_work(struct kf_group *kg, struct kf_backlog *kb, struct kf_work *fresh)
{
	unsigned int dir;

	lockdep_assert_held(&kg->kq->lock);

	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		u64 nr = READ_ONCE(kb->nr_dispatched[dir]);
		u64 bytes = READ_ONCE(kb->dispatched_bytes[dir]);

		fresh->nr[dir] += nr - kb->work_seen.nr[dir];
		fresh->bytes[dir] += bytes - kb->work_seen.bytes[dir];
		kb->work_seen.nr[dir] = nr;
		kb->work_seen.bytes[dir] = bytes;
	}
}

/*
 * How many requests a group keeps outstanding, and what its byte costs.
 * Return: what it was charged since the last look, about.
 */
static u64 kf_group_update_depth(struct kf_group *kg, u64 now_ns)
{
	bool is_present = kf_group_is_busy(kg);
	u64 absent_ns = READ_ONCE(kg->absent_ns);
	struct kf_queue *kq = kg->kq;
	struct kf_work fresh = { };
	unsigned int i;

	lockdep_assert_held(&kq->lock);

	for (i = kf_group_next_busy(kg, 0); i < kg->nr_backlogs;
	     i = kf_group_next_busy(kg, i + 1)) {
		kf_group_account_load(kg, READ_ONCE(kg->backlog[i]), now_ns);
		kf_group_account_work(kg, READ_ONCE(kg->backlog[i]), &fresh);
	}
	if (!is_present)
		absent_ns += kf_group_absent_ns(kg, kg->last_busy_ns, now_ns);
	kf_depth_update(&kg->depth, absent_ns, now_ns);
	WRITE_ONCE(kg->peak_cost_bytes,
		   kg->peak_cost_bytes - kg->peak_cost_bytes / KF_PEAK_FORGET);
	kf_work_add(&kg->own_price.fresh, &fresh);
	kg->found_price = kf_price_update(&kg->own_price, kq->cost_rate);
	kf_prices_add(&kq->prices, kg->found_price);
	return kf_work_cost(&fresh, kq->cost_rate);
}

/* What a group could do with the device to itself. */
static u64 kf_group_could(struct kf_group *kg)
{
	return kf_clock_could(kg->depth.milli, READ_ONCE(kg->mean_cost_bytes), kg->alone_ns);
}

/* What all active groups do, and could do, and what that leaves to others if one is owed. */
static void kf_groups_sum(struct kf_queue *kq, const struct kf_alone *ka, u64 full,
			  struct kf_could *kc, u64 *all_milli, u64 now_ns)
{
	bool by_time = READ_ONCE(kq->share_by) == KF_SHARE_TIME;
	u64 awaited_bytes = 0, bytes;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	memset(&kq->prices, 0, sizeof(kq->prices));
	list_for_each_entry(kg, &kq->active, active_node) {
		bytes = kf_group_update_depth(kg, now_ns);
		if (kg->is_awaited)
			awaited_bytes += bytes;
	}
	list_for_each_entry(kg, &kq->active, active_node) {
		u64 price = by_time ? kf_prices_near(&kq->prices, kg->found_price) : 0;

		if (kg->price != price)
			WRITE_ONCE(kg->price, price);
		WRITE_ONCE(kg->alone_ns, kf_alone_ns(ka, &kg->own_price,
						     READ_ONCE(kg->slowness.milli),
						     READ_ONCE(kg->least_ns)));
		kc->all += kf_group_could(kg);
		/* One that is to have its share of bytes or requests is not to have a disk. */
		if (by_time)
			kc->most = max(kc->most, kf_group_could(kg));
		*all_milli += kg->depth.milli;
	}
	if (READ_ONCE(kq->gate.phase) == KF_BAND_STEADY)
		kf_pace_update(&kq->pace, kf_per_s(awaited_bytes, now_ns - kq->pace_look_ns), full,
			       max(kc->min_total_pct, KF_PACE_PCT_MIN),
			       READ_ONCE(kq->ceiling), kq->awaited_share);
	kq->pace_look_ns = now_ns;
}

/* The level for groups to be awaited, of a device that does @full. */
static u64 kf_groups_level(struct kf_queue *kq, const struct kf_could *kc, u64 full)
{
	unsigned int steps = KF_LEVEL_STEPS;
	struct kf_level lvl;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	kf_level_begin(&lvl, kc, full);
	do {
		list_for_each_entry(kg, &kq->active, active_node)
			kf_level_add(&lvl, kf_group_could(kg), kg->share);
	} while (kf_level_rise(&lvl) && --steps);
	return lvl.at;
}

/* Which groups are worth waiting for, and whether more must be known to tell. */
void kf_update_awaited(struct kf_queue *kq, u64 now_ns)
{
	struct kf_could kc = { .min_total_pct = READ_ONCE(kq->min_total_pct) };
	bool must_fill = false, has_limited = false;
	u64 all_milli = 0, full, level, any_level;
	struct kf_group *kg;
	struct kf_alone ka;

	lockdep_assert_held(&kq->lock);

	spin_lock_irq(&kq->band_lock);
	ka = kf_band_alone(&kq->band);
	full = kf_band_full(&kq->band);
	/* In bytes of large reads: it can do no more than that. */
	if (kq->is_model_given && kq->share_by == KF_SHARE_TIME)
		full = min(full, kf_model_bps(&kq->model, KF_READ));
	spin_unlock_irq(&kq->band_lock);

	kf_groups_sum(kq, &ka, full, &kc, &all_milli, now_ns);
	level = kf_groups_level(kq, &kc, full);
	any_level = kf_groups_level(kq, &kc, U64_MAX);
	list_for_each_entry(kg, &kq->active, active_node) {
		u64 could = kf_group_could(kg);
		bool is_awaited = kf_clock_is_awaited(level, could, kg->share, kg->is_awaited);

		if (is_awaited != kg->is_awaited)
			trace_kf_awaited(kg, is_awaited, could, full);
		WRITE_ONCE(kg->is_awaited, is_awaited);
		if (is_awaited)
			kf_group_clear_owed(kg);
		else
			has_limited = true;
		if (!kf_clock_is_awaited(any_level, could, kg->share, is_awaited))
			must_fill = true;
	}
	kf_sum_shares(kq);
	WRITE_ONCE(kq->has_limited, has_limited && kq->nr_active > 1);

	spin_lock_irq(&kq->band_lock);
	kf_band_must_fill(&kq->band, must_fill, min(all_milli, 1000ULL * kq->nr_places));
	spin_unlock_irq(&kq->band_lock);
}

/*
 * What a group's requests took since the last walk, together; how many of them were
 * dispatched since, and are outstanding.
 */
static u64 kf_group_took_ns(struct kf_group *kg, u64 now_ns, u64 *nr_dispatched,
			    unsigned int *nr_outstanding)
{
	u64 took = 0;
	unsigned int i;

	lockdep_assert_held(&kg->kq->lock);

	*nr_dispatched = 0;
	*nr_outstanding = 0;
	for (i = kf_group_next_busy(kg, 0); i < kg->nr_backlogs;
	     i = kf_group_next_busy(kg, i + 1)) {
		struct kf_backlog *kb = READ_ONCE(kg->backlog[i]);
		u64 load = atomic64_read(&kb->load);
		u64 nr = READ_ONCE(kb->nr_dispatched[KF_READ]) +
			 READ_ONCE(kb->nr_dispatched[KF_WRITE]);
		u64 since = kf_load_since(load, &kb->owed_load, now_ns);

		/* A discard may take any time: nothing is owed for it and what is beside it. */
		if (likely(!atomic_read(&kb->nr_other))) {
			took += since;
			*nr_dispatched += nr - kb->owed_nr;
			*nr_outstanding += kf_load_nr(load);
		}
		kb->owed_nr = nr;
	}
	return took << KF_LOAD_NS_SHIFT;
}

/* What a group is owed by now; @nr: its requests outstanding. */
static s64 kf_group_calc_owed(struct kf_group *kg, u64 now_ns, u64 most_ns, unsigned int *nr)
{
	u64 alone_ns = READ_ONCE(kg->alone_ns) ?: READ_ONCE(kg->kq->gate.alone_ns);
	u64 took_ns, nr_dispatched;
	bool was_settled = kg->is_settled;

	lockdep_assert_held(&kg->kq->lock);

	/* One that is away has nothing to wait for. */
	kg->is_settled = !kg->is_awaited && alone_ns && kf_group_is_present(kg, now_ns);
	if (!kg->is_settled)
		return 0;
	took_ns = kf_group_took_ns(kg, now_ns, &nr_dispatched, nr);
	if (!was_settled)
		return 0;
	return kf_owed_ns(kg->owed_ns, took_ns, nr_dispatched, alone_ns, kg->share, most_ns);
}

/**
 * kf_groups_update_owed - what the groups that are not awaited are owed, and what that costs others
 * @kq: device
 * @now_ns: time
 *
 * Called from a walk. See kf_owed_ns().
 */
void kf_groups_update_owed(struct kf_queue *kq, u64 now_ns)
{
	unsigned int nr, nr_owed = 0, places = U32_MAX;
	struct kf_gate *gate = &kq->gate;
	struct kf_group *kg;
	u64 lead_ns;
	u32 hold = 0;

	lockdep_assert_held(&kq->lock);

	if (!kq->has_limited && gate->most_places == U32_MAX)
		return;
	lead_ns = kf_clock_lead_ns(READ_ONCE(gate->alone_ns), gate->step_ns);
	list_for_each_entry(kg, &kq->active, active_node) {
		u64 most_ns = kf_owed_most_ns(lead_ns, READ_ONCE(kg->alone_ns), kg->depth.milli);
		s64 owed_ns = 0;

		/* A probe lets each wait. */
		if (READ_ONCE(gate->phase) == KF_BAND_STEADY)
			owed_ns = kf_group_calc_owed(kg, now_ns, most_ns, &nr);
		else
			kg->is_settled = false;
		if (owed_ns != kg->owed_ns)
			WRITE_ONCE(kg->owed_ns, owed_ns);
		if (owed_ns <= 0)
			continue;
		nr_owed += nr;
		hold = max(hold, kf_hold_of(owed_ns, most_ns));
	}
	if (kq->nr_active <= 1)
		hold = 0;
	kf_pace_count(&kq->pace, hold);
	kq->hold = hold;
	if (hold)
		places = nr_owed + kf_hold_places(READ_ONCE(kq->ceiling),
						  kq->pace.milli / 1000, hold);
	if (places != gate->most_places)
		WRITE_ONCE(gate->most_places, places);
}
