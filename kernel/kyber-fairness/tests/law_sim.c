// SPDX-License-Identifier: GPL-2.0-only
/*
 * A few seconds of tests/law/, for the sanitizers: the law on two model disks.
 * scripts/law runs all cases, without them.
 */
#include <kunit/test.h>

#include "../../modeldisk/fixed.c"
#include "../../modeldisk/nvme.c"
#include "law/clock.c"
#include "law/engine.c"

static struct law_result law_test_result;

struct law_test {
	const char *name;
	const struct law_sched *sched;
	u32 depth, nr_hctx;
	bool is_fixed;
};

static const struct law_test law_tests[] = {
	{ "law, 4x8", &law_clock, 8, 1 },
	{ "law, 4x32", &law_clock, 32, 1 },
	{ "law, 4x128 on 16 contexts", &law_clock, 128, 16 },
	{ "law, 4x4 of 1 ms", &law_clock, 4, 1, true },
	{ "law, 4x128 of 1 ms on 16 contexts", &law_clock, 128, 16, true },
	{ "full, 4x32", &law_full, 32, 1 },
	{ "exact, 4x2", &law_exact, 2, 1 },
};

static void law_test_name(const struct law_test *t, char *name)
{
	strscpy(name, t->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(law, law_tests, law_test_name);

/* Weights of 1000, 500, 250 and 100, all reads: within 2 % in a second. */
static void shares_are_kept(struct kunit *test)
{
	static const u32 weights[] = { 1000, 500, 250, 100 };
	const struct law_test *t = test->param_value;
	static struct law_case c;
	u32 i;

	c = (struct law_case){
		.name = t->name,
		.type = t->is_fixed ? &md_fixed_type : &md_nvme_type,
		.preset = t->is_fixed ? "ideal" : "p4500-2tb",
		.scale = t->is_fixed ? 1 : 16,
		.tags = t->is_fixed ? 32 : 1023,
		.nr_hctx = t->nr_hctx,
		.pinned = true,
		.turn_ns = 80 * NSEC_PER_USEC,
		.warm_ns = 1000 * NSEC_PER_MSEC,
		.run_ns = 1000 * NSEC_PER_MSEC,
		.seed = 1,
		.nr_loads = 4,
	};
	for (i = 0; i < 4; i++)
		c.load[i] = (struct law_load){
			.weight = weights[i], .depth = t->depth, .bytes = 4096,
		};
	law_run(&c, t->sched, &law_test_result, false);
	for (i = 0; i < 4; i++) {
		u64 permille = law_test_result.got[i].nr * 1850000 /
			       (law_test_result.nr * weights[i]);

		KUNIT_EXPECT_GE(test, permille, 980ULL);
		KUNIT_EXPECT_LE(test, permille, 1020ULL);
	}
}

/* A P4500 with these two on it. */
static struct law_case law_two(struct law_load a, struct law_load b)
{
	return (struct law_case){
		.name = "two",
		.type = &md_nvme_type,
		.preset = "p4500-2tb",
		.scale = 16,
		.tags = 1023,
		.nr_hctx = 1,
		.turn_ns = 80 * NSEC_PER_USEC,
		.warm_ns = 1000 * NSEC_PER_MSEC,
		.run_ns = 1000 * NSEC_PER_MSEC,
		.seed = 1,
		.nr_loads = 2,
		.load = { a, b },
	};
}

/* What one of two has, in percent of alone on a disk of its share. */
static u64 law_own_pct(const struct law_case *c, u32 nr, u64 got)
{
	static struct law_case alone;

	alone = *c;
	alone.nr_loads = 1;
	alone.load[0] = c->load[nr];
	alone.share = (double)c->load[nr].weight / (c->load[0].weight + c->load[1].weight);
	law_run(&alone, &law_none, &law_test_result, false);
	return got * 100 / law_test_result.nr;
}

/* An API of four requests and four fifths of the disk, beside a bulk reader. */
static void few_requests_have_a_disk_of_their_own(struct kunit *test)
{
	static struct law_case c;
	u64 api, bulk;

	c = law_two((struct law_load){ .weight = 800, .depth = 4, .bytes = 4096 },
		    (struct law_load){ .weight = 200, .depth = 128, .bytes = 4096 });
	law_run(&c, &law_clock, &law_test_result, false);
	api = law_test_result.got[0].nr;
	bulk = law_test_result.got[1].nr;
	KUNIT_EXPECT_GE(test, law_own_pct(&c, 0, api), 95ULL);
	KUNIT_EXPECT_GE(test, law_own_pct(&c, 1, bulk), 95ULL);
}

/* One that syncs each page takes 32 ms for it, and the disk serves others meanwhile. */
static void slow_requests_cost_others_nothing(struct kunit *test)
{
	const struct law_load slow = {
		.weight = 20, .depth = 1, .bytes = 4096,
		.write_permille = 1000, .slow_ns = 32 * NSEC_PER_MSEC,
	};
	static struct law_case c;

	c = law_two(slow, (struct law_load){ .weight = 1000, .depth = 128, .bytes = 4096 });
	law_run(&c, &law_clock, &law_test_result, false);
	KUNIT_EXPECT_GE(test, law_own_pct(&c, 1, law_test_result.got[1].nr), 95ULL);
}

static struct kunit_case law_cases[] = {
	KUNIT_CASE_PARAM(shares_are_kept, law_gen_params),
	KUNIT_CASE(few_requests_have_a_disk_of_their_own),
	KUNIT_CASE(slow_requests_cost_others_nothing),
	{ }
};

static struct kunit_suite law_suite = {
	.name = "kyber_fairness_law",
	.test_cases = law_cases,
};

kunit_test_suite(law_suite);

MODULE_LICENSE("GPL");
