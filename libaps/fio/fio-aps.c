// SPDX-License-Identifier: MIT
/*
 * fio's engine: ioengine=external:PATH/fio-aps.so, direct=1. Options: mode, and
 * the policy's numbers under their names in aps.h. sched_rr gives the thread
 * that reads a real-time priority.
 *
 * A context counts the pollers of its own process, so jobs that are to poll
 * together should be threads of one (thread=1).
 */
#include "fio.h"
#include "optgroup.h"

#include <aps.h>

struct engine_options {
	void *pad; /* fio takes an offset of 0 for none */
	unsigned int mode;
	unsigned int fallback;
	unsigned int poll_margin_ppm;
	unsigned int hybrid_margin_ppm;
	unsigned int hybrid_sleep_ppm;
	unsigned int deep_sleep_ppm;
	unsigned int sched_rr;
	unsigned int show_stats;
};

struct engine {
	struct aps *ctx;
	int file;
	struct aps_event *events;
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
		},
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{
		.name = "fallback", .lname = "fallback", .type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, fallback),
		.help = "Interrupts where the disk has no poll queues", .def = "0",
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	PPM_OPTION(poll_margin_ppm, "200000", "Margin from which on to poll"),
	PPM_OPTION(hybrid_margin_ppm, "30000", "Margin from which on to sleep half"),
	PPM_OPTION(hybrid_sleep_ppm, "500000", "Part of the mean that hybrid sleeps"),
	PPM_OPTION(deep_sleep_ppm, "900000", "Part of the mean of a deep sleep"),
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

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *timeout)
{
	struct engine *e = td->io_ops_data;
	int n;

	do {
		n = aps_wait(e->ctx, e->events, min, max);
	} while (n == -EINTR && !td->terminate);
	return n == -EINTR ? 0 : n;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *e = td->io_ops_data;
	int err;

	fio_ro_check(td, io_u);
	switch (io_u->ddir) {
	case DDIR_READ:
		err = aps_queue_read(e->ctx, e->file, io_u->xfer_buf, io_u->xfer_buflen,
				     (off_t)io_u->offset, io_u);
		break;
	case DDIR_WRITE:
		err = aps_queue_write(e->ctx, e->file, io_u->xfer_buf, io_u->xfer_buflen,
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
	if (!err)
		return FIO_Q_QUEUED;
	io_u->error = (unsigned int)-err;
	td_verror(td, -err, "queue");
	return FIO_Q_COMPLETED;
}

static int engine_commit(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;
	int n = aps_submit(e->ctx);

	/* One that cannot be sent now is sent with the next wait. */
	return n < 0 && n != -EAGAIN && n != -EBUSY ? -n : 0;
}

static int open_context(struct thread_data *td, struct fio_file *f)
{
	const struct engine_options *eo = td->eo;
	struct engine *e = td->io_ops_data;
	struct aps_options o;
	int err;

	aps_options_init(&o, sizeof(o));
	o.mode = eo->mode;
	o.depth = td->o.iodepth;
	o.poll_margin_ppm = eo->poll_margin_ppm;
	o.hybrid_margin_ppm = eo->hybrid_margin_ppm;
	o.hybrid_sleep_ppm = eo->hybrid_sleep_ppm;
	o.deep_sleep_ppm = eo->deep_sleep_ppm;
	if (eo->fallback)
		o.flags |= APS_FALLBACK;
	err = aps_open(&e->ctx, &o);
	if (err) {
		td_verror(td, -err, "aps_open");
		return -err;
	}
	e->file = aps_add_file(e->ctx, f->fd);
	if (e->file >= 0)
		return 0;
	err = -e->file;
	td_verror(td, err, "aps_add_file");
	aps_close(e->ctx);
	e->ctx = NULL;
	return err;
}

static int engine_open_file(struct thread_data *td, struct fio_file *f)
{
	struct engine *e = td->io_ops_data;
	int err = generic_open_file(td, f);

	/* fio opens files before there is an engine's data, to look at them. */
	if (err || !e)
		return err;
	if (e->ctx) {
		td_verror(td, EINVAL, "one file a job");
		return 1;
	}
	return open_context(td, f);
}

static void show(struct thread_data *td, const struct engine *e)
{
	struct aps_stats s;

	aps_get_stats(e->ctx, &s, sizeof(s));
	log_info("%s: %s: waits: %llu interrupt, %llu poll, %llu hybrid, %llu deep; sleeps: %llu, "
		 "%llu too long, late %llu ns each; margin %u ppm; %llu samples\n",
		 td->o.name, aps_mode_name((enum aps_mode)aps_file_mode(e->ctx, e->file)),
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

	if (e && e->ctx) {
		if (eo->show_stats)
			show(td, e);
		aps_close(e->ctx);
		e->ctx = NULL;
	}
	return generic_close_file(td, f);
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
	if (e)
		e->events = calloc(td->o.iodepth, sizeof(*e->events));
	if (!e || !e->events) {
		free(e);
		td_verror(td, ENOMEM, "init");
		return 1;
	}
	td->io_ops_data = e;
	return 0;
}

static void engine_cleanup(struct thread_data *td)
{
	struct engine *e = td->io_ops_data;

	if (!e)
		return;
	aps_close(e->ctx);
	free(e->events);
	free(e);
	td->io_ops_data = NULL;
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
