// SPDX-License-Identifier: MIT
/*
 * A descriptor for event loops: an epoll instance, which can be polled itself, with
 *
 * - a timer. Nothing tells of the completion of a polled I/O but a look. So the timer
 *   expires when the policy would look first, that is when the sleep of the oldest one
 *   ends;
 * - an eventfd. The kernel writes to it when an I/O of the plain ring completes. The
 *   library writes to it if the time to look is over already, or a done event waits to be
 *   taken. A timer whose time has passed expires by an interrupt: a little later, and it
 *   costs one.
 *
 * The plain ring itself is not in the set. With IORING_SETUP_DEFER_TASKRUN a completion is
 * work that this thread has yet to do. poll(2) on the ring tells of that work on Linux 6.1
 * and 6.12, and not on 6.18 and 7.2. The eventfd is written when the work is added.
 *
 * The program sleeps in epoll_wait() as the library would in aps_wait(). Each aps_submit(),
 * aps_wait() and aps_cancel() reads the eventfd and then looks at the plain ring: what the
 * kernel told of before the read is seen in the ring, what completes later writes anew.
 * Each of these calls that leaves something to be taken writes as well: a program that
 * waits for edges (EPOLLET) sees one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "context.h"

#define SEC_NS 1000000000ull

#define NEVER 0
#define AT_ONCE 1

static int watch(struct aps *ctx, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(ctx->event_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int aps_event_add_ring(struct aps *ctx)
{
	struct aps_ring *ring = &ctx->rings[APS_RING_PLAIN];

	if (ctx->event_fd < 0 || !ring->open)
		return 0;
	ctx->is_now = true;
	return io_uring_register_eventfd(&ring->uring, ctx->now_fd);
}

/* Whether something is complete in the ring, or will be once it is looked at. */
static bool has_complete(const struct aps_ring *ring)
{
	return aps_ring_ready(ring) ||
	       (ring->nr_sent && IO_URING_READ_ONCE(*ring->uring.sq.kflags) & IORING_SQ_TASKRUN);
}

/* When to look: NEVER, AT_ONCE, or the time. */
static uint64_t look_at_ns(struct aps *ctx)
{
	const struct aps_ring *ring = &ctx->rings[APS_RING_POLLED];
	const struct aps_slot *slot = ring->sent.next;
	uint64_t now_ns, at_ns;
	struct aps_choice c;

	if (ctx->nr_done || aps_ring_ready(ring) || has_complete(&ctx->rings[APS_RING_PLAIN]))
		return AT_ONCE;
	if (!ring->nr_sent)
		return NEVER;
	now_ns = aps_now_ns();
	if (ctx->mode == APS_ADAPTIVE)
		aps_sample(ctx, now_ns);
	c = aps_policy_choose(&ctx->policy, slot->op == APS_OP_WRITE ? APS_DIR_WRITE : APS_DIR_READ,
			      slot->size, ctx->cpu.load.util_ppm,
			      ctx->mode == APS_ADAPTIVE ? aps_need_ppm(ctx) : 0);
	at_ns = slot->submit_ns + c.sleep_ns;
	if (c.kind == APS_WAIT_DEEP) {
		ctx->slept_for = NULL;
	} else if (ctx->slept_for != slot) {
		ctx->slept_for = slot;
		ctx->sleep_end_ns = at_ns;
	}
	/* What is late is looked for again after a nap, if the CPUs are wanted. */
	if (at_ns <= now_ns && c.nap_ns)
		at_ns = now_ns + c.nap_ns;
	return at_ns > now_ns ? at_ns : AT_ONCE;
}

void aps_event_arm(struct aps *ctx)
{
	struct itimerspec t = { .it_value.tv_sec = 0 };
	eventfd_t unused;
	uint64_t at_ns;
	int saved;

	if (ctx->event_fd < 0)
		return;
	saved = errno;
	if (ctx->is_now)
		eventfd_read(ctx->now_fd, &unused);
	errno = saved; /* most often it has nothing */
	at_ns = look_at_ns(ctx);
	ctx->is_now = at_ns == AT_ONCE || ctx->rings[APS_RING_PLAIN].open;
	if (at_ns == AT_ONCE) {
		eventfd_write(ctx->now_fd, 1);
		return; /* whatever the timer says */
	}
	if (at_ns == ctx->timer_ns)
		return;
	ctx->timer_ns = at_ns;
	t.it_value.tv_sec = (time_t)(at_ns / SEC_NS);
	t.it_value.tv_nsec = (long)(at_ns % SEC_NS);
	timerfd_settime(ctx->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static int make(struct aps *ctx)
{
	int err;

	ctx->event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->event_fd < 0)
		return -errno;
	ctx->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ctx->timer_fd < 0)
		return -errno;
	ctx->now_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->now_fd < 0)
		return -errno;
	err = watch(ctx, ctx->timer_fd);
	if (!err)
		err = watch(ctx, ctx->now_fd);
	return err ? err : aps_event_add_ring(ctx);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void aps_event_close(struct aps *ctx)
{
	close_fd(&ctx->now_fd);
	close_fd(&ctx->timer_fd);
	close_fd(&ctx->event_fd);
}

int aps_event_fd(struct aps *ctx)
{
	int err = aps_enter(ctx), saved = errno;

	if (err || ctx->event_fd >= 0)
		return err ? err : ctx->event_fd;
	err = make(ctx);
	if (err) {
		aps_event_close(ctx);
		errno = saved;
		return err;
	}
	aps_event_arm(ctx);
	return ctx->event_fd;
}
