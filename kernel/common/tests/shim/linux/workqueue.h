/* SPDX-License-Identifier: GPL-2.0-only */
/* Delayed work, run by the CPU that queued it, as a timer is. */
#ifndef SHIM_LINUX_WORKQUEUE_H
#define SHIM_LINUX_WORKQUEUE_H

#include <linux/hrtimer.h>
#include <linux/time64.h>

#define HZ			250
#define jiffies			((unsigned long)(shim_now_ns() / (NSEC_PER_SEC / HZ)))
#define time_before(a, b)	((long)((a) - (b)) < 0)
#define nsecs_to_jiffies(ns)	((unsigned long)((ns) / (NSEC_PER_SEC / HZ)))
#define jiffies_to_nsecs(j)	((u64)(j) * (NSEC_PER_SEC / HZ))

struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);

struct work_struct {
	unsigned long pending;
	work_func_t func;
};

/* No submitter is a worker. */
static inline struct work_struct *current_work(void)
{
	return NULL;
}

struct delayed_work {
	struct work_struct work;
	struct hrtimer timer;
};

#define to_delayed_work(w)	container_of(w, struct delayed_work, work)

static inline enum hrtimer_restart shim_work_fn(struct hrtimer *timer)
{
	struct delayed_work *dwork = container_of(timer, struct delayed_work, timer);

	clear_bit(0, &dwork->work.pending);
	dwork->work.func(&dwork->work);
	return HRTIMER_NORESTART;
}

#define INIT_DELAYED_WORK(dwork, fn) do {				\
	(dwork)->work.pending = 0;					\
	(dwork)->work.func = (fn);					\
	hrtimer_setup(&(dwork)->timer, shim_work_fn, CLOCK_MONOTONIC,	\
		      HRTIMER_MODE_REL);				\
} while (0)

#define delayed_work_pending(dwork)	test_bit(0, &(dwork)->work.pending)

#define WORK_CPU_UNBOUND	0

static inline int kblockd_mod_delayed_work_on(int cpu, struct delayed_work *dwork,
					      unsigned long delay)
{
	if (test_and_set_bit(0, &dwork->work.pending))
		return false;
	hrtimer_start(&dwork->timer, jiffies_to_nsecs(delay), HRTIMER_MODE_REL);
	return true;
}

static inline void cancel_delayed_work_sync(struct delayed_work *dwork)
{
	hrtimer_cancel(&dwork->timer);
}

#endif
