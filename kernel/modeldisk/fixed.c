// SPDX-License-Identifier: GPL-2.0-only
/*
 * fixed: a constant latency for each request and a constant parallelism.
 *
 * The disk has `parallel` servers and one queue. A command takes the first
 * server that is free, for read_ns or write_ns and the time its data needs at
 * bytes_per_us. Commands complete in the order in which they are done, which
 * for equal sizes is the order in which they came. Discards and flushes take
 * `other_ns` of a server.
 *
 * Worked: parallel 2, read_ns 100 us, bytes_per_us 0 (no limit). Three reads
 * at time 0 are done at 100, 100 and 200 us: 20,000 a second at any depth from
 * two up, 10,000 at depth one.
 *
 * It has no position, no cache and no memory of what was written.
 */
#include "event.h"
#include "fixed.h"
#include "model.h"

struct md_fixed {
	struct md_model model;
	struct md_fixed_params params;
	struct list_head waiting;	/* commands, in order of arrival */
	struct md_events events;	/* what: the command that is done then */
	u64 nr_busy;			/* servers */
};

static struct md_fixed *md_fixed_of(struct md_model *model)
{
	return container_of(model, struct md_fixed, model);
}

static u64 md_fixed_service_ns(const struct md_fixed *fixed,
			       const struct md_cmd *cmd)
{
	const struct md_fixed_params *params = &fixed->params;
	u64 bytes = (u64)cmd->nr_sects << MD_SECT_SHIFT;
	u64 data_ns = 0;

	if (cmd->op != MD_READ && cmd->op != MD_WRITE)
		return params->other_ns;
	if (params->bytes_per_us)
		data_ns = div64_u64(bytes * 1000, params->bytes_per_us);
	return data_ns + (cmd->op == MD_READ ? params->read_ns : params->write_ns);
}

static void md_fixed_start(struct md_fixed *fixed, struct md_cmd *cmd, u64 now_ns)
{
	cmd->start_ns = now_ns;
	fixed->nr_busy++;
	md_events_add(&fixed->events, now_ns + md_fixed_service_ns(fixed, cmd),
		      0, 0, cmd);
}

static void md_fixed_submit(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	struct md_fixed *fixed = md_fixed_of(model);

	md_arrive(model, cmd, now_ns);
	if (fixed->nr_busy < fixed->params.parallel)
		md_fixed_start(fixed, cmd, now_ns);
	else
		list_add_tail(&cmd->node, &fixed->waiting);
}

static u64 md_fixed_next_ns(struct md_model *model)
{
	return md_events_next_ns(&md_fixed_of(model)->events);
}

static void md_fixed_advance(struct md_model *model, u64 now_ns)
{
	struct md_fixed *fixed = md_fixed_of(model);
	struct md_event event;
	struct md_cmd *next;

	while (md_events_take(&fixed->events, now_ns, &event)) {
		md_done(model, event.what, event.at_ns);
		fixed->nr_busy--;
		next = list_first_entry_or_null(&fixed->waiting, struct md_cmd, node);
		if (next) {
			list_del(&next->node);
			md_fixed_start(fixed, next, event.at_ns);
		}
	}
}

static void md_fixed_destroy(struct md_model *model)
{
	struct md_fixed *fixed = md_fixed_of(model);

	md_events_free(&fixed->events);
	kfree(fixed);
}

static struct md_model *md_fixed_create(struct md_setup *setup)
{
	struct md_fixed *fixed = kzalloc(sizeof(*fixed), GFP_KERNEL);

	if (!fixed)
		return NULL;
	md_model_init(&fixed->model, &md_fixed_type, setup->seed);
	fixed->params = *(const struct md_fixed_params *)setup->params;
	INIT_LIST_HEAD(&fixed->waiting);
	/* One for each command in flight. */
	if (md_events_init(&fixed->events, setup->nr_cmds)) {
		kfree(fixed);
		return NULL;
	}
	return &fixed->model;
}

#define MD_PARAMS_STRUCT md_fixed_params
static const struct md_param md_fixed_param_table[] = {
	MD_FIXED_PARAMS(MD_PARAM_ENTRY)
};

#undef MD_PARAMS_STRUCT

/*
 * "ideal" has the numbers of the null_blk of experiments/reports: 1 ms, 32 requests at
 * a time. They are the project's own: no paper has such a disk.
 */
static const struct md_fixed_params md_fixed_ideal = {
	.read_ns = 1000 * 1000,
	.write_ns = 1000 * 1000,
	.other_ns = 1000 * 1000,
	.parallel = 32,
	.bytes_per_us = 0,
};

static const struct md_preset md_fixed_presets[] = {
	{ "ideal", 4096, &md_fixed_ideal },
};

const struct md_model_type md_fixed_type = {
	.name = "fixed",
	.params = md_fixed_param_table,
	.nr_params = ARRAY_SIZE(md_fixed_param_table),
	.presets = md_fixed_presets,
	.nr_presets = ARRAY_SIZE(md_fixed_presets),
	.params_bytes = sizeof(struct md_fixed_params),
	.rotational = false,
	.create = md_fixed_create,
	.destroy = md_fixed_destroy,
	.submit = md_fixed_submit,
	.next_ns = md_fixed_next_ns,
	.advance = md_fixed_advance,
};
