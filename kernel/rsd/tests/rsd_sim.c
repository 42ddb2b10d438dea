// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the guard makes of the model `hdd`: a FIFO and the arithmetic of age.h
 * before the model's own source, with 32 processes that read at random, as
 * the RSD paper has them. Many requests and seeds, of which experiments/
 * rsd-threshold.toml repeats some on a booted kernel.
 */
#include "../../modeldisk/tests/sim.h"

#include "../../common/service.h"
#include "../../modeldisk/hdd.c"

#define MS_NS		(1000ULL * 1000)
#define NR_PROCESSES	32
#define NR_RAMP		1000
#define PERIOD_NR	64		/* as GUARD_PERIOD_NR */

/* What came of a run. */
struct outcome {
	u64 milli_iops;
	u64 p50_ns, p99_ns, p999_ns, max_ns;
	u64 delay_max;
	u64 closed_permille;
	u64 nr_longer;			/* than the wait */
};

/* A process's request; it waits in the host, then it is in flight. */
struct waiting {
	struct md_cmd cmd;
	u64 came_ns;
	u64 number;
};

struct run {
	struct md_model *model;
	struct md_rng rng;
	struct ages ages;
	u32 depth;
	u32 age_th;			/* 0: off */
	u64 wait_ns;			/* 0: age_th is given */
	struct services services;
	u32 nr_served;			/* in this period */
	u64 period_start_ns;
	u64 now_ns;
	u64 nr_places;
	struct waiting *fifo[NR_PROCESSES];
	u32 first, nr_waiting;
};

static u64 words[AGE_NR_WORDS];

static void come(struct run *run, struct waiting *w)
{
	w->came_ns = run->now_ns;
	w->cmd.op = MD_READ;
	w->cmd.nr_sects = 8;
	w->cmd.sect = md_rng_below(&run->rng, run->nr_places) * 8;
	run->fifo[(run->first + run->nr_waiting++) % NR_PROCESSES] = w;
}

/* As rsd dispatches: in order, while there is room and the gate is open. */
static void dispatch(struct run *run)
{
	while (run->nr_waiting && ages_inside(&run->ages) < run->depth &&
	       !(run->age_th && ages_starve(&run->ages, run->age_th))) {
		struct waiting *w = run->fifo[run->first];

		run->first = (run->first + 1) % NR_PROCESSES;
		run->nr_waiting--;
		w->number = ages_begin(&run->ages);
		run->model->type->submit(run->model, &w->cmd, run->now_ns);
	}
}

/* As the guard finds age_th; the disk is never idle. */
static void measure(struct run *run)
{
	if (!run->wait_ns || ++run->nr_served < PERIOD_NR)
		return;
	services_observe(&run->services, run->now_ns - run->period_start_ns, PERIOD_NR);
	run->nr_served = 0;
	run->period_start_ns = run->now_ns;
	run->age_th = age_th_of_wait(run->wait_ns, &run->services, run->depth);
}

/* @age_th, or with a @wait_ns what comes of it. */
static struct outcome simulate_wait(const char *preset_name, u32 depth, u32 age_th,
				    u64 wait_ns, u64 seed, u64 nr)
{
	const struct md_preset *preset = sim_preset(&md_hdd_type, preset_name);
	struct md_hdd_params params = *(const struct md_hdd_params *)preset->params;
	struct run run = { .depth = depth, .age_th = age_th, .wait_ns = wait_ns,
			   .nr_places = preset->size_mib << 8 };
	static struct waiting processes[NR_PROCESSES];
	struct sim sim = { .lat_ns = calloc(nr, sizeof(u64)) };
	u64 nr_ended = 0, start_ns = 0, closed_ns = 0;
	struct outcome out = { };
	unsigned int i;

	params.ncq_depth = depth;
	memset(words, 0, sizeof(words));
	run.ages.inside = words;
	run.model = sim_create(&md_hdd_type, &params, preset->size_mib, seed, NR_PROCESSES);
	md_rng_seed(&run.rng, seed + 1);
	for (i = 0; i < NR_PROCESSES; i++)
		come(&run, &processes[i]);
	dispatch(&run);
	while (nr_ended < NR_RAMP + nr) {
		u64 next_ns = md_hdd_next_ns(run.model);

		if (run.age_th && ages_starve(&run.ages, run.age_th) && nr_ended >= NR_RAMP)
			closed_ns += next_ns - run.now_ns;
		run.now_ns = next_ns;
		md_hdd_advance(run.model, next_ns);
		while (!list_empty(&run.model->done)) {
			struct md_cmd *cmd = list_first_entry(&run.model->done,
							      struct md_cmd, node);
			struct waiting *w = container_of(cmd, struct waiting, cmd);
			u64 delay;

			list_del(&cmd->node);
			delay = ages_end(&run.ages, w->number);
			out.delay_max = max(out.delay_max, delay);
			if (++nr_ended == NR_RAMP)
				start_ns = run.now_ns;
			else if (nr_ended > NR_RAMP && nr_ended <= NR_RAMP + nr)
				sim.lat_ns[sim.nr_done++] = run.now_ns - w->came_ns;
			if (wait_ns && nr_ended > NR_RAMP && run.now_ns - w->came_ns > wait_ns)
				out.nr_longer++;
			measure(&run);
			come(&run, w);
		}
		dispatch(&run);
	}
	sim.elapsed_ns = run.now_ns - start_ns;
	out.milli_iops = sim_milli_iops(&sim);
	out.p50_ns = sim_quantile_ns(&sim, 500);
	out.p99_ns = sim_quantile_ns(&sim, 990);
	out.p999_ns = sim_quantile_ns(&sim, 999);
	out.max_ns = sim_quantile_ns(&sim, 1000);
	out.closed_permille = closed_ns * 1000 / sim.elapsed_ns;
	while (ages_inside(&run.ages)) {	/* all is given back */
		struct md_cmd *cmd;

		md_hdd_advance(run.model, md_hdd_next_ns(run.model));
		while (!list_empty(&run.model->done)) {
			cmd = list_first_entry(&run.model->done, struct md_cmd, node);
			list_del(&cmd->node);
			ages_end(&run.ages, container_of(cmd, struct waiting, cmd)->number);
		}
	}
	run.model->type->destroy(run.model);
	free(sim.lat_ns);
	return out;
}

static struct outcome simulate(const char *preset_name, u32 depth, u32 age_th,
			       u64 seed, u64 nr)
{
	return simulate_wait(preset_name, depth, age_th, 0, seed, nr);
}

/* Print a row; shorter queue and all that it is compared with is @base. */
static void tell(u32 depth, u32 age_th, const struct outcome *o,
		 const struct outcome *base)
{
	u64 permille = o->milli_iops * 1000 / base->milli_iops;

	printf("# depth %2u age_th %3u: %llu.%llu/s, %llu.%llu %%; ", depth, age_th,
	       o->milli_iops / 1000, o->milli_iops / 100 % 10, permille / 10,
	       permille % 10);
	printf("ms: 50 %% %llu, 99 %% %llu, 99.9 %% %llu, max %llu; ",
	       o->p50_ns / MS_NS, o->p99_ns / MS_NS, o->p999_ns / MS_NS,
	       o->max_ns / MS_NS);
	printf("overtaken %llu, closed %llu.%llu %%\n", o->delay_max,
	       o->closed_permille / 10, o->closed_permille % 10);
}

struct disk {
	const char *preset;
	u64 seed;
};

static const struct disk disks[] = {
	{ "desktop-2008", 100 },
	{ "desktop-2008", 200 },
	{ "desktop-2008-h1", 100 },
	{ "desktop-2008-h1", 300 },
};

static void name_disk(const struct disk *disk, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, seed %llu", disk->preset, disk->seed);
}

KUNIT_ARRAY_PARAM(disks, disks, name_disk);

/*
 * Observation 4: depth 31 with the guard against depth 16 without. 45 is better in
 * all; the RSD paper's 90 has a longest response time as depth 16 has, or a
 * shorter one, and a 99.9 % that is a fifth worse at least.
 */
static void rsd_is_better_than_a_shorter_queue(struct kunit *test)
{
	const struct disk *disk = test->param_value;
	struct outcome shorter = simulate(disk->preset, 16, 0, disk->seed, 30000);
	struct outcome ours = simulate(disk->preset, 31, 45, disk->seed, 30000);
	struct outcome paper = simulate(disk->preset, 31, 90, disk->seed, 30000);

	tell(16, 0, &shorter, &shorter);
	tell(31, 45, &ours, &shorter);
	tell(31, 90, &paper, &shorter);
	KUNIT_EXPECT_GE(test, ours.milli_iops * 100, shorter.milli_iops * 106);
	KUNIT_EXPECT_LE(test, ours.p999_ns, shorter.p999_ns);
	KUNIT_EXPECT_LE(test, ours.max_ns, shorter.max_ns);
	KUNIT_EXPECT_GE(test, paper.milli_iops * 100, shorter.milli_iops * 108);
	KUNIT_EXPECT_LE(test, paper.max_ns, shorter.max_ns);
	KUNIT_EXPECT_GE(test, paper.p999_ns * 100, shorter.p999_ns * 118);
}

/*
 * Observations 1 to 3: without the guard requests starve; the larger age_th, the
 * more throughput, and the wider the response times. The delay count is never
 * above its bound, and reaches it where there are requests that starve.
 */
static void rsd_bounds_and_costs(struct kunit *test)
{
	static const u32 age_ths[] = { 10, 30, 50, 90, 200 };
	struct outcome off = simulate("desktop-2008", 31, 0, 100, 10000);
	struct outcome last = { };
	unsigned int i;

	tell(31, 0, &off, &off);
	KUNIT_EXPECT_GT(test, off.delay_max, 150ULL);
	KUNIT_EXPECT_GT(test, off.max_ns, 1500 * MS_NS);
	for (i = 0; i < ARRAY_SIZE(age_ths); i++) {
		struct outcome o = simulate("desktop-2008", 31, age_ths[i], 100, 10000);

		tell(31, age_ths[i], &o, &off);
		KUNIT_EXPECT_LE(test, o.delay_max, age_ths[i] + 30ULL);
		if (age_ths[i] <= 90)
			KUNIT_EXPECT_EQ(test, o.delay_max, age_ths[i] + 30ULL);
		KUNIT_EXPECT_GT(test, o.milli_iops, last.milli_iops);
		KUNIT_EXPECT_GT(test, o.p999_ns, last.p999_ns);
		last = o;
	}
	/* The last one never closed: it is the FIFO, to the last request. */
	KUNIT_EXPECT_EQ(test, last.closed_permille, 0ULL);
	KUNIT_EXPECT_EQ(test, last.milli_iops, off.milli_iops);
	KUNIT_EXPECT_EQ(test, last.max_ns, off.max_ns);
}

/*
 * What a max_wait_ms comes to. The time at the gate is in the response times, and
 * in no bound: one request in ten thousand may be longer, and by 3 %. And the
 * wait is used: the longest is not far below it.
 */
static void rsd_keeps_to_a_wait(struct kunit *test)
{
	static const u32 waits_ms[] = { 600, 800, 1000, 1200, 1400 };
	const struct disk *disk = test->param_value;
	const u64 nr = 30000;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(waits_ms); i++) {
		u64 wait_ns = waits_ms[i] * MS_NS;
		struct outcome o = simulate_wait(disk->preset, 31, AGE_TH_MAX, wait_ns,
						 disk->seed, nr);

		printf("# %u ms: %llu.%llu/s; ms: 99.9 %% %llu, max %llu; ",
		       waits_ms[i], o.milli_iops / 1000, o.milli_iops / 100 % 10,
		       o.p999_ns / MS_NS, o.max_ns / MS_NS);
		printf("%llu of %llu longer\n", o.nr_longer, nr);
		KUNIT_EXPECT_LE(test, o.nr_longer * 10000, nr);
		KUNIT_EXPECT_LE(test, o.max_ns, wait_ns * 103 / 100);
		KUNIT_EXPECT_GE(test, o.max_ns, wait_ns * 90 / 100);
	}
}

static struct kunit_case rsd_cases[] = {
	KUNIT_CASE_PARAM(rsd_is_better_than_a_shorter_queue, disks_gen_params),
	KUNIT_CASE(rsd_bounds_and_costs),
	KUNIT_CASE_PARAM(rsd_keeps_to_a_wait, disks_gen_params),
	{ }
};

static struct kunit_suite rsd_suite = {
	.name = "rsd",
	.test_cases = rsd_cases,
};

kunit_test_suite(rsd_suite);
