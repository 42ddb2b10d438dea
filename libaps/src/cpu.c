// SPDX-License-Identifier: MIT
/* See cpu.h. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cpu.h"
#include "decide.h"

/* The unit of /proc/stat is 1/100 s on every machine that has this library. */
#define USER_TICK_NS 10000000ull

/* So much of a quota counts: a process that spins through all of it is throttled by
 * what else it does. */
#define QUOTA_NUM 7
#define QUOTA_DEN 8

/* The longest file; /proc/schedstat has lines for domains of CPUs as well. */
#define TEXT_BYTES 16384
#define TEXT_BYTES_PER_CPU 2048

uint64_t aps_this_thread(void)
{
	static _Atomic uint64_t nr_threads;
	static _Thread_local uint64_t thread;

	if (!thread)
		thread = atomic_fetch_add_explicit(&nr_threads, 1, memory_order_relaxed) + 1;
	return thread;
}

uint64_t aps_process_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_below(const char *root, const char *path)
{
	char name[PATH_MAX];
	int fd;

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The file from its start, with a zero at its end. Return: bytes, or -errno. */
static ssize_t read_text(int fd, char *text, size_t bytes)
{
	size_t have = 0;
	ssize_t n;

	while (have < bytes - 1) {
		n = pread(fd, text + have, bytes - 1 - have, (off_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
	}
	text[have] = '\0';
	return (ssize_t)have;
}

static ssize_t read_file(const char *root, const char *path, char *text, size_t bytes)
{
	int fd = open_below(root, path);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read_text(fd, text, bytes);
	close(fd);
	return n;
}

/* The line that starts with key; what is after it, or NULL. */
static const char *after(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		if (*text == '\n')
			text++;
		if (!strncmp(text, key, len))
			return text + len;
	}
	return NULL;
}

static bool is_allowed(const struct aps_cpu *cpu, unsigned long nr)
{
	return nr < APS_CPU_MAX && (cpu->allowed[nr / 64] >> nr % 64 & 1);
}

/* A list such as 0-3,8. Return: 0, or -EINVAL. */
static int parse_allowed(struct aps_cpu *cpu, const char *list)
{
	memset(cpu->allowed, 0, sizeof(cpu->allowed));
	cpu->nr_cpus = 0;
	for (;;) {
		unsigned long from, to;
		char *end;

		from = to = strtoul(list, &end, 10);
		if (end == list)
			return -EINVAL;
		if (*end == '-') {
			list = end + 1;
			to = strtoul(list, &end, 10);
			if (end == list || to < from)
				return -EINVAL;
		}
		for (; from <= to && from < APS_CPU_MAX; from++) {
			cpu->allowed[from / 64] |= 1ull << from % 64;
			cpu->nr_cpus++;
		}
		if (*end != ',')
			break;
		list = end + 1;
	}
	return cpu->nr_cpus ? 0 : -EINVAL;
}

static int read_allowed(struct aps_cpu *cpu, const char *root)
{
	char text[8192];
	ssize_t n = read_file(root, "/proc/thread-self/status", text, sizeof(text));
	const char *list;

	if (n < 0)
		return (int)n;
	list = after(text, "Cpus_allowed_list:");
	if (!list)
		return -EINVAL;
	return parse_allowed(cpu, list + strspn(list, " \t"));
}

/* The next line of a CPU that is allowed, after *text; NULL if there is none. */
static const char *next_cpu(const struct aps_cpu *cpu, const char **text)
{
	for (const char *line = *text; line && *line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, "cpu", 3) || !isdigit((unsigned char)line[3]) ||
		    !is_allowed(cpu, strtoul(line + 3, NULL, 10)))
			continue;
		*text = strchr(line, '\n');
		return line;
	}
	return NULL;
}

/* Idle time of the allowed CPUs. A CPU that waits for a disk is idle. */
static int parse_idle(const struct aps_cpu *cpu, const char *text, uint64_t *idle_ns)
{
	unsigned long long idle, iowait;
	const char *line;
	uint64_t ticks = 0;

	while ((line = next_cpu(cpu, &text))) {
		if (sscanf(line, "cpu%*u %*u %*u %*u %llu %llu", &idle, &iowait) != 2)
			return -EINVAL;
		ticks += idle + iowait;
	}
	*idle_ns = ticks * USER_TICK_NS;
	return 0;
}

/* How long tasks waited for the allowed CPUs: the eighth number. */
static int parse_waits(const struct aps_cpu *cpu, const char *text, uint64_t *waited_ns)
{
	unsigned long long waited;
	const char *line;

	while ((line = next_cpu(cpu, &text))) {
		if (sscanf(line, "cpu%*u %*u %*u %*u %*u %*u %*u %*u %llu", &waited) != 1)
			return -EINVAL;
		*waited_ns += waited;
	}
	return 0;
}

/* Whether the process may use every CPU there is: then all tasks are its rivals. */
static bool may_use_all(const struct aps_cpu *cpu, const char *root)
{
	char text[1024];
	struct aps_cpu online = { 0 };

	return read_file(root, "/sys/devices/system/cpu/online", text, sizeof(text)) > 0 &&
	       !parse_allowed(&online, text) &&
	       !memcmp(online.allowed, cpu->allowed, sizeof(online.allowed));
}

/* Add the cgroup if it has a quota. Return: 0, or -errno. */
static int add_level(struct aps_cpu *cpu, const char *root, const char *group)
{
	struct aps_cpu_level *level = &cpu->levels[cpu->nr_levels];
	char path[PATH_MAX], text[128];
	unsigned long long quota, period;
	int fd;

	if (snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	/* Not there where the controller is off, and in the root. */
	if (read_file(root, path, text, sizeof(text)) < 0)
		return 0;
	if (sscanf(text, "%llu %llu", &quota, &period) != 2 || !period)
		return 0; /* "max" */
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.stat", group);
	fd = open_below(root, path);
	if (fd < 0)
		return fd;
	level->stat_fd = fd;
	level->quota_ppm = quota * APS_PPM_ONE / period;
	cpu->nr_levels++;
	return 0;
}

/* The cgroup of this process and those above it, the innermost first. */
static int find_levels(struct aps_cpu *cpu, const char *root)
{
	char text[PATH_MAX];
	const char *place;
	char *group;
	int err;

	if (read_file(root, "/proc/self/cgroup", text, sizeof(text)) < 0)
		return 0; /* a kernel without cgroups */
	place = after(text, "0::");
	if (!place)
		return 0; /* v1 only */
	group = text + (place - text);
	group[strcspn(group, "\n")] = '\0';
	while (*group == '/' && group[1] && cpu->nr_levels < APS_CPU_LEVELS) {
		err = add_level(cpu, root, group);
		if (err)
			return err;
		*strrchr(group, '/') = '\0';
	}
	return 0;
}

/* What a quota leaves of the CPUs, ppm. */
static uint64_t level_capacity_ppm(const struct aps_cpu_level *level)
{
	return level->quota_ppm * QUOTA_NUM / QUOTA_DEN;
}

/* Before anything is known of others: all CPUs, or the least quota. */
static void start_load(struct aps_cpu *cpu)
{
	unsigned int i;

	cpu->load.capacity_ppm = cpu->nr_cpus * APS_PPM_ONE;
	for (i = 0; i < cpu->nr_levels; i++) {
		uint64_t capacity_ppm = level_capacity_ppm(&cpu->levels[i]);

		if (capacity_ppm && capacity_ppm < cpu->load.capacity_ppm)
			cpu->load.capacity_ppm = capacity_ppm;
	}
}

/* Files that are there or not for all threads alike. */
static int open_shared(struct aps_cpu *cpu)
{
	int err;

	cpu->text_bytes = TEXT_BYTES + (size_t)sysconf(_SC_NPROCESSORS_CONF) * TEXT_BYTES_PER_CPU;
	cpu->text = malloc(cpu->text_bytes);
	if (!cpu->text)
		return -ENOMEM;
	cpu->stat_fd = err = open_below(cpu->root, "/proc/stat");
	if (err >= 0)
		err = find_levels(cpu, cpu->root);
	if (!err)
		cpu->waits_fd = open_below(cpu->root, "/proc/schedstat");
	return err;
}

/*
 * Make the calling thread the one that reads, whose CPUs are read already. Where its
 * files cannot be opened, no thread is seen to wait.
 */
static void settle_thread(struct aps_cpu *cpu)
{
	close_fd(&cpu->loadavg_fd);
	close_fd(&cpu->own_waits_fd);
	if (may_use_all(cpu, cpu->root))
		cpu->loadavg_fd = open_below(cpu->root, "/proc/loadavg");
	cpu->own_waits_fd = open_below(cpu->root, "/proc/thread-self/schedstat");
	cpu->thread = aps_this_thread();
}

void aps_cpu_init(struct aps_cpu *cpu)
{
	memset(cpu, 0, sizeof(*cpu));
	cpu->loadavg_fd = cpu->stat_fd = cpu->waits_fd = cpu->own_waits_fd = -1;
}

int aps_cpu_open(struct aps_cpu *cpu, const char *root)
{
	int err;

	aps_cpu_init(cpu);
	err = read_allowed(cpu, root);
	if (err)
		return err;
	cpu->root = strdup(root);
	err = cpu->root ? open_shared(cpu) : -ENOMEM;
	if (err) {
		aps_cpu_close(cpu);
		return err;
	}
	start_load(cpu);
	settle_thread(cpu);
	return 0;
}

void aps_cpu_close(struct aps_cpu *cpu)
{
	while (cpu->nr_levels)
		close_fd(&cpu->levels[--cpu->nr_levels].stat_fd);
	close_fd(&cpu->loadavg_fd);
	close_fd(&cpu->stat_fd);
	close_fd(&cpu->waits_fd);
	close_fd(&cpu->own_waits_fd);
	free(cpu->text);
	free(cpu->root);
	cpu->text = cpu->root = NULL;
}

static int read_levels(struct aps_cpu *cpu, struct aps_cpu_reading *r)
{
	char *text = cpu->text;
	unsigned int i;

	for (i = 0; i < cpu->nr_levels; i++) {
		const char *usage, *throttled;
		ssize_t n = read_text(cpu->levels[i].stat_fd, text, cpu->text_bytes);

		if (n < 0)
			return (int)n;
		usage = after(text, "usage_usec ");
		throttled = after(text, "nr_throttled ");
		if (!usage)
			return -EINVAL;
		r->usage_ns[i] = strtoull(usage, NULL, 10) * 1000;
		r->nr_throttled[i] = throttled ? strtoull(throttled, NULL, 10) : 0;
	}
	return 0;
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* A length of CPU time over one of the clock, in ppm of a CPU. */
static uint64_t cpus_ppm(uint64_t cpu_ns, uint64_t passed_ns)
{
	return (uint64_t)((unsigned __int128)cpu_ns * APS_PPM_ONE / passed_ns);
}

/* One machine or cgroup: it counts if it leaves fewer CPUs than those before. */
static void account(struct aps_cpu_load *load, uint64_t *left_ppm,
		    uint64_t capacity_ppm, uint64_t wanted)
{
	uint64_t left = since(capacity_ppm, wanted);

	if (left >= *left_ppm)
		return;
	*left_ppm = left;
	load->capacity_ppm = capacity_ppm;
	load->util_ppm = (uint32_t)(APS_PPM_ONE - left * APS_PPM_ONE / capacity_ppm);
}

/* CPUs that others wanted since then: those that were not idle, and the waiting. */
static uint64_t wanted_by_time(const struct aps_cpu *cpu, const struct aps_cpu_reading *now,
			       const struct aps_cpu_reading *then, uint64_t own_waited_ns)
{
	uint64_t passed_ns = since(now->at_ns, then->at_ns);
	uint64_t idle_ns = since(now->idle_ns, then->idle_ns);
	uint64_t own_ns = since(now->own_ns, then->own_ns);
	uint64_t waited_ns = since(since(now->all_waited_ns, then->all_waited_ns), own_waited_ns);

	return cpus_ppm(since(passed_ns * cpu->nr_cpus, idle_ns + own_ns) + waited_ns, passed_ns);
}

/*
 * Likewise, from the tasks that ran or waited to run at each reading: without the
 * one that reads, and without the part of the time that its nr_waiting - 1 siblings
 * did. Readings that are not there yet count as if no task wanted any: the parent of this
 * process may still run at the first one.
 */
static uint64_t wanted_by_tasks(const struct aps_cpu *cpu, const struct aps_cpu_reading *now,
				const struct aps_cpu_reading *then, unsigned int nr_waiting,
				uint64_t own_waited_ns)
{
	uint64_t own_ns = since(now->own_ns, then->own_ns) + own_waited_ns;
	uint64_t own_ppm = cpus_ppm(own_ns, since(now->at_ns, then->at_ns));
	uint64_t mine_ppm = APS_PPM_ONE + own_ppm * (nr_waiting - 1) / nr_waiting;
	uint64_t nr_tasks = now->nr_tasks;
	unsigned int i;

	for (i = 0; i < cpu->nr; i++)
		nr_tasks += cpu->readings[i].nr_tasks;
	return since(nr_tasks * APS_PPM_ONE, (cpu->nr + 1) * mine_ppm) / (APS_CPU_READINGS + 1);
}

/* What others wanted since then, of the machine and of each cgroup. */
static void compare(struct aps_cpu *cpu, const struct aps_cpu_reading *now,
		    const struct aps_cpu_reading *then, unsigned int nr_waiting)
{
	uint64_t passed_ns = since(now->at_ns, then->at_ns), left_ppm = UINT64_MAX;
	uint64_t own_ns = since(now->own_ns, then->own_ns);
	uint64_t own_waited_ns = nr_waiting * since(now->own_waited_ns, then->own_waited_ns);
	struct aps_cpu_load load = cpu->load;
	unsigned int i;

	if (!passed_ns)
		return;
	account(&load, &left_ppm, cpu->nr_cpus * APS_PPM_ONE, cpu->loadavg_fd >= 0 ?
		wanted_by_tasks(cpu, now, then, nr_waiting, own_waited_ns) :
		wanted_by_time(cpu, now, then, own_waited_ns));
	for (i = 0; i < cpu->nr_levels; i++) {
		uint64_t capacity_ppm = level_capacity_ppm(&cpu->levels[i]);
		uint64_t usage_ns = since(now->usage_ns[i], then->usage_ns[i]);
		uint64_t wanted_ppm = cpus_ppm(since(usage_ns, own_ns), passed_ns);

		if (now->nr_throttled[i] > then->nr_throttled[i])
			wanted_ppm = capacity_ppm;
		if (capacity_ppm)
			account(&load, &left_ppm, capacity_ppm, wanted_ppm);
	}
	cpu->load = load;
}

/* Add a reading: it is compared with the oldest there is. */
static void add(struct aps_cpu *cpu, const struct aps_cpu_reading *now, unsigned int nr_waiting)
{
	struct aps_cpu_reading *slot = &cpu->readings[cpu->next];

	if (cpu->nr)
		compare(cpu, now, cpu->nr == APS_CPU_READINGS ? slot : &cpu->readings[0], nr_waiting);
	if (cpu->nr < APS_CPU_READINGS)
		cpu->nr++;
	*slot = *now;
	cpu->next = (cpu->next + 1) % APS_CPU_READINGS;
}

static int read_own_waits(struct aps_cpu *cpu, struct aps_cpu_reading *r)
{
	unsigned long long waited;
	ssize_t n;

	if (cpu->own_waits_fd < 0)
		return 0;
	n = read_text(cpu->own_waits_fd, cpu->text, cpu->text_bytes);
	if (n < 0)
		return (int)n;
	if (sscanf(cpu->text, "%*u %llu", &waited) != 1)
		return -EINVAL;
	/* The first reading of another thread goes on from where the last one was. */
	if (cpu->own_waits_moved) {
		const unsigned int last = (cpu->next + APS_CPU_READINGS - 1) % APS_CPU_READINGS;

		cpu->own_waits_moved = false;
		cpu->own_waited_before_ns = (cpu->nr ? cpu->readings[last].own_waited_ns : 0) - waited;
	}
	r->own_waited_ns = cpu->own_waited_before_ns + waited;
	return 0;
}

/* Read on from another thread than before. */
static int move_to_thread(struct aps_cpu *cpu)
{
	struct aps_cpu allowed = { 0 };
	int err = read_allowed(&allowed, cpu->root);

	if (err)
		return err;
	if (memcmp(allowed.allowed, cpu->allowed, sizeof(allowed.allowed))) {
		memcpy(cpu->allowed, allowed.allowed, sizeof(allowed.allowed));
		cpu->nr_cpus = allowed.nr_cpus;
		cpu->nr = cpu->next = 0;
		cpu->load.util_ppm = 0;
		start_load(cpu);
	}
	settle_thread(cpu);
	cpu->own_waits_moved = true;
	return 0;
}

static int read_tasks(struct aps_cpu *cpu, struct aps_cpu_reading *r)
{
	ssize_t n = read_text(cpu->loadavg_fd, cpu->text, cpu->text_bytes);

	if (n < 0)
		return (int)n;
	return sscanf(cpu->text, "%*s %*s %*s %u/", &r->nr_tasks) == 1 ? 0 : -EINVAL;
}

static int read_times(struct aps_cpu *cpu, struct aps_cpu_reading *r)
{
	ssize_t n = read_text(cpu->stat_fd, cpu->text, cpu->text_bytes);
	int err;

	if (n < 0)
		return (int)n;
	err = parse_idle(cpu, cpu->text, &r->idle_ns);
	if (err || cpu->waits_fd < 0 || cpu->own_waits_fd < 0)
		return err;
	n = read_text(cpu->waits_fd, cpu->text, cpu->text_bytes);
	return n < 0 ? (int)n : parse_waits(cpu, cpu->text, &r->all_waited_ns);
}

int aps_cpu_read(struct aps_cpu *cpu, uint64_t now_ns, uint64_t own_ns, unsigned int nr_waiting)
{
	struct aps_cpu_reading r = { .at_ns = now_ns, .own_ns = own_ns };
	int err = cpu->thread == aps_this_thread() ? 0 : move_to_thread(cpu);

	if (!err)
		err = cpu->loadavg_fd >= 0 ? read_tasks(cpu, &r) : read_times(cpu, &r);
	if (!err)
		err = read_own_waits(cpu, &r);
	if (!err)
		err = read_levels(cpu, &r);
	if (!err)
		add(cpu, &r, nr_waiting);
	return err;
}
