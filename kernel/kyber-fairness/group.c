// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups: what they are charged, their shares, and which are active.
 *
 * The law is in clock.h.
 */
#include "kyber-fairness.h"
#include "request.h"
#include "trace.h"

/* A cgroup without requests for this long is idle. */
#define KF_IDLE_NS	(100 * NSEC_PER_MSEC)

/* Have an active group and its ancestors in the sums of weights of this walk. */
static void kf_count_weights(struct kf_group *kg)
{
	u64 walk = kg->kq->walk, more = KF_WEIGHT_DFL;
	struct kf_group *up;

	lockdep_assert_held(&kg->kq->lock);

	for (up = kg; up && more; up = up->parent) {
		if (up->tally.walk != walk)
			up->settled_share = 0;
		more = kf_tally_add(&up->tally, walk, READ_ONCE(up->weight), more);
	}
}

/* The share of a group that is in the sums, with all that is below it. */
static u64 kf_calc_subtree_share(struct kf_group *kg)
{
	u64 share = KF_SHARE_ONE;

	lockdep_assert_held(&kg->kq->lock);

	for (; kg->parent; kg = kg->parent) {
		share = kf_share_of(share, kf_tally_weight(&kg->tally), kg->parent->tally.sum);
		if (kg->seen_sum != kg->tally.sum)
			WRITE_ONCE(kg->seen_sum, kg->tally.sum);
	}
	return share;
}

/* And without. */
static void kf_update_share(struct kf_group *kg)
{
	WRITE_ONCE(kg->share, kf_share_of(kf_calc_subtree_share(kg), KF_WEIGHT_DFL,
					  kg->tally.sum));
}

/**
 * kf_group_weight - what a group weighs among its siblings, for a reader; no lock
 * @kg: group
 *
 * Where that is the sum of its active children's: as it was when one last was active.
 */
u64 kf_group_weight(struct kf_group *kg)
{
	unsigned int weight = READ_ONCE(kg->weight);

	if (weight != KF_WEIGHT_SUM)
		return weight;
	return READ_ONCE(kg->seen_sum) ?: KF_WEIGHT_DFL;
}

/* A group is not further behind than @vtime. */
static void kf_group_raise(struct kf_group *kg, u64 vtime)
{
	s64 old = atomic64_read(&kg->vtime);

	while (kf_vtime_before(old, vtime) &&
	       !atomic64_try_cmpxchg(&kg->vtime, &old, vtime))
		;
}

/* Nor further ahead. Return: whether it was. */
static bool kf_group_lower(struct kf_group *kg, u64 vtime)
{
	s64 old = atomic64_read(&kg->vtime);

	while (kf_vtime_before(vtime, old))
		if (atomic64_try_cmpxchg(&kg->vtime, &old, vtime))
			return true;
	return false;
}

/*
 * How far ahead or behind a group is at most, at the share it has now. What it was
 * charged at a smaller one is not to keep it waiting for hours.
 */
static u64 kf_group_lag_bytes(struct kf_group *kg)
{
	return kf_clock_lag_bytes(READ_ONCE(kg->kq->lead_bytes),
				  READ_ONCE(kg->mean_cost_bytes),
				  READ_ONCE(kg->peak_cost_bytes), READ_ONCE(kg->share));
}

/*
 * No active group is further ahead than it may be with the shares there are now, but
 * for those that wait for others which came before; see kf_newcomer_begin(). The
 * trees of the hardware contexts have where it was; see kf_ready_lower().
 */
void kf_groups_lower(struct kf_queue *kq)
{
	bool was_ahead = false;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	list_for_each_entry(kg, &kq->active, active_node)
		if (atomic64_read(&kg->new_bytes) >= 0 &&
		    kf_group_lower(kg, kq->gate.vtime + kf_group_lag_bytes(kg)))
			was_ahead = true;
	if (was_ahead)
		/* Pairs with kf_ready_lower(): the vtimes before the count. */
		smp_store_release(&kq->gate.nr_lowered, kq->gate.nr_lowered + 1);
}

/* A group that is owed waits for no other. */
void kf_groups_lower_owed(struct kf_queue *kq)
{
	u64 vtime = kf_gate_turn_vtime(kq);
	bool was_ahead = false;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	list_for_each_entry(kg, &kq->active, active_node)
		if (kf_group_is_owed(kg) && kf_group_lower(kg, vtime))
			was_ahead = true;
	if (was_ahead)
		/* As in kf_groups_lower(). */
		smp_store_release(&kq->gate.nr_lowered, kq->gate.nr_lowered + 1);
}

/* The sum of the shares that the others wait for, and what light groups have of the tags. */
void kf_sum_shares(struct kf_queue *kq)
{
	struct kf_tags tags = { .nr_active = kq->nr_active };
	u64 awaited_share = 0;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	list_for_each_entry(kg, &kq->active, active_node)
		if (kg->is_awaited)
			awaited_share += kg->share;
	WRITE_ONCE(kq->awaited_share, awaited_share);
	list_for_each_entry(kg, &kq->active, active_node)
		kf_tags_add(&tags, kq->q->nr_requests, kf_group_part(kg));
	WRITE_ONCE(kq->tags.nr_active, tags.nr_active);
	WRITE_ONCE(kq->tags.nr_light, tags.nr_light);
	WRITE_ONCE(kq->tags.light_share, tags.light_share);
}

/**
 * kf_update_shares - shares of all active groups, by weight among active siblings
 * @kq: device
 *
 * A group's own requests count as one more child of it, of the default weight: that is
 * how requests in the root cgroup, or in a v1 cgroup that has both tasks and children,
 * compete with the children. For a group without active children the quotient is one.
 * A group whose weight is KF_WEIGHT_SUM weighs what these weigh together.
 *
 * The first walk sums the weights of active children, the second multiplies the
 * quotients up to the root: active groups times depth, once after a change. A tenant may
 * change the weights of its own cgroups all the time, so that the gate has it done for no
 * more than one part of the time in so many; a look does it in any case.
 */
void kf_update_shares(struct kf_queue *kq)
{
	u64 start_ns = ktime_get_ns(), now_ns;
	struct kf_group *kg, *up;

	lockdep_assert_held(&kq->lock);

	WRITE_ONCE(kq->shares_are_stale, false);
	/* Before the weights are read: a later change sets it again. */
	smp_mb();
	kq->walk++;
	list_for_each_entry(kg, &kq->active, active_node)
		kf_count_weights(kg);
	list_for_each_entry(kg, &kq->active, active_node) {
		kf_update_share(kg);
		if (kg->new_looks)
			continue;
		for (up = kg->parent; up; up = up->parent)
			up->settled_share += kg->share;
	}
	kf_sum_shares(kq);
	kf_groups_lower(kq);
	now_ns = ktime_get_ns();
	kq->shares_due_ns = now_ns + KF_CLOCK_WALK_PART * (now_ns - start_ns);
}

/* How many groups are active has changed. */
static bool kf_set_shared(struct kf_queue *kq)
{
	unsigned long flags;
	bool is_shared, is_more;

	lockdep_assert_held(&kq->lock);

	is_shared = kq->nr_active > 1;
	if (kq->is_shared == is_shared)
		return false;
	spin_lock_irqsave(&kq->band_lock, flags);
	kq->is_shared = is_shared;
	is_more = kf_gate_publish(kq);
	spin_unlock_irqrestore(&kq->band_lock, flags);
	return is_more;
}

static void kf_group_leave_active(struct kf_group *kg)
{
	struct kf_queue *kq = kg->kq;

	lockdep_assert_held(&kq->lock);

	WRITE_ONCE(kg->is_active, false);
	kf_group_clear_owed(kg);
	list_del_init(&kg->active_node);
	kq->nr_active--;
	WRITE_ONCE(kq->shares_are_stale, true);
	isolio_blkg_put(kg->pd.blkg);
}

/*
 * What a group was charged while it is new counts above it. Those that are new have, one
 * after another, what is not the share of those that are not.
 */
static void kf_newcomer_charge(struct kf_group *kg, u64 cost_bytes)
{
	u64 clock = kg->kq->gate.vtime, share;
	struct kf_group *up;

	lockdep_assert_held(&kg->kq->lock);

	for (up = kg->parent; up && up->parent; up = up->parent) {
		share = kf_calc_subtree_share(up);
		share = max(share - min(share, up->settled_share), kg->share);
		up->newcomer = kf_newcomer_after(up->newcomer, clock, cost_bytes, share);
	}
}

/*
 * A group is active again, and begins where the new ones near it are. Its first request
 * counts at once: many others may come before that one goes.
 */
static void kf_newcomer_begin(struct kf_group *kg, u32 cost_bytes)
{
	u64 clock = kg->kq->gate.vtime;
	struct kf_group *up;

	lockdep_assert_held(&kg->kq->lock);

	/* The root's children are not a tenant's to make, and it has no share to keep to. */
	if (!kg->parent || !kg->parent->parent)
		return;
	for (up = kg->parent; up->parent; up = up->parent)
		kf_group_raise(kg, kf_newcomer_at(up->newcomer, clock));
	/* One that is alone is not charged. */
	if (kg->kq->nr_active == 1)
		cost_bytes = 0;
	atomic64_set(&kg->new_bytes, -(s64)cost_bytes);
	WRITE_ONCE(kg->new_looks, KF_NEW_LOOKS);
	kf_newcomer_charge(kg, cost_bytes);
}

/* Return: whether it is new, and was charged since the last time. */
static bool kf_newcomer_count(struct kf_group *kg)
{
	if (!kg->new_looks || atomic64_read(&kg->new_bytes) <= 0)
		return false;
	kf_newcomer_charge(kg, atomic64_xchg(&kg->new_bytes, 0));
	return true;
}

/* After some looks at a group its own vtime is enough. */
static void kf_newcomer_update(struct kf_group *kg)
{
	if (!kf_newcomer_count(kg) || READ_ONCE(kg->is_dead))
		return;
	WRITE_ONCE(kg->new_looks, kg->new_looks - 1);
	if (!kg->new_looks)
		WRITE_ONCE(kg->kq->shares_are_stale, true);
}

/* Requests of a group on all hardware contexts, whether known to be busy or not. */
bool kf_group_has_requests(struct kf_group *kg)
{
	unsigned int i;

	for (i = 0; i < kg->nr_backlogs; i++) {
		struct kf_backlog *kb = READ_ONCE(kg->backlog[i]);

		if (kb && kf_backlog_nr(kb))
			return true;
	}
	return false;
}

/* One that still has requests has its share until they are done, and its siblings less. */
static void kf_groups_reap(struct kf_queue *kq)
{
	struct kf_group *kg, *next;

	lockdep_assert_held(&kq->lock);

	WRITE_ONCE(kq->has_dead, false);
	/* Before they are looked at: one that is deleted later sets it again. */
	smp_mb();
	list_for_each_entry_safe(kg, next, &kq->active, active_node) {
		if (!READ_ONCE(kg->is_dead))
			continue;
		kf_newcomer_count(kg);
		if (!kf_group_has_requests(kg)) {
			kf_group_leave_active(kg);
			continue;
		}
		WRITE_ONCE(kq->has_dead, true);
		/* What they are charged counts, however old it is. */
		if (!kg->new_looks)
			WRITE_ONCE(kg->new_looks, 1);
	}
}

/*
 * A group that was idle gets a request. It begins at the clock: being idle earns nothing.
 * The clock is found without it.
 */
static void kf_group_activate(struct kf_group *kg, u32 cost_bytes)
{
	struct kf_queue *kq = kg->kq;

	lockdep_assert_held(&kq->lock);

	if (kg->is_active || READ_ONCE(kg->is_dead))
		return;
	/* The list's reference; the request that comes has one. */
	isolio_blkg_get(kg->pd.blkg);
	WRITE_ONCE(kg->is_active, true);
	WRITE_ONCE(kg->last_busy_ns, ktime_get_ns());
	kf_depth_begin(&kg->depth, READ_ONCE(kg->absent_ns), kg->last_busy_ns);
	list_add_tail(&kg->active_node, &kq->active);
	kq->nr_active++;
	/* Until all shares are found anew: its own at least. */
	kf_count_weights(kg);
	kf_update_share(kg);
	kf_group_raise(kg, kq->gate.vtime);
	kf_group_lower(kg, kq->gate.vtime + kf_group_lag_bytes(kg));
	kf_newcomer_begin(kg, cost_bytes);
	WRITE_ONCE(kq->shares_are_stale, true);
}

/* How long a group has not been present by now; @busy_ns: when it last had a request. */
u64 kf_group_absent_ns(struct kf_group *kg, u64 busy_ns, u64 now_ns)
{
	return now_ns <= busy_ns ? 0 :
	       kf_clock_absent_ns(0, now_ns - busy_ns,
				  kf_clock_grace_ns(READ_ONCE(kg->kq->gate.alone_ns)));
}

/* A group comes back, on @kb, that was not present since @busy_ns. */
static void kf_group_resume(struct kf_group *kg, struct kf_backlog *kb, u64 busy_ns,
			    struct request *rq)
{
	u64 now_ns = rq->start_time_ns;
	u64 absent_ns = kf_group_absent_ns(kg, busy_ns, now_ns);
	struct kf_queue *kq = kg->kq;
	bool has_moved = false, was_shared, is_more;

	if (absent_ns)
		WRITE_ONCE(kg->absent_ns, READ_ONCE(kg->absent_ns) + absent_ns);
	/* Common for a thinker: the clock is not past it. */
	if (READ_ONCE(kg->is_active) &&
	    !kf_vtime_before(atomic64_read(&kg->vtime), READ_ONCE(kq->gate.vtime)) &&
	    !kf_clock_is_older(kq, 1, now_ns))
		return;

	spin_lock_bh(&kq->lock);
	if (kf_clock_is_older(kq, 1, now_ns))
		has_moved = kf_clock_update(kq);
	if (!kg->is_active) {
		if (READ_ONCE(kq->has_dead))
			kf_groups_reap(kq);
		kf_group_activate(kg, kf_calc_cost_bytes(kg, rq));
	} else {
		kf_group_raise(kg, kq->gate.vtime);
	}
	kf_group_skip_load(kg, kb, now_ns);
	was_shared = kq->is_shared;
	is_more = kf_set_shared(kq);
	/* There was no lead so far. */
	if (kq->is_shared && !was_shared)
		has_moved = kf_clock_update(kq);
	spin_unlock_bh(&kq->lock);
	if (is_more)
		kf_gate_kick_all(kq);
	else if (has_moved)
		kf_gate_kick(kq, KF_FOR_CLOCK, true, NULL);
}

/**
 * kf_group_account_insert - a request comes
 * @kb: its backlog
 * @rq: the request
 *
 * Called from kf_insert_requests(), in process context.
 */
void kf_group_account_insert(struct kf_backlog *kb, struct request *rq)
{
	u64 now_ns = rq->start_time_ns;
	struct kf_group *kg = kb->kg;
	struct kf_queue *kq = kg->kq;
	bool is_busy;

	atomic64_add(kf_load_of(now_ns), &kb->load);
	/* Pairs with kf_group_is_present(): the count before the bit. */
	smp_mb__after_atomic();
	is_busy = test_bit(kb->hctx_nr, kg->busy);
	/* Common: it has others here, or had one just now; or it is alone. */
	if (is_busy && READ_ONCE(kg->is_active) &&
	    (!READ_ONCE(kq->gate.is_shared) || kf_backlog_nr(kb) > 1 ||
	     now_ns <= READ_ONCE(kb->done_ns) + kf_clock_grace_ns(READ_ONCE(kq->gate.alone_ns))))
		return;
	if (is_busy)
		clear_bit(kb->hctx_nr, kg->busy);
	if (!READ_ONCE(kg->is_active) || !kf_group_is_busy(kg))
		kf_group_resume(kg, kb,
				max(READ_ONCE(kg->last_busy_ns), READ_ONCE(kb->done_ns)),
				rq);
	if (now_ns > READ_ONCE(kb->done_ns))
		WRITE_ONCE(kb->done_ns, now_ns);
	set_bit(kb->hctx_nr, kg->busy);
}

/* Requests of a group that are queued or in flight; no lock. */
unsigned int kf_group_outstanding(struct kf_group *kg)
{
	unsigned int nr = 0, i;

	for (i = kf_group_next_busy(kg, 0); i < kg->nr_backlogs;
	     i = kf_group_next_busy(kg, i + 1))
		nr += kf_backlog_nr(READ_ONCE(kg->backlog[i]));
	return nr;
}

/* Where requests of a group that wait for no clock may take its vtime, at most. */
static u64 kf_group_most_vtime(struct kf_group *kg)
{
	return READ_ONCE(kg->kq->gate.vtime) + kf_group_lag_bytes(kg);
}

/* The cgroup is alone: no vtime changes. */
static bool kf_is_bypassed(struct kf_queue *kq)
{
	return !READ_ONCE(kq->gate.is_shared);
}

/* What a new group is charged; see kf_newcomer_count(). */
static void kf_newcomer_add(struct kf_group *kg, s64 cost_bytes)
{
	if (unlikely(READ_ONCE(kg->new_looks)))
		atomic64_add(cost_bytes, &kg->new_bytes);
}

/**
 * kf_group_may_go_first - whether metadata of a group may go before others' requests
 * @kg: group
 *
 * The journals that kernel threads write are for all cgroups, and the root's. Metadata
 * that a cgroup's own tasks read go first until the cgroup is as far ahead as it may
 * be. From then on they wait for its share as its data do: a walk through a cold tree
 * would take the disk from all others.
 */
bool kf_group_may_go_first(struct kf_group *kg)
{
	return !kg->parent || kf_is_bypassed(kg->kq) ||
	       kf_vtime_before(atomic64_read(&kg->vtime), kf_group_most_vtime(kg));
}

/**
 * kf_group_go_first - have a request of metadata go before others' requests
 * @kg: group
 * @cost_bytes: of the request
 *
 * It is charged now, not when it is dispatched: many tasks may come until then.
 *
 * Return: what was charged, or -1 if it may not.
 */
s64 kf_group_go_first(struct kf_group *kg, u32 cost_bytes)
{
	if (!kf_group_may_go_first(kg))
		return -1;
	if (!kg->parent || kf_is_bypassed(kg->kq))
		return 0;
	atomic64_add(kf_vtime_of(cost_bytes, READ_ONCE(kg->share)), &kg->vtime);
	kf_newcomer_add(kg, cost_bytes);
	return cost_bytes;
}

/* A group that is not awaited may be behind the clock, but not for ever. */
static void kf_group_cap_lag(struct kf_queue *kq, struct kf_group *kg)
{
	u64 clock = READ_ONCE(kq->gate.vtime);

	if (likely(!kf_vtime_before(atomic64_read(&kg->vtime), clock)))
		return;
	kf_group_raise(kg, clock - kf_group_lag_bytes(kg));
}

/* What the group's requests are charged on the mean; of all that are dispatched. */
void kf_group_account_cost(struct kf_group *kg, u32 cost_bytes)
{
	u32 mean_bytes = READ_ONCE(kg->mean_cost_bytes);

	if (cost_bytes > READ_ONCE(kg->peak_cost_bytes))
		WRITE_ONCE(kg->peak_cost_bytes, cost_bytes);
	/* All CPUs read it: not written for nothing. */
	if (kf_mean_cost_bytes(mean_bytes, cost_bytes) != mean_bytes)
		WRITE_ONCE(kg->mean_cost_bytes, kf_mean_cost_bytes(mean_bytes, cost_bytes));
}

/**
 * kf_group_charge - charge a request that is dispatched
 * @kq: device
 * @kb: its backlog; the hardware context's lock is held
 * @cost_bytes: what it costs
 *
 * A vtime may be charged for a slice of many requests; see kf_slice_bytes(). kb->vtime is
 * where the slice began.
 */
void kf_group_charge(struct kf_queue *kq, struct kf_backlog *kb, u32 cost_bytes)
{
	struct kf_group *kg = kb->kg;
	u64 share = READ_ONCE(kg->share);
	u64 slice_bytes = cost_bytes;
	s64 left_bytes = kb->left_bytes;

	if (kf_is_bypassed(kq))
		return;
	if (left_bytes <= 0) {
		kf_group_cap_lag(kq, kg);
		if (kq->q->nr_hw_queues > 1 || READ_ONCE(kq->gate.is_slack))
			slice_bytes = kf_slice_bytes(READ_ONCE(kq->gate.lead),
						     READ_ONCE(kq->lead_bytes), share,
						     kq->q->nr_hw_queues, cost_bytes);
		kb->vtime = atomic64_fetch_add(kf_vtime_of(slice_bytes, share), &kg->vtime);
		if (unlikely(kf_group_is_owed(kg)))
			kf_group_lower(kg, kf_gate_turn_vtime(kq));
		left_bytes += slice_bytes;
	}
	/* Not what is left of a slice: its cgroup may be deleted. */
	kf_newcomer_add(kg, cost_bytes);
	left_bytes -= cost_bytes;
	WRITE_ONCE(kb->left_bytes, left_bytes);
	if (left_bytes <= 0)
		kb->vtime = atomic64_read(&kg->vtime);
}

/* Charge a request that did not wait for the clock: only so far; see kf_urgent_vtime_of(). */
void kf_group_charge_urgent(struct kf_queue *kq, struct kf_backlog *kb, u32 cost_bytes)
{
	struct kf_group *kg = kb->kg;

	if (kf_is_bypassed(kq))
		return;
	atomic64_add(kf_urgent_vtime_of(atomic64_read(&kg->vtime), kf_group_most_vtime(kg),
					cost_bytes, READ_ONCE(kg->share)), &kg->vtime);
	kf_newcomer_add(kg, cost_bytes);
}

/* The device gave a request back that was charged; any context. */
void kf_group_give_back(struct kf_group *kg, u32 cost_bytes)
{
	if (kf_is_bypassed(kg->kq))
		return;
	atomic64_sub(kf_vtime_of(cost_bytes, READ_ONCE(kg->share)), &kg->vtime);
	kf_newcomer_add(kg, -(s64)cost_bytes);
}

/**
 * kf_slice_save - a backlog has no requests, and perhaps a part of its slice left
 * @kh: hardware context; its lock is held
 * @kb: backlog
 *
 * It is to give back what is more than a request's if it gets none soon; see
 * kf_slices_give_back(). The list has a reference.
 */
void kf_slice_save(struct kf_hctx *kh, struct kf_backlog *kb)
{
	lockdep_assert_held(&kh->lock);

	if (kb->left_bytes <= READ_ONCE(kb->kg->mean_cost_bytes) ||
	    !list_empty(&kb->saved_node))
		return;
	isolio_blkg_get(kb->kg->pd.blkg);
	list_add_tail(&kb->saved_node, &kh->saved);
	kf_update_soon(kb->kg->kq);
}

/* Unlink the backlog and drop the reference that the list held. */
void kf_slice_drop(struct kf_backlog *kb)
{
	list_del_init(&kb->saved_node);
	isolio_blkg_put(kb->kg->pd.blkg);
}

/*
 * A hardware context without requests of a group keeps one request's worth of its slice,
 * and gives the rest back.
 */
void kf_slices_give_back(struct kf_hctx *kh)
{
	struct kf_backlog *kb, *next;

	lockdep_assert_held(&kh->lock);

	list_for_each_entry_safe(kb, next, &kh->saved, saved_node) {
		struct kf_group *kg = kb->kg;
		u32 keep_bytes = READ_ONCE(kg->mean_cost_bytes);

		if (!kb->nr_waiting && kb->left_bytes > keep_bytes) {
			atomic64_sub(kf_vtime_of(kb->left_bytes - keep_bytes,
						 READ_ONCE(kg->share)), &kg->vtime);
			WRITE_ONCE(kb->left_bytes, keep_bytes);
		}
		kf_slice_drop(kb);
	}
}

/* A group that is idle, unless it got a request meanwhile. */
static void kf_group_deactivate(struct kf_group *kg)
{
	lockdep_assert_held(&kg->kq->lock);

	WRITE_ONCE(kg->is_active, false);
	/* Pairs with kf_group_account_insert(), which counts, and then looks if it is active. */
	smp_mb();
	if (kf_group_has_requests(kg))
		WRITE_ONCE(kg->is_active, true);
	else
		kf_group_leave_active(kg);
}

/**
 * kf_groups_update - which groups are active, and which are awaited
 * @kq: device
 *
 * Called from latency_work, ten times a second while requests complete.
 */
void kf_groups_update(struct kf_queue *kq)
{
	u64 now_ns = ktime_get_ns();
	struct kf_group *kg, *next;
	bool is_more;

	WRITE_ONCE(kq->slowest_ns, kq->slowest_ns - kq->slowest_ns / KF_SLOWEST_FORGET);
	spin_lock_bh(&kq->lock);
	if (READ_ONCE(kq->has_dead))
		kf_groups_reap(kq);
	list_for_each_entry_safe(kg, next, &kq->active, active_node) {
		kf_newcomer_update(kg);
		if (!kf_group_is_present(kg, now_ns) &&
		    (s64)(now_ns - kg->last_busy_ns) >= (s64)KF_IDLE_NS)
			kf_group_deactivate(kg);
	}
	if (READ_ONCE(kq->shares_are_stale))
		kf_update_shares(kq);
	kf_update_awaited(kq, now_ns);
	is_more = kf_set_shared(kq);
	kf_clock_update(kq);
	spin_unlock_bh(&kq->lock);
	if (is_more)
		kf_gate_kick_all(kq);
	else
		kf_gate_kick(kq, KF_FOR_CLOCK, true, NULL);
}

/* What a request is taken to cost before one was seen. */
static u32 kf_page_cost_bytes(struct kf_queue *kq)
{
	return kf_cost_bytes(READ_ONCE(kq->cost_rate[KF_READ]), KF_PAGE_BYTES);
}

/* Called from kf_pd_init(), under queue_lock and blkcg->lock. */
void kf_group_init(struct kf_group *kg, struct kf_queue *kq,
		   struct kf_group *parent)
{
	kg->kq = kq;
	kg->generation = kq->generation;
	kg->parent = parent;
	kg->mean_cost_bytes = kf_page_cost_bytes(kq);
	kg->share = KF_SHARE_ONE;
	/* Until its requests outstanding were seen. */
	kg->is_awaited = true;
	INIT_LIST_HEAD(&kg->active_node);
	init_waitqueue_head(&kg->tag_wait);
	init_waitqueue_head(&kg->be_wait);
	init_waitqueue_head(&kg->idle_wait);
}

/**
 * kf_backlog_make - a group's backlog on a hardware context, on first use
 * @kg: group
 * @hctx: the hardware context
 * @gfp: how to allocate
 *
 * Return: it, perhaps another CPU's; NULL if there is no memory.
 */
struct kf_backlog *kf_backlog_make(struct kf_group *kg, struct blk_mq_hw_ctx *hctx,
				   gfp_t gfp)
{
	struct kf_backlog *kb, *old;
	unsigned int id;

	kb = kzalloc_node(sizeof(*kb), gfp, hctx->numa_node);
	if (!kb)
		return NULL;
	kb->kg = kg;
	kb->hctx_nr = hctx->queue_num;
	INIT_LIST_HEAD(&kb->saved_node);
	init_waitqueue_head(&kb->own_tag_wait);
	kb->tag_wait = hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED ? &kg->tag_wait :
								&kb->own_tag_wait;
	for (id = 0; id < KF_NR_DOMAINS; id++)
		INIT_LIST_HEAD(&kb->rqs[id]);
	old = cmpxchg(&kg->backlog[hctx->queue_num], NULL, kb);
	if (!old)
		return kb;
	kfree(kb);
	return old;
}

/*
 * The cgroup is deleted, or the scheduler leaves the device. Requests that are still
 * queued hold references to the blkg, and go as their cgroup's vtime lets them; the
 * clock waits for it no longer.
 *
 * Called from kf_pd_offline(), under queue_lock and blkcg->lock. On newer kernels
 * interrupts take the queue_lock, so kf_queue.lock is not to be taken under it:
 * latency_work takes the group off the list.
 */
void kf_group_offline(struct kf_group *kg)
{
	WRITE_ONCE(kg->is_dead, true);
	/* Pairs with kf_groups_reap(): that it is dead before the flag. */
	smp_wmb();
	WRITE_ONCE(kg->kq->has_dead, true);
	if (READ_ONCE(kg->is_active))
		kf_update_soon(kg->kq);
}

void kf_groups_init(struct kf_queue *kq)
{
	int what, id;

	spin_lock_init(&kq->lock);
	spin_lock_init(&kq->band_lock);
	spin_lock_init(&kq->wait_lock);
	INIT_LIST_HEAD(&kq->active);
	for (what = 0; what < KF_NR_WAITS; what++)
		INIT_LIST_HEAD(&kq->waiting[what]);
	/* No group's tally is of this walk yet. */
	kq->walk = 1;
	kf_band_init(&kq->band);
	for (id = 0; id < KF_NR_DIRS; id++)
		kf_large_init(&kq->large[id]);
	spin_lock_irq(&kq->band_lock);
	kf_cost_set(kq);
	spin_unlock_irq(&kq->band_lock);
	kq->band.mean_cost_bytes = kf_page_cost_bytes(kq);
	kf_gate_init(kq);
}

/* No request is left, and no latency_work; the policy is still active on the device. */
void kf_groups_stop(struct kf_queue *kq)
{
	struct kf_group *kg, *next;

	spin_lock_bh(&kq->lock);
	list_for_each_entry_safe(kg, next, &kq->active, active_node) {
		WARN_ONCE(kf_group_has_requests(kg),
			  "kyber-fairness: a group has requests at exit\n");
		kf_group_leave_active(kg);
	}
	spin_unlock_bh(&kq->lock);
}
