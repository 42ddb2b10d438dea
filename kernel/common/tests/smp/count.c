// SPDX-License-Identifier: GPL-2.0-only
/* See count.h. Not compiled with the sanitizer that calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>
#include <shim_access.h>

#include "count.h"

#define COUNT_LINE_SHIFT	6
#define COUNT_NR_LINES		131072U
#define COUNT_NR_CPUS		64
#define COUNT_NR_CGROUPS	64
#define COUNT_NR_LOGGED		1048576U

struct count_line {
	uintptr_t line;
	u64 holders;		/* CPUs that have a copy */
	u32 by_cpu[COUNT_NR_CPUS];
	u32 by_cgroup[COUNT_NR_CGROUPS];
	struct smp_count of[SMP_NR_PHASES];
};

struct count_logged {
	struct count_line *line;
	u8 kind;
	bool is_fetch;
};

static struct count_line *count_lines;
static struct count_logged *count_log;
static unsigned int count_nr_logged, count_cpu;
static enum smp_phase count_phase;
static bool count_is_on, count_is_inside;
static uintptr_t count_ignored[2];

static struct count_line *count_line_of(uintptr_t line)
{
	unsigned int at = (line * 0x9e3779b97f4a7c15ULL) >> 47, i;

	for (i = 0; i < COUNT_NR_LINES; i++, at++) {
		struct count_line *cl = &count_lines[at % COUNT_NR_LINES];

		if (cl->line == line)
			return cl;
		if (!cl->line) {
			cl->line = line;
			return cl;
		}
	}
	fprintf(stderr, "count: more than %u lines\n", COUNT_NR_LINES);
	abort();
}

/* Accesses to requests and to this thread's stack are not counted. */
static bool count_is_ignored(uintptr_t at)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return (at > here - (1UL << 20) && at < here + (8UL << 20)) ||
	       (at >= count_ignored[0] && at < count_ignored[1]);
}

void smp_count_access(const void *at, int kind)
{
	struct count_line *cl;
	u64 me;
	bool is_fetch;

	if (!count_is_inside || count_is_ignored((uintptr_t)at))
		return;
	cl = count_line_of((uintptr_t)at >> COUNT_LINE_SHIFT);
	me = 1ULL << count_cpu;
	if (kind == SHIM_READ) {
		is_fetch = cl->holders && !(cl->holders & me);
		cl->holders |= me;
	} else {
		is_fetch = cl->holders & ~me;
		cl->holders = me;
	}
	if (count_nr_logged == COUNT_NR_LOGGED) {
		fprintf(stderr, "count: more than %u accesses in one call\n", COUNT_NR_LOGGED);
		abort();
	}
	count_log[count_nr_logged++] = (struct count_logged){ cl, kind, is_fetch };
}

/* One range of memory that is not counted. */
void smp_count_ignore(const void *from, size_t bytes)
{
	count_ignored[0] = (uintptr_t)from;
	count_ignored[1] = (uintptr_t)from + bytes;
}

void smp_count_start(void)
{
	count_lines = calloc(COUNT_NR_LINES, sizeof(*count_lines));
	count_log = calloc(COUNT_NR_LOGGED, sizeof(*count_log));
	count_is_on = true;
}

static enum smp_owner count_owner(const struct count_line *cl)
{
	u32 cpus = 0, cgroups = 0, cpu_max = 0, cgroup_max = 0;
	unsigned int i;

	for (i = 0; i < COUNT_NR_CPUS; i++) {
		cpus += cl->by_cpu[i];
		if (cl->by_cpu[i] > cpu_max)
			cpu_max = cl->by_cpu[i];
	}
	for (i = 0; i < COUNT_NR_CGROUPS; i++) {
		cgroups += cl->by_cgroup[i];
		if (cl->by_cgroup[i] > cgroup_max)
			cgroup_max = cl->by_cgroup[i];
	}
	/* Nearly all: a CPU that kicks another one touches its hardware context. */
	if (cpu_max >= cpus - cpus / 8)
		return SMP_OWN;
	/* Most: a walk for the clock touches the lines of all cgroups, on behalf of one. */
	return cgroup_max > cgroups * 2 / 3 ? SMP_CGROUP : SMP_DEVICE;
}

void smp_count_stop(struct smp_counts *counts)
{
	unsigned int i, phase;

	memset(counts, 0, sizeof(*counts));
	for (i = 0; i < COUNT_NR_LINES; i++) {
		const struct count_line *cl = &count_lines[i];
		enum smp_owner owner;

		if (!cl->line)
			continue;
		owner = count_owner(cl);
		for (phase = 0; phase < SMP_NR_PHASES; phase++) {
			struct smp_count *to = &counts->of[phase][owner];

			to->locks += cl->of[phase].locks;
			to->rmw += cl->of[phase].rmw;
			to->writes += cl->of[phase].writes;
			to->fetches += cl->of[phase].fetches;
		}
	}
	free(count_lines);
	free(count_log);
	count_is_on = false;
}

/* The scheduler is called, on that CPU. */
void smp_count_enter(enum smp_phase phase, unsigned int cpu)
{
	if (!count_is_on)
		return;
	count_phase = phase;
	count_cpu = cpu;
	count_nr_logged = 0;
	count_is_inside = true;
}

/* It returned. For whose request it was called is known now. */
void smp_count_leave(int cgroup)
{
	unsigned int i;

	count_is_inside = false;
	if (!count_is_on)
		return;
	for (i = 0; i < count_nr_logged; i++) {
		const struct count_logged *logged = &count_log[i];
		struct count_line *cl = logged->line;
		struct smp_count *to = &cl->of[count_phase];

		cl->by_cpu[count_cpu]++;
		if (cgroup != SMP_NO_CGROUP)
			cl->by_cgroup[cgroup]++;
		to->locks += logged->kind == SHIM_LOCKED;
		to->rmw += logged->kind == SHIM_RMW;
		to->writes += logged->kind == SHIM_WRITE;
		to->fetches += logged->is_fetch;
	}
	count_nr_logged = 0;
}

#ifdef SMP_COUNT_CALLS
#include <sanitizer_calls.h>
#endif
