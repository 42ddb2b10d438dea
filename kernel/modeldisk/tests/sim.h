/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A loop that drives a model without a kernel: so many commands are kept
 * inside, each replaced the moment it completes, as an application does that
 * takes no time of its own.
 */
#ifndef _MD_SIM_H
#define _MD_SIM_H

#include <kunit/test.h>

#include "../model.h"

struct sim {
	struct md_model *model;
	struct md_rng rng;
	u64 now_ns;

	/* The load. */
	u32 depth;		/* commands inside */
	enum md_op op;
	u32 nr_sects;		/* of a command */
	u64 area_sects;		/* that the load uses, from sector 0 */
	bool sequential;
	u64 next_sect;
	u64 turnaround_ns;	/* of the host: completion to next submission */
	u32 write_permille;	/* so many of a thousand are writes instead of op */
	u64 poke_ns;		/* advance() at least this often; 0: only when due */

	struct md_cmd *cmds;	/* depth of them */
	struct md_cmd **idle;	/* to be submitted at due_ns, in order */
	u64 *due_ns;
	u32 nr_idle;
	u32 first_idle;

	/* Sees each command, of the ramp as well, when it is done; may be NULL. */
	void (*on_done)(struct sim *sim, const struct md_cmd *cmd);
	void *seen;		/* for it */

	/* What came of it. */
	u64 *lat_ns;		/* latency of each, in order of completion */
	u64 nr_done;
	u64 elapsed_ns;
	u64 first_ns;
	u64 late_ns;		/* longest from a completion to when next_ns() said */
	u64 op_nr[MD_NR_OPS];	/* by operation: commands, and sum of latencies */
	u64 op_sum_ns[MD_NR_OPS];
};

static inline struct md_model *
sim_create(const struct md_model_type *type, const void *params, u64 size_mib,
	   u64 seed, u32 nr_cmds)
{
	struct md_setup setup = {
		.params = params,
		.nr_sects = size_mib << 11,
		.seed = seed,
		.nr_cmds = nr_cmds,
		.max_sects = 2048,
	};
	struct md_model *model = type->create(&setup);

	if (!model) {
		fprintf(stderr, "%s: %s\n", type->name,
			setup.problem[0] ? setup.problem : "no memory");
		abort();
	}
	return model;
}

/* The preset's parameters and size. */
static inline const struct md_preset *
sim_preset(const struct md_model_type *type, const char *name)
{
	unsigned int i;

	for (i = 0; i < type->nr_presets; i++)
		if (!strcmp(type->presets[i].name, name))
			return &type->presets[i];
	fprintf(stderr, "%s has no preset %s\n", type->name, name);
	abort();
}

static inline void sim_submit(struct sim *sim, struct md_cmd *cmd)
{
	u64 nr_places = sim->area_sects / sim->nr_sects;

	cmd->op = sim->op;
	if (sim->write_permille && md_rng_chance(&sim->rng, sim->write_permille, 1000))
		cmd->op = MD_WRITE;
	cmd->nr_sects = sim->nr_sects;
	if (sim->sequential) {
		cmd->sect = sim->next_sect;
		sim->next_sect += sim->nr_sects;
		if (sim->next_sect + sim->nr_sects > sim->area_sects)
			sim->next_sect = 0;
	} else {
		cmd->sect = md_rng_below(&sim->rng, nr_places) * sim->nr_sects;
	}
	sim->model->type->submit(sim->model, cmd, sim->now_ns);
}

/*
 * Run @nr_cmds commands, after @nr_ramp that are not counted. The model, load
 * and rng are set; commands inside at the end are waited for and not counted.
 */
static inline void sim_run(struct sim *sim, u64 nr_ramp, u64 nr_cmds)
{
	const struct md_model_type *type = sim->model->type;
	u64 total = nr_ramp + nr_cmds, nr_started = 0, nr_ended = 0;
	u32 i;

	sim->cmds = calloc(sim->depth, sizeof(*sim->cmds));
	sim->idle = calloc(sim->depth, sizeof(*sim->idle));
	sim->due_ns = calloc(sim->depth, sizeof(*sim->due_ns));
	free(sim->lat_ns);
	sim->lat_ns = calloc(nr_cmds, sizeof(*sim->lat_ns));
	sim->nr_done = 0;
	sim->nr_idle = sim->depth;
	sim->first_idle = 0;
	sim->first_ns = sim->now_ns;
	for (i = 0; i < sim->depth; i++) {
		sim->idle[i] = &sim->cmds[i];
		sim->due_ns[i] = sim->now_ns;
	}

	while (nr_ended < total + sim->depth) {
		u64 next_ns = type->next_ns(sim->model);
		struct md_cmd *cmd;

		if (sim->nr_idle && nr_started < total + sim->depth)
			next_ns = min(next_ns, sim->due_ns[sim->first_idle]);
		if (next_ns == MD_NEVER_NS) {
			fprintf(stderr, "%s: nothing will happen and %llu commands are inside\n",
				type->name, nr_started - nr_ended);
			abort();
		}
		if (sim->poke_ns)
			next_ns = min(next_ns, sim->now_ns + sim->poke_ns);
		if (next_ns > sim->now_ns)
			sim->now_ns = next_ns;
		type->advance(sim->model, sim->now_ns);

		while (!list_empty(&sim->model->done)) {
			u32 tail = (sim->first_idle + sim->nr_idle) % sim->depth;

			cmd = list_first_entry(&sim->model->done, struct md_cmd, node);
			list_del(&cmd->node);
			if (cmd->done_ns > sim->now_ns || cmd->done_ns < cmd->arrive_ns) {
				fprintf(stderr, "%s: done at %llu, now %llu, came %llu\n",
					type->name, cmd->done_ns, sim->now_ns,
					cmd->arrive_ns);
				abort();
			}
			nr_ended++;
			if (sim->on_done)
				sim->on_done(sim, cmd);
			sim->late_ns = max(sim->late_ns, sim->now_ns - cmd->done_ns);
			if (nr_ended == nr_ramp)
				sim->first_ns = cmd->done_ns;
			if (nr_ended > nr_ramp && nr_ended <= total) {
				sim->lat_ns[sim->nr_done++] = cmd->done_ns - cmd->arrive_ns;
				sim->op_nr[cmd->op]++;
				sim->op_sum_ns[cmd->op] += cmd->done_ns - cmd->arrive_ns;
				sim->elapsed_ns = cmd->done_ns - sim->first_ns;
			}
			sim->idle[tail] = cmd;
			sim->due_ns[tail] = sim->now_ns + sim->turnaround_ns;
			sim->nr_idle++;
		}
		while (sim->nr_idle && nr_started < total + sim->depth &&
		       sim->due_ns[sim->first_idle] <= sim->now_ns) {
			cmd = sim->idle[sim->first_idle];
			sim->first_idle = (sim->first_idle + 1) % sim->depth;
			sim->nr_idle--;
			nr_started++;
			sim_submit(sim, cmd);
		}
	}

	free(sim->cmds);
	free(sim->idle);
	free(sim->due_ns);
}

static inline void sim_end(struct sim *sim)
{
	sim->model->type->destroy(sim->model);
	free(sim->lat_ns);
}

static int sim_compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* Latency under which @permille of a thousand commands stay; sorts lat_ns. */
static inline u64 sim_quantile_ns(struct sim *sim, unsigned int permille)
{
	u64 rank = sim->nr_done * permille / 1000;

	qsort(sim->lat_ns, sim->nr_done, sizeof(*sim->lat_ns), sim_compare);
	return sim->lat_ns[min(rank, sim->nr_done - 1)];
}

static inline u64 sim_mean_ns(const struct sim *sim)
{
	u64 sum = 0, i;

	for (i = 0; i < sim->nr_done; i++)
		sum += sim->lat_ns[i];
	return sum / sim->nr_done;
}

/* Commands a second, times a thousand. */
static inline u64 sim_milli_iops(const struct sim *sim)
{
	return mul_u64_u64_div_u64(sim->nr_done, 1000ULL * 1000 * 1000 * 1000,
				   sim->elapsed_ns);
}

/* A load and how long to run it, for models whose presets are drives. */
struct sim_load {
	enum md_op op;
	u32 depth;
	u32 nr_sects;
	bool sequential;
	u32 write_permille;
	u64 nr_ramp;
	u64 nr_cmds;
};

/*
 * Run @load on the drive @name, with @params (NULL: the preset's); the caller
 * ends it.
 */
static inline struct sim sim_drive(const struct md_model_type *type,
				   const char *name, const void *params,
				   struct sim_load load)
{
	const struct md_preset *preset = sim_preset(type, name);
	struct sim sim = {
		.model = sim_create(type, params ?: preset->params,
				    preset->size_mib, 1, load.depth),
		.depth = load.depth, .op = load.op, .nr_sects = load.nr_sects,
		.area_sects = preset->size_mib << 11, .sequential = load.sequential,
		.write_permille = load.write_permille,
	};

	md_rng_seed(&sim.rng, 5);
	sim_run(&sim, load.nr_ramp, load.nr_cmds);
	return sim;
}

static inline u64 sim_mb_per_s(const struct sim *sim)
{
	return sim_milli_iops(sim) * (sim->nr_sects << MD_SECT_SHIFT) / 1000 / 1000000;
}

/* Every preset's parameters are in the ranges that configfs keeps others to. */
static inline void sim_check_presets(struct kunit *test,
				     const struct md_model_type *type)
{
	unsigned int i, j;

	KUNIT_EXPECT_GT(test, type->nr_presets, 0U);
	KUNIT_EXPECT_EQ(test, type->nr_params * sizeof(u64), type->params_bytes);
	for (i = 0; i < type->nr_presets; i++) {
		for (j = 0; j < type->nr_params; j++) {
			const struct md_param *param = &type->params[j];
			u64 value = *(const u64 *)(type->presets[i].params + param->offset);

			KUNIT_EXPECT_GE(test, value, param->least);
			KUNIT_EXPECT_LE(test, value, param->most);
		}
	}
}

/*
 * A model's machine goes on by itself: asked at its events, or every @pokes_ns too, each
 * command takes the same time. Returns the stalls that it had.
 */
static inline u64 sim_check_asking(struct kunit *test, const struct md_model_type *type,
				   const char *preset, u32 depth, const u64 *pokes_ns,
				   unsigned int nr_pokes)
{
	u64 *first_ns = NULL, nr_stalls = 0;
	unsigned int i;

	for (i = 0; i <= nr_pokes; i++) {
		struct sim sim = {
			.model = sim_create(type, sim_preset(type, preset)->params, 4096, 3, depth),
			.depth = depth, .op = MD_READ, .nr_sects = 24,
			.area_sects = 4096 << 11, .write_permille = 300,
			.turnaround_ns = 3000, .poke_ns = i ? pokes_ns[i - 1] : 0,
		};

		md_rng_seed(&sim.rng, 5);
		sim_run(&sim, 0, 20000);
		if (i) {
			KUNIT_EXPECT_EQ(test, memcmp(first_ns, sim.lat_ns, 20000 * sizeof(u64)), 0);
		} else {
			first_ns = sim.lat_ns;
			sim.lat_ns = NULL;
			nr_stalls = sim.model->counts.nr_stalls;
		}
		sim_end(&sim);
	}
	free(first_ns);
	return nr_stalls;
}

/* Parameters that are out of range or of no sense are refused with a line that says so. */
static inline void sim_check_refused(struct kunit *test, const struct md_model_type *type,
				     const void *params, const char *problem)
{
	struct md_setup setup = {
		.params = params, .nr_sects = 1 << 20, .nr_cmds = 1, .max_sects = 2048,
	};

	KUNIT_EXPECT_TRUE(test, !type->create(&setup));
	KUNIT_EXPECT_STREQ(test, setup.problem, problem);
}

/* @value is within @permille of a thousand of @want. */
#define EXPECT_NEAR(test, value, want, permille) do {			\
	u64 __value = (value), __want = (want);				\
	u64 __off = __value > __want ? __value - __want : __want - __value; \
									\
	if (__off * 1000 > __want * (permille))				\
		printf("# %s: %llu, wanted %llu within %u per mille\n",	\
		       #value, __value, __want, (unsigned int)(permille)); \
	KUNIT_EXPECT_LE(test, __off * 1000, __want * (permille));	\
} while (0)

#endif /* _MD_SIM_H */
