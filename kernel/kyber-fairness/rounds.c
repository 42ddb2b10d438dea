// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rule of the Kyber Fairness report as published, for comparison: the file rounds_ms.
 *
 * Budgets in rounds (figures 14, 28, 30 and 32 of the report). A cgroup may dispatch while
 * it has budget. All budgets are refilled when no cgroup that is not idle has any left, or
 * after rounds_ms, 100 in the report. A refill's total is what the device would serve in
 * that time at the rate of the round, less what is left or owed; it is granted by
 * share. A cgroup that has no request at a refill is idle, and gets nothing of it.
 *
 * In vtimes a budget is the limit less the cgroup's vtime, times its share. So a refill
 * moves the limit by what is granted, and all else is as with the clock. What differs from
 * the report: the cgroup that has had least goes first; an empty device lets
 * a request go whatever its budget; and a dispatch looks whether the round has
 * ended, where the report has a thread that spins.
 *
 * There is no ceiling and no probe, as the report has none.
 */
#include "kyber-fairness.h"
#include "trace.h"

/* A dispatch that finds no budget looks again after one part in so many of a round. */
#define KF_ROUNDS_STEPS	1000

static s64 kf_rounds_bytes(s64 vtime, u64 share)
{
	return vtime < 0 ? -(s64)mul_u64_u64_shr(-vtime, share, KF_SHARE_SHIFT) :
			   mul_u64_u64_shr(vtime, share, KF_SHARE_SHIFT);
}

/**
 * kf_rounds_find - set the limit by the report's rule
 * @kq: device
 * @now_ns: ktime_get_ns()
 *
 * Called from kf_gate_find(), in place of the clock.
 */
void kf_rounds_find(struct kf_queue *kq, u64 now_ns)
{
	u64 rounds_ns = READ_ONCE(kq->rounds_ns);
	u64 elapsed_ns = now_ns - kq->round_start_ns;
	s64 used_bytes = 0, left_bytes = 0, pool_bytes, step;
	u64 limit = kq->gate.limit, share = 0;
	bool has_budget = false;
	struct kf_group *kg;

	lockdep_assert_held(&kq->lock);

	WRITE_ONCE(kq->gate.clock_ns, now_ns);
	WRITE_ONCE(kq->gate.step_ns, div_u64(rounds_ns, KF_ROUNDS_STEPS));
	list_for_each_entry(kg, &kq->active, active_node) {
		s64 left = limit - atomic64_read(&kg->vtime);

		used_bytes += kf_rounds_bytes(atomic64_read(&kg->vtime) - kg->round_vtime,
					      kg->share);
		if (READ_ONCE(kg->is_idle))
			continue;
		if (left > 0)
			has_budget = true;
		left_bytes += kf_rounds_bytes(left, kg->share);
		share += kg->share;
	}
	if ((has_budget && elapsed_ns < rounds_ns) || !share)
		return;

	pool_bytes = mul_u64_u64_div_u64(clamp_t(s64, used_bytes, 0, 1LL << 40),
					 min_t(u64, rounds_ns, NSEC_PER_SEC),
					 max_t(u64, elapsed_ns, 1000));
	pool_bytes = max_t(s64, pool_bytes - left_bytes, KF_PAGE_BYTES * kq->nr_active);
	step = kf_vtime_of(min_t(s64, pool_bytes, 1LL << 33), share);
	list_for_each_entry(kg, &kq->active, active_node) {
		/* A budget that was left over by an idle cgroup stays what it is. */
		if (READ_ONCE(kg->is_idle))
			atomic64_add(step, &kg->vtime);
		kg->round_vtime = atomic64_read(&kg->vtime);
		WRITE_ONCE(kg->is_idle, !kf_group_outstanding(kg));
	}
	WRITE_ONCE(kq->gate.vtime, limit);
	WRITE_ONCE(kq->gate.limit, limit + step);
	kq->round_start_ns = now_ns;
	trace_kf_clock(kq, NULL, limit + step);
}
