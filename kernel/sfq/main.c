// SPDX-License-Identifier: GPL-2.0-only
/*
 * sfq: on flash, reads stay quick while other programs write.
 *
 * Problem
 *
 * On cheap flash a write takes ten times as long as a read, and a thousand times while
 * garbage is collected. Programs wait for reads. Writes rarely disturb them until they
 * come in bursts: a program saves a file, an update is installed, the kernel writes
 * back dirty pages. A starting program issues hundreds of reads, each after the last,
 * and then every one waits for a run of writes.
 *
 * Why simpler ways fail
 *
 * In order of arrival a read waits for all earlier writes. Reads first without a bound
 * starve writes. So schedulers that put reads first dispatch writes in batches, 8
 * (kyber) or 16 (mq-deadline), and a read waits for a batch. Time slices (CFQ, bfq)
 * are longer still. Per-process queues in turn make a read wait for one write of each
 * process that writes.
 *
 * Model (the SFQ paper)
 *
 * Each process has a queue for its synchronous requests; all asynchronous requests
 * share one (algorithm 1). Processes take turns. After sync_selections of their turns
 * the async queue has one, if it is backlogged (algorithm 2). A turn has
 * turn_requests: at most turn_reads reads, then at most turn_writes writes (algorithm
 * 3). The defaults are 3, 3, 2 and 1. A process without requests gives up the rest of
 * its turn.
 *
 * Worked, for an eMMC with reads of 0.2 ms and writes of 1.4 ms: eight processes
 * write, each 16 requests at a time, and a ninth reads. In order of arrival the read
 * waits for up to 128 writes, 180 ms. In turn it waits for one write of each, 11 ms.
 * With the rules below it waits for the one write in the device.
 *
 * What the paper leaves open (docs/design/history.md has the figures)
 *
 * The cycle. With turns alone a read waits for a write of each other process. So sfq
 * also keeps 2 : 1 for the device as a whole (turn.h). While a process waits for a
 * read, a write of any process is dispatched only after turn_reads reads. A process
 * whose write is not due keeps its turn, and readers go before it. Such a reader does
 * not count as a turn before the async queue's. If it did, the async queue would
 * always be next among many readers, and a process that waits for a write would never
 * have a turn.
 *
 * A queue of writes alone. Algorithm 3 as printed never ends for it, while the paper's
 * text gives every turn three requests. sfq dispatches one write; turn_writes = 3 is
 * the text's way.
 *
 * Devices with more than one tag. No scheduler orders requests inside the device. So
 * until quiet_ms after the last read, writes get only writes_inside_pct percent of its
 * tags, and at least one. sfq also never dispatches more requests than the device has
 * tags. The block layer would take one more, often a write, and give it the next free
 * tag before any later read.
 *
 * Large requests. A request larger than unit_kib counts in the cycle as several of
 * that size (all of the paper's are 4 KiB): a write of 1 MiB, 83 ms on an eMMC, as
 * 256.
 *
 * Patience. A starting application issues one read at a time. When one completes, no
 * read is there to go before the writes, so each next read would wait for a write. For
 * a process that recently read again quickly, sfq withholds writes that are not due
 * for up to patience_us. That costs the device at most as much time each time a
 * process stops reading.
 *
 * sfq withholds writes for no longer than the read gains. It compares the service time
 * of reads that found no write in flight with that of reads that found as many as may
 * be. Until it knows both it stays patient; so it does on a device of one command,
 * where no read ever finds a write.
 *
 * Both figures age, so sfq measures them again. Without patience no read is alone:
 * after 512 reads sfq dispatches no write beside a read, nor when a read is expected,
 * until it has seen 16 reads alone, or 64 others. With patience no read may find
 * writes: until one has, sfq drops patience for 64 of 576 reads, where the device has
 * tags for both. Neither withholds a write past its deadline, nor after quiet_ms
 * without a completed read: a read may take seconds, or be lost.
 *
 * Deadlines. Each request is also in a queue of its direction, by arrival. A request
 * past read_expire_ms or write_expire_ms is the next of its direction, whichever
 * process has the turn. Deadlines do not change how many requests of each direction
 * are dispatched: after a second of garbage collection all requests are late, and
 * serving them in order of arrival would gain nothing.
 *
 * The owner of a request is the io_context of the task that submits it (rq->elv.icq),
 * whichever task runs the queue: the kernel's meaning of the paper's PID. Dirty pages
 * that the kernel writes back are asynchronous and have no owner. Those that a task
 * writes back in fsync() are synchronous and belong to that task.
 *
 * Orphans. When a task ends, its requests join the async queue at once and keep their
 * deadlines, and its queue is freed. The paper drops them. sfq cannot: other tasks may
 * wait for them, for example for a page that was read ahead.
 *
 * Several hardware queues. sfq dispatches for the whole device from any of them; turns
 * and the cycle are the device's. The starvation guard (common/guard.c) has the last
 * word on each dispatch.
 *
 * Locking
 *
 * sfq_device.lock covers all queues. It is taken with interrupts off: the end of a
 * task takes it inside its io_context's lock, which completions take too. Requests in
 * flight are counted in atomics. When sfq withholds requests until a completion,
 * sfq_take_back() runs the queue; barriers there and in sfq_has_work() keep each from
 * missing the other.
 *
 * A task's sfq_queue is in its icq. A request holds a reference to its io_context, so
 * the icq outlives the request. A scheduler is freed only after all requests and icqs.
 *
 * Cost
 *
 * For each request: the device's lock twice, two list insertions, one insertion into a
 * tree and one into a hash for merging, an atomic operation each way, and a division
 * for a read. Nothing loops over processes. One lock for all CPUs suits flash of
 * 100,000 requests a second, but not a fast NVMe drive; kyber-fairness is for that.
 *
 * Limits
 *
 * sfq neither predicts nor prevents garbage collection: a stall of the device stalls
 * the reads in it. It knows no weights, I/O priorities or cgroups: processes are
 * equal, so a program that starts more of them gets more. It does not sort by
 * position: flash does not need that, a disk does.
 */
#include "sfq.h"
#include "debugfs.h"

#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Of the scheduler's tags; a quarter is kept for reads. */
#define SFQ_ASYNC_PCT	75

/* Among how many writes a request comes into the device; asked for reads. */
static enum sfq_among sfq_among(struct sfq_device *sd)
{
	u32 nr_writes = atomic_read(&sd->nr_writes_inside);

	lockdep_assert_held(&sd->lock);

	if (!nr_writes)
		return SFQ_AMONG_NONE;
	return nr_writes < sfq_device_writes_max(sd, ktime_get_ns()) ?
	       SFQ_AMONG_SOME : SFQ_AMONG_MOST;
}

/*
 * The request goes to the device, if the guard lets it. There rq->elv.icq is the
 * guard's word.
 */
static bool sfq_send(struct sfq_device *sd, struct request *rq)
{
	enum sfq_dir dir = rq_data_dir(rq);

	lockdep_assert_held(&sd->lock);

	/* See sfq_insert_request(). */
	if (unlikely(!isolio_rq_has_sched_data(rq)))
		return true;
	rq->elv.priv[1] = rq->elv.icq;
	guard_prepare(rq);
	if (!guard_dispatch(sd->guard, rq)) {
		rq->elv.icq = rq->elv.priv[1];
		rq->elv.priv[1] = NULL;
		return false;
	}
	sfq_rq_set_inside(rq, dir, dir == SFQ_READ ? sfq_among(sd) : 0);
	atomic_inc(&sd->nr_inside);
	if (dir == SFQ_WRITE)
		atomic_inc(&sd->nr_writes_inside);
	return true;
}

/* The device is done with a request, or has given it back; in any context. */
static void sfq_take_back(struct sfq_device *sd, struct request *rq, bool is_done)
{
	enum sfq_dir dir = sfq_rq_dir(rq);

	if (!rq->elv.priv[0])
		return;
	if (is_done)
		guard_finish(sd->guard, rq);
	else
		guard_requeue(sd->guard, rq);
	rq->elv.icq = rq->elv.priv[1];
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	if (dir == SFQ_WRITE)
		atomic_dec(&sd->nr_writes_inside);
	atomic_dec(&sd->nr_inside);
	/* The counts before the look; sfq_has_work() pairs. */
	smp_mb__after_atomic();
	if (READ_ONCE(sd->nr_waiting))
		blk_mq_run_hw_queues(sd->q, true);
}

/*
 * Called by the block layer before it allocates a request, in the task that
 * submits. Writes leave some of the scheduler's tags to reads: else those would
 * wait where no scheduler sees them.
 */
static void sfq_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if (op_is_write(opf) || !op_is_sync(opf))
		data->shallow_depth = READ_ONCE(sfq_of(data->q)->async_depth);
}

/* Called when nr_requests was set, and from sfq_init_hctx(). */
static void isolio_depth_updated_fn(sfq_depth_updated, hctx)
{
	struct sfq_device *sd = sfq_of(hctx->queue);

	WRITE_ONCE(sd->async_depth, isolio_depth_of_pct(hctx, SFQ_ASYNC_PCT));
	isolio_set_min_depth(hctx, 1);
}

/*
 * Called when a request is allocated, in the task that submits. The request
 * keeps the task's io_context, and so its queue, until it is freed.
 */
static void sfq_prepare_request(struct request *rq)
{
	rq->elv.icq = isolio_get_icq(rq->q);
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
}

/* Called when a task's first request for the device is prepared. */
static void sfq_init_icq(struct io_cq *icq)
{
	sfq_queue_init(sfq_icq_queue(icq),
		       task_pid_nr(current));
}

/*
 * Called when the last task of an io_context ends, or the scheduler goes; under
 * the io_context's lock, with interrupts off.
 */
static void sfq_exit_icq(struct io_cq *icq)
{
	struct sfq_device *sd = sfq_of(icq->q);
	unsigned long flags;

	spin_lock_irqsave(&sd->lock, flags);
	sfq_queue_orphan(sd, sfq_icq_queue(icq));
	spin_unlock_irqrestore(&sd->lock, flags);
}

/*
 * Called by the block layer before it merges a bio into a request, in the task
 * that submits the bio. The two may be of different processes: the request has its
 * turn already, and flash takes little longer for both than for one. A synchronous
 * bio does not join an asynchronous request, which may wait longer; a request that is made
 * of it may, as it is inserted.
 */
static bool sfq_allow_merge(struct request_queue *q, struct request *rq,
			    struct bio *bio)
{
	return op_is_sync(rq->cmd_flags) == op_is_sync(bio->bi_opf);
}

/* Called from blk_mq_sched_try_merge(), for a bio that continues no request. */
static int sfq_request_merge(struct request_queue *q, struct request **into,
			     struct bio *bio)
{
	struct sfq_device *sd = sfq_of(q);
	struct request *rq;

	lockdep_assert_held(&sd->lock);

	rq = elv_rb_find(&sd->sorted[bio_data_dir(bio)], bio_end_sector(bio));
	if (!rq || bio_op(bio) == REQ_OP_DISCARD || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*into = rq;
	return ELEVATOR_FRONT_MERGE;
}

/* Called under the lock, when a bio went into a request that waits. */
static void sfq_request_merged(struct request_queue *q, struct request *rq,
			       enum elv_merge type)
{
	struct sfq_device *sd = sfq_of(q);

	lockdep_assert_held(&sd->lock);

	if (type == ELEVATOR_FRONT_MERGE) {
		elv_rb_del(&sd->sorted[rq_data_dir(rq)], rq);
		elv_rb_add(&sd->sorted[rq_data_dir(rq)], rq);
	}
}

/*
 * Called under the lock, when @next, which may not be queued yet, went into @rq.
 * Both have a deadline; the earlier one counts.
 */
static void sfq_requests_merged(struct request_queue *q, struct request *rq,
				struct request *next)
{
	struct sfq_device *sd = sfq_of(q);

	lockdep_assert_held(&sd->lock);

	if (!next->elv.priv[0])
		return;
	if (next->fifo_time < rq->fifo_time) {
		list_move(sfq_rq_deadline(rq), sfq_rq_deadline(next));
		rq->fifo_time = next->fifo_time;
	}
	sfq_queue_del(sd, next);
	sd->stats.nr_merged++;
}

/* Called by the block layer before it makes a request of a bio. */
static bool sfq_bio_merge(struct request_queue *q, struct bio *bio,
			  unsigned int nr_segs)
{
	struct sfq_device *sd = sfq_of(q);
	struct request *free = NULL;
	bool merged;

	spin_lock_irq(&sd->lock);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	spin_unlock_irq(&sd->lock);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

static void sfq_add_urgent(struct sfq_device *sd, struct request *rq)
{
	lockdep_assert_held(&sd->lock);

	list_add(&rq->queuelist, &sd->urgent);
	WRITE_ONCE(sd->nr_waiting, sd->nr_waiting + 1);
	WRITE_ONCE(sd->nr_not_writes, sd->nr_not_writes + 1);
}

static void sfq_insert_request(struct sfq_device *sd, struct request *rq,
			       bool at_head, struct list_head *free)
{
	lockdep_assert_held(&sd->lock);

	/*
	 * The block layer goes on from a request that others went into to the next that it
	 * continues, and of discards says nothing then: one that is queued here would be freed.
	 */
	if (req_op(rq) != REQ_OP_DISCARD && blk_mq_sched_try_insert_merge(sd->q, rq, free))
		return;

	trace_block_rq_insert(rq);
	sd->stats.nr_inserted++;
	/*
	 * One without the scheduler's data, whose words are not the scheduler's and of
	 * which no end is said, goes at once: on some kernels a FUA write that the
	 * device gave back.
	 */
	if (!at_head && isolio_rq_has_sched_data(rq)) {
		sfq_queue_add(sd, rq);
		return;
	}
	sfq_add_urgent(sd, rq);
}

/* Called with requests to be queued, in process context. */
static void sfq_insert_requests(struct blk_mq_hw_ctx *hctx,
				struct list_head *list, isolio_insert_arg)
{
	struct sfq_device *sd = sfq_of(hctx->queue);
	bool at_head = isolio_insert_at_head(flags);
	struct request *rq;
	LIST_HEAD(free);

	spin_lock_irq(&sd->lock);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		sfq_insert_request(sd, rq, at_head, &free);
	}
	spin_unlock_irq(&sd->lock);

	while (!list_empty(&free)) {
		rq = list_first_entry(&free, struct request, queuelist);
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	isolio_dispatch_here(hctx, &sd->lock);
}

static struct request *sfq_take_urgent(struct sfq_device *sd)
{
	struct request *rq;

	lockdep_assert_held(&sd->lock);

	rq = list_first_entry_or_null(&sd->urgent, struct request, queuelist);
	if (!rq)
		return NULL;
	list_del_init(&rq->queuelist);
	WRITE_ONCE(sd->nr_waiting, sd->nr_waiting - 1);
	WRITE_ONCE(sd->nr_not_writes, sd->nr_not_writes - 1);
	return rq;
}

/*
 * Called by the block layer when @hctx can take a request; what it gets may
 * belong to another one.
 */
static struct request *sfq_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct sfq_device *sd = sfq_of(hctx->queue);
	struct request *rq = NULL;

	spin_lock_irq(&sd->lock);
	if (atomic_read(&sd->nr_inside) < sfq_depth(sd) &&
	    !guard_holds(sd->guard, hctx))
		rq = sfq_take_urgent(sd) ?: sfq_select(sd);
	if (rq && !sfq_send(sd, rq)) {
		/* It was chosen: it is next. */
		sfq_add_urgent(sd, rq);
		rq = NULL;
	}
	if (rq)
		sd->stats.nr_dispatched++;
	spin_unlock_irq(&sd->lock);

	return rq;
}

/*
 * Called by the block layer to see whether to call sfq_dispatch_request(), in
 * any context. Requests withheld here wait for one in flight to complete;
 * sfq_take_back() then runs the queue again.
 */
static bool sfq_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct sfq_device *sd = sfq_of(hctx->queue);
	u64 now_ns;

	if (!READ_ONCE(sd->nr_waiting))
		return false;
	/* Of a request queued just now, the count before the look. */
	smp_mb();
	if (atomic_read(&sd->nr_inside) >= sfq_depth(sd) ||
	    guard_holds(sd->guard, hctx))
		return false;
	if (READ_ONCE(sd->nr_not_writes))
		return true;
	now_ns = ktime_get_ns();
	return READ_ONCE(sd->held_until_ns) <= now_ns &&
	       atomic_read(&sd->nr_writes_inside) <
	       sfq_device_writes_max(sd, now_ns);
}

/* Writes have waited long enough for a read. */
static enum hrtimer_restart sfq_timer(struct hrtimer *timer)
{
	struct sfq_device *sd = container_of(timer, struct sfq_device, timer);

	blk_mq_run_hw_queues(sd->q, true);
	return HRTIMER_NORESTART;
}

/* Writes wait, and the device could have one next to a read. No lock: a guess. */
static bool sfq_writes_wait(struct sfq_device *sd)
{
	return sfq_depth(sd) > 1 && READ_ONCE(sd->nr_waiting) > READ_ONCE(sd->nr_not_writes);
}

/* A process that is quick has its read; the next one may be worth waiting for. */
static void sfq_expect(struct sfq_device *sd, struct sfq_queue *sq, u64 now_ns)
{
	u64 patience_ns = sfq_patience_ns(&sd->reads, READ_ONCE(sd->patience_ns));

	if (READ_ONCE(sq->think_ns) <= patience_ns)
		WRITE_ONCE(sd->expected_until_ns, now_ns + patience_ns);
}

/* The device is done with a read, which was sent as the scheduler chose it. */
static void sfq_read_is_done(struct sfq_device *sd, struct request *rq, u64 now_ns)
{
	/* In the device a request keeps its icq there. */
	struct io_cq *icq = rq->elv.priv[1];
	struct sfq_queue *sq = icq ? sfq_icq_queue(icq) : NULL;
	bool is_quick = sq && sfq_queue_is_quick(sd, sq);

	if (rq->io_start_time_ns)
		sfq_reads_add(&sd->reads, sfq_rq_among(rq),
			      now_ns > rq->io_start_time_ns ?
			      now_ns - rq->io_start_time_ns : 0,
			      is_quick && sfq_writes_wait(sd));
	WRITE_ONCE(sd->untold_since_ns, 0);
	if (sq)
		WRITE_ONCE(sq->done_ns, now_ns);
	if (is_quick)
		sfq_expect(sd, sq, now_ns);
}

/* Called on completion, in any context. */
static void sfq_completed_request(struct request *rq, u64 now_ns)
{
	u64 total_ns = now_ns > rq->start_time_ns ? now_ns - rq->start_time_ns : 0;
	struct sfq_device *sd = sfq_of(rq->q);
	struct sfq_latency *latency;
	enum sfq_dir dir;

	if (!isolio_rq_has_sched_data(rq))
		return;
	dir = rq_data_dir(rq);
	latency = get_cpu_ptr(sd->latency);
	this_cpu_inc(sd->latency->nr[dir][lat_bucket(total_ns)]);
	if (total_ns > READ_ONCE(latency->max_ns[dir]))
		WRITE_ONCE(latency->max_ns[dir], total_ns);
	put_cpu_ptr(sd->latency);
	/* Nothing is known of one that came back and goes as it is. */
	if (dir == SFQ_READ && rq->elv.priv[0])
		sfq_read_is_done(sd, rq, now_ns);
}

/*
 * Called when the device gave a request back. It will be inserted again, or goes
 * there again as it is: then nothing has changed.
 */
static void sfq_requeue_request(struct request *rq)
{
	if (guard_is_left(rq))
		sfq_take_back(sfq_of(rq->q), rq, false);
}

/* Called when a request is freed, in any context. */
static void sfq_finish_request(struct request *rq)
{
	sfq_take_back(sfq_of(rq->q), rq, true);
	if (rq->elv.icq) {
		put_io_context(rq->elv.icq->ioc);
		rq->elv.icq = NULL;
	}
}

static int sfq_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	isolio_depth_updated(sfq_depth_updated)(hctx);
	return 0;
}

/* Tags of the device, in all hardware queues but polled ones. */
static u32 sfq_nr_tags(struct request_queue *q)
{
	struct blk_mq_tag_set *set = q->tag_set;
	u32 depth = set->queue_depth - set->reserved_tags;
	u32 nr_polled = 0;

	if (set->nr_maps > HCTX_TYPE_POLL)
		nr_polled = set->map[HCTX_TYPE_POLL].nr_queues;
	if (!(set->flags & BLK_MQ_F_TAG_HCTX_SHARED) && q->nr_hw_queues > nr_polled)
		depth *= q->nr_hw_queues - nr_polled;
	return max(depth, 1U);
}

static void sfq_free(void *data)
{
	struct sfq_device *sd = data;

	if (!sd)
		return;
	if (sd->guard)
		guard_free(sd->guard);
	free_percpu(sd->latency);
	kfree(sd);
}

static void *sfq_alloc(struct request_queue *q)
{
	struct sfq_device *sd;
	int dir;

	sd = kzalloc_node(sizeof(*sd), GFP_NOIO, q->node);
	if (!sd)
		return NULL;
	sd->latency = alloc_percpu(struct sfq_latency);
	sd->guard = guard_alloc(q);
	if (!sd->latency || !sd->guard) {
		sfq_free(sd);
		return NULL;
	}

	sd->q = q;
	sd->dev = disk_devt(q->disk);
	spin_lock_init(&sd->lock);
	isolio_hrtimer_setup(&sd->timer, sfq_timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_ABS);
	INIT_LIST_HEAD(&sd->urgent);
	INIT_LIST_HEAD(&sd->turns);
	INIT_LIST_HEAD(&sd->readers);
	for (dir = 0; dir < SFQ_NR_DIRS; dir++) {
		INIT_LIST_HEAD(&sd->deadline[dir]);
		sd->sorted[dir] = RB_ROOT;
	}
	sfq_queue_init(&sd->async, 0);
	sfq_queue_init(&sd->nobodys, 0);
	sfq_tunables_init(sd);
	return sd;
}

/* The scheduler is chosen for a device; the queue is frozen. */
static int sfq_init_sched(struct request_queue *q, isolio_init_sched_arg)
{
	struct sfq_device *sd;
	int ret;

	sd = isolio_elevator_begin(q, eq, sfq_alloc);
	if (!sd)
		return -ENOMEM;
	ret = guard_start(sd->guard);
	if (ret) {
		isolio_elevator_abort(q, sfq_free);
		return ret;
	}
	/* Not in sfq_alloc(): some kernels call that before the queues are new. */
	sd->nr_tags = sfq_nr_tags(q);

	/* Each hardware context dispatches for the whole device. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	/* The block layer keeps io_start_time_ns only on request. */
	blk_stat_enable_accounting(q);
	return 0;
}

/* Another scheduler is chosen, or the device goes; no request is left. */
static void sfq_exit_sched(struct elevator_queue *e)
{
	struct sfq_device *sd = e->elevator_data;
	struct sfq_stats *stats = &sd->stats;

	blk_stat_disable_accounting(sd->q);
	hrtimer_cancel(&sd->timer);
	WARN_ONCE(stats->nr_inserted != stats->nr_merged + stats->nr_dispatched ||
		  sd->nr_waiting || sd->nr_not_writes ||
		  atomic_read(&sd->nr_inside) || atomic_read(&sd->nr_writes_inside) ||
		  !list_empty(&sd->turns) || !list_empty(&sd->readers),
		  "sfq: %llu requests in, %llu merged, %llu out; %u waiting, %d in flight, %d of them writes\n",
		  stats->nr_inserted, stats->nr_merged, stats->nr_dispatched,
		  sd->nr_waiting, atomic_read(&sd->nr_inside),
		  atomic_read(&sd->nr_writes_inside));
	isolio_elevator_end(sd, sfq_free);
}

static struct elevator_type sfq_elevator = {
	.ops = {
		ISOLIO_SCHED_DATA_OPS(sfq_alloc, sfq_free)
		.init_sched		= sfq_init_sched,
		.exit_sched		= sfq_exit_sched,
		.init_hctx		= sfq_init_hctx,
		.depth_updated		= sfq_depth_updated,
		.limit_depth		= sfq_limit_depth,
		.init_icq		= sfq_init_icq,
		.exit_icq		= sfq_exit_icq,
		.allow_merge		= sfq_allow_merge,
		.bio_merge		= sfq_bio_merge,
		.request_merge		= sfq_request_merge,
		.request_merged		= sfq_request_merged,
		.requests_merged	= sfq_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.prepare_request	= sfq_prepare_request,
		.insert_requests	= sfq_insert_requests,
		.has_work		= sfq_has_work,
		.dispatch_request	= sfq_dispatch_request,
		.completed_request	= sfq_completed_request,
		.requeue_request	= sfq_requeue_request,
		.finish_request		= sfq_finish_request,
	},
	ISOLIO_DEBUGFS_ATTRS(sfq_queue_debugfs_attrs)
	.icq_size	= sizeof(struct sfq_icq),
	.icq_align	= __alignof__(struct sfq_icq),
	.elevator_attrs	= sfq_attrs,
	.elevator_name	= "sfq",
	.elevator_owner	= THIS_MODULE,
};

static int __init sfq_init(void)
{
	return isolio_check_fit() ?: isolio_elv_register(&sfq_elevator);
}

static void __exit sfq_exit(void)
{
	elv_unregister(&sfq_elevator);
}

module_init(sfq_init);
module_exit(sfq_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("Simple fairness queueing for flash: reads stay quick while others write");
MODULE_LICENSE("GPL");
MODULE_ALIAS("sfq-iosched");
