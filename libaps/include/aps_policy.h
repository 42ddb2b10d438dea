/* SPDX-License-Identifier: MIT */
/*
 * The decision of libaps, without I/O: how to wait for the I/Os that are in flight.
 *
 * For programs that have an I/O path of their own: a ring of io_uring, a reactor that
 * polls a device, preadv2() on a polled disk. aps.h is the I/O path that comes with it.
 *
 *	aps_policy_create(&policy, NULL);
 *	aps_cpus_open(&cpus, NULL);
 *	for (;;) {
 *		... send I/Os, and note when ...
 *		aps_cpus_load(cpus, now_ns, nr_pollers, &load);
 *		aps_policy_plan(policy, ios, nr_ios, &load, now_ns, &plan);
 *		... sleep until plan.sleep_until_ns, then poll until plan.poll_until_ns ...
 *		aps_policy_done(policy, &io, &plan, overslept, now_ns, &load);
 *	}
 *
 * Conventions
 *
 * A policy and a reader of CPUs are used by one thread at a time. Functions return 0, a
 * number that is not negative, or -errno; errno itself is not touched. Lengths of time
 * and times are nanoseconds (_ns), times of CLOCK_MONOTONIC; fractions are millionths
 * (_ppm), sizes are bytes. Only _create and _open allocate memory.
 */
#ifndef APS_POLICY_H
#define APS_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How to wait. */
enum aps_mode {
	APS_INTERRUPT,	/* sleep until the device interrupts */
	APS_POLL,	/* spin */
	APS_HYBRID,	/* sleep half of the mean service time, then spin */
	APS_ADAPTIVE,	/* choose for each I/O, by the CPUs' margin */
	APS_RING_HYBRID,/* io_uring's own hybrid polling, Linux 6.13; aps.h only */
};

/* Ways in which one I/O is waited for; indices of aps_stats.nr_waits. */
enum aps_wait_kind {
	APS_WAIT_INTERRUPT,
	APS_WAIT_POLL,
	APS_WAIT_HYBRID,
	APS_WAIT_DEEP,
	APS_NR_WAIT_KINDS,
};

enum aps_op {
	APS_OP_READ,
	APS_OP_WRITE,
	APS_OP_FSYNC,
	APS_OP_FDATASYNC,
};

/* Flags of aps_options. */
enum aps_flags {
	/* Use what there is instead of failing: interrupts for a file that cannot be
	 * polled, and preadv2() where io_uring is forbidden. */
	APS_FALLBACK = 1 << 0,
	/* Leave the thread's timer slack alone. A sleep is then late by up to it,
	 * 50 us unless set otherwise: more than an ultra-low-latency disk takes. */
	APS_KEEP_TIMER_SLACK = 1 << 1,
	/* One thread alone uses the context, until aps_detach() or its end. The
	 * kernel then leaves out locks and interruptions of that thread. */
	APS_SINGLE_THREAD = 1 << 2,
	/* Use preadv2() although io_uring is there. */
	APS_NO_RING = 1 << 3,
};

/*
 * Options of a policy and of a context. aps_options_init() fills in the defaults, which
 * are the last numbers in the comments. New options are added at the end.
 */
struct aps_options {
	uint32_t size;			/* of this structure, as the program knows it */
	uint32_t mode;			/* enum aps_mode; APS_ADAPTIVE */
	/* Part of the mean service time for which APS_HYBRID sleeps, up to 1000000,
	 * and with which APS_ADAPTIVE begins; 500000. */
	uint32_t hybrid_sleep_ppm;
	/* The most that APS_ADAPTIVE sleeps, and what a deep sleep is; 900000. */
	uint32_t deep_sleep_ppm;
	/* Sleep no less, because a sleep costs about as much, and no more at once;
	 * 2000, 10000000. */
	uint32_t min_sleep_ns;
	uint32_t max_sleep_ns;
	/* How often CPU utilisation is read at most, 1000000..1000000000; 20000000. */
	uint32_t sample_ns;

	/* The rest is for contexts, not for policies. */
	uint32_t flags;			/* 0, or of aps_flags */
	/* I/Os that may be outstanding, 1..4096; 64. */
	uint32_t depth;
	/* Files that the kernel keeps a table of, 0..32768; 1024. A context may have
	 * more: I/O to those takes a reference to the file each time. */
	uint32_t files;
	/* Directory that stands for / when /proc and /sys are read; NULL is /. It must
	 * live until the function that is given the options returns. */
	const char *root;
};

/* bytes: sizeof(struct aps_options). */
void aps_options_init(struct aps_options *options, size_t bytes);

/* "poll", and back; aps_parse_mode() returns -EINVAL for what is no mode. */
const char *aps_mode_name(enum aps_mode mode);
int aps_parse_mode(const char *name);

/* An I/O that is in flight. */
struct aps_io {
	uint64_t submit_ns;	/* when it was sent */
	uint64_t bytes;
	uint32_t op;		/* APS_OP_READ or APS_OP_WRITE */
	uint32_t reserved[3];	/* 0 */
};

/* What the threads and their rivals want of the CPUs that the process may use. */
struct aps_load {
	uint32_t util_ppm;	/* by others, of all these CPUs */
	uint32_t need_ppm;	/* by the threads here, if all that wait spun */
	uint32_t reserved[6];	/* 0 */
};

/* How to wait. */
struct aps_plan {
	uint32_t kind;		/* enum aps_wait_kind */
	uint32_t margin_ppm;	/* of the CPUs, 0 in modes that look at none */
	/* Sleep until then before the first look; 0: look at once. */
	uint64_t sleep_until_ns;
	/* Look for completions until then, and ask for a new plan. 0: do not look,
	 * wait for the interrupt. */
	uint64_t poll_until_ns;
	/* Sleep so long between looks; 0: spin. */
	uint64_t nap_ns;
	uint64_t sleep_ns;	/* sleep_until_ns, since the submission of the oldest */
	uint64_t submit_ns;	/* of the oldest */
	uint64_t reserved[2];
};

struct aps_policy;
struct aps_cpus;

/*
 * options may be NULL. -EINVAL: one is out of range, or the mode is APS_RING_HYBRID.
 * -E2BIG: they have members that this library does not know, not 0.
 */
int aps_policy_create(struct aps_policy **policy, const struct aps_options *options);
void aps_policy_free(struct aps_policy *policy);

/*
 * Plan how to wait for the first of nr I/Os to complete. The one that was sent first
 * decides, as it is expected first. load may be NULL in modes other than APS_ADAPTIVE.
 * -EINVAL: nr is 0, or an I/O is neither read nor write.
 */
int aps_policy_plan(const struct aps_policy *policy, const struct aps_io *ios, unsigned int nr,
		    const struct aps_load *load, uint64_t now_ns, struct aps_plan *plan);

/*
 * Learn from an I/O that was found complete at found_ns. plan: by which it was waited for
 * last, or NULL. overslept: not 0 if its completion was there at the first look after the
 * plan's sleep. An I/O that failed is not told.
 */
int aps_policy_done(struct aps_policy *policy, const struct aps_io *io,
		    const struct aps_plan *plan, int overslept, uint64_t found_ns,
		    const struct aps_load *load);

/* Mean service time of such I/Os; 0 while none is known. */
uint64_t aps_policy_expected_ns(const struct aps_policy *policy, enum aps_op op, uint64_t bytes);

/* A reader of what others use of the CPUs. options: sample_ns and root; may be NULL. */
int aps_cpus_open(struct aps_cpus **cpus, const struct aps_options *options);
void aps_cpus_close(struct aps_cpus *cpus);

/*
 * The load, read anew if sample_ns have passed. nr_waiting: threads of the process that
 * have I/Os in flight, with this one. Return: 0; or -errno where it could not be read
 * anew, and load is the last one.
 */
int aps_cpus_load(struct aps_cpus *cpus, uint64_t now_ns, unsigned int nr_waiting,
		  struct aps_load *load);

#ifdef __cplusplus
}
#endif
#endif
