/* SPDX-License-Identifier: GPL-2.0-only */
/* A page-mapped flash translation layer without time; see ftl.c. */
#ifndef _MD_FTL_H
#define _MD_FTL_H

#include <linux/types.h>

#define MD_FTL_NONE		(~0U)
#define MD_FTL_PAGE_SECTS	8	/* 4 KiB, the unit of mapping */
/* 64 GiB of data: with op_permille 1000 its tables take 192 MiB, with 70 134. */
#define MD_FTL_MAX_PAGES	(16U * 1024 * 1024)

struct md_ftl_config {
	u64 nr_pages;		/* of data, 4 KiB each */
	u32 nr_dies;
	u32 block_pages;	/* pages that are erased together, a power of two */
	u32 row_pages;		/* pages that a die copies at a time */
	u32 op_permille;	/* pages more than there are of data */
	u32 gc_low;		/* free blocks of a die: collect below this, */
	u32 gc_high;		/* until there are so many */
};

/* A block that is not being written is in the list of those as full as it is. */
struct md_ftl_block {
	u32 next;
	u32 prev;
	u16 nr_valid;
	u16 die;
};

struct md_ftl_die {
	u32 open;	/* block that is being written, or none */
	u32 nr_used;	/* pages of it */
	u32 free;	/* the first of its free blocks */
	u32 nr_free;
	u32 nr_valid;	/* pages on this die that hold data */
	u32 least;	/* no block that could be collected has fewer valid pages */
};

struct md_ftl {
	struct md_ftl_config config;
	u32 block_shift;
	u32 die_blocks;		/* blocks of a die */
	u32 die_pages_most;	/* a die that holds so much data takes no more */
	u32 next_die;		/* to be written, when nothing else decides */
	u32 *map;		/* page of data -> page of flash, or none */
	u32 *owner;		/* page of flash -> page of data, or none */
	struct md_ftl_block *blocks;
	struct md_ftl_die *dies;
	u32 *lists;		/* [die][valid pages]: the first such block */
};

/* What garbage collection did. */
struct md_ftl_work {
	u64 nr_copies;	/* pages */
	u64 nr_rows;	/* copies of up to row_pages at a time */
	u64 nr_erases;	/* blocks collected */
};

int md_ftl_init(struct md_ftl *ftl, const struct md_ftl_config *config,
		char *problem, size_t problem_bytes);
void md_ftl_free(struct md_ftl *ftl);
void md_ftl_unmap(struct md_ftl *ftl, u32 page);
void md_ftl_write(struct md_ftl *ftl, u32 die, u32 page, struct md_ftl_work *work);
u32 md_ftl_pick_die(struct md_ftl *ftl);

/* May data go to this die? There is always one for a page that is not mapped. */
static inline bool md_ftl_has_room(const struct md_ftl *ftl, u32 die)
{
	return ftl->dies[die].nr_valid < ftl->die_pages_most;
}

static inline u32 md_ftl_die_of(const struct md_ftl *ftl, u32 flash_page)
{
	return ftl->blocks[flash_page >> ftl->block_shift].die;
}

#endif /* _MD_FTL_H */
