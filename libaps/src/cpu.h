/* SPDX-License-Identifier: MIT */
/*
 * What others use of the CPUs that this process may use.
 *
 * Read at most every sample_ns; what counts is the mean of 17 readings. Files below a
 * root directory, so that tests have trees of their own:
 *
 *	/proc/thread-self/status	which CPUs are allowed (cpusets, affinity)
 *	/sys/devices/system/cpu/online	which there are
 *	/proc/thread-self/schedstat	how long this thread waited for a CPU
 *	/proc/loadavg			if all are allowed: tasks that run or wait to run
 *	/proc/stat, /proc/schedstat	if not: idle time of the allowed CPUs, and how
 *					long all tasks waited for them
 *	/proc/self/cgroup, and cpu.max and cpu.stat of the cgroups above it
 *
 * A reading is paid for by the reads that are outstanding. /proc/stat and
 * /proc/schedstat have every interrupt and every domain of every CPU: on 8 CPUs
 * together 50,000 to 500,000 instructions, as long as tens of reads take, every 20 ms
 * in each thread. At a medium load those readings alone are the tail. /proc/loadavg takes
 * some thousand. It tells of a moment, which 17 of them make up for (until there are as many,
 * the others count as if no task wanted any), and includes tasks that wait behind a thread
 * that spins: what others want, not what they get. Of them this process is subtracted:
 * one for the thread that reads, and for its siblings the time that they ran or waited.
 *
 * Where only some CPUs are allowed, nothing cheap tells of those. Others got what was
 * neither idle nor used by this process, and wanted as much more as they waited.
 * All that waited, without this process's threads: those that have I/Os
 * in flight are taken to wait as long as this one. A kernel without
 * CONFIG_SCHEDSTATS does not tell: then no task is seen to wait.
 *
 * A cgroup with a quota of Q CPUs is a machine of Q CPUs
 * in which `busy` is the cgroup's usage; one that was throttled has no margin.
 * Of the machine and the cgroups, the one with the fewest CPUs left counts.
 *
 * cgroup v2 only.
 *
 * The thread that reads is the one whose waits and whose allowed CPUs count. When
 * another thread reads for the first time, the files of a thread are opened anew, and
 * the waits go on from where they were; readings of other CPUs are forgotten.
 */
#ifndef APS_CPU_H
#define APS_CPU_H

#include <stdbool.h>
#include <stdint.h>

#define APS_CPU_READINGS 16
#define APS_CPU_LEVELS 4	/* cgroups with a quota, from the innermost */
#define APS_CPU_MAX 1024

/* All since some time in the past. */
struct aps_cpu_reading {
	uint64_t at_ns;
	unsigned int nr_tasks;	/* that run or wait to run, with the one that reads */
	uint64_t idle_ns;	/* all allowed CPUs together */
	uint64_t own_ns;	/* this process */
	uint64_t all_waited_ns;	/* all tasks, for allowed CPUs */
	uint64_t own_waited_ns;	/* this thread */
	uint64_t usage_ns[APS_CPU_LEVELS];
	uint64_t nr_throttled[APS_CPU_LEVELS];
};

struct aps_cpu_level {
	int stat_fd;
	uint64_t quota_ppm;	/* CPUs, 1000000 is one */
};

/* What the window of readings says. */
struct aps_cpu_load {
	uint32_t util_ppm;	/* of the capacity, by others */
	uint64_t capacity_ppm;	/* CPUs, 1000000 is one */
};

struct aps_cpu {
	char *root;
	uint64_t thread;	/* that the files of a thread are of */
	uint64_t own_waited_before_ns; /* by the threads before this one, modulo 2^64 */
	bool own_waits_moved;	/* and its first reading is to come */
	int loadavg_fd;		/* -1: not there, or not all CPUs are allowed */
	int stat_fd, waits_fd, own_waits_fd; /* the last two: -1 if not there */
	uint64_t nr_cpus;
	uint64_t allowed[APS_CPU_MAX / 64];
	struct aps_cpu_level levels[APS_CPU_LEVELS];
	unsigned int nr_levels;
	struct aps_cpu_reading readings[APS_CPU_READINGS];
	unsigned int nr, next;
	struct aps_cpu_load load;
	char *text;		/* a file's */
	size_t text_bytes;
};

/* So that aps_cpu_close() finds nothing to close. aps_cpu_open() does it as well. */
void aps_cpu_init(struct aps_cpu *cpu);

/* Return: 0, or -errno of a file that must be there. root: "" for /. */
int aps_cpu_open(struct aps_cpu *cpu, const char *root);
void aps_cpu_close(struct aps_cpu *cpu);

/*
 * Read the files. own_ns: CPU time of this process, of which nr_waiting threads
 * have I/Os in flight. Return: 0 or -errno.
 */
int aps_cpu_read(struct aps_cpu *cpu, uint64_t now_ns, uint64_t own_ns, unsigned int nr_waiting);

/* CPUs for so many threads that wait, over all CPUs. */
static inline uint32_t aps_cpu_need_ppm(const struct aps_cpu *cpu, unsigned int nr_waiting)
{
	const uint64_t cpu_ppm = 1000000;
	uint64_t need = nr_waiting * cpu_ppm * cpu_ppm / cpu->load.capacity_ppm;

	return need < UINT32_MAX ? (uint32_t)need : UINT32_MAX;
}

/* CPU time of this process. */
uint64_t aps_process_ns(void);

/* The calling thread: a number that no other thread of this process ever has. */
uint64_t aps_this_thread(void);

#endif
