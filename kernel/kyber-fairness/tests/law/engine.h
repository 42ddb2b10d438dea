/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A discrete-event simulation of containers that share a disk: submitters, a
 * scheduler with several hardware contexts, and a disk that is one of
 * modeldisk's models, from the same source as the kernel's.
 *
 * Times are nanoseconds. Everything random comes from seeded generators, and
 * events of the same time happen in the order in which they were added: the
 * same case gives the same figures anywhere.
 *
 * What it leaves out, for every scheduler alike: scheduler tags (each container
 * may queue all it has), merging, plugging, the time of wake-ups and timers,
 * and Kyber's latency targets (as if read_lat_nsec and write_lat_nsec had their
 * largest values).
 */
#ifndef _KF_LAW_ENGINE_H
#define _KF_LAW_ENGINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../modeldisk/model.h"

#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define LAW_LOADS_MAX	64
#define LAW_HCTX_MAX	64
#define LAW_NR_DIRS	2

/* Latencies in buckets a 32nd of an octave wide. */
#define LAW_LAT_SHIFT	5
#define LAW_LAT_BUCKETS	(64 << LAW_LAT_SHIFT)

/* What one container asks for. */
struct law_load {
	char name[16];
	u32 weight;
	u32 depth;		/* requests it keeps outstanding */
	u32 bytes;		/* of a request */
	u32 write_permille;
	u64 slow_ns;		/* a request takes so much longer, but not of the disk's time */
	u64 think_ns;		/* from a completion to the next request, per request */
	u64 on_ns, off_ns;	/* bursty: submits for on_ns, then pauses for off_ns */
	bool is_limited;	/* cannot use its share: no part of the bound or the error */
};

/* One case: disk, containers, times. */
struct law_case {
	const char *name;
	const char *disk;	/* of law_disks */
	const struct md_model_type *type;
	const char *preset;
	u64 scale;		/* the disk is slowed down by this factor, */
	double share;		/* and as the disk of this share would be; 0: all of it */
	u32 tags;		/* requests that the disk takes */
	u32 nr_hctx;
	bool pinned;		/* each container has hardware contexts of its own */
	u64 turn_ns;		/* a submitter's time from completion to next request */
	u64 cpu_ns;		/* of one CPU for all, for each request; 0: none */
	u64 warm_ns, run_ns;
	u64 change_ns;		/* the disk changes to scale2 then; 0: never */
	u64 scale2;
	u64 seed;
	bool is_unlike;		/* judged by disks of their own, not by shares */
	u32 nr_loads;
	struct law_load load[LAW_LOADS_MAX];
};

struct law_rq {
	struct md_cmd cmd;
	struct list_head node;	/* the scheduler's until it dispatches */
	u32 load, hctx;
	u32 bytes;
	u8 dir;			/* 1: write */
	u64 submit_ns;		/* the submitter made it */
	u64 insert_ns;		/* the scheduler got it */
	u64 dispatch_ns;
	/* The scheduler's. */
	u32 cost_bytes;
	bool is_owed;		/* its cgroup was, and it took no place */
	bool is_alone;		/* in the device, when it was dispatched in a probe */
};

struct law_histogram {
	u32 nr[LAW_LAT_BUCKETS];
	u64 nr_all, sum_ns;
};

/* What came of one container, from warm_ns on. */
struct law_got {
	u64 nr, bytes;
	struct law_histogram lat;
};

#define LAW_WINDOW_NS	(500 * NSEC_PER_MSEC)
#define LAW_WINDOWS_MAX	512

struct law_sim;

/* A scheduler. */
struct law_sched {
	const char *name;
	void *(*create)(struct law_sim *sim);
	void (*destroy)(void *data);
	void (*insert)(struct law_sim *sim, struct law_rq *rq);
	/* Dispatch what may go from this hardware context. */
	void (*run)(struct law_sim *sim, u32 hctx);
	/* @rq, which the disk completed, is already not in flight. */
	void (*complete)(struct law_sim *sim, struct law_rq *rq);
	void (*timer)(struct law_sim *sim, u64 what);
	void (*show)(struct law_sim *sim, FILE *out);
};

extern const struct law_sched law_none, law_clock, law_full, law_exact;

struct law_event {
	u64 at_ns, seq;
	void *rq;		/* NULL: what is one of the scheduler's timers */
	u64 what;		/* of a request: whether it completes */
};

struct law_sim {
	const struct law_case *c;
	const struct law_sched *sched;
	void *data;		/* the scheduler's */
	u64 now_ns;
	u32 nr_inside;
	bool verbose;

	struct md_model *model;
	double scale;
	u64 base_ns, base_dev_ns;
	u64 area_bytes;

	struct law_rq *rqs;
	u32 nr_rqs;
	struct md_rng rng;

	struct law_event *heap;
	u32 nr_events, size_events;
	u64 seq;

	/* The CPU that submits, if it counts: containers take turns. */
	struct list_head cpu_queue[LAW_LOADS_MAX];
	struct law_rq *cpu_rq;
	u32 cpu_next;
	u64 cpu_busy_ns;

	struct law_got got[LAW_LOADS_MAX];
	struct law_histogram device;
	u64 window_bytes[LAW_WINDOWS_MAX][LAW_LOADS_MAX];
	u64 depth_sum_ns, depth_at_ns;	/* requests in flight, over time */
};

/* What came of a case. */
struct law_result {
	u32 nr_loads;
	u64 elapsed_ns;
	u64 bytes, nr;
	struct law_got got[LAW_LOADS_MAX];
	struct law_histogram device;
	u64 window_bytes[LAW_WINDOWS_MAX][LAW_LOADS_MAX];
	double mean_depth;
	double cpu_free;
};

void law_run(const struct law_case *c, const struct law_sched *sched,
	     struct law_result *result, bool verbose);

/* For schedulers. */
static inline bool law_has_tag(const struct law_sim *sim)
{
	return sim->nr_inside < sim->c->tags;
}

void law_dispatch(struct law_sim *sim, struct law_rq *rq);
void law_timer(struct law_sim *sim, u64 at_ns, u64 what);

u64 law_quantile_ns(const struct law_histogram *h, unsigned int permille);

static inline u64 law_mean_ns(const struct law_histogram *h)
{
	return h->nr_all ? h->sum_ns / h->nr_all : 0;
}

#endif /* _KF_LAW_ENGINE_H */
