/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The block layer as a scheduler sees it: what of its structures schedulers read, on
 * lines that only a device's own use writes.
 */
#ifndef SHIM_LINUX_BLKDEV_H
#define SHIM_LINUX_BLKDEV_H

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sbitmap.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time64.h>

#ifndef static_assert
#define static_assert	_Static_assert
#endif
#define noinline	__attribute__((noinline))
#define __force
#define __init
#define __exit
#define __user
#define __releases(lock)
#define ____cacheline_aligned		__attribute__((aligned(64)))
#define ____cacheline_aligned_in_smp	____cacheline_aligned
#define IS_ENABLED(option)	0

typedef u32 blk_opf_t;
typedef u32 req_flags_t;
typedef u32 blk_mq_req_flags_t;
typedef unsigned int blk_insert_t;
typedef unsigned int umode_t;

/* Operations and flags of requests; their values matter only here. */
#define REQ_OP_MASK	0xffU
#define REQ_OP_READ	0U
#define REQ_OP_WRITE	1U
#define REQ_OP_FLUSH	2U
#define REQ_OP_DISCARD	3U
#define REQ_OP_ZONE_APPEND	7U
#define REQ_SYNC	(1U << 11)
#define REQ_META	(1U << 12)
#define REQ_IDLE	(1U << 13)
#define REQ_SWAP	(1U << 14)
#define REQ_POLLED	(1U << 15)
#define REQ_NOWAIT	(1U << 18)
#define REQ_NOMERGE_FLAGS	(1U << 16)
/* No flush comes here. */
#define op_is_flush(opf)	((void)(opf), false)
#define RQF_FLUSH_SEQ	(1U << 0)
#define RQF_USE_SCHED	(1U << 1)
#define RQF_DONTPREP	(1U << 2)
#define RQF_NOMERGE_FLAGS	(1U << 3)
#define BLK_MQ_REQ_NOWAIT	1U
#define BLK_MQ_F_TAG_HCTX_SHARED	1U
#define BLK_MQ_F_BLOCKING		2U
#define BLK_MQ_S_INACTIVE		3
#define QUEUE_FLAG_SQ_SCHED	0

#define op_is_write(opf)	((opf) & 1U)
#define op_is_sync(opf)	(((opf) & REQ_OP_MASK) == REQ_OP_READ || (opf) & REQ_SYNC)

enum hctx_type {
	HCTX_TYPE_DEFAULT,
	HCTX_TYPE_READ,
	HCTX_TYPE_POLL,
	HCTX_MAX_TYPES,
};

#define SECTOR_SHIFT	9
#define MAJOR(dev)	((unsigned int)((dev) >> 20))
#define MINOR(dev)	((unsigned int)((dev) & 0xfffff))

typedef u32 shim_dev_t;
#define dev_t		shim_dev_t

struct blkcg_gq;
struct elevator_queue;
struct request_queue;

struct gendisk {
	struct request_queue *queue;
	struct backing_dev_info *bdi;
	int major, first_minor;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct blk_mq_tags {
	unsigned int nr_tags;
	unsigned int nr_reserved_tags;
	struct sbitmap_queue bitmap_tags;
};

struct blk_mq_queue_map {
	unsigned int nr_queues;
};

struct blk_mq_tag_set {
	struct blk_mq_queue_map map[HCTX_TYPE_POLL + 1];
	unsigned int nr_maps;
	unsigned int flags;
	unsigned int queue_depth;
};

struct blk_mq_hw_ctx {
	struct request_queue *queue;
	void *sched_data;
	struct blk_mq_tags *tags, *sched_tags;
	unsigned long state;
	unsigned int queue_num, numa_node, nr_ctx, flags, type;
	/* A run was asked for; the CPUs mapped to it look at this. */
	unsigned int must_run ____cacheline_aligned;
	unsigned int must_restart;
} ____cacheline_aligned;

struct blk_mq_ctx {
	unsigned int cpu;
	unsigned int index_hw[HCTX_MAX_TYPES];
	struct blk_mq_hw_ctx *hctxs[HCTX_MAX_TYPES];
} ____cacheline_aligned;

struct request_queue {
	struct elevator_queue *elevator;
	struct gendisk *disk;
	struct blkcg_gq *root_blkg;
	struct blk_mq_tag_set *tag_set;
	struct blk_mq_ctx *queue_ctx;
	struct blk_mq_hw_ctx **queue_hw_ctx;
	unsigned long nr_requests;
	unsigned int async_depth;
	unsigned int nr_hw_queues;
	int node, id;
	/* Calls of blk_mq_run_hw_queue(), by CPU. */
	u64 *nr_runs;
} ____cacheline_aligned;

struct bio {
	struct block_device *bi_bdev;
	struct blkcg_gq *bi_blkg;
	blk_opf_t bi_opf;
	unsigned short bi_ioprio;
	struct {
		u64 bi_sector;
	} bi_iter;
	unsigned int bytes;
};

struct request {
	struct list_head queuelist;
	struct request_queue *q;
	struct blk_mq_ctx *mq_ctx;
	struct blk_mq_hw_ctx *mq_hctx;
	struct bio *bio;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
	unsigned int bytes;
	u64 sector;
	u64 start_time_ns, io_start_time_ns;
	struct {
		void *icq;
		void *priv[2];
	} elv;
};

#define req_get_ioprio(rq)		((rq)->bio ? (rq)->bio->bi_ioprio : 0)
#define req_op(rq)			((rq)->cmd_flags & REQ_OP_MASK)
#define rq_data_dir(rq)			(req_op(rq) & 1U)
#define blk_rq_bytes(rq)		((rq)->bytes)
#define blk_rq_pos(rq)			((rq)->sector)
#define blk_rq_sectors(rq)		((rq)->bytes >> SECTOR_SHIFT)
#define bio_end_sector(bio)		((bio)->bi_iter.bi_sector + ((bio)->bytes >> SECTOR_SHIFT))
#define blk_rq_stats_sectors(rq)	((rq)->bytes >> SECTOR_SHIFT)
#define bio_has_data(bio)		((bio) && (bio)->bytes && \
					 ((bio)->bi_opf & REQ_OP_MASK) != REQ_OP_DISCARD)
#define disk_devt(disk)			((dev_t)((disk)->major << 20 | (disk)->first_minor))

#define queue_for_each_hw_ctx(q, hctx, i)				\
	for ((i) = 0; (i) < (q)->nr_hw_queues &&			\
	     ((hctx) = (q)->queue_hw_ctx[i], true); (i)++)

#define blk_queue_flag_set(flag, q)		((void)(q))
#define blk_queue_flag_clear(flag, q)		((void)(q))
#define blk_queue_nonrot(q)			((void)(q), true)
#define blk_stat_enable_accounting(q)		((void)(q))
#define blk_stat_disable_accounting(q)		((void)(q))

#define ktime_get_ns()				shim_now_ns()

/* What a worker does in the kernel: the CPUs of @hctx look whether they are to run it. */
shim_uncounted static inline void blk_mq_run_hw_queue(struct blk_mq_hw_ctx *hctx, bool async)
{
	(*this_cpu_ptr(hctx->queue->nr_runs))++;
	__atomic_store_n(&hctx->must_run, 1, __ATOMIC_SEQ_CST);
}

shim_uncounted static inline void blk_mq_run_hw_queues(struct request_queue *q, bool async)
{
	unsigned int i;

	for (i = 0; i < q->nr_hw_queues; i++)
		blk_mq_run_hw_queue(q->queue_hw_ctx[i], async);
}

static inline void blk_mq_sched_mark_restart_hctx(struct blk_mq_hw_ctx *hctx)
{
	WRITE_ONCE(hctx->must_restart, 1);
}

/* The last eight are looked at, newest first; none of a test can be merged. */
static inline bool blk_bio_list_merge(struct request_queue *q, struct list_head *list,
				      struct bio *bio, unsigned int nr_segs)
{
	struct list_head *at = list->prev;
	int checked;

	for (checked = 0; at != list && checked < 8; checked++, at = at->prev)
		if (list_entry(at, struct request, queuelist)->bio == bio)
			return true;
	return false;
}

#endif
