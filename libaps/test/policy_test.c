// SPDX-License-Identifier: MIT
/* The policy, without a device. */
#include "../src/decide.c"
#include "tap.h"

#define IDLE 0u
#define FULL APS_PPM_ONE
#define NO_NEED 0u

static const struct aps_options defaults = {
	.mode = APS_ADAPTIVE, .depth = 64,
	.hybrid_sleep_ppm = 500000, .deep_sleep_ppm = 900000,
	.min_sleep_ns = 2000, .max_sleep_ns = 10000000, .sample_ns = 20000000,
};

static struct aps_policy fresh(enum aps_mode mode)
{
	struct aps_options o = defaults;
	struct aps_policy p;

	o.mode = mode;
	aps_policy_init(&p, &o);
	return p;
}

static void times(struct aps_policy *p, unsigned int nr, uint64_t ns)
{
	while (nr--)
		aps_policy_time(p, APS_DIR_READ, 0, ns);
}

static void loads(struct aps_policy *p, unsigned int nr, uint32_t ppm)
{
	while (nr--)
		aps_policy_load(p, ppm);
}

static struct aps_choice choose(const struct aps_policy *p, uint32_t util, uint32_t need)
{
	return aps_policy_choose(p, APS_DIR_READ, 0, util, need);
}

static void size_classes_end_at_their_limits(void)
{
	EXPECT_EQ(aps_size_class(1), 0);
	EXPECT_EQ(aps_size_class(4096), 0);
	EXPECT_EQ(aps_size_class(4097), 1);
	EXPECT_EQ(aps_size_class(16384), 1);
	EXPECT_EQ(aps_size_class(65536), 2);
	EXPECT_EQ(aps_size_class(262144), 3);
	EXPECT_EQ(aps_size_class(262145), 4);
	EXPECT_EQ(aps_size_class(SIZE_MAX), 4);
}

static void fixed_modes_ignore_the_margin(void)
{
	static const struct { enum aps_mode mode; enum aps_wait_kind kind; } cases[] = {
		{ APS_INTERRUPT, APS_WAIT_INTERRUPT },
		{ APS_POLL, APS_WAIT_POLL },
		{ APS_HYBRID, APS_WAIT_HYBRID },
		{ APS_RING_HYBRID, APS_WAIT_HYBRID },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct aps_policy p = fresh(cases[i].mode);

		times(&p, 16, 10000);
		EXPECT_EQ(choose(&p, IDLE, NO_NEED).kind, cases[i].kind);
		loads(&p, 16, FULL);
		EXPECT_EQ(choose(&p, FULL, FULL).kind, cases[i].kind);
	}
}

static void margin_is_of_now_and_of_16_completions(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);

	EXPECT_EQ(aps_policy_margin_ppm(&p, 250000), 750000);
	loads(&p, 1, 750000);
	EXPECT_EQ(aps_policy_margin_ppm(&p, 250000), 500000);
	loads(&p, 16, FULL);
	EXPECT_EQ(aps_policy_margin_ppm(&p, IDLE), APS_PPM_ONE - 16 * APS_PPM_ONE / 17);
	EXPECT_EQ(aps_policy_margin_ppm(&p, 5 * FULL), 0);
	/* They are forgotten. */
	loads(&p, 16, IDLE);
	EXPECT_EQ(aps_policy_margin_ppm(&p, IDLE), FULL);
}

static void thresholds_choose_the_wait(void)
{
	static const struct { uint32_t margin; enum aps_wait_kind kind; } cases[] = {
		{ 1000000, APS_WAIT_HYBRID }, { 937500, APS_WAIT_HYBRID },
		{ 937499, APS_WAIT_DEEP }, { 0, APS_WAIT_DEEP },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct aps_policy p = fresh(APS_ADAPTIVE);

		times(&p, 16, 10000);
		EXPECT_EQ(choose(&p, FULL - cases[i].margin, NO_NEED).kind, cases[i].kind);
		EXPECT_EQ(choose(&p, FULL - cases[i].margin, NO_NEED).margin_ppm, cases[i].margin);
	}
}

static void sleeps_lightly_only_where_all_fit(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);

	times(&p, 16, 10000);
	/* 2 of 4 CPUs needed, 3 left, and all. */
	EXPECT_EQ(choose(&p, 250000, 500000).kind, APS_WAIT_DEEP);
	EXPECT_EQ(choose(&p, 0, 500000).kind, APS_WAIT_HYBRID);
	/* 4 of 4 needed: all left, all but a trace of others, 3 left. */
	EXPECT_EQ(choose(&p, 0, FULL).kind, APS_WAIT_HYBRID);
	EXPECT_EQ(choose(&p, 41000, FULL).kind, APS_WAIT_HYBRID);
	EXPECT_EQ(choose(&p, 250000, FULL).kind, APS_WAIT_DEEP);
	/* 4 threads on one CPU. */
	EXPECT_EQ(choose(&p, 0, 4 * FULL).kind, APS_WAIT_DEEP);
	EXPECT_EQ(choose(&p, 0, UINT32_MAX).kind, APS_WAIT_DEEP);
}

/* I/Os of the class, of which each is complete at the end of a light sleep above so much. */
static void light_sleeps(struct aps_policy *p, unsigned int nr, uint64_t ns)
{
	while (nr--)
		aps_policy_slept(p, APS_DIR_READ, 0, choose(p, IDLE, NO_NEED).sleep_ns > ns);
}

static void a_light_sleep_is_rarely_too_long(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);
	unsigned int i, too_long = 0;

	times(&p, 16, 10000);
	/* It begins as hybrid's, and grows to what the thread's waking leaves. */
	EXPECT_EQ(choose(&p, IDLE, NO_NEED).sleep_ns, 5000);
	light_sleeps(&p, 200, 8000);
	for (i = 0; i < 1700; i++) {
		uint64_t ns = choose(&p, IDLE, NO_NEED).sleep_ns;

		EXPECT_BETWEEN(ns, 7300, 8100);
		too_long += ns > 8000;
		aps_policy_slept(&p, APS_DIR_READ, 0, ns > 8000);
	}
	EXPECT_BETWEEN(too_long, 90, 110);
	/* Not above a deep one's. */
	light_sleeps(&p, 1000, 20000);
	EXPECT_EQ(choose(&p, IDLE, NO_NEED).sleep_ns, 9000);
	/* A machine that wakes late has it poll. */
	light_sleeps(&p, 20, 0);
	EXPECT_EQ(choose(&p, IDLE, NO_NEED).sleep_ns, 0);
	EXPECT_EQ(choose(&p, IDLE, NO_NEED).kind, APS_WAIT_POLL);
	/* And tries again. */
	light_sleeps(&p, 60, 8000);
	EXPECT(choose(&p, IDLE, NO_NEED).sleep_ns > 2000);
	/* Of other sizes nothing was learnt, and nothing of a deep sleep. */
	EXPECT_EQ(p.times[APS_DIR_READ][1].light_ppm, 500000);
	EXPECT_EQ(choose(&p, FULL, NO_NEED).sleep_ns, 9000);
}

static void sleeps_are_parts_of_the_mean(void)
{
	struct aps_policy p = fresh(APS_HYBRID);

	EXPECT_EQ(choose(&p, 0, 0).sleep_ns, 0); /* nothing is known */
	times(&p, 8, 10000);
	times(&p, 8, 20000);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 15000);
	EXPECT_EQ(choose(&p, 0, 0).sleep_ns, 7500);
	EXPECT_EQ(choose(&p, 0, 0).nap_ns, 0);

	p.opts.mode = APS_ADAPTIVE;
	EXPECT_EQ(choose(&p, FULL, 0).kind, APS_WAIT_DEEP);
	EXPECT_EQ(choose(&p, FULL, 0).sleep_ns, 13500);
	times(&p, 16, 80000);
	EXPECT_EQ(choose(&p, FULL, 0).nap_ns, aps_policy_mean_ns(&p, APS_DIR_READ, 0) / 8);
}

static void short_sleeps_are_spun_and_long_ones_cut(void)
{
	struct aps_policy p = fresh(APS_HYBRID);

	times(&p, 16, 3999);
	EXPECT_EQ(choose(&p, 0, 0).sleep_ns, 0);
	times(&p, 16, 4000);
	EXPECT_EQ(choose(&p, 0, 0).sleep_ns, 2000);
	p = fresh(APS_HYBRID);
	times(&p, 16, 60000000);
	EXPECT_EQ(choose(&p, 0, 0).sleep_ns, 10000000);
	/* A deep wait never spins: a disk of 5 to 16 us has the shortest nap. */
	p = fresh(APS_ADAPTIVE);
	times(&p, 16, 12000);
	EXPECT_EQ(choose(&p, FULL, 0).sleep_ns, 10800);
	EXPECT_EQ(choose(&p, FULL, 0).nap_ns, 2000);
	p = fresh(APS_ADAPTIVE);
	times(&p, 16, 200000000);
	EXPECT_EQ(choose(&p, FULL, 0).nap_ns, 10000000);
}

static void an_outlier_moves_little_and_is_forgotten(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);

	times(&p, 16, 10000);
	times(&p, 1, 14400000);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 10000 + 10000 / 16);
	EXPECT(choose(&p, FULL, 0).sleep_ns < 10000);
	times(&p, 16, 10000);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 10000);
}

static void deep_sleep_is_capped_by_the_shortest(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);

	times(&p, 1, 10000);
	times(&p, 15, 39000);
	EXPECT_EQ(choose(&p, FULL, 0).sleep_ns, 20000);
}

static void learns_a_device_that_changed(void)
{
	struct aps_policy p = fresh(APS_HYBRID);

	times(&p, 16, 10000);
	times(&p, 64, 100000);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 100000);
	times(&p, 16, 10000);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 10000);
}

static void estimates_are_by_direction_and_size(void)
{
	struct aps_policy p = fresh(APS_HYBRID);
	unsigned int size;

	for (size = 0; size < APS_NR_SIZES; size++) {
		unsigned int i;

		for (i = 0; i < 16; i++) {
			aps_policy_time(&p, APS_DIR_READ, size, 10000 * (size + 1));
			aps_policy_time(&p, APS_DIR_WRITE, size, 500000 * (size + 1));
		}
	}
	for (size = 0; size < APS_NR_SIZES; size++) {
		EXPECT_EQ(aps_policy_choose(&p, APS_DIR_READ, size, 0, 0).sleep_ns, 5000 * (size + 1));
		EXPECT_EQ(aps_policy_choose(&p, APS_DIR_WRITE, size, 0, 0).sleep_ns, 250000 * (size + 1));
	}
}

static void extremes_do_not_overflow(void)
{
	struct aps_policy p = fresh(APS_ADAPTIVE);

	times(&p, 1, UINT64_MAX / 32);
	times(&p, 40, UINT64_MAX / 32);
	EXPECT_EQ(choose(&p, FULL, UINT32_MAX).sleep_ns, 10000000);
	p = fresh(APS_ADAPTIVE);
	times(&p, 40, 0);
	EXPECT_EQ(aps_policy_mean_ns(&p, APS_DIR_READ, 0), 1);
	EXPECT_EQ(choose(&p, FULL, 0).sleep_ns, 0);
}

int main(void)
{
	static const struct tap_test tests[] = {
		TEST(size_classes_end_at_their_limits),
		TEST(fixed_modes_ignore_the_margin),
		TEST(margin_is_of_now_and_of_16_completions),
		TEST(thresholds_choose_the_wait),
		TEST(sleeps_lightly_only_where_all_fit),
		TEST(a_light_sleep_is_rarely_too_long),
		TEST(sleeps_are_parts_of_the_mean),
		TEST(short_sleeps_are_spun_and_long_ones_cut),
		TEST(an_outlier_moves_little_and_is_forgotten),
		TEST(deep_sleep_is_capped_by_the_shortest),
		TEST(learns_a_device_that_changed),
		TEST(estimates_are_by_direction_and_size),
		TEST(extremes_do_not_overflow),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
