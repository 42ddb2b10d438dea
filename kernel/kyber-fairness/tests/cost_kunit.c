// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of cost.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../cost.h"

#define US	1000ULL		/* ns */
#define MS	1000000ULL
#define READ_	0
#define WRITE_	1

static void cost_by_unit(struct kunit *test)
{
	u64 bytes = kf_rate(0, 1 << KF_RATE_SHIFT), ios = kf_rate(4096, 0);
	u32 size;

	for (size = 512; size <= 4 << 20; size += 512) {
		KUNIT_EXPECT_EQ(test, kf_cost_bytes(bytes, size), size);
		KUNIT_EXPECT_EQ(test, kf_cost_bytes(ios, size), 4096U);
	}
}

/* Never nothing, never more than there is room for, always whole units. */
static void cost_extremes(struct kunit *test)
{
	static const u32 sizes[] = { 0, 1, 511, 4096, 1 << 20, U32_MAX };
	static const u64 numbers[] = { 0, 1, 17, 65536, U32_MAX, U64_MAX };
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (j = 0; j < ARRAY_SIZE(numbers); j++)
			for (k = 0; k < ARRAY_SIZE(numbers); k++) {
				u32 cost = kf_cost_bytes(kf_rate(numbers[j], numbers[k]),
							 sizes[i]);

				KUNIT_EXPECT_GE(test, cost, 16U);
				KUNIT_EXPECT_LE(test, cost, (u32)KF_COST_MAX);
				KUNIT_EXPECT_EQ(test, cost % 16, 0U);
			}
	KUNIT_EXPECT_EQ(test, kf_cost_bytes(kf_rate(U64_MAX, 0), 0), (u32)KF_COST_MAX);
}

/*
 * The P4500: 490K reads of 4 KiB or 3.2 GB a second, 1.05 GB of writes. A read of
 * 4 KiB takes as long as 6.5 KB of large reads do, a write of 1 MiB as 3.05 MiB.
 */
static void time_of_a_p4500(struct kunit *test)
{
	struct kf_model km = { };
	u32 cost;

	kf_model_set(&km, READ_, 3200000000ULL, 490000);
	kf_model_set(&km, WRITE_, 1050000000ULL, 38000);
	cost = kf_cost_bytes(kf_model_rate(&km, READ_), 4096);
	KUNIT_EXPECT_GE(test, cost, 6528U);
	KUNIT_EXPECT_LE(test, cost, 6560U);
	cost = kf_cost_bytes(kf_model_rate(&km, WRITE_), 1 << 20);
	/* 71.7 KB for the request, and 3.0476 times its bytes. */
	KUNIT_EXPECT_GE(test, cost, 3267200U);
	KUNIT_EXPECT_LE(test, cost, 3267600U);
	/* What was told is shown again, but for rounding. */
	KUNIT_EXPECT_GE(test, kf_model_bps(&km, READ_), 3199990000ULL);
	KUNIT_EXPECT_LE(test, kf_model_bps(&km, READ_), 3200010000ULL);
	KUNIT_EXPECT_GE(test, kf_model_iops(&km, WRITE_), 37999ULL);
	KUNIT_EXPECT_LE(test, kf_model_iops(&km, WRITE_), 38001ULL);
}

/* More requests a second than its bytes have room for: bytes are all there is. */
static void time_without_requests(struct kunit *test)
{
	struct kf_model km = { };

	kf_model_set(&km, READ_, 400000000, 1000000);
	kf_model_set(&km, WRITE_, 200000000, 10);
	KUNIT_EXPECT_EQ(test, km.io_ps[READ_], 0ULL);
	KUNIT_EXPECT_EQ(test, kf_cost_bytes(kf_model_rate(&km, READ_), 8192), 8192U);
	/* A tenth of a second, at 400 MB/s. */
	KUNIT_EXPECT_GE(test, kf_cost_bytes(kf_model_rate(&km, WRITE_), 4096), 39999000U);
	KUNIT_EXPECT_LE(test, kf_cost_bytes(kf_model_rate(&km, WRITE_), 4096), 40001000U);
}

static void model_extremes(struct kunit *test)
{
	struct kf_model km = { };
	unsigned int dir;

	kf_model_set(&km, READ_, KF_BPS_MIN, KF_IOPS_MIN);
	kf_model_set(&km, WRITE_, KF_BPS_MAX, KF_IOPS_MAX);
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		KUNIT_EXPECT_LE(test, km.io_ps[dir], KF_PS_PER_SEC);
		KUNIT_EXPECT_GT(test, kf_model_bps(&km, dir), 0ULL);
		KUNIT_EXPECT_GT(test, kf_model_iops(&km, dir), 0ULL);
	}
}

/* A read of a page. */
#define PAGE_PS		2000000ULL

static void writes_by_their_time_alone(struct kunit *test)
{
	/* Not known: as of flash. In a buffer, and in one that is as slow as a read. */
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(0, PAGE_PS, 20 * US, PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(85 * US, PAGE_PS, 0, PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(85 * US, PAGE_PS, 21 * US, PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(12 * US, PAGE_PS, 12 * US, PAGE_PS), 100U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(12 * US, PAGE_PS, 10 * US, PAGE_PS), 100U);
	/* An eMMC, and a synced write without power-loss protection. */
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(200 * US, PAGE_PS, 700 * US, PAGE_PS), 350U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(85 * US, PAGE_PS, 2 * MS, PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(1, PAGE_PS, U64_MAX / 100, PAGE_PS), 600U);
	/* 64 KiB where a read of a page takes 134 us, and writes are as fast as reads. */
	KUNIT_EXPECT_LE(test, kf_model_write_pct(134 * US, PAGE_PS, 619 * US, 11 * PAGE_PS), 140U);
	/* Into a buffer, through a link of 500 MB/s; and less than half of a read. */
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(125 * US, PAGE_PS, 129 * US, 11 * PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(85 * US, PAGE_PS, 30 * US, 11 * PAGE_PS), 600U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(1 * MS, 11 * PAGE_PS, 400 * US, PAGE_PS), 132U);
	KUNIT_EXPECT_EQ(test, kf_model_write_pct(U64_MAX, 0, U64_MAX, U64_MAX), 100U);
}

static const u64 by_bytes[] = { 1ULL << (32 + KF_RATE_SHIFT), 1ULL << (32 + KF_RATE_SHIFT) };
/* A write is eight times a read. */
static const u64 by_time[] = { 1ULL << (32 + KF_RATE_SHIFT), 8ULL << (32 + KF_RATE_SHIFT) };

static void send(struct kf_price *kp, u64 nr_reads, u64 nr_writes)
{
	kp->fresh.nr[READ_] += nr_reads;
	kp->fresh.bytes[READ_] += nr_reads * 4096;
	kp->fresh.nr[WRITE_] += nr_writes;
	kp->fresh.bytes[WRITE_] += nr_writes * 4096;
}

static void price_is_of_many_requests(struct kunit *test)
{
	struct kf_price kp = { };
	unsigned int i;

	send(&kp, KF_PRICE_NR - 1, 0);
	KUNIT_EXPECT_EQ(test, kf_price_update(&kp, by_time), 0ULL);
	send(&kp, 1, 0);
	KUNIT_EXPECT_EQ(test, kf_price_update(&kp, by_time), 1ULL << KF_PRICE_SHIFT);
	KUNIT_EXPECT_EQ(test, kf_price_bytes(1ULL << KF_PRICE_SHIFT, 8192), 8192U);
	/* A few more writes than usual move it a little. */
	for (i = 0; i < 100; i++) {
		send(&kp, 70, 30);
		kf_price_update(&kp, by_time);
	}
	send(&kp, 60, 40);
	KUNIT_EXPECT_GE(test, kf_price_update(&kp, by_time), 3100ULL);
	KUNIT_EXPECT_LE(test, kf_price_update(&kp, by_time), 3250ULL);
	KUNIT_EXPECT_LE(test, kf_work_nr(&kp.work), (u64)KF_PRICE_NR_MAX + 100);
	/* Another program: another price. */
	send(&kp, KF_PRICE_NR, 0);
	KUNIT_EXPECT_EQ(test, kf_price_update(&kp, by_time), 1ULL << KF_PRICE_SHIFT);
	KUNIT_EXPECT_EQ(test, kf_price_update(&kp, by_bytes), 1ULL << KF_PRICE_SHIFT);
}

static void near_prices_are_one(struct kunit *test)
{
	static struct kf_prices all;
	u64 price;

	KUNIT_EXPECT_EQ(test, kf_prices_near(&all, 0), 0ULL);
	kf_prices_add(&all, 3000);
	kf_prices_add(&all, 3100);
	kf_prices_add(&all, 1500);
	kf_prices_add(&all, 0);
	/* Within an eighth, whether the edge of a bin is between them or not. */
	KUNIT_EXPECT_EQ(test, kf_prices_near(&all, 3000), 3050ULL);
	KUNIT_EXPECT_EQ(test, kf_prices_near(&all, 3100), 3050ULL);
	KUNIT_EXPECT_EQ(test, kf_prices_near(&all, 1500), 1500ULL);
	/* Every price has a bin, and a higher one none before it. */
	for (price = 1 << KF_PRICE_LOG; price < 1ULL << (KF_PRICE_LOG + 27); price += price / 16)
		KUNIT_EXPECT_LE(test, kf_price_bin(price), kf_price_bin(price + price / 16));
	KUNIT_EXPECT_EQ(test, kf_price_bin(1 << KF_PRICE_LOG), 0U);
	KUNIT_EXPECT_LT(test, kf_price_bin(1ULL << (KF_PRICE_LOG + 27)), KF_PRICE_BINS);
}

static struct kunit_case cost_cases[] = {
	KUNIT_CASE(cost_by_unit),
	KUNIT_CASE(cost_extremes),
	KUNIT_CASE(time_of_a_p4500),
	KUNIT_CASE(time_without_requests),
	KUNIT_CASE(model_extremes),
	KUNIT_CASE(writes_by_their_time_alone),
	KUNIT_CASE(price_is_of_many_requests),
	KUNIT_CASE(near_prices_are_one),
	{ }
};

static struct kunit_suite cost_suite = {
	.name = "kyber_fairness_cost",
	.test_cases = cost_cases,
};

kunit_test_suite(cost_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' costs and its model of the device");
