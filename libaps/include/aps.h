/* SPDX-License-Identifier: MIT */
/*
 * libaps: wait for an ultra-low-latency disk in the way that suits the CPUs.
 *
 * A disk that answers in 10 us is read fastest by a thread that spins until the
 * answer is there. That is right while a CPU is free for it, and wrong when
 * others want the CPU: then the thread that spun is the one that is preempted,
 * and its next request waits for a time slice. libaps looks at what others leave
 * of the CPUs, and polls, sleeps half of the expected time and then polls
 * (hybrid), or sleeps nearly all of it (deep).
 *
 * Conventions
 *
 * A context belongs to one file and is used by one thread at a time; several
 * threads have a context each. Functions return 0, a number that is not
 * negative, or -errno; errno itself is not touched. There are no threads behind
 * the scenes, and nothing is allocated after aps_open(). Lengths of time are
 * nanoseconds (_ns), fractions are millionths (_ppm), sizes are bytes.
 */
#ifndef APS_H
#define APS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a context waits. */
enum aps_mode {
	APS_INTERRUPT,	/* sleep until the device interrupts */
	APS_POLL,	/* spin */
	APS_HYBRID,	/* sleep half of the mean service time, then spin */
	APS_ADAPTIVE,	/* choose for each I/O, by the CPUs' margin */
	APS_RING_HYBRID,/* io_uring's own hybrid polling, Linux 6.13 and newer */
};

/** Ways in which one I/O is waited for; indices of aps_stats.nr_waits. */
enum aps_wait_kind {
	APS_WAIT_INTERRUPT,
	APS_WAIT_POLL,
	APS_WAIT_HYBRID,
	APS_WAIT_DEEP,
	APS_NR_WAIT_KINDS,
};

/** Flags of aps_options. */
enum aps_flags {
	/* Without poll queues, wait for interrupts and do not fail. */
	APS_FALLBACK = 1 << 0,
	/* Leave the thread's timer slack alone. A sleep is then late by up to it,
	 * 50 us unless set otherwise: more than an ultra-low-latency disk takes. */
	APS_KEEP_TIMER_SLACK = 1 << 1,
};

/** Options of a context. aps_options_init() fills in the defaults. */
struct aps_options {
	enum aps_mode mode;		/* APS_ADAPTIVE */
	unsigned int flags;		/* 0, or of aps_flags */
	/* I/Os that may be outstanding, 1..4096; 64. */
	unsigned int depth;
	/* Margin that others are to have besides while all threads here poll,
	 * 0..1000000; 200000. Half of what they use is enough if it is less. */
	uint32_t poll_margin_ppm;
	/* Margin from which on to sleep up to half and poll, where all threads fit
	 * into it, up to poll_margin_ppm; 30000. Below it, sleep deep. */
	uint32_t hybrid_margin_ppm;
	/* Part of the mean service time for which hybrid sleeps, up to 1000000;
	 * 500000. */
	uint32_t hybrid_sleep_ppm;
	/* The same for deep sleep; 900000. */
	uint32_t deep_sleep_ppm;
	/* Sleep no less, because a sleep costs about as much, and no more at once;
	 * 2000, 10000000. */
	uint32_t min_sleep_ns;
	uint32_t max_sleep_ns;
	/* How often CPU utilisation is read at most, 1000000..1000000000; 20000000. */
	uint32_t sample_ns;
	/* Directory that stands for / when /proc and /sys are read; "" is /. It must
	 * live until aps_open() returns. */
	const char *root;
};

/** What a context has done since it was opened. */
struct aps_stats {
	uint64_t nr_reads, nr_writes;	/* completed, errors too */
	uint64_t nr_errors;		/* of those */
	uint64_t nr_waits[APS_NR_WAIT_KINDS];
	uint64_t nr_sleeps;
	uint64_t slept_ns;		/* as asked for */
	uint64_t late_ns;		/* woken so much later than asked */
	/* Sleeps after which the completion was there already. */
	uint64_t nr_oversleeps;
	uint64_t spun_ns;		/* by the clock */
	uint64_t cpu_ns;		/* CPU time of the calling thread since aps_open() */
	uint64_t nr_samples;		/* how often utilisation was read */
	uint32_t margin_ppm;		/* as of the last decision */
};

/** A completed I/O. */
struct aps_event {
	void *data;	/* as queued */
	ssize_t result;	/* bytes, fewer than asked for at a file's end; or -errno */
};

struct aps;

/* The version of this header, and of the library that runs. */
#define APS_VERSION_MAJOR 0
#define APS_VERSION_MINOR 1
unsigned int aps_version(void);	/* major << 16 | minor */

void aps_options_init(struct aps_options *options);

/*
 * Open a context on a file. options may be NULL. The file descriptor stays the
 * caller's and must stay open; unless mode is APS_INTERRUPT it needs O_DIRECT.
 * -EINVAL: an option is out of range, or no O_DIRECT. -EOPNOTSUPP: the device
 * has no poll queues and APS_FALLBACK is not set, or the kernel does not have
 * APS_RING_HYBRID. -EBADF, -ENOMEM, -EMFILE, -EPERM: as in io_uring_setup(2).
 */
int aps_open(struct aps **ctx, int fd, const struct aps_options *options);

/* Wait for what is outstanding, drop its results, and free the context. */
void aps_close(struct aps *ctx);

/* How the context waits: that of its options, or APS_INTERRUPT after a fallback. */
enum aps_mode aps_mode(const struct aps *ctx);

/*
 * Read or write and wait for it. Return: bytes, or -errno. A signal does not
 * interrupt it: the memory is the device's until it is done. -EBUSY: queued I/Os
 * are outstanding; their events belong to aps_wait().
 */
ssize_t aps_read(struct aps *ctx, void *buf, size_t bytes, off_t offset);
ssize_t aps_write(struct aps *ctx, const void *buf, size_t bytes, off_t offset);
ssize_t aps_readv(struct aps *ctx, const struct iovec *iov, int nr, off_t offset);
ssize_t aps_writev(struct aps *ctx, const struct iovec *iov, int nr, off_t offset);

/*
 * Queue an I/O; aps_submit() or aps_wait() sends it. data comes back in its
 * event. Memory, and the iovecs, must live until then. Return: 0, or -EAGAIN
 * when as many as options.depth are outstanding.
 */
int aps_queue_read(struct aps *ctx, void *buf, size_t bytes, off_t offset, void *data);
int aps_queue_write(struct aps *ctx, const void *buf, size_t bytes, off_t offset, void *data);
int aps_queue_readv(struct aps *ctx, const struct iovec *iov, int nr, off_t offset, void *data);
int aps_queue_writev(struct aps *ctx, const struct iovec *iov, int nr, off_t offset, void *data);

/* Send what is queued. Return: how many were sent, or -errno. */
int aps_submit(struct aps *ctx);

/*
 * Send what is queued and wait until min I/Os are complete, or as many as are
 * outstanding if that is fewer; take up to max. Return: how many events were
 * written, or -errno. -EINTR: a signal came before min were complete; what
 * completed is taken by the next call. -EINVAL: min is above max.
 */
int aps_wait(struct aps *ctx, struct aps_event *events, unsigned int min, unsigned int max);

void aps_get_stats(const struct aps *ctx, struct aps_stats *stats);

/* "poll", and back; aps_parse_mode() returns -EINVAL for what is no mode. */
const char *aps_mode_name(enum aps_mode mode);
int aps_parse_mode(const char *name);

#ifdef __cplusplus
}
#endif
#endif
