/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures of kyber-fairness. The essay is in main.c.
 *
 * Scope is in the type's name, and a local of that type always has the same
 * name: kf_queue kq (one device), kf_hctx kh (one hardware context), kf_ctx kc (one
 * software queue), kf_group kg (one cgroup on one device), kf_cgroup kcg (one cgroup),
 * kf_backlog kb (one cgroup on one hardware context).
 *
 * Lock order: kf_hctx.lock, then kf_ctx.lock; kf_hctx.lock, then kf_queue.lock, then
 * kf_queue.band_lock. The block layer's queue_lock and blkcg lock are outside of
 * kf_queue.lock and of kf_group.latency_lock.
 */
#ifndef _KYBER_FAIRNESS_H
#define _KYBER_FAIRNESS_H

#include "compat.h"

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/sbitmap.h>
#include <linux/workqueue.h>

#include "band.h"
#include "cost.h"
#include "guard.h"
#include "large.h"
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

/*
 * What completed on one CPU: only ever incremented, so that the reader, latency_work,
 * takes differences to what it saw the last time.
 */
struct kf_cpu_sample {
	u32 nr[KF_NR_TARGETS][KF_NR_LATENCY_TYPES][KF_NR_BUCKETS];
	/* Requests that were throttled. */
	u32 nr_throttled[KF_NR_TARGETS];
	u32 nr_done[KF_NR_TARGETS];
	/* By kf_kind(), those by kf_quick_ns(); what they were charged by KF_COST_UNIT_SHIFT. */
	u32 nr_kind[KF_NR_KINDS];
	u32 nr_quick[KF_NR_KINDS];
	u32 cost_units;
	/* Those that others are likely to wait for, by kind, and their time in the device. */
	u32 nr_blocking[KF_NR_KINDS];
	u32 blocking_us[KF_NR_KINDS];
};

#define KF_NR_SAMPLES	(sizeof(struct kf_cpu_sample) / sizeof(u32))

/* Why a request that is throttled may go; see overdue.c. */
enum kf_overdue_as {
	KF_OVERDUE_BLOCKS,	/* others are likely to wait for it */
	KF_OVERDUE_OLD,		/* KF_HOLD_MOST_NS */
	KF_NR_OVERDUE,
	KF_OVERDUE_NOT = KF_NR_OVERDUE,
};

/* What overdue requests may have of the device; see overdue.c. */
struct kf_overdue {
	s64 left_ns[KF_NR_OVERDUE];
	u64 wait_ns;			/* after which what others wait for is overdue */
	/* How long the last look was, what completed in it, and how often something did. */
	u64 look_ns, look_bytes, mean_ns;
	u64 kind_ns[KF_NR_KINDS];	/* in the device, of late; 0: not known */
};

/* What a hardware context waits for on a list. */
enum kf_wait_for {
	KF_FOR_LARGE,		/* a large read to complete; plus KF_WRITE: a large write */
	KF_FOR_TOKEN = KF_FOR_LARGE + KF_NR_DIRS,	/* of a domain; plus the domain */
	KF_FOR_PLACE = KF_FOR_TOKEN + KF_NR_DOMAINS,
	KF_FOR_CLOCK,
	KF_NR_WAITS,
};

/* In kf_hctx.flags, beside those: a group that is owed has inserted requests. */
#define KF_HAS_OWED	KF_NR_WAITS

/* What is shared. */
enum kf_unit {
	KF_SHARE_BYTES,
	KF_SHARE_IOPS,
	KF_SHARE_TIME,
	KF_NR_UNITS,
};

/* One domain of one device. All but tokens: set by latency_work, or as it says. */
struct kf_domain {
	/* A request holds one from dispatch to completion, while is_limited. */
	struct sbitmap_queue tokens;
	/* There are fewer tokens than places; read anywhere. */
	bool is_limited;
	unsigned int depth_max;
	/* Histogram being filled. */
	unsigned int nr[KF_NR_LATENCY_TYPES][KF_NR_BUCKETS];
	unsigned long sample_end_jiffies[KF_NR_LATENCY_TYPES];
	int last_p99_bucket;
	/* Completed, and of those throttled, since is_share_bound was set. */
	unsigned int nr_seen;
	unsigned int nr_throttled;
	unsigned long bound_end_jiffies;
	/* Nearly all of its requests wait for their cgroups' shares. */
	bool is_share_bound;
	/* Set through sysfs, read without a lock. */
	u64 target_ns;
	/* What it is kept to, and the histogram is of: kf_domain_aim(); read anywhere. */
	u64 aim_ns;
};

/*
 * What every dispatch reads. The first ones are written with kf_queue.lock held, the
 * others with band_lock; the clock some times in a round trip through the device.
 */
struct kf_gate {
	u64 vtime;		/* the clock */
	u64 limit;		/* a cgroup goes while its vtime is before this */
	u64 clock_ns;		/* when both were set, */
	u64 step_ns;		/* and how long they are good for */
	u64 lead;		/* limit - vtime, unless the clock is paced */
	unsigned int nr_lowered; /* times that vtimes were set back; see kf_ready_lower() */
	unsigned int most_places; /* while a group is owed, see kf_hold_places(); or U32_MAX */
	u64 alone_ns;		/* what a request takes that is alone in the device */
	bool probes_writes;	/* in a probe they go before reads */
	bool is_slack;		/* the CPU is what is short; see kf_band_is_slack() */
	/* Any cgroup goes: it is alone, or a probe wants to see all. */
	bool is_open;
	/* Two cgroups or more are active; else vtimes stay as they are. */
	bool is_shared;
	enum kf_band_phase phase;
};

/* One device. */
struct kf_queue {
	struct request_queue *q;
	dev_t dev;
	/* Which time this is that the scheduler runs a device; never reused. */
	u64 generation;
	struct kf_group *root;
	struct guard *guard;
	/* Of each hardware context's sched_data, which comes and goes while debugfs has files. */
	struct mutex hctx_lock;

	/* See kf_cost_bytes(). Written under band_lock; the first two are read without. */
	u64 cost_rate[KF_NR_DIRS];
	enum kf_unit share_by;
	bool is_model_given;	/* through sysfs; else see kf_model_guess() */
	struct kf_model model;
	u64 quick_ns[KF_NR_KINDS];	/* as cost_rate; see kf_quick_ns() */

	unsigned int ceiling;		/* so many places there are; written under band_lock */
	unsigned int nr_places;		/* at most: the device's tags */
	struct kf_domain domain[KF_NR_DOMAINS];
	struct kf_cpu_sample __percpu *cpu_sample;
	/* What was last seen of those, summed; latency_work only. */
	struct kf_cpu_sample seen;
	struct delayed_work latency_work;
	spinlock_t look_lock;		/* of is_stopping; any context, others may be held */
	bool is_stopping;		/* the scheduler leaves: latency_work runs no more */
	u64 look_ns;			/* when that last ran; latency_work only */
	unsigned int nr_looks;		/* latency_work only */
	struct kf_overdue overdue;	/* latency_work only */

	struct kf_gate gate ____cacheline_aligned_in_smp;
	/* A cgroup had to wait for the clock, or for a place, since the last look. */
	bool saw_throttled;
	bool saw_full;
	u64 slowest_ns;		/* what a request took of late, at most; a lost update is no harm */
	/* A cgroup had to wait for the clock in the period before. */
	bool is_held;
	/* A group is active that is not awaited: it may be owed. */
	bool has_limited;

	/* Requests in the device, but those sent while one cgroup was alone; no lock. */
	atomic_t nr_in_flight ____cacheline_aligned_in_smp;

	/* Hardware contexts that wait, each with its bit in kf_hctx.flags, the longest first. */
	struct list_head waiting[KF_NR_WAITS] ____cacheline_aligned_in_smp;
	spinlock_t wait_lock;		/* of these; any context, others may be held */

	/* The device is empty, and requests wait for the clock. */
	struct hrtimer pace_timer;

	/* Large reads and writes in flight; no lock. */
	atomic_t nr_large[KF_NR_DIRS] ____cacheline_aligned_in_smp;
	/* As many as may be, since the last look. */
	bool saw_large_full[KF_NR_DIRS];

	/* Protects what is below; softirqs are off while it is held. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct list_head active;
	unsigned int nr_active;
	/* The active set or a weight changed; set without a lock. */
	bool shares_are_stale;
	u64 shares_due_ns;		/* not found again before, but by a look */
	bool has_dead;			/* a cgroup was deleted; set without a lock */
	/* Counts walks over the hierarchy; see kf_update_shares(). */
	u64 walk;
	u64 kicked_limit;		/* gate.limit when throttled contexts were last run */
	u64 walk_ns;			/* what the last walk took */
	u64 share_sum;			/* of the cgroups that others wait for, at that walk */
	/* Sum of the shares of the cgroups that are awaited; read anywhere. */
	u64 awaited_share;
	struct kf_tags tags;		/* read anywhere */
	struct kf_prices prices;	/* of the active ones */
	struct kf_pace pace;
	u64 pace_look_ns;		/* when that was last looked at */
	u32 hold;			/* of the last walk; see kf_hold_of() */

	/* Protects the band, and the ceiling; any context. */
	spinlock_t band_lock ____cacheline_aligned_in_smp;
	struct kf_band band;
	struct kf_large large[KF_NR_DIRS]; /* ceiling and is_probing: read anywhere */
	bool is_shared;			/* two cgroups or more are active */
	u64 lead_bytes;			/* what the device serves in its time; read anywhere */
	/* A probe ran since the last look: the per-CPU counts are partly its own. */
	bool has_probed;

	/* Depth for asynchronous requests; see isolio_depth_of_pct(). */
	unsigned int async_depth;
	/* And for light cgroups, where there are few tags. */
	unsigned int light_depth;

	/* Set through sysfs, read without a lock. */
	u64 min_total_pct;

	/* Scheduler tags in use, where all hardware contexts share them; no lock. */
	atomic_t nr_shared_tags ____cacheline_aligned_in_smp;
};

/* One software queue of a hardware context. */
struct kf_ctx {
	spinlock_t lock;		/* of the list; taken under no other but kf_hctx.lock */
	struct list_head rqs;		/* inserted, not yet in their backlogs */
} ____cacheline_aligned_in_smp;

/* Of a token in a request's word. */
#define KF_TOKEN_BITS	12
/* How often latency_work looks while requests complete. */
#define KF_LATENCY_PERIOD	(HZ / 10)

/* One hardware context of one device. */
struct kf_hctx {
	struct blk_mq_hw_ctx *hctx;
	unsigned long flags;		/* a bit for each enum kf_wait_for, KF_HAS_OWED; no lock */
	/* On kf_queue.waiting, or taken off it to be run, while it has the bit. */
	struct list_head waiting_node[KF_NR_WAITS];
	/* Scheduler tags in use, of this hardware context or of all; no lock. */
	atomic_t *nr_tags;
	atomic_t nr_own_tags;

	struct kf_ctx *ctx;
	unsigned int nr_ctx;
	/* Software queues that may have requests: set after one was added. */
	struct sbitmap ctx_map;

	/* lock protects everything below, and the backlogs of this hctx. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned int cur_domain;
	unsigned int nr_batched;
	/* Places that it took while others waited for one, since it last did so itself. */
	unsigned int nr_taken;

	/* Backlogs with requests in a domain, by kf_backlog.vtime. */
	struct rb_root_cached ready[KF_NR_DOMAINS];
	/* The first one's vtime; valid, and read without lock, where has_ready has a bit. */
	u64 first_vtime[KF_NR_DOMAINS];
	unsigned long has_ready;
	/* gate.nr_lowered, when the trees were put in order for it; read without lock. */
	unsigned int nr_lowered;
	/* Requests that wait for no clock; see kf_is_urgent(). */
	struct list_head urgent[KF_NR_DOMAINS];
	unsigned int nr_urgent;

	/* Backlogs without requests that have more of a slice left than a request. */
	struct list_head saved;

	/* Requests in and out, to be equal when the hctx goes. */
	u64 nr_inserted;
	u64 nr_dispatched;
};

/*
 * A twelfth of the time after which the kernel calls a task hung. A cgroup of one
 * request outstanding that is entitled to less than one in ten seconds gets that.
 */
#define KF_HOLD_MOST_NS		(10ULL * NSEC_PER_SEC)

/* I/O classes; most requests are of the first. */
enum kf_class {
	KF_CLASS_BE,
	KF_CLASS_RT,
	KF_CLASS_IDLE,
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
	/* In kf_hctx.ready if the domain's bit in ready_domains is set. */
	struct rb_node node[KF_NR_DOMAINS];
	unsigned long ready_domains;
	unsigned int nr_waiting;
	/* When its slice began; without one, its cgroup's when it was last put in order. */
	u64 vtime;
	/* Of the slice; negative: more than that was used. Insertion reads it; no lock. */
	s64 left_bytes;
	struct list_head saved_node;		/* on kf_hctx.saved */

	/* Requests from insertion to completion, and their mean: see kf_load_of(); no lock. */
	atomic64_t load;
	/* Of these, those that go first: no cgroup waits for them, nor they for one; no lock. */
	atomic64_t first_load;
	u64 load_seen, first_seen;		/* of both; kq->lock */
	struct kf_work work_seen;		/* kq->lock */
	/* As of kf_groups_update_owed(): this, and those dispatched; kq->lock. */
	u64 owed_load, owed_nr;
	/* Of these, discards and others without data: for them no cgroup waits; no lock. */
	atomic_t nr_other;
	/* And writes of the page cache: see kf_may_have_tag(); no lock. */
	atomic_t nr_buffered;
	/* When one last completed, or the first one came after a pause; no lock. */
	u64 done_ns;
	/* Submitters that wait for one of these to complete; its own lock. */
	wait_queue_head_t own_tag_wait;
	/* That, or the group's where all hardware contexts share the tags. */
	wait_queue_head_t *tag_wait;

	/* When its next request was last found throttled, 0: it is not. */
	u64 throttled_at_ns;
	/* When that one could go; read without lock. */
	u64 eligible_at_ns;

	/* Statistics of requests with data: [0] reads, [1] writes. */
	u64 throttled_ns;
	u64 dispatched_bytes[KF_NR_DIRS];
	u64 nr_dispatched[KF_NR_DIRS];
	/* NULL: no request so far, or no memory. Written once. */
	struct kf_latency *latency;
} ____cacheline_aligned_in_smp;

/* One cgroup on one device. */
struct kf_group {
	struct blkg_policy_data pd;
	struct kf_queue *kq;
	u64 generation;			/* of kq, when it was made */
	struct kf_group *parent;

	/* Weight in effect and the device's own, 0: none, or KF_WEIGHT_SUM; blkcg->lock. */
	unsigned int weight;
	unsigned int dev_weight;

	/* Written under kq->lock, read anywhere. */
	u64 share;			/* of the device, KF_SHARE_ONE for all */
	bool is_active;			/* on kq->active */
	bool is_awaited;		/* the clock waits for it while it is present */
	s64 owed_ns;			/* behind a disk of its own; see kf_owed_ns() */
	bool is_dead;			/* the cgroup is gone: its requests drain */
	/* Mean cost of its requests; a lost update does no harm. */
	u32 mean_cost_bytes;
	u32 peak_cost_bytes;		/* of the largest of late; likewise */
	u64 alone_ns;			/* of a request alone in the device */
	u64 least_ns;			/* of any request so far; likewise */
	u64 price;			/* of a byte, as of cgroups that send alike; 0: not known */
	u8 new_looks;			/* for which it is new yet; see kf_newcomer_charge() */

	/* Service it was given, divided by its share: one change for each slice. */
	atomic64_t vtime ____cacheline_aligned_in_smp;
	/* What it was charged while it is new, and does not count yet; < 0: its first request. */
	atomic64_t new_bytes;

	/* kq->lock */
	struct list_head active_node ____cacheline_aligned_in_smp;
	struct kf_depth depth;		/* of its requests outstanding */
	struct kf_price own_price;
	u64 found_price;		/* by that */
	struct kf_slowness slowness;	/* kq->band_lock; milli: read anywhere */
	/* How long it was not present, ever; no lock, and a lost update does no harm. */
	u64 absent_ns;
	u64 last_busy_ns;
	bool is_settled;		/* its backlogs' owed_load are those of the last walk */
	struct kf_tally tally;
	u64 newcomer;			/* where a new group below begins */
	u64 settled_share;		/* of those below that are not new, together */
	u64 seen_sum;			/* the tally's, when that was complete; read anywhere */

	/* What requests took: in the period before latency_period, and earlier. */
	spinlock_t latency_lock;
	u64 latency_period;
	u32 last[KF_NR_DIRS][LAT_NR_BUCKETS];
	u64 past[KF_NR_DIRS][LAT_NR_BUCKETS];

	/* Submitters that wait for a tag, where all hardware contexts share those. */
	wait_queue_head_t tag_wait;
	/* Submitters that wait for requests of a higher I/O class; their own locks. */
	wait_queue_head_t be_wait, idle_wait;
	/* Requests of the other two classes, queued or in flight; no lock. */
	atomic_t nr_real_time, nr_idle;

	unsigned int nr_backlogs;
	/*
	 * Hardware contexts on which it has requests, or had: set by an insertion, cleared
	 * by a walk that finds none. No lock.
	 */
	unsigned long *busy;
	/* One for each hardware context, made on first use; written once. */
	struct kf_backlog **backlog;
};

/* One cgroup. */
struct kf_cgroup {
	struct blkcg_policy_data pd;
	unsigned int weight;		/* blkcg->lock; its files read it without */
};

extern const char * const kf_domain_names[KF_NR_DOMAINS];

static inline enum kf_domain_id kf_domain_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return KF_READ;
	case REQ_OP_WRITE:
	case REQ_OP_ZONE_APPEND:
		return KF_WRITE;
	case REQ_OP_DISCARD:
		return KF_DISCARD;
	default:
		return KF_OTHER;
	}
}

static inline bool kf_rq_is_large(struct request *rq)
{
	return blk_rq_bytes(rq) >= KF_LARGE_BYTES && kf_domain_of(rq->cmd_flags) < KF_NR_DIRS;
}

/* The part of the device that a group may make use of, of those that are awaited. */
static inline u64 kf_group_part(struct kf_group *kg)
{
	u64 share = READ_ONCE(kg->share);

	if (!READ_ONCE(kg->is_awaited))
		return share;
	return kf_share_among(share, READ_ONCE(kg->kq->awaited_share));
}

/* domain.c */
void kf_update_soon(struct kf_queue *kq);
void kf_update_stop(struct kf_queue *kq);
int kf_samples_init(struct kf_queue *kq);
int kf_domains_init(struct kf_queue *kq);
void kf_domains_exit(struct kf_queue *kq);
void kf_domains_stop(struct kf_queue *kq);
bool kf_get_place(struct kf_queue *kq, struct kf_hctx *kh, bool is_owed);
void kf_put_place(struct kf_queue *kq);
int kf_domain_get_token(struct kf_queue *kq, struct kf_hctx *kh,
			enum kf_domain_id id);
void kf_domain_put_token(struct kf_queue *kq, enum kf_domain_id id, int token,
			 unsigned int cpu);

/* main.c */
void kf_throttle_end(struct kf_backlog *kb, u64 since_ns);

/* done.c */
void kf_completed_request(struct request *rq, u64 now_ns);
void kf_finish_request(struct request *rq);
void kf_requeue_request(struct request *rq);

/* cost.c */
void kf_cost_set(struct kf_queue *kq);
ssize_t kf_share_by_show(struct elevator_queue *e, char *page);
ssize_t kf_share_by_store(struct elevator_queue *e, const char *page, size_t count);
ssize_t kf_cost_model_show(struct elevator_queue *e, char *page);
ssize_t kf_cost_model_store(struct elevator_queue *e, const char *page, size_t count);

/* tunables.c */
extern isolio_attrs_const struct elv_fs_entry kf_attrs[];
void kf_tunables_init(struct kf_queue *kq);

/* ready.c */
bool kf_is_urgent(struct request *rq);
void kf_ready_init(struct kf_hctx *kh);
void kf_ready_choose(struct kf_hctx *kh, struct kf_backlog *kb);
void kf_ready_move(struct kf_hctx *kh, struct kf_backlog *kb);
void kf_ready_lower(struct kf_hctx *kh, unsigned int nr_lowered);
struct kf_backlog *kf_ready_first(struct kf_hctx *kh, enum kf_domain_id id);
struct kf_backlog *kf_ready_pass(struct kf_queue *kq, struct kf_hctx *kh,
				 struct kf_backlog *kb, enum kf_domain_id id, bool *is_counted);

/* overdue.c */
void kf_overdue_update(struct kf_queue *kq, const struct kf_cpu_sample *sample, u64 elapsed_ns);
void kf_overdue_go(struct kf_queue *kq, struct kf_hctx *kh, u64 now_ns);

/* tags.c */
bool kf_task_must_get_out(void);
bool kf_is_background(struct bio *bio);
void kf_limit_background(struct kf_queue *kq, struct kf_backlog *kb,
			 struct blk_mq_hw_ctx *hctx);
void kf_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);

/* group.c */
void kf_group_init(struct kf_group *kg, struct kf_queue *kq,
		   struct kf_group *parent);
struct kf_backlog *kf_backlog_make(struct kf_group *kg, struct blk_mq_hw_ctx *hctx,
				   gfp_t gfp);
void kf_group_offline(struct kf_group *kg);
void kf_group_account_insert(struct kf_backlog *kb, struct request *rq);
u64 kf_group_weight(struct kf_group *kg);
u64 kf_group_absent_ns(struct kf_group *kg, u64 busy_ns, u64 now_ns);
unsigned int kf_group_outstanding(struct kf_group *kg);
bool kf_group_has_requests(struct kf_group *kg);
bool kf_group_may_go_first(struct kf_group *kg);
s64 kf_group_go_first(struct kf_group *kg, u32 cost_bytes);
void kf_group_charge(struct kf_queue *kq, struct kf_backlog *kb, u32 cost_bytes);
void kf_slice_save(struct kf_hctx *kh, struct kf_backlog *kb);
void kf_slice_drop(struct kf_backlog *kb);
void kf_group_account_cost(struct kf_group *kg, u32 cost_bytes);
void kf_group_charge_urgent(struct kf_queue *kq, struct kf_backlog *kb, u32 cost_bytes);
void kf_group_give_back(struct kf_group *kg, u32 cost_bytes);
void kf_groups_update(struct kf_queue *kq);
void kf_groups_lower(struct kf_queue *kq);
void kf_groups_lower_owed(struct kf_queue *kq);
void kf_update_shares(struct kf_queue *kq);
void kf_groups_init(struct kf_queue *kq);
void kf_groups_stop(struct kf_queue *kq);
void kf_slices_give_back(struct kf_hctx *kh);
void kf_sum_shares(struct kf_queue *kq);

/* class.c */
bool kf_class_is_idle(void);
bool kf_class_refuses(struct kf_group *kg, blk_opf_t opf);
void kf_class_wait(struct kf_group *kg, struct bio *bio);
void kf_class_insert(struct kf_group *kg, enum kf_class class);
void kf_class_finish(struct kf_group *kg, enum kf_class class);
void kf_class_wake(struct kf_group *kg);

/* own.c */
void kf_group_account_load(struct kf_group *kg, struct kf_backlog *kb, u64 now_ns);
void kf_group_skip_load(struct kf_group *kg, struct kf_backlog *kb, u64 now_ns);
void kf_group_clear_owed(struct kf_group *kg);
void kf_update_awaited(struct kf_queue *kq, u64 now_ns);
void kf_groups_update_owed(struct kf_queue *kq, u64 now_ns);

/* gate.c */
bool kf_group_is_present(struct kf_group *kg, u64 now_ns);
void kf_gate_init(struct kf_queue *kq);
bool kf_clock_update(struct kf_queue *kq);
bool kf_clock_try_update(struct kf_queue *kq);
bool kf_gate_wait(struct kf_queue *kq, struct kf_hctx *kh);
bool kf_wait_for(struct kf_queue *kq, struct kf_hctx *kh, enum kf_wait_for what);
void kf_gate_kick(struct kf_queue *kq, enum kf_wait_for what, bool all, struct kf_hctx *self);
void kf_gate_done(struct kf_queue *kq, u64 now_ns);
bool kf_gate_publish(struct kf_queue *kq);
void kf_gate_kick_all(struct kf_queue *kq);
void kf_gate_account(struct kf_queue *kq, const struct kf_cpu_sample *sample, bool was_idle);
void kf_probe_done(struct kf_group *kg, bool is_write, u32 bytes, bool is_alone, u64 io_ns);
void kf_gate_stop_waiting(struct kf_queue *kq);

/* large.c */
bool kf_large_get(struct kf_queue *kq, struct kf_hctx *kh, enum kf_domain_id id);
void kf_large_put(struct kf_queue *kq, enum kf_domain_id id);
void kf_large_kick(struct kf_queue *kq);
void kf_large_completed(struct kf_queue *kq, enum kf_domain_id id, u64 start_ns);
void kf_large_account(struct kf_queue *kq, const struct kf_cpu_sample *sample);

/* cgroup.c */
extern struct blkcg_policy kf_policy;
void kf_wait_for_groups(void);

/* stat.c */
void kf_count_dispatch(struct kf_backlog *kb, struct request *rq);
void kf_latency_alloc(struct kf_backlog *kb);
void kf_latency_free(struct kf_group *kg);
void kf_latency_add(struct kf_backlog *kb, unsigned int dir, u64 latency_ns,
		    u64 now_ns);
int kf_stat_show(struct seq_file *sf, void *unused);
int kf_latency_show(struct seq_file *sf, void *unused);

/* debugfs.c */
extern const struct blk_mq_debugfs_attr kf_queue_debugfs_attrs[];

/* A backlog's requests that are queued or in flight; no lock. */
static inline unsigned int kf_backlog_nr(struct kf_backlog *kb)
{
	return kf_load_nr(atomic64_read(&kb->load));
}

/* What moves no data may take any time, and is charged as a page: not what is shared. */
static inline bool kf_rq_is_other(struct request *rq)
{
	return kf_domain_of(rq->cmd_flags) >= KF_NR_DIRS;
}

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

/* Whether no bit is taken. */
static inline bool kf_is_unused(struct sbitmap_queue *map)
{
	/* data_race(): the library reads each word whole, while bits come and go. */
	return !data_race(sbitmap_any_bit_set(&map->sb));
}

/* No request is in flight that has a place; no lock. */
static inline bool kf_is_empty(struct kf_queue *kq)
{
	return !atomic_read(&kq->nr_in_flight);
}

/* Software queues may have requests that are not in their backlogs yet; no lock. */
static inline bool kf_has_inserted(struct kf_hctx *kh)
{
	/* One CPU's go straight to their backlogs. data_race(): as in kf_is_unused(). */
	return kh->nr_ctx > 1 && data_race(sbitmap_any_bit_set(&kh->ctx_map));
}

/* The next hardware context, from one on, on which a group may have requests; no lock. */
static inline unsigned int kf_group_next_busy(struct kf_group *kg, unsigned int from)
{
	/* Few machines have more than fit into a word. */
	if (from < BITS_PER_LONG) {
		unsigned long busy = READ_ONCE(*kg->busy) >> from;

		if (busy)
			return from + __ffs(busy);
		if (kg->nr_backlogs <= BITS_PER_LONG)
			return kg->nr_backlogs;
	}
	/* data_race(): as in kf_is_unused(). */
	return data_race(find_next_bit(kg->busy, kg->nr_backlogs, from));
}

static inline bool kf_group_is_busy(struct kf_group *kg)
{
	return kf_group_next_busy(kg, 0) < kg->nr_backlogs;
}

/* Whether the clock was older than so many steps at @now_ns; no lock. */
static inline bool kf_clock_is_older(struct kf_queue *kq, unsigned int steps, u64 now_ns)
{
	return (s64)(now_ns - READ_ONCE(kq->gate.clock_ns)) >=
	       (s64)(steps * READ_ONCE(kq->gate.step_ns));
}

/* Whether it is to be set; no lock. */
static inline bool kf_clock_is_due(struct kf_queue *kq)
{
	return kf_clock_is_older(kq, 1, ktime_get_ns());
}

/* Whether a cgroup of this vtime may dispatch; no lock. */
static inline bool kf_gate_allows(struct kf_queue *kq, u64 vtime)
{
	return READ_ONCE(kq->gate.is_open) ||
	       kf_vtime_before(vtime, READ_ONCE(kq->gate.limit));
}

/* The clock, or what may go while the clock is paced; no lock. */
static inline u64 kf_gate_turn_vtime(struct kf_queue *kq)
{
	return kf_clock_turn_vtime(READ_ONCE(kq->gate.vtime), READ_ONCE(kq->gate.limit));
}

/* Whether what a cgroup inserts has to wait for the clock, as far as is known; no lock. */
static inline bool kf_backlog_is_throttled(struct kf_queue *kq, struct kf_backlog *kb)
{
	return READ_ONCE(kb->left_bytes) <= 0 &&
	       !kf_gate_allows(kq, atomic64_read(&kb->kg->vtime));
}

/* Whether hardware contexts wait; no lock. */
static inline bool kf_waits_for(struct kf_queue *kq, enum kf_wait_for what)
{
	return !list_empty(&kq->waiting[what]);
}

/* Whether hardware contexts wait for a large request to complete; no lock. */
static inline bool kf_waits_for_large(struct kf_queue *kq)
{
	return kf_waits_for(kq, KF_FOR_LARGE + KF_READ) ||
	       kf_waits_for(kq, KF_FOR_LARGE + KF_WRITE);
}

/* As many may be in flight, but for requests of groups that are owed; no lock. */
static inline unsigned int kf_nr_places(struct kf_queue *kq)
{
	return min(READ_ONCE(kq->ceiling), READ_ONCE(kq->gate.most_places));
}

/* A group that is not awaited is behind a disk of its own; no lock. */
static inline bool kf_group_is_owed(struct kf_group *kg)
{
	return READ_ONCE(kg->owed_ns) > 0;
}

/* Places that are free, or less than none; no lock. */
static inline int kf_nr_free(struct kf_queue *kq)
{
	return kf_nr_places(kq) - atomic_read(&kq->nr_in_flight);
}

/* Whether a hardware context waits for a place; no lock. */
static inline bool kf_waits_for_place(struct kf_hctx *kh)
{
	return test_bit(KF_FOR_PLACE, &kh->flags);
}

/* Whether a backlog has to wait for the clock, as far as is known; no lock. */
static inline bool kf_hctx_is_throttled(struct kf_queue *kq, struct kf_hctx *kh)
{
	unsigned long has_ready = READ_ONCE(kh->has_ready);

	for (; has_ready; has_ready &= has_ready - 1)
		if (!kf_gate_allows(kq, READ_ONCE(kh->first_vtime[__ffs(has_ready)])))
			return true;
	return false;
}

/*
 * Whether what goes first in a domain waits for something else than the clock. Small requests
 * pass a large one, so its domain waits for both.
 */
static inline bool kf_domain_waits(unsigned long flags, unsigned int id)
{
	return flags & BIT(KF_FOR_TOKEN + id) ||
	       (id < KF_NR_DIRS && flags & BIT(KF_FOR_LARGE + id) && flags & BIT(KF_FOR_CLOCK));
}

/* Its last CPU is about to go, and the kernel waits until it has no requests; no lock. */
static inline bool kf_hctx_must_drain(struct kf_hctx *kh)
{
	return unlikely(test_bit(BLK_MQ_S_INACTIVE, &kh->hctx->state)) &&
	       READ_ONCE(kh->has_ready);
}

/* Whether a backlog may go, as far as is known; no lock. */
static inline bool kf_hctx_may_go(struct kf_queue *kq, struct kf_hctx *kh)
{
	unsigned long flags = READ_ONCE(kh->flags);
	unsigned long has_ready = READ_ONCE(kh->has_ready);
	unsigned int id;

	if (kf_hctx_must_drain(kh) ||
	    (has_ready && READ_ONCE(kh->nr_lowered) != READ_ONCE(kq->gate.nr_lowered)))
		return true;
	for (; has_ready; has_ready &= has_ready - 1) {
		id = __ffs(has_ready);
		if (kf_gate_allows(kq, READ_ONCE(kh->first_vtime[id])) &&
		    !kf_domain_waits(flags, id))
			return true;
	}
	return false;
}

#endif /* _KYBER_FAIRNESS_H */
