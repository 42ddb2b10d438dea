/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sfq: what its files share. The essay is in main.c.
 */
#ifndef _SFQ_H
#define _SFQ_H

#include <linux/blk-mq.h>
#include <linux/iocontext.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "guard.h"
#include "latency.h"
#include "turn.h"

struct sfq_device;

/*
 * Requests of one process, or all asynchronous ones. One for each process and
 * device, in the process's icq; under sfq_device.lock, but that nr_waiting, think_ns
 * and is_orphan are read without it: see sfq_queue_is_quick().
 */
struct sfq_queue {
	struct list_head rqs[SFQ_NR_DIRS];	/* that wait, in order of arrival */
	u32 nr_waiting[SFQ_NR_DIRS];
	struct list_head turn_node;	/* in sfq_device.turns while any waits */
	struct list_head reader_node;	/* in .readers while a read may go */
	struct sfq_turn turn;		/* what has gone in this turn */
	u64 think_ns;			/* from a read's completion to the next read */
	u64 done_ns;			/* of the last read, no lock; 0: counted */
	pid_t pid;			/* 0: no process's */
	bool is_orphan;			/* its process has ended */
};

/* What a process has of a device; the core frees it after the last request. */
struct sfq_icq {
	struct io_cq icq;		/* must be first */
	struct sfq_queue queue;
};

/* One for each CPU and device; no lock, its owner adds. */
struct sfq_latency {
	u32 nr[SFQ_NR_DIRS][LAT_NR_BUCKETS];
	u64 max_ns[SFQ_NR_DIRS];
};

static inline struct sfq_queue *sfq_icq_queue(struct io_cq *icq)
{
	return &container_of(icq, struct sfq_icq, icq)->queue;
}

/* What was decided, for debugfs; under sfq_device.lock. */
struct sfq_stats {
	u64 nr_inserted;
	u64 nr_merged;			/* into others, after they were inserted */
	u64 nr_dispatched;
	u64 nr_selected[SFQ_PICK_ASYNC + 1];
	u64 nr_expired[SFQ_NR_DIRS];
	u64 nr_held;			/* times that writes waited for a read */
	u64 nr_orphans;			/* processes that ended with requests waiting */
	u64 nr_orphaned;		/* those requests */
};

/* One for each device. */
struct sfq_device {
	struct request_queue *q;
	dev_t dev;
	u32 nr_tags;			/* of the device or, on SCSI, of its host */
	u32 async_depth;		/* of the scheduler's tags, for all but reads */
	struct sfq_latency __percpu *latency;
	struct guard *guard;		/* has its own lock */

	/* In the device; no lock. */
	atomic_t nr_inside;
	atomic_t nr_writes_inside;

	/*
	 * Written under the lock, read by sfq_has_work() without: how many
	 * requests wait, and how many of them not to be written.
	 */
	u32 nr_waiting;
	u32 nr_not_writes;
	u64 last_read_ns;		/* when one was queued */
	u64 held_until_ns;		/* writes wait for a read that is expected */

	/* Written on completion, no lock: guesses. */
	u64 expected_until_ns;		/* a read is */
	/*
	 * Since when writes may not go beside reads so that it is seen what those take
	 * alone, and no read has completed; 0: not now. Also set under the lock.
	 */
	u64 untold_since_ns;
	struct sfq_reads reads;

	/* Tunables; no lock. */
	u32 reads_first;
	u32 writes_inside_pct;
	u32 unit_bytes;
	u64 quiet_ns;
	u64 patience_ns;
	u64 expire_ns[SFQ_NR_DIRS];

	spinlock_t lock;		/* all below; with interrupts off */
	struct sfq_limits limits;	/* tunables as well */
	struct list_head urgent;	/* what came back, or must go first */
	struct list_head turns;		/* processes, in the order of their turns */
	struct list_head readers;	/* those with a read that may go */
	struct sfq_queue async;
	struct sfq_queue nobodys;	/* synchronous, of no known process */
	u32 nr_selections;		/* since the async queue's turn */
	struct sfq_cycle cycle;
	bool is_reader_quick;		/* the last read's process reads on at once */
	struct hrtimer timer;		/* at held_until_ns; its own lock */
	struct list_head deadline[SFQ_NR_DIRS];	/* all that wait, by arrival */
	struct rb_root sorted[SFQ_NR_DIRS];	/* by sector, for front merges */
	struct sfq_stats stats;
};

/*
 * A request's words. While it waits, priv[] links it in sfq_device.deadline. In
 * the device priv[0] says in which direction it counts and among how many writes
 * it came there, priv[1] keeps its icq and icq is the guard's. Else priv[] is NULL.
 */
static inline struct list_head *sfq_rq_deadline(struct request *rq)
{
	BUILD_BUG_ON(sizeof(rq->elv.priv) != sizeof(struct list_head));
	return (struct list_head *)rq->elv.priv;
}

static inline struct request *sfq_deadline_rq(struct list_head *node)
{
	return container_of((void *)node, struct request, elv.priv);
}

/* 0 is for a request that is not in flight. */
static inline void sfq_rq_set_inside(struct request *rq, enum sfq_dir dir,
				     enum sfq_among among)
{
	rq->elv.priv[0] = (void *)(4UL * among + dir + 1);
}

static inline enum sfq_dir sfq_rq_dir(struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] % 4 - 1;
}

static inline enum sfq_among sfq_rq_among(struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] / 4;
}

/*
 * Whether a process, whose read this is, is quick with the next one, and has none here:
 * writes may have to wait for that. No lock: a guess.
 */
static inline bool sfq_queue_is_quick(struct sfq_device *sd, struct sfq_queue *sq)
{
	return !READ_ONCE(sq->nr_waiting[SFQ_READ]) && !READ_ONCE(sq->is_orphan) &&
	       READ_ONCE(sq->think_ns) <= READ_ONCE(sd->patience_ns);
}

static inline struct sfq_device *sfq_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/*
 * Requests that the device takes. A SCSI host has tags for all of its LUNs; what a
 * LUN takes of them is in queue_depth and changes with what the LUN can bear. Other
 * drivers leave that 0.
 */
static inline u32 sfq_depth(struct sfq_device *sd)
{
	u32 own = READ_ONCE(sd->q->queue_depth);

	return own ? min(sd->nr_tags, own) : sd->nr_tags;
}

/* select.c */
void sfq_queue_init(struct sfq_queue *sq, pid_t pid);
void sfq_queue_add(struct sfq_device *sd, struct request *rq);
void sfq_queue_del(struct sfq_device *sd, struct request *rq);
void sfq_queue_update(struct sfq_device *sd, struct sfq_queue *sq);
void sfq_queue_orphan(struct sfq_device *sd, struct sfq_queue *sq);
struct request *sfq_select(struct sfq_device *sd);
u32 sfq_device_writes_max(struct sfq_device *sd, u64 now_ns);

/* tunables.c */
void sfq_tunables_init(struct sfq_device *sd);
extern isolio_attrs_const struct elv_fs_entry sfq_attrs[];

/* debugfs.c */
extern const struct blk_mq_debugfs_attr sfq_queue_debugfs_attrs[];

#endif /* _SFQ_H */
