// SPDX-License-Identifier: GPL-2.0-only
/*
 * When budgets are refilled: figures 26, 28, 31 and 32 of the report. The arithmetic is in
 * refill.h.
 */
#include "kyber-report.h"

static void kr_start_timer(struct kr_device *kd)
{
	lockdep_assert_held(&kd->lock);

	kd->is_ticking = true;
	hrtimer_start(&kd->timer, ns_to_ktime(kd->refilled_ns + READ_ONCE(kd->refill_ns)),
		      HRTIMER_MODE_ABS);
}

/* Return: whether a cgroup was not idle. */
static bool kr_refill(struct kr_device *kd, u64 now_ns)
{
	struct kr_sums sums = {};
	struct kr_group *kg;
	s64 granted, next;

	lockdep_assert_held(&kd->lock);

	list_for_each_entry(kg, &kd->groups, node) {
		kg->seen_budget = atomic64_read(&kg->cur_budget);
		kg->seen_weight = READ_ONCE(kg->weight);
		kr_sums_add(&sums, kg->next_budget, kg->seen_budget, kg->seen_weight);
	}
	granted = kr_granted(&sums, READ_ONCE(kd->refill_ns), now_ns - kd->refilled_ns);
	list_for_each_entry(kg, &kd->groups, node) {
		if (kr_is_idle(kg->next_budget, kg->seen_budget)) {
			WRITE_ONCE(kg->is_idle, true);
			next = kr_initial_budget(kg->seen_weight);
		} else {
			next = kr_next_budget(granted, kg->seen_weight, &sums, kg->seen_budget);
		}
		/* Requests that are dispatched meanwhile stay charged. */
		atomic64_add(next - kg->seen_budget, &kg->cur_budget);
		kg->next_budget = next;
	}
	kd->refilled_ns = now_ns;
	return sums.weight;
}

/*
 * refill_ns after the last refill. Once all cgroups are idle another refill would change
 * nothing: the timer stops, and the next insertion or a spent budget starts it.
 */
static enum hrtimer_restart kr_timer(struct hrtimer *timer)
{
	struct kr_device *kd = container_of(timer, struct kr_device, timer);
	u64 now_ns = ktime_get_ns();
	bool is_due;

	spin_lock(&kd->lock);
	/* Not if a dispatch has refilled while this waited for the lock. */
	is_due = now_ns >= kd->refilled_ns + READ_ONCE(kd->refill_ns);
	if (!is_due || kr_refill(kd, now_ns))
		kr_start_timer(kd);
	else
		kd->is_ticking = false;
	spin_unlock(&kd->lock);
	if (is_due)
		blk_mq_run_hw_queues(kd->q, true);
	return HRTIMER_NORESTART;
}

/**
 * kr_refill_spent - refill if no cgroup that is not idle has budget left
 * @kd: device
 *
 * Return: whether budgets were refilled.
 */
bool kr_refill_spent(struct kr_device *kd)
{
	unsigned long flags;
	struct kr_group *kg;
	bool is_spent = true;

	spin_lock_irqsave(&kd->lock, flags);
	list_for_each_entry(kg, &kd->groups, node) {
		is_spent = READ_ONCE(kg->is_idle) || atomic64_read(&kg->cur_budget) <= 0;
		if (!is_spent)
			break;
	}
	if (is_spent) {
		kr_refill(kd, ktime_get_ns());
		kr_start_timer(kd);
	}
	spin_unlock_irqrestore(&kd->lock, flags);
	return is_spent;
}

/* A cgroup inserts a request: figure 32. */
void kr_group_wake(struct kr_group *kg)
{
	struct kr_device *kd = kg->kd;
	unsigned long flags;

	if (likely(!READ_ONCE(kg->is_idle)))
		return;
	spin_lock_irqsave(&kd->lock, flags);
	WRITE_ONCE(kg->is_idle, false);
	if (!kg->is_dead && list_empty(&kg->node))
		list_add_tail(&kg->node, &kd->groups);
	if (!kd->is_ticking) {
		kd->refilled_ns = ktime_get_ns();
		kr_start_timer(kd);
	}
	spin_unlock_irqrestore(&kd->lock, flags);
}

/* The cgroup is deleted. It may have requests, which need no budget from now on. */
void kr_group_offline(struct kr_group *kg)
{
	struct kr_device *kd = kg->kd;
	unsigned long flags;

	spin_lock_irqsave(&kd->lock, flags);
	WRITE_ONCE(kg->is_dead, true);
	list_del_init(&kg->node);
	spin_unlock_irqrestore(&kd->lock, flags);
}

void kr_refill_init(struct kr_device *kd)
{
	spin_lock_init(&kd->lock);
	INIT_LIST_HEAD(&kd->groups);
	kd->refill_ns = 100 * NSEC_PER_MSEC;
	isolio_hrtimer_setup(&kd->timer, kr_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}
