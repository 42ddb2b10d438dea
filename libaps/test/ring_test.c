// SPDX-License-Identifier: MIT
/*
 * The library on a disk: ring-test DISK [NO-POLL-DISK [BAD-DISK]]. DISK is
 * overwritten, keeps what is written, and has poll queues; NO-POLL-DISK has none;
 * BAD-DISK, with poll queues, fails every second request. Prints TAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>
#include "aps.h"
#include "tap.h"

#define BLOCK 4096
#define DEPTH 8

static const char *disk, *no_poll_disk, *bad_disk;
static const enum aps_mode modes[] = { APS_INTERRUPT, APS_POLL, APS_HYBRID, APS_ADAPTIVE };

#define NR_MODES (sizeof(modes) / sizeof(modes[0]))

static int must_open(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC);

	if (fd < 0) {
		perror(name);
		exit(1);
	}
	return fd;
}

static unsigned char *block_of(unsigned char fill)
{
	void *buf;

	if (posix_memalign(&buf, BLOCK, BLOCK))
		exit(1);
	memset(buf, fill, BLOCK);
	return buf;
}

static int try_open(struct aps **ctx, int fd, enum aps_mode mode, unsigned int flags)
{
	struct aps_options o;

	aps_options_init(&o);
	o.mode = mode;
	o.flags = flags;
	o.depth = DEPTH;
	return aps_open(ctx, fd, &o);
}

static struct aps *must_have(int fd, enum aps_mode mode)
{
	struct aps *ctx = NULL;
	int err = try_open(&ctx, fd, mode, 0);

	if (err) {
		printf("# aps_open, %s: %s\n", aps_mode_name(mode), strerror(-err));
		exit(1);
	}
	return ctx;
}

static void modes_have_names(void)
{
	size_t i;

	for (i = 0; i < NR_MODES; i++)
		EXPECT_EQ(aps_parse_mode(aps_mode_name(modes[i])), modes[i]);
	EXPECT_EQ(aps_parse_mode("spin"), -EINVAL);
	EXPECT_EQ(aps_version() >> 16, APS_VERSION_MAJOR);
}

static void options_out_of_range_are_refused(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), buffered = must_open(disk, O_RDONLY);
	struct aps *ctx;
	struct aps_options o;

	aps_options_init(&o);
	o.depth = 0;
	EXPECT_EQ(aps_open(&ctx, fd, &o), -EINVAL);
	aps_options_init(&o);
	o.flags = 1u << 31;
	EXPECT_EQ(aps_open(&ctx, fd, &o), -EINVAL);
	aps_options_init(&o);
	o.hybrid_margin_ppm = o.poll_margin_ppm + 1;
	EXPECT_EQ(aps_open(&ctx, fd, &o), -EINVAL);
	aps_options_init(&o);
	o.sample_ns = 0;
	EXPECT_EQ(aps_open(&ctx, fd, &o), -EINVAL);
	EXPECT_EQ(try_open(&ctx, buffered, APS_POLL, 0), -EINVAL);
	EXPECT_EQ(try_open(&ctx, -1, APS_POLL, 0), -EBADF);
	close(fd);
	close(buffered);
}

static void every_mode_reads_what_was_written(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *out = block_of(0), *in = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct aps *ctx = must_have(fd, modes[i]);
		struct aps_stats s;
		unsigned int n;

		for (n = 0; n < 64; n++) {
			off_t at = (off_t)n * BLOCK;

			memset(out, (int)(17 * i + n + 1), BLOCK);
			memset(in, 0, BLOCK);
			EXPECT_EQ(aps_write(ctx, out, BLOCK, at), BLOCK);
			EXPECT_EQ(aps_read(ctx, in, BLOCK, at), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
		}
		aps_get_stats(ctx, &s);
		EXPECT_EQ(s.nr_reads, 64);
		EXPECT_EQ(s.nr_writes, 64);
		EXPECT_EQ(s.nr_errors, 0);
		EXPECT((modes[i] == APS_INTERRUPT) == (s.nr_waits[APS_WAIT_INTERRUPT] > 0));
		EXPECT((modes[i] == APS_HYBRID) == (s.nr_waits[APS_WAIT_HYBRID] > 0) ||
		       modes[i] == APS_ADAPTIVE);
		EXPECT(modes[i] != APS_HYBRID || s.nr_sleeps > 0);
		EXPECT(modes[i] != APS_ADAPTIVE || s.nr_samples > 0);
		EXPECT(s.cpu_ns > 0);
		aps_close(ctx);
	}
	free(out);
	free(in);
	close(fd);
}

static void vectors_are_gathered_and_scattered(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *a = block_of(0xaa), *b = block_of(0xbb), *c = block_of(0), *d = block_of(0);
	struct iovec out[2] = { { a, BLOCK }, { b, BLOCK } }, in[2] = { { c, BLOCK }, { d, BLOCK } };
	struct aps *ctx = must_have(fd, APS_ADAPTIVE);

	EXPECT_EQ(aps_writev(ctx, out, 2, 0), 2 * BLOCK);
	EXPECT_EQ(aps_readv(ctx, in, 2, 0), 2 * BLOCK);
	EXPECT(!memcmp(a, c, BLOCK) && !memcmp(b, d, BLOCK));
	EXPECT_EQ(aps_readv(ctx, in, 0, 0), -EINVAL);
	EXPECT_EQ(aps_read(ctx, c, BLOCK, -1), -EINVAL);
	aps_close(ctx);
	free(a);
	free(b);
	free(c);
	free(d);
	close(fd);
}

static void as_many_as_the_depth_and_no_more(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *bufs[DEPTH];
	struct aps_event events[DEPTH];
	size_t i;
	int n;

	for (i = 0; i < DEPTH; i++)
		bufs[i] = block_of(0);
	for (i = 0; i < NR_MODES; i++) {
		struct aps *ctx = must_have(fd, modes[i]);
		unsigned int seen = 0, k;

		for (k = 0; k < DEPTH; k++)
			EXPECT_EQ(aps_queue_read(ctx, bufs[k], BLOCK, (off_t)k * BLOCK, bufs[k]), 0);
		EXPECT_EQ(aps_queue_read(ctx, bufs[0], BLOCK, 0, NULL), -EAGAIN);
		EXPECT_EQ(aps_read(ctx, bufs[0], BLOCK, 0), -EBUSY);
		EXPECT_EQ(aps_wait(ctx, events, 2, 1), -EINVAL);
		EXPECT_EQ(aps_submit(ctx), DEPTH);
		while (seen != (1u << DEPTH) - 1) {
			n = aps_wait(ctx, events, 1, 3);
			EXPECT_BETWEEN(n, 1, 3);
			if (n < 1)
				break;
			while (n-- > 0)
				for (k = 0; k < DEPTH; k++)
					if (events[n].data == bufs[k] && events[n].result == BLOCK)
						seen |= 1u << k;
		}
		/* Nothing is outstanding: no wait. */
		EXPECT_EQ(aps_wait(ctx, events, 1, 1), 0);
		EXPECT_EQ(aps_queue_read(ctx, bufs[0], BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_wait(ctx, events, DEPTH, DEPTH), 1);
		/* Closing waits for what is in flight. */
		EXPECT_EQ(aps_queue_read(ctx, bufs[0], BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_submit(ctx), 1);
		EXPECT_EQ(aps_queue_read(ctx, bufs[1], BLOCK, 0, NULL), 0);
		aps_close(ctx);
	}
	for (i = 0; i < DEPTH; i++)
		free(bufs[i]);
	close(fd);
}

static void reads_end_with_the_disk(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *a = block_of(0), *b = block_of(0);
	struct iovec iov[2] = { { a, BLOCK }, { b, BLOCK } };
	uint64_t bytes = 0;
	size_t i;

	EXPECT_EQ(ioctl(fd, BLKGETSIZE64, &bytes), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct aps *ctx = must_have(fd, modes[i]);

		EXPECT_EQ(aps_readv(ctx, iov, 2, (off_t)bytes - BLOCK), BLOCK);
		EXPECT_EQ(aps_read(ctx, a, BLOCK, (off_t)bytes), 0);
		EXPECT_EQ(aps_write(ctx, a, BLOCK, (off_t)bytes), -ENOSPC);
		/* O_DIRECT wants whole blocks. */
		EXPECT_EQ(aps_read(ctx, a, 100, 0), -EINVAL);
		aps_close(ctx);
	}
	free(a);
	free(b);
	close(fd);
}

static void a_closed_file_is_an_error(void)
{
	unsigned char *buf = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		int fd = must_open(disk, O_RDWR | O_DIRECT);
		struct aps *ctx = must_have(fd, modes[i]);
		struct aps_stats s;

		EXPECT_EQ(aps_read(ctx, buf, BLOCK, 0), BLOCK);
		close(fd);
		EXPECT_EQ(aps_read(ctx, buf, BLOCK, 0), -EBADF);
		aps_get_stats(ctx, &s);
		EXPECT_EQ(s.nr_errors, 1);
		aps_close(ctx);
	}
	free(buf);
}

static void no_poll_queues_is_said_or_fallen_back_from(void)
{
	unsigned char *buf = block_of(0);
	struct aps *ctx;
	size_t i;
	int fd;

	if (!no_poll_disk) {
		printf("# skipped: no disk without poll queues\n");
		return;
	}
	fd = must_open(no_poll_disk, O_RDWR | O_DIRECT);
	for (i = 1; i < NR_MODES; i++) {
		EXPECT_EQ(try_open(&ctx, fd, modes[i], 0), -EOPNOTSUPP);
		EXPECT_EQ(try_open(&ctx, fd, modes[i], APS_FALLBACK), 0);
		EXPECT_EQ(aps_mode(ctx), APS_INTERRUPT);
		EXPECT_EQ(aps_read(ctx, buf, BLOCK, 0), BLOCK);
		aps_close(ctx);
	}
	free(buf);
	close(fd);
}

/* Of so many reads, one at a time, those that failed; none came back short. */
static unsigned int failed_reads(struct aps *ctx, unsigned char *buf, unsigned int nr)
{
	unsigned int failed = 0;

	while (nr--) {
		ssize_t n = aps_read(ctx, buf, BLOCK, 0);

		EXPECT(n == BLOCK || n == -EIO);
		failed += n == -EIO;
	}
	return failed;
}

/* The same of as many as fit, in flight together; each comes back once. */
static unsigned int failed_of_queued(struct aps *ctx, unsigned char *buf)
{
	struct aps_event events[DEPTH];
	unsigned int failed = 0, seen = 0, i;

	for (i = 0; i < DEPTH; i++)
		EXPECT_EQ(aps_queue_read(ctx, buf + (size_t)i * BLOCK, BLOCK, 0, buf + i), 0);
	EXPECT_EQ(aps_wait(ctx, events, DEPTH, DEPTH), DEPTH);
	for (i = 0; i < DEPTH; i++) {
		EXPECT(events[i].result == BLOCK || events[i].result == -EIO);
		failed += events[i].result == -EIO;
		seen |= 1u << ((unsigned char *)events[i].data - buf);
	}
	EXPECT_EQ(seen, (1u << DEPTH) - 1);
	return failed;
}

static void what_the_disk_fails_is_eio_and_nothing_else(void)
{
	void *buf;
	size_t i;
	int fd;

	if (!bad_disk) {
		printf("# skipped: no bad disk\n");
		return;
	}
	if (posix_memalign(&buf, BLOCK, DEPTH * BLOCK))
		exit(1);
	fd = must_open(bad_disk, O_RDWR | O_DIRECT);
	for (i = 0; i < NR_MODES; i++) {
		struct aps *ctx = must_have(fd, modes[i]);
		struct aps_stats s;

		EXPECT_EQ(failed_reads(ctx, buf, 6), 3);
		EXPECT_EQ(failed_of_queued(ctx, buf), DEPTH / 2);
		aps_get_stats(ctx, &s);
		EXPECT_EQ(s.nr_errors, 3 + DEPTH / 2);
		EXPECT_EQ(s.nr_reads, 6 + DEPTH);
		aps_close(ctx);
	}
	free(buf);
	close(fd);
}

static volatile sig_atomic_t nr_signals;

static void on_alarm(int nr)
{
	(void)nr;
	nr_signals++;
}

/* A signal every so often, from now on; 0 stops them. */
static void alarms(long us)
{
	struct itimerval t = { .it_interval.tv_usec = us, .it_value.tv_usec = us };
	struct sigaction act = { .sa_handler = on_alarm }; /* no SA_RESTART */

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

static void signals_do_not_hurt_whole_reads(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *out = block_of(0x5a), *in = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct aps *ctx = must_have(fd, modes[i]);
		unsigned int n;

		EXPECT_EQ(aps_write(ctx, out, BLOCK, 0), BLOCK);
		nr_signals = 0;
		alarms(500);
		for (n = 0; n < 1000000 && nr_signals < 3; n++) {
			memset(in, 0, BLOCK);
			EXPECT_EQ(aps_read(ctx, in, BLOCK, 0), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
		}
		alarms(0);
		EXPECT(nr_signals >= 3);
		aps_close(ctx);
	}
	free(out);
	free(in);
	close(fd);
}

static void a_signal_ends_a_wait_and_loses_nothing(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *buf = block_of(0);
	struct aps *ctx = must_have(fd, APS_INTERRUPT);
	unsigned int interrupted = 0, done = 0, n;
	struct aps_event event;

	nr_signals = 0;
	alarms(150);
	for (n = 0; n < 10000 && !interrupted; n++) {
		int got;

		EXPECT_EQ(aps_queue_read(ctx, buf, BLOCK, 0, buf), 0);
		while ((got = aps_wait(ctx, &event, 1, 1)) == -EINTR)
			interrupted++;
		EXPECT_EQ(got, 1);
		EXPECT_EQ(event.result, BLOCK);
		done++;
	}
	alarms(0);
	EXPECT(interrupted > 0);
	EXPECT_EQ(done, n);
	aps_close(ctx);
	free(buf);
	close(fd);
}

static void timer_slack_is_set_only_where_it_may_be(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	struct aps *ctx;

	prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	EXPECT_EQ(try_open(&ctx, fd, APS_ADAPTIVE, APS_KEEP_TIMER_SLACK), 0);
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 50000);
	aps_close(ctx);
	EXPECT_EQ(try_open(&ctx, fd, APS_POLL, 0), 0);
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 50000);
	aps_close(ctx);
	EXPECT_EQ(try_open(&ctx, fd, APS_ADAPTIVE, 0), 0);
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1);
	aps_close(ctx);
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(modes_have_names),
		TEST(options_out_of_range_are_refused),
		TEST(every_mode_reads_what_was_written),
		TEST(vectors_are_gathered_and_scattered),
		TEST(as_many_as_the_depth_and_no_more),
		TEST(reads_end_with_the_disk),
		TEST(a_closed_file_is_an_error),
		TEST(no_poll_queues_is_said_or_fallen_back_from),
		TEST(what_the_disk_fails_is_eio_and_nothing_else),
		TEST(signals_do_not_hurt_whole_reads),
		TEST(a_signal_ends_a_wait_and_loses_nothing),
		TEST(timer_slack_is_set_only_where_it_may_be),
	};

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: ring-test DISK [NO-POLL-DISK [BAD-DISK]] (DISK is overwritten)\n");
		return 2;
	}
	disk = argv[1];
	no_poll_disk = argc > 2 ? argv[2] : NULL;
	bad_disk = argc > 3 ? argv[3] : NULL;
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
