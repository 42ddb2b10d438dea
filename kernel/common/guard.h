/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The starvation guard: see guard.c. A scheduler that has it
 *
 * - has a file guard.c of its own, which names its trace system and includes
 *   ../common/guard.c;
 * - has a struct guard for each device, from guard_alloc() to guard_free(), and
 *   calls guard_start() from init_sched;
 * - calls guard_prepare() from prepare_request, guard_dispatch() as the last thing
 *   that may keep a request from the device, guard_requeue() from
 *   requeue_request where guard_is_left(), and guard_finish() from
 *   finish_request;
 * - says from has_work that there is none where guard_holds() says so, and may
 *   ask it before it looks for a request to dispatch;
 * - has the files age_th, max_wait_ms and guard_stat, by GUARD_ATTR_FNS(), or in debugfs.
 *
 * A request's word for the guard is rq->elv.icq, from dispatch until the request is freed or
 * requeued. A scheduler that keeps something there, as sfq its io_cq, moves it aside meanwhile.
 */
#ifndef _ISOLIO_GUARD_H
#define _ISOLIO_GUARD_H

#include "compat.h"

#include "age.h"
#include "service.h"

/* One device. */
struct guard {
	struct request_queue *q;
	dev_t dev;

	/* Set under lock, read without; 0: the guard is off. */
	u32 age_th;
	/* Nothing may be dispatched; set under lock, read without. */
	bool is_closed;

	/* lock protects everything below; taken with interrupts off. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct ages ages;
	/* A hardware context waits until the gate opens. */
	bool is_awaited;
	/* One waits for a tag, of those that all hardware contexts share. */
	bool is_tag_awaited;
	/* What age_th is found from; 0: it was given. */
	u32 max_wait_ms;

	/* How fast the device is, while there is a max_wait_ms; see guard_measure(). */
	struct services services;
	u64 busy_ns;			/* in this period, until busy_start_ns */
	u64 busy_start_ns;
	u32 nr_served;			/* in this period */
	u32 depth;			/* most in flight in this period, */
	u32 last_depth;			/* and in the one before */

	/* Statistics, since they were last reset. */
	u32 inside_max;
	u64 delay_max;
	u64 nr_completed;
	u64 nr_requeued;
	u64 nr_held;			/* dispatched that had waited for the gate */
	u64 nr_closed;
	u64 closed_ns;			/* until closed_at_ns if is_closed */
	u64 closed_at_ns;
	u64 opened_at_ns;
	u64 delays[AGE_NR_BUCKETS];	/* completed, by delay count */

	/*
	 * Requests in flight by hardware context, or of all of them if they share the
	 * device's tags; read without lock. Allocated by guard_start().
	 */
	u32 *nr_inside;
};

struct guard *guard_alloc(struct request_queue *q);
int guard_start(struct guard *guard);
void guard_free(struct guard *guard);

bool __guard_holds(struct guard *guard, struct blk_mq_hw_ctx *hctx);
bool __guard_dispatch(struct guard *guard, struct request *rq);
void __guard_leave(struct guard *guard, struct request *rq, bool is_served);

ssize_t guard_age_th_show(struct guard *guard, char *page);
ssize_t guard_age_th_store(struct guard *guard, const char *page, size_t count);
ssize_t guard_max_wait_ms_show(struct guard *guard, char *page);
ssize_t guard_max_wait_ms_store(struct guard *guard, const char *page, size_t count);
ssize_t guard_guard_stat_show(struct guard *guard, char *page);
ssize_t guard_guard_stat_store(struct guard *guard, const char *page, size_t count);

static inline void guard_prepare(struct request *rq)
{
	rq->elv.icq = NULL;
}

/**
 * guard_holds - whether nothing can be dispatched from @hctx now
 * @guard: the device's
 * @hctx: the hardware context of the requests that wait
 *
 * If so, it will be run when something can. Any context, and locks of the
 * scheduler may be held.
 */
static inline bool guard_holds(struct guard *guard, struct blk_mq_hw_ctx *hctx)
{
	return READ_ONCE(guard->age_th) && __guard_holds(guard, hctx);
}

/**
 * guard_dispatch - leave for a request to go to the device
 * @guard: the device's
 * @rq: the request; it goes there if it may
 *
 * Return: whether it may. If not, its hardware context will be run when it can
 * be asked again.
 */
static inline bool guard_dispatch(struct guard *guard, struct request *rq)
{
	return !READ_ONCE(guard->age_th) || __guard_dispatch(guard, rq);
}

/* A request is done, or is freed without having been dispatched. */
static inline void guard_finish(struct guard *guard, struct request *rq)
{
	if (rq->elv.icq)
		__guard_leave(guard, rq, true);
}

/*
 * Whether a request that the device gave back comes to the scheduler again. One
 * that its driver has prepared (SCSI, NVMe) is sent again as it is.
 */
static inline bool guard_is_left(struct request *rq)
{
	return !(rq->rq_flags & RQF_DONTPREP);
}

/* The device gave a request back, and guard_is_left(). */
static inline void guard_requeue(struct guard *guard, struct request *rq)
{
	if (rq->elv.icq)
		__guard_leave(guard, rq, false);
}

/*
 * The functions of a file of the guard's: age_th, max_wait_ms or guard_stat.
 * prefix_guard() finds the guard of an elevator_queue.
 */
#define GUARD_ATTR_FNS(prefix, name)					\
static ssize_t prefix##_##name##_show(struct elevator_queue *e, char *page) \
{									\
	return guard_##name##_show(prefix##_guard(e), page);		\
}									\
									\
static ssize_t prefix##_##name##_store(struct elevator_queue *e,	\
				       const char *page, size_t count)	\
{									\
	return guard_##name##_store(prefix##_guard(e), page, count);	\
}

#endif /* _ISOLIO_GUARD_H */
