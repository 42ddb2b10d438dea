// SPDX-License-Identifier: MIT
/*
 * fio's engine for a program that computes and reads:
 * ioengine=external:PATH/fio-compute.so. Each I/O is a pread() or pwrite(), and
 * after it the job takes `work` thousands of steps of a random number generator. That
 * is work, not time: a job that gets less of a CPU does less of it. fio's own think
 * times are times.
 */
#include "fio.h"
#include "optgroup.h"

struct engine_options {
	void *pad; /* fio takes an offset of 0 for none */
	unsigned int work;
	unsigned long long state;
};

static struct fio_option options[] = {
	{
		.name = "work", .lname = "work", .type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, work),
		.help = "Thousands of steps after each I/O", .def = "100",
		.minval = 0, .maxval = 1000000,
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID,
	},
	{ .name = NULL },
};

static void compute(struct engine_options *eo)
{
	unsigned long long x = eo->state | 1, n;

	for (n = 0; n < eo->work * 1000ull; n++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	eo->state = x;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	ssize_t n;

	fio_ro_check(td, io_u);
	if (io_u->ddir == DDIR_READ)
		n = pread(io_u->file->fd, io_u->xfer_buf, io_u->xfer_buflen, (off_t)io_u->offset);
	else
		n = pwrite(io_u->file->fd, io_u->xfer_buf, io_u->xfer_buflen, (off_t)io_u->offset);
	io_u->error = 0;
	io_u->resid = 0;
	if (n < 0)
		io_u->error = (unsigned int)errno;
	else
		io_u->resid = io_u->xfer_buflen - (size_t)n;
	if (io_u->error)
		td_verror(td, io_u->error, "xfer");
	compute(td->eo);
	return FIO_Q_COMPLETED;
}

struct ioengine_ops ioengine = {
	.name = "compute",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_SYNCIO,
	.queue = engine_queue,
	.open_file = generic_open_file,
	.close_file = generic_close_file,
	.get_file_size = generic_get_file_size,
	.options = options,
	.option_struct_size = sizeof(struct engine_options),
};
