// SPDX-License-Identifier: MIT
/* Contexts: opening, closing, files, buffers, statistics. See context.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "context.h"
#include "options.h"

/* Before aps_close() gives up what the kernel does not take: a tenth of a second. */
#define CLOSE_RETRIES 100
#define RETRY_NS 1000000

/* Of io_uring. */
#define MAX_BUFFERS 16384
#define MAX_BUFFER_BYTES (1ul << 30)

uint64_t aps_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

unsigned int aps_version(void)
{
	return APS_VERSION_MAJOR << 16 | APS_VERSION_MINOR;
}

void aps_read_load(struct aps *ctx, uint64_t now_ns)
{
	ctx->sampled_ns = now_ns;
	ctx->stats.nr_samples++;
	/* A machine that does not tell has the utilisation that it told last. */
	if (aps_cpu_read(&ctx->cpu, now_ns, aps_process_ns(), aps_count_with(ctx)))
		ctx->stats.nr_failed_samples++;
}

/* Without a ring: because of err, or because the options say so. */
static void use_sync(struct aps *ctx, int err)
{
	ctx->backend = APS_BACKEND_SYNC;
	ctx->stats.ring_error = err;
	/* The kernel polls, or does not: there is nothing to decide. */
	if (ctx->mode != APS_INTERRUPT)
		ctx->mode = aps_sync_polls() ? APS_POLL : APS_INTERRUPT;
}

/* Make the ring that most I/O is for, or settle for what there is. */
static int choose_backend(struct aps *ctx)
{
	bool falls_back = ctx->opts.flags & APS_FALLBACK;
	int err;

	if (ctx->opts.flags & APS_NO_RING) {
		use_sync(ctx, 0);
		return 0;
	}
	err = aps_ring_open(ctx, ctx->mode == APS_INTERRUPT ? APS_RING_PLAIN : APS_RING_POLLED);
	if (err == -EOPNOTSUPP && falls_back) {
		ctx->mode = APS_INTERRUPT;
		err = aps_ring_open(ctx, APS_RING_PLAIN);
	}
	/* ENOSYS: a kernel without it, or before 5.11, or a filter that pretends. */
	if ((err == -EPERM || err == -ENOSYS || err == -EACCES) && falls_back) {
		use_sync(ctx, err);
		return 0;
	}
	return err;
}

static void make_slots(struct aps *ctx)
{
	unsigned int i;

	aps_list_init(&ctx->done);
	for (i = 0; i < APS_NR_RINGS; i++) {
		aps_list_init(&ctx->rings[i].queued);
		aps_list_init(&ctx->rings[i].sent);
	}
	for (i = 0; i < ctx->opts.depth; i++) {
		ctx->slots[i].next = ctx->free;
		ctx->free = &ctx->slots[i];
	}
}

static int open_parts(struct aps *ctx)
{
	int err;

	ctx->generation = aps_generation();
	ctx->slots = calloc(ctx->opts.depth, sizeof(*ctx->slots));
	if (!ctx->slots || !ctx->generation)
		return -ENOMEM;
	make_slots(ctx);
	err = choose_backend(ctx);
	if (err)
		return err;
	aps_policy_init(&ctx->policy, &ctx->opts);
	ctx->policy.opts.mode = ctx->mode;
	if (ctx->mode == APS_ADAPTIVE) {
		err = aps_cpu_open(&ctx->cpu, ctx->opts.root);
		if (err)
			return err;
	}
	return ctx->opts.flags & APS_SINGLE_THREAD ? aps_thread_takes(ctx) : 0;
}

/* Nothing is in flight any more, or it is another process's. */
static void free_parts(struct aps *ctx)
{
	aps_cpu_close(&ctx->cpu);
	aps_event_close(ctx);
	free((char *)ctx->opts.root);
	free(ctx->buffers);
	free(ctx->files);
	free(ctx->slots);
	free(ctx);
}

static struct aps *make(const struct aps_options *o)
{
	struct aps *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->opts = *o;
	ctx->mode = (enum aps_mode)o->mode;
	ctx->free_file = -1;
	ctx->event_fd = ctx->timer_fd = ctx->now_fd = -1;
	aps_cpu_init(&ctx->cpu);
	ctx->opts.root = strdup(o->root);
	if (ctx->opts.root)
		return ctx;
	free(ctx);
	return NULL;
}

int aps_open(struct aps **out, const struct aps_options *options)
{
	struct aps_options own;
	struct aps *ctx;
	int i, err = aps_options_take(&own, options);

	if (err)
		return err;
	ctx = make(&own);
	if (!ctx)
		return -ENOMEM;
	err = open_parts(ctx);
	if (err) {
		for (i = 0; i < APS_NR_RINGS; i++)
			aps_ring_close(ctx, (enum aps_ring_nr)i);
		free_parts(ctx);
		return err;
	}
	*out = ctx;
	return 0;
}

int aps_may_ask(const struct aps *ctx)
{
	uint64_t thread = ctx->thread;

	if (aps_is_parents(ctx))
		return -ECHILD;
	return thread && thread != aps_this_thread() ? -EPERM : 0;
}

static bool is_needed(const struct aps *ctx, enum aps_ring_nr nr)
{
	return ctx->rings[nr].nr_queued || nr == (ctx->mode == APS_INTERRUPT ? APS_RING_PLAIN : APS_RING_POLLED);
}

/* The calling thread goes on where another has left, with what that has queued. */
static int take_over(struct aps *ctx)
{
	int i, err = aps_thread_takes(ctx);

	if (err || ctx->backend == APS_BACKEND_SYNC)
		return err;
	for (i = 0; i < APS_NR_RINGS && !err; i++)
		if (is_needed(ctx, (enum aps_ring_nr)i))
			err = aps_ring_open(ctx, (enum aps_ring_nr)i);
	if (!err)
		return 0;
	/* Nothing is in flight: the next call tries again. */
	for (i = 0; i < APS_NR_RINGS; i++)
		aps_ring_close(ctx, (enum aps_ring_nr)i);
	aps_thread_leaves(ctx);
	return err;
}

int aps_enter(struct aps *ctx)
{
	if (aps_is_parents(ctx))
		return -ECHILD;
	if (!(ctx->opts.flags & APS_SINGLE_THREAD) || ctx->thread == aps_this_thread())
		return 0;
	return ctx->thread ? -EPERM : take_over(ctx);
}

/* Wait for one I/O of the ring, in the kernel. Return: 0, or -errno. */
static int wait_in(struct aps *ctx, struct aps_ring *ring)
{
	int n = io_uring_submit_and_wait(&ring->uring, 1);

	ctx->now_ns = aps_now_ns();
	return n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY ? n : 0;
}

/* A pipe or a socket may have nothing for ever. */
static void cancel_endless(struct aps *ctx)
{
	struct aps_ring *ring = &ctx->rings[APS_RING_PLAIN];
	struct aps_slot *slot;

	for (slot = ring->sent.next; slot != &ring->sent; slot = slot->next)
		if (ctx->files[slot->file].may_block)
			aps_cancel_sent(ctx, slot);
}

int aps_settle(struct aps *ctx)
{
	int i, err;

	ctx->was_there = true; /* for an unknown time */
	ctx->at_most_ns = 0;
	aps_collect(ctx);
	cancel_endless(ctx);
	for (i = 0; i < APS_NR_RINGS; i++)
		while (ctx->rings[i].nr_sent) {
			err = wait_in(ctx, &ctx->rings[i]);
			if (err)
				return err;
			aps_collect(ctx);
		}
	return 0;
}

int aps_drain(struct aps *ctx)
{
	int i, err = aps_settle(ctx);

	for (i = 0; i < APS_NR_RINGS && !err; i++)
		aps_ring_close(ctx, (enum aps_ring_nr)i);
	return err;
}

int aps_detach(struct aps *ctx)
{
	int saved = errno, err = aps_enter(ctx);

	if (err)
		return err;
	aps_usual_timers();
	errno = saved;
	if (!(ctx->opts.flags & APS_SINGLE_THREAD)) {
		err = aps_settle(ctx);
	} else {
		err = aps_drain(ctx);
		if (!err)
			aps_thread_leaves(ctx);
	}
	aps_event_arm(ctx);
	return err;
}

static bool is_queued(const struct aps *ctx)
{
	return ctx->rings[0].nr_queued || ctx->rings[1].nr_queued;
}

/* Send what is queued, however busy the kernel is. Return: 0, or -errno. */
static int send_all(struct aps *ctx)
{
	static const struct timespec pause = { .tv_nsec = RETRY_NS };
	int i, n = 0;

	for (i = 0; i < CLOSE_RETRIES && is_queued(ctx); i++) {
		n = aps_submit(ctx);
		if (!is_queued(ctx))
			return 0;
		if (n < 0 && n != -EAGAIN && n != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	return !is_queued(ctx) ? 0 : n < 0 ? n : -EAGAIN;
}

/* In a child: the rings and their I/Os are the parent's. */
static int close_parents(struct aps *ctx)
{
	int i;

	for (i = 0; i < APS_NR_RINGS; i++)
		aps_ring_drop(&ctx->rings[i]);
	aps_thread_leaves(ctx);
	free_parts(ctx);
	return 0;
}

int aps_close(struct aps *ctx)
{
	int i, err, saved = errno;

	if (!ctx)
		return 0;
	if (aps_is_parents(ctx))
		return close_parents(ctx);
	/* A context of no thread, with nothing queued, needs no rings to be closed. */
	err = aps_may_ask(ctx);
	if (!err && is_queued(ctx))
		err = aps_enter(ctx);
	if (err)
		return err;
	/* What is in flight writes to the caller's memory until it is done; and what the
	 * kernel does not poll is queued once more then. */
	do {
		err = send_all(ctx);
		if (!err)
			err = aps_settle(ctx);
	} while (!err && is_queued(ctx));
	if (err)
		return err;
	for (i = 0; i < APS_NR_RINGS; i++)
		aps_ring_close(ctx, (enum aps_ring_nr)i);
	aps_thread_leaves(ctx);
	aps_usual_timers();
	free_parts(ctx);
	errno = saved;
	return 0;
}

/*
 * Whether the file's disk has poll queues, which only sysfs tells before 6.10. Return:
 * -errno if sysfs could not be read now; a sysfs without such a disk has no poll queues.
 */
static int ask_poll_queues(const char *root, dev_t dev)
{
	/* A partition's queue is its disk's. */
	static const char *const places[] = { "queue", "../queue" };
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX], on = '0';
		int file, err;

		if (snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/%s/io_poll", root,
			     major(dev), minor(dev), places[i]) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		file = open(path, O_RDONLY | O_CLOEXEC);
		if (file < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
			return -errno;
		if (file < 0)
			continue;
		err = read(file, &on, 1) < 0 ? -errno : 0;
		close(file);
		return err ? err : on == '1';
	}
	return 0;
}

/* Likewise. Files that are added together are mostly on one disk, which is asked once. */
static int has_poll_queues(struct aps *ctx, const struct stat *st)
{
	dev_t dev = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev;

	if (!ctx->poll_dev_known || ctx->poll_dev != dev) {
		int has = ask_poll_queues(ctx->opts.root, dev);

		if (has < 0)
			return has;
		ctx->poll_dev = dev;
		ctx->poll_dev_known = true;
		ctx->poll_dev_has = has;
	}
	return ctx->poll_dev_has;
}

static bool is_of_disk(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISBLK(st->st_mode);
}

/* The ring for reads and writes of the file. Return: -errno if it cannot be had. */
static int ring_for(struct aps *ctx, int fd, const struct stat *st)
{
	int err = 0, has, flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (ctx->mode == APS_INTERRUPT)
		return APS_RING_PLAIN;
	if (!(flags & O_DIRECT)) {
		err = -EINVAL;
	} else {
		has = is_of_disk(st) ? has_poll_queues(ctx, st) : 0;
		if (has < 0)
			return has;
		err = has ? 0 : -EOPNOTSUPP;
	}
	if (!err)
		return APS_RING_POLLED;
	return ctx->opts.flags & APS_FALLBACK ? APS_RING_PLAIN : err;
}

/* A free place. Return: its number, or -ENOMEM. */
static int find_place(struct aps *ctx)
{
	int i, nr = ctx->nr_files ? 2 * ctx->nr_files : 16;
	struct aps_file *more;

	if (ctx->free_file < 0) {
		if (nr > INT_MAX / 2)
			return -ENOMEM;
		more = realloc(ctx->files, (size_t)nr * sizeof(*more));
		if (!more)
			return -ENOMEM;
		ctx->files = more;
		/* The lowest is used first: it is most likely in the kernel's table. */
		for (i = nr - 1; i >= ctx->nr_files; i--) {
			more[i] = (struct aps_file){ .fd = -1, .next_free = ctx->free_file };
			ctx->free_file = i;
		}
		ctx->nr_files = nr;
	}
	return ctx->free_file;
}

int aps_add_file(struct aps *ctx, int fd)
{
	int file, ring, saved = errno, err = aps_enter(ctx);
	struct stat st;

	if (err)
		return err;
	ring = fstat(fd, &st) ? -errno : ring_for(ctx, fd, &st);
	errno = saved;
	if (ring < 0)
		return ring;
	if (ctx->backend == APS_BACKEND_RING) {
		err = aps_ring_open(ctx, (enum aps_ring_nr)ring);
		if (err)
			return err;
	}
	file = find_place(ctx);
	if (file < 0)
		return file;
	ctx->free_file = ctx->files[file].next_free;
	ctx->files[file] = (struct aps_file){
		.fd = fd, .ring = (enum aps_ring_nr)ring, .may_block = !is_of_disk(&st),
	};
	aps_ring_add_file(ctx, file);
	ctx->stats.nr_files++;
	return file;
}

static bool has_file(const struct aps *ctx, int file)
{
	return file >= 0 && file < ctx->nr_files && ctx->files[file].fd >= 0;
}

int aps_remove_file(struct aps *ctx, int file)
{
	int err = aps_enter(ctx);

	if (err)
		return err;
	if (!has_file(ctx, file))
		return -ENOENT;
	if (ctx->files[file].nr_outstanding)
		return -EBUSY;
	aps_ring_remove_file(ctx, file);
	ctx->files[file] = (struct aps_file){ .fd = -1, .next_free = ctx->free_file };
	ctx->free_file = file;
	ctx->stats.nr_files--;
	return 0;
}

int aps_file_mode(const struct aps *ctx, int file)
{
	int err = aps_may_ask(ctx);

	if (err)
		return err;
	if (!has_file(ctx, file))
		return -ENOENT;
	return ctx->files[file].ring == APS_RING_POLLED ? ctx->mode : APS_INTERRUPT;
}

static unsigned int nr_outstanding(const struct aps *ctx)
{
	unsigned int i, nr = ctx->nr_done;

	for (i = 0; i < APS_NR_RINGS; i++)
		nr += ctx->rings[i].nr_queued + ctx->rings[i].nr_sent;
	return nr;
}

int aps_register_buffers(struct aps *ctx, const struct iovec *iov, unsigned int nr)
{
	int err = aps_enter(ctx);
	size_t i;

	if (err)
		return err;
	if (!nr || nr > MAX_BUFFERS)
		return -EINVAL;
	for (i = 0; i < nr; i++) {
		if (!iov[i].iov_base || !iov[i].iov_len)
			return -EINVAL;
		if (iov[i].iov_len > MAX_BUFFER_BYTES)
			return -E2BIG;
	}
	if (ctx->nr_buffers || nr_outstanding(ctx))
		return -EBUSY;
	ctx->buffers = malloc(nr * sizeof(*iov));
	if (!ctx->buffers)
		return -ENOMEM;
	memcpy(ctx->buffers, iov, nr * sizeof(*iov));
	ctx->nr_buffers = nr;
	for (i = 0; i < APS_NR_RINGS && !err; i++)
		err = aps_ring_add_buffers(ctx, &ctx->rings[i]);
	if (err)
		aps_unregister_buffers(ctx);
	return err;
}

int aps_unregister_buffers(struct aps *ctx)
{
	int err = aps_enter(ctx);
	size_t i;

	if (err)
		return err;
	if (nr_outstanding(ctx))
		return -EBUSY;
	for (i = 0; i < APS_NR_RINGS; i++)
		aps_ring_remove_buffers(&ctx->rings[i]);
	free(ctx->buffers);
	ctx->buffers = NULL;
	ctx->nr_buffers = 0;
	return 0;
}

int aps_get_stats(const struct aps *ctx, struct aps_stats *stats, size_t bytes)
{
	struct aps_stats s;
	int err = aps_may_ask(ctx);

	if (err)
		return err;
	s = ctx->stats;
	s.backend = ctx->backend;
	s.nr_outstanding = nr_outstanding(ctx);
	memset(stats, 0, bytes);
	memcpy(stats, &s, bytes < sizeof(s) ? bytes : sizeof(s));
	return 0;
}
