/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that one thread plays, in an order that looks like chance and is the same in
 * each run. Each step of a CPU takes 1 us of a clock that only this moves.
 */
#ifndef SMP_PLAYED_H
#define SMP_PLAYED_H

#include "load.h"

#define SMP_STEP_NS		1000
/* Long enough for what a scheduler adjusts ten times a second; where it has cause to. */
#define SMP_WARM_NS		(120 * NSEC_PER_MSEC)
#define SMP_WARM_DEEP_NS	(350 * NSEC_PER_MSEC)
/* Of what it does that often, one is in it. */
#define SMP_COUNTED_NS		(100 * NSEC_PER_MSEC)

struct smp_result {
	struct smp_counts counts;
	u64 nr_done;		/* requests that completed */
	u64 nr_runs;		/* times another hardware context was run by a worker */
};

/* Of the three things a CPU does in turn, one. */
static void smp_step(struct smp_cpu *sc, bool may_submit)
{
	bool is_unqueued = sc->state == SMP_UNQUEUED;
	bool did = false;

	smp_this_cpu = sc->cpu;
	switch (sc->step++ % 3) {
	case 0:
		while (may_submit && smp_submit(sc)) {
			did = true;
			if (is_unqueued)
				break;
		}
		break;
	case 1:
		while (smp_dispatch(sc))
			did = true;
		break;
	default:
		while (smp_complete(sc)) {
			did = true;
			if (!is_unqueued)
				break;
		}
	}
	if (smp_must_run(sc))
		while (smp_dispatch(sc))
			did = true;
	smp_poll_timers(sc, !did);
}

static u64 smp_all_done(struct smp_run *run)
{
	unsigned int i;
	u64 nr = 0;

	for (i = 0; i < run->nr_cpus; i++)
		nr += run->cpus[i].nr_done;
	return nr;
}

static void smp_play(struct smp_run *run, u64 ns, bool may_submit, u64 *random)
{
	u64 end_ns = smp_played_ns + ns;
	u64 time = smp_played_ns * run->nr_cpus;

	while (smp_played_ns < end_ns) {
		*random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
		smp_step(&run->cpus[(*random >> 33) % run->nr_cpus], may_submit);
		time += SMP_STEP_NS;
		smp_played_ns = time / run->nr_cpus;
	}
}

static void smp_drain(struct smp_run *run, u64 *random)
{
	unsigned int i;

	for (i = 0; i < run->nr_cpus; i++)
		while (smp_has_busy(&run->cpus[i]))
			smp_play(run, 10 * SMP_STEP_NS, false, random);
}

static struct smp_result smp_load_played(const struct smp_setup *setup)
{
	struct smp_result result;
	struct smp_run *run;
	u64 random = 1;

	smp_played_ns = NSEC_PER_SEC;
	run = smp_run_begin(setup);
	smp_play(run, setup->state < SMP_DEEP ? SMP_WARM_NS : SMP_WARM_DEEP_NS, true, &random);
	result.nr_done = smp_all_done(run);
	result.nr_runs = smp_nr_runs(run->sd);
	smp_count_start();
	smp_play(run, SMP_COUNTED_NS, true, &random);
	smp_count_stop(&result.counts);
	result.nr_done = smp_all_done(run) - result.nr_done;
	result.nr_runs = smp_nr_runs(run->sd) - result.nr_runs;
	smp_drain(run, &random);
	smp_run_end(run);
	smp_played_ns = 0;
	return result;
}

#endif
