// SPDX-License-Identifier: GPL-2.0-only
/*
 * rsd: first in, first out, and no request starves behind a device that reorders.
 *
 * Problem
 *
 * A disk with a command queue (NCQ) serves the requests near its head first. With
 * 31 requests in flight its throughput is half as much again as with one, and the
 * median request completes in less than half of the time. But one request in a
 * thousand takes a second and a half: it lies badly and is bypassed 150 times (the
 * RSD paper, figures 1 and 2). No scheduler prevents that: schedulers order
 * requests before the device, and this happens inside it.
 *
 * Why simpler ways fail
 *
 * A smaller queue bounds the wait and gives up throughput. By the RSD paper's
 * table 1, depth 16 has two thirds of depth 31's longest response times and loses
 * 7 %; depth 8 has half of them and loses 16 %. Dispatching less when a request has
 * been in flight for long needs a timer, and a limit that suits the disk. NCQ's own
 * priorities cover few requests, and few disks have them.
 *
 * Model
 *
 * Starvation is counted in requests, not in time. The delay count of a request is
 * the number of requests that were dispatched after it and completed before it.
 * Two counters give a lower bound of it at any time; see ../common/age.h.
 *
 * Control law
 *
 * Requests go to the device in the order in which they arrived. While a request in
 * flight was certainly bypassed more than age_th times, no other is dispatched; see
 * ../common/guard.c. So no delay count exceeds age_th + depth - 1. A small age_th
 * stops the device often and lets its queue run low; a large one bounds little.
 * With age_th = 0 the guard is off, and rsd is a FIFO.
 *
 * Worked: 32 processes read at random from a disk with a queue of 31, and age_th is
 * 50. A request joins 30 others in flight. After 81 completions at least 51 of them
 * were of later requests, so the gate closes. 30 requests are in flight, this one
 * among them; they complete in some order, this one last at worst. Then all 30
 * places are filled at once, and the device has its choice again.
 *
 * Locking
 *
 * rsd_hctx.lock covers the queue of a hardware context. It is taken once to insert
 * a batch and once a dispatch. The guard's lock, one for the device, nests inside
 * it while the guard is on.
 *
 * Cost
 *
 * The lock at insertion and at dispatch, and the guard's cost (guard.c).
 * experiments/rsd/rsd-cost.toml measures it.
 *
 * Limits
 *
 * rsd knows no processes, cgroups, priorities or directions. It keeps the order of
 * each hardware queue; between the queues of one device there is none. The time in
 * rsd's own queue, for which the device has no room, has no bound.
 */
#include "guard.h"
#include "tunable.h"

#include <trace/events/block.h>

/* One hardware context of one device. */
struct rsd_hctx {
	/* lock protects everything below. */
	spinlock_t lock;
	struct list_head rqs;

	/* Requests in and out, to be equal when the hctx goes. */
	u64 nr_inserted;
	u64 nr_dispatched;
};

/* An elevator's data is the guard. */
static struct guard *rsd_guard(struct elevator_queue *e)
{
	return e->elevator_data;
}

static struct guard *rsd_guard_of(struct request_queue *q)
{
	return rsd_guard(q->elevator);
}

/* Called for a bio that may become part of a request that waits here. */
static bool rsd_bio_merge(struct request_queue *q, struct bio *bio,
			  unsigned int nr_segs)
{
	struct blk_mq_hw_ctx *hctx = isolio_map_queue(q, bio->bi_opf);
	struct rsd_hctx *rh = hctx->sched_data;
	bool merged;

	if (list_empty(&rh->rqs))
		return false;

	spin_lock(&rh->lock);
	merged = blk_bio_list_merge(q, &rh->rqs, bio, nr_segs);
	spin_unlock(&rh->lock);

	return merged;
}

/* Called for each new request that will come here. */
static void rsd_prepare_request(struct request *rq)
{
	guard_prepare(rq);
}

/* Called with requests to be queued on @hctx, in process context. */
static void rsd_insert_requests(struct blk_mq_hw_ctx *hctx,
				struct list_head *list, isolio_insert_arg)
{
	struct rsd_hctx *rh = hctx->sched_data;
	bool at_head = isolio_insert_at_head(flags);
	struct request *rq;

	spin_lock(&rh->lock);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		if (at_head)
			list_move(&rq->queuelist, &rh->rqs);
		else
			list_move_tail(&rq->queuelist, &rh->rqs);
		rh->nr_inserted++;
		trace_block_rq_insert(rq);
	}
	spin_unlock(&rh->lock);
	isolio_dispatch_here(hctx, &rh->lock);
}

/* Called by the block layer when @hctx can take a request. */
static struct request *rsd_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct rsd_hctx *rh = hctx->sched_data;
	struct request *rq;

	spin_lock(&rh->lock);
	rq = list_first_entry_or_null(&rh->rqs, struct request, queuelist);
	if (rq && !guard_dispatch(rsd_guard_of(hctx->queue), rq))
		rq = NULL;
	if (rq) {
		list_del_init(&rq->queuelist);
		rh->nr_dispatched++;
	}
	spin_unlock(&rh->lock);

	return rq;
}

/* Called by the block layer to see whether to call rsd_dispatch_request(). */
static bool rsd_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct rsd_hctx *rh = hctx->sched_data;

	return !list_empty(&rh->rqs) &&
	       !guard_holds(rsd_guard_of(hctx->queue), hctx);
}

/* Called when the device gave a request back. */
static void rsd_requeue_request(struct request *rq)
{
	if (guard_is_left(rq))
		guard_requeue(rsd_guard_of(rq->q), rq);
}

/* Called when a request is freed, in any context. */
static void rsd_finish_request(struct request *rq)
{
	guard_finish(rsd_guard_of(rq->q), rq);
}

static int rsd_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct rsd_hctx *rh;

	rh = kzalloc_node(sizeof(*rh), GFP_NOIO, hctx->numa_node);
	if (!rh)
		return -ENOMEM;

	spin_lock_init(&rh->lock);
	INIT_LIST_HEAD(&rh->rqs);
	hctx->sched_data = rh;
	return 0;
}

/* The queue is frozen and quiesced: no request, no dispatch. */
static void rsd_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct rsd_hctx *rh = hctx->sched_data;

	WARN_ONCE(rh->nr_inserted != rh->nr_dispatched || !list_empty(&rh->rqs),
		  "rsd: hctx %u: %llu requests in, %llu out\n", hctx_idx,
		  rh->nr_inserted, rh->nr_dispatched);
	hctx->sched_data = NULL;
	kfree(rh);
}

static void *rsd_alloc(struct request_queue *q)
{
	return guard_alloc(q);
}

static void rsd_free(void *data)
{
	guard_free(data);
}

/* The scheduler is chosen for a device; the queue is frozen. */
static int rsd_init_sched(struct request_queue *q, isolio_init_sched_arg)
{
	struct guard *guard = isolio_elevator_begin(q, eq, rsd_alloc);
	int ret;

	if (!guard)
		return -ENOMEM;
	ret = guard_start(guard);
	if (ret) {
		isolio_elevator_abort(q, rsd_free);
		return ret;
	}

	/* Hardware contexts dispatch side by side. */
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

/* Another scheduler is chosen, or the device goes; all rsd_hctx are gone. */
static void rsd_exit_sched(struct elevator_queue *e)
{
	isolio_elevator_end(rsd_guard(e), rsd_free);
}

GUARD_ATTR_FNS(rsd, age_th)
GUARD_ATTR_FNS(rsd, max_wait_ms)
GUARD_ATTR_FNS(rsd, guard_stat)

#define RSD_ATTR(name)	TUNABLE_ATTR(rsd, name)

static isolio_attrs_const struct elv_fs_entry rsd_attrs[] = {
	RSD_ATTR(age_th),
	RSD_ATTR(max_wait_ms),
	RSD_ATTR(guard_stat),
	__ATTR_NULL
};

#undef RSD_ATTR

static struct elevator_type rsd_elevator = {
	.ops = {
		ISOLIO_SCHED_DATA_OPS(rsd_alloc, rsd_free)
		.init_sched		= rsd_init_sched,
		.exit_sched		= rsd_exit_sched,
		.init_hctx		= rsd_init_hctx,
		.exit_hctx		= rsd_exit_hctx,
		.bio_merge		= rsd_bio_merge,
		.prepare_request	= rsd_prepare_request,
		.insert_requests	= rsd_insert_requests,
		.has_work		= rsd_has_work,
		.dispatch_request	= rsd_dispatch_request,
		.requeue_request	= rsd_requeue_request,
		.finish_request		= rsd_finish_request,
	},
	.elevator_attrs	= rsd_attrs,
	.elevator_name	= "rsd",
	.elevator_owner	= THIS_MODULE,
};

static int __init rsd_init(void)
{
	return isolio_check_fit() ?: elv_register(&rsd_elevator);
}

static void __exit rsd_exit(void)
{
	elv_unregister(&rsd_elevator);
}

module_init(rsd_init);
module_exit(rsd_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("FIFO that keeps requests from starving behind a reordering device");
MODULE_LICENSE("GPL");
MODULE_ALIAS("rsd-iosched");
