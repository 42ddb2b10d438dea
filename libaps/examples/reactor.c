// SPDX-License-Identifier: MIT
/*
 * reactor FILE SECONDS [MODE]: polled and interrupt I/O on one disk in one event loop.
 * Reads of 4 KiB, two at a time, are waited for in that mode, or as libaps decides. Scans of
 * 64 KiB are told of by interrupts, in a context of their own. A timer stands for all else
 * that a loop has. It prints how long a read took, and how much CPU time the loop used.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <aps.h>

#define DEPTH 2
#define PLACES 64 /* of 64 KiB, at the file's start */

/* I/O of one kind: a context, and what its descriptor tells the loop of. */
struct source {
	struct aps *ctx;
	int file;
	size_t bytes;
	void *bufs[DEPTH];
	double sent_at[DEPTH];
	unsigned long nr;
	double seconds;		/* that the nr reads took */
};

static double clock_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Return: 0, or -errno. */
static int queue_one(struct source *s, unsigned int i)
{
	int64_t offset = (int64_t)((s->nr * 7 + i) % PLACES) << 16;

	s->sent_at[i] = clock_s(CLOCK_MONOTONIC);
	return aps_queue_read(s->ctx, s->file, s->bufs[i], s->bytes, offset, &s->sent_at[i]);
}

/* The loop calls it when the descriptor is readable: take what is complete, send more. */
static int on_readable(struct source *s)
{
	struct aps_event events[DEPTH];
	int i, err = 0, n = aps_wait(s->ctx, events, 0, DEPTH);

	for (i = 0; i < n && !err; i++) {
		double *sent_at = events[i].data;

		if (events[i].result < 0)
			return (int)events[i].result;
		s->seconds += clock_s(CLOCK_MONOTONIC) - *sent_at;
		s->nr++;
		err = queue_one(s, (unsigned int)(sent_at - s->sent_at));
	}
	if (n < 0 || err)
		return err ? err : n;
	return n ? aps_submit(s->ctx) : 0;
}

static int start(struct source *s, int fd, enum aps_mode mode, size_t bytes, int set)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = s };
	struct aps_options o;
	unsigned int i;
	int err;

	aps_options_init(&o, sizeof(o));
	o.mode = mode;
	o.flags = APS_FALLBACK | APS_SINGLE_THREAD;
	o.depth = DEPTH;
	s->bytes = bytes;
	err = aps_open(&s->ctx, &o);
	if (err)
		return err;
	s->file = aps_add_file(s->ctx, fd);
	if (s->file < 0)
		return s->file;
	for (i = 0; i < DEPTH && !err; i++)
		err = posix_memalign(&s->bufs[i], 4096, bytes) ? -1 : queue_one(s, i);
	if (err || epoll_ctl(set, EPOLL_CTL_ADD, aps_event_fd(s->ctx), &event))
		return err ? err : -1;
	return aps_submit(s->ctx);
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1, i, n, err = 0;
	enum aps_mode mode = argc > 3 ? (enum aps_mode)aps_parse_mode(argv[3]) : APS_ADAPTIVE;
	int set = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct epoll_event events[4], on_timer = { .events = EPOLLIN };
	struct source reads = { 0 }, scans = { 0 };
	struct itimerspec end = { 0 };

	if (fd < 0 || (int)mode < 0 || set < 0 || timer < 0) {
		fprintf(stderr, "usage: reactor FILE SECONDS [MODE] (a file that can be read with O_DIRECT)\n");
		return 2;
	}
	end.it_value.tv_sec = atoi(argv[2]);
	timerfd_settime(timer, 0, &end, NULL);
	epoll_ctl(set, EPOLL_CTL_ADD, timer, &on_timer);
	err = start(&reads, fd, mode, 4096, set);
	if (err >= 0)
		err = start(&scans, fd, APS_INTERRUPT, 65536, set);
	while (err >= 0) {
		/* A completion may interrupt it; its event follows. */
		n = epoll_wait(set, events, 4, -1);
		for (i = 0; i < n && err >= 0; i++) {
			if (!events[i].data.ptr)
				goto done;
			err = on_readable(events[i].data.ptr);
		}
	}
done:
	if (err < 0)
		fprintf(stderr, "reactor: %s: %s\n", argv[1], strerror(-err));
	else
		printf("%lu reads of %.1f us; %lu scans; %.0f %% CPU\n", reads.nr, 1e6 * reads.seconds / (double)reads.nr,
		       scans.nr, 100 * clock_s(CLOCK_PROCESS_CPUTIME_ID) / atoi(argv[2]));
	aps_close(reads.ctx);
	aps_close(scans.ctx);
	return err < 0;
}
