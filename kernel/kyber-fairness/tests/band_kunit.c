// SPDX-License-Identifier: GPL-2.0-only
/* Tests of band.h; as KUnit on kernels that have it, and as a userspace program. */
#include <kunit/test.h>

#include "../band.h"

#define MS	1000000ULL	/* ns */
#define US	1000ULL
#define MIB	1048576ULL

/* A quotient that does not fit in 64 bits faults in the kernel, and stops this test. */
static void could_has_room(struct kunit *test)
{
	u64 could = kf_clock_could(U32_MAX, U32_MAX, 0), all = could * 65536;
	struct kf_could kc = { .most = could, .all = all, .min_total_pct = 100 };
	struct kf_alone ka = { .mix_ns = U32_MAX * NSEC_PER_USEC };
	const struct kf_price none = { };
	struct kf_band_kind kind = { .nr_alone = 1, .nr_probed = 1, .alone_us = { 1 } };
	struct kf_slowness ks = { };
	struct kf_level kl;

	KUNIT_EXPECT_EQ(test, all / 65536, could);
	/* A thousand outstanding of 8 MiB writes, while nothing is known of the device. */
	KUNIT_EXPECT_GE(test, could, kf_clock_could(1023000, 6 << 23, 0));
	kf_level_begin(&kl, &kc, U64_MAX);
	kf_level_add(&kl, could, KF_SHARE_ONE);
	KUNIT_EXPECT_FALSE(test, kf_level_rise(&kl));
	KUNIT_EXPECT_FALSE(test, kf_clock_is_awaited(kl.at, could, KF_SHARE_ONE, false));
	/* The least share of all that could do more. */
	kl = (struct kf_level){ .at = 1, .due = all, .above_share = 1 };
	KUNIT_EXPECT_TRUE(test, kf_level_rise(&kl));
	kl = (struct kf_level){ .at = U64_MAX, .due = all, .above_share = 1 };
	KUNIT_EXPECT_TRUE(test, kf_level_rise(&kl));
	KUNIT_EXPECT_GT(test, kf_per_s(U64_MAX, 0), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_per_s(4096, NSEC_PER_SEC), 4096ULL);
	kf_slowness_account(&ks, &kind, U64_MAX);
	KUNIT_EXPECT_GE(test, kf_alone_ns(&ka, &none, ks.milli, 0), ka.mix_ns);
}

/* C1: a write of 2 ms at a time does little, and whether reads take 20 us tells nothing of it. */
static void slow_requests_do_little(struct kunit *test)
{
	struct kf_alone ka = { .dir_ns = { 20 * US, 0 }, .mix_ns = 20 * US };
	const struct kf_price reads = { .work.nr = { 100, 0 } }, writes = { .work.nr = { 0, 100 } };
	const struct kf_price both = { .work.nr = { 50, 50 } }, few = { .fresh.nr = { 0, 1 } };

	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &reads, 0, 18 * US), 20 * US);
	/* No probe has seen a write: no more is known than what one took. */
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &writes, 0, 2 * MS), 2 * MS);
	ka.dir_ns[1] = 1 * MS;
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &writes, 2000, 2 * MS), 2 * MS);
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &both, 1000, 0), 510 * US);
	/* Too few for a price, as it sends a hundred in ten seconds. */
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &few, 0, 0), 1 * MS);
	/* Nothing is known yet. */
	ka = (struct kf_alone){ };
	KUNIT_EXPECT_EQ(test, kf_alone_ns(&ka, &both, 0, 0), 0ULL);
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
		kf_slowness_account(&ks, &kind, 255 * US);
	}
	KUNIT_EXPECT_EQ(test, ks.milli, 1000U);
	/* And one that takes four times as long as these. */
	ks = (struct kf_slowness){ };
	kf_slowness_account(&ks, &kind, 1020 * US);
	KUNIT_EXPECT_EQ(test, ks.milli, 4000U);
	kf_slowness_account(&ks, &(struct kf_band_kind){ }, 0);
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
		kf_band_count(kb, 0, 100 * dev->per_ms, 0, 100 * dev->per_ms * 4096ULL);
		kf_band_update(kb, dev->may_probe, now_ns);
		return now_ns;
	}
	for (i = 0; i < 1000000 && kb->phase != KF_BAND_STEADY; i++) {
		bool is_alone = kb->phase == KF_BAND_EMPTY;
		u64 io_ns = is_alone ? dev->io_ns : 3 * dev->io_ns;

		now_ns += is_alone ? io_ns : MS / dev->per_ms;
		if (!kf_band_done(kb, 0, 4096, 4096, is_alone, io_ns, now_ns))
			kf_band_update(kb, true, now_ns);
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

/*
 * 45 requests a millisecond while cgroups wait for each other, and 62 while none does: where
 * each takes 88 us five of 128 are in flight, and the CPU does no more. Where large requests
 * keep the others out, that tells nothing of the CPU.
 */
static void slack_is_no_device_rate(struct kunit *test)
{
	static const struct {
		u64 io_ns, per_s;
		bool keeps_out;
	} of[] = {
		{ 88 * US, 45000, false }, { 600 * US, 62500, false }, { 88 * US, 62500, true },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(of); i++) {
		struct kf_band kb;

		kf_band_init(&kb);
		kb.nr_all = 128;
		kb.keeps_out = of[i].keeps_out;
		kb.was_held = true;
		kf_band_count(&kb, 0, 4500, 0, 4500 * 4096ULL);
		KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 100 * MS));
		kb.phase = KF_BAND_FULL;
		for (j = 1; j <= 64; j++)
			kf_band_done(&kb, 0, 4096, 4096, false, of[i].io_ns,
				     100 * MS + j * 16 * US);
		KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 100 * MS + 1024 * US));
		KUNIT_EXPECT_EQ(test, kb.full_bytes_per_s, of[i].per_s * 4096);
	}
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
	KUNIT_EXPECT_FALSE(test, kf_band_fills(&kb));
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, false, 900 * US,
						      1000 * MS + i * MS));
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 0ULL);
	KUNIT_EXPECT_EQ(test, kb.probe_left, KF_PROBE_NR_MAX);
	for (i = 1; i < KF_PROBE_NR; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US,
						      1100 * MS + i * MS));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US, 1200 * MS));
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
	kf_band_count(&kb, 0, 30000, 0, 30000 * 4096ULL);
	kf_band_update(&kb, false, now_ns + 100 * MS);
	KUNIT_EXPECT_EQ(test, kb.full_bytes_per_s, 1ULL << 40);
	KUNIT_EXPECT_FALSE(test, kf_band_is_busy(&kb, 20));
	KUNIT_EXPECT_TRUE(test, kf_band_is_busy(&kb, 46));
	kb.was_held = true;
	kb.is_busy = true;
	kf_band_count(&kb, 0, 30000, 0, 30000 * 4096ULL);
	kf_band_update(&kb, false, now_ns + 200 * MS);
	KUNIT_EXPECT_LT(test, kb.full_bytes_per_s, 1ULL << 40);
}

/* A probe begins, and of three requests one is a write. */
static void probe_two_kinds(struct kf_band *kb)
{
	kf_band_init(kb);
	kb->kind[0].rate = 1000;
	kb->kind[1].rate = 500;
	kf_band_begin_probe(kb, 1000 * MS);
}

static void band_probes_do_not_last(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	probe_two_kinds(&kb);
	KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 1, 4096, 4096, true, 90 * US, 1000 * MS));
	for (i = 2; i < KF_PROBE_NR_MAX; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, US);
	KUNIT_EXPECT_EQ(test, kb.kind[1].alone_ns, 90 * US);
}

/* Nor is one that comes no more: it was a third, and of 48 requests 16 should have been of it. */
static void band_probes_what_there_is(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	probe_two_kinds(&kb);
	for (i = 1; i < 3 * KF_PROBE_MISSED; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, 4096, true, 0, 1000 * MS + i));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_STEADY);
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, US);
	KUNIT_EXPECT_EQ(test, kb.kind[1].alone_ns, 0ULL);
}

/* Reads first, then writes, then any; a read that comes after them tells nothing. */
static void band_probes_reads_first(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	probe_two_kinds(&kb);
	for (i = 0; i < KF_PROBE_NR; i++) {
		KUNIT_EXPECT_FALSE(test, kf_band_probes_writes(&kb));
		KUNIT_EXPECT_TRUE(test, kf_band_samples(&kb, 0, true));
		KUNIT_EXPECT_FALSE(test, kf_band_samples(&kb, 0, false));
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US,
						      1000 * MS));
	}
	for (i = 1; i < KF_PROBE_NR; i++) {
		KUNIT_EXPECT_TRUE(test, kf_band_probes_writes(&kb));
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 1, 4096, 4096, true, 20 * US,
						      1000 * MS));
	}
	KUNIT_EXPECT_FALSE(test, kf_band_samples(&kb, 0, true));
	KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 9 * MS, 1000 * MS));
	KUNIT_EXPECT_EQ(test, kb.kind[0].alone_ns, 90 * US);
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 1, 4096, 4096, true, 20 * US, 1000 * MS));
	KUNIT_EXPECT_FALSE(test, kf_band_samples(&kb, 0, true));
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
	kf_band_count(&kb, 0, 300, 0, 300 * 4096);
	kf_band_count(&kb, 1, 100, 0, 100 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, now_ns));
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

/* Few may be all that a cgroup sends: a kind that none has seen is waited for, another is not. */
static void band_probes_what_is_unknown(struct kunit *test)
{
	struct kf_band kb;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 1000;
	kb.kind[3].rate = 100;
	kf_band_begin_probe(&kb, 1000 * MS);
	for (i = 0; i < 2 * KF_PROBE_NR; i++)
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US,
						      1000 * MS + i));
	kf_band_end_probe(&kb, false, 1100 * MS);
	kb.kind[3].alone_ns = MS;
	kf_band_begin_probe(&kb, 2000 * MS);
	for (i = 1; i < KF_PROBE_NR; i++)
		kf_band_done(&kb, 0, 4096, 4096, true, 90 * US, 2000 * MS + i);
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US, 2000 * MS + i));
}

/* While cgroups wait for each other, what part of the load a kind is changes all the same. */
static void band_sees_what_comes_while_held(struct kunit *test)
{
	struct kf_band kb;
	u64 now_ns = 1000 * MS;
	unsigned int i;

	kf_band_init(&kb);
	kb.kind[0].rate = 10000;
	kb.look_ns = now_ns;
	for (i = 0; i < 20; i++) {
		now_ns += 100 * MS;
		kb.was_held = true;
		kf_band_count(&kb, 0, 300, 0, 300 * 4096);
		kf_band_count(&kb, 3, 100, 0, 100 * MIB);
		KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, now_ns));
	}
	KUNIT_EXPECT_GE(test, kb.kind[3].rate, 2400ULL);
	KUNIT_EXPECT_LE(test, kb.kind[3].rate, 2500ULL);
	KUNIT_EXPECT_GE(test, kb.kind[0].rate, 7400ULL);
}

/* What took less beside others takes no more alone; of some of them, or of few, it says nothing. */
static void quiet_time_falls_by_what_is_quicker(struct kunit *test)
{
	static const struct {
		u64 nr, nr_quick, quiet_ns;
		bool turns;
	} looks[] = {
		{ 100, 26, 1400 * US, false },
		{ 100, 25, 1600 * US, false },
		{ 7, 7, 1600 * US, false },
		{ 100, 100, 1600 * US, true },
	};
	struct kf_band kb;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(looks); i++) {
		kf_band_init(&kb);
		kb.turns = looks[i].turns;
		kb.kind[0].quiet_ns = 1600 * US;
		KUNIT_EXPECT_EQ(test, kf_quick_ns(&kb.kind[0]), 1400 * US);
		kb.look_ns = 1000 * MS;
		kf_band_count(&kb, 0, looks[i].nr, looks[i].nr_quick, looks[i].nr * 4096);
		kf_band_count(&kb, 1, KF_LOOK_NR, 0, KF_LOOK_NR * 4096);
		KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 1100 * MS));
		KUNIT_EXPECT_EQ(test, kb.kind[0].quiet_ns, looks[i].quiet_ns);
		KUNIT_EXPECT_EQ(test, kb.kind[0].nr_quick, 0ULL);
	}
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
		kf_band_count(&kb, 0, 5, 0, 5 * 4096);
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
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US,
						      then_ns + i * MS));
	KUNIT_EXPECT_TRUE(test, kf_band_done(&kb, 0, 4096, 4096, true, 90 * US, then_ns + 10 * MS));
	KUNIT_EXPECT_EQ(test, kb.probe_took_ns, 10 * MS);
	KUNIT_EXPECT_EQ(test, kb.due_ns, then_ns + 10 * MS + KF_PROBE_NS);
}

/* A look is of 32 requests, and of 90 ms. */
static void band_looks_are_long(struct kunit *test)
{
	struct kf_band kb;

	kf_band_init(&kb);
	kb.look_ns = 1000 * MS;
	kf_band_count(&kb, 0, 31, 0, 31 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, false, 9000 * MS));
	kf_band_count(&kb, 3, 1, 0, MIB);
	KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, false, 1090 * MS - 1));
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 1090 * MS));
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, (31 * 4096 + MIB) / 32);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 31ULL * 1000 / 90);
	KUNIT_EXPECT_EQ(test, kb.kind[3].rate, 1ULL * 1000 / 90);
	KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, false, 1090 * MS));
}

/* The most that requests may cost in a look, and requests that cost nothing. */
static void band_takes_any_cost(struct kunit *test)
{
	struct kf_band kb;

	kf_band_init(&kb);
	kb.look_ns = 1000 * MS;
	kf_band_count(&kb, 0, 10000000, 0, 10000000ULL << 28);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 1100 * MS));
	KUNIT_EXPECT_EQ(test, kb.mean_cost_bytes, 1ULL << 28);
	KUNIT_EXPECT_EQ(test, kb.bytes_per_s, 100000000ULL << 28);
	kf_band_count(&kb, 0, 32, 0, 0);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, false, 1200 * MS));
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

/* For one look a buffer that a probe found empty takes more than the device can do. */
static void band_rises_by_two_looks(struct kunit *test)
{
	struct device dev = { .per_ms = 100, .io_ns = 100 * US, .was_held = true };
	struct kf_band kb;
	u64 now_ns = 1000 * MS, full;

	kf_band_init(&kb);
	kb.look_ns = now_ns;
	now_ns = device_looks(&kb, now_ns, &dev, 8);
	full = kb.bytes_per_s;
	kb.full_bytes_per_s = full;
	dev.per_ms = 1000;
	now_ns = device_looks(&kb, now_ns, &dev, 1);
	KUNIT_EXPECT_EQ(test, kb.full_bytes_per_s, full);
	device_looks(&kb, now_ns, &dev, 1);
	KUNIT_EXPECT_GE(test, kb.full_bytes_per_s, 3 * full);
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
	KUNIT_EXPECT_FALSE(test, kf_band_fills(&kb));
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
	KUNIT_EXPECT_TRUE(test, kf_band_fills(&kb));
	/* As many as are in flight, which are no part of the rate. */
	for (i = 1; i < KF_CEILING_MIN; i++) {
		KUNIT_EXPECT_FALSE(test, kf_band_done(&kb, 0, 4096, 4096, false, MS,
						      now_ns + i * MS));
		KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, true, now_ns + i * MS));
	}
	kf_band_done(&kb, 0, 4096, 4096, false, MS, now_ns + i * MS);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, true, now_ns + i * MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FULL);
	KUNIT_EXPECT_EQ(test, kb.kind[0].rate, 0ULL);
	KUNIT_EXPECT_TRUE(test, kf_band_fills(&kb));
	/* A million a second: 100 at a time, so the ceiling is 300, and it was not full. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 32, 0, 32 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, true, now_ns + 32 * US));
	KUNIT_EXPECT_EQ(test, kb.bdp_milli, 100000U);
	KUNIT_EXPECT_EQ(test, kb.ceiling, 300U);
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FILL);
	/* What had queued up goes at once; the submitters wait for the CPU. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 400, 0, 400 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, true, now_ns + 2 * MS - 1));
	kf_band_count(&kb, 0, 1600, 0, 1600 * 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, true, now_ns + 2 * MS));
	KUNIT_EXPECT_EQ(test, kb.phase, KF_BAND_FULL);
	/* With as many in flight it is full: the probe ends. */
	now_ns = kb.look_ns;
	kf_band_count(&kb, 0, 299, 0, 299 * 4096);
	KUNIT_EXPECT_FALSE(test, kf_band_update(&kb, true, now_ns + 3 * MS));
	kf_band_count(&kb, 0, 1, 0, 4096);
	KUNIT_EXPECT_TRUE(test, kf_band_update(&kb, true, now_ns + 3 * MS));
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

/* A probe of a device that is busy with earlier writes, but for some of its requests. */
static void quiet_time_waits_for_nothing(struct kunit *test)
{
	struct kf_band_kind kind = { };
	unsigned int i;

	/* No probe has seen it. */
	kf_band_update_quiet(&kind, false);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 0ULL);
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = i < 10 ? 5000 + 100 * i : 495 + i - 10;
	kind.nr_alone = KF_ALONE_SAMPLES;
	kind.nr_probed = KF_ALONE_SAMPLES;
	kind.alone_ns = 5 * MS;
	kf_band_update_quiet(&kind, false);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 497 * US);
	/* All wait: it rises by an eighth of the difference. */
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = 4497;
	kf_band_update_quiet(&kind, false);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 997 * US);
	/* Another disk, and a quicker one, at once; one hit of a cache is not known to be that. */
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = i ? 80 + i : 1;
	kf_band_update_quiet(&kind, false);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 87 * US);
	/* On a disk that turns they all count, unless it only says that it does. */
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = 4000 + 1000 * i;
	kind.alone_ns = 11 * MS;
	kf_band_update_quiet(&kind, true);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 11 * MS);
	kind.alone_ns = 90 * US;
	kind.quiet_ns = 0;
	for (i = 0; i < KF_ALONE_SAMPLES; i++)
		kind.alone_us[i] = i % 3 ? 90 : 30;
	kf_band_update_quiet(&kind, true);
	KUNIT_EXPECT_EQ(test, kind.quiet_ns, 30 * US);
}

static void kinds(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_kind(false, 4096), 0U);
	KUNIT_EXPECT_EQ(test, kf_kind(true, 4096), 1U);
	KUNIT_EXPECT_EQ(test, kf_kind(false, 262144), 2U);
	KUNIT_EXPECT_EQ(test, kf_kind(true, 1048576), 3U);
}

static struct kunit_case band_cases[] = {
	KUNIT_CASE(could_has_room),
	KUNIT_CASE(slow_requests_do_little),
	KUNIT_CASE(slowness_is_to_others),
	KUNIT_CASE(slack_is_no_device_rate),
	KUNIT_CASE(models_by_time_alone),
	KUNIT_CASE(quiet_time_waits_for_nothing),
	KUNIT_CASE(band_finds_the_product),
	KUNIT_CASE(band_does_not_probe_for_one),
	KUNIT_CASE(band_samples_alone_in_a_probe),
	KUNIT_CASE(fills_at_once),
	KUNIT_CASE(band_probes_do_not_last),
	KUNIT_CASE(band_probes_reads_first),
	KUNIT_CASE(band_probes_what_there_is),
	KUNIT_CASE(band_has_all_kinds),
	KUNIT_CASE(band_probes_what_is_unknown),
	KUNIT_CASE(band_sees_what_comes_while_held),
	KUNIT_CASE(quiet_time_falls_by_what_is_quicker),
	KUNIT_CASE(band_gives_up),
	KUNIT_CASE(band_probe_soon_in_a_probe),
	KUNIT_CASE(band_looks_are_long),
	KUNIT_CASE(band_takes_any_cost),
	KUNIT_CASE(band_keeps_what_a_full_device_did),
	KUNIT_CASE(band_rises_by_two_looks),
	KUNIT_CASE(band_fills_where_it_matters),
	KUNIT_CASE(band_fills_until_full),
	KUNIT_CASE(band_sees_changes),
	KUNIT_CASE(median_is_robust),
	KUNIT_CASE(kinds),
	{ }
};

static struct kunit_suite band_suite = {
	.name = "kyber_fairness_band",
	.test_cases = band_cases,
};

kunit_test_suite(band_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of what kyber-fairness knows of the device");
