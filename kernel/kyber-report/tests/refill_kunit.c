// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of refill.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../refill.h"

#define MS	1000000ULL

struct cgroup {
	u32 weight;
	s64 next_budget;
	s64 cur_budget;
	s64 want;
};

/* A refill of all cgroups, each by figure 30 or 31. */
static void refill(struct kunit *test, struct cgroup *all, int nr, u64 spent_ns)
{
	struct kr_sums sums = {};
	s64 granted;
	int i;

	for (i = 0; i < nr; i++)
		kr_sums_add(&sums, all[i].next_budget, all[i].cur_budget, all[i].weight);
	granted = kr_granted(&sums, 100 * MS, spent_ns);
	for (i = 0; i < nr; i++) {
		struct cgroup *c = &all[i];

		if (kr_is_idle(c->next_budget, c->cur_budget))
			c->next_budget = kr_initial_budget(c->weight);
		else
			c->next_budget = kr_next_budget(granted, c->weight, &sums, c->cur_budget);
		c->cur_budget = c->next_budget;
		KUNIT_EXPECT_EQ(test, c->next_budget, c->want);
	}
}

/* Figure 14.b: 300 are used up in two thirds of 100 ms. */
static void figure_14(struct kunit *test)
{
	struct cgroup all[] = { { 200, 200, 0, 300 }, { 100, 100, 0, 150 } };

	refill(test, all, 2, 66666666);
}

/* A slower device: half of the rate, half of the budgets. */
static void used_up_late(struct kunit *test)
{
	struct cgroup all[] = { { 200, 200, 0, 100 }, { 100, 100, 0, 50 } };

	refill(test, all, 2, 200 * MS);
}

/*
 * Figure 30: 1000 + 200 were used in 100 ms, and 400 remain. So 800 are granted by weight,
 * and the remainder stays with its cgroup: 1200 in all.
 */
static void figure_30_remainder(struct kunit *test)
{
	struct cgroup all[] = { { 300, 1000, 0, 600 }, { 100, 600, 400, 600 } };

	refill(test, all, 2, 100 * MS);
}

/* More remains than is used: what is granted is negative. */
static void figure_30_more_remains(struct kunit *test)
{
	struct cgroup all[] = { { 100, 100, 0, -350 }, { 100, 1000, 900, 550 } };

	refill(test, all, 2, 100 * MS);
}

/* The last request takes more than is left. The debt is repaid out of all budgets. */
static void figure_30_debt(struct kunit *test)
{
	struct cgroup all[] = { { 100, 100, -100, 100 }, { 100, 100, 0, 200 } };

	refill(test, all, 2, 100 * MS);
}

/* Figure 31: an unchanged budget is idle, gets nothing of the rest, and begins anew. */
static void figure_31(struct kunit *test)
{
	struct cgroup all[] = {
		{ 100, 1000, 0, 1000 },
		{ 900, 5000, 5000, 900 * KR_SCALE_FACTOR },
	};

	refill(test, all, 2, 100 * MS);
	KUNIT_EXPECT_TRUE(test, kr_is_idle(5000, 5000));
	KUNIT_EXPECT_FALSE(test, kr_is_idle(5000, 4999));
	/* A cgroup in debt that could not dispatch is idle as well, and has budget again. */
	KUNIT_EXPECT_TRUE(test, kr_is_idle(-400, -400));
}

/*
 * Section V.2: one small request in each interval, and its cgroup is not idle. It keeps
 * nearly all of the budget, and leaves 8 to the cgroup that could use it.
 */
static void open_problem(struct kunit *test)
{
	struct cgroup all[] = { { 100, 1000, 0, 8 }, { 100, 1000, 992, 1000 } };

	refill(test, all, 2, 100 * MS);
}

static void all_idle(struct kunit *test)
{
	struct cgroup all[] = { { 100, 7, 7, 800 }, { 1, 8, 8, 8 } };

	refill(test, all, 2, 100 * MS);
}

static void extremes(struct kunit *test)
{
	struct kr_sums sums = { .used = S64_MAX, .remainder = -S64_MAX, .weight = 10000 };

	KUNIT_EXPECT_EQ(test, kr_granted(&sums, U64_MAX, 0), 2 * KR_SECTORS_MAX);
	KUNIT_EXPECT_EQ(test, kr_next_budget(2 * KR_SECTORS_MAX, 10000, &sums, 0),
			2 * KR_SECTORS_MAX);
	sums.used = 0;
	sums.remainder = S64_MAX;
	KUNIT_EXPECT_EQ(test, kr_granted(&sums, 100 * MS, U64_MAX), -KR_SECTORS_MAX);
}

static struct kunit_case refill_test_cases[] = {
	KUNIT_CASE(figure_14),
	KUNIT_CASE(used_up_late),
	KUNIT_CASE(figure_30_remainder),
	KUNIT_CASE(figure_30_more_remains),
	KUNIT_CASE(figure_30_debt),
	KUNIT_CASE(figure_31),
	KUNIT_CASE(open_problem),
	KUNIT_CASE(all_idle),
	KUNIT_CASE(extremes),
	{ }
};

static struct kunit_suite refill_suite = {
	.name = "kyber_report_refill",
	.test_cases = refill_test_cases,
};

kunit_test_suite(refill_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-report's arithmetic of budgets");
