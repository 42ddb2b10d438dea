// SPDX-License-Identifier: MIT
/* See policy.h. */
#include <errno.h>
#include <string.h>
#include "policy.h"

/* A sample above so many means is an outlier, and counts as so many. */
#define OUTLIER_MEANS 4
#define OUTLIER_COUNTS 2

/* Pollers fit if the margin is at least 15/16 of their need: utilisation is
 * told in steps of 10 ms, and a kernel thread now and then is no neighbour. */
#define FIT_SHIFT 4

/* Deep: while the completion is not there, look again after 1/8 of the mean. */
#define NAP_SHIFT 3

/* Deep: no longer than so many times the shortest of the last. */
#define DEEP_SHORTEST 2

unsigned int aps_size_class(size_t bytes)
{
	unsigned int class = 0;
	size_t limit;

	for (limit = 4096; class < APS_NR_SIZES - 1 && bytes > limit; limit <<= 2)
		class++;
	return class;
}

int aps_policy_init(struct aps_policy *policy, const struct aps_options *o)
{
	if (o->poll_margin_ppm > APS_PPM_ONE || o->hybrid_margin_ppm > o->poll_margin_ppm ||
	    o->hybrid_sleep_ppm > APS_PPM_ONE || o->deep_sleep_ppm > APS_PPM_ONE ||
	    o->min_sleep_ns > o->max_sleep_ns)
		return -EINVAL;
	memset(policy, 0, sizeof(*policy));
	policy->opts = *o;
	return 0;
}

void aps_policy_load(struct aps_policy *policy, uint32_t util_ppm)
{
	struct aps_loads *l = &policy->loads;

	if (util_ppm > APS_PPM_ONE)
		util_ppm = APS_PPM_ONE;
	if (l->nr == APS_NR_SAMPLES)
		l->sum_ppm -= l->ppm[l->next];
	else
		l->nr++;
	l->ppm[l->next] = util_ppm;
	l->sum_ppm += util_ppm;
	l->next = (l->next + 1) % APS_NR_SAMPLES;
}

uint64_t aps_policy_mean_ns(const struct aps_policy *policy, enum aps_direction dir,
			    unsigned int size)
{
	const struct aps_times *t = &policy->times[dir][size];

	if (t->nr == APS_NR_SAMPLES)
		return t->sum_ns / APS_NR_SAMPLES;
	return t->nr ? t->sum_ns / t->nr : 0;
}

void aps_policy_time(struct aps_policy *policy, enum aps_direction dir,
		     unsigned int size, uint64_t service_ns)
{
	struct aps_times *t = &policy->times[dir][size];
	uint64_t mean_ns = aps_policy_mean_ns(policy, dir, size);

	/* The first few say nothing of what is usual. */
	if (t->nr >= 4 && service_ns > OUTLIER_MEANS * mean_ns)
		service_ns = OUTLIER_COUNTS * mean_ns;
	if (!service_ns)
		service_ns = 1;
	if (t->nr == APS_NR_SAMPLES)
		t->sum_ns -= t->ns[t->next];
	else
		t->nr++;
	t->ns[t->next] = service_ns;
	t->sum_ns += service_ns;
	t->next = (t->next + 1) % APS_NR_SAMPLES;
}

uint32_t aps_policy_margin_ppm(const struct aps_policy *policy, uint32_t util_ppm)
{
	const struct aps_loads *l = &policy->loads;

	if (util_ppm > APS_PPM_ONE)
		util_ppm = APS_PPM_ONE;
	return APS_PPM_ONE - (l->sum_ppm + util_ppm) / (l->nr + 1);
}

static uint64_t shortest_ns(const struct aps_times *t)
{
	uint64_t ns = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < t->nr; i++)
		if (t->ns[i] < ns)
			ns = t->ns[i];
	return ns;
}

/* A sleep that is worth its cost, and not above the limit. */
static uint64_t worth_ns(const struct aps_options *o, uint64_t ns)
{
	if (ns < o->min_sleep_ns)
		return 0;
	return ns < o->max_sleep_ns ? ns : o->max_sleep_ns;
}

static uint64_t part_ns(uint64_t ns, uint32_t ppm)
{
	return (uint64_t)((unsigned __int128)ns * ppm / APS_PPM_ONE);
}

/* Whether the margin is above a threshold, and all who wait fit into it. */
static bool fits(uint32_t margin_ppm, uint32_t threshold_ppm, uint32_t need_ppm)
{
	return margin_ppm >= threshold_ppm && margin_ppm >= need_ppm - (need_ppm >> FIT_SHIFT);
}

static void choose_deep(const struct aps_policy *policy, const struct aps_times *t,
			uint64_t mean_ns, struct aps_choice *c)
{
	const struct aps_options *o = &policy->opts;
	uint64_t ns = part_ns(mean_ns, o->deep_sleep_ppm);
	uint64_t limit_ns = t->nr ? DEEP_SHORTEST * shortest_ns(t) : 0;

	c->kind = APS_WAIT_DEEP;
	c->sleep_ns = worth_ns(o, ns < limit_ns ? ns : limit_ns);
	c->nap_ns = worth_ns(o, mean_ns >> NAP_SHIFT);
}

struct aps_choice aps_policy_choose(const struct aps_policy *policy, enum aps_direction dir,
				    unsigned int size, uint32_t util_ppm, uint32_t need_ppm)
{
	const struct aps_options *o = &policy->opts;
	const struct aps_times *t = &policy->times[dir][size];
	uint64_t mean_ns = aps_policy_mean_ns(policy, dir, size);
	struct aps_choice c = { .kind = APS_WAIT_POLL };

	switch (o->mode) {
	case APS_INTERRUPT:
		c.kind = APS_WAIT_INTERRUPT;
		return c;
	case APS_RING_HYBRID:
		c.kind = APS_WAIT_HYBRID; /* and the kernel sleeps */
		return c;
	case APS_POLL:
		return c;
	case APS_HYBRID:
		break;
	case APS_ADAPTIVE:
		c.margin_ppm = aps_policy_margin_ppm(policy, util_ppm);
		if (fits(c.margin_ppm, o->poll_margin_ppm, need_ppm))
			return c;
		if (!fits(c.margin_ppm, o->hybrid_margin_ppm,
			  (uint32_t)part_ns(need_ppm, APS_PPM_ONE - o->hybrid_sleep_ppm))) {
			choose_deep(policy, t, mean_ns, &c);
			return c;
		}
		break;
	}
	c.kind = APS_WAIT_HYBRID;
	c.sleep_ns = worth_ns(o, part_ns(mean_ns, o->hybrid_sleep_ppm));
	return c;
}
