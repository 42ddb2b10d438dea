// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of pace.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../pace.h"

#define MS	1000000ULL	/* ns */
#define X(scale) ((scale) * MD_MILLI)
#define DAY	(86400ULL * 1000 * MS)

static void device_time_is_scaled(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(10 * MS, X(2), 22 * MS), 6 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_kernel_ns(10 * MS, X(2), 6 * MS), 22 * MS);
	/* Whole nanoseconds have passed. */
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(0, X(16), 31), 1ULL);
}

/* A disk slowed down by a factor of 2.5: an event is due in the first nanosecond that has it. */
static void a_scale_has_a_fraction(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(10 * MS, 2500, 20 * MS), 4 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_kernel_ns(10 * MS, 2500, 4 * MS), 20 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_kernel_ns(0, 2500, 3), 8ULL);
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(0, 2500, 8), 3ULL);
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(0, 2500, 7), 2ULL);
}

/* The example of pace.h. */
static void an_event_keeps_its_device_time(struct kunit *test)
{
	const u64 now_ns = 100 * MS;
	u64 start_ns;

	KUNIT_EXPECT_TRUE(test, md_pace_start(6 * MS, X(6), now_ns, &start_ns));
	KUNIT_EXPECT_EQ(test, start_ns, 64 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(start_ns, X(6), now_ns), 6 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_kernel_ns(start_ns, X(6), 8 * MS), now_ns + 12 * MS);
}

/* Whatever the speeds are, and however often they change, time goes on. */
static void time_never_goes_back(struct kunit *test)
{
	static const u64 scales[] = { X(1), X(3), X(1000), 34783, X(48), 1001, X(999) };
	u64 start_ns = 5 * MS, scale = X(7), now_ns = 9 * MS + 5, before_ns = 0, due_ns;
	u32 i;

	for (i = 0; i < 10000; i++) {
		u64 device_ns = md_pace_device_ns(start_ns, scale, now_ns);

		KUNIT_ASSERT_GE(test, device_ns, before_ns);
		before_ns = device_ns;
		scale = scales[i % ARRAY_SIZE(scales)];
		KUNIT_ASSERT_TRUE(test, md_pace_start(device_ns, scale, now_ns, &start_ns));
		KUNIT_ASSERT_EQ(test, md_pace_device_ns(start_ns, scale, now_ns), device_ns);
		/* An event that is due now, and one in a nanosecond: neither is early. */
		KUNIT_ASSERT_EQ(test, md_pace_kernel_ns(start_ns, scale, device_ns), now_ns);
		due_ns = md_pace_kernel_ns(start_ns, scale, device_ns + 1);
		KUNIT_ASSERT_EQ(test, md_pace_device_ns(start_ns, scale, due_ns), device_ns + 1);
		KUNIT_ASSERT_EQ(test, md_pace_device_ns(start_ns, scale, due_ns - 1), device_ns);
		now_ns += 1 + i % 4099;
	}
}

/* A disk that was fast for longer than the clock runs, had it been slow. */
static void it_may_have_started_before_the_clock(struct kunit *test)
{
	u64 start_ns;

	KUNIT_EXPECT_TRUE(test, md_pace_start(50 * MS, X(1000), 60 * MS, &start_ns));
	KUNIT_EXPECT_GT(test, start_ns, 60 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(start_ns, X(1000), 60 * MS), 50 * MS);
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(start_ns, X(1000), 70 * MS), 50 * MS + MS / 100);
	KUNIT_EXPECT_EQ(test, md_pace_kernel_ns(start_ns, X(1000), 51 * MS), 1060 * MS);
}

static void too_long_ago_is_refused(struct kunit *test)
{
	u64 start_ns = 42;

	KUNIT_EXPECT_TRUE(test, md_pace_start(100 * DAY, X(1000), 200 * DAY, &start_ns));
	KUNIT_EXPECT_EQ(test, md_pace_device_ns(start_ns, X(1000), 200 * DAY), 100 * DAY);
	start_ns = 42;
	KUNIT_EXPECT_FALSE(test, md_pace_start(107 * DAY, X(1000), 200 * DAY, &start_ns));
	KUNIT_EXPECT_FALSE(test, md_pace_start(~0ULL, X(1), 200 * DAY, &start_ns));
	KUNIT_EXPECT_EQ(test, start_ns, 42ULL);
}

static struct kunit_case pace_cases[] = {
	KUNIT_CASE(device_time_is_scaled),
	KUNIT_CASE(a_scale_has_a_fraction),
	KUNIT_CASE(an_event_keeps_its_device_time),
	KUNIT_CASE(time_never_goes_back),
	KUNIT_CASE(it_may_have_started_before_the_clock),
	KUNIT_CASE(too_long_ago_is_refused),
	{ }
};

static struct kunit_suite pace_suite = {
	.name = "modeldisk_pace",
	.test_cases = pace_cases,
};

kunit_test_suite(pace_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of a model disk's time");
