// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of clock.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../band.h"

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
	KUNIT_EXPECT_EQ(test, kf_vtime_of((1ULL << 33) - 1, 1),
			(1ULL << 63) - (1ULL << KF_SHARE_SHIFT));
	KUNIT_EXPECT_EQ(test, kf_vtime_of(0, 1), 0ULL);
}

static void vtimes_wrap_around(struct kunit *test)
{
	const u64 late = U64_MAX - 100;

	KUNIT_EXPECT_TRUE(test, kf_vtime_before(late, 5));
	KUNIT_EXPECT_FALSE(test, kf_vtime_before(5, late));
	KUNIT_EXPECT_FALSE(test, kf_vtime_before(5, 5));
	KUNIT_EXPECT_EQ(test, kf_vtime_max(late, 5), 5ULL);
	KUNIT_EXPECT_EQ(test, kf_vtime_max(7, 5), 7ULL);
	/* As far apart as two may be. */
	KUNIT_EXPECT_TRUE(test, kf_vtime_before(late, late + S64_MAX));
	KUNIT_EXPECT_FALSE(test, kf_vtime_before(late + S64_MAX, late));
	/* The smallest share's largest request: ahead, not behind. */
	KUNIT_EXPECT_TRUE(test, kf_vtime_before(late, late + kf_vtime_of((1ULL << 33) - 1, 1)));
}

/* Cgroups that are always backlogged, and the clock that is found for each request. */
struct played {
	u64 share[3], vtime[3], cost_bytes[3], bytes[3];
	unsigned int nr;
	u64 lead_bytes;
};

static u64 played_clock(const struct played *pl)
{
	u64 clock = pl->vtime[0];
	unsigned int i;

	for (i = 1; i < pl->nr; i++)
		if (kf_vtime_before(pl->vtime[i], clock))
			clock = pl->vtime[i];
	return clock;
}

/* Cgroup @i asks. Return: whether it may go. */
static bool played_ask(struct played *pl, unsigned int i)
{
	if (!kf_vtime_before(pl->vtime[i], played_clock(pl) + pl->lead_bytes))
		return false;
	pl->vtime[i] += kf_vtime_of(pl->cost_bytes[i], pl->share[i]);
	pl->bytes[i] += pl->cost_bytes[i];
	return true;
}

/* 3 to 1, whatever the order in which they ask, and where their vtimes wrap around. */
static void two_share_by_weight(struct kunit *test)
{
	struct played pl = {
		.share = { KF_SHARE_ONE / 4 * 3, KF_SHARE_ONE / 4 },
		.vtime = { U64_MAX - 50000, U64_MAX - 50000 },
		.cost_bytes = { 4096, 4096 },
		.nr = 2,
		.lead_bytes = 8 * 4096,
	};
	unsigned int i;

	/* The light one asks twice as often. */
	for (i = 0; i < 40000; i++)
		played_ask(&pl, i % 3 ? 1 : 0);
	KUNIT_EXPECT_GT(test, pl.bytes[1] / 4096, 1000ULL);
	KUNIT_EXPECT_LT(test, pl.vtime[0], U64_MAX / 2);
	/* The lead, and a request of each. */
	KUNIT_EXPECT_GE(test, pl.bytes[0] / 4096, 3 * pl.bytes[1] / 4096 - 24);
	KUNIT_EXPECT_LE(test, pl.bytes[0] / 4096, 3 * pl.bytes[1] / 4096 + 24);
}

/* Whatever their sizes: requests of 256 KiB, of 4 KiB and of 1 MiB, 5 to 3 to 2. */
static void sizes_do_not_change_shares(struct kunit *test)
{
	struct played pl = {
		.share = { KF_SHARE_ONE / 2, KF_SHARE_ONE * 3 / 10, KF_SHARE_ONE / 5 },
		.cost_bytes = { 262144, 4096, MIB },
		.nr = 3,
		.lead_bytes = 8 * 4096,
	};
	u64 sum, i;

	for (i = 0; i < 200000; i++)
		played_ask(&pl, i % 3);
	sum = pl.bytes[0] + pl.bytes[1] + pl.bytes[2];
	KUNIT_EXPECT_GT(test, sum, 100 * MIB);
	KUNIT_EXPECT_EQ(test, (pl.bytes[0] * 1000 + sum / 2) / sum, 500ULL);
	KUNIT_EXPECT_EQ(test, (pl.bytes[1] * 1000 + sum / 2) / sum, 300ULL);
	KUNIT_EXPECT_EQ(test, (pl.bytes[2] * 1000 + sum / 2) / sum, 200ULL);
}

/* The smallest share has its request, once, and neither stops the other one nor wraps. */
static void smallest_share_makes_progress(struct kunit *test)
{
	struct played pl = {
		.share = { KF_SHARE_ONE - 1, 1 },
		.cost_bytes = { 4096, MIB },
		.nr = 2,
		.lead_bytes = 8 * 4096,
	};
	unsigned int i;

	for (i = 0; i < 100000; i++) {
		KUNIT_EXPECT_TRUE(test, played_ask(&pl, 0));
		played_ask(&pl, 1);
	}
	KUNIT_EXPECT_EQ(test, pl.bytes[0], 100000 * 4096ULL);
	KUNIT_EXPECT_EQ(test, pl.bytes[1], MIB);
}

static void urgent_debts_are_bounded(struct kunit *test)
{
	u64 vtime = U64_MAX - 10000, most = vtime + 32 * 4096, i;

	/* In full while that is no more than the bound, then what is left of it. */
	KUNIT_EXPECT_EQ(test, kf_urgent_vtime_of(vtime, most, 4096, KF_SHARE_ONE / 2), 8192ULL);
	KUNIT_EXPECT_EQ(test, kf_urgent_vtime_of(most - 100, most, 4096, KF_SHARE_ONE), 100ULL);
	KUNIT_EXPECT_EQ(test, kf_urgent_vtime_of(most, most, 4096, KF_SHARE_ONE), 0ULL);
	/* One that is further ahead, by requests that waited, is charged nothing more. */
	KUNIT_EXPECT_EQ(test, kf_urgent_vtime_of(most + MIB, most, 4096, 1), 0ULL);
	/* The largest cost and the smallest share: the bound, not beyond. */
	KUNIT_EXPECT_EQ(test, kf_urgent_vtime_of(vtime, most, (1ULL << 33) - 1, 1),
			32 * 4096ULL);
	/* A journal that writes for ever, of which the clock sees nothing. */
	for (i = 0; i < 100000; i++)
		vtime += kf_urgent_vtime_of(vtime, most, 4096, KF_SHARE_ONE / 10);
	KUNIT_EXPECT_EQ(test, vtime, most);
}

static void present_while_outstanding(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(1, MS, 0));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(U32_MAX, U64_MAX, 0));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(0, 85 * US, 85 * US));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_present(0, 86 * US, 85 * US));
	/* Before the time alone is known there is no grace. */
	KUNIT_EXPECT_TRUE(test, kf_clock_is_present(0, 0, 0));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_present(0, 1, 0));
}

static void lead_is_bounded(struct kunit *test)
{
	/* 2 ms, or four round trips. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_ns(85 * US, 21 * US), 2 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_ns(0, 0), 2 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_ns(10 * MS, 0), 40 * MS);
	/* A walk over 4,000 cgroups takes a millisecond, and the clock is set in 16 of them. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_ns(85 * US, 16 * MS), 32 * MS);
	/* 2 ms of 2 GB/s; of a disk of 1 MB/s eight requests. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(2000 * 1000000ULL, 2 * MS, 4096), 4000000ULL);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(1000000, 2 * MS, 4096), 8 * 4096ULL);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(100 * 1000000ULL, 40 * MS, 4096), 4000000ULL);
	/* No rate, or the largest. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(0, 0, 0), 0ULL);
	KUNIT_EXPECT_GT(test, kf_clock_lead_bytes(1ULL << 40, 4000 * MS, 4096), 1ULL << 40);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_bytes(1ULL << 40, 10000 * MS, 4096), 10ULL << 40);
}

/* The same time while the cgroups of most of the shares are away. */
static void lead_is_a_time(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_clock_lead_vtime(4000000, KF_SHARE_ONE), 4000000ULL);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_vtime(4000000, KF_SHARE_ONE / 64), 4000000 * 64ULL);
	/* Rounded sums may be more than all. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_vtime(4000000, KF_SHARE_ONE + 1), 4000000ULL);
	/* Not half the range of virtual times. */
	KUNIT_EXPECT_EQ(test, kf_clock_lead_vtime(U64_MAX, 0), 1ULL << 61);
	KUNIT_EXPECT_EQ(test, kf_clock_lead_vtime(0, 0), 0ULL);
}

/* Four times in a round trip, but not while walks would take more than a 16th. */
static void steps_of_the_clock(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 0, false), 20 * US);
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 1 * US, false), 20 * US);
	/* Where the CPU is short, once a round trip. */
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 1 * US, true), 80 * US);
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 5 * US, false), 80 * US);
	/* A walk takes something, whatever the clock on the wall says. */
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(0, 0, false), 16 * 512ULL);
}

/* All slices of a cgroup together are half of what it may be ahead. */
static void slices_are_half_of_a_lead(struct kunit *test)
{
	u64 lead, lead_bytes, slice;

	KUNIT_EXPECT_EQ(test, kf_slice_bytes(MIB, MIB, KF_SHARE_ONE / 2, 4, 4096) * 4, MIB / 4);
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(MIB, MIB, KF_SHARE_ONE / 1000, 64, 4096), 4096ULL);
	/* A request larger than that is a slice; the smallest share has those alone. */
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(MIB, MIB, KF_SHARE_ONE, 4, MIB), MIB);
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(1ULL << 32, 1ULL << 32, 1, 1, 512), 512ULL);
	/* The largest lead there is fits, and what a slice of it costs. */
	KUNIT_EXPECT_EQ(test, kf_slice_bytes(KF_LEAD_BYTES_MAX, KF_LEAD_BYTES_MAX, KF_SHARE_ONE,
					     1, 512), KF_LEAD_BYTES_MAX / 2);
	KUNIT_EXPECT_EQ(test, kf_vtime_of(KF_LEAD_BYTES_MAX / 2, KF_SHARE_ONE),
			KF_LEAD_BYTES_MAX / 2);

	/* Weight 10000 comes where only 1 was: the lead in virtual time is what that one's is. */
	lead_bytes = 14 * MIB;
	lead = kf_clock_lead_vtime(lead_bytes, KF_SHARE_ONE / 10001);
	slice = kf_slice_bytes(lead, lead_bytes, KF_SHARE_ONE - KF_SHARE_ONE / 10001, 4, 4096);
	KUNIT_EXPECT_EQ(test, slice, lead_bytes / 8);
}

/* For what a device does not complete the others wait, but not for as long as it takes. */
static void stuck_is_not_awaited(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(0), 500 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(5 * MS), 500 * MS);
	/* Writes of 0.6 s: a read behind two of them is not lost. One was retried for long. */
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(600 * MS), 1200 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(30000 * MS), 5000 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(U64_MAX), 5000 * MS);
}

static void lag_is_bounded(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_clock_lag_bytes(MIB, 4096, 4096, KF_SHARE_ONE / 2), 2 * MIB);
	/* Four requests of 1 MiB of a tenth of the device are more. */
	KUNIT_EXPECT_GE(test, kf_clock_lag_bytes(MIB, MIB, MIB, KF_SHARE_ONE / 10), 40 * MIB);
	/* One of 1 MiB among small ones. */
	KUNIT_EXPECT_EQ(test, kf_clock_lag_bytes(MIB, 8192, MIB, KF_SHARE_ONE / 8), 8 * MIB);
	/* The largest cost and the smallest share: less than vtimes may be apart. */
	KUNIT_EXPECT_EQ(test, kf_clock_lag_bytes(MIB, 1U << 28, 1U << 28, 1), 1ULL << 60);
}

/* Cgroups that keep so many requests of 4 KiB outstanding, of 85 us alone; 0: no more. */
static u64 level_of(const u32 *milli, const u32 *weight, u64 full, u32 min_total_pct)
{
	struct kf_could kc = { .min_total_pct = min_total_pct };
	unsigned int i, nr, sum = 0, steps = KF_LEVEL_STEPS;
	struct kf_level kl;

	for (nr = 0; milli[nr]; nr++) {
		u64 could = kf_clock_could(milli[nr], 4096, 85 * US);

		sum += weight[nr];
		kc.most = max(kc.most, could);
		kc.all += could;
	}
	kf_level_begin(&kl, &kc, full);
	do {
		for (i = 0; i < nr; i++)
			kf_level_add(&kl, kf_clock_could(milli[i], 4096, 85 * US),
				     KF_SHARE_ONE * weight[i] / sum);
	} while (kf_level_rise(&kl) && --steps);
	return kl.at;
}

/* On a P4500: 41 requests are its bandwidth-delay product. */
static bool first_is_awaited(const u32 *milli, const u32 *weight, u32 min_total_pct)
{
	u64 level = level_of(milli, weight, kf_clock_could(41000, 4096, 85 * US), min_total_pct);
	unsigned int i, sum = 0;

	for (i = 0; milli[i]; i++)
		sum += weight[i];
	return kf_clock_is_awaited(level, kf_clock_could(milli[0], 4096, 85 * US),
				   KF_SHARE_ONE * weight[0] / sum, false);
}

static void awaited_by_what_it_could(struct kunit *test)
{
	const u32 unlike[] = { 1000, 500, 250, 100 }, tenth[] = { 1, 3, 6 };
	struct kf_could kc = { .min_total_pct = 100 };
	struct kf_level kl;

#define AWAITED(weight, pct, ...) \
	first_is_awaited((u32[]){ __VA_ARGS__, 0 }, weight, pct)

	/* With 32 it fills its share of the device. */
	KUNIT_EXPECT_TRUE(test, AWAITED(unlike, 45, 32000, 32000, 32000, 32000));
	/* What the others do alone 8 cannot, were all to wait. */
	KUNIT_EXPECT_FALSE(test, AWAITED(unlike, 0, 8000, 32000, 32000, 32000));
	/* Each has more than alone on a disk of its share. */
	KUNIT_EXPECT_TRUE(test, AWAITED(unlike, 45, 8000, 8000, 8000, 8000));
	KUNIT_EXPECT_TRUE(test, AWAITED(unlike, 45, 2000, 2000, 2000, 2000));
	/* But not if the device is to do half of what it can. */
	KUNIT_EXPECT_FALSE(test, AWAITED(unlike, 50, 8000, 8000, 8000, 8000));
	/* A tenth of the disk with 2 beside one of 64, and with 8. */
	KUNIT_EXPECT_FALSE(test, AWAITED(tenth, 0, 2000, 64000, 64000));
	KUNIT_EXPECT_TRUE(test, AWAITED(tenth, 0, 8000, 64000, 64000));
	/*
	 * One that has most of the weight and seldom a request does not use its share. To wait
	 * for the first would leave the third 8: a multiple of its share, and little of a device.
	 */
	KUNIT_EXPECT_TRUE(test, AWAITED(((u32[]){ 10, 100, 10 }), 0, 8000, 100, 32000));
	KUNIT_EXPECT_FALSE(test, AWAITED(((u32[]){ 10, 100, 10 }), 90, 8000, 100, 32000));
	/* To and fro: once it is awaited, an eighth less will do. */
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(1000, 900, KF_SHARE_ONE, false));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(1000, 900, KF_SHARE_ONE, true));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(1000, 870, KF_SHARE_ONE, true));
	/* Nothing is known, and the most there may be. */
	kf_level_begin(&kl, &kc, 0);
	kf_level_add(&kl, 0, KF_SHARE_ONE);
	KUNIT_EXPECT_FALSE(test, kf_level_rise(&kl));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(kl.at, 0, KF_SHARE_ONE, false));
	KUNIT_EXPECT_EQ(test, kf_clock_could(1000, 4096, NSEC_PER_SEC), 4096ULL);
#undef AWAITED
}

/* At the level the device does what it has to, and no more. */
static void level_is_where_the_device_does_enough(struct kunit *test)
{
	const u32 milli[] = { 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 0 };
	const u32 weight[] = { 800, 700, 600, 500, 400, 300, 200, 100 };
	u64 all = kf_clock_could(36000, 4096, 85 * US), sum;
	u32 pct, i;

	for (pct = 50; pct <= 100; pct += 10) {
		u64 level = level_of(milli, weight, all, pct);

		sum = 0;
		for (i = 0; milli[i]; i++)
			sum += min(kf_clock_could(milli[i], 4096, 85 * US),
				   mul_u64_u64_shr(level, KF_SHARE_ONE * weight[i] / 3600,
						   KF_SHARE_SHIFT));
		KUNIT_EXPECT_GE(test, sum, all * (pct - 1) / 100);
		/* No more than it takes, but for what one needs that could do most. */
		if (level > kf_clock_could(8000, 4096, 85 * US))
			KUNIT_EXPECT_LE(test, sum, all * (pct + 1) / 100);
	}
}

/* Four of 100 us alone, and four fifths of the disk: 125 us each on a disk of its own. */
static void owed_is_what_others_cost(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE / 5 * 4, most = 64 * NSEC_PER_MSEC;
	s64 owed = 0;
	u32 i;

	/* They take as long as that and a 32nd: it is owed nothing. */
	for (i = 0; i < 1000; i++)
		owed = kf_owed_ns(owed, 4 * 128906, 4, 100000, share, most);
	KUNIT_EXPECT_TRUE(test, owed >= -4000 && owed <= 4000);
	/* 425 us: 296 of them are the others'. */
	owed = kf_owed_ns(0, 4 * 425000, 4, 100000, share, most);
	KUNIT_EXPECT_TRUE(test, owed >= 1184371 && owed <= 1184379);
	for (i = 0; i < 100; i++)
		owed = kf_owed_ns(owed, 4 * 425000, 4, 100000, share, most);
	KUNIT_EXPECT_EQ(test, owed, (s64)most);
	for (i = 0; i < 2000; i++)
		owed = kf_owed_ns(owed, 4 * 100000, 4, 100000, share, most);
	KUNIT_EXPECT_EQ(test, owed, -(s64)most);
	/* Any values: it stays within what it may be. */
	KUNIT_EXPECT_EQ(test, kf_owed_ns(most, U64_MAX, 0, 0, 0, most), (s64)most);
	KUNIT_EXPECT_EQ(test, kf_owed_ns(most, 0, U64_MAX, U64_MAX, 0, most), -(s64)most);
	KUNIT_EXPECT_EQ(test, kf_owed_most_ns(2 * NSEC_PER_MSEC, 100000, 4000), 64 * NSEC_PER_MSEC);
	/* What one takes may be more than that: it is not taken for what others cost. */
	KUNIT_EXPECT_EQ(test, kf_owed_most_ns(2 * NSEC_PER_MSEC, 32 * NSEC_PER_MSEC, 1000),
			256 * NSEC_PER_MSEC);
}

static void hold_takes_places(struct kunit *test)
{
	u32 hold, last = 126;

	KUNIT_EXPECT_EQ(test, kf_hold_of(-5, 1000), 0U);
	KUNIT_EXPECT_EQ(test, kf_hold_of(500, 1000), KF_HOLD_ONE / 2);
	KUNIT_EXPECT_EQ(test, kf_hold_of(S64_MAX, 1), KF_HOLD_ONE);
	for (hold = 0; hold <= KF_HOLD_ONE; hold++) {
		u32 places = kf_hold_places(126, 25, hold);

		KUNIT_ASSERT_LE(test, places, last);
		last = places;
	}
	KUNIT_EXPECT_EQ(test, last, 25U);
	KUNIT_EXPECT_EQ(test, kf_hold_places(32, 0, KF_HOLD_ONE), 1U);
	KUNIT_EXPECT_EQ(test, kf_hold_places(32, 100, KF_HOLD_ONE), 32U);
	KUNIT_EXPECT_EQ(test, kf_hold_places(U32_MAX, U32_MAX, KF_HOLD_ONE), U32_MAX);
}

/* What a walk counts, ten times. */
static void pace_walks(struct kf_pace *kp, u32 hold)
{
	int i;

	for (i = 0; i < 10; i++)
		kf_pace_count(kp, hold);
}

/* A device of 100 MB/s and a ceiling of 126, of which a fifth is for those that are awaited. */
static void pace_leaves_others_their_own(struct kunit *test)
{
	u64 share = KF_SHARE_ONE / 5;
	struct kf_pace kp = { };
	int i;

	/* Nothing is known. */
	kf_pace_update(&kp, 0, 0, 45, 126, share);
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, 0ULL);
	/* They do less than a fifth of it, and have all places that they may. */
	for (i = 0; i < 100; i++)
		kf_pace_update(&kp, 15000000, 100000000, 45, 126, share);
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, 100000000ULL);
	KUNIT_EXPECT_EQ(test, kp.milli, 25000U);
	/* They do more while one is owed: places go, down to one, and the pace stays. */
	for (i = 0; i < 100; i++) {
		pace_walks(&kp, KF_HOLD_ONE * 3 / 4);
		kf_pace_update(&kp, 60000000, 100000000, 45, 126, share);
	}
	KUNIT_EXPECT_EQ(test, kp.milli, 1000U);
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, 100000000ULL);
	/* One stays owed: the device can do less than was seen. But it has to do that much. */
	pace_walks(&kp, KF_HOLD_ONE);
	kf_pace_update(&kp, 60000000, 100000000, 45, 126, share);
	KUNIT_EXPECT_TRUE(test, kp.bytes_per_s > 96000000 && kp.bytes_per_s < 97000000);
	for (i = 0; i < 100; i++) {
		pace_walks(&kp, KF_HOLD_ONE);
		kf_pace_update(&kp, 60000000, 100000000, 45, 126, share);
	}
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, 45000000ULL);
	/* It is owed no more. */
	for (i = 0; i < 100; i++)
		kf_pace_update(&kp, 60000000, 100000000, 45, 126, share);
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, 100000000ULL);
	/* None is awaited, and any rate fits. */
	kf_pace_update(&kp, U64_MAX, KF_PER_S_MAX, 100, U32_MAX, 0);
	KUNIT_EXPECT_EQ(test, kp.milli, 1000U);
	KUNIT_EXPECT_EQ(test, kp.bytes_per_s, KF_PER_S_MAX);
}

static void turn_is_before_clock_and_limit(struct kunit *test)
{
	/* The clock is free: the cgroup that is the clock stands behind. */
	KUNIT_EXPECT_EQ(test, kf_clock_turn_vtime(100, 200), 99ULL);
	/* It is paced, or just not: what has a turn may go. */
	KUNIT_EXPECT_EQ(test, kf_clock_turn_vtime(100, 50), 49ULL);
	KUNIT_EXPECT_EQ(test, kf_clock_turn_vtime(100, 100), 99ULL);
	/* It wraps around as vtimes do. */
	KUNIT_EXPECT_EQ(test, kf_clock_turn_vtime(0, 1), U64_MAX);
	KUNIT_EXPECT_EQ(test, kf_clock_turn_vtime(1, -1ULL), U64_MAX - 1);
}

/* A device of 100 MB/s. */
static void hold_paces_the_clock(struct kunit *test)
{
	u64 mb = 1000000, free = 500 * mb;

	/* Owed nothing, or half of what may be: places are enough. */
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, 100 * mb, 1, 0), free);
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, 100 * mb, 1, KF_HOLD_ONE / 2), free);
	/* All: the clock of a second goes as far as the device does in a second. */
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, 100 * mb, NSEC_PER_SEC, KF_HOLD_ONE),
			100 * mb);
	KUNIT_EXPECT_EQ(test, kf_hold_limit(mb, free, 100 * mb, NSEC_PER_MSEC, KF_HOLD_ONE),
			mb + mb / 10);
	/* Between: twice as far. */
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, 100 * mb, NSEC_PER_SEC, KF_HOLD_ONE * 3 / 4),
			200 * mb);
	/* Never further than without, and not at all slower while the pace is not known. */
	KUNIT_EXPECT_EQ(test, kf_hold_limit(free - 1, free, 100 * mb, NSEC_PER_SEC, KF_HOLD_ONE),
			free);
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, 0, NSEC_PER_SEC, KF_HOLD_ONE), free);
	/* It wraps around as vtimes do, and any number fits. */
	KUNIT_EXPECT_EQ(test, kf_hold_limit(-mb, 10 * mb, 100 * mb, 10 * NSEC_PER_MSEC,
					    KF_HOLD_ONE), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_hold_limit(0, free, KF_PER_S_MAX, U64_MAX, KF_HOLD_ONE), free);
}

/* Of a quarter of the disk 1 MiB moves it on by 4 MiB, from the clock if that is further. */
static void newcomers_begin_one_after_another(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE / 4, clock = -2 * MIB;
	u64 newcomer = kf_newcomer_after(clock - MIB, clock, MIB, share);

	KUNIT_EXPECT_EQ(test, newcomer, 2 * MIB);
	KUNIT_EXPECT_EQ(test, kf_newcomer_at(newcomer, clock), 2 * MIB);
	KUNIT_EXPECT_EQ(test, kf_newcomer_after(newcomer, clock, MIB, share), 6 * MIB);
	KUNIT_EXPECT_EQ(test, kf_newcomer_at(newcomer, 3 * MIB), 3 * MIB);
	/* It is bounded, and forgotten once the clock was beyond it for half of the range. */
	newcomer = kf_newcomer_after(newcomer, clock, KF_LEAD_BYTES_MAX - 1, 1);
	KUNIT_EXPECT_EQ(test, newcomer, clock + KF_NEWCOMER_MAX);
	KUNIT_EXPECT_EQ(test, kf_newcomer_after(newcomer, clock, MIB, share), newcomer);
	KUNIT_EXPECT_EQ(test, kf_newcomer_at(newcomer, newcomer + (5ULL << 61)),
			newcomer + (5ULL << 61));
}

/* Two requests for 3 ms, one for 1 ms, and none for 1 ms: 7 requests in 5 ms. */
static void load_is_what_requests_took(struct kunit *test)
{
	const u64 unit_ns = 1ULL << KF_LOAD_NS_SHIFT;
	u64 seen = 0, load = 0, now_ns = 1ULL << 62;

	load += kf_load_of(now_ns);
	load += kf_load_of(now_ns);
	KUNIT_EXPECT_EQ(test, kf_load_nr(load), 2U);
	now_ns += 3000 * unit_ns;
	load -= kf_load_of(now_ns);
	KUNIT_EXPECT_EQ(test, kf_load_since(load, &seen, now_ns), 6000ULL);
	now_ns += 1000 * unit_ns;
	load -= kf_load_of(now_ns);
	KUNIT_EXPECT_EQ(test, kf_load_nr(load), 0U);
	now_ns += 1000 * unit_ns;
	KUNIT_EXPECT_EQ(test, kf_load_since(load, &seen, now_ns), 1000ULL);
	KUNIT_EXPECT_EQ(test, kf_load_since(load, &seen, now_ns), 0ULL);
	/* Another CPU's clock is behind. */
	load += kf_load_of(now_ns);
	KUNIT_EXPECT_EQ(test, kf_load_since(load, &seen, now_ns - unit_ns), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_load_since(load, &seen, now_ns + unit_ns), 2ULL);
	/* As many as the word counts. */
	load = KF_LOAD_NR_MASK * kf_load_of(now_ns);
	KUNIT_EXPECT_EQ(test, kf_load_nr(load), (u32)KF_LOAD_NR_MASK);
	load -= KF_LOAD_NR_MASK * kf_load_of(now_ns + unit_ns);
	KUNIT_EXPECT_EQ(test, kf_load_nr(load), 0U);
}

/* A thinker that has one request for 0.1 ms of 2 has a 20th of one, however long it runs. */
static void depth_is_a_mean(struct kunit *test)
{
	struct kf_depth kd = {};
	unsigned int i;

	kf_depth_begin(&kd, 0, 1000 * MS);
	KUNIT_EXPECT_EQ(test, kd.milli, 0U);
	for (i = 1; i <= 20; i++) {
		kd.sum += (5 * MS) >> KF_LOAD_NS_SHIFT;
		kf_depth_update(&kd, 0, (1000 + 100 * i) * MS);
		KUNIT_EXPECT_GE(test, kd.milli, 49U);
		KUNIT_EXPECT_LE(test, kd.milli, 50U);
	}
	/* 32 for the 20 ms of each 100 that it is present. */
	kd = (struct kf_depth){};
	kf_depth_begin(&kd, 7 * MS, 1000 * MS);
	for (i = 1; i <= 20; i++) {
		kd.sum += (640 * MS) >> KF_LOAD_NS_SHIFT;
		kf_depth_update(&kd, (7 + 80 * i) * MS, (1000 + 100 * i) * MS);
		KUNIT_EXPECT_GE(test, kd.milli, 31990U);
		KUNIT_EXPECT_LE(test, kd.milli, 32010U);
	}
	/* It was not there: nothing is known that was not before. */
	kf_depth_update(&kd, (7 + 1600 + 100) * MS, (1000 + 2100) * MS);
	KUNIT_EXPECT_GE(test, kd.milli, 31900U);
	/* And its clock was wrong. */
	kf_depth_update(&kd, (7 + 1600 + 500) * MS, (1000 + 2200) * MS);
	KUNIT_EXPECT_LE(test, kd.milli, 32010U);
}

/* A CPU that is taken away in a walk does not keep the clock from being set. */
static void walk_is_what_most_take(struct kunit *test)
{
	u64 walk_ns = 0;
	unsigned int i;

	for (i = 0; i < 100; i++)
		walk_ns = kf_clock_walk_ns(walk_ns, 300);
	KUNIT_EXPECT_GE(test, walk_ns, 290ULL);
	KUNIT_EXPECT_LE(test, walk_ns, 300ULL);
	walk_ns = kf_clock_walk_ns(walk_ns, 60 * MS);
	KUNIT_EXPECT_LE(test, walk_ns, 400ULL);
	/* Every third is interrupted. */
	for (i = 0; i < 300; i++)
		walk_ns = kf_clock_walk_ns(walk_ns, i % 3 ? 300 : 60 * MS);
	KUNIT_EXPECT_LE(test, walk_ns, 1000ULL);
	/* There are more cgroups, a hundred times as many. */
	for (i = 0; i < 80; i++)
		walk_ns = kf_clock_walk_ns(walk_ns, 30 * US);
	KUNIT_EXPECT_GE(test, walk_ns, 29 * US);
	KUNIT_EXPECT_LE(test, walk_ns, 30 * US);
	for (i = 0; i < 80; i++)
		walk_ns = kf_clock_walk_ns(walk_ns, 300);
	KUNIT_EXPECT_LE(test, walk_ns, 310ULL);
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(vtime_of_a_share),
	KUNIT_CASE(vtimes_wrap_around),
	KUNIT_CASE(two_share_by_weight),
	KUNIT_CASE(sizes_do_not_change_shares),
	KUNIT_CASE(smallest_share_makes_progress),
	KUNIT_CASE(urgent_debts_are_bounded),
	KUNIT_CASE(present_while_outstanding),
	KUNIT_CASE(lead_is_bounded),
	KUNIT_CASE(lead_is_a_time),
	KUNIT_CASE(steps_of_the_clock),
	KUNIT_CASE(slices_are_half_of_a_lead),
	KUNIT_CASE(stuck_is_not_awaited),
	KUNIT_CASE(lag_is_bounded),
	KUNIT_CASE(awaited_by_what_it_could),
	KUNIT_CASE(level_is_where_the_device_does_enough),
	KUNIT_CASE(owed_is_what_others_cost),
	KUNIT_CASE(hold_takes_places),
	KUNIT_CASE(pace_leaves_others_their_own),
	KUNIT_CASE(turn_is_before_clock_and_limit),
	KUNIT_CASE(hold_paces_the_clock),
	KUNIT_CASE(newcomers_begin_one_after_another),
	KUNIT_CASE(load_is_what_requests_took),
	KUNIT_CASE(depth_is_a_mean),
	KUNIT_CASE(walk_is_what_most_take),
	{ }
};

static struct kunit_suite clock_suite = {
	.name = "kyber_fairness_clock",
	.test_cases = clock_cases,
};

kunit_test_suite(clock_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' clock");
