// SPDX-License-Identifier: GPL-2.0-only
/*
 * What runs a hardware context whose cgroups are all throttled: two CPUs with a hardware
 * context each, played by one thread.
 */
#define _GNU_SOURCE

#include "../../common/tests/smp/count.h"

#include "module.h"

#include "../../common/tests/smp/count.c"
#include "../../common/tests/smp/load.h"

#include <kunit/test.h>

#define STEP_NS		20000ULL
#define ALONE_NS	(KF_CLOCK_STEPS * STEP_NS)
#define LEAD_BYTES	1048576ULL

/* On CPU 0 the first two cgroups have a request in flight each; on CPU 1 the third waits. */
struct gate_test {
	struct smp_run *run;
	struct kf_queue *kq;
	struct kf_hctx *kh;		/* of CPU 1 */
	struct kf_group *busy[2], *throttled;
};

static struct gate_test gt;

static void gate_submit(unsigned int cpu, unsigned int cgroup)
{
	struct smp_cpu *sc = &gt.run->cpus[cpu];
	unsigned int i;

	smp_this_cpu = cpu;
	for (i = 0; i < sc->nr_slots; i++)
		if (!sc->slots[i].is_busy)
			sc->slots[i].cgroup = cgroup;
	if (!smp_submit(sc))
		abort();
}

static bool gate_dispatch(unsigned int cpu)
{
	smp_this_cpu = cpu;
	return smp_dispatch(&gt.run->cpus[cpu]);
}

static struct kf_group *gate_group(unsigned int cgroup)
{
	return pd_to_kg(gt.run->sd->cgroups[1 + cgroup].blkg->pd[0]);
}

static bool gate_was_run(void)
{
	return smp_must_run(&gt.run->cpus[1]);
}

static int gate_init(struct kunit *test)
{
	const struct smp_setup setup = {
		.type = smp_registered ?: kf_load_module(), .nr_cpus = 2, .nr_hctx = 2,
		.spread = SMP_FOUR_CGROUPS, .state = SMP_QUEUED,
	};
	int i;

	smp_played_ns = NSEC_PER_SEC;
	gt.run = smp_run_begin(&setup);
	gt.kq = gt.run->sd->q.elevator->elevator_data;
	gt.kh = gt.run->sd->q.queue_hw_ctx[1]->sched_data;
	for (i = 0; i < 2; i++) {
		gate_submit(0, i);
		gt.busy[i] = gate_group(i);
	}
	for (i = 0; i < 2; i++)
		if (!gate_dispatch(0))
			return -EINVAL;
	/* As if a probe had been, so that the clock is not found for each request. */
	gt.kq->gate.alone_ns = ALONE_NS;
	gt.kq->lead_bytes = LEAD_BYTES;
	gt.throttled = gate_group(2);
	gate_submit(1, 2);
	atomic64_set(&gt.throttled->vtime, atomic64_read(&gt.busy[0]->vtime) + 3 * LEAD_BYTES / 2);
	/* The first call finds the clock and runs itself, the next one that there is no work. */
	smp_played_ns += kf_clock_step_ns(ALONE_NS, 0, false);
	if (gate_dispatch(1))
		return -EINVAL;
	gate_was_run();
	for (i = 0; i < 2; i++)
		if (gate_dispatch(1))
			return -EINVAL;
	return test_bit(KF_FOR_CLOCK, &gt.kh->flags) && !gate_was_run() ? 0 : -EINVAL;
}

static void gate_exit(struct kunit *test)
{
	unsigned int cpu;

	for (cpu = 0; cpu < 2; cpu++) {
		smp_this_cpu = cpu;
		while (smp_has_busy(&gt.run->cpus[cpu])) {
			smp_played_ns += NSEC_PER_MSEC;
			smp_dispatch(&gt.run->cpus[cpu]);
			smp_complete(&gt.run->cpus[cpu]);
			smp_poll_timers(&gt.run->cpus[cpu], true);
		}
	}
	smp_run_end(gt.run);
	smp_played_ns = 0;
}

/*
 * The device is empty: what waits is run, and by a timer from then on. It goes when the others
 * are not present any more.
 */
static void last_completion_runs_what_waits(struct kunit *test)
{
	smp_this_cpu = 0;
	KUNIT_ASSERT_TRUE(test, smp_complete(&gt.run->cpus[0]));
	KUNIT_EXPECT_FALSE(test, gate_was_run());
	KUNIT_ASSERT_TRUE(test, smp_complete(&gt.run->cpus[0]));
	KUNIT_EXPECT_TRUE(test, gate_was_run());
	KUNIT_EXPECT_FALSE(test, gate_dispatch(1));
	smp_played_ns += kf_clock_grace_ns(ALONE_NS) + 1;
	smp_poll_timers(&gt.run->cpus[1], true);
	KUNIT_EXPECT_TRUE(test, gate_was_run());
	KUNIT_EXPECT_TRUE(test, gate_dispatch(1));
}

/* The clock is older than some steps: one is run, and finds it. */
static void late_completion_runs_one(struct kunit *test)
{
	u64 nr_runs = smp_nr_runs(gt.run->sd);

	smp_played_ns += KF_DONE_STEPS * STEP_NS;
	smp_this_cpu = 0;
	KUNIT_ASSERT_TRUE(test, smp_complete(&gt.run->cpus[0]));
	KUNIT_EXPECT_TRUE(test, gate_was_run());
	KUNIT_EXPECT_EQ(test, smp_nr_runs(gt.run->sd), nr_runs + 1);
	KUNIT_EXPECT_FALSE(test, gate_dispatch(1));
}

/* The others caught up, and a cgroup that comes back finds the clock. */
static void arrival_that_moves_the_clock_runs_what_waits(struct kunit *test)
{
	int i;

	for (i = 0; i < 2; i++)
		atomic64_set(&gt.busy[i]->vtime, atomic64_read(&gt.throttled->vtime));
	smp_played_ns += STEP_NS;
	gate_submit(0, 3);
	KUNIT_ASSERT_TRUE(test, kf_hctx_may_go(gt.kq, gt.kh));
	KUNIT_EXPECT_TRUE(test, gate_was_run());
}

/* Its place in the tree is where it was before, behind one that may not go. */
static void vtime_that_was_set_back_is_seen(struct kunit *test)
{
	struct kf_group *ahead;
	int i;

	gate_submit(1, 3);
	ahead = gate_group(3);
	spin_lock_bh(&gt.kq->lock);
	kf_update_shares(gt.kq);
	gt.kq->share_sum = KF_SHARE_ONE;
	spin_unlock_bh(&gt.kq->lock);
	atomic64_set(&ahead->vtime, gt.kq->gate.vtime + 6 * LEAD_BYTES);
	atomic64_set(&gt.throttled->vtime, gt.kq->gate.vtime + 8 * LEAD_BYTES);
	KUNIT_ASSERT_FALSE(test, gate_dispatch(1));

	spin_lock_bh(&gt.kq->lock);
	kf_groups_lower(gt.kq);
	spin_unlock_bh(&gt.kq->lock);
	KUNIT_ASSERT_EQ(test, (u64)atomic64_read(&gt.throttled->vtime),
			gt.kq->gate.vtime + KF_LAG_LEADS * LEAD_BYTES);
	/* It was given service on another hardware context. */
	atomic64_add((6 - KF_LAG_LEADS) * LEAD_BYTES, &ahead->vtime);
	for (i = 0; i < 2; i++)
		atomic64_add(3 * LEAD_BYTES / 2, &gt.busy[i]->vtime);
	smp_played_ns += STEP_NS;
	KUNIT_EXPECT_TRUE(test, gate_dispatch(1));
}

/* No cgroup waits for deleted ones, and the clock goes on with theirs. */
static void clock_goes_on_with_deleted_ones(struct kunit *test)
{
	int i;

	KUNIT_ASSERT_FALSE(test, gate_dispatch(1));
	for (i = 0; i < 2; i++) {
		kf_group_offline(gt.busy[i]);
		atomic64_add(3 * LEAD_BYTES, &gt.busy[i]->vtime);
	}
	kf_group_offline(gt.throttled);
	smp_played_ns += KF_DONE_STEPS * STEP_NS;
	smp_this_cpu = 0;
	KUNIT_ASSERT_TRUE(test, smp_complete(&gt.run->cpus[0]));
	KUNIT_EXPECT_TRUE(test, gate_was_run());
	KUNIT_EXPECT_TRUE(test, gate_dispatch(1));
}

static bool gate_has_work(void)
{
	smp_this_cpu = 1;
	return gt.run->cpus[1].ops->has_work(gt.kh->hctx);
}

/* Or the block layer would ask again every 3 ms. */
static void no_work_while_none_has_a_token(struct kunit *test)
{
	struct sbitmap_queue *tokens = &gt.kq->domain[KF_READ].tokens;
	static int taken[KF_DEPTH_MOST];
	unsigned int nr = 0;

	gt.kq->domain[KF_READ].is_limited = true;
	while ((taken[nr] = __sbitmap_queue_get(tokens)) >= 0)
		nr++;
	atomic64_set(&gt.throttled->vtime, gt.kq->gate.vtime);
	gt.kq->gate.nr_lowered++;
	gate_submit(1, 2);
	KUNIT_EXPECT_FALSE(test, gate_dispatch(1));
	KUNIT_EXPECT_FALSE(test, gate_has_work());
	kf_domain_put_token(gt.kq, KF_READ, taken[--nr], 1);
	KUNIT_EXPECT_TRUE(test, gate_was_run());
	KUNIT_EXPECT_TRUE(test, gate_has_work());
	KUNIT_EXPECT_TRUE(test, gate_dispatch(1));
	while (nr)
		kf_domain_put_token(gt.kq, KF_READ, taken[--nr], 1);
	gt.kq->domain[KF_READ].is_limited = false;
}

/* The kernel waits for the requests of a hardware context whose last CPU goes. */
static void context_without_cpus_drains(struct kunit *test)
{
	gt.kh->hctx->state = BIT(BLK_MQ_S_INACTIVE);
	KUNIT_EXPECT_TRUE(test, gate_dispatch(1));
	gt.kh->hctx->state = 0;
}

/* It has no virtual time of its own any more: its requests are its parent's. */
static void late_request_of_a_deleted_one_is_its_parents(struct kunit *test)
{
	struct kf_group *late = gate_group(3);
	unsigned int nr = kf_group_outstanding(late->parent);

	kf_group_offline(late);
	gate_submit(0, 3);
	KUNIT_EXPECT_EQ(test, kf_group_outstanding(late), 0U);
	KUNIT_EXPECT_EQ(test, kf_group_outstanding(late->parent), nr + 1);
	KUNIT_EXPECT_TRUE(test, late->parent->is_active);
}

/* Publish what the band says. Return: whether slices are taken. */
static bool gate_takes_slices(void)
{
	spin_lock_irq(&gt.kq->band_lock);
	kf_gate_publish(gt.kq);
	spin_unlock_irq(&gt.kq->band_lock);
	return gt.kq->gate.is_slack;
}

/* Slices are for where the CPU keeps others out of the device, and nothing else does. */
static void slices_only_where_the_cpu_is_short(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, gate_takes_slices());
	gt.kq->band.was_slack = true;
	KUNIT_EXPECT_TRUE(test, gate_takes_slices());
	gt.kq->has_limited = true;
	KUNIT_EXPECT_FALSE(test, gate_takes_slices());
	gt.kq->has_limited = false;
	kf_wait_for(gt.kq, gt.kh, KF_FOR_LARGE + KF_WRITE);
	KUNIT_EXPECT_FALSE(test, gate_takes_slices());
	kf_large_kick(gt.kq);
	gt.kq->band.was_slack = false;
}

/* A probe wants to see each kind: what is throttled goes in it, one at a time. */
static void probe_lets_each_go(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, gt.kq->gate.is_open);
	gt.kq->band.phase = KF_BAND_EMPTY;
	gate_takes_slices();
	KUNIT_EXPECT_TRUE(test, gt.kq->gate.is_open);
	KUNIT_EXPECT_EQ(test, gt.kq->ceiling, 1U);
	gt.kq->band.phase = KF_BAND_STEADY;
	gate_takes_slices();
}

static struct kunit_case gate_cases[] = {
	KUNIT_CASE(last_completion_runs_what_waits),
	KUNIT_CASE(probe_lets_each_go),
	KUNIT_CASE(late_completion_runs_one),
	KUNIT_CASE(arrival_that_moves_the_clock_runs_what_waits),
	KUNIT_CASE(vtime_that_was_set_back_is_seen),
	KUNIT_CASE(clock_goes_on_with_deleted_ones),
	KUNIT_CASE(no_work_while_none_has_a_token),
	KUNIT_CASE(context_without_cpus_drains),
	KUNIT_CASE(slices_only_where_the_cpu_is_short),
	KUNIT_CASE(late_request_of_a_deleted_one_is_its_parents),
	{ }
};

static struct kunit_suite gate_suite = {
	.name = "kyber_fairness_gate",
	.init = gate_init,
	.exit = gate_exit,
	.test_cases = gate_cases,
};

kunit_test_suite(gate_suite);
