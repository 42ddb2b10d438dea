/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts what a scheduler does to the memory that CPUs share, for each request: locked
 * operations, locks taken, plain writes, and cache lines that have to be fetched from
 * another CPU. One thread plays all CPUs in turn, so the counts need no cores and are the
 * same in each run.
 *
 * A line is the hardware context's own if one CPU makes nearly all of the accesses to
 * it; a cgroup's if requests of one cgroup make most of them; else it is the device's.
 * That is found by looking, not by the structures' names: it holds for any scheduler.
 *
 * The accesses come from the shim's marks (see shim_access.h), which are atomics, locks
 * and READ_ONCE() or WRITE_ONCE(); or all of them from the compiler, with
 * -fsanitize=thread and SMP_COUNT_CALLS for count.c.
 */
#ifndef SMP_COUNT_H
#define SMP_COUNT_H

#include <stdbool.h>
#include <stddef.h>

/* What the scheduler is called for. */
enum smp_phase {
	SMP_SUBMIT,	/* limit_depth, bio_merge, prepare_request, insert_requests */
	SMP_DISPATCH,	/* has_work, dispatch_request */
	SMP_COMPLETE,	/* completed_request, finish_request */
	SMP_TIMER,	/* its timers and works */
	SMP_NR_PHASES,
};

enum smp_owner {
	SMP_OWN,
	SMP_CGROUP,
	SMP_DEVICE,
	SMP_NR_OWNERS,
};

/* Of lines of one owner, in one phase. */
struct smp_count {
	unsigned long long locks;
	unsigned long long rmw;		/* locked operations besides those */
	unsigned long long writes;	/* plain ones */
	unsigned long long fetches;	/* from the CPU that wrote the line last, or read it */
};

struct smp_counts {
	struct smp_count of[SMP_NR_PHASES][SMP_NR_OWNERS];
};

#define SMP_NO_CGROUP	(-1)

/* Of lines of one owner, in all phases. */
static inline struct smp_count smp_count_sum(const struct smp_counts *counts,
					     enum smp_owner owner)
{
	struct smp_count sum = { 0, 0, 0, 0 };
	unsigned int phase;

	for (phase = 0; phase < SMP_NR_PHASES; phase++) {
		const struct smp_count *of = &counts->of[phase][owner];

		sum.locks += of->locks;
		sum.rmw += of->rmw;
		sum.writes += of->writes;
		sum.fetches += of->fetches;
	}
	return sum;
}

void smp_count_access(const void *at, int kind);
void smp_count_ignore(const void *from, size_t bytes);
void smp_count_start(void);
void smp_count_stop(struct smp_counts *counts);
void smp_count_enter(enum smp_phase phase, unsigned int cpu);
void smp_count_leave(int cgroup);

#endif
