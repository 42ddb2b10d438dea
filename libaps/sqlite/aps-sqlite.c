// SPDX-License-Identifier: MIT
/*
 * SQLite over libaps: an extension with a VFS that reads and writes databases as libaps
 * waits, with O_DIRECT.
 *
 *	.load /usr/lib/libaps/aps-sqlite
 *	.open file:data.db?vfs=aps
 *
 * A page of a database is read through libaps, and written likewise. All else is the work
 * of the VFS that was the default before: locks, shared memory, journals and the WAL, sizes
 * and syncs. So a database may be used through either VFS, and its files are the same.
 *
 * O_DIRECT goes past the page cache: SQLite's own cache (PRAGMA cache_size) is the only one
 * left, and is to be as large as the page cache was. There is no memory mapping.
 *
 * Parameters of the file's name: aps_mode=interrupt, poll, hybrid, aps or ring-hybrid. PRAGMA
 * aps_stats tells how a connection's pages were waited for.
 *
 * Descriptors. POSIX has a process lose all its locks of a file when it closes any
 * descriptor of that file, and SQLite's locks are of that kind. So the descriptors with
 * O_DIRECT are shared by all connections to a file and closed after the last of them. One
 * process is not to open a database through this VFS and another one at the same time.
 *
 * Threads. A connection has a context of its own, and SQLite sees to it that one thread at a
 * time uses it. A connection is not carried across fork(), as with any VFS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sqlite3ext.h>
#include <aps.h>

SQLITE_EXTENSION_INIT1

/* No disk wants more of O_DIRECT. */
#define ALIGN 4096

/* The largest page, and what its ends may lie in. */
#define BOUNCE_BYTES (65536 + 2 * ALIGN)

/* Open with O_DIRECT, once for each file; see "Descriptors". */
struct direct {
	dev_t dev;
	ino_t ino;
	int fd;
	bool writable;
	unsigned int nr_users;
	struct direct *next;
};

struct file {
	sqlite3_file base;	/* first: it is what SQLite knows */
	sqlite3_file *real;	/* behind this structure */
	struct direct *direct;	/* NULL: all is the real one's */
	struct aps *ctx;
	int number;		/* in ctx */
	unsigned char *bounce;
};

static sqlite3_vfs *real_vfs;
static struct direct *directs;
static pthread_mutex_t directs_lock = PTHREAD_MUTEX_INITIALIZER;

static struct file *file_of(sqlite3_file *base)
{
	return (struct file *)base;
}

static sqlite3_file *real_of(sqlite3_file *base)
{
	return file_of(base)->real;
}

/* The descriptor for the file of that name. Return: NULL if there can be none. */
static struct direct *get_direct(const char *name, bool writable)
{
	struct direct *d = NULL;
	struct stat st;

	pthread_mutex_lock(&directs_lock);
	if (stat(name, &st))
		goto out;
	for (d = directs; d; d = d->next)
		if (d->dev == st.st_dev && d->ino == st.st_ino && d->writable == writable)
			break;
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			goto out;
		d->fd = open(name, (writable ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
		if (d->fd < 0) { /* a file system without it; nothing was closed */
			free(d);
			d = NULL;
			goto out;
		}
		*d = (struct direct){
			.dev = st.st_dev, .ino = st.st_ino, .fd = d->fd, .writable = writable, .next = directs,
		};
		directs = d;
	}
	d->nr_users++;
out:
	pthread_mutex_unlock(&directs_lock);
	return d;
}

static unsigned int nr_users_of(const struct direct *like)
{
	unsigned int nr = 0;
	struct direct *d;

	for (d = directs; d; d = d->next)
		if (d->dev == like->dev && d->ino == like->ino)
			nr += d->nr_users;
	return nr;
}

/* Called after the real file was closed, and with it its locks. */
static void put_direct(struct direct *d)
{
	struct direct **at = &directs;
	const struct direct like = *d;

	pthread_mutex_lock(&directs_lock);
	d->nr_users--;
	while (*at && !nr_users_of(&like)) {
		struct direct *gone = *at;

		if (gone->dev != like.dev || gone->ino != like.ino) {
			at = &gone->next;
			continue;
		}
		*at = gone->next;
		close(gone->fd);
		free(gone);
	}
	pthread_mutex_unlock(&directs_lock);
}

static bool is_aligned(const void *buf, int bytes, sqlite3_int64 offset)
{
	return !(((uintptr_t)buf | (uintptr_t)bytes | (uintptr_t)offset) % ALIGN);
}

/* Blocks around a part of the file. */
struct span {
	sqlite3_int64 from;
	size_t bytes, before; /* before: bytes ahead of the part */
};

static struct span span_of(int bytes, sqlite3_int64 offset)
{
	struct span s = { .from = offset - offset % ALIGN, .before = (size_t)(offset % ALIGN) };

	s.bytes = (s.before + (size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
	return s;
}

/* Read blocks whole or up to the file's end. Return: bytes, or -errno. */
static ssize_t read_blocks(struct file *f, unsigned char *buf, size_t bytes, sqlite3_int64 from)
{
	size_t have = 0;
	ssize_t n = 1;

	while (have < bytes && n > 0 && have % ALIGN == 0) {
		n = aps_read(f->ctx, f->number, buf + have, bytes - have, from + (sqlite3_int64)have);
		if (n > 0)
			have += (size_t)n;
	}
	return n < 0 ? n : (ssize_t)have;
}

static int write_blocks(struct file *f, const unsigned char *buf, size_t bytes, sqlite3_int64 from)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = aps_write(f->ctx, f->number, buf + done, bytes - done, from + (sqlite3_int64)done);

		if (n == -ENOSPC || n == -EDQUOT)
			return SQLITE_FULL;
		if (n <= 0 || n % ALIGN)
			return SQLITE_IOERR_WRITE;
		done += (size_t)n;
	}
	return SQLITE_OK;
}

/* One part that fits into the bounce buffer. */
static int read_part(struct file *f, unsigned char *to, int bytes, sqlite3_int64 offset)
{
	struct span s = span_of(bytes, offset);
	bool direct = is_aligned(to, bytes, offset);
	unsigned char *buf = direct ? to : f->bounce;
	ssize_t n = read_blocks(f, buf, s.bytes, s.from);
	size_t have;

	if (n < 0)
		return SQLITE_IOERR_READ;
	have = (size_t)n > s.before ? (size_t)n - s.before : 0;
	if (have > (size_t)bytes)
		have = (size_t)bytes;
	if (!direct)
		memcpy(to, buf + s.before, have);
	if (have == (size_t)bytes)
		return SQLITE_OK;
	memset(to + have, 0, (size_t)bytes - have); /* SQLite counts on it */
	return SQLITE_IOERR_SHORT_READ;
}

/* Part of a block is written with what is around it. A lock of SQLite's keeps others out. */
static int write_part(struct file *f, const unsigned char *from, int bytes, sqlite3_int64 offset)
{
	struct span s = span_of(bytes, offset);
	sqlite3_int64 end = offset + bytes;
	struct stat st;
	ssize_t n;
	int err;

	if (is_aligned(from, bytes, offset))
		return write_blocks(f, from, s.bytes, s.from);
	if ((size_t)bytes != s.bytes) {
		n = read_blocks(f, f->bounce, s.bytes, s.from);
		if (n < 0 || fstat(f->direct->fd, &st))
			return SQLITE_IOERR_WRITE;
		memset(f->bounce + n, 0, s.bytes - (size_t)n);
	}
	memcpy(f->bounce + s.before, from, (size_t)bytes);
	err = write_blocks(f, f->bounce, s.bytes, s.from);
	if (err || (size_t)bytes == s.bytes)
		return err;
	/* The file ends where it did, or where the part does. */
	if (end < st.st_size)
		end = st.st_size;
	if (end < s.from + (sqlite3_int64)s.bytes && ftruncate(f->direct->fd, end))
		return SQLITE_IOERR_WRITE;
	return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *to, int bytes, sqlite3_int64 offset)
{
	struct file *f = file_of(base);
	int done, part, err = SQLITE_OK;

	if (!f->direct)
		return f->real->pMethods->xRead(f->real, to, bytes, offset);
	for (done = 0; done < bytes && (!err || err == SQLITE_IOERR_SHORT_READ); done += part) {
		part = bytes - done < 65536 ? bytes - done : 65536;
		err = read_part(f, (unsigned char *)to + done, part, offset + done);
	}
	return err;
}

static int file_write(sqlite3_file *base, const void *from, int bytes, sqlite3_int64 offset)
{
	struct file *f = file_of(base);
	int done, part, err = SQLITE_OK;

	if (!f->direct)
		return f->real->pMethods->xWrite(f->real, from, bytes, offset);
	for (done = 0; done < bytes && !err; done += part) {
		part = bytes - done < 65536 ? bytes - done : 65536;
		err = write_part(f, (const unsigned char *)from + done, part, offset + done);
	}
	return err;
}

/* The real file keeps its descriptor, and its locks, to the end. */
static int file_close(sqlite3_file *base)
{
	struct file *f = file_of(base);
	struct direct *d = f->direct;
	int err;

	aps_close(f->ctx);
	free(f->bounce);
	err = f->real->pMethods ? f->real->pMethods->xClose(f->real) : SQLITE_OK;
	f->ctx = NULL;
	f->bounce = NULL;
	f->direct = NULL;
	if (d)
		put_direct(d);
	return err;
}

static char *stats_text(const struct file *f)
{
	struct aps_stats s;

	if (!f->direct)
		return sqlite3_mprintf("not on libaps: no O_DIRECT");
	aps_get_stats(f->ctx, &s, sizeof(s));
	return sqlite3_mprintf("mode %s, backend %s, %llu reads, %llu writes, %llu errors; waits: %llu interrupt, "
			       "%llu poll, %llu hybrid, %llu deep",
			       aps_mode_name((enum aps_mode)aps_file_mode(f->ctx, f->number)),
			       s.backend == APS_BACKEND_RING ? "io_uring" : "preadv2", s.nr_reads, s.nr_writes,
			       s.nr_errors, s.nr_waits[APS_WAIT_INTERRUPT], s.nr_waits[APS_WAIT_POLL],
			       s.nr_waits[APS_WAIT_HYBRID], s.nr_waits[APS_WAIT_DEEP]);
}

static int file_control(sqlite3_file *base, int op, void *arg)
{
	struct file *f = file_of(base);
	char **pragma = arg;
	int err;

	if (op == SQLITE_FCNTL_PRAGMA && !sqlite3_stricmp(pragma[1], "aps_stats")) {
		pragma[0] = stats_text(f);
		return pragma[0] ? SQLITE_OK : SQLITE_NOMEM;
	}
	err = f->real->pMethods->xFileControl(f->real, op, arg);
	if (op == SQLITE_FCNTL_VFSNAME && !err) {
		char *real = *(char **)arg;

		*(char **)arg = sqlite3_mprintf("aps/%z", real);
	}
	return err;
}

/* No page is mapped: SQLite then reads it. */
static int file_fetch(sqlite3_file *base, sqlite3_int64 offset, int bytes, void **page)
{
	(void)base, (void)offset, (void)bytes;
	*page = NULL;
	return SQLITE_OK;
}

static int file_unfetch(sqlite3_file *base, sqlite3_int64 offset, void *page)
{
	(void)base, (void)offset, (void)page;
	return SQLITE_OK;
}

/* What the real file does as it is asked. */
#define REAL(name, params, args)					\
	static int file_##name params					\
	{								\
		sqlite3_file *real = real_of(base);			\
									\
		return real->pMethods->name args;			\
	}

REAL(xTruncate, (sqlite3_file *base, sqlite3_int64 bytes), (real, bytes))
REAL(xSync, (sqlite3_file *base, int flags), (real, flags))
REAL(xFileSize, (sqlite3_file *base, sqlite3_int64 *bytes), (real, bytes))
REAL(xLock, (sqlite3_file *base, int level), (real, level))
REAL(xUnlock, (sqlite3_file *base, int level), (real, level))
REAL(xCheckReservedLock, (sqlite3_file *base, int *is_reserved), (real, is_reserved))
REAL(xSectorSize, (sqlite3_file *base), (real))
REAL(xDeviceCharacteristics, (sqlite3_file *base), (real))
REAL(xShmMap, (sqlite3_file *base, int region, int bytes, int extends, void volatile **at),
     (real, region, bytes, extends, at))
REAL(xShmLock, (sqlite3_file *base, int offset, int nr, int flags), (real, offset, nr, flags))
REAL(xShmUnmap, (sqlite3_file *base, int deletes), (real, deletes))

static void file_xShmBarrier(sqlite3_file *base)
{
	real_of(base)->pMethods->xShmBarrier(real_of(base));
}

static const sqlite3_io_methods methods = {
	.iVersion = 3,
	.xClose = file_close, .xRead = file_read, .xWrite = file_write,
	.xTruncate = file_xTruncate, .xSync = file_xSync, .xFileSize = file_xFileSize,
	.xLock = file_xLock, .xUnlock = file_xUnlock, .xCheckReservedLock = file_xCheckReservedLock,
	.xFileControl = file_control,
	.xSectorSize = file_xSectorSize, .xDeviceCharacteristics = file_xDeviceCharacteristics,
	.xShmMap = file_xShmMap, .xShmLock = file_xShmLock, .xShmBarrier = file_xShmBarrier,
	.xShmUnmap = file_xShmUnmap, .xFetch = file_fetch, .xUnfetch = file_unfetch,
};

/* Have the file's pages go through libaps. Return: what SQLite is told. */
static int use_aps(struct file *f, const char *name, bool writable)
{
	const char *mode = sqlite3_uri_parameter(name, "aps_mode");
	struct aps_options o;
	int parsed;

	aps_options_init(&o, sizeof(o));
	o.flags = APS_FALLBACK;
	o.depth = 1;
	o.files = 1;
	if (mode) {
		parsed = aps_parse_mode(mode);
		if (parsed < 0)
			return SQLITE_CANTOPEN;
		o.mode = (uint32_t)parsed;
	}
	f->direct = get_direct(name, writable);
	if (!f->direct)
		return SQLITE_OK;
	if (posix_memalign((void **)&f->bounce, ALIGN, BOUNCE_BYTES))
		return SQLITE_NOMEM;
	if (aps_open(&f->ctx, &o))
		return SQLITE_CANTOPEN;
	f->number = aps_add_file(f->ctx, f->direct->fd);
	return f->number < 0 ? SQLITE_CANTOPEN : SQLITE_OK;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out_flags)
{
	struct file *f = file_of(base);
	int got = flags, err;

	(void)vfs;
	memset(f, 0, sizeof(*f));
	f->real = (sqlite3_file *)(f + 1);
	err = real_vfs->xOpen(real_vfs, name, f->real, flags, &got);
	if (out_flags)
		*out_flags = got;
	if (!err && name && flags & SQLITE_OPEN_MAIN_DB)
		err = use_aps(f, name, got & SQLITE_OPEN_READWRITE);
	if (err) {
		file_close(base);
		return err;
	}
	f->base.pMethods = &methods;
	return SQLITE_OK;
}


int sqlite3_apssqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *api);

__attribute__((visibility("default")))
int sqlite3_apssqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	static sqlite3_vfs aps_vfs;

	(void)db, (void)error;
	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_vfs_find("aps"))
		return SQLITE_OK_LOAD_PERMANENTLY;
	real_vfs = sqlite3_vfs_find(NULL);
	aps_vfs = *real_vfs; /* paths, time and the like are the real one's */
	aps_vfs.pNext = NULL;
	aps_vfs.zName = "aps";
	aps_vfs.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
	aps_vfs.xOpen = vfs_open;
	if (sqlite3_vfs_register(&aps_vfs, 0))
		return SQLITE_ERROR;
	return SQLITE_OK_LOAD_PERMANENTLY;
}
