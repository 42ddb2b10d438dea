/* SPDX-License-Identifier: MIT */
/*
 * A context: two rings, files, the I/Os in them, what the policy knows.
 *
 * A ring of io_uring either polls all of its I/Os (IORING_SETUP_IOPOLL) or none. So there
 * are two: one for reads and writes of files that are polled, one for syncs and for all
 * I/O of other files. Each is made when it is needed first.
 *
 * Each I/O has a slot. A slot is free; or queued, which only the library knows of; or
 * sent; or done, and its event waits to be taken. An I/O becomes a submission entry when
 * it is sent, and entries that the kernel does not take are withdrawn: so a queued I/O is
 * never in the ring, and can be taken back. Sent slots are in the order of their
 * submission: the oldest decides how long to sleep, as it is expected first.
 *
 * Threads: a context has no lock. `thread` is the one that has it with APS_SINGLE_THREAD.
 * Fork: the rings are not in the child's memory, and `generation` tells (process.c).
 */
#ifndef APS_CONTEXT_H
#define APS_CONTEXT_H

#include <liburing.h>
#include <stdatomic.h>
#include "aps.h"
#include "cpu.h"
#include "decide.h"

enum aps_slot_state { APS_SLOT_FREE, APS_SLOT_QUEUED, APS_SLOT_SENT, APS_SLOT_DONE };

enum aps_ring_nr { APS_RING_POLLED, APS_RING_PLAIN, APS_NR_RINGS };

struct aps_slot {
	struct aps_slot *prev, *next;	/* in the list of its state; free: next alone */
	void *data;
	ssize_t result;			/* done */
	uint64_t submit_ns;		/* sent */
	uint64_t nr;			/* in the order of queueing */
	uint64_t offset;
	struct iovec iov;		/* of one piece, so that the caller's need not live */
	const struct iovec *iovs;
	unsigned int nr_iovs;
	unsigned int size;		/* class */
	int file;
	int buffer;			/* registered; -1: none */
	enum aps_op op;
	enum aps_ring_nr ring;
	enum aps_slot_state state;
};

struct aps_file {
	int fd;				/* -1: the place is free */
	enum aps_ring_nr ring;		/* of its reads and writes */
	bool in_table;			/* in that ring's table of files */
	bool may_block;			/* for ever: neither a disk nor a file on one */
	unsigned int nr_outstanding;
	int next_free;
};

struct aps_ring {
	struct io_uring uring;
	bool open;
	bool must_look;		/* completions are there after a system call only */
	unsigned int nr_table;	/* files that its table has room for */
	bool has_buffers;
	struct aps_slot queued, sent; /* heads of lists, oldest first */
	unsigned int nr_queued, nr_sent;
};

struct aps {
	struct aps_options opts;
	enum aps_mode mode;
	enum aps_backend backend;
	uint32_t generation;	/* of the process that opened it */
	_Atomic uint64_t thread;	/* with APS_SINGLE_THREAD; 0: no thread's */
	struct aps *next_of_thread;

	struct aps_ring rings[APS_NR_RINGS];
	struct aps_slot done;	/* head of a list */
	unsigned int nr_done;
	struct aps_slot *free;
	struct aps_slot *slots;
	uint64_t next_nr;	/* of a slot */

	struct aps_file *files;
	int nr_files;		/* places, of which some are free */
	int free_file;		/* -1: none */
	dev_t poll_dev;		/* the disk that was asked last for poll queues */
	bool poll_dev_known, poll_dev_has;

	struct iovec *buffers;
	unsigned int nr_buffers;

	int event_fd, timer_fd, now_fd; /* -1: not asked for */
	bool is_now;		/* now_fd may be readable */
	uint64_t timer_ns;	/* what the timer is set to; 0: it is not */

	struct aps_policy policy;
	struct aps_cpu cpu;
	struct aps_stats stats;
	uint64_t sampled_ns;	/* when utilisation was read last */
	uint64_t now_ns;	/* when the device was looked at last */
	/* The completion that wait looks for was there when it first looked, after
	 * a sleep that ended when it should: its time is at most this; 0: it was not. */
	uint64_t at_most_ns;
	bool was_there;		/* likewise, however late the sleep ended */
	/* When a look last found no polled I/O complete. */
	uint64_t not_there_ns;
	/* The I/O that a light sleep is for, and its end; NULL: none is waited for like that. */
	const struct aps_slot *slept_for;
	uint64_t sleep_end_ns;
};

static inline void aps_list_init(struct aps_slot *head)
{
	head->prev = head->next = head;
}

static inline void aps_list_add(struct aps_slot *head, struct aps_slot *slot)
{
	slot->prev = head->prev;
	slot->next = head;
	head->prev->next = slot;
	head->prev = slot;
}

static inline void aps_list_del(struct aps_slot *slot)
{
	slot->prev->next = slot->next;
	slot->next->prev = slot->prev;
}

/* process.c: fork and threads. */

/* Prepare for forks. Return: the generation of this process, or 0 without memory. */
uint32_t aps_generation(void);
/* What all contexts of a process share; it is all zeroes in a new child. */
struct aps_shared {
	_Atomic uint32_t generation;
	_Atomic int nr_waiting;	/* threads that have polled I/Os in flight */
};

extern struct aps_shared *aps_shared;

/* Whether the context is that of a parent of this process. */
static inline bool aps_is_parents(const struct aps *ctx)
{
	return ctx->generation != atomic_load_explicit(&aps_shared->generation, memory_order_relaxed);
}

static inline void aps_count_waiting(int change)
{
	atomic_fetch_add_explicit(&aps_shared->nr_waiting, change, memory_order_relaxed);
}

/* Threads that wait, with this one, whose I/O may be about to be sent. */
static inline unsigned int aps_count_with(const struct aps *ctx)
{
	return (unsigned int)atomic_load_explicit(&aps_shared->nr_waiting, memory_order_relaxed) +
	       !ctx->rings[APS_RING_POLLED].nr_sent;
}

/* Give the context to the calling thread, or take it from it. Return: 0, or -ENOMEM. */
int aps_thread_takes(struct aps *ctx);
void aps_thread_leaves(struct aps *ctx);
/* Without it a sleep of 5 us takes 55. It is the calling thread's own. */
void aps_exact_timers(void);
/* Give the thread back what it had, unless the program has set something else since. */
void aps_usual_timers(void);

/* context.c */
uint64_t aps_now_ns(void);
/* Whether the calling thread may use the context now. Return: 0, or -errno. */
int aps_enter(struct aps *ctx);
/* Likewise for a question, which leaves a context that is no thread's as it is. */
int aps_may_ask(const struct aps *ctx);
void aps_read_load(struct aps *ctx, uint64_t now_ns);

/* Read utilisation if the last time is long enough ago. */
static inline void aps_sample(struct aps *ctx, uint64_t now_ns)
{
	if (!ctx->stats.nr_samples || now_ns - ctx->sampled_ns >= ctx->policy.opts.sample_ns)
		aps_read_load(ctx, now_ns);
}

static inline uint32_t aps_need_ppm(const struct aps *ctx)
{
	return aps_cpu_need_ppm(&ctx->cpu, aps_count_with(ctx));
}

/* Wait for what is in flight: on disks; other I/O is cancelled. Return: 0, or -errno. */
int aps_settle(struct aps *ctx);
/* Likewise, and close the rings. */
int aps_drain(struct aps *ctx);

/* ring.c */
int aps_ring_open(struct aps *ctx, enum aps_ring_nr nr);
void aps_ring_close(struct aps *ctx, enum aps_ring_nr nr);
/* In a child: without touching what is shared with the parent. */
void aps_ring_drop(struct aps_ring *ring);
void aps_ring_add_file(struct aps *ctx, int file);
void aps_ring_remove_file(struct aps *ctx, int file);
/* Return: 0, or -errno. */
int aps_ring_add_buffers(struct aps *ctx, struct aps_ring *ring);
void aps_ring_remove_buffers(struct aps_ring *ring);
/*
 * Send what is queued, and with nr_wait wait for so many in the kernel. Return: how many
 * were sent, or -errno if none was.
 */
int aps_ring_enter(struct aps *ctx, struct aps_ring *ring, unsigned int nr_wait, uint64_t now_ns);
/* Have the kernel look at the device once. Return: 0, or -errno. */
int aps_ring_look(struct aps_ring *ring);
static inline bool aps_ring_ready(const struct aps_ring *ring)
{
	return ring->open && io_uring_cq_ready(&ring->uring);
}

/* sync.c: do all that is queued. Return: how many. */
int aps_sync_submit(struct aps *ctx);
/* Whether RWF_HIPRI polls: kernels older than 6.0. */
bool aps_sync_polls(void);

/* io.c */
/* The I/O is complete: its slot is done, and not yet free. */
void aps_complete(struct aps *ctx, struct aps_slot *slot, ssize_t result, uint64_t now_ns);
/* Ask an I/O that is in flight back from the kernel. Return: 0, or -EALREADY. */
int aps_cancel_sent(struct aps *ctx, const struct aps_slot *slot);
/*
 * Move all that is complete in the rings to ctx->done, without looking at the device; and
 * send what the kernel does not poll once more, to the plain ring.
 */
void aps_collect(struct aps *ctx);

/* event.c: have the descriptor tell when to look next, if there is one. */
void aps_event_arm(struct aps *ctx);
void aps_event_close(struct aps *ctx);
/* Have the plain ring tell the descriptor, if there are both. Return: 0, or -errno. */
int aps_event_add_ring(struct aps *ctx);

#endif
