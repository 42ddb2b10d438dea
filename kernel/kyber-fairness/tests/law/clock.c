// SPDX-License-Identifier: GPL-2.0-only
/*
 * The law of ../../clock.h in the simulation, with depth_pct in three settings: "law" has
 * the default, "full" 100, "exact" 0.
 */
#include "engine.h"

#include "../../clock.h"

#define CLOCK_ACTIVE_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_WORK_NS		(100 * NSEC_PER_MSEC)
#define CLOCK_DEPTH_PCT		45

struct clock_group {
	u32 weight;
	u64 vtime;
	u64 share;
	u32 nr_waiting, nr_in_flight;
	u32 outstanding_max;
	u64 done_ns;
	bool is_awaited;
	u32 mean_cost_bytes;
	bool is_active;
};

struct clock_hctx {
	struct list_head rqs[LAW_LOADS_MAX];
	s64 left_bytes[LAW_LOADS_MAX];	/* of the group's last slice */
};

struct clock {
	struct law_sim *sim;
	u32 depth_pct;
	struct clock_group group[LAW_LOADS_MAX];
	struct clock_hctx hctx[LAW_HCTX_MAX];
	u32 nr_groups, nr_hctx;
	struct kf_clock clock;
	struct kf_band band;
	u64 work_ns, clock_ns, step_ns;
	u64 nr_slices, nr_updates, nr_dispatched;
	u64 nr_forgiven;
};

static bool clock_present(const struct clock *kq, const struct clock_group *kg)
{
	return kf_clock_is_present(kg->nr_waiting, kg->nr_in_flight,
				   kq->sim->now_ns - kg->done_ns, kq->band.alone_ns);
}

/* The least vtime of those that are waited for; if there is none, of all that wait. */
static void clock_update(struct clock *kq)
{
	u64 least = 0, least_waiting = 0;
	bool any = false, any_waiting = false;
	u32 i;

	kq->clock_ns = kq->sim->now_ns;
	kq->nr_updates++;
	for (i = 0; i < kq->nr_groups; i++) {
		const struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		if (kg->nr_waiting && (!any_waiting || kf_vtime_before(kg->vtime, least_waiting))) {
			least_waiting = kg->vtime;
			any_waiting = true;
		}
		if (!kg->is_awaited || !clock_present(kq, kg))
			continue;
		if (!any || kf_vtime_before(kg->vtime, least)) {
			least = kg->vtime;
			any = true;
		}
	}
	if (any || any_waiting)
		kq->clock.vtime = any ? least : least_waiting;
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

/* Which cgroups are worth to wait for, and whether more must be known to tell. */
static void clock_find_awaited(struct clock *kq)
{
	bool must_fill = false;
	u64 requests_sum = 0;
	u32 i, nr_all = 0;

	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (!kg->is_active)
			continue;
		kg->outstanding_max = max(kg->outstanding_max,
					  kg->nr_waiting + kg->nr_in_flight);
		requests_sum += kf_requests_for(kg->share, kg->mean_cost_bytes);
		nr_all += kg->outstanding_max;
	}
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];
		u64 share;

		if (!kg->is_active)
			continue;
		share = kf_request_share(kf_requests_for(kg->share, kg->mean_cost_bytes),
					 requests_sum);
		kg->is_awaited = kf_clock_is_awaited(kg->outstanding_max, share,
						     kq->band.bdp_milli, nr_all,
						     kq->depth_pct, kg->is_awaited);
		if (!kf_clock_is_awaited(kg->outstanding_max, share, U32_MAX, nr_all,
					 kq->depth_pct, true))
			must_fill = true;
	}
	kf_band_must_fill(&kq->band, must_fill, nr_all);
}

/* The lag of a cgroup that is not waited for is not kept for ever. */
static void clock_forgive(struct clock *kq, struct clock_group *kg)
{
	u64 lag = kf_clock_lag_bytes(kq->clock.lead_bytes, kg->mean_cost_bytes, kg->share);

	if (!kf_vtime_before(kg->vtime, kq->clock.vtime - lag))
		return;
	kg->vtime = kq->clock.vtime - lag;
	kq->nr_forgiven++;
}

/* Whether a group that has no slice here may have one. */
static bool clock_may_go(struct clock *kq, struct clock_group *kg, u32 nr_in_flight)
{
	if (!kf_band_may_hold(&kq->band) ||
	    kf_clock_may_go(&kq->clock, kg->vtime, nr_in_flight))
		return true;
	if (kq->sim->now_ns - kq->clock_ns >= kq->step_ns) {
		clock_update(kq);
		if (kf_clock_may_go(&kq->clock, kg->vtime, nr_in_flight))
			return true;
	}
	kq->band.was_held = true;
	return false;
}

static void clock_charge(struct clock *kq, struct clock_hctx *kh, u32 nr, u32 cost_bytes)
{
	struct clock_group *kg = &kq->group[nr];
	u64 slice_bytes = cost_bytes;

	kq->nr_dispatched++;
	if (kh->left_bytes[nr] <= 0) {
		clock_forgive(kq, kg);
		if (kq->nr_hctx > 1)
			slice_bytes = kf_slice_bytes(kq->clock.lead_bytes, kg->share,
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

/*
 * Dispatch a request of a group, on this hardware context if it has one that is not
 * much younger than another's.
 */
static bool clock_dispatch(struct clock *kq, u32 hctx, u32 nr)
{
	struct clock_group *kg = &kq->group[nr];
	u32 nr_in_flight = kq->sim->nr_inside;
	struct clock_hctx *kh;
	struct law_rq *rq;

	if (kq->nr_hctx > 1)
		hctx = clock_oldest(kq, hctx, nr);
	kh = &kq->hctx[hctx];
	if (kh->left_bytes[nr] <= 0 && !clock_may_go(kq, kg, nr_in_flight))
		return false;

	rq = clock_head(kq, hctx, nr);
	list_del(&rq->node);
	kg->nr_waiting--;
	kg->nr_in_flight++;
	rq->cost_bytes = rq->bytes;
	clock_charge(kq, kh, nr, rq->cost_bytes);
	kg->mean_cost_bytes = kf_mean_cost_bytes(kg->mean_cost_bytes, rq->cost_bytes);
	kf_band_dispatch(&kq->band, nr_in_flight);
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
		if (!first || kf_vtime_before(kg->vtime, first->vtime))
			first = kg;
	}
	return first;
}

/* First this hardware context, as it has the place; then any. */
static void clock_run(struct law_sim *sim, u32 hctx)
{
	struct clock *kq = sim->data;

	while (law_has_tag(sim) && sim->nr_inside < kq->clock.ceiling) {
		struct clock_group *kg = clock_first(kq, hctx);

		if (kg && clock_dispatch(kq, hctx, kg - kq->group))
			continue;
		if (hctx == LAW_HCTX_MAX || kq->nr_hctx == 1)
			return;
		hctx = LAW_HCTX_MAX;
	}
}

static void clock_insert(struct law_sim *sim, struct law_rq *rq)
{
	struct clock *kq = sim->data;
	struct clock_group *kg = &kq->group[rq->load];

	if (!kg->is_active || !clock_present(kq, kg)) {
		clock_update(kq);
		kg->vtime = kf_vtime_max(kg->vtime, kq->clock.vtime);
	}
	if (!kg->is_active) {
		kg->is_active = true;
		kg->is_awaited = true;
		clock_shares(kq);
	}
	list_add_tail(&rq->node, &kq->hctx[rq->hctx].rqs[rq->load]);
	kg->nr_waiting++;
	kg->outstanding_max = max(kg->outstanding_max, kg->nr_waiting + kg->nr_in_flight);
}

static void clock_set_band(struct clock *kq)
{
	kq->clock.ceiling = kf_band_ceiling(&kq->band);
	kq->clock.lead_bytes = kf_clock_lead_bytes(kq->band.bytes_per_s, kq->band.alone_ns,
						   kq->band.mean_cost_bytes);
	kq->step_ns = kf_clock_step_ns(kq->band.alone_ns);
}

/* Ten times a second: which cgroups are present, and which are waited for. */
static void clock_work(struct clock *kq, u64 now_ns)
{
	bool changed = false;
	u32 i;

	if (now_ns - kq->work_ns < CLOCK_WORK_NS)
		return;
	kq->work_ns = now_ns;
	clock_give_back(kq);
	for (i = 0; i < kq->nr_groups; i++) {
		struct clock_group *kg = &kq->group[i];

		if (kg->is_active && !clock_present(kq, kg) &&
		    now_ns - kg->done_ns > CLOCK_ACTIVE_NS) {
			kg->is_active = false;
			changed = true;
		}
	}
	if (changed)
		clock_shares(kq);
	clock_find_awaited(kq);
	for (i = 0; i < kq->nr_groups; i++)
		kq->group[i].outstanding_max -= DIV_ROUND_UP(kq->group[i].outstanding_max, 4);
}

static void clock_complete(struct law_sim *sim, struct law_rq *rq)
{
	struct clock *kq = sim->data;
	struct clock_group *kg = &kq->group[rq->load];

	kg->nr_in_flight--;
	kg->done_ns = sim->now_ns;
	if (kf_band_done(&kq->band, kf_kind(rq->dir, rq->bytes), rq->cost_bytes, rq->nr_before,
			 sim->nr_inside, sim->now_ns - rq->dispatch_ns, sim->now_ns))
		clock_set_band(kq);
	if (kf_band_look(&kq->band, sim->now_ns))
		clock_set_band(kq);
	clock_work(kq, sim->now_ns);
}

static void clock_timer(struct law_sim *sim, u64 what)
{
	(void)sim;
	(void)what;
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
		kq->group[i].mean_cost_bytes = KF_POOL_MIN_BYTES;
		for (j = 0; j < kq->nr_hctx; j++)
			INIT_LIST_HEAD(&kq->hctx[j].rqs[i]);
	}
	kf_band_init(&kq->band);
	kq->band.mean_cost_bytes = KF_POOL_MIN_BYTES;
	clock_set_band(kq);
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

static void *clock_create_exact(struct law_sim *sim)
{
	return clock_create(sim, 0);
}

static void clock_show(struct law_sim *sim, FILE *out)
{
	const struct clock *kq = sim->data;
	u32 i;

	fprintf(out, "  law: bdp %.1f, ceiling %u, lead %llu bytes, %llu forgiven, ",
		kq->band.bdp_milli / 1000.0, kq->clock.ceiling, kq->clock.lead_bytes,
		kq->nr_forgiven);
	fprintf(out, "%.3f slices and %.3f updates a request, ",
		(double)kq->nr_slices / max(kq->nr_dispatched, 1ULL),
		(double)kq->nr_updates / max(kq->nr_dispatched, 1ULL));
	fprintf(out, "%u probes of which %u fill, awaited", kq->band.nr_probes,
		kq->band.nr_fills);
	for (i = 0; i < kq->nr_groups; i++)
		fprintf(out, " %u", kq->group[i].is_awaited);
	fprintf(out, ", alone");
	for (i = 0; i < KF_NR_KINDS; i++)
		fprintf(out, " %llu", kq->band.kind[i].alone_ns / 1000);
	fprintf(out, " us\n");
}

const struct law_sched law_clock = {
	.name = "law",
	.create = clock_create_law,
	.destroy = free,
	.insert = clock_insert,
	.run = clock_run,
	.complete = clock_complete,
	.timer = clock_timer,
	.show = clock_show,
};

const struct law_sched law_exact = {
	.name = "exact",
	.create = clock_create_exact,
	.destroy = free,
	.insert = clock_insert,
	.run = clock_run,
	.complete = clock_complete,
	.timer = clock_timer,
	.show = clock_show,
};

const struct law_sched law_full = {
	.name = "full",
	.create = clock_create_full,
	.destroy = free,
	.insert = clock_insert,
	.run = clock_run,
	.complete = clock_complete,
	.timer = clock_timer,
	.show = clock_show,
};
