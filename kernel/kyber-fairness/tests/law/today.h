/* SPDX-License-Identifier: GPL-2.0-only */
/* Structures of today's law in the simulation; see today.c. */
#ifndef _KF_LAW_TODAY_H
#define _KF_LAW_TODAY_H

#include "engine.h"

#include "../../../common/latency.h"
#include "../../budget.h"
#include "../../cost.h"

#define TODAY_IDLE_NS		(10 * NSEC_PER_MSEC)
#define TODAY_PERIOD_NS		(100 * NSEC_PER_MSEC)
#define TODAY_INSIDE_MIN	8
#define TODAY_SHARED_NS		((u64)NSEC_PER_SEC)

/* Defaults of tunables.c. */
#define TODAY_ROUND_NS		(500 * NSEC_PER_USEC)
#define TODAY_ROUND_PCT		50
#define TODAY_TIMEOUT_NS	(20ULL * NSEC_PER_MSEC)
#define TODAY_HOLD_PCT		20
#define TODAY_SHARE_ERROR_PCT	1
#define TODAY_WRITE_WAIT_PCT	100

/* The scheduler's timers. */
enum today_timer { TODAY_TIMER, TODAY_WORK };

struct today_domain {
	u64 tokens[4];		/* bits: in use */
	u32 share_depth;
	u64 nr_done, sects_done;
	u32 done_spread[LAT_NR_BUCKETS];	/* since the last work */
	u32 spread[2][LAT_NR_BUCKETS];
	u64 unloaded_ns;
};

struct today_group {
	u32 weight;
	s64 budget_bytes;
	u32 mean_cost_bytes;
	u32 nr_outstanding, nr_backlogged;
	bool is_active, is_hungry;
	s64 refilled_bytes;
	u64 levels_per_byte;
	u32 outstanding_max, nr_hungry;
	u64 used_bytes, lost_bytes;
	s64 saved_bytes;
	u64 last_used_ns, last_busy_ns;
	u64 share;
};

struct today_backlog {
	struct today_group *kg;
	struct list_head rqs[LAW_NR_DIRS];
	struct list_head node[LAW_NR_DIRS];
	u32 level[LAW_NR_DIRS];
	u32 nr_waiting;
};

struct today_hctx {
	u32 cur_domain, nr_batched, round;
	struct list_head ready[LAW_NR_DIRS][KF_NR_LEVELS];
	u64 ready_levels[LAW_NR_DIRS];
	struct list_head spent[LAW_NR_DIRS];
	u32 nr_spent;
	bool is_throttled;
	bool waits_for_token;
};

struct today {
	struct law_sim *sim;
	struct today_domain domain[LAW_NR_DIRS];
	struct today_group group[LAW_LOADS_MAX];
	struct today_hctx hctx[LAW_HCTX_MAX];
	struct today_backlog *backlog;	/* [hctx][group] */
	u32 nr_groups, nr_active, nr_hctx;
	u32 next_hctx;			/* to be woken for a token */

	u64 inside_start_ns, inside, inside_least;
	u32 nr_left_inside;
	bool inside_is_new;
	struct kf_inside_trial inside_trial;
	struct kf_mix mix;
	u64 look_nr_done, look_elapsed_ns, look_work;
	u64 unloaded_ns, spread_start_ns, shared_ns;
	u64 pool_bytes, hungry_share;
	u32 nr_refills, round;
	u64 nr_refills_all;
	u64 round_start_ns, hold_start_ns, hold_credit_ns, hold_least_ns;
	struct kf_hold_trial hold_trial;

	u64 timer_ns;			/* 0: not armed */
	bool work_pending;
};

static inline struct today_backlog *today_backlog(struct today *kq, u32 hctx, u32 group)
{
	return &kq->backlog[hctx * kq->nr_groups + group];
}

static inline u64 today_now(const struct today *kq)
{
	/* 0 means "never" in some places, as in the kernel, whose clock is not 0. */
	return kq->sim->now_ns + 1;
}

/* today.c */
u64 today_groups_inside(struct today *kq, u64 inside, u64 least);
bool today_groups_share(struct today *kq, u64 now_ns);

/* today-domain.c */
extern const u32 today_depth_max[LAW_NR_DIRS];
int today_get_token(struct today_domain *kd);
void today_work(struct today *kq);

#endif /* _KF_LAW_TODAY_H */
