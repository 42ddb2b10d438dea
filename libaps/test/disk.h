/* SPDX-License-Identifier: MIT */
/*
 * What the tests on a disk share. Their arguments:
 *
 * --overwrite DISK [NO-POLL-DISK [BAD-DISK]]: DISK is overwritten, keeps what is written,
 * and has poll queues; NO-POLL-DISK has none; BAD-DISK, with poll queues, fails every
 * second request.
 *
 * --scratch DIR: on files that are made in DIR and removed. The library is shown a sysfs
 * that gives their disk poll queues, and its rings are made without IORING_SETUP_IOPOLL. So
 * every path of the library runs on any disk; only the kernel's polling is left out.
 *
 * The programs are linked with functions of liburing replaced by those here, which also
 * have the kernel refuse what it is sent.
 */
#ifndef DISK_H
#define DISK_H

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
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
static const enum aps_mode modes[] = { APS_INTERRUPT, APS_POLL, APS_HYBRID, APS_ADAPTIVE };

#define NR_MODES (sizeof(modes) / sizeof(modes[0]))

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
	o.flags = flags;
	o.depth = DEPTH;
	o.root = root;
	return o;
}

static inline struct one must_have_with(int fd, const struct aps_options *o)
{
	struct one one = { 0 };
	int err = aps_open(&one.ctx, o);

	if (!err)
		one.file = aps_add_file(one.ctx, fd);
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

/* Rings are those of a kernel that lacks these features. */
static unsigned int lacks_features;
/* With --scratch: rings keep IORING_SETUP_IOPOLL. */
static bool keeps_iopoll;

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p)
{
	int err;

	if (is_scratch && !keeps_iopoll)
		p->flags &= ~IORING_SETUP_IOPOLL;
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

/* Return: whether the arguments are as they should be. */
static inline bool take_arguments(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--scratch")) {
		make_scratch(argv[2]);
	} else if (argc >= 3 && argc <= 5 && !strcmp(argv[1], "--overwrite")) {
		disk = argv[2];
		no_poll_disk = argc > 3 ? argv[3] : NULL;
		bad_disk = argc > 4 ? argv[4] : NULL;
	} else {
		fprintf(stderr, "usage: %s --scratch DIR | --overwrite DISK [NO-POLL-DISK [BAD-DISK]]\n", argv[0]);
		return false;
	}
	return true;
}

#endif
