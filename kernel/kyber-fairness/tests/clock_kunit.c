// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of clock.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../clock.h"

#define MS	1000000ULL	/* ns */
#define US	1000ULL
#define MIB	1048576ULL

/* Half of the device: 4 KiB are as much virtual time as 8 KiB of all of it. */
static void vtime_of_a_share(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_vtime_of(4096, KF_SHARE_ONE), 4096ULL);
	KUNIT_EXPECT_EQ(test, kf_vtime_of(4096, KF_SHARE_ONE / 2), 8192ULL);
	/* The largest request, and the smallest share there is. */
	KUNIT_EXPECT_EQ(test, kf_vtime_of(1ULL << 32, 1), 1ULL << 62);
}

static void vtimes_wrap_around(struct kunit *test)
{
	const u64 late = U64_MAX - 100;

	KUNIT_EXPECT_TRUE(test, kf_vtime_before(late, 5));
	KUNIT_EXPECT_FALSE(test, kf_vtime_before(5, late));
	KUNIT_EXPECT_FALSE(test, kf_vtime_before(5, 5));
	KUNIT_EXPECT_EQ(test, kf_vtime_max(late, 5), 5ULL);
	KUNIT_EXPECT_EQ(test, kf_vtime_max(7, 5), 7ULL);
}

/* Two that are always backlogged: 3 to 1, whatever the order of their calls. */
static void two_share_by_weight(struct kunit *test)
{
	const u64 share[2] = { KF_SHARE_ONE / 4 * 3, KF_SHARE_ONE / 4 };
	struct kf_clock kc = { .lead_bytes = 8 * 4096, .ceiling = 32 };
	u64 vtime[2] = { U64_MAX - 50000, U64_MAX - 50000 }, nr[2] = {};
	int i, who;

	for (i = 0; i < 40000; i++) {
		kc.vtime = kf_vtime_before(vtime[0], vtime[1]) ? vtime[0] : vtime[1];
		/* The light one asks twice as often. */
		who = i % 3 ? 1 : 0;
		if (!kf_clock_may_go(&kc, vtime[who], 5))
			continue;
		vtime[who] += kf_vtime_of(4096, share[who]);
		nr[who]++;
	}
	KUNIT_EXPECT_GT(test, nr[1], 1000ULL);
	KUNIT_EXPECT_GE(test, nr[0], 3 * nr[1] - 24);
	KUNIT_EXPECT_LE(test, nr[0], 3 * nr[1] + 24);
}

static void who_may_go(struct kunit *test)
{
	struct kf_clock kc = { .vtime = 1000, .lead_bytes = 100, .ceiling = 8 };

	KUNIT_EXPECT_TRUE(test, kf_clock_may_go(&kc, 900, 7));
	KUNIT_EXPECT_TRUE(test, kf_clock_may_go(&kc, 1099, 7));
	KUNIT_EXPECT_FALSE(test, kf_clock_may_go(&kc, 1100, 7));
	/* An empty device takes any cgroup, a full one takes none. */
	KUNIT_EXPECT_TRUE(test, kf_clock_may_go(&kc, 5000, 0));
	KUNIT_EXPECT_FALSE(test, kf_clock_may_go(&kc, 900, 8));
}

static void who_is_present(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(1, 0, MS, 0));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(0, 1, MS, 0));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(0, 0, 85 * US, 85 * US));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_present(0, 0, 86 * US, 85 * US));
}

static void lead_is_bounded(struct kunit *test)
{
	/* 2 ms of 2 GB/s; of a disk of 1 MB/s eight requests. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(2000 * 1000000ULL, 85 * US, 4096), 4000000ULL);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(1000000, 85 * US, 4096), 8 * 4096ULL);
	/* Four round trips of 10 ms are longer. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(100 * 1000000ULL, 10 * MS, 4096), 4000000ULL);
	/* No rate, or the largest. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(0, 0, 0), 0ULL);
	KUNIT_EXPECT_GT(test, kf_clock_lead_bytes(1ULL << 40, 1000 * MS, 4096), 1ULL << 40);
}

/* All slices of a cgroup together are half of what it may be ahead. */
static void slices_are_half_of_a_lead(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(MIB, KF_SHARE_ONE / 2, 4, 4096) * 4, MIB / 4);
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(MIB, KF_SHARE_ONE / 1000, 64, 4096), 4096ULL);
}

static void lag_is_bounded(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_clock_lag_bytes(MIB, 4096, KF_SHARE_ONE / 2), 2 * MIB);
	/* Four requests of 1 MiB of a tenth of the device are more. */
	KUNIT_EXPECT_GE(test, kf_clock_lag_bytes(MIB, MIB, KF_SHARE_ONE / 10), 40 * MIB);
}

/* A P4500: 41 requests are its bandwidth-delay product. */
static void who_is_awaited(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE * 1000 / 1850;

	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(32, share, 41000, 128, 100, true));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(8, share, 41000, 104, 100, true));
	/* Half of what would fill its share is not eight either; any number is, with 0. */
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(8, share, 41000, 104, 50, true));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(1, share, 41000, 104, 0, false));
	/* There are only 16 requests: the product cannot be more. */
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(4, share, U32_MAX, 16, 45, true));
	/* To and fro: once it is not, it takes a quarter more. */
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(10, KF_SHARE_ONE, 20000, 100, 50, true));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(12, KF_SHARE_ONE, 20000, 100, 50, false));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(13, KF_SHARE_ONE, 20000, 100, 50, false));
}

/* One of a device that serves @per_ms in a millisecond, each in @io_ns, until a look. */
static u64 device_look(struct kf_band *kb, u64 now_ns, unsigned int per_ms, u64 io_ns)
{
	unsigned int i;

	for (i = 0; i < 1000000; i++) {
		u32 nr = kf_band_ceiling(kb) == 1 ? 0 : 40;

		now_ns += MS / per_ms;
		kf_band_dispatch(kb, nr);
		kf_band_done(kb, 0, 4096, nr, nr, nr ? 3 * io_ns : io_ns, now_ns);
		if (kf_band_look(kb, now_ns))
			break;
	}
	return now_ns;
}

/* 300 requests a millisecond of 100 us: 30 at a time. The time alone takes a probe. */
static void band_finds_the_product(struct kunit *test)
{
	struct kf_band kb = {};
	u64 now_ns = 1000 * MS;
	int i;

	kf_band_init(&kb);
	kb.nr_all = 128;
	for (i = 0; i < 30; i++)
		now_ns = device_look(&kb, now_ns, 300, 100 * US);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 100 * US);
	KUNIT_EXPECT_GE(test, kb.bdp_milli, 29500U);
	KUNIT_EXPECT_LE(test, kb.bdp_milli, 30500U);
	KUNIT_EXPECT_EQ(test, kb.ceiling, kb.bdp_milli * 3 / 1000);

	/* Three times slower: a probe soon tells, and the product is the same. */
	for (i = 0; i < 200; i++)
		now_ns = device_look(&kb, now_ns, 100, 300 * US);
	KUNIT_EXPECT_GE(test, kb.nr_probes, 2U);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 300 * US);
	KUNIT_EXPECT_GE(test, kb.bdp_milli, 29000U);
	KUNIT_EXPECT_LE(test, kb.bdp_milli, 31000U);
}

/* While cgroups wait for each other a lower rate tells nothing, a higher one does. */
static void band_keeps_what_a_full_device_did(struct kunit *test)
{
	struct kf_band kb = {};
	u64 now_ns = 1000 * MS;
	unsigned int i, j;

	kf_band_init(&kb);
	kb.nr_all = 128;
	kb.probe_ns = U64_MAX;
	for (i = 0; i < 8; i++)
		now_ns = device_look(&kb, now_ns, 300, 100 * US);
	for (j = 0; j < 50; j++)
		for (i = 0; i < 1000; i++) {
			now_ns += 10 * US;
			kb.was_held = true;
			kf_band_done(&kb, 0, 4096, 5, 5, 200 * US, now_ns);
			if (kf_band_look(&kb, now_ns))
				break;
		}
	KUNIT_EXPECT_GE(test, kb.kind[0].rate, 290000ULL);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 0U);
}

/* It is filled if that matters, and not again for a while. */
static void band_fills_where_it_matters(struct kunit *test)
{
	struct kf_band kb = {};
	u64 now_ns = 1000 * MS;
	int i;

	kf_band_init(&kb);
	kf_band_must_fill(&kb, true, 128);
	for (i = 0; i < 400; i++)
		now_ns = device_look(&kb, now_ns, 300, 100 * US);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 1U);
	KUNIT_EXPECT_TRUE(test, kf_band_may_hold(&kb));
	for (i = 0; i < 4000; i++)
		now_ns = device_look(&kb, now_ns, 300, 100 * US);
	KUNIT_EXPECT_GE(test, kb.nr_probes, 2U);
	KUNIT_EXPECT_LE(test, kb.nr_fills, kb.nr_probes);
}

static void median_is_robust(struct kunit *test)
{
	struct kf_band_kind kind = {};
	unsigned int i;

	KUNIT_EXPECT_EQ(test, kf_band_median_ns(&kind), 0ULL);
	/* Six of fifteen stalled, one was a hit. */
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = i < 6 ? 350000 : i == 6 ? 1 : 90;
	kind.nr_alone = 1000;
	KUNIT_EXPECT_EQ(test, kf_band_median_ns(&kind), 90 * US);
}

static void kinds(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_kind(false, 4096), 0U);
	KUNIT_EXPECT_EQ(test, kf_kind(true, 4096), 1U);
	KUNIT_EXPECT_EQ(test, kf_kind(false, 262144), 2U);
	KUNIT_EXPECT_EQ(test, kf_kind(true, 1048576), 3U);
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(vtime_of_a_share),
	KUNIT_CASE(vtimes_wrap_around),
	KUNIT_CASE(two_share_by_weight),
	KUNIT_CASE(who_may_go),
	KUNIT_CASE(who_is_present),
	KUNIT_CASE(lead_is_bounded),
	KUNIT_CASE(slices_are_half_of_a_lead),
	KUNIT_CASE(lag_is_bounded),
	KUNIT_CASE(who_is_awaited),
	KUNIT_CASE(band_finds_the_product),
	KUNIT_CASE(band_keeps_what_a_full_device_did),
	KUNIT_CASE(band_fills_where_it_matters),
	KUNIT_CASE(median_is_robust),
	KUNIT_CASE(kinds),
	{ }
};

static struct kunit_suite clock_suite = {
	.name = "kyber_fairness_clock",
	.test_cases = clock_cases,
};

kunit_test_suite(clock_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' clock");
