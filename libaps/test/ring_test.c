// SPDX-License-Identifier: MIT
/* I/O through the library, in every way of waiting; see disk.h. Prints TAP. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/epoll.h>
#include <time.h>
#include "disk.h"

static void what_is_wrong_is_refused(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), buffered = must_open(disk, O_RDONLY);
	struct aps_options o = options_of(APS_ADAPTIVE, 0);
	struct aps *ctx;

	EXPECT_EQ(aps_version() >> 16, APS_VERSION_MAJOR);
	o.depth = 0;
	EXPECT_EQ(aps_open(&ctx, &o), -EINVAL);
	memset(&o, 0, sizeof(o)); /* no aps_options_init() */
	EXPECT_EQ(aps_open(&ctx, &o), -EINVAL);
	EXPECT_EQ(try_file(buffered, APS_POLL, 0), -EINVAL);
	EXPECT_EQ(try_file(buffered, APS_POLL, APS_FALLBACK), 0);
	EXPECT_EQ(try_file(-1, APS_POLL, APS_FALLBACK), -EBADF);
	EXPECT_EQ(aps_close(NULL), 0);
	close(fd);
	close(buffered);
}

/* Hybrid polling of the ring's own takes Linux 6.13. */
static void an_older_kernel_has_no_ring_hybrid(void)
{
	struct config given = config;
	struct aps_options o = options_of(APS_RING_HYBRID, 0);
	struct aps *ctx;

	config.refused |= SETUP_HYBRID_IOPOLL;
	EXPECT_EQ(aps_open(&ctx, &o), -EOPNOTSUPP);
	config = given;
}

/* What the kernel refuses, by names that tell what is wrong; with a ring or without. */
static void buffers_that_cannot_be_registered_are_refused(void)
{
	struct config given = config;
	static const unsigned int flags[] = { 0, APS_FALLBACK | APS_NO_RING };
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	size_t bytes = 2ul << 30, i;
	void *large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct iovec *many = calloc(16385, sizeof(*many));
	unsigned char *buf = block_of(0);

	config.fixed = false; /* it registers its own */
	for (i = 0; i < 16385; i++)
		many[i] = (struct iovec){ buf, BLOCK };
	EXPECT(large != MAP_FAILED);
	for (i = 0; i < 2; i++) {
		struct one one = must_have_flags(fd, APS_POLL, flags[i]);

		EXPECT_EQ(aps_register_buffers(one.ctx, &(struct iovec){ large, bytes }, 1), -E2BIG);
		EXPECT_EQ(aps_register_buffers(one.ctx, &(struct iovec){ NULL, BLOCK }, 1), -EINVAL);
		EXPECT_EQ(aps_register_buffers(one.ctx, &(struct iovec){ buf, 0 }, 1), -EINVAL);
		EXPECT_EQ(aps_register_buffers(one.ctx, many, 16385), -EINVAL);
		EXPECT_EQ(aps_register_buffers(one.ctx, many, 1), 0);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	munmap(large, bytes);
	free(many);
	free(buf);
	close(fd);
	config = given;
}

static void every_mode_reads_what_was_written(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *out = block_of(0), *in = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have(fd, modes[i]);
		enum aps_mode mode = mode_on_disk(modes[i]);
		struct aps_stats s;
		unsigned int n;

		for (n = 0; n < 64; n++) {
			off_t at = (off_t)n * BLOCK;

			memset(out, (int)(17 * i + n + 1), BLOCK);
			memset(in, 0, BLOCK);
			EXPECT_EQ(aps_write(one.ctx, one.file, out, BLOCK, at), BLOCK);
			EXPECT_EQ(aps_read(one.ctx, one.file, in, BLOCK, at), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
		}
		s = stats_of(&one);
		EXPECT_EQ(s.nr_reads, 64);
		EXPECT_EQ(s.nr_writes, 64);
		EXPECT_EQ(s.nr_errors, 0);
		EXPECT((mode == APS_INTERRUPT) == (s.nr_waits[APS_WAIT_INTERRUPT] > 0));
		EXPECT((mode == APS_HYBRID || mode == APS_RING_HYBRID) == (s.nr_waits[APS_WAIT_HYBRID] > 0) ||
		       mode == APS_ADAPTIVE);
		EXPECT(mode != APS_HYBRID || s.nr_sleeps > 0);
		EXPECT(mode != APS_ADAPTIVE || s.nr_samples > 0);
		EXPECT_EQ(aps_file_mode(one.ctx, one.file), mode);
		aps_close(one.ctx);
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
	struct one one = must_have(fd, APS_ADAPTIVE);

	EXPECT_EQ(aps_writev(one.ctx, one.file, out, 2, 0), 2 * BLOCK);
	EXPECT_EQ(aps_readv(one.ctx, one.file, in, 2, 0), 2 * BLOCK);
	EXPECT(!memcmp(a, c, BLOCK) && !memcmp(b, d, BLOCK));
	EXPECT_EQ(aps_readv(one.ctx, one.file, in, 0, 0), -EINVAL);
	EXPECT_EQ(aps_read(one.ctx, one.file, c, BLOCK, -1), -EINVAL);
	aps_close(one.ctx);
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
		struct one one = must_have(fd, modes[i]);
		unsigned int seen = 0, k;

		for (k = 0; k < DEPTH; k++)
			EXPECT_EQ(aps_queue_read(one.ctx, one.file, bufs[k], BLOCK, (off_t)k * BLOCK, bufs[k]), 0);
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, bufs[0], BLOCK, 0, NULL), -EAGAIN);
		EXPECT_EQ(aps_read(one.ctx, one.file, bufs[0], BLOCK, 0), -EBUSY);
		EXPECT_EQ(aps_wait(one.ctx, events, 2, 1), -EINVAL);
		EXPECT_EQ(aps_submit(one.ctx), DEPTH);
		while (seen != (1u << DEPTH) - 1) {
			n = aps_wait(one.ctx, events, 1, 3);
			EXPECT_BETWEEN(n, 1, 3);
			if (n < 1)
				break;
			while (n-- > 0)
				for (k = 0; k < DEPTH; k++)
					if (events[n].data == bufs[k] && events[n].result == BLOCK)
						seen |= 1u << k;
		}
		/* Nothing is outstanding: no wait. */
		EXPECT_EQ(aps_wait(one.ctx, events, 1, 1), 0);
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, bufs[0], BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_wait(one.ctx, events, DEPTH, DEPTH), 1);
		/* Closing waits for what is in flight. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, bufs[0], BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_submit(one.ctx), 1);
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, bufs[1], BLOCK, 0, NULL), 0);
		aps_close(one.ctx);
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

	if (is_scratch)
		bytes = (uint64_t)lseek(fd, 0, SEEK_END);
	else
		EXPECT_EQ(ioctl(fd, BLKGETSIZE64, &bytes), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have(fd, modes[i]);

		EXPECT_EQ(aps_readv(one.ctx, one.file, iov, 2, (off_t)bytes - BLOCK), BLOCK);
		EXPECT_EQ(aps_read(one.ctx, one.file, a, BLOCK, (off_t)bytes), 0);
		if (!is_scratch) /* a file would grow */
			EXPECT_EQ(aps_write(one.ctx, one.file, a, BLOCK, (off_t)bytes), -ENOSPC);
		/* O_DIRECT wants whole blocks. */
		EXPECT_EQ(aps_read(one.ctx, one.file, a, 100, 0), -EINVAL);
		aps_close(one.ctx);
	}
	free(a);
	free(b);
	close(fd);
}

/* The kernel's table of files keeps a file open; without one it is the caller's. */
static void a_closed_file_is_an_error(void)
{
	unsigned char *buf = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		int fd = must_open(disk, O_RDWR | O_DIRECT);
		struct aps_options o = options_of(modes[i], 0);
		struct one one;

		o.files = 0;
		one = must_have_with(fd, &o);
		EXPECT_EQ(stats_of(&one).features & APS_HAS_FILE_TABLE, 0);
		EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
		close(fd);
		EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), -EBADF);
		EXPECT_EQ(stats_of(&one).nr_errors, 1);
		EXPECT_EQ(aps_remove_file(one.ctx, one.file), 0);
		aps_close(one.ctx);
	}
	free(buf);
}

static void no_poll_queues_is_said_or_fallen_back_from(void)
{
	unsigned char *buf = block_of(0);
	char polls[sizeof(root)];
	size_t i;
	int fd;

	if (!no_poll_disk) {
		printf("# skipped: no disk without poll queues\n");
		free(buf);
		return;
	}
	memcpy(polls, root, sizeof(root));
	memcpy(root, no_poll_root, sizeof(root));
	fd = must_open(no_poll_disk, O_RDWR | O_DIRECT);
	for (i = 1; i < NR_MODES; i++) {
		struct one one;

		EXPECT_EQ(try_file(fd, modes[i], 0), -EOPNOTSUPP);
		one = must_have_flags(fd, modes[i], APS_FALLBACK);
		EXPECT_EQ(aps_file_mode(one.ctx, one.file), APS_INTERRUPT);
		EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
		aps_close(one.ctx);
	}
	memcpy(root, polls, sizeof(root));
	free(buf);
	close(fd);
}

/*
 * sysfs says that the disk polls, and the kernel does not poll the file: its file system
 * has no polling, as FAT; or, which the test can do on any, O_DIRECT was taken away.
 */
static int file_that_is_not_polled(const struct one *one, int *fd)
{
	int file;

	*fd = must_open(disk, O_RDWR | O_DIRECT);
	file = aps_add_file(one->ctx, *fd);
	EXPECT(file >= 0);
	EXPECT_EQ(fcntl(*fd, F_SETFL, 0), 0);
	return file;
}

/* DEPTH reads of it, of which some are sent when the first is refused, each come once. */
static void read_file_that_is_not_polled(const struct one *one, int file, unsigned char *bufs)
{
	struct aps_event events[DEPTH];
	unsigned int i, seen = 0;

	for (i = 0; i < DEPTH; i++) {
		EXPECT_EQ(aps_queue_read(one->ctx, i % 4 == 3 ? one->file : file, bufs + i * BLOCK, BLOCK, 0,
					 bufs + i), 0);
		if (i == 4)
			EXPECT_EQ(aps_submit(one->ctx), 5);
	}
	EXPECT_EQ(aps_wait(one->ctx, events, DEPTH, DEPTH), DEPTH);
	for (i = 0; i < DEPTH; i++) {
		EXPECT_EQ(events[i].result, BLOCK);
		seen |= 1u << ((unsigned char *)events[i].data - bufs);
	}
	EXPECT_EQ(seen, (1u << DEPTH) - 1);
}

static void what_the_kernel_does_not_poll_is_fallen_back_from(void)
{
	static const unsigned int flags[] = { 0, APS_SINGLE_THREAD };
	unsigned char *out, *in, *bufs;
	int fd, other;
	size_t i, k;

	if (is_skipped())
		return;
	fd = must_open(disk, O_RDWR | O_DIRECT);
	out = block_of(0x61);
	in = block_of(0);
	if (posix_memalign((void **)&bufs, BLOCK, DEPTH * BLOCK))
		exit(1);
	keeps_iopoll = true;
	for (i = 1; i < NR_MODES; i++)
		for (k = 0; k < 2; k++) {
			struct one one = must_have_flags(fd, modes[i], APS_FALLBACK | flags[k]);
			int file = file_that_is_not_polled(&one, &other);

			EXPECT_EQ(aps_write(one.ctx, file, out, BLOCK, 0), BLOCK);
			EXPECT_EQ(aps_file_mode(one.ctx, file), APS_INTERRUPT);
			EXPECT_EQ(aps_read(one.ctx, file, in, BLOCK, 0), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
			EXPECT_EQ(stats_of(&one).nr_errors, 0);
			EXPECT_EQ(stats_of(&one).nr_writes, 1);
			close(other);
			EXPECT_EQ(aps_remove_file(one.ctx, file), 0);
			file = file_that_is_not_polled(&one, &other);
			if (!is_scratch) /* polling needs poll queues */
				read_file_that_is_not_polled(&one, file, bufs);
			/* A close, and a thread's leaving, do the write as well. */
			EXPECT_EQ(aps_remove_file(one.ctx, file), 0);
			close(other);
			file = file_that_is_not_polled(&one, &other);
			memset(out, 0x70 + (int)i, BLOCK);
			EXPECT_EQ(aps_queue_write(one.ctx, file, out, BLOCK, 0, NULL), 0);
			EXPECT_EQ(aps_submit(one.ctx), 1);
			EXPECT_EQ(k ? aps_detach(one.ctx) : 0, 0);
			EXPECT_EQ(aps_close(one.ctx), 0);
			EXPECT_EQ(pread(other, in, BLOCK, 0), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
			close(other);
			/* Without APS_FALLBACK it is an error. */
			one = must_have_flags(fd, modes[i], flags[k]);
			file = file_that_is_not_polled(&one, &other);
			EXPECT_EQ(aps_read(one.ctx, file, in, BLOCK, 0), -EOPNOTSUPP);
			EXPECT_EQ(aps_close(one.ctx), 0);
			close(other);
		}
	keeps_iopoll = false;
	free(out);
	free(in);
	free(bufs);
	close(fd);
}

/* Of so many reads, one at a time, those that failed; none came back short. */
static unsigned int failed_reads(struct one one, unsigned char *buf, unsigned int nr)
{
	unsigned int failed = 0;

	while (nr--) {
		ssize_t n = aps_read(one.ctx, one.file, buf, BLOCK, 0);

		EXPECT(n == BLOCK || n == -EIO);
		failed += n == -EIO;
	}
	return failed;
}

/* The same of as many as fit, in flight together; each comes back once. */
static unsigned int failed_of_queued(struct one one, unsigned char *buf)
{
	struct aps_event events[DEPTH];
	unsigned int failed = 0, seen = 0, i;

	for (i = 0; i < DEPTH; i++)
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf + (size_t)i * BLOCK, BLOCK, 0, buf + i), 0);
	EXPECT_EQ(aps_wait(one.ctx, events, DEPTH, DEPTH), DEPTH);
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
		struct one one = must_have(fd, modes[i]);
		struct aps_stats s;

		EXPECT_EQ(failed_reads(one, buf, 6), 3);
		EXPECT_EQ(failed_of_queued(one, buf), DEPTH / 2);
		s = stats_of(&one);
		EXPECT_EQ(s.nr_errors, 3 + DEPTH / 2);
		EXPECT_EQ(s.nr_reads, 6 + DEPTH);
		aps_close(one.ctx);
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
		struct one one = must_have(fd, modes[i]);
		unsigned int n;

		EXPECT_EQ(aps_write(one.ctx, one.file, out, BLOCK, 0), BLOCK);
		nr_signals = 0;
		alarms(500);
		for (n = 0; n < 1000000 && nr_signals < 3; n++) {
			memset(in, 0, BLOCK);
			EXPECT_EQ(aps_read(one.ctx, one.file, in, BLOCK, 0), BLOCK);
			EXPECT(!memcmp(in, out, BLOCK));
		}
		alarms(0);
		EXPECT(nr_signals >= 3);
		aps_close(one.ctx);
	}
	free(out);
	free(in);
	close(fd);
}

/* Which hands over a signal between system calls. */
static bool under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

static void a_signal_ends_a_wait_and_loses_nothing(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *buf = block_of(0);
	struct one one = must_have(fd, APS_INTERRUPT);
	unsigned int interrupted = 0, done = 0, n;
	struct aps_event event;

	nr_signals = 0;
	alarms(150);
	for (n = 0; n < 10000 && !interrupted; n++) {
		int got;

		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		while ((got = aps_wait(one.ctx, &event, 1, 1)) == -EINTR)
			interrupted++;
		EXPECT_EQ(got, 1);
		EXPECT_EQ(event.result, BLOCK);
		done++;
	}
	alarms(0);
	EXPECT(interrupted > 0 || under_valgrind());
	EXPECT_EQ(done, n);
	aps_close(one.ctx);
	free(buf);
	close(fd);
}

static void syncs_are_waited_for(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), readable = must_open(disk, O_RDONLY | O_DIRECT);
	unsigned char *buf = block_of(0x11);
	struct aps_event events[3];
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have(fd, modes[i]);
		unsigned int seen = 0, n;

		EXPECT_EQ(aps_write(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
		EXPECT_EQ(aps_fsync(one.ctx, one.file), 0);
		EXPECT_EQ(aps_fdatasync(one.ctx, one.file), 0);
		/* Together with polled I/O, in whichever order they complete. */
		EXPECT_EQ(aps_queue_fsync(one.ctx, one.file, (void *)1), 0);
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, (void *)2), 0);
		EXPECT_EQ(aps_queue_fdatasync(one.ctx, one.file, (void *)4), 0);
		EXPECT_EQ(aps_wait(one.ctx, events, 3, 3), 3);
		for (n = 0; n < 3; n++) {
			seen |= (unsigned int)(uintptr_t)events[n].data;
			EXPECT_EQ(events[n].result, events[n].data == (void *)2 ? BLOCK : 0);
		}
		EXPECT_EQ(seen, 7);
		EXPECT_EQ(stats_of(&one).nr_syncs, 4);
		EXPECT_EQ(stats_of(&one).nr_outstanding, 0);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
	close(readable);
}

static void fixed_buffers_are_read_and_written(void)
{
	struct config given = config;
	int fd = must_open(disk, O_RDWR | O_DIRECT), buffered = must_open(disk, O_RDWR);
	unsigned char *a = block_of(0x21), *b = block_of(0x22), *in = block_of(0);
	struct iovec iov[2] = { { a, BLOCK }, { b, BLOCK } };
	size_t i;

	config.fixed = false; /* it registers its own */
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK);
		int other = aps_add_file(one.ctx, buffered);

		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, a, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_register_buffers(one.ctx, iov, 0), -EINVAL);
		EXPECT_EQ(aps_register_buffers(one.ctx, iov, 2), 0);
		EXPECT_EQ(aps_register_buffers(one.ctx, iov, 2), -EBUSY);
		memset(b, 0x22 + (int)i, BLOCK);
		EXPECT_EQ(aps_write_fixed(one.ctx, one.file, 1, b, BLOCK, BLOCK), BLOCK);
		EXPECT_EQ(aps_read(one.ctx, one.file, in, BLOCK, BLOCK), BLOCK);
		EXPECT(!memcmp(in, b, BLOCK));
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, a, BLOCK, BLOCK), BLOCK);
		EXPECT(!memcmp(a, b, BLOCK));
		/* A file that is not polled, in the other ring. */
		memset(a, 0, BLOCK);
		EXPECT_EQ(aps_file_mode(one.ctx, other), APS_INTERRUPT);
		EXPECT_EQ(aps_read_fixed(one.ctx, other, 0, a + 512, 512, BLOCK), 512);
		EXPECT(!memcmp(a + 512, b, 512));
		/* Outside of the buffer. */
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, a + 512, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 1, a, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 2, b, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, UINT32_MAX, b, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_queue_read_fixed(one.ctx, one.file, 0, a, BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_unregister_buffers(one.ctx), -EBUSY);
		EXPECT_EQ(aps_wait(one.ctx, &(struct aps_event){ 0 }, 1, 1), 1);
		EXPECT_EQ(aps_unregister_buffers(one.ctx), 0);
		EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, a, BLOCK, 0), -EFAULT);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(a);
	free(b);
	free(in);
	close(fd);
	close(buffered);
	config = given;
}

/* Files beyond the kernel's table, places that are used again, wrong numbers. */
static void files_come_and_go(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), numbers[40];
	unsigned char *buf = block_of(0);
	struct aps_event event;
	size_t i, k;

	for (i = 0; i < NR_MODES; i++) {
		struct aps_options o = options_of(modes[i], 0);
		struct one one;

		o.files = 4;
		one = must_have_with(fd, &o);
		for (k = 0; k < 40; k++) {
			numbers[k] = aps_add_file(one.ctx, fd);
			EXPECT(numbers[k] >= 0);
			EXPECT_EQ(aps_read(one.ctx, numbers[k], buf, BLOCK, 0), BLOCK);
		}
		EXPECT_EQ(stats_of(&one).nr_files, 41);
		EXPECT_EQ(aps_read(one.ctx, 1000, buf, BLOCK, 0), -ENOENT);
		EXPECT_EQ(aps_read(one.ctx, -1, buf, BLOCK, 0), -ENOENT);
		EXPECT_EQ(aps_file_mode(one.ctx, 1000), -ENOENT);
		EXPECT_EQ(aps_queue_read(one.ctx, numbers[7], buf, BLOCK, 0, NULL), 0);
		EXPECT_EQ(aps_remove_file(one.ctx, numbers[7]), -EBUSY);
		EXPECT_EQ(aps_wait(one.ctx, &event, 1, 1), 1);
		EXPECT_EQ(aps_remove_file(one.ctx, numbers[7]), 0);
		EXPECT_EQ(aps_remove_file(one.ctx, numbers[7]), -ENOENT);
		EXPECT_EQ(aps_read(one.ctx, numbers[7], buf, BLOCK, 0), -ENOENT);
		EXPECT_EQ(aps_add_file(one.ctx, fd), numbers[7]);
		EXPECT_EQ(aps_read(one.ctx, numbers[7], buf, BLOCK, 0), BLOCK);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define MS 1000000ull

static void waits_end_at_their_timeout(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), ends[2];
	unsigned char *buf = block_of(0);
	struct aps_event events[2];
	size_t i;

	EXPECT_EQ(pipe(ends), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK);
		int empty = aps_add_file(one.ctx, ends[0]);
		uint64_t from_ns = now_ns();
		char text[4] = "";

		EXPECT_EQ(aps_queue_read(one.ctx, empty, text, 4, 0, text), 0);
		EXPECT_EQ(aps_wait_timeout(one.ctx, events, 1, 1, 20 * MS), 0);
		EXPECT(now_ns() - from_ns >= 20 * MS);
		/* One of the two comes in time. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		EXPECT_EQ(aps_wait_timeout(one.ctx, events, 2, 2, 100 * MS), 1);
		EXPECT(events[0].data == buf && events[0].result == BLOCK);
		EXPECT_EQ(write(ends[1], "abcd", 4), 4);
		EXPECT_EQ(aps_wait_timeout(one.ctx, events, 1, 1, UINT64_MAX), 1);
		EXPECT(events[0].data == text && events[0].result == 4 && !memcmp(text, "abcd", 4));
		/* No time at all is a look. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		while (!aps_wait_timeout(one.ctx, events, 1, 1, 0))
			;
		EXPECT(events[0].data == buf && events[0].result == BLOCK);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* Of two with the same data, in whichever rings. */
static void the_oldest_is_cancelled(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), buffered = must_open(disk, O_RDONLY);
	unsigned char *a = block_of(0xa5), *b = block_of(0xa5);
	struct aps_event events[2];
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK);
		int files[2] = { aps_add_file(one.ctx, buffered), one.file }, k;

		for (k = 0; k < 2; k++) {
			memset(a, 0xa5, BLOCK);
			memset(b, 0xa5, BLOCK);
			EXPECT_EQ(aps_queue_read(one.ctx, files[k], a, BLOCK, 0, (void *)1), 0);
			EXPECT_EQ(aps_queue_read(one.ctx, files[!k], b, BLOCK, BLOCK, (void *)1), 0);
			EXPECT_EQ(aps_cancel(one.ctx, (void *)1), 0);
			EXPECT_EQ(aps_wait(one.ctx, events, 2, 2), 2);
			EXPECT_EQ(events[0].result, -ECANCELED);
			EXPECT_EQ(events[1].result, BLOCK);
			EXPECT_EQ(a[0], 0xa5);
		}
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(a);
	free(b);
	close(fd);
	close(buffered);
}

static void what_is_cancelled_has_an_event(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), ends[2];
	unsigned char *buf = block_of(0);
	struct aps_event events[3];
	size_t i;

	EXPECT_EQ(pipe(ends), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK);
		int empty = aps_add_file(one.ctx, ends[0]);
		char text[4];
		int err;

		EXPECT_EQ(aps_cancel(one.ctx, buf), -ENOENT);
		/* Queued, which the disk never sees. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		EXPECT_EQ(aps_cancel(one.ctx, buf), 0);
		EXPECT_EQ(aps_cancel(one.ctx, buf), -ENOENT);
		EXPECT_EQ(aps_submit(one.ctx), 0);
		EXPECT_EQ(aps_wait(one.ctx, events, 1, 3), 1);
		EXPECT(events[0].data == buf && events[0].result == -ECANCELED);
		/* Sent, to a pipe that has nothing. */
		EXPECT_EQ(aps_queue_read(one.ctx, empty, text, 4, 0, text), 0);
		EXPECT_EQ(aps_submit(one.ctx), 1);
		EXPECT_EQ(aps_cancel(one.ctx, text), 0);
		EXPECT_EQ(aps_wait(one.ctx, events, 1, 3), 1);
		EXPECT(events[0].data == text && events[0].result == -ECANCELED);
		/* Sent to a disk: it completes. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		EXPECT_EQ(aps_submit(one.ctx), 1);
		err = aps_cancel(one.ctx, buf);
		EXPECT(err == -EALREADY || err == -ENOENT);
		EXPECT_EQ(aps_wait(one.ctx, events, 1, 3), 1);
		EXPECT(events[0].data == buf && events[0].result == BLOCK);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void descriptor_tells_when_to_look(unsigned int flags)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT), ends[2];
	unsigned char *buf = block_of(0);
	struct aps_event events[2];
	size_t i;

	EXPECT_EQ(pipe(ends), 0);
	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK | flags);
		int empty = aps_add_file(one.ctx, ends[0]), event_fd = aps_event_fd(one.ctx);
		unsigned int k, looks;
		char text[4];

		EXPECT(event_fd >= 0);
		EXPECT_EQ(aps_event_fd(one.ctx), event_fd);
		EXPECT(!is_readable(event_fd, 0));
		for (k = 0; k < 50 && !tap_failed; k++) {
			int n = 0;

			errno = 0;
			EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
			EXPECT_EQ(aps_submit(one.ctx), 1);
			for (looks = 0; looks < 100000 && !n; looks++) {
				EXPECT(is_readable(event_fd, 10000));
				n = aps_wait(one.ctx, events, 0, 1);
			}
			EXPECT_EQ(n, 1);
			EXPECT(events[0].data == buf && events[0].result == BLOCK);
			EXPECT_EQ(errno, 0);
		}
		EXPECT(!is_readable(event_fd, 0));
		/* What was waited for in the call leaves nothing to take. */
		EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
		EXPECT(!is_readable(event_fd, 0));
		EXPECT_EQ(aps_queue_read(one.ctx, empty, text, 4, 0, text), 0);
		EXPECT_EQ(aps_submit(one.ctx), 1);
		EXPECT(!is_readable(event_fd, 10));
		EXPECT_EQ(write(ends[1], "abcd", 4), 4);
		EXPECT(is_readable(event_fd, 10000));
		EXPECT_EQ(aps_wait(one.ctx, events, 1, 1), 1);
		/* An event that was not taken keeps it readable. */
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
		EXPECT_EQ(aps_cancel(one.ctx, buf), 0);
		EXPECT(is_readable(event_fd, 0));
		EXPECT_EQ(aps_wait(one.ctx, events, 0, 2), 1);
		EXPECT(!is_readable(event_fd, 0));
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void a_descriptor_tells_when_to_look(void)
{
	descriptor_tells_when_to_look(0);
	descriptor_tells_when_to_look(APS_SINGLE_THREAD);
}

static int wait_for_edge(int set)
{
	struct epoll_event event;
	int n;

	do {
		n = epoll_wait(set, &event, 1, 10000);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* Where only edges are told of: each aps_wait() that finds nothing yet has one follow. */
static void edges_tell_of(unsigned int flags)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned char *buf = block_of(0);
	size_t i;

	for (i = 0; i < NR_MODES; i++) {
		struct one one = must_have_flags(fd, modes[i], APS_FALLBACK | flags);
		struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
		int set = epoll_create1(EPOLL_CLOEXEC);
		struct aps_event event;
		unsigned int k, looks;

		EXPECT(set >= 0);
		EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, aps_event_fd(one.ctx), &edge), 0);
		for (k = 0; k < 50 && !tap_failed; k++) {
			int n = 0;

			/* Syncs: a ring that may be made after the descriptor. */
			if (k % 2)
				EXPECT_EQ(aps_queue_fsync(one.ctx, one.file, buf), 0);
			else
				EXPECT_EQ(aps_queue_read(one.ctx, one.file, buf, BLOCK, 0, buf), 0);
			EXPECT_EQ(aps_submit(one.ctx), 1);
			for (looks = 0; looks < 100000 && !n; looks++) {
				EXPECT_EQ(wait_for_edge(set), 1);
				n = aps_wait(one.ctx, &event, 0, 1);
			}
			EXPECT_EQ(n, 1);
			/* With APS_SINGLE_THREAD the rings are made anew. */
			if (k == 25)
				EXPECT_EQ(aps_detach(one.ctx), 0);
		}
		close(set);
		EXPECT_EQ(aps_close(one.ctx), 0);
	}
	free(buf);
	close(fd);
}

static void edges_tell_when_to_look(void)
{
	edges_tell_of(0);
	edges_tell_of(APS_SINGLE_THREAD);
}

/* More at once than a kernel from 6.14 on completes in one call: 20. */
#define NR_AT_ONCE 64

static void the_rest_of_many_is_told_of(void)
{
	struct aps_options o = options_of(APS_INTERRUPT, APS_SINGLE_THREAD);
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	int ends[2], set = epoll_create1(EPOLL_CLOEXEC);
	char text[NR_AT_ONCE] = "", out[NR_AT_ONCE] = "";
	unsigned int k, seen = 0, looks;
	struct aps_event events[NR_AT_ONCE];
	struct one one;

	EXPECT_EQ(pipe(ends), 0);
	o.depth = NR_AT_ONCE;
	one = must_have_with(ends[0], &o);
	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, aps_event_fd(one.ctx), &edge), 0);
	for (k = 0; k < NR_AT_ONCE; k++)
		EXPECT_EQ(aps_queue_read(one.ctx, one.file, &text[k], 1, 0, NULL), 0);
	EXPECT_EQ(aps_submit(one.ctx), NR_AT_ONCE);
	EXPECT_EQ(write(ends[1], out, NR_AT_ONCE), NR_AT_ONCE);
	for (looks = 0; looks < NR_AT_ONCE && seen < NR_AT_ONCE && !tap_failed; looks++) {
		EXPECT_EQ(wait_for_edge(set), 1);
		seen += (unsigned int)aps_wait(one.ctx, events, 0, NR_AT_ONCE);
	}
	EXPECT_EQ(seen, NR_AT_ONCE);
	EXPECT_EQ(aps_close(one.ctx), 0);
	close(set);
	close(ends[0]);
	close(ends[1]);
}

/* A program that was compiled with fewer, or with more. */
static void statistics_have_a_size(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	struct one one = must_have(fd, APS_INTERRUPT);
	struct { struct aps_stats s; uint64_t later; } newer = { .later = 1 };
	unsigned char older[64], *buf = block_of(0);

	EXPECT_EQ(aps_read(one.ctx, one.file, buf, BLOCK, 0), BLOCK);
	memset(older, 0xa5, sizeof(older));
	EXPECT_EQ(aps_get_stats(one.ctx, (struct aps_stats *)older, 8), 0);
	EXPECT_EQ(older[0], 1);
	EXPECT_EQ(older[8], 0xa5);
	EXPECT_EQ(aps_get_stats(one.ctx, &newer.s, sizeof(newer)), 0);
	EXPECT_EQ(newer.s.nr_reads, 1);
	EXPECT_EQ(newer.later, 0);
	aps_close(one.ctx);
	free(buf);
	close(fd);
}

/* A library that is told to do without a ring does the same I/O. */
static void without_a_ring_all_io_is_done(void)
{
	struct config given = config;
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	struct one one;
	unsigned char *out = block_of(0x33), *in = block_of(0);
	struct iovec iov = { in, BLOCK };
	struct aps_event events[3];
	struct aps_stats s;
	int event_fd;

	config.fixed = false; /* it registers its own */
	one = must_have_flags(fd, APS_ADAPTIVE, APS_NO_RING | APS_FALLBACK);
	event_fd = aps_event_fd(one.ctx);
	EXPECT_EQ(aps_write(one.ctx, one.file, out, BLOCK, 0), BLOCK);
	EXPECT_EQ(aps_fsync(one.ctx, one.file), 0);
	EXPECT_EQ(aps_read(one.ctx, one.file, in, BLOCK, 0), BLOCK);
	EXPECT(!memcmp(in, out, BLOCK));
	EXPECT_EQ(aps_register_buffers(one.ctx, &iov, 1), 0);
	EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, in, BLOCK, BLOCK), BLOCK);
	EXPECT_EQ(aps_read_fixed(one.ctx, one.file, 0, out, BLOCK, 0), -EFAULT);
	EXPECT_EQ(aps_read(one.ctx, one.file, in, 100, 0), -EINVAL);
	EXPECT_EQ(aps_queue_readv(one.ctx, one.file, &iov, 1, 0, (void *)1), 0);
	EXPECT_EQ(aps_queue_fdatasync(one.ctx, one.file, (void *)2), 0);
	EXPECT_EQ(aps_queue_write(one.ctx, one.file, out, BLOCK, 0, (void *)3), 0);
	EXPECT_EQ(aps_cancel(one.ctx, (void *)3), 0);
	EXPECT_EQ(aps_submit(one.ctx), 2);
	EXPECT(is_readable(event_fd, 0));
	EXPECT_EQ(aps_wait(one.ctx, events, 3, 3), 3);
	EXPECT(events[0].data == (void *)3 && events[0].result == -ECANCELED);
	EXPECT(events[1].data == (void *)1 && events[1].result == BLOCK);
	EXPECT(events[2].data == (void *)2 && events[2].result == 0);
	s = stats_of(&one);
	EXPECT_EQ(s.backend, APS_BACKEND_SYNC);
	EXPECT_EQ(s.ring_error, 0);
	EXPECT_EQ(s.nr_reads, 4);
	EXPECT_EQ(s.nr_waits[APS_WAIT_INTERRUPT] + s.nr_waits[APS_WAIT_POLL], 5);
	EXPECT_EQ(aps_detach(one.ctx), 0);
	EXPECT_EQ(aps_close(one.ctx), 0);
	free(out);
	free(in);
	close(fd);
	config = given;
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(what_is_wrong_is_refused),
		TEST(an_older_kernel_has_no_ring_hybrid),
		TEST(buffers_that_cannot_be_registered_are_refused),
		TEST(every_mode_reads_what_was_written),
		TEST(vectors_are_gathered_and_scattered),
		TEST(as_many_as_the_depth_and_no_more),
		TEST(reads_end_with_the_disk),
		TEST(a_closed_file_is_an_error),
		TEST(no_poll_queues_is_said_or_fallen_back_from),
		TEST(what_the_kernel_does_not_poll_is_fallen_back_from),
		TEST(what_the_disk_fails_is_eio_and_nothing_else),
		TEST(signals_do_not_hurt_whole_reads),
		TEST(a_signal_ends_a_wait_and_loses_nothing),
		TEST(syncs_are_waited_for),
		TEST(fixed_buffers_are_read_and_written),
		TEST(files_come_and_go),
		TEST(waits_end_at_their_timeout),
		TEST(the_oldest_is_cancelled),
		TEST(what_is_cancelled_has_an_event),
		TEST(a_descriptor_tells_when_to_look),
		TEST(edges_tell_when_to_look),
		TEST(the_rest_of_many_is_told_of),
		TEST(statistics_have_a_size),
		TEST(without_a_ring_all_io_is_done),
	};

	if (!take_arguments(argc, argv))
		return 2;
	return run_on_disk(tests, NR_OF(tests));
}
