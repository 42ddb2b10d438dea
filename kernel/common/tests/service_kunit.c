// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of service.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../service.h"

#define MS	1000000ULL	/* ns */

/* Periods of @nr services each; the same mean every time, or two in turn. */
static struct services observed(u32 nr, u64 one_ns, u64 other_ns, unsigned int nr_periods)
{
	struct services s = { };
	unsigned int i;

	for (i = 0; i < nr_periods; i++)
		services_observe(&s, nr * (i % 2 ? other_ns : one_ns), nr);
	return s;
}

static void first_period_says_all(struct kunit *test)
{
	struct services s = observed(64, 8 * MS, 8 * MS, 1);

	KUNIT_EXPECT_EQ(test, s.mean_ns, 8 * MS);
	KUNIT_EXPECT_EQ(test, s.deviation_ns, 4 * MS);
}

/* A device that keeps its rate needs no margin any more. */
static void steady_device_has_no_spread(struct kunit *test)
{
	struct services s = observed(64, 8 * MS, 8 * MS, 100);

	KUNIT_EXPECT_EQ(test, s.mean_ns, 8 * MS);
	KUNIT_EXPECT_LT(test, s.deviation_ns, 10ULL);
	KUNIT_EXPECT_LT(test, services_worst_ns(&s, 100), 800 * MS + 1000);
	KUNIT_EXPECT_GE(test, services_worst_ns(&s, 100), 800 * MS);
}

/*
 * 7 and 9 ms in turn are 1 ms away from their mean, times the root of how many
 * services are in them: in periods four times as long the same difference is a
 * sign of twice the spread.
 */
static void spread_is_of_single_services(struct kunit *test)
{
	static const u32 nrs[] = { 64, 256, 1024 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nrs); i++) {
		struct services s = observed(nrs[i], 7 * MS, 9 * MS, 200);
		u64 want_ns = int_sqrt(nrs[i]) * MS;

		KUNIT_EXPECT_GT(test, s.mean_ns, 79 * MS / 10);
		KUNIT_EXPECT_LT(test, s.mean_ns, 81 * MS / 10);
		KUNIT_EXPECT_GT(test, s.deviation_ns, want_ns * 95 / 100);
		KUNIT_EXPECT_LT(test, s.deviation_ns, want_ns * 115 / 100);
	}
}

/* The estimate follows a device that gets slower, and is careful meanwhile. */
static void new_rate_is_followed(struct kunit *test)
{
	struct services s = observed(64, 4 * MS, 4 * MS, 100);
	unsigned int i;

	for (i = 0; i < 40; i++) {
		services_observe(&s, 64 * 8 * MS, 64);
		if (i == 1)
			KUNIT_EXPECT_GT(test, services_worst_ns(&s, 100), 800 * MS);
	}
	KUNIT_EXPECT_GT(test, s.mean_ns, 79 * MS / 10);
	KUNIT_EXPECT_LE(test, s.mean_ns, 8 * MS);
}

struct worst_case {
	const char *name;
	u64 mean_ns;
	u64 deviation_ns;
	u32 nr;
	u64 want_ns;
};

static const struct worst_case worst_cases[] = {
	{ "none", 8 * MS, 2 * MS, 0, 0 },
	{ "one", 8 * MS, 2 * MS, 1, 16 * MS },
	{ "a hundred", 8 * MS, 2 * MS, 100, 880 * MS },
	{ "a root between numbers", 8 * MS, 2 * MS, 2, 16 * MS + 8 * 362 * MS / 256 },
	{ "as many as can be, of a minute", 60000 * MS, 60000 * MS, 65536, 60000 * MS * 66560 },
};

static void worst_case_name(const struct worst_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(worst, worst_cases, worst_case_name);

static void worst_of_services(struct kunit *test)
{
	const struct worst_case *c = test->param_value;
	struct services s = { c->mean_ns, c->deviation_ns };

	KUNIT_EXPECT_EQ(test, services_worst_ns(&s, c->nr), c->want_ns);
}

struct wait_case {
	const char *name;
	u64 wait_ns;
	struct services s;
	u32 depth;
	u32 want;
};

/* 111 services at 8.2 ms are the worked example of age.h, 87 that of service.h. */
static const struct wait_case wait_cases[] = {
	{ "worked example", 111 * 82 * MS / 10, { 82 * MS / 10 }, 31, 50 },
	{ "a nanosecond less", 111 * 82 * MS / 10 - 1, { 82 * MS / 10 }, 31, 49 },
	{ "with spread", 790 * MS, { 83 * MS / 10, 18 * MS / 10 }, 31, 26 },
	{ "too short for the depth", 62 * 82 * MS / 10 - 1, { 82 * MS / 10 }, 31, 1 },
	{ "just the depth", 62 * 82 * MS / 10, { 82 * MS / 10 }, 31, 1 },
	{ "no wait at all", 0, { 82 * MS / 10, 2 * MS }, 31, 1 },
	{ "a device too fast", 3600 * 1000 * MS, { 1 }, 1023, AGE_TH_MAX },
	{ "not measured", 100 * MS, { 0 }, 1, AGE_TH_MAX },
};

static void wait_case_name(const struct wait_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(wait, wait_cases, wait_case_name);

/* The largest that keeps what it promises, wherever that can be kept. */
static void threshold_of_wait(struct kunit *test)
{
	const struct wait_case *c = test->param_value;
	u32 age_th = age_th_of_wait(c->wait_ns, &c->s, c->depth);

	KUNIT_EXPECT_EQ(test, age_th, c->want);
	if (age_th > 1)
		KUNIT_EXPECT_LE(test, age_wait_ns(age_th, &c->s, c->depth), c->wait_ns);
	if (age_th < AGE_TH_MAX)
		KUNIT_EXPECT_GT(test, age_wait_ns(age_th + 1, &c->s, c->depth), c->wait_ns);
}

static struct kunit_case service_cases[] = {
	KUNIT_CASE(first_period_says_all),
	KUNIT_CASE(steady_device_has_no_spread),
	KUNIT_CASE(spread_is_of_single_services),
	KUNIT_CASE(new_rate_is_followed),
	KUNIT_CASE_PARAM(worst_of_services, worst_gen_params),
	KUNIT_CASE_PARAM(threshold_of_wait, wait_gen_params),
	{ }
};

static struct kunit_suite service_suite = {
	.name = "isolio_service",
	.test_cases = service_cases,
};

kunit_test_suite(service_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of isolio's times of services");
