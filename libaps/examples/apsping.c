// SPDX-License-Identifier: MIT
/*
 * apsping: how long does a disk take to answer a read, waited for in this way?
 * In the manner of ioping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "aps.h"

#define PAGE 4096

static volatile sig_atomic_t stop;

static void on_signal(int nr)
{
	(void)nr;
	stop = 1;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static int usage(FILE *to)
{
	fprintf(to,
		"usage: apsping [-c COUNT] [-i INTERVAL_MS] [-s BYTES] [-m MODE] [-f] [-q] FILE\n"
		"Read FILE (a disk, or a file on one) at random and show how long it takes.\n"
		"  -c  reads to do (until interrupted)   -i  between them (1000; 0: none)\n"
		"  -s  bytes of one (4096)               -m  interrupt, poll, hybrid, aps, ring-hybrid (aps)\n"
		"  -f  use what there is: interrupts without poll queues, preadv2() without io_uring\n"
		"  -q  only the summary\n");
	return to == stderr ? 2 : 0;
}

static int fail(const char *what, const char *name, int err)
{
	fprintf(stderr, "apsping: %s: %s: %s%s\n", name, what, strerror(-err),
		err == -EOPNOTSUPP ? " (no poll queues? -f waits for interrupts)" : "");
	return 1;
}

static int64_t file_bytes(int fd)
{
	uint64_t bytes;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISBLK(st.st_mode))
		return st.st_size;
	return ioctl(fd, BLKGETSIZE64, &bytes) ? -errno : (int64_t)bytes;
}

/* xorshift64: the same places in every run. */
static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct times {
	uint64_t *ns;
	size_t nr, room;
};

static int add(struct times *t, uint64_t ns)
{
	if (t->nr == t->room) {
		size_t room = t->room ? 2 * t->room : 1024;
		uint64_t *more = realloc(t->ns, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->ns = more;
		t->room = room;
	}
	t->ns[t->nr++] = ns;
	return 0;
}

/* The smallest time that so many parts in a million are at most. */
static double percentile_us(const struct times *t, uint64_t ppm)
{
	size_t rank = (size_t)((t->nr * ppm + 999999) / 1000000);

	return (double)t->ns[rank ? rank - 1 : 0] / 1e3;
}

struct ping {
	const char *name;
	uint64_t count;
	unsigned long interval_ms;
	size_t bytes;
	bool quiet;
};

/* What is read. */
struct target {
	struct aps *ctx;
	int file;
};

static void summarize(const struct ping *p, const struct target *on, struct times *t, uint64_t cpu_ns)
{
	struct aps_stats s;
	uint64_t sum = 0;
	size_t i;

	if (!t->nr)
		return;
	for (i = 0; i < t->nr; i++)
		sum += t->ns[i];
	qsort(t->ns, t->nr, sizeof(*t->ns), compare);
	aps_get_stats(on->ctx, &s, sizeof(s));
	printf("\n--- %s: %zu reads of %zu bytes, %s%s ---\n", p->name, t->nr, p->bytes,
	       aps_mode_name((enum aps_mode)aps_file_mode(on->ctx, on->file)),
	       s.backend == APS_BACKEND_SYNC ? ", without io_uring" : "");
	printf("min %.1f, mean %.1f, 50%% %.1f, 99%% %.1f, 99.9%% %.1f, 99.99%% %.1f, max %.1f us\n",
	       (double)t->ns[0] / 1e3, (double)sum / (double)t->nr / 1e3, percentile_us(t, 500000),
	       percentile_us(t, 990000), percentile_us(t, 999000), percentile_us(t, 999900),
	       (double)t->ns[t->nr - 1] / 1e3);
	printf("waits: %" PRIu64 " interrupt, %" PRIu64 " poll, %" PRIu64 " hybrid, %" PRIu64 " deep; "
	       "%" PRIu64 " sleeps, %" PRIu64 " too long; margin %.2f; CPU %.1f us a read\n",
	       s.nr_waits[APS_WAIT_INTERRUPT], s.nr_waits[APS_WAIT_POLL], s.nr_waits[APS_WAIT_HYBRID],
	       s.nr_waits[APS_WAIT_DEEP], s.nr_sleeps, s.nr_oversleeps, s.margin_ppm / 1e6,
	       (double)cpu_ns / (double)t->nr / 1e3);
}

static int ping(const struct ping *p, const struct target *on, uint64_t places, struct times *t)
{
	uint64_t random = 88172645463325252ull, i;
	void *buf;

	if (posix_memalign(&buf, PAGE, p->bytes))
		return -ENOMEM;
	for (i = 0; !stop && (!p->count || i < p->count); i++) {
		off_t offset = (off_t)(next_random(&random) % places * p->bytes);
		uint64_t began_ns = now_ns();
		ssize_t n = aps_read(on->ctx, on->file, buf, p->bytes, offset);
		uint64_t ns = now_ns() - began_ns;

		if (n < 0 || add(t, ns)) {
			free(buf);
			return n < 0 ? (int)n : -ENOMEM;
		}
		if (!p->quiet)
			printf("%zd bytes from %s at %lld: %.1f us\n", n, p->name, (long long)offset,
			       (double)ns / 1e3);
		if (p->interval_ms)
			usleep((useconds_t)p->interval_ms * 1000);
	}
	free(buf);
	return 0;
}

/* A whole number in a range. */
static bool number(const char *text, unsigned long min, unsigned long max, unsigned long *to)
{
	char *end;

	errno = 0;
	*to = strtoul(text, &end, 10);
	return !errno && end != text && !*end && *text != '-' && *to >= min && *to <= max;
}

static bool take_option(int option, struct ping *p, struct aps_options *o)
{
	unsigned long n;
	int mode;

	switch (option) {
	case 'c':
		if (!number(optarg, 1, ULONG_MAX, &n))
			return false;
		p->count = n;
		return true;
	case 'i':
		return number(optarg, 0, 3600000, &p->interval_ms);
	case 's':
		if (!number(optarg, 512, 64 << 20, &n) || n % 512)
			return false;
		p->bytes = n;
		return true;
	case 'm':
		mode = aps_parse_mode(optarg);
		if (mode < 0)
			return false;
		o->mode = (uint32_t)mode;
		return true;
	case 'f':
		o->flags |= APS_FALLBACK;
		return true;
	case 'q':
		p->quiet = true;
		return true;
	default:
		return false;
	}
}

int main(int argc, char **argv)
{
	struct ping p = { .interval_ms = 1000, .bytes = PAGE };
	struct sigaction act = { .sa_handler = on_signal };
	struct times t = { 0 };
	struct aps_options o;
	struct target on = { 0 };
	uint64_t cpu_ns;
	int64_t bytes;
	int option, fd, err;

	aps_options_init(&o, sizeof(o));
	o.depth = 1;
	while ((option = getopt(argc, argv, "c:i:s:m:fqh")) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (!take_option(option, &p, &o))
			return usage(stderr);
	}
	if (optind != argc - 1)
		return usage(stderr);
	p.name = argv[optind];
	fd = open(p.name, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		return fail("open", p.name, -errno);
	bytes = file_bytes(fd);
	if (bytes < (int64_t)p.bytes)
		return fail("size", p.name, bytes < 0 ? (int)bytes : -ENODATA);
	err = aps_open(&on.ctx, &o);
	if (err)
		return fail("aps_open", p.name, err);
	on.file = aps_add_file(on.ctx, fd);
	if (on.file < 0)
		return fail("aps_add_file", p.name, on.file);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	err = ping(&p, &on, (uint64_t)bytes / p.bytes, &t);
	summarize(&p, &on, &t, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	aps_close(on.ctx);
	free(t.ns);
	close(fd);
	return err ? fail("read", p.name, err) : 0;
}
