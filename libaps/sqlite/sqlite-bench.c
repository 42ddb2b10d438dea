// SPDX-License-Identifier: MIT
/*
 * How long a read of one row takes:
 *
 *	sqlite-bench [-e EXTENSION] [-t THREADS] [-r ROWS] [-n ROUNDS] URI SECONDS
 *
 * Makes the table, if there is none, of ROWS rows of 400 bytes, about 9 to a page of 4 KiB.
 * THREADS connections then each read rows by random keys, with a page cache of 64 KiB: the
 * root of the index is in it, leaves come from the disk. Prints rows a second, and percentiles
 * of the times in microseconds, after each of ROUNDS rounds. SECONDS 0 makes the table only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sqlite3.h>

#define MAX_THREADS 256
#define US_BUCKETS 4000000	/* a tenth of a microsecond each; later ones are the last */

static const char *uri;
static long nr_rows = 100000;
static uint64_t end_ns;

struct reader {
	pthread_t thread;
	unsigned int seed;
	uint64_t nr;
	uint32_t *buckets;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(sqlite3 *db, int err, const char *what)
{
	if (err == SQLITE_OK || err == SQLITE_ROW || err == SQLITE_DONE)
		return;
	fprintf(stderr, "sqlite-bench: %s: %s\n", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(err));
	exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
	must(db, sqlite3_exec(db, sql, NULL, NULL, NULL), sql);
}

static sqlite3 *open_db(void)
{
	sqlite3 *db = NULL;

	must(db, sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
				 NULL), uri);
	sqlite3_busy_timeout(db, 60000);
	run(db, "PRAGMA cache_size = -64");
	return db;
}

static void make_table(void)
{
	sqlite3 *db = open_db();
	char sql[300];

	snprintf(sql, sizeof(sql), "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v); "
		 "WITH RECURSIVE r (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < %ld) "
		 "INSERT OR IGNORE INTO t SELECT k, zeroblob(400) FROM r WHERE NOT EXISTS (SELECT 1 FROM t)", nr_rows);
	run(db, sql);
	must(db, sqlite3_close(db), "close");
}

static void *read_rows(void *arg)
{
	struct reader *r = arg;
	sqlite3 *db = open_db();
	sqlite3_stmt *s = NULL;
	uint64_t began_ns = now_ns();

	must(db, sqlite3_prepare_v2(db, "SELECT v FROM t WHERE k = ?", -1, &s, NULL), "prepare");
	while (began_ns < end_ns) {
		uint64_t done_ns, at;

		r->seed = r->seed * 1103515245 + 12345;
		sqlite3_bind_int64(s, 1, 1 + (r->seed >> 4) % nr_rows);
		if (sqlite3_step(s) != SQLITE_ROW || sqlite3_column_bytes(s, 0) != 400) {
			fprintf(stderr, "sqlite-bench: a row is missing: %s\n", sqlite3_errmsg(db));
			exit(1);
		}
		must(db, sqlite3_reset(s), "reset");
		done_ns = now_ns();
		at = (done_ns - began_ns) / 100;
		r->buckets[at < US_BUCKETS ? at : US_BUCKETS - 1]++;
		r->nr++;
		began_ns = done_ns;
	}
	sqlite3_finalize(s);
	must(db, sqlite3_close(db), "close");
	return NULL;
}

static double percentile(const uint64_t *buckets, uint64_t nr, double part)
{
	uint64_t seen = 0;
	size_t i;

	for (i = 0; i < US_BUCKETS - 1; i++) {
		seen += buckets[i];
		if ((double)seen >= part * (double)nr)
			break;
	}
	return ((double)i + 0.5) / 10;
}

static void report(struct reader *readers, int nr_threads, double seconds)
{
	uint64_t *all = calloc(US_BUCKETS, sizeof(*all)), nr = 0;
	double sum = 0;
	size_t k;
	int i;

	if (!all)
		must(NULL, SQLITE_NOMEM, "percentiles");
	for (i = 0; i < nr_threads; i++) {
		nr += readers[i].nr;
		for (k = 0; k < US_BUCKETS; k++) {
			all[k] += readers[i].buckets[k];
			sum += ((double)k + 0.5) / 10 * readers[i].buckets[k];
		}
	}
	printf("rows/s: %.1f\nmean: %.1f us\np50: %.1f us\np99: %.1f us\np99.9: %.1f us\np99.99: %.1f us\n", (double)nr / seconds,
	       nr ? sum / (double)nr : 0, percentile(all, nr, 0.5), percentile(all, nr, 0.99), percentile(all, nr, 0.999),
	       percentile(all, nr, 0.9999));
	fflush(stdout);
	free(all);
}

static void read_for(long seconds, int nr_threads)
{
	static struct reader readers[MAX_THREADS];
	uint64_t began_ns = now_ns();
	int i;

	end_ns = began_ns + (uint64_t)seconds * 1000000000u;
	for (i = 0; i < nr_threads; i++) {
		readers[i] = (struct reader){ .seed = readers[i].seed + (unsigned int)i * 7919 + 1 };
		readers[i].buckets = calloc(US_BUCKETS, sizeof(*readers[i].buckets));
		if (!readers[i].buckets || pthread_create(&readers[i].thread, NULL, read_rows, &readers[i])) {
			fprintf(stderr, "sqlite-bench: thread %d: no memory\n", i);
			exit(1);
		}
	}
	for (i = 0; i < nr_threads; i++)
		pthread_join(readers[i].thread, NULL);
	report(readers, nr_threads, (double)(now_ns() - began_ns) / 1e9);
	for (i = 0; i < nr_threads; i++)
		free(readers[i].buckets);
}

static void load(const char *extension)
{
	sqlite3 *db = NULL;
	char *error = NULL;

	must(NULL, sqlite3_open(":memory:", &db), "SQLite");
	sqlite3_enable_load_extension(db, 1);
	if (sqlite3_load_extension(db, extension, NULL, &error)) {
		fprintf(stderr, "sqlite-bench: %s: %s\n", extension, error);
		exit(1);
	}
	sqlite3_close(db);
}

static long number(const char *text, long least, long most, const char *what)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || end == text || n < least || n > most) {
		fprintf(stderr, "sqlite-bench: %s: %s: want a number from %ld to %ld\n", what, text, least, most);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	const char *extension = NULL;
	long seconds, nr_rounds = 1;
	int option, nr_threads = 1;

	while ((option = getopt(argc, argv, "e:t:r:n:")) != -1) {
		if (option == 'e')
			extension = optarg;
		else if (option == 't')
			nr_threads = (int)number(optarg, 1, MAX_THREADS, "-t");
		else if (option == 'r')
			nr_rows = number(optarg, 1, 100000000, "-r");
		else if (option == 'n')
			nr_rounds = number(optarg, 1, 1000000, "-n");
		else
			return 2;
	}
	if (argc - optind != 2) {
		fprintf(stderr, "usage: sqlite-bench [-e EXTENSION] [-t THREADS] [-r ROWS] [-n ROUNDS] URI SECONDS\n");
		return 2;
	}
	uri = argv[optind];
	seconds = number(argv[optind + 1], 0, 1000000, "SECONDS");
	if (extension)
		load(extension);
	make_table();
	if (!seconds)
		return 0;
	while (nr_rounds--)
		read_for(seconds, nr_threads);
	return 0;
}
