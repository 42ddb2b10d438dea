/* SPDX-License-Identifier: GPL-2.0-only */
/* What kyber-fairness keeps in a request, and what it makes of its kind. */
#ifndef _KF_REQUEST_H
#define _KF_REQUEST_H

#include <linux/ioprio.h>

#include "kyber-fairness.h"

/*
 * A request's two words. priv[0], from the low end: whether it is in the device, has a place,
 * was alone there when it was dispatched, counts as a large one, was sent within a
 * transaction; domain token + 1, what it was charged in units of KF_COST_UNIT_SHIFT, and how
 * long it was throttled, in units of KF_HELD_UNIT_SHIFT.
 * priv[1]: backlog, and in the lowest bits I/O class, and whether it is in first_load.
 */
#define KF_RQ_OUT		BIT(0)
#define KF_RQ_PLACE		BIT(1)
#define KF_RQ_ALONE		BIT(2)
#define KF_RQ_LARGE		BIT(3)
#define KF_RQ_WITHIN		BIT(4)
#define KF_RQ_TOKEN_SHIFT	5
#define KF_RQ_COST_SHIFT	(KF_RQ_TOKEN_SHIFT + KF_TOKEN_BITS)
#define KF_RQ_HELD_SHIFT	(KF_RQ_COST_SHIFT + KF_COST_BITS)
#define KF_HELD_UNIT_SHIFT	16
#define KF_RQ_CLASS_MASK	3UL
#define KF_RQ_FIRST		4UL
static_assert(BITS_PER_LONG == 64);

static inline enum kf_class kf_class_of(unsigned short ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return KF_CLASS_RT;
	case IOPRIO_CLASS_IDLE:
		return KF_CLASS_IDLE;
	default:
		return KF_CLASS_BE;
	}
}

static inline unsigned long kf_rq_word(struct request *rq)
{
	return (unsigned long)rq->elv.priv[0];
}

static inline struct kf_backlog *kf_rq_backlog(struct request *rq)
{
	return (void *)((unsigned long)rq->elv.priv[1] & ~(KF_RQ_CLASS_MASK | KF_RQ_FIRST));
}

static inline enum kf_class kf_rq_class(struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & KF_RQ_CLASS_MASK;
}

static inline void kf_rq_set_backlog(struct request *rq, struct kf_backlog *kb,
				     enum kf_class class)
{
	rq->elv.priv[1] = (void *)((unsigned long)kb | class);
}

static inline bool kf_rq_is_first(struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & KF_RQ_FIRST;
}

/* It goes first; it has its backlog. */
static inline void kf_rq_set_first(struct request *rq)
{
	if (kf_rq_is_first(rq))
		return;
	atomic64_add(kf_load_of(rq->start_time_ns), &kf_rq_backlog(rq)->first_load);
	rq->elv.priv[1] = (void *)((unsigned long)rq->elv.priv[1] | KF_RQ_FIRST);
}

/* It was dispatched, and has not completed. */
static inline bool kf_rq_is_out(struct request *rq)
{
	return kf_rq_word(rq) & KF_RQ_OUT;
}

static inline bool kf_rq_has_place(struct request *rq)
{
	return kf_rq_word(rq) & KF_RQ_PLACE;
}

/* -1: it needed none. */
static inline int kf_rq_token(struct request *rq)
{
	return (int)(kf_rq_word(rq) >> KF_RQ_TOKEN_SHIFT &
		     GENMASK(KF_TOKEN_BITS - 1, 0)) - 1;
}

static inline bool kf_rq_was_alone(struct request *rq)
{
	return kf_rq_word(rq) & KF_RQ_ALONE;
}

/* One of those in kf_queue.nr_large. */
static inline bool kf_rq_is_counted(struct request *rq)
{
	return kf_rq_word(rq) & KF_RQ_LARGE;
}

static inline void kf_rq_count(struct request *rq)
{
	rq->elv.priv[0] = (void *)(kf_rq_word(rq) | KF_RQ_LARGE);
}

/*
 * A direct write: a program has as many of these outstanding as it chose to. The page
 * cache sends as many as there are tags, and often of 1 MiB, whether a program waits for
 * the file (fsync) or not. Writeback throttling tells them apart like this.
 */
static inline bool kf_is_direct_write(blk_opf_t opf)
{
	return (opf & (REQ_SYNC | REQ_IDLE)) == (REQ_SYNC | REQ_IDLE);
}

/* A write of pages of the page cache. */
static inline bool kf_is_buffered_write(blk_opf_t opf)
{
	return (opf & REQ_OP_MASK) == REQ_OP_WRITE && !kf_is_direct_write(opf) &&
	       !(opf & (REQ_META | REQ_SWAP));
}

/* Others are likely to wait for it; see overdue.c. */
static inline bool kf_rq_blocks_others(struct request *rq)
{
	return kf_rq_word(rq) & KF_RQ_WITHIN || rq->cmd_flags & REQ_META ||
	       kf_is_buffered_write(rq->cmd_flags);
}

static inline u32 kf_rq_cost_bytes(struct request *rq)
{
	return (kf_rq_word(rq) >> KF_RQ_COST_SHIFT & GENMASK(KF_COST_BITS - 1, 0)) <<
	       KF_COST_UNIT_SHIFT;
}

/* U64_MAX: longer than there are bits for. */
static inline u64 kf_rq_throttled_ns(struct request *rq)
{
	u64 held = kf_rq_word(rq) >> KF_RQ_HELD_SHIFT;

	return held == ~0UL >> KF_RQ_HELD_SHIFT ? U64_MAX : held << KF_HELD_UNIT_SHIFT;
}

/* All but what was said at first: kf_rq_begin(). */
static inline void kf_rq_set(struct request *rq, unsigned long flags, int token,
			     u32 cost_bytes, u64 throttled_ns)
{
	unsigned long units = cost_bytes >> KF_COST_UNIT_SHIFT;
	unsigned long held = min_t(u64, throttled_ns >> KF_HELD_UNIT_SHIFT,
				   ~0UL >> KF_RQ_HELD_SHIFT);

	rq->elv.priv[0] = (void *)(held << KF_RQ_HELD_SHIFT |
				   units << KF_RQ_COST_SHIFT |
				   (kf_rq_word(rq) & KF_RQ_WITHIN) | flags |
				   (unsigned long)(token + 1) << KF_RQ_TOKEN_SHIFT);
}

/*
 * @is_within: the task is within a transaction of a filesystem. The journal's commit, and
 * with it every fsync of that filesystem, waits for the task, and the task for this.
 */
static inline void kf_rq_begin(struct request *rq, bool is_within)
{
	rq->elv.priv[0] = (void *)(is_within ? KF_RQ_WITHIN : 0UL);
	rq->elv.priv[1] = NULL;
}

/*
 * What a request of a group is charged, by the unit that is shared. One that moves no data,
 * such as a discard, which may name the whole device, counts as one of a page.
 */
static inline u32 kf_calc_cost_bytes(struct kf_group *kg, struct request *rq)
{
	u32 bytes = bio_has_data(rq->bio) ? blk_rq_bytes(rq) : KF_PAGE_BYTES;
	u64 price = READ_ONCE(kg->price);

	if (price)
		return kf_price_bytes(price, bytes);
	return kf_cost_bytes(READ_ONCE(kg->kq->cost_rate[rq_data_dir(rq)]), bytes);
}

#endif /* _KF_REQUEST_H */
