// SPDX-License-Identifier: GPL-2.0-only
/*
 * The model `ull` against the simulation that its times come from ("simulated")
 * and against published measurements, which include a host ("published").
 */
#include "sim.h"

#include "../ull.c"

static const struct sim_load depth_1 = {
	MD_READ, .depth = 1, .nr_sects = 8, .nr_ramp = 100, .nr_cmds = 100000,
};

static const struct sim_load depth_16 = {
	MD_READ, .depth = 16, .nr_sects = 8, .nr_ramp = 2000, .nr_cmds = 300000,
};

static void optane_reads(struct kunit *test)
{
	struct sim sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, depth_1);

	EXPECT_NEAR(test, sim_mean_ns(&sim), 8500ULL, 10);	/* simulated */
	EXPECT_NEAR(test, sim_mean_ns(&sim), 8900ULL, 50);	/* published */
	EXPECT_NEAR(test, sim_quantile_ns(&sim, 500), 9000ULL, 100);
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
	sim_end(&sim);

	sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, depth_16);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 588ULL * 1000 * 1000, 10);
	EXPECT_NEAR(test, sim_mean_ns(&sim), 27200ULL, 10);
	EXPECT_NEAR(test, sim_quantile_ns(&sim, 990), 41500ULL, 30);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 584800ULL * 1000, 20);	/* published */
	/* 16 inside at 584,800 a second are 27.4 us: a part of it is the host's. */
	EXPECT_NEAR(test, sim_mean_ns(&sim), 25500ULL, 100);
	EXPECT_NEAR(test, sim_quantile_ns(&sim, 990), 41000ULL, 50);
	KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
	sim_end(&sim);

	sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, (struct sim_load){
		MD_READ, .depth = 16, .nr_sects = 128, .sequential = true,
		.nr_ramp = 100, .nr_cmds = 5000 });
	EXPECT_NEAR(test, sim_mb_per_s(&sim), 2400ULL, 20);
	sim_end(&sim);
}

static void optane_writes(struct kunit *test)
{
	struct sim_load load = depth_16;
	struct sim sim;

	load.op = MD_WRITE;
	sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, load);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 500ULL * 1000 * 1000, 20);
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_host_pages, 302016ULL);
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_media_pages, 302016ULL);
	sim_end(&sim);

	load.sequential = true;
	load.nr_sects = 128;
	load.nr_cmds = 5000;
	sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, load);
	EXPECT_NEAR(test, sim_mb_per_s(&sim), 2000ULL, 30);
	sim_end(&sim);

	load = depth_1;
	load.op = MD_WRITE;
	sim = sim_drive(&md_ull_type, "optane-p4800x", NULL, load);
	/* "Below 10 us", with the host. */
	EXPECT_NEAR(test, sim_mean_ns(&sim), 8800ULL, 20);
	sim_end(&sim);
}

static void zssd_reads(struct kunit *test)
{
	struct md_ull_params params = md_ull_zssd;
	struct sim sim;

	/* The simulation's figures are those without its rare events. */
	params.outlier_ppm = 0;
	params.stall_every_ns = 0;
	sim = sim_drive(&md_ull_type, "z-ssd", &params, depth_1);
	EXPECT_NEAR(test, sim_mean_ns(&sim), 11000ULL, 10);
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
	sim_end(&sim);
	sim = sim_drive(&md_ull_type, "z-ssd", &params, depth_16);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 752ULL * 1000 * 1000, 10);
	EXPECT_NEAR(test, sim_quantile_ns(&sim, 990), 38600ULL, 20);
	sim_end(&sim);

	/* With them, one read in 800 takes long, which 99.9 % just shows. */
	sim = sim_drive(&md_ull_type, "z-ssd", NULL, depth_1);
	EXPECT_NEAR(test, sim_mean_ns(&sim), 11000ULL, 30);
	KUNIT_EXPECT_LE(test, sim_quantile_ns(&sim, 990), 12000ULL);
	KUNIT_EXPECT_GE(test, sim_quantile_ns(&sim, 999), 20000ULL);
	KUNIT_EXPECT_GE(test, sim.lat_ns[sim.nr_done - 1], 300000ULL);
	sim_end(&sim);
	sim = sim_drive(&md_ull_type, "z-ssd", NULL, depth_16);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 750ULL * 1000 * 1000, 20); /* published */
	EXPECT_NEAR(test, sim_quantile_ns(&sim, 990), 38600ULL, 100);
	KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
	sim_end(&sim);

	sim = sim_drive(&md_ull_type, "z-ssd", NULL, (struct sim_load){
		MD_READ, .depth = 16, .nr_sects = 128, .sequential = true,
		.nr_ramp = 100, .nr_cmds = 5000 });
	EXPECT_NEAR(test, sim_mb_per_s(&sim), 3200ULL, 50);
	sim_end(&sim);
}

static void zssd_writes(struct kunit *test)
{
	struct sim_load load = { MD_WRITE, .depth = 1, .nr_sects = 8, .nr_cmds = 5000 };
	struct md_counts counts;
	struct sim sim;

	sim = sim_drive(&md_ull_type, "z-ssd", NULL, load);
	EXPECT_NEAR(test, sim_mean_ns(&sim), 16000ULL, 10);
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
	sim_end(&sim);

	load.depth = 16;
	load.nr_ramp = 20000;
	load.nr_cmds = 50000;
	sim = sim_drive(&md_ull_type, "z-ssd", NULL, load);
	counts = sim.model->counts;
	EXPECT_NEAR(test, sim_milli_iops(&sim), 170ULL * 1000 * 1000, 20);
	EXPECT_NEAR(test, counts.nr_media_pages * 1000 / counts.nr_host_pages, 4596ULL, 5);
	/* The buffer is full: 16 inside at 5.88 us, but for what is in write_ns. */
	KUNIT_EXPECT_GE(test, counts.nr_stalls, 50000ULL);
	KUNIT_EXPECT_GE(test, counts.stall_max_ns, 60000ULL);
	KUNIT_EXPECT_LE(test, counts.stall_max_ns, 95000ULL);
	sim_end(&sim);

	load.sequential = true;
	load.nr_sects = 128;
	load.nr_cmds = 10000;
	sim = sim_drive(&md_ull_type, "z-ssd", NULL, load);
	EXPECT_NEAR(test, sim_mb_per_s(&sim), 3200ULL, 20);
	sim_end(&sim);
}

/* A read waits for programs while the buffer drains, and then no more. */
static void zssd_reads_among_writes(struct kunit *test)
{
	struct md_ull_params params = md_ull_zssd;
	struct sim_load load = depth_16;
	u64 read_ns[2], i;

	params.outlier_ppm = 0;
	params.stall_every_ns = 0;
	load.write_permille = 300;
	load.nr_cmds = 50000;
	for (i = 0; i < 2; i++) {
		struct sim sim;

		params.suspend_ns = i * 20000;
		sim = sim_drive(&md_ull_type, "z-ssd", &params, load);
		read_ns[i] = sim.op_sum_ns[MD_READ] / sim.op_nr[MD_READ];
		sim_end(&sim);
	}
	/* 10 us on average, and what waits behind that. */
	KUNIT_EXPECT_GE(test, read_ns[1], read_ns[0] + 5000);
	KUNIT_EXPECT_LE(test, read_ns[1], read_ns[0] + 25000);
}

static void rare_events_are_as_rare_as_said(struct kunit *test)
{
	struct md_ull_params params = md_ull_zssd;
	u64 mean_ns, nr, seconds_milli;
	struct sim_load load = depth_1;
	struct sim sim;

	/* Outliers: 500 in a million, by 105 us on average. */
	params.stall_every_ns = 0;
	load.nr_ramp = 0;
	load.nr_cmds = 1000000;
	sim = sim_drive(&md_ull_type, "z-ssd", &params, load);
	nr = sim.model->counts.nr_stalls;
	mean_ns = sim_mean_ns(&sim);
	EXPECT_NEAR(test, nr, 500ULL, 100);
	EXPECT_NEAR(test, (mean_ns - 11030) * 1000000 / nr, 105000ULL, 150);
	sim_end(&sim);

	/*
	 * Stalls: one in each 13.3 ms. A reader with one read inside meets all
	 * of a drive with one channel, a few us after they began: 175 us on
	 * average, less half of the time of the read before it.
	 */
	params = md_ull_zssd;
	params.outlier_ppm = 0;
	params.channels = 1;
	sim = sim_drive(&md_ull_type, "z-ssd", &params, load);
	nr = sim.model->counts.nr_stalls;
	mean_ns = sim_mean_ns(&sim);
	seconds_milli = sim.elapsed_ns / 1000000;
	EXPECT_NEAR(test, nr * 1000 * 1000 / seconds_milli, 75000ULL, 20);
	EXPECT_NEAR(test, (mean_ns - 11030) * 1000000 / nr, 170000ULL, 50);
	KUNIT_EXPECT_GE(test, sim.model->counts.stall_max_ns, 235000ULL);
	KUNIT_EXPECT_LE(test, sim.model->counts.stall_max_ns, 250000ULL);
	sim_end(&sim);
}

/* A stall hits one channel, and does not depend on which command comes, or when. */
static void stalls_stand_still(struct kunit *test)
{
	struct md_model *model = sim_create(&md_ull_type, &md_ull_zssd, 1024, 9, 1);
	struct md_ull *ull = md_ull_of(model);
	u64 every_ns = md_ull_zssd.stall_every_ns, window, at_ns, nr_hit = 0;
	u32 channel;

	for (window = 0; window < 200; window++) {
		u64 found_ns = 0;

		for (at_ns = window * every_ns; at_ns < (window + 1) * every_ns;
		     at_ns += 40000) {
			for (nr_hit = 0, channel = 0; channel < 8; channel++)
				nr_hit += md_ull_unstalled_ns(ull, channel, at_ns) != at_ns;
			KUNIT_EXPECT_LE(test, nr_hit, 2ULL);
			found_ns += nr_hit * 40000;
		}
		/* A part of one may be in the window before or after. */
		KUNIT_EXPECT_LE(test, found_ns, 540000ULL);
	}
	for (nr_hit = 0, window = 1; window < 200; window++) {
		at_ns = window * every_ns +
			md_ull_draw(ull, window, MD_ULL_STALL_START, every_ns);
		channel = md_ull_draw(ull, window, MD_ULL_STALL_CHANNEL, 8);
		KUNIT_EXPECT_GE(test, md_ull_unstalled_ns(ull, channel, at_ns),
				at_ns + 100000);
		nr_hit += channel == 0;
	}
	/* 199 over eight channels. */
	KUNIT_EXPECT_GE(test, nr_hit, 10ULL);
	KUNIT_EXPECT_LE(test, nr_hit, 45ULL);
	md_ull_type.destroy(model);
}

static void one_of_each(struct kunit *test)
{
	struct md_ull_params params = md_ull_optane;
	struct md_model *model;
	struct md_cmd cmds[] = {
		{ .op = MD_FLUSH },
		{ .op = MD_DISCARD, .nr_sects = 1 << 20 },
		{ .op = MD_FLUSH },
		/* Half of a page costs a page. */
		{ .op = MD_READ, .sect = 4, .nr_sects = 4 },
		/* The end of one and the start of the next: two units. */
		{ .op = MD_READ, .sect = (1ULL << 32) - 4, .nr_sects = 8 },
	};
	u64 at_ns = 5000;
	unsigned int i;

	params.spread = 0;
	model = sim_create(&md_ull_type, &params, 1024, 1, ARRAY_SIZE(cmds));
	KUNIT_EXPECT_EQ(test, md_ull_type.next_ns(model), MD_NEVER_NS);
	for (i = 0; i < ARRAY_SIZE(cmds); i++)
		md_ull_type.submit(model, &cmds[i], at_ns);
	while (md_ull_type.next_ns(model) != MD_NEVER_NS)
		md_ull_type.advance(model, md_ull_type.next_ns(model));
	KUNIT_EXPECT_EQ(test, cmds[0].done_ns, at_ns + 700);
	KUNIT_EXPECT_EQ(test, cmds[1].done_ns, at_ns + 2700);
	KUNIT_EXPECT_EQ(test, cmds[2].done_ns, at_ns + 2700);
	KUNIT_EXPECT_EQ(test, cmds[3].start_ns, at_ns + 2500 + 1700);
	KUNIT_EXPECT_EQ(test, cmds[3].done_ns, at_ns + 2500 + 1700 + 6100 + 200);
	KUNIT_EXPECT_EQ(test, cmds[4].done_ns, at_ns + 2500 + 3 * 1700 + 6100 + 200);
	md_ull_type.destroy(model);
}

/* The same, however often the model is asked: to the last nanosecond. */
static void nothing_depends_on_the_asking(struct kunit *test)
{
	static const u64 pokes_ns[] = { 70, 5000 };
	u64 nr_stalls = sim_check_asking(test, &md_ull_type, "z-ssd", 16, pokes_ns,
					 ARRAY_SIZE(pokes_ns));

	KUNIT_EXPECT_GE(test, nr_stalls, 10ULL);
}

static void nonsense_is_refused(struct kunit *test)
{
	struct md_ull_params params = md_ull_zssd;
	unsigned int i;

	params.channels = 3;
	sim_check_refused(test, &md_ull_type, &params, "channels 3: must divide units 16");
	params = md_ull_zssd;
	params.outlier_most_ns = 59999;
	sim_check_refused(test, &md_ull_type, &params,
			  "outlier_most_ns 59999: must be at least outlier_least_ns 60000");
	params = md_ull_zssd;
	params.stall_most_ns = 99999;
	sim_check_refused(test, &md_ull_type, &params,
			  "stall_most_ns 99999: must be at least stall_least_ns 100000");
	params = md_ull_zssd;
	params.stall_every_ns = 499999;
	sim_check_refused(test, &md_ull_type, &params,
			  "stall_most_ns 250000: must be at most half of stall_every_ns 499999");

	/* The least that is not. */
	params.stall_every_ns = 500000;
	params.buffer_kib = 4;
	for (i = 0; i < 2; i++) {
		struct sim sim = sim_drive(&md_ull_type, "z-ssd", &params, (struct sim_load){
			MD_READ, .depth = 8, .nr_sects = 2048, .sequential = i,
			.write_permille = 500, .nr_cmds = 300 });

		KUNIT_EXPECT_EQ(test, sim.nr_done, 300ULL);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		sim_end(&sim);
	}
}

static void presets_are_allowed(struct kunit *test)
{
	sim_check_presets(test, &md_ull_type);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(presets_are_allowed),
	KUNIT_CASE(optane_reads),
	KUNIT_CASE(optane_writes),
	KUNIT_CASE(zssd_reads),
	KUNIT_CASE(zssd_writes),
	KUNIT_CASE(zssd_reads_among_writes),
	KUNIT_CASE(rare_events_are_as_rare_as_said),
	KUNIT_CASE(stalls_stand_still),
	KUNIT_CASE(one_of_each),
	KUNIT_CASE(nothing_depends_on_the_asking),
	KUNIT_CASE(nonsense_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "modeldisk_ull",
	.test_cases = cases,
};

kunit_test_suite(suite);
