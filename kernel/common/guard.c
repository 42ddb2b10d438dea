// SPDX-License-Identifier: GPL-2.0-only
/*
 * The starvation guard bounds how often later requests bypass one in the device
 * (the RSD paper). A scheduler that has the guard includes this file in a file of
 * its own; see guard.h.
 *
 * Problem
 *
 * A device with many requests in flight serves them in the order that suits it.
 * Its throughput comes from that order, so a scheduler leaves it alone. But some
 * request always suits the device badly: a disk with a queue of 31 delays some
 * requests for 1.5 seconds. Priorities and deadlines act before the device and
 * cannot help.
 *
 * Control law
 *
 * A request starves when it was certainly bypassed more than age_th times. While a
 * starving request is in flight, the guard closes the gate: it dispatches nothing.
 * The requests in flight complete, the starving one among them, and the gate opens.
 * So the delay count of a request is at most age_th + depth - 1, and it is in
 * flight for at most age_th + 2 depth - 1 completions. age.h proves both bounds,
 * and finds ages without a counter for each request.
 *
 * An administrator who prefers a time sets max_wait_ms. The guard then computes
 * age_th from the bound, the depth reached, and the mean and spread of measured
 * services (service.h), and updates it as they change. Until the first
 * GUARD_PERIOD_NR completions age_th is the largest.
 *
 * max_wait_ms is not a guarantee, for two reasons. The bound counts completions,
 * and the device decides how long those take: the past spread says how rarely they
 * take longer, and a stall of the device bypasses no request. And the bound covers
 * the time in flight: a request that arrives at a closed gate waits there too, for
 * up to depth - 1 completions. Counting those would lower age_th by as many and
 * gain little: a request that waited at the gate is rarely bypassed up to the
 * bound afterwards (docs/results/rsd.md has figures).
 *
 * Requests in flight
 *
 * A request is in flight from guard_dispatch() until it is freed or requeued. The
 * guard dispatches no more requests to a hardware context than the device has tags
 * for it, or for all contexts if they share tags. Otherwise a request that waits
 * for a tag would count as one that the device bypasses.
 *
 * A requeue counts as a completion, as in the paper, and the request is a new one
 * when it is dispatched again. The exception is a request that its driver has
 * prepared: the block layer sends it again without the scheduler, so it stays in
 * flight and keeps its age. Errors and timeouts count as completions. Requests
 * that bypass the scheduler (flushes, passthrough) are neither throttled nor
 * counted, and pass a closed gate.
 *
 * The gate always opens again. It is closed while one certain request is in
 * flight, and the driver completes that request, requeues it, or times it out.
 * Removing a scheduler freezes the queue first, which waits for all requests; so
 * the gate is open by then.
 *
 * Running the queues
 *
 * guard_holds() or guard_dispatch() finds the gate closed under the lock, and
 * records under the lock that a context waits. The completion that opens the gate
 * sees the record and runs all hardware queues. A context that waits for a tag
 * marks itself, and the block layer restarts it when a request is freed.
 *
 * Cost
 *
 * Off: one load of age_th a dispatch, one test of a pointer a completion.
 * On: one lock for the device, at each dispatch and completion, shared by all
 * CPUs. Computing the delay count reads one word for each 64 numbers between the
 * request and the nearer end of those in flight.
 */
#include "guard.h"
#include "text.h"

#define CREATE_TRACE_POINTS
#include "guard_trace.h"

/* The rate is taken over at least so many completions and so much busy time. */
#define GUARD_PERIOD_NR		64
#define GUARD_PERIOD_NS		(100 * NSEC_PER_MSEC)
#define GUARD_MAX_WAIT_MS_MAX	(3600U * 1000)

/* Whether all hardware contexts take their tags from the same ones. */
static bool guard_tags_are_shared(struct guard *guard)
{
	return guard->q->tag_set->flags & BLK_MQ_F_TAG_HCTX_SHARED;
}

/* Where the requests in flight of a hardware context are counted. */
static u32 *guard_nr_inside(struct guard *guard, struct blk_mq_hw_ctx *hctx)
{
	return &guard->nr_inside[guard_tags_are_shared(guard) ? 0 : hctx->queue_num];
}

/* One that no CPU is mapped to has no tags, and nothing to dispatch. */
static bool guard_is_full(struct guard *guard, struct blk_mq_hw_ctx *hctx)
{
	struct blk_mq_tags *tags = hctx->tags;

	/* Not nr_tags: nr_requests may have been set when there was no scheduler. */
	return tags && READ_ONCE(*guard_nr_inside(guard, hctx)) >=
		       READ_ONCE(tags->bitmap_tags.sb.depth);
}

/*
 * Have the hardware context run when one of its tags comes free. The block layer
 * restarts that of the request that is freed: of tags that are shared, that may be
 * another one, so then all are run.
 */
static void guard_await_tag(struct guard *guard, struct blk_mq_hw_ctx *hctx)
{
	lockdep_assert_held(&guard->lock);

	if (guard_tags_are_shared(guard))
		guard->is_tag_awaited = true;
	else
		blk_mq_sched_mark_restart_hctx(hctx);
}

/* Close or open the gate. Returns whether a hardware context waits for it to open. */
static bool guard_set_gate(struct guard *guard)
{
	bool is_closed = guard->age_th &&
			 (ages_starve(&guard->ages, guard->age_th) ||
			  ages_full(&guard->ages));
	u64 now_ns, was_closed_ns = 0;
	bool is_awaited;

	lockdep_assert_held(&guard->lock);

	if (is_closed == guard->is_closed)
		return false;

	now_ns = ktime_get_ns();
	WRITE_ONCE(guard->is_closed, is_closed);
	if (is_closed) {
		guard->nr_closed++;
		guard->closed_at_ns = now_ns;
	} else {
		was_closed_ns = now_ns - guard->closed_at_ns;
		guard->closed_ns += was_closed_ns;
		guard->opened_at_ns = now_ns;
	}
	trace_guard_gate(guard->dev, is_closed, guard->age_th,
			 ages_oldest(&guard->ages), ages_inside(&guard->ages),
			 was_closed_ns);

	is_awaited = guard->is_awaited && !is_closed;
	guard->is_awaited = false;
	return is_awaited;
}

/* Forget what was measured, as far as it is of a period. */
static void guard_begin_period(struct guard *guard, u64 now_ns)
{
	lockdep_assert_held(&guard->lock);

	guard->busy_ns = 0;
	guard->busy_start_ns = now_ns;
	guard->nr_served = 0;
	guard->last_depth = guard->depth;
	guard->depth = ages_inside(&guard->ages);
}

/* Find age_th from max_wait_ms and what is known of the device. */
static void guard_find_threshold(struct guard *guard)
{
	u32 depth = max(guard->depth, guard->last_depth);
	u32 age_th = AGE_TH_MAX;

	lockdep_assert_held(&guard->lock);

	if (guard->services.mean_ns)
		age_th = age_th_of_wait((u64)guard->max_wait_ms * NSEC_PER_MSEC,
					&guard->services, depth);
	if (age_th == guard->age_th)
		return;
	WRITE_ONCE(guard->age_th, age_th);
	trace_guard_threshold(guard->dev, guard->max_wait_ms, &guard->services,
			      depth, age_th);
}

/* One more was served: is it time to look at the rate? */
static void guard_measure(struct guard *guard)
{
	bool is_idle = !ages_inside(&guard->ages);
	u64 now_ns;

	lockdep_assert_held(&guard->lock);

	guard->nr_served++;
	if (!is_idle && guard->nr_served % GUARD_PERIOD_NR)
		return;
	now_ns = ktime_get_ns();
	guard->busy_ns += now_ns - guard->busy_start_ns;
	guard->busy_start_ns = now_ns;
	if (guard->nr_served < GUARD_PERIOD_NR || guard->busy_ns < GUARD_PERIOD_NS)
		return;

	services_observe(&guard->services, guard->busy_ns, guard->nr_served);
	guard_find_threshold(guard);
	guard_begin_period(guard, now_ns);
}

/* Called from guard_holds() while the guard is on. */
bool __guard_holds(struct guard *guard, struct blk_mq_hw_ctx *hctx)
{
	unsigned long flags;
	bool is_full, holds;

	/* What is seen here may be old: then it is seen again under the lock. */
	if (!READ_ONCE(guard->is_closed) && !guard_is_full(guard, hctx))
		return false;

	spin_lock_irqsave(&guard->lock, flags);
	is_full = guard->age_th && guard_is_full(guard, hctx);
	if (guard->is_closed)
		guard->is_awaited = true;
	else if (is_full)
		guard_await_tag(guard, hctx);
	holds = guard->is_closed || is_full;
	spin_unlock_irqrestore(&guard->lock, flags);

	return holds;
}

/* Called from guard_dispatch() while the guard is on. */
bool __guard_dispatch(struct guard *guard, struct request *rq)
{
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
	u32 *nr_of_tags = guard_nr_inside(guard, hctx);
	unsigned long flags;
	u32 nr_inside;

	if (!isolio_rq_has_sched_data(rq))
		return true;

	spin_lock_irqsave(&guard->lock, flags);
	if (!guard->age_th) {
		spin_unlock_irqrestore(&guard->lock, flags);
		return true;
	}
	if (guard->is_closed) {
		guard->is_awaited = true;
		spin_unlock_irqrestore(&guard->lock, flags);
		return false;
	}
	if (guard_is_full(guard, hctx)) {
		guard_await_tag(guard, hctx);
		spin_unlock_irqrestore(&guard->lock, flags);
		return false;
	}

	if (guard->max_wait_ms && !ages_inside(&guard->ages))
		guard->busy_start_ns = ktime_get_ns();
	/* The number, and one for that there is one. */
	rq->elv.icq = (void *)(unsigned long)(ages_begin(&guard->ages) + 1);
	WRITE_ONCE(*nr_of_tags, *nr_of_tags + 1);
	nr_inside = ages_inside(&guard->ages);
	guard->depth = max(guard->depth, nr_inside);
	guard->inside_max = max(guard->inside_max, nr_inside);
	if (rq->start_time_ns < guard->opened_at_ns)
		guard->nr_held++;
	/* No age has changed; but the window may be full now. */
	guard_set_gate(guard);
	spin_unlock_irqrestore(&guard->lock, flags);

	return true;
}

/* Called from guard_finish() and guard_requeue(), in any context. */
void __guard_leave(struct guard *guard, struct request *rq, bool is_served)
{
	u64 number = (unsigned long)rq->elv.icq - 1;
	u32 *nr_of_tags = guard_nr_inside(guard, rq->mq_hctx);
	unsigned long flags;
	bool is_awaited;
	u64 delay;

	rq->elv.icq = NULL;
	spin_lock_irqsave(&guard->lock, flags);
	delay = ages_end(&guard->ages, number);
	WRITE_ONCE(*nr_of_tags, *nr_of_tags - 1);
	if (is_served) {
		guard->nr_completed++;
		guard->delays[age_bucket(delay)]++;
		guard->delay_max = max(guard->delay_max, delay);
	} else {
		guard->nr_requeued++;
	}
	if (guard->max_wait_ms)
		guard_measure(guard);
	is_awaited = guard_set_gate(guard) || guard->is_tag_awaited;
	guard->is_tag_awaited = false;
	spin_unlock_irqrestore(&guard->lock, flags);

	if (is_awaited)
		blk_mq_run_hw_queues(guard->q, true);
}

/**
 * guard_alloc - a guard for a device, switched off
 * @q: the device's queue
 *
 * Process context; some kernels have frozen the queue, so no memory may be had by I/O.
 * Return: NULL if there is no memory.
 */
struct guard *guard_alloc(struct request_queue *q)
{
	struct guard *guard;

	guard = kzalloc_node(sizeof(*guard), GFP_NOIO, q->node);
	if (!guard)
		return NULL;
	guard->ages.inside = kvzalloc_node(array_size(AGE_NR_WORDS, sizeof(u64)),
					   GFP_NOIO, q->node);
	if (!guard->ages.inside) {
		kfree(guard);
		return NULL;
	}
	guard->q = q;
	guard->dev = disk_devt(q->disk);
	spin_lock_init(&guard->lock);
	return guard;
}

/**
 * guard_start - have a guard count the requests of the hardware queues that there are
 * @guard: the device's
 *
 * Called from init_sched, with the queue frozen; the number of hardware queues stays
 * until the scheduler goes. Before that, where guard_alloc() may be called, it can still
 * be the number that the device had before it got others.
 *
 * Return: 0, or -ENOMEM; then guard_free() is to follow.
 */
int guard_start(struct guard *guard)
{
	guard->nr_inside = kcalloc_node(guard->q->nr_hw_queues,
					sizeof(*guard->nr_inside), GFP_NOIO,
					guard->q->node);
	return guard->nr_inside ? 0 : -ENOMEM;
}

/* No request is left. */
void guard_free(struct guard *guard)
{
	if (!guard)
		return;
	WARN_ONCE(ages_inside(&guard->ages) || guard->is_closed,
		  "isolio: guard of %d:%d: %llu dispatched, %llu ended, gate %s\n",
		  MAJOR(guard->dev), MINOR(guard->dev), guard->ages.nr_begun,
		  guard->ages.nr_ended, guard->is_closed ? "closed" : "open");
	kvfree(guard->ages.inside);
	kfree(guard->nr_inside);
	kfree(guard);
}

/* Tunables changed: the gate may have to open for it. */
static void guard_unlock_changed(struct guard *guard)
	__releases(&guard->lock)
{
	bool is_awaited = guard_set_gate(guard);

	spin_unlock_irq(&guard->lock);
	/* Contexts that wait for a tag too: the guard may count other requests now. */
	if (is_awaited || !READ_ONCE(guard->age_th))
		blk_mq_run_hw_queues(guard->q, true);
}

/* A tunable of 0 to @most. */
static int guard_parse(const char *page, size_t count, u32 most, u32 *value)
{
	u64 number;
	int ret = text_number(page, count, 0, most, &number);

	if (!ret)
		*value = number;
	return ret;
}

ssize_t guard_age_th_show(struct guard *guard, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(guard->age_th));
}

ssize_t guard_age_th_store(struct guard *guard, const char *page, size_t count)
{
	u32 age_th;
	int ret = guard_parse(page, count, AGE_TH_MAX, &age_th);

	if (ret)
		return ret;

	spin_lock_irq(&guard->lock);
	guard->max_wait_ms = 0;
	WRITE_ONCE(guard->age_th, age_th);
	guard_unlock_changed(guard);
	return count;
}

ssize_t guard_max_wait_ms_show(struct guard *guard, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(guard->max_wait_ms));
}

/* 0 switches off the guard, if this file had switched it on. */
ssize_t guard_max_wait_ms_store(struct guard *guard, const char *page, size_t count)
{
	u32 max_wait_ms;
	int ret = guard_parse(page, count, GUARD_MAX_WAIT_MS_MAX, &max_wait_ms);

	if (ret)
		return ret;

	spin_lock_irq(&guard->lock);
	if (max_wait_ms) {
		if (!guard->max_wait_ms)
			guard_begin_period(guard, ktime_get_ns());
		guard->max_wait_ms = max_wait_ms;
		guard_find_threshold(guard);
	} else if (guard->max_wait_ms) {
		guard->max_wait_ms = 0;
		WRITE_ONCE(guard->age_th, 0);
	}
	guard_unlock_changed(guard);
	return count;
}

/* A line for each figure, name and value; and one for each bucket with requests. */
ssize_t guard_guard_stat_show(struct guard *guard, char *page)
{
	u64 now_ns, closed_ns, wait_ns = 0;
	struct services services;
	unsigned int bucket;
	u64 *delays;
	ssize_t len;

	/* A scheduler that is switched waits for this file, with the queue frozen. */
	delays = kmalloc_array(AGE_NR_BUCKETS, sizeof(*delays), GFP_NOIO);
	if (!delays)
		return -ENOMEM;

	spin_lock_irq(&guard->lock);
	now_ns = ktime_get_ns();
	closed_ns = guard->closed_ns;
	if (guard->is_closed)
		closed_ns += now_ns - guard->closed_at_ns;
	services = guard->services;
	if (services.mean_ns)
		wait_ns = age_wait_ns(guard->age_th, &services,
				      max(guard->depth, guard->last_depth));
	memcpy(delays, guard->delays, sizeof(guard->delays));
	len = sysfs_emit(page,
			 "age_th %u\nmax_wait_ms %u\n"
			 "service_us %llu\nservice_deviation_us %llu\n"
			 "wait_bound_ms %llu\n"
			 "closed %d\ninside %llu\ninside_max %u\n"
			 "completed %llu\nrequeued %llu\nheld %llu\n"
			 "closings %llu\nclosed_us %llu\ndelay_max %llu\n",
			 guard->age_th, guard->max_wait_ms,
			 div_u64(services.mean_ns, NSEC_PER_USEC),
			 div_u64(services.deviation_ns, NSEC_PER_USEC),
			 div_u64(wait_ns, NSEC_PER_MSEC),
			 guard->is_closed, ages_inside(&guard->ages),
			 guard->inside_max, guard->nr_completed,
			 guard->nr_requeued, guard->nr_held, guard->nr_closed,
			 div_u64(closed_ns, NSEC_PER_USEC), guard->delay_max);
	spin_unlock_irq(&guard->lock);

	for (bucket = 0; bucket < AGE_NR_BUCKETS; bucket++)
		if (delays[bucket])
			len += sysfs_emit_at(page, len, "delay %llu %llu\n",
					     age_bucket_least(bucket),
					     delays[bucket]);
	kfree(delays);
	return len;
}

/* Writing 0 resets the statistics. */
ssize_t guard_guard_stat_store(struct guard *guard, const char *page, size_t count)
{
	u32 zero;
	int ret;

	ret = guard_parse(page, count, U32_MAX, &zero);
	if (ret)
		return ret;
	if (zero)
		return -EINVAL;

	spin_lock_irq(&guard->lock);
	guard->inside_max = ages_inside(&guard->ages);
	guard->delay_max = 0;
	guard->nr_completed = 0;
	guard->nr_requeued = 0;
	guard->nr_held = 0;
	guard->nr_closed = 0;
	guard->closed_ns = 0;
	if (guard->is_closed)
		guard->closed_at_ns = ktime_get_ns();
	memset(guard->delays, 0, sizeof(guard->delays));
	spin_unlock_irq(&guard->lock);
	return count;
}
