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
 * everything waits.
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
 * 7.3, so for each of them 6.3 / 4 rows are copied at 1,390 us, and 1 / 8.8 of
 * a block is erased at 4 ms: 4 ms on average. But it does not come on average:
 * collection starts with one free block and ends with three, so two blocks of
 * 64 pages are gained at 8.8 pages a victim, and some 15 victims of 14 rows take
 * some 340 ms, while everything waits.
 *
 * The presets' data sources are at the tables below. Disks of 1 to 4 GiB stand
 * for larger ones: write amplification depends on the parts of the space that
 * are written and spare (notes B2: 1/32 of the space with 7 % spare stands for
 * 2 GiB of 64 GiB), not on the space. Blocks are smaller than today's, as
 * there must be many on each die; stalls are proportional to them.
 *
 * Memory: 4 bytes for each page of data and 4 for each page of flash, 134 MiB
 * for 64 GiB with op_permille 70.
 *
 * It does not have: collection in idle time, wear, bad blocks and levelling,
 * suspended programs or erases, priority of reads, different times for the
 * pages of a cell, a cache for reads, an SLC cache, or a map that has to be read
 * from flash itself. A read of data that is in the buffer goes to the flash,
 * where it was or will be. Copies do not use the channel.
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
	u64 *channel_ns;
	u64 *die_ns;
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
				      md_flash_book(&flash->die_ns[die], now_ns,
						    flash->params.read_ns),
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
