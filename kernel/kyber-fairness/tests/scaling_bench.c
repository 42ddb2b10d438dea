// SPDX-License-Identifier: GPL-2.0-only
/*
 * How far the scheduler scales with CPUs, beside the structures of Kyber and of
 * mq-deadline: `make bench-smp`.
 *
 * scaling_bench rates [MS [REPEATS]]	requests a second, by number of threads
 * scaling_bench counts			locked operations and shared lines a request
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

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(const double *values, unsigned int nr)
{
	double sorted[NR_REPEATS_MAX];

	memcpy(sorted, values, nr * sizeof(*values));
	qsort(sorted, nr, sizeof(*sorted), compare_double);
	return nr % 2 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
}

/* Of values, 0 where nothing was seen; the number of the others. */
static unsigned int seen(double *values, unsigned int nr)
{
	unsigned int i, n = 0;

	for (i = 0; i < nr; i++)
		if (values[i] > 0)
			values[n++] = values[i];
	return n;
}

/* Million requests a second: median, and least to most. */
static void show_spread(double *mps, unsigned int nr)
{
	nr = seen(mps, nr);
	if (!nr) {
		printf(" not seen |");
		return;
	}
	qsort(mps, nr, sizeof(*mps), compare_double);
	printf(" %.2f (%.2f to %.2f) |", median(mps, nr), mps[0], mps[nr - 1]);
}

/* One cell: the three structures in turn, there and back, so that each has the same. */
static void show_rates(const struct smp_setup *cell, unsigned int ms, unsigned int repeats)
{
	double mps[NR_TYPES][NR_REPEATS_MAX], part[2][NR_REPEATS_MAX];
	unsigned int i, type, nr;

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
	printf("| %u | %u | %s | %s |", cell->nr_cpus, cell->nr_hctx,
	       smp_spread_names[cell->spread], smp_state_names[cell->state]);
	for (type = 0; type < NR_TYPES; type++)
		show_spread(mps[type], repeats);
	for (type = 0; type < 2; type++) {
		nr = seen(part[type], repeats);
		if (nr)
			printf(" %.2f |", median(part[type], nr));
		else
			printf(" |");
	}
	printf("\n");
	fflush(stdout);
}

static void bench_rates(unsigned int ms, unsigned int repeats)
{
	unsigned int all = sysconf(_SC_NPROCESSORS_ONLN), nr_cpus, spread, state, i;

	printf("| threads | hardware contexts | cgroups | state |");
	for (i = 0; i < NR_TYPES; i++)
		printf(" %s |", types[i]->elevator_name);
	printf(" of Kyber's | of one lock's |\n|--:|--:|---|---|--:|--:|--:|--:|--:|\n");
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
		printf("%s%.1f", owner ? " / " : " ",
		       per_request(sum[owner].locks + sum[owner].rmw, result));
	printf(" |");
}

static void show_counts(const struct smp_setup *cell)
{
	struct smp_count sum[SMP_NR_OWNERS];
	unsigned int type, owner;

	printf("| %u | %s | %s |", cell->nr_hctx, smp_spread_names[cell->spread],
	       smp_state_names[cell->state]);
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
		show_locked(sum, &result);
		printf(" %.1f |", per_request(nr_fetches, &result));
	}
	printf("\n");
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

		printf("| %s | %s | %s | %s |", smp_spread_names[setup->spread],
		       smp_state_names[setup->state], setup->type->elevator_name, names[phase]);
		show_locked(of, &result);
		printf(" %.1f | %.1f | %.1f |",
		       per_request(of[SMP_CGROUP].locks + of[SMP_DEVICE].locks, &result),
		       per_request(of[SMP_CGROUP].writes + of[SMP_DEVICE].writes, &result),
		       per_request(of[SMP_OWN].fetches + of[SMP_CGROUP].fetches +
				   of[SMP_DEVICE].fetches, &result));
		if (phase == SMP_DISPATCH)
			printf(" %.3f |", per_request(result.nr_runs, &result));
		else
			printf(" |");
		printf("\n");
	}
	fflush(stdout);
}

static void bench_counts(void)
{
	static const unsigned int nr_hctx[] = { COUNT_NR_CPUS, 1 };
	struct smp_setup setup = { .nr_cpus = COUNT_NR_CPUS };
	unsigned int i, spread, state;

	printf("| hardware contexts | cgroups | state |");
	for (i = 0; i < NR_TYPES; i++)
		printf(" %s | fetched |", types[i]->elevator_name);
	printf("\n|--:|---|---|--:|--:|--:|--:|--:|--:|\n");
	for (i = 0; i < ARRAY_SIZE(nr_hctx); i++) {
		setup.nr_hctx = nr_hctx[i];
		for (spread = 0; spread < SMP_NR_SPREADS; spread++)
			for (state = 0; state < SMP_NR_STATES; state++) {
				setup.spread = spread;
				setup.state = state;
				show_counts(&setup);
			}
	}

	printf("\n| cgroups | state | structure | phase | locked | shared locks |");
	printf(" shared writes | fetched | workers |\n");
	printf("|---|---|---|---|--:|--:|--:|--:|--:|\n");
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
