// SPDX-License-Identifier: GPL-2.0-only
/*
 * nvme: a NAND drive of channels and dies, behind a controller, with a write
 * buffer that a power loss does not empty.
 *
 * Commands. The controller takes one command after the other, command_ns each:
 * the cap on commands a second. Discards take discard_ns more there, and they
 * and flushes, for which nothing is left to do, are then complete.
 *
 * Reads. A command is split at the pages of the dies. Each part waits for its
 * die, first come first served; the die reads for read_ns, give or take
 * read_spread; then the part waits for the channel, first come first served of
 * the parts that *are ready*, and moves at channel_ns for each 4 KiB that it
 * touches. The die keeps the page in its register that long, and parts that
 * stand right behind it for the same page are served from it. Then the data
 * crosses the link (link_bytes_per_us, one part after the other), and
 * read_fixed_ns after its last part the command is complete. A channel that is
 * booked when the read is *asked for* would stand idle before a slow die: with
 * such a rule 273,000 reads a second were left of 489,000.
 *
 * Placement. Pages are striped: of each run of channels * dies pages, every die
 * has one, neighbours on neighbouring channels, so that sequential commands
 * load all dies alike. The die that a run begins with is a hash of its number,
 * so that strides do not always meet the same die. Random pages are spread as
 * evenly as any placement spreads them. There is no mapping table.
 *
 * Writes cross the link in the other direction, enter the buffer in order of
 * arrival, 4 KiB by 4 KiB as there is room, and are complete write_fixed_ns
 * after the last has entered. Whenever the buffer holds a program's worth
 * (planes * page_kib), the next die in turn that has no program gets one: over
 * the channel, then program_ns. It is in the die's queue like a read, so reads
 * wait behind it; but it is cut into program_slices, and after each, all reads
 * that wait then pass it (a suspended program). With one slice, none do.
 *
 *	sequential: dies * planes * page_kib / (program_ns + its time on the channel)
 *
 * Write amplification. 4 KiB that continue a stream (streams.h) cost the medium
 * 4 KiB, any other costs random_wa / 1000 times that: copies that collection of
 * a drive in its steady state makes. So a random write takes more programs to
 * leave the buffer, and the steady rate of random writes is the sequential one
 * divided by random_wa.
 *
 * Worked (p4500-2tb, 4 KiB): a read alone takes 2.04 controller + 62 die + 9
 * channel + 1.28 link + 11 = 85.3 us. The cap is 1 / 2.04 us = 490,000 a
 * second. 48 dies program 32 KiB in 1430 + 72 us: 1.047 GB/s; random, / 6.7 =
 * 156 MB/s = 38,150 a second. A write with room takes 2.04 + 1.28 + 16.7 = 20.0.
 *
 * Whose figures: those of the product, "Lenovo: Intel P4500 Entry NVMe PCIe
 * SSDs", table 2. They were measured on a host; the model has all of them in
 * the device, so a host that takes its own time is that much slower. The
 * structure and its times are those of a simulation for the notes of this
 * project, whose table of rates against depth tests/nvme_sim.c compares.
 *
 * What it does not do: map, collect or wear blocks (see the model `flash`: here
 * the copies of collection are only programs, its reads and erases are in
 * program_ns); a fresh drive (random_wa 1000 is one); reads from the buffer;
 * reading ahead (a single sequential reader of the product sees 10 us, here 85);
 * the cost of suspending; a read to write a part of 4 KiB; queue priorities.
 */
#include "event.h"
#include "model.h"
#include "nvme.h"
#include "streams.h"

#define MD_NVME_UNIT_KIB	4	/* of the buffer and of the channels */
#define MD_NVME_UNIT_SECTS	8
#define MD_NVME_SEQ_WA		1000

/* What happens, in the order in which it does at the same time. */
enum md_nvme_event {
	MD_NVME_DONE,		/* what: the command that is */
	MD_NVME_CHANNEL,	/* unit: the channel that has moved its part */
	MD_NVME_DIE,		/* unit: the die that has read, or programmed a slice */
	MD_NVME_READY,		/* what: the command that the controller took */
	MD_NVME_NR_EVENTS,
};

/* What a command reads of one page; or a program. */
struct md_nvme_part {
	struct list_head node;	/* of a die's or a channel's list, or of the free ones */
	struct md_cmd *cmd;	/* NULL: a program */
	u64 page;
	u32 die;
	u32 nr_units;		/* on the channel */
	u32 nr_bytes;		/* on the link */
};

struct md_nvme_die {
	struct list_head waiting;	/* parts, in order of arrival */
	u32 nr_waiting;
	struct md_nvme_part *part;	/* what it does; NULL: nothing */
	struct md_nvme_part program;	/* the one that it has at most */
	bool has_program;		/* it waits, runs or is suspended */
	u32 nr_slices_left;		/* of the program that runs or is suspended */
	u32 nr_passing;			/* reads that still pass it */
	u32 nr_freed;			/* units that leave the buffer with it */
};

struct md_nvme_channel {
	struct list_head waiting;	/* parts, in the order in which dies were ready */
	struct md_nvme_part *part;	/* what it moves; NULL: nothing */
};

/* Words of a write. */
enum md_nvme_word {
	MD_NVME_UNITS_LEFT,	/* that are not in the buffer yet */
	MD_NVME_IS_RANDOM,
	MD_NVME_READY_NS,	/* when it could have entered */
};

struct md_nvme {
	struct md_model model;
	struct md_nvme_params params;
	struct md_events events[MD_NVME_NR_EVENTS];
	u64 lead_ns[MD_NVME_NR_EVENTS];	/* from one to a completion, at least */
	u64 nr_inside;			/* commands */

	u64 controller_free_ns;
	u64 link_in_free_ns;
	u64 link_out_free_ns;

	u32 nr_dies;
	u32 page_sects;
	struct md_nvme_die *dies;
	struct md_nvme_channel *channels;
	struct md_nvme_part *parts;
	struct list_head free_parts;

	/* The buffer: a ring of units that no program has in whole. */
	struct md_streams streams;
	struct list_head writes;	/* commands that wait for room, in order */
	bool *is_random;
	u32 buffer_units;
	u32 nr_free;			/* units; those of running programs are not */
	u32 ring_first;
	u32 ring_nr;
	u64 ring_cost;			/* thousandths of a unit to be programmed */
	u64 first_paid;			/* of the first unit's cost, likewise */
	u32 program_units;
	u32 nr_programs;		/* dies that have one */
	u32 next_die;			/* of the next program */
};

static struct md_nvme *md_nvme_of(struct md_model *model)
{
	return container_of(model, struct md_nvme, model);
}

/* How many units these sectors touch. */
static u32 md_nvme_units(u64 sect, u32 nr_sects)
{
	return DIV_ROUND_UP((u32)sect % MD_NVME_UNIT_SECTS + nr_sects, MD_NVME_UNIT_SECTS);
}

static void md_nvme_event(struct md_nvme *nvme, enum md_nvme_event kind, u64 at_ns,
			  u32 unit, void *what)
{
	md_events_add(&nvme->events[kind], at_ns, kind, unit, what);
}

/* When the link, free since *@free_ns, has moved @nr_bytes that came at @now_ns. */
static u64 md_nvme_link_ns(const struct md_nvme *nvme, u64 *free_ns, u64 now_ns,
			   u64 nr_bytes)
{
	*free_ns = max(*free_ns, now_ns) +
		   div64_u64(nr_bytes * 1000, nvme->params.link_bytes_per_us);
	return *free_ns;
}

/*
 * Channels, and dies.
 */

static void md_nvme_channel_next(struct md_nvme *nvme, u32 number, u64 now_ns)
{
	struct md_nvme_channel *channel = &nvme->channels[number];
	struct md_nvme_part *part;

	if (channel->part)
		return;
	part = list_first_entry_or_null(&channel->waiting, struct md_nvme_part, node);
	if (!part)
		return;
	list_del(&part->node);
	channel->part = part;
	md_nvme_event(nvme, MD_NVME_CHANNEL,
		      now_ns + part->nr_units * nvme->params.channel_ns, number, NULL);
}

static void md_nvme_to_channel(struct md_nvme *nvme, struct md_nvme_part *part,
			       u64 now_ns)
{
	u32 number = part->die % (u32)nvme->params.channels;

	list_add_tail(&part->node, &nvme->channels[number].waiting);
	md_nvme_channel_next(nvme, number, now_ns);
}

static void md_nvme_program_slice(struct md_nvme *nvme, struct md_nvme_die *die,
				  u64 now_ns)
{
	u64 nr_slices = nvme->params.program_slices;
	u64 slice_ns = div64_u64(nvme->params.program_ns, nr_slices);

	/* The last one takes what is left by the division. */
	if (die->nr_slices_left == 1)
		slice_ns = nvme->params.program_ns - slice_ns * (nr_slices - 1);
	die->part = &die->program;
	md_nvme_event(nvme, MD_NVME_DIE, now_ns + slice_ns, die->program.die, NULL);
}

/* Take the first part that waits for this die. */
static struct md_nvme_part *md_nvme_take_waiting(struct md_nvme_die *die)
{
	struct md_nvme_part *part =
		list_first_entry(&die->waiting, struct md_nvme_part, node);

	list_del(&part->node);
	die->nr_waiting--;
	if (die->nr_passing)
		die->nr_passing--;
	return part;
}

static void md_nvme_die_next(struct md_nvme *nvme, struct md_nvme_die *die, u64 now_ns)
{
	const struct md_nvme_params *params = &nvme->params;
	u64 spread_ns = div_u64(params->read_ns * params->read_spread, 1000);

	if (die->part)
		return;
	if (die->nr_slices_left && !die->nr_passing) {
		md_nvme_program_slice(nvme, die, now_ns);
		return;
	}
	if (list_empty(&die->waiting))
		return;
	die->part = md_nvme_take_waiting(die);
	if (!die->part->cmd) {
		/* Its data comes first, and the die holds still for it. */
		md_nvme_to_channel(nvme, die->part, now_ns);
		return;
	}
	if (die->part->cmd->start_ns == die->part->cmd->arrive_ns)
		die->part->cmd->start_ns = now_ns;
	md_nvme_event(nvme, MD_NVME_DIE,
		      now_ns + md_rng_around(&nvme->model.rng, params->read_ns, spread_ns),
		      die->part->die, NULL);
}

static void md_nvme_to_die(struct md_nvme *nvme, struct md_nvme_part *part, u64 now_ns)
{
	struct md_nvme_die *die = &nvme->dies[part->die];

	list_add_tail(&part->node, &die->waiting);
	die->nr_waiting++;
	md_nvme_die_next(nvme, die, now_ns);
}

/*
 * Writes: into the buffer while there is room, and out of it by programs.
 */

static u64 md_nvme_cost(const struct md_nvme *nvme, bool is_random)
{
	return is_random ? nvme->params.random_wa : MD_NVME_SEQ_WA;
}

/* Pay @cost for the first units of the buffer; how many are paid for in full. */
static u32 md_nvme_pay(struct md_nvme *nvme, u64 cost)
{
	u32 nr_paid = 0;

	nvme->ring_cost -= cost;
	while (cost) {
		u64 left = md_nvme_cost(nvme, nvme->is_random[nvme->ring_first]) -
			   nvme->first_paid;

		if (cost < left) {
			nvme->first_paid += cost;
			break;
		}
		cost -= left;
		nvme->first_paid = 0;
		nvme->ring_first = (nvme->ring_first + 1) % nvme->buffer_units;
		nvme->ring_nr--;
		nr_paid++;
	}
	return nr_paid;
}

/* Program what is whole programs, on the dies in turn. */
static void md_nvme_drain(struct md_nvme *nvme, u64 now_ns)
{
	u64 program_cost = (u64)nvme->program_units * MD_NVME_SEQ_WA;

	while (nvme->ring_cost >= program_cost && nvme->nr_programs < nvme->nr_dies) {
		struct md_nvme_die *die = &nvme->dies[nvme->next_die];

		nvme->next_die = (nvme->next_die + 1) % nvme->nr_dies;
		if (die->has_program)
			continue;
		die->has_program = true;
		nvme->nr_programs++;
		die->nr_freed = md_nvme_pay(nvme, program_cost);
		md_nvme_to_die(nvme, &die->program, now_ns);
	}
}

/* Let writes into the buffer, as much of each as there is room for. */
static void md_nvme_admit(struct md_nvme *nvme, u64 now_ns)
{
	struct md_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, &nvme->writes, node) {
		u64 nr = min_t(u64, cmd->word[MD_NVME_UNITS_LEFT], nvme->nr_free);
		bool is_random = cmd->word[MD_NVME_IS_RANDOM];
		u64 waited_ns = now_ns - cmd->word[MD_NVME_READY_NS];
		u32 end = (nvme->ring_first + nvme->ring_nr) % nvme->buffer_units;
		u64 i;

		if (!nr)
			break;
		if (cmd->start_ns == cmd->arrive_ns)
			cmd->start_ns = now_ns;
		for (i = 0; i < nr; i++) {
			nvme->is_random[end] = is_random;
			end = (end + 1) % nvme->buffer_units;
		}
		nvme->ring_nr += nr;
		nvme->ring_cost += nr * md_nvme_cost(nvme, is_random);
		nvme->nr_free -= nr;
		nvme->model.counts.nr_host_pages += nr;
		cmd->word[MD_NVME_UNITS_LEFT] -= nr;
		if (cmd->word[MD_NVME_UNITS_LEFT])
			break;
		list_del(&cmd->node);
		if (waited_ns) {
			nvme->model.counts.nr_stalls++;
			nvme->model.counts.stall_max_ns =
				max(nvme->model.counts.stall_max_ns, waited_ns);
		}
		md_nvme_event(nvme, MD_NVME_DONE, now_ns + nvme->params.write_fixed_ns,
			      0, cmd);
	}
	md_nvme_drain(nvme, now_ns);
}

/*
 * What happens.
 */

static void md_nvme_read_ready(struct md_nvme *nvme, struct md_cmd *cmd, u64 now_ns)
{
	u64 sect = cmd->sect, end_sect = cmd->sect + cmd->nr_sects;

	/* Every part is counted before the first can be done: none is done now. */
	while (sect < end_sect) {
		struct md_nvme_part *part = list_first_entry(&nvme->free_parts,
							     struct md_nvme_part, node);
		u64 page = div_u64(sect, nvme->page_sects);
		u64 to_sect = min(end_sect, (page + 1) * nvme->page_sects);
		u64 stripe;
		u32 place;

		stripe = div_u64_rem(page, nvme->nr_dies, &place);
		place += mul_u64_u64_shr(md_hash(stripe), nvme->nr_dies, 64);
		list_del(&part->node);
		part->cmd = cmd;
		part->page = page;
		part->die = place % nvme->nr_dies;
		part->nr_units = md_nvme_units(sect, to_sect - sect);
		part->nr_bytes = (to_sect - sect) << MD_SECT_SHIFT;
		cmd->nr_parts++;
		md_nvme_to_die(nvme, part, now_ns);
		sect = to_sect;
	}
}

static void md_nvme_ready(struct md_nvme *nvme, struct md_cmd *cmd, u64 now_ns)
{
	if (cmd->op == MD_READ) {
		md_nvme_read_ready(nvme, cmd, now_ns);
		return;
	}
	cmd->word[MD_NVME_READY_NS] = now_ns;
	list_add_tail(&cmd->node, &nvme->writes);
	md_nvme_admit(nvme, now_ns);
}

static void md_nvme_channel_done(struct md_nvme *nvme, u32 number, u64 now_ns)
{
	struct md_nvme_channel *channel = &nvme->channels[number];
	struct md_nvme_part *part = channel->part;
	struct md_nvme_die *die = &nvme->dies[part->die];
	struct md_cmd *cmd = part->cmd;

	channel->part = NULL;
	if (cmd) {
		u64 end_ns = md_nvme_link_ns(nvme, &nvme->link_out_free_ns, now_ns,
					     part->nr_bytes);

		if (die->part == part) {
			die->part = NULL;
			md_nvme_die_next(nvme, die, now_ns);
		}
		list_add(&part->node, &nvme->free_parts);
		if (!--cmd->nr_parts)
			md_nvme_event(nvme, MD_NVME_DONE,
				      end_ns + nvme->params.read_fixed_ns, 0, cmd);
	} else {
		die->nr_slices_left = nvme->params.program_slices;
		md_nvme_program_slice(nvme, die, now_ns);
	}
	md_nvme_channel_next(nvme, number, now_ns);
}

static void md_nvme_read_done(struct md_nvme *nvme, struct md_nvme_die *die, u64 now_ns)
{
	struct md_nvme_part *part = die->part;

	/* The page is in the die's register: for those behind it as well. */
	for (;;) {
		struct md_nvme_part *next =
			list_first_entry_or_null(&die->waiting, struct md_nvme_part, node);

		md_nvme_to_channel(nvme, part, now_ns);
		if (!next || !next->cmd || next->page != part->page)
			break;
		part = md_nvme_take_waiting(die);
		if (part->cmd->start_ns == part->cmd->arrive_ns)
			part->cmd->start_ns = now_ns;
	}
	/* And it stays there until the last of them has been moved. */
	die->part = part;
}

static void md_nvme_slice_done(struct md_nvme *nvme, struct md_nvme_die *die, u64 now_ns)
{
	die->part = NULL;
	if (--die->nr_slices_left) {
		die->nr_passing = die->nr_waiting;
		md_nvme_die_next(nvme, die, now_ns);
		return;
	}
	nvme->model.counts.nr_media_pages += nvme->program_units;
	nvme->nr_free += die->nr_freed;
	nvme->nr_programs--;
	die->has_program = false;
	md_nvme_die_next(nvme, die, now_ns);
	md_nvme_admit(nvme, now_ns);
}

static void md_nvme_happen(struct md_nvme *nvme, const struct md_event *event)
{
	struct md_nvme_die *die;

	switch ((enum md_nvme_event)event->kind) {
	case MD_NVME_DONE:
		nvme->nr_inside--;
		md_done(&nvme->model, event->what, event->at_ns);
		break;
	case MD_NVME_CHANNEL:
		md_nvme_channel_done(nvme, event->unit, event->at_ns);
		break;
	case MD_NVME_DIE:
		die = &nvme->dies[event->unit];
		if (die->part->cmd)
			md_nvme_read_done(nvme, die, event->at_ns);
		else
			md_nvme_slice_done(nvme, die, event->at_ns);
		break;
	default:
		md_nvme_ready(nvme, event->what, event->at_ns);
	}
}

/*
 * The model as the driver sees it.
 */

static void md_nvme_submit(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	struct md_nvme *nvme = md_nvme_of(model);
	u64 ready_ns = max(nvme->controller_free_ns, now_ns) + nvme->params.command_ns;

	md_arrive(model, cmd, now_ns);
	nvme->nr_inside++;
	if (cmd->op == MD_DISCARD)
		ready_ns += nvme->params.discard_ns;
	nvme->controller_free_ns = ready_ns;
	if (cmd->op == MD_FLUSH || cmd->op == MD_DISCARD) {
		md_nvme_event(nvme, MD_NVME_DONE, ready_ns, 0, cmd);
		return;
	}
	if (cmd->op == MD_WRITE) {
		cmd->word[MD_NVME_UNITS_LEFT] = md_nvme_units(cmd->sect, cmd->nr_sects);
		cmd->word[MD_NVME_IS_RANDOM] =
			!md_streams_continue(&nvme->streams, cmd->sect, cmd->nr_sects);
		ready_ns = md_nvme_link_ns(nvme, &nvme->link_in_free_ns, ready_ns,
					   (u64)cmd->nr_sects << MD_SECT_SHIFT);
	}
	md_nvme_event(nvme, MD_NVME_READY, ready_ns, 0, cmd);
}

/*
 * The earliest time of a completion. Events inside the disk come earlier, but need no
 * timer of the driver.
 */
static u64 md_nvme_next_ns(struct md_model *model)
{
	struct md_nvme *nvme = md_nvme_of(model);
	u64 next_ns = MD_NEVER_NS;
	unsigned int kind;

	if (!nvme->nr_inside)
		return MD_NEVER_NS;
	for (kind = 0; kind < MD_NVME_NR_EVENTS; kind++)
		if (nvme->events[kind].nr)
			next_ns = min(next_ns, md_events_next_ns(&nvme->events[kind]) +
					       nvme->lead_ns[kind]);
	return next_ns;
}

static void md_nvme_advance(struct md_model *model, u64 now_ns)
{
	struct md_nvme *nvme = md_nvme_of(model);
	struct md_event event;
	unsigned int kind, first;

	for (;;) {
		for (first = 0, kind = 1; kind < MD_NVME_NR_EVENTS; kind++)
			if (md_events_next_ns(&nvme->events[kind]) <
			    md_events_next_ns(&nvme->events[first]))
				first = kind;
		if (!md_events_take(&nvme->events[first], now_ns, &event))
			return;
		md_nvme_happen(nvme, &event);
	}
}

static void md_nvme_destroy(struct md_model *model)
{
	struct md_nvme *nvme = md_nvme_of(model);
	unsigned int kind;

	for (kind = 0; kind < MD_NVME_NR_EVENTS; kind++)
		md_events_free(&nvme->events[kind]);
	kvfree(nvme->is_random);
	kvfree(nvme->parts);
	kvfree(nvme->channels);
	kvfree(nvme->dies);
	kfree(nvme);
}

static bool md_nvme_refuse(struct md_setup *setup)
{
	const struct md_nvme_params *params = setup->params;
	u64 least_kib = 2 * params->planes * params->page_kib;

	if (params->page_kib % MD_NVME_UNIT_KIB)
		scnprintf(setup->problem, sizeof(setup->problem),
			  "page_kib %llu: must be a multiple of %u", params->page_kib,
			  MD_NVME_UNIT_KIB);
	else if (params->buffer_kib < least_kib)
		scnprintf(setup->problem, sizeof(setup->problem),
			  "buffer_kib %llu: must be at least %llu, two programs of %llu planes of page_kib %llu",
			  params->buffer_kib, least_kib, params->planes,
			  params->page_kib);
	else
		return false;
	return true;
}

static int md_nvme_alloc(struct md_nvme *nvme, const struct md_setup *setup)
{
	/* A command that begins and ends within a page. */
	u64 nr_parts = setup->nr_cmds * (u64)(setup->max_sects / nvme->page_sects + 2);
	u32 nr_events[MD_NVME_NR_EVENTS] = {
		[MD_NVME_DONE] = setup->nr_cmds,
		[MD_NVME_CHANNEL] = nvme->params.channels,
		[MD_NVME_DIE] = nvme->nr_dies,
		[MD_NVME_READY] = setup->nr_cmds,
	};
	unsigned int kind;
	u64 i;

	for (kind = 0; kind < MD_NVME_NR_EVENTS; kind++)
		if (md_events_init(&nvme->events[kind], nr_events[kind]))
			return -ENOMEM;
	nvme->dies = kvcalloc(nvme->nr_dies, sizeof(*nvme->dies), GFP_KERNEL);
	nvme->channels = kvcalloc(nvme->params.channels, sizeof(*nvme->channels), GFP_KERNEL);
	nvme->parts = kvcalloc(nr_parts, sizeof(*nvme->parts), GFP_KERNEL);
	nvme->is_random = kvcalloc(nvme->buffer_units, sizeof(*nvme->is_random), GFP_KERNEL);
	if (!nvme->dies || !nvme->channels || !nvme->parts || !nvme->is_random)
		return -ENOMEM;

	for (i = 0; i < nr_parts; i++)
		list_add_tail(&nvme->parts[i].node, &nvme->free_parts);
	for (i = 0; i < nvme->params.channels; i++)
		INIT_LIST_HEAD(&nvme->channels[i].waiting);
	for (i = 0; i < nvme->nr_dies; i++) {
		INIT_LIST_HEAD(&nvme->dies[i].waiting);
		nvme->dies[i].program.die = i;
		nvme->dies[i].program.nr_units = nvme->program_units;
	}
	return 0;
}

static struct md_model *md_nvme_create(struct md_setup *setup)
{
	const struct md_nvme_params *params = setup->params;
	u64 read_lead_ns = params->read_fixed_ns + params->channel_ns;
	struct md_nvme *nvme = kzalloc(sizeof(*nvme), GFP_KERNEL);

	if (!nvme)
		return NULL;
	if (md_nvme_refuse(setup)) {
		kfree(nvme);
		return NULL;
	}
	md_model_init(&nvme->model, &md_nvme_type, setup->seed);
	nvme->params = *params;
	md_streams_init(&nvme->streams, params->streams);
	INIT_LIST_HEAD(&nvme->free_parts);
	INIT_LIST_HEAD(&nvme->writes);
	nvme->nr_dies = params->channels * params->dies;
	nvme->page_sects = params->page_kib * 1024 >> MD_SECT_SHIFT;
	nvme->program_units = div_u64(params->planes * params->page_kib, MD_NVME_UNIT_KIB);
	nvme->buffer_units = div_u64(params->buffer_kib, MD_NVME_UNIT_KIB);
	nvme->nr_free = nvme->buffer_units;

	nvme->lead_ns[MD_NVME_CHANNEL] = params->read_fixed_ns;
	nvme->lead_ns[MD_NVME_DIE] = min(read_lead_ns, params->write_fixed_ns);
	/* A read that finds its page being read is bounded by that die's event. */
	nvme->lead_ns[MD_NVME_READY] =
		min(read_lead_ns + params->read_ns -
		    div_u64(params->read_ns * params->read_spread, 1000),
		    params->write_fixed_ns);

	if (md_nvme_alloc(nvme, setup)) {
		md_nvme_destroy(&nvme->model);
		return NULL;
	}
	return &nvme->model;
}

#define MD_PARAMS_STRUCT md_nvme_params
static const struct md_param md_nvme_param_table[] = {
	MD_NVME_PARAMS(MD_PARAM_ENTRY)
};

#undef MD_PARAMS_STRUCT

/*
 * Channels, dies of the 2 and 4 TB drives, page and planes, read_ns and its
 * spread, channel_ns, read_fixed_ns, command_ns and program_ns: a simulation
 * that was fitted to the product's figures; the parts themselves are nowhere
 * published. link_bytes_per_us: the product's 3.2 GB/s. Assumed, as no source
 * has them: buffer_kib (the steady rates do not depend on it), program_slices
 * (that such dies suspend programs: Aldarese et al., "Assessing the Role of
 * Program Suspend Operation in 3D NAND", Electronics 10(12), 2021), discard_ns,
 * streams.
 *
 * Per drive, from the product's table:	1 TB	2 TB	4 TB
 *	random reads a second		279,500	490,000	645,000	= 1 / command_ns
 *	random read, us			85	85	115	read_fixed_ns: the rest
 *	random write, us		20	20	20	write_fixed_ns: the rest
 *	sequential write, GB/s		0.6	1.05	1.8	program_ns
 *	random writes a second		30,500	38,000	62,500	random_wa: the ratio
 *
 * The 1 TB drive is taken to have half the dies of the 2 TB one. Sizes: what
 * the industry's formula (SFF-8447) makes of 1, 2 and 4 TB.
 */
#define MD_NVME_P4500(dies_)						\
	.channels = 12,							\
	.dies = (dies_),						\
	.page_kib = 16,							\
	.planes = 2,							\
	.read_ns = 62 * 1000,						\
	.read_spread = 50,						\
	.program_slices = 8,						\
	.channel_ns = 9 * 1000,						\
	.discard_ns = 20 * 1000,					\
	.link_bytes_per_us = 3200,					\
	.buffer_kib = 32 * 1024,					\
	.streams = 16

static const struct md_nvme_params md_nvme_p4500_1tb = {
	MD_NVME_P4500(2),
	.program_ns = 1240 * 1000,
	.command_ns = 3578,
	.read_fixed_ns = 9100,
	.write_fixed_ns = 15100,
	.random_wa = 4800,
};

static const struct md_nvme_params md_nvme_p4500_2tb = {
	MD_NVME_P4500(4),
	.program_ns = 1430 * 1000,
	.command_ns = 2040,
	.read_fixed_ns = 11 * 1000,
	.write_fixed_ns = 16700,
	.random_wa = 6700,
};

static const struct md_nvme_params md_nvme_p4500_4tb = {
	MD_NVME_P4500(8),
	.program_ns = 1670 * 1000,
	.command_ns = 1550,
	.read_fixed_ns = 41 * 1000,
	.write_fixed_ns = 17200,
	.random_wa = 7000,
};

static const struct md_preset md_nvme_presets[] = {
	{ "p4500-2tb", 1907729, &md_nvme_p4500_2tb },
	{ "p4500-1tb", 953869, &md_nvme_p4500_1tb },
	{ "p4500-4tb", 3815447, &md_nvme_p4500_4tb },
};

const struct md_model_type md_nvme_type = {
	.name = "nvme",
	.params = md_nvme_param_table,
	.nr_params = ARRAY_SIZE(md_nvme_param_table),
	.presets = md_nvme_presets,
	.nr_presets = ARRAY_SIZE(md_nvme_presets),
	.params_bytes = sizeof(struct md_nvme_params),
	.rotational = false,
	.create = md_nvme_create,
	.destroy = md_nvme_destroy,
	.submit = md_nvme_submit,
	.next_ns = md_nvme_next_ns,
	.advance = md_nvme_advance,
};
