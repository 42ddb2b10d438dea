// SPDX-License-Identifier: GPL-2.0-only
/*
 * kyber-fairness: weighted sharing of a multi-queue SSD among cgroups.
 *
 * Problem
 *
 * Containers on one disk pay for a share of it and get whatever their neighbours leave.
 * Of the stock schedulers only BFQ shares by weight. It serves one queue at a time, and on
 * random requests it loses a large part of a fast SSD's throughput. The schedulers that
 * keep an SSD busy do not know cgroups.
 *
 * Simpler ways fail. Serving cgroups in turn, by request or by byte, does not keep shares:
 * a cgroup that has nothing queued for a moment loses its turn, and on a fast SSD every
 * cgroup has nothing queued most of the time. Serving one cgroup at a time and waiting
 * for it wastes a device that needs dozens of requests in flight. Fixed limits (io.max)
 * leave idle what their owner does not use. One queue of throttled requests for the
 * device puts a lock on every request.
 *
 * Law
 *
 * Each cgroup has a virtual time on each device: the service it was given divided by its
 * share. A request is charged when it is dispatched: what its part of the device's time is
 * worth in bytes, or its bytes, or its part of the requests (cost.h). The clock is the least
 * vtime of the cgroups that have requests queued or in flight. The cgroup of least vtime
 * goes first, and it goes only while its vtime is less than a lead ahead of the clock.
 * The lead is four round trips through the device, and at least 2 ms. A cgroup that comes
 * back from idleness begins at the clock.
 *
 * A ceiling bounds the requests in flight: three times the bandwidth-delay product. More of
 * them would only wait in the device, in its order. Large ones have another; see large.h.
 *
 * The clock waits for a cgroup only if that leaves each other what it would have alone on
 * a disk as fast as its share: if the cgroup could do its share of what the one that could do
 * most would have, or of what the full device does if it is less. Else it goes first, and while
 * its requests take longer than on that disk fewer of the others' are in flight, as long as those
 * keep their own disks.
 *
 * A share is the weight among active siblings times the share of the parent. A cgroup is
 * active from its first request until it has had none for 100 ms. The weight "sum" is what
 * the cgroup's active children weigh together: all their shares are then as among siblings.
 *
 * Example
 *
 * Figure 14 of the report. Cgroups A and B of weights 200 and 100 have sent one request of
 * 100 each: A's vtime is 100 / (2/3) = 150, B's is 100 / (1/3) = 300. With a lead of 150 the
 * clock is 150, and cgroups of a vtime below 300 go. So A's next request goes, and takes A
 * to 300. B's next request is throttled. Now the clock is 300, and both may go on to
 * 450. A has had 200, B 100.
 *
 * Why it is exact
 *
 * Two cgroups that the clock waits for are never further apart than the lead and a
 * request. In a second, of hundreds of leads, that is no percent. It does not add up.
 *
 * What is not throttled
 *
 * Requests that other tasks may wait for go at once: requests that the device gave back,
 * writes that a flush follows, pages that are swapped out, what a task submits that is
 * killed or frees memory, and metadata. They are charged, up to a bound; see ready.c. A
 * cgroup so far ahead has its metadata and what its killed tasks submit wait as well. What
 * has waited for ten seconds goes, and sooner what a journal's commit waits for; a part of
 * the device is for that, see overdue.c.
 *
 * Scheduler tags
 *
 * Tags go to whichever submitter asks next. Throttled cgroups would keep all of them, and
 * a cgroup that may go would have no request to send. So a cgroup may hold its share of
 * the tags, and more only while half of them are free, of pages only while it may go. Beyond
 * that its next submitter, or the worker that writes its pages, sleeps until one of its
 * requests completes. See tags.c.
 *
 * Latency targets
 *
 * Kyber's targets work as in Kyber, but for what would cost shares; see domain.c. The
 * guard of ../common/guard.c bounds how long a request may be bypassed in the device.
 *
 * The block layer's writeback throttling lets a few buffered writes of the whole device
 * through at a time, unseen here. So it is off while the scheduler is on, as under BFQ.
 *
 * Locking
 *
 * A request is inserted under the lock of its software queue, as in Kyber. A dispatch
 * takes the lock of its hardware context, and moves what was inserted to the backlogs,
 * one for each cgroup and hardware context. A hardware context of one CPU has no need of
 * that queue: requests go to the backlogs at once. On a device with a hardware queue for each
 * CPU no two CPUs take the same locks.
 *
 * CPUs share a cgroup's vtime, an atomic that is charged for a slice of several
 * requests; the number of requests in flight, another one; the lists of hardware
 * contexts that wait (gate.c), under a spinlock; and one word with the vtime up to which
 * cgroups go. That word is set some times in a round trip by a dispatch or an insertion that
 * finds itself throttled: a walk over the active cgroups under kf_queue.lock, with interrupts
 * on. With one active cgroup there is no vtime, no walk and no ceiling but that of large requests.
 *
 * A request keeps its cgroup's blkg until it is freed: completion looks at the group
 * after the bios, and their references, are gone.
 *
 * Cost
 *
 * A request comes from a tree of its hardware context's backlogs: no loop over cgroups.
 * Walks take at most a sixteenth of the time. A throttled request wakes no worker, and
 * one that may go is sent by the task that submits it: isolio_dispatch_here().
 *
 * Limits
 *
 * What others' writes leave to be done in a disk is in the way of a disk of one's own. Where
 * the clock waits for few requests the total is what these do; see min_total_pct. On a disk
 * with a cache in front of it a probe may see the cache. The model of the device's time is a
 * guess; it knows no sequences, and not that one kind may slow down another. Buffered writes are
 * charged to the page's cgroup where the filesystem tells (cgroup v2).
 *
 * The arithmetic is in clock.h and band.h, the bounds are proven in docs/design/kyber-fairness.md,
 * and docs/design/history.md has what was tried.
 */
#include "kyber-fairness.h"
#include "debugfs.h"
#include "request.h"

#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Of the scheduler's tags; a quarter is kept for requests that a task waits for. */
#define KF_ASYNC_PCT		75

/*
 * Requests of one domain in a row, if there are that many: enough reads to
 * get somewhere, fewer writes, and not two trims.
 */
static const unsigned int kf_domain_batch[KF_NR_DOMAINS] = {
	[KF_READ] = 16,
	[KF_WRITE] = 8,
	[KF_DISCARD] = 1,
	[KF_OTHER] = 1,
};

static struct kf_group *kf_bio_group(struct kf_queue *kq, struct bio *bio)
{
	struct blkcg_gq *blkg = bio ? bio->bi_blkg : NULL;
	struct kf_group *kg;

	/* A request without a bio, or of another device's cgroup. */
	if (!blkg || isolio_blkg_q(blkg) != kq->q)
		return kq->root;
	kg = kf_group_of(kq, blkg) ?: kq->root;
	/* A deleted cgroup is not active again: pages that it left are its parent's. */
	while (unlikely(READ_ONCE(kg->is_dead)) && !READ_ONCE(kg->is_active) && kg->parent)
		kg = kg->parent;
	return kg;
}

/* Numbers the times the scheduler comes to a device. */
static atomic64_t kf_generation;

/* Called when nr_requests was set, and from kf_init_hctx(). */
static void isolio_depth_updated_fn(kf_depth_updated, hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);

	WRITE_ONCE(kq->async_depth, isolio_depth_of_pct(hctx, KF_ASYNC_PCT));
	WRITE_ONCE(kq->light_depth, isolio_depth_of_pct(hctx, KF_TAGS_LIGHT_PCT));
	isolio_set_min_depth(hctx, 1);
}

/* The software queue that a request of this CPU goes through. */
static struct kf_ctx *kf_ctx_of(struct kf_hctx *kh, struct blk_mq_ctx *ctx)
{
	return &kh->ctx[ctx->index_hw[kh->hctx->type]];
}

/* Requests that blk_bio_list_merge() scans, newest first. */
#define KF_MERGE_LOOKS		8

/*
 * As blk_bio_list_merge(), which takes a hundred instructions for each request that it
 * looks at: not for a bio next to none of them. Discards it may merge wherever they are.
 */
static bool kf_list_merge(struct request_queue *q, struct list_head *rqs, struct bio *bio,
			  unsigned int nr_segs)
{
	bool may_merge = kf_domain_of(bio->bi_opf) == KF_DISCARD;
	sector_t start = bio->bi_iter.bi_sector, end = bio_end_sector(bio);
	unsigned int left = KF_MERGE_LOOKS;
	struct request *rq;

	list_for_each_entry_reverse(rq, rqs, queuelist) {
		if (may_merge || !left--)
			break;
		may_merge = blk_rq_pos(rq) + blk_rq_sectors(rq) == start ||
			    blk_rq_pos(rq) == end;
	}
	return may_merge && blk_bio_list_merge(q, rqs, bio, nr_segs);
}

/* Whether a bio went into a request of its cgroup that waits behind the software queue. */
static bool kf_backlog_merge(struct kf_hctx *kh, struct kf_backlog *kb, struct bio *bio,
			     unsigned int nr_segs)
{
	struct list_head *rqs = &kb->rqs[kf_domain_of(bio->bi_opf)];
	bool merged;

	if (list_empty(rqs) || !spin_trylock(&kh->lock))
		return false;
	merged = kf_list_merge(kh->hctx->queue, rqs, bio, nr_segs);
	spin_unlock(&kh->lock);
	return merged;
}

/*
 * Called by the block layer before it makes a request of a bio, in the task that
 * submits, and may sleep. The bio may go into a request of its own cgroup that waits: in
 * the software queue, or behind it if the cgroup has a backlog.
 */
static bool kf_bio_merge(struct request_queue *q, struct bio *bio,
			 unsigned int nr_segs)
{
	struct kf_queue *kq = kf_of(q);
	/* Once: the task may go to another CPU. */
	struct blk_mq_ctx *ctx = per_cpu_ptr(q->queue_ctx, raw_smp_processor_id());
	struct blk_mq_hw_ctx *hctx = isolio_map_ctx(ctx, bio->bi_opf);
	struct kf_hctx *kh = hctx->sched_data;
	struct kf_ctx *kc = kf_ctx_of(kh, ctx);
	struct kf_backlog *kb;
	bool merged = false;

	if (!list_empty(&kc->rqs)) {
		spin_lock(&kc->lock);
		merged = kf_list_merge(q, &kc->rqs, bio, nr_segs);
		spin_unlock(&kc->lock);
	}
	if (merged)
		return true;

	kb = READ_ONCE(kf_bio_group(kq, bio)->backlog[hctx->queue_num]);
	if (!kb)
		return false;
	if (kf_backlog_merge(kh, kb, bio, nr_segs))
		return true;
	/* Here, as kf_limit_depth() is not told the bio. */
	if (kb->kg != kq->root)
		kf_class_wait(kb->kg, bio);
	if (op_is_write(bio->bi_opf) && kf_is_background(bio))
		kf_limit_background(kq, kb, hctx);
	return false;
}

/* Called when a request is allocated, in the task that submits. */
static void kf_prepare_request(struct request *rq)
{
	kf_rq_begin(rq, current->journal_info);
	guard_prepare(rq);
}

/*
 * A group's backlog on a hardware context, or that of the next ancestor that has one if
 * there is no memory: it is charged then. The root's are there before any request.
 */
static struct kf_backlog *kf_get_backlog(struct kf_group *kg, struct blk_mq_hw_ctx *hctx)
{
	for (;; kg = kg->parent) {
		struct kf_backlog *kb = READ_ONCE(kg->backlog[hctx->queue_num]);

		if (likely(kb))
			return kb;
		kb = kf_backlog_make(kg, hctx, GFP_NOWAIT | __GFP_NOWARN);
		if (kb)
			return kb;
	}
}

/* The request's backlog; the first time it takes references. */
static struct kf_backlog *kf_rq_claim(struct kf_queue *kq, struct kf_hctx *kh,
				      struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	enum kf_class class;

	if (kb)
		return kb;

	kb = kf_get_backlog(kf_bio_group(kq, rq->bio), kh->hctx);
	isolio_blkg_get(kb->kg->pd.blkg);
	if (unlikely(!READ_ONCE(kb->latency)))
		kf_latency_alloc(kb);
	atomic_inc(kh->nr_tags);
	if (unlikely(kf_rq_is_other(rq)))
		atomic_inc(&kb->nr_other);
	if (kf_is_buffered_write(rq->cmd_flags))
		atomic_inc(&kb->nr_buffered);
	kf_group_account_insert(kb, rq);
	class = kf_class_of(req_get_ioprio(rq));
	kf_class_insert(kb->kg, class);
	kf_rq_set_backlog(rq, kb, class);
	return kb;
}

static void kf_insert_urgent(struct kf_hctx *kh, struct request *rq, bool at_head)
{
	struct list_head *urgent = &kh->urgent[kf_domain_of(rq->cmd_flags)];

	spin_lock(&kh->lock);
	if (at_head)
		list_add(&rq->queuelist, urgent);
	else
		list_add_tail(&rq->queuelist, urgent);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent + 1);
	kh->nr_inserted++;
	spin_unlock(&kh->lock);
}

/*
 * Whether a request waits for no clock. One of metadata, or of a task that has to get out,
 * is charged in advance, and goes first only up to a bound: a cgroup may kill its tasks
 * while they submit as much as they like.
 */
static bool kf_goes_first(struct kf_queue *kq, struct kf_backlog *kb, struct request *rq)
{
	s64 charged_bytes;

	if (kf_is_urgent(rq))
		return true;
	if (!(rq->cmd_flags & REQ_META) && !kf_task_must_get_out())
		return false;
	charged_bytes = kf_group_go_first(kb->kg, kf_calc_cost_bytes(kb->kg, rq));
	if (charged_bytes < 0)
		return false;
	kf_rq_set(rq, 0, -1, charged_bytes, 0);
	return true;
}

/* A backlog's next request may not go: from now on it is throttled. */
static void kf_account_throttled(struct kf_queue *kq, struct kf_backlog *kb)
{
	if (kf_gate_allows(kq, kb->vtime) || kb->throttled_at_ns)
		return;
	kb->throttled_at_ns = ktime_get_ns();
	trace_kf_throttle(kb);
	if (!READ_ONCE(kq->saw_throttled))
		WRITE_ONCE(kq->saw_throttled, true);
}

/**
 * kf_throttle_end - a backlog's next request goes, or it has none any more
 * @kb: backlog
 * @since_ns: since when it could go
 */
void kf_throttle_end(struct kf_backlog *kb, u64 since_ns)
{
	if (!kb->throttled_at_ns)
		return;
	WRITE_ONCE(kb->eligible_at_ns, max(since_ns, kb->throttled_at_ns));
	WRITE_ONCE(kb->throttled_ns, kb->throttled_ns + kb->eligible_at_ns -
				     kb->throttled_at_ns);
	kb->throttled_at_ns = 0;
}

/* A request comes from its software queue to its backlog. */
static void kf_add_to_backlog(struct kf_queue *kq, struct kf_hctx *kh, struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	enum kf_domain_id id = kf_domain_of(rq->cmd_flags);

	lockdep_assert_held(&kh->lock);

	kh->nr_inserted++;
	list_add_tail(&rq->queuelist, &kb->rqs[id]);
	/* What is left of a slice it may use whatever the clock says. */
	if (!kb->nr_waiting++)
		kb->vtime = kb->left_bytes > 0 ? kf_gate_turn_vtime(kq) :
						 atomic64_read(&kb->kg->vtime);
	if (!list_is_singular(&kb->rqs[id]))
		return;
	kf_ready_choose(kh, kb);
	kf_account_throttled(kq, kb);
}

/* Return: whether all it can do is wait for the clock. */
static bool kf_insert_request(struct kf_queue *kq, struct kf_hctx *kh,
			      struct request *rq, bool at_head)
{
	struct blk_mq_ctx *ctx = rq->mq_ctx;
	struct kf_ctx *kc = kf_ctx_of(kh, ctx);
	struct kf_backlog *kb;
	bool is_throttled;

	trace_block_rq_insert(rq);

	if (unlikely(!isolio_rq_has_sched_data(rq))) {
		kf_insert_urgent(kh, rq, at_head);
		return false;
	}

	kb = kf_rq_claim(kq, kh, rq);
	if (at_head || kf_goes_first(kq, kb, rq)) {
		kf_rq_set_first(rq);
		kf_insert_urgent(kh, rq, at_head);
		return false;
	}

	/* Once it is on a list, it and its cgroup may go. */
	is_throttled = kf_backlog_is_throttled(kq, kb);
	if (kh->nr_ctx == 1) {
		/* No other CPU inserts here. */
		spin_lock(&kh->lock);
		kf_add_to_backlog(kq, kh, rq);
		spin_unlock(&kh->lock);
	} else {
		spin_lock(&kc->lock);
		list_add_tail(&rq->queuelist, &kc->rqs);
		if (!sbitmap_test_bit(&kh->ctx_map, ctx->index_hw[kh->hctx->type]))
			sbitmap_set_bit(&kh->ctx_map, ctx->index_hw[kh->hctx->type]);
		spin_unlock(&kc->lock);
	}
	/* Others here may wait for places. */
	if (unlikely(kf_group_is_owed(kb->kg)))
		set_bit(KF_HAS_OWED, &kh->flags);
	return is_throttled;
}

struct kf_flush {
	struct kf_hctx *kh;
	struct list_head rqs;
};

static bool kf_flush_ctx(struct sbitmap *map, unsigned int bit, void *data)
{
	struct kf_flush *flush = data;
	struct kf_ctx *kc = &flush->kh->ctx[bit];

	spin_lock(&kc->lock);
	list_splice_tail_init(&kc->rqs, &flush->rqs);
	sbitmap_clear_bit(map, bit);
	spin_unlock(&kc->lock);
	return true;
}

/* Have all requests that were inserted in their backlogs. */
static void kf_flush_ctxs(struct kf_queue *kq, struct kf_hctx *kh)
{
	struct kf_flush flush = { .kh = kh, .rqs = LIST_HEAD_INIT(flush.rqs) };
	struct request *rq, *next;

	lockdep_assert_held(&kh->lock);

	/* data_race(): a bit that comes meanwhile is seen now or by the next dispatch. */
	data_race(({ sbitmap_for_each_set(&kh->ctx_map, kf_flush_ctx, &flush); 0; }));
	list_for_each_entry_safe(rq, next, &flush.rqs, queuelist) {
		list_del_init(&rq->queuelist);
		kf_add_to_backlog(kq, kh, rq);
	}
}

/*
 * All that was just inserted waits for the clock. It goes to its backlog at once, and the
 * clock is set if that is due, so that has_work() can tell: else the block layer would wake
 * a worker for each of these requests, to find that there is nothing to dispatch.
 *
 * Return: whether there is. Not while another CPU dispatches: it sees these. @now_ns is when
 * the last one came.
 */
static bool kf_flush_throttled(struct kf_queue *kq, struct kf_hctx *kh, u64 now_ns)
{
	bool is_due = kf_clock_is_older(kq, 1, now_ns), may_go = true;

	if (!kf_has_inserted(kh) && !is_due)
		return kf_hctx_may_go(kq, kh);
	if (!spin_trylock(&kh->lock))
		return false;
	if (kf_has_inserted(kh))
		kf_flush_ctxs(kq, kh);
	if (kf_hctx_is_throttled(kq, kh)) {
		if (is_due && kf_clock_try_update(kq))
			kf_gate_kick(kq, KF_FOR_CLOCK, true, kh);
		may_go = kf_hctx_may_go(kq, kh);
	}
	spin_unlock(&kh->lock);
	return may_go;
}

/* Called with requests to be queued on @hctx, in process context. */
static void kf_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, isolio_insert_arg)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;
	bool at_head = isolio_insert_at_head(flags);
	bool is_throttled = true;
	struct request *rq;
	u64 now_ns = 0;

	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		now_ns = rq->start_time_ns;
		if (!kf_insert_request(kq, kh, rq, at_head))
			is_throttled = false;
	}
	if (is_throttled && !kf_flush_throttled(kq, kh, now_ns))
		return;
	isolio_dispatch_here(hctx, &kh->lock);
}

static void kf_take_request(struct kf_queue *kq, struct kf_hctx *kh,
			    struct kf_backlog *kb, struct request *rq)
{
	u64 vtime = kb->vtime;

	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	kb->nr_waiting--;
	kf_group_charge(kq, kb, kf_rq_cost_bytes(rq));
	kf_ready_choose(kh, kb);
	if (kb->nr_waiting) {
		if (kb->vtime != vtime)
			kf_ready_move(kh, kb);
		kf_account_throttled(kq, kb);
	} else {
		kf_slice_save(kh, kb);
	}
}

/* @charged_bytes: in advance; merges may have made it larger since. */
static void kf_take_urgent(struct kf_queue *kq, struct kf_hctx *kh, struct request *rq,
			   u32 charged_bytes)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	u32 cost_bytes = kf_rq_cost_bytes(rq);

	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent - 1);
	if (cost_bytes > charged_bytes)
		kf_group_charge_urgent(kq, kb, cost_bytes - charged_bytes);
}

/*
 * A request that the block layer inserts without the scheduler's data, and which it
 * will not say the end of: on some kernels a FUA write that the device gave back. It
 * has no cgroup, no place and no charge, and its words are not the scheduler's.
 */
static struct request *kf_take_foreign(struct kf_hctx *kh, struct request *rq)
{
	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent - 1);
	kh->nr_dispatched++;
	return rq;
}

/* What a request has of the device while it is there. */
struct kf_leave {
	unsigned long flags;	/* of request.h */
	int token;		/* or -1: its domain has no limit */
};

/* Whether a request may go; if not, the hardware queue will be run for it. */
static bool kf_admit(struct kf_queue *kq, struct kf_hctx *kh, struct request *rq,
		     enum kf_domain_id id, bool is_urgent, struct kf_leave *leave)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	bool is_owed, is_alone;

	/* Asked before and after: each place that is given while a probe empties is alone. */
	is_alone = READ_ONCE(kq->gate.phase) == KF_BAND_EMPTY;
	leave->flags = KF_RQ_OUT;
	leave->token = -1;
	if (READ_ONCE(kq->domain[id].is_limited)) {
		leave->token = kf_domain_get_token(kq, kh, id);
		if (leave->token < 0)
			return false;
	}
	/* What is urgent does not wait for others that are owed. */
	is_owed = kf_group_is_owed(kb->kg) ||
		  (is_urgent && READ_ONCE(kq->gate.most_places) != U32_MAX);
	/* With one cgroup there is no ceiling: its requests are not counted. */
	if (READ_ONCE(kq->gate.is_shared)) {
		if (!kf_get_place(kq, kh, is_owed))
			goto put_token;
		leave->flags |= KF_RQ_PLACE;
	}
	if (guard_dispatch(kq->guard, rq)) {
		if (is_alone && READ_ONCE(kq->gate.phase) == KF_BAND_EMPTY)
			leave->flags |= KF_RQ_ALONE;
		return true;
	}
	if (leave->flags & KF_RQ_PLACE)
		kf_put_place(kq);
put_token:
	if (leave->token >= 0)
		kf_domain_put_token(kq, id, leave->token, rq->mq_ctx->cpu);
	return false;
}

/* Whether a domain has requests that dispatch may look at. */
static bool kf_has_domain(struct kf_hctx *kh, enum kf_domain_id id)
{
	return kh->has_ready & BIT(id) || !list_empty(&kh->urgent[id]);
}

/* The backlog of a domain whose request goes next, or NULL; @is_counted: see kf_ready_pass(). */
static struct kf_backlog *kf_choose_backlog(struct kf_queue *kq, struct kf_hctx *kh,
					    enum kf_domain_id id, bool *is_counted)
{
	struct kf_backlog *kb = kf_ready_first(kh, id);

	lockdep_assert_held(&kh->lock);

	if (kb && !kf_gate_allows(kq, kb->vtime) && !kf_hctx_must_drain(kh)) {
		kf_account_throttled(kq, kb);
		return NULL;
	}
	return kb ? kf_ready_pass(kq, kh, kb, id, is_counted) : NULL;
}

/* The next request of a domain that has requests, or NULL. */
static struct request *kf_dispatch_domain(struct kf_queue *kq, struct kf_hctx *kh,
					  enum kf_domain_id id)
{
	struct kf_backlog *kb = NULL;
	u32 cost_bytes, charged_bytes;
	bool is_counted = false;
	struct kf_leave leave;
	struct request *rq;
	u64 throttled_ns;

	lockdep_assert_held(&kh->lock);

	rq = list_first_entry_or_null(&kh->urgent[id], struct request, queuelist);
	if (!rq) {
		kb = kf_choose_backlog(kq, kh, id, &is_counted);
		if (!kb)
			return NULL;
		rq = list_first_entry(&kb->rqs[id], struct request, queuelist);
	} else if (unlikely(!isolio_rq_has_sched_data(rq))) {
		return kf_take_foreign(kh, rq);
	}

	if (!kf_admit(kq, kh, rq, id, !kb, &leave)) {
		trace_kf_no_place(kq->dev, kh->hctx->queue_num, kf_domain_names[id]);
		if (is_counted)
			kf_large_put(kq, id);
		return NULL;
	}

	throttled_ns = kf_rq_throttled_ns(rq);
	if (kb) {
		kf_throttle_end(kb, READ_ONCE(kq->gate.clock_ns));
		if (kb->eligible_at_ns > rq->start_time_ns)
			throttled_ns = kb->eligible_at_ns - rq->start_time_ns;
	}
	charged_bytes = kf_rq_cost_bytes(rq);
	cost_bytes = kf_calc_cost_bytes(kf_rq_backlog(rq)->kg, rq);
	kf_rq_set(rq, leave.flags, leave.token, cost_bytes, throttled_ns);
	if (is_counted)
		kf_rq_count(rq);
	kf_count_dispatch(kf_rq_backlog(rq), rq);
	kf_group_account_cost(kf_rq_backlog(rq)->kg, cost_bytes);
	if (kb)
		kf_take_request(kq, kh, kb, rq);
	else
		kf_take_urgent(kq, kh, rq, charged_bytes);
	kh->nr_dispatched++;
	kh->nr_batched++;

	return rq;
}

/* Whether a hardware context waits for a place, and none here goes without. */
static inline bool kf_has_no_place(struct kf_hctx *kh)
{
	return (READ_ONCE(kh->flags) & (BIT(KF_FOR_PLACE) | BIT(KF_HAS_OWED))) ==
	       BIT(KF_FOR_PLACE);
}

static struct request *kf_dispatch(struct kf_queue *kq, struct kf_hctx *kh)
{
	/* Before any vtime: those read later are the lowered ones; kf_groups_lower() pairs. */
	unsigned int nr_lowered = smp_load_acquire(&kq->gate.nr_lowered);
	struct request *rq;
	int i;

	lockdep_assert_held(&kh->lock);

	if (unlikely(kh->nr_lowered != nr_lowered))
		kf_ready_lower(kh, nr_lowered);

	if (unlikely(READ_ONCE(kq->gate.phase) == KF_BAND_EMPTY)) {
		kh->cur_domain = READ_ONCE(kq->gate.probes_writes) ? KF_WRITE : KF_READ;
		kh->nr_batched = 0;
	}
	if (kh->nr_batched < kf_domain_batch[kh->cur_domain] &&
	    kf_has_domain(kh, kh->cur_domain)) {
		rq = kf_dispatch_domain(kq, kh, kh->cur_domain);
		if (rq || kf_has_no_place(kh))
			return rq;
	}

	/*
	 * The batch is full, or the domain has nothing to give, throttled or
	 * without tokens: the next one, and at last this one again. One without a place
	 * is where the next dispatch goes on, as no other has one either: with a few places at
	 * a time a batch is never full otherwise, and the next one waits for ever.
	 */
	kh->nr_batched = 0;
	for (i = 0; i < KF_NR_DOMAINS; i++) {
		kh->cur_domain = (kh->cur_domain + 1) % KF_NR_DOMAINS;
		if (!kf_has_domain(kh, kh->cur_domain))
			continue;
		rq = kf_dispatch_domain(kq, kh, kh->cur_domain);
		if (rq || kf_has_no_place(kh))
			return rq;
	}

	return NULL;
}

/*
 * Called by the block layer when @hctx can take a request, in process context
 * or on a worker; often. It never waits.
 */
static struct request *kf_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;
	struct request *rq;

	if (guard_holds(kq->guard, hctx))
		return NULL;

	spin_lock(&kh->lock);
	if (kf_has_inserted(kh))
		kf_flush_ctxs(kq, kh);
	/* A group that is not awaited may be owed while none is throttled. */
	if ((READ_ONCE(kq->has_limited) || kf_waits_for(kq, KF_FOR_CLOCK)) &&
	    kf_clock_is_due(kq) && kf_clock_try_update(kq))
		kf_gate_kick(kq, KF_FOR_CLOCK, true, kh);
	rq = kf_dispatch(kq, kh);
	if (!rq && kh->has_ready && (!kf_has_no_place(kh) || kf_hctx_is_throttled(kq, kh))) {
		if (kf_clock_is_due(kq) && kf_clock_try_update(kq))
			kf_gate_kick(kq, KF_FOR_CLOCK, true, kh);
		if (kf_hctx_may_go(kq, kh))
			rq = kf_dispatch(kq, kh);
		if (!rq && !kf_has_no_place(kh) && !kf_gate_wait(kq, kh))
			rq = kf_dispatch(kq, kh);
	}
	if (!rq && test_bit(KF_HAS_OWED, &kh->flags))
		clear_bit(KF_HAS_OWED, &kh->flags);
	spin_unlock(&kh->lock);

	return rq;
}

/*
 * Called by the block layer to see whether to call kf_dispatch_request(); any context.
 * If all that wait here are throttled, it has this hardware context run again when the
 * gate may let them: dispatch would only return NULL, and the block layer would
 * look at all hardware queues then, every 3 ms.
 */
static bool kf_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;

	/* One that waits for a place is run when one comes back. */
	if (guard_holds(kq->guard, hctx) || kf_has_no_place(kh))
		return false;
	if (kf_has_inserted(kh) || READ_ONCE(kh->nr_urgent))
		return true;
	if (!READ_ONCE(kh->has_ready))
		return false;
	if (kf_hctx_may_go(kq, kh))
		return true;
	/* One that waits already is run when the clock was set, or the device is empty. */
	return !test_bit(KF_FOR_CLOCK, &kh->flags) &&
	       (kf_clock_is_due(kq) || !kf_gate_wait(kq, kh));
}

/* The software queues of a hardware context. */
static int kf_ctxs_init(struct kf_hctx *kh)
{
	struct blk_mq_hw_ctx *hctx = kh->hctx;
	unsigned int i;

	kh->nr_ctx = hctx->nr_ctx;
	kh->ctx = kvcalloc(max(kh->nr_ctx, 1U), sizeof(*kh->ctx), GFP_NOIO);
	if (!kh->ctx)
		return -ENOMEM;
	for (i = 0; i < kh->nr_ctx; i++) {
		spin_lock_init(&kh->ctx[i].lock);
		INIT_LIST_HEAD(&kh->ctx[i].rqs);
	}
	/* As Kyber: eight software queues a word. */
	if (sbitmap_init_node(&kh->ctx_map, kh->nr_ctx, 3, GFP_NOIO,
			      hctx->numa_node, false, false)) {
		kvfree(kh->ctx);
		return -ENOMEM;
	}
	return 0;
}

/* The queue is frozen; see kf_init_sched(). */
static int kf_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh;

	kh = kzalloc_node(sizeof(*kh), GFP_NOIO, hctx->numa_node);
	if (!kh)
		return -ENOMEM;

	kh->hctx = hctx;
	kh->nr_tags = hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED ? &kq->nr_shared_tags :
							       &kh->nr_own_tags;
	spin_lock_init(&kh->lock);
	kf_ready_init(kh);
	if (!kf_backlog_make(kq->root, hctx, GFP_NOIO) || kf_ctxs_init(kh)) {
		kfree(kh);
		return -ENOMEM;
	}

	mutex_lock(&kq->hctx_lock);
	hctx->sched_data = kh;
	mutex_unlock(&kq->hctx_lock);
	isolio_depth_updated(kf_depth_updated)(hctx);
	return 0;
}

/* The queue is frozen and quiesced: no request, no dispatch. */
static void kf_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;

	/* It looks at all hardware contexts. */
	kf_update_stop(kq);
	kf_gate_stop_waiting(kq);
	WARN_ONCE(kh->nr_inserted != kh->nr_dispatched ||
		  kf_has_inserted(kh),
		  "kyber-fairness: hctx %u: %llu requests in, %llu out\n",
		  hctx_idx, kh->nr_inserted, kh->nr_dispatched);
	while (!list_empty(&kh->saved))
		kf_slice_drop(list_first_entry(&kh->saved, struct kf_backlog,
					       saved_node));
	mutex_lock(&kq->hctx_lock);
	hctx->sched_data = NULL;
	mutex_unlock(&kq->hctx_lock);
	sbitmap_free(&kh->ctx_map);
	kvfree(kh->ctx);
	kfree(kh);
}

static void *kf_alloc(struct request_queue *q)
{
	struct kf_queue *kq;

	kq = kzalloc_node(sizeof(*kq), GFP_NOIO, q->node);
	if (!kq)
		return NULL;

	kq->q = q;
	kq->dev = disk_devt(q->disk);
	kq->generation = atomic64_inc_return(&kf_generation);
	mutex_init(&kq->hctx_lock);
	kf_tunables_init(kq);
	kf_groups_init(kq);
	kq->guard = guard_alloc(q);
	if (!kq->guard || kf_samples_init(kq)) {
		guard_free(kq->guard);
		kfree(kq);
		return NULL;
	}

	return kq;
}

static void kf_free(void *data)
{
	struct kf_queue *kq = data;

	if (!kq)
		return;
	kf_domains_exit(kq);
	guard_free(kq->guard);
	kfree(kq);
}

/* The scheduler is chosen for a device. The queue is frozen. */
static int kf_init_sched(struct request_queue *q, isolio_init_sched_arg)
{
	struct kf_queue *kq;
	int ret;

	kq = isolio_elevator_begin(q, eq, kf_alloc);
	if (!kq)
		return -ENOMEM;
	ret = guard_start(kq->guard) ?: kf_domains_init(kq);
	if (ret) {
		isolio_elevator_abort(q, kf_free);
		return ret;
	}

	/* Hardware contexts dispatch side by side. */
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);

	ret = isolio_activate_policy(q, &kf_policy);
	if (ret) {
		isolio_elevator_abort(q, kf_free);
		return ret;
	}

	/* kyber-fairness neither sees nor shares what writeback throttling delays. */
	isolio_wbt_disable(q);
	/* The block layer keeps io_start_time_ns only on request. */
	blk_stat_enable_accounting(q);
	return 0;
}

/* Another scheduler is chosen, or the device goes; all kf_hctx are gone. */
static void kf_exit_sched(struct elevator_queue *e)
{
	struct kf_queue *kq = e->elevator_data;

	kf_domains_stop(kq);
	kf_groups_stop(kq);
	blk_stat_disable_accounting(kq->q);
	isolio_wbt_enable(kq->q);
	isolio_deactivate_policy(kq->q, &kf_policy);
	isolio_elevator_end(kq, kf_free);
}

static struct elevator_type kf_elevator = {
	.ops = {
		ISOLIO_SCHED_DATA_OPS(kf_alloc, kf_free)
		.init_sched		= kf_init_sched,
		.exit_sched		= kf_exit_sched,
		.init_hctx		= kf_init_hctx,
		.exit_hctx		= kf_exit_hctx,
		.depth_updated		= kf_depth_updated,
		.limit_depth		= kf_limit_depth,
		.bio_merge		= kf_bio_merge,
		.prepare_request	= kf_prepare_request,
		.insert_requests	= kf_insert_requests,
		.has_work		= kf_has_work,
		.dispatch_request	= kf_dispatch_request,
		.completed_request	= kf_completed_request,
		.requeue_request	= kf_requeue_request,
		.finish_request		= kf_finish_request,
	},
	ISOLIO_DEBUGFS_ATTRS(kf_queue_debugfs_attrs)
	.elevator_attrs	= kf_attrs,
	.elevator_name	= "kyber-fairness",
	.elevator_owner	= THIS_MODULE,
};

static int __init kf_init(void)
{
	int ret;

	ret = isolio_check_fit();
	if (ret)
		return ret;

	ret = blkcg_policy_register(&kf_policy);
	if (ret == -ENOSPC)
		pr_err("kyber-fairness: all %d blkcg policy slots of this kernel are taken: unload another policy (bfq is one) and load again\n",
		       BLKCG_MAX_POLS);
	if (ret)
		return ret;

	ret = isolio_elv_register(&kf_elevator);
	if (ret)
		blkcg_policy_unregister(&kf_policy);
	return ret;
}

static void __exit kf_exit(void)
{
	elv_unregister(&kf_elevator);
	kf_wait_for_groups();
	blkcg_policy_unregister(&kf_policy);
}

module_init(kf_init);
module_exit(kf_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("Weighted sharing of multi-queue SSDs among cgroups");
MODULE_LICENSE("GPL");
MODULE_ALIAS("kyber-fairness-iosched");
