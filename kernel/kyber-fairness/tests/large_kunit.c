// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of large.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../large.h"

#define MS		((u64)NSEC_PER_MSEC)
#define LOOK_NS		(100 * MS)

/*
 * A device that serves so many large requests at a time, each in so long, and as many small
 * ones are sent for each.
 */
struct device {
	u64 each_ns;
	u32 nr_served;
	u32 nr_small;
};

/* So many of them are done in a look, with as many in flight as may be. */
static u64 device_does(const struct device *dev, const struct kf_large *kl)
{
	return LOOK_NS * min(dev->nr_served, kl->ceiling) / dev->each_ns;
}

/* What one takes with as many in flight as may be. */
static u64 device_takes_ns(const struct device *dev, const struct kf_large *kl)
{
	return dev->each_ns * DIV_ROUND_UP(max(dev->nr_served, kl->ceiling), dev->nr_served);
}

/* Looks in a row, in which there are always more large requests than may go. */
static u64 device_looks(struct kf_large *kl, u64 now_ns, const struct device *dev, u32 nr_looks)
{
	while (nr_looks--) {
		u64 nr = device_does(dev, kl), i;

		for (i = 0; i < nr && kl->is_probing; i++) {
			kf_large_done(kl, now_ns, now_ns + device_takes_ns(dev, kl));
			now_ns += dev->each_ns;
		}
		now_ns += LOOK_NS;
		kf_large_update(kl, nr, nr * (1 + dev->nr_small), true, now_ns);
	}
	return now_ns;
}

/* The first example of large.h: three times a product of one. */
static void few_are_in_flight_on_a_slow_disk(struct kunit *test)
{
	const struct device dev = { .each_ns = 31 * MS, .nr_served = 1, .nr_small = 1000 };
	struct kf_large kl;

	kf_large_init(&kl);
	KUNIT_EXPECT_EQ(test, kl.ceiling, KF_LARGE_MIN);
	device_looks(&kl, NSEC_PER_SEC, &dev, 30);
	KUNIT_EXPECT_EQ(test, kl.alone_ns, 31 * MS);
	KUNIT_EXPECT_GE(test, kl.ceiling, 2U);
	KUNIT_EXPECT_LE(test, kl.ceiling, 3U);
}

/* The second one: the ceiling grows by three at a look, until the device is full. */
static void many_are_in_flight_on_a_distant_disk(struct kunit *test)
{
	const struct device dev = { .each_ns = 10 * MS, .nr_served = 200, .nr_small = 100 };
	struct kf_large kl;

	kf_large_init(&kl);
	device_looks(&kl, NSEC_PER_SEC, &dev, 12);
	KUNIT_EXPECT_EQ(test, kl.alone_ns, 10 * MS);
	KUNIT_EXPECT_EQ(test, kl.rate, 20000ULL);
	KUNIT_EXPECT_EQ(test, kl.ceiling, 600U);
}

/* Where all are large there are more of them: a disk that turns chooses. */
static void as_many_as_a_lead_where_all_are_large(struct kunit *test)
{
	struct device dev = { .each_ns = 30 * MS, .nr_served = 1 };
	struct kf_large kl;
	u64 now_ns;

	kf_large_init(&kl);
	now_ns = device_looks(&kl, NSEC_PER_SEC, &dev, 30);
	KUNIT_EXPECT_EQ(test, kl.ceiling, KF_LEAD_REQUESTS);
	/* One in two, and one in a thousand. */
	dev.nr_small = 1;
	now_ns = device_looks(&kl, now_ns, &dev, 60);
	KUNIT_EXPECT_GE(test, kl.ceiling, 3U);
	KUNIT_EXPECT_LE(test, kl.ceiling, 5U);
	dev.nr_small = 999;
	device_looks(&kl, now_ns, &dev, 60);
	KUNIT_EXPECT_LE(test, kl.ceiling, 3U);
}

/* A probe counts those alone that were sent in it, and the next one comes later. */
static void a_probe_sees_one_at_a_time(struct kunit *test)
{
	u64 now_ns = NSEC_PER_SEC;
	struct kf_large kl;
	u32 i;

	kf_large_init(&kl);
	/* As many as may be are not in flight: what they take does not matter. */
	kf_large_update(&kl, 10, 100, false, now_ns);
	KUNIT_EXPECT_FALSE(test, kl.is_probing);
	now_ns += LOOK_NS;
	kf_large_update(&kl, 10, 100, true, now_ns);
	KUNIT_EXPECT_TRUE(test, kl.is_probing);
	KUNIT_EXPECT_EQ(test, kl.ceiling, 1U);
	/* Others were in flight with these. */
	for (i = 0; i < 2 * KF_LARGE_PROBE_NR; i++)
		KUNIT_EXPECT_FALSE(test, kf_large_done(&kl, now_ns - MS, now_ns + 50 * MS));
	/* One that takes for ever among them. */
	for (i = 0; i < KF_LARGE_PROBE_NR; i++) {
		KUNIT_EXPECT_TRUE(test, kl.is_probing);
		KUNIT_EXPECT_EQ(test, kf_large_done(&kl, now_ns, now_ns + (i ? 2 * MS : 300 * MS)),
				i == KF_LARGE_PROBE_NR - 1);
		now_ns += 2 * MS;
	}
	KUNIT_EXPECT_EQ(test, kl.alone_ns, 2 * MS);
	KUNIT_EXPECT_FALSE(test, kl.is_probing);
	KUNIT_EXPECT_GE(test, kl.ceiling, KF_LARGE_MIN);
	KUNIT_EXPECT_FALSE(test, kf_large_done(&kl, now_ns, now_ns + MS));
	/* What completed meanwhile is no rate, and no probe is due for ten seconds. */
	kf_large_update(&kl, 1000, 1000, true, now_ns + LOOK_NS);
	KUNIT_EXPECT_EQ(test, kl.rate, 100ULL);
	for (i = 2; i < 99; i++) {
		kf_large_update(&kl, 10, 100, true, now_ns + i * LOOK_NS);
		KUNIT_ASSERT_FALSE(test, kl.is_probing);
	}
	kf_large_update(&kl, 10, 100, true, now_ns + 101 * LOOK_NS);
	KUNIT_EXPECT_TRUE(test, kl.is_probing);
}

/* The submitters go away, or a request is lost. */
static void a_probe_ends_without_requests(struct kunit *test)
{
	u64 now_ns = NSEC_PER_SEC;
	struct kf_large kl;
	u32 i;

	kf_large_init(&kl);
	kf_large_update(&kl, 10, 100, true, now_ns);
	KUNIT_EXPECT_TRUE(test, kl.is_probing);
	for (i = 1; i <= 10; i++)
		kf_large_update(&kl, 0, 0, i < 3, now_ns + i * LOOK_NS);
	KUNIT_EXPECT_FALSE(test, kl.is_probing);
	KUNIT_EXPECT_EQ(test, kl.alone_ns, 0ULL);
	KUNIT_EXPECT_EQ(test, kl.ceiling, KF_LARGE_MIN);
}

/* One that sends few does not make the device slow, and a device that gets slow is seen. */
static void rates_are_of_a_full_device(struct kunit *test)
{
	struct device dev = { .each_ns = MS, .nr_served = 8, .nr_small = 100 };
	struct kf_large kl;
	u64 now_ns, rate;
	u32 i;

	kf_large_init(&kl);
	now_ns = device_looks(&kl, NSEC_PER_SEC, &dev, 12);
	rate = kl.rate;
	KUNIT_EXPECT_EQ(test, rate, 8000ULL);
	for (i = 0; i < 100; i++)
		kf_large_update(&kl, 1, 1000, false, now_ns += LOOK_NS);
	KUNIT_EXPECT_EQ(test, kl.rate, rate);
	dev.nr_served = 1;
	device_looks(&kl, now_ns, &dev, 60);
	KUNIT_EXPECT_LE(test, kl.rate, 1100ULL);
	KUNIT_EXPECT_LE(test, kl.ceiling, 4U);
}

/* Counts and times at the ends of their ranges. */
static void extremes_do_not_wrap(struct kunit *test)
{
	struct kf_large kl;
	u32 i;

	kf_large_init(&kl);
	for (i = 0; i < 200; i++) {
		kf_large_update(&kl, U32_MAX, 2ULL * U32_MAX, true, i ? i * LOOK_NS : 0);
		while (kl.is_probing)
			kf_large_done(&kl, i * LOOK_NS, U64_MAX / 2);
		KUNIT_ASSERT_GE(test, kl.ceiling, KF_LARGE_MIN);
	}
	/* Time stood still. */
	kf_large_init(&kl);
	kf_large_update(&kl, 1, 1, false, 0);
	KUNIT_EXPECT_GE(test, kl.ceiling, KF_LARGE_MIN);
}

static struct kunit_case large_test_cases[] = {
	KUNIT_CASE(few_are_in_flight_on_a_slow_disk),
	KUNIT_CASE(many_are_in_flight_on_a_distant_disk),
	KUNIT_CASE(as_many_as_a_lead_where_all_are_large),
	KUNIT_CASE(a_probe_sees_one_at_a_time),
	KUNIT_CASE(a_probe_ends_without_requests),
	KUNIT_CASE(rates_are_of_a_full_device),
	KUNIT_CASE(extremes_do_not_wrap),
	{ }
};

static struct kunit_suite large_suite = {
	.name = "kyber_fairness_large",
	.test_cases = large_test_cases,
};

kunit_test_suite(large_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' ceiling of large requests");
