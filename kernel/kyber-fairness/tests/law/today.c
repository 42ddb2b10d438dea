// SPDX-License-Identifier: GPL-2.0-only
/*
 * The law that kyber-fairness has today. All arithmetic is the kernel's own, from
 * ../../budget.h and ../../cost.h and latency.h. What is between it, in group.c,
 * domain.c, ready.c and main.c, needs a kernel; it is written here again, function
 * by function under the names it has there without "kf_" or with "today_".
 *
 * Where this is not what the kernel does:
 *
 * - One thread, so atomics and locks are plain variables, and the states runnable
 *   and expected are looked up when they are needed, not counted.
 * - Cgroups have no parents: a share is a weight among the active ones.
 * - A timer and a wake-up take no time. A token that comes back wakes one hardware
 *   context at once; the kernel's sbitmap does so for up to eight at a time.
 * - A hardware context is not run while the disk has no tag left; the kernel lets
 *   one request of each go as far as that and wait there.
 * - Kyber's latency targets are as if at their largest values, and so are never
 *   missed: target_depth is the largest, and share-bound domains do not matter.
 * - There are no urgent requests, no hold_most_ms, and no guard.
 * - Bytes are shared.
 */
#include "engine.h"

#include "../../../common/latency.h"
#include "../../budget.h"
#include "../../cost.h"

#define TODAY_IDLE_NS		(10 * NSEC_PER_MSEC)
#define TODAY_PERIOD_NS		(100 * NSEC_PER_MSEC)
#define TODAY_SPREAD_NS		(5ULL * NSEC_PER_SEC)
#define TODAY_UNLOADED_PERMILLE	20
#define TODAY_UNLOADED_GROWTH	32
#define TODAY_INSIDE_MIN	8
#define TODAY_LARGE_SECTS	512
#define TODAY_LARGE_INSIDE	2
#define TODAY_LOOK_REQUESTS	1000
#define TODAY_LOOK_NS_MAX	NSEC_PER_SEC
#define TODAY_SHARED_NS		((u64)NSEC_PER_SEC)

/* Defaults of tunables.c. */
#define TODAY_ROUND_NS		(500 * NSEC_PER_USEC)
#define TODAY_ROUND_PCT		50
#define TODAY_TIMEOUT_NS	(20ULL * NSEC_PER_MSEC)
#define TODAY_HOLD_PCT		20
#define TODAY_INSIDE_PCT	150
#define TODAY_SHARE_ERROR_PCT	1
#define TODAY_WRITE_WAIT_PCT	100

/* The scheduler's timers. */
enum today_timer { TODAY_TIMER, TODAY_WORK };

static const u32 today_depth_max[LAW_NR_DIRS] = { 256, 128 };
static const u32 today_batch[LAW_NR_DIRS] = { 16, 8 };

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

static struct today_backlog *today_backlog(struct today *kq, u32 hctx, u32 group)
{
	return &kq->backlog[hctx * kq->nr_groups + group];
}

static u64 today_now(const struct today *kq)
{
	/* 0 means "never" in some places, as in the kernel, whose clock is not 0. */
	return kq->sim->now_ns + 1;
}

/*
 * group.c
 */

static bool today_runnable(const struct today *kq)
{
	u32 i;

	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].budget_bytes > 0 && kq->group[i].nr_backlogged)
			return true;
	return false;
}

static bool today_expected(const struct today *kq)
{
	u32 i;

	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].budget_bytes > 0 && !kq->group[i].nr_backlogged &&
		    kq->group[i].is_hungry)
			return true;
	return false;
}

static u64 today_part(const struct today *kq, const struct today_group *kg)
{
	return kg->is_hungry ? kf_share_among(kg->share, kq->hungry_share) : kg->share;
}

static u32 today_weights(const struct today *kq)
{
	u32 i, sum = 0;

	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].is_active)
			sum += kq->group[i].weight;
	return sum;
}

static void today_update_shares(struct today *kq)
{
	u32 i, sum = today_weights(kq);

	kq->hungry_share = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct today_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kg->share = kf_share_of(KF_SHARE_ONE, kg->weight, sum);
		if (kg->is_hungry)
			kq->hungry_share += kg->share;
	}
}

static bool today_could_have_more(const struct today *kq, const struct today_group *kg,
				  u64 now_ns)
{
	if (!kg->share || now_ns - kg->last_busy_ns > kq->unloaded_ns)
		return false;
	return kf_inside_for(kg->outstanding_max, kg->share) * KF_INSIDE_HOPELESS >=
	       kq->inside_least;
}

static s64 today_grant_bytes(const struct today *kq, const struct today_group *kg)
{
	return kf_grant_bytes(kq->pool_bytes, today_part(kq, kg));
}

static void today_deactivate(struct today *kq, struct today_group *kg)
{
	kg->is_active = false;
	kg->is_hungry = false;
	kq->nr_active--;
}

static u64 today_take_stock(struct today *kq, u64 now_ns, s64 *carried_bytes)
{
	u64 used_bytes = 0;
	u32 i;

	for (i = 0; i < kq->nr_groups; i++) {
		struct today_group *kg = &kq->group[i];
		s64 left_bytes = kg->budget_bytes, carry_bytes;

		if (!kg->is_active)
			continue;
		kg->outstanding_max = max(kg->outstanding_max, kg->nr_outstanding);
		if (kg->nr_outstanding)
			kg->last_busy_ns = now_ns;
		kg->is_hungry = left_bytes <= 0 || today_could_have_more(kq, kg, now_ns);
		if (left_bytes != kg->refilled_bytes) {
			u64 used = max_t(s64, kg->refilled_bytes - left_bytes, 0);

			used_bytes += used;
			kg->used_bytes += used;
			kg->last_used_ns = now_ns;
		} else if (!kg->nr_backlogged && !kg->nr_outstanding && left_bytes >= 0 &&
			   now_ns - kg->last_used_ns >= TODAY_IDLE_NS) {
			today_deactivate(kq, kg);
			continue;
		}
		carry_bytes = kf_carry_bytes(left_bytes, today_grant_bytes(kq, kg),
					     kg->mean_cost_bytes);
		kg->budget_bytes = carry_bytes;
		kg->refilled_bytes = carry_bytes;
		if (kg->is_hungry) {
			*carried_bytes += carry_bytes;
			kg->lost_bytes += left_bytes - carry_bytes;
			kg->nr_hungry++;
		}
	}
	kq->nr_refills++;
	kq->nr_refills_all++;
	return used_bytes;
}

static u64 today_rounds_needed(const struct today *kq, u64 spendable_bytes)
{
	u64 rounds = U64_MAX;
	u32 i;

	for (i = 0; i < kq->nr_groups; i++) {
		const struct today_group *kg = &kq->group[i];
		s64 grant_bytes = kf_grant_bytes(spendable_bytes, kg->share);

		if (!kg->is_active || !kg->is_hungry)
			continue;
		rounds = min(rounds, 1 + kf_rounds_to_spend(kg->refilled_bytes + grant_bytes,
							    grant_bytes));
	}
	if (!kq->hungry_share)
		return rounds == U64_MAX ? 1 : rounds;
	return max(rounds, kf_rounds_to_fill(kq->hungry_share));
}

static void today_end_hold(struct today *kq, u64 now_ns)
{
	u64 held_ns = now_ns - kq->hold_start_ns;

	if (!kq->hold_start_ns)
		return;
	kq->hold_credit_ns -= min(held_ns, kq->hold_credit_ns);
	kq->hold_start_ns = 0;
}

static void today_refill(struct today *kq)
{
	u64 now_ns = today_now(kq), elapsed_ns = now_ns - kq->round_start_ns;
	u64 round_ns = kf_round_ns(TODAY_ROUND_NS, kq->unloaded_ns, TODAY_ROUND_PCT);
	u64 used_bytes, estimate_bytes, spendable_bytes, rounds;
	s64 carried_bytes = 0;
	u32 i;

	today_end_hold(kq, now_ns);
	used_bytes = today_take_stock(kq, now_ns, &carried_bytes);
	today_update_shares(kq);

	estimate_bytes = kf_pool_estimate_bytes(used_bytes, elapsed_ns, round_ns);
	estimate_bytes = kf_pool_follow_bytes(estimate_bytes, kq->pool_bytes, elapsed_ns,
					      round_ns);
	kq->pool_bytes = kf_pool_next_bytes(estimate_bytes, kq->pool_bytes, kq->nr_active);
	spendable_bytes = kf_spendable_bytes(kq->pool_bytes, carried_bytes, kq->nr_active);
	rounds = today_rounds_needed(kq, spendable_bytes);

	for (i = 0; i < kq->nr_groups; i++) {
		struct today_group *kg = &kq->group[i];
		s64 grant_bytes = kf_grant_bytes(spendable_bytes, kg->share);

		if (!kg->is_active)
			continue;
		if (kg->is_hungry)
			grant_bytes *= rounds;
		kg->refilled_bytes += grant_bytes;
		kg->levels_per_byte = kf_levels_per_byte(grant_bytes);
		kg->budget_bytes += grant_bytes;
	}

	kq->hold_credit_ns = kf_hold_credit_ns(kq->hold_credit_ns, elapsed_ns, round_ns,
					       TODAY_HOLD_PCT);
	kq->hold_least_ns = kq->hold_trial.is_free ? round_ns / KF_HOLD_LEAST_PART : 1;
	kq->round_start_ns = now_ns;
	kq->round++;
}

static void today_start_timer(struct today *kq, u64 in_ns)
{
	kq->timer_ns = today_now(kq) + in_ns;
	law_timer(kq->sim, kq->sim->now_ns + in_ns, TODAY_TIMER);
}

static bool today_hold_refill(struct today *kq)
{
	u64 now_ns = today_now(kq);

	if (!today_expected(kq)) {
		today_end_hold(kq, now_ns);
		return false;
	}
	if (!kq->hold_start_ns) {
		u64 age_ns = now_ns - kq->round_start_ns;

		if (kq->hold_credit_ns < kq->hold_least_ns || age_ns >= TODAY_TIMEOUT_NS)
			return false;
		kq->hold_start_ns = now_ns;
		today_start_timer(kq, min(kq->hold_credit_ns, TODAY_TIMEOUT_NS - age_ns));
		return true;
	}
	if (now_ns - kq->hold_start_ns < kq->hold_credit_ns)
		return true;
	today_end_hold(kq, now_ns);
	return false;
}

static bool today_refill_if_spent(struct today *kq)
{
	if (today_runnable(kq) || today_hold_refill(kq))
		return false;
	today_refill(kq);
	return true;
}

static void today_stop_holding(struct today *kq)
{
	if (kq->hold_trial.is_free)
		kq->hold_start_ns = 0;
	else
		today_end_hold(kq, today_now(kq));
}

static void today_run(struct law_sim *sim, u32 hctx);

static void today_kick_throttled(struct today *kq)
{
	bool was[LAW_HCTX_MAX];
	u32 i;

	for (i = 0; i < kq->nr_hctx; i++) {
		was[i] = kq->hctx[i].is_throttled;
		kq->hctx[i].is_throttled = false;
	}
	for (i = 0; i < kq->nr_hctx; i++)
		if (was[i])
			today_run(kq->sim, i);
}

static bool today_anyone_throttled(const struct today *kq)
{
	u32 i;

	for (i = 0; i < kq->nr_hctx; i++)
		if (kq->hctx[i].is_throttled)
			return true;
	return false;
}

static bool today_wait_for_refill(struct today *kq, struct today_hctx *kh)
{
	if (kh->is_throttled)
		return false;
	kh->is_throttled = true;
	if (!kq->timer_ns)
		today_start_timer(kq, TODAY_TIMEOUT_NS);
	return true;
}

static void today_timer_fn(struct today *kq)
{
	u64 age_ns;

	/* It was started anew since. */
	if (!kq->timer_ns || kq->timer_ns != today_now(kq))
		return;
	kq->timer_ns = 0;
	age_ns = today_now(kq) - kq->round_start_ns;
	if (age_ns < TODAY_TIMEOUT_NS && (today_runnable(kq) || today_hold_refill(kq))) {
		if (today_anyone_throttled(kq) && !kq->timer_ns)
			today_start_timer(kq, TODAY_TIMEOUT_NS - age_ns);
		return;
	}
	today_refill(kq);
	today_kick_throttled(kq);
}

static void today_activate(struct today *kq, struct today_group *kg)
{
	s64 grant_bytes;

	kg->is_active = true;
	kq->nr_active++;
	kg->share = kf_share_of(KF_SHARE_ONE, kg->weight, today_weights(kq));
	grant_bytes = kf_grant_bytes(kq->pool_bytes, kg->share);
	kg->budget_bytes = grant_bytes;
	kg->refilled_bytes = grant_bytes;
	kg->levels_per_byte = kf_levels_per_byte(grant_bytes);
	kg->last_used_ns = today_now(kq);
	if (kq->nr_active > 1)
		kq->shared_ns = kg->last_used_ns;
}

static bool today_groups_share(struct today *kq, u64 now_ns)
{
	if (kq->nr_active > 1)
		kq->shared_ns = now_ns;
	return kq->shared_ns && now_ns - kq->shared_ns < TODAY_SHARED_NS;
}

struct today_missed {
	u64 error, saved;
};

static void today_group_missed(struct today *kq, struct today_group *kg,
			       struct today_missed *most)
{
	s64 saved_bytes = max_t(s64, kg->budget_bytes - today_grant_bytes(kq, kg), 0);
	s64 more_bytes = max_t(s64, saved_bytes - kg->saved_bytes, 0);

	kg->saved_bytes = saved_bytes;
	most->error = max(most->error, kf_permille(kg->lost_bytes + more_bytes,
						   kg->used_bytes));
	most->saved = max(most->saved, kf_permille(kg->lost_bytes + saved_bytes,
						   kg->used_bytes));
}

static bool today_group_counts(const struct today *kq, const struct today_group *kg)
{
	return kg->is_active && kg->outstanding_max && kg->share &&
	       (kq->nr_refills ? 2 * kg->nr_hungry > kq->nr_refills : kg->is_hungry);
}

static u64 today_groups_inside(struct today *kq, u64 inside, u64 least)
{
	u32 least_cost_bytes = U32_MAX, most_cost_bytes = 0, nr = 0, i;
	u64 own = U32_MAX, requests_sum = 0;
	struct today_missed missed = {};
	bool is_new;

	for (i = 0; i < kq->nr_groups; i++) {
		struct today_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kg->outstanding_max = max(kg->outstanding_max, kg->nr_outstanding);
		if (!today_group_counts(kq, kg))
			continue;
		requests_sum += kf_requests_for(kg->share, kg->mean_cost_bytes);
		least_cost_bytes = min(least_cost_bytes, kg->mean_cost_bytes);
		most_cost_bytes = max(most_cost_bytes, kg->mean_cost_bytes);
		nr++;
	}
	for (i = 0; i < kq->nr_groups; i++) {
		struct today_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		if (today_group_counts(kq, kg)) {
			u64 requests = kf_requests_for(kg->share, kg->mean_cost_bytes);
			u64 inside_for = kf_inside_for(kg->outstanding_max,
						       kf_request_share(requests, requests_sum));

			if (inside_for * KF_INSIDE_HOPELESS >= least) {
				own = min(own, inside_for);
				today_group_missed(kq, kg, &missed);
			}
		}
		kg->outstanding_max -= DIV_ROUND_UP(kg->outstanding_max, 4);
		kg->nr_hungry = 0;
		kg->lost_bytes = 0;
		kg->used_bytes = 0;
	}
	is_new = nr >= 2 || kq->nr_refills || kq->nr_active < 2;
	kq->nr_refills = 0;
	if (!is_new)
		return inside;
	if (nr < 2 || own == U32_MAX)
		return U32_MAX;
	return kf_inside_next(inside, kf_inside_most(own, least_cost_bytes, most_cost_bytes),
			      least, missed.error, missed.saved, TODAY_SHARE_ERROR_PCT * 10);
}

/*
 * domain.c
 */

static u32 today_tokens_used(const struct today_domain *kd, u32 below)
{
	u32 i, nr = 0;

	for (i = 0; i < 4 && 64 * i < below; i++) {
		u64 bits = kd->tokens[i];

		if (below - 64 * i < 64)
			bits &= BIT_ULL(below - 64 * i) - 1;
		nr += hweight64(bits);
	}
	return nr;
}

static int today_get_token(struct today_domain *kd)
{
	u32 i;

	for (i = 0; i < 4 && 64 * i < kd->share_depth; i++) {
		u32 bit;

		if (!~kd->tokens[i])
			continue;
		bit = 64 * i + __ffs64(~kd->tokens[i]);
		if (bit >= kd->share_depth)
			return -1;
		kd->tokens[i] |= BIT_ULL(bit % 64);
		return bit;
	}
	return -1;
}

static void today_find_unloaded(struct today_domain *kd, bool forget)
{
	u64 most_ns = kd->unloaded_ns ?: U64_MAX;
	u32 bucket, rank = 0;

	if (forget && kd->unloaded_ns)
		most_ns += most_ns / TODAY_UNLOADED_GROWTH;
	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
		rank += kd->spread[0][bucket] + kd->spread[1][bucket];
	rank = DIV_ROUND_UP(rank * (u64)TODAY_UNLOADED_PERMILLE, 1000);
	if (!rank)
		return;
	for (bucket = 0; bucket < LAT_NR_BUCKETS - 1; bucket++) {
		u32 nr = kd->spread[0][bucket] + kd->spread[1][bucket];

		if (nr >= rank)
			break;
		rank -= nr;
	}
	kd->unloaded_ns = min(lat_bucket_ns(bucket), most_ns);
}

static u32 today_nr_inside(const struct today *kq)
{
	u32 id, inside = 0;

	for (id = 0; id < LAW_NR_DIRS; id++)
		inside += today_tokens_used(&kq->domain[id], kq->domain[id].share_depth);
	return inside;
}

static bool today_tokens_are_out(const struct today *kq)
{
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		const struct today_domain *kd = &kq->domain[id];
		u32 depth = kd->share_depth;

		if (today_tokens_used(kd, depth) >= depth - depth / 8)
			return true;
	}
	return false;
}

static bool today_look_is_long(struct today *kq, u64 nr_done, u64 elapsed_ns, u64 *rate)
{
	bool is_long;

	kq->look_nr_done += nr_done;
	kq->look_elapsed_ns += elapsed_ns;
	kq->look_work += *rate * elapsed_ns;
	is_long = kq->look_nr_done >= TODAY_LOOK_REQUESTS;
	*rate = div64_u64(kq->look_work, kq->look_elapsed_ns);
	if (is_long || kq->look_elapsed_ns >= TODAY_LOOK_NS_MAX)
		kq->look_nr_done = kq->look_elapsed_ns = kq->look_work = 0;
	return is_long;
}

static u64 today_per_second(u64 nr_done, u64 elapsed_ns)
{
	return div64_u64(nr_done * NSEC_PER_SEC, elapsed_ns);
}

static void today_look_at_rate(struct today *kq, u64 nr_done, u64 elapsed_ns, bool is_shared)
{
	u64 reads = kq->domain[0].nr_done;
	struct kf_inside_trial *it = &kq->inside_trial;
	u64 most = it->most, inside = today_nr_inside(kq);
	u64 rate;

	rate = kf_mix_rate(&kq->mix, today_per_second(reads, elapsed_ns),
			   today_per_second(nr_done - reads, elapsed_ns),
			   !it->step && !it->began);
	if (!it->step)
		kf_hold_try(&kq->hold_trial, rate);
	if (!is_shared) {
		kf_inside_forget(it, rate);
		return;
	}
	if (kf_inside_settles(it)) {
		kq->look_nr_done = kq->look_elapsed_ns = kq->look_work = 0;
		return;
	}
	if (!it->step && most && !today_tokens_are_out(kq))
		return;
	if (!today_look_is_long(kq, nr_done, elapsed_ns, &rate))
		return;
	kf_inside_try(it, inside, kq->inside_least, rate);
}

static u64 today_inside_of(const struct today *kq, u32 id)
{
	u64 most = kq->inside_trial.most;

	if (!most || !kf_mix_is_busy_with(&kq->mix, id))
		return kq->inside;
	return min(kq->inside, most);
}

static u64 today_inside_large(const struct today_domain *kd, u64 least)
{
	if (kd->sects_done < kd->nr_done * TODAY_LARGE_SECTS)
		return U32_MAX;
	return max_t(u64, least, TODAY_INSIDE_MIN) * TODAY_LARGE_INSIDE;
}

/* The second half of kf_limit_inside(): each domain's tokens. */
static void today_set_tokens(struct today *kq, const u64 *least_of, u64 nr_done, bool is_shared)
{
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];
		u64 depth = div64_u64(today_inside_of(kq, id) * kd->nr_done,
				      max_t(u64, nr_done, 1));

		if (is_shared)
			depth = min(depth, today_inside_large(kd, least_of[id]));
		if (!kd->nr_done)
			depth = today_tokens_used(kd, kd->share_depth) ?
				kd->share_depth : U32_MAX;
		kd->share_depth = clamp_t(u64, depth, TODAY_INSIDE_MIN / 4,
					  today_depth_max[id]);
		kd->nr_done = 0;
		kd->sects_done = 0;
	}
}

static void today_limit_inside(struct today *kq)
{
	u64 now_ns = today_now(kq);
	u64 elapsed_ns = max_t(u64, now_ns - kq->inside_start_ns, 1);
	u64 least = 0, nr_done = 0, unloaded_ns = 0, inside;
	u64 least_of[LAW_NR_DIRS] = {};
	bool forget = now_ns - kq->spread_start_ns >= TODAY_SPREAD_NS;
	bool was_idle = elapsed_ns > 3 * TODAY_PERIOD_NS && !kq->nr_left_inside;
	bool is_shared = today_groups_share(kq, now_ns);
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		nr_done += kd->nr_done;
		if (!kd->nr_done)
			continue;
		today_find_unloaded(kd, forget);
		least_of[id] = kf_inside_least(kd->nr_done, elapsed_ns, kd->unloaded_ns,
					       TODAY_INSIDE_PCT);
		least += least_of[id];
		if (!unloaded_ns || (kd->unloaded_ns && kd->unloaded_ns < unloaded_ns))
			unloaded_ns = kd->unloaded_ns;
	}
	if (nr_done)
		kq->unloaded_ns = unloaded_ns;
	least = max_t(u64, least, TODAY_INSIDE_MIN);
	kq->inside_least = least;
	if (was_idle)
		kf_inside_forget(&kq->inside_trial, today_per_second(nr_done, elapsed_ns));
	else if (nr_done)
		today_look_at_rate(kq, nr_done, elapsed_ns, is_shared);
	inside = today_groups_inside(kq, kq->inside, least);
	if (kq->inside_is_new)
		inside = max(inside, kq->inside);
	if (was_idle || inside > today_depth_max[0])
		inside = U32_MAX;
	kq->inside_is_new = inside < kq->inside;
	kq->inside = inside;

	today_set_tokens(kq, least_of, nr_done, is_shared);
	kq->inside_start_ns = now_ns;
	kq->nr_left_inside = today_nr_inside(kq);
	if (!forget)
		return;
	kq->spread_start_ns = now_ns;
	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		memcpy(kd->spread[1], kd->spread[0], sizeof(kd->spread[1]));
		memset(kd->spread[0], 0, sizeof(kd->spread[0]));
	}
}

static void today_work(struct today *kq)
{
	u32 id, bucket;

	kq->work_pending = false;
	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++) {
			kd->spread[0][bucket] += kd->done_spread[bucket];
			kd->nr_done += kd->done_spread[bucket];
		}
		memset(kd->done_spread, 0, sizeof(kd->done_spread));
	}
	today_limit_inside(kq);
}

/*
 * ready.c
 */

static void today_ready_add(struct today_hctx *kh, struct today_backlog *kb, u32 id)
{
	u32 level = kf_level(kb->kg->budget_bytes, kb->kg->levels_per_byte);

	kb->level[id] = level;
	list_add_tail(&kb->node[id], &kh->ready[id][level]);
	kh->ready_levels[id] |= BIT_ULL(level);
}

static void today_ready_del(struct today_hctx *kh, struct today_backlog *kb, u32 id)
{
	u32 level = kb->level[id];

	list_del_init(&kb->node[id]);
	if (level == KF_NR_LEVELS)
		kh->nr_spent--;
	else if (list_empty(&kh->ready[id][level]))
		kh->ready_levels[id] &= ~BIT_ULL(level);
}

/* LAW_NR_DIRS: neither has to wait for the other. */
static u32 today_deferred(struct today *kq, struct today_backlog *kb)
{
	struct law_rq *read, *write;

	if (list_empty(&kb->rqs[0]) || list_empty(&kb->rqs[1]))
		return LAW_NR_DIRS;
	read = list_first_entry(&kb->rqs[0], struct law_rq, node);
	write = list_first_entry(&kb->rqs[1], struct law_rq, node);
	return kf_write_goes_first(kq->sim->now_ns, read->insert_ns, write->insert_ns,
				   TODAY_WRITE_WAIT_PCT) ? 0 : 1;
}

static void today_choose(struct today *kq, struct today_hctx *kh, struct today_backlog *kb)
{
	u32 deferred = today_deferred(kq, kb), id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		bool is_due = id != deferred && !list_empty(&kb->rqs[id]);

		if (is_due == !list_empty(&kb->node[id]))
			continue;
		if (is_due)
			today_ready_add(kh, kb, id);
		else
			today_ready_del(kh, kb, id);
	}
}

static void today_ready_move(struct today_hctx *kh, struct today_backlog *kb, u32 id)
{
	u32 level = kf_level(kb->kg->budget_bytes, kb->kg->levels_per_byte);

	if (level == kb->level[id] && kb->node[id].next == kb->node[id].prev)
		return;
	today_ready_del(kh, kb, id);
	today_ready_add(kh, kb, id);
}

static void today_hold_back(struct today_hctx *kh, struct today_backlog *kb, u32 id)
{
	today_ready_del(kh, kb, id);
	kb->level[id] = KF_NR_LEVELS;
	list_add_tail(&kb->node[id], &kh->spent[id]);
	kh->nr_spent++;
}

static bool today_see_refill(struct today *kq, struct today_hctx *kh)
{
	struct today_backlog *kb, *next;
	u32 id;

	if (kh->round == kq->round)
		return false;
	kh->round = kq->round;
	for (id = 0; id < LAW_NR_DIRS; id++)
		list_for_each_entry_safe(kb, next, &kh->spent[id], node[id]) {
			today_ready_del(kh, kb, id);
			today_choose(kq, kh, kb);
		}
	return true;
}

/*
 * main.c
 */

static struct today_backlog *today_next_backlog(struct today_hctx *kh, u32 id)
{
	while (kh->ready_levels[id]) {
		u32 level = fls64(kh->ready_levels[id]) - 1;
		struct today_backlog *kb = list_first_entry(&kh->ready[id][level],
							    struct today_backlog, node[id]);

		if (kb->kg->budget_bytes > 0)
			return kb;
		today_hold_back(kh, kb, id);
	}
	return NULL;
}

static struct law_rq *today_dispatch_domain(struct today *kq, struct today_hctx *kh, u32 id)
{
	struct today_backlog *kb = today_next_backlog(kh, id);
	struct today_group *kg;
	struct law_rq *rq;
	int token;

	if (!kb)
		return NULL;
	token = today_get_token(&kq->domain[id]);
	if (token < 0) {
		kh->waits_for_token = true;
		return NULL;
	}
	kg = kb->kg;
	rq = list_first_entry(&kb->rqs[id], struct law_rq, node);
	rq->token = token;
	rq->cost_bytes = kf_cost_bytes(kf_rate(0, 1 << KF_RATE_SHIFT), rq->bytes);

	list_del_init(&rq->node);
	if (!--kb->nr_waiting)
		kg->nr_backlogged--;
	kg->budget_bytes -= rq->cost_bytes;
	kg->mean_cost_bytes = kf_mean_cost_bytes(kg->mean_cost_bytes, rq->cost_bytes);
	today_choose(kq, kh, kb);
	if (!list_empty(&kb->node[id])) {
		if (kg->budget_bytes > 0)
			today_ready_move(kh, kb, id);
		else
			today_hold_back(kh, kb, id);
	}
	kh->nr_batched++;
	return rq;
}

static struct law_rq *today_dispatch(struct today *kq, struct today_hctx *kh)
{
	struct law_rq *rq;
	u32 i;

	if (kh->nr_batched < today_batch[kh->cur_domain]) {
		rq = today_dispatch_domain(kq, kh, kh->cur_domain);
		if (rq)
			return rq;
	}
	kh->nr_batched = 0;
	for (i = 0; i < LAW_NR_DIRS; i++) {
		kh->cur_domain = (kh->cur_domain + 1) % LAW_NR_DIRS;
		rq = today_dispatch_domain(kq, kh, kh->cur_domain);
		if (rq)
			return rq;
	}
	return NULL;
}

static bool today_must_wait(const struct today_hctx *kh, const struct law_rq *rq)
{
	return kh->nr_spent && (!rq || !(kh->ready_levels[0] || kh->ready_levels[1]));
}

static struct law_rq *today_dispatch_request(struct today *kq, u32 hctx)
{
	struct today_hctx *kh = &kq->hctx[hctx];
	bool refilled = false, waits;
	struct law_rq *rq;

	today_see_refill(kq, kh);
	rq = today_dispatch(kq, kh);
	if (rq && kq->hold_start_ns)
		today_stop_holding(kq);
	waits = today_must_wait(kh, rq);
	if (!waits && rq && today_anyone_throttled(kq))
		refilled = today_refill_if_spent(kq);
	while (waits) {
		refilled = today_refill_if_spent(kq);
		if (!refilled && today_wait_for_refill(kq, kh))
			refilled = today_refill_if_spent(kq);
		if (!today_see_refill(kq, kh))
			break;
		if (!rq)
			rq = today_dispatch(kq, kh);
		waits = !refilled && today_must_wait(kh, rq);
	}
	/* First this one, or those that are kicked would find its request not counted. */
	if (rq)
		law_dispatch(kq->sim, rq);
	if (refilled)
		today_kick_throttled(kq);
	return rq;
}

static void today_run(struct law_sim *sim, u32 hctx)
{
	while (law_has_tag(sim) && today_dispatch_request(sim->data, hctx))
		;
}

static void today_insert(struct law_sim *sim, struct law_rq *rq)
{
	struct today *kq = sim->data;
	struct today_hctx *kh = &kq->hctx[rq->hctx];
	struct today_backlog *kb = today_backlog(kq, rq->hctx, rq->load);

	kb->kg->nr_outstanding++;
	list_add_tail(&rq->node, &kb->rqs[rq->dir]);
	if (!kb->nr_waiting++) {
		kb->kg->nr_backlogged++;
		if (!kb->kg->is_active)
			today_activate(kq, kb->kg);
	}
	if (kb->rqs[rq->dir].next->next == &kb->rqs[rq->dir])
		today_choose(kq, kh, kb);
}

static void today_complete(struct law_sim *sim, struct law_rq *rq)
{
	struct today *kq = sim->data;
	struct today_domain *kd = &kq->domain[rq->dir];
	u32 i;

	kd->done_spread[lat_bucket(sim->now_ns - rq->dispatch_ns)]++;
	kd->sects_done += rq->bytes >> 9;
	kd->tokens[rq->token / 64] &= ~BIT_ULL(rq->token % 64);
	kq->group[rq->load].nr_outstanding--;
	if (!kq->work_pending) {
		kq->work_pending = true;
		law_timer(sim, sim->now_ns + TODAY_PERIOD_NS, TODAY_WORK);
	}
	for (i = 0; i < kq->nr_hctx; i++) {
		u32 nr = (kq->next_hctx + i) % kq->nr_hctx;

		if (!kq->hctx[nr].waits_for_token)
			continue;
		kq->hctx[nr].waits_for_token = false;
		kq->next_hctx = nr + 1;
		today_run(sim, nr);
		break;
	}
}

static void today_timer(struct law_sim *sim, u64 what)
{
	u32 i;

	if (what == TODAY_TIMER) {
		today_timer_fn(sim->data);
		return;
	}
	today_work(sim->data);
	/* More tokens: sbitmap wakes those that wait when it is resized. */
	for (i = 0; i < sim->c->nr_hctx; i++)
		today_run(sim, i);
}

static void today_destroy(void *data)
{
	struct today *kq = data;

	free(kq->backlog);
	free(kq);
}

static void *today_create(struct law_sim *sim)
{
	struct today *kq = calloc(1, sizeof(*kq));
	u32 i, id, j;

	if (!kq)
		abort();
	kq->sim = sim;
	kq->nr_groups = sim->c->nr_loads;
	kq->nr_hctx = sim->c->nr_hctx;
	kq->backlog = calloc(kq->nr_groups * kq->nr_hctx, sizeof(*kq->backlog));
	if (!kq->backlog)
		abort();
	for (i = 0; i < kq->nr_groups; i++) {
		kq->group[i].weight = sim->c->load[i].weight;
		kq->group[i].mean_cost_bytes = KF_POOL_MIN_BYTES;
	}
	for (i = 0; i < kq->nr_hctx; i++)
		for (id = 0; id < LAW_NR_DIRS; id++) {
			for (j = 0; j < KF_NR_LEVELS; j++)
				INIT_LIST_HEAD(&kq->hctx[i].ready[id][j]);
			INIT_LIST_HEAD(&kq->hctx[i].spent[id]);
			for (j = 0; j < kq->nr_groups; j++) {
				struct today_backlog *kb = today_backlog(kq, i, j);

				kb->kg = &kq->group[j];
				INIT_LIST_HEAD(&kb->rqs[id]);
				INIT_LIST_HEAD(&kb->node[id]);
			}
		}
	kq->pool_bytes = KF_POOL_MIN_BYTES;
	kq->inside = U32_MAX;
	kq->inside_least = TODAY_INSIDE_MIN;
	for (id = 0; id < LAW_NR_DIRS; id++)
		kq->domain[id].share_depth = today_depth_max[id];
	return kq;
}

static void today_show(struct law_sim *sim, FILE *out)
{
	const struct today *kq = sim->data;

	fprintf(out, "  today: unloaded %llu us, least %llu, inside %llu, most %llu, depth %u+%u, holds %s, %llu refills\n",
		kq->unloaded_ns / 1000, kq->inside_least, kq->inside,
		kq->inside_trial.most, kq->domain[0].share_depth,
		kq->domain[1].share_depth, kq->hold_trial.is_free ? "free" : "paid",
		kq->nr_refills_all);
}

const struct law_sched law_today = {
	.name = "today",
	.create = today_create,
	.destroy = today_destroy,
	.insert = today_insert,
	.run = today_run,
	.complete = today_complete,
	.timer = today_timer,
	.show = today_show,
};
