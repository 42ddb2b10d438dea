/* SPDX-License-Identifier: MIT */
/*
 * libaps: wait for an ultra-low-latency disk in the way that suits the CPUs.
 *
 * A disk that answers in 10 us is read fastest by a thread that spins until the answer is
 * there. That is right while a CPU is free for it. When others want the CPU, the thread
 * that spun is preempted, and its next request waits for a time slice. libaps looks at
 * what others leave of the CPUs. While none computes it sleeps as long as it can without
 * being late, and then polls (a light sleep); it polls while there is a CPU for each thread
 * that waits; else it sleeps nearly all of the expected time (deep).
 *
 *	aps_open(&ctx, NULL);
 *	file = aps_add_file(ctx, open("/dev/nvme0n1", O_RDONLY | O_DIRECT));
 *	n = aps_read(ctx, file, buf, 4096, offset);
 *	aps_close(ctx);
 *
 * Conventions
 *
 * A context is used by one thread at a time; several threads have a context each. It has
 * as many files as wanted; each I/O names one, by the number that aps_add_file() gave it.
 * Functions return 0, a number that is not negative, or -errno; errno itself is not
 * touched. There are no threads behind the scenes. I/O allocates nothing, except that the
 * first I/O that cannot be polled in a context that polls makes a second ring. Lengths of
 * time are nanoseconds (_ns), fractions are millionths (_ppm), sizes are bytes.
 *
 * What every function with a context may return besides
 *
 * -ECHILD: the context was opened before fork(), in the parent, and is the parent's. The
 * child may only close it. -EPERM: with APS_SINGLE_THREAD, another thread uses it.
 */
#ifndef APS_H
#define APS_H

#include <sys/types.h>
#include <sys/uio.h>
#include "aps_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a context does I/O. */
enum aps_backend {
	APS_BACKEND_RING,	/* io_uring */
	APS_BACKEND_SYNC,	/* preadv2() and pwritev2(), one I/O at a time */
};

/* What the kernel's ring has; of aps_stats.features. */
enum aps_features {
	APS_HAS_COOP_TASKRUN = 1 << 0,	/* completions do not interrupt the thread */
	APS_HAS_SINGLE_ISSUER = 1 << 1,	/* with APS_SINGLE_THREAD */
	APS_HAS_DEFER_TASKRUN = 1 << 2,	/* likewise */
	APS_HAS_FILE_TABLE = 1 << 3,
};

/* What a context has done since it was opened. New members are added at the end; a program
 * passes the size that it knows. */
struct aps_stats {
	uint64_t nr_reads, nr_writes, nr_syncs;	/* completed, errors too */
	uint64_t nr_errors;		/* of those */
	uint64_t nr_waits[8];		/* by enum aps_wait_kind; the rest is room */
	uint64_t nr_sleeps;
	uint64_t slept_ns;		/* as asked for */
	uint64_t late_ns;		/* woken so much later than asked */
	/* Sleeps after which the completion was there already. */
	uint64_t nr_oversleeps;
	uint64_t spun_ns;		/* by the clock */
	uint64_t nr_samples;		/* how often utilisation was read */
	/* How often it could not be read; the policy then has the last one. */
	uint64_t nr_failed_samples;
	uint64_t nr_failed_submits;	/* the kernel took none; the I/Os stayed queued */
	uint32_t margin_ppm;		/* as of the last decision */
	uint32_t backend;		/* enum aps_backend */
	int32_t ring_error;		/* why not a ring: -errno as of aps_open() */
	uint32_t features;		/* enum aps_features */
	uint32_t nr_files;		/* added, and not removed */
	uint32_t nr_outstanding;	/* I/Os whose event was not taken */
};

/* A completed I/O. */
struct aps_event {
	void *data;	/* as queued */
	ssize_t result;	/* bytes, fewer than asked for at a file's end; 0; or -errno */
	uint64_t reserved[2];	/* 0 */
};

struct aps;

/* The version of this header, and of the library that runs. */
#define APS_VERSION_MAJOR 1
#define APS_VERSION_MINOR 0
unsigned int aps_version(void);	/* major << 16 | minor */

/*
 * Open a context. options may be NULL. -EINVAL: an option is out of range. -E2BIG: they
 * have members that this library does not know, not 0. -EOPNOTSUPP: the kernel does not
 * have APS_RING_HYBRID. -EPERM: io_uring is forbidden, -ENOSYS: likewise, or Linux is older
 * than 5.11; and APS_FALLBACK is not set. -ENOMEM, -EMFILE: as in io_uring_setup(2).
 */
int aps_open(struct aps **ctx, const struct aps_options *options);

/*
 * Send what is queued, wait for what is in flight, drop its results, and free the
 * context. What is in flight on a pipe or a socket is cancelled. After an error nothing
 * was freed, and memory of I/Os may still be written to. -EPERM: another thread uses it.
 * -EAGAIN, -ENOMEM: the kernel did not take what is queued; aps_cancel() takes it back.
 */
int aps_close(struct aps *ctx);

/*
 * Wait for what is in flight, likewise, and keep its results for aps_wait(). With APS_SINGLE_THREAD
 * the next thread that calls a function has the context from then on. A thread that ends
 * does this for the contexts that it has.
 */
int aps_detach(struct aps *ctx);

/*
 * Add a file. Return: its number. The file descriptor stays the caller's, and must stay
 * open until aps_remove_file() or aps_close(). To be polled a file needs O_DIRECT and a
 * disk with poll queues; with APS_FALLBACK others are waited for by interrupts. -EINVAL: no
 * O_DIRECT. -EOPNOTSUPP: no poll queues. -EBADF, -ENOMEM. Whether the file system can poll
 * shows with the first I/O: its result is -EOPNOTSUPP, or with APS_FALLBACK it and those
 * after it are waited for by interrupts.
 */
int aps_add_file(struct aps *ctx, int fd);

/* -EBUSY: its I/Os are outstanding. -ENOENT: there is no such file. */
int aps_remove_file(struct aps *ctx, int file);

/* How the file is waited for: the context's mode, or APS_INTERRUPT. Or -errno. */
int aps_file_mode(const struct aps *ctx, int file);

/*
 * Have the kernel keep this memory mapped, for _fixed I/O. It must live until
 * aps_unregister_buffers() or aps_close(). -EBUSY: there are some, or I/Os are
 * outstanding. -ENOMEM: more than RLIMIT_MEMLOCK. -E2BIG: one is larger than 1 GiB.
 * -EINVAL: one is empty, or there are more than 16384.
 */
int aps_register_buffers(struct aps *ctx, const struct iovec *iov, unsigned int nr);
int aps_unregister_buffers(struct aps *ctx);

/*
 * Read or write and wait for it. Return: bytes, or -errno. A signal does not interrupt
 * it: the memory is the device's until it is done. -EBUSY: queued I/Os are outstanding;
 * their events belong to aps_wait(). -ENOENT: there is no such file. An I/O that the
 * kernel did not take is taken back.
 */
ssize_t aps_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset);
ssize_t aps_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset);
ssize_t aps_readv(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset);
ssize_t aps_writev(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset);
/* buf lies in the registered buffer of that number. -EFAULT: it does not. */
ssize_t aps_read_fixed(struct aps *ctx, int file, unsigned int buffer, void *buf, size_t bytes,
		       int64_t offset);
ssize_t aps_write_fixed(struct aps *ctx, int file, unsigned int buffer, const void *buf,
			size_t bytes, int64_t offset);
int aps_fsync(struct aps *ctx, int file);
int aps_fdatasync(struct aps *ctx, int file);

/*
 * Queue an I/O; aps_submit() or aps_wait() sends it. data comes back in its event.
 * Memory, and the iovecs, must live until then. A sync covers the writes that were
 * complete when it was sent. Return: 0, or -EAGAIN when as many as options.depth are
 * outstanding.
 */
int aps_queue_read(struct aps *ctx, int file, void *buf, size_t bytes, int64_t offset, void *data);
int aps_queue_write(struct aps *ctx, int file, const void *buf, size_t bytes, int64_t offset,
		    void *data);
int aps_queue_readv(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset,
		    void *data);
int aps_queue_writev(struct aps *ctx, int file, const struct iovec *iov, int nr, int64_t offset,
		     void *data);
int aps_queue_read_fixed(struct aps *ctx, int file, unsigned int buffer, void *buf, size_t bytes,
			 int64_t offset, void *data);
int aps_queue_write_fixed(struct aps *ctx, int file, unsigned int buffer, const void *buf,
			  size_t bytes, int64_t offset, void *data);
int aps_queue_fsync(struct aps *ctx, int file, void *data);
int aps_queue_fdatasync(struct aps *ctx, int file, void *data);

/*
 * Send what is queued. Return: how many were sent, or -errno. What was not sent stays
 * queued; aps_cancel() takes it back.
 */
int aps_submit(struct aps *ctx);

/*
 * Send what is queued and wait until min I/Os are complete, or as many as are
 * outstanding if that is fewer; take up to max. Return: how many events were
 * written, or -errno. -EINTR: a signal came before any was complete. -EINVAL: min is
 * above max.
 */
int aps_wait(struct aps *ctx, struct aps_event *events, unsigned int min, unsigned int max);

/* Likewise, for no longer than that: then fewer than min are returned, perhaps none. */
int aps_wait_timeout(struct aps *ctx, struct aps_event *events, unsigned int min,
		     unsigned int max, uint64_t timeout_ns);

/*
 * Cancel the I/O that was queued with data, the oldest of several. Return: 0, and its
 * event has -ECANCELED, unless it completed at the same moment. -EALREADY: it is under
 * way and completes as it would have; all I/O of disks that was sent is.
 * -ENOENT: none with data is outstanding, or it is complete.
 */
int aps_cancel(struct aps *ctx, void *data);

/*
 * A descriptor for poll(2) and epoll(7), readable when it is time to call aps_wait(): an
 * I/O is complete, or one that is polled for is expected to be. That call may find nothing;
 * until then the descriptor stays readable. The context's own; do not read it or close it.
 */
int aps_event_fd(struct aps *ctx);

/* bytes: sizeof(struct aps_stats). */
int aps_get_stats(const struct aps *ctx, struct aps_stats *stats, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
