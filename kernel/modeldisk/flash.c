// SPDX-License-Identifier: GPL-2.0-only
/*
 * flash: NAND flash behind a translation layer that collects garbage: an eMMC
 * or a SATA SSD.
 *
 * The disk takes queue_depth commands; later ones wait for one of those to be
 * done, in order of arrival. A command first has the controller for
 * command_ns, one command at a time.
 *
 * A read senses the rows of flash that hold its pages, read_ns on the die of
 * each; a page then takes channel_ns on its die's channel and link_ns on the
 * link to the host. Pages that were never written, or were discarded, need the
 * link only. A write takes link_ns for each page, then channel_ns, then
 * program_ns for up to row_pages of the same command on the die that is free
 * first; where exactly is decided by the translation layer (ftl.c). A write of
 * part of a page that holds data reads it first. Die, channel and link each do
 * one thing at a time, in the order in which it came to them.
 *
 * When the translation layer has to collect garbage for a write, the die first
 * does that: for each block collected, a read and a program for each row_pages
 * of the pages copied, and an erase. The write waits for all of it, and so does
 * everything that comes to that die later. On a disk with queue_depth 1
 * everything waits. With reads_first, a read that finds its die busy waits
 * only for the read, or the program, in progress, and what else the die has to do
 * is done that much later; an erase then counts as programs of the same length.
 * (That a write which the die has already taken is so delayed is left out of
 * the write's own latency, and counted for what comes after it.)
 *
 * With buffer_pages, a write is done when all its pages are in the buffer. A
 * page stays there until it is programmed; pages are programmed as soon as
 * there is a whole row of them. A flush is done when all that is in the buffer
 * has been programmed. Without a buffer a flush has nothing to wait for, as
 * each write that is done is on the medium.
 *
 * Worked, preset "emmc": a read at depth 1 takes 60 + 90 + 40 = 190 us: 5,263 a
 * second. A write of 4 KiB takes 60 + 40 + 1,300 = 1,400 us when no garbage is
 * collected. Random writes over the whole disk have a write amplification of
 * 7.05, so a victim has 55 valid pages of 64 and gives 9: it takes 14 rows of
 * 1,390 us and an erase of 4 ms, 23.5 ms, which is 2.6 ms for each page written,
 * 4 ms in all. But it does not come evenly: collection starts with one free
 * block and ends with three, so some 14 victims in a row take some 330 ms, while
 * everything waits.
 *
 * The presets' sources are at their tables below. Disks of 1 to 4 GiB stand
 * for larger ones: write amplification depends on the parts of the space that
 * are written and spare (notes B2: 1/32 of the space with 7 % spare stands for
 * 2 GiB of 64 GiB), not on the space. Blocks are smaller than today's, as
 * there must be many on each die; stalls are proportional to them.
 *
 * Memory: 4 bytes for each page of data and 4 for each page of flash, 134 MiB
 * for 64 GiB with op_permille 70.
 *
 * It does not have: collection in idle time, wear, bad blocks and levelling,
 * suspended programs or erases, different times for the pages of a cell, a
 * cache for reads, an SLC cache, or a map that has to be read from flash itself.
 * A read of data that is in the buffer goes to the flash, where it was or will
 * be. Copies do not use the channel.
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "event.h"
#include "flash.h"
#include "ftl.h"
#include "model.h"

enum md_flash_event {
	MD_FLASH_DECODED,	/* the controller is done with a command */
	MD_FLASH_SENSED,	/* a row is in the die's register; unit: die, pages */
	MD_FLASH_FETCHED,	/* pages are in the controller; unit: pages */
	MD_FLASH_RECEIVED,	/* pages came from the host; unit: pages */
	MD_FLASH_PARTS_DONE,	/* unit: pages of a command that are done */
	MD_FLASH_DRAINED,	/* unit: pages that have left the buffer */
	MD_FLASH_DONE,		/* a command */
};

/* A unit of an event is a die and up to 64 pages of it. */
#define MD_FLASH_UNIT(die, nr_pages)	((die) << 8 | (nr_pages))
#define MD_FLASH_UNIT_DIE(unit)		((unit) >> 8)
#define MD_FLASH_UNIT_PAGES(unit)	((unit) & 0xff)

/*
 * Of a command: its first page and the one after its last, pages of a write that
 * came from the host, those of them that have found room in the buffer.
 */
enum { MD_FLASH_FIRST, MD_FLASH_END, MD_FLASH_CAME, MD_FLASH_TAKEN };

struct md_flash {
	struct md_model model;
	struct md_flash_params params;
	struct md_ftl ftl;
	struct list_head waiting;	/* outside of the queue, in order of arrival */
	struct list_head crowded;	/* writes that wait for the buffer, in order */
	struct md_events events;
	u64 nr_taken;			/* commands in the queue */

	/* When each is free. */
	u64 controller_ns;
	u64 link_ns;
	u64 *channel_ns;		/* each channel */
	u64 *die_ns;
	u64 *die_read_ns;		/* when its last read ends */
	u32 nr_dies;
	u32 next_die;			/* the first to be asked */

	u64 nr_buffered;		/* pages */
	u32 *row;			/* those of them that wait for a whole row */
	u32 row_pages;
	u32 nr_row;
	bool row_reads;			/* one was written in part */
	u64 drained_ns;			/* when all that is being programmed will be */
};

static struct md_flash *md_flash_of(struct md_model *model)
{
	return container_of(model, struct md_flash, model);
}

/* Use something that does one thing at a time; returns when that is done. */
static u64 md_flash_book(u64 *free_ns, u64 now_ns, u64 needs_ns)
{
	*free_ns = max(*free_ns, now_ns) + needs_ns;
	return *free_ns;
}

/* Sense a row; returns when that is done. */
static u64 md_flash_book_read(struct md_flash *flash, u32 die, u64 now_ns)
{
	u64 read_ns = flash->params.read_ns, start_ns = flash->die_ns[die];

	if (flash->params.reads_first && start_ns > now_ns) {
		/* What it has to do ends with a program, each after another. */
		if (flash->die_read_ns[die] > now_ns)
			start_ns = flash->die_read_ns[die];
		else
			start_ns = now_ns + (start_ns - now_ns) % flash->params.program_ns;
	}
	md_flash_book(&flash->die_ns[die], now_ns, read_ns);
	flash->die_read_ns[die] = max(start_ns, now_ns) + read_ns;
	return flash->die_read_ns[die];
}

static u64 *md_flash_channel_of(struct md_flash *flash, u32 die)
{
	return &flash->channel_ns[die % (u32)flash->params.channels];
}

/* The die that is free first, of those with room; in turn if they are equal. */
static u32 md_flash_pick_die(struct md_flash *flash, u64 now_ns)
{
	u64 best_ns = MD_NEVER_NS;
	u32 best = 0, die = flash->next_die, i;

	for (i = 0; i < flash->nr_dies; i++) {
		u64 free_ns = max(flash->die_ns[die], now_ns);

		if (free_ns < best_ns && md_ftl_has_room(&flash->ftl, die)) {
			best_ns = free_ns;
			best = die;
		}
		die = die + 1 == flash->nr_dies ? 0 : die + 1;
	}
	flash->next_die = best + 1 == flash->nr_dies ? 0 : best + 1;
	return best;
}

static u64 md_flash_collection_ns(const struct md_flash *flash,
				  const struct md_ftl_work *work)
{
	const struct md_flash_params *params = &flash->params;

	return work->nr_rows * (params->read_ns + params->program_ns) +
	       work->nr_erases * params->erase_ns;
}

/* Program a row or less; returns when that is done. */
static u64 md_flash_program(struct md_flash *flash, const u32 *pages, u32 nr_pages,
			    bool reads, u64 now_ns)
{
	const struct md_flash_params *params = &flash->params;
	struct md_counts *counts = &flash->model.counts;
	struct md_ftl_work work = {};
	u64 came_ns, collection_ns;
	u32 die, i;

	for (i = 0; i < nr_pages; i++)
		md_ftl_unmap(&flash->ftl, pages[i]);
	die = md_flash_pick_die(flash, now_ns);
	for (i = 0; i < nr_pages; i++) {
		/* The same page may be in a row twice. */
		md_ftl_unmap(&flash->ftl, pages[i]);
		md_ftl_write(&flash->ftl, die, pages[i], &work);
	}

	counts->nr_host_pages += nr_pages;
	counts->nr_media_pages += nr_pages + work.nr_copies;
	counts->nr_gc_runs += work.nr_erases;
	counts->nr_gc_pages += work.nr_copies;
	counts->nr_erases += work.nr_erases;
	collection_ns = md_flash_collection_ns(flash, &work);
	if (work.nr_erases)
		counts->nr_stalls++;
	counts->stall_max_ns = max(counts->stall_max_ns, collection_ns);

	came_ns = md_flash_book(md_flash_channel_of(flash, die), now_ns,
				nr_pages * params->channel_ns);
	return md_flash_book(&flash->die_ns[die], came_ns,
			     collection_ns + (reads ? params->read_ns : 0) +
			     params->program_ns);
}

static void md_flash_start(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	cmd->start_ns = now_ns;
	flash->nr_taken++;
	md_events_add(&flash->events,
		      md_flash_book(&flash->controller_ns, now_ns,
				    flash->params.command_ns),
		      MD_FLASH_DECODED, 0, cmd);
}

static void md_flash_end(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	struct md_cmd *next;

	md_done(&flash->model, cmd, now_ns);
	flash->nr_taken--;
	next = list_first_entry_or_null(&flash->waiting, struct md_cmd, node);
	if (next) {
		list_del(&next->node);
		md_flash_start(flash, next, now_ns);
	}
}

static void md_flash_parts_done(struct md_flash *flash, struct md_cmd *cmd,
				u32 nr_pages, u64 now_ns)
{
	cmd->nr_parts -= nr_pages;
	if (!cmd->nr_parts)
		md_flash_end(flash, cmd, now_ns);
}

/* Pages of a read from @page on that are in one row, or are all in none. */
static u32 md_flash_run(const struct md_flash *flash, u32 page, u32 end)
{
	const u32 *map = flash->ftl.map;
	u32 row_pages = flash->row_pages, nr = 1;

	while (page + nr < end && nr < row_pages) {
		u32 here = map[page + nr];

		if (map[page] == MD_FTL_NONE) {
			if (here != MD_FTL_NONE)
				break;
		} else if (here != map[page] + nr || !(here % row_pages)) {
			break;
		}
		nr++;
	}
	return nr;
}

static void md_flash_read(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	u32 page = cmd->word[MD_FLASH_FIRST], end = cmd->word[MD_FLASH_END];

	while (page < end) {
		u32 at = flash->ftl.map[page];
		u32 nr = md_flash_run(flash, page, end), die;

		if (at == MD_FTL_NONE) {
			md_events_add(&flash->events, now_ns, MD_FLASH_FETCHED, nr, cmd);
		} else {
			die = md_ftl_die_of(&flash->ftl, at);
			md_events_add(&flash->events,
				      md_flash_book_read(flash, die, now_ns),
				      MD_FLASH_SENSED, MD_FLASH_UNIT(die, nr), cmd);
		}
		page += nr;
	}
}

/* The link brings the pages of a write, a row's worth at a time. */
static void md_flash_receive(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	u32 nr_left = cmd->nr_parts;

	while (nr_left) {
		u32 nr = min(nr_left, flash->row_pages);

		md_events_add(&flash->events,
			      md_flash_book(&flash->link_ns, now_ns,
					    nr * flash->params.link_ns),
			      MD_FLASH_RECEIVED, nr, cmd);
		nr_left -= nr;
	}
}

/* Is this page of the write not all of a page, and the rest of it data? */
static bool md_flash_in_part(const struct md_flash *flash, const struct md_cmd *cmd,
			     u32 page)
{
	u64 sect = (u64)page * MD_FTL_PAGE_SECTS;

	return (sect < cmd->sect ||
		sect + MD_FTL_PAGE_SECTS > cmd->sect + cmd->nr_sects) &&
	       flash->ftl.map[page] != MD_FTL_NONE;
}

/* Program what waits for a row to be full. */
static void md_flash_program_row(struct md_flash *flash, u64 now_ns)
{
	u64 done_ns = md_flash_program(flash, flash->row, flash->nr_row,
				       flash->row_reads, now_ns);

	flash->drained_ns = max(flash->drained_ns, done_ns);
	md_events_add(&flash->events, done_ns, MD_FLASH_DRAINED, flash->nr_row, NULL);
	flash->nr_row = 0;
	flash->row_reads = false;
}

/* Pages of a write go on: to a row, as far as there is room in the buffer. */
static void md_flash_take_pages(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	u32 page, nr_taken = 0;

	while (cmd->word[MD_FLASH_TAKEN] < cmd->word[MD_FLASH_CAME]) {
		if (flash->params.buffer_pages) {
			if (flash->nr_buffered == flash->params.buffer_pages)
				break;
			flash->nr_buffered++;
		}
		page = cmd->word[MD_FLASH_FIRST] + cmd->word[MD_FLASH_TAKEN]++;
		nr_taken++;
		flash->row_reads |= md_flash_in_part(flash, cmd, page);
		flash->row[flash->nr_row++] = page;
		if (flash->params.buffer_pages && flash->nr_row == flash->row_pages)
			md_flash_program_row(flash, now_ns);
	}
	if (flash->params.buffer_pages && nr_taken)
		md_flash_parts_done(flash, cmd, nr_taken, now_ns);
}

static void md_flash_received(struct md_flash *flash, struct md_cmd *cmd, u32 nr_pages,
			      u64 now_ns)
{
	bool in_list = cmd->word[MD_FLASH_TAKEN] < cmd->word[MD_FLASH_CAME];
	u64 done_ns;

	cmd->word[MD_FLASH_CAME] += nr_pages;
	if (flash->params.buffer_pages) {
		if (list_empty(&flash->crowded))
			md_flash_take_pages(flash, cmd, now_ns);
		if (!in_list && cmd->word[MD_FLASH_TAKEN] < cmd->word[MD_FLASH_CAME])
			list_add_tail(&cmd->node, &flash->crowded);
		return;
	}
	md_flash_take_pages(flash, cmd, now_ns);
	done_ns = md_flash_program(flash, flash->row, flash->nr_row, flash->row_reads,
				   now_ns);
	flash->nr_row = 0;
	flash->row_reads = false;
	md_events_add(&flash->events, done_ns, MD_FLASH_PARTS_DONE, nr_pages, cmd);
}

/* There is room in the buffer. */
static void md_flash_drained(struct md_flash *flash, u32 nr_pages, u64 now_ns)
{
	struct md_cmd *cmd;

	flash->nr_buffered -= nr_pages;
	while (flash->nr_buffered < flash->params.buffer_pages) {
		cmd = list_first_entry_or_null(&flash->crowded, struct md_cmd, node);
		if (!cmd)
			break;
		list_del(&cmd->node);
		md_flash_take_pages(flash, cmd, now_ns);
		if (cmd->word[MD_FLASH_TAKEN] < cmd->word[MD_FLASH_CAME]) {
			list_add(&cmd->node, &flash->crowded);
			break;
		}
	}
}

/* Pages that it holds wholly are garbage, in the flash and in the row. */
static void md_flash_discard(struct md_flash *flash, const struct md_cmd *cmd)
{
	u64 first = div_u64(cmd->sect + MD_FTL_PAGE_SECTS - 1, MD_FTL_PAGE_SECTS);
	u64 end = div_u64(cmd->sect + cmd->nr_sects, MD_FTL_PAGE_SECTS);
	u32 i, nr = 0;
	u64 page;

	for (page = first; page < end; page++)
		md_ftl_unmap(&flash->ftl, page);
	for (i = 0; i < flash->nr_row; i++) {
		if (flash->row[i] >= first && flash->row[i] < end)
			flash->nr_buffered--;
		else
			flash->row[nr++] = flash->row[i];
	}
	flash->nr_row = nr;
}

static void md_flash_flush(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	if (flash->nr_row)
		md_flash_program_row(flash, now_ns);
	md_events_add(&flash->events, max(flash->drained_ns, now_ns), MD_FLASH_DONE, 0,
		      cmd);
}

static void md_flash_decoded(struct md_flash *flash, struct md_cmd *cmd, u64 now_ns)
{
	u64 end_sect = cmd->sect + cmd->nr_sects;

	cmd->word[MD_FLASH_FIRST] = div_u64(cmd->sect, MD_FTL_PAGE_SECTS);
	cmd->word[MD_FLASH_END] = div_u64(end_sect + MD_FTL_PAGE_SECTS - 1,
					  MD_FTL_PAGE_SECTS);
	cmd->word[MD_FLASH_CAME] = 0;
	cmd->word[MD_FLASH_TAKEN] = 0;
	cmd->nr_parts = cmd->word[MD_FLASH_END] - cmd->word[MD_FLASH_FIRST];
	switch (cmd->op) {
	case MD_READ:
		md_flash_read(flash, cmd, now_ns);
		break;
	case MD_WRITE:
		md_flash_receive(flash, cmd, now_ns);
		break;
	case MD_FLUSH:
		md_flash_flush(flash, cmd, now_ns);
		break;
	default:
		md_flash_discard(flash, cmd);
		md_flash_end(flash, cmd, now_ns);
	}
}

static void md_flash_happen(struct md_flash *flash, const struct md_event *event)
{
	const struct md_flash_params *params = &flash->params;
	u32 nr = MD_FLASH_UNIT_PAGES(event->unit);
	u64 at_ns = event->at_ns, done_ns;

	switch (event->kind) {
	case MD_FLASH_DECODED:
		md_flash_decoded(flash, event->what, at_ns);
		break;
	case MD_FLASH_SENSED:
		done_ns = md_flash_book(md_flash_channel_of(flash,
							    MD_FLASH_UNIT_DIE(event->unit)),
					at_ns, nr * params->channel_ns);
		md_events_add(&flash->events, done_ns, MD_FLASH_FETCHED, nr, event->what);
		break;
	case MD_FLASH_FETCHED:
		done_ns = md_flash_book(&flash->link_ns, at_ns, nr * params->link_ns);
		md_events_add(&flash->events, done_ns, MD_FLASH_PARTS_DONE, nr,
			      event->what);
		break;
	case MD_FLASH_RECEIVED:
		md_flash_received(flash, event->what, nr, at_ns);
		break;
	case MD_FLASH_PARTS_DONE:
		md_flash_parts_done(flash, event->what, nr, at_ns);
		break;
	case MD_FLASH_DRAINED:
		md_flash_drained(flash, nr, at_ns);
		break;
	case MD_FLASH_DONE:
		md_flash_end(flash, event->what, at_ns);
		break;
	}
}

static void md_flash_submit(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	struct md_flash *flash = md_flash_of(model);

	md_arrive(model, cmd, now_ns);
	if (flash->nr_taken < flash->params.queue_depth)
		md_flash_start(flash, cmd, now_ns);
	else
		list_add_tail(&cmd->node, &flash->waiting);
}

static u64 md_flash_next_ns(struct md_model *model)
{
	return md_events_next_ns(&md_flash_of(model)->events);
}

static void md_flash_advance(struct md_model *model, u64 now_ns)
{
	struct md_flash *flash = md_flash_of(model);
	struct md_event event;

	while (md_events_take(&flash->events, now_ns, &event))
		md_flash_happen(flash, &event);
}

/*
 * Bring the disk to the state that fill_pct and overwrite_pct describe, as the
 * writes would that take hours on a real one. It counts as nothing.
 */
static void md_flash_precondition(struct md_flash *flash)
{
	const struct md_flash_params *params = &flash->params;
	struct md_ftl *ftl = &flash->ftl;
	u64 nr_pages = ftl->config.nr_pages;
	u64 nr_fill = div_u64(nr_pages * params->fill_pct, 100);
	u64 nr_overwrite = div_u64(nr_pages * params->overwrite_pct, 100);
	u64 area = max(div_u64(nr_pages * params->overwrite_area_permille, 1000), 1ULL);
	struct md_ftl_work work = {};
	u32 die = 0, page;
	u64 i;

	for (i = 0; i < nr_fill; i++) {
		if (i % flash->row_pages == 0)
			die = md_ftl_pick_die(ftl);
		md_ftl_write(ftl, die, i, &work);
		if (i % 1024 == 0)
			cond_resched();
	}
	for (i = 0; i < nr_overwrite; i++) {
		page = md_rng_below(&flash->model.rng, area);
		md_ftl_unmap(ftl, page);
		md_ftl_write(ftl, md_ftl_pick_die(ftl), page, &work);
		if (i % 1024 == 0)
			cond_resched();
	}
}

static void md_flash_destroy(struct md_model *model)
{
	struct md_flash *flash = md_flash_of(model);

	md_ftl_free(&flash->ftl);
	md_events_free(&flash->events);
	kvfree(flash->channel_ns);
	kvfree(flash->die_ns);
	kvfree(flash->die_read_ns);
	kvfree(flash->row);
	kfree(flash);
}

static int md_flash_alloc(struct md_flash *flash, struct md_setup *setup)
{
	const struct md_flash_params *params = &flash->params;
	struct md_ftl_config config = {
		.nr_pages = div_u64(setup->nr_sects, MD_FTL_PAGE_SECTS),
		.nr_dies = flash->nr_dies,
		.block_pages = params->block_pages,
		.row_pages = flash->row_pages,
		.op_permille = params->op_permille,
		.gc_low = params->gc_low,
		.gc_high = params->gc_high,
	};
	/* Of a command: its pages, one of them in part, and the command itself. */
	u64 cmd_events = setup->max_sects / MD_FTL_PAGE_SECTS + 3;
	u64 nr_taken_most = min_t(u64, params->queue_depth, setup->nr_cmds);
	int err;

	if (params->row_pages > params->block_pages) {
		scnprintf(setup->problem, sizeof(setup->problem),
			  "row_pages %llu: at most block_pages, %llu",
			  params->row_pages, params->block_pages);
		return -EINVAL;
	}
	if (params->buffer_pages && params->buffer_pages < params->row_pages) {
		scnprintf(setup->problem, sizeof(setup->problem),
			  "buffer_pages %llu: 0, or at least row_pages, %llu",
			  params->buffer_pages, params->row_pages);
		return -EINVAL;
	}
	err = md_ftl_init(&flash->ftl, &config, setup->problem, sizeof(setup->problem));
	if (err)
		return err;
	flash->channel_ns = kvcalloc(params->channels, sizeof(u64), GFP_KERNEL);
	flash->die_ns = kvcalloc(flash->nr_dies, sizeof(u64), GFP_KERNEL);
	flash->die_read_ns = kvcalloc(flash->nr_dies, sizeof(u64), GFP_KERNEL);
	flash->row = kvcalloc(flash->row_pages, sizeof(u32), GFP_KERNEL);
	if (!flash->channel_ns || !flash->die_ns || !flash->die_read_ns || !flash->row)
		return -ENOMEM;
	/* And what leaves the buffer, a page at a time at worst. */
	return md_events_init(&flash->events,
			      nr_taken_most * cmd_events + params->buffer_pages);
}

static struct md_model *md_flash_create(struct md_setup *setup)
{
	struct md_flash *flash = kzalloc(sizeof(*flash), GFP_KERNEL);

	if (!flash)
		return NULL;
	md_model_init(&flash->model, &md_flash_type, setup->seed);
	flash->params = *(const struct md_flash_params *)setup->params;
	flash->nr_dies = flash->params.channels * flash->params.dies;
	flash->row_pages = flash->params.row_pages;
	INIT_LIST_HEAD(&flash->waiting);
	INIT_LIST_HEAD(&flash->crowded);
	if (md_flash_alloc(flash, setup)) {
		md_flash_destroy(&flash->model);
		return NULL;
	}
	md_flash_precondition(flash);
	return &flash->model;
}

#define MD_PARAMS_STRUCT md_flash_params
static const struct md_param md_flash_param_table[] = {
	MD_FLASH_PARAMS(MD_PARAM_ENTRY)
};

#undef MD_PARAMS_STRUCT

/*
 * The eMMC of the SFQ paper (eMMC 4.5, 64 GB, one command at a time). All times
 * are those of notes B1, assumed there within what MQSim and SimpleSSD assume
 * of MLC flash.
 */
#define MD_FLASH_EMMC							\
	.channels = 1,		/* one command at a time: no matter */	\
	.dies = 1,							\
	.row_pages = 4,		/* B1: copies run on 2 to 8 planes */	\
	.block_pages = 64,	/* B1: 64 to 256 */			\
	.read_ns = 90 * 1000,						\
	.program_ns = 1300 * 1000, /* the mean of an MLC page pair */	\
	.erase_ns = 4000 * 1000, /* B1: 3.5 to 5 ms */			\
	.channel_ns = 0,	/* in link_ns */			\
	.command_ns = 60 * 1000,					\
	.link_ns = 40 * 1000,	/* 100 MB/s */				\
	.queue_depth = 1,						\
	.buffer_pages = 0,						\
	.reads_first = 0,						\
	.fill_pct = 100

static const struct md_flash_params md_flash_emmc = {
	MD_FLASH_EMMC,
	.op_permille = 70,	/* notes B2: 64 GB with 4.5 GB spare */
	.gc_low = 2,		/* notes B1: "spread" */
	.gc_high = 3,
	.overwrite_pct = 100,
	.overwrite_area_permille = 1000,
};

/*
 * The same disk set up as in the SFQ paper, section 5: full but for a part, and
 * random writes in that, with so little spare space that there is garbage to
 * collect at all, and collection that does much at a time (notes B2, b).
 */
static const struct md_flash_params md_flash_emmc_clustered = {
	MD_FLASH_EMMC,
	.op_permille = 20,
	.gc_low = 2,		/* notes B1: "clustered" */
	.gc_high = 20,
	.overwrite_pct = 50,
	.overwrite_area_permille = 31, /* 1/32, as notes B2 */
};

/*
 * A SATA SSD of MLC flash. Geometry and times are SimpleSSD's sample
 * configuration (SimpleSSD/SimpleSSD config/sample.xml, 095d0c58), which has
 * two kinds of pages, of which these are the means; spare space is MQSim's and
 * NVMeVirt's.
 */
static const struct md_flash_params md_flash_sata_ssd = {
	.channels = 8,
	.dies = 4,
	.row_pages = 8,		/* 2 planes of 16 KiB */
	.block_pages = 64,	/* scaled: 512 rows there */
	.op_permille = 70,
	.gc_low = 2,		/* NVMeVirt collects with 2 free lines or less */
	.gc_high = 3,
	.read_ns = 87500,	/* 65 and 110 us */
	.program_ns = 2125 * 1000, /* 1.25 and 3 ms */
	.erase_ns = 5000 * 1000,
	.channel_ns = 20480,	/* 8 bits at 200 MT/s */
	/* 100,000 reads a second, what SATA disks of that time are sold with. */
	.command_ns = 10 * 1000,
	.link_ns = 7447,	/* 550 MB/s, likewise */
	.queue_depth = 32,	/* of NCQ */
	.buffer_pages = 512,	/* two rows for each die, so that none is idle */
	.reads_first = 1,	/* MQSim's Preemptible_GC_Enabled, off there */
	.fill_pct = 100,
	.overwrite_pct = 100,
	.overwrite_area_permille = 1000,
};

static const struct md_preset md_flash_presets[] = {
	{ "emmc", 1024, &md_flash_emmc },
	{ "emmc-clustered", 1024, &md_flash_emmc_clustered },
	{ "sata-ssd", 4096, &md_flash_sata_ssd },
};

const struct md_model_type md_flash_type = {
	.name = "flash",
	.params = md_flash_param_table,
	.nr_params = ARRAY_SIZE(md_flash_param_table),
	.presets = md_flash_presets,
	.nr_presets = ARRAY_SIZE(md_flash_presets),
	.params_bytes = sizeof(struct md_flash_params),
	.rotational = false,
	.create = md_flash_create,
	.destroy = md_flash_destroy,
	.submit = md_flash_submit,
	.next_ns = md_flash_next_ns,
	.advance = md_flash_advance,
};
