// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of cost.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../cost.h"

#define MS	1000000ULL	/* ns */
#define KIB	1024ULL
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
	static const u64 numbers[] = { 0, 1, 1000, 1000000000, U64_MAX };
	struct kf_model km = { };
	unsigned int i, j, dir;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		for (j = 0; j < ARRAY_SIZE(numbers); j++) {
			kf_model_set(&km, READ_, KF_BPS_MIN, KF_IOPS_MIN);
			kf_model_set(&km, WRITE_, KF_BPS_MAX, KF_IOPS_MAX);
			for (dir = 0; dir < KF_NR_DIRS; dir++) {
				struct kf_work kw = {
					.nr = { numbers[i], numbers[j] },
					.bytes = { numbers[j], numbers[i] },
				};

				kf_model_learn(&km, &kw, numbers[j], true);
				KUNIT_EXPECT_LE(test, km.io_ps[dir], KF_PS_PER_SEC);
				KUNIT_EXPECT_GT(test, kf_model_bps(&km, dir), 0ULL);
				KUNIT_EXPECT_GT(test, kf_model_iops(&km, dir), 0ULL);
			}
		}
	}
}

/*
 * A device that takes what @truth says for each request. It is given a mix of
 * small and large requests of both directions, by weight, for so many windows of
 * 100 ms, of which it is busy for busy_pct; the model is taught.
 */
struct load {
	unsigned int weight[2 * KF_NR_DIRS];	/* of time: 4 KiB reads, 128 KiB reads, writes */
	unsigned int busy_pct;
};

static u64 request_ps(const struct kf_model *km, unsigned int dir, u64 bytes)
{
	return km->io_ps[dir] + (km->mib_ps[dir] * bytes >> 20);
}

static void run_load(struct kf_model *km, const struct kf_model *truth,
		     const struct load *load, unsigned int windows)
{
	static const u64 sizes[] = { 4 * KIB, 128 * KIB };
	struct kf_work kw = { };
	unsigned int sum = 0, i;

	for (i = 0; i < ARRAY_SIZE(load->weight); i++)
		sum += load->weight[i];
	for (i = 0; i < ARRAY_SIZE(load->weight); i++) {
		u64 ps = 100 * MS * 1000 / 100 * load->busy_pct / sum * load->weight[i];
		u64 nr = ps / request_ps(truth, i / 2, sizes[i % 2]);

		kw.nr[i / 2] += nr;
		kw.bytes[i / 2] += nr * sizes[i % 2];
	}
	while (windows--)
		kf_model_learn(km, &kw, 100 * MS, load->busy_pct == 100);
}

/* By how many percent the model is off, for the request. */
static s64 off_pct(const struct kf_model *km, const struct kf_model *truth,
		   unsigned int dir, u64 bytes)
{
	s64 is = request_ps(km, dir, bytes), should = request_ps(truth, dir, bytes);

	return div64_s64((is - should) * 100, should);
}

static void expect_close(struct kunit *test, const struct kf_model *km,
			 const struct kf_model *truth, s64 pct)
{
	static const u64 sizes[] = { 4 * KIB, 128 * KIB };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		s64 off = off_pct(km, truth, i / 2, sizes[i % 2]);

		KUNIT_EXPECT_GE(test, off, -pct);
		KUNIT_EXPECT_LE(test, off, pct);
	}
}

static const struct load small_reads = { { 1, 0, 0, 0 }, 100 };
static const struct load large_reads = { { 0, 1, 0, 0 }, 100 };
static const struct load small_writes = { { 0, 0, 1, 0 }, 100 };
static const struct load large_writes = { { 0, 0, 0, 1 }, 100 };
static const struct load all_at_once = { { 1, 1, 1, 1 }, 100 };

/* What a device is taken for at first, and a SATA SSD whose random writes are slow. */
static void models(struct kf_model *km, struct kf_model *truth)
{
	memset(km, 0, sizeof(*km));
	kf_model_set(km, READ_, 3000000000ULL, 500000);
	kf_model_set(km, WRITE_, 1500000000ULL, 250000);
	memset(truth, 0, sizeof(*truth));
	kf_model_set(truth, READ_, 540000000ULL, 60000);
	kf_model_set(truth, WRITE_, 450000000ULL, 12000);
}

/* Times in which one kind of request rules, a few seconds each, again and again. */
static void learns_from_phases(struct kunit *test)
{
	struct kf_model km, truth;
	int i;

	models(&km, &truth);
	for (i = 0; i < 3; i++) {
		run_load(&km, &truth, &small_reads, 100);
		run_load(&km, &truth, &large_reads, 100);
		run_load(&km, &truth, &small_writes, 100);
		run_load(&km, &truth, &large_writes, 100);
		run_load(&km, &truth, &all_at_once, 100);
	}
	expect_close(test, &km, &truth, 5);
}

/* Nothing rules, but shares of the four differ from second to second. */
static void learns_from_mixes(struct kunit *test)
{
	struct kf_model km, truth;
	struct load load = { .busy_pct = 100 };
	unsigned int i, seed = 1;

	models(&km, &truth);
	for (i = 0; i < 3000; i++) {
		seed = seed * 1103515245 + 12345;
		load.weight[0] = 1 + (seed >> 16) % 8;
		load.weight[1] = 1 + (seed >> 20) % 8;
		load.weight[2] = 1 + (seed >> 24) % 8;
		load.weight[3] = 1 + (seed >> 28) % 8;
		run_load(&km, &truth, &load, 10);
	}
	expect_close(test, &km, &truth, 10);
}

/*
 * One constant mix, on a disk slower than the model's start by a factor of 16, and on
 * one faster by it: the model meets the mix and keeps the ratios of the four costs.
 */
static void one_mix_keeps_ratios(struct kunit *test)
{
	struct kf_model km, prior, truth;
	unsigned int i, slower;

	for (slower = 0; slower < 2; slower++) {
		models(&prior, &truth);
		km = prior;
		truth = prior;
		for (i = 0; i < KF_NR_DIRS; i++) {
			truth.io_ps[i] = slower ? prior.io_ps[i] * 16 : prior.io_ps[i] / 16;
			truth.mib_ps[i] = slower ? prior.mib_ps[i] * 16 : prior.mib_ps[i] / 16;
		}
		run_load(&km, &truth, &all_at_once, 5000);
		KUNIT_EXPECT_TRUE(test, km.is_scaled);
		expect_close(test, &km, &truth, 2);
	}
}

/* One mix, always, on a disk of another kind: the mix is met, no part runs away. */
static void one_mix_of_another_disk(struct kunit *test)
{
	struct kf_model km, truth;
	u64 is = 0, should = 0;
	unsigned int i;

	models(&km, &truth);
	run_load(&km, &truth, &all_at_once, 5000);
	for (i = 0; i < 4; i++) {
		u64 size = i % 2 ? 128 * KIB : 4 * KIB;
		u64 nr = KF_PS_PER_SEC / request_ps(&truth, i / 2, size);

		is += nr * request_ps(&km, i / 2, size);
		should += nr * request_ps(&truth, i / 2, size);
		KUNIT_EXPECT_GE(test, off_pct(&km, &truth, i / 2, size), -80LL);
		KUNIT_EXPECT_LE(test, off_pct(&km, &truth, i / 2, size), 200LL);
	}
	KUNIT_EXPECT_GE(test, is, should / 100 * 98);
	KUNIT_EXPECT_LE(test, is, should / 100 * 102);
}

/* A device that is not full tells that it is fast, never that it is slow. */
static void idle_device_is_not_slow(struct kunit *test)
{
	static const struct load light = { { 1, 1, 1, 1 }, 10 };
	struct kf_model km, before, truth;

	models(&km, &truth);
	truth = km;
	before = km;
	run_load(&km, &truth, &light, 1000);
	KUNIT_EXPECT_EQ(test, memcmp(&km, &before, sizeof(km)), 0);
}

/* A write cache that was fast for a while is full: seen after a few windows. */
static void follows_a_device_that_slows_down(struct kunit *test)
{
	struct kf_model km, truth;

	models(&km, &truth);
	km = truth;
	km.is_scaled = true;
	truth.io_ps[WRITE_] *= 4;
	truth.mib_ps[WRITE_] *= 4;
	run_load(&km, &truth, &large_writes, 5);
	KUNIT_EXPECT_LT(test, off_pct(&km, &truth, WRITE_, 128 * KIB), -30LL);
	run_load(&km, &truth, &large_writes, 35);
	KUNIT_EXPECT_GE(test, off_pct(&km, &truth, WRITE_, 128 * KIB), -5LL);
	KUNIT_EXPECT_LE(test, off_pct(&km, &truth, WRITE_, 128 * KIB), 5LL);
}

static struct kunit_case cost_cases[] = {
	KUNIT_CASE(cost_by_unit),
	KUNIT_CASE(cost_extremes),
	KUNIT_CASE(time_of_a_p4500),
	KUNIT_CASE(time_without_requests),
	KUNIT_CASE(model_extremes),
	KUNIT_CASE(learns_from_phases),
	KUNIT_CASE(learns_from_mixes),
	KUNIT_CASE(one_mix_keeps_ratios),
	KUNIT_CASE(one_mix_of_another_disk),
	KUNIT_CASE(idle_device_is_not_slow),
	KUNIT_CASE(follows_a_device_that_slows_down),
	{ }
};

static struct kunit_suite cost_suite = {
	.name = "kyber_fairness_cost",
	.test_cases = cost_cases,
};

kunit_test_suite(cost_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' costs and its model of the device");
