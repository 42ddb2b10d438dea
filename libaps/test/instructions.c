// SPDX-License-Identifier: MIT
/*
 * For instructions.sh, which counts: instructions WAY NR FILE reads the first 4 KiB of FILE NR
 * times. WAY: "raw" is liburing alone, "interrupt" is aps_read() in that mode. Or without a
 * file "decide MARGIN" and "none": NR decisions as for an I/O in the mode aps, with so many ppm of
 * the CPUs in use, or the loop around them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "context.h"

static volatile uint64_t sink;

static void die(const char *what, long err)
{
	fprintf(stderr, "instructions: %s: %s\n", what, strerror((int)-err));
	exit(1);
}

static void raw(int fd, void *buf, long nr)
{
	struct iovec iov = { .iov_base = buf, .iov_len = 4096 };
	struct io_uring ring;
	int err = io_uring_queue_init(64, &ring, 0);

	if (err)
		die("io_uring", err);
	while (nr--) {
		struct io_uring_cqe *cqe;

		io_uring_prep_readv(io_uring_get_sqe(&ring), fd, &iov, 1, 0);
		err = io_uring_submit_and_wait(&ring, 1);
		if (err < 0 || io_uring_peek_cqe(&ring, &cqe) || cqe->res != 4096)
			die("read", err < 0 ? err : -EIO);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
}

static void through_aps(int fd, void *buf, long nr)
{
	struct aps_options o;
	struct aps *ctx;
	int file, err;

	aps_options_init(&o, sizeof(o));
	o.mode = APS_INTERRUPT;
	err = aps_open(&ctx, &o);
	if (err)
		die("aps_open", err);
	file = aps_add_file(ctx, fd);
	while (nr--) {
		ssize_t n = aps_read(ctx, file, buf, 4096, 0);

		if (n != 4096)
			die("aps_read", n < 0 ? n : -EIO);
	}
	aps_close(ctx);
}

static void decide(long nr, uint32_t util_ppm, bool decides)
{
	struct aps *ctx = calloc(1, sizeof(*ctx));
	struct aps_options o;
	long i;

	if (!ctx)
		die("context", -ENOMEM);
	aps_options_init(&o, sizeof(o));
	o.sample_ns = 1000000000; /* no reading in between */
	aps_policy_init(&ctx->policy, &o);
	if (aps_cpu_open(&ctx->cpu, ""))
		die("CPUs", -EIO);
	ctx->mode = APS_ADAPTIVE;
	aps_sample(ctx, 1000000000);
	ctx->cpu.load.util_ppm = util_ppm;
	for (i = 0; i < nr; i++) {
		if (decides) {
			struct aps_choice c;

			aps_sample(ctx, 1000000000 + (uint64_t)i);
			c = aps_policy_choose(&ctx->policy, APS_DIR_READ, 0, ctx->cpu.load.util_ppm, aps_need_ppm(ctx));
			sink += c.sleep_ns;
			aps_policy_time(&ctx->policy, APS_DIR_READ, 0, 10000 + (uint64_t)i % 64);
			aps_policy_load(&ctx->policy, ctx->cpu.load.util_ppm);
		}
		sink += (uint64_t)i;
	}
	aps_cpu_close(&ctx->cpu);
	free(ctx);
}

int main(int argc, char **argv)
{
	const char *way = argc == 4 ? argv[1] : "";
	long nr = argc == 4 ? atol(argv[2]) : 0;
	void *buf;
	int fd;

	if (!strcmp(way, "decide") || !strcmp(way, "none")) {
		decide(nr, (uint32_t)atol(argv[3]), *way == 'd');
		return 0;
	}
	if (strcmp(way, "raw") && strcmp(way, "interrupt")) {
		fprintf(stderr, "usage: instructions raw|interrupt NR FILE, instructions decide|none NR PPM\n");
		return 2;
	}
	fd = open(argv[3], O_RDONLY);
	if (fd < 0 || posix_memalign(&buf, 4096, 4096))
		die(argv[3], -errno);
	if (*way == 'r')
		raw(fd, buf, nr);
	else
		through_aps(fd, buf, nr);
	free(buf);
	close(fd);
	return 0;
}
