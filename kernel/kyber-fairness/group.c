// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups: budgets, who is active, who is runnable, and the refill.
 *
 * The control law is in main.c's essay, its arithmetic in budget.h.
 */
#include "kyber-fairness.h"
#include "trace.h"

/* A cgroup that did not dispatch for this long, and does not wait, is idle. */
#define KF_IDLE_NS	(10 * NSEC_PER_MSEC)

static u64 kf_group_cgroup_id(struct kf_group *kg)
{
	return cgroup_id(kg->pd.blkg->blkcg->css.cgroup);
}

/* What a group with budget is: one bit of kf_group.flags, or -1. */
static int kf_group_state(struct kf_group *kg)
{
	if (!kf_group_has_budget(kg))
		return -1;
	if (atomic_read(&kg->nr_backlogged))
		return KF_GROUP_RUNNABLE;
	return READ_ONCE(kg->is_hungry) && !READ_ONCE(kg->is_dead) ?
	       KF_GROUP_EXPECTED : -1;
}

/**
 * kf_group_update_state - count a group as runnable, expected, or neither
 * @kg: group whose budget or backlog may have changed between some and none
 *
 * Needs no lock: whoever changes the state calls this afterwards, and looks
 * again after setting the bits. So the last of several callers on different
 * CPUs leaves the bits as the state is; each counts what it replaced.
 */
void kf_group_update_state(struct kf_group *kg)
{
	struct kf_queue *kq = kg->kq;
	unsigned long was, is;
	int state;

	do {
		state = kf_group_state(kg);
		is = state < 0 ? 0 : BIT(state);
		/* A full barrier: who changes the state after it, sees it. */
		was = xchg(&kg->flags, is);
		if (was == is)
			continue;
		if (is == BIT(KF_GROUP_RUNNABLE))
			atomic_inc(&kq->nr_runnable);
		else if (is)
			atomic_inc(&kq->nr_expected);
		if (was == BIT(KF_GROUP_RUNNABLE))
			atomic_dec(&kq->nr_runnable);
		else if (was)
			atomic_dec(&kq->nr_expected);
		/* Who looks for those who wait, after it; kf_wait_for_refill() pairs. */
		smp_mb__after_atomic();
	} while (state != kf_group_state(kg));
}

/* Have an active group and its ancestors in the sums of weights of this walk. */
static void kf_count_weights(struct kf_group *kg)
{
	unsigned int walk = kg->kq->walk;
	struct kf_group *up;

	lockdep_assert_held(&kg->kq->lock);

	if (kg->child_walk != walk) {
		kg->child_walk = walk;
		kg->child_weight_sum = 0;
	}
	kg->child_weight_sum += KF_WEIGHT_DFL;

	for (up = kg; up->parent && up->counted_walk != walk; up = up->parent) {
		struct kf_group *parent = up->parent;

		up->counted_walk = walk;
		if (parent->child_walk != walk) {
			parent->child_walk = walk;
			parent->child_weight_sum = 0;
		}
		parent->child_weight_sum += READ_ONCE(up->weight);
	}
}

/* The share of a group that is in the sums. */
static void kf_find_share(struct kf_group *kg)
{
	u64 share = kf_share_of(KF_SHARE_ONE, KF_WEIGHT_DFL, kg->child_weight_sum);
	struct kf_group *up;

	lockdep_assert_held(&kg->kq->lock);

	for (up = kg; up->parent; up = up->parent) {
		unsigned int sum = up->parent->child_weight_sum;

		/* It may have another weight by now than the one in the sum. */
		share = kf_share_of(share, min(READ_ONCE(up->weight), sum), sum);
	}
	WRITE_ONCE(kg->share, share);
}

/*
 * Shares of all active groups, by weight among active siblings at each level.
 *
 * A group's own requests count as one more child of it, of the default
 * weight: that is how requests in the root cgroup, or in a v1 cgroup that has
 * both tasks and children, compete with the children. For a group without
 * active children the quotient is one.
 *
 * The first walk sums the weights of active children, the second multiplies
 * the quotients up to the root. Costs active groups times depth; runs once a
 * refill. A group that becomes active in between joins the sums, and the others'
 * shares are what they were until the next refill: with a thousand cgroups that
 * send a few requests each in turn, a walk for each took a third of the CPU time.
 */
static void kf_update_shares(struct kf_queue *kq)
{
	u64 hungry_share = 0;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	kq->walk++;
	list_for_each_entry(kg, &kq->active, active_node)
		kf_count_weights(kg);
	list_for_each_entry(kg, &kq->active, active_node) {
		kf_find_share(kg);
		if (kg->is_hungry)
			hungry_share += kg->share;
	}
	WRITE_ONCE(kq->hungry_share, hungry_share);
}

/* Return: false if the group got a request meanwhile. */
static bool kf_group_deactivate(struct kf_group *kg)
{
	struct kf_queue *kq = kg->kq;

	lockdep_assert_held(&kq->lock);

	WRITE_ONCE(kg->is_active, false);
	/* Pairs with kf_insert_request(), which writes and reads the other way. */
	smp_mb();
	if (atomic_read(&kg->nr_backlogged)) {
		WRITE_ONCE(kg->is_active, true);
		return false;
	}
	WRITE_ONCE(kg->is_hungry, false);
	kf_group_update_state(kg);
	list_del_init(&kg->active_node);
	kq->nr_active--;
	return true;
}

/*
 * Whether a group with budget left would take more if others took less: it has
 * requests outstanding or had some just now, and lately not too few of them for
 * its share. How many at this moment says little, nor whether one of them waits:
 * a submitter may take back all of its requests before it makes new ones, and a
 * request that comes alone waits as well.
 */
static bool kf_group_could_have_more(struct kf_group *kg, u64 now_ns)
{
	struct kf_queue *kq = kg->kq;
	u64 inside_for;

	if (!kg->share || now_ns - kg->last_busy_ns > READ_ONCE(kq->unloaded_ns))
		return false;
	inside_for = kf_inside_for(kg->outstanding_max, kg->share);
	return inside_for * KF_INSIDE_HOPELESS >= READ_ONCE(kq->inside_least);
}

/* What a group is granted for a round. */
static s64 kf_group_grant_bytes(struct kf_group *kg)
{
	lockdep_assert_held(&kg->kq->lock);

	return kf_grant_bytes(kg->kq->pool_bytes, kf_group_part(kg));
}

/*
 * A refill's first walk: what was used, what is carried, who is idle.
 * Returns the bytes used; adds what those who wait carry to @carried_bytes.
 */
static u64 kf_take_stock(struct kf_queue *kq, u64 now_ns, s64 *carried_bytes)
{
	struct kf_group *kg, *next;
	u64 used_bytes = 0;

	lockdep_assert_held(&kq->lock);

	list_for_each_entry_safe(kg, next, &kq->active, active_node) {
		s64 left_bytes = atomic64_read(&kg->budget_bytes);
		bool waiting = atomic_read(&kg->nr_backlogged);
		unsigned int nr_outstanding = atomic_read(&kg->nr_outstanding);
		s64 carry_bytes;

		kg->outstanding_max = max(kg->outstanding_max, nr_outstanding);
		if (nr_outstanding)
			kg->last_busy_ns = now_ns;
		WRITE_ONCE(kg->is_hungry, left_bytes <= 0 ||
			   kf_group_could_have_more(kg, now_ns));
		if (left_bytes != kg->refilled_bytes) {
			/* Below zero where the device gave more back than it got. */
			u64 used = max_t(s64, kg->refilled_bytes - left_bytes, 0);

			used_bytes += used;
			kg->used_bytes += used;
			kg->last_used_ns = now_ns;
		} else if (!waiting && !nr_outstanding && left_bytes >= 0 &&
			   now_ns - kg->last_used_ns >= KF_IDLE_NS &&
			   kf_group_deactivate(kg)) {
			continue;
		}

		carry_bytes = kf_carry_bytes(left_bytes, kf_group_grant_bytes(kg),
					     READ_ONCE(kg->mean_cost_bytes));
		/* Others may charge meanwhile: add, never set. */
		atomic64_add(carry_bytes - left_bytes, &kg->budget_bytes);
		kg->refilled_bytes = carry_bytes;
		if (kg->is_hungry) {
			*carried_bytes += carry_bytes;
			kg->lost_bytes += left_bytes - carry_bytes;
			kg->nr_hungry++;
		}
	}
	kq->nr_refills++;

	return used_bytes;
}

/* Rounds to give those who wait at once: one at least, and one can go on. */
static u64 kf_rounds_needed(struct kf_queue *kq, u64 spendable_bytes)
{
	u64 rounds = U64_MAX;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	list_for_each_entry(kg, &kq->active, active_node) {
		s64 grant_bytes = kf_grant_bytes(spendable_bytes, kg->share);

		if (!kg->is_hungry)
			continue;
		rounds = min(rounds, 1 +
			     kf_rounds_to_spend(kg->refilled_bytes + grant_bytes,
						grant_bytes));
	}

	/* Of shares that round to nothing, as those of small weights far down. */
	if (!kq->hungry_share)
		return rounds == U64_MAX ? 1 : rounds;
	return max(rounds, kf_rounds_to_fill(kq->hungry_share));
}

static void kf_end_hold(struct kf_queue *kq, u64 now_ns)
{
	u64 held_ns = now_ns - kq->hold_start_ns;

	lockdep_assert_held(&kq->lock);

	if (!kq->hold_start_ns)
		return;
	kq->hold_credit_ns -= min(held_ns, kq->hold_credit_ns);
	WRITE_ONCE(kq->hold_start_ns, 0);
}

static void kf_refill(struct kf_queue *kq, enum kf_refill_reason reason)
{
	u64 now_ns = ktime_get_ns();
	u64 elapsed_ns = now_ns - kq->round_start_ns;
	u64 round_ns = kf_round_ns(READ_ONCE(kq->round_ns),
				   READ_ONCE(kq->unloaded_ns),
				   READ_ONCE(kq->round_pct));
	u64 used_bytes, estimate_bytes, spendable_bytes, rounds;
	s64 carried_bytes = 0;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	/* After a timeout. */
	kf_end_hold(kq, now_ns);
	used_bytes = kf_take_stock(kq, now_ns, &carried_bytes);
	kf_update_shares(kq);

	estimate_bytes = kf_pool_estimate_bytes(used_bytes, elapsed_ns, round_ns);
	estimate_bytes = kf_pool_follow_bytes(estimate_bytes, kq->pool_bytes,
					      elapsed_ns, round_ns);
	kq->pool_bytes = kf_pool_next_bytes(estimate_bytes, kq->pool_bytes,
					    kq->nr_active);
	spendable_bytes = kf_spendable_bytes(kq->pool_bytes, carried_bytes,
					     kq->nr_active);
	rounds = kf_rounds_needed(kq, spendable_bytes);
	trace_kf_refill(kq->dev, reason == KF_REFILL_TIMEOUT, used_bytes,
			elapsed_ns, kq->pool_bytes, spendable_bytes, rounds,
			kq->nr_active);

	list_for_each_entry(kg, &kq->active, active_node) {
		s64 grant_bytes = kf_grant_bytes(spendable_bytes, kg->share);

		/* More than a round is for those who have requests to pay. */
		if (kg->is_hungry)
			grant_bytes *= rounds;
		kg->refilled_bytes += grant_bytes;
		WRITE_ONCE(kg->levels_per_byte, kf_levels_per_byte(grant_bytes));
		atomic64_add(grant_bytes, &kg->budget_bytes);
		kf_group_update_state(kg);
		trace_kf_group(kq->dev, kf_group_cgroup_id(kg),
			       kg->refilled_bytes, kg->share);
	}

	kq->hold_credit_ns = kf_hold_credit_ns(kq->hold_credit_ns, elapsed_ns,
					       round_ns, READ_ONCE(kq->hold_pct));
	kq->hold_least_ns = kq->hold_trial.is_free ? round_ns / KF_HOLD_LEAST_PART : 1;
	WRITE_ONCE(kq->round_start_ns, now_ns);
	/* Pairs with kf_wait_for_refill(): budgets before the round's number. */
	smp_store_release(&kq->round, kq->round + 1);
}

/*
 * Whether to wait a little longer for a group that is expected. The time this takes is
 * paid from the credit, but see kf_stop_holding().
 */
static bool kf_hold_refill(struct kf_queue *kq)
{
	u64 now_ns = ktime_get_ns();

	lockdep_assert_held(&kq->lock);

	if (!atomic_read(&kq->nr_expected)) {
		kf_end_hold(kq, now_ns);
		return false;
	}
	if (!kq->hold_start_ns) {
		u64 timeout_ns = READ_ONCE(kq->timeout_ns);
		u64 age_ns = now_ns - kq->round_start_ns;
		u64 wait_ns;

		if (kq->hold_credit_ns < kq->hold_least_ns || age_ns >= timeout_ns)
			return false;
		WRITE_ONCE(kq->hold_start_ns, now_ns);
		trace_kf_hold(kq->dev, atomic_read(&kq->nr_expected),
			      kq->hold_credit_ns);
		/* The timer is also that of the timeout. */
		wait_ns = min(kq->hold_credit_ns, timeout_ns - age_ns);
		hrtimer_start(&kq->timer, ns_to_ktime(wait_ns), HRTIMER_MODE_REL);
		return true;
	}
	if (now_ns - kq->hold_start_ns < kq->hold_credit_ns)
		return true;
	kf_end_hold(kq, now_ns);
	return false;
}

/**
 * kf_refill_if_spent - start a new round if nobody is entitled to go first
 * @kq: device
 *
 * Return: true if it did. Called when a dispatch found nobody with budget,
 * with kf_hctx.lock held; the new round is visible when this returns.
 */
bool kf_refill_if_spent(struct kf_queue *kq)
{
	unsigned long flags;
	bool spent;

	if (atomic_read(&kq->nr_runnable))
		return false;

	spin_lock_irqsave(&kq->lock, flags);
	/* Another hardware context may have been first. */
	spent = !atomic_read(&kq->nr_runnable) && !kf_hold_refill(kq);
	if (spent)
		kf_refill(kq, KF_REFILL_SPENT);
	spin_unlock_irqrestore(&kq->lock, flags);

	return spent;
}

/* Somebody dispatched: the hold was not in vain. See kf_hold_try(). */
void kf_stop_holding(struct kf_queue *kq)
{
	unsigned long flags;

	spin_lock_irqsave(&kq->lock, flags);
	if (kq->hold_trial.is_free)
		WRITE_ONCE(kq->hold_start_ns, 0);
	else
		kf_end_hold(kq, ktime_get_ns());
	spin_unlock_irqrestore(&kq->lock, flags);
}

/*
 * A group that was held back may go on though there was no refill: have the lists of
 * all hardware contexts looked at again, and those that wait run. By the timer, as
 * running them takes locks that the caller may hold.
 */
static void kf_release_throttled(struct kf_queue *kq)
{
	lockdep_assert_held(&kq->lock);

	/* Pairs with kf_see_refill(): what the group has, before the round's number. */
	smp_store_release(&kq->round, kq->round + 1);
	kq->must_kick = true;
	hrtimer_start(&kq->timer, 0, HRTIMER_MODE_REL);
}

/**
 * kf_group_give_back - what a request was charged is not spent
 * @kg: its group
 * @cost_bytes: what it was charged
 *
 * Called when the device gave a request back, in any context.
 */
void kf_group_give_back(struct kf_group *kg, u32 cost_bytes)
{
	struct kf_queue *kq = kg->kq;
	s64 left_bytes = atomic64_add_return(cost_bytes, &kg->budget_bytes);
	unsigned long flags;

	kf_group_update_state(kg);
	if (left_bytes <= 0 || left_bytes > cost_bytes)
		return;
	/* It had none: its backlogs may be on spent lists. */
	spin_lock_irqsave(&kq->lock, flags);
	kf_release_throttled(kq);
	spin_unlock_irqrestore(&kq->lock, flags);
}

/* How much a group may owe for requests that no budget holds back: what it may save. */
static s64 kf_group_owe_most_bytes(struct kf_group *kg)
{
	u64 pool_bytes = READ_ONCE(kg->kq->pool_bytes);

	return kf_carry_most_bytes(kf_grant_bytes(pool_bytes, kf_group_part(kg)),
				   READ_ONCE(kg->mean_cost_bytes));
}

/**
 * kf_group_may_go_first - whether metadata of a group may go before others' requests
 * @kg: group
 *
 * The journals that kernel threads write are for everybody, and the root's. Metadata that
 * a cgroup's own tasks read go first until it owes as much as it may. From then on
 * they wait for its share as its data do: a walk through a cold tree would take the
 * disk from everybody else.
 */
bool kf_group_may_go_first(struct kf_group *kg)
{
	return !kg->parent ||
	       atomic64_read(&kg->budget_bytes) > -kf_group_owe_most_bytes(kg);
}

/* What a request is charged that no budget holds back, of @cost_bytes. */
u32 kf_group_urgent_charge_bytes(struct kf_group *kg, u32 cost_bytes)
{
	return kf_urgent_charge_bytes(atomic64_read(&kg->budget_bytes),
				      kf_group_owe_most_bytes(kg), cost_bytes);
}

/* Run the hardware contexts that waited for the refill. Holds no lock. */
void kf_kick_throttled(struct kf_queue *kq)
{
	struct kf_hctx *kh, *next;

	if (llist_empty(&kq->throttled))
		return;

	llist_for_each_entry_safe(kh, next, llist_del_all(&kq->throttled),
				  throttled_node) {
		/* From here on it may be put on the list again. */
		clear_bit_unlock(KF_HCTX_THROTTLED, &kh->flags);
		blk_mq_run_hw_queue(kh->hctx, true);
	}
}

/**
 * kf_wait_for_refill - have this hardware context run after the next refill
 * @kq: device
 * @kh: the hardware context
 *
 * The caller compares its round with kq->round afterwards, in case a refill
 * came in between; then it need not wait.
 *
 * Return: whether it was not known to wait until now. Then the caller looks once more
 * whether everybody entitled has gone: the last one, elsewhere, saw nobody wait.
 */
bool kf_wait_for_refill(struct kf_queue *kq, struct kf_hctx *kh)
{
	unsigned long flags;

	/* The bit before the caller's look at the round: a full barrier. */
	if (test_and_set_bit(KF_HCTX_THROTTLED, &kh->flags))
		return false;
	/* A full barrier as well: the list before the caller's look at who is entitled. */
	llist_add(&kh->throttled_node, &kq->throttled);
	trace_kf_wait(kq->dev, kh->hctx->queue_num, atomic_read(&kq->nr_runnable));

	if (hrtimer_is_queued(&kq->timer))
		return true;
	spin_lock_irqsave(&kq->lock, flags);
	if (!hrtimer_is_queued(&kq->timer))
		hrtimer_start(&kq->timer,
			      ns_to_ktime(READ_ONCE(kq->timeout_ns)),
			      HRTIMER_MODE_REL);
	spin_unlock_irqrestore(&kq->lock, flags);
	return true;
}

/*
 * The hardware context goes. The queue is quiesced, and all that are left will
 * be run when it is not.
 */
void kf_hctx_stop_waiting(struct kf_queue *kq)
{
	struct kf_hctx *kh, *next;

	hrtimer_cancel(&kq->timer);
	llist_for_each_entry_safe(kh, next, llist_del_all(&kq->throttled),
				  throttled_node)
		clear_bit_unlock(KF_HCTX_THROTTLED, &kh->flags);
}

/* Somebody waited for timeout_us; armed by kf_wait_for_refill(). */
static enum hrtimer_restart kf_timer_fn(struct hrtimer *timer)
{
	struct kf_queue *kq = container_of(timer, struct kf_queue, timer);
	u64 timeout_ns = READ_ONCE(kq->timeout_ns);
	unsigned long flags;
	u64 age_ns;

	spin_lock_irqsave(&kq->lock, flags);
	age_ns = ktime_get_ns() - kq->round_start_ns;
	if (kq->must_kick) {
		/* Who still has to wait says so again, and has the timer armed. */
		kq->must_kick = false;
		spin_unlock_irqrestore(&kq->lock, flags);
		kf_kick_throttled(kq);
		return HRTIMER_NORESTART;
	}
	if (age_ns < timeout_ns &&
	    (atomic_read(&kq->nr_runnable) || kf_hold_refill(kq))) {
		enum hrtimer_restart restart = HRTIMER_NORESTART;

		/*
		 * A refill came since: the timeout counts from that one. While
		 * we waited for the lock somebody may have armed it again.
		 */
		if (!llist_empty(&kq->throttled) && !hrtimer_is_queued(timer)) {
			hrtimer_forward_now(timer, ns_to_ktime(timeout_ns - age_ns));
			restart = HRTIMER_RESTART;
		}
		spin_unlock_irqrestore(&kq->lock, flags);
		return restart;
	}
	kf_refill(kq, age_ns < timeout_ns ? KF_REFILL_SPENT : KF_REFILL_TIMEOUT);
	spin_unlock_irqrestore(&kq->lock, flags);

	kf_kick_throttled(kq);
	return HRTIMER_NORESTART;
}

/**
 * kf_group_activate - bring a group back that was idle
 * @kg: group that gets a request
 *
 * It starts with what it would have been granted for a round, and no more:
 * being idle earns nothing. Called from kf_insert_requests().
 */
void kf_group_activate(struct kf_group *kg)
{
	struct kf_queue *kq = kg->kq;
	unsigned long flags;
	s64 left_bytes, grant_bytes;

	spin_lock_irqsave(&kq->lock, flags);
	if (!kg->is_active && !kg->is_dead) {
		WRITE_ONCE(kg->is_active, true);
		list_add_tail(&kg->active_node, &kq->active);
		kq->nr_active++;
		kf_count_weights(kg);
		kf_find_share(kg);
		grant_bytes = kf_grant_bytes(kq->pool_bytes, kg->share);
		left_bytes = atomic64_read(&kg->budget_bytes);
		atomic64_add(grant_bytes - left_bytes, &kg->budget_bytes);
		kg->refilled_bytes = grant_bytes;
		WRITE_ONCE(kg->levels_per_byte, kf_levels_per_byte(grant_bytes));
		kg->last_used_ns = ktime_get_ns();
		if (kq->nr_active > 1)
			kq->shared_ns = kg->last_used_ns;
		kf_group_update_state(kg);
	}
	spin_unlock_irqrestore(&kq->lock, flags);
}

/**
 * kf_groups_share - whether there is anybody to choose among
 * @kq: device
 * @now_ns: ktime_get_ns()
 *
 * One that sends a request now and then is active for a moment only.
 */
#define KF_SHARED_NS	NSEC_PER_SEC

bool kf_groups_share(struct kf_queue *kq, u64 now_ns)
{
	bool shared;

	spin_lock_irq(&kq->lock);
	if (kq->nr_active > 1)
		kq->shared_ns = now_ns;
	shared = kq->shared_ns && now_ns - kq->shared_ns < KF_SHARED_NS;
	spin_unlock_irq(&kq->lock);
	return shared;
}

/* The device completed so many requests a second; from kf_look_at_rate(). */
void kf_look_at_holds(struct kf_queue *kq, u64 rate)
{
	struct kf_hold_trial *ht = &kq->hold_trial;
	u64 best_rate = ht->best_rate;
	bool was_free;

	spin_lock_irq(&kq->lock);
	was_free = ht->is_free;
	kf_hold_try(ht, rate);
	if (ht->is_free != was_free)
		trace_kf_hold_free(kq->dev, ht->is_free, rate, best_rate);
	spin_unlock_irq(&kq->lock);
}

/* Which part of what it was to have since the last kf_groups_inside(), in permille, */
struct kf_missed {
	u64 error;	/* it did not get, */
	u64 saved;	/* or not before that either, and may still have */
};

/* The larger of what a group and others missed: what it lost, and saved up beyond a round. */
static void kf_group_missed(struct kf_group *kg, struct kf_missed *most)
{
	s64 saved_bytes = atomic64_read(&kg->budget_bytes) - kf_group_grant_bytes(kg);
	s64 more_bytes;

	lockdep_assert_held(&kg->kq->lock);

	saved_bytes = max_t(s64, saved_bytes, 0);
	more_bytes = max_t(s64, saved_bytes - kg->saved_bytes, 0);
	kg->saved_bytes = saved_bytes;
	most->error = max(most->error, kf_permille(kg->lost_bytes + more_bytes,
						   kg->used_bytes));
	most->saved = max(most->saved, kf_permille(kg->lost_bytes + saved_bytes,
						   kg->used_bytes));
}

/* See kf_requests_for(). */
static u64 kf_group_requests(struct kf_group *kg)
{
	return kf_requests_for(kg->share, READ_ONCE(kg->mean_cost_bytes));
}

/*
 * Whether a group's share counts among those that the requests inside are shared
 * among: mostly it would have taken more. One that sends a request now and then
 * has what it wants. Large requests take longer than from one look to the next.
 */
static bool kf_group_counts(struct kf_group *kg)
{
	unsigned int nr_refills = kg->kq->nr_refills;

	return kg->outstanding_max && kg->share &&
	       (nr_refills ? 2 * kg->nr_hungry > nr_refills : kg->is_hungry);
}

/**
 * kf_groups_inside - how many requests inside the device sharing allows
 * @kq: device
 * @inside: how many it did, U32_MAX: any
 * @least: from kf_inside_least()
 *
 * Return: the number, not below @least; U32_MAX: any. For the cgroup that is
 * worst off; those that cannot have their share anyway do not count.
 */
u64 kf_groups_inside(struct kf_queue *kq, u64 inside, u64 least)
{
	u32 least_cost_bytes = U32_MAX, most_cost_bytes = 0;
	u64 own = U32_MAX, requests_sum = 0, most;
	struct kf_missed missed = {};
	unsigned int nr = 0;
	struct kf_group *kg;
	bool is_new;

	spin_lock_irq(&kq->lock);
	list_for_each_entry(kg, &kq->active, active_node) {
		kg->outstanding_max = max_t(unsigned int, kg->outstanding_max,
					    atomic_read(&kg->nr_outstanding));
		if (!kf_group_counts(kg))
			continue;
		requests_sum += kf_group_requests(kg);
		least_cost_bytes = min(least_cost_bytes, READ_ONCE(kg->mean_cost_bytes));
		most_cost_bytes = max(most_cost_bytes, READ_ONCE(kg->mean_cost_bytes));
		nr++;
	}

	list_for_each_entry(kg, &kq->active, active_node) {
		if (kf_group_counts(kg)) {
			u64 share = kf_request_share(kf_group_requests(kg), requests_sum);
			u64 inside_for = kf_inside_for(kg->outstanding_max, share);

			if (inside_for * KF_INSIDE_HOPELESS >= least) {
				own = min(own, inside_for);
				kf_group_missed(kg, &missed);
			}
		}
		kg->outstanding_max -= DIV_ROUND_UP(kg->outstanding_max, 4);
		kg->nr_hungry = 0;
		kg->lost_bytes = 0;
		kg->used_bytes = 0;
	}
	/* No refill, nobody seen to be hungry: nothing is known that was not. */
	is_new = nr >= 2 || kq->nr_refills || kq->nr_active < 2;
	kq->nr_refills = 0;
	if (nr < 2)
		own = U32_MAX;
	spin_unlock_irq(&kq->lock);

	if (!is_new)
		return inside;
	if (own == U32_MAX)
		return U32_MAX;
	most = kf_inside_most(own, least_cost_bytes, most_cost_bytes);
	return kf_inside_next(inside, most, least, missed.error, missed.saved,
			      READ_ONCE(kq->share_error_pct) * 10);
}

/* Called from kf_pd_init(), under queue_lock and blkcg->lock. */
void kf_group_init(struct kf_group *kg, struct kf_queue *kq,
		   struct kf_group *parent)
{
	unsigned int i, id;

	kg->kq = kq;
	kg->generation = kq->generation;
	kg->parent = parent;
	kg->mean_cost_bytes = KF_POOL_MIN_BYTES;
	INIT_LIST_HEAD(&kg->active_node);
	for (i = 0; i < kg->nr_backlogs; i++) {
		struct kf_backlog *kb = kg->backlog[i];

		kb->kg = kg;
		kb->hctx_nr = i;
		init_waitqueue_head(&kb->tag_wait);
		for (id = 0; id < KF_NR_DOMAINS; id++) {
			INIT_LIST_HEAD(&kb->rqs[id]);
			INIT_LIST_HEAD(&kb->node[id]);
		}
	}
}

/*
 * The cgroup is deleted, or the scheduler leaves the device. Requests that
 * are still queued hold references to the blkg and drain without a budget:
 * they are few, and nobody is left to be fair to.
 *
 * Called from kf_pd_offline(), under queue_lock and blkcg->lock.
 */
void kf_group_offline(struct kf_group *kg)
{
	struct kf_queue *kq = kg->kq;
	unsigned long flags;

	spin_lock_irqsave(&kq->lock, flags);
	WRITE_ONCE(kg->is_dead, true);
	if (kg->is_active) {
		WRITE_ONCE(kg->is_active, false);
		list_del_init(&kg->active_node);
		kq->nr_active--;
	}
	kf_group_update_state(kg);
	/* Its backlogs may be on spent lists. */
	kf_release_throttled(kq);
	spin_unlock_irqrestore(&kq->lock, flags);
}

void kf_groups_init(struct kf_queue *kq)
{
	spin_lock_init(&kq->lock);
	INIT_LIST_HEAD(&kq->active);
	kq->round_start_ns = ktime_get_ns();
	kq->pool_bytes = KF_POOL_MIN_BYTES;
	init_llist_head(&kq->throttled);
	isolio_hrtimer_setup(&kq->timer, kf_timer_fn, CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL);
}

/* No request is left; the policy is still active on the device. */
void kf_groups_stop(struct kf_queue *kq)
{
	hrtimer_cancel(&kq->timer);
	WARN_ONCE(atomic_read(&kq->nr_runnable),
		  "kyber-fairness: %d groups runnable at exit\n",
		  atomic_read(&kq->nr_runnable));
}

/* The policy is no longer active: all groups went offline. */
void kf_groups_exit(struct kf_queue *kq)
{
	/* Each group that went offline has started it. */
	hrtimer_cancel(&kq->timer);
	WARN_ONCE(kq->nr_active || atomic_read(&kq->nr_expected),
		  "kyber-fairness: %u groups active, %d expected at exit\n",
		  kq->nr_active, atomic_read(&kq->nr_expected));
}
