/* SPDX-License-Identifier: MIT */
/*
 * The decision: how to wait for one I/O. Pure arithmetic; test/policy_test.c
 * checks it without a device.
 *
 * Margin
 *
 * What others leave of the CPUs: 1 minus the mean of CPU utilisation now and at
 * the last 16 completions. `others` are all but this process: a thread that spins
 * would otherwise see itself, stop, see idle CPUs, and spin again. `need` is what
 * this process would use if all its threads that wait spun: their number over the
 * number of CPUs.
 *
 *	margin is all CPUs, and need no more		sleep lightly, then poll
 *	else						sleep nearly all of it
 *
 * A light sleep is as long as it can be without making I/Os later: its part of the mean
 * grows by 1/256 with each I/O that was not complete at its end, and shrinks by 1/16 with
 * each that was. So it is too long for one in 17, whatever a wake-up takes on this machine;
 * where even the shortest one is too long, the thread polls.
 *
 * Where others compute, whatever spins takes CPU time that they want, and is
 * preempted in the middle of an I/O when it has used up its share. A thread that sleeps
 * nearly all the time has not, so the CPU scheduler prefers that thread when it wakes. Sleeping
 * half is neither.
 *
 * Worked: 8 CPUs, 4 threads that read, 1 that computes. Others use 1 of 8, the
 * margin is 875,000, which is less than 937,500 (all but a sixteenth, see decide.c): they sleep
 * as long as they can. When the 1 has ended they sleep lightly: need is 500,000, a disk takes
 * 10 us and a wake-up 1.5, so a light sleep is about 8 us, and a thread uses a quarter of a CPU.
 *
 * Estimates
 *
 * Mean service time of the last 16 I/Os of the same direction and size class.
 * One that took more than 4 means counts as 2: an outlier (a page that is read
 * again, a time slice that another had) moves a sleep by at most 1/16, while
 * a device that has become slow is learnt in some dozens of I/Os. When a
 * completion was there already at the first look after a sleep, its time is
 * not known; it counts as the time slept, so that estimates fall again.
 *
 * A deep sleep is no longer than 2 times the shortest of the 16, a light one than the shortest:
 * where I/Os wait for others of the disk their times differ by more than a wake-up.
 */
#ifndef APS_DECIDE_H
#define APS_DECIDE_H

#include <stdbool.h>
#include <stdint.h>
#include "aps_policy.h"

#define APS_PPM_ONE 1000000u
#define APS_NR_SAMPLES 16

/* A service time above so many means is an outlier. */
#define APS_OUTLIER_MEANS 4

/* A sleep that ends later than 1/8 of itself says nothing of the device. */
#define APS_LATE_SHIFT 3

enum aps_direction { APS_DIR_READ, APS_DIR_WRITE, APS_NR_DIRS };

/* Up to 4, 16, 64 and 256 KiB, and above. */
#define APS_NR_SIZES 5

/* Service times of one direction and size class. */
struct aps_times {
	uint64_t ns[APS_NR_SAMPLES];
	uint64_t sum_ns;
	unsigned int nr, next;
	uint32_t light_ppm;	/* part of the mean for which a light sleep lasts */
};

/* Utilisation at the last completions. */
struct aps_loads {
	uint32_t ppm[APS_NR_SAMPLES];
	uint32_t sum_ppm;
	unsigned int nr, next;
};

struct aps_policy {
	struct aps_options opts;
	struct aps_times times[APS_NR_DIRS][APS_NR_SIZES];
	struct aps_loads loads;
};

/* How to wait: sleep until sleep_ns after the submission, and then: */
struct aps_choice {
	enum aps_wait_kind kind;
	uint64_t sleep_ns;	/* 0: not at all */
	uint64_t nap_ns;	/* deep: sleep so long between looks; 0: spin */
	uint32_t margin_ppm;
};

unsigned int aps_size_class(size_t bytes);

/* The options are in range: aps_options_take() made them. */
void aps_policy_init(struct aps_policy *policy, const struct aps_options *options);

/* Utilisation by others at a completion. */
void aps_policy_load(struct aps_policy *policy, uint32_t util_ppm);

/* An I/O took so long. */
void aps_policy_time(struct aps_policy *policy, enum aps_direction dir,
		     unsigned int size, uint64_t service_ns);

/* A light sleep, or none, was for an I/O that was complete at its end, or was not. */
void aps_policy_slept(struct aps_policy *policy, enum aps_direction dir, unsigned int size,
		      bool too_long);

/* Mean service time, 0 while nothing is known. */
uint64_t aps_policy_mean_ns(const struct aps_policy *policy, enum aps_direction dir,
			    unsigned int size);

uint32_t aps_policy_margin_ppm(const struct aps_policy *policy, uint32_t util_ppm);

/* util_ppm: now, by others. need_ppm: CPUs for all that wait here, over all CPUs. */
struct aps_choice aps_policy_choose(const struct aps_policy *policy, enum aps_direction dir,
				    unsigned int size, uint32_t util_ppm, uint32_t need_ppm);

#endif
