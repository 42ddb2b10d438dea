/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures of kyber-fairness. The essay is in main.c.
 *
 * Scope is in the type's name, and a local of that type always has the same
 * name: kf_queue kq (one device), kf_hctx kh (one hardware context), kf_group
 * kg (one cgroup on one device), kf_cgroup kc (one cgroup), kf_backlog kb
 * (one cgroup on one hardware context).
 *
 * Lock order: kf_hctx.lock, then kf_queue.lock. The block layer's queue_lock
 * and blkcg lock are outside of kf_queue.lock and of kf_group.latency_lock.
 */
#ifndef _KYBER_FAIRNESS_H
#define _KYBER_FAIRNESS_H

#include "compat.h"

#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/sbitmap.h>
#include <linux/workqueue.h>

#include "budget.h"
#include "cost.h"
#include "guard.h"
#include "latency.h"
#include "parse.h"

enum kf_domain_id {
	KF_READ,
	KF_WRITE,
	KF_DISCARD,
	KF_OTHER,
	KF_NR_DOMAINS,
};

/* Domains that have a latency target: all before KF_OTHER. */
#define KF_NR_TARGETS	KF_OTHER

/*
 * A latency histogram has eight buckets, each a quarter of the target wide:
 * the first four are within the target, the last one is open.
 */
#define KF_BUCKET_SHIFT	2	/* log2 of KF_GOOD_BUCKETS */
#define KF_GOOD_BUCKETS	4
#define KF_NR_BUCKETS	(2 * KF_GOOD_BUCKETS)

enum kf_latency_type {
	KF_LATENCY_TOTAL,	/* since the request could have been dispatched */
	KF_LATENCY_IO,		/* since the device got it */
	KF_NR_LATENCY_TYPES,
};

struct kf_cpu_latency {
	/* Times in the device; see lat_bucket(). */
	atomic_t spread[KF_NR_TARGETS][LAT_NR_BUCKETS];
	atomic_t nr[KF_NR_TARGETS][KF_NR_LATENCY_TYPES][KF_NR_BUCKETS];
	/* Those that waited for their cgroup's share. */
	atomic_t nr_held[KF_NR_TARGETS];
	/* What they moved. */
	atomic_t sects[KF_NR_DIRS];
};

/* What is shared. */
enum kf_unit {
	KF_SHARE_BYTES,
	KF_SHARE_IOPS,
	KF_SHARE_TIME,
	KF_NR_UNITS,
};

/* Why a refill happened; shown by the tracepoint. */
enum kf_refill_reason {
	KF_REFILL_SPENT,	/* every waiting cgroup was out of budget */
	KF_REFILL_TIMEOUT,	/* somebody waited for timeout_us */
};

/* One domain of one device. */
struct kf_domain {
	/* A request holds a token from dispatch to completion. */
	struct sbitmap_queue tokens;
	/* Histogram being filled; latency_work only. */
	unsigned int nr[KF_NR_LATENCY_TYPES][KF_NR_BUCKETS];
	unsigned long sample_end_jiffies[KF_NR_LATENCY_TYPES];
	int last_p99_bucket;
	/* Completed, and of those held back, since is_share_bound was said; latency_work only. */
	unsigned int nr_seen;
	unsigned int nr_held;
	unsigned long bound_end_jiffies;
	/* Nearly all of its requests wait for their cgroups' shares; latency_work only. */
	bool is_share_bound;
	/* Tokens by the latency targets; latency_work only. */
	unsigned int target_depth;
	/* Tokens by sharing; latency_work only. */
	unsigned int share_depth;
	/* Completed since share_depth was last set; latency_work only. */
	u64 nr_done;
	u64 sects_done;
	/* Times in the device, of this KF_SPREAD_PERIOD and the last one. */
	unsigned int spread[2][LAT_NR_BUCKETS];
	/* What a request takes there that waits for no other, 0: not known; by latency_work. */
	u64 unloaded_ns;
	/* Set through sysfs, read without a lock. */
	u64 target_ns;
};

/* One device. */
struct kf_queue {
	struct request_queue *q;
	dev_t dev;
	/* Which time this is that the scheduler runs a device; never reused. */
	u64 generation;
	struct kf_group *root;
	struct guard *guard;

	/* See kf_cost_bytes(); written under cost_lock, read without. */
	u64 cost_rate[KF_NR_DIRS];
	/* Protects the next three. */
	struct mutex cost_lock;
	enum kf_unit share_by;
	bool is_model_given;	/* through sysfs; else it is learnt */
	struct kf_model model;
	/* The device, when it was last looked at; latency_work only. */
	bool was_full;

	struct kf_domain domain[KF_NR_DOMAINS];
	struct kf_cpu_latency __percpu *cpu_latency;
	struct delayed_work latency_work;
	/* When share_depth was last set, and spread rotated; latency_work only. */
	u64 inside_start_ns;
	/* Requests inside at that time; latency_work only. */
	unsigned int nr_left_inside;
	/* Requests that sharing lets into the device, U32_MAX: any; latency_work only. */
	u64 inside;
	/* It has just become less; latency_work only. */
	bool inside_is_new;
	/* The last result of kf_inside_least(); written by latency_work. */
	u64 inside_least;
	/* How many inside are of use; private to latency_work. */
	struct kf_inside_trial inside_trial;
	struct kf_mix mix;
	/* What the device has done since the trial's last look; like that. */
	struct kf_look {
		u64 nr_done;
		u64 elapsed_ns;
		u64 work;	/* by kf_mix_rate(), times elapsed_ns */
	} look;
	/* Of the domain whose requests take the least; written by latency_work. */
	u64 unloaded_ns;
	u64 spread_start_ns;

	/*
	 * Groups that have budget and requests waiting. When it is zero
	 * nobody is entitled to go before those who wait: time to refill.
	 */
	atomic_t nr_runnable ____cacheline_aligned_in_smp;
	/* Groups that have budget, nothing waiting, and want more: see is_hungry. */
	atomic_t nr_expected;
	/* Count of refills, written under lock, read anywhere. */
	unsigned int round;
	/* Hardware contexts with KF_HCTX_THROTTLED: they wait for a refill. */
	struct llist_head throttled;

	/* lock protects everything below, and the groups' refill fields. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct list_head active;
	unsigned int nr_active;
	/* When two groups or more were last seen to be active at once. */
	u64 shared_ns;
	u64 pool_bytes;
	/* Sum of the shares of the groups that are hungry; read anywhere. */
	u64 hungry_share;
	/* Refills since the last kf_groups_inside(). */
	unsigned int nr_refills;
	/* Read anywhere. */
	u64 round_start_ns;
	/* When a refill was due that waits for a group expected back; 0: none. */
	u64 hold_start_ns;
	/* How long refills may still be held; see kf_hold_credit_ns(). */
	u64 hold_credit_ns;
	/* With less of that none is held. */
	u64 hold_least_ns;
	struct kf_hold_trial hold_trial;
	/* Counts walks over the hierarchy; see kf_update_shares(). */
	unsigned int walk;
	/* Set where it is due at once for kf_release_throttled(); its own lock. */
	struct hrtimer timer;
	bool must_kick;

	/* Depth for requests nobody waits for; see isolio_depth_of_pct(). */
	unsigned int async_depth;

	/* Set through sysfs, read without a lock. */
	u64 round_ns;
	u64 round_pct;
	u64 timeout_ns;
	u64 hold_pct;
	u64 inside_pct;
	u64 share_error_pct;
	u64 write_wait_pct;
	u64 hold_most_ns;
};

#define KF_HCTX_THROTTLED	0	/* bit in kf_hctx.flags: waits for a refill */

/* One hardware context of one device. */
struct kf_hctx {
	struct blk_mq_hw_ctx *hctx;
	unsigned long flags;		/* no lock */
	/* On kf_queue.throttled while KF_HCTX_THROTTLED; no lock. */
	struct llist_node throttled_node;
	/* Requests from insertion to completion; no lock. */
	atomic_t nr_tags;

	/* lock protects everything below, and the backlogs of this hctx. */
	spinlock_t lock;
	unsigned int cur_domain;
	unsigned int nr_batched;
	/* The refill that the lists below know of; kf_has_work() reads it without lock. */
	unsigned int round;

	/*
	 * Backlogs with requests in a domain, by how much budget their cgroup
	 * had when they were put there; a bit for each list that is not empty.
	 */
	struct list_head ready[KF_NR_DOMAINS][KF_NR_LEVELS];
	u64 ready_levels[KF_NR_DOMAINS];
	/* Backlogs with requests in a domain that were seen without budget. */
	struct list_head spent[KF_NR_DOMAINS];
	unsigned int nr_spent;
	/* Requests that no budget holds back; see kf_is_urgent(). */
	struct list_head urgent[KF_NR_DOMAINS];
	unsigned int nr_urgent;

	/* Waiting for a domain token. */
	struct sbq_wait domain_wait[KF_NR_DOMAINS];
	struct sbq_wait_state *domain_ws[KF_NR_DOMAINS];
	atomic_t wait_index[KF_NR_DOMAINS];

	/* Requests in and out, to be equal when the hctx goes. */
	u64 nr_inserted;
	u64 nr_dispatched;
};

/* One cgroup on one hardware context: what its requests took. */
struct kf_latency {
	/* When the period ends that nr is about; written under latency_lock. */
	u64 end_ns;
	/* No lock. */
	atomic_t nr[KF_NR_DIRS][LAT_NR_BUCKETS];
};

/* One cgroup on one hardware context; under kf_hctx.lock unless noted. */
struct kf_backlog {
	struct kf_group *kg;
	unsigned int hctx_nr;			/* never changes */
	struct list_head rqs[KF_NR_DOMAINS];
	/* On kf_hctx.ready or .spent while rqs of that domain is not empty. */
	struct list_head node[KF_NR_DOMAINS];
	/* Which list of kf_hctx.ready, KF_NR_LEVELS: kf_hctx.spent. */
	u8 level[KF_NR_DOMAINS];
	unsigned int nr_waiting;
	/* Requests from insertion to completion; no lock. */
	atomic_t nr_tags;
	/* Submitters that wait for one of these to complete; its own lock. */
	wait_queue_head_t tag_wait;

	/* When the cgroup was last found without budget here, 0: it is not. */
	u64 spent_at_ns;
	/* When it last got budget after that. */
	u64 eligible_at_ns;

	/* Statistics of requests with data: [0] reads, [1] writes. */
	u64 throttled_ns;
	u64 dispatched_bytes[KF_NR_DIRS];
	u64 nr_dispatched[KF_NR_DIRS];
	/* NULL: no request so far, or no memory. Written once. */
	struct kf_latency *latency;
} ____cacheline_aligned_in_smp;

/* Bits in kf_group.flags, one at most: has budget and ... */
#define KF_GROUP_RUNNABLE	0	/* requests waiting */
#define KF_GROUP_EXPECTED	1	/* none, but is_hungry */

/* One cgroup on one device. */
struct kf_group {
	struct blkg_policy_data pd;
	struct kf_queue *kq;
	u64 generation;			/* of kq, when it was made */
	struct kf_group *parent;

	/* Weight in effect and the device's own, 0: none; blkcg->lock. */
	unsigned int weight;
	unsigned int dev_weight;

	/* No lock. */
	unsigned long flags;
	atomic_t nr_backlogged;		/* hardware contexts with requests waiting */
	atomic64_t budget_bytes;
	/* What its requests are charged on the mean; a lost update does no harm. */
	u32 mean_cost_bytes;
	atomic_t nr_outstanding;	/* requests from insertion to completion */
	bool is_active;			/* written under kq->lock */
	/* At the last refill it would have taken more; written under kq->lock. */
	bool is_hungry;
	bool is_dead;			/* cgroup is gone: let it drain */

	/* kq->lock */
	struct list_head active_node;
	s64 refilled_bytes;		/* budget after the last refill */
	/* Levels a byte is worth, KF_LEVEL_SHIFT bits of fraction; read anywhere. */
	u64 levels_per_byte;
	/* Since the last kf_groups_inside(): most requests outstanding at a refill, */
	unsigned int outstanding_max;
	unsigned int nr_hungry;		/* refills that found it hungry, */
	u64 used_bytes;			/* dispatched, */
	u64 lost_bytes;			/* and not saved up any more; see kf_carry_bytes() */
	s64 saved_bytes;		/* saved up at the last kf_groups_inside() */
	u64 last_used_ns;		/* a refill that saw it dispatch, */
	u64 last_busy_ns;		/* or have requests outstanding */
	u64 share;			/* of the device, KF_SHARE_ONE for all */
	unsigned int child_weight_sum;	/* valid in walk child_walk */
	unsigned int child_walk;
	unsigned int counted_walk;	/* its weight is in the parent's sum */

	/* What requests took: in the period before latency_period, and earlier. */
	spinlock_t latency_lock;
	u64 latency_period;
	u32 last[KF_NR_DIRS][LAT_NR_BUCKETS];
	u64 past[KF_NR_DIRS][LAT_NR_BUCKETS];

	unsigned int nr_backlogs;
	/* One for each hardware context, each of its own memory. */
	struct kf_backlog *backlog[] __counted_by(nr_backlogs);
};

/* One cgroup. */
struct kf_cgroup {
	struct blkcg_policy_data pd;
	unsigned int weight;		/* blkcg->lock; its file reads it without */
};

extern const char * const kf_domain_names[KF_NR_DOMAINS];

static inline enum kf_domain_id kf_domain_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return KF_READ;
	case REQ_OP_WRITE:
		return KF_WRITE;
	case REQ_OP_DISCARD:
		return KF_DISCARD;
	default:
		return KF_OTHER;
	}
}

static inline bool kf_group_has_budget(struct kf_group *kg)
{
	return atomic64_read(&kg->budget_bytes) > 0 || READ_ONCE(kg->is_dead);
}

/*
 * The part of the device that a group may make use of: of those who want more,
 * each has its share of what the others leave.
 */
static inline u64 kf_group_part(struct kf_group *kg)
{
	u64 share = READ_ONCE(kg->share);

	if (!READ_ONCE(kg->is_hungry))
		return share;
	return kf_share_among(share, READ_ONCE(kg->kq->hungry_share));
}

/* domain.c */
int kf_domains_init(struct kf_queue *kq);
void kf_domains_exit(struct kf_queue *kq);
void kf_domains_stop(struct kf_queue *kq);
void kf_domain_wait_init(struct kf_hctx *kh, struct blk_mq_hw_ctx *hctx);
int kf_domain_get_token(struct kf_queue *kq, struct kf_hctx *kh,
			enum kf_domain_id id);
void kf_domain_put_token(struct kf_queue *kq, enum kf_domain_id id, int token,
			 unsigned int cpu);
void kf_domain_add_sample(struct kf_queue *kq, enum kf_domain_id id,
			  u64 total_ns, u64 held_ns, u64 io_ns,
			  unsigned int sects);

/* cost.c */
void kf_cost_init(struct kf_queue *kq);
void kf_cost_learn(struct kf_queue *kq, u64 elapsed_ns, bool is_full);
ssize_t kf_share_by_show(struct elevator_queue *e, char *page);
ssize_t kf_share_by_store(struct elevator_queue *e, const char *page, size_t count);
ssize_t kf_cost_model_show(struct elevator_queue *e, char *page);
ssize_t kf_cost_model_store(struct elevator_queue *e, const char *page, size_t count);

/* tunables.c */
extern isolio_attrs_const struct elv_fs_entry kf_attrs[];
void kf_tunables_init(struct kf_queue *kq);

/* ready.c */
bool kf_is_urgent(struct kf_group *kg, struct request *rq);
void kf_ready_init(struct kf_hctx *kh);
void kf_ready_choose(struct kf_queue *kq, struct kf_hctx *kh,
		     struct kf_backlog *kb);
void kf_ready_move(struct kf_hctx *kh, struct kf_backlog *kb,
		   enum kf_domain_id id);
void kf_ready_hold_back(struct kf_hctx *kh, struct kf_backlog *kb,
			enum kf_domain_id id);
void kf_ready_release(struct kf_queue *kq, struct kf_hctx *kh);
struct kf_backlog *kf_ready_first(struct kf_hctx *kh, enum kf_domain_id id);

/* tags.c */
bool kf_task_must_get_out(void);
void kf_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);

/* group.c */
void kf_group_init(struct kf_group *kg, struct kf_queue *kq,
		   struct kf_group *parent);
void kf_group_offline(struct kf_group *kg);
void kf_group_activate(struct kf_group *kg);
void kf_group_update_state(struct kf_group *kg);
bool kf_refill_if_spent(struct kf_queue *kq);
void kf_stop_holding(struct kf_queue *kq);
void kf_kick_throttled(struct kf_queue *kq);
void kf_group_give_back(struct kf_group *kg, u32 cost_bytes);
bool kf_group_may_go_first(struct kf_group *kg);
u32 kf_group_urgent_charge_bytes(struct kf_group *kg, u32 cost_bytes);
bool kf_wait_for_refill(struct kf_queue *kq, struct kf_hctx *kh);
void kf_hctx_stop_waiting(struct kf_queue *kq);
void kf_look_at_holds(struct kf_queue *kq, u64 rate);
bool kf_groups_share(struct kf_queue *kq, u64 now_ns);
u64 kf_groups_inside(struct kf_queue *kq, u64 inside, u64 least);
void kf_groups_init(struct kf_queue *kq);
void kf_groups_stop(struct kf_queue *kq);
void kf_groups_exit(struct kf_queue *kq);

/* cgroup.c */
extern struct blkcg_policy kf_policy;
void kf_wait_for_groups(void);

/* stat.c */
void kf_latency_alloc(struct kf_backlog *kb);
void kf_latency_free(struct kf_group *kg);
void kf_latency_add(struct kf_backlog *kb, unsigned int dir, u64 latency_ns,
		    u64 now_ns);
int kf_stat_show(struct seq_file *sf, void *unused);
int kf_latency_show(struct seq_file *sf, void *unused);

/* debugfs.c */
extern const struct blk_mq_debugfs_attr kf_queue_debugfs_attrs[];
extern const struct blk_mq_debugfs_attr kf_hctx_debugfs_attrs[];

static inline struct kf_queue *kf_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static inline struct kf_group *pd_to_kg(struct blkg_policy_data *pd)
{
	return pd ? container_of(pd, struct kf_group, pd) : NULL;
}

static inline struct kf_group *blkg_to_kg(struct blkcg_gq *blkg)
{
	return pd_to_kg(isolio_blkg_to_pd(blkg, &kf_policy));
}

/*
 * The group of @blkg on this device, or NULL. A deleted cgroup's blkg lives on
 * while bios refer to it, and with it a group that may be left from an
 * earlier time the scheduler ran the device.
 */
static inline struct kf_group *kf_group_of(struct kf_queue *kq,
					   struct blkcg_gq *blkg)
{
	struct kf_group *kg = blkg_to_kg(blkg);

	return kg && kg->generation == kq->generation ? kg : NULL;
}

#endif /* _KYBER_FAIRNESS_H */
