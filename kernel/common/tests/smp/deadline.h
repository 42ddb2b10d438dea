/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What mq-deadline touches for a request, as a scheduler of its own: one lock of the
 * device for looking for a merge, for insertion and for dispatch, which the block layer
 * calls for one hardware context at a time, under a lock of the elevator; and a count
 * of the device at the end. Its trees by sector are left out: a lower bound.
 */
#ifndef SMP_DEADLINE_H
#define SMP_DEADLINE_H

#include "compat.h"

struct sd_queue {
	spinlock_t elevator_lock ____cacheline_aligned;
	spinlock_t lock ____cacheline_aligned;
	struct list_head fifo[2];
	unsigned int last_dir, nr_batched;
	u64 nr_inserted, nr_dispatched;
	atomic_t nr_completed;
};

static struct sd_queue *sd_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static void *sd_alloc(struct request_queue *q)
{
	struct sd_queue *sd = shim_kzalloc(sizeof(*sd));

	INIT_LIST_HEAD(&sd->fifo[0]);
	INIT_LIST_HEAD(&sd->fifo[1]);
	return sd;
}

static void sd_free(void *data)
{
	struct sd_queue *sd = data;

	WARN_ON(sd->nr_inserted != sd->nr_dispatched);
	kfree(sd);
}

static int sd_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	q->elevator = eq;
	return 0;
}

static void sd_exit_sched(struct elevator_queue *eq)
{
}

static int sd_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int nr)
{
	return 0;
}

static void sd_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int nr)
{
}

static bool sd_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct sd_queue *sd = sd_of(q);
	bool merged;

	spin_lock(&sd->lock);
	merged = !list_empty(&sd->fifo[bio->bi_opf & 1]) &&
		 list_last_entry(&sd->fifo[bio->bi_opf & 1], struct request,
				 queuelist)->bio == bio;
	spin_unlock(&sd->lock);
	return merged;
}

static void sd_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
}

static void sd_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       blk_insert_t flags)
{
	struct sd_queue *sd = sd_of(hctx->queue);
	struct request *rq, *next;

	spin_lock(&sd->lock);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_move_tail(&rq->queuelist, &sd->fifo[rq_data_dir(rq)]);
		rq->elv.priv[0] = sd;
		sd->nr_inserted++;
	}
	spin_unlock(&sd->lock);
}

static struct request *sd_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct sd_queue *sd = sd_of(hctx->queue);
	struct request *rq;

	spin_lock_irq(&sd->elevator_lock);
	spin_lock(&sd->lock);
	if (list_empty(&sd->fifo[sd->last_dir]) || ++sd->nr_batched > 16) {
		sd->nr_batched = 0;
		if (!list_empty(&sd->fifo[!sd->last_dir]))
			sd->last_dir = !sd->last_dir;
	}
	rq = list_first_entry_or_null(&sd->fifo[sd->last_dir], struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		sd->nr_dispatched++;
	}
	spin_unlock(&sd->lock);
	spin_unlock_irq(&sd->elevator_lock);
	return rq;
}

static bool sd_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct sd_queue *sd = sd_of(hctx->queue);

	return !list_empty_careful(&sd->fifo[0]) || !list_empty_careful(&sd->fifo[1]);
}

static void sd_completed_request(struct request *rq, u64 now_ns)
{
}

static void sd_finish_request(struct request *rq)
{
	if (rq->elv.priv[0])
		atomic_inc(&sd_of(rq->q)->nr_completed);
}

static struct elevator_type smp_deadline = {
	.ops = {
		.alloc_sched_data = sd_alloc,
		.free_sched_data = sd_free,
		.init_sched = sd_init_sched,
		.exit_sched = sd_exit_sched,
		.init_hctx = sd_init_hctx,
		.exit_hctx = sd_exit_hctx,
		.bio_merge = sd_bio_merge,
		.prepare_request = sd_prepare_request,
		.insert_requests = sd_insert_requests,
		.dispatch_request = sd_dispatch_request,
		.has_work = sd_has_work,
		.completed_request = sd_completed_request,
		.finish_request = sd_finish_request,
	},
	.elevator_name = "one lock",
};

#endif
