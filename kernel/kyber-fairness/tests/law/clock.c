// SPDX-License-Identifier: GPL-2.0-only
/*
 * The law of ../../clock.h in the simulation, with depth_pct in three settings: "law" has
 * the default, "full" 100, "exact" 0. And "next", a trial that the module does not have: see
 * struct clock_next.
 *
 * What the module does with the law is here as well, in one thread: the gate, slices,
 * and the work of each tenth of a second. It differs in this: a hardware context whose
 * cgroups may not go is run by every completion, a walk over the cgroups takes no time,
 * and a cgroup is idle 100 ms after its last completion, whether or not the work found
 * a request of it.
 */
#include "engine.h"

#include "../../clock.h"
#include "../../cost.h"
#include "../../large.h"
#include "../../share.h"

#define CLOCK_ACTIVE_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_WORK_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_DEPTH_PCT		45

/* What a timer is for. */
enum { CLOCK_WORK, CLOCK_WAKE };

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
	u64 alone_ns;		/* what a request of it takes alone in the device; 0: not known */
	u64 owed_load, nr_sent;	/* since the last walk */
	s64 owed_ns;
	u64 done_ns;
	u64 sent_ns;
	u64 last_busy_ns;
	/* It may have requests: a walk that finds none clears it. */
	bool is_busy;
	bool is_awaited;
	u32 mean_cost_bytes, peak_cost_bytes;
	u32 mean_bytes;		/* what its requests move */
	bool is_active;
};

struct clock_hctx {
	struct list_head rqs[LAW_LOADS_MAX];
	s64 left_bytes[LAW_LOADS_MAX];	/* of the group's last slice */
};

/*
 * What "next" does in another way, for containers that are not alike.
 *
 * Cost. A request is charged the time that the device takes for it, by a model of reads that
 * is taught by what completes. A write is so many times a read. A disk that completes a write
 * in less than half of a read's time has it only in a buffer: then it is CLOCK_BUFFERED, about
 * what flash takes for writes that go on. Else it is what a write takes alone, to a read.
 *
 * Floor. Where one is owed, the others' places go down to one, for as long as they have their
 * share of the rate that they had while none was owed.
 *
 * Anticipation. A device that has become empty stays so for the time of a request alone before
 * one may go that is ahead of the clock.
 */
struct clock_next {
	struct kf_model model;
	struct kf_work work;		/* since the last look */
	u64 look_ns;
	bool was_full;
	u32 kind_bytes[KF_NR_KINDS];	/* of a request alone, about */
	u32 mean_bytes;			/* of a request */
	u64 awaited_bytes;		/* done for those awaited, since the last look */
	u64 free_bytes_per_s;		/* the same while none was owed */
	u32 floor_milli;		/* places of the others */
	bool was_owed;			/* since the last look */
	u64 empty_ns;			/* when the last one in flight completed */
	u64 wake_ns;
};

/* Percent of what a read costs. */
#define CLOCK_BUFFERED		800
#define CLOCK_WRITE_MOST	1600

struct clock {
	struct law_sim *sim;
	u32 depth_pct;
	struct clock_group group[LAW_LOADS_MAX];
	struct clock_hctx hctx[LAW_HCTX_MAX];
	u32 nr_groups, nr_hctx, nr_active;
	struct kf_band band;
	u64 vtime;			/* the clock */
	u64 lead_bytes;
	u64 lead;			/* in virtual time */
	u64 share_sum;
	u32 ceiling;
	u64 clock_ns, step_ns;
	bool is_work_pending;
	/* What completed since the last look, as the module has it for each CPU. */
	u64 nr_done[KF_NR_KINDS];
	u64 done_bytes;
	/* A probe ran since then. */
	bool has_probed;
	/* Large requests. */
	struct kf_large large[LAW_NR_DIRS];
	u32 nr_large[LAW_NR_DIRS];
	bool saw_large_full[LAW_NR_DIRS];
	u64 nr_slices, nr_updates, nr_dispatched;
	u64 nr_forgiven;
	/* A disk of its own: see kf_owed_ns(). */
	u32 hold;
	u64 awaited_share;
	u32 nr_owed;		/* in flight, of those that are owed */
	bool is_next;
	struct clock_next next;
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

/* Any group goes: it is alone, or a probe fills the device. */
static bool clock_is_open(const struct clock *kq)
{
	return !clock_is_shared(kq) || !kf_band_may_hold(&kq->band);
}

/* As kf_group_is_present(). */
static bool clock_look_at(const struct clock *kq, struct clock_group *kg)
{
	u64 idle_ns = kq->sim->now_ns - kg->done_ns;
	bool is_stuck = !kg->nr_waiting &&
			kq->sim->now_ns - max(kg->done_ns, kg->sent_ns) >
			kf_clock_stuck_ns(kq->band.full_ns, kq->band.bytes_per_s,
					  kg->peak_cost_bytes);

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

/* As kf_groups_settle(). */
static void clock_settle(struct clock *kq)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 lead_ns = kf_clock_lead_ns(kq->band.alone_ns, kq->step_ns);
	u32 i;

	kq->hold = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];
		u64 took_ns = kf_load_since(kg->load, &kg->owed_load, now_ns) << KF_LOAD_NS_SHIFT;
		u64 alone_ns = kg->alone_ns ?: kq->band.alone_ns;
		u64 most_ns = kf_owed_most_ns(lead_ns, kg->depth.milli);

		if (!kg->is_active || !kg->is_busy || kg->is_awaited ||
		    kq->band.phase != KF_BAND_STEADY)
			kg->owed_ns = 0;
		else
			kg->owed_ns = kf_owed_ns(kg->owed_ns, took_ns, kg->nr_sent, alone_ns,
						 kg->share, most_ns);
		kg->nr_sent = 0;
		kq->hold = max(kq->hold, kf_hold_of(kg->owed_ns, most_ns));
		if (kq->hold >= KF_HOLD_ONE / 2)
			kq->next.was_owed = true;
	}
}

/* As kf_gate_find(): the least vtime of those awaited; if there is none, of all. */
static void clock_update(struct clock *kq)
{
	struct clock_group *kg;
	u64 share_sum;

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

/* As kf_find_awaited(). */
static void clock_find_awaited(struct clock *kq)
{
	u64 requests_sum = 0, all_milli = 0;
	bool must_fill = false;
	u32 most_milli = 0, i;

	kq->awaited_share = 0;
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		requests_sum += kf_requests_for(kg->share, kg->mean_cost_bytes);
		all_milli += kg->depth.milli;
		most_milli = max(most_milli, kg->depth.milli);
	}
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];
		u64 share, need;
		u32 own;

		if (!kg->is_active)
			continue;
		share = kf_request_share(kf_requests_for(kg->share, kg->mean_cost_bytes),
					 requests_sum);
		own = kf_clock_own_milli(kg->depth.milli, kg->alone_ns,
					 kq->is_next ? kg->mean_bytes : kg->mean_cost_bytes,
					 kq->band.alone_ns, kq->is_next ? kq->next.mean_bytes :
					 kq->band.mean_cost_bytes);
		need = kf_clock_need_milli(share, kq->band.bdp_milli, all_milli, most_milli,
					   kq->depth_pct);
		kg->is_awaited = kf_clock_is_awaited(own, need, kg->is_awaited);
		if (kg->is_awaited)
			kq->awaited_share += kg->share;
		need = kf_clock_need_milli(share, U32_MAX, all_milli, most_milli, kq->depth_pct);
		if (!kf_clock_is_awaited(own, need, kg->is_awaited))
			must_fill = true;
	}
	kf_band_must_fill(&kq->band, must_fill, all_milli);
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
	return clock_is_open(kq) || kf_vtime_before(kg->vtime, kq->vtime + kq->lead);
}

/* The device is empty, and one that is not ahead may come. */
static bool clock_anticipates(struct clock *kq)
{
	u64 until_ns = kq->next.empty_ns + kq->band.alone_ns;

	if (!kq->is_next || kq->sim->now_ns >= until_ns)
		return false;
	if (kq->next.wake_ns != until_ns) {
		kq->next.wake_ns = until_ns;
		law_timer(kq->sim, until_ns, CLOCK_WAKE);
	}
	return true;
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
	if (!kq->sim->nr_inside && !clock_anticipates(kq))
		return true;
	kq->band.was_held = true;
	return false;
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
		if (kq->nr_hctx > 1)
			slice_bytes = kf_slice_bytes(kq->lead, kq->lead_bytes, kg->share,
						     kq->nr_hctx, cost_bytes);
		kg->vtime += kf_vtime_of(slice_bytes, kg->share);
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
	u32 places = kf_hold_places(kq->ceiling, kq->awaited_share, kq->hold);
	u32 floor = clamp(kq->next.floor_milli / 1000, 1U, kq->ceiling);

	if (kq->is_next)
		places = kq->ceiling - (u64)(kq->ceiling - floor) * kq->hold / KF_HOLD_ONE;

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
	if (!clock_is_large(rq) || kq->nr_large[rq->dir] < kq->large[rq->dir].ceiling)
		return false;
	kq->saw_large_full[rq->dir] = true;
	return true;
}

/* What a read of so many bytes takes alone, about; 0: not known. */
static u64 clock_read_ns(const struct clock *kq, u64 bytes)
{
	const struct clock_next *next = &kq->next;
	u32 id = kq->band.kind[0].alone_ns ? 0 : 2;
	u64 read_ns = kq->band.kind[id].alone_ns;

	if (!read_ns || bytes <= next->kind_bytes[id])
		return read_ns;
	return read_ns + mul_u64_u64_shr(bytes - next->kind_bytes[id],
					 next->model.mib_ps[0], 20) / 1000;
}

/* What a write costs, in percent of a read. */
static u32 clock_write_pct(const struct clock *kq)
{
	u32 id, pct = 100;

	for (id = 1; id < KF_NR_KINDS; id += 2) {
		u64 write_ns = kq->band.kind[id].alone_ns;
		u64 read_ns = clock_read_ns(kq, kq->next.kind_bytes[id]);

		if (!read_ns || !write_ns)
			continue;
		if (write_ns * 2 < read_ns)
			return CLOCK_BUFFERED;
		pct = max_t(u32, pct, min_t(u64, write_ns * 100 / read_ns, CLOCK_WRITE_MOST));
	}
	return pct;
}

static u32 clock_cost_bytes(const struct clock *kq, const struct law_rq *rq)
{
	if (!kq->is_next)
		return rq->bytes;
	return kf_cost_bytes(kf_model_rate(&kq->next.model, rq->dir), rq->bytes);
}

static void clock_count_bytes(u32 *mean_bytes, u32 bytes)
{
	*mean_bytes = kf_mean_cost_bytes(*mean_bytes ?: bytes, bytes);
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
	rq->cost_bytes = clock_cost_bytes(kq, rq);
	rq->is_owed = kg->owed_ns > 0;
	kq->nr_owed += rq->is_owed;
	kg->nr_sent++;
	rq->is_alone = kq->band.phase == KF_BAND_EMPTY && !kq->sim->nr_inside;
	clock_charge(kq, kh, nr, rq->cost_bytes);
	kg->mean_cost_bytes = kf_mean_cost_bytes(kg->mean_cost_bytes, rq->cost_bytes);
	clock_count_bytes(&kg->mean_bytes, rq->bytes);
	clock_count_bytes(&kq->next.mean_bytes, rq->bytes);
	kg->peak_cost_bytes = max(kg->peak_cost_bytes, rq->cost_bytes);
	law_dispatch(kq->sim, rq);
	return true;
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
		if (!first || kf_vtime_before(kg->vtime, first->vtime))
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

/* What is in flight may be another number now, and the clock another. */
static void clock_publish(struct clock *kq)
{
	if (!clock_is_shared(kq) && kq->band.phase != KF_BAND_STEADY)
		kf_band_end_probe(&kq->band, !kq->sim->nr_inside,
				  clock_uptime_ns(kq->sim->now_ns));
	kq->ceiling = kf_band_ceiling(&kq->band);
	kq->step_ns = kf_clock_step_ns(kq->band.alone_ns, 0);
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

/* As kf_gate_look(). */
static void clock_look(struct clock *kq)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 nr_all = 0;
	struct kf_band *band = &kq->band;
	u32 id;

	for (id = 0; id < KF_NR_KINDS; id++)
		nr_all += kq->nr_done[id];
	for (id = 0; id < LAW_NR_DIRS; id++) {
		kf_large_look(&kq->large[id], kq->nr_done[kf_kind(id, KF_LARGE_BYTES)], nr_all,
			      kq->saw_large_full[id], now_ns);
		kq->saw_large_full[id] = false;
	}
	kf_band_give_up(band, !kq->sim->nr_inside, now_ns);
	if (kq->has_probed && band->phase == KF_BAND_STEADY) {
		kq->has_probed = false;
		kf_band_next_look(band, now_ns);
	} else if (band->phase == KF_BAND_STEADY) {
		for (id = 0; id < KF_NR_KINDS; id++)
			kf_band_count(band, id, kq->nr_done[id], 0);
		band->done_bytes += kq->done_bytes;
		kf_band_look(band, clock_is_shared(kq), now_ns);
	}
	memset(kq->nr_done, 0, sizeof(kq->nr_done));
	kq->done_bytes = 0;
	clock_publish(kq);
}

/* As kf_group_see_depth(). */
static void clock_see_depth(const struct clock *kq, struct clock_group *kg)
{
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);
	u64 absent_ns = kg->absent_ns + clock_absent_ns(kq, kg);

	kg->depth.sum += kf_load_since(kg->load, &kg->load_seen, now_ns);
	kf_depth_look(&kg->depth, absent_ns, now_ns);
}

/* As kf_groups_look(). */
static void clock_groups_look(struct clock *kq)
{
	u64 now_ns = kq->sim->now_ns;
	u32 i;

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

/* As many are in flight as keep the device busy. */
static bool clock_is_busy(const struct clock *kq)
{
	return kq->sim->nr_inside * 1000ULL >= max(kq->band.bdp_milli * 3 / 2, 8000U);
}

/* The others' places, while one is owed. */
static void clock_next_floor(struct clock *kq, u64 elapsed_ns)
{
	struct clock_next *next = &kq->next;
	u64 rate = next->awaited_bytes * NSEC_PER_SEC / max(elapsed_ns, 1ULL);
	u64 due = mul_u64_u64_shr(next->free_bytes_per_s, kq->awaited_share, KF_SHARE_SHIFT);
	u32 most = mul_u64_u64_shr(kq->ceiling, kq->awaited_share, KF_SHARE_SHIFT);

	if (!next->was_owed)
		next->free_bytes_per_s -= next->free_bytes_per_s / 64;
	next->free_bytes_per_s = max(rate, next->free_bytes_per_s);
	if (next->was_owed && rate > due + due / 8)
		next->floor_milli -= next->floor_milli / 8;
	else if (rate < due)
		next->floor_milli += next->floor_milli / 8 + 100;
	next->floor_milli = clamp(next->floor_milli, 1000U, 1000 * max(most, 1U));
}

static void clock_next_look(struct clock *kq)
{
	struct clock_next *next = &kq->next;
	u64 elapsed_ns = kq->sim->now_ns - next->look_ns;
	bool is_full = clock_is_busy(kq);

	if (kq->band.phase == KF_BAND_STEADY) {
		if (!kq->has_probed) {
			kf_model_learn(&next->model, &next->work, elapsed_ns,
				       is_full && next->was_full);
			next->was_full = is_full;
		}
		clock_next_floor(kq, elapsed_ns);
	}
	next->model.io_ps[1] = next->model.io_ps[0] * clock_write_pct(kq) / 100;
	next->model.mib_ps[1] = next->model.mib_ps[0] * clock_write_pct(kq) / 100;
	memset(&next->work, 0, sizeof(next->work));
	next->awaited_bytes = 0;
	next->was_owed = false;
	next->look_ns = kq->sim->now_ns;
}

/* As latency_work. */
static void clock_timer(struct law_sim *sim, u64 what)
{
	struct clock *kq = sim->data;

	if (what == CLOCK_WAKE) {
		clock_run(sim, 0);
		return;
	}
	kq->is_work_pending = false;
	clock_next_look(kq);
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
	u64 now_ns = clock_uptime_ns(kq->sim->now_ns);

	kq->has_probed = true;
	if (rq->is_alone && kq->band.phase == KF_BAND_EMPTY) {
		struct clock_group *kg = &kq->group[rq->load];
		u32 id;

		id = kf_kind(rq->dir, rq->bytes);
		kq->next.kind_bytes[id] = kf_median_step(kq->next.kind_bytes[id], rq->bytes);
		kg->alone_ns = kf_median_step(kg->alone_ns, kq->sim->now_ns - rq->dispatch_ns);
	}
	if (kf_band_done(&kq->band, kf_kind(rq->dir, rq->bytes), rq->cost_bytes, rq->is_alone,
			 now_ns - clock_uptime_ns(rq->dispatch_ns), now_ns) ||
	    kf_band_look(&kq->band, true, now_ns))
		clock_publish(kq);
}

static void clock_complete(struct law_sim *sim, struct law_rq *rq)
{
	struct clock *kq = sim->data;
	struct clock_group *kg = &kq->group[rq->load];

	if (!sim->nr_inside)
		kq->next.empty_ns = sim->now_ns;
	kg->nr_in_flight--;
	kq->nr_owed -= rq->is_owed;
	kg->load -= kf_load_of(clock_uptime_ns(sim->now_ns));
	kg->done_ns = sim->now_ns;
	kq->nr_done[kf_kind(rq->dir, rq->bytes)]++;
	kq->done_bytes += rq->cost_bytes;
	kq->next.work.nr[rq->dir]++;
	kq->next.work.bytes[rq->dir] += rq->bytes;
	if (kg->is_awaited)
		kq->next.awaited_bytes += rq->cost_bytes;
	clock_ask_for_work(kq);
	if (clock_is_large(rq)) {
		kq->nr_large[rq->dir]--;
		kf_large_done(&kq->large[rq->dir], clock_uptime_ns(rq->dispatch_ns),
			      clock_uptime_ns(sim->now_ns));
	}
	if (kq->band.phase != KF_BAND_STEADY)
		clock_probe_done(kq, rq);
}

static struct clock *clock_create(struct law_sim *sim, u32 depth_pct)
{
	struct clock *kq = calloc(1, sizeof(*kq));
	u32 i, j;

	if (!kq)
		abort();
	kq->sim = sim;
	kq->depth_pct = depth_pct;
	kq->nr_groups = sim->c->nr_loads;
	kq->nr_hctx = sim->c->nr_hctx;
	for (i = 0; i < kq->nr_groups; i++) {
		kq->group[i].weight = sim->c->load[i].weight;
		kq->group[i].mean_cost_bytes = KF_PAGE_BYTES;
		for (j = 0; j < kq->nr_hctx; j++)
			INIT_LIST_HEAD(&kq->hctx[j].rqs[i]);
	}
	kf_band_init(&kq->band);
	kf_large_init(&kq->large[0]);
	kf_large_init(&kq->large[1]);
	kq->band.mean_cost_bytes = KF_PAGE_BYTES;
	clock_publish(kq);
	return kq;
}

static void *clock_create_law(struct law_sim *sim)
{
	return clock_create(sim, CLOCK_DEPTH_PCT);
}

static void *clock_create_full(struct law_sim *sim)
{
	return clock_create(sim, 100);
}

/* Where learning starts: an SSD, or a disk that says that it turns. */
static void *clock_create_next(struct law_sim *sim)
{
	struct clock *kq = clock_create(sim, CLOCK_DEPTH_PCT);
	bool turns = !strcmp(sim->c->type->name, "hdd");

	kq->is_next = true;
	kf_model_set(&kq->next.model, 0, turns ? 150000000ULL : 3000000000ULL,
		     turns ? 120 : 500000);
	kf_model_set(&kq->next.model, 1, turns ? 150000000ULL : 1500000000ULL,
		     turns ? 120 : 250000);
	return kq;
}

static void *clock_create_exact(struct law_sim *sim)
{
	return clock_create(sim, 0);
}

static void clock_show(struct law_sim *sim, FILE *out)
{
	const struct clock *kq = sim->data;
	u32 i;

	fprintf(out, "  law: bdp %.1f, ceiling %u, lead %llu bytes, %llu forgiven, ",
		kq->band.bdp_milli / 1000.0, kq->ceiling, kq->lead_bytes,
		kq->nr_forgiven);
	fprintf(out, "%.3f slices and %.3f updates a request, ",
		(double)kq->nr_slices / max(kq->nr_dispatched, 1ULL),
		(double)kq->nr_updates / max(kq->nr_dispatched, 1ULL));
	fprintf(out, "%u probes of which %u fill, awaited", kq->band.nr_probes,
		kq->band.nr_fills);
	for (i = 0; i < kq->nr_groups; i++)
		fprintf(out, " %u", kq->group[i].is_awaited);
	fprintf(out, ", owed");
	for (i = 0; i < kq->nr_groups; i++)
		fprintf(out, " %lld us (alone %llu us, depth %.1f)", kq->group[i].owed_ns / 1000,
			kq->group[i].alone_ns / 1000, kq->group[i].depth.milli / 1000.0);
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
const struct law_sched law_next = CLOCK_SCHED("next", clock_create_next);
const struct law_sched law_exact = CLOCK_SCHED("exact", clock_create_exact);
const struct law_sched law_full = CLOCK_SCHED("full", clock_create_full);
