// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page-mapped flash translation layer: where each page of data is, and what
 * has to be copied and erased so that there is room to write. It has no time;
 * flash.c gives it one.
 *
 * Flash pages are written once until their block is erased. So each write of a
 * page of data takes the next page of the block that its die has open, and the
 * page where the data was before holds garbage. When a die needs a new block
 * and has fewer than gc_low free ones, it collects garbage until it has
 * gc_high: the block with the fewest valid pages (the greedy choice) is
 * emptied, its valid pages written to the open block like any others, and
 * erased.
 *
 * The equation: with a victim of which the part u is valid, each page of
 * garbage gained costs u / (1 - u) copies, so pages programmed per page
 * written, the write amplification, is 1 / (1 - u). For writes uniformly
 * random over all data, s pages of flash for each page of data and blocks of b
 * pages, it is the u for which
 *
 *	s (1 - u) = 1/b + 1/(b - 1) + ... + 1/(u b + 1)
 *
 * as a block has j valid pages for a time in proportion to 1/j. For blocks of
 * many pages that is u = exp(-s (1 - u)) (Xiang and Kurkoski, "An Improved
 * Analytical Expression for Write Amplification in NAND Flash", 2011). Worked:
 * op_permille 70, s = 1.07: u = 0.872 and an amplification of 7.8 for large
 * blocks, 7.0 for blocks of 64 pages, of which some are emptier than others
 * by luck; op_permille 20: 25.7 and 18.8. Free blocks and the open one are not
 * part of s, which matters where there is little of it.
 *
 * The cost is the same for a disk of any size: blocks that can be collected
 * are in doubly linked lists, one for each die and number of valid pages, and
 * the lowest list in use is remembered. A page programmed, for a write or as a
 * copy, is 40 to 70 instructions, so a disk can be brought to its steady state
 * when it is made.
 *
 * There is always room. A die takes no more data than die_pages_most, which is
 * what it must take, and half of what it could take with gc_high blocks free
 * and one page of garbage: so when fewer than gc_high are free, the blocks that
 * are closed hold garbage, and the best of them gives at least one page. As
 * gc_low is at least 2, one block is free when collection begins, and each
 * victim needs less than a block and gives one.
 *
 * Figures: greedy choice, foreground collection per plane or die and copies
 * that stay on it are MQSim's (CMU-SAFARI/MQSim), one open block for data and
 * copies is FEMU's (MoatLab/FEMU, bbssd). There is no wear levelling, no
 * separation of data that is often written from data that is not, no
 * collection while the disk is idle, and the map is in memory as a whole.
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include "ftl.h"

static u32 *md_ftl_list(struct md_ftl *ftl, const struct md_ftl_block *block)
{
	return &ftl->lists[block->die * (ftl->config.block_pages + 1) +
			   block->nr_valid];
}

static void md_ftl_link(struct md_ftl *ftl, u32 index)
{
	struct md_ftl_block *block = &ftl->blocks[index];
	struct md_ftl_die *die = &ftl->dies[block->die];
	u32 *list = md_ftl_list(ftl, block);

	block->prev = MD_FTL_NONE;
	block->next = *list;
	if (*list != MD_FTL_NONE)
		ftl->blocks[*list].prev = index;
	*list = index;
	if (block->nr_valid < die->least)
		die->least = block->nr_valid;
}

static void md_ftl_unlink(struct md_ftl *ftl, const struct md_ftl_block *block)
{
	if (block->prev != MD_FTL_NONE)
		ftl->blocks[block->prev].next = block->next;
	else
		*md_ftl_list(ftl, block) = block->next;
	if (block->next != MD_FTL_NONE)
		ftl->blocks[block->next].prev = block->prev;
}

static void md_ftl_put_free(struct md_ftl *ftl, u32 index)
{
	struct md_ftl_block *block = &ftl->blocks[index];
	struct md_ftl_die *die = &ftl->dies[block->die];

	block->nr_valid = 0;
	block->next = die->free;
	die->free = index;
	die->nr_free++;
}

/* Program the next page of the die with @page. */
static void md_ftl_place(struct md_ftl *ftl, struct md_ftl_die *die, u32 page)
{
	u32 flash_page;

	if (die->open == MD_FTL_NONE) {
		die->open = die->free;
		die->free = ftl->blocks[die->open].next;
		die->nr_free--;
		die->nr_used = 0;
	}
	flash_page = (die->open << ftl->block_shift) + die->nr_used++;
	ftl->owner[flash_page] = page;
	ftl->map[page] = flash_page;
	ftl->blocks[die->open].nr_valid++;
	if (die->nr_used == ftl->config.block_pages) {
		md_ftl_link(ftl, die->open);
		die->open = MD_FTL_NONE;
	}
}

/* Collect the block of the die that has the fewest valid pages. */
static void md_ftl_collect_one(struct md_ftl *ftl, struct md_ftl_die *die,
			       u32 die_index, struct md_ftl_work *work)
{
	const u32 *lists = &ftl->lists[die_index * (ftl->config.block_pages + 1)];
	u32 victim, nr_left, *owner;

	while (lists[die->least] == MD_FTL_NONE)
		die->least++;
	victim = lists[die->least];
	nr_left = ftl->blocks[victim].nr_valid;
	md_ftl_unlink(ftl, &ftl->blocks[victim]);

	work->nr_copies += nr_left;
	work->nr_rows += DIV_ROUND_UP(nr_left, ftl->config.row_pages);
	work->nr_erases++;
	for (owner = &ftl->owner[victim << ftl->block_shift]; nr_left; owner++) {
		if (*owner == MD_FTL_NONE)
			continue;
		md_ftl_place(ftl, die, *owner);
		*owner = MD_FTL_NONE;
		nr_left--;
	}
	md_ftl_put_free(ftl, victim);
}

/**
 * md_ftl_unmap() - what a page holds is not needed any more
 * @ftl: the layer
 * @page: of data; nothing happens if it is not mapped
 */
void md_ftl_unmap(struct md_ftl *ftl, u32 page)
{
	u32 flash_page = ftl->map[page], index;
	struct md_ftl_block *block;
	struct md_ftl_die *die;

	if (flash_page == MD_FTL_NONE)
		return;
	ftl->map[page] = MD_FTL_NONE;
	ftl->owner[flash_page] = MD_FTL_NONE;
	index = flash_page >> ftl->block_shift;
	block = &ftl->blocks[index];
	die = &ftl->dies[block->die];
	die->nr_valid--;
	if (index == die->open) {
		block->nr_valid--;
		return;
	}
	md_ftl_unlink(ftl, block);
	block->nr_valid--;
	md_ftl_link(ftl, index);
}

/**
 * md_ftl_write() - write a page of data
 * @ftl: the layer
 * @die_index: where to; it has room (md_ftl_has_room())
 * @page: of data, which is not mapped
 * @work: the garbage collection that this needs is added to it
 */
void md_ftl_write(struct md_ftl *ftl, u32 die_index, u32 page,
		  struct md_ftl_work *work)
{
	struct md_ftl_die *die = &ftl->dies[die_index];

	if (die->open == MD_FTL_NONE && die->nr_free < ftl->config.gc_low)
		while (die->nr_free < ftl->config.gc_high)
			md_ftl_collect_one(ftl, die, die_index, work);
	die->nr_valid++;
	md_ftl_place(ftl, die, page);
}

/* The dies in turn, but those that have no room. */
u32 md_ftl_pick_die(struct md_ftl *ftl)
{
	u32 die = ftl->next_die;

	while (!md_ftl_has_room(ftl, die))
		die = die + 1 == ftl->config.nr_dies ? 0 : die + 1;
	ftl->next_die = die + 1 == ftl->config.nr_dies ? 0 : die + 1;
	return die;
}

/* Say so in @problem if some parameters do not go together. */
static int md_ftl_check(const struct md_ftl_config *config, char *problem,
			size_t problem_bytes)
{
	if (config->nr_pages > MD_FTL_MAX_PAGES) {
		scnprintf(problem, problem_bytes,
			  "size %llu MiB: at most %u, as its map has to be in memory",
			  config->nr_pages >> 8, MD_FTL_MAX_PAGES >> 8);
		return -EINVAL;
	}
	if (config->block_pages & (config->block_pages - 1)) {
		scnprintf(problem, problem_bytes, "block_pages %u: a power of two",
			  config->block_pages);
		return -EINVAL;
	}
	if (config->gc_high < config->gc_low) {
		scnprintf(problem, problem_bytes, "gc_high %u: at least gc_low, %u",
			  config->gc_high, config->gc_low);
		return -EINVAL;
	}
	return 0;
}

/* How much flash there is, and whether it can do with that. */
static int md_ftl_measure(struct md_ftl *ftl, char *problem, size_t problem_bytes)
{
	const struct md_ftl_config *config = &ftl->config;
	u64 nr_pages = config->nr_pages;
	u64 flash_pages = nr_pages + div_u64(nr_pages * config->op_permille, 1000);
	u64 stripe_pages = (u64)config->block_pages * config->nr_dies;
	u64 die_pages = DIV64_U64_ROUND_UP(nr_pages, config->nr_dies);
	u64 most, least_blocks, missing;

	while (1U << ftl->block_shift < config->block_pages)
		ftl->block_shift++;
	ftl->die_blocks = DIV64_U64_ROUND_UP(flash_pages, stripe_pages);
	/* Its data, a row of one more command, a page of garbage, gc_high free. */
	least_blocks = div_u64(die_pages + config->row_pages, config->block_pages) + 1 +
		       config->gc_high;
	if (ftl->die_blocks < least_blocks) {
		missing = (least_blocks - 1) * stripe_pages + 1 - nr_pages;
		scnprintf(problem, problem_bytes,
			  "op_permille %u: at least %llu with %llu MiB, %u dies, block_pages %u, gc_high %u",
			  config->op_permille, div64_u64(missing * 1000, nr_pages) + 1,
			  nr_pages >> 8, config->nr_dies, config->block_pages,
			  config->gc_high);
		return -EINVAL;
	}
	most = (u64)(ftl->die_blocks - config->gc_high) * config->block_pages - 1 -
	       config->row_pages;
	ftl->die_pages_most = die_pages + (most - die_pages) / 2;
	return 0;
}

/**
 * md_ftl_init() - make a layer that holds no data
 * @ftl: the layer
 * @config: what it is to be like
 * @problem: why -EINVAL, in words
 * @problem_bytes: size of that
 *
 * Return: 0, -EINVAL, or -ENOMEM; md_ftl_free() is for all of them.
 */
int md_ftl_init(struct md_ftl *ftl, const struct md_ftl_config *config,
		char *problem, size_t problem_bytes)
{
	u32 nr_lists = config->nr_dies * (config->block_pages + 1);
	u32 nr_blocks, i;
	int err;

	memset(ftl, 0, sizeof(*ftl));
	ftl->config = *config;
	err = md_ftl_check(config, problem, problem_bytes);
	if (!err)
		err = md_ftl_measure(ftl, problem, problem_bytes);
	if (err)
		return err;

	nr_blocks = ftl->die_blocks * config->nr_dies;
	ftl->map = kvmalloc_array(config->nr_pages, sizeof(u32), GFP_KERNEL);
	ftl->owner = kvmalloc_array((size_t)nr_blocks << ftl->block_shift, sizeof(u32),
				    GFP_KERNEL);
	ftl->blocks = kvcalloc(nr_blocks, sizeof(*ftl->blocks), GFP_KERNEL);
	ftl->dies = kvcalloc(config->nr_dies, sizeof(*ftl->dies), GFP_KERNEL);
	ftl->lists = kvmalloc_array(nr_lists, sizeof(u32), GFP_KERNEL);
	if (!ftl->map || !ftl->owner || !ftl->blocks || !ftl->dies || !ftl->lists)
		return -ENOMEM;

	memset(ftl->map, 0xff, (size_t)config->nr_pages * sizeof(u32));
	memset(ftl->owner, 0xff, ((size_t)nr_blocks << ftl->block_shift) * sizeof(u32));
	memset(ftl->lists, 0xff, (size_t)nr_lists * sizeof(u32));
	for (i = 0; i < config->nr_dies; i++) {
		ftl->dies[i].open = MD_FTL_NONE;
		ftl->dies[i].free = MD_FTL_NONE;
	}
	/* The blocks of a die are not neighbours; nothing depends on that. */
	for (i = nr_blocks; i--; ) {
		ftl->blocks[i].die = i % config->nr_dies;
		md_ftl_put_free(ftl, i);
	}
	return 0;
}

void md_ftl_free(struct md_ftl *ftl)
{
	kvfree(ftl->map);
	kvfree(ftl->owner);
	kvfree(ftl->blocks);
	kvfree(ftl->dies);
	kvfree(ftl->lists);
}
