/* SPDX-License-Identifier: MIT */
/*
 * What the tests on a disk share. Their arguments:
 *
 * --overwrite DISK [NO-POLL-DISK [BAD-DISK]]: DISK is overwritten, and keeps what is
 * written; NO-POLL-DISK has no poll queues; BAD-DISK, with poll queues, fails every second
 * request. Where DISK has no poll queues, files are added with APS_FALLBACK, and what is
 * about polling alone is skipped.
 *
 * --scratch DIR: on files that are made in DIR and removed. The library is shown a sysfs
 * that gives their disk poll queues, and its rings are made without IORING_SETUP_IOPOLL. So
 * every path of the library runs on any disk; only the kernel's polling is left out.
 *
 * The programs are linked with functions of liburing replaced by those here, which also
 * have the kernel refuse what it is sent.
 *
 * --matrix before these: every test in every configuration, of which there are 24: who uses
 * a context (one thread or any), which flags the kernel has for that (from 6.1 on, 6.0, 5.19,
 * before), with the kernel's table of files or without, with registered buffers or without.
 * Each test has every mode by itself.
 */
#ifndef DISK_H
#define DISK_H

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>
#include "aps.h"
#include "tap.h"

#define BLOCK 4096
#define DEPTH 8

static const char *disk, *no_poll_disk, *bad_disk;
static bool is_scratch;
static char root[512] = ""; /* as in aps_options */
static char no_poll_root[512] = ""; /* for no_poll_disk */
static bool polls; /* the disk has poll queues, or seems to */
static const enum aps_mode modes[] = { APS_INTERRUPT, APS_POLL, APS_HYBRID, APS_ADAPTIVE, APS_RING_HYBRID };
static size_t nr_modes; /* the last one takes Linux 6.13 */

#define NR_MODES nr_modes
#define NR_OF(array) (sizeof(array) / sizeof((array)[0]))

struct config {
	unsigned int flags;	/* of contexts, besides those that a test sets */
	unsigned int refused;	/* flags of a ring that the kernel does not have */
	bool no_table, fixed;
};

static struct config config;

/* Memory of which each context has the kernel know, if config.fixed. */
static _Alignas(BLOCK) unsigned char arena[64 * BLOCK];
static size_t arena_used, arena_live;

static inline bool in_arena(const void *p, size_t bytes)
{
	const unsigned char *at = p;

	return at >= arena && bytes <= sizeof(arena) && at + bytes <= arena + sizeof(arena);
}

static inline int test_memalign(void **p, size_t align, size_t bytes)
{
	if (!config.fixed || bytes % BLOCK || sizeof(arena) - arena_used < bytes)
		return posix_memalign(p, align, bytes);
	*p = arena + arena_used;
	arena_used += bytes;
	arena_live++;
	return 0;
}

static inline void test_free(void *p)
{
	if (!in_arena(p, 1))
		free(p);
	else if (!--arena_live)
		arena_used = 0;
}

static inline ssize_t test_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset)
{
	return config.fixed && in_arena(buf, bytes) ? aps_read_fixed(ctx, file, 0, buf, bytes, offset) :
						      aps_read(ctx, file, buf, bytes, offset);
}

static inline ssize_t test_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset)
{
	return config.fixed && in_arena(buf, bytes) ? aps_write_fixed(ctx, file, 0, buf, bytes, offset) :
						      aps_write(ctx, file, buf, bytes, offset);
}

static inline int test_queue_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset,
				  void *data)
{
	return config.fixed && in_arena(buf, bytes) ?
		       aps_queue_read_fixed(ctx, file, 0, buf, bytes, offset, data) :
		       aps_queue_read(ctx, file, buf, bytes, offset, data);
}

static inline int test_queue_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset,
				   void *data)
{
	return config.fixed && in_arena(buf, bytes) ?
		       aps_queue_write_fixed(ctx, file, 0, buf, bytes, offset, data) :
		       aps_queue_write(ctx, file, buf, bytes, offset, data);
}

#define posix_memalign test_memalign
#define free test_free
#define aps_read test_read
#define aps_write test_write
#define aps_queue_read test_queue_read
#define aps_queue_write test_queue_write

static inline int must_open(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0600);

	if (fd < 0) {
		perror(name);
		exit(1);
	}
	return fd;
}

static inline unsigned char *block_of(unsigned char fill)
{
	void *buf;

	if (posix_memalign(&buf, BLOCK, BLOCK))
		exit(1);
	memset(buf, fill, BLOCK);
	return buf;
}

/* A context with one file. */
struct one {
	struct aps *ctx;
	int file;
};

static inline struct aps_options options_of(enum aps_mode mode, unsigned int flags)
{
	struct aps_options o;

	aps_options_init(&o, sizeof(o));
	o.mode = mode;
	o.flags = flags | config.flags;
	o.depth = DEPTH;
	o.root = root;
	if (config.no_table)
		o.files = 0;
	return o;
}

/* Where the disk has no poll queues, APS_FALLBACK is set. */
static inline struct one must_have_with(int fd, const struct aps_options *options)
{
	struct iovec iov = { arena, sizeof(arena) };
	struct aps_options own = *options, *o = &own;
	struct one one = { 0 };
	int err;

	if (!polls)
		o->flags |= APS_FALLBACK;
	err = aps_open(&one.ctx, o);
	if (!err)
		one.file = aps_add_file(one.ctx, fd);
	if (!err && one.file >= 0 && config.fixed)
		err = aps_register_buffers(one.ctx, &iov, 1);
	if (err || one.file < 0) {
		printf("# %s: %s\n", aps_mode_name((enum aps_mode)o->mode), strerror(err ? -err : -one.file));
		exit(1);
	}
	return one;
}

static inline struct one must_have_flags(int fd, enum aps_mode mode, unsigned int flags)
{
	struct aps_options o = options_of(mode, flags);

	return must_have_with(fd, &o);
}

/* How a file on the disk is waited for in that mode. */
static inline enum aps_mode mode_on_disk(enum aps_mode mode)
{
	return polls ? mode : APS_INTERRUPT;
}

/* Return: whether the test, of polling alone, has nothing to test. */
static inline bool is_skipped(void)
{
	if (!polls)
		printf("# skipped: no poll queues\n");
	return !polls;
}

static inline struct one must_have(int fd, enum aps_mode mode)
{
	return must_have_flags(fd, mode, 0);
}

static inline struct aps_stats stats_of(const struct one *one)
{
	struct aps_stats s;

	EXPECT_EQ(aps_get_stats(one->ctx, &s, sizeof(s)), 0);
	return s;
}

/* What a new context says to the file. */
static inline int try_file(int fd, enum aps_mode mode, unsigned int flags)
{
	struct aps_options o = options_of(mode, flags);
	struct aps *ctx = NULL;
	int file;

	EXPECT_EQ(aps_open(&ctx, &o), 0);
	file = aps_add_file(ctx, fd);
	EXPECT_EQ(aps_close(ctx), 0);
	return file;
}

#ifdef __SANITIZE_THREAD__
/* TSan does not see liburing map and unmap memory: an address that had another thread's
 * ring before is a race to it. */
#include <sanitizer/tsan_interface.h>
static char ring_memory;
#endif

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p);
int __real_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p);
void __wrap_io_uring_queue_exit(struct io_uring *ring);
void __real_io_uring_queue_exit(struct io_uring *ring);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned int nr_wait);
int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned int nr_wait);

#define SETUP_HYBRID_IOPOLL (1u << 17) /* a newer liburing's */

/* Rings are those of a kernel that lacks these features. */
static unsigned int lacks_features;
/* With --scratch: rings keep IORING_SETUP_IOPOLL. */
static bool keeps_iopoll;

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p)
{
	int err;

	if (p->flags & config.refused)
		return -EINVAL;
	if (is_scratch && !keeps_iopoll)
		p->flags &= ~(IORING_SETUP_IOPOLL | SETUP_HYBRID_IOPOLL);
	err = __real_io_uring_queue_init_params(entries, ring, p);
	if (!err)
		ring->features = p->features &= ~lacks_features;
#ifdef __SANITIZE_THREAD__
	__tsan_acquire(&ring_memory);
#endif
	return err;
}

void __wrap_io_uring_queue_exit(struct io_uring *ring)
{
#ifdef __SANITIZE_THREAD__
	__tsan_release(&ring_memory);
#endif
	__real_io_uring_queue_exit(ring);
}

/* So many of the next calls of io_uring_enter() that send something fail like this. */
static unsigned int nr_refused;
static int refused_with;
/* The next call that sends something sends so many only; 0: all. */
static unsigned int takes_only;

/* So many of the next calls that only wait fail with EBUSY. */
static unsigned int nr_busy;

int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned int nr_wait)
{
	unsigned int nr;

	if (nr_wait && nr_busy && !io_uring_sq_ready(ring)) {
		nr_busy--;
		return -EBUSY;
	}
	if (io_uring_sq_ready(ring) && (nr_refused || takes_only)) {
		/* As liburing does: the kernel may see them from here on. */
		ring->sq.sqe_head = ring->sq.sqe_tail;
		io_uring_smp_store_release(ring->sq.ktail, ring->sq.sqe_tail);
		if (nr_refused) {
			nr_refused--;
			return refused_with;
		}
		nr = takes_only;
		takes_only = 0;
		return io_uring_enter((unsigned int)ring->ring_fd, nr, 0, 0, NULL);
	}
	return __real_io_uring_submit_and_wait(ring, nr_wait);
}

/* Return: whether the descriptor is readable within so long. */
static inline bool is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, ms);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

static char dir[256], scratch[512];

static inline void remove_scratch(void)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		perror(dir);
}

static inline bool fill_file(int fd, size_t bytes)
{
	unsigned char *block = block_of(0x5c);
	size_t at;

	for (at = 0; at < bytes; at += BLOCK)
		if (pwrite(fd, block, BLOCK, (off_t)at) != BLOCK)
			return false;
	free(block);
	return !fsync(fd);
}

/* A file of 1 MiB in a new directory, and a tree that stands for / beside it. */
static inline void make_scratch(const char *where)
{
	char command[2048];
	struct stat st;
	int fd;

	snprintf(dir, sizeof(dir), "%s/ring-test.XXXXXX", where);
	if (!mkdtemp(dir)) {
		perror(dir);
		exit(1);
	}
	atexit(remove_scratch);
	snprintf(scratch, sizeof(scratch), "%s/disk", dir);
	snprintf(root, sizeof(root), "%s/root", dir);
	fd = must_open(scratch, O_RDWR | O_CREAT);
	/* Blocks on the disk: a hole is read without it. */
	if (posix_fallocate(fd, 0, 1 << 20) || fstat(fd, &st) || !fill_file(fd, 1 << 20)) {
		perror(scratch);
		exit(1);
	}
	close(fd);
	snprintf(command, sizeof(command),
		 "cd '%s' && mkdir -p root/sys/dev/block/%u:%u/queue && echo 1 >root/sys/dev/block/%u:%u/queue/io_poll && "
		 "ln -s /proc root/proc && ln -s /sys/devices /sys/fs root/sys/ && "
		 "cp -R root no-poll && echo 0 >no-poll/sys/dev/block/%u:%u/queue/io_poll",
		 dir, major(st.st_dev), minor(st.st_dev), major(st.st_dev), minor(st.st_dev),
		 major(st.st_dev), minor(st.st_dev));
	if (system(command))
		exit(1);
	disk = no_poll_disk = scratch;
	snprintf(no_poll_root, sizeof(no_poll_root), "%s/no-poll", dir);
	is_scratch = true;
}

/* What the library says of the disk, and of the kernel. */
static inline void look_at_disk(void)
{
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	struct aps_options o = options_of(APS_RING_HYBRID, 0);
	struct aps *ctx;

	polls = try_file(fd, APS_POLL, 0) == 0;
	nr_modes = NR_OF(modes);
	if (aps_open(&ctx, &o))
		nr_modes--;
	else
		aps_close(ctx);
	close(fd);
}

static const char *program;
static bool runs_matrix;

/* Return: whether the arguments are as they should be. */
static inline bool take_arguments(int argc, char **argv)
{
	program = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--matrix")) {
		runs_matrix = true;
		argc--;
		argv++;
	}
	if (argc == 3 && !strcmp(argv[1], "--scratch")) {
		make_scratch(argv[2]);
	} else if (argc >= 3 && argc <= 5 && !strcmp(argv[1], "--overwrite")) {
		disk = argv[2];
		no_poll_disk = argc > 3 ? argv[3] : NULL;
		bad_disk = argc > 4 ? argv[4] : NULL;
	} else {
		fprintf(stderr, "usage: %s [--matrix] --scratch DIR | --overwrite DISK [NO-POLL-DISK [BAD-DISK]]\n",
			program);
		return false;
	}
	look_at_disk();
	return true;
}

/* Run the tests in one configuration, or in all of them. */
static inline int run_on_disk(const struct tap_test *tests, unsigned int nr)
{
	static const struct config threads[] = {
		{ 0 },
		{ .refused = IORING_SETUP_COOP_TASKRUN },
		{ .flags = APS_SINGLE_THREAD },
		{ .flags = APS_SINGLE_THREAD, .refused = IORING_SETUP_DEFER_TASKRUN },
		{ .flags = APS_SINGLE_THREAD, .refused = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER },
		{ .flags = APS_SINGLE_THREAD,
		  .refused = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN },
	};
	unsigned int i, nr_configs = runs_matrix ? 4 * NR_OF(threads) : 1;
	int status = 0;

	for (i = 0; i < nr_configs; i++) {
		config = threads[i / 4];
		config.no_table = i & 1;
		config.fixed = i & 2;
		if (runs_matrix)
			printf("# %s, ring flags refused %#x, %s, %s\n", config.flags ? "one thread" : "any thread",
			       config.refused, config.no_table ? "no table" : "table",
			       config.fixed ? "registered buffers" : "plain buffers");
		alarm(900); /* what hangs has failed */
		status |= run_tests(tests, nr);
	}
	return status;
}

#endif
