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
#include "today.h"

/* Requests of one kind in a row. */
static const u32 today_batch[LAW_NR_DIRS] = { 16, 8 };

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

bool today_groups_share(struct today *kq, u64 now_ns)
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

u64 today_groups_inside(struct today *kq, u64 inside, u64 least)
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

	fprintf(out, "  today: unloaded %llu us, least %llu, inside %llu, most %llu, ",
		kq->unloaded_ns / 1000, kq->inside_least, kq->inside,
		kq->inside_trial.most);
	fprintf(out, "depth %u+%u, holds %s, %llu refills\n", kq->domain[0].share_depth,
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
