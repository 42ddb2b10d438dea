// SPDX-License-Identifier: MIT
/* CPU utilisation, from trees of files that stand for / . */
#include "../src/cpu.c"
#include <pthread.h>
#include <sys/stat.h>
#include "tap.h"

#define SEC 1000000000ull

static char root[64];
static unsigned int nr_waiting = 1;

static void put(const char *path, const char *text)
{
	char name[PATH_MAX];
	FILE *f;
	char *slash;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(name, 0755);
		*slash = '/';
	}
	f = fopen(name, "w");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(name);
		exit(1);
	}
}

/* How long all tasks have waited, on CPUs 0 and 3 together, and this thread has. */
static void waits(unsigned long long all_ns, unsigned long long own_ns)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "version 15\ntimestamp 4294945612\n"
		 "cpu0 0 0 0 0 0 0 7 %llu 3\ndomain0 f 1 2 3 4 5 6 7 8\n"
		 "cpu1 0 0 0 0 0 0 7 0 3\ncpu2 0 0 0 0 0 0 7 0 3\n"
		 "cpu3 0 0 0 0 0 0 7 %llu 3\n", all_ns / 2, all_ns - all_ns / 2);
	put("/proc/schedstat", text);
	snprintf(text, sizeof(text), "1000 %llu 5\n", own_ns);
	put("/proc/thread-self/schedstat", text);
}

static void no(const char *path)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s%s", root, path);
	unlink(name);
}

/* So many tasks run or wait to run, on as many CPUs as are online. */
static void tasks(const char *online, unsigned int nr)
{
	char text[64];

	put("/sys/devices/system/cpu/online", online);
	snprintf(text, sizeof(text), "0.50 17/3 0.12 %u/345 6789\n", nr);
	put("/proc/loadavg", text);
}

/* A machine of 4 CPUs; all ticks are of 10 ms. */
static void machine(const char *allowed, const unsigned int idle_ticks[4])
{
	char text[1024];

	snprintf(text, sizeof(text), "Name:\tfio\nCpus_allowed:\tf\nCpus_allowed_list:\t%s\n", allowed);
	put("/proc/thread-self/status", text);
	snprintf(text, sizeof(text),
		 "cpu  1 2 3 4 5 6 7 0 0 0\n"
		 "cpu0 10 0 10 %u 0 0 0 0 0 0\ncpu1 10 0 10 %u 0 0 0 0 0 0\n"
		 "cpu2 10 0 10 0 %u 0 0 0 0 0\ncpu3 10 0 10 %u 0 0 0 0 0 0\nintr 5 0\n",
		 idle_ticks[0], idle_ticks[1], idle_ticks[2], idle_ticks[3]);
	put("/proc/stat", text);
	waits(0, 0);
	put("/proc/self/cgroup", "0::/\n");
}

static void opened(struct aps_cpu *cpu)
{
	EXPECT_EQ(aps_cpu_open(cpu, root), 0);
}

static void reads(struct aps_cpu *cpu, uint64_t now_ns, uint64_t own_ns)
{
	EXPECT_EQ(aps_cpu_read(cpu, now_ns, own_ns, nr_waiting), 0);
}

static void idle_is_no_utilisation(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	EXPECT_EQ(cpu.nr_cpus, 4);
	reads(&cpu, 0, 0);
	EXPECT_EQ(cpu.load.util_ppm, 0); /* nothing to compare with yet */
	machine("0-3", (unsigned int[]){ 100, 100, 100, 100 });
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 0);
	EXPECT_EQ(cpu.load.capacity_ppm, 4000000);
	aps_cpu_close(&cpu);
}

static void own_time_does_not_count(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	reads(&cpu, 0, 0);
	/* Three CPUs in use, two of them by us. */
	machine("0-3", (unsigned int[]){ 100, 0, 0, 0 });
	reads(&cpu, SEC, 2 * SEC);
	EXPECT_EQ(cpu.load.util_ppm, 250000);
	aps_cpu_close(&cpu);
}

static void waiting_tells_what_others_want(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	reads(&cpu, 0, 0);
	/* 4 of us and 1 other on 4 CPUs: each runs for 0.8 s and waits for 0.2. */
	waits(SEC, SEC / 5);
	nr_waiting = 4;
	reads(&cpu, SEC, 32 * SEC / 10);
	EXPECT_EQ(cpu.load.util_ppm, 250000);
	/* More of us are said to wait than all tasks did. */
	nr_waiting = 40;
	reads(&cpu, SEC + 1, 32 * SEC / 10);
	EXPECT_BETWEEN(cpu.load.util_ppm, 199000, 201000);
	nr_waiting = 1;
	aps_cpu_close(&cpu);
}

static void those_who_only_wait_count(void)
{
	struct aps_cpu cpu;

	machine("0", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	reads(&cpu, 0, 0);
	/* We spin at a priority that lets no other task run on CPU 0. */
	waits(SEC, 0);
	reads(&cpu, SEC, SEC);
	EXPECT_EQ(cpu.load.util_ppm, 500000); /* the other half waited for CPU 3 */
	waits(4 * SEC, 0);
	reads(&cpu, 2 * SEC, 2 * SEC);
	EXPECT_EQ(cpu.load.util_ppm, 1000000);
	aps_cpu_close(&cpu);
}

static void tasks_tell_what_others_want(void)
{
	struct aps_cpu cpu;
	unsigned int i;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	tasks("0-3\n", 1);
	opened(&cpu);
	reads(&cpu, 0, 0);
	/* We alone run, and idle ticks that stand still are not looked at. */
	reads(&cpu, SEC, SEC);
	EXPECT_EQ(cpu.load.util_ppm, 0);
	/* Two others run or wait, at one of 17 readings, most of which are still to come, */
	tasks("0-3\n", 3);
	reads(&cpu, 2 * SEC, 2 * SEC);
	EXPECT_BETWEEN(cpu.load.util_ppm, 29400, 29420);
	/* then at 16, and at all of them. */
	for (i = 3; i < 18; i++)
		reads(&cpu, i * SEC, i * SEC);
	EXPECT_BETWEEN(cpu.load.util_ppm, 470500, 470600);
	reads(&cpu, i * SEC, i * SEC);
	EXPECT_EQ(cpu.load.util_ppm, 500000);
	aps_cpu_close(&cpu);
}

/* Our parent process still runs at the first reading, and is no neighbour. */
static void a_moment_at_the_start_is_little(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	tasks("0-3\n", 5);
	opened(&cpu);
	reads(&cpu, 0, 0);
	tasks("0-3\n", 1);
	reads(&cpu, SEC, SEC);
	EXPECT_BETWEEN(cpu.load.util_ppm, 58800, 58900);
	aps_cpu_close(&cpu);
}

static void siblings_are_no_others(void)
{
	struct aps_cpu cpu;
	unsigned int i;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	tasks("0-3\n", 5);
	opened(&cpu);
	nr_waiting = 4;
	reads(&cpu, 0, 0);
	/* 4 of us and 1 other: each of us runs for 0.8 s of one and waits for 0.2. */
	for (i = 1; i <= APS_CPU_READINGS; i++) {
		waits(0, i * SEC / 5);
		reads(&cpu, i * SEC, i * 32 * SEC / 10);
	}
	EXPECT_EQ(cpu.load.util_ppm, 250000);
	/* We slept but for these moments: 4 others. */
	for (; i <= 2 * APS_CPU_READINGS; i++)
		reads(&cpu, i * SEC, APS_CPU_READINGS * 32 * SEC / 10);
	EXPECT_EQ(cpu.load.util_ppm, 1000000);
	nr_waiting = 1;
	aps_cpu_close(&cpu);
}

static void tasks_of_other_cpus_are_not_counted(void)
{
	struct aps_cpu cpu;

	machine("0,2-3", (unsigned int[]){ 0, 0, 0, 0 });
	tasks("0-3\n", 9);
	opened(&cpu);
	reads(&cpu, 0, 0);
	machine("0,2-3", (unsigned int[]){ 100, 100, 100, 100 });
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 0);
	aps_cpu_close(&cpu);
	/* A torn file. */
	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	put("/proc/loadavg", "0.50 0.40\n");
	EXPECT_EQ(aps_cpu_read(&cpu, SEC, 0, 1), -EINVAL);
	aps_cpu_close(&cpu);
	/* Without it, time tells. */
	no("/proc/loadavg");
	opened(&cpu);
	reads(&cpu, 0, 0);
	machine("0-3", (unsigned int[]){ 100, 100, 0, 0 });
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 500000);
	aps_cpu_close(&cpu);
	no("/sys/devices/system/cpu/online");
}

static void only_allowed_cpus_count(void)
{
	struct aps_cpu cpu;

	machine("0,2-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	EXPECT_EQ(cpu.nr_cpus, 3);
	reads(&cpu, 0, 0);
	machine("0,2-3", (unsigned int[]){ 100, 0, 50, 0 });
	reads(&cpu, SEC, 0);
	EXPECT_BETWEEN(cpu.load.util_ppm, 499000, 501000);
	aps_cpu_close(&cpu);
}

static void quota(const char *max, unsigned long long usage_us, unsigned int throttled)
{
	char text[256];

	put("/proc/self/cgroup", "1:name=systemd:/x\n0::/shop/db\n");
	put("/sys/fs/cgroup/shop/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/shop/db/cpu.max", max);
	snprintf(text, sizeof(text),
		 "usage_usec %llu\nuser_usec 1\nsystem_usec 1\nnr_periods 9\nnr_throttled %u\n",
		 usage_us, throttled);
	put("/sys/fs/cgroup/shop/db/cpu.stat", text);
	put("/sys/fs/cgroup/shop/cpu.stat", text);
}

static void a_quota_is_the_margin(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	quota("200000 100000\n", 0, 0);
	opened(&cpu);
	EXPECT_EQ(cpu.nr_levels, 1);
	EXPECT_EQ(cpu.load.capacity_ppm, 1750000); /* before the first reading, too */
	reads(&cpu, 0, 0);
	/* The machine is idle but for this cgroup, which may use 2 CPUs, 1.75 of
	 * them count, and others in it use 0.875. */
	machine("0-3", (unsigned int[]){ 100, 100, 100, 12 });
	quota("200000 100000\n", 1375000, 0);
	reads(&cpu, SEC, SEC / 2);
	EXPECT_EQ(cpu.load.capacity_ppm, 1750000);
	EXPECT_BETWEEN(cpu.load.util_ppm, 499000, 501000);
	/* Throttled: none left. */
	quota("200000 100000\n", 1375000, 1);
	reads(&cpu, SEC + 1000, SEC / 2);
	EXPECT_EQ(cpu.load.util_ppm, 1000000);
	aps_cpu_close(&cpu);
}

static void no_quota_is_no_level(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	quota("max 100000\n", 0, 0);
	opened(&cpu);
	EXPECT_EQ(cpu.nr_levels, 0);
	aps_cpu_close(&cpu);
}

static void the_window_moves(void)
{
	struct aps_cpu cpu;
	unsigned int i;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	for (i = 0; i < 20; i++) /* busy: idle ticks stand still */
		reads(&cpu, i * SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 1000000);
	for (i = 20; i < 40; i++) {
		unsigned int idle = (i - 19) * 100;

		machine("0-3", (unsigned int[]){ idle, idle, idle, idle });
		reads(&cpu, i * SEC, 0);
	}
	EXPECT_EQ(cpu.load.util_ppm, 0);
	aps_cpu_close(&cpu);
}

/* A reading at the second so many, by another thread. */
static void *read_elsewhere(void *cpu)
{
	reads(cpu, 2 * SEC, 0);
	return NULL;
}

static void elsewhere(struct aps_cpu *cpu)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, read_elsewhere, cpu), 0);
	pthread_join(thread, NULL);
}

/* Waits of 4 CPUs' tasks, of which this thread's are none of the others'. */
static void another_thread_waits_for_itself(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	waits(0, 5 * SEC);
	opened(&cpu);
	reads(&cpu, 0, 0);
	machine("0-3", (unsigned int[]){ 100, 100, 100, 100 });
	waits(SEC, 6 * SEC); /* CPUs 1 and 2 have none */
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 0);
	/* The other thread has waited for 2 s in its life, none of it lately. */
	machine("0-3", (unsigned int[]){ 200, 200, 200, 200 });
	no("/proc/thread-self/schedstat");
	waits(3 * SEC, 2 * SEC);
	elsewhere(&cpu);
	EXPECT_EQ(cpu.load.util_ppm, 250000); /* 2 s of 8 that others waited */
	/* From then on its waits are its own. */
	machine("0-3", (unsigned int[]){ 300, 300, 300, 300 });
	waits(4 * SEC, 3 * SEC);
	cpu.thread = aps_this_thread();
	reads(&cpu, 3 * SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 166667); /* 2 s of 12 */
	aps_cpu_close(&cpu);
}

static void another_thread_has_its_own_cpus(void)
{
	struct aps_cpu cpu;

	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	opened(&cpu);
	reads(&cpu, 0, 0);
	machine("0-3", (unsigned int[]){ 0, 100, 100, 100 });
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 250000);
	/* CPUs 0 and 3; what was read of four says nothing of two. */
	machine("0,3", (unsigned int[]){ 0, 200, 200, 200 });
	elsewhere(&cpu);
	EXPECT_EQ(cpu.nr_cpus, 2);
	EXPECT_EQ(cpu.load.util_ppm, 0);
	EXPECT_EQ(cpu.load.capacity_ppm, 2000000);
	EXPECT_EQ(aps_cpu_need_ppm(&cpu, 1), 500000);
	aps_cpu_close(&cpu);
}

static void *open_real(void *cpu)
{
	EXPECT_EQ(aps_cpu_open(cpu, ""), 0);
	return NULL;
}

static void the_thread_that_opened_may_end(void)
{
	struct aps_cpu cpu;
	pthread_t thread;

	/* The files of a real thread, which are gone with it. */
	memset(&cpu, 0, sizeof(cpu));
	EXPECT_EQ(pthread_create(&thread, NULL, open_real, &cpu), 0);
	pthread_join(thread, NULL);
	EXPECT_EQ(aps_cpu_read(&cpu, 0, 0, 1), 0);
	EXPECT_EQ(aps_cpu_read(&cpu, SEC, 0, 1), 0);
	EXPECT_EQ(cpu.nr, 2);
	aps_cpu_close(&cpu);
}

static void what_is_missing_is_an_error(void)
{
	struct aps_cpu cpu;

	EXPECT_EQ(aps_cpu_open(&cpu, "/nonexistent"), -ENOENT);
	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	put("/proc/thread-self/status", "Name:\tfio\n");
	EXPECT_EQ(aps_cpu_open(&cpu, root), -EINVAL);
	machine("3-1", (unsigned int[]){ 0, 0, 0, 0 });
	EXPECT_EQ(aps_cpu_open(&cpu, root), -EINVAL);
	/* Without schedstat aps sees no task wait. */
	machine("0-3", (unsigned int[]){ 0, 0, 0, 0 });
	no("/proc/schedstat");
	opened(&cpu);
	reads(&cpu, 0, 0);
	machine("0-3", (unsigned int[]){ 100, 100, 0, 0 });
	waits(SEC, 0);
	reads(&cpu, SEC, 0);
	EXPECT_EQ(cpu.load.util_ppm, 500000);
	/* A torn file. */
	put("/proc/stat", "cpu  1 2\ncpu0 1 2\n");
	EXPECT_EQ(aps_cpu_read(&cpu, 2 * SEC, 0, 1), -EINVAL);
	machine("0-3", (unsigned int[]){ 100, 100, 0, 0 });
	aps_cpu_close(&cpu);
	opened(&cpu);
	put("/proc/schedstat", "cpu0 1 2\n");
	EXPECT_EQ(aps_cpu_read(&cpu, 2 * SEC, 0, 1), -EINVAL);
	aps_cpu_close(&cpu);
}

int main(void)
{
	static const struct tap_test tests[] = {
		TEST(idle_is_no_utilisation),
		TEST(own_time_does_not_count),
		TEST(waiting_tells_what_others_want),
		TEST(those_who_only_wait_count),
		TEST(tasks_tell_what_others_want),
		TEST(a_moment_at_the_start_is_little),
		TEST(siblings_are_no_others),
		TEST(tasks_of_other_cpus_are_not_counted),
		TEST(only_allowed_cpus_count),
		TEST(a_quota_is_the_margin),
		TEST(no_quota_is_no_level),
		TEST(the_window_moves),
		TEST(another_thread_waits_for_itself),
		TEST(another_thread_has_its_own_cpus),
		TEST(the_thread_that_opened_may_end),
		TEST(what_is_missing_is_an_error),
	};
	char command[128];
	int status;

	snprintf(root, sizeof(root), "/tmp/aps-cpu-test-XXXXXX");
	if (!mkdtemp(root)) {
		perror(root);
		return 1;
	}
	status = run_tests(tests, sizeof(tests) / sizeof(tests[0]));
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) ? 1 : status;
}
