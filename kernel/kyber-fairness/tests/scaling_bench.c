// SPDX-License-Identifier: GPL-2.0-only
/*
 * How far the scheduler scales with CPUs, beside the structures of Kyber and of
 * mq-deadline: `make vm T=scaling`.
 *
 * scaling_bench rates [MS [REPEATS]]	requests a second, by number of threads
 * scaling_bench counts			locked operations and shared lines a request
 *
 * Both print lines of data for the tables of docs/results/scaling.md.
 *
 * The counts take a program that is compiled with -fsanitize=thread and linked with
 * count.c instead of that sanitizer.
 */
#define _GNU_SOURCE

#include <unistd.h>

#include "module.h"

#include "../../common/tests/smp/deadline.h"
#include "../../common/tests/smp/kyber.h"
#include "../../common/tests/smp/played.h"
#include "../../common/tests/smp/threads.h"

#define NR_TYPES	3
#define NR_REPEATS_MAX	25
/* kyber-fairness knows the device after some looks, of 100 ms each; until then it is slower. */
#define WARM_MS		500
#define COUNT_NR_CPUS	4

static struct elevator_type *types[NR_TYPES];

/* Values by a name, without those of 0, where nothing was seen. */
static void show_values(const char *name, const double *values, unsigned int nr)
{
	const char *sep = "";
	unsigned int i;

	printf("\"%s\":[", name);
	for (i = 0; i < nr; i++)
		if (values[i] > 0) {
			printf("%s%.4f", sep, values[i]);
			sep = ",";
		}
	printf("]");
}

/* One cell: the three structures in turn, there and back, so that each has the same. */
static void show_rates(const struct smp_setup *cell, unsigned int ms, unsigned int repeats)
{
	double mps[NR_TYPES][NR_REPEATS_MAX], part[2][NR_REPEATS_MAX];
	unsigned int i, type;

	for (i = 0; i < repeats; i++) {
		for (type = 0; type < NR_TYPES; type++) {
			unsigned int at = i % 2 ? NR_TYPES - 1 - type : type;
			struct smp_setup setup = *cell;

			setup.type = types[at];
			mps[at][i] = smp_load_threads(&setup, WARM_MS, ms).per_s / 1e6;
		}
		for (type = 0; type < 2; type++)
			part[type][i] = mps[type + 1][i] > 0 ? mps[0][i] / mps[type + 1][i] : 0;
	}
	printf("{\"table\":\"rates\",\"cpus\":%ld,\"threads\":%u,\"contexts\":%u,\"cgroups\":\"%s\",\"state\":\"%s\",\"rates\":{",
	       sysconf(_SC_NPROCESSORS_ONLN), cell->nr_cpus, cell->nr_hctx,
	       smp_spread_names[cell->spread], smp_state_names[cell->state]);
	for (type = 0; type < NR_TYPES; type++) {
		printf(type ? "," : "");
		show_values(types[type]->elevator_name, mps[type], repeats);
	}
	printf("},\"of\":{");
	show_values("of Kyber's", part[0], repeats);
	printf(",");
	show_values("of one lock's", part[1], repeats);
	printf("}}\n");
	fflush(stdout);
}

static void bench_rates(unsigned int ms, unsigned int repeats)
{
	unsigned int all = sysconf(_SC_NPROCESSORS_ONLN), nr_cpus, spread, state, i;

	for (nr_cpus = 1; nr_cpus <= all; nr_cpus = nr_cpus < all && 2 * nr_cpus > all ?
						     all : 2 * nr_cpus) {
		const unsigned int nr_hctx[] = { 1, all, 64 };

		for (i = 0; i < ARRAY_SIZE(nr_hctx); i++) {
			if (i && nr_hctx[i] == nr_hctx[i - 1])
				continue;
			for (spread = 0; spread < SMP_NR_SPREADS; spread++) {
				if (nr_cpus == 1 && spread == SMP_CGROUP_EACH)
					continue;
				for (state = 0; state <= SMP_QUEUED; state++)
					show_rates(&(struct smp_setup){
						.nr_cpus = nr_cpus, .nr_hctx = nr_hctx[i],
						.spread = spread, .state = state,
					}, ms, repeats);
			}
		}
	}
}

static double per_request(u64 nr, const struct smp_result *result)
{
	return (double)nr / max_t(u64, result->nr_done, 1);
}

/* Locked operations, those that take a lock among them, on lines of each owner. */
static void show_locked(const struct smp_count *sum, const struct smp_result *result)
{
	unsigned int owner;

	for (owner = 0; owner < SMP_NR_OWNERS; owner++)
		printf("%s%.1f", owner ? "," : ",\"locked\":[",
		       per_request(sum[owner].locks + sum[owner].rmw, result));
	printf("]");
}

static void show_counts(const struct smp_setup *cell)
{
	struct smp_count sum[SMP_NR_OWNERS];
	unsigned int type, owner;

	for (type = 0; type < NR_TYPES; type++) {
		struct smp_setup setup = *cell;
		struct smp_result result;
		u64 nr_fetches = 0;

		setup.type = types[type];
		result = smp_load_played(&setup);
		for (owner = 0; owner < SMP_NR_OWNERS; owner++) {
			sum[owner] = smp_count_sum(&result.counts, owner);
			nr_fetches += sum[owner].fetches;
		}
		printf("{\"table\":\"counts\",\"contexts\":%u,\"cgroups\":\"%s\",\"state\":\"%s\",\"structure\":\"%s\"",
		       cell->nr_hctx, smp_spread_names[cell->spread],
		       smp_state_names[cell->state], types[type]->elevator_name);
		show_locked(sum, &result);
		printf(",\"fetched\":%.1f}\n", per_request(nr_fetches, &result));
	}
	fflush(stdout);
}

/* Where it happens, and what it is. */
static void show_phases(const struct smp_setup *setup)
{
	static const char * const names[SMP_NR_PHASES] = {
		[SMP_SUBMIT] = "submit", [SMP_DISPATCH] = "dispatch",
		[SMP_COMPLETE] = "complete", [SMP_TIMER] = "timers",
	};
	struct smp_result result = smp_load_played(setup);
	unsigned int phase;

	for (phase = 0; phase < SMP_NR_PHASES; phase++) {
		const struct smp_count *of = result.counts.of[phase];

		printf("{\"table\":\"phases\",\"cgroups\":\"%s\",\"state\":\"%s\",\"structure\":\"%s\",\"phase\":\"%s\"",
		       smp_spread_names[setup->spread], smp_state_names[setup->state],
		       setup->type->elevator_name, names[phase]);
		show_locked(of, &result);
		printf(",\"shared_locks\":%.1f,\"shared_writes\":%.1f,\"fetched\":%.1f",
		       per_request(of[SMP_CGROUP].locks + of[SMP_DEVICE].locks, &result),
		       per_request(of[SMP_CGROUP].writes + of[SMP_DEVICE].writes, &result),
		       per_request(of[SMP_OWN].fetches + of[SMP_CGROUP].fetches +
				   of[SMP_DEVICE].fetches, &result));
		if (phase == SMP_DISPATCH)
			printf(",\"workers\":%.3f", per_request(result.nr_runs, &result));
		printf("}\n");
	}
	fflush(stdout);
}

static void bench_counts(void)
{
	static const unsigned int nr_hctx[] = { COUNT_NR_CPUS, 1 };
	struct smp_setup setup = { .nr_cpus = COUNT_NR_CPUS };
	unsigned int i, spread, state;

	for (i = 0; i < ARRAY_SIZE(nr_hctx); i++) {
		setup.nr_hctx = nr_hctx[i];
		for (spread = 0; spread < SMP_NR_SPREADS; spread++)
			for (state = 0; state < SMP_NR_STATES; state++) {
				setup.spread = spread;
				setup.state = state;
				show_counts(&setup);
			}
	}

	setup.nr_hctx = COUNT_NR_CPUS;
	setup.type = types[0];
	for (spread = 0; spread < SMP_NR_SPREADS; spread++)
		for (state = 0; state < SMP_FULL; state++) {
			setup.spread = spread;
			setup.state = state;
			show_phases(&setup);
		}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned int ms = argc > 2 ? strtoul(argv[2], NULL, 10) : 200;
	unsigned int repeats = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;

	types[0] = kf_load_module();
	types[1] = &smp_kyber;
	types[2] = &smp_deadline;
	if (!strcmp(what, "rates") && ms && repeats && repeats <= NR_REPEATS_MAX) {
		smp_clock_calibrate();
		bench_rates(ms, repeats);
	} else if (!strcmp(what, "counts")) {
		bench_counts();
	} else {
		fprintf(stderr, "usage: scaling_bench rates [MS [REPEATS]] | counts\n");
		return 2;
	}
	shim_module_exit();
	return 0;
}
