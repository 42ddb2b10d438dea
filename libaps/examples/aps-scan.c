// SPDX-License-Identifier: MIT
/*
 * aps-scan FILE...: read files from start to end with 32 reads in flight over all of them,
 * and say how many bytes there were. A page of libaps: a context, its files, its events.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <aps.h>

#define DEPTH 32
#define BYTES (64 << 10)

/* One of the reads in flight; it goes on where it is free. */
struct part {
	int file;
	void *buf;
};

static unsigned long long total;
static int next_file, nr_files;
static off_t next_offset;

/* Return: whether there was something to read. */
static int read_more(struct aps *ctx, struct part *p)
{
	if (next_file == nr_files)
		return 0;
	p->file = next_file;
	if (aps_queue_read(ctx, p->file, p->buf, BYTES, next_offset, p))
		return 0;
	next_offset += BYTES;
	return 1;
}

static int fails(const char *what, int err)
{
	fprintf(stderr, "aps-scan: %s: %s\n", what, strerror(err));
	return 1;
}

int main(int argc, char **argv)
{
	struct part parts[DEPTH];
	struct aps_event events[DEPTH];
	struct aps_options o;
	struct aps *ctx;
	int i, n, failed = 0, in_flight = 0;

	aps_options_init(&o, sizeof(o));
	o.flags = APS_FALLBACK | APS_SINGLE_THREAD; /* on any disk, in any container */
	o.depth = DEPTH;
	n = aps_open(&ctx, &o);
	if (n < 0)
		return fails("aps_open()", -n);
	for (i = 1; i < argc; i++) { /* numbers are 0, 1, 2, ... */
		int fd = open(argv[i], O_RDONLY | O_DIRECT | O_CLOEXEC);

		if (fd < 0)
			return fails(argv[i], errno);
		n = aps_add_file(ctx, fd);
		if (n < 0)
			return fails(argv[i], -n);
	}
	nr_files = argc - 1;
	for (i = 0; i < DEPTH; i++) {
		if (posix_memalign(&parts[i].buf, 4096, BYTES))
			return 1;
		in_flight += read_more(ctx, &parts[i]);
	}
	while (in_flight) {
		n = aps_wait(ctx, events, 1, DEPTH);
		if (n < 0)
			break;
		for (i = 0; i < n; i++) {
			struct part *p = events[i].data;

			in_flight--;
			if (events[i].result < 0)
				failed = fails(argv[p->file + 1], (int)-events[i].result);
			else
				total += (unsigned long long)events[i].result;
			/* A short read is the end of its file: the next one begins. */
			if (events[i].result < BYTES && p->file == next_file) {
				next_file++;
				next_offset = 0;
			}
			in_flight += read_more(ctx, p);
		}
	}
	printf("%llu bytes in %d files\n", total, nr_files);
	aps_close(ctx); /* before the memory goes: it waits for what is in flight */
	for (i = 0; i < DEPTH; i++)
		free(parts[i].buf);
	return n < 0 ? fails("aps_wait()", -n) : failed;
}
