// SPDX-License-Identifier: MIT
/*
 * For sqlite-suite.sh: the function that SQLite calls when it starts (SQLITE_EXTRA_INIT). The
 * extension is linked in, and with TEST_VFS=aps its VFS is the default one.
 */
#include <stdlib.h>
#include <string.h>
#include <sqlite3.h>

struct sqlite3_api_routines;
int sqlite3_apssqlite_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api);
int aps_sqlite_start(const char *unused);

int aps_sqlite_start(const char *unused)
{
	const char *vfs = getenv("TEST_VFS");
	int err = sqlite3_apssqlite_init(NULL, NULL, NULL);

	(void)unused;
	if (err && err != SQLITE_OK_LOAD_PERMANENTLY)
		return err;
	return vfs && !strcmp(vfs, "aps") ? sqlite3_vfs_register(sqlite3_vfs_find("aps"), 1) : SQLITE_OK;
}
