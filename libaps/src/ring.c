// SPDX-License-Identifier: MIT
/* Rings of io_uring: making them, what is registered with them, sending. See context.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "context.h"

/* Of a newer liburing. */
#ifndef IORING_SETUP_HYBRID_IOPOLL
#define IORING_SETUP_HYBRID_IOPOLL (1U << 17)
#endif

/* The kernel transfers no more at once. */
#define MAX_TRANSFER 0x7ffff000u

/*
 * Flags of a ring, the best first; a kernel refuses those that it does not know. A polled
 * ring of any thread has none: its completions are found by polling, and interrupt no thread.
 */
static const unsigned int single_flags[] = {
	/* 6.1. The last one tells of work that is deferred: event.c. */
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, /* 6.0 */
	IORING_SETUP_COOP_TASKRUN, /* 5.19 */
	0,
};
static const unsigned int plain_flags[] = { IORING_SETUP_COOP_TASKRUN, 0 };
static const unsigned int polled_flags[] = { 0 };

static const struct {
	unsigned int flag;
	enum aps_features feature;
} features[] = {
	{ IORING_SETUP_COOP_TASKRUN, APS_HAS_COOP_TASKRUN },
	{ IORING_SETUP_SINGLE_ISSUER, APS_HAS_SINGLE_ISSUER },
	{ IORING_SETUP_DEFER_TASKRUN, APS_HAS_DEFER_TASKRUN },
};

#define NR_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Make the ring with the best of the flags. Return: the flags that it has, or -errno. */
static int try_flags(struct aps *ctx, struct io_uring *uring, unsigned int always,
		     const unsigned int *flags, size_t nr)
{
	int err = -EINVAL;
	size_t i;

	for (i = 0; i < nr && err == -EINVAL; i++) {
		struct io_uring_params p = { .flags = always | flags[i] };

		err = io_uring_queue_init_params(ctx->opts.depth, uring, &p);
		/* Before 5.11 a wait with a timeout has liburing send entries of its own. */
		if (!err && !(p.features & IORING_FEAT_EXT_ARG)) {
			io_uring_queue_exit(uring);
			err = -ENOSYS;
		}
		if (!err)
			return (int)flags[i];
	}
	return err;
}

static void make_table(struct aps *ctx, struct aps_ring *ring)
{
	unsigned int nr = ctx->opts.files;
	struct rlimit limit;

	/* The kernel has no table for more files than the process may open. */
	if (!getrlimit(RLIMIT_NOFILE, &limit) && nr > limit.rlim_cur)
		nr = (unsigned int)limit.rlim_cur;
	ring->nr_table = nr && !io_uring_register_files_sparse(&ring->uring, nr) ? nr : 0;
	if (ring->nr_table)
		ctx->stats.features |= APS_HAS_FILE_TABLE;
}

int aps_ring_open(struct aps *ctx, enum aps_ring_nr nr)
{
	bool polled = nr == APS_RING_POLLED, single = ctx->opts.flags & APS_SINGLE_THREAD;
	struct aps_ring *ring = &ctx->rings[nr];
	unsigned int always = 0;
	int flags, err, i;
	size_t k;

	if (ring->open)
		return 0;
	if (polled)
		always |= IORING_SETUP_IOPOLL;
	if (polled && ctx->mode == APS_RING_HYBRID)
		always |= IORING_SETUP_HYBRID_IOPOLL;
	if (single)
		flags = try_flags(ctx, &ring->uring, always, single_flags, NR_OF(single_flags));
	else if (polled)
		flags = try_flags(ctx, &ring->uring, always, polled_flags, NR_OF(polled_flags));
	else
		flags = try_flags(ctx, &ring->uring, always, plain_flags, NR_OF(plain_flags));
	if (flags < 0) /* the one flag that was not tried without is hybrid's */
		return flags == -EINVAL && ctx->mode == APS_RING_HYBRID ? -EOPNOTSUPP : flags;
	io_uring_ring_dontfork(&ring->uring);
	ring->open = true;
	ring->must_look = polled || flags;
	for (k = 0; k < NR_OF(features); k++)
		if ((unsigned int)flags & features[k].flag)
			ctx->stats.features |= features[k].feature;
	make_table(ctx, ring);
	for (i = 0; i < ctx->nr_files; i++)
		if (ctx->files[i].fd >= 0 && ctx->files[i].ring == nr)
			aps_ring_add_file(ctx, i);
	/* Without them fixed I/O is plain. */
	(void)aps_ring_add_buffers(ctx, ring);
	err = polled ? 0 : aps_event_add_ring(ctx);
	if (err)
		aps_ring_close(ctx, nr);
	return err;
}

void aps_ring_close(struct aps *ctx, enum aps_ring_nr nr)
{
	struct aps_ring *ring = &ctx->rings[nr];
	int i;

	if (!ring->open)
		return;
	io_uring_queue_exit(&ring->uring);
	ring->open = ring->has_buffers = false;
	ring->nr_table = 0;
	for (i = 0; i < ctx->nr_files; i++)
		if (ctx->files[i].ring == nr)
			ctx->files[i].in_table = false;
}

void aps_ring_drop(struct aps_ring *ring)
{
	/* Its memory is not mapped here; what is at that address now is another's. */
	if (ring->open)
		close(ring->uring.ring_fd);
	ring->open = false;
}

void aps_ring_add_file(struct aps *ctx, int file)
{
	struct aps_file *f = &ctx->files[file];
	struct aps_ring *ring = &ctx->rings[f->ring];

	f->in_table = ring->open && (unsigned int)file < ring->nr_table &&
		      io_uring_register_files_update(&ring->uring, (unsigned int)file, &f->fd, 1) == 1;
}

void aps_ring_remove_file(struct aps *ctx, int file)
{
	struct aps_file *f = &ctx->files[file];
	int none = -1;

	if (f->in_table)
		io_uring_register_files_update(&ctx->rings[f->ring].uring, (unsigned int)file, &none, 1);
	f->in_table = false;
}

int aps_ring_add_buffers(struct aps *ctx, struct aps_ring *ring)
{
	int err;

	if (!ctx->nr_buffers || !ring->open)
		return 0;
	err = io_uring_register_buffers(&ring->uring, ctx->buffers, ctx->nr_buffers);
	ring->has_buffers = !err;
	return err;
}

void aps_ring_remove_buffers(struct aps_ring *ring)
{
	if (ring->has_buffers)
		io_uring_unregister_buffers(&ring->uring);
	ring->has_buffers = false;
}

static void prepare_transfer(const struct aps_ring *ring, struct io_uring_sqe *sqe,
			     const struct aps_slot *s, int fd)
{
	bool writes = s->op == APS_OP_WRITE, fixed = s->buffer >= 0 && ring->has_buffers;
	unsigned int len = s->iov.iov_len < MAX_TRANSFER ? (unsigned int)s->iov.iov_len : MAX_TRANSFER;

	if (s->nr_iovs > 1 && writes)
		io_uring_prep_writev(sqe, fd, s->iovs, s->nr_iovs, s->offset);
	else if (s->nr_iovs > 1)
		io_uring_prep_readv(sqe, fd, s->iovs, s->nr_iovs, s->offset);
	else if (fixed && writes)
		io_uring_prep_write_fixed(sqe, fd, s->iov.iov_base, len, s->offset, s->buffer);
	else if (fixed)
		io_uring_prep_read_fixed(sqe, fd, s->iov.iov_base, len, s->offset, s->buffer);
	else if (writes)
		io_uring_prep_write(sqe, fd, s->iov.iov_base, len, s->offset);
	else
		io_uring_prep_read(sqe, fd, s->iov.iov_base, len, s->offset);
}

static void prepare(const struct aps *ctx, const struct aps_ring *ring, struct io_uring_sqe *sqe,
		    struct aps_slot *s)
{
	const struct aps_file *f = &ctx->files[s->file];
	bool in_table = f->in_table && s->ring == f->ring;
	int fd = in_table ? s->file : f->fd;

	if (s->op == APS_OP_FSYNC)
		io_uring_prep_fsync(sqe, fd, 0);
	else if (s->op == APS_OP_FDATASYNC)
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	else
		prepare_transfer(ring, sqe, s, fd);
	if (in_table)
		sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, s);
}

/*
 * Withdraw the last nr entries, which the kernel did not take. It looks at them during
 * io_uring_enter() alone, so what it has not taken by now it has not seen.
 */
static void withdraw(struct io_uring *uring, unsigned int nr)
{
	uring->sq.sqe_tail -= nr;
	uring->sq.sqe_head = uring->sq.sqe_tail;
	io_uring_smp_store_release(uring->sq.ktail, uring->sq.sqe_tail);
}

/* So many of those queued were sent: the oldest ones. */
static void sent(struct aps_ring *ring, unsigned int nr, uint64_t now_ns)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct aps_slot *slot = ring->queued.next;

		aps_list_del(slot);
		aps_list_add(&ring->sent, slot);
		slot->state = APS_SLOT_SENT;
		slot->submit_ns = now_ns;
	}
	ring->nr_queued -= nr;
	ring->nr_sent += nr;
}

int aps_ring_enter(struct aps *ctx, struct aps_ring *ring, unsigned int nr_wait, uint64_t now_ns)
{
	unsigned int nr = 0, left, was_sent = ring->nr_sent;
	struct aps_slot *slot;
	int err;

	for (slot = ring->queued.next; slot != &ring->queued; slot = slot->next) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

		if (!sqe) /* the ring is as large as options.depth */
			break;
		prepare(ctx, ring, sqe, slot);
		nr++;
	}
	err = io_uring_submit_and_wait(&ring->uring, nr_wait);
	left = io_uring_sq_ready(&ring->uring);
	if (left)
		withdraw(&ring->uring, left);
	if (nr && left == nr)
		ctx->stats.nr_failed_submits++;
	sent(ring, nr - left, now_ns);
	if (!was_sent && ring->nr_sent && ring == &ctx->rings[APS_RING_POLLED])
		aps_count_waiting(1);
	return nr > left ? (int)(nr - left) : err < 0 ? err : 0;
}

int aps_ring_look(struct aps_ring *ring)
{
	int err = io_uring_get_events(&ring->uring);

	return err < 0 ? err : 0;
}
