/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timers. Each CPU has a base with a lock and a list, as in the kernel. What expires
 * is run by shim_run_timers(), which the CPU calls between two operations: there are
 * no interrupts.
 */
#ifndef SHIM_LINUX_HRTIMER_H
#define SHIM_LINUX_HRTIMER_H

#include <linux/list.h>
#include <linux/spinlock.h>

enum hrtimer_restart {
	HRTIMER_NORESTART,
	HRTIMER_RESTART,
};

enum hrtimer_mode {
	HRTIMER_MODE_REL,
};

struct shim_timer_base;

struct hrtimer {
	struct list_head node;
	struct shim_timer_base *base;	/* where it is, or was last */
	u64 expires_ns;
	u8 is_queued;
	enum hrtimer_restart (*function)(struct hrtimer *timer);
};

struct shim_timer_base {
	spinlock_t lock;
	struct list_head timers;
	u64 next_ns;			/* U64_MAX: none; only a hint without the lock */
	struct hrtimer *running;
} __attribute__((aligned(64)));

extern struct shim_timer_base shim_timer_bases[SHIM_NR_CPUS_MAX];

static inline void shim_timers_init(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < shim_nr_cpus; cpu++) {
		spin_lock_init(&shim_timer_bases[cpu].lock);
		INIT_LIST_HEAD(&shim_timer_bases[cpu].timers);
		shim_timer_bases[cpu].next_ns = U64_MAX;
	}
}

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*fn)(struct hrtimer *timer),
				 int clock, enum hrtimer_mode mode)
{
	INIT_LIST_HEAD(&timer->node);
	timer->base = &shim_timer_bases[shim_this_cpu()];
	timer->function = fn;
	timer->is_queued = 0;
}

static inline bool hrtimer_is_queued(struct hrtimer *timer)
{
	return READ_ONCE(timer->is_queued);
}

static inline struct shim_timer_base *shim_lock_base(struct hrtimer *timer)
{
	for (;;) {
		struct shim_timer_base *base = READ_ONCE(timer->base);

		spin_lock(&base->lock);
		if (base == READ_ONCE(timer->base))
			return base;
		spin_unlock(&base->lock);
	}
}

static inline void shim_find_next(struct shim_timer_base *base)
{
	struct hrtimer *timer;
	u64 next_ns = U64_MAX;

	list_for_each_entry(timer, &base->timers, node)
		if (timer->expires_ns < next_ns)
			next_ns = timer->expires_ns;
	WRITE_ONCE(base->next_ns, next_ns);
}

/* The base's lock is held. */
static inline void shim_dequeue_timer(struct hrtimer *timer)
{
	if (!timer->is_queued)
		return;
	list_del_init(&timer->node);
	WRITE_ONCE(timer->is_queued, 0);
	shim_find_next(timer->base);
}

static inline void shim_enqueue_timer(struct shim_timer_base *base, struct hrtimer *timer)
{
	list_add_tail(&timer->node, &base->timers);
	WRITE_ONCE(timer->is_queued, 1);
	if (timer->expires_ns < base->next_ns)
		WRITE_ONCE(base->next_ns, timer->expires_ns);
}

static inline void hrtimer_start(struct hrtimer *timer, u64 after_ns, enum hrtimer_mode mode)
{
	struct shim_timer_base *old = shim_lock_base(timer);
	struct shim_timer_base *base = &shim_timer_bases[shim_this_cpu()];

	shim_dequeue_timer(timer);
	timer->expires_ns = shim_now_ns() + after_ns;
	/* One whose function runs elsewhere stays there. */
	if (base != old && old->running != timer) {
		WRITE_ONCE(timer->base, base);
		spin_unlock(&old->lock);
		spin_lock(&base->lock);
		old = base;
	}
	shim_enqueue_timer(old, timer);
	spin_unlock(&old->lock);
}

static inline void hrtimer_cancel(struct hrtimer *timer)
{
	struct shim_timer_base *base = shim_lock_base(timer);

	shim_dequeue_timer(timer);
	spin_unlock(&base->lock);
}

/* Run what has expired on this CPU. Return: whether there was any. */
static inline bool shim_run_timers(void)
{
	struct shim_timer_base *base = &shim_timer_bases[shim_this_cpu()];
	u64 now_ns = shim_now_ns();
	struct hrtimer *timer, *due;

	if (READ_ONCE(base->next_ns) > now_ns)
		return false;
	spin_lock(&base->lock);
	due = NULL;
	list_for_each_entry(timer, &base->timers, node)
		if (timer->expires_ns <= now_ns)
			due = timer;
	if (due) {
		shim_dequeue_timer(due);
		base->running = due;
		spin_unlock(&base->lock);
		if (due->function(due) == HRTIMER_RESTART) {
			spin_lock(&base->lock);
			if (!due->is_queued)
				shim_enqueue_timer(base, due);
			spin_unlock(&base->lock);
		}
		spin_lock(&base->lock);
		base->running = NULL;
	} else {
		shim_find_next(base);
	}
	spin_unlock(&base->lock);
	return due;
}

#define CLOCK_MONOTONIC		1
#define ns_to_ktime(ns)		(ns)

#endif
