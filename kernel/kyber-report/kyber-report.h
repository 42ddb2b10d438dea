/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures of kyber-report. The essay is in main.c.
 *
 * A local of a type always has the same name: kr_device kd, kr_hctx kh (one hardware
 * context), kr_group kg (one cgroup on one device), kr_queue kq (one cgroup on one hardware
 * context).
 *
 * Lock order: kr_hctx.lock, then kr_device.lock. The block layer's queue_lock and blkcg
 * lock are outside of kr_device.lock.
 */
#ifndef _KYBER_REPORT_H
#define _KYBER_REPORT_H

#include "compat.h"

#include <linux/workqueue.h>

#include "refill.h"

/* Kyber's domains. The last one has no latency target. */
enum kr_domain_id {
	KR_READ,
	KR_WRITE,
	KR_DISCARD,
	KR_OTHER,
	KR_NR_DOMAINS,
};

#define KR_NR_TARGETS	KR_OTHER

/* Buckets are a quarter of the target wide: the first four are within it. */
#define KR_GOOD_BUCKETS	4
#define KR_NR_BUCKETS	(2 * KR_GOOD_BUCKETS)

enum kr_latency_type {
	KR_LATENCY_TOTAL,	/* since the request was made */
	KR_LATENCY_IO,		/* since the device got it */
	KR_NR_LATENCY_TYPES,
};

/* What completed on one CPU; only ever incremented. */
struct kr_cpu_counts {
	u32 nr[KR_NR_TARGETS][KR_NR_LATENCY_TYPES][KR_NR_BUCKETS];
};

struct kr_domain {
	/* Requests in flight, and how many there may be. */
	atomic_t nr_tokens ____cacheline_aligned_in_smp;
	unsigned int depth;
	bool is_awaited;		/* a dispatch found no token */
	u64 target_ns;			/* set through sysfs, read without a lock */

	/* latency_work */
	u32 seen[KR_NR_LATENCY_TYPES][KR_NR_BUCKETS];
	u32 nr[KR_NR_LATENCY_TYPES][KR_NR_BUCKETS];
	unsigned long end_jiffies[KR_NR_LATENCY_TYPES];
	int last_p99;
};

struct kr_device {
	struct request_queue *q;
	u64 generation;			/* differs each time the scheduler comes to a device */
	struct kr_group *root;
	unsigned int async_depth;
	u64 refill_ns;			/* set through sysfs, read without a lock */

	struct kr_domain domain[KR_NR_DOMAINS];
	struct kr_cpu_counts __percpu *counts;
	struct delayed_work latency_work;

	/* lock protects the refill; taken with interrupts off. */
	spinlock_t lock;
	struct list_head groups;
	u64 refilled_ns;
	bool is_ticking;		/* the timer will refill */
	struct hrtimer timer;
};

struct kr_hctx {
	/* lock protects everything below. */
	spinlock_t lock;
	struct list_head head;		/* goes before all else, without budget or token */
	struct list_head backlogged;	/* kr_queue.node, the current one first */
	struct kr_queue *last;		/* dispatched last; may be gone: for comparison only */
	enum kr_domain_id cur_domain;
	unsigned int nr_batched;

	/* Requests in and out, to be equal when the hctx goes. */
	u64 nr_inserted;
	u64 nr_dispatched;
};

struct kr_queue {
	struct kr_group *kg;
	/* kr_hctx.lock */
	struct list_head node;
	unsigned int nr;
	struct list_head rqs[KR_NR_DOMAINS];
};

struct kr_group {
	struct blkg_policy_data pd;
	struct kr_device *kd;
	u64 generation;			/* of kd, when it was made */
	unsigned int weight;		/* written under blkcg->lock */
	atomic64_t cur_budget;		/* charged without a lock */

	/* kr_device.lock; the flags are read without. */
	struct list_head node;
	s64 next_budget;		/* what the last refill made cur_budget */
	s64 seen_budget;		/* cur_budget and weight at this refill */
	unsigned int seen_weight;
	bool is_idle;
	bool is_dead;			/* the cgroup is gone: its requests go as they are */

	unsigned int nr_queues;
	struct kr_queue **queue;	/* by hardware context, made on first use */
};

static inline struct kr_device *kr_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* refill.c */
void kr_group_wake(struct kr_group *kg);
void kr_group_offline(struct kr_group *kg);
bool kr_refill_spent(struct kr_device *kd);
void kr_refill_init(struct kr_device *kd);

/* domain.c */
enum kr_domain_id kr_domain_of(blk_opf_t opf);
bool kr_get_token(struct kr_device *kd, enum kr_domain_id id);
void kr_put_token(struct kr_device *kd, enum kr_domain_id id);
void kr_count(struct kr_device *kd, enum kr_domain_id id, u64 total_ns, u64 io_ns);
int kr_domains_init(struct kr_device *kd);

/* tunables.c */
extern isolio_attrs_const struct elv_fs_entry kr_attrs[];

/* cgroup.c */
extern struct blkcg_policy kr_policy;
struct kr_group *kr_bio_group(struct kr_device *kd, struct bio *bio);
void kr_wait_for_groups(void);

#endif /* _KYBER_REPORT_H */
