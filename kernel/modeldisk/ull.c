// SPDX-License-Identifier: GPL-2.0-only
/*
 * ull: a drive so fast that the host's own time matters: 3D XPoint or Z-NAND.
 *
 * before_ns after it was sent, the controller has a command. It takes the pages
 * (4 KiB) of all commands one after the other, serial_read_ns or
 * serial_write_ns each: the cap on pages a second. Each page then waits for its
 * unit, first come first served, which is busy with it for read_ns or write_ns,
 * give or take `spread`, and move_ns. after_ns after its last page the command
 * is complete. Pages are striped over the units, each run of them beginning
 * with a hash of its number (see nvme.c). Discards take discard_ns of the
 * controller, flushes nothing: what was written survives a power loss.
 *
 * With a buffer (buffer_kib), writes do not go to units: a page that the
 * controller took waits for room and is done write_ns later. The buffer drains
 * by one page in drain_ns, or random_wa / 1000 times that if its command does
 * not continue a stream (streams.h): so is the steady rate of writes. As long
 * as it drains, each read waits for a program to be suspended, up to suspend_ns,
 * uniformly.
 *
 * Rare events, for the drive of flash. Of a million accesses of units,
 * outlier_ppm take longer, by an exponential whose mean is uniform in
 * outlier_least_ns..outlier_most_ns (a page read again). And once in each
 * stall_every_ns, at a random time in it, a random channel, which is
 * units / channels of the units, begins nothing for stall_least_ns to
 * stall_most_ns. nr_stalls counts commands that met either, or a full buffer.
 *
 * Everything is known when a command arrives: queues are first come first
 * served with nothing shared behind them, so a queue is the time when it is
 * free, and stalls are a function of the time alone. There is one event for
 * each command, its completion: nothing else need wake a driver.
 *
 * Worked (optane-p4800x, 4 KiB): a read alone takes 0.5 + 1.7 + 5.6 + 0.5 + 0.2
 * = 8.5 us; at depth 16 the controller is busy all the time: 1 / 1.7 us =
 * 588,000 a second, and Little's law makes the mean 16 * 1.7 = 27.2 us.
 *
 * Whose figures: published ones are measured on a host, whose submission and
 * interrupt they include; the model does not have the host's share (see
 * tests/ull_sim.c for both). So a host on top of it should come out 1 to 5 us
 * slower than the model (AnandTech measured 16 us where the model of the drive
 * of flash has 11).
 *
 * What it does not do: map or collect (the model `flash` does); let small
 * commands pass large ones in the controller; program units from the buffer one
 * by one; the one read in 100,000 of the Optane drive that takes 37 us.
 */
#include "event.h"
#include "model.h"
#include "streams.h"
#include "ull.h"

#define MD_ULL_PAGE_KIB		4
#define MD_ULL_PAGE_SECTS	8
#define MD_ULL_SEQ_WA		1000

/* What the hashes of a window, one after the other, decide about its stall. */
enum md_ull_draw {
	MD_ULL_STALL_START,
	MD_ULL_STALL_CHANNEL,
	MD_ULL_STALL_LENGTH,
	MD_ULL_NR_DRAWS,
};

struct md_ull {
	struct md_model model;
	struct md_ull_params params;
	struct md_events events;	/* what: the command that is done then */
	u64 stall_seed;
	u64 controller_free_ns;
	u64 *unit_free_ns;

	/* The buffer. */
	struct md_streams streams;
	u64 buffer_pages;
	u64 *left_ns;		/* ring of buffer_pages: when that page will have left */
	u64 ring_at;
	u64 drained_ns;		/* when all of it will have */
	u64 media_milli;	/* pages that the medium writes, in thousandths */
};

static struct md_ull *md_ull_of(struct md_model *model)
{
	return container_of(model, struct md_ull, model);
}

/*
 * Stalls: device time is divided into windows of stall_every_ns, and one stall
 * begins in each. A hash of the window's number gives all of it. So the
 * model keeps no state for stalls, and a stall does not depend on when, or how often,
 * the driver advances the model.
 */

static u64 md_ull_draw(const struct md_ull *ull, u64 window, enum md_ull_draw what,
		       u64 below)
{
	u64 hash = md_hash(ull->stall_seed + window * MD_ULL_NR_DRAWS + what);

	return mul_u64_u64_shr(hash, below, 64);
}

/* When the stall of @window that hits @channel at @at_ns ends; @at_ns: none does. */
static u64 md_ull_stall_end_ns(const struct md_ull *ull, u64 window, u32 channel,
			       u64 at_ns)
{
	const struct md_ull_params *params = &ull->params;
	u64 start_ns = window * params->stall_every_ns +
		       md_ull_draw(ull, window, MD_ULL_STALL_START, params->stall_every_ns);
	u64 length_ns = params->stall_least_ns +
			md_ull_draw(ull, window, MD_ULL_STALL_LENGTH,
				    params->stall_most_ns - params->stall_least_ns + 1);

	if (at_ns < start_ns || at_ns >= start_ns + length_ns ||
	    md_ull_draw(ull, window, MD_ULL_STALL_CHANNEL, params->channels) != channel)
		return at_ns;
	return start_ns + length_ns;
}

/* When, from @at_ns on, @channel is not stalled. */
static u64 md_ull_unstalled_ns(const struct md_ull *ull, u32 channel, u64 at_ns)
{
	u64 from_ns, window;

	if (!ull->params.stall_every_ns)
		return at_ns;
	do {
		from_ns = at_ns;
		window = div64_u64(at_ns, ull->params.stall_every_ns);
		/* None is longer than a window: it began in this one or the last. */
		if (window)
			at_ns = md_ull_stall_end_ns(ull, window - 1, channel, at_ns);
		at_ns = md_ull_stall_end_ns(ull, window, channel, at_ns);
	} while (at_ns != from_ns);
	return at_ns;
}

/*
 * One page of a command, at its unit or in the buffer: when it is done.
 */

static u32 md_ull_unit(const struct md_ull *ull, u64 page)
{
	u32 units = ull->params.units, place;
	u64 stripe = div_u64_rem(page, units, &place);

	return (place + (u32)mul_u64_u64_shr(md_hash(stripe), units, 64)) % units;
}

static u64 md_ull_outlier_ns(struct md_ull *ull)
{
	const struct md_ull_params *params = &ull->params;
	struct md_rng *rng = &ull->model.rng;
	u64 mean_ns;

	if (!params->outlier_ppm || !md_rng_chance(rng, params->outlier_ppm, 1000000))
		return 0;
	mean_ns = params->outlier_least_ns +
		  md_rng_below(rng, params->outlier_most_ns - params->outlier_least_ns + 1);
	return md_rng_exp(rng, mean_ns);
}

/* *@rare_ns becomes the longest that a page waited for something rare. */
static u64 md_ull_access_ns(struct md_ull *ull, struct md_cmd *cmd, u64 page, u64 at_ns,
			    u64 *rare_ns)
{
	const struct md_ull_params *params = &ull->params;
	u64 mean_ns = cmd->op == MD_READ ? params->read_ns : params->write_ns;
	u32 unit = md_ull_unit(ull, page);
	u64 free_ns = max(at_ns, ull->unit_free_ns[unit]);
	u64 start_ns = md_ull_unstalled_ns(ull, unit % (u32)params->channels, free_ns);
	u64 outlier_ns = md_ull_outlier_ns(ull);
	u64 service_ns = params->move_ns + outlier_ns;

	*rare_ns = max(*rare_ns, max(start_ns - free_ns, outlier_ns));
	/* The buffer is being emptied: a program may have to be suspended. */
	if (cmd->op == MD_READ && start_ns < ull->drained_ns)
		start_ns += md_rng_below(&ull->model.rng, params->suspend_ns + 1);
	if (cmd->start_ns == cmd->arrive_ns)
		cmd->start_ns = start_ns;
	service_ns += md_rng_around(&ull->model.rng, mean_ns,
				    div_u64(mean_ns * params->spread, 1000));
	ull->unit_free_ns[unit] = start_ns + service_ns;
	return ull->unit_free_ns[unit];
}

static u64 md_ull_buffer_ns(struct md_ull *ull, struct md_cmd *cmd, u64 wa, u64 at_ns,
			    u64 *rare_ns)
{
	u64 *left_ns = &ull->left_ns[ull->ring_at];
	u64 enter_ns = max(at_ns, *left_ns);

	*rare_ns = max(*rare_ns, enter_ns - at_ns);
	if (cmd->start_ns == cmd->arrive_ns)
		cmd->start_ns = enter_ns;
	ull->drained_ns = max(enter_ns, ull->drained_ns) +
			  div_u64(ull->params.drain_ns * wa, 1000);
	*left_ns = ull->drained_ns;
	if (++ull->ring_at == ull->buffer_pages)
		ull->ring_at = 0;
	return enter_ns + ull->params.write_ns;
}

/*
 * The model as the driver sees it.
 */

/* All pages of a read or write; when the last of them is done. */
static u64 md_ull_data_ns(struct md_ull *ull, struct md_cmd *cmd, u64 *rare_ns)
{
	bool is_read = cmd->op == MD_READ, is_buffered = !is_read && ull->buffer_pages;
	u64 serial_ns = is_read ? ull->params.serial_read_ns : ull->params.serial_write_ns;
	u64 page = cmd->sect / MD_ULL_PAGE_SECTS, wa = MD_ULL_SEQ_WA, done_ns = 0;
	u64 end_page = (cmd->sect + cmd->nr_sects + MD_ULL_PAGE_SECTS - 1) / MD_ULL_PAGE_SECTS;
	u64 at_ns;

	if (is_buffered && !md_streams_continue(&ull->streams, cmd->sect, cmd->nr_sects))
		wa = ull->params.random_wa;
	if (!is_read) {
		ull->model.counts.nr_host_pages += end_page - page;
		ull->media_milli += (end_page - page) * wa;
		ull->model.counts.nr_media_pages = div_u64(ull->media_milli, 1000);
	}
	for (; page < end_page; page++) {
		ull->controller_free_ns += serial_ns;
		at_ns = ull->controller_free_ns;
		at_ns = is_buffered ? md_ull_buffer_ns(ull, cmd, wa, at_ns, rare_ns) :
				      md_ull_access_ns(ull, cmd, page, at_ns, rare_ns);
		done_ns = max(done_ns, at_ns);
	}
	return done_ns;
}

static void md_ull_submit(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	struct md_ull *ull = md_ull_of(model);
	u64 rare_ns = 0, done_ns;

	md_arrive(model, cmd, now_ns);
	ull->controller_free_ns = max(ull->controller_free_ns,
				      now_ns + ull->params.before_ns);
	if (cmd->op == MD_READ || cmd->op == MD_WRITE) {
		done_ns = md_ull_data_ns(ull, cmd, &rare_ns);
	} else {
		if (cmd->op == MD_DISCARD)
			ull->controller_free_ns += ull->params.discard_ns;
		done_ns = ull->controller_free_ns;
	}
	if (rare_ns) {
		model->counts.nr_stalls++;
		model->counts.stall_max_ns = max(model->counts.stall_max_ns, rare_ns);
	}
	md_events_add(&ull->events, done_ns + ull->params.after_ns, 0, 0, cmd);
}

static u64 md_ull_next_ns(struct md_model *model)
{
	return md_events_next_ns(&md_ull_of(model)->events);
}

static void md_ull_advance(struct md_model *model, u64 now_ns)
{
	struct md_event event;

	while (md_events_take(&md_ull_of(model)->events, now_ns, &event))
		md_done(model, event.what, event.at_ns);
}

static void md_ull_destroy(struct md_model *model)
{
	struct md_ull *ull = md_ull_of(model);

	md_events_free(&ull->events);
	kvfree(ull->left_ns);
	kvfree(ull->unit_free_ns);
	kfree(ull);
}

static bool md_ull_refuse(struct md_setup *setup)
{
	const struct md_ull_params *params = setup->params;
	char *problem = setup->problem;
	size_t size = sizeof(setup->problem);

	if (params->units % (u32)params->channels)
		scnprintf(problem, size, "channels %llu: must divide units %llu",
			  params->channels, params->units);
	else if (params->outlier_most_ns < params->outlier_least_ns)
		scnprintf(problem, size,
			  "outlier_most_ns %llu: must be at least outlier_least_ns %llu",
			  params->outlier_most_ns, params->outlier_least_ns);
	else if (params->stall_most_ns < params->stall_least_ns)
		scnprintf(problem, size,
			  "stall_most_ns %llu: must be at least stall_least_ns %llu",
			  params->stall_most_ns, params->stall_least_ns);
	else if (params->stall_every_ns && params->stall_most_ns > params->stall_every_ns / 2)
		scnprintf(problem, size,
			  "stall_most_ns %llu: must be at most half of stall_every_ns %llu",
			  params->stall_most_ns, params->stall_every_ns);
	else
		return false;
	return true;
}

static struct md_model *md_ull_create(struct md_setup *setup)
{
	const struct md_ull_params *params = setup->params;
	struct md_ull *ull = kzalloc(sizeof(*ull), GFP_KERNEL);

	if (!ull)
		return NULL;
	if (md_ull_refuse(setup)) {
		kfree(ull);
		return NULL;
	}
	md_model_init(&ull->model, &md_ull_type, setup->seed);
	ull->params = *params;
	ull->stall_seed = md_rng_next(&ull->model.rng);
	ull->buffer_pages = div_u64(params->buffer_kib, MD_ULL_PAGE_KIB);
	md_streams_init(&ull->streams, params->streams);

	/* One for each command in flight. */
	if (md_events_init(&ull->events, setup->nr_cmds))
		goto no_memory;
	ull->unit_free_ns = kvcalloc(params->units, sizeof(*ull->unit_free_ns), GFP_KERNEL);
	if (!ull->unit_free_ns)
		goto no_memory;
	if (ull->buffer_pages) {
		ull->left_ns = kvcalloc(ull->buffer_pages, sizeof(*ull->left_ns), GFP_KERNEL);
		if (!ull->left_ns)
			goto no_memory;
	}
	return &ull->model;

no_memory:
	md_ull_destroy(&ull->model);
	return NULL;
}

#define MD_PARAMS_STRUCT md_ull_params
static const struct md_param md_ull_param_table[] = {
	MD_ULL_PARAMS(MD_PARAM_ENTRY)
};

#undef MD_PARAMS_STRUCT

/*
 * Intel Optane SSD DC P4800X, 375 GB. units, read_ns, spread, move_ns,
 * serial_read_ns, before_ns, after_ns: a simulation fitted to AnandTech's
 * measurement (review 11209: depth 1 8.9 us with the host, depth 16 584,800 a
 * second, mean 25.5, 99 % 41 us). Writes like reads, as the drive's reviews have
 * it; serial_write_ns: the specification's 500,000 a second and 2.0 GB/s
 * (serial_read_ns is its 2.4 GB/s). discard_ns: assumed.
 */
static const struct md_ull_params md_ull_optane = {
	.units = 7,
	.channels = 7,
	.read_ns = 5600,
	.write_ns = 5600,
	.spread = 40,
	.move_ns = 500,
	.serial_read_ns = 1700,
	.serial_write_ns = 2000,
	.discard_ns = 2000,
	.before_ns = 500,
	.after_ns = 200,
	/* There is no buffer. */
	.drain_ns = 1,
	.random_wa = 1000,
};

/*
 * Samsung SZ985, 800 GB. units, read_ns, spread, move_ns, serial_read_ns,
 * before_ns, after_ns: a simulation fitted to the specification (750,000 reads
 * a second, 12 to 20 us; Tom's Hardware, "Samsung Releases SZ985 Z-SSD").
 * Writes, from there too: 16 us (write_ns is the rest of it), 3.2 GB/s
 * (serial_write_ns, drain_ns), 170,000 a second at random (random_wa is their
 * ratio). Assumed, as no source has them: channels, buffer_kib, discard_ns,
 * streams; suspend_ns, a fifth of the 100 us that a program of Z-NAND takes
 * (AnandTech, review 13951); the rare events, which the same simulation assumed
 * (stalls 50 to 100 times a second: the middle).
 */
static const struct md_ull_params md_ull_zssd = {
	.units = 16,
	.channels = 8,
	.read_ns = 8300,
	.write_ns = 13820,
	.spread = 60,
	.move_ns = 500,
	.serial_read_ns = 1330,
	.serial_write_ns = 1280,
	.discard_ns = 5000,
	.before_ns = 700,
	.after_ns = 200,
	.outlier_ppm = 500,
	.outlier_least_ns = 60 * 1000,
	.outlier_most_ns = 150 * 1000,
	.stall_every_ns = 13333 * 1000,
	.stall_least_ns = 100 * 1000,
	.stall_most_ns = 250 * 1000,
	.buffer_kib = 32 * 1024,
	.drain_ns = 1280,
	.random_wa = 4596,
	.suspend_ns = 20 * 1000,
	.streams = 16,
};

static const struct md_preset md_ull_presets[] = {
	{ "optane-p4800x", 357707, &md_ull_optane },
	{ "z-ssd", 763097, &md_ull_zssd },
};

const struct md_model_type md_ull_type = {
	.name = "ull",
	.params = md_ull_param_table,
	.nr_params = ARRAY_SIZE(md_ull_param_table),
	.presets = md_ull_presets,
	.nr_presets = ARRAY_SIZE(md_ull_presets),
	.params_bytes = sizeof(struct md_ull_params),
	.rotational = false,
	.create = md_ull_create,
	.destroy = md_ull_destroy,
	.submit = md_ull_submit,
	.next_ns = md_ull_next_ns,
	.advance = md_ull_advance,
};
