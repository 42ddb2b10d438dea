// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of budget.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../budget.h"

#define MS	1000000ULL	/* ns */
#define MIB	1048576ULL

/*
 * Figure 14 of the report, by hand: cgroups of weight 200 and 100 used 200 and
 * 100 of budget in two thirds of the 100 ms, so a full round has
 * 300 * 3/2 = 450 in it. Nothing is left over, so 300 and 150 are granted.
 */
static void figure_14(struct kunit *test)
{
	u64 first = kf_share_of(KF_SHARE_ONE, 200, 300);
	u64 second = kf_share_of(KF_SHARE_ONE, 100, 300);
	u64 pool = kf_pool_estimate_bytes(300, 200 * MS / 3, 100 * MS);

	KUNIT_EXPECT_EQ(test, pool, 450);
	/* Shares round down by less than a byte in 2^30. */
	KUNIT_EXPECT_EQ(test, kf_grant_bytes(450 * MIB, first) / MIB, 299);
	KUNIT_EXPECT_EQ(test, (kf_grant_bytes(450 * MIB, first) + 1) / MIB, 300);
	KUNIT_EXPECT_EQ(test, (kf_grant_bytes(450 * MIB, second) + 1) / MIB, 150);
}

/*
 * Figure 30 with remainders: 450 in the pool, of which the first cgroup still
 * has 60 and the second owes 30. So 450 - 60 + 30 = 420 are granted, 280 and
 * 140, and the budgets, 340 and 110, are the pool together.
 */
static void figure_30_remainders(struct kunit *test)
{
	s64 carried = 60 - 30;
	u64 spendable = kf_spendable_bytes(450 * MIB, carried * (s64)MIB, 2);
	s64 first, second;

	KUNIT_EXPECT_EQ(test, spendable, 420 * MIB);
	first = kf_grant_bytes(spendable, kf_share_of(KF_SHARE_ONE, 200, 300)) + 60 * MIB;
	second = kf_grant_bytes(spendable, kf_share_of(KF_SHARE_ONE, 100, 300)) - 30 * MIB;
	KUNIT_EXPECT_EQ(test, (first + 1) / MIB, 340);
	KUNIT_EXPECT_EQ(test, (second + 1) / MIB, 110);
	KUNIT_EXPECT_LE(test, first + second, (s64)(450 * MIB));
	KUNIT_EXPECT_GE(test, first + second, (s64)(450 * MIB) - 2);
}

struct share_case {
	const char *name;
	u64 parent;
	u32 weight;
	u32 weight_sum;
	u64 want;
};

static const struct share_case share_cases[] = {
	{ "alone", KF_SHARE_ONE, 100, 100, KF_SHARE_ONE },
	{ "half", KF_SHARE_ONE, 100, 200, KF_SHARE_ONE / 2 },
	{ "half of a quarter", KF_SHARE_ONE / 4, 500, 1000, KF_SHARE_ONE / 8 },
	{ "smallest among many", KF_SHARE_ONE, 1, 10000 * 1000, KF_SHARE_ONE / 10000000 },
	{ "largest weight, no overflow", KF_SHARE_ONE, 10000, 10000, KF_SHARE_ONE },
	{ "nobody counted", KF_SHARE_ONE, 100, 0, KF_SHARE_ONE },
};

static void share_case_name(const struct share_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(share, share_cases, share_case_name);

static void share_of_level(struct kunit *test)
{
	const struct share_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, kf_share_of(c->parent, c->weight, c->weight_sum),
			c->want);
}

/* One of weight 1000 wants little: 500, 250 and 100 share what it leaves. */
static void share_of_what_others_leave(struct kunit *test)
{
	const u64 one = KF_SHARE_ONE, rest = one * 850 / 1850;

	KUNIT_EXPECT_EQ(test, kf_share_among(one * 500 / 1850, rest) * 100 / one, 58ULL);
	KUNIT_EXPECT_EQ(test, kf_share_among(rest, rest), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(rest, 0), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(one, one), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(0, one), 0ULL);
}

/* The weights of the report's experiments: shares never sum to more than one. */
static void shares_never_exceed_one(struct kunit *test)
{
	static const u32 weights[] = { 1000, 500, 250, 100, 1, 7, 3333, 10000 };
	u64 sum = 0;
	u32 weight_sum = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		weight_sum += weights[i];
	for (i = 0; i < ARRAY_SIZE(weights); i++)
		sum += kf_share_of(KF_SHARE_ONE, weights[i], weight_sum);
	KUNIT_EXPECT_LE(test, sum, KF_SHARE_ONE);
	KUNIT_EXPECT_GE(test, sum, KF_SHARE_ONE - ARRAY_SIZE(weights));
}

static void estimate_extremes(struct kunit *test)
{
	/* No time at all, and much more used than any device serves. */
	KUNIT_EXPECT_EQ(test, kf_pool_estimate_bytes(4096, 0, 2 * MS), 4096ULL << 18);
	KUNIT_EXPECT_GT(test, kf_pool_estimate_bytes(U64_MAX, 0, 1000 * MS), 0ULL);
	/* An hour without I/O, then one request. */
	KUNIT_EXPECT_EQ(test, kf_pool_estimate_bytes(4096, 3600 * 1000 * MS, 2 * MS), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_pool_estimate_bytes(0, 2 * MS, 2 * MS), 0ULL);
}

static void pool_follows_by_steps(struct kunit *test)
{
	/* Figure 14: 67 ms of a round of 100 tell all. */
	KUNIT_EXPECT_EQ(test, kf_pool_follow_bytes(450, 300, 67 * MS, 100 * MS), 450ULL);
	/* A millisecond of rounds of one does not, nor no time at all. */
	KUNIT_EXPECT_EQ(test, kf_pool_follow_bytes(450, 50, MS, MS), 150ULL);
	KUNIT_EXPECT_EQ(test, kf_pool_follow_bytes(50, 450, MS, MS), 350ULL);
	KUNIT_EXPECT_EQ(test, kf_pool_follow_bytes(50, 450, 0, MS), 450ULL);
	KUNIT_EXPECT_EQ(test, kf_pool_follow_bytes(U64_MAX, 1, MS, 4 * MS), U64_MAX / 16 + 1);
	KUNIT_EXPECT_EQ(test, kf_pool_next_bytes(450 * MIB, 300 * MIB, 2), 450 * MIB);
	KUNIT_EXPECT_EQ(test, kf_pool_next_bytes(100 * MIB, MIB, 2), 2 * MIB);
	KUNIT_EXPECT_EQ(test, kf_pool_next_bytes(0, MIB, 2), MIB / 2);
	KUNIT_EXPECT_EQ(test, kf_pool_next_bytes(0, 0, 0), KF_POOL_MIN_BYTES);
	KUNIT_EXPECT_EQ(test, kf_pool_next_bytes(0, 0, 1000), 1000 * KF_POOL_MIN_BYTES);
}

/*
 * The report's open problem: a cgroup that uses nothing of what it is granted
 * must not gather the pool in its hands. Run figure 30 for it round after
 * round: the others' part of the pool stays as it is.
 */
static void unused_budget_is_bounded(struct kunit *test)
{
	const u64 pool = 4 * MIB, share = KF_SHARE_ONE / 2;
	s64 lazy = 0;
	int round;

	for (round = 0; round < 100; round++) {
		s64 carry = kf_carry_bytes(lazy, kf_grant_bytes(pool, share), 4096);
		/* It does not wait: what it carries is not counted. */
		u64 spendable = kf_spendable_bytes(pool, 0, 2);

		lazy = carry + kf_grant_bytes(spendable, share);
		KUNIT_EXPECT_GE(test, kf_grant_bytes(spendable, share),
				(s64)pool / 4);
	}
	KUNIT_EXPECT_LE(test, lazy, (KF_CARRY_ROUNDS + 1) * (s64)pool / 2);
}

static void carry_keeps_debts(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_carry_bytes(-(s64)MIB, 4096, 4096), -(s64)MIB);
	KUNIT_EXPECT_EQ(test, kf_carry_bytes(5000, 4096, 4096), 5000);
	KUNIT_EXPECT_EQ(test, kf_carry_bytes(1 << 20, 4096, 4096), 8 * 4096);
	/* Requests of 128 KiB do not fit into eight rounds of 4. */
	KUNIT_EXPECT_EQ(test, kf_carry_bytes(1 << 20, 4096, 131072), 4 * 131072);
}

/* A tenth of the time, and never more than a round is saved up. */
static void holding_is_bounded(struct kunit *test)
{
	const u64 round = 500 * NSEC_PER_USEC;

	KUNIT_EXPECT_EQ(test, kf_hold_credit_ns(0, round, round, 10), round / 10);
	KUNIT_EXPECT_EQ(test, kf_hold_credit_ns(7, 1000, round, 10), 107);
	KUNIT_EXPECT_EQ(test, kf_hold_credit_ns(round, round, round, 10), round);
	KUNIT_EXPECT_EQ(test, kf_hold_credit_ns(0, U64_MAX, round, 10), round);
	KUNIT_EXPECT_EQ(test, kf_hold_credit_ns(round, round, round, 0), 0);
}

/* Paid for at first; free while the rate stays; given up for longer each time it falls. */
static void holds_are_tried(struct kunit *test)
{
	struct kf_hold_trial ht = {};
	unsigned int i, nr_free = 0;

	for (i = 0; i < KF_HOLD_PAUSE_MIN; i++) {
		KUNIT_EXPECT_FALSE(test, ht.is_free);
		kf_hold_try(&ht, 1000);
	}
	KUNIT_EXPECT_TRUE(test, ht.is_free);
	kf_hold_try(&ht, 901);
	KUNIT_EXPECT_TRUE(test, ht.is_free);
	kf_hold_try(&ht, 885);	/* of 985: a little of the 1,000 is forgotten */
	KUNIT_EXPECT_FALSE(test, ht.is_free);
	for (i = 0; i < 2 * KF_HOLD_PAUSE_MIN; i++) {
		KUNIT_EXPECT_FALSE(test, ht.is_free);
		kf_hold_try(&ht, 1000);
	}
	KUNIT_EXPECT_TRUE(test, ht.is_free);

	/* A device on which free holds halve the rate: tried less than once in 100. */
	for (i = 0; i < 10000; i++) {
		kf_hold_try(&ht, ht.is_free ? 500 : 1000);
		nr_free += ht.is_free;
	}
	KUNIT_EXPECT_LT(test, nr_free, 100U);
	KUNIT_EXPECT_EQ(test, ht.pause, KF_HOLD_PAUSE_MAX);

	/* What was the best is forgotten: a load that became lighter is no loss. */
	ht.is_free = true;
	ht.best_rate = 1000;
	for (i = 0; i < 100; i++)
		kf_hold_try(&ht, 990 - i * 5);
	KUNIT_EXPECT_TRUE(test, ht.is_free);
}

/* A number in 0..@most - 1 that looks like chance. */
static u64 dice(u32 *state, u32 most)
{
	*state = *state * 1664525 + 1013904223;
	return ((u64)*state * most) >> 32;
}

/*
 * What kf_mix_rate() says of a device that spends @read_us of its time on a read and
 * @write_us on a write, of @busy_permille of a second, from the 40th look on: the reads
 * are @reads a second, give or take a fifteenth by chance.
 */
static struct kf_mix rates_of_mix(u64 reads, u64 read_us, u64 write_us,
				  u64 busy_permille, u64 *least, u64 *most)
{
	struct kf_mix mix = {};
	u32 state = 1;
	unsigned int i;

	*least = U64_MAX;
	*most = 0;
	for (i = 0; i < 80; i++) {
		u64 now = reads - reads / 15 + dice(&state, reads * 2 / 15 + 1);
		u64 left_us = 1000 * busy_permille - now * read_us;
		u64 rate = kf_mix_rate(&mix, now, left_us / write_us, true);

		if (i < 40)
			continue;
		*least = min(*least, rate);
		*most = max(*most, rate);
	}
	return mix;
}

static void work_of_a_mix(struct kunit *test)
{
	struct kf_mix mix = {};
	u64 least, most;
	unsigned int i;

	/* Reads take no time beside the writes: 4,545 requests, within a hundredth. */
	mix = rates_of_mix(2273, 0, 440, 1000, &least, &most);
	KUNIT_EXPECT_FALSE(test, kf_mix_is_busy_with(&mix, 0));
	KUNIT_EXPECT_TRUE(test, kf_mix_is_busy_with(&mix, 1));
	KUNIT_EXPECT_GE(test, least, 4500ULL);
	KUNIT_EXPECT_LE(test, most, 4600ULL);
	/* They take a third of it: as many, where plain counting gives 5 % more and less. */
	mix = rates_of_mix(2273, 147, 293, 1000, &least, &most);
	KUNIT_EXPECT_TRUE(test, kf_mix_is_busy_with(&mix, 0));
	KUNIT_EXPECT_TRUE(test, kf_mix_is_busy_with(&mix, 1));
	KUNIT_EXPECT_GE(test, least, 4490ULL);
	KUNIT_EXPECT_LE(test, most, 4600ULL);
	/* The device does 5 % less. */
	rates_of_mix(2159, 147, 293, 950, &least, &most);
	KUNIT_EXPECT_GE(test, least, 4260ULL);
	KUNIT_EXPECT_LE(test, most, 4370ULL);

	/* No mix: what is counted. */
	mix = (struct kf_mix){};
	for (i = 0; i < 40; i++)
		KUNIT_EXPECT_EQ(test, kf_mix_rate(&mix, 10000 + i, 0, true), 10000ULL + i);
	KUNIT_EXPECT_TRUE(test, kf_mix_is_busy_with(&mix, 0));
	/* Where nothing varies as well, and of another load at once. */
	for (i = 0; i < 40; i++)
		most = kf_mix_rate(&mix, 1000, 3000, true);
	KUNIT_EXPECT_GE(test, most, 3999ULL);
	KUNIT_EXPECT_LE(test, most, 4000ULL);
	/* Nonsense gives a number, not a fault. */
	kf_mix_rate(&mix, U64_MAX, U64_MAX, true);
	kf_mix_rate(&mix, 0, 1, true);
	kf_mix_rate(&mix, 0, 0, true);
	KUNIT_EXPECT_EQ(test, kf_mix_rate(&mix, 0, 0, true), 0ULL);
}

/*
 * Completions in a look of a device that works on so many at a time, of which up to
 * @load are sent; @dice is how much chance there is in it, in permille.
 */
static u64 rate_of(u64 load, u64 most, u64 at_once, u64 dice)
{
	u64 inside = most ? min(load, most) : load;

	return 100 * min(inside, at_once) * (1000 - dice) / 1000;
}

/* What is inside when it is settled. */
static u64 inside_of_use(struct kf_inside_trial *it, u64 load, u64 least, u64 at_once)
{
	unsigned int i;

	for (i = 0; i < 2000; i++)
		kf_inside_try(it, min(load, it->most ?: load), least,
			      rate_of(load, it->most, at_once, i * 7 % 10));
	while (it->step)
		kf_inside_try(it, min(load, it->most ?: load), least,
			      rate_of(load, it->most, at_once, 5));
	return min(load, it->most ?: load);
}

static void inside_by_rate(struct kunit *test)
{
	struct kf_inside_trial it = {};
	unsigned int i, nr_lost = 0;

	/* At first any number; then as many as the device works on, and up to a third more. */
	kf_inside_try(&it, 248, 40, 12000);
	KUNIT_EXPECT_EQ(test, it.most, 0ULL);
	KUNIT_EXPECT_GE(test, inside_of_use(&it, 248, 40, 120), 119ULL);
	KUNIT_EXPECT_LE(test, it.most, 160ULL);
	/* Tries that lose something become few. */
	for (i = 0; i < 10000; i++) {
		u64 rate = rate_of(248, it.most, 120, 0);

		nr_lost += rate < 11800;
		kf_inside_try(&it, it.most ?: 248, 40, rate);
	}
	KUNIT_EXPECT_LT(test, nr_lost, 50U);
	KUNIT_EXPECT_GE(test, it.most, 119ULL);

	/* Not fewer than are needed by what is known, and a third, whatever the rate says. */
	KUNIT_EXPECT_GE(test, inside_of_use(&it, 248, 110, 20), 146ULL);

	/* A device that can do twice as much: what was found does not hold it down. */
	kf_inside_forget(&it, 4000);
	KUNIT_EXPECT_LE(test, inside_of_use(&it, 248, 8, 40), 54ULL);
	KUNIT_EXPECT_GE(test, inside_of_use(&it, 248, 8, 80), 79ULL);
	KUNIT_EXPECT_GE(test, inside_of_use(&it, 248, 8, 200), 198ULL);

	/* Another load has another rate: from the beginning, but not for a moment of it. */
	i = it.most;
	kf_inside_try(&it, i, 8, it.best_rate / 2);
	kf_inside_try(&it, i, 8, it.best_rate);
	kf_inside_try(&it, i, 8, it.best_rate * 2);
	KUNIT_EXPECT_EQ(test, it.most, (u64)i);
	kf_inside_try(&it, i, 8, it.best_rate * 2);
	KUNIT_EXPECT_EQ(test, it.most, 0ULL);
	KUNIT_EXPECT_EQ(test, it.step, 0);

	/* A serial device that does no more with two than with one. */
	KUNIT_EXPECT_LE(test, inside_of_use(&it, 248, 8, 1), 13ULL);
	KUNIT_EXPECT_GE(test, it.most, 10ULL);
}

/*
 * The P4500's figures: 12K reads a second of 85 us at depth 1, 490K at 128.
 * Weights 1000, 500, 250, 100 and 32 requests each allow 59 inside.
 */
static void inside_by_share(struct kunit *test)
{
	const u64 sec = NSEC_PER_SEC;

	/* 41.65 at once at full rate, half as many again, rounded up. */
	KUNIT_EXPECT_EQ(test, kf_inside_least(490000, sec, 85000, 150), 63ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_least(49000, sec / 10, 85000, 300), 125ULL);
	/* One at a time: it asks for more than that one. */
	KUNIT_EXPECT_EQ(test, kf_inside_least(11765, sec, 85000, 150), 2ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_least(0, sec, 85000, 150), 1ULL);
	/* Nonsense gives a number, not a fault. */
	KUNIT_EXPECT_GT(test, kf_inside_least(U64_MAX, 1, U64_MAX / 2, 1000), 0ULL);

	KUNIT_EXPECT_EQ(test, kf_inside_for(32, KF_SHARE_ONE * 1000 / 1850), 59ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_for(32, KF_SHARE_ONE), 32ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_for(1, KF_SHARE_ONE / 2), 2ULL);

	/* Not quite what the cgroup can fill; less of that among large requests. */
	KUNIT_EXPECT_EQ(test, kf_inside_most(59, 4096, 4096), 58ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_most(59, 4096, 8192), 58ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_most(129, 4096, 131072), 113ULL);

	/* 54 keep the P4500 busy: 58. 8 keep another one busy: 45. */
	/* A share is missed: at once to what the cgroup can fill, then by steps. */
	KUNIT_EXPECT_EQ(test, kf_inside_next(U32_MAX, 58, 8, 11, 11, 10), 58ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(58, 58, 8, 11, 11, 10), 56ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(58, 58, 8, 41, 41, 10), 54ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(58, 58, 8, 501, 501, 10), 43ULL);
	/* Not below half of it, nor below what keeps the device busy. */
	KUNIT_EXPECT_EQ(test, kf_inside_next(30, 58, 8, 11, 11, 10), 29ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(29, 58, 8, 999, 999, 10), 29ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(55, 58, 54, 11, 11, 10), 54ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(58, 58, 63, 11, 11, 10), 63ULL);
	/* As it is while the error is about what is tolerated, then more. */
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 5, 5, 10), 50ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 10, 10, 10), 50ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 4, 4, 10), 51ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 1, 1, 10), 52ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(58, 58, 8, 0, 0, 10), 58ULL);
	/* What was missed before is neither missed again nor forgotten. */
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 0, 99, 10), 50ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_next(50, 58, 8, 11, 99, 10), 48ULL);
	/* Nothing is missed: any, as before. */
	KUNIT_EXPECT_EQ(test, kf_inside_next(U32_MAX, 58, 8, 4, 4, 10), (u64)U32_MAX);
	KUNIT_EXPECT_EQ(test, kf_permille(1, 99), 10ULL);
	KUNIT_EXPECT_EQ(test, kf_permille(0, 0), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_permille(U64_MAX, U64_MAX), 500ULL);
}

/* What is shared is bytes; what is inside is requests. */
static void requests_by_share(struct kunit *test)
{
	u64 small = kf_requests_for(KF_SHARE_ONE / 2, 4096);
	u64 large = kf_requests_for(KF_SHARE_ONE / 2, 131072);
	u32 mean = 4096;
	int i;

	/* 128 of 4 KiB are inside when 4 of 128 KiB are. */
	KUNIT_EXPECT_EQ(test, kf_inside_for(128, kf_request_share(small, small + large)),
			132ULL);
	KUNIT_EXPECT_EQ(test, kf_inside_for(4, kf_request_share(large, small + large)),
			132ULL);
	/* All alike: the share itself, to a millionth. */
	small = kf_request_share(kf_requests_for(KF_SHARE_ONE / 4, 4096),
				 kf_requests_for(KF_SHARE_ONE, 4096));
	KUNIT_EXPECT_EQ(test, small, KF_SHARE_ONE / 4);
	/* Nonsense gives a share, not a fault. */
	KUNIT_EXPECT_GT(test, kf_request_share(0, 0), 0ULL);
	KUNIT_EXPECT_GT(test, kf_request_share(kf_requests_for(KF_SHARE_ONE, 0), U64_MAX), 0ULL);

	for (i = 0; i < 200; i++)
		mean = kf_mean_cost_bytes(mean, 131072);
	KUNIT_EXPECT_GE(test, mean, 131000U);
	for (i = 0; i < 200; i++)
		mean = kf_mean_cost_bytes(mean, 512);
	KUNIT_EXPECT_LE(test, mean, 528U);
}

static void round_follows_the_device(struct kunit *test)
{
	const u64 us = NSEC_PER_USEC;

	KUNIT_EXPECT_EQ(test, kf_round_ns(500 * us, 0, 50), 500 * us);
	KUNIT_EXPECT_EQ(test, kf_round_ns(500 * us, 850 * us, 50), 425 * us);
	KUNIT_EXPECT_EQ(test, kf_round_ns(500 * us, 850 * us, 30), 255 * us);
	KUNIT_EXPECT_EQ(test, kf_round_ns(500 * us, 8000 * us, 50), 500 * us);
	KUNIT_EXPECT_EQ(test, kf_round_ns(500 * us, 1, 50), KF_ROUND_NS_MIN);
	/* The least does not go beyond the most. */
	KUNIT_EXPECT_EQ(test, kf_round_ns(10 * us, 1, 50), 10 * us);
	/* The report's: 100 ms, whatever a request takes. */
	KUNIT_EXPECT_EQ(test, kf_round_ns(100000 * us, 85 * us, 0), 100000 * us);
}

static void spendable_is_never_nothing(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_spendable_bytes(MIB, 2 * MIB, 3), 3 * KF_POOL_MIN_BYTES);
	KUNIT_EXPECT_EQ(test, kf_grant_bytes(4096, 1), 1);
}

/* A debt of 1 MiB at 4 KiB a round: 256 rounds to zero, one more to go on. */
static void rounds_to_spend(struct kunit *test)
{
	s64 debt = -(s64)MIB;
	u64 rounds = kf_rounds_to_spend(debt, 4096);

	KUNIT_EXPECT_EQ(test, rounds, 257);
	KUNIT_EXPECT_GT(test, debt + (s64)rounds * 4096, 0);
	KUNIT_EXPECT_LE(test, debt + ((s64)rounds - 1) * 4096, 0);
	KUNIT_EXPECT_EQ(test, kf_rounds_to_spend(1, 4096), 0);
	KUNIT_EXPECT_EQ(test, kf_rounds_to_spend(0, 4096), 1);
}

/*
 * Exact shares from short rounds and large requests: two cgroups of weight
 * 1000 and 100 that always have requests of 1 MiB waiting, a pool of 1/4 MiB.
 * After 2200 requests they differ from 10 to 1 by less than two requests.
 */
static void large_requests_share_exactly(struct kunit *test)
{
	const u64 share[2] = {
		kf_share_of(KF_SHARE_ONE, 1000, 1100),
		kf_share_of(KF_SHARE_ONE, 100, 1100),
	};
	s64 budget[2] = { 0, 0 };
	u64 served[2] = { 0, 0 };
	u64 pool = MIB / 4;
	int i;

	while (served[0] + served[1] < 2200) {
		u64 spendable, rounds;

		if (budget[0] <= 0 && budget[1] <= 0) {
			spendable = kf_spendable_bytes(pool, budget[0] + budget[1], 2);
			rounds = U64_MAX;
			for (i = 0; i < 2; i++) {
				s64 grant = kf_grant_bytes(spendable, share[i]);

				rounds = min(rounds, 1 +
					     kf_rounds_to_spend(budget[i] + grant,
								grant));
			}
			for (i = 0; i < 2; i++)
				budget[i] += kf_grant_bytes(spendable, share[i]) * (s64)rounds;
		}
		for (i = 0; i < 2; i++) {
			if (budget[i] > 0) {
				budget[i] -= MIB;
				served[i]++;
			}
		}
	}
	KUNIT_EXPECT_GE(test, served[0], 1998ULL);
	KUNIT_EXPECT_LE(test, served[0], 2002ULL);
}

static void rounds_to_fill(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, kf_rounds_to_fill(KF_SHARE_ONE), 1);
	KUNIT_EXPECT_EQ(test, kf_rounds_to_fill(KF_SHARE_ONE - 3), 1);
	KUNIT_EXPECT_EQ(test, kf_rounds_to_fill(KF_SHARE_ONE / 100), 100);
	KUNIT_EXPECT_EQ(test, kf_rounds_to_fill(0), KF_SHARE_ONE);
}

/* 64 tags, the weights of the report's experiments: 34.6 for the heaviest. */
static void tags_by_share(struct kunit *test)
{
	u64 most = kf_share_of(KF_SHARE_ONE, 1000, 1850);
	u64 least = kf_share_of(KF_SHARE_ONE, 1, 10000);

	KUNIT_EXPECT_EQ(test, kf_own_tags(64, most), 35);
	KUNIT_EXPECT_EQ(test, kf_own_tags(64, least), KF_TAGS_MIN);
	KUNIT_EXPECT_EQ(test, kf_own_tags(64, KF_SHARE_ONE), 64);
	/* As few as there can be. */
	KUNIT_EXPECT_EQ(test, kf_own_tags(1, least), KF_TAGS_MIN);
}

static void levels_in_quarters_of_a_round(struct kunit *test)
{
	u64 per_byte = kf_levels_per_byte(40000);

	KUNIT_EXPECT_EQ(test, kf_level(0, per_byte), 0);
	KUNIT_EXPECT_EQ(test, kf_level(-1, per_byte), 0);
	KUNIT_EXPECT_EQ(test, kf_level(9999, per_byte), 0);
	KUNIT_EXPECT_EQ(test, kf_level(10001, per_byte), 1);
	KUNIT_EXPECT_EQ(test, kf_level(39999, per_byte), 3);
	KUNIT_EXPECT_EQ(test, kf_level(40001, per_byte), 4);
	/* Cgroups of any share that have had as little of it are equal. */
	KUNIT_EXPECT_EQ(test, kf_level(7001, kf_levels_per_byte(1000)),
			kf_level(280001, per_byte));
	/* The last one is open, whatever the sizes. */
	KUNIT_EXPECT_EQ(test, kf_level(S64_MAX, per_byte), KF_NR_LEVELS - 1);
	KUNIT_EXPECT_EQ(test, kf_level(1 << 30, kf_levels_per_byte(1)),
			KF_NR_LEVELS - 1);
	KUNIT_EXPECT_EQ(test, kf_level(1, kf_levels_per_byte(1)), 4);
	KUNIT_EXPECT_EQ(test, kf_level(1, kf_levels_per_byte(S64_MAX)), 0);
}

static void reads_and_writes_by_their_wait(struct kunit *test)
{
	/* In order of arrival, however long ago it was. */
	KUNIT_EXPECT_TRUE(test, kf_write_goes_first(1000, 600, 500, 100));
	KUNIT_EXPECT_FALSE(test, kf_write_goes_first(1000, 500, 600, 100));
	/* Of two that came together the write: a read's turn comes by itself. */
	KUNIT_EXPECT_TRUE(test, kf_write_goes_first(1000, 500, 500, 100));
	/* Up to three times as long as the read. */
	KUNIT_EXPECT_FALSE(test, kf_write_goes_first(1000, 900, 701, 300));
	KUNIT_EXPECT_TRUE(test, kf_write_goes_first(1000, 900, 700, 300));
	KUNIT_EXPECT_FALSE(test, kf_write_goes_first(1000, 800, 401, 300));
	/* A clock of another CPU that is ahead: they have not waited. */
	KUNIT_EXPECT_TRUE(test, kf_write_goes_first(1000, 1500, 900, 10000));
	KUNIT_EXPECT_FALSE(test, kf_write_goes_first(1000, 900, 1500, 10000));
	/* Nothing wraps. */
	KUNIT_EXPECT_TRUE(test, kf_write_goes_first(U64_MAX, U64_MAX - 1, 0, 10000));
	KUNIT_EXPECT_FALSE(test, kf_write_goes_first(U64_MAX, 0, U64_MAX - 1, 10000));
}

static void urgent_debts_are_bounded(struct kunit *test)
{
	s64 most = kf_carry_most_bytes(4096, 4096);
	s64 left = 4096;
	int i;

	KUNIT_EXPECT_EQ(test, most, 8 * 4096);
	/* In full while that is no more than may be owed, then what is left of it. */
	KUNIT_EXPECT_EQ(test, kf_urgent_charge_bytes(left, most, 16384), 16384);
	KUNIT_EXPECT_EQ(test, kf_urgent_charge_bytes(-most + 100, most, 16384), 100);
	KUNIT_EXPECT_EQ(test, kf_urgent_charge_bytes(-most, most, 16384), 0);
	/* A debt of other requests, which may be larger, does not grow. */
	KUNIT_EXPECT_EQ(test, kf_urgent_charge_bytes(-(s64)MIB, most, 16384), 0);
	/* A journal that writes twice its share for ever owes no more than that. */
	for (i = 0; i < 100000; i++) {
		left += 4096;
		left -= kf_urgent_charge_bytes(left, most, 8192);
	}
	KUNIT_EXPECT_EQ(test, left, -most);
	/* So much longer is everybody's round, of a device with two active cgroups. */
	KUNIT_EXPECT_EQ(test, kf_spendable_bytes(8192, left, 2), 8192 + most);
}

static struct kunit_case budget_cases[] = {
	KUNIT_CASE(figure_14),
	KUNIT_CASE(figure_30_remainders),
	KUNIT_CASE_PARAM(share_of_level, share_gen_params),
	KUNIT_CASE(share_of_what_others_leave),
	KUNIT_CASE(shares_never_exceed_one),
	KUNIT_CASE(estimate_extremes),
	KUNIT_CASE(pool_follows_by_steps),
	KUNIT_CASE(unused_budget_is_bounded),
	KUNIT_CASE(carry_keeps_debts),
	KUNIT_CASE(urgent_debts_are_bounded),
	KUNIT_CASE(holding_is_bounded),
	KUNIT_CASE(holds_are_tried),
	KUNIT_CASE(work_of_a_mix),
	KUNIT_CASE(inside_by_rate),
	KUNIT_CASE(inside_by_share),
	KUNIT_CASE(requests_by_share),
	KUNIT_CASE(round_follows_the_device),
	KUNIT_CASE(spendable_is_never_nothing),
	KUNIT_CASE(rounds_to_spend),
	KUNIT_CASE(large_requests_share_exactly),
	KUNIT_CASE(rounds_to_fill),
	KUNIT_CASE(tags_by_share),
	KUNIT_CASE(levels_in_quarters_of_a_round),
	KUNIT_CASE(reads_and_writes_by_their_wait),
	{ }
};

static struct kunit_suite budget_suite = {
	.name = "kyber_fairness_budget",
	.test_cases = budget_cases,
};

kunit_test_suite(budget_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' budget arithmetic");
