// SPDX-License-Identifier: MIT
/*
 * Contexts over the life of threads and processes: handed over, forked, closed at any
 * moment, on a kernel that refuses what it is sent, and without io_uring. See disk.h.
 * Prints TAP.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include "disk.h"

static const unsigned int thread_flags[] = { 0, APS_SINGLE_THREAD };

#define NR_THREAD_FLAGS 2

static void in_thread(void *(*run)(void *), void *with)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, with) || pthread_join(thread, NULL)) {
		perror("thread");
		exit(1);
	}
}

/* Return: the exit status of a child that ran it, or -1. */
static int in_child(int (*run)(void *), void *with)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		tap_failed = false;
		status = run(with);
		fflush(stdout);
		_exit(status || tap_failed);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* DEPTH reads of so many blocks, each with its memory as data. */
static unsigned char *queue_reads(const struct one *one)
{
	void *bufs;
	size_t i;

	if (posix_memalign(&bufs, BLOCK, DEPTH * BLOCK))
		exit(1);
	memset(bufs, 0xa5, DEPTH * BLOCK);
	for (i = 0; i < DEPTH; i++)
		EXPECT_EQ(aps_queue_read(one->ctx, one->file, (char *)bufs + i * BLOCK, BLOCK,
					 (off_t)(i * BLOCK), (char *)bufs + i * BLOCK), 0);
	return bufs;
}

/* All of them are there, each once. */
static void take_reads(const struct one *one, const unsigned char *bufs)
{
	struct aps_event events[DEPTH];
	unsigned int seen = 0;
	int i, n = aps_wait(one->ctx, events, DEPTH, DEPTH);

	EXPECT_EQ(n, DEPTH);
	for (i = 0; i < n; i++) {
		EXPECT_EQ(events[i].result, BLOCK);
		seen |= 1u << ((unsigned char *)events[i].data - bufs) / BLOCK;
	}
	EXPECT_EQ(seen, (1u << DEPTH) - 1);
	EXPECT_EQ(stats_of(one).nr_outstanding, 0);
}

static int file_fd;

/* A context opened, and used, by a thread that ends. */
static void *open_and_read(void *one)
{
	struct aps_options o = options_of(APS_ADAPTIVE, 0);
	unsigned char *buf = block_of(0);

	o.sample_ns = 1000000;
	*(struct one *)one = must_have_with(file_fd, &o);
	EXPECT_EQ(aps_read(((struct one *)one)->ctx, 0, buf, BLOCK, 0), BLOCK);
	free(buf);
	return NULL;
}

static void utilisation_is_read_on_after_the_thread_that_opened(void)
{
	unsigned char *buf;
	struct one one;
	int n;

	if (is_skipped())
		return;
	buf = block_of(0);
	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	in_thread(open_and_read, &one);
	for (n = 0; n < 100000 && stats_of(&one).nr_samples < 20; n++)
		EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
	EXPECT(stats_of(&one).nr_samples >= 20);
	EXPECT_EQ(stats_of(&one).nr_failed_samples, 0);
	EXPECT_EQ(aps_close(one.ctx), 0);
	close(file_fd);
	free(buf);
}

static int slack_of_other;

/* Reads until one has slept. */
static void *sleep_elsewhere(void *one)
{
	unsigned char *buf = block_of(0);
	int n;

	prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	for (n = 0; n < 100000 && !stats_of(one).nr_sleeps; n++)
		EXPECT_EQ(aps_read(((struct one *)one)->ctx, 0, buf, BLOCK, 0), BLOCK);
	EXPECT(stats_of(one).nr_sleeps > 0);
	slack_of_other = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	free(buf);
	return NULL;
}

static void timer_slack_is_of_the_thread_that_sleeps(void)
{
	struct one one;
	int fd;

	if (is_skipped())
		return;
	fd = must_open(disk, O_RDWR | O_DIRECT);
	prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	one = must_have(fd, APS_HYBRID);
	EXPECT_EQ(aps_detach(one.ctx), 0);
	in_thread(sleep_elsewhere, &one);
	EXPECT_EQ(slack_of_other, 1);
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 50000);
	aps_close(one.ctx);
	one = must_have_flags(fd, APS_HYBRID, APS_KEEP_TIMER_SLACK);
	EXPECT_EQ(aps_detach(one.ctx), 0);
	in_thread(sleep_elsewhere, &one);
	EXPECT_EQ(slack_of_other, 50000);
	aps_close(one.ctx);
	close(fd);
}

/* Return: the thread's timer slack after the last of two contexts that sleep is closed. */
static int slack_after(int fd, int slack, int set_between)
{
	unsigned char *buf = block_of(0);
	struct one ones[2];
	int i, n;

	prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
	for (i = 0; i < 2; i++) {
		ones[i] = must_have(fd, APS_HYBRID);
		for (n = 0; n < 100000 && !stats_of(&ones[i]).nr_sleeps; n++)
			EXPECT_EQ(aps_read(ones[i].ctx, ones[i].file, buf, BLOCK, 0), BLOCK);
	}
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1);
	if (set_between)
		prctl(PR_SET_TIMERSLACK, set_between, 0, 0, 0);
	EXPECT_EQ(aps_close(ones[0].ctx), 0);
	/* The other sleeps as exactly as before. */
	for (n = 0, i = (int)stats_of(&ones[1]).nr_sleeps; n < 100000 && (int)stats_of(&ones[1]).nr_sleeps == i; n++)
		EXPECT_EQ(aps_read(ones[1].ctx, ones[1].file, buf, BLOCK, 0), BLOCK);
	if (!set_between)
		EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1);
	EXPECT_EQ(aps_close(ones[1].ctx), 0);
	free(buf);
	return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

static void timer_slack_is_given_back(void)
{
	int fd;

	if (is_skipped())
		return;
	fd = must_open(disk, O_RDWR | O_DIRECT);
	EXPECT_EQ(slack_after(fd, 50000, 0), 50000);
	EXPECT_EQ(slack_after(fd, 1, 0), 1);
	/* What the program sets meanwhile is its own. */
	EXPECT_EQ(slack_after(fd, 50000, 70000), 70000);
	prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	close(fd);
}

static void a_read_that_is_not_sent_is_taken_back(void)
{
	static const int errors[] = { -ENOMEM, -EAGAIN, -EBUSY };
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *buf = block_of(0);
	struct aps_event event;
	size_t i, k;

	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < 3; k++) {
			struct one one = must_have(fd, modes[i]);
			void *gone = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			refused_with = errors[k];
			nr_refused = UINT32_MAX;
			alarm(20); /* however busy the CPUs are */
			EXPECT_EQ(aps_read(one.ctx, one.file, gone, BLOCK, 0), errors[k]);
			alarm(900);
			munmap(gone, BLOCK);
			nr_refused = 0;
			EXPECT_EQ(stats_of(&one).nr_outstanding, 0);
			EXPECT(stats_of(&one).nr_failed_submits > 0);
			EXPECT_EQ(aps_wait(one.ctx, &event, 1, 1), 0);
			EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
			/* Refused for a moment: nothing is seen of it. */
			nr_refused = errors[k] == -ENOMEM ? 0 : 3;
			EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
			EXPECT_EQ(aps_close(one.ctx), 0);
		}
	free(buf);
	close(fd);
}

static void what_is_not_sent_stays_queued(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	struct aps_event events[DEPTH];
	size_t i, k;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have(fd, modes[i]);
		unsigned char *bufs = queue_reads(&one);

		/* All of it, which is then taken back, and nothing was written. */
		refused_with = -EAGAIN;
		nr_refused = 1;
		EXPECT_EQ(aps_submit(one.ctx), -EAGAIN);
		for (k = 0; k < DEPTH; k++)
			EXPECT_EQ(aps_cancel(one.ctx, bufs + k * BLOCK), 0);
		EXPECT_EQ(aps_wait(one.ctx, events, DEPTH, DEPTH), DEPTH);
		for (k = 0; k < DEPTH; k++)
			EXPECT_EQ(events[k].result, -ECANCELED);
		for (k = 0; k < DEPTH * BLOCK; k++)
			if (bufs[k] != 0xa5)
				break;
		EXPECT_EQ(k, DEPTH * BLOCK);
		free(bufs);
		/* A part of it, and the rest with the wait. */
		bufs = queue_reads(&one);
		takes_only = 3;
		EXPECT_EQ(aps_submit(one.ctx), 3);
		EXPECT_EQ(stats_of(&one).nr_outstanding, DEPTH);
		take_reads(&one, bufs);
		EXPECT_EQ(aps_close(one.ctx), 0);
		free(bufs);
	}
	close(fd);
}

/* Nothing is written to the memory after a close. */
static void close_with_reads_in_flight(int fd, enum aps_mode mode, unsigned int flags)
{
	struct one one = must_have_flags(fd, mode, flags);
	unsigned char *bufs = queue_reads(&one);
	size_t k;

	EXPECT_EQ(aps_submit(one.ctx), DEPTH);
	EXPECT_EQ(aps_close(one.ctx), 0);
	memset(bufs, 0x5a, DEPTH * BLOCK);
	usleep(2000);
	for (k = 0; k < DEPTH * BLOCK; k++)
		if (bufs[k] != 0x5a)
			break;
	EXPECT_EQ(k, DEPTH * BLOCK);
	free(bufs);
}

static void close_waits_for_what_is_in_flight(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	size_t i, k, times;

	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_THREAD_FLAGS; k++) {
			close_with_reads_in_flight(fd, modes[i], thread_flags[k]);
			/* With a busy kernel, until one close has seen it: a fast disk may
			 * be done before. */
			nr_busy = 5;
			for (times = 0; times < 300 && nr_busy; times++)
				close_with_reads_in_flight(fd, modes[i], thread_flags[k]);
			if (nr_busy == 5 && !is_scratch) /* null_blk, when it is polled */
				printf("# skipped: the disk is done before each close\n");
			else
				EXPECT_EQ(nr_busy, 0);
			nr_busy = 0;
		}
	close(fd);
}

static void close_sends_what_is_queued(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *out = block_of(0), *in = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have(fd, modes[i]);

		memset(out, 0x40 + (int)i, BLOCK);
		EXPECT_EQ(aps_queue_write(one.ctx, one.file, out, BLOCK, 0, NULL), 0);
		refused_with = -EAGAIN;
		nr_refused = 3;
		EXPECT_EQ(aps_close(one.ctx), 0);
		EXPECT_EQ(pread(fd, in, BLOCK, 0), BLOCK);
		EXPECT(!memcmp(in, out, BLOCK));
		/* What the kernel never takes is said, and is still there. */
		one = must_have(fd, modes[i]);
		memset(out, 0x50 + (int)i, BLOCK);
		EXPECT_EQ(aps_queue_write(one.ctx, one.file, out, BLOCK, 0, out), 0);
		EXPECT_EQ(aps_queue_fsync(one.ctx, one.file, in), 0);
		nr_refused = UINT32_MAX;
		EXPECT_EQ(aps_close(one.ctx), -EAGAIN);
		EXPECT_EQ(aps_cancel(one.ctx, in), 0);
		nr_refused = 0;
		EXPECT_EQ(aps_close(one.ctx), 0);
		EXPECT_EQ(pread(fd, in, BLOCK, 0), BLOCK);
		EXPECT(!memcmp(in, out, BLOCK));
	}
	free(out);
	free(in);
	close(fd);
}

static void *read_and_end(void *one)
{
	static char text[4];

	*(struct one *)one = must_have_flags(file_fd, APS_POLL, APS_FALLBACK | APS_SINGLE_THREAD);
	EXPECT_EQ(aps_queue_read(((struct one *)one)->ctx, 0, text, 4, 0, NULL), 0);
	EXPECT_EQ(aps_submit(((struct one *)one)->ctx), 1);
	return NULL;
}

static void an_empty_pipe_holds_nothing_up(void)
{
	struct aps_event event;
	struct one one;
	int ends[2];
	char text[4];

	EXPECT_EQ(pipe(ends), 0);
	file_fd = ends[0];
	one = must_have_flags(ends[0], APS_POLL, APS_FALLBACK);
	EXPECT_EQ(aps_queue_read(one.ctx, one.file, text, 4, 0, NULL), 0);
	EXPECT_EQ(aps_submit(one.ctx), 1);
	EXPECT_EQ(aps_close(one.ctx), 0);
	/* The end of a thread. */
	in_thread(read_and_end, &one);
	EXPECT_EQ(aps_wait(one.ctx, &event, 1, 1), 1);
	EXPECT_EQ(event.result, -ECANCELED);
	EXPECT_EQ(aps_close(one.ctx), 0);
	close(ends[0]);
	close(ends[1]);
}

/* In a child, or one that was made without fork()'s handlers. */
static int use_parents(void *with)
{
	const struct one *one = with;
	struct aps_event event;
	struct aps_stats stats;
	char text[8];

	EXPECT_EQ(aps_read(one->ctx, one->file, text, 8, 0), -ECHILD);
	EXPECT_EQ(aps_queue_read(one->ctx, one->file, text, 8, 0, NULL), -ECHILD);
	EXPECT_EQ(aps_submit(one->ctx), -ECHILD);
	EXPECT_EQ(aps_wait(one->ctx, &event, 1, 1), -ECHILD);
	EXPECT_EQ(aps_wait_timeout(one->ctx, &event, 1, 1, 1), -ECHILD);
	EXPECT_EQ(aps_cancel(one->ctx, NULL), -ECHILD);
	EXPECT_EQ(aps_add_file(one->ctx, 0), -ECHILD);
	EXPECT_EQ(aps_remove_file(one->ctx, one->file), -ECHILD);
	EXPECT_EQ(aps_event_fd(one->ctx), -ECHILD);
	EXPECT_EQ(aps_file_mode(one->ctx, one->file), -ECHILD);
	EXPECT_EQ(aps_get_stats(one->ctx, &stats, sizeof(stats)), -ECHILD);
	EXPECT_EQ(aps_detach(one->ctx), -ECHILD);
	EXPECT_EQ(aps_register_buffers(one->ctx, &(struct iovec){ text, 8 }, 1), -ECHILD);
	EXPECT_EQ(aps_unregister_buffers(one->ctx), -ECHILD);
	return 0;
}

/* Rings that are in this process's memory. */
static unsigned int nr_rings_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned int nr = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		nr += !!strstr(line, "[io_uring]");
	if (f)
		fclose(f);
	return nr;
}

/* The child closes the parent's, and has its own. */
static int close_parents(void *with)
{
	struct one own;
	unsigned char *bufs;
	int status;

	EXPECT_EQ(nr_rings_mapped(), 0);
	use_parents(with);
	own = must_have_flags(file_fd, APS_HYBRID, APS_SINGLE_THREAD);
	use_parents(with);
	EXPECT_EQ(aps_close(((struct one *)with)->ctx), 0);
	bufs = queue_reads(&own);
	EXPECT_EQ(aps_submit(own.ctx), DEPTH);
	status = in_child(use_parents, &own);
	take_reads(&own, bufs);
	EXPECT_EQ(aps_close(own.ctx), 0);
	free(bufs);
	return status;
}

static void a_child_leaves_the_parents_context_alone(void)
{
	unsigned char *buf = block_of(0);
	size_t i, k;

	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_THREAD_FLAGS; k++) {
			struct one one = must_have_flags(file_fd, modes[i], thread_flags[k]);
			unsigned char *bufs;
			int n;

			EXPECT(aps_event_fd(one.ctx) >= 0);
			EXPECT_EQ(aps_fsync(one.ctx, one.file), 0); /* both rings */
			bufs = queue_reads(&one);
			EXPECT_EQ(aps_submit(one.ctx), DEPTH);
			EXPECT(nr_rings_mapped() > 0);
			EXPECT_EQ(in_child(close_parents, &one), 0);
			take_reads(&one, bufs);
			for (n = 0; n < 64; n++)
				EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
			EXPECT_EQ(aps_fsync(one.ctx, one.file), 0);
			EXPECT_EQ(aps_close(one.ctx), 0);
			free(bufs);
		}
	free(buf);
	close(file_fd);
}

static void a_bare_clone_is_a_child_too(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), status = -1;
	struct one one = must_have(fd, APS_POLL);
	unsigned char *buf = block_of(0);
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);

	if (!pid)
		_exit(aps_submit(one.ctx) == -ECHILD && aps_read(one.ctx, one.file, buf, BLOCK, 0) == -ECHILD &&
		      !aps_close(one.ctx) ? 0 : 1);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
	EXPECT_EQ(aps_close(one.ctx), 0);
	free(buf);
	close(fd);
}

struct send {
	struct one one;
	enum aps_mode mode;
	unsigned int flags;
	unsigned char *bufs;
};

static void *send_and_end(void *with)
{
	struct send *s = with;

	s->one = must_have_flags(file_fd, s->mode, s->flags);
	s->bufs = queue_reads(&s->one);
	EXPECT_EQ(aps_submit(s->one.ctx), DEPTH);
	return NULL;
}

/* And leaves some that is queued, for both rings. */
static void *queue_and_end(void *with)
{
	struct send *s = with;

	s->one = must_have_flags(file_fd, s->mode, s->flags);
	EXPECT_EQ(aps_queue_fsync(s->one.ctx, s->one.file, s->bufs), 0);
	EXPECT_EQ(aps_queue_read(s->one.ctx, s->one.file, s->bufs, BLOCK, 0, s->bufs), 0);
	return NULL;
}

static void what_a_thread_queued_is_sent_by_the_next(void)
{
	struct aps_event events[2];
	size_t i, k;

	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_THREAD_FLAGS; k++) {
			struct send s = { .mode = modes[i], .flags = thread_flags[k] };

			s.bufs = block_of(0);
			in_thread(queue_and_end, &s);
			EXPECT_EQ(aps_wait(s.one.ctx, events, 2, 2), 2);
			EXPECT_EQ(events[0].result + events[1].result, BLOCK);
			EXPECT_EQ(aps_close(s.one.ctx), 0);
			in_thread(queue_and_end, &s);
			EXPECT_EQ(aps_close(s.one.ctx), 0);
			free(s.bufs);
		}
	close(file_fd);
}

static void a_thread_ends_with_io_in_flight(void)
{
	size_t i, k;

	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_THREAD_FLAGS; k++) {
			struct send s = { .mode = modes[i], .flags = thread_flags[k] };

			in_thread(send_and_end, &s);
			take_reads(&s.one, s.bufs);
			free(s.bufs);
			/* And goes on in this thread, with its file. */
			s.bufs = queue_reads(&s.one);
			take_reads(&s.one, s.bufs);
			EXPECT_EQ(aps_close(s.one.ctx), 0);
			free(s.bufs);
			in_thread(send_and_end, &s);
			EXPECT_EQ(aps_close(s.one.ctx), 0);
			free(s.bufs);
		}
	close(file_fd);
}

/* More than the kernel has threads for. */
#define NR_SYNCS 64

/* Syncs, which the kernel does in threads that end with the one that sent them. */
static void *sync_and_end(void *with)
{
	struct send *s = with;
	struct aps_options o = options_of(s->mode, s->flags);
	size_t i;

	o.depth = NR_SYNCS;
	s->one = must_have_with(file_fd, &o);
	for (i = 0; i < NR_SYNCS; i++)
		EXPECT_EQ(aps_queue_fsync(s->one.ctx, s->one.file, NULL), 0);
	EXPECT_EQ(aps_submit(s->one.ctx), NR_SYNCS);
	return NULL;
}

static void no_sync_is_dropped_with_its_thread(void)
{
	unsigned char *block = block_of(0x31);
	struct aps_event events[NR_SYNCS];
	size_t i, k, times;
	int n;

	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_THREAD_FLAGS; k++)
			for (times = 0; times < 4; times++) {
				struct send s = { .mode = modes[i], .flags = thread_flags[k] };

				EXPECT_EQ(pwrite(file_fd, block, BLOCK, 0), BLOCK);
				in_thread(sync_and_end, &s);
				n = times % 2 ? NR_SYNCS : aps_wait(s.one.ctx, events, NR_SYNCS, NR_SYNCS);
				EXPECT_EQ(n, NR_SYNCS);
				while (times % 2 == 0 && n-- > 0)
					EXPECT_EQ(events[n].result, 0);
				EXPECT_EQ(aps_close(s.one.ctx), 0);
			}
	free(block);
	close(file_fd);
}

/* A thread that has no business with the context. */
static void *intrude(void *one)
{
	struct aps_event event;
	struct aps_stats stats;
	char text[8];

	EXPECT_EQ(aps_read(((struct one *)one)->ctx, 0, text, 8, 0), -EPERM);
	EXPECT_EQ(aps_wait(((struct one *)one)->ctx, &event, 1, 1), -EPERM);
	EXPECT_EQ(aps_file_mode(((struct one *)one)->ctx, 0), -EPERM);
	EXPECT_EQ(aps_get_stats(((struct one *)one)->ctx, &stats, sizeof(stats)), -EPERM);
	EXPECT_EQ(aps_detach(((struct one *)one)->ctx), -EPERM);
	EXPECT_EQ(aps_close(((struct one *)one)->ctx), -EPERM);
	return NULL;
}

static void *go_on(void *one)
{
	unsigned char *buf = block_of(0);

	EXPECT_EQ(aps_read(((struct one *)one)->ctx, 0, buf, BLOCK, 0), BLOCK);
	EXPECT_EQ(aps_fsync(((struct one *)one)->ctx, 0), 0);
	free(buf);
	return NULL;
}

static bool kernel_has(unsigned int major, unsigned int minor)
{
	struct utsname name;
	unsigned int a = 0, b = 0;

	uname(&name);
	sscanf(name.release, "%u.%u", &a, &b);
	return a > major || (a == major && b >= minor);
}

static void one_thread_has_it_until_it_leaves(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_SINGLE_THREAD);
		unsigned char *bufs = queue_reads(&one);

		if (kernel_has(6, 1) && !config.refused)
			EXPECT_EQ(stats_of(&one).features & (APS_HAS_SINGLE_ISSUER | APS_HAS_DEFER_TASKRUN),
				  APS_HAS_SINGLE_ISSUER | APS_HAS_DEFER_TASKRUN);
		EXPECT_EQ(aps_submit(one.ctx), DEPTH);
		in_thread(intrude, &one);
		EXPECT_EQ(aps_detach(one.ctx), 0);
		EXPECT_EQ(stats_of(&one).nr_outstanding, DEPTH);
		take_reads(&one, bufs); /* by the same thread again */
		EXPECT_EQ(aps_detach(one.ctx), 0);
		in_thread(go_on, &one);
		in_thread(go_on, &one);
		EXPECT_EQ(aps_close(one.ctx), 0);
		free(bufs);
	}
	close(fd);
}

/* io_uring_setup() fails with this from here on. */
static bool forbid_rings(uint32_t err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void work_without_rings(int err)
{
	unsigned char *out = block_of(0x77), *in = block_of(0);
	struct aps_event event;
	size_t i, k;

	for (i = 0; i < NR_MODES; i++) {
		struct aps_options o = options_of(modes[i], 0);
		struct one one;
		struct aps *ctx;

		EXPECT_EQ(aps_open(&ctx, &o), -err);
		one = must_have_flags(file_fd, modes[i], APS_FALLBACK);
		EXPECT_EQ(aps_write(one.ctx, one.file, out, BLOCK, 0), BLOCK);
		EXPECT_EQ(aps_fdatasync(one.ctx, one.file), 0);
		EXPECT_EQ(aps_read(one.ctx, one.file, in, BLOCK, 0), BLOCK);
		EXPECT(!memcmp(in, out, BLOCK));
		for (k = 0; k < 3; k++) {
			EXPECT_EQ(aps_queue_read(one.ctx, one.file, in, BLOCK, 0, in), 0);
			EXPECT_EQ(aps_wait_timeout(one.ctx, &event, 1, 1, 1000000000), 1);
			EXPECT(event.data == in && event.result == BLOCK);
		}
		EXPECT_EQ(stats_of(&one).backend, APS_BACKEND_SYNC);
		EXPECT_EQ(stats_of(&one).ring_error, -err);
		if (kernel_has(6, 0)) /* RWF_HIPRI does nothing there */
			EXPECT_EQ(aps_file_mode(one.ctx, one.file), APS_INTERRUPT);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(out);
	free(in);
}

static int work_where_rings_are_forbidden(void *err)
{
	if (forbid_rings(*(uint32_t *)err))
		work_without_rings(*(int *)err);
	else
		printf("# skipped: no seccomp\n");
	return 0;
}

static int work_on_linux_5_10(void *unused)
{
	(void)unused;
	lacks_features = IORING_FEAT_EXT_ARG;
	work_without_rings(ENOSYS);
	return 0;
}

static void forbidden_rings_are_done_without(void)
{
	int errors[] = { EPERM, ENOSYS };
	size_t i;

	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(in_child(work_where_rings_are_forbidden, &errors[i]), 0);
	close(file_fd);
}

static void rings_before_5_11_are_done_without(void)
{
	file_fd = must_open(disk, O_RDWR | O_DIRECT);
	EXPECT_EQ(in_child(work_on_linux_5_10, NULL), 0);
	close(file_fd);
}

static uint64_t process_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define IDLE_NS 200000000

/* Less than 1 % of a CPU, with nothing in flight and with a read that has nothing to read,
 * in an event loop and in a wait; also where the policy has learnt from reads that were polled. */
static void an_idle_context_takes_no_cpu(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), ends[2];
	unsigned char *buf = block_of(0);
	struct aps_event event;
	size_t i;
	int k;

	EXPECT_EQ(pipe(ends), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK);
		int empty = aps_add_file(one.ctx, ends[0]), event_fd = aps_event_fd(one.ctx);
		uint64_t from_ns;
		char text[4];

		for (k = 0; k < 32; k++)
			EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
		from_ns = process_ns();
		EXPECT(!is_readable(event_fd, IDLE_NS / 1000000));
		EXPECT(process_ns() - from_ns < IDLE_NS / 100);
		EXPECT_EQ(aps_queue_read(one.ctx, empty, text, 4, 0, text), 0);
		EXPECT_EQ(aps_submit(one.ctx), 1);
		from_ns = process_ns();
		EXPECT(!is_readable(event_fd, IDLE_NS / 1000000));
		EXPECT(process_ns() - from_ns < IDLE_NS / 100);
		from_ns = process_ns();
		EXPECT_EQ(aps_wait_timeout(one.ctx, &event, 1, 1, IDLE_NS), 0);
		EXPECT(process_ns() - from_ns < IDLE_NS / 100);
		EXPECT_EQ(write(ends[1], "abcd", 4), 4);
		EXPECT_EQ(aps_wait(one.ctx, &event, 1, 1), 1);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(utilisation_is_read_on_after_the_thread_that_opened),
		TEST(timer_slack_is_of_the_thread_that_sleeps),
		TEST(timer_slack_is_given_back),
		TEST(a_read_that_is_not_sent_is_taken_back),
		TEST(what_is_not_sent_stays_queued),
		TEST(close_waits_for_what_is_in_flight),
		TEST(close_sends_what_is_queued),
		TEST(an_empty_pipe_holds_nothing_up),
		TEST(an_idle_context_takes_no_cpu),
		TEST(a_child_leaves_the_parents_context_alone),
		TEST(a_bare_clone_is_a_child_too),
		TEST(a_thread_ends_with_io_in_flight),
		TEST(no_sync_is_dropped_with_its_thread),
		TEST(what_a_thread_queued_is_sent_by_the_next),
		TEST(one_thread_has_it_until_it_leaves),
		TEST(forbidden_rings_are_done_without),
		TEST(rings_before_5_11_are_done_without),
	};

	if (!take_arguments(argc, argv))
		return 2;
	return run_on_disk(tests, NR_OF(tests));
}
