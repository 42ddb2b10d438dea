// SPDX-License-Identifier: MIT
/*
 * I/O without a ring, where io_uring is forbidden: the default of container engines is a
 * seccomp filter that answers EPERM, and kernel.io_uring_disabled does it for a machine.
 * Each I/O is one system call that waits, in the order in which they were queued.
 *
 * RWF_HIPRI has a kernel older than 6.0 poll for it. Later ones ignore it for I/O that is
 * waited for in the call, so there it is not asked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "context.h"

bool aps_sync_polls(void)
{
	struct utsname name;

	return !uname(&name) && strtoul(name.release, NULL, 10) < 6;
}

static ssize_t transfer(const struct aps_slot *s, int fd, int flags)
{
	ssize_t n;

	/* A signal does not interrupt disks; other files it does. */
	do {
		if (s->op == APS_OP_WRITE)
			n = pwritev2(fd, s->iovs, (int)s->nr_iovs, (off_t)s->offset, flags);
		else
			n = preadv2(fd, s->iovs, (int)s->nr_iovs, (off_t)s->offset, flags);
	} while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t do_one(struct aps *ctx, const struct aps_slot *s)
{
	int fd = ctx->files[s->file].fd, saved = errno;
	bool polls = ctx->files[s->file].ring == APS_RING_POLLED;
	ssize_t n;

	if (s->op == APS_OP_FSYNC) {
		n = fsync(fd);
	} else if (s->op == APS_OP_FDATASYNC) {
		n = fdatasync(fd);
	} else {
		ctx->stats.nr_waits[polls ? APS_WAIT_POLL : APS_WAIT_INTERRUPT]++;
		n = transfer(s, fd, polls ? RWF_HIPRI : 0);
	}
	if (n < 0)
		n = -errno;
	errno = saved;
	return n;
}

int aps_sync_submit(struct aps *ctx)
{
	struct aps_ring *ring = &ctx->rings[APS_RING_PLAIN];
	int nr = 0;

	for (; ring->nr_queued; nr++) {
		struct aps_slot *slot = ring->queued.next;

		slot->state = APS_SLOT_SENT;
		slot->submit_ns = aps_now_ns();
		ring->nr_queued--;
		ring->nr_sent++;
		aps_complete(ctx, slot, do_one(ctx, slot), aps_now_ns());
	}
	return nr;
}
