/* SPDX-License-Identifier: MIT */
/*
 * A context: a ring, the I/Os in it, what the policy knows.
 *
 * One ring, polled (IORING_SETUP_IOPOLL) unless the mode is APS_INTERRUPT. Each
 * I/O has a slot; slots that are outstanding are in the order of their
 * submission, and the oldest decides how long to sleep: it is expected first.
 */
#ifndef APS_CONTEXT_H
#define APS_CONTEXT_H

#include <liburing.h>
#include "aps.h"
#include "cpu.h"
#include "policy.h"

struct aps_slot {
	void *data;
	struct iovec iov;
	uint64_t submit_ns;	/* 0: queued and not sent */
	unsigned int size;	/* class */
	enum aps_direction dir;
	struct aps_slot *prev, *next; /* in ctx->outstanding, or next in ctx->free */
};

struct aps {
	int fd;
	enum aps_mode mode;
	struct io_uring ring;
	struct aps_policy policy;
	struct aps_cpu cpu;
	struct aps_stats stats;
	uint64_t cpu_start_ns;
	uint64_t sampled_ns;	/* when utilisation was read last */
	uint64_t now_ns;	/* when the device was looked at last */
	struct aps_slot outstanding; /* head of the list, oldest first */
	struct aps_slot *free;
	struct aps_slot *slots;
	unsigned int nr_queued;	/* outstanding, and not sent */
	unsigned int nr_sent;	/* outstanding, and sent */
	/* The completion that wait looks for was there when it first looked, after
	 * a sleep that ended when it should: its time is at most this; 0: it was not. */
	uint64_t at_most_ns;
	bool was_there;		/* likewise, however late the sleep ended */
};

uint64_t aps_now_ns(void);

/* Read utilisation if the last time is long enough ago. */
void aps_sample(struct aps *ctx, uint64_t now_ns);

/* Contexts of this process that have I/Os in flight. */
void aps_count_waiting(int change);
uint32_t aps_need_ppm(const struct aps *ctx);

#endif
