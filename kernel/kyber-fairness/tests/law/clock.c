// SPDX-License-Identifier: GPL-2.0-only
/*
 * The law of ../../clock.h in the simulation, with min_total_pct in three settings: "law" has
 * the default, "full" 100, "exact" 0.
 *
 * What the module does with the law is here as well, in one thread: the gate, slices,
 * and the work of each tenth of a second. It differs in this: a hardware context whose
 * cgroups may not go is run by every completion, a walk over the cgroups takes no time,
 * and a cgroup is idle 100 ms after its last completion, whether or not the work found
 * a request of it.
 */
#include "engine.h"

#include "../../band.h"
#include "../../cost.h"
#include "../../large.h"
#include "../../share.h"

#define CLOCK_ACTIVE_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_WORK_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_MIN_TOTAL_PCT		45

/* What a timer is for. */
enum { CLOCK_WORK, CLOCK_PACE };

/* The host has run for so long when a case begins. */
#define CLOCK_UPTIME_NS		(30ULL * 86400 * NSEC_PER_SEC)

struct clock_group {
	u32 weight;
	u64 vtime;
	u64 share;
	u32 nr_waiting, nr_in_flight;
	u64 load, load_seen;
	u64 absent_ns;
	struct kf_depth depth;
	u64 alone_ns;		/* what a request of it takes alone in the device */
	u64 least_ns;
	struct kf_slowness slowness;
	struct kf_price price;
	u64 price_near;
	u64 owed_load, nr_sent;	/* since the last walk */
	s64 owed_ns;
	u64 done_ns;
	u64 sent_ns;
	u64 last_busy_ns;
	/* It may have requests: a walk that finds none clears it. */
	bool is_busy;
	bool is_awaited;
	u32 mean_cost_bytes, peak_cost_bytes;
	bool is_active;
};

struct clock_hctx {
	struct list_head rqs[LAW_LOADS_MAX];
	s64 left_bytes[LAW_LOADS_MAX];	/* of the group's last slice */
};

struct clock {
	struct law_sim *sim;
	u32 min_total_pct;
	struct clock_group group[LAW_LOADS_MAX];
	struct clock_hctx hctx[LAW_HCTX_MAX];
	u32 nr_groups, nr_hctx, nr_active;
	struct kf_band band;
	u64 vtime;			/* the clock */
	u64 lead_bytes;
	u64 lead;			/* in virtual time */
	u64 limit;
	u64 share_sum;
	u32 ceiling;
	u64 clock_ns, step_ns;
	u64 slowest_ns;
	bool is_work_pending, is_pace_pending;
	/* What completed since the last look, as the module has it for each CPU. */
	u64 nr_done[KF_NR_KINDS], nr_quick[KF_NR_KINDS];
	u64 done_bytes;
	/* A probe ran since then. */
	bool has_probed;
	/* Large requests. */
	struct kf_large large[LAW_NR_DIRS];
	u32 nr_large[LAW_NR_DIRS];
	bool saw_large_full[LAW_NR_DIRS];
	bool saw_large;			/* of those, at the last look */
	u64 nr_slices, nr_updates, nr_dispatched;
	u64 nr_forgiven;
	/* A disk of its own: see kf_owed_ns(). */
	u32 hold;
	u64 awaited_share;
	u32 nr_owed;		/* in flight, of those that are owed */
	struct kf_pace pace;
	u64 awaited_bytes;	/* of those awaited since the last look */
	u64 look_ns;
	/* Cost. */
	struct kf_model model;
	u64 rate[KF_NR_DIRS];
	struct kf_prices prices;
};

/* A time of the simulation, as the module has it. */
static u64 clock_uptime_ns(u64 sim_ns)
{
	return CLOCK_UPTIME_NS + sim_ns;
}

static bool clock_is_shared(const struct clock *kq)
{
	return kq->nr_active > 1;
}

/* Any group goes: it is alone, or a probe wants to see all. */
static bool clock_is_open(const struct clock *kq)
{
	return !clock_is_shared(kq) || kq->band.phase != KF_BAND_STEADY;
}

/* As kf_group_is_present(). */
static bool clock_look_at(const struct clock *kq, struct clock_group *kg)
{
	u64 idle_ns = kq->sim->now_ns - kg->done_ns;
	bool is_stuck = !kg->nr_waiting &&
			kq->sim->now_ns - max(kg->done_ns, kg->sent_ns) >
			kf_clock_stuck_ns(kq->slowest_ns);

	kg->is_busy = kf_clock_is_present(is_stuck ? 0 : kg->nr_waiting + kg->nr_in_flight,
					  idle_ns, kf_clock_grace_ns(kq->band.alone_ns));
	return kg->is_busy;
}

/* The least vtime of those that others wait for, or of all; and their shares together. */
static struct clock_group *clock_least(struct clock *kq, bool of_all, u64 *share_sum)
{
	struct clock_group *first = NULL;
	u32 i;

	*share_sum = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active || !kg->is_busy || !(of_all || kg->is_awaited))
			continue;
		if (!first || kf_vtime_before(kg->vtime, first->vtime)) {
			if (!clock_look_at(kq, kg))
				continue;
			first = kg;
		}
		*share_sum += kg->share;
	}
	return first;
}

static u64 clock_lag(const struct clock *kq, const struct clock_group *kg)
{
	/* A container's requests are of one size. */
	return kf_clock_lag_bytes(kq->lead_bytes, kg->mean_cost_bytes, 0, kg->share);
}

/* As kf_groups_lower(). */
static void clock_lower(struct clock *kq)
{
	u32 i;

	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (kg->is_active && kf_vtime_before(kq->vtime + clock_lag(kq, kg), kg->vtime))
			kg->vtime = kq->vtime + clock_lag(kq, kg);
	}
}

/* As kf_groups_update_owed(). */
static void clock_settle(struct clock *kq)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 lead_ns = kf_clock_lead_ns(kq->band.alone_ns, kq->step_ns);
	u32 i;

	kq->hold = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];
		u64 took_ns = kf_load_since(kg->load, &kg->owed_load, now_ns) << KF_LOAD_NS_SHIFT;
		u64 most_ns = kf_owed_most_ns(lead_ns, kg->alone_ns, kg->depth.milli);

		if (!kg->is_active || kg->is_awaited || !clock_look_at(kq, kg) ||
		    kq->band.phase != KF_BAND_STEADY)
			kg->owed_ns = 0;
		else
			kg->owed_ns = kf_owed_ns(kg->owed_ns, took_ns, kg->nr_sent,
						 kg->alone_ns ?: kq->band.alone_ns, kg->share,
						 most_ns);
		kg->nr_sent = 0;
		kq->hold = max(kq->hold, kf_hold_of(kg->owed_ns, most_ns));
	}
	kf_pace_count(&kq->pace, kq->hold);
}

/* One that is owed waits for no other. */
static void clock_see_owed(const struct clock *kq, struct clock_group *kg)
{
	u64 turn = kf_clock_turn_vtime(kq->vtime, kq->limit);

	if (kg->owed_ns > 0 && kf_vtime_before(turn, kg->vtime))
		kg->vtime = turn;
}

/* As kf_clock_update(): the least vtime of those awaited; if there is none, of all. */
static void clock_update(struct clock *kq)
{
	u64 elapsed_ns = kq->sim->now_ns - kq->clock_ns, share_sum;
	struct clock_group *kg;
	u32 i;

	kq->clock_ns = kq->sim->now_ns;
	kq->nr_updates++;
	clock_settle(kq);
	kg = clock_least(kq, false, &share_sum) ?: clock_least(kq, true, &share_sum);
	if (kg) {
		kq->vtime = kg->vtime;
		if (share_sum > kq->share_sum)
			clock_lower(kq);
		kq->share_sum = share_sum;
	}
	kq->lead = kf_clock_lead_vtime(kq->lead_bytes, kq->share_sum);
	kq->limit = kf_hold_limit(kq->limit, kq->vtime + kq->lead, kq->pace.bytes_per_s, elapsed_ns,
				  kq->hold);
	for (i = 0; i < kq->nr_groups; i++)
		clock_see_owed(kq, &kq->group[i]);
}

static bool clock_is_due(const struct clock *kq)
{
	return kq->sim->now_ns - kq->clock_ns >= kq->step_ns;
}

static void clock_shares(struct clock *kq)
{
	u32 i, sum = 0;

	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].is_active)
			sum += kq->group[i].weight;
	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].is_active)
			kq->group[i].share = kf_share_of(KF_SHARE_ONE, kq->group[i].weight, sum);
}

static u64 clock_could(const struct clock_group *kg)
{
	return kf_clock_could(kg->depth.milli, kg->mean_cost_bytes, kg->alone_ns);
}

/* As kf_groups_level(). */
static u64 clock_level(const struct clock *kq, const struct kf_could *kc, u64 full)
{
	u32 i, steps = KF_LEVEL_STEPS;
	struct kf_level lvl;

	kf_level_begin(&lvl, kc, full);
	do {
		for (i = 0; i < kq->nr_groups; i++)
			if (kq->group[i].is_active)
				kf_level_add(&lvl, clock_could(&kq->group[i]), kq->group[i].share);
	} while (kf_level_rise(&lvl) && --steps);
	return lvl.at;
}

/* As kf_update_awaited(). */
static void clock_find_awaited(struct clock *kq)
{
	struct kf_could kc = { .min_total_pct = kq->min_total_pct };
	u64 all_milli = 0, level, any_level;
	bool must_fill = false;
	u32 i;

	kq->awaited_share = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kc.all += clock_could(kg);
		kc.most = max(kc.most, clock_could(kg));
		all_milli += kg->depth.milli;
	}
	level = clock_level(kq, &kc, kf_band_full(&kq->band));
	any_level = clock_level(kq, &kc, U64_MAX);
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kg->is_awaited = kf_clock_is_awaited(level, clock_could(kg), kg->share,
						     kg->is_awaited);
		if (kg->is_awaited)
			kq->awaited_share += kg->share;
		if (!kf_clock_is_awaited(any_level, clock_could(kg), kg->share, kg->is_awaited))
			must_fill = true;
	}
	kf_band_must_fill(&kq->band, must_fill, min(all_milli, 1000ULL * kq->sim->c->tags));
}

/* The lag of a cgroup that is not awaited is not kept for ever. */
static void clock_forgive(struct clock *kq, struct clock_group *kg)
{
	u64 lag = clock_lag(kq, kg);

	if (!kf_vtime_before(kg->vtime, kq->vtime - lag))
		return;
	kg->vtime = kq->vtime - lag;
	kq->nr_forgiven++;
}

static bool clock_lets(const struct clock *kq, const struct clock_group *kg)
{
	return clock_is_open(kq) || kf_vtime_before(kg->vtime, kq->limit);
}

/* Whether a group that has no slice here may have one. */
static bool clock_may_go(struct clock *kq, struct clock_group *kg)
{
	if (clock_lets(kq, kg))
		return true;
	if (clock_is_due(kq)) {
		clock_update(kq);
		if (clock_lets(kq, kg))
			return true;
	}
	if (!kq->sim->nr_inside && !kq->is_pace_pending) {
		kq->is_pace_pending = true;
		law_timer(kq->sim, kq->sim->now_ns + KF_PACE_NS, CLOCK_PACE);
	}
	kq->band.was_held = true;
	return false;
}

/* As band.keeps_out is set by kf_gate_publish(). */
static bool clock_keeps_out(const struct clock *kq)
{
	u32 i;

	for (i = 0; i < kq->nr_groups; i++)
		if (kq->group[i].is_active && !kq->group[i].is_awaited)
			return true;
	return kq->saw_large;
}

static void clock_charge(struct clock *kq, struct clock_hctx *kh, u32 nr, u32 cost_bytes)
{
	struct clock_group *kg = &kq->group[nr];
	u64 slice_bytes = cost_bytes;

	kq->nr_dispatched++;
	if (!clock_is_shared(kq))
		return;
	if (kh->left_bytes[nr] <= 0) {
		clock_forgive(kq, kg);
		if (kq->nr_hctx > 1 || kf_band_is_slack(&kq->band))
			slice_bytes = kf_slice_bytes(kq->lead, kq->lead_bytes, kg->share,
						     kq->nr_hctx, cost_bytes);
		kg->vtime += kf_vtime_of(slice_bytes, kg->share);
		clock_see_owed(kq, kg);
		kh->left_bytes[nr] += slice_bytes;
		kq->nr_slices++;
	}
	kh->left_bytes[nr] -= cost_bytes;
}

/* A hardware context that has no requests of a group keeps one request's worth of it. */
static void clock_give_back(struct clock *kq)
{
	u32 i, j;

	for (i = 0; i < kq->nr_hctx; i++)
		for (j = 0; j < kq->nr_groups; j++) {
			struct clock_group *kg = &kq->group[j];
			s64 *left_bytes = &kq->hctx[i].left_bytes[j];

			if (!list_empty(&kq->hctx[i].rqs[j]) || *left_bytes <= kg->mean_cost_bytes)
				continue;
			kg->vtime -= kf_vtime_of(*left_bytes - kg->mean_cost_bytes, kg->share);
			*left_bytes = kg->mean_cost_bytes;
		}
}

static struct law_rq *clock_head(struct clock *kq, u32 hctx, u32 nr)
{
	return list_first_entry_or_null(&kq->hctx[hctx].rqs[nr], struct law_rq, node);
}

/*
 * The hardware context whose request of this group has waited for longest. A hardware
 * context whose own request is hardly younger keeps its place.
 */
static u32 clock_oldest(struct clock *kq, u32 own, u32 nr)
{
	const struct law_rq *rq = own < kq->nr_hctx ? clock_head(kq, own, nr) : NULL;
	u64 least_ns = U64_MAX;
	u32 i, oldest = own;

	if (rq && rq->insert_ns <= kq->step_ns)
		return own;
	if (rq)
		least_ns = rq->insert_ns - kq->step_ns;
	for (i = 0; i < kq->nr_hctx; i++) {
		rq = clock_head(kq, i, nr);
		if (rq && rq->insert_ns < least_ns) {
			least_ns = rq->insert_ns;
			oldest = i;
		}
	}
	return oldest;
}

/* As many are in flight as may be. */
static bool clock_is_full(const struct clock *kq, const struct clock_group *kg)
{
	u32 places = kf_hold_places(kq->ceiling, kq->pace.milli / 1000, kq->hold);

	return !law_has_tag(kq->sim) ||
	       (clock_is_shared(kq) && kg->owed_ns <= 0 &&
		kq->sim->nr_inside - kq->nr_owed >= places);
}

static bool clock_is_large(const struct law_rq *rq)
{
	return rq->bytes >= KF_LARGE_BYTES;
}

/* As many large ones are in flight as may be, and this is one. */
static bool clock_waits_for_large(struct clock *kq, const struct law_rq *rq)
{
	if (!clock_is_large(rq) ||
	    kq->nr_large[rq->dir] < kf_large_most(kq->large[rq->dir].ceiling, kq->band.phase))
		return false;
	kq->saw_large_full[rq->dir] = true;
	return true;
}

/* As kf_calc_cost_bytes(). */
static u32 clock_cost_bytes(const struct clock *kq, const struct clock_group *kg,
			    const struct law_rq *rq)
{
	if (kg->price_near)
		return kf_price_bytes(kg->price_near, rq->bytes);
	return kf_cost_bytes(kq->rate[rq->dir], rq->bytes);
}

/*
 * Dispatch a request of a group, on this hardware context if it has one that is not
 * much younger than another's.
 */
static bool clock_dispatch(struct clock *kq, u32 hctx, u32 nr)
{
	struct clock_group *kg = &kq->group[nr];
	struct clock_hctx *kh;
	struct law_rq *rq;

	if (kq->nr_hctx > 1)
		hctx = clock_oldest(kq, hctx, nr);
	kh = &kq->hctx[hctx];
	if (kh->left_bytes[nr] <= 0 && !clock_may_go(kq, kg))
		return false;
	if (clock_is_full(kq, kg)) {
		if (kq->hold)
			kq->band.was_held = true;
		else
			kq->band.was_full = true;
		return false;
	}

	rq = clock_head(kq, hctx, nr);
	if (clock_waits_for_large(kq, rq))
		return false;
	kq->nr_large[rq->dir] += clock_is_large(rq);
	list_del(&rq->node);
	kg->nr_waiting--;
	kg->sent_ns = kq->sim->now_ns;
	kg->nr_in_flight++;
	rq->cost_bytes = clock_cost_bytes(kq, kg, rq);
	if (kg->is_awaited)
		kq->awaited_bytes += rq->cost_bytes;
	kg->price.fresh.nr[rq->dir]++;
	kg->price.fresh.bytes[rq->dir] += rq->bytes;
	rq->is_owed = kg->owed_ns > 0;
	kq->nr_owed += rq->is_owed;
	kg->nr_sent++;
	rq->is_alone = kq->band.phase == KF_BAND_EMPTY && !kq->sim->nr_inside;
	clock_charge(kq, kh, nr, rq->cost_bytes);
	kg->mean_cost_bytes = kf_mean_cost_bytes(kg->mean_cost_bytes, rq->cost_bytes);
	kg->peak_cost_bytes = max(kg->peak_cost_bytes, rq->cost_bytes);
	law_dispatch(kq->sim, rq);
	return true;
}

/* A container's requests are mostly of one direction. In a probe that decides which goes next. */
static bool clock_probes(struct clock *kq, const struct clock_group *kg)
{
	const struct law_rq *rq = NULL;
	u32 i;

	if (kq->band.phase != KF_BAND_EMPTY)
		return false;
	for (i = 0; !rq && i < kq->nr_hctx; i++)
		rq = clock_head(kq, i, kg - kq->group);
	return rq && rq->dir == kf_band_probes_writes(&kq->band);
}

/* The group that goes next: of this hardware context, of all if @hctx is none. */
static struct clock_group *clock_first(struct clock *kq, u32 hctx)
{
	struct clock_group *first = NULL;
	u32 i;

	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->nr_waiting || (hctx < kq->nr_hctx && !clock_head(kq, hctx, i)))
			continue;
		/* What waits for a large one to complete holds no other back. */
		if (kq->nr_hctx == 1 && clock_waits_for_large(kq, clock_head(kq, 0, i)))
			continue;
		if (!first || clock_probes(kq, kg) > clock_probes(kq, first) ||
		    (clock_probes(kq, kg) == clock_probes(kq, first) &&
		     kf_vtime_before(kg->vtime, first->vtime)))
			first = kg;
	}
	return first;
}

/* First this hardware context, as it has the place; then any. */
static void clock_run(struct law_sim *sim, u32 hctx)
{
	struct clock *kq = sim->data;

	/* One that is not awaited may be owed, and no cgroup throttled. */
	if (clock_is_shared(kq) && clock_is_due(kq))
		clock_update(kq);
	for (;;) {
		struct clock_group *kg = clock_first(kq, hctx);

		if (kg && clock_dispatch(kq, hctx, kg - kq->group))
			continue;
		if (hctx == LAW_HCTX_MAX || kq->nr_hctx == 1)
			return;
		hctx = LAW_HCTX_MAX;
	}
}

/* As kf_cost_set(). */
static void clock_cost_set(struct clock *kq)
{
	u32 dir;

	kq->band.turns = !strcmp(kq->sim->c->type->name, "hdd");
	if (!kf_model_guess(&kq->model, kq->band.kind, kq->band.turns))
		return;
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		kq->rate[dir] = kf_model_rate(&kq->model, dir);
	kq->band.full_bytes_per_s = 0;
	kf_band_probe_soon(&kq->band);
}

/* What is in flight may be another number now, and the clock another. */
static void clock_publish(struct clock *kq)
{
	if (!clock_is_shared(kq) && kq->band.phase != KF_BAND_STEADY)
		kf_band_end_probe(&kq->band, !kq->sim->nr_inside,
				  clock_uptime_ns(kq->sim->now_ns));
	clock_cost_set(kq);
	kq->band.keeps_out = clock_keeps_out(kq);
	kq->ceiling = kf_band_ceiling(&kq->band);
	kq->step_ns = kf_clock_step_ns(kq->band.alone_ns, 0, kf_band_is_slack(&kq->band));
	kq->lead_bytes = kf_clock_lead_bytes(kq->band.bytes_per_s,
					     kf_clock_lead_ns(kq->band.alone_ns, kq->step_ns),
					     kq->band.mean_cost_bytes);
}

/* A group comes back that had no requests: it begins at the clock. */
static void clock_come_back(struct clock *kq, struct clock_group *kg)
{
	if (clock_is_due(kq))
		clock_update(kq);
	kg->vtime = kf_vtime_max(kg->vtime, kq->vtime);
	if (kg->is_active)
		return;
	kg->is_active = true;
	kg->is_awaited = true;
	kg->last_busy_ns = kq->clock_ns;
	kf_depth_begin(&kg->depth, kg->absent_ns, clock_uptime_ns(kq->sim->now_ns));
	kq->nr_active++;
	clock_shares(kq);
	clock_publish(kq);
}

static u64 clock_absent_ns(const struct clock *kq, const struct clock_group *kg)
{
	return kf_clock_absent_ns(kg->nr_waiting + kg->nr_in_flight,
				  kq->sim->now_ns - kg->done_ns,
				  kf_clock_grace_ns(kq->band.alone_ns));
}

static void clock_insert(struct law_sim *sim, struct law_rq *rq)
{
	struct clock *kq = sim->data;
	struct clock_group *kg = &kq->group[rq->load];

	kg->absent_ns += clock_absent_ns(kq, kg);
	kg->load += kf_load_of(clock_uptime_ns(sim->now_ns));
	if (!kg->is_active || !kf_clock_is_present(kg->nr_waiting + kg->nr_in_flight,
						   sim->now_ns - kg->done_ns,
						   kf_clock_grace_ns(kq->band.alone_ns)) ||
	    !kg->is_busy) {
		clock_come_back(kq, kg);
		kg->done_ns = sim->now_ns;
	}
	kg->is_busy = true;
	list_add_tail(&rq->node, &kq->hctx[rq->hctx].rqs[rq->load]);
	kg->nr_waiting++;
}

/* As kf_gate_account(). */
static void clock_look(struct clock *kq)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 nr_all = 0;
	struct kf_band *band = &kq->band;
	u32 id;

	for (id = 0; id < KF_NR_KINDS; id++)
		nr_all += kq->nr_done[id];
	kq->saw_large = kq->saw_large_full[MD_READ] || kq->saw_large_full[MD_WRITE];
	for (id = 0; id < LAW_NR_DIRS; id++) {
		kf_large_update(&kq->large[id], kq->nr_done[kf_kind(id, KF_LARGE_BYTES)], nr_all,
				kq->saw_large_full[id], now_ns);
		kq->saw_large_full[id] = false;
	}
	kf_band_give_up(band, !kq->sim->nr_inside, now_ns);
	if (kq->has_probed && band->phase == KF_BAND_STEADY) {
		kq->has_probed = false;
		kf_band_begin_sample(band, now_ns);
	} else if (band->phase == KF_BAND_STEADY) {
		for (id = 0; id < KF_NR_KINDS; id++)
			kf_band_count(band, id, kq->nr_done[id], kq->nr_quick[id], 0);
		band->done_bytes += kq->done_bytes;
		band->is_busy = kf_band_is_busy(band, kq->sim->nr_inside);
		kf_band_update(band, clock_is_shared(kq), now_ns);
	}
	memset(kq->nr_done, 0, sizeof(kq->nr_done));
	memset(kq->nr_quick, 0, sizeof(kq->nr_quick));
	kq->done_bytes = 0;
	clock_publish(kq);
}

/* As kf_group_see_depth(). */
static void clock_see_depth(const struct clock *kq, struct clock_group *kg)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 absent_ns = kg->absent_ns + clock_absent_ns(kq, kg);

	kg->depth.sum += kf_load_since(kg->load, &kg->load_seen, now_ns);
	kf_depth_update(&kg->depth, absent_ns, now_ns);
}

/* As kf_groups_price(). */
static void clock_groups_price(struct clock *kq)
{
	u64 elapsed_ns = kq->sim->now_ns - kq->look_ns;
	struct kf_alone ka = kf_band_alone(&kq->band);
	u64 price[LAW_LOADS_MAX];
	u32 i;

	memset(&kq->prices, 0, sizeof(kq->prices));
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		price[i] = kf_price_update(&kg->price, kq->rate);
		kf_prices_add(&kq->prices, price[i]);
	}
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kg->price_near = kf_prices_near(&kq->prices, price[i]);
		kg->alone_ns = kf_alone_ns(&ka, &kg->price, kg->slowness.milli, kg->least_ns);
	}
	if (kq->band.phase == KF_BAND_STEADY)
		kf_pace_update(&kq->pace, kf_per_s(kq->awaited_bytes, elapsed_ns),
			       kf_band_full(&kq->band), max(kq->min_total_pct, KF_PACE_PCT_MIN),
			       kq->ceiling, kq->awaited_share);
	kq->awaited_bytes = 0;
	kq->look_ns = kq->sim->now_ns;
}

/* As kf_groups_update(). */
static void clock_groups_look(struct clock *kq)
{
	u64 now_ns = kq->sim->now_ns;
	u32 i;

	kq->slowest_ns -= kq->slowest_ns / KF_SLOWEST_FORGET;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		if (clock_look_at(kq, kg)) {
			kg->last_busy_ns = now_ns;
		} else if (now_ns - max(kg->last_busy_ns, kg->done_ns) >= CLOCK_ACTIVE_NS) {
			kg->is_active = false;
			kq->nr_active--;
		}
	}
	clock_shares(kq);
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		clock_see_depth(kq, kg);
		kg->peak_cost_bytes -= kg->peak_cost_bytes / KF_PEAK_FORGET;
	}
	clock_groups_price(kq);
	clock_find_awaited(kq);
	clock_publish(kq);
}

static void clock_ask_for_work(struct clock *kq)
{
	if (kq->is_work_pending)
		return;
	kq->is_work_pending = true;
	law_timer(kq->sim, kq->sim->now_ns + CLOCK_WORK_NS, CLOCK_WORK);
}

/* As latency_work. */
static void clock_timer(struct law_sim *sim, u64 what)
{
	struct clock *kq = sim->data;

	if (what == CLOCK_PACE) {
		kq->is_pace_pending = false;
		clock_run(sim, 0);
		return;
	}
	kq->is_work_pending = false;
	clock_look(kq);
	clock_groups_look(kq);
	clock_give_back(kq);
	if (kq->band.phase != KF_BAND_STEADY)
		clock_ask_for_work(kq);
	/* More may go than before, and no completion may come to tell. */
	clock_run(sim, 0);
}

/* As kf_probe_done(). */
static void clock_probe_done(struct clock *kq, const struct law_rq *rq)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns), io_ns = kq->sim->now_ns - rq->dispatch_ns;
	u32 kind = kf_kind(rq->dir, rq->bytes);
	bool is_sample = kf_band_samples(&kq->band, kind, rq->is_alone), is_other;

	kq->has_probed = true;
	/* What is charged may be another than when it was dispatched. */
	is_other = kf_band_done(&kq->band, kind, rq->bytes,
				kf_cost_bytes(kq->rate[rq->dir], rq->bytes),
				rq->is_alone, io_ns, now_ns);
	if (is_sample)
		kf_slowness_account(&kq->group[rq->load].slowness, &kq->band.kind[kind], io_ns);
	if (is_other || kf_band_update(&kq->band, true, now_ns))
		clock_publish(kq);
}

static void clock_complete(struct law_sim *sim, struct law_rq *rq)
{
	struct clock *kq = sim->data;
	struct clock_group *kg = &kq->group[rq->load];
	u32 kind = kf_kind(rq->dir, rq->bytes);

	kg->nr_in_flight--;
	kq->nr_owed -= rq->is_owed;
	kg->load -= kf_load_of(clock_uptime_ns(sim->now_ns));
	kg->done_ns = sim->now_ns;
	kq->nr_done[kind]++;
	kq->nr_quick[kind] += sim->now_ns - rq->dispatch_ns < kf_quick_ns(&kq->band.kind[kind]);
	kq->done_bytes += rq->cost_bytes;
	if (!kg->least_ns || sim->now_ns - rq->dispatch_ns < kg->least_ns)
		kg->least_ns = sim->now_ns - rq->dispatch_ns;
	kq->slowest_ns = max(kq->slowest_ns, sim->now_ns - rq->dispatch_ns);
	clock_ask_for_work(kq);
	if (clock_is_large(rq)) {
		kq->nr_large[rq->dir]--;
		kf_large_done(&kq->large[rq->dir], clock_uptime_ns(rq->dispatch_ns),
			      clock_uptime_ns(sim->now_ns));
	}
	if (kq->band.phase != KF_BAND_STEADY)
		clock_probe_done(kq, rq);
}

static struct clock *clock_create(struct law_sim *sim, u32 min_total_pct)
{
	struct clock *kq = calloc(1, sizeof(*kq));
	u32 i, j;

	if (!kq)
		abort();
	kq->sim = sim;
	kq->min_total_pct = min_total_pct;
	kq->nr_groups = sim->c->nr_loads;
	kq->nr_hctx = sim->c->nr_hctx;
	for (i = 0; i < kq->nr_groups; i++) {
		kq->group[i].weight = sim->c->load[i].weight;
		kq->group[i].mean_cost_bytes = KF_PAGE_BYTES;
		for (j = 0; j < kq->nr_hctx; j++)
			INIT_LIST_HEAD(&kq->hctx[j].rqs[i]);
	}
	kf_band_init(&kq->band);
	kf_band_begin_sample(&kq->band, CLOCK_UPTIME_NS);
	kf_large_init(&kq->large[0]);
	kf_large_init(&kq->large[1]);
	kq->band.mean_cost_bytes = KF_PAGE_BYTES;
	clock_publish(kq);
	return kq;
}

static void *clock_create_law(struct law_sim *sim)
{
	return clock_create(sim, CLOCK_MIN_TOTAL_PCT);
}

static void *clock_create_full(struct law_sim *sim)
{
	return clock_create(sim, 100);
}

static void *clock_create_exact(struct law_sim *sim)
{
	return clock_create(sim, 0);
}

static void clock_show(struct law_sim *sim, FILE *out)
{
	const struct clock *kq = sim->data;
	u32 i;

	fprintf(out, "  law: bdp %.1f, ceiling %u, lead %llu bytes, full %llu bytes/s, ",
		kq->band.bdp_milli / 1000.0, kq->ceiling, kq->lead_bytes,
		kq->band.full_bytes_per_s);
	fprintf(out, "%llu forgiven, a write %llu %% of a read, places %.1f, pace %llu, ",
		kq->nr_forgiven, kq->model.mib_ps[1] * 100 / kq->model.mib_ps[0],
		kq->pace.milli / 1000.0, kq->pace.bytes_per_s);
	fprintf(out, "%.3f slices and %.3f updates a request, ",
		(double)kq->nr_slices / max(kq->nr_dispatched, 1ULL),
		(double)kq->nr_updates / max(kq->nr_dispatched, 1ULL));
	fprintf(out, "%u probes of which %u fill, awaited", kq->band.nr_probes,
		kq->band.nr_fills);
	for (i = 0; i < kq->nr_groups; i++)
		fprintf(out, " %u", kq->group[i].is_awaited);
	fprintf(out, ", owed");
	for (i = 0; i < kq->nr_groups; i++)
		fprintf(out, " %lld us (alone %llu us, depth %.1f, could %llu, price %.2f)",
			kq->group[i].owed_ns / 1000, kq->group[i].alone_ns / 1000,
			kq->group[i].depth.milli / 1000.0, clock_could(&kq->group[i]),
			(double)kq->group[i].price_near / (1 << KF_PRICE_SHIFT));
	fprintf(out, ", alone");
	for (i = 0; i < KF_NR_KINDS; i++)
		fprintf(out, " %llu", kq->band.kind[i].alone_ns / 1000);
	fprintf(out, " us, large");
	for (i = 0; i < LAW_NR_DIRS; i++)
		fprintf(out, " %llu us ceiling %u", kq->large[i].alone_ns / 1000,
			kq->large[i].ceiling);
	fprintf(out, "\n");
}

#define CLOCK_SCHED(_name, _create)	\
{					\
	.name = _name,			\
	.create = _create,		\
	.destroy = free,		\
	.insert = clock_insert,		\
	.run = clock_run,		\
	.complete = clock_complete,	\
	.timer = clock_timer,		\
	.show = clock_show,		\
}

const struct law_sched law_clock = CLOCK_SCHED("law", clock_create_law);
const struct law_sched law_exact = CLOCK_SCHED("exact", clock_create_exact);
const struct law_sched law_full = CLOCK_SCHED("full", clock_create_full);
