// SPDX-License-Identifier: GPL-2.0-only
/* The model `fixed`, and the heap and random numbers that all models use. */
#include "sim.h"

#include "../fixed.c"

static void fixed_has_its_rate(struct kunit *test)
{
	const struct md_preset *ideal = sim_preset(&md_fixed_type, "ideal");
	static const u32 depths[] = { 1, 8, 32, 64 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		u32 depth = depths[i];
		struct sim sim = {
			.model = sim_create(&md_fixed_type, ideal->params, 64, 1, depth),
			.depth = depth, .op = MD_READ, .nr_sects = 8,
			.area_sects = 64 << 11,
		};

		sim_run(&sim, 100, 2000);
		/* 1,000 a second for each of at most 32 inside. */
		EXPECT_NEAR(test, sim_milli_iops(&sim),
			    min(depth, 32U) * 1000 * 1000ULL, 20);
		EXPECT_NEAR(test, sim_mean_ns(&sim), max(depth, 32U) / 32 * 1000000ULL, 1);
		sim_end(&sim);
	}
}

static void fixed_data_takes_time(struct kunit *test)
{
	struct md_fixed_params params = {
		.read_ns = 100 * 1000, .write_ns = 200 * 1000, .parallel = 1,
		.bytes_per_us = 1000,
	};
	struct sim sim = {
		.model = sim_create(&md_fixed_type, &params, 64, 1, 1),
		.depth = 1, .op = MD_WRITE, .nr_sects = 2048, .area_sects = 64 << 11,
		.sequential = true,
	};

	sim_run(&sim, 0, 10);
	/* 1 MiB at 1,000 bytes a microsecond, and 200 us. */
	KUNIT_EXPECT_EQ(test, sim_mean_ns(&sim), 1048576ULL + 200000);
	sim_end(&sim);
}

static void events_come_in_order(struct kunit *test)
{
	struct md_events events;
	struct md_event event;
	struct md_rng rng;
	u64 last_ns = 0, last_order = 0;
	unsigned int i, nr = 0;

	md_rng_seed(&rng, 7);
	KUNIT_ASSERT_EQ(test, md_events_init(&events, 500), 0);
	for (i = 0; i < 500; i++)
		md_events_add(&events, md_rng_below(&rng, 50), 0, i, NULL);
	while (md_events_take(&events, 39, &event)) {
		KUNIT_EXPECT_GE(test, event.at_ns, last_ns);
		if (event.at_ns == last_ns && nr)
			KUNIT_EXPECT_GT(test, event.order, last_order);
		last_ns = event.at_ns;
		last_order = event.order;
		nr++;
	}
	KUNIT_EXPECT_EQ(test, md_events_next_ns(&events), 40ULL);
	KUNIT_EXPECT_EQ(test, nr + events.nr, 500U);
	md_events_free(&events);
}

static void random_numbers_have_their_means(struct kunit *test)
{
	const unsigned int n = 200000;
	u64 sum = 0, square_parts = 0;
	struct md_rng rng;
	unsigned int i;

	md_rng_seed(&rng, 0);
	for (i = 0; i < n; i++)
		sum += md_rng_around(&rng, 1000, 300);
	EXPECT_NEAR(test, sum / n, 1000ULL, 5);

	for (sum = 0, i = 0; i < n; i++) {
		u64 x = md_rng_exp(&rng, 10000);

		sum += x;
		square_parts += x * x / 10000;
	}
	EXPECT_NEAR(test, sum / n, 10000ULL, 10);
	/* The second moment of an exponential is twice the square of its mean. */
	EXPECT_NEAR(test, square_parts / n, 20000ULL, 25);
}

static void presets_are_allowed(struct kunit *test)
{
	sim_check_presets(test, &md_fixed_type);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(presets_are_allowed),
	KUNIT_CASE(fixed_has_its_rate),
	KUNIT_CASE(fixed_data_takes_time),
	KUNIT_CASE(events_come_in_order),
	KUNIT_CASE(random_numbers_have_their_means),
	{}
};

static struct kunit_suite suite = {
	.name = "modeldisk_fixed",
	.test_cases = cases,
};

kunit_test_suite(suite);
