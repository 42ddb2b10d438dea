// SPDX-License-Identifier: MIT
/* See decide.h. */
#include <string.h>
#include "decide.h"

/* An outlier counts as so many means. */
#define OUTLIER_COUNTS 2

/* The margin is all CPUs, and enough for those that wait, if a sixteenth lacks at most:
 * utilisation is told in steps of 10 ms, and a kernel thread now and then is no neighbour. */
#define FIT_SHIFT 4

/* A light sleep grows and shrinks by such parts of the mean: it is too long for one I/O
 * in 17, as 16 of GROW_PPM are one of SHRINK_PPM. */
#define GROW_PPM (APS_PPM_ONE >> 8)
#define SHRINK_PPM (APS_PPM_ONE >> 4)

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

static void start_times(struct aps_times *t, uint32_t light_ppm)
{
	unsigned int i;

	t->light_ppm = light_ppm;
	for (i = 0; i < APS_NR_SAMPLES; i++)
		t->ns[i] = UINT64_MAX;
}

void aps_policy_init(struct aps_policy *policy, const struct aps_options *o)
{
	unsigned int dir, size;

	memset(policy, 0, sizeof(*policy));
	for (dir = 0; dir < APS_NR_DIRS; dir++)
		for (size = 0; size < APS_NR_SIZES; size++)
			start_times(&policy->times[dir][size], o->hybrid_sleep_ppm);
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

void aps_policy_slept(struct aps_policy *policy, enum aps_direction dir, unsigned int size,
		      bool too_long)
{
	uint32_t *ppm = &policy->times[dir][size].light_ppm, most_ppm = policy->opts.deep_sleep_ppm;

	if (too_long)
		*ppm -= *ppm < SHRINK_PPM ? *ppm : SHRINK_PPM;
	else
		*ppm = *ppm + GROW_PPM < most_ppm ? *ppm + GROW_PPM : most_ppm;
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

/* Deep never spins: the shortest sleep is the shortest nap. */
static uint64_t nap_ns(const struct aps_options *o, uint64_t ns)
{
	ns = ns > o->min_sleep_ns ? ns : o->min_sleep_ns;
	return ns < o->max_sleep_ns ? ns : o->max_sleep_ns;
}

/* No time is longer for the arithmetic: hours, whose product with a part fits. */
#define LONGEST_NS (1ull << 43)

static uint64_t part_ns(uint64_t ns, uint32_t ppm)
{
	return (ns < LONGEST_NS ? ns : LONGEST_NS) * ppm / APS_PPM_ONE;
}

/* Whether the margin is as much, but for a sixteenth. */
static bool fits(uint32_t margin_ppm, uint32_t ppm)
{
	return margin_ppm >= ppm - (ppm >> FIT_SHIFT);
}

static struct aps_choice choose_deep(const struct aps_options *o, const struct aps_times *t,
				     uint32_t margin_ppm)
{
	uint64_t mean_ns = mean_of(t), ns = part_ns(mean_ns, o->deep_sleep_ppm);
	uint64_t limit_ns = t->nr ? DEEP_SHORTEST * shortest_ns(t) : 0;

	return (struct aps_choice){
		.kind = APS_WAIT_DEEP, .margin_ppm = margin_ppm,
		.sleep_ns = worth_ns(o, ns < limit_ns ? ns : limit_ns),
		.nap_ns = nap_ns(o, mean_ns >> NAP_SHIFT),
	};
}

static struct aps_choice choose_hybrid(const struct aps_options *o, const struct aps_times *t)
{
	return (struct aps_choice){
		.kind = APS_WAIT_HYBRID,
		.sleep_ns = worth_ns(o, part_ns(mean_of(t), o->hybrid_sleep_ppm)),
	};
}

/* As long as the I/O is rarely complete before its end, and no longer than any of the last took. */
static struct aps_choice choose_light(const struct aps_options *o, const struct aps_times *t,
				      uint32_t margin_ppm)
{
	uint64_t part = part_ns(mean_of(t), t->light_ppm), least_ns = t->nr ? shortest_ns(t) : 0;
	uint64_t ns = worth_ns(o, part < least_ns ? part : least_ns);

	return (struct aps_choice){
		.kind = ns ? APS_WAIT_HYBRID : APS_WAIT_POLL, .margin_ppm = margin_ppm, .sleep_ns = ns,
	};
}

static struct aps_choice choose_by_margin(const struct aps_policy *policy, const struct aps_times *t,
					  uint32_t margin_ppm, uint32_t need_ppm)
{
	if (!fits(margin_ppm, APS_PPM_ONE) || !fits(margin_ppm, need_ppm))
		return choose_deep(&policy->opts, t, margin_ppm);
	return choose_light(&policy->opts, t, margin_ppm);
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
		return choose_hybrid(&policy->opts, t);
	case APS_ADAPTIVE:
		return choose_by_margin(policy, t, aps_policy_margin_ppm(policy, util_ppm), need_ppm);
	case APS_POLL:
		break;
	}
	return (struct aps_choice){ .kind = APS_WAIT_POLL };
}
