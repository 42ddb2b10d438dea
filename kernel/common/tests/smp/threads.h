/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs that are threads, each pinned to a CPU of this machine. */
#ifndef SMP_THREADS_H
#define SMP_THREADS_H

#include <sched.h>

#include "load.h"

/*
 * On a machine that does other things as well a thread is away now and then. So time is
 * cut into bins, and only those count in which no thread was away, nor in the ones
 * before and after. Two threads that never run side by side measure nothing.
 */
#define SMP_AWAY_LIMIT		12	/* as many times the time wanted is waited for it */

struct smp_rate {
	double per_s;		/* requests of all CPUs, in a second */
	double seen_ms;		/* of which so much was seen */
};

static void smp_see(struct smp_cpu *sc, u64 nr_done)
{
	u64 bin = (sc->now_ns - sc->run->start_ns) / SMP_BIN_NS;

	if (sc->now_ns < sc->run->start_ns || bin >= sc->run->nr_bins)
		return;
	if (!sc->bins[bin])
		sc->bins[bin] = 1;
	sc->bins[bin] += nr_done;
}

/* The CPUs that this process may use; the @nr'th of them. */
static void smp_pin(unsigned int nr)
{
	cpu_set_t all, one;
	unsigned int cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	CPU_ZERO(&one);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && !nr--) {
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}

/* One turn of the loop. Return: whether anything was done. */
static bool smp_turn(struct smp_cpu *sc, bool may_submit)
{
	bool did = false;

	if (sc->state == SMP_UNQUEUED) {
		if (may_submit)
			did |= smp_submit(sc);
	} else {
		while (may_submit && smp_submit(sc))
			did = true;
	}
	while (smp_dispatch(sc))
		did = true;
	if (sc->state == SMP_UNQUEUED) {
		while (smp_complete(sc))
			did = true;
	} else {
		did |= smp_complete(sc);
	}
	smp_must_run(sc);	/* it is run in each turn */
	did |= smp_poll_timers(sc, !did);
	return did;
}

static void *smp_thread(void *arg)
{
	struct smp_cpu *sc = arg;
	struct smp_run *run = sc->run;
	bool must_end = false, is_drained = false;
	unsigned int spins = 0;
	u64 nr_done = 0;

	smp_this_cpu = sc->cpu;
	smp_pin(sc->cpu);
	__atomic_fetch_add(&run->nr_ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&run->nr_ready, __ATOMIC_ACQUIRE) < run->nr_cpus)
		shim_relax(&spins);
	for (;;) {
		if (!smp_turn(sc, !must_end)) {
			sc->now_ns = shim_now_ns();
			shim_relax(&spins);
		}
		smp_see(sc, sc->nr_done - nr_done);
		nr_done = sc->nr_done;
		must_end = __atomic_load_n(&run->must_end, __ATOMIC_RELAXED);
		if (!must_end || smp_has_busy(sc))
			continue;
		if (!is_drained)
			__atomic_fetch_add(&run->nr_drained, 1, __ATOMIC_SEQ_CST);
		is_drained = true;
		/* Others may need this CPU's timers until they are done. */
		if (__atomic_load_n(&run->nr_drained, __ATOMIC_ACQUIRE) == run->nr_cpus)
			break;
	}
	return NULL;
}

static void smp_sleep_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, (ms % 1000) * NSEC_PER_MSEC };

	nanosleep(&t, NULL);
}

static bool smp_all_there(const struct smp_run *run, unsigned int bin)
{
	unsigned int cpu;

	for (cpu = 0; cpu < run->nr_cpus; cpu++)
		if (!__atomic_load_n(&run->cpus[cpu].bins[bin], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* The rate since @from_ms, of what was seen up to now. */
static struct smp_rate smp_find_rate(const struct smp_run *run, unsigned int from_ms)
{
	u64 now_ns = shim_now_ns() - run->start_ns, nr_done = 0, nr_bins = 0;
	unsigned int end = min_t(u64, now_ns / SMP_BIN_NS, run->nr_bins);
	unsigned int bin = from_ms * NSEC_PER_MSEC / SMP_BIN_NS + 1, cpu;
	struct smp_rate rate = { };

	for (; bin + 1 < end; bin++) {
		if (!smp_all_there(run, bin - 1) || !smp_all_there(run, bin) ||
		    !smp_all_there(run, bin + 1))
			continue;
		nr_bins++;
		for (cpu = 0; cpu < run->nr_cpus; cpu++)
			nr_done += run->cpus[cpu].bins[bin] - 1;
	}
	if (nr_bins)
		rate.per_s = (double)nr_done * NSEC_PER_SEC / (nr_bins * SMP_BIN_NS);
	rate.seen_ms = (double)nr_bins * SMP_BIN_NS / NSEC_PER_MSEC;
	return rate;
}

/* Run a closed loop on each CPU; what is measured comes after @warm_ms. */
static struct smp_rate smp_load_threads(const struct smp_setup *setup, unsigned int warm_ms,
					unsigned int ms)
{
	struct smp_run *run = smp_run_begin(setup);
	unsigned int i, waited_ms;
	struct smp_rate rate;

	run->nr_bins = (warm_ms + SMP_AWAY_LIMIT * ms) * NSEC_PER_MSEC / SMP_BIN_NS;
	for (i = 0; i < run->nr_cpus; i++)
		run->cpus[i].bins = shim_kzalloc(run->nr_bins * sizeof(u32));
	run->start_ns = shim_now_ns();
	for (i = 0; i < run->nr_cpus; i++)
		if (pthread_create(&run->cpus[i].thread, NULL, smp_thread, &run->cpus[i]))
			abort();
	smp_sleep_ms(warm_ms);
	for (waited_ms = ms;; waited_ms += ms / 2) {
		smp_sleep_ms(waited_ms == ms ? ms : ms / 2);
		rate = smp_find_rate(run, warm_ms);
		if (rate.seen_ms >= ms * 0.8 || waited_ms >= SMP_AWAY_LIMIT * ms)
			break;
	}
	__atomic_store_n(&run->must_end, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < run->nr_cpus; i++) {
		pthread_join(run->cpus[i].thread, NULL);
		kfree(run->cpus[i].bins);
	}
	smp_run_end(run);
	return rate;
}

#endif
