// SPDX-License-Identifier: GPL-2.0-only
/*
 * kyber-report: the scheduler of the Kyber Fairness report as published. A contender for
 * measurements, not for use: kyber-fairness is.
 *
 * Each cgroup has a budget of sectors on each device, and a queue on each hardware context.
 * A request may be dispatched while its cgroup's budget is above 0, and takes its size from
 * it (figures 14, 26 and 27). Budgets are refilled when no cgroup that is not idle has any
 * left, and 100 ms after the last refill (figures 26 and 28). A refill grants what the
 * device would serve in 100 ms at the rate since the last one, by weight (figure 30). A
 * cgroup is idle if its budget is what the last refill made it (figure 31), until it inserts
 * a request (figure 32). Weights count among all cgroups: there is no hierarchy.
 *
 * Below that is Kyber: domain.c. A hardware context goes on with the cgroup and the domain
 * that it dispatched from last.
 *
 * What differs from the report:
 *
 * - A dispatch without budget returns. The report's spins until a refill, with the CPU.
 * - The timer refills by itself; the report's wakes a thread. It stops while all are idle.
 * - A dispatch that finds two refills in a row of no use returns.
 * - If the current cgroup's domains have no tokens, another cgroup is tried.
 * - The requests of a deleted cgroup need no budget, and those that the device gave back are
 *   not charged again.
 *
 * Limits, all of them the report's. A cgroup that issues a small request in each interval is
 * not idle, and the others wait for its budget (section V.2). Requests of a throttled cgroup
 * keep their scheduler tags: where the cgroups issue more requests than there are, a cgroup
 * that has budget finds no tag.
 *
 * Flushes and requests that the device gave back go first. A request that waits has a bio,
 * which keeps its cgroup's blkg, and so kr_group and kr_queue.
 */
#include "kyber-report.h"

#include <trace/events/block.h>

/* As Kyber: of the scheduler's tags, a quarter is kept for synchronous requests. */
#define KR_ASYNC_PCT	75

/* Kyber's batches. */
static const unsigned int kr_batch[KR_NR_DOMAINS] = {
	[KR_READ] = 16,
	[KR_WRITE] = 8,
	[KR_DISCARD] = 1,
	[KR_OTHER] = 1,
};

/* Numbers the times the scheduler comes to a device. */
static atomic64_t kr_generation;

static void isolio_depth_updated_fn(kr_depth_updated, hctx)
{
	struct kr_device *kd = kr_of(hctx->queue);

	WRITE_ONCE(kd->async_depth, isolio_depth_of_pct(hctx, KR_ASYNC_PCT));
	isolio_set_min_depth(hctx, 1);
}

static void kr_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if (!op_is_sync(opf))
		data->shallow_depth = READ_ONCE(kr_of(data->q)->async_depth);
}

/* NULL: no memory. */
static struct kr_queue *kr_queue_make(struct kr_group *kg, struct blk_mq_hw_ctx *hctx, gfp_t gfp)
{
	struct kr_queue *kq, *old;
	int id;

	kq = kzalloc_node(sizeof(*kq), gfp, hctx->numa_node);
	if (!kq)
		return NULL;
	kq->kg = kg;
	INIT_LIST_HEAD(&kq->node);
	for (id = 0; id < KR_NR_DOMAINS; id++)
		INIT_LIST_HEAD(&kq->rqs[id]);
	old = cmpxchg(&kg->queue[hctx->queue_num], NULL, kq);
	if (!old)
		return kq;
	kfree(kq);
	return old;
}

/* A bio may go into a request of its cgroup that waits here. */
static bool kr_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct blk_mq_hw_ctx *hctx = isolio_map_queue(q, bio->bi_opf);
	struct kr_hctx *kh = hctx->sched_data;
	struct list_head *rqs;
	struct kr_queue *kq;
	bool merged;

	kq = READ_ONCE(kr_bio_group(kr_of(q), bio)->queue[hctx->queue_num]);
	if (!kq)
		return false;
	rqs = &kq->rqs[kr_domain_of(bio->bi_opf)];
	if (list_empty(rqs))
		return false;

	spin_lock(&kh->lock);
	merged = blk_bio_list_merge(q, rqs, bio, nr_segs);
	spin_unlock(&kh->lock);
	return merged;
}

/* A request's word: the domain whose token it holds, plus 1. */
static void kr_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
}

static void kr_insert_request(struct kr_device *kd, struct blk_mq_hw_ctx *hctx,
			      struct request *rq)
{
	struct kr_group *kg = kr_bio_group(kd, rq->bio);
	struct kr_hctx *kh = hctx->sched_data;
	struct kr_queue *kq;

	lockdep_assert_held(&kh->lock);

	kq = READ_ONCE(kg->queue[hctx->queue_num]) ?:
	     kr_queue_make(kg, hctx, GFP_NOWAIT | __GFP_NOWARN) ?:
	     kd->root->queue[hctx->queue_num];
	kr_group_wake(kq->kg);
	list_add_tail(&rq->queuelist, &kq->rqs[kr_domain_of(rq->cmd_flags)]);
	if (kq->nr++)
		return;
	/* The cgroup that was served last goes on. */
	if (kh->last == kq)
		list_add(&kq->node, &kh->backlogged);
	else
		list_add_tail(&kq->node, &kh->backlogged);
}

/* Called with requests to be queued on @hctx, in process context. */
static void kr_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       isolio_insert_arg)
{
	struct kr_device *kd = kr_of(hctx->queue);
	bool at_head = isolio_insert_at_head(flags);
	struct kr_hctx *kh = hctx->sched_data;
	struct request *rq;

	spin_lock(&kh->lock);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		trace_block_rq_insert(rq);
		kh->nr_inserted++;
		if (at_head)
			list_add(&rq->queuelist, &kh->head);
		else if (!isolio_rq_has_sched_data(rq))
			list_add_tail(&rq->queuelist, &kh->head);
		else
			kr_insert_request(kd, hctx, rq);
	}
	spin_unlock(&kh->lock);
	isolio_dispatch_here(hctx, &kh->lock);
}

/* Figure 27. */
static struct request *kr_take_request(struct kr_device *kd, struct kr_hctx *kh,
				       struct kr_queue *kq, enum kr_domain_id id)
{
	struct request *rq = list_first_entry_or_null(&kq->rqs[id], struct request, queuelist);

	lockdep_assert_held(&kh->lock);

	if (!rq || !kr_get_token(kd, id))
		return NULL;
	rq->elv.priv[0] = (void *)(id + 1UL);
	atomic64_sub(blk_rq_sectors(rq), &kq->kg->cur_budget);
	list_del_init(&rq->queuelist);
	if (!--kq->nr)
		list_del_init(&kq->node);
	else
		list_move(&kq->node, &kh->backlogged);
	kh->last = kq;
	kh->nr_batched++;
	return rq;
}

static struct request *kr_dispatch_queue(struct kr_device *kd, struct kr_hctx *kh,
					 struct kr_queue *kq)
{
	struct request *rq = NULL;
	int i;

	if (kh->nr_batched < kr_batch[kh->cur_domain])
		rq = kr_take_request(kd, kh, kq, kh->cur_domain);
	for (i = 0; !rq && i < KR_NR_DOMAINS; i++) {
		kh->nr_batched = 0;
		kh->cur_domain = (kh->cur_domain + 1) % KR_NR_DOMAINS;
		rq = kr_take_request(kd, kh, kq, kh->cur_domain);
	}
	return rq;
}

/* Figure 26. @is_throttled: a cgroup has requests, and no budget. */
static struct request *kr_dispatch(struct kr_device *kd, struct kr_hctx *kh, bool *is_throttled)
{
	struct request *rq = list_first_entry_or_null(&kh->head, struct request, queuelist);
	struct kr_queue *kq;

	lockdep_assert_held(&kh->lock);

	*is_throttled = false;
	if (rq) {
		list_del_init(&rq->queuelist);
		return rq;
	}
	list_for_each_entry(kq, &kh->backlogged, node) {
		if (atomic64_read(&kq->kg->cur_budget) <= 0 && !READ_ONCE(kq->kg->is_dead)) {
			*is_throttled = true;
			continue;
		}
		rq = kr_dispatch_queue(kd, kh, kq);
		if (rq)
			return rq;
	}
	return NULL;
}

/* Called by the block layer when @hctx can take a request. It never waits. */
static struct request *kr_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct kr_device *kd = kr_of(hctx->queue);
	struct kr_hctx *kh = hctx->sched_data;
	unsigned int nr_refills = 0;
	struct request *rq;
	bool is_throttled;

	spin_lock(&kh->lock);
	rq = kr_dispatch(kd, kh, &is_throttled);
	/* After one refill a cgroup may still be in debt; it is idle at the next then. */
	while (!rq && is_throttled && nr_refills < 2 && kr_refill_spent(kd)) {
		nr_refills++;
		rq = kr_dispatch(kd, kh, &is_throttled);
	}
	if (rq)
		kh->nr_dispatched++;
	spin_unlock(&kh->lock);
	if (nr_refills)
		blk_mq_run_hw_queues(kd->q, true);
	return rq;
}

/* Also of requests that wait for budget: after a while the block layer looks again. */
static bool kr_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct kr_hctx *kh = hctx->sched_data;

	return !list_empty_careful(&kh->backlogged) || !list_empty_careful(&kh->head);
}

static u64 kr_since_ns(u64 now_ns, u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Called on completion, in any context. */
static void kr_completed_request(struct request *rq, u64 now_ns)
{
	enum kr_domain_id id = kr_domain_of(rq->cmd_flags);

	/* A request that failed early was not started. */
	if (id < KR_NR_TARGETS && rq->io_start_time_ns)
		kr_count(kr_of(rq->q), id, kr_since_ns(now_ns, rq->start_time_ns),
			 kr_since_ns(now_ns, rq->io_start_time_ns));
}

/* Called when a request is freed or given back, in any context. */
static void kr_finish_request(struct request *rq)
{
	unsigned long id = (unsigned long)rq->elv.priv[0];

	if (!id)
		return;
	rq->elv.priv[0] = NULL;
	kr_put_token(kr_of(rq->q), id - 1);
}

/* The queue is frozen; see kr_init_sched(). */
static int kr_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kr_hctx *kh;

	kh = kzalloc_node(sizeof(*kh), GFP_NOIO, hctx->numa_node);
	if (!kh)
		return -ENOMEM;
	if (!kr_queue_make(kr_of(hctx->queue)->root, hctx, GFP_NOIO)) {
		kfree(kh);
		return -ENOMEM;
	}
	spin_lock_init(&kh->lock);
	INIT_LIST_HEAD(&kh->head);
	INIT_LIST_HEAD(&kh->backlogged);
	hctx->sched_data = kh;
	isolio_depth_updated(kr_depth_updated)(hctx);
	return 0;
}

/* What runs by itself looks at all hardware contexts. */
static void kr_stop(struct kr_device *kd)
{
	hrtimer_cancel(&kd->timer);
	cancel_delayed_work_sync(&kd->latency_work);
}

/* The queue is frozen and quiesced: no request, no dispatch. */
static void kr_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kr_hctx *kh = hctx->sched_data;

	kr_stop(kr_of(hctx->queue));
	WARN_ONCE(kh->nr_inserted != kh->nr_dispatched,
		  "kyber-report: hctx %u: %llu requests in, %llu out\n", hctx_idx,
		  kh->nr_inserted, kh->nr_dispatched);
	hctx->sched_data = NULL;
	kfree(kh);
}

static void kr_free(void *data)
{
	struct kr_device *kd = data;

	if (!kd)
		return;
	free_percpu(kd->counts);
	kfree(kd);
}

static void *kr_alloc(struct request_queue *q)
{
	struct kr_device *kd = kzalloc_node(sizeof(*kd), GFP_NOIO, q->node);

	if (!kd)
		return NULL;
	kd->q = q;
	kd->generation = atomic64_inc_return(&kr_generation);
	kr_refill_init(kd);
	if (kr_domains_init(kd)) {
		kfree(kd);
		return NULL;
	}
	return kd;
}

/* The scheduler is chosen for a device; the queue is frozen. */
static int kr_init_sched(struct request_queue *q, isolio_init_sched_arg)
{
	struct kr_device *kd = isolio_elevator_begin(q, eq, kr_alloc);
	int ret;

	if (!kd)
		return -ENOMEM;

	/* Hardware contexts dispatch side by side. */
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	ret = isolio_activate_policy(q, &kr_policy);
	if (ret) {
		isolio_elevator_abort(q, kr_free);
		return ret;
	}
	/* The block layer keeps io_start_time_ns only on request. */
	blk_stat_enable_accounting(q);
	return 0;
}

/* Another scheduler is chosen, or the device goes; all kr_hctx are gone. */
static void kr_exit_sched(struct elevator_queue *e)
{
	struct kr_device *kd = e->elevator_data;

	kr_stop(kd);
	blk_stat_disable_accounting(kd->q);
	isolio_deactivate_policy(kd->q, &kr_policy);
	isolio_elevator_end(kd, kr_free);
}

static struct elevator_type kr_elevator = {
	.ops = {
		ISOLIO_SCHED_DATA_OPS(kr_alloc, kr_free)
		.init_sched		= kr_init_sched,
		.exit_sched		= kr_exit_sched,
		.init_hctx		= kr_init_hctx,
		.exit_hctx		= kr_exit_hctx,
		.depth_updated		= kr_depth_updated,
		.limit_depth		= kr_limit_depth,
		.bio_merge		= kr_bio_merge,
		.prepare_request	= kr_prepare_request,
		.insert_requests	= kr_insert_requests,
		.has_work		= kr_has_work,
		.dispatch_request	= kr_dispatch_request,
		.completed_request	= kr_completed_request,
		.requeue_request	= kr_finish_request,
		.finish_request		= kr_finish_request,
	},
	.elevator_attrs	= kr_attrs,
	.elevator_name	= "kyber-report",
	.elevator_owner	= THIS_MODULE,
};

static int __init kr_init(void)
{
	int ret = isolio_check_fit();

	if (ret)
		return ret;
	ret = blkcg_policy_register(&kr_policy);
	if (ret)
		return ret;
	ret = elv_register(&kr_elevator);
	if (ret)
		blkcg_policy_unregister(&kr_policy);
	return ret;
}

static void __exit kr_exit(void)
{
	elv_unregister(&kr_elevator);
	kr_wait_for_groups();
	blkcg_policy_unregister(&kr_policy);
}

module_init(kr_init);
module_exit(kr_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("The scheduler of the Kyber Fairness report as published, to measure against");
MODULE_LICENSE("GPL");
MODULE_ALIAS("kyber-report-iosched");
