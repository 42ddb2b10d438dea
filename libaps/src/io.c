// SPDX-License-Identifier: MIT
/*
 * I/Os: queueing, sending, waiting.
 *
 * To wait is to look, and if nothing is there to sleep as long as the policy
 * says, counted from the oldest I/O's submission; then to spin, in the kernel,
 * where io_uring polls the device until something is complete or somebody else
 * is to have the CPU. A deep wait does not spin: it looks, and naps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include "context.h"

#define SEC_NS 1000000000ull

/* A sleep that ends later than 1/8 of itself says nothing of the device. */
#define LATE_SHIFT 3

static unsigned int nr_outstanding(const struct aps *ctx)
{
	return ctx->nr_queued + ctx->nr_sent;
}

static void list_add_last(struct aps_slot *head, struct aps_slot *slot)
{
	slot->prev = head->prev;
	slot->next = head;
	head->prev->next = slot;
	head->prev = slot;
}

static void list_del(struct aps_slot *slot)
{
	slot->prev->next = slot->next;
	slot->next->prev = slot->prev;
}

static size_t iov_bytes(const struct iovec *iov, int nr)
{
	size_t bytes = 0;

	while (nr-- > 0)
		bytes += iov[nr].iov_len;
	return bytes;
}

static int queue(struct aps *ctx, enum aps_direction dir, const struct iovec *iov, int nr,
		 off_t offset, void *data)
{
	struct aps_slot *slot = ctx->free;
	struct io_uring_sqe *sqe;

	if (nr < 1 || nr > IOV_MAX || offset < 0)
		return -EINVAL;
	sqe = slot ? io_uring_get_sqe(&ctx->ring) : NULL;
	if (!sqe)
		return -EAGAIN;
	ctx->free = slot->next;
	slot->data = data;
	slot->dir = dir;
	slot->size = aps_size_class(iov_bytes(iov, nr));
	slot->submit_ns = 0;
	if (nr == 1) { /* so that the caller's iovec need not live */
		slot->iov = *iov;
		iov = &slot->iov;
	}
	if (dir == APS_DIR_READ)
		io_uring_prep_readv(sqe, ctx->fd, iov, (unsigned int)nr, (uint64_t)offset);
	else
		io_uring_prep_writev(sqe, ctx->fd, iov, (unsigned int)nr, (uint64_t)offset);
	io_uring_sqe_set_data(sqe, slot);
	list_add_last(&ctx->outstanding, slot);
	ctx->nr_queued++;
	return 0;
}

int aps_queue_read(struct aps *ctx, void *buf, size_t bytes, off_t offset, void *data)
{
	struct iovec iov = { .iov_base = buf, .iov_len = bytes };

	return queue(ctx, APS_DIR_READ, &iov, 1, offset, data);
}

int aps_queue_write(struct aps *ctx, const void *buf, size_t bytes, off_t offset, void *data)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = bytes };

	return queue(ctx, APS_DIR_WRITE, &iov, 1, offset, data);
}

int aps_queue_readv(struct aps *ctx, const struct iovec *iov, int nr, off_t offset, void *data)
{
	return queue(ctx, APS_DIR_READ, iov, nr, offset, data);
}

int aps_queue_writev(struct aps *ctx, const struct iovec *iov, int nr, off_t offset, void *data)
{
	return queue(ctx, APS_DIR_WRITE, iov, nr, offset, data);
}

/* So many of those queued were sent: the oldest ones, which stand last but for
 * what was queued since. */
static void sent(struct aps *ctx, unsigned int nr, uint64_t now_ns)
{
	struct aps_slot *slot = ctx->outstanding.prev;
	unsigned int i;

	if (!nr)
		return;
	for (i = 1; i < ctx->nr_queued; i++)
		slot = slot->prev;
	for (i = 0; i < nr; i++, slot = slot->next)
		slot->submit_ns = now_ns;
	if (!ctx->nr_sent)
		aps_count_waiting(1);
	ctx->nr_queued -= nr;
	ctx->nr_sent += nr;
}

/* Send what is queued, and with nr_wait wait for so many more in the kernel. */
static int enter(struct aps *ctx, unsigned int nr_wait, uint64_t now_ns)
{
	int n = io_uring_submit_and_wait(&ctx->ring, nr_wait);

	if (n > 0)
		sent(ctx, (unsigned int)n, now_ns);
	return n;
}

int aps_submit(struct aps *ctx)
{
	int n;

	if (!ctx->nr_queued)
		return 0;
	do {
		n = enter(ctx, 0, aps_now_ns());
	} while (n == -EINTR);
	return n;
}

/* What is known of the service time of an I/O that is complete now. */
static void learn(struct aps *ctx, const struct aps_slot *slot, uint64_t now_ns)
{
	uint64_t ns = now_ns - slot->submit_ns;

	if (ctx->was_there) {
		if (!ctx->at_most_ns)
			return;
		if (ns > ctx->at_most_ns)
			ns = ctx->at_most_ns;
	}
	aps_policy_time(&ctx->policy, slot->dir, slot->size, ns);
}

static void take(struct aps *ctx, struct io_uring_cqe *cqe, struct aps_event *event,
		 uint64_t now_ns)
{
	struct aps_slot *slot = io_uring_cqe_get_data(cqe);

	event->data = slot->data;
	event->result = cqe->res;
	if (slot->dir == APS_DIR_READ)
		ctx->stats.nr_reads++;
	else
		ctx->stats.nr_writes++;
	if (cqe->res < 0)
		ctx->stats.nr_errors++;
	else
		learn(ctx, slot, now_ns);
	if (ctx->mode == APS_ADAPTIVE)
		aps_policy_load(&ctx->policy, ctx->cpu.load.util_ppm);
	list_del(slot);
	slot->next = ctx->free;
	ctx->free = slot;
	if (!--ctx->nr_sent)
		aps_count_waiting(-1);
}

/* Take what is complete, without looking at the device. */
static unsigned int reap(struct aps *ctx, struct aps_event *events, unsigned int max)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&ctx->ring, head, cqe) {
		if (n == max)
			break;
		take(ctx, cqe, &events[n++], ctx->now_ns);
	}
	io_uring_cq_advance(&ctx->ring, n);
	return n;
}

/* Have the kernel look at the device once. Return: 0, or -errno. */
static int look(struct aps *ctx)
{
	int err = io_uring_get_events(&ctx->ring);

	return err < 0 ? err : 0;
}

/*
 * Send what is queued and wait in the kernel until one more is complete: one
 * system call. Return: 0, or -errno. With polling it may return early, with
 * nothing: somebody else was to have the CPU.
 */
static int wait_one(struct aps *ctx, uint64_t now_ns)
{
	bool sends = ctx->nr_queued;
	int n = enter(ctx, 1, now_ns);

	ctx->now_ns = aps_now_ns();
	if (ctx->mode != APS_INTERRUPT)
		ctx->stats.spun_ns += ctx->now_ns - now_ns;
	else if (sends && n > 0 && !io_uring_cq_ready(&ctx->ring))
		return -EINTR; /* the kernel told how many were sent instead */
	return n < 0 ? n : 0;
}

/* Sleep until then. Return: 0 or -EINTR. */
static int sleep_until(struct aps *ctx, uint64_t now_ns, uint64_t until_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(until_ns / SEC_NS), .tv_nsec = (long)(until_ns % SEC_NS),
	};
	uint64_t woken_ns;
	int err;

	err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	if (err)
		return -err;
	woken_ns = ctx->now_ns = aps_now_ns();
	ctx->stats.nr_sleeps++;
	ctx->stats.slept_ns += until_ns - now_ns;
	if (woken_ns > until_ns)
		ctx->stats.late_ns += woken_ns - until_ns;
	return 0;
}

/* The sleep before anything is looked at. Return: 0, or -errno. */
static int sleep_first(struct aps *ctx, const struct aps_choice *c, uint64_t now_ns)
{
	const struct aps_slot *oldest = ctx->outstanding.next;
	uint64_t until_ns = oldest->submit_ns + c->sleep_ns;
	int err;

	if (until_ns < now_ns + ctx->policy.opts.min_sleep_ns)
		return 0;
	err = sleep_until(ctx, now_ns, until_ns);
	if (!err)
		err = look(ctx);
	if (err || !io_uring_cq_ready(&ctx->ring))
		return err;
	ctx->stats.nr_oversleeps++;
	ctx->was_there = true;
	if (ctx->now_ns - until_ns <= c->sleep_ns >> LATE_SHIFT)
		ctx->at_most_ns = c->sleep_ns;
	return 0;
}

/* Look and nap until something is there. Return: 0, or -errno. */
static int nap(struct aps *ctx, uint64_t nap_ns)
{
	int err = look(ctx);

	while (!err && !io_uring_cq_ready(&ctx->ring)) {
		uint64_t now_ns = aps_now_ns();

		err = sleep_until(ctx, now_ns, now_ns + nap_ns);
		if (!err)
			err = look(ctx);
	}
	return err;
}

static struct aps_choice choose(struct aps *ctx, uint64_t now_ns)
{
	const struct aps_slot *oldest = ctx->outstanding.next;
	uint32_t util_ppm = 0, need_ppm = 0;
	struct aps_choice c;

	if (ctx->mode == APS_ADAPTIVE) {
		aps_sample(ctx, now_ns);
		util_ppm = ctx->cpu.load.util_ppm;
		need_ppm = aps_need_ppm(ctx);
	}
	c = aps_policy_choose(&ctx->policy, oldest->dir, oldest->size, util_ppm, need_ppm);
	ctx->stats.margin_ppm = c.margin_ppm;
	ctx->stats.nr_waits[c.kind]++;
	return c;
}

/* Send what is queued, and wait for something as the policy wants. */
static int wait_some(struct aps *ctx)
{
	uint64_t now_ns = aps_now_ns();
	struct aps_choice c = choose(ctx, now_ns);
	int err;

	if (!c.sleep_ns)
		return wait_one(ctx, now_ns);
	err = aps_submit(ctx);
	if (err < 0)
		return err;
	err = sleep_first(ctx, &c, now_ns);
	if (err || io_uring_cq_ready(&ctx->ring))
		return err;
	if (c.kind == APS_WAIT_DEEP && c.nap_ns)
		return nap(ctx, c.nap_ns);
	return wait_one(ctx, aps_now_ns());
}

/* Send, look once, take: no waiting. Return: events, or -errno. */
static int take_ready(struct aps *ctx, struct aps_event *events, unsigned int max)
{
	int err = aps_submit(ctx);

	if (err >= 0 && ctx->nr_sent && ctx->mode != APS_INTERRUPT && !io_uring_cq_ready(&ctx->ring))
		err = look(ctx);
	return err < 0 ? err : (int)reap(ctx, events, max);
}

int aps_wait(struct aps *ctx, struct aps_event *events, unsigned int min, unsigned int max)
{
	unsigned int n;
	int err;

	if (min > max)
		return -EINVAL;
	if (min > nr_outstanding(ctx))
		min = nr_outstanding(ctx);
	/* It is complete since who knows when: that says nothing of the device. */
	ctx->was_there = true;
	ctx->at_most_ns = 0;
	if (!min)
		return take_ready(ctx, events, max);
	n = reap(ctx, events, max);
	while (n < min) {
		ctx->was_there = false;
		err = wait_some(ctx);
		n += reap(ctx, events + n, max - n);
		ctx->at_most_ns = 0;
		if (err < 0)
			return n ? (int)n : err;
	}
	if (ctx->nr_queued) {
		err = aps_submit(ctx);
		if (err < 0 && !n)
			return err;
	}
	return (int)n;
}

static ssize_t transfer(struct aps *ctx, enum aps_direction dir, const struct iovec *iov, int nr,
			off_t offset)
{
	struct aps_event event;
	int n;

	if (nr_outstanding(ctx))
		return -EBUSY;
	n = queue(ctx, dir, iov, nr, offset, NULL);
	if (n)
		return n;
	do {
		n = aps_wait(ctx, &event, 1, 1);
	} while (n == -EINTR || n == -EAGAIN || n == -EBUSY);
	return n < 0 ? n : event.result;
}

ssize_t aps_read(struct aps *ctx, void *buf, size_t bytes, off_t offset)
{
	struct iovec iov = { .iov_base = buf, .iov_len = bytes };

	return transfer(ctx, APS_DIR_READ, &iov, 1, offset);
}

ssize_t aps_write(struct aps *ctx, const void *buf, size_t bytes, off_t offset)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = bytes };

	return transfer(ctx, APS_DIR_WRITE, &iov, 1, offset);
}

ssize_t aps_readv(struct aps *ctx, const struct iovec *iov, int nr, off_t offset)
{
	return transfer(ctx, APS_DIR_READ, iov, nr, offset);
}

ssize_t aps_writev(struct aps *ctx, const struct iovec *iov, int nr, off_t offset)
{
	return transfer(ctx, APS_DIR_WRITE, iov, nr, offset);
}
