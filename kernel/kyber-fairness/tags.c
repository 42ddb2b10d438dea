// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which submitters may have one of the scheduler's tags, and which sleep until they may:
 * see "Scheduler tags" in main.c's essay.
 */
#include <linux/backing-dev-defs.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "kyber-fairness.h"
#include "request.h"

/*
 * Whether the task that submits has to get out: it is killed, or ends, or frees
 * memory. What it has to read and write before, it does at once.
 */
bool kf_task_must_get_out(void)
{
	/* data_race(): other flags of the task may change when it is preempted. */
	unsigned int flags = data_race(current->flags);

	return fatal_signal_pending(current) || flags & (PF_EXITING | PF_MEMALLOC);
}

/*
 * Where the submitting task's next request will be queued, with a reference; NULL if
 * its cgroup has not sent any there.
 */
static struct kf_backlog *kf_get_current_backlog(struct kf_queue *kq,
						 unsigned int hctx_nr)
{
	struct kf_backlog *kb = NULL;
	struct blkcg_gq *blkg;
	struct kf_group *kg;

	rcu_read_lock();
	blkg = isolio_blkg_lookup(isolio_css_to_blkcg(task_css(current, io_cgrp_id)),
				  kq->q);
	kg = kf_group_of(kq, blkg);
	if (kg && kg != kq->root)
		kb = READ_ONCE(kg->backlog[hctx_nr]);
	if (kb && !isolio_blkg_tryget(blkg))
		kb = NULL;
	rcu_read_unlock();

	return kb;
}

/* Half of the scheduler's tags are free; see kf_own_tags(). */
static bool kf_tags_abound(struct kf_queue *kq, struct blk_mq_hw_ctx *hctx)
{
	struct kf_hctx *kh = hctx->sched_data;

	return atomic_read(kh->nr_tags) < kq->q->nr_requests / 2;
}

/*
 * Whether a submitter may take any tag there is, since others may wait for what it does:
 * see kf_is_urgent() and kf_rq_begin(). A cgroup may begin as many transactions as it likes,
 * whose reads are throttled, so the last quarter is for others.
 */
static bool kf_takes_any_tag(struct kf_queue *kq, struct blk_mq_hw_ctx *hctx, blk_opf_t opf)
{
	struct kf_hctx *kh = hctx->sched_data;

	return opf & REQ_SWAP || (current->journal_info &&
		atomic_read(kh->nr_tags) < kq->q->nr_requests - kq->q->nr_requests / 4);
}

/* The tags that a cgroup holds of those that the hardware context takes from. */
static unsigned int kf_tags_held(struct kf_backlog *kb)
{
	return kb->tag_wait == &kb->own_tag_wait ? kf_backlog_nr(kb) :
						   kf_group_outstanding(kb->kg);
}

static u32 kf_backlog_own_tags(struct kf_queue *kq, struct kf_backlog *kb)
{
	struct kf_tags tags = {
		.nr_active = READ_ONCE(kq->tags.nr_active),
		.nr_light = READ_ONCE(kq->tags.nr_light),
		.light_share = READ_ONCE(kq->tags.light_share),
	};

	return kf_own_tags(&tags, kq->q->nr_requests, kf_group_part(kb->kg));
}

/*
 * Counted are requests that were inserted: those that a task has plugged, up to a batch
 * for each, are not seen. So the limit may be exceeded by as many. Of a throttled cgroup's
 * pages no more are on their way than its share of the tags, though others are free: a
 * journal's commit may wait for all of them. And it may wait for the next ones, so a few
 * always are, whatever the cgroup's own tasks have sent.
 */
static bool kf_may_have_tag(struct kf_queue *kq, struct kf_backlog *kb,
			    struct blk_mq_hw_ctx *hctx, blk_opf_t opf)
{
	bool is_buffered = kf_is_buffered_write(opf);

	if (!READ_ONCE(kb->kg->is_active))
		return true;
	if (is_buffered && atomic_read(&kb->nr_buffered) < KF_TAGS_MIN)
		return true;
	if (kf_tags_abound(kq, hctx) && !(is_buffered && kf_backlog_is_throttled(kq, kb)))
		return true;
	return kf_tags_held(kb) < max(kf_backlog_own_tags(kq, kb), 1U);
}

/*
 * Sleep until one of the cgroup's own requests completes: it has some, or it
 * would be within its share; or until the task is killed, if what that has to do may
 * go first. Sleeping in the tags' own
 * wait queues would do for correctness, but their wake-ups go to all that sleep there,
 * mostly to a cgroup that may not have the tag, and the one that may gets too few.
 */
static void kf_wait_for_tag(struct kf_queue *kq, struct kf_backlog *kb,
			    struct blk_mq_hw_ctx *hctx, blk_opf_t opf)
{
	DEFINE_WAIT(wait);

	for (;;) {
		bool gets_out = kf_task_must_get_out();

		prepare_to_wait_exclusive(kb->tag_wait, &wait,
					  gets_out ? TASK_UNINTERRUPTIBLE : TASK_KILLABLE);
		if (kf_may_have_tag(kq, kb, hctx, opf) ||
		    (gets_out && kf_group_may_go_first(kb->kg)))
			break;
		io_schedule();
	}
	finish_wait(kb->tag_wait, &wait);

	/*
	 * A larger allowance may have room for more than the one woken; and one that was
	 * killed passes its wake-up on.
	 */
	if (kf_may_have_tag(kq, kb, hctx, opf))
		wake_up(kb->tag_wait);
}

/* Whether the task is the worker that writes back what a cgroup dirtied on a disk. */
static bool kf_is_flusher(struct bio *bio)
{
	const struct work_struct *work = current_work();
	work_func_t func;

	/* Some work is freed by its own function. */
	return work && !get_kernel_nofault(func, &work->func) &&
	       func == bio->bi_bdev->bd_disk->bdi->wb.dwork.work.func;
}

/**
 * kf_is_background - whether a worker writes what a cgroup dirtied, and no task waits for it
 * @bio: bio of a write
 *
 * The worker is in no cgroup, so kf_limit_depth() lets it have any tag: one that writes
 * for a cgroup of weight 1 would come to have nearly all. It writes for this one cgroup.
 * Other threads and workers write for all of them, one after another, such as a journal's,
 * that of io.max and those of device mapper, and tasks that call sync(): those are not made
 * to wait. Nor is a flusher within a transaction of its filesystem, for which the journal
 * would wait. And a task that has requests in advance may not sleep here, as the block layer
 * would take these back: only io_uring asks for them, in the task that submits or its own threads.
 */
bool kf_is_background(struct bio *bio)
{
	if (bio->bi_opf & (REQ_SYNC | REQ_META | REQ_SWAP | REQ_NOWAIT))
		return false;
	return !current->journal_info && kf_is_flusher(bio);
}

/**
 * kf_limit_background - have a worker sleep until its cgroup may have a tag
 * @kq: device
 * @kb: where the request will be queued
 * @hctx: hardware context
 */
void kf_limit_background(struct kf_queue *kq, struct kf_backlog *kb,
			 struct blk_mq_hw_ctx *hctx)
{
	if (kb->kg != kq->root && !kf_may_have_tag(kq, kb, hctx, REQ_OP_WRITE))
		kf_wait_for_tag(kq, kb, hctx, REQ_OP_WRITE);
}

/*
 * Called by the block layer before it allocates a request, in the task that
 * submits, which may sleep unless it said not to.
 */
void kf_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct blk_mq_hw_ctx *hctx = isolio_map_queue(data->q, opf);
	struct kf_queue *kq = kf_of(data->q);
	struct kf_backlog *kb = NULL;
	bool is_idle = data->flags & BLK_MQ_REQ_NOWAIT && kf_class_is_idle();

	if (!kf_takes_any_tag(kq, hctx, opf) &&
	    (kf_is_buffered_write(opf) || is_idle || !kf_tags_abound(kq, hctx)))
		kb = kf_get_current_backlog(kq, hctx->queue_num);
	if (kb && is_idle && kf_class_refuses(kb->kg, opf))
		data->shallow_depth = 1;
	if (kb && (!(opf & REQ_META || kf_task_must_get_out()) ||
		   !kf_group_may_go_first(kb->kg))) {
		if (!kf_may_have_tag(kq, kb, hctx, opf)) {
			if (data->flags & BLK_MQ_REQ_NOWAIT)
				data->shallow_depth = 1;
			else
				kf_wait_for_tag(kq, kb, hctx, opf);
		}
		if (!data->shallow_depth && READ_ONCE(kb->kg->is_active) &&
		    !kf_backlog_own_tags(kq, kb))
			data->shallow_depth = READ_ONCE(kq->light_depth);
	}
	if (kb)
		isolio_blkg_put(kb->kg->pd.blkg);

	if (!data->shallow_depth && !op_is_sync(opf))
		data->shallow_depth = READ_ONCE(kq->async_depth);
}
