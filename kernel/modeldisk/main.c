// SPDX-License-Identifier: GPL-2.0-only
/*
 * modeldisk: disks that take as long as the disks of published experiments.
 *
 * Problem
 *
 * A scheduler is only as good as the disk it was tried on. The disks on which
 * the schedulers of this project were first measured (a SATA disk with NCQ, an
 * eMMC, an Intel P4500, a Z-SSD) are not at hand, differ from piece to piece,
 * and never give the same figure twice.
 *
 * Why simpler ways fail
 *
 * null_blk completes each request after a constant time. It has no queue of
 * its own and so never reorders; it has no head to move, no dies that collide,
 * no garbage to collect. An emulated NVMe disk in a hypervisor is as slow as the
 * host's threads are scheduled, so no two runs are alike.
 *
 * Model
 *
 * A disk is a struct md_model: a machine in its own time that takes commands
 * and completes them (model.h). Each kind of disk is a file: fixed.c, hdd.c,
 * flash.c, nvme.c, ull.c. This file makes a blk-mq device of a model. Device time is
 * the kernel's monotonic clock since power on, divided by `scale`. A scale of 16
 * slows the disk down by a factor of 16 (latencies, bandwidth, garbage collection)
 * and nothing else; it suits a host whose CPUs are too slow for the disk by that
 * factor. `scale` can change while the disk runs (pace.h), as a disk may slow down.
 *
 * Worked: `fixed` with read_ns = 1 ms and scale 2. A read submitted at 10.0 ms
 * arrives at 5.0 ms of device time, is done at 6.0 ms, which is 12.0 ms of the
 * clock, and a timer at that time completes it.
 *
 * The driver's loop runs on each submission, on each poll and when the timer fires.
 * It advances the model to now, takes the completed requests from it, and sets the
 * timer to the model's next event. A late timer completes requests late (trace:
 * late_ns), but the model's times stay right: its events happen at their own times.
 * As in a real disk, the model chooses the next request before the host hears of a
 * completion.
 *
 * Requests of polled queues set no timer. As on a real device, they complete when
 * the submitter polls (md_poll()).
 *
 * Faults
 *
 * A disk can be told to fail, for tests of what is above it (struct md_faults):
 * of the reads and writes that come, counted while any fault is on, each so
 * many-th is refused, lost, given back, ends with an error or is stalled; the
 * first of these where two fall together. With `fault_all` every request counts,
 * flushes and discards as well. All but the refused take the model's time. A
 * lost one stays in flight until the block layer's time for it is over
 * (queue/io_timeout), `lose_resets` times more, and ends as timed out, or well
 * with `lose_ok`, as after a lost interrupt. A stalled one completes `stall_us`
 * of device time later than the model says, and others pass it: a sector that is
 * read again and again. Of those given back every other one is marked as a
 * driver does that has prepared it (SCSI, NVMe): it comes again without
 * passing the scheduler.
 *
 * Locking
 *
 * One lock for a disk, taken for each submission, poll and timer: a model is
 * one machine. It is taken with interrupts off, since the timer runs in
 * interrupt context. Requests are completed after it is released.
 *
 * What it costs
 *
 * For each request: the lock at submission and at the timer, a 64-bit division
 * each, the model's work, and a timer interrupt. For the statistics, a request that
 * bypasses older ones walks over them: at most over all requests in flight.
 *
 * What it does not do
 *
 * It loses data when power fails only with `power_loss` (cache.c): otherwise
 * flushes take the model's time, and no write is ever forgotten. To the models
 * FUA writes are writes, write zeroes and secure erases are discards, and of a
 * discard with several ranges they see the first one. No zoned devices, no
 * partial completions. A disk's name is
 * its directory's name; if another block device has that name, powering on
 * fails, with a complaint of the kernel about the duplicate.
 */
#include "modeldisk.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

const struct md_model_type * const md_types[] = {
	&md_fixed_type,
	&md_hdd_type,
	&md_flash_type,
	&md_nvme_type,
	&md_ull_type,
};

const unsigned int md_nr_types = ARRAY_SIZE(md_types);

static u64 md_now_ns(struct md_disk *md)
{
	u64 milli = md->settings.scale_milli;

	return md_pace_device_ns(md->start_ns, milli, ktime_get_ns());
}

static struct request *md_rq_of(struct md_rq *mr)
{
	return blk_mq_rq_from_pdu(mr);
}

static bool md_is_polled(struct request *rq)
{
	return rq->mq_hctx->type == HCTX_TYPE_POLL;
}

/* Sum up the requests in flight until now. */
static void md_stat_depth(struct md_disk *md, u64 now_ns)
{
	struct md_stat *stat = &md->stat;

	lockdep_assert_held(&md->lock);

	stat->depth_ns += md->nr_inside * (now_ns - stat->last_ns);
	stat->last_ns = now_ns;
}

/*
 * How many requests that came after @mr went before it: all that completed,
 * but for those that came before it, which are all that ever did and are not
 * in flight any more.
 */
static u64 md_overtaken(struct md_disk *md, struct md_rq *mr)
{
	struct list_head *pos = mr->inside.prev;
	u64 nr_older_inside = 0;

	lockdep_assert_held(&md->lock);

	for (; pos != &md->inside; pos = pos->prev)
		nr_older_inside++;
	if (nr_older_inside)
		md->stat.nr_reordered++;
	return md->nr_completed - (mr->cmd.seq - nr_older_inside);
}

static void md_account_done(struct md_disk *md, struct md_rq *mr, u64 now_ns)
{
	struct md_cmd *cmd = &mr->cmd;
	struct md_stat *stat = &md->stat;
	u64 overtaken = md_overtaken(md, mr);

	lockdep_assert_held(&md->lock);

	trace_modeldisk_complete(disk_devt(md->disk), cmd, overtaken,
				 md_pace_stretched_ns(md->settings.scale_milli,
						      now_ns - cmd->done_ns));
	stat->nr[mr->count]++;
	stat->bytes[mr->count] += blk_rq_bytes(md_rq_of(mr));
	stat->overtaken_max = max(stat->overtaken_max, overtaken);
	md->overtaken[age_bucket(overtaken)]++;
	if (mr->status != BLK_STS_OK)
		stat->nr_errors++;
	if (mr->fault == MD_FAULT_REQUEUE)
		stat->nr_requeued++;
	list_del(&mr->inside);
	md->nr_inside--;
	md->nr_completed++;
}

/* The model is done with a request of a disk that can lose power: data moves. */
static void md_move_data(struct md_disk *md, struct md_rq *mr)
{
	struct request *rq = md_rq_of(mr);

	lockdep_assert_held(&md->lock);

	if (mr->status != BLK_STS_OK)
		return;
	if (mr->cmd.op == MD_FLUSH)
		md_cache_flush(&md->cache, mr->clock);
	else
		md_cache_apply(&md->cache, rq,
			       !md->settings.write_cache ||
			       rq->cmd_flags & REQ_FUA ||
			       req_op(rq) == REQ_OP_SECURE_ERASE);
}

/* The request is complete: to @done, or to its polled queue's list. */
static void md_finish(struct md_disk *md, struct md_rq *mr, u64 now_ns,
		      struct list_head *done)
{
	struct request *rq = md_rq_of(mr);

	lockdep_assert_held(&md->lock);

	md_account_done(md, mr, now_ns);
	if (md_is_polled(rq)) {
		struct md_hctx *mh = rq->mq_hctx->driver_data;

		list_add_tail(&rq->queuelist, &mh->polled);
	} else {
		list_add_tail(&rq->queuelist, done);
		md->nr_interrupting--;
	}
}

/* The model is done with a request that stays stall_us longer. */
static void md_stall(struct md_disk *md, struct md_rq *mr)
{
	struct md_cmd *other;

	lockdep_assert_held(&md->lock);

	mr->fault = MD_FAULT_STALLED;
	mr->cmd.done_ns += READ_ONCE(md->faults->stall_us) * NSEC_PER_USEC;
	md->stat.nr_stalled++;
	list_for_each_entry_reverse(other, &md->stalled, node)
		if (other->done_ns <= mr->cmd.done_ns)
			break;
	list_add(&mr->cmd.node, &other->node);
}

/* When the first stalled request completes. */
static u64 md_stalled_ns(struct md_disk *md)
{
	struct md_cmd *cmd = list_first_entry_or_null(&md->stalled, struct md_cmd, node);

	return cmd ? cmd->done_ns : MD_NEVER_NS;
}

/*
 * Let the model run to now. Requests it completed go to @done, or, those of
 * polled queues, to their hardware queue's list.
 */
static void md_advance(struct md_disk *md, u64 now_ns, struct list_head *done)
{
	struct md_cmd *cmd, *next;

	lockdep_assert_held(&md->lock);

	md->type->advance(md->model, now_ns);
	if (list_empty(&md->model->done) && list_empty(&md->stalled))
		return;

	md_stat_depth(md, now_ns);
	list_for_each_entry_safe(cmd, next, &md->model->done, node) {
		struct md_rq *mr = container_of(cmd, struct md_rq, cmd);

		list_del(&cmd->node);
		if (md->settings.power_loss)
			md_move_data(md, mr);
		if (mr->fault == MD_FAULT_LOSE) {
			/* Stays in flight until md_timeout() looks for it. */
			mr->fault = MD_FAULT_LOST;
			if (!md_is_polled(md_rq_of(mr)))
				md->nr_interrupting--;
			continue;
		}
		if (mr->fault == MD_FAULT_STALL)
			md_stall(md, mr);
		else
			md_finish(md, mr, now_ns, done);
	}
	while (md_stalled_ns(md) <= now_ns) {
		cmd = list_first_entry(&md->stalled, struct md_cmd, node);
		list_del(&cmd->node);
		md_finish(md, container_of(cmd, struct md_rq, cmd), now_ns, done);
	}
}

/* Have the timer run when the model next has something to do. */
static void md_set_timer(struct md_disk *md)
{
	u64 next_ns;

	lockdep_assert_held(&md->lock);

	if (!md->nr_interrupting)
		return;
	next_ns = min(md->type->next_ns(md->model), md_stalled_ns(md));
	/* Something is in flight, so something will happen. */
	if (WARN_ON_ONCE(next_ns == MD_NEVER_NS))
		return;
	next_ns = md_pace_kernel_ns(md->start_ns, md->settings.scale_milli, next_ns);
	if (hrtimer_is_queued(&md->timer) &&
	    ktime_to_ns(hrtimer_get_expires(&md->timer)) == next_ns)
		return;
	hrtimer_start(&md->timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS);
}

/* Holds no lock. */
static void md_complete(struct list_head *done)
{
	struct request *rq, *next;

	list_for_each_entry_safe(rq, next, done, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_complete_request(rq);
	}
}

static enum hrtimer_restart md_timer_fn(struct hrtimer *timer)
{
	struct md_disk *md = container_of(timer, struct md_disk, timer);
	unsigned long flags;
	LIST_HEAD(done);

	spin_lock_irqsave(&md->lock, flags);
	md_advance(md, md_now_ns(md), &done);
	md_set_timer(md);
	spin_unlock_irqrestore(&md->lock, flags);

	md_complete(&done);
	return HRTIMER_NORESTART;
}

/* Return: false if the disk does not do such requests. */
static bool md_prepare_cmd(struct md_disk *md, struct md_rq *mr, struct request *rq)
{
	struct md_cmd *cmd = &mr->cmd;

	cmd->sect = blk_rq_pos(rq);
	cmd->nr_sects = blk_rq_sectors(rq);
	switch (req_op(rq)) {
	case REQ_OP_READ:
		mr->count = MD_READ;
		break;
	case REQ_OP_WRITE:
		mr->count = MD_WRITE;
		break;
	case REQ_OP_DISCARD:
		mr->count = MD_DISCARD;
		/* Merged from ranges that need not be neighbours: the first. */
		if (md->settings.discard_segments > 1)
			cmd->nr_sects = bio_sectors(rq->bio);
		break;
	case REQ_OP_WRITE_ZEROES:
		mr->count = MD_COUNT_ZEROES;
		break;
	case REQ_OP_SECURE_ERASE:
		mr->count = MD_COUNT_SECURE_ERASE;
		break;
	case REQ_OP_FLUSH:
		mr->count = MD_FLUSH;
		cmd->sect = 0;
		cmd->nr_sects = 0;
		break;
	default:
		return false;
	}
	cmd->op = mr->count < MD_NR_OPS ? mr->count : MD_DISCARD;
	return true;
}

/* Move the request's data; only memory-backed disks sleep here. */
static blk_status_t md_transfer(struct md_disk *md, struct request *rq)
{
	struct bio *bio;

	if (!md->settings.memory_backed)
		return BLK_STS_OK;
	if (md->settings.power_loss)
		return md_cache_prepare(&md->cache, rq);

	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return md_store_transfer(&md->store, rq);
	case REQ_OP_DISCARD:
		__rq_for_each_bio(bio, rq)
			md_store_discard(&md->store, bio->bi_iter.bi_sector,
					 bio_sectors(bio));
		return BLK_STS_OK;
	case REQ_OP_WRITE_ZEROES:
	case REQ_OP_SECURE_ERASE:
		md_store_zero(&md->store, blk_rq_pos(rq), blk_rq_sectors(rq));
		return BLK_STS_OK;
	default:
		return BLK_STS_OK;
	}
}

static bool md_is_nth(const u64 *every, u32 nr)
{
	u32 divisor = READ_ONCE(*every);

	return divisor && nr % divisor == 0;
}

/* What goes wrong with a request that comes. */
static enum md_fault md_next_fault(struct md_disk *md, const struct md_cmd *cmd)
{
	const struct md_faults *faults = md->faults;
	u32 nr;

	if (!READ_ONCE(faults->is_on) ||
	    (cmd->op != MD_READ && cmd->op != MD_WRITE &&
	     !READ_ONCE(faults->fault_all)))
		return MD_FAULT_NONE;

	nr = atomic_inc_return(&md->nr_asked);
	if (md_is_nth(&faults->refuse_every, nr))
		return MD_FAULT_REFUSE;
	if (md_is_nth(&faults->lose_every, nr))
		return MD_FAULT_LOSE;
	if (md_is_nth(&faults->requeue_every, nr))
		return MD_FAULT_REQUEUE;
	if (md_is_nth(&faults->error_every, nr))
		return MD_FAULT_ERROR;
	if (md_is_nth(&faults->stall_every, nr))
		return MD_FAULT_STALL;
	return MD_FAULT_NONE;
}

static void md_count_refused(struct md_disk *md)
{
	unsigned long flags;

	spin_lock_irqsave(&md->lock, flags);
	md->stat.nr_refused++;
	spin_unlock_irqrestore(&md->lock, flags);
}

/* Called by the block layer to give the disk a request. */
static blk_status_t md_queue_rq(struct blk_mq_hw_ctx *hctx,
				const struct blk_mq_queue_data *bd)
{
	struct md_disk *md = hctx->queue->queuedata;
	struct request *rq = bd->rq;
	struct md_rq *mr = blk_mq_rq_to_pdu(rq);
	unsigned long flags;
	LIST_HEAD(done);
	u64 now_ns;

	if (READ_ONCE(md->is_off))
		return BLK_STS_IOERR;
	if (!md_prepare_cmd(md, mr, rq))
		return BLK_STS_NOTSUPP;
	mr->nr_resets = 0;
	mr->fault = md_next_fault(md, &mr->cmd);
	if (mr->fault == MD_FAULT_REFUSE) {
		md_count_refused(md);
		return BLK_STS_RESOURCE;
	}
	mr->status = mr->fault == MD_FAULT_ERROR ? BLK_STS_IOERR :
		     md_transfer(md, rq);
	/* The block layer tries again. */
	if (mr->status == BLK_STS_RESOURCE)
		return mr->status;
	blk_mq_start_request(rq);

	spin_lock_irqsave(&md->lock, flags);
	/* The power was cut meanwhile: what is taken after that would not be torn. */
	if (md->is_off) {
		spin_unlock_irqrestore(&md->lock, flags);
		return BLK_STS_IOERR;
	}
	now_ns = md_now_ns(md);
	md_advance(md, now_ns, &done);
	md_stat_depth(md, now_ns);
	mr->clock = md->cache.clock;
	list_add_tail(&mr->inside, &md->inside);
	md->nr_inside++;
	md->stat.depth_max = max(md->stat.depth_max, md->nr_inside);
	if (!md_is_polled(rq))
		md->nr_interrupting++;
	md->type->submit(md->model, &mr->cmd, now_ns);
	trace_modeldisk_accept(disk_devt(md->disk), &mr->cmd, md->nr_inside);
	md_set_timer(md);
	spin_unlock_irqrestore(&md->lock, flags);

	md_complete(&done);
	return BLK_STS_OK;
}

/* Called by blk_mq_complete_request(), where the submitter runs. */
static void md_complete_rq(struct request *rq)
{
	struct md_disk *md = rq->q->queuedata;
	struct md_rq *mr = blk_mq_rq_to_pdu(rq);

	if (mr->fault != MD_FAULT_REQUEUE) {
		blk_mq_end_request(rq, mr->status);
		return;
	}
	/* A count of any time will do. */
	if (data_race(md->stat.nr_requeued) % 2)
		rq->rq_flags |= RQF_DONTPREP;
	blk_mq_requeue_request(rq, true);
}

/* Requests of this queue that are done, taken off it. */
static void md_take_polled(struct md_disk *md, struct blk_mq_hw_ctx *hctx,
			   struct list_head *polled)
{
	struct md_hctx *mh = hctx->driver_data;
	struct request *rq;
	unsigned long flags;
	LIST_HEAD(done);

	spin_lock_irqsave(&md->lock, flags);
	md_advance(md, md_now_ns(md), &done);
	md_set_timer(md);
	list_splice_init(&mh->polled, polled);
	/* Before the lock is released: a timeout looks at this. */
	list_for_each_entry(rq, polled, queuelist)
		blk_mq_set_request_complete(rq);
	spin_unlock_irqrestore(&md->lock, flags);

	md_complete(&done);
}

/* Called to see what is done on a polled queue, again and again. */
static int md_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	struct request *rq, *next;
	LIST_HEAD(polled);
	int nr = 0;

	md_take_polled(hctx->queue->queuedata, hctx, &polled);
	list_for_each_entry_safe(rq, next, &polled, queuelist) {
		struct md_rq *mr = blk_mq_rq_to_pdu(rq);

		list_del_init(&rq->queuelist);
		if (mr->fault == MD_FAULT_REQUEUE ||
		    !blk_mq_add_to_batch(rq, iob, mr->status != BLK_STS_OK,
					 blk_mq_end_request_batch))
			md_complete_rq(rq);
		nr++;
	}

	return nr;
}

/* Was the request lost, and is to end now? Then the disk has it no longer. */
static bool md_give_up(struct md_disk *md, struct md_rq *mr)
{
	unsigned long flags;
	bool is_lost;
	u64 now_ns;

	spin_lock_irqsave(&md->lock, flags);
	is_lost = mr->fault == MD_FAULT_LOST &&
		  mr->nr_resets++ >= READ_ONCE(md->faults->lose_resets);
	if (is_lost) {
		now_ns = md_now_ns(md);
		md_stat_depth(md, now_ns);
		mr->fault = MD_FAULT_NONE;
		if (!READ_ONCE(md->faults->lose_ok))
			mr->status = BLK_STS_TIMEOUT;
		md->stat.nr_lost++;
		md_account_done(md, mr, now_ns);
	}
	spin_unlock_irqrestore(&md->lock, flags);

	return is_lost;
}

/*
 * Called when a request took longer than the block layer's limit. Without a fault it
 * is not lost: a large scale makes long times. The submitter of a polled request may
 * have stopped polling, so poll once in its place.
 */
static enum blk_eh_timer_return md_timeout(struct request *rq)
{
	if (md_give_up(rq->q->queuedata, blk_mq_rq_to_pdu(rq))) {
		blk_mq_complete_request(rq);
		return BLK_EH_DONE;
	}
	if (md_is_polled(rq)) {
		md_poll(rq->mq_hctx, NULL);
		if (blk_mq_request_completed(rq))
			return BLK_EH_DONE;
	}
	return BLK_EH_RESET_TIMER;
}

static int md_init_hctx(struct blk_mq_hw_ctx *hctx, void *driver_data,
			unsigned int hctx_idx)
{
	struct md_hctx *mh = kzalloc_node(sizeof(*mh), GFP_KERNEL, hctx->numa_node);

	if (!mh)
		return -ENOMEM;
	INIT_LIST_HEAD(&mh->polled);
	hctx->driver_data = mh;
	return 0;
}

static void md_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	kfree(hctx->driver_data);
	hctx->driver_data = NULL;
}

/* The queues that interrupt come first, then the polled ones. */
static void md_map_queues(struct blk_mq_tag_set *set)
{
	struct md_disk *md = set->driver_data;
	unsigned int i, offset = 0;

	for (i = 0; i < set->nr_maps; i++) {
		struct blk_mq_queue_map *map = &set->map[i];

		map->nr_queues = 0;
		if (i == HCTX_TYPE_DEFAULT)
			map->nr_queues = md->settings.queues;
		else if (i == HCTX_TYPE_POLL)
			map->nr_queues = md->settings.poll_queues;
		if (!map->nr_queues)
			continue;
		map->queue_offset = offset;
		offset += map->nr_queues;
		blk_mq_map_queues(map);
	}
}

static const struct blk_mq_ops md_mq_ops = {
	.queue_rq	= md_queue_rq,
	.complete	= md_complete_rq,
	.poll		= md_poll,
	.timeout	= md_timeout,
	.init_hctx	= md_init_hctx,
	.exit_hctx	= md_exit_hctx,
	.map_queues	= md_map_queues,
};

static const struct block_device_operations md_fops = {
	.owner = THIS_MODULE,
};

static int md_create_model(struct md_disk *md, const char *name, const void *params)
{
	const struct md_settings *settings = &md->settings;
	struct md_setup setup = {
		.params = params,
		.nr_sects = settings->size_mib << (20 - MD_SECT_SHIFT),
		.seed = settings->seed,
		/* A flush has a request of its own beside the tags. */
		.nr_cmds = (settings->queues + settings->poll_queues) *
			   (settings->tags + 1),
		.max_sects = MD_MAX_SECTS,
	};

	md->model = md->type->create(&setup);
	if (md->model)
		return 0;
	if (!setup.problem[0])
		return -ENOMEM;
	pr_err("modeldisk: %s: %s\n", name, setup.problem);
	return -EINVAL;
}

static int md_alloc_tags(struct md_disk *md)
{
	const struct md_settings *settings = &md->settings;
	struct blk_mq_tag_set *set = &md->set;

	set->ops = &md_mq_ops;
	set->nr_hw_queues = settings->queues + settings->poll_queues;
	set->nr_maps = settings->poll_queues ? HCTX_MAX_TYPES : 1;
	set->queue_depth = settings->tags;
	set->numa_node = NUMA_NO_NODE;
	set->cmd_size = sizeof(struct md_rq);
	set->flags = ISOLIO_SHOULD_MERGE;
	/* Data is moved, and memory for it found, at submission. */
	if (settings->memory_backed)
		set->flags |= BLK_MQ_F_BLOCKING;
	set->driver_data = md;
	return blk_mq_alloc_tag_set(set);
}

static int md_add_disk(struct md_disk *md, const char *name)
{
	struct isolio_disk_limits limits = {
		.max_sects = MD_MAX_SECTS,
		.max_segments = MD_MAX_SECTS >> (PAGE_SHIFT - MD_SECT_SHIFT),
		.rotational = md->type->rotational,
		.write_cache = md->settings.write_cache,
		.fua = md->settings.fua,
		.max_discard_segments = md->settings.discard_segments,
		.discard_granularity = md->settings.discard_granularity_kib << 10,
		.max_write_zeroes_sects = md->settings.write_zeroes_kib << 1,
		.max_secure_erase_sects = md->settings.secure_erase_kib << 1,
	};
	struct gendisk *disk;
	int ret;

	if (md->settings.discard)
		limits.max_discard_sects = md->settings.discard_kib << 1;
	disk = isolio_alloc_disk(&md->set, &limits, md);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	md->disk = disk;
	disk->fops = &md_fops;
	disk->private_data = md;
	strscpy(disk->disk_name, name, sizeof(disk->disk_name));
	set_capacity(disk, md->settings.size_mib << (20 - MD_SECT_SHIFT));
	/* Reading the partition table is the first thing that happens to it. */
	ret = add_disk(disk);
	if (ret)
		put_disk(disk);
	return ret;
}

/**
 * md_power_on - make a disk
 * @name: of the disk, shorter than DISK_NAME_LEN
 * @type: its model
 * @params: the model's parameters
 * @settings: everything else; both are copied
 * @faults: what goes wrong; may change, and outlives the disk
 *
 * Return: the disk, or an error; what is wrong with the parameters is in the
 * kernel's log.
 */
struct md_disk *md_power_on(const char *name, const struct md_model_type *type,
			    const void *params, const struct md_settings *settings,
			    const struct md_faults *faults)
{
	struct md_disk *md;
	int ret;

	if (settings->power_loss && !settings->memory_backed) {
		pr_err("modeldisk: %s: power_loss is 1: needs memory_backed 1\n", name);
		return ERR_PTR(-EINVAL);
	}
	md = kzalloc(sizeof(*md), GFP_KERNEL);
	if (!md)
		return ERR_PTR(-ENOMEM);
	md->type = type;
	md->settings = *settings;
	md->faults = faults;
	spin_lock_init(&md->lock);
	INIT_LIST_HEAD(&md->inside);
	INIT_LIST_HEAD(&md->stalled);
	md_store_init(&md->store);
	md_cache_init(&md->cache);
	isolio_hrtimer_setup(&md->timer, md_timer_fn, CLOCK_MONOTONIC,
			     HRTIMER_MODE_ABS);

	ret = md_create_model(md, name, params);
	if (ret)
		goto free_disk;
	ret = md_alloc_tags(md);
	if (ret)
		goto destroy_model;
	md->start_ns = ktime_get_ns();
	ret = md_add_disk(md, name);
	if (ret)
		goto free_tags;
	return md;

free_tags:
	hrtimer_cancel(&md->timer);
	blk_mq_free_tag_set(&md->set);
destroy_model:
	type->destroy(md->model);
free_disk:
	md_cache_free(&md->cache);
	md_store_free(&md->store);
	kfree(md);
	return ERR_PTR(ret);
}

/**
 * md_power_off - take a disk away, in use or not
 * @md: the disk
 *
 * Requests that wait in the scheduler, and all later ones, end with an error;
 * those in flight complete, which takes the model's time.
 */
void md_power_off(struct md_disk *md)
{
	WRITE_ONCE(md->is_off, true);
	blk_mark_disk_dead(md->disk);
	del_gendisk(md->disk);
	put_disk(md->disk);
	hrtimer_cancel(&md->timer);
	blk_mq_free_tag_set(&md->set);
	WARN_ONCE(md->nr_inside, "modeldisk: %llu requests inside at power off\n",
		  md->nr_inside);
	md->type->destroy(md->model);
	md_cache_free(&md->cache);
	md_store_free(&md->store);
	kfree(md);
}

/**
 * md_power_cut - the power goes, and the disk stays
 * @md: the disk
 * @seed: of what lands and what does not, see cache.c
 *
 * What the model has completed by now is done. Requests in flight end with an
 * error, when the model is done with them; later ones end with one at once.
 *
 * Return: -EINVAL if the disk cannot lose power.
 */
int md_power_cut(struct md_disk *md, u64 seed)
{
	struct md_rq *mr;
	LIST_HEAD(done);

	if (!md->settings.power_loss)
		return -EINVAL;

	spin_lock_irq(&md->lock);
	md_advance(md, md_now_ns(md), &done);
	WRITE_ONCE(md->is_off, true);
	md->stat.nr_cuts++;
	md_cache_cut(&md->cache, seed, &md->stat.cut);
	list_for_each_entry(mr, &md->inside, inside) {
		/* Data of lost and stalled ones has moved: it was in the cache. */
		if (mr->status == BLK_STS_OK && mr->fault != MD_FAULT_LOST &&
		    mr->fault != MD_FAULT_STALLED)
			md_cache_tear(&md->cache, md_rq_of(mr), seed, &md->stat.cut);
		mr->status = BLK_STS_IOERR;
	}
	md_set_timer(md);
	spin_unlock_irq(&md->lock);

	md_complete(&done);
	return 0;
}

/**
 * md_power_return - the power is back, and the disk has what survived
 * @md: the disk, after md_power_cut()
 */
void md_power_return(struct md_disk *md)
{
	spin_lock_irq(&md->lock);
	WRITE_ONCE(md->is_off, false);
	spin_unlock_irq(&md->lock);
}

/**
 * md_set_scale - change how fast a disk's time goes
 * @md: the disk
 * @milli: for settings.scale_milli
 *
 * What was to happen until now has happened at the old speed; requests in flight go on
 * at the new one.
 *
 * Return: -ERANGE if the disk has been on for too long for that scale.
 */
int md_set_scale(struct md_disk *md, u64 milli)
{
	LIST_HEAD(done);
	u64 kernel_ns, now_ns;
	int ret = 0;

	spin_lock_irq(&md->lock);
	kernel_ns = ktime_get_ns();
	now_ns = md_pace_device_ns(md->start_ns, md->settings.scale_milli, kernel_ns);
	md_advance(md, now_ns, &done);
	if (md_pace_start(now_ns, milli, kernel_ns, &md->start_ns))
		md->settings.scale_milli = milli;
	else
		ret = -ERANGE;
	md_set_timer(md);
	spin_unlock_irq(&md->lock);

	md_complete(&done);
	return ret;
}

/* The text of the file `stat`: a line for each figure, name and value. */
ssize_t md_stat_show(struct md_disk *md, char *page)
{
	struct md_counts counts;
	struct md_stat stat;
	u64 nr_inside, elapsed_ns, amplification = 1000;

	spin_lock_irq(&md->lock);
	md_stat_depth(md, md_now_ns(md));
	counts = md->model->counts;
	stat = md->stat;
	nr_inside = md->nr_inside;
	spin_unlock_irq(&md->lock);

	elapsed_ns = max_t(u64, stat.last_ns, 1);
	if (counts.nr_host_pages)
		amplification = mul_u64_u64_div_u64(counts.nr_media_pages, 1000,
						    counts.nr_host_pages);

	return sysfs_emit(page,
			  "device_ns %llu\n"
			  "reads %llu\nread_bytes %llu\n"
			  "writes %llu\nwrite_bytes %llu\n"
			  "discards %llu\ndiscard_bytes %llu\n"
			  "flushes %llu\nerrors %llu\n"
			  "refused %llu\nrequeued %llu\nlost %llu\n"
			  "reordered %llu\novertaken_max %llu\n"
			  "depth %llu\ndepth_max %llu\ndepth_mean_milli %llu\n"
			  "gc_runs %llu\ngc_pages %llu\nerases %llu\n"
			  "host_pages %llu\nmedia_pages %llu\n"
			  "write_amplification_milli %llu\n"
			  "stalls %llu\nstall_max_ns %llu\n"
			  "write_zeroes %llu\nwrite_zeroes_bytes %llu\n"
			  "secure_erases %llu\nsecure_erase_bytes %llu\n"
			  "stalled %llu\npower_cuts %llu\n"
			  "cached_blocks_kept %llu\ncached_blocks_lost %llu\n"
			  "torn_blocks_kept %llu\ntorn_blocks_lost %llu\n",
			  stat.last_ns,
			  stat.nr[MD_READ], stat.bytes[MD_READ],
			  stat.nr[MD_WRITE], stat.bytes[MD_WRITE],
			  stat.nr[MD_DISCARD], stat.bytes[MD_DISCARD],
			  stat.nr[MD_FLUSH], stat.nr_errors,
			  stat.nr_refused, stat.nr_requeued, stat.nr_lost,
			  stat.nr_reordered, stat.overtaken_max,
			  nr_inside, stat.depth_max,
			  mul_u64_u64_div_u64(stat.depth_ns, 1000, elapsed_ns),
			  counts.nr_gc_runs, counts.nr_gc_pages, counts.nr_erases,
			  counts.nr_host_pages, counts.nr_media_pages,
			  amplification, counts.nr_stalls, counts.stall_max_ns,
			  stat.nr[MD_COUNT_ZEROES], stat.bytes[MD_COUNT_ZEROES],
			  stat.nr[MD_COUNT_SECURE_ERASE],
			  stat.bytes[MD_COUNT_SECURE_ERASE],
			  stat.nr_stalled, stat.nr_cuts,
			  stat.cut.nr_kept, stat.cut.nr_lost,
			  stat.cut.nr_landed, stat.cut.nr_torn_off);
}

/*
 * The text of the file `overtaken`: for each bucket with requests, its lowest delay
 * count and the number of requests.
 */
ssize_t md_overtaken_show(struct md_disk *md, char *page)
{
	unsigned int bucket;
	ssize_t len = 0;

	spin_lock_irq(&md->lock);
	for (bucket = 0; bucket < AGE_NR_BUCKETS; bucket++)
		if (md->overtaken[bucket])
			len += sysfs_emit_at(page, len, "%llu %llu\n",
					     age_bucket_least(bucket),
					     md->overtaken[bucket]);
	spin_unlock_irq(&md->lock);
	return len;
}

static int __init md_init(void)
{
	return isolio_check_fit() ?: md_configfs_init();
}

static void __exit md_exit(void)
{
	md_configfs_exit();
}

module_init(md_init);
module_exit(md_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("Block devices that take as long as models of disks say");
MODULE_LICENSE("GPL");
