// SPDX-License-Identifier: MIT
/*
 * I/Os: queueing, sending, waiting.
 *
 * To wait for a polled I/O is to look, and if nothing is there to sleep as long as the
 * policy says, counted from the oldest I/O's submission; then to spin, in the kernel,
 * where io_uring polls the device until something is complete or another task is to have
 * the CPU. A deep wait does not spin: it looks, and naps. Other I/Os are waited for by
 * interrupts. With both in flight the polled ones are waited for, and each look is at both
 * rings: a sync is seen at most one polled I/O later.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include "context.h"

#define SEC_NS 1000000000ull
#define NO_DEADLINE UINT64_MAX

/*
 * An I/O that the kernel does not take for want of memory is sent again so often at least,
 * and for so long. A number alone is no bound: on a busy CPU each try waits for the others.
 */
#define MIN_RETRIES 10
#define RETRY_FOR_NS 100000000

static struct aps_ring *polled(struct aps *ctx)
{
	return &ctx->rings[APS_RING_POLLED];
}

static struct aps_ring *plain(struct aps *ctx)
{
	return &ctx->rings[APS_RING_PLAIN];
}

static bool is_busy(const struct aps_ring *ring)
{
	return ring->nr_queued || ring->nr_sent;
}

static unsigned int nr_outstanding(const struct aps *ctx)
{
	const struct aps_ring *r = ctx->rings;

	return r[0].nr_queued + r[0].nr_sent + r[1].nr_queued + r[1].nr_sent + ctx->nr_done;
}

static bool is_in_flight(const struct aps *ctx)
{
	return ctx->rings[0].nr_sent || ctx->rings[1].nr_sent;
}

static bool is_ready(const struct aps *ctx)
{
	return aps_ring_ready(&ctx->rings[0]) || aps_ring_ready(&ctx->rings[1]);
}

/* What is to be done, before it has a slot. */
struct request {
	enum aps_op op;
	int file;
	int buffer;
	const struct iovec *iov;
	int nr;
	int64_t offset;
	void *data;
};

static size_t iov_bytes(const struct iovec *iov, int nr)
{
	size_t bytes = 0;

	while (nr-- > 0)
		bytes += iov[nr].iov_len;
	return bytes;
}

static bool is_within(const struct iovec *iov, const struct iovec *buffer)
{
	uintptr_t at = (uintptr_t)iov->iov_base, from = (uintptr_t)buffer->iov_base;

	return at >= from && at - from <= buffer->iov_len &&
	       iov->iov_len <= buffer->iov_len - (at - from);
}

static int check(const struct aps *ctx, const struct request *r)
{
	if (r->file < 0 || r->file >= ctx->nr_files || ctx->files[r->file].fd < 0)
		return -ENOENT;
	if (r->op == APS_OP_FSYNC || r->op == APS_OP_FDATASYNC)
		return 0;
	if (r->nr < 1 || r->nr > IOV_MAX || r->offset < 0)
		return -EINVAL;
	if (r->buffer >= 0 && ((unsigned int)r->buffer >= ctx->nr_buffers ||
			       !is_within(r->iov, &ctx->buffers[r->buffer])))
		return -EFAULT;
	return 0;
}

/* Which ring the request goes to. Return: -errno if that cannot be made. */
static int choose_ring(struct aps *ctx, const struct request *r)
{
	int err;

	if (ctx->backend == APS_BACKEND_SYNC)
		return APS_RING_PLAIN;
	if (ctx->files[r->file].ring == APS_RING_POLLED &&
	    (r->op == APS_OP_READ || r->op == APS_OP_WRITE))
		return APS_RING_POLLED;
	err = aps_ring_open(ctx, APS_RING_PLAIN);
	return err ? err : APS_RING_PLAIN;
}

static int queue(struct aps *ctx, const struct request *r)
{
	struct aps_slot *slot;
	int nr, err = aps_enter(ctx);

	if (!err)
		err = check(ctx, r);
	if (err)
		return err;
	slot = ctx->free;
	if (!slot)
		return -EAGAIN;
	nr = choose_ring(ctx, r);
	if (nr < 0)
		return nr;
	ctx->free = slot->next;
	slot->ring = (enum aps_ring_nr)nr;
	slot->op = r->op;
	slot->file = r->file;
	slot->buffer = r->buffer;
	slot->data = r->data;
	slot->nr = ctx->next_nr++;
	slot->offset = (uint64_t)r->offset;
	slot->nr_iovs = (unsigned int)r->nr;
	slot->iovs = r->iov;
	if (r->nr == 1) {
		slot->iov = *r->iov;
		slot->iovs = &slot->iov;
	}
	slot->size = aps_size_class(iov_bytes(r->iov, r->nr));
	slot->submit_ns = 0;
	slot->state = APS_SLOT_QUEUED;
	aps_list_add(&ctx->rings[nr].queued, slot);
	ctx->rings[nr].nr_queued++;
	ctx->files[r->file].nr_outstanding++;
	return 0;
}

static int queue_one(struct aps *ctx, enum aps_op op, int file, int buffer, const void *buf,
		     size_t bytes, int64_t offset, void *data)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = bytes };

	return queue(ctx, &(struct request){ op, file, buffer, &iov, 1, offset, data });
}

int aps_queue_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset, void *data)
{
	return queue_one(ctx, APS_OP_READ, file, -1, buf, bytes, offset, data);
}

int aps_queue_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset,
		    void *data)
{
	return queue_one(ctx, APS_OP_WRITE, file, -1, buf, bytes, offset, data);
}

int aps_queue_readv(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset,
		    void *data)
{
	return queue(ctx, &(struct request){ APS_OP_READ, file, -1, iov, nr, offset, data });
}

int aps_queue_writev(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset,
		     void *data)
{
	return queue(ctx, &(struct request){ APS_OP_WRITE, file, -1, iov, nr, offset, data });
}

/* No buffer has so high a number. */
static int buffer_nr(unsigned int buffer)
{
	return buffer < INT_MAX ? (int)buffer : INT_MAX;
}

int aps_queue_read_fixed(struct aps *ctx, int file, unsigned int buffer, void *buf, size_t bytes,
			 int64_t offset, void *data)
{
	return queue_one(ctx, APS_OP_READ, file, buffer_nr(buffer), buf, bytes, offset, data);
}

int aps_queue_write_fixed(struct aps *ctx, int file, unsigned int buffer, const void *buf,
			  size_t bytes, int64_t offset, void *data)
{
	return queue_one(ctx, APS_OP_WRITE, file, buffer_nr(buffer), buf, bytes, offset, data);
}

int aps_queue_fsync(struct aps *ctx, int file, void *data)
{
	return queue(ctx, &(struct request){ .op = APS_OP_FSYNC, .file = file, .buffer = -1, .data = data });
}

int aps_queue_fdatasync(struct aps *ctx, int file, void *data)
{
	return queue(ctx, &(struct request){ .op = APS_OP_FDATASYNC, .file = file, .buffer = -1, .data = data });
}

/* Send what is queued for the ring. Return: how many were sent, or -errno. */
static int submit_ring(struct aps *ctx, struct aps_ring *ring)
{
	int n;

	if (!ring->nr_queued)
		return 0;
	do {
		n = aps_ring_enter(ctx, ring, 0, aps_now_ns());
	} while (n == -EINTR);
	return n;
}

/* Likewise for both. */
static int submit_all(struct aps *ctx)
{
	int n, more;

	if (ctx->backend == APS_BACKEND_SYNC)
		return aps_sync_submit(ctx);
	n = submit_ring(ctx, polled(ctx));
	if (n < 0)
		return n;
	more = submit_ring(ctx, plain(ctx));
	return more < 0 && !n ? more : n + (more < 0 ? 0 : more);
}

int aps_submit(struct aps *ctx)
{
	int n = aps_enter(ctx);

	if (n < 0)
		return n;
	n = submit_all(ctx);
	aps_event_arm(ctx);
	return n;
}

static enum aps_direction direction(enum aps_op op)
{
	return op == APS_OP_WRITE ? APS_DIR_WRITE : APS_DIR_READ;
}

/* Whether a look not long before found it in flight. */
static bool was_seen_in_flight(const struct aps *ctx, const struct aps_slot *slot, uint64_t now_ns)
{
	return ctx->not_there_ns > slot->submit_ns &&
	       now_ns - ctx->not_there_ns <= (now_ns - slot->submit_ns) >> APS_LATE_SHIFT;
}

/* What is known of the service time of an I/O that is complete now. */
static void learn(struct aps *ctx, const struct aps_slot *slot, uint64_t now_ns)
{
	uint64_t ns = now_ns - slot->submit_ns;

	if (ctx->was_there && !was_seen_in_flight(ctx, slot, now_ns)) {
		if (!ctx->at_most_ns)
			return;
		if (ns > ctx->at_most_ns)
			ns = ctx->at_most_ns;
	}
	aps_policy_time(&ctx->policy, direction(slot->op), slot->size, ns);
}

static void count(struct aps_stats *stats, const struct aps_slot *slot)
{
	if (slot->op == APS_OP_READ)
		stats->nr_reads++;
	else if (slot->op == APS_OP_WRITE)
		stats->nr_writes++;
	else
		stats->nr_syncs++;
	if (slot->result < 0)
		stats->nr_errors++;
}

void aps_complete(struct aps *ctx, struct aps_slot *slot, ssize_t result, uint64_t now_ns)
{
	struct aps_ring *ring = &ctx->rings[slot->ring];

	slot->result = result;
	count(&ctx->stats, slot);
	aps_list_del(slot);
	if (slot->state == APS_SLOT_QUEUED) {
		ring->nr_queued--;
	} else {
		ring->nr_sent--;
		if (ring == polled(ctx)) {
			if (result >= 0)
				learn(ctx, slot, now_ns);
			if (slot == ctx->slept_for) {
				aps_policy_slept(&ctx->policy, direction(slot->op), slot->size,
						 ctx->was_there && ctx->not_there_ns < ctx->sleep_end_ns);
				ctx->slept_for = NULL;
			}
			if (ctx->mode == APS_ADAPTIVE)
				aps_policy_load(&ctx->policy, ctx->cpu.load.util_ppm);
			if (!ring->nr_sent)
				aps_count_waiting(-1);
		}
	}
	slot->state = APS_SLOT_DONE;
	aps_list_add(&ctx->done, slot);
	ctx->nr_done++;
}

/*
 * The kernel does not poll a file whose disk has poll queues: its file system has no
 * polling (FAT), or the queues or O_DIRECT were taken away. Queue the I/O for the plain
 * ring, where the file's are from now on. Return: whether that can be done.
 */
static bool falls_back(struct aps *ctx, struct aps_slot *slot)
{
	struct aps_file *f = &ctx->files[slot->file];

	if (slot->ring != APS_RING_POLLED || !(ctx->opts.flags & APS_FALLBACK) ||
	    aps_ring_open(ctx, APS_RING_PLAIN))
		return false;
	if (f->ring == APS_RING_POLLED) {
		aps_ring_remove_file(ctx, slot->file);
		f->ring = APS_RING_PLAIN;
		aps_ring_add_file(ctx, slot->file);
	}
	aps_list_del(slot);
	if (!--polled(ctx)->nr_sent)
		aps_count_waiting(-1);
	slot->ring = APS_RING_PLAIN;
	slot->state = APS_SLOT_QUEUED;
	aps_list_add(&plain(ctx)->queued, slot);
	plain(ctx)->nr_queued++;
	return true;
}

/* Return: whether an I/O was queued again. */
static bool collect_ring(struct aps *ctx, struct aps_ring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;
	bool again = false;

	if (!aps_ring_ready(ring))
		return false;
	/* Each is of a slot: try_flags() takes no ring in which liburing has its own. */
	io_uring_for_each_cqe(&ring->uring, head, cqe) {
		struct aps_slot *slot = io_uring_cqe_get_data(cqe);

		if (cqe->res == -EOPNOTSUPP && falls_back(ctx, slot))
			again = true;
		else
			aps_complete(ctx, slot, cqe->res, ctx->now_ns);
		n++;
	}
	io_uring_cq_advance(&ring->uring, n);
	return again;
}

void aps_collect(struct aps *ctx)
{
	if (collect_ring(ctx, polled(ctx)))
		submit_ring(ctx, plain(ctx)); /* or the next call sends it */
	collect_ring(ctx, plain(ctx));
}

/* Take what is complete, without looking at the device. */
static unsigned int reap(struct aps *ctx, struct aps_event *events, unsigned int max)
{
	unsigned int n;

	aps_collect(ctx);
	for (n = 0; n < max && ctx->nr_done; n++) {
		struct aps_slot *slot = ctx->done.next;

		events[n] = (struct aps_event){ .data = slot->data, .result = slot->result };
		aps_list_del(slot);
		ctx->nr_done--;
		ctx->files[slot->file].nr_outstanding--;
		slot->state = APS_SLOT_FREE;
		slot->next = ctx->free;
		ctx->free = slot;
	}
	return n;
}

/* Look at the devices of both rings. Return: 0, or -errno. */
static int look(struct aps *ctx)
{
	int err = 0;

	if (polled(ctx)->nr_sent)
		err = aps_ring_look(polled(ctx));
	if (!err && plain(ctx)->nr_sent && plain(ctx)->must_look)
		err = aps_ring_look(plain(ctx));
	return err;
}

/* Sleep until then, or the deadline. Return: 0, or -EINTR. */
static int sleep_until(struct aps *ctx, uint64_t now_ns, uint64_t until_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(until_ns / SEC_NS), .tv_nsec = (long)(until_ns % SEC_NS),
	};
	uint64_t woken_ns;
	int err;

	if (!(ctx->opts.flags & APS_KEEP_TIMER_SLACK))
		aps_exact_timers();
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

/* Which polled I/O is expected first. */
static const struct aps_slot *oldest(struct aps *ctx)
{
	return polled(ctx)->nr_sent ? polled(ctx)->sent.next : polled(ctx)->queued.next;
}

/* The sleep before anything is looked at. Return: 0, or -errno. */
static int sleep_first(struct aps *ctx, const struct aps_choice *c, uint64_t now_ns,
		       uint64_t deadline_ns)
{
	uint64_t until_ns = oldest(ctx)->submit_ns + c->sleep_ns;
	int err;

	if (until_ns > deadline_ns)
		until_ns = deadline_ns;
	if (until_ns < now_ns + ctx->policy.opts.min_sleep_ns)
		return 0;
	err = sleep_until(ctx, now_ns, until_ns);
	if (!err)
		err = look(ctx);
	if (err || !aps_ring_ready(polled(ctx)))
		return err;
	ctx->stats.nr_oversleeps++;
	ctx->was_there = true;
	if (ctx->now_ns - until_ns <= c->sleep_ns >> APS_LATE_SHIFT)
		ctx->at_most_ns = c->sleep_ns;
	return 0;
}

/* Look and nap until something is there. Return: 0, or -errno. */
static int nap(struct aps *ctx, uint64_t nap_ns, uint64_t deadline_ns)
{
	int err = look(ctx);

	while (!err && !is_ready(ctx)) {
		uint64_t now_ns = aps_now_ns(), until_ns = now_ns + nap_ns;

		if (now_ns >= deadline_ns)
			return -ETIME;
		err = sleep_until(ctx, now_ns, until_ns < deadline_ns ? until_ns : deadline_ns);
		if (!err)
			err = look(ctx);
	}
	return err;
}

/* Spin here, because the kernel would not stop at the deadline. Return: 0, or -errno. */
static int spin(struct aps *ctx, uint64_t now_ns, uint64_t deadline_ns)
{
	int err;

	do {
		err = look(ctx);
		ctx->now_ns = aps_now_ns();
	} while (!err && !is_ready(ctx) && ctx->now_ns < deadline_ns);
	ctx->stats.spun_ns += ctx->now_ns - now_ns;
	return err || is_ready(ctx) ? err : -ETIME;
}

/*
 * Send what is queued and spin in the kernel until one more is complete: one system
 * call. Return: 0, or -errno. It may return early, with nothing: another task was to have
 * the CPU.
 */
static int poll_one(struct aps *ctx, uint64_t now_ns, uint64_t deadline_ns)
{
	int n;

	if (deadline_ns != NO_DEADLINE) {
		n = submit_ring(ctx, polled(ctx));
		return n < 0 ? n : spin(ctx, now_ns, deadline_ns);
	}
	n = aps_ring_enter(ctx, polled(ctx), 1, now_ns);
	ctx->now_ns = aps_now_ns();
	ctx->stats.spun_ns += ctx->now_ns - now_ns;
	return n < 0 ? n : 0;
}

static struct aps_choice choose(struct aps *ctx, uint64_t now_ns)
{
	const struct aps_slot *slot = oldest(ctx);
	uint32_t util_ppm = 0, need_ppm = 0;
	struct aps_choice c;

	if (ctx->mode == APS_ADAPTIVE) {
		aps_sample(ctx, now_ns);
		util_ppm = ctx->cpu.load.util_ppm;
		need_ppm = aps_need_ppm(ctx);
	}
	c = aps_policy_choose(&ctx->policy, direction(slot->op), slot->size, util_ppm, need_ppm);
	ctx->stats.margin_ppm = c.margin_ppm;
	ctx->stats.nr_waits[c.kind]++;
	return c;
}

/* Send what is queued, and wait for a polled I/O as the policy wants. */
static int wait_polled(struct aps *ctx, uint64_t deadline_ns)
{
	uint64_t now_ns = aps_now_ns();
	struct aps_choice c = choose(ctx, now_ns);
	int err;

	ctx->slept_for = c.kind == APS_WAIT_DEEP ? NULL : oldest(ctx);
	ctx->sleep_end_ns = now_ns;
	if (!c.sleep_ns)
		return poll_one(ctx, now_ns, deadline_ns);
	err = submit_ring(ctx, polled(ctx));
	if (err < 0)
		return err;
	err = sleep_first(ctx, &c, now_ns, deadline_ns);
	if (err || is_ready(ctx))
		return err;
	if (c.kind == APS_WAIT_DEEP && c.nap_ns)
		return nap(ctx, c.nap_ns, deadline_ns);
	return poll_one(ctx, aps_now_ns(), deadline_ns);
}

static int wait_plain_until(struct aps *ctx, uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct __kernel_timespec t = {
		.tv_sec = (long long)(ns / SEC_NS), .tv_nsec = (long long)(ns % SEC_NS),
	};
	struct io_uring_cqe *cqe;
	int err = submit_ring(ctx, plain(ctx));

	if (err < 0)
		return err;
	err = io_uring_wait_cqes(&plain(ctx)->uring, &cqe, 1, &t, NULL);
	ctx->now_ns = aps_now_ns();
	return err;
}

/* Send what is queued, and wait for an interrupt. */
static int wait_plain(struct aps *ctx, uint64_t deadline_ns)
{
	bool sends = plain(ctx)->nr_queued;
	uint64_t now_ns = aps_now_ns();
	int n;

	ctx->stats.nr_waits[APS_WAIT_INTERRUPT]++;
	if (deadline_ns != NO_DEADLINE)
		return wait_plain_until(ctx, now_ns, deadline_ns);
	n = aps_ring_enter(ctx, plain(ctx), 1, now_ns);
	ctx->now_ns = aps_now_ns();
	if (sends && n > 0 && !aps_ring_ready(plain(ctx)))
		return -EINTR; /* the kernel told how many were sent instead */
	return n < 0 ? n : 0;
}

/* Send what is queued, and wait for something. Return: 0, or -errno. */
static int wait_some(struct aps *ctx, uint64_t deadline_ns)
{
	int err;

	if (ctx->backend == APS_BACKEND_SYNC) {
		aps_sync_submit(ctx);
		return 0;
	}
	if (!is_busy(polled(ctx)))
		return wait_plain(ctx, deadline_ns);
	if (is_busy(plain(ctx))) {
		err = submit_ring(ctx, plain(ctx));
		if (err >= 0 && plain(ctx)->must_look)
			err = aps_ring_look(plain(ctx));
		if (err < 0 || aps_ring_ready(plain(ctx)))
			return err < 0 ? err : 0;
	}
	return wait_polled(ctx, deadline_ns);
}

/*
 * Look once, for a program that waits on the descriptor: how long it slept is known, and
 * whether it has looked before. Return: 0, or -errno.
 */
static int look_once(struct aps *ctx)
{
	const struct aps_slot *slot = ctx->slept_for;
	int err = look(ctx);

	if (err || !polled(ctx)->nr_sent)
		return err;
	if (!aps_ring_ready(polled(ctx))) {
		ctx->not_there_ns = ctx->now_ns;
	} else if (slot && ctx->now_ns >= ctx->sleep_end_ns && ctx->not_there_ns < ctx->sleep_end_ns) {
		uint64_t sleep_ns = ctx->sleep_end_ns - slot->submit_ns;

		if (ctx->now_ns - ctx->sleep_end_ns <= sleep_ns >> APS_LATE_SHIFT)
			ctx->at_most_ns = sleep_ns;
	}
	return 0;
}

/* Send, look once, take: no waiting. Return: events, or -errno. */
static int take_ready(struct aps *ctx, struct aps_event *events, unsigned int max)
{
	int err = submit_all(ctx);

	ctx->now_ns = aps_now_ns();
	if (err >= 0 && !is_ready(ctx) && ctx->nr_done < max)
		err = look_once(ctx);
	return err < 0 ? err : (int)reap(ctx, events, max);
}

static int wait_for(struct aps *ctx, struct aps_event *events, unsigned int min,
		    unsigned int max, uint64_t deadline_ns)
{
	unsigned int n;
	int err = 0;

	if (min > nr_outstanding(ctx))
		min = nr_outstanding(ctx);
	/* It is complete for an unknown time: that says nothing of the device. */
	ctx->was_there = true;
	ctx->at_most_ns = 0;
	if (!min)
		return take_ready(ctx, events, max);
	n = reap(ctx, events, max);
	while (n < min && err >= 0) {
		ctx->was_there = false;
		err = wait_some(ctx, deadline_ns);
		n += reap(ctx, events + n, max - n);
		ctx->at_most_ns = 0;
		ctx->slept_for = NULL;
		if (!err && n < min && deadline_ns != NO_DEADLINE && aps_now_ns() >= deadline_ns)
			err = -ETIME;
	}
	if (err >= 0)
		err = submit_all(ctx);
	if (err == -ETIME)
		err = 0;
	return n || err >= 0 ? (int)n : err;
}

static int wait_checked(struct aps *ctx, struct aps_event *events, unsigned int min,
			unsigned int max, uint64_t deadline_ns)
{
	int n = aps_enter(ctx);

	if (n < 0)
		return n;
	if (min > max)
		return -EINVAL;
	n = wait_for(ctx, events, min, max, deadline_ns);
	aps_event_arm(ctx);
	return n;
}

int aps_wait(struct aps *ctx, struct aps_event *events, unsigned int min, unsigned int max)
{
	return wait_checked(ctx, events, min, max, NO_DEADLINE);
}

int aps_wait_timeout(struct aps *ctx, struct aps_event *events, unsigned int min,
		     unsigned int max, uint64_t timeout_ns)
{
	uint64_t now_ns = aps_now_ns();

	/* Centuries are no deadline. */
	return wait_checked(ctx, events, min, max,
			    timeout_ns < NO_DEADLINE / 2 ? now_ns + timeout_ns : NO_DEADLINE);
}

int aps_cancel_sent(struct aps *ctx, const struct aps_slot *slot)
{
	struct io_uring_sync_cancel_reg reg = { .addr = (uintptr_t)slot, .fd = -1 };
	int err;

	/* A disk gives nothing back, and a polled ring has disks alone. */
	if (slot->ring == APS_RING_POLLED)
		return -EALREADY;
	err = io_uring_register_sync_cancel(&plain(ctx)->uring, &reg);
	/* -EINVAL: a kernel before 6.0. -ENOENT: it is complete. -ETIME: under way. */
	return err ? -EALREADY : 0;
}

/* The one of the list, or `oldest`, that was queued first. */
static struct aps_slot *find(struct aps_slot *head, const void *data, struct aps_slot *oldest)
{
	struct aps_slot *slot;

	for (slot = head->next; slot != head; slot = slot->next)
		if (slot->data == data && (!oldest || slot->nr < oldest->nr))
			oldest = slot;
	return oldest;
}

int aps_cancel(struct aps *ctx, void *data)
{
	struct aps_slot *slot = NULL;
	int err = aps_enter(ctx);
	size_t i;

	if (err)
		return err;
	ctx->was_there = true;
	ctx->at_most_ns = 0;
	aps_collect(ctx);
	for (i = 0; i < APS_NR_RINGS; i++) {
		slot = find(&ctx->rings[i].sent, data, slot);
		slot = find(&ctx->rings[i].queued, data, slot);
	}
	if (!slot)
		return -ENOENT;
	if (slot->state == APS_SLOT_SENT)
		err = aps_cancel_sent(ctx, slot);
	else
		aps_complete(ctx, slot, -ECANCELED, 0);
	aps_event_arm(ctx);
	return err;
}

/* Take back what is queued: one I/O, that of a transfer which could not be sent. */
static void take_back(struct aps *ctx)
{
	struct aps_event event;
	size_t i;

	for (i = 0; i < APS_NR_RINGS; i++)
		if (ctx->rings[i].nr_queued)
			aps_complete(ctx, ctx->rings[i].queued.next, -ECANCELED, 0);
	reap(ctx, &event, 1);
}

static ssize_t transfer(struct aps *ctx, const struct request *r)
{
	struct aps_event event;
	unsigned int retries = 0;
	uint64_t refused_ns = 0;
	int n = aps_enter(ctx);

	if (n < 0)
		return n;
	if (nr_outstanding(ctx))
		return -EBUSY;
	n = queue(ctx, r);
	if (n)
		return n;
	for (;;) {
		n = wait_for(ctx, &event, 1, 1, NO_DEADLINE);
		if (n > 0) {
			if (ctx->event_fd >= 0) /* or the call costs 25 instructions */
				aps_event_arm(ctx);
			return event.result;
		}
		if (n == -EINTR)
			continue;
		if (n != -EAGAIN && n != -EBUSY)
			break;
		/* One that is in flight is waited for, whatever it takes. */
		if (!refused_ns)
			refused_ns = aps_now_ns();
		if (!is_in_flight(ctx) && ++retries > MIN_RETRIES && aps_now_ns() - refused_ns > RETRY_FOR_NS)
			break;
		sched_yield();
	}
	if (!is_in_flight(ctx))
		take_back(ctx);
	return n;
}

static ssize_t transfer_one(struct aps *ctx, enum aps_op op, int file, int buffer,
			    const void *buf, size_t bytes, int64_t offset)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = bytes };

	return transfer(ctx, &(struct request){ op, file, buffer, &iov, 1, offset, NULL });
}

ssize_t aps_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset)
{
	return transfer_one(ctx, APS_OP_READ, file, -1, buf, bytes, offset);
}

ssize_t aps_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset)
{
	return transfer_one(ctx, APS_OP_WRITE, file, -1, buf, bytes, offset);
}

ssize_t aps_readv(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset)
{
	return transfer(ctx, &(struct request){ APS_OP_READ, file, -1, iov, nr, offset, NULL });
}

ssize_t aps_writev(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset)
{
	return transfer(ctx, &(struct request){ APS_OP_WRITE, file, -1, iov, nr, offset, NULL });
}

ssize_t aps_read_fixed(struct aps *ctx, int file, unsigned int buffer, void *buf, size_t bytes,
		       int64_t offset)
{
	return transfer_one(ctx, APS_OP_READ, file, buffer_nr(buffer), buf, bytes, offset);
}

ssize_t aps_write_fixed(struct aps *ctx, int file, unsigned int buffer, const void *buf,
			size_t bytes, int64_t offset)
{
	return transfer_one(ctx, APS_OP_WRITE, file, buffer_nr(buffer), buf, bytes, offset);
}

int aps_fsync(struct aps *ctx, int file)
{
	return (int)transfer(ctx, &(struct request){ .op = APS_OP_FSYNC, .file = file, .buffer = -1 });
}

int aps_fdatasync(struct aps *ctx, int file)
{
	return (int)transfer(ctx, &(struct request){ .op = APS_OP_FDATASYNC, .file = file, .buffer = -1 });
}
