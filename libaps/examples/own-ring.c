// SPDX-License-Identifier: MIT
/*
 * own-ring FILE: a thousand reads of 4 KiB with a ring of the program's own, which
 * aps_policy.h tells how to wait. A file on a disk with poll queues would have
 * IORING_SETUP_IOPOLL here, and the rest as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <aps_policy.h>

#define NR_READS 1000
#define BYTES 4096

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Wait for the one read in the ring, and take it. Return: its result. */
static int wait_for(struct io_uring *ring, struct aps_policy *policy, struct aps_cpus *cpus,
		    struct aps_io *io)
{
	struct aps_plan plan;
	struct aps_load load;
	struct io_uring_cqe *cqe;
	int overslept = 0, result;

	for (;;) {
		aps_cpus_load(cpus, now_ns(), 1, &load);
		aps_policy_plan(policy, io, 1, &load, now_ns(), &plan);
		if (plan.sleep_until_ns) {
			sleep_until(plan.sleep_until_ns);
			overslept = !io_uring_get_events(ring) && io_uring_cq_ready(ring);
		}
		while (!io_uring_cq_ready(ring) && now_ns() < plan.poll_until_ns) {
			io_uring_get_events(ring);
			if (plan.nap_ns)
				sleep_until(now_ns() + plan.nap_ns);
		}
		if (io_uring_cq_ready(ring))
			break;
	}
	io_uring_peek_cqe(ring, &cqe);
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	aps_policy_done(policy, io, &plan, overslept, now_ns(), &load);
	return result;
}

int main(int argc, char **argv)
{
	int i, result = BYTES, fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECT) : -1;
	struct aps_policy *policy;
	struct aps_cpus *cpus;
	struct io_uring ring;
	void *buf;

	if (fd < 0 || posix_memalign(&buf, BYTES, BYTES) || io_uring_queue_init(8, &ring, 0) ||
	    aps_policy_create(&policy, NULL) || aps_cpus_open(&cpus, NULL)) {
		fprintf(stderr, "usage: own-ring FILE (one that can be read with O_DIRECT)\n");
		return 2;
	}
	for (i = 0; i < NR_READS && result == BYTES; i++) {
		struct aps_io io = { .submit_ns = now_ns(), .bytes = BYTES, .op = APS_OP_READ };

		io_uring_prep_read(io_uring_get_sqe(&ring), fd, buf, BYTES, (uint64_t)(i % 64) * BYTES);
		io_uring_submit(&ring);
		result = wait_for(&ring, policy, cpus, &io);
	}
	printf("%d reads, the last of %d bytes; a read takes %.1f us\n", i, result,
	       (double)aps_policy_expected_ns(policy, APS_OP_READ, BYTES) / 1e3);
	aps_cpus_close(cpus);
	aps_policy_free(policy);
	io_uring_queue_exit(&ring);
	free(buf);
	return result != BYTES;
}
