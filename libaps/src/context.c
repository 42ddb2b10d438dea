// SPDX-License-Identifier: MIT
/* Contexts: options, opening, closing, statistics. See context.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "context.h"

/* Of a newer liburing. */
#ifndef IORING_SETUP_HYBRID_IOPOLL
#define IORING_SETUP_HYBRID_IOPOLL (1U << 17)
#endif

#define MAX_DEPTH 4096
#define MIN_SAMPLE_NS 1000000
#define MAX_SAMPLE_NS 1000000000

static const char *const mode_names[] = {
	[APS_INTERRUPT] = "interrupt",
	[APS_POLL] = "poll",
	[APS_HYBRID] = "hybrid",
	[APS_ADAPTIVE] = "aps",
	[APS_RING_HYBRID] = "ring-hybrid",
};

#define NR_MODES (sizeof(mode_names) / sizeof(mode_names[0]))

/* How many contexts of this process have I/Os in flight: as many threads wait. */
static atomic_int nr_waiting;

void aps_count_waiting(int change)
{
	atomic_fetch_add_explicit(&nr_waiting, change, memory_order_relaxed);
}

/* Those that wait, with this one, whose I/O may be about to be sent. */
static unsigned int count_with(const struct aps *ctx)
{
	return (unsigned int)atomic_load_explicit(&nr_waiting, memory_order_relaxed) + !ctx->nr_sent;
}

uint32_t aps_need_ppm(const struct aps *ctx)
{
	uint64_t need = (uint64_t)count_with(ctx) * APS_PPM_ONE * APS_PPM_ONE / ctx->cpu.load.capacity_ppm;

	return need < UINT32_MAX ? (uint32_t)need : UINT32_MAX;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t aps_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

unsigned int aps_version(void)
{
	return APS_VERSION_MAJOR << 16 | APS_VERSION_MINOR;
}

const char *aps_mode_name(enum aps_mode mode)
{
	return (size_t)mode < NR_MODES ? mode_names[mode] : "unknown";
}

int aps_parse_mode(const char *name)
{
	size_t i;

	for (i = 0; i < NR_MODES; i++)
		if (!strcmp(name, mode_names[i]))
			return (int)i;
	return -EINVAL;
}

void aps_options_init(struct aps_options *o)
{
	*o = (struct aps_options){
		.mode = APS_ADAPTIVE,
		.depth = 64,
		.poll_margin_ppm = 200000,
		.hybrid_margin_ppm = 30000,
		.hybrid_sleep_ppm = 500000,
		.deep_sleep_ppm = 900000,
		.min_sleep_ns = 2000,
		.max_sleep_ns = 10000000,
		.sample_ns = 20000000,
		.root = "",
	};
}

static int check_options(const struct aps_options *o)
{
	if ((size_t)o->mode >= NR_MODES || o->depth < 1 || o->depth > MAX_DEPTH || !o->root ||
	    o->flags & ~(unsigned int)(APS_FALLBACK | APS_KEEP_TIMER_SLACK) ||
	    o->sample_ns < MIN_SAMPLE_NS || o->sample_ns > MAX_SAMPLE_NS)
		return -EINVAL;
	return 0;
}

/* Whether the file's disk has poll queues, which only sysfs tells before 6.10. */
static bool has_poll_queues(const char *root, int fd)
{
	/* A partition's queue is its disk's. */
	static const char *const places[] = { "queue", "../queue" };
	struct stat st;
	size_t i;

	if (fstat(fd, &st))
		return false;
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		dev_t dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
		char path[PATH_MAX], on = '0';
		int file;

		if (snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/%s/io_poll", root,
			     major(dev), minor(dev), places[i]) >= (int)sizeof(path))
			return false;
		file = open(path, O_RDONLY | O_CLOEXEC);
		if (file < 0)
			continue;
		if (read(file, &on, 1) != 1)
			on = '0';
		close(file);
		return on == '1';
	}
	return false;
}

/* Settle the mode. Return: 0, or -errno. */
static int choose_mode(struct aps *ctx, const struct aps_options *o)
{
	int flags = fcntl(ctx->fd, F_GETFL);

	if (flags < 0)
		return -errno;
	ctx->mode = o->mode;
	if (o->mode == APS_INTERRUPT)
		return 0;
	if (!(flags & O_DIRECT))
		return -EINVAL;
	if (has_poll_queues(o->root, ctx->fd))
		return 0;
	if (!(o->flags & APS_FALLBACK))
		return -EOPNOTSUPP;
	ctx->mode = APS_INTERRUPT;
	return 0;
}

static int open_ring(struct aps *ctx, unsigned int depth)
{
	unsigned int flags = 0;
	int err;

	if (ctx->mode != APS_INTERRUPT)
		flags |= IORING_SETUP_IOPOLL;
	if (ctx->mode == APS_RING_HYBRID)
		flags |= IORING_SETUP_HYBRID_IOPOLL;
	err = io_uring_queue_init(depth, &ctx->ring, flags);
	/* The flag is what an older kernel does not know. */
	return err == -EINVAL && ctx->mode == APS_RING_HYBRID ? -EOPNOTSUPP : err;
}

static void make_slots(struct aps *ctx, unsigned int depth)
{
	unsigned int i;

	ctx->outstanding.prev = ctx->outstanding.next = &ctx->outstanding;
	for (i = 0; i < depth; i++) {
		ctx->slots[i].next = ctx->free;
		ctx->free = &ctx->slots[i];
	}
}

/* Without it a sleep of 5 us takes 55. It is the thread's own. */
static void want_exact_timers(const struct aps *ctx, const struct aps_options *o)
{
	bool sleeps = ctx->mode == APS_HYBRID || ctx->mode == APS_ADAPTIVE;

	if (sleeps && !(o->flags & APS_KEEP_TIMER_SLACK))
		prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static int open_parts(struct aps *ctx, const struct aps_options *o)
{
	int err = choose_mode(ctx, o);

	if (err)
		return err;
	err = aps_policy_init(&ctx->policy, o);
	if (err)
		return err;
	ctx->policy.opts.mode = ctx->mode;
	ctx->slots = calloc(o->depth, sizeof(*ctx->slots));
	if (!ctx->slots)
		return -ENOMEM;
	make_slots(ctx, o->depth);
	if (ctx->mode == APS_ADAPTIVE) {
		err = aps_cpu_open(&ctx->cpu, o->root);
		if (err)
			goto free_slots;
	}
	err = open_ring(ctx, o->depth);
	if (!err)
		return 0;
	if (ctx->mode == APS_ADAPTIVE)
		aps_cpu_close(&ctx->cpu);
free_slots:
	free(ctx->slots);
	return err;
}

int aps_open(struct aps **out, int fd, const struct aps_options *options)
{
	struct aps_options defaults;
	struct aps *ctx;
	int err;

	aps_options_init(&defaults);
	if (!options)
		options = &defaults;
	err = check_options(options);
	if (err)
		return err;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ctx->fd = fd;
	err = open_parts(ctx, options);
	if (err) {
		free(ctx);
		return err;
	}
	want_exact_timers(ctx, options);
	ctx->cpu_start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	*out = ctx;
	return 0;
}

void aps_close(struct aps *ctx)
{
	struct aps_event events[16];
	int n = 1;

	if (!ctx)
		return;
	/* What is in flight writes to the caller's memory until it is done. */
	while (ctx->nr_queued + ctx->nr_sent && (n >= 0 || n == -EINTR))
		n = aps_wait(ctx, events, 1, 16);
	if (ctx->nr_sent)
		aps_count_waiting(-1);
	io_uring_queue_exit(&ctx->ring);
	if (ctx->mode == APS_ADAPTIVE)
		aps_cpu_close(&ctx->cpu);
	free(ctx->slots);
	free(ctx);
}

enum aps_mode aps_mode(const struct aps *ctx)
{
	return ctx->mode;
}

void aps_get_stats(const struct aps *ctx, struct aps_stats *stats)
{
	*stats = ctx->stats;
	stats->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - ctx->cpu_start_ns;
}

void aps_sample(struct aps *ctx, uint64_t now_ns)
{
	if (ctx->stats.nr_samples && now_ns - ctx->sampled_ns < ctx->policy.opts.sample_ns)
		return;
	ctx->sampled_ns = now_ns;
	ctx->stats.nr_samples++;
	/* A machine that does not tell has the utilisation that it told last. */
	(void)aps_cpu_read(&ctx->cpu, now_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID),
			   count_with(ctx));
}
