// SPDX-License-Identifier: GPL-2.0-only
/*
 * The model `nvme` against the figures of the product (Lenovo's guide to the
 * Intel P4500, table 2), and against the rates of the simulation from which its
 * times come.
 */
#include "sim.h"

#include "../nvme.c"

struct nvme_product {
	const char *name;
	u64 random_reads;	/* a second */
	u64 read_ns;
	u64 random_writes;
	u64 write_ns;
	u64 read_mb_per_s;
	u64 write_mb_per_s;
};

static const struct nvme_product products[] = {
	{ "p4500-1tb", 279500, 85000, 30500, 20000, 3200, 600 },
	{ "p4500-2tb", 490000, 85000, 38000, 20000, 3200, 1050 },
	{ "p4500-4tb", 645000, 115000, 62500, 20000, 3200, 1800 },
};

static void product_reads(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(products); i++) {
		const struct nvme_product *product = &products[i];
		struct sim sim;

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_READ, .depth = 1, .nr_sects = 8, .nr_cmds = 5000 });
		EXPECT_NEAR(test, sim_mean_ns(&sim), product->read_ns, 50);
		sim_end(&sim);

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_READ, .depth = 256, .nr_sects = 8, .nr_ramp = 2000,
			.nr_cmds = 30000 });
		EXPECT_NEAR(test, sim_milli_iops(&sim), product->random_reads * 1000, 50);
		sim_end(&sim);

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_READ, .depth = 8, .nr_sects = 2048, .sequential = true,
			.nr_ramp = 100, .nr_cmds = 1000 });
		EXPECT_NEAR(test, sim_mb_per_s(&sim), product->read_mb_per_s, 50);
		sim_end(&sim);

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_READ, .depth = 32, .nr_sects = 256, .sequential = true,
			.nr_ramp = 500, .nr_cmds = 10000 });
		EXPECT_NEAR(test, sim_mb_per_s(&sim), product->read_mb_per_s, 50);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		sim_end(&sim);
	}
}

static void product_writes(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(products); i++) {
		const struct nvme_product *product = &products[i];
		struct md_counts counts;
		struct sim sim;

		/* As long as there is room in the buffer. */
		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_WRITE, .depth = 1, .nr_sects = 8, .nr_cmds = 2000 });
		EXPECT_NEAR(test, sim_mean_ns(&sim), product->write_ns, 50);
		KUNIT_EXPECT_EQ(test, sim.model->counts.nr_stalls, 0ULL);
		sim_end(&sim);

		/* The buffer, of 8192 pages, is full long before the count begins. */
		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_WRITE, .depth = 128, .nr_sects = 8, .nr_ramp = 20000,
			.nr_cmds = 20000 });
		EXPECT_NEAR(test, sim_milli_iops(&sim), product->random_writes * 1000, 50);
		counts = sim.model->counts;
		KUNIT_EXPECT_GE(test, counts.nr_stalls, 20000ULL);
		KUNIT_EXPECT_GE(test, counts.stall_max_ns, 1000000ULL);
		KUNIT_EXPECT_LE(test, counts.stall_max_ns, 10000000ULL);
		KUNIT_EXPECT_EQ(test, counts.nr_host_pages, 40128ULL);
		sim_end(&sim);

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_WRITE, .depth = 8, .nr_sects = 2048, .sequential = true,
			.nr_ramp = 500, .nr_cmds = 1000 });
		EXPECT_NEAR(test, sim_mb_per_s(&sim), product->write_mb_per_s, 50);
		sim_end(&sim);

		sim = sim_drive(&md_nvme_type, product->name, NULL, (struct sim_load){
			MD_WRITE, .depth = 32, .nr_sects = 256, .sequential = true,
			.nr_ramp = 4000, .nr_cmds = 8000 });
		EXPECT_NEAR(test, sim_mb_per_s(&sim), product->write_mb_per_s, 50);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		sim_end(&sim);
	}
}

/* Depth, thousand reads a second, mean and 99 % in us; 0: not printed there. */
struct nvme_rate {
	u32 depth;
	u64 kiops, mean_us, p99_us;
};

static const struct nvme_rate rates_2tb[] = {
	{ 1, 12, 85, 93 }, { 8, 89, 90, 156 }, { 32, 285, 112, 274 },
	{ 64, 427, 150, 435 }, { 128, 489, 261, 666 }, { 256, 489, 522, 929 },
};

/* With the fixed time of the 2 TB drive: its authors left it at that. */
static const struct nvme_rate rates_4tb[] = {
	{ 8, 91, 0, 0 }, { 32, 328, 0, 0 }, { 64, 556, 0, 0 }, { 128, 644, 0, 0 },
};

static void expect_rates(struct kunit *test, const char *name,
			 const struct md_nvme_params *params,
			 const struct nvme_rate *rates, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct sim sim = sim_drive(&md_nvme_type, name, params, (struct sim_load){
			MD_READ, .depth = rates[i].depth, .nr_sects = 8,
			.nr_ramp = 2000, .nr_cmds = 60000 });

		EXPECT_NEAR(test, sim_milli_iops(&sim), rates[i].kiops * 1000 * 1000, 50);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		if (rates[i].mean_us) {
			EXPECT_NEAR(test, sim_mean_ns(&sim), rates[i].mean_us * 1000, 50);
			EXPECT_NEAR(test, sim_quantile_ns(&sim, 990),
				    rates[i].p99_us * 1000, 60);
		}
		sim_end(&sim);
	}
}

static void rates_against_depth(struct kunit *test)
{
	struct md_nvme_params params = md_nvme_p4500_4tb;

	expect_rates(test, "p4500-2tb", NULL, rates_2tb, ARRAY_SIZE(rates_2tb));
	params.read_fixed_ns = md_nvme_p4500_2tb.read_fixed_ns;
	expect_rates(test, "p4500-4tb", &params, rates_4tb, ARRAY_SIZE(rates_4tb));
}

static void amplification(struct kunit *test)
{
	struct md_nvme_params params = md_nvme_p4500_2tb;
	struct sim_load load = {
		MD_WRITE, .depth = 32, .nr_sects = 8, .nr_ramp = 20000, .nr_cmds = 40000,
	};
	struct md_counts counts;
	struct sim sim;

	/* What is in the buffer at the end is written by the host only. */
	sim = sim_drive(&md_nvme_type, "p4500-2tb", NULL, load);
	counts = sim.model->counts;
	EXPECT_NEAR(test, counts.nr_media_pages * 1000 / (counts.nr_host_pages - 8192),
		    6700ULL, 10);
	sim_end(&sim);

	load.sequential = true;
	sim = sim_drive(&md_nvme_type, "p4500-2tb", NULL, load);
	counts = sim.model->counts;
	KUNIT_EXPECT_LE(test, counts.nr_media_pages, counts.nr_host_pages);
	sim_end(&sim);

	/* Nothing is a stream if none is looked for. */
	params.streams = 0;
	sim = sim_drive(&md_nvme_type, "p4500-2tb", &params, load);
	EXPECT_NEAR(test, sim_milli_iops(&sim), 38000ULL * 1000, 50);
	sim_end(&sim);
}

static void streams_are_told_apart(struct kunit *test)
{
	struct md_streams streams;
	u64 sects[20], nr = 0;
	unsigned int i, round;

	/* Sixteen writers side by side are streams, seventeen are not. */
	for (i = 0; i < ARRAY_SIZE(sects); i++)
		sects[i] = (u64)i << 30;
	md_streams_init(&streams, 16);
	for (round = 0; round < 10; round++)
		for (i = 0; i < 16; i++, sects[i - 1] += 8)
			nr += md_streams_continue(&streams, sects[i], 8);
	KUNIT_EXPECT_EQ(test, nr, 144ULL);
	for (nr = 0, round = 0; round < 10; round++)
		for (i = 0; i < 17; i++, sects[i - 1] += 8)
			nr += md_streams_continue(&streams, sects[i], 8);
	/* Sixteen are known when the seventeenth comes and takes the first's place. */
	KUNIT_EXPECT_EQ(test, nr, 16ULL);

	/* A little out of order: 0 16 8 24; again: 24; too far: 64. */
	md_streams_init(&streams, 1);
	KUNIT_EXPECT_FALSE(test, md_streams_continue(&streams, 0, 8));
	KUNIT_EXPECT_TRUE(test, md_streams_continue(&streams, 16, 8));
	KUNIT_EXPECT_TRUE(test, md_streams_continue(&streams, 8, 8));
	KUNIT_EXPECT_TRUE(test, md_streams_continue(&streams, 24, 8));
	KUNIT_EXPECT_TRUE(test, md_streams_continue(&streams, 24, 8));
	KUNIT_EXPECT_FALSE(test, md_streams_continue(&streams, 64, 8));
}

/* Reads suffer from programs, less if programs can be suspended; none starves. */
static void reads_among_writes(struct kunit *test)
{
	struct sim_load load = {
		MD_READ, .depth = 256, .nr_sects = 8, .write_permille = 300,
		.nr_ramp = 40000, .nr_cmds = 60000,
	};
	struct md_nvme_params params = md_nvme_p4500_2tb;
	u64 read_ns[2], slices;
	struct sim sim;

	for (slices = 0; slices < 2; slices++) {
		params.program_slices = slices ? 8 : 1;
		sim = sim_drive(&md_nvme_type, "p4500-2tb", &params, load);
		read_ns[slices] = sim.op_sum_ns[MD_READ] / sim.op_nr[MD_READ];
		/* Writes set the pace: they get most of their steady rate. */
		KUNIT_EXPECT_GE(test, sim_milli_iops(&sim) * 3 / 10, 30000ULL * 1000);
		KUNIT_EXPECT_LE(test, sim_milli_iops(&sim) * 3 / 10, 38500ULL * 1000);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		sim_end(&sim);
	}
	/* A program in the way is 750 us on average, a slice 90. */
	KUNIT_EXPECT_GE(test, read_ns[0], 500000ULL);
	KUNIT_EXPECT_LE(test, read_ns[0], 2000000ULL);
	KUNIT_EXPECT_GE(test, read_ns[1], 150000ULL);
	KUNIT_EXPECT_LE(test, read_ns[1] * 2, read_ns[0]);
}

/* One of each operation, one after the other, on an idle drive. */
static void discards_and_flushes(struct kunit *test)
{
	const struct md_nvme_params *params = &md_nvme_p4500_2tb;
	struct md_model *model = sim_create(&md_nvme_type, params, 1024, 1, 4);
	struct md_cmd cmds[] = {
		{ .op = MD_FLUSH },
		{ .op = MD_DISCARD, .nr_sects = 1 << 20 },
		{ .op = MD_FLUSH },
		/* 4 KiB of one page and 4 KiB of the next, 2 TiB from the start. */
		{ .op = MD_READ, .sect = (1ULL << 32) - 8, .nr_sects = 16 },
	};
	u64 at_ns = 5000;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, md_nvme_type.next_ns(model), MD_NEVER_NS);
	for (i = 0; i < ARRAY_SIZE(cmds); i++)
		md_nvme_type.submit(model, &cmds[i], at_ns);
	while (md_nvme_type.next_ns(model) != MD_NEVER_NS)
		md_nvme_type.advance(model, md_nvme_type.next_ns(model));
	KUNIT_EXPECT_EQ(test, cmds[0].done_ns, at_ns + params->command_ns);
	KUNIT_EXPECT_EQ(test, cmds[1].done_ns,
			at_ns + 2 * params->command_ns + params->discard_ns);
	KUNIT_EXPECT_EQ(test, cmds[2].done_ns,
			at_ns + 3 * params->command_ns + params->discard_ns);
	/* Two dies read at a time: later than one, not by as much as two. */
	KUNIT_EXPECT_GE(test, cmds[3].done_ns - cmds[2].done_ns, 81000ULL);
	KUNIT_EXPECT_LE(test, cmds[3].done_ns - cmds[2].done_ns, 102000ULL);
	KUNIT_EXPECT_EQ(test, cmds[3].start_ns, at_ns + 4 * params->command_ns +
			params->discard_ns);
	md_nvme_type.destroy(model);
}

/* The same, however often the model is asked: to the last nanosecond. */
static void nothing_depends_on_the_asking(struct kunit *test)
{
	static const u64 pokes_ns[] = { 700, 50000 };

	sim_check_asking(test, &md_nvme_type, "p4500-2tb", 64, pokes_ns, ARRAY_SIZE(pokes_ns));
}

static void nonsense_is_refused(struct kunit *test)
{
	struct md_nvme_params params = md_nvme_p4500_2tb;
	unsigned int i;

	params.page_kib = 18;
	sim_check_refused(test, &md_nvme_type, &params, "page_kib 18: must be a multiple of 4");
	params.page_kib = 16;
	params.buffer_kib = 63;
	sim_check_refused(test, &md_nvme_type, &params,
			  "buffer_kib 63: must be at least 64, two programs of 2 planes of page_kib 16");

	/* The least that is not: everything in the way of everything. */
	params.buffer_kib = 64;
	params.channels = 1;
	params.dies = 1;
	params.read_fixed_ns = 0;
	params.write_fixed_ns = 0;
	params.command_ns = 1;
	for (i = 0; i < 2; i++) {
		struct sim sim = sim_drive(&md_nvme_type, "p4500-2tb", &params, (struct sim_load){
			MD_READ, .depth = 8, .nr_sects = 2048, .sequential = i,
			.write_permille = 500, .nr_cmds = 300 });

		KUNIT_EXPECT_EQ(test, sim.nr_done, 300ULL);
		KUNIT_EXPECT_EQ(test, sim.late_ns, 0ULL);
		sim_end(&sim);
	}
}

static void presets_are_allowed(struct kunit *test)
{
	sim_check_presets(test, &md_nvme_type);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(presets_are_allowed),
	KUNIT_CASE(product_reads),
	KUNIT_CASE(product_writes),
	KUNIT_CASE(rates_against_depth),
	KUNIT_CASE(amplification),
	KUNIT_CASE(streams_are_told_apart),
	KUNIT_CASE(reads_among_writes),
	KUNIT_CASE(discards_and_flushes),
	KUNIT_CASE(nothing_depends_on_the_asking),
	KUNIT_CASE(nonsense_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "modeldisk_nvme",
	.test_cases = cases,
};

kunit_test_suite(suite);
