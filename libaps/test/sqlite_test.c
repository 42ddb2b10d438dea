// SPDX-License-Identifier: MIT
/*
 * SQLite through the extension: sqlite-test EXTENSION DIR. The databases are made in DIR and
 * removed. What one VFS writes the other reads, page sizes and journals of every kind,
 * connections in threads, and processes that are killed. Prints TAP.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sqlite3.h>
#include "tap.h"

static const char *extension;
static char dir[256];

static void must(sqlite3 *db, int err, const char *what)
{
	if (err == SQLITE_OK || err == SQLITE_ROW || err == SQLITE_DONE)
		return;
	printf("# %s: %s\n", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(err));
	fflush(stdout);
	_exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
	must(db, sqlite3_exec(db, sql, NULL, NULL, NULL), sql);
}

static sqlite3 *open_db(const char *name, const char *parameters)
{
	sqlite3 *db = NULL;
	char uri[600];

	snprintf(uri, sizeof(uri), "file:%s/%s%s", dir, name, parameters);
	must(db, sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI |
				 SQLITE_OPEN_NOMUTEX, NULL), uri);
	sqlite3_busy_timeout(db, 60000);
	return db;
}

/* The first column of the first row, or "". It is the caller's to free. */
static char *ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = NULL;
	char *text;

	must(db, sqlite3_prepare_v2(db, sql, -1, &s, NULL), sql);
	must(db, sqlite3_step(s), sql);
	text = strdup(sqlite3_data_count(s) && sqlite3_column_text(s, 0) ? (const char *)sqlite3_column_text(s, 0) : "");
	sqlite3_finalize(s);
	return text;
}

static void expect_answer(sqlite3 *db, const char *sql, const char *want)
{
	char *got = ask(db, sql);

	if (strcmp(got, want)) {
		printf("# %s: %s, want %s\n", sql, got, want);
		tap_failed = true;
	}
	free(got);
}

static void remove_db(const char *name)
{
	static const char *const ends[] = { "", "-journal", "-wal", "-shm" };
	char path[600];
	size_t i;

	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", dir, name, ends[i]);
		unlink(path);
	}
}

/* Rows of every size, changed and deleted in an order that the seed decides. */
static void work_on(sqlite3 *db, unsigned int seed)
{
	char sql[256];
	int i;

	run(db, "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB, x TEXT); CREATE INDEX IF NOT EXISTS tx ON t (x)");
	for (i = 0; i < 400; i++) {
		unsigned int k, bytes;

		seed = seed * 1103515245 + 12345;
		k = seed >> 8 & 127;
		bytes = seed >> 16 & 8191;
		if (i % 20 == 0)
			run(db, "BEGIN");
		if (seed >> 30 == 0)
			snprintf(sql, sizeof(sql), "DELETE FROM t WHERE k = %u", k);
		else
			snprintf(sql, sizeof(sql), "REPLACE INTO t VALUES (%u, zeroblob(%u) || '%u', hex(%u * 7919))", k, bytes, seed, seed >> 4);
		run(db, sql);
		if (i % 20 == 19)
			run(db, seed >> 12 & 7 ? "COMMIT" : "ROLLBACK");
	}
	run(db, "DELETE FROM t WHERE k % 3 = 0; VACUUM");
}

#define DIGEST "SELECT count(*) || ' ' || sum(length(v)) || ' ' || group_concat(x || length(v) || hex(substr(v, -8))) FROM (SELECT * FROM t ORDER BY k)"

static long long size_of(const char *name)
{
	struct stat st = { .st_size = -1 };
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	stat(path, &st);
	return st.st_size;
}

static void every_page_size_and_journal_has_the_same_content(void)
{
	static const char *const journals[] = { "delete", "truncate", "wal", "memory" };
	static const int pages[] = { 512, 1024, 4096, 65536 };
	size_t i, k;

	for (i = 0; i < 4; i++)
		for (k = 0; k < 4; k++) {
			sqlite3 *a = open_db("a", "?vfs=aps"), *b = open_db("b", "");
			char sql[128], *want;

			snprintf(sql, sizeof(sql), "PRAGMA page_size = %d; PRAGMA journal_mode = %s; PRAGMA cache_size = 8; PRAGMA synchronous = off",
				 pages[i], journals[k]);
			run(a, sql);
			run(b, sql);
			work_on(a, (unsigned int)(i * 4 + k));
			work_on(b, (unsigned int)(i * 4 + k));
			want = ask(b, DIGEST);
			expect_answer(a, DIGEST, want);
			sqlite3_close(a);
			sqlite3_close(b);
			EXPECT_EQ(size_of("a"), size_of("b"));
			/* Each reads, and goes on with, what the other wrote. */
			a = open_db("a", "");
			b = open_db("b", "?vfs=aps&aps_mode=interrupt");
			run(a, "PRAGMA synchronous = off");
			run(b, "PRAGMA synchronous = off");
			expect_answer(a, "PRAGMA integrity_check", "ok");
			expect_answer(b, "PRAGMA integrity_check", "ok");
			expect_answer(a, DIGEST, want);
			expect_answer(b, DIGEST, want);
			free(want);
			work_on(a, 99);
			work_on(b, 99);
			want = ask(a, DIGEST);
			expect_answer(b, DIGEST, want);
			expect_answer(b, "PRAGMA integrity_check", "ok");
			free(want);
			sqlite3_close(a);
			sqlite3_close(b);
			remove_db("a");
			remove_db("b");
		}
}

static void pages_go_through_libaps(void)
{
	sqlite3 *db = open_db("s", "?vfs=aps"), *bad = NULL;
	unsigned long long reads = 0, writes = 0;
	char *name = NULL, *text, uri[600];

	run(db, "PRAGMA synchronous = off");
	work_on(db, 5);
	EXPECT_EQ(sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &name), SQLITE_OK);
	EXPECT(name && !strcmp(name, "aps/unix"));
	sqlite3_free(name);
	text = ask(db, "PRAGMA aps_stats");
	EXPECT_EQ(sscanf(strstr(text, "backend") ? strchr(strstr(text, "backend"), ',') : "", ", %llu reads, %llu writes", &reads, &writes), 2);
	EXPECT(reads > 0 && writes > 100);
	EXPECT(strstr(text, " 0 errors"));
	printf("# %s\n", text);
	free(text);
	sqlite3_close(db);
	snprintf(uri, sizeof(uri), "file:%s/s?vfs=aps&aps_mode=spin", dir);
	EXPECT_EQ(sqlite3_open_v2(uri, &bad, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL), SQLITE_CANTOPEN);
	sqlite3_close(bad);
	remove_db("s");
}

#define NR_THREADS 4
#define NR_COUNTS 200

static void *count(void *unused)
{
	sqlite3 *db = open_db("c", "?vfs=aps");
	int i;

	(void)unused;
	run(db, "PRAGMA synchronous = off");
	for (i = 0; i < NR_COUNTS; i++) {
		run(db, "BEGIN IMMEDIATE; UPDATE c SET n = n + 1 WHERE k = abs(random()) % 50; COMMIT");
		free(ask(db, "SELECT sum(n) FROM c"));
		/* A connection that closes keeps the locks of the others. */
		if (i % 20 == 19) {
			sqlite3_close(db);
			db = open_db("c", "?vfs=aps");
			run(db, "PRAGMA synchronous = off");
		}
	}
	sqlite3_close(db);
	return NULL;
}

static void threads_lose_no_update(void)
{
	static const char *const journals[] = { "wal", "delete" };
	size_t i, k;

	for (i = 0; i < 2; i++) {
		sqlite3 *db = open_db("c", "?vfs=aps");
		pthread_t threads[NR_THREADS];
		char sql[400], want[32];

		snprintf(sql, sizeof(sql), "PRAGMA journal_mode = %s; PRAGMA synchronous = off; CREATE TABLE c (k INTEGER PRIMARY KEY, n); "
			 "WITH RECURSIVE r(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM r WHERE k < 49) INSERT INTO c SELECT k, 0 FROM r", journals[i]);
		run(db, sql);
		for (k = 0; k < NR_THREADS; k++)
			EXPECT_EQ(pthread_create(&threads[k], NULL, count, NULL), 0);
		for (k = 0; k < NR_THREADS; k++)
			pthread_join(threads[k], NULL);
		snprintf(want, sizeof(want), "%d", NR_THREADS * NR_COUNTS);
		expect_answer(db, "SELECT sum(n) FROM c", want);
		expect_answer(db, "PRAGMA integrity_check", "ok");
		sqlite3_close(db);
		remove_db("c");
	}
}

/* Move money between accounts until killed. */
static void transfer_for_ever(void)
{
	sqlite3 *db = open_db("m", "?vfs=aps");

	run(db, "PRAGMA cache_size = 4; PRAGMA cache_spill = 1");
	for (;;)
		run(db, "BEGIN; UPDATE m SET n = n - 1, pad = randomblob(900) WHERE k = abs(random()) % 100; "
			"UPDATE m SET n = n + (10000 - (SELECT sum(n) FROM m)) WHERE k = abs(random()) % 100; COMMIT");
}

static void a_killed_process_leaves_a_whole_database(void)
{
	static const char *const journals[] = { "wal", "delete" };
	sqlite3 *db;
	int i;

	for (i = 0; i < 12; i++) {
		int status = 0;
		char sql[400];
		pid_t pid;

		db = open_db("m", "?vfs=aps");
		snprintf(sql, sizeof(sql), "PRAGMA journal_mode = %s; CREATE TABLE IF NOT EXISTS m (k INTEGER PRIMARY KEY, n, pad); "
			 "WITH RECURSIVE r(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM r WHERE k < 99) INSERT OR IGNORE INTO m SELECT k, 100, '' FROM r", journals[i % 2]);
		run(db, sql);
		sqlite3_close(db);
		fflush(stdout);
		pid = fork();
		if (!pid)
			transfer_for_ever();
		usleep(20000 + (useconds_t)i * 13000);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		db = open_db("m", i % 3 ? "?vfs=aps" : "");
		expect_answer(db, "SELECT sum(n) FROM m", "10000");
		expect_answer(db, "PRAGMA integrity_check", "ok");
		sqlite3_close(db);
	}
	remove_db("m");
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(every_page_size_and_journal_has_the_same_content),
		TEST(pages_go_through_libaps),
		TEST(threads_lose_no_update),
		TEST(a_killed_process_leaves_a_whole_database),
	};
	sqlite3 *db = NULL;
	char *error = NULL;
	int status;

	if (argc != 3) {
		fprintf(stderr, "usage: sqlite-test EXTENSION DIR\n");
		return 2;
	}
	extension = argv[1];
	snprintf(dir, sizeof(dir), "%s/sqlite.XXXXXX", argv[2]);
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	alarm(600);
	sqlite3_open(":memory:", &db);
	sqlite3_enable_load_extension(db, 1);
	if (sqlite3_load_extension(db, extension, NULL, &error)) {
		printf("# %s: %s\n", extension, error);
		return 1;
	}
	sqlite3_close(db);
	status = run_tests(tests, sizeof(tests) / sizeof(tests[0]));
	rmdir(dir);
	return status;
}
