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
	/* No rate, or the largest; the longest that lead_us takes. */
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
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 0), 20 * US);
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 1 * US), 20 * US);
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(80 * US, 5 * US), 80 * US);
	/* A walk takes something, whatever the clock on the wall says. */
	KUNIT_EXPECT_EQ(test, kf_clock_step_ns(0, 0), 16 * 512ULL);
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
	struct kf_band band;

	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(255 * US, 400 * MIB, 4096), 500 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(0, 0, 0), 500 * MS);
	/* 32 of a disk that turns; and a mebibyte of one that does four a second. */
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(250 * MS, MIB, 4096), 2000 * MS);
	KUNIT_EXPECT_EQ(test, kf_clock_stuck_ns(MS, 4 * MIB, MIB), 2000 * MS);
	KUNIT_EXPECT_GT(test, kf_clock_stuck_ns(MS, 1, U32_MAX), 8000000ULL * 1000 * MS);

	/* A full device: by its rate, but not longer than each of them alone. */
	kf_band_init(&band);
	kf_band_set(&band);
	KUNIT_EXPECT_EQ(test, band.full_ns, 0);
	band.kind[0].rate = 128;
	band.kind[0].alone_ns = 12 * MS;
	kf_band_set(&band);
	KUNIT_EXPECT_EQ(test, band.full_ns, 32 * NSEC_PER_SEC / 128);
	band.kind[0].rate = 1;
	kf_band_set(&band);
	KUNIT_EXPECT_EQ(test, band.full_ns, 32 * 12 * MS);
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

/* So many requests of 4 KiB, of 85 us alone, in all; and what the device does when it is full. */
static struct kf_could could_of(u32 all_milli, u32 most_milli, u32 depth_pct)
{
	return (struct kf_could){
		.all = kf_clock_could(all_milli, 4096, 85 * US),
		.most = kf_clock_could(most_milli, 4096, 85 * US),
		.full = kf_clock_could(41000, 4096, 85 * US),
		.depth_pct = depth_pct,
	};
}

static bool is_awaited(struct kf_could kc, u32 milli, u64 share)
{
	return kf_clock_is_awaited(&kc, kf_clock_could(milli, 4096, 85 * US), share, false);
}

/* A P4500: 41 requests are its bandwidth-delay product. */
static void awaited_by_what_it_could(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE * 1000 / 1850, tenth = KF_SHARE_ONE / 10;
	struct kf_could kc = could_of(40000, 40000, 45);

	/* Four of 32: with 32 one of them fills its share of the device. */
	KUNIT_EXPECT_TRUE(test, is_awaited(could_of(128000, 32000, 45), 32000, share));
	/* One of 8 beside three of 32: what these do alone it cannot, were all to wait. */
	KUNIT_EXPECT_FALSE(test, is_awaited(could_of(104000, 32000, 0), 8000, share));
	/* Four of 8, or of 2: each has more than alone on a disk of its share. */
	KUNIT_EXPECT_TRUE(test, is_awaited(could_of(32000, 8000, 45), 8000, share));
	KUNIT_EXPECT_TRUE(test, is_awaited(could_of(8000, 2000, 45), 2000, share));
	/* But not if the device is to do half of what it can. */
	KUNIT_EXPECT_FALSE(test, is_awaited(could_of(32000, 8000, 50), 8000, share));
	/* A tenth of the disk with 2 beside one of 64, and with 8. */
	KUNIT_EXPECT_FALSE(test, is_awaited(could_of(130000, 64000, 0), 2000, tenth));
	KUNIT_EXPECT_TRUE(test, is_awaited(could_of(136000, 64000, 0), 8000, tenth));
	/* To and fro: once it is awaited, an eighth less will do. */
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(&kc, kc.most * 9 / 10, KF_SHARE_ONE, false));
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(&kc, kc.most * 9 / 10, KF_SHARE_ONE, true));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(&kc, kc.most * 8 / 10, KF_SHARE_ONE, true));
	/* Nothing is known, and the most there may be. */
	kc = (struct kf_could){ .depth_pct = 1000 };
	KUNIT_EXPECT_TRUE(test, kf_clock_is_awaited(&kc, 0, KF_SHARE_ONE, false));
	kc = (struct kf_could){ U64_MAX, U64_MAX, U64_MAX, 100 };
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(&kc, U64_MAX / 2, KF_SHARE_ONE, true));
	KUNIT_EXPECT_EQ(test, kf_clock_could(1000, 4096, NSEC_PER_SEC), 4096ULL);
}

/* A quotient that does not fit in 64 bits faults in the kernel, and stops this test. */
static void could_has_room(struct kunit *test)
{
	u64 could = kf_clock_could(U32_MAX, U32_MAX, 0), all = could * 65536;
	struct kf_could kc = { .most = could, .all = all, .full = U64_MAX, .depth_pct = 1000 };
	struct kf_alone ka = { .mix_ns = U32_MAX * NSEC_PER_USEC };
	const u64 none[2] = { };
	struct kf_band_kind kind = { .nr_alone = 1, .nr_probed = 1, .alone_us = { 1 } };
	struct kf_slowness ks = { };

	KUNIT_EXPECT_EQ(test, all / 65536, could);
	/* A thousand outstanding of 8 MiB writes, while nothing is known of the device. */
	KUNIT_EXPECT_GE(test, could, kf_clock_could(1023000, 6 << 23, 0));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(&kc, could, KF_SHARE_ONE, false));
	KUNIT_EXPECT_GT(test, kf_per_s(U64_MAX, 0), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_per_s(4096, NSEC_PER_SEC), 4096ULL);
	kf_slowness_see(&ks, &kind, U64_MAX);
	KUNIT_EXPECT_GE(test, kf_alone_ns(&ka, none, ks.milli, 0), ka.mix_ns);
}

/* C1: a write of 2 ms at a time does little, and whether reads take 20 us tells nothing of it. */
static void slow_requests_do_little(struct kunit *test)
{
	struct kf_alone ka = { .dir_ns = { 20 * US, 0 }, .mix_ns = 20 * US };
	const u64 reads[] = { 100, 0 }, writes[] = { 0, 100 }, both[] = { 50, 50 };

	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, reads, 0, 18 * US), 20 * US);
	/* No probe has seen a write: no more is known than what one took. */
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, writes, 0, 2 * MS), 2 * MS);
	ka.dir_ns[1] = 1 * MS;
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, writes, 2000, 2 * MS), 2 * MS);
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, both, 1000, 0), 510 * US);
	/* Nothing is known yet. */
	ka = (struct kf_alone){ };
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, both, 0, 0), 0ULL);
}

/* Compared to what the same probe saw: it is no slower because the disk is. */
static void slowness_is_to_others(struct kunit *test)
{
	struct kf_band_kind kind = { };
	struct kf_slowness ks = { };
	unsigned int i;

	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[kind.nr_alone++] = 85;
	/* A probe later all of them take three times as long. */
	for (i = 0; i < 4; i++) {
		kind.alone_us[kind.nr_alone++ % KF_ALONE_SAMPLES] = 255;
		kind.nr_probed++;
		kf_slowness_see(&ks, &kind, 255 * US);
	}
	KUNIT_EXPECT_EQ(test, ks.milli, 1000U);
	/* And one that takes four times as long as these. */
	ks = (struct kf_slowness){ };
	kf_slowness_see(&ks, &kind, 1020 * US);
	KUNIT_EXPECT_EQ(test, ks.milli, 4000U);
	kf_slowness_see(&ks, &(struct kf_band_kind){ }, 0);
	KUNIT_EXPECT_GE(test, ks.milli, 1U);
}

/* By what requests take alone: SSDs, a disk that turns, and one that says so and does not. */
static void models_by_time_alone(struct kunit *test)
{
	struct kf_band_kind kind[KF_NR_KINDS] = { };
	struct kf_model km = { };

	KUNIT_EXPECT_TRUE(test, kf_model_guess(&km, kind, false));
	KUNIT_EXPECT_FALSE(test, kf_model_guess(&km, kind, false));
	KUNIT_EXPECT_EQ(test, km.mib_ps[1], 6 * km.mib_ps[0]);
	kind[0].alone_ns = 12 * US;
	kind[1].alone_ns = 12 * US;
	KUNIT_EXPECT_TRUE(test, kf_model_guess(&km, kind, true));
	KUNIT_EXPECT_EQ(test, km.io_ps[1], km.io_ps[0]);
	/* 4 KiB, as many bytes of large reads: about 6,000. */
	KUNIT_EXPECT_EQ(test, kf_cost_bytes(kf_model_rate(&km, 0), 4096), 6000U);
	kind[0].alone_ns = 12 * MS;
	kind[1].alone_ns = 1 * MS;
	KUNIT_EXPECT_TRUE(test, kf_model_guess(&km, kind, true));
	/* 8 ms at 150 MB/s. */
	KUNIT_EXPECT_GE(test, kf_cost_bytes(kf_model_rate(&km, 1), 4096), 1200000U);
	KUNIT_EXPECT_LE(test, kf_cost_bytes(kf_model_rate(&km, 1), 4096), 1210000U);
}

/* Four of 100 us alone, and four fifths of the disk: 125 us each on a disk of its own. */
static void owed_is_what_others_cost(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE / 5 * 4, most = 64 * NSEC_PER_MSEC;
	s64 owed = 0;
	u32 i;

	/* They take as long as that: it is owed nothing. */
	for (i = 0; i < 1000; i++)
		owed = kf_owed_ns(owed, 4 * 125000, 4, 100000, share, most);
	KUNIT_EXPECT_TRUE(test, owed >= -4000 && owed <= 4000);
	/* 425 us: 300 of them are the others'. */
	owed = kf_owed_ns(0, 4 * 425000, 4, 100000, share, most);
	KUNIT_EXPECT_TRUE(test, owed >= 1199996 && owed <= 1200004);
	for (i = 0; i < 100; i++)
		owed = kf_owed_ns(owed, 4 * 425000, 4, 100000, share, most);
	KUNIT_EXPECT_EQ(test, owed, (s64)most);
	for (i = 0; i < 2000; i++)
		owed = kf_owed_ns(owed, 4 * 100000, 4, 100000, share, most);
	KUNIT_EXPECT_EQ(test, owed, -(s64)most);
	/* Any values: it stays within what it may be. */
	KUNIT_EXPECT_EQ(test, kf_owed_ns(most, U64_MAX, 0, 0, 0, most), (s64)most);
	KUNIT_EXPECT_EQ(test, kf_owed_ns(most, 0, U64_MAX, U64_MAX, 0, most), -(s64)most);
	KUNIT_EXPECT_EQ(test, kf_owed_most_ns(2 * NSEC_PER_MSEC, 4000), 64 * NSEC_PER_MSEC);
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

/* A ceiling of 126, of which a fifth is for those that are awaited: 100 MB/s while none is owed. */
static void floor_leaves_others_their_own(struct kunit *test)
{
	const u64 share = KF_SHARE_ONE / 5;
	struct kf_floor kf = { };
	unsigned int i;

	kf_floor_look(&kf, 100000000, false, 126, share);
	KUNIT_EXPECT_EQ(test, kf.milli, 1000U);
	/* With that one place they do less than a fifth: more, up to a fifth of the places. */
	for (i = 0; i < 20; i++)
		kf_floor_look(&kf, 15000000, true, 126, share);
	KUNIT_EXPECT_GE(test, kf.milli, 10000U);
	for (i = 0; i < 100; i++)
		kf_floor_look(&kf, 15000000, true, 126, share);
	KUNIT_EXPECT_EQ(test, kf.milli, 25000U);
	/* Just enough: it stays. More than enough: fewer. */
	kf_floor_look(&kf, 21000000, true, 126, share);
	KUNIT_EXPECT_EQ(test, kf.milli, 25000U);
	kf_floor_look(&kf, 40000000, true, 126, share);
	KUNIT_EXPECT_LT(test, kf.milli, 25000U);
	/* They want less now: what they did is forgotten, but not while one is owed. */
	for (i = 0; i < 1000; i++)
		kf_floor_look(&kf, 1000000, false, 126, share);
	KUNIT_EXPECT_LE(test, kf.free_bytes_per_s, 1000064ULL);
	/* None is awaited. */
	kf_floor_look(&kf, 0, true, 126, 0);
	KUNIT_EXPECT_EQ(test, kf.milli, 1000U);
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
		kf_depth_look(&kd, 0, (1000 + 100 * i) * MS);
		KUNIT_EXPECT_GE(test, kd.milli, 49U);
		KUNIT_EXPECT_LE(test, kd.milli, 50U);
	}
	/* 32 for the 20 ms of each 100 that it is present. */
	kd = (struct kf_depth){};
	kf_depth_begin(&kd, 7 * MS, 1000 * MS);
	for (i = 1; i <= 20; i++) {
		kd.sum += (640 * MS) >> KF_LOAD_NS_SHIFT;
		kf_depth_look(&kd, (7 + 80 * i) * MS, (1000 + 100 * i) * MS);
		KUNIT_EXPECT_GE(test, kd.milli, 31990U);
		KUNIT_EXPECT_LE(test, kd.milli, 32010U);
	}
	/* It was not there: nothing is known that was not before. */
	kf_depth_look(&kd, (7 + 1600 + 100) * MS, (1000 + 2100) * MS);
	KUNIT_EXPECT_GE(test, kd.milli, 31900U);
	/* And its clock was wrong. */
	kf_depth_look(&kd, (7 + 1600 + 500) * MS, (1000 + 2200) * MS);
	KUNIT_EXPECT_LE(test, kd.milli, 32010U);
}

/* A device that serves @per_ms in a millisecond, each in @io_ns while it is alone. */
struct device {
	unsigned int per_ms;
	u64 io_ns;
	bool may_probe;
	bool was_held;
};

/* What a look is of: 100 ms of completions, or in a probe each of them. */
static u64 device_look(struct kf_band *kb, u64 now_ns, const struct device *dev)
{
	unsigned int i;

	if (kb->phase == KF_BAND_STEADY) {
		now_ns += 100 * MS;
		kb->was_held |= dev->was_held;
		kf_band_count(kb, 0, 100 * dev->per_ms, 100 * dev->per_ms * 4096ULL);
		kf_band_look(kb, dev->may_probe, now_ns);
		return now_ns;
	}
	for (i = 0; i < 1000000 && kb->phase != KF_BAND_STEADY; i++) {
		bool is_alone = kb->phase == KF_BAND_EMPTY;
		u64 io_ns = is_alone ? dev->io_ns : 3 * dev->io_ns;

		now_ns += is_alone ? io_ns : MS / dev->per_ms;
		if (!kf_band_done(kb, 0, 4096, is_alone, io_ns, now_ns))
			kf_band_look(kb, true, now_ns);
	}
	return now_ns;
}

static u64 device_looks(struct kf_band *kb, u64 now_ns, const struct device *dev,
			unsigned int nr)
{
	while (nr--)
		now_ns = device_look(kb, now_ns, dev);
	return now_ns;
}

/* 300 requests a millisecond of 100 us: 30 at a time. The time alone takes a probe. */
static void band_finds_the_product(struct kunit *test)
{
	struct device dev = { .per_ms = 300, .io_ns = 100 * US, .may_probe = true };
	u64 now_ns = 1000 * MS;
	struct kf_band kb;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	kb.nr_all = 128;
	now_ns = device_looks(&kb, now_ns, &dev, 30);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 100 * US);
	KUNIT_EXPECT_EQ(test, kb.alone_ns, 100 * US);
	KUNIT_EXPECT_GE(test, kb.bdp_milli, 29500U);
	KUNIT_EXPECT_LE(test, kb.bdp_milli, 30500U);
	KUNIT_EXPECT_EQ(test, kb.ceiling, kb.bdp_milli * 3 / 1000);
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, 4096ULL);
	KUNIT_EXPECT_EQ(test, kb.bytes_per_s, 300000 * 4096ULL);

	/* Slowed down by a factor of 3: a probe soon finds it, the product stays. */
	dev = (struct device){ .per_ms = 100, .io_ns = 300 * US, .may_probe = true };
	now_ns = device_looks(&kb, now_ns, &dev, 30);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 2U);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 300 * US);
	KUNIT_EXPECT_GE(test, kb.bdp_milli, 29000U);
	KUNIT_EXPECT_LE(test, kb.bdp_milli, 31000U);
}

/* A cgroup that has the device is not disturbed, however long. */
static void band_does_not_probe_for_one(struct kunit *test)
{
	const struct device dev = { .per_ms = 300, .io_ns = 100 * US };
	struct kf_band kb;
	u64 now_ns = 1000 * MS;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	now_ns = device_looks(&kb, now_ns, &dev, 1000);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 0U);
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 300000ULL);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 0ULL);
	/* The least there is: there may be no product without a time. */
	KUNIT_EXPECT_EQ(test, kb.ceiling, KF_CEILING_MIN);
}

/* The time alone is that of requests that were, in a phase that empties. */
static void band_samples_alone_in_a_probe(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 1000;
	kf_band_begin_probe(&kb, 1000 * MS);
	KUNIT_EXPECT_EQ(test, kf_band_ceiling(&kb), 1U);
	KUNIT_EXPECT_TRUE(test, kf_band_may_hold(&kb));
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, false, 900 * US,
						      1000 * MS + i * MS));
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 0ULL);
	KUNIT_EXPECT_EQ(test, kb.probe_left, KF_PROBE_NR_MAX);
	for (i = 1; i < KF_PROBE_NR; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, true, 90 * US,
						      1100 * MS + i * MS));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, true, 90 * US, 1200 * MS));
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 90 * US);
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.probe_took_ns, 200 * MS);
	/* No more than one part in 64 of the time. */
	KUNIT_EXPECT_EQ(test, kb.due_ns, 1200 * MS + 64 * 200 * MS);
	/* Another look begins; nothing of the probe is in it. */
	KUNIT_EXPECT_EQ(test, kb.kind[0].nr_done, 0ULL);
	KUNIT_EXPECT_EQ(test, kb.done_bytes, 0ULL);
}

/* A kind that hardly ever comes is not waited for; a request of 0 ns has one of 1 us. */
/* What a full device does matters and is not known: it is filled, with no probe before. */
static void fills_at_once(struct kunit *test)
{
	const struct device dev = { .per_ms = 300, .io_ns = 100 * US, .may_probe = true };
	struct kf_band kb;
	u64 now_ns = 1000 * MS;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	now_ns = device_looks(&kb, now_ns, &dev, 3);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 0U);
	KUNIT_EXPECT_EQ(test, kf_band_full(&kb), kb.bytes_per_s);
	kf_band_must_fill(&kb, true, 128000);
	now_ns = device_looks(&kb, now_ns, &dev, 2);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 1U);
	KUNIT_EXPECT_EQ(test, kf_band_full(&kb), kb.full_bytes_per_s);
	/* A rate of a device that is held tells nothing, unless as many are in flight. */
	kb.full_bytes_per_s = 1ULL << 40;
	kb.was_held = true;
	kf_band_count(&kb, 0, 30000, 30000 * 4096ULL);
	kf_band_look(&kb, false, now_ns + 100 * MS);
	KUNIT_EXPECT_EQ(test, kb.full_bytes_per_s, 1ULL << 40);
	KUNIT_EXPECT_FALSE(test, kf_band_is_busy(&kb, 20));
	KUNIT_EXPECT_TRUE(test, kf_band_is_busy(&kb, 46));
	kb.was_held = true;
	kb.is_busy = true;
	kf_band_count(&kb, 0, 30000, 30000 * 4096ULL);
	kf_band_look(&kb, false, now_ns + 200 * MS);
	KUNIT_EXPECT_LT(test, kb.full_bytes_per_s, 1ULL << 40);
}

static void band_probes_do_not_last(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 1000;
	kb.kind[1].rate = 500;
	kf_band_begin_probe(&kb, 1000 * MS);
	KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 1, 4096, true, 90 * US, 1000 * MS));
	for (i = 2; i < KF_PROBE_NR_MAX; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, US);
	KUNIT_EXPECT_EQ(test, kb.kind[1].alone_ns, 90 * US);
}

/* Nor is one that comes no more: it was a third, and of 15 requests 5 should have been of it. */
static void band_probes_what_there_is(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 1000;
	kb.kind[1].rate = 500;
	kf_band_begin_probe(&kb, 1000 * MS);
	for (i = 1; i < 3 * KF_PROBE_MISSED; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, US);
	KUNIT_EXPECT_EQ(test, kb.kind[1].alone_ns, 0ULL);
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

/* A kind that no probe has seen takes what the others take, and the next probe is soon. */
static void band_has_all_kinds(struct kunit *test)
{
	struct kf_band kb;
	u64 now_ns = 2000 * MS;

	kf_band_init(&kb);
	kf_band_begin_probe(&kb, 1000 * MS);
	kb.kind[0].alone_ns = 2 * MS;
	kf_band_end_probe(&kb, true, 1100 * MS);
	KUNIT_EXPECT_EQ(test, kb.due_ns, 1100 * MS + KF_PROBE_NS);
	kb.look_ns = now_ns - 100 * MS;
	kf_band_count(&kb, 0, 300, 300 * 4096);
	kf_band_count(&kb, 1, 100, 100 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, false, now_ns));
	KUNIT_EXPECT_EQ(test, kb.alone_ns, 2 * MS);
	/* 4,000 a second of 2 ms. */
	KUNIT_EXPECT_EQ(test, kb.bdp_milli, 8000U);
	KUNIT_EXPECT_LE(test, kb.due_ns, now_ns);

	/* One that hardly ever comes may stay unknown. */
	kf_band_end_probe(&kb, false, now_ns);
	kb.kind[1].rate = kb.kind[0].rate / 10;
	KUNIT_EXPECT_FALSE(test, kf_band_is_unknown(&kb));
	kb.kind[1].rate = kb.kind[0].rate / 5;
	KUNIT_EXPECT_TRUE(test, kf_band_is_unknown(&kb));
	kb.kind[1].alone_ns = 2 * MS;
	KUNIT_EXPECT_FALSE(test, kf_band_is_unknown(&kb));
}

/* A probe whose requests do not come ends after a second, in each of its phases. */
static void band_gives_up(struct kunit *test)
{
	static const enum kf_band_phase phases[] = { KF_BAND_EMPTY, KF_BAND_FILL, KF_BAND_FULL };
	struct kf_band kb;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		kf_band_init(&kb);
		KUNIT_EXPECT_FALSE(test, kf_band_give_up(&kb, false, 5000 * MS));
		kf_band_begin_probe(&kb, 1000 * MS);
		kb.phase = phases[i];
		kf_band_count(&kb, 0, 5, 5 * 4096);
		KUNIT_EXPECT_FALSE(test, kf_band_give_up(&kb, false, 2000 * MS - 1));
		KUNIT_EXPECT_EQ(test, kb.phase, phases[i]);
		KUNIT_EXPECT_TRUE(test, kf_band_give_up(&kb, false, 2000 * MS));
		KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
		KUNIT_EXPECT_EQ(test, kb.kind[0].nr_done, 0ULL);
		KUNIT_EXPECT_EQ(test, kb.look_ns, 2000 * MS);
		/* It emptied or filled the device for a second: the next one is in 64. */
		KUNIT_EXPECT_EQ(test, kb.due_ns, 66000 * MS);
		/* What it did in a fill is known, so that it is not filled again at once. */
		KUNIT_EXPECT_EQ(test, !!kb.full_bytes_per_s, phases[i] != KF_BAND_EMPTY);
	}

	/* No request was there to be held. */
	kf_band_init(&kb);
	kf_band_begin_probe(&kb, 1000 * MS);
	KUNIT_EXPECT_TRUE(test, kf_band_give_up(&kb, true, 2000 * MS));
	KUNIT_EXPECT_EQ(test, kb.due_ns, 12000 * MS);
}

/*
 * What is known is found to be wrong in a probe, on a host that has been up for long. The
 * probe goes on, and took no longer than it did.
 */
static void band_probe_soon_in_a_probe(struct kunit *test)
{
	const u64 then_ns = 30ULL * 86400 * NSEC_PER_SEC;
	struct kf_band kb;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 1000;
	kf_band_begin_probe(&kb, then_ns);
	kf_band_must_fill(&kb, true, 64000);
	KUNIT_EXPECT_FALSE(test, kf_band_give_up(&kb, false, then_ns + MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_EMPTY);
	kf_band_must_fill(&kb, false, 64000);
	for (i = 1; i < KF_PROBE_NR; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, true, 90 * US,
						      then_ns + i * MS));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, true, 90 * US, then_ns + 10 * MS));
	KUNIT_EXPECT_EQ(test, kb.probe_took_ns, 10 * MS);
	KUNIT_EXPECT_EQ(test, kb.due_ns, then_ns + 10 * MS + KF_PROBE_NS);
}

/* A look is of 32 requests, and of 90 ms. */
static void band_looks_are_long(struct kunit *test)
{
	struct kf_band kb;

	kf_band_init(&kb);
	kb.look_ns = 1000 * MS;
	kf_band_count(&kb, 0, 31, 31 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, false, 9000 * MS));
	kf_band_count(&kb, 3, 1, MIB);
	KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, false, 1090 * MS - 1));
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, false, 1090 * MS));
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, (31 * 4096 + MIB) / 32);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 31ULL * 1000 / 90);
	KUNIT_EXPECT_EQ(test, kb.kind[3].rate, 1ULL * 1000 / 90);
	KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, false, 1090 * MS));
}

/* The most that requests may cost in a look, and requests that cost nothing. */
static void band_takes_any_cost(struct kunit *test)
{
	struct kf_band kb;

	kf_band_init(&kb);
	kb.look_ns = 1000 * MS;
	kf_band_count(&kb, 0, 10000000, 10000000ULL << 28);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, false, 1100 * MS));
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, 1ULL << 28);
	KUNIT_EXPECT_EQ(test, kb.bytes_per_s, 100000000ULL << 28);
	kf_band_count(&kb, 0, 32, 0);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, false, 1200 * MS));
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, 0ULL);
	/* What the device did is forgotten slowly. */
	KUNIT_EXPECT_EQ(test, kb.bytes_per_s, (100000000ULL << 28) / 8 * 7);
}

/* While cgroups wait for each other a lower rate tells nothing, a higher one does. */
static void band_keeps_what_a_full_device_did(struct kunit *test)
{
	struct device dev = { .per_ms = 300, .io_ns = 100 * US };
	struct kf_band kb;
	u64 now_ns = 1000 * MS;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	now_ns = device_looks(&kb, now_ns, &dev, 8);
	dev.was_held = true;
	dev.per_ms = 100;
	now_ns = device_looks(&kb, now_ns, &dev, 50);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 300000ULL);
	/* Throttled, and yet it did more. */
	dev.per_ms = 400;
	now_ns = device_looks(&kb, now_ns, &dev, 50);
	KUNIT_EXPECT_GE(test, kb.kind[0].rate, 399000ULL);
	/* Not throttled: it does less. */
	dev.was_held = false;
	dev.per_ms = 100;
	now_ns = device_looks(&kb, now_ns, &dev, 50);
	KUNIT_EXPECT_LE(test, kb.kind[0].rate, 101000ULL);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 0U);
}

/* A probe fills it if that matters, and not again for a while. */
static void band_fills_where_it_matters(struct kunit *test)
{
	const struct device dev = { .per_ms = 300, .io_ns = 100 * US, .may_probe = true };
	struct kf_band kb;
	u64 now_ns = 1000 * MS;
	u32 nr_fills;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	kf_band_must_fill(&kb, true, 128000);
	now_ns = device_looks(&kb, now_ns, &dev, 50);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, 1U);
	KUNIT_EXPECT_TRUE(test, kf_band_may_hold(&kb));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	/* Two minutes: a probe each ten seconds, of which two fill. */
	now_ns = device_looks(&kb, now_ns, &dev, 1200);
	KUNIT_EXPECT_GE(test, kb.nr_probes, 11U);
	KUNIT_EXPECT_LE(test, kb.nr_probes, 13U);
	nr_fills = kb.nr_fills;
	KUNIT_EXPECT_GE(test, nr_fills, 2U);
	KUNIT_EXPECT_LE(test, nr_fills, 3U);
	/* It does no longer: then soon again, where it does. */
	kf_band_must_fill(&kb, false, 128000);
	now_ns = device_looks(&kb, now_ns, &dev, 1200);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, nr_fills);
	kf_band_must_fill(&kb, true, 128000);
	now_ns = device_looks(&kb, now_ns, &dev, 10);
	KUNIT_EXPECT_EQ(test, kb.nr_fills, nr_fills + 1);
}

/* No cgroup waits while it is filled, and a product that grew is looked at again. */
static void band_fills_until_full(struct kunit *test)
{
	struct kf_band kb;
	u64 now_ns = 1000 * MS;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].alone_ns = 100 * US;
	kb.nr_all = 512;
	kb.phase = KF_BAND_FILL;
	kb.look_ns = now_ns;
	KUNIT_EXPECT_FALSE(test, kf_band_may_hold(&kb));
	/* As many as are in flight, which are no part of the rate. */
	for (i = 1; i < KF_CEILING_MIN; i++) {
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, false, MS, now_ns + i * MS));
		KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, true, now_ns + i * MS));
	}
	kf_band_done(&kb, 0, 4096, false, MS, now_ns + i * MS);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, true, now_ns + i * MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FULL);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 0ULL);
	KUNIT_EXPECT_FALSE(test, kf_band_may_hold(&kb));
	/* A million a second: 100 at a time, so the ceiling is 300, and it was not full. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 32, 32 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, true, now_ns + 32 * US));
	KUNIT_EXPECT_EQ(test, kb.bdp_milli, 100000U);
	KUNIT_EXPECT_EQ(test, kb.ceiling, 300U);
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FILL);
	/* What had queued up goes at once; the submitters wait for the CPU. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 400, 400 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, true, now_ns + 2 * MS - 1));
	kf_band_count(&kb, 0, 1600, 1600 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, true, now_ns + 2 * MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FULL);
	/* With as many in flight it is full: the probe ends. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 299, 299 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_look(&kb, true, now_ns + 3 * MS));
	kf_band_count(&kb, 0, 1, 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_look(&kb, true, now_ns + 3 * MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 100000ULL);
}

/* A rate that is another for one look is no change of the device. */
static void band_sees_changes(struct kunit *test)
{
	struct device dev = { .per_ms = 300, .io_ns = 100 * US, .may_probe = true };
	const struct device stall = { .per_ms = 30, .io_ns = 100 * US, .may_probe = true };
	struct kf_band kb;
	u64 now_ns = 1000 * MS;
	unsigned int i;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	kb.nr_all = 128;
	now_ns = device_looks(&kb, now_ns, &dev, 30);
	for (i = 0; i < 5; i++) {
		now_ns = device_looks(&kb, now_ns, &stall, KF_PROBE_LOOKS - 1);
		now_ns = device_looks(&kb, now_ns, &dev, 1);
	}
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	/* Less than a half more or a third less is none either. */
	dev.per_ms = 440;
	now_ns = device_looks(&kb, now_ns, &dev, 15);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 1U);
	dev.per_ms = 460;
	now_ns = device_looks(&kb, now_ns, &dev, KF_PROBE_LOOKS + 1);
	KUNIT_EXPECT_EQ(test, kb.nr_probes, 2U);
}

static void median_is_robust(struct kunit *test)
{
	u32 ring[KF_ALONE_SAMPLES];
	unsigned int i;

	KUNIT_EXPECT_EQ(test, kf_ring_median(ring, 0, KF_ALONE_SAMPLES), 0U);
	/* Six of fifteen stalled, one was a hit. */
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		ring[i] = i < 6 ? 350000 : i == 6 ? 1 : 90;
	KUNIT_EXPECT_EQ(test, kf_ring_median(ring, 1000, KF_ALONE_SAMPLES), 90U);
	/* Of the newest five, all. */
	KUNIT_EXPECT_EQ(test, kf_ring_median(ring, 5, 5), 350000U);
	KUNIT_EXPECT_EQ(test, kf_ring_median(ring, 3 * KF_ALONE_SAMPLES + 5, 5), 350000U);
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
	KUNIT_CASE(could_has_room),
	KUNIT_CASE(slow_requests_do_little),
	KUNIT_CASE(slowness_is_to_others),
	KUNIT_CASE(models_by_time_alone),
	KUNIT_CASE(owed_is_what_others_cost),
	KUNIT_CASE(hold_takes_places),
	KUNIT_CASE(floor_leaves_others_their_own),
	KUNIT_CASE(newcomers_begin_one_after_another),
	KUNIT_CASE(load_is_what_requests_took),
	KUNIT_CASE(depth_is_a_mean),
	KUNIT_CASE(band_finds_the_product),
	KUNIT_CASE(band_does_not_probe_for_one),
	KUNIT_CASE(band_samples_alone_in_a_probe),
	KUNIT_CASE(fills_at_once),
	KUNIT_CASE(band_probes_do_not_last),
	KUNIT_CASE(band_probes_what_there_is),
	KUNIT_CASE(band_has_all_kinds),
	KUNIT_CASE(walk_is_what_most_take),
	KUNIT_CASE(band_gives_up),
	KUNIT_CASE(band_probe_soon_in_a_probe),
	KUNIT_CASE(band_looks_are_long),
	KUNIT_CASE(band_takes_any_cost),
	KUNIT_CASE(band_keeps_what_a_full_device_did),
	KUNIT_CASE(band_fills_where_it_matters),
	KUNIT_CASE(band_fills_until_full),
	KUNIT_CASE(band_sees_changes),
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
