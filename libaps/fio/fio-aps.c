// SPDX-License-Identifier: MIT
/*
 * fio's engine: ioengine=external:PATH/fio-aps.so, direct=1. Options: mode, and
 * the policy's numbers under their names in aps.h. sched_rr gives the thread
 * that reads a real-time priority. In the mode "published" each I/O is sent to one of
 * three contexts: one that polls, and two that sleep before, for half and for most of
 * the time.
 *
 * A context counts the pollers of its own process, so jobs that are to poll
 * together should be threads of one (thread=1).
 */
#include "fio.h"
#include "optgroup.h"

#include <aps.h>

#include "published.h"

/* A mode of this engine alone, beside those of enum aps_mode: published.h. */
#define PUBLISHED 100

struct engine_options {
	void *pad; /* fio takes an offset of 0 for none */
	unsigned int mode;
	unsigned int fallback;
	unsigned int poll_margin_ppm;
	unsigned int hybrid_margin_ppm;
	unsigned int hybrid_sleep_ppm;
	unsigned int deep_sleep_ppm;
	unsigned int min_sleep_ns;
	unsigned int sched_rr;
	unsigned int show_stats;
};

/* One way to wait. There are several in PUBLISHED alone. */
struct way {
	struct aps *ctx;
	int file;
	unsigned int nr_sent;
};

struct engine {
	struct way ways[NR_PUBLISHED_WAYS];
	unsigned int nr_ways;
	struct aps_event *events;
	struct published published;
	/* Of each I/O by its index: when it was sent, 0 for one that was not; and its way. */
	unsigned long long *sent;
	unsigned char *way;
	unsigned long long nr_sent;
};

#define PPM_OPTION(field, default_value, text)				\
	{								\
		.name = #field, .lname = #field, .type = FIO_OPT_INT,	\
		.off1 = offsetof(struct engine_options, field),		\
		.help = text, .def = default_value, .minval = 0,	\
		.maxval = 1000000, .category = FIO_OPT_C_ENGINE,	\
		.group = FIO_OPT_G_INVALID,				\
	}

static struct fio_option options[] = {
	{
		.name = "mode", .lname = "mode", .type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, mode),
		.help = "How to wait for an I/O", .def = "aps",
		.posval = {
			{ .ival = "interrupt", .oval = APS_INTERRUPT, .help = "Interrupts" },
			{ .ival = "poll", .oval = APS_POLL, .help = "Spin" },
			{ .ival = "hybrid", .oval = APS_HYBRID, .help = "Sleep half, then spin" },
			{ .ival = "aps", .oval = APS_ADAPTIVE, .help = "By the CPUs' margin" },
			{ .ival = "ring-hybrid", .oval = APS_RING_HYBRID,
			  .help = "io_uring's own hybrid, Linux 6.13" },
			{ .ival = "published", .oval = PUBLISHED,
			  .help = "As the APS paper has it: the program's own use counts" },
		},
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{
		.name = "fallback", .lname = "fallback", .type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, fallback),
		.help = "Interrupts where the disk has no poll queues", .def = "0",
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	PPM_OPTION(poll_margin_ppm, "200000", "published: margin from which on to poll"),
	PPM_OPTION(hybrid_margin_ppm, "30000", "published: margin below which to sleep deep"),
	PPM_OPTION(hybrid_sleep_ppm, "500000", "Part of the mean that hybrid sleeps"),
	PPM_OPTION(deep_sleep_ppm, "900000", "Part of the mean of a deep sleep"),
	{
		.name = "min_sleep_ns", .lname = "min_sleep_ns", .type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, min_sleep_ns),
		.help = "The shortest sleep", .def = "2000", .minval = 0, .maxval = 10000000,
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{
		.name = "sched_rr", .lname = "sched_rr", .type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, sched_rr),
		.help = "Priority of SCHED_RR, 0 for the usual scheduler", .def = "0",
		.minval = 0, .maxval = 99,
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{
		.name = "show_stats", .lname = "show_stats", .type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, show_stats),
		.help = "Say at the end how I/Os were waited for", .def = "0",
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{ .name = NULL },
};

static struct io_u *engine_event(struct thread_data *td, int nr)
{
	struct engine *e = td->io_ops_data;
	struct io_u *io_u = e->events[nr].data;
	ssize_t result = e->events[nr].result;

	io_u->error = 0;
	io_u->resid = 0;
	if (result < 0)
		io_u->error = (unsigned int)-result;
	else
		io_u->resid = io_u->xfer_buflen - (size_t)result;
	return io_u;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The way to send the next I/O. */
static unsigned int choose(struct thread_data *td)
{
	const struct engine_options *eo = td->eo;
	struct engine *e = td->io_ops_data;

	if (e->nr_ways == 1)
		return 0;
	published_sample(&e->published, now_ns());
	return published_choose(&e->published, eo->poll_margin_ppm, eo->hybrid_margin_ppm);
}

/* The way of the I/O that was sent first. */
static unsigned int oldest_way(const struct thread_data *td)
{
	const struct engine *e = td->io_ops_data;
	unsigned int i, oldest = 0;

	for (i = 1; i < td->o.iodepth; i++)
		if (e->sent[i] && (!e->sent[oldest] || e->sent[i] < e->sent[oldest]))
			oldest = i;
	return e->way[oldest];
}

/* Wait on one way for min of its I/Os; nr events are there already. */
static int wait_on(struct thread_data *td, unsigned int way, int nr, unsigned int min, unsigned int max)
{
	struct engine *e = td->io_ops_data;
	int i, n = aps_wait(e->ways[way].ctx, e->events + nr, min, max - (unsigned int)nr);

	for (i = nr; i < nr + n; i++) {
		const struct io_u *io_u = e->events[i].data;

		e->sent[io_u->index] = 0;
		e->ways[way].nr_sent--;
		if (e->nr_ways > 1)
			published_done(&e->published);
	}
	return n;
}

/* What is there on any way, and then the first of the one that was sent first. */
static int wait_on_all(struct thread_data *td, unsigned int min, unsigned int max)
{
	struct engine *e = td->io_ops_data;
	unsigned int way;
	int n, nr = 0;

	for (;;) {
		for (way = 0; way < e->nr_ways && (unsigned int)nr < max; way++) {
			if (!e->ways[way].nr_sent)
				continue;
			n = wait_on(td, way, nr, 0, max);
			if (n < 0)
				return nr ? nr : n;
			nr += n;
		}
		if ((unsigned int)nr >= min)
			return nr;
		published_sample(&e->published, now_ns());
		n = wait_on(td, oldest_way(td), nr, 1, max);
		if (n < 0)
			return nr ? nr : n;
		nr += n;
	}
}

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *timeout)
{
	struct engine *e = td->io_ops_data;
	int n;

	do {
		n = e->nr_ways == 1 ? wait_on(td, 0, 0, min, max) : wait_on_all(td, min, max);
	} while (n == -EINTR && !td->terminate);
	return n == -EINTR ? 0 : n;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *e = td->io_ops_data;
	unsigned int way = choose(td);
	struct way *w = &e->ways[way];
	int err;

	fio_ro_check(td, io_u);
	switch (io_u->ddir) {
	case DDIR_READ:
		err = aps_queue_read(w->ctx, w->file, io_u->xfer_buf, io_u->xfer_buflen,
				     (off_t)io_u->offset, io_u);
		break;
	case DDIR_WRITE:
		err = aps_queue_write(w->ctx, w->file, io_u->xfer_buf, io_u->xfer_buflen,
				      (off_t)io_u->offset, io_u);
		break;
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		io_u->error = fsync(io_u->file->fd) ? errno : 0;
		return FIO_Q_COMPLETED;
	default:
		err = -EOPNOTSUPP;
		break;
	}
	if (err == -EAGAIN)
		return FIO_Q_BUSY;
	if (!err) {
		e->sent[io_u->index] = ++e->nr_sent;
		e->way[io_u->index] = (unsigned char)way;
		w->nr_sent++;
		return FIO_Q_QUEUED;
	}
	io_u->error = (unsigned int)-err;
	td_verror(td, -err, "queue");
	return FIO_Q_COMPLETED;
}

static int engine_commit(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;
	unsigned int way;

	for (way = 0; way < e->nr_ways; way++) {
		int n = aps_submit(e->ways[way].ctx);

		/* One that cannot be sent now is sent with the next wait. */
		if (n < 0 && n != -EAGAIN && n != -EBUSY)
			return -n;
	}
	return 0;
}

static int open_way(struct thread_data *td, struct fio_file *f, struct way *w, unsigned int mode,
		    unsigned int sleep_ppm)
{
	const struct engine_options *eo = td->eo;
	struct aps_options o;
	int err;

	aps_options_init(&o, sizeof(o));
	o.mode = mode;
	o.depth = td->o.iodepth;
	o.hybrid_sleep_ppm = sleep_ppm;
	o.deep_sleep_ppm = eo->deep_sleep_ppm;
	o.min_sleep_ns = eo->min_sleep_ns;
	if (eo->fallback)
		o.flags |= APS_FALLBACK;
	err = aps_open(&w->ctx, &o);
	if (err) {
		td_verror(td, -err, "aps_open");
		return -err;
	}
	w->file = aps_add_file(w->ctx, f->fd);
	if (w->file >= 0)
		return 0;
	err = -w->file;
	td_verror(td, err, "aps_add_file");
	return err;
}

static void close_ways(struct engine *e)
{
	while (e->nr_ways)
		aps_close(e->ways[--e->nr_ways].ctx);
	memset(e->ways, 0, sizeof(e->ways));
}

static int open_ways(struct thread_data *td, struct fio_file *f)
{
	const struct engine_options *eo = td->eo;
	const struct {
		unsigned int mode, sleep_ppm;
	} published[NR_PUBLISHED_WAYS] = {
		[PUBLISHED_POLL] = { APS_POLL, 0 },
		[PUBLISHED_HYBRID] = { APS_HYBRID, eo->hybrid_sleep_ppm },
		[PUBLISHED_DEEP] = { APS_HYBRID, eo->deep_sleep_ppm },
	};
	struct engine *e = td->io_ops_data;
	unsigned int i;
	int err = 0;

	if (eo->mode != PUBLISHED) {
		e->nr_ways = 1;
		err = open_way(td, f, &e->ways[0], eo->mode, eo->hybrid_sleep_ppm);
	}
	for (i = 0; eo->mode == PUBLISHED && i < NR_PUBLISHED_WAYS && !err; i++) {
		e->nr_ways++;
		err = open_way(td, f, &e->ways[i], published[i].mode, published[i].sleep_ppm);
	}
	if (err)
		close_ways(e);
	return err;
}

static int engine_open_file(struct thread_data *td, struct fio_file *f)
{
	struct engine *e = td->io_ops_data;
	int err = generic_open_file(td, f);

	/* fio opens files before there is an engine's data, to look at them. */
	if (err || !e)
		return err;
	if (e->nr_ways) {
		td_verror(td, EINVAL, "one file a job");
		return 1;
	}
	return open_ways(td, f);
}

static void show(struct thread_data *td, const struct way *w)
{
	struct aps_stats s;

	aps_get_stats(w->ctx, &s, sizeof(s));
	log_info("%s: %s: waits: %llu interrupt, %llu poll, %llu hybrid, %llu deep; sleeps: %llu, "
		 "%llu too long, late %llu ns each; margin %u ppm; %llu samples\n",
		 td->o.name, aps_mode_name((enum aps_mode)aps_file_mode(w->ctx, w->file)),
		 (unsigned long long)s.nr_waits[APS_WAIT_INTERRUPT],
		 (unsigned long long)s.nr_waits[APS_WAIT_POLL],
		 (unsigned long long)s.nr_waits[APS_WAIT_HYBRID],
		 (unsigned long long)s.nr_waits[APS_WAIT_DEEP],
		 (unsigned long long)s.nr_sleeps, (unsigned long long)s.nr_oversleeps,
		 (unsigned long long)(s.nr_sleeps ? s.late_ns / s.nr_sleeps : 0),
		 s.margin_ppm, (unsigned long long)s.nr_samples);
}

static int engine_close_file(struct thread_data *td, struct fio_file *f)
{
	const struct engine_options *eo = td->eo;
	struct engine *e = td->io_ops_data;
	unsigned int way;

	if (e) {
		for (way = 0; eo->show_stats && way < e->nr_ways; way++)
			show(td, &e->ways[way]);
		close_ways(e);
	}
	return generic_close_file(td, f);
}

static void engine_cleanup(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;

	if (!e)
		return;
	close_ways(e);
	if (e->published.stat_fd >= 0)
		close(e->published.stat_fd);
	free(e->events);
	free(e->sent);
	free(e->way);
	free(e);
	td->io_ops_data = NULL;
}

static int engine_init(struct thread_data *td)
{
	const struct engine_options *eo = td->eo;
	struct sched_param param = { .sched_priority = (int)eo->sched_rr };
	struct engine *e;
	int err;

	if (td->o.nr_files > 1) {
		td_verror(td, EINVAL, "one file a job");
		return 1;
	}
	if (eo->sched_rr) {
		err = pthread_setschedparam(pthread_self(), SCHED_RR, &param);
		if (err) {
			td_verror(td, err, "sched_rr");
			return 1;
		}
	}
	e = calloc(1, sizeof(*e));
	if (e) {
		e->published.stat_fd = -1;
		e->events = calloc(td->o.iodepth, sizeof(*e->events));
		e->sent = calloc(td->o.iodepth, sizeof(*e->sent));
		e->way = calloc(td->o.iodepth, sizeof(*e->way));
	}
	td->io_ops_data = e;
	if (!e || !e->events || !e->sent || !e->way) {
		engine_cleanup(td);
		td_verror(td, ENOMEM, "init");
		return 1;
	}
	if (eo->mode == PUBLISHED && published_open(&e->published)) {
		td_verror(td, errno, "/proc/stat");
		return 1;
	}
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "aps",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_ASYNCIO_SYNC_TRIM,
	.init = engine_init,
	.queue = engine_queue,
	.commit = engine_commit,
	.getevents = engine_getevents,
	.event = engine_event,
	.cleanup = engine_cleanup,
	.open_file = engine_open_file,
	.close_file = engine_close_file,
	.get_file_size = generic_get_file_size,
	.options = options,
	.option_struct_size = sizeof(struct engine_options),
};
