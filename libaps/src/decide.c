// SPDX-License-Identifier: MIT
/* See decide.h. */
#include <string.h>
#include "decide.h"

/* An outlier counts as so many means. */
#define OUTLIER_COUNTS 2

/* Pollers fit if the margin is at least 15/16 of their need: utilisation is
 * told in steps of 10 ms, and a kernel thread now and then is no neighbour. */
#define FIT_SHIFT 4

/* Others are to have the margin for polling besides, or 1/2 of what they use. */
#define RESERVE_SHIFT 1

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

static void start_times(struct aps_times *t)
{
	unsigned int i;

	for (i = 0; i < APS_NR_SAMPLES; i++)
		t->ns[i] = UINT64_MAX;
}

void aps_policy_init(struct aps_policy *policy, const struct aps_options *o)
{
	unsigned int dir, size;

	memset(policy, 0, sizeof(*policy));
	for (dir = 0; dir < APS_NR_DIRS; dir++)
		for (size = 0; size < APS_NR_SIZES; size++)
			start_times(&policy->times[dir][size]);
	policy->opts = *o;
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

static uint64_t mean_of(const struct aps_times *t)
{
	if (t->nr == APS_NR_SAMPLES)
		return t->sum_ns / APS_NR_SAMPLES;
	return t->nr ? t->sum_ns / t->nr : 0;
}

uint64_t aps_policy_mean_ns(const struct aps_policy *policy, enum aps_direction dir,
			    unsigned int size)
{
	return mean_of(&policy->times[dir][size]);
}

void aps_policy_time(struct aps_policy *policy, enum aps_direction dir,
		     unsigned int size, uint64_t service_ns)
{
	struct aps_times *t = &policy->times[dir][size];
	uint64_t mean_ns = mean_of(t);

	/* The first few say nothing of what is usual. */
	if (t->nr >= 4 && service_ns > APS_OUTLIER_MEANS * mean_ns)
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

/* Of all places: those that are not filled yet are UINT64_MAX. */
static uint64_t shortest_ns(const struct aps_times *t)
{
	uint64_t ns = t->ns[0];
	unsigned int i;

#pragma GCC unroll 16
	for (i = 1; i < APS_NR_SAMPLES; i++)
		ns = t->ns[i] < ns ? t->ns[i] : ns;
	return ns;
}

/* A sleep that is worth its cost, and not above the limit. */
static uint64_t worth_ns(const struct aps_options *o, uint64_t ns)
{
	if (ns < o->min_sleep_ns)
		return 0;
	return ns < o->max_sleep_ns ? ns : o->max_sleep_ns;
}

/* No time is longer for the arithmetic: hours, whose product with a part fits. */
#define LONGEST_NS (1ull << 43)

static uint64_t part_ns(uint64_t ns, uint32_t ppm)
{
	return (ns < LONGEST_NS ? ns : LONGEST_NS) * ppm / APS_PPM_ONE;
}

/* Whether all threads that wait fit into the margin. */
static bool fits(uint32_t margin_ppm, uint32_t need_ppm)
{
	return margin_ppm >= need_ppm - (need_ppm >> FIT_SHIFT);
}

/*
 * What part of hybrid's sleep, where all threads that wait fit: none while others have a
 * reserve besides what they use and what those need, all of it when there is none.
 */
static uint32_t lack_ppm(const struct aps_options *o, uint32_t margin_ppm, uint32_t need_ppm)
{
	uint64_t reserve_ppm = (APS_PPM_ONE - margin_ppm) >> RESERVE_SHIFT;
	uint64_t wanted_ppm = need_ppm - (need_ppm >> FIT_SHIFT);

	if (reserve_ppm > o->poll_margin_ppm)
		reserve_ppm = o->poll_margin_ppm;
	wanted_ppm += reserve_ppm;
	if (margin_ppm >= wanted_ppm)
		return 0;
	return (uint32_t)((wanted_ppm - margin_ppm) * APS_PPM_ONE / reserve_ppm);
}

static struct aps_choice choose_deep(const struct aps_options *o, const struct aps_times *t,
				     uint32_t margin_ppm)
{
	uint64_t mean_ns = mean_of(t), ns = part_ns(mean_ns, o->deep_sleep_ppm);
	uint64_t limit_ns = t->nr ? DEEP_SHORTEST * shortest_ns(t) : 0;

	return (struct aps_choice){
		.kind = APS_WAIT_DEEP, .margin_ppm = margin_ppm,
		.sleep_ns = worth_ns(o, ns < limit_ns ? ns : limit_ns),
		.nap_ns = worth_ns(o, mean_ns >> NAP_SHIFT),
	};
}

static struct aps_choice choose_hybrid(const struct aps_options *o, const struct aps_times *t,
				       uint32_t margin_ppm, uint32_t lack)
{
	return (struct aps_choice){
		.kind = APS_WAIT_HYBRID, .margin_ppm = margin_ppm,
		.sleep_ns = worth_ns(o, part_ns(part_ns(mean_of(t), o->hybrid_sleep_ppm), lack)),
	};
}

static struct aps_choice choose_by_margin(const struct aps_policy *policy, const struct aps_times *t,
					  uint32_t margin_ppm, uint32_t need_ppm)
{
	const struct aps_options *o = &policy->opts;
	uint32_t lack;

	if (margin_ppm < o->hybrid_margin_ppm || !fits(margin_ppm, need_ppm))
		return choose_deep(o, t, margin_ppm);
	lack = lack_ppm(o, margin_ppm, need_ppm);
	if (lack)
		return choose_hybrid(o, t, margin_ppm, lack);
	return (struct aps_choice){ .kind = APS_WAIT_POLL, .margin_ppm = margin_ppm };
}

struct aps_choice aps_policy_choose(const struct aps_policy *policy, enum aps_direction dir,
				    unsigned int size, uint32_t util_ppm, uint32_t need_ppm)
{
	const struct aps_times *t = &policy->times[dir][size];

	switch ((enum aps_mode)policy->opts.mode) {
	case APS_INTERRUPT:
		return (struct aps_choice){ .kind = APS_WAIT_INTERRUPT };
	case APS_RING_HYBRID: /* the kernel sleeps */
		return (struct aps_choice){ .kind = APS_WAIT_HYBRID };
	case APS_HYBRID:
		return choose_hybrid(&policy->opts, t, 0, APS_PPM_ONE);
	case APS_ADAPTIVE:
		return choose_by_margin(policy, t, aps_policy_margin_ppm(policy, util_ppm), need_ppm);
	case APS_POLL:
		break;
	}
	return (struct aps_choice){ .kind = APS_WAIT_POLL };
}
