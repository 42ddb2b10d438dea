// SPDX-License-Identifier: GPL-2.0-only
/*
 * law: compare laws of sharing on model disks.
 *
 * usage: law [--json] [--verbose] [--only TEXT] [--sched NAMES] [--seed N]
 *
 * For each case and scheduler: each container's share, the largest error of one
 * against what its weight says, the total, the most that exact shares allow, and the
 * 99th percentile of latency against depth / rate, which by Little's law is the mean.
 * --json prints a line of data for each, for the tables of docs/results/law.md.
 *
 * The bound is X(N*): what the disk does with no scheduler and N* requests outstanding,
 * N* being the least of depth / share. See docs/results/law.md.
 *
 * Unlike containers are judged by what each has against alone on a disk of its share, by
 * rate and by p99.
 *
 * It exits with 1 if "law" misses a target anywhere but where law_excuse() says why.
 */
#include <getopt.h>
#include <math.h>

#include "cases.h"

static struct {
	bool json, verbose;
	const char *only, *sched;
	u64 seed;
} law_options;

static const struct law_sched * const law_scheds[] = {
	&law_none, &law_clock, &law_full,
};

/* The disk alone, with so many requests in flight. */
struct law_alone {
	double per_s;		/* bytes */
	double tail;		/* 99th percentile against the mean */
};

static struct law_result law_result_of;

/* What each container has alone on a disk of its share. */
static struct law_reference {
	double per_s;		/* bytes */
	u64 p99_ns;
} law_own_disk[LAW_LOADS_MAX];

static u32 law_weights(const struct law_case *c)
{
	u32 i, sum = 0;

	for (i = 0; i < c->nr_loads; i++)
		if (!c->load[i].is_limited)
			sum += c->load[i].weight;
	return sum;
}

static double law_share(const struct law_case *c, u32 i)
{
	return (double)c->load[i].weight / law_weights(c);
}

static void law_find_own_disks(const struct law_case *c)
{
	static struct law_case alone;
	u32 i, sum = 0;

	for (i = 0; i < c->nr_loads; i++)
		sum += c->load[i].weight;
	for (i = 0; i < c->nr_loads; i++) {
		alone = *c;
		alone.nr_loads = 1;
		alone.load[0] = c->load[i];
		alone.share = (double)c->load[i].weight / sum;
		law_run(&alone, &law_none, &law_result_of, false);
		law_own_disk[i].per_s = law_result_of.bytes * 1e9 / law_result_of.elapsed_ns;
		law_own_disk[i].p99_ns = law_quantile_ns(&law_result_of.got[0].lat, 990);
	}
}

/* Only whole requests can be in flight. */
static struct law_alone law_measure_alone(const struct law_case *c, u32 depth)
{
	static struct law_case alone;
	struct law_alone la = {};

	alone = *c;
	alone.nr_loads = 1;
	alone.load[0] = c->load[c->nr_loads - 1];
	alone.load[0].depth = depth;
	alone.change_ns = 0;
	if (c->change_ns)
		alone.scale = c->scale2;
	law_run(&alone, &law_none, &law_result_of, false);
	la.per_s = law_result_of.bytes * 1e9 / law_result_of.elapsed_ns;
	la.tail = (double)law_quantile_ns(&law_result_of.device, 990) /
		  max(law_mean_ns(&law_result_of.device), 1ULL);
	return la;
}

/* X(N*). Not known where requests differ, as then no two see the same disk. */
static bool law_bound(const struct law_case *c, struct law_alone *bound, double *depth)
{
	double least = c->tags, all = 0;
	struct law_alone less, more;
	u32 i;

	for (i = 0; i < c->nr_loads; i++) {
		if (c->load[i].bytes != c->load[0].bytes ||
		    c->load[i].write_permille != c->load[0].write_permille)
			return false;
		all += c->load[i].depth;
		if (!c->load[i].is_limited)
			least = min(least, c->load[i].depth / law_share(c, i));
	}
	least = min(least, all);
	*depth = least;
	less = law_measure_alone(c, least);
	*bound = less;
	if (least == (u32)least)
		return true;
	more = law_measure_alone(c, (u32)least + 1);
	bound->per_s += (least - (u32)least) * (more.per_s - less.per_s);
	return true;
}

/* How far the share of a container is from its entitlement, at most; of a thousandth. */
static double law_error(const struct law_case *c, const u64 *bytes)
{
	double sum = 0, worst = 0;
	u32 i;

	for (i = 0; i < c->nr_loads; i++)
		if (!c->load[i].is_limited)
			sum += bytes[i];
	for (i = 0; i < c->nr_loads; i++) {
		double error;

		if (c->load[i].is_limited)
			continue;
		error = sum ? bytes[i] / sum / law_share(c, i) - 1 : 1;
		worst = max(worst, error < 0 ? -error : error);
	}
	return worst;
}

/* What is judged of one run. */
struct law_row {
	double error;		/* of shares, relative */
	double per_s;		/* bytes */
	double tail;		/* the worst p99 against depth / rate */
	double disk_tail;	/* of the disk alone, with as many in flight */
	double back_s;		/* until shares are right after the change; -1: not */
	double own_rate;	/* the least, and the most p99, against alone on a disk */
	double own_p99;		/* of the container's share */
	char verdict[8];	/* letters of the targets that are missed */
};

/* Targets. */
#define LAW_ERROR_MOST		0.01
#define LAW_ERROR_MOST_CPU	0.02
#define LAW_TOTAL_LEAST		0.95
#define LAW_TOTAL_LEAST_CPU	0.98	/* of what it is without a scheduler */
#define LAW_TAIL_MOST		2.0
#define LAW_TAIL_OF_DISK	1.1	/* if the disk's own is more than that */
#define LAW_BACK_MOST_S		2.0
#define LAW_OWN_LEAST		0.95	/* of unlike containers */
#define LAW_OWN_P99_MOST	1.5

/* The error over these windows. */
static double law_window_error(const struct law_case *c, const struct law_result *result,
			       u64 first, u64 end)
{
	u64 bytes[LAW_LOADS_MAX] = {};
	u32 i;

	for (; first < end; first++)
		for (i = 0; i < c->nr_loads; i++)
			bytes[i] += result->window_bytes[first][i];
	return law_error(c, bytes);
}

/* From then on a second's shares are right, and all after it. */
static double law_back_s(const struct law_case *c, const struct law_result *result)
{
	u64 change = c->change_ns / LAW_WINDOW_NS;
	u64 end = (c->warm_ns + c->run_ns) / LAW_WINDOW_NS, window;

	for (window = change; window + 2 <= end; window++)
		if (law_window_error(c, result, window, window + 2) <= 0.01 &&
		    law_window_error(c, result, window, end) <= 0.01)
			return (window - change) * (double)LAW_WINDOW_NS / 1e9;
	return -1;
}

static double law_tail(const struct law_case *c, const struct law_result *result, u32 i)
{
	const struct law_got *got = &result->got[i];
	double cycle_ns = (double)c->load[i].depth * result->elapsed_ns / max(got->nr, 1ULL);

	return law_quantile_ns(&got->lat, 990) / cycle_ns;
}

static struct law_row law_judge(const struct law_case *c, const struct law_result *result,
				double none_per_s, const struct law_alone *bound)
{
	u64 bytes[LAW_LOADS_MAX];
	struct law_row row = { .own_rate = INFINITY };
	char *end = row.verdict;
	u32 i;

	for (i = 0; i < c->nr_loads; i++) {
		bytes[i] = result->got[i].bytes;
		row.tail = max(row.tail, law_tail(c, result, i));
		row.own_rate = min(row.own_rate, result->got[i].bytes * 1e9 /
				   result->elapsed_ns / law_own_disk[i].per_s);
		row.own_p99 = max(row.own_p99, (double)law_quantile_ns(&result->got[i].lat, 990) /
				  law_own_disk[i].p99_ns);
	}
	row.error = law_error(c, bytes);
	row.per_s = result->bytes * 1e9 / result->elapsed_ns;
	if (c->change_ns)
		row.back_s = law_back_s(c, result);
	/* Where requests differ it is that of this run. */
	row.disk_tail = bound ? bound->tail :
			(double)law_quantile_ns(&result->device, 990) /
			max(law_mean_ns(&result->device), 1ULL);
	if (bound && row.tail > max(LAW_TAIL_MOST, LAW_TAIL_OF_DISK * row.disk_tail)) {
		static struct law_result kept;

		/* With fewer or more in flight than N* the disk itself is another. */
		kept = *result;
		row.disk_tail = max(row.disk_tail,
				    law_measure_alone(c, result->mean_depth + 0.5).tail);
		law_result_of = kept;
	}

	/* Where requests differ, exact bytes are nothing to be had. */
	if (c->is_unlike || (!bound && !c->cpu_ns)) {
		if (row.own_rate < LAW_OWN_LEAST)
			*end++ = 'O';
		if (row.own_p99 > LAW_OWN_P99_MOST)
			*end++ = 'P';
		return row;
	}
	if (row.error > (c->cpu_ns ? LAW_ERROR_MOST_CPU : LAW_ERROR_MOST))
		*end++ = 'E';
	if (c->cpu_ns ? row.per_s < LAW_TOTAL_LEAST_CPU * none_per_s :
	    bound && row.per_s < LAW_TOTAL_LEAST * bound->per_s)
		*end++ = 'T';
	if (row.tail > max(LAW_TAIL_MOST, LAW_TAIL_OF_DISK * row.disk_tail))
		*end++ = 'P';
	if (c->change_ns && (row.back_s < 0 || row.back_s > LAW_BACK_MOST_S))
		*end++ = 'B';
	return row;
}

/* Why "law" misses these targets in a case; NULL: it should not. */
static const char *law_excuse(const char *name, char letter)
{
	static const struct {
		const char *name, *letters, *why;
	} of[] = {
		{ "p4500 w1000 of 8", "E", "8 requests are no half of a P4500" },
		{ "hdd thinker of 6 ms", "E", "it thinks a third of its time" },
		{ "w20 thinker of 1.5 ms", "T",
		  "it takes half of its share or more, and is awaited with 45 % of it" },
		{ "p4500 one at a time", "T", "it has a disk of its own, which costs the others" },
		{ "one CPU", "TP", "cgroups take slices where the CPU is what is short" },
		{ "fixed w1000 of 8", "E",
		  "it is awaited with 7.8 requests, and once it is not, with 9.7" },
		{ "sata-ssd write 4x", "P", "collection stalls the dies" },
		{ "hdd one at a time", "EP", "after each of its requests the arm has one other" },
		{ "unlike: thinker", "OP", "its few requests come into a full disk" },
		{ "hdd", "OP", "a disk that turns serves one at a time" },
		{ "fixed", "OP", "it serves a large request in the time of a small one" },
		{ "writ", "OP", "writes stay in the disk's buffer and in collection" },
		{ "1 MiB", "OP", "large writes stand before them in the disk" },
		{ "scan", "OP", "large requests stand before them in the disk" },
		{ "unlike: mix", "OP", "large requests stand before them in the disk" },
		{ "unlike: small, big, mid", "OP", "writes take dies that reads wait for" },
		{ "emmc unlike", "OP", "it serves one at a time, and writes stall it" },
		{ "unlike: one at a time", "P", "the others' requests come into its disk" },
		{ "unlike", "P", "a tail of the disk, with more in flight" },
		{ "emmc 1 MiB write", "E", "few are counted: 0.07 % in eight times as long" },
		{ "4 KiB and 256 KiB", "OP",
		  "a small read costs this disk no more than its bytes" },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(of); i++)
		if (strstr(name, of[i].name) && strchr(of[i].letters, letter))
			return of[i].why;
	return NULL;
}

static u32 law_nr_failed;

static const char *law_why(const struct law_case *c, char letter)
{
	return law_excuse(c->name, letter) ?: "not known why; run it with --verbose --only";
}

static void law_check(const struct law_case *c, const struct law_row *row)
{
	const char *letter;

	for (letter = row->verdict; *letter; letter++) {
		law_nr_failed += !law_excuse(c->name, *letter);
		if (!law_options.json)
			fprintf(stderr, "law: %s: misses target %c: %s\n", c->name, *letter,
				law_why(c, *letter));
	}
}

static void law_print_list(const struct law_case *c, const struct law_result *result, bool shares)
{
	u32 i, nr = min(c->nr_loads, 4U);

	for (i = 0; i < nr; i++) {
		if (shares)
			printf("%s%.2f", i ? " / " : "", 100.0 * result->got[i].bytes /
			       max(result->bytes, 1ULL));
		else
			printf("%s%.3g", i ? " / " : "",
			       law_quantile_ns(&result->got[i].lat, 990) / 1e6);
	}
	if (c->nr_loads > nr)
		printf(" / ...");
}

/* The columns: what begins each, in JSON and for a reader. */
static void law_begin(const char *key, bool is_text)
{
	if (law_options.json)
		printf(is_text ? ",\"%s\":\"" : ",\"%s\":", key);
	else
		printf("  ");
}

static void law_end_text(void)
{
	if (law_options.json)
		printf("\"");
}

static void law_print_number(const char *key, int decimals, double value)
{
	law_begin(key, false);
	printf("%.*f", decimals, value);
}

static void law_print(const struct law_case *c, const char *sched, const struct law_row *row,
		      const struct law_result *result, double none_per_s,
		      const struct law_alone *bound, double depth)
{
	u32 i;

	if (law_options.json)
		printf("{\"table\":\"law\",\"disk\":\"%s\",\"case\":\"%s\",\"scheduler\":\"%s\"",
		       c->disk, c->name, sched);
	else
		printf("%-42s %-6s", c->name, sched);
	law_begin("shares", true);
	law_print_list(c, result, true);
	law_end_text();
	law_print_number("error", 2, 100 * row->error);
	law_print_number("per_s", 0, row->per_s / c->load[0].bytes);
	law_print_number("of_none", 3, row->per_s / none_per_s);
	if (bound) {
		law_print_number("n", 1, depth);
		law_print_number("of_bound", 3, row->per_s / bound->per_s);
	} else if (!law_options.json) {
		printf("  -  -");
	}
	law_begin("p99_ms", true);
	law_print_list(c, result, false);
	law_end_text();
	law_print_number("tail", 2, row->tail);
	law_print_number("disk_tail", 2, row->disk_tail);
	law_print_number("in_flight", 0, result->mean_depth);
	law_begin("own", true);
	for (i = 0; i < min(c->nr_loads, 5U); i++)
		printf("%s%.2f", i ? " / " : "", result->got[i].bytes * 1e9 /
		       result->elapsed_ns / law_own_disk[i].per_s);
	law_end_text();
	law_print_number("own_rate", 2, row->own_rate);
	law_print_number("own_p99", 2, row->own_p99);
	law_begin("missed", true);
	printf("%s", row->verdict[0] ? row->verdict : "ok");
	law_end_text();
	law_begin("note", true);
	if (c->cpu_ns)
		printf("CPU idle %.1f %%", 100 * result->cpu_free);
	if (c->change_ns && row->back_s >= 0)
		printf("back after %.1f s", row->back_s);
	law_end_text();
	if (law_options.json) {
		const char *letter = strcmp(sched, law_clock.name) ? "" : row->verdict;
		const char *last = NULL, *why;

		law_begin("why", true);
		for (; *letter; letter++, last = why) {
			why = law_why(c, *letter);
			if (why != last)
				printf("%s%s", last ? "; " : "", why);
		}
		printf("\"}");
	}
	printf("\n");
}

static void law_compare(const struct law_case *c)
{
	struct law_alone bound;
	double depth = 0, none_per_s = 0;
	bool has_bound = law_bound(c, &bound, &depth);
	u32 i;

	law_find_own_disks(c);
	for (i = 0; i < ARRAY_SIZE(law_scheds); i++) {
		const struct law_sched *sched = law_scheds[i];
		struct law_row row;

		if (law_options.sched && i && !strstr(law_options.sched, sched->name))
			continue;
		law_run(c, sched, &law_result_of, law_options.verbose);
		row = law_judge(c, &law_result_of, none_per_s, has_bound ? &bound : NULL);
		if (!i)
			none_per_s = row.per_s;
		law_print(c, sched->name, &row, &law_result_of, none_per_s,
			  has_bound ? &bound : NULL, depth);
		fflush(stdout);
		if (sched == &law_clock)
			law_check(c, &row);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "only", required_argument, NULL, 'o' },
		{ "sched", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'n' },
		{ },
	};
	struct law_cases cases;
	int option;
	u32 i;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (option) {
		case 'j':
			law_options.json = true;
			break;
		case 'v':
			law_options.verbose = true;
			break;
		case 'o':
			law_options.only = optarg;
			break;
		case 'n':
			law_options.seed = strtoull(optarg, NULL, 10);
			break;
		case 's':
			law_options.sched = optarg;
			break;
		default:
			return 2;
		}
	law_make_cases(&cases);
	if (!law_options.json)
		printf("case; scheduler; shares, %%; error, %%; requests/s; of none; N*; of X(N*); p99, ms; p99 x rate / depth; the disk's; in flight; of own disks; the least; p99 of own; missed\n");
	for (i = 0; law_options.seed && i < cases.nr; i++)
		cases.of[i].seed = law_options.seed;
	for (i = 0; i < cases.nr; i++)
		if (!law_options.only || strstr(cases.of[i].name, law_options.only))
			law_compare(&cases.of[i]);
	free(cases.of);
	free(cases.name);
	return law_nr_failed ? 1 : 0;
}
