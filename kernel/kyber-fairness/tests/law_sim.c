// SPDX-License-Identifier: GPL-2.0-only
/*
 * A few seconds of tests/law/, for the sanitizers: the law on two model disks. `make
 * law` runs all cases, without them.
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

static struct kunit_case law_cases[] = {
	KUNIT_CASE_PARAM(shares_are_kept, law_gen_params),
	{ }
};

static struct kunit_suite law_suite = {
	.name = "kyber_fairness_law",
	.test_cases = law_cases,
};

kunit_test_suite(law_suite);

MODULE_LICENSE("GPL");
