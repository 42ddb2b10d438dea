// SPDX-License-Identifier: MIT
/*
 * 8 threads with 1,000 files each, in one process: reads, writes, syncs, cancelled ones,
 * waits of every kind, files that come and go, forks, threads that end and contexts that
 * are closed at any moment. Each file has one I/O at a time, so what it has is known: every
 * read is compared, and every I/O that was queued has exactly one event. See disk.h; on a
 * disk that is overwritten a "file" is the disk, opened once more, and its own blocks.
 *
 * Run under ASan, and under TSan. Prints TAP.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include "disk.h"

#define NR_THREADS 8
#define NR_FILES 1000
#define NR_LIVES 3	/* of a thread's context, each in a thread of its own */
#define NR_STEPS 1000
#define STRESS_DEPTH 32
#define LONGEST 4096

enum content { UNKNOWN, KNOWN };

struct target {
	int fd, file;		/* file: in the context; -1: not added */
	off_t at;
	uint32_t version;	/* that was written last */
	enum content content;
	struct op *op;		/* in flight */
};

struct op {
	unsigned char *buf;
	struct target *target;
	enum { OP_NONE, OP_READ, OP_WRITE, OP_SYNC } kind;
	bool cancelled;
	uint32_t version;	/* that a write writes */
};

struct worker {
	unsigned int nr;
	uint64_t random;
	struct aps *ctx;
	enum aps_mode mode;
	unsigned int flags;
	struct target *targets;
	struct op ops[STRESS_DEPTH];
	unsigned char *memory;
	unsigned int nr_ops;	/* outstanding */
	uint64_t nr_queued, nr_events, nr_compared, nr_faults;
	bool ends_in_flight;
};

static size_t unit; /* bytes of an I/O, and of a file */

static uint32_t pick(struct worker *w, uint32_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)(w->random >> 32) % below;
}

static void fault(struct worker *w, const char *what, long value)
{
	if (w->nr_faults++ < 5)
		printf("# thread %u, %s, flags %u: %s: %ld\n", w->nr, aps_mode_name(w->mode), w->flags, what, value);
}

/* What the file has after its version so much was written. */
static void fill(const struct worker *w, const struct target *t, uint32_t version, uint32_t *words)
{
	size_t i;

	for (i = 0; i < unit / sizeof(*words); i++)
		words[i] = version * 2654435761u + w->nr * 1000003u + (uint32_t)(t - w->targets) * 97u + (uint32_t)i;
}

static void compare(struct worker *w, const struct target *t, const void *got)
{
	uint32_t want[LONGEST / sizeof(uint32_t)];

	fill(w, t, t->version, want);
	if (memcmp(want, got, unit))
		fault(w, "a read found something else in file", t - w->targets);
	w->nr_compared++;
}

static void take(struct worker *w, const struct aps_event *event)
{
	struct op *op = event->data;
	struct target *t = op->target;
	ssize_t want = op->kind == OP_SYNC ? 0 : (ssize_t)unit;

	w->nr_events++;
	if (op->kind == OP_NONE || t->op != op) {
		fault(w, "an event of nothing", event->result);
		return;
	}
	if (event->result != want && !(op->cancelled && event->result == -ECANCELED))
		fault(w, "result", event->result);
	if (op->kind == OP_WRITE && event->result == want) {
		t->version = op->version;
		t->content = KNOWN;
	}
	if (op->kind == OP_READ && event->result == want && t->content == KNOWN)
		compare(w, t, op->buf);
	op->kind = OP_NONE;
	t->op = NULL;
	w->nr_ops--;
}

static void wait_some(struct worker *w)
{
	struct aps_event events[STRESS_DEPTH];
	uint32_t min = pick(w, 4), max = min + pick(w, STRESS_DEPTH - 4) + 1, how = pick(w, 8);
	struct pollfd p = { .events = POLLIN };
	int i, n;

	if (how < 5) {
		n = aps_wait(w->ctx, events, min, max);
	} else if (how < 7) {
		n = aps_wait_timeout(w->ctx, events, min, max, pick(w, 200000));
	} else {
		p.fd = aps_event_fd(w->ctx);
		if (aps_submit(w->ctx) >= 0 && w->nr_ops && !poll(&p, 1, 10000))
			fault(w, "the descriptor did not wake", w->nr_ops);
		n = aps_wait(w->ctx, events, 0, max);
	}
	if (n < 0 && n != -EINTR && n != -EAGAIN)
		fault(w, "aps_wait", n);
	for (i = 0; i < n; i++)
		take(w, &events[i]);
}

static struct op *free_op(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < STRESS_DEPTH; i++)
		if (w->ops[i].kind == OP_NONE)
			return &w->ops[i];
	return NULL;
}

static int send_op(struct worker *w, struct op *op, const struct target *t)
{
	unsigned int buffer = (unsigned int)(op - w->ops);
	bool fixed = pick(w, 2);

	switch (op->kind) {
	case OP_READ:
		return fixed ? aps_queue_read_fixed(w->ctx, t->file, buffer, op->buf, unit, t->at, op) :
			       aps_queue_read(w->ctx, t->file, op->buf, unit, t->at, op);
	case OP_WRITE:
		op->version = t->version + 1;
		fill(w, t, op->version, (uint32_t *)op->buf);
		return fixed ? aps_queue_write_fixed(w->ctx, t->file, buffer, op->buf, unit, t->at, op) :
			       aps_queue_write(w->ctx, t->file, op->buf, unit, t->at, op);
	default:
		return fixed ? aps_queue_fsync(w->ctx, t->file, op) : aps_queue_fdatasync(w->ctx, t->file, op);
	}
}

static void queue_one(struct worker *w)
{
	struct target *t = &w->targets[pick(w, NR_FILES)];
	struct op *op = free_op(w);
	uint32_t what = pick(w, 100);
	int err;

	if (!op || t->op)
		return;
	if (t->file < 0) {
		t->file = aps_add_file(w->ctx, t->fd);
		if (t->file < 0)
			fault(w, "aps_add_file", t->file);
	}
	op->kind = what < 60 ? OP_READ : what < 98 ? OP_WRITE : OP_SYNC;
	op->cancelled = false;
	err = send_op(w, op, t);
	if (err) {
		op->kind = OP_NONE;
		fault(w, "queue", err);
		return;
	}
	op->target = t;
	t->op = op;
	w->nr_ops++;
	w->nr_queued++;
}

static void cancel_one(struct worker *w)
{
	struct op *op = &w->ops[pick(w, STRESS_DEPTH)];
	int err;

	if (op->kind == OP_NONE)
		return;
	op->cancelled = true;
	err = aps_cancel(w->ctx, op);
	if (err && err != -EALREADY && err != -ENOENT)
		fault(w, "aps_cancel", err);
}

static void remove_one(struct worker *w)
{
	struct target *t = &w->targets[pick(w, NR_FILES)];
	int err;

	if (t->file < 0)
		return;
	err = aps_remove_file(w->ctx, t->file);
	if (err != (t->op ? -EBUSY : 0))
		fault(w, "aps_remove_file", err);
	if (!err)
		t->file = -1;
}

/* A child that closes what it has of its parent. */
static void fork_one(struct worker *w)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(aps_submit(w->ctx) != -ECHILD || aps_close(w->ctx));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fault(w, "child", pid < 0 ? pid : status);
}

static void open_context(struct worker *w)
{
	struct aps_options o = options_of(w->mode, w->flags);
	struct iovec iov[STRESS_DEPTH];
	unsigned int i;
	int err;

	o.depth = STRESS_DEPTH;
	o.files = 800; /* some are not in the table */
	err = aps_open(&w->ctx, &o);
	if (err) {
		printf("# aps_open: %s\n", strerror(-err));
		exit(1);
	}
	for (i = 0; i < STRESS_DEPTH; i++)
		iov[i] = (struct iovec){ w->ops[i].buf, LONGEST };
	err = aps_register_buffers(w->ctx, iov, STRESS_DEPTH);
	if (err)
		fault(w, "aps_register_buffers", err);
	for (i = 0; i < NR_FILES; i++) {
		w->targets[i].file = aps_add_file(w->ctx, w->targets[i].fd);
		if (w->targets[i].file < 0)
			fault(w, "aps_add_file", w->targets[i].file);
	}
}

static void *live(void *with)
{
	struct worker *w = with;
	unsigned int step;

	if (!w->ctx)
		open_context(w);
	for (step = 0; step < NR_STEPS; step++) {
		uint32_t what = pick(w, 100);

		if (what < 70)
			queue_one(w);
		else if (what < 90)
			wait_some(w);
		else if (what < 95)
			cancel_one(w);
		else if (what < 98)
			remove_one(w);
		else
			aps_submit(w->ctx);
	}
	if (!pick(w, 4))
		fork_one(w);
	/* What was queued is sent, and the thread ends with it. */
	if (w->ends_in_flight)
		aps_submit(w->ctx);
	return NULL;
}

/* Take what a thread has left. */
static void settle(struct worker *w)
{
	struct aps_event events[STRESS_DEPTH];
	int i, n;

	while (w->nr_ops) {
		n = aps_wait(w->ctx, events, 1, STRESS_DEPTH);
		if (n <= 0) {
			fault(w, "events that are missing", w->nr_ops);
			return;
		}
		for (i = 0; i < n; i++)
			take(w, &events[i]);
	}
}

/* Close with I/Os outstanding: their memory is the program's again, and what the writes
 * among them have done is not known. */
static void close_context(struct worker *w)
{
	unsigned int i;
	int err = aps_close(w->ctx);

	if (err)
		fault(w, "aps_close", err);
	w->ctx = NULL;
	for (i = 0; i < STRESS_DEPTH; i++) {
		struct op *op = &w->ops[i];

		if (op->kind == OP_NONE)
			continue;
		if (op->kind == OP_WRITE) {
			op->target->content = UNKNOWN;
			op->target->version += 2;
		}
		op->target->op = NULL;
		op->kind = OP_NONE;
		w->nr_events++;
		w->nr_ops--;
		memset(op->buf, 0, LONGEST);
	}
}

static void lives(struct worker *w)
{
	unsigned int life;

	for (life = 0; life < NR_LIVES; life++) {
		pthread_t thread;

		w->ends_in_flight = pick(w, 2);
		if (pthread_create(&thread, NULL, live, w) || pthread_join(thread, NULL)) {
			perror("thread");
			exit(1);
		}
		/* Closed at once, gone on with by the next thread, or by this one. */
		switch (pick(w, 3)) {
		case 0:
			close_context(w);
			break;
		case 1:
			break;
		default:
			settle(w);
			if (!(w->flags & APS_SINGLE_THREAD) || !aps_detach(w->ctx))
				break;
			fault(w, "aps_detach", 0);
		}
	}
	if (w->ctx) {
		settle(w);
		close_context(w);
	}
}

static void *run_worker(void *with)
{
	static const unsigned int flags[] = {
		APS_FALLBACK, APS_FALLBACK | APS_SINGLE_THREAD, APS_FALLBACK | APS_NO_RING,
	};
	struct worker *w = with;

	w->mode = modes[w->nr % NR_MODES];
	w->flags = flags[w->nr == 7 ? 2 : w->nr % 2];
	lives(w);
	return NULL;
}

static int target_fd(const struct worker *w, unsigned int i)
{
	char name[600];

	if (!is_scratch)
		return must_open(disk, O_RDWR | O_DIRECT);
	snprintf(name, sizeof(name), "%s/%u.%u", dir, w->nr, i);
	return must_open(name, O_RDWR | O_DIRECT | O_CREAT);
}

static void make_worker(struct worker *w, unsigned int nr)
{
	unsigned int i;

	w->nr = nr;
	w->random = 88172645463325252ull + nr * 7919;
	w->targets = calloc(NR_FILES, sizeof(*w->targets));
	if (!w->targets || posix_memalign((void **)&w->memory, LONGEST, STRESS_DEPTH * LONGEST))
		exit(1);
	memset(w->memory, 0, STRESS_DEPTH * LONGEST);
	for (i = 0; i < STRESS_DEPTH; i++)
		w->ops[i].buf = w->memory + (size_t)i * LONGEST;
	for (i = 0; i < NR_FILES; i++) {
		struct target *t = &w->targets[i];

		t->fd = target_fd(w, i);
		t->at = is_scratch ? 0 : (off_t)((nr * NR_FILES + i) * unit);
		fill(w, t, 0, (uint32_t *)w->memory);
		if (pwrite(t->fd, w->memory, unit, t->at) != (ssize_t)unit) {
			perror("pwrite");
			exit(1);
		}
		t->content = KNOWN;
	}
}

static void free_worker(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < NR_FILES; i++)
		close(w->targets[i].fd);
	free(w->targets);
	free(w->memory);
}

static void threads_with_a_thousand_files_lose_nothing(void)
{
	static struct worker workers[NR_THREADS];
	struct rlimit limit = { 16384, 16384 };
	pthread_t threads[NR_THREADS];
	uint64_t nr_queued = 0, nr_compared = 0;
	unsigned int i;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		printf("# setrlimit: %s\n", strerror(errno));
	unit = is_scratch ? LONGEST : 512;
	for (i = 0; i < NR_THREADS; i++)
		make_worker(&workers[i], i);
	for (i = 0; i < NR_THREADS; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < NR_THREADS; i++) {
		EXPECT_EQ(workers[i].nr_faults, 0);
		EXPECT_EQ(workers[i].nr_events, workers[i].nr_queued);
		EXPECT(workers[i].nr_compared > 0);
		nr_queued += workers[i].nr_queued;
		nr_compared += workers[i].nr_compared;
		free_worker(&workers[i]);
	}
	printf("# %" PRIu64 " I/Os, %" PRIu64 " reads compared\n", nr_queued, nr_compared);
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(threads_with_a_thousand_files_lose_nothing),
	};

	if (!take_arguments(argc, argv))
		return 2;
	alarm(900);
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
