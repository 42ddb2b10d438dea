/* SPDX-License-Identifier: MIT */
/*
 * The decision of the APS paper as published, section 4.1, to compare libaps with.
 *
 * The margin is 1 less the mean of the whole machine's utilisation now and at the last 16
 * completions. What the program itself uses counts, the spinning of its own polls as
 * well. A large margin polls, a medium one is hybrid, a small one sleeps as long as it
 * can and then polls. It is decided when an I/O is sent. The paper names no margins and
 * does not say how it reads the utilisation; this is /proc/stat.
 */
#ifndef PUBLISHED_H
#define PUBLISHED_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define PUBLISHED_COMPLETIONS 16
#define PUBLISHED_ONE 1000000u
/* /proc/stat counts in steps of 10 ms. */
#define PUBLISHED_SAMPLE_NS 20000000ull

enum published_way {
	PUBLISHED_POLL,
	PUBLISHED_HYBRID,
	PUBLISHED_DEEP,
	NR_PUBLISHED_WAYS,
};

struct published {
	int stat_fd;
	uint64_t read_ns;
	uint64_t idle_ticks, all_ticks;
	uint32_t now_ppm;
	uint32_t ppm[PUBLISHED_COMPLETIONS];
	unsigned int nr, next;
	uint64_t sum_ppm;
};

/* Count the ticks of a first line of /proc/stat. What took a tick since the last is used. */
static inline int published_ticks(struct published *p, const char *line)
{
	unsigned long long t[8] = { 0 };
	uint64_t idle, all = 0, passed;
	int i, n = sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu",
			  &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);

	if (n < 5)
		return -1;
	for (i = 0; i < n; i++)
		all += t[i];
	idle = t[3] + t[4];
	passed = all - p->all_ticks;
	if (p->all_ticks && passed)
		p->now_ppm = (uint32_t)(PUBLISHED_ONE - (idle - p->idle_ticks) * PUBLISHED_ONE / passed);
	p->idle_ticks = idle;
	p->all_ticks = all;
	return 0;
}

static inline int published_open(struct published *p)
{
	*p = (struct published){ .stat_fd = open("/proc/stat", O_RDONLY | O_CLOEXEC) };
	return p->stat_fd < 0 ? -1 : 0;
}

static inline void published_sample(struct published *p, uint64_t now_ns)
{
	char line[256];
	ssize_t n;

	if (p->read_ns && now_ns - p->read_ns < PUBLISHED_SAMPLE_NS)
		return;
	p->read_ns = now_ns;
	n = pread(p->stat_fd, line, sizeof(line) - 1, 0);
	if (n > 0) {
		line[n] = '\0';
		published_ticks(p, line);
	}
}

static inline void published_done(struct published *p)
{
	if (p->nr == PUBLISHED_COMPLETIONS)
		p->sum_ppm -= p->ppm[p->next];
	else
		p->nr++;
	p->ppm[p->next] = p->now_ppm;
	p->sum_ppm += p->now_ppm;
	p->next = (p->next + 1) % PUBLISHED_COMPLETIONS;
}

static inline uint32_t published_margin_ppm(const struct published *p)
{
	return PUBLISHED_ONE - (uint32_t)((p->sum_ppm + p->now_ppm) / (p->nr + 1));
}

static inline enum published_way published_choose(const struct published *p, uint32_t poll_ppm,
						  uint32_t hybrid_ppm)
{
	uint32_t margin_ppm = published_margin_ppm(p);

	if (margin_ppm >= poll_ppm)
		return PUBLISHED_POLL;
	return margin_ppm >= hybrid_ppm ? PUBLISHED_HYBRID : PUBLISHED_DEEP;
}

#endif
