/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of figures 30 and 31 of the Kyber Fairness report: pure functions of their
 * arguments. tests/refill_kunit.c checks them.
 *
 * Budgets are sectors, as in figure 27, and signed: a request may take more than is left.
 * Quotients are cut towards zero.
 */
#ifndef _KR_REFILL_H
#define _KR_REFILL_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define KR_WEIGHT_MIN	1U
#define KR_WEIGHT_DFL	100U
#define KR_WEIGHT_MAX	10000U

/* KYBER_SCALE_FACTOR: the report does not print its value. 4 KiB for each unit of weight. */
#define KR_SCALE_FACTOR	8

/* So that products fit: sectors of a refill, and its interval. */
#define KR_SECTORS_MAX	0x10000000LL
#define KR_NS_MAX	(10ULL * NSEC_PER_SEC)

/* Sums over all cgroups at a refill: the terms of figure 30. */
struct kr_sums {
	s64 used;		/* B_used */
	s64 remainder;		/* B_remainder, of cgroups that are not idle */
	u64 weight;		/* w, of cgroups that are not idle */
};

/* Budget of a new cgroup (figure 19), and of an idle one (figure 31). */
static inline s64 kr_initial_budget(u32 weight)
{
	return (s64)weight * KR_SCALE_FACTOR;
}

/* Figure 31: a cgroup is idle if its budget is what the last refill made it. */
static inline bool kr_is_idle(s64 next_budget, s64 cur_budget)
{
	return cur_budget == next_budget;
}

/* Adds one cgroup. An idle one has used nothing, and its budget and weight do not count. */
static inline void kr_sums_add(struct kr_sums *sums, s64 next_budget, s64 cur_budget,
			       u32 weight)
{
	if (kr_is_idle(next_budget, cur_budget))
		return;
	sums->used += next_budget - cur_budget;
	sums->remainder += cur_budget;
	sums->weight += weight;
}

/**
 * kr_granted - figure 30, the term in parentheses: what a refill grants by weight
 * @sums: of all cgroups
 * @refill_ns: the 100 ms of the figure
 * @spent_ns: T_spend, time since the last refill
 */
static inline s64 kr_granted(const struct kr_sums *sums, u64 refill_ns, u64 spent_ns)
{
	u64 used = clamp_t(s64, sums->used, 0, KR_SECTORS_MAX);

	used = div64_u64(used * min_t(u64, refill_ns, KR_NS_MAX), max_t(u64, spent_ns, 1));
	return clamp_t(s64, used, 0, KR_SECTORS_MAX) -
	       clamp_t(s64, sums->remainder, -KR_SECTORS_MAX, KR_SECTORS_MAX);
}

/**
 * kr_next_budget - figure 30: the budget of a cgroup that is not idle
 * @granted: kr_granted()
 * @weight: the cgroup's
 * @sums: of all cgroups, this one among them
 * @cur_budget: what the cgroup has left, its B_remainder
 */
static inline s64 kr_next_budget(s64 granted, u32 weight, const struct kr_sums *sums,
				 s64 cur_budget)
{
	return div64_s64(granted * (s64)weight, sums->weight) + cur_budget;
}

#endif /* _KR_REFILL_H */
