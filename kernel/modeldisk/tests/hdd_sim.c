// SPDX-License-Identifier: GPL-2.0-only
/* The model `hdd`, against the RSD paper, table 1, and against its own essay. */
#include "sim.h"

#include "../hdd.c"

#define MS_NS		(1000ULL * 1000)
#define NR_PROCESSES	32
#define NR_REQUESTS	30000
#define NR_RAMP		1000

static const unsigned int permilles[] = { 100, 300, 500, 700, 900, 950, 990, 999 };

/* The RSD paper, table 1: response times in ms, and requests a second. */
struct row {
	u64 ncq_depth;
	u64 quantile_ms[ARRAY_SIZE(permilles)];
	u64 most_ms;
	u64 milli_iops;
};

static const struct row rows[] = {
	{ 1, { 397, 417, 430, 441, 460, 470, 490, 509 }, 513, 76200 },
	{ 4, { 330, 348, 361, 377, 408, 427, 472, 531 }, 651, 91400 },
	{ 8, { 256, 275, 299, 338, 404, 437, 527, 681 }, 838, 103200 },
	{ 16, { 160, 193, 243, 311, 431, 512, 697, 930 }, 1083, 114300 },
	{ 31, { 36, 97, 179, 304, 527, 671, 1030, 1507 }, 1565, 123100 },
};

static void name_row(const struct row *row, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "depth %llu", row->ncq_depth);
}

KUNIT_ARRAY_PARAM(rows, rows, name_row);

/* Everything that can be seen of a command from outside. */
struct seen {
	u64 seq, sect, arrive_ns, start_ns, done_ns;
};

static void see(struct sim *sim, const struct md_cmd *cmd)
{
	struct seen **next = sim->seen;

	*(*next)++ = (struct seen){ cmd->seq, cmd->sect, cmd->arrive_ns, cmd->start_ns,
				    cmd->done_ns };
}

static const struct md_hdd_params *preset_params(const char *name)
{
	return sim_preset(&md_hdd_type, name)->params;
}

/* @nr random reads of 4 KiB by processes that each have one outstanding. */
static struct seen *run_processes(struct sim *sim, const struct md_hdd_params *params,
				  u64 seed, u64 nr_ramp, u64 nr)
{
	u64 size_mib = sim_preset(&md_hdd_type, "desktop-2008")->size_mib;
	struct seen *all = calloc(nr_ramp + nr + NR_PROCESSES, sizeof(*all)), *next = all;

	*sim = (struct sim){
		.model = sim_create(&md_hdd_type, params, size_mib, seed, NR_PROCESSES),
		.depth = NR_PROCESSES, .op = MD_READ, .nr_sects = 8,
		.area_sects = size_mib << 11, .on_done = see, .seen = &next,
	};
	md_rng_seed(&sim->rng, seed + 1);
	sim_run(sim, nr_ramp, nr);
	return all;
}

/* The rate within 3 %, 99 and 99.9 % within 20 %, the others within @body_permille. */
static void check_row(struct kunit *test, const char *preset, const struct row *row,
		      u64 seed, u64 nr, unsigned int body_permille)
{
	struct md_hdd_params params = *preset_params(preset);
	struct sim sim;
	unsigned int i;

	params.ncq_depth = row->ncq_depth;
	free(run_processes(&sim, &params, seed, NR_RAMP, nr));
	printf("# %s depth %2llu: table/sim, ms:", preset, row->ncq_depth);
	for (i = 0; i < ARRAY_SIZE(permilles); i++)
		printf(" %llu/%llu", row->quantile_ms[i],
		       sim_quantile_ns(&sim, permilles[i]) / MS_NS);
	printf(" %llu/%llu, /s: %llu.%llu/%llu.%llu\n", row->most_ms,
	       sim_quantile_ns(&sim, 1000) / MS_NS, row->milli_iops / 1000,
	       row->milli_iops / 100 % 10, sim_milli_iops(&sim) / 1000,
	       sim_milli_iops(&sim) / 100 % 10);

	EXPECT_NEAR(test, sim_milli_iops(&sim), row->milli_iops, 30);
	for (i = 0; i < ARRAY_SIZE(permilles); i++)
		EXPECT_NEAR(test, sim_quantile_ns(&sim, permilles[i]),
			    row->quantile_ms[i] * MS_NS,
			    permilles[i] <= 950 ? body_permille : 200);
	sim_end(&sim);
}

static void hdd_is_the_disk_of_the_table(struct kunit *test)
{
	check_row(test, "desktop-2008", test->param_value, 1, NR_REQUESTS, 120);
}

/* Not by luck: with other requests, and fewer of them. */
static void hdd_is_that_disk_with_any_seed(struct kunit *test)
{
	u64 seed;

	for (seed = 100; seed <= 500; seed += 100)
		check_row(test, "desktop-2008", test->param_value, seed,
			  NR_REQUESTS / 3, 120);
}

/* The other fit misses the median of depth 31 by 11 to 13 percent. */
static void hdd_has_another_fit(struct kunit *test)
{
	check_row(test, "desktop-2008-h1", test->param_value, 1, NR_REQUESTS, 150);
}

/* Commands that were done before an older one. */
static u64 nr_reordered(const struct seen *all, u64 nr)
{
	u64 newest = 0, reordered = 0, i;

	for (i = 0; i < nr; i++) {
		if (all[i].seq < newest)
			reordered++;
		newest = max(newest, all[i].seq);
	}
	return reordered;
}

static void hdd_depth_1_is_fifo(struct kunit *test)
{
	struct md_hdd_params params = *preset_params("desktop-2008");
	struct sim sim;
	struct seen *all;

	params.ncq_depth = 1;
	params.age_limit_ns = 100 * MS_NS;
	all = run_processes(&sim, &params, 3, 0, 3000);
	KUNIT_EXPECT_EQ(test, nr_reordered(all, 3000), 0ULL);
	/* They wait for 400 ms outside, and in the drive not at all. */
	KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
	free(all);
	sim_end(&sim);

	params.ncq_depth = 4;
	all = run_processes(&sim, &params, 3, 0, 3000);
	KUNIT_EXPECT_GT(test, nr_reordered(all, 3000), 1000ULL);
	free(all);
	sim_end(&sim);
}

/*
 * Seen from outside: when a command is chosen, the one before it is just done, so
 * that the drive has ncq_depth - 1 left, of the oldest. At most ncq_depth - 2 of
 * those that are older than the one chosen are therefore not done; with depth
 * 1 the place is filled first, and there is none.
 */
static void hdd_never_has_more_than_its_depth(struct kunit *test)
{
	static const u64 depths[] = { 1, 2, 4, 16, 31 };
	unsigned int d;

	for (d = 0; d < ARRAY_SIZE(depths); d++) {
		struct md_hdd_params params = *preset_params("desktop-2008");
		u64 limit = depths[d] > 1 ? depths[d] - 2 : 0;
		u64 nr = 3000, most = 0, i, j;
		struct seen *all;
		struct sim sim;

		params.ncq_depth = depths[d];
		all = run_processes(&sim, &params, 5, 0, nr);
		/* In order of completion, and so of their starts. */
		for (i = NR_PROCESSES; i < nr; i++) {
			u64 older = 0;

			for (j = i + 1; j < nr + NR_PROCESSES; j++)
				older += all[j].seq < all[i].seq;
			most = max(most, older);
			KUNIT_EXPECT_GE(test, all[i].start_ns, all[i - 1].done_ns);
		}
		/* It is reached, too. */
		KUNIT_EXPECT_EQ(test, most, limit);
		free(all);
		sim_end(&sim);
	}
}

/* The RSD paper, figure 1: some requests have a delay count above 150. */
static void hdd_starves_as_that_disk_does(struct kunit *test)
{
	const u64 nr = 10000;
	struct sim sim;
	struct seen *all = run_processes(&sim, preset_params("desktop-2008"), 7, 0, nr);
	u64 most = 0, i, j;

	for (i = 0; i < nr; i++) {
		u64 overtaken = 0;

		/* In the drive from about its arrival: the host has one more. */
		for (j = i; j-- && all[j].done_ns > all[i].arrive_ns;)
			overtaken += all[j].seq > all[i].seq;
		most = max(most, overtaken);
	}
	printf("# most often overtaken: %llu times\n", most);
	KUNIT_EXPECT_GT(test, most, 150ULL);
	KUNIT_EXPECT_LT(test, most, 200ULL);
	free(all);
	sim_end(&sim);
}

static void hdd_age_limit_binds(struct kunit *test)
{
	static const u64 limits_ms[] = { 500, 1500, 0 };
	u64 last_most_ns = 0, last_rate = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits_ms); i++) {
		struct md_hdd_params params = *preset_params("desktop-2008");
		u64 limit_ns = limits_ms[i] * MS_NS, most_ns, rate;
		struct sim sim;

		params.age_limit_ns = limit_ns;
		free(run_processes(&sim, &params, 9, NR_RAMP, NR_REQUESTS));
		most_ns = sim_quantile_ns(&sim, 1000);
		rate = sim_milli_iops(&sim);
		printf("# age limit %llu ms: most %llu ms, %llu.%llu/s, %llu taken for it\n",
		       limits_ms[i], most_ns / MS_NS, rate / 1000, rate / 100 % 10,
		       sim.model->counts.nr_stalls);
		if (limit_ns) {
			KUNIT_EXPECT_GT(test, sim.model->counts.nr_stalls, 0ULL);
			KUNIT_EXPECT_GE(test, sim.model->counts.stall_max_ns, limit_ns);
			/* A place outside, the limit, and those as old before it. */
			KUNIT_EXPECT_LT(test, most_ns, limit_ns + 200 * MS_NS);
		} else {
			KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
			KUNIT_EXPECT_GT(test, most_ns, 1800 * MS_NS);
		}
		/* The longer the limit, the more there is to choose from. */
		KUNIT_EXPECT_GT(test, most_ns, last_most_ns);
		KUNIT_EXPECT_GT(test, rate + 200, last_rate);
		last_most_ns = most_ns;
		last_rate = rate;
		sim_end(&sim);
	}
}

static void hdd_repeats_itself(struct kunit *test)
{
	const struct md_hdd_params *params = preset_params("desktop-2008");
	const u64 nr = 2000, bytes = nr * sizeof(struct seen);
	struct sim sims[3];
	struct seen *runs[3];
	unsigned int i;

	for (i = 0; i < 3; i++)
		runs[i] = run_processes(&sims[i], params, i < 2 ? 11 : 12, 0, nr);
	KUNIT_EXPECT_EQ(test, memcmp(runs[0], runs[1], bytes), 0);
	KUNIT_EXPECT_NE(test, memcmp(runs[0], runs[2], bytes), 0);
	for (i = 0; i < 3; i++) {
		free(runs[i]);
		sim_end(&sims[i]);
	}
}

/* Numbers that can be worked out by head: a revolution of 10 ms, 1,000 tracks. */
static const struct md_hdd_params round_params = {
	.rpm = 6000, .outer_track_sects = 1000, .nr_zones = 1, .switch_ns = 1 * MS_NS,
	.same_track_ns = MS_NS / 5, .seek_ns = 2 * MS_NS, .seek_sqrt_ns = 8 * MS_NS,
	.seek_stroke_ns = 4 * MS_NS, .overhead_ns = MS_NS / 2, .hit_ns = 50 * 1000,
	.link_bytes_per_us = 512, .ncq_depth = 31, .wait_permille = 1000,
};

#define ROUND_SECTS	(1000ULL * 1000)

static struct md_hdd *round_disk(const struct md_hdd_params *params)
{
	struct md_setup setup = {
		.params = params, .nr_sects = ROUND_SECTS, .seed = 1, .nr_cmds = 32,
		.max_sects = 2048,
	};

	return md_hdd_of(md_hdd_type.create(&setup));
}

/* Give it one command at @now_ns and wait for it; when is it done? */
static u64 serve_one(struct md_hdd *hdd, enum md_op op, u64 sect, u32 nr_sects, u64 now_ns)
{
	struct md_cmd cmd = { .op = op, .sect = sect, .nr_sects = nr_sects };
	struct md_model *model = &hdd->model;

	md_hdd_advance(model, now_ns);
	md_hdd_submit(model, &cmd, now_ns);
	while (list_empty(&model->done))
		md_hdd_advance(model, md_hdd_next_ns(model));
	list_del(&cmd.node);
	return cmd.done_ns;
}

/* The platter's angle, as the time it takes to turn so far. */
static u64 angle_ns(const struct md_hdd *hdd, u64 at_ns)
{
	return (at_ns + hdd->phase_ns) % hdd->rev_ns;
}

/*
 * Each command is sent so that its first sector passes the head 50 ns after the
 * head should be there, or 50 ns before: one that is served earlier or later
 * than the essay says differs by a revolution.
 */
static void hdd_serves_as_the_essay_says(struct kunit *test)
{
	static const struct {
		u64 track, sect, nr, seek_ns, transfer_ns;
	} steps[] = {
		{ 250, 500, 1, 2 * MS_NS + 4 * MS_NS + 1 * MS_NS, 10000 },
		{ 250, 400, 1, MS_NS / 5, 10000 },
		/* Half a track, a track and ten sectors: two switches. */
		{ 890, 500, 1510, 2 * MS_NS + 8 * MS_NS * 8 / 10 + 4 * MS_NS * 64 / 100,
		  17100 * 1000 },
		{ 892, 20, 1, MS_NS / 5, 10000 },
		{ 252, 999, 1, 2 * MS_NS + 8 * MS_NS * 8 / 10 + 4 * MS_NS * 64 / 100, 10000 },
	};
	u64 early, i;

	for (early = 0; early <= 1; early++) {
		struct md_hdd *hdd = round_disk(&round_params);
		u64 now_ns = 0, done_ns, ready_ns, passes_ns;

		KUNIT_ASSERT_EQ(test, hdd->nr_tracks, 1000ULL);
		for (i = 0; i < ARRAY_SIZE(steps); i++) {
			/* Tracks are 1 ms askew. */
			passes_ns = (steps[i].track * MS_NS + steps[i].sect * 10000) % (10 * MS_NS);
			/* A revolution from now, and as much as is missing. */
			ready_ns = now_ns + 20 * MS_NS + MS_NS / 2 + steps[i].seek_ns;
			now_ns += 20 * MS_NS +
				  (passes_ns + 10 * MS_NS - angle_ns(hdd, ready_ns)) %
				  (10 * MS_NS) - 50 + early * 100;
			ready_ns = now_ns + MS_NS / 2 + steps[i].seek_ns;
			done_ns = serve_one(hdd, MD_READ, steps[i].track * 1000 + steps[i].sect,
					    steps[i].nr, now_ns);
			KUNIT_EXPECT_EQ(test, done_ns, ready_ns + 50 + steps[i].transfer_ns +
					early * (10 * MS_NS - 100));
			now_ns = done_ns;
		}
		md_hdd_destroy(&hdd->model);
	}
}

/* 2,500 sectors from the middle of a track: two switches. */
static void hdd_writes_on_what_it_has(struct kunit *test)
{
	struct md_hdd *hdd = round_disk(&round_params);
	struct md_cmd first = { .op = MD_WRITE, .sect = 100499, .nr_sects = 1 };
	struct md_cmd next = { .op = MD_WRITE, .sect = 100500, .nr_sects = 2500 };
	u64 done_ns;

	/* Both are in the drive: the head goes on. */
	md_hdd_submit(&hdd->model, &first, 0);
	md_hdd_submit(&hdd->model, &next, 0);
	md_hdd_advance(&hdd->model, 1000 * MS_NS);
	KUNIT_EXPECT_EQ(test, next.done_ns, first.done_ns + 25 * MS_NS + 2 * MS_NS);

	list_del(&first.node);
	list_del(&next.node);
	/* The next one comes when the other is done: a revolution later. */
	done_ns = serve_one(hdd, MD_WRITE, 200499, 1, 1000 * MS_NS);
	KUNIT_EXPECT_EQ(test, serve_one(hdd, MD_WRITE, 200500, 2500, done_ns),
			done_ns + 10 * MS_NS + 25 * MS_NS + 2 * MS_NS);
	md_hdd_destroy(&hdd->model);
}

/* Of two commands in the queue the firmware takes the one that its rule says. */
static void hdd_chooses_as_the_essay_says(struct kunit *test)
{
	static const struct {
		u64 guard_ns, wait_permille;
		bool near_first;
	} cases[] = {
		/* Near: 0.5 + 3 ms, waits 1 ms. Far: 0.5 + 6 ms, waits 0.1 ms. */
		{ 0, 1000, true },
		/* With a guard of 2 ms it would miss near and come to it 10 ms later. */
		{ 2 * MS_NS, 1000, false },
		/* ... but does not count on that if the wait hardly counts. */
		{ 2 * MS_NS, 100, true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct md_hdd_params params = round_params;
		struct md_cmd busy = { .op = MD_WRITE, .sect = 0, .nr_sects = 1 };
		struct md_cmd near = { .op = MD_WRITE, .nr_sects = 1 };
		struct md_cmd far = { .op = MD_WRITE, .nr_sects = 1 };
		struct md_hdd *hdd;
		u64 turned;

		params.guard_ns = cases[i].guard_ns;
		params.wait_permille = cases[i].wait_permille;
		params.seek_sqrt_ns = 0;
		params.seek_stroke_ns = 10 * MS_NS;
		params.seek_ns = MS_NS;
		hdd = round_disk(&params);
		md_hdd_submit(&hdd->model, &busy, 0);
		/* After sector 0 the platter is at 10 us; near is 200 tracks on. */
		turned = 10000 + 3500000 + 1000000;
		near.sect = 200 * 1000 + turned / 10000 % 1000;
		/* 500 tracks on; with a guard it just misses that as well. */
		turned = 10000 + 6500000 + 100000 + cases[i].guard_ns;
		far.sect = 500 * 1000 + turned / 10000 % 1000;
		md_hdd_submit(&hdd->model, &far, 0);
		md_hdd_submit(&hdd->model, &near, 0);
		md_hdd_advance(&hdd->model, 1000 * MS_NS);
		KUNIT_EXPECT_EQ(test, near.done_ns < far.done_ns, cases[i].near_first);
		KUNIT_EXPECT_EQ(test, min(near.start_ns, far.start_ns), busy.done_ns);
		md_hdd_destroy(&hdd->model);
	}
}

/* Sectors are where the integral of the density says, and zones leave no gap. */
static void hdd_zones_are_the_integral(struct kunit *test)
{
	const struct md_hdd_params *params = preset_params("desktop-2008");
	u64 size_mib = sim_preset(&md_hdd_type, "desktop-2008")->size_mib;
	struct md_model *model = sim_create(&md_hdd_type, params, size_mib, 1, 1);
	struct md_hdd *hdd = md_hdd_of(model);
	u64 x, i, stroke, last_stroke = 0;

	for (x = 0; x < 1000; x++) {
		/* In millionths: x - 0.225 x^2, of 0.775. */
		u64 part = (x * 1000 * 1000 - x * x * 225) / 775;
		u64 sect = mul_u64_u64_div_u64(hdd->nr_sects, part, 1000 * 1000);

		md_hdd_spiral_ns(hdd, sect, 0, &stroke);
		stroke = stroke * 100000 >> MD_HDD_STROKE_SHIFT;
		KUNIT_EXPECT_LE(test, stroke, x * 100 + 20);
		KUNIT_EXPECT_GE(test, stroke + 20, x * 100);
	}
	for (i = 1; i < params->nr_zones; i++) {
		u64 first = hdd->zones[i].first_sect;
		u64 end_ns = md_hdd_spiral_ns(hdd, first - 1, 1, &last_stroke);

		/* The switch to the next track, and nothing else. */
		KUNIT_EXPECT_EQ(test, md_hdd_spiral_ns(hdd, first, 0, &stroke),
				end_ns + params->switch_ns);
		KUNIT_EXPECT_GT(test, stroke, last_stroke);
		KUNIT_EXPECT_LT(test, hdd->zones[i].track_sects,
				hdd->zones[i - 1].track_sects);
	}
	md_hdd_spiral_ns(hdd, hdd->nr_sects - 1, 0, &stroke);
	KUNIT_EXPECT_LT(test, stroke, 1ULL << MD_HDD_STROKE_SHIFT);
	md_hdd_destroy(model);
}

/* Bytes a second, in thousands, of commands one after the other from @first_sect. */
static u64 stream_kb_per_s(const struct md_hdd_params *params, enum md_op op, u32 nr_sects,
			   u32 depth, u64 turnaround_ns, u64 first_sect)
{
	u64 size_mib = sim_preset(&md_hdd_type, "desktop-2008")->size_mib;
	struct sim sim = {
		.model = sim_create(&md_hdd_type, params, size_mib, 1, depth),
		.depth = depth, .op = op, .nr_sects = nr_sects, .sequential = true,
		.area_sects = size_mib << 11, .next_sect = first_sect,
		.turnaround_ns = turnaround_ns,
	};
	u64 kb_per_s;

	sim_run(&sim, 100, 2000);
	kb_per_s = sim_milli_iops(&sim) * nr_sects / 1000 * 512 / 1000;
	sim_end(&sim);
	return kb_per_s;
}

static void hdd_streams(struct kunit *test)
{
	const struct md_hdd_params *preset = preset_params("desktop-2008");
	u64 inner = (sim_preset(&md_hdd_type, "desktop-2008")->size_mib - 2000) << 11;
	struct md_hdd_params params = *preset;

	/* Deskstar 7K500: 64.8 MB/s sustained in zone 0. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 256, 1, 0, 0), 64800ULL, 10);
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 2048, 1, 0, 0), 64800ULL, 10);
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 256, 31, 0, 0), 64800ULL, 10);
	/* A host that takes its time, but less than the medium. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 256, 1, MS_NS, 0), 64800ULL, 10);
	/* The innermost zone has 1 - 0.45 * 29.5 / 30 of the density of x = 0. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 256, 1, 0, inner),
		    64800ULL * 5575 / 9925, 15);
	/* Small ones cost their overhead: 60 us and 4,096 bytes at 300 MB/s. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 8, 1, 0, 0), 55600ULL, 10);
	/* A host slower than that is what limits. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_READ, 8, 1, MS_NS, 0), 3815ULL, 10);

	/* Nothing read ahead, or written with nothing queued: one in a revolution. */
	params.ahead_sects = 0;
	EXPECT_NEAR(test, stream_kb_per_s(&params, MD_READ, 8, 1, MS_NS / 10, 0), 491ULL, 15);
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_WRITE, 8, 1, 0, 0), 491ULL, 15);
	/* With writes queued the head goes on. */
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_WRITE, 256, 31, 0, 0), 64800ULL, 10);
	EXPECT_NEAR(test, stream_kb_per_s(preset, MD_WRITE, 8, 31, 0, 0), 64800ULL, 10);
}

/* Two streams with one command each: every command is a seek. */
static void hdd_two_streams_disturb_each_other(struct kunit *test)
{
	const struct md_preset *preset = sim_preset(&md_hdd_type, "desktop-2008");
	struct md_model *model = sim_create(&md_hdd_type, preset->params, preset->size_mib, 1, 2);
	u64 sects[2] = { 0, preset->size_mib << 10 }, now_ns = 0, i, nr = 1000;
	struct md_cmd cmds[2] = {};
	u64 per_s;

	for (i = 0; i < nr; i++) {
		struct md_cmd *cmd = &cmds[i % 2];

		if (i >= 2) {
			while (list_empty(&model->done)) {
				now_ns = md_hdd_next_ns(model);
				md_hdd_advance(model, now_ns);
			}
			KUNIT_ASSERT_TRUE(test, list_first_entry(&model->done, struct md_cmd,
								 node) == cmd);
			list_del(&cmd->node);
		}
		*cmd = (struct md_cmd){ .op = MD_READ, .sect = sects[i % 2], .nr_sects = 256 };
		sects[i % 2] += 256;
		md_hdd_submit(model, cmd, now_ns);
	}
	/* 0.28 + 1.85 + 5.68 * 0.66 + 11.3 * 0.43 + 4.2 + 2.2 ms: 17 ms. */
	per_s = nr * 1000 * MS_NS / now_ns;
	printf("# two streams: %llu commands a second\n", per_s);
	KUNIT_EXPECT_GT(test, per_s, 45ULL);
	KUNIT_EXPECT_LT(test, per_s, 75ULL);
	md_hdd_advance(model, MD_NEVER_NS - 1);
	md_hdd_destroy(model);
}

/* A write in between takes the arm, and what was read ahead is gone. */
static void hdd_write_ends_the_reading_ahead(struct kunit *test)
{
	struct md_hdd_params params = round_params;
	struct md_hdd *hdd;
	u64 now_ns, done_ns;

	params.ahead_sects = 2000;
	hdd = round_disk(&params);
	now_ns = serve_one(hdd, MD_READ, 5000, 8, 0);
	/* 30 ms later all of it is there. */
	done_ns = serve_one(hdd, MD_READ, 5100, 8, now_ns + 30 * MS_NS);
	KUNIT_EXPECT_EQ(test, done_ns, now_ns + 30 * MS_NS + 50000 + 8000);
	/* So is what is kept behind. */
	now_ns = done_ns;
	done_ns = serve_one(hdd, MD_READ, 5000, 8, now_ns);
	KUNIT_EXPECT_EQ(test, done_ns, now_ns + 50000 + 8000);
	/* What was not read is not. */
	now_ns = done_ns;
	done_ns = serve_one(hdd, MD_READ, 4992, 8, now_ns);
	KUNIT_EXPECT_GT(test, done_ns, now_ns + MS_NS / 2);
	now_ns = serve_one(hdd, MD_WRITE, 5050, 1, done_ns);
	done_ns = serve_one(hdd, MD_READ, 5000, 8, now_ns);
	KUNIT_EXPECT_GT(test, done_ns, now_ns + MS_NS / 2);
	md_hdd_destroy(&hdd->model);
}

static void hdd_flush_and_discard_cost_nothing(struct kunit *test)
{
	struct md_hdd *hdd = round_disk(&round_params);
	struct md_cmd write = { .op = MD_WRITE, .sect = 7000, .nr_sects = 8 };
	u64 now_ns = 3 * MS_NS;

	md_hdd_submit(&hdd->model, &write, now_ns);
	KUNIT_EXPECT_EQ(test, serve_one(hdd, MD_FLUSH, 0, 0, now_ns), now_ns);
	now_ns += MS_NS / 4;
	KUNIT_EXPECT_EQ(test, serve_one(hdd, MD_DISCARD, 0, 2048, now_ns), now_ns);
	/* The write is not done by that. */
	KUNIT_EXPECT_EQ(test, write.done_ns, 0ULL);
	md_hdd_advance(&hdd->model, 100 * MS_NS);
	KUNIT_EXPECT_GT(test, write.done_ns, now_ns);
	KUNIT_EXPECT_EQ(test, md_hdd_next_ns(&hdd->model), MD_NEVER_NS);
	md_hdd_destroy(&hdd->model);
}

static void hdd_refuses_what_cannot_be(struct kunit *test)
{
	const struct md_hdd_params *params = preset_params("desktop-2008");
	struct md_setup setup = {
		.params = params, .nr_sects = 1251 * 30 - 2, .seed = 1, .nr_cmds = 1,
		.max_sects = 2048,
	};
	struct md_model *model;
	unsigned int i, j;

	KUNIT_EXPECT_TRUE(test, !md_hdd_type.create(&setup));
	KUNIT_EXPECT_STREQ(test, setup.problem,
			   "nr_zones is 30, of tracks of 1251 sectors: a disk of 37528 sectors is too small, it needs 37530");
	/* The innermost has 688. */
	setup.nr_sects = 688ULL * U32_MAX + 8;
	KUNIT_EXPECT_TRUE(test, !md_hdd_type.create(&setup));
	KUNIT_EXPECT_STREQ(test, setup.problem,
			   "outer_track_sects is 1251, innermost 688: a disk of 2954937498968 sectors is too large, it can have 2954937498960");
	/* The least that can be is a disk, to its last sector. */
	setup.nr_sects = 37536;
	model = md_hdd_type.create(&setup);
	KUNIT_ASSERT_TRUE(test, model);
	KUNIT_EXPECT_GT(test, serve_one(md_hdd_of(model), MD_READ, 37528, 8, 0), 0ULL);
	md_hdd_destroy(model);

	for (i = 0; i < md_hdd_type.nr_presets; i++) {
		const struct md_preset *preset = &md_hdd_type.presets[i];

		for (j = 0; j < md_hdd_type.nr_params; j++) {
			const struct md_param *param = &md_hdd_type.params[j];
			u64 value = *(const u64 *)((const char *)preset->params +
						   param->offset);

			KUNIT_EXPECT_GE(test, value, param->least);
			KUNIT_EXPECT_LE(test, value, param->most);
		}
	}
}

/* Parameters at the ends of their ranges: nothing overflows, all is served. */
static void hdd_bears_the_ends_of_its_ranges(struct kunit *test)
{
	static const u64 sizes_mib[] = { 16384, 8 * 1024 * 1024 };
	u64 size_mib, which;

	for (which = 0; which < 1 << 4; which++) {
		struct md_hdd_params params = {};
		struct sim sim = {};
		unsigned int j;

		for (j = 0; j < md_hdd_type.nr_params; j++) {
			const struct md_param *param = &md_hdd_type.params[j];

			*(u64 *)((char *)&params + param->offset) =
				which >> j % 4 & 1 ? param->most : param->least;
		}
		size_mib = sizes_mib[which % 2];
		sim.model = sim_create(&md_hdd_type, &params, size_mib, which, 300);
		sim.depth = 300;
		sim.op = MD_READ;
		sim.nr_sects = 2048;
		sim.area_sects = size_mib << 11;
		sim.write_permille = 300;
		sim.sequential = which & 4;
		sim_run(&sim, 0, 600);
		KUNIT_EXPECT_EQ(test, sim.nr_done, 600ULL);
		sim_end(&sim);
	}
}

static void presets_are_allowed(struct kunit *test)
{
	sim_check_presets(test, &md_hdd_type);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(presets_are_allowed),
	KUNIT_CASE_PARAM(hdd_is_the_disk_of_the_table, rows_gen_params),
	KUNIT_CASE_PARAM(hdd_is_that_disk_with_any_seed, rows_gen_params),
	KUNIT_CASE_PARAM(hdd_has_another_fit, rows_gen_params),
	KUNIT_CASE(hdd_depth_1_is_fifo),
	KUNIT_CASE(hdd_never_has_more_than_its_depth),
	KUNIT_CASE(hdd_starves_as_that_disk_does),
	KUNIT_CASE(hdd_age_limit_binds),
	KUNIT_CASE(hdd_repeats_itself),
	KUNIT_CASE(hdd_serves_as_the_essay_says),
	KUNIT_CASE(hdd_writes_on_what_it_has),
	KUNIT_CASE(hdd_chooses_as_the_essay_says),
	KUNIT_CASE(hdd_zones_are_the_integral),
	KUNIT_CASE(hdd_streams),
	KUNIT_CASE(hdd_two_streams_disturb_each_other),
	KUNIT_CASE(hdd_write_ends_the_reading_ahead),
	KUNIT_CASE(hdd_flush_and_discard_cost_nothing),
	KUNIT_CASE(hdd_refuses_what_cannot_be),
	KUNIT_CASE(hdd_bears_the_ends_of_its_ranges),
	{}
};

static struct kunit_suite suite = {
	.name = "modeldisk_hdd",
	.test_cases = cases,
};

kunit_test_suite(suite);
