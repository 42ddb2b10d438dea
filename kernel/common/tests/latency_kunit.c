// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of latency.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../latency.h"

#define US	1000ULL	/* ns */

static void buckets_meet(struct kunit *test)
{
	unsigned int bucket;

	KUNIT_EXPECT_EQ(test, lat_bucket(0), 0U);
	KUNIT_EXPECT_EQ(test, lat_bucket(U64_MAX), LAT_NR_BUCKETS - 1U);
	for (bucket = 1; bucket < LAT_NR_BUCKETS; bucket++) {
		u64 begin_ns = lat_bucket_ns(bucket);

		KUNIT_EXPECT_EQ(test, lat_bucket(begin_ns), bucket);
		KUNIT_EXPECT_EQ(test, lat_bucket(begin_ns - 1), bucket - 1);
		/* Never wider than a quarter of what is in them. */
		KUNIT_EXPECT_LE(test, begin_ns - lat_bucket_ns(bucket - 1),
				lat_bucket_ns(bucket - 1) / 4);
	}
	KUNIT_EXPECT_EQ(test, lat_bucket_ns(0), 1024ULL);
	KUNIT_EXPECT_GT(test, lat_bucket_ns(LAT_NR_BUCKETS - 1), 14ULL * 1000 * 1000 * US);
}

static void quantile_of_nothing(struct kunit *test)
{
	static const u32 nr[LAT_NR_BUCKETS];

	KUNIT_EXPECT_EQ(test, lat_sum(nr), 0ULL);
	KUNIT_EXPECT_EQ(test, lat_quantile_ns(nr, 500), 0ULL);
	KUNIT_EXPECT_EQ(test, lat_quantile_ns(nr, 1000), 0ULL);
}

/* 1 us, 2 us, ... 10 ms: each quantile is known, and is met to an eighth. */
static void quantiles_of_a_ramp(struct kunit *test)
{
	static const unsigned int permille[] = { 1, 10, 100, 500, 900, 990, 999, 1000 };
	u32 nr[LAT_NR_BUCKETS] = { };
	unsigned int us, i;

	for (us = 1; us <= 10000; us++)
		nr[lat_bucket(us * US)]++;
	KUNIT_EXPECT_EQ(test, lat_sum(nr), 10000ULL);
	for (i = 0; i < ARRAY_SIZE(permille); i++) {
		u64 want_ns = permille[i] * 10 * US;
		u64 got_ns = lat_quantile_ns(nr, permille[i]);

		KUNIT_EXPECT_GE(test, got_ns, want_ns - want_ns / 8);
		KUNIT_EXPECT_LE(test, got_ns, want_ns + want_ns / 8);
	}
}

/* One slow request in a thousand is above the p99 and is the p99.9. */
static void quantiles_see_the_tail(struct kunit *test)
{
	u32 nr[LAT_NR_BUCKETS] = { };
	u64 fast_ns = 100 * US, slow_ns = 50000 * US;

	nr[lat_bucket(fast_ns)] = 998;
	nr[lat_bucket(slow_ns)] = 2;
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 990)), lat_bucket(fast_ns));
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 998)), lat_bucket(fast_ns));
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 999)), lat_bucket(slow_ns));
}

/* A single request, the open bucket, and as many as can be counted. */
static void quantile_extremes(struct kunit *test)
{
	u32 nr[LAT_NR_BUCKETS] = { };
	unsigned int bucket;

	nr[20] = 1;
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 1)), 20U);
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 1000)), 20U);

	nr[20] = 0;
	nr[LAT_NR_BUCKETS - 1] = 7;
	KUNIT_EXPECT_EQ(test, lat_quantile_ns(nr, 500), lat_bucket_ns(LAT_NR_BUCKETS - 1));

	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
		nr[bucket] = U32_MAX;
	KUNIT_EXPECT_EQ(test, lat_bucket(lat_quantile_ns(nr, 500)), 47U);
}

static struct kunit_case latency_cases[] = {
	KUNIT_CASE(buckets_meet),
	KUNIT_CASE(quantile_of_nothing),
	KUNIT_CASE(quantiles_of_a_ramp),
	KUNIT_CASE(quantiles_see_the_tail),
	KUNIT_CASE(quantile_extremes),
	{ }
};

static struct kunit_suite latency_suite = {
	.name = "isolio_latency",
	.test_cases = latency_cases,
};

kunit_test_suite(latency_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of isolio's latency histograms");
