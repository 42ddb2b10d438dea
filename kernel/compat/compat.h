/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The only place where kernels differ. The schedulers are written for the
 * newest kernel; older ones are made to look like it here.
 *
 * isolio_private.h is generated at build time from the BTF of the kernel the
 * module is built for: the block layer's private structures, and one
 * ISOLIO_HAVE_ macro for each question in features.txt. What BTF does not
 * have, inline helpers and prototypes, is written here.
 */
#ifndef _ISOLIO_COMPAT_H
#define _ISOLIO_COMPAT_H

#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/ctype.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/iocontext.h>
#include <linux/module.h>
#include <linux/percpu-refcount.h>
#include <linux/radix-tree.h>
#include <linux/sbitmap.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/u64_stats_sync.h>

#include "isolio_private.h"

/* First of all in a module's init: 0 if it fits the running kernel; see fit.c. */
int isolio_check_fit(void);

/* A variable: BTF has functions' prototypes only. */
extern struct blkcg blkcg_root;

/* A macro of the private elevator.h, in kernels that have no flag of the queue. */
#define ISOLIO_ELEVATOR_FLAG_DISABLE_WBT	1

/*
 * Writeback throttling holds buffered writes back before the scheduler sees them, a
 * few at a time for the whole disk: a scheduler that shares it by cgroup turns that
 * off while it is there, unless wbt_lat_usec was set. A flag says that it stays off
 * if something else, such as io.cost, sets the default meanwhile. Called with the queue
 * frozen and its elevator set.
 */
static inline void isolio_wbt_disable(struct request_queue *q)
{
#if ISOLIO_HAVE_WBT_QUEUE_FLAG
	blk_queue_flag_set(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#elif ISOLIO_HAVE_ELEVATOR_FLAGS
	set_bit(ISOLIO_ELEVATOR_FLAG_DISABLE_WBT, &q->elevator->flags);
#endif
#if ISOLIO_HAVE_WBT_DISK
	wbt_disable_default(q->disk);
#elif ISOLIO_HAVE_WBT
	wbt_disable_default(q);
#endif
}

static inline void isolio_wbt_enable(struct request_queue *q)
{
#if ISOLIO_HAVE_WBT_QUEUE_FLAG
	blk_queue_flag_clear(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#elif ISOLIO_HAVE_ELEVATOR_FLAGS
	clear_bit(ISOLIO_ELEVATOR_FLAG_DISABLE_WBT, &q->elevator->flags);
#endif
#if ISOLIO_HAVE_WBT_DISK
	wbt_enable_default(q->disk);
#elif ISOLIO_HAVE_WBT
	wbt_enable_default(q);
#endif
}

/*
 * A policy is activated on a disk; before 6.2, on its queue. The queue is frozen: no memory
 * may be had by writing to it.
 */
static inline int isolio_activate_policy(struct request_queue *q,
					 const struct blkcg_policy *pol)
{
	unsigned int flags = memalloc_noio_save();
	int ret;

#if ISOLIO_HAVE_ACTIVATE_POLICY_DISK
	ret = blkcg_activate_policy(q->disk, pol);
#else
	ret = blkcg_activate_policy(q, pol);
#endif
	memalloc_noio_restore(flags);
	return ret;
}

static inline void isolio_deactivate_policy(struct request_queue *q,
					    const struct blkcg_policy *pol)
{
#if ISOLIO_HAVE_ACTIVATE_POLICY_DISK
	blkcg_deactivate_policy(q->disk, pol);
#else
	blkcg_deactivate_policy(q, pol);
#endif
}

/*
 * pd_alloc_fn got other parameters in another order: head of one named @name
 * that sees a request_queue and a gfp_t.
 */
#if ISOLIO_HAVE_PD_ALLOC_DISK
#define isolio_pd_alloc_fn(name, qarg, gfp)				\
name##_q(struct request_queue *qarg, gfp_t gfp);			\
static struct blkg_policy_data *name(struct gendisk *disk,		\
				     struct blkcg *blkcg, gfp_t gfp)	\
{									\
	return name##_q(disk->queue, gfp);				\
}									\
static struct blkg_policy_data *name##_q(struct request_queue *qarg, gfp_t gfp)
#else
#define isolio_pd_alloc_fn(name, qarg, gfp)				\
name(gfp_t gfp, struct request_queue *qarg, struct blkcg *blkcg)
#endif

/*
 * Configuration of one device in a cgroup file: "MAJ:MIN BODY". Begin leaves
 * ctx->blkg and ctx->body; on success it holds queue_lock until the end.
 * 6.1 has prep and finish; 6.4 added init and exit; 7.x splits them.
 */
static inline int isolio_blkg_conf_begin(struct blkcg *blkcg,
					 const struct blkcg_policy *pol,
					 char *input, struct blkg_conf_ctx *ctx)
{
#if ISOLIO_HAVE_BLKG_CONF_UNPREP
	int ret;

	blkg_conf_init(ctx, input);
	ret = blkg_conf_open_bdev(ctx);
	if (ret)
		return ret;
	ret = blkg_conf_prep(blkcg, pol, ctx);
	if (ret)
		blkg_conf_close_bdev(ctx);
	return ret;
#elif ISOLIO_HAVE_BLKG_CONF_EXIT
	int ret;

	blkg_conf_init(ctx, input);
	ret = blkg_conf_prep(blkcg, pol, ctx);
	if (ret)
		blkg_conf_exit(ctx);
	return ret;
#else
	return blkg_conf_prep(blkcg, pol, input, ctx);
#endif
}

static inline void isolio_blkg_conf_end(struct blkg_conf_ctx *ctx)
{
#if ISOLIO_HAVE_BLKG_CONF_UNPREP
	blkg_conf_unprep(ctx);
	blkg_conf_close_bdev(ctx);
#elif ISOLIO_HAVE_BLKG_CONF_EXIT
	blkg_conf_exit(ctx);
#else
	blkg_conf_finish(ctx);
#endif
}

static inline struct blkcg *isolio_css_to_blkcg(struct cgroup_subsys_state *css)
{
	return container_of(css, struct blkcg, css);
}

static inline struct blkg_policy_data *
isolio_blkg_to_pd(struct blkcg_gq *blkg, const struct blkcg_policy *pol)
{
	return blkg ? READ_ONCE(blkg->pd[pol->plid]) : NULL;
}

static inline struct blkcg_policy_data *
isolio_blkcg_to_cpd(struct blkcg *blkcg, const struct blkcg_policy *pol)
{
	return blkcg->cpd[pol->plid];
}

static inline struct request_queue *isolio_blkg_q(struct blkcg_gq *blkg)
{
	return blkg->q;
}

/* The caller has a reference, or knows of one: a bio's blkg has one. */
static inline void isolio_blkg_get(struct blkcg_gq *blkg)
{
	percpu_ref_get(&blkg->refcnt);
}

/* For a blkg that was looked up: false if its last reference is gone. */
static inline bool isolio_blkg_tryget(struct blkcg_gq *blkg)
{
	return percpu_ref_tryget(&blkg->refcnt);
}

/* Its cgroup is deleted, or its device. */
static inline bool isolio_blkg_is_dying(struct blkcg_gq *blkg)
{
	return percpu_ref_is_dying(&blkg->refcnt);
}

static inline void isolio_blkg_put(struct blkcg_gq *blkg)
{
	percpu_ref_put(&blkg->refcnt);
}

/* The pair of a cgroup and a queue, or NULL; under rcu_read_lock(). */
static inline struct blkcg_gq *isolio_blkg_lookup(struct blkcg *blkcg,
						  struct request_queue *q)
{
	struct blkcg_gq *blkg;

	if (blkcg == &blkcg_root)
		return q->root_blkg;

	/* Most cgroups use one device: the block layer keeps the last one. */
	blkg = rcu_dereference(blkcg->blkg_hint);
	if (blkg && blkg->q == q)
		return blkg;

	blkg = radix_tree_lookup(&blkcg->blkg_tree, q->id);
	return blkg && blkg->q == q ? blkg : NULL;
}

/*
 * Whether the scheduler prepared the request, so that its words are in rq->elv.
 * The block layer keeps those of flushes for itself.
 */
static inline bool isolio_rq_has_sched_data(struct request *rq)
{
#ifdef RQF_ELVPRIV
	return rq->rq_flags & RQF_ELVPRIV;
#else
	return rq->rq_flags & RQF_USE_SCHED;
#endif
}

/*
 * What the submitting task has of the queue, with a reference to its io_context
 * for put_io_context(); NULL if it has none and there is no memory.
 */
static inline struct io_cq *isolio_get_icq(struct request_queue *q)
{
#if ISOLIO_HAVE_ICQ
	return ioc_find_get_icq(q);
#else
	return NULL;
#endif
}

/* Whether a request may be found for merging while it waits. */
static inline bool isolio_rq_mergeable(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
	case REQ_OP_DISCARD:
		return !(rq->cmd_flags & REQ_NOMERGE_FLAGS) &&
		       !(rq->rq_flags & RQF_NOMERGE_FLAGS);
	default:
		return false;
	}
}

/* hrtimer_setup() replaced hrtimer_init() in 6.15. */
static inline void
isolio_hrtimer_setup(struct hrtimer *timer,
		     enum hrtimer_restart (*fn)(struct hrtimer *timer),
		     clockid_t clock, enum hrtimer_mode mode)
{
#if ISOLIO_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

/*
 * The scheduler's own data. Since 6.19 (and 6.18.3) the core allocates it,
 * through alloc_sched_data, before it freezes the queue, and the
 * elevator_queue as well; before, init_sched does both.
 */
#if ISOLIO_HAVE_ALLOC_SCHED_DATA
#define ISOLIO_SCHED_DATA_OPS(alloc, free)	\
	.alloc_sched_data = (alloc), .free_sched_data = (free),
#define isolio_init_sched_arg	struct elevator_queue *eq

/* Returns the data; sets q->elevator. */
static inline void *isolio_elevator_begin(struct request_queue *q,
					  struct elevator_queue *eq,
					  void *(*alloc)(struct request_queue *q))
{
	q->elevator = eq;
	return eq->elevator_data;
}

/* init_sched fails after isolio_elevator_begin(). */
static inline void isolio_elevator_abort(struct request_queue *q,
					 void (*free)(void *data))
{
	q->elevator = NULL;
}

/* exit_sched is done with the data. */
static inline void isolio_elevator_end(void *data, void (*free)(void *data))
{
}
#else
#define ISOLIO_SCHED_DATA_OPS(alloc, free)

#if ISOLIO_HAVE_INIT_SCHED_QUEUE
#define isolio_init_sched_arg	struct elevator_queue *eq
#else
#define isolio_init_sched_arg	struct elevator_type *eq
#endif

/* The queue is frozen here, which per-CPU memory and elevator_alloc() are not told. */
static inline void *isolio_elevator_begin(struct request_queue *q,
					  isolio_init_sched_arg,
					  void *(*alloc)(struct request_queue *q))
{
	unsigned int flags = memalloc_noio_save();
	struct elevator_queue *new;
	void *data = NULL;

#if ISOLIO_HAVE_INIT_SCHED_QUEUE
	new = eq;
#else
	new = elevator_alloc(q, eq);
#endif
	if (new)
		data = alloc(q);
	memalloc_noio_restore(flags);
	if (!new)
		return NULL;
	if (!data) {
#if !ISOLIO_HAVE_INIT_SCHED_QUEUE
		kobject_put(&new->kobj);
#endif
		return NULL;
	}
	new->elevator_data = data;
	q->elevator = new;
	return data;
}

static inline void isolio_elevator_abort(struct request_queue *q,
					 void (*free)(void *data))
{
	struct elevator_queue *eq = q->elevator;

	q->elevator = NULL;
	free(eq->elevator_data);
#if !ISOLIO_HAVE_INIT_SCHED_QUEUE
	kobject_put(&eq->kobj);
#endif
}

static inline void isolio_elevator_end(void *data, void (*free)(void *data))
{
	free(data);
}
#endif

/* insert_requests gets flags since 6.4; before, whether to insert at the head. */
#if ISOLIO_HAVE_INSERT_FLAGS
#define isolio_insert_arg		blk_insert_t flags
/* A macro of the private blk-mq.h, in all kernels that have blk_insert_t. */
#define isolio_insert_at_head(flags)	((__force unsigned int)(flags) & 1U)
#else
#define isolio_insert_arg		bool flags
#define isolio_insert_at_head(flags)	(flags)
#endif

/*
 * Depth of the scheduler's tags that an allocation may use. limit_depth counts
 * in tags of the whole map (6.18, stable 6.12); before, in bits of each of
 * its words. @min is the smallest depth that limit_depth will ever ask for:
 * sbitmap needs to know it, or sleepers are not woken.
 */
static inline void isolio_set_min_depth(struct blk_mq_hw_ctx *hctx,
					unsigned int min)
{
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, min);
}

static inline unsigned int isolio_depth_of_pct(struct blk_mq_hw_ctx *hctx,
					       unsigned int pct)
{
#if ISOLIO_HAVE_QUEUE_ASYNC_DEPTH
	unsigned int depth = hctx->queue->nr_requests;
#else
	/* The queue's nr_requests is still the old one when depth_updated is called. */
	struct sbitmap *map = &hctx->sched_tags->bitmap_tags.sb;
	unsigned int depth = map->depth;

	/* Of a map with fewer tags than a word has room for, those are all. */
	if (!ISOLIO_HAVE_DEPTH_OF_MAP)
		depth = min(depth, 1U << map->shift);
#endif
	return max(depth * pct / 100, 1U);
}

/* The disk says that it turns. */
static inline bool isolio_turns(struct request_queue *q)
{
#ifdef blk_queue_rot
	return blk_queue_rot(q);
#else
	return !blk_queue_nonrot(q);
#endif
}

/* The hardware context that a bio submitted through this software queue would go to. */
static inline struct blk_mq_hw_ctx *isolio_map_ctx(struct blk_mq_ctx *ctx, blk_opf_t opf)
{
	enum hctx_type type = HCTX_TYPE_DEFAULT;

	if (opf & REQ_POLLED)
		type = HCTX_TYPE_POLL;
	else if ((opf & REQ_OP_MASK) == REQ_OP_READ)
		type = HCTX_TYPE_READ;

	return ctx->hctxs[type];
}

/* And here and now. */
static inline struct blk_mq_hw_ctx *isolio_map_queue(struct request_queue *q,
						     blk_opf_t opf)
{
	return isolio_map_ctx(per_cpu_ptr(q->queue_ctx, raw_smp_processor_id()), opf);
}

/* depth_updated is told the queue; before, each of its hardware contexts. */
#if ISOLIO_HAVE_DEPTH_UPDATED_QUEUE
#define isolio_depth_updated_fn(name, hctx)				\
name##_hctx(struct blk_mq_hw_ctx *hctx);				\
static void name(struct request_queue *q)				\
{									\
	struct blk_mq_hw_ctx *one;					\
	unsigned long i;						\
									\
	queue_for_each_hw_ctx(q, one, i)				\
		name##_hctx(one);					\
}									\
static void name##_hctx(struct blk_mq_hw_ctx *hctx)
#define isolio_depth_updated(name)	name##_hctx
#else
#define isolio_depth_updated_fn(name, hctx)				\
name(struct blk_mq_hw_ctx *hctx)
#define isolio_depth_updated(name)	name
#endif

#if ISOLIO_HAVE_CONST_ELEVATOR_ATTRS
#define isolio_attrs_const	const
#else
#define isolio_attrs_const
#endif

/* Files in debugfs, on kernels that have them (CONFIG_BLK_DEBUG_FS). */
#if ISOLIO_HAVE_ELEVATOR_DEBUGFS
#define ISOLIO_DEBUGFS_ATTRS(queue_attrs)	.queue_debugfs_attrs = (queue_attrs),
#else
struct blk_mq_debugfs_attr {
	const char *name;
	umode_t mode;
	int (*show)(void *data, struct seq_file *m);
	ssize_t (*write)(void *data, const char __user *buf, size_t count, loff_t *pos);
};

#define ISOLIO_DEBUGFS_ATTRS(queue_attrs)
#endif

/*
 * Called at the end of insert_requests: the task that submits dispatches what it inserted. The
 * block layer would leave a request without a plug to a worker, which takes two switches of
 * tasks; without a scheduler the task sends it to the device as well. Not when the task is
 * about to sleep, as a driver may sleep too; nor while another CPU dispatches, with @lock held.
 */
static inline void isolio_dispatch_here(struct blk_mq_hw_ctx *hctx, spinlock_t *lock)
{
	if (!current->plug && task_is_running(current) &&
	    !(hctx->flags & BLK_MQ_F_BLOCKING) && !spin_is_locked(lock))
		blk_mq_run_hw_queue(hctx, false);
}

/*
 * Of a file in debugfs: whether the queue has this module's elevator, which then stays
 * until isolio_debugfs_end(). Newer kernels remove the files after they have taken
 * the elevator away, or set another; older ones before. It may be that the kernel waits
 * for the file with the lock held: then the reader gets -EBUSY, and comes again.
 */
static inline int isolio_debugfs_begin(struct request_queue *q)
{
#if ISOLIO_HAVE_ELEVATOR_LOCK
	if (!mutex_trylock(&q->elevator_lock))
		return -EBUSY;
	if (q->elevator && q->elevator->type->elevator_owner == THIS_MODULE)
		return 0;
	mutex_unlock(&q->elevator_lock);
	return -ENODEV;
#else
	return 0;
#endif
}

static inline void isolio_debugfs_end(struct request_queue *q)
{
#if ISOLIO_HAVE_ELEVATOR_LOCK
	mutex_unlock(&q->elevator_lock);
#endif
}

/* What modeldisk says of a disk when it makes one. */
struct isolio_disk_limits {
	unsigned int max_sects;		/* of a request */
	unsigned int max_segments;	/* of a request */
	bool rotational;
	bool write_cache;
	bool fua;			/* with write_cache */
	unsigned int max_discard_sects;	/* of a request; 0: no discards */
	unsigned int max_discard_segments;
	unsigned int discard_granularity;	/* bytes */
	unsigned int max_write_zeroes_sects;	/* of a request; 0: none */
	unsigned int max_secure_erase_sects;	/* of a request; 0: none */
};

/* Requests may be merged, on kernels that want to be told. */
#if ISOLIO_HAVE_SHOULD_MERGE
#define ISOLIO_SHOULD_MERGE	BLK_MQ_F_SHOULD_MERGE
#else
#define ISOLIO_SHOULD_MERGE	0
#endif

#if ISOLIO_HAVE_ALLOC_DISK_LIMITS
#define isolio_alloc_disk(set, given, data)	({			\
	struct queue_limits __limits = {				\
		.physical_block_size	= 4096,				\
		.max_hw_sectors		= (given)->max_sects,		\
		.max_segments		= (given)->max_segments,	\
		.features		=				\
			((given)->rotational ? BLK_FEAT_ROTATIONAL : 0) | \
			((given)->write_cache ? BLK_FEAT_WRITE_CACHE : 0) | \
			((given)->write_cache && (given)->fua ?		\
			 BLK_FEAT_FUA : 0),				\
		.max_hw_discard_sectors	= (given)->max_discard_sects,	\
		.max_discard_segments	= (given)->max_discard_segments, \
		.discard_granularity	= (given)->max_discard_sects ?	\
					  (given)->discard_granularity : 0, \
		.max_write_zeroes_sectors = (given)->max_write_zeroes_sects, \
		.max_secure_erase_sectors = (given)->max_secure_erase_sects, \
	};								\
									\
	blk_mq_alloc_disk(set, &__limits, data);			\
})
#else
static inline struct gendisk *
isolio_set_limits(struct gendisk *disk, const struct isolio_disk_limits *given)
{
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	blk_queue_physical_block_size(q, 4096);
	blk_queue_max_hw_sectors(q, given->max_sects);
	blk_queue_max_segments(q, given->max_segments);
	if (!given->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	blk_queue_write_cache(q, given->write_cache, given->write_cache && given->fua);
	if (given->max_discard_sects) {
		q->limits.discard_granularity = given->discard_granularity;
		blk_queue_max_discard_sectors(q, given->max_discard_sects);
		blk_queue_max_discard_segments(q, given->max_discard_segments);
	}
	blk_queue_max_write_zeroes_sectors(q, given->max_write_zeroes_sects);
	blk_queue_max_secure_erase_sectors(q, given->max_secure_erase_sects);
	return disk;
}

#define isolio_alloc_disk(set, given, data) \
	isolio_set_limits(blk_mq_alloc_disk(set, data), given)
#endif

/* An annotation for newer compilers and headers. */
#ifndef __counted_by
#define __counted_by(member)
#endif

#endif /* _ISOLIO_COMPAT_H */
