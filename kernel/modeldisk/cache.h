/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of a disk's data survives a power cut, for one page of it: pure
 * arithmetic on two copies of the page, compiled in the kernel (cache.c) and in
 * userspace (tests/cache_sim.c). cache.c has the model and its example.
 *
 * Writes are counted in logical blocks, of MD_BLOCK_BYTES. What is never torn is the
 * physical block of 4 KiB that the disk names in its limits: file systems rely on that.
 */
#ifndef _MD_CACHE_H
#define _MD_CACHE_H

#include <linux/kernel.h>
#include <linux/types.h>

#include "rng.h"

#define MD_BLOCK_SHIFT	9
#define MD_BLOCK_BYTES	512U
#define MD_PHYSICAL_SHIFT	(12 - MD_BLOCK_SHIFT)	/* logical blocks in a physical one */

/* In how many steps a seed chooses the part of the blocks that land. */
#define MD_LAND_STEPS	16

/*
 * One page. A block is dirty if it may differ in the two copies: then
 * dirty_at is the cache's clock when the oldest write of the block that
 * is not durable was done. 0: the copies are the same.
 */
struct md_versions {
	u8 *now;		/* what a read returns */
	u8 *durable;		/* what is on the medium */
	u64 *dirty_at;		/* for each block */
	u32 nr_dirty;		/* blocks */
};

/* What a power cut did, in blocks. */
struct md_cut_count {
	u64 nr_kept;		/* from the cache, on the medium */
	u64 nr_lost;		/* from the cache */
	u64 nr_landed;		/* of writes in flight */
	u64 nr_torn_off;	/* of writes in flight, did not land */
};

/*
 * Does the block land in the cut of this seed? All of a physical block do, or none. Of
 * all physical blocks a part does that the seed chooses as well, from none to all.
 */
static inline bool md_block_lands(u64 seed, u64 block)
{
	u64 part = md_hash(seed) % (MD_LAND_STEPS + 1);

	return md_hash(md_hash(seed ^ 0x9e3779b97f4a7c15ULL) +
		       (block >> MD_PHYSICAL_SHIFT)) % MD_LAND_STEPS < part;
}

static inline void md_block_copy(u8 *to, const u8 *from, unsigned int block)
{
	unsigned int at = block << MD_BLOCK_SHIFT;

	memcpy(to + at, from + at, MD_BLOCK_BYTES);
}

/* Both copies of the block are the same from here on. */
static inline void md_block_settle(struct md_versions *page, unsigned int block)
{
	if (!page->dirty_at[block])
		return;
	page->dirty_at[block] = 0;
	page->nr_dirty--;
}

/* Blocks @first to before @end of now were written, at @clock (not 0). */
static inline void md_versions_dirty(struct md_versions *page, unsigned int first,
				     unsigned int end, u64 clock)
{
	unsigned int block;

	for (block = first; block < end; block++) {
		if (page->dirty_at[block])
			continue;
		page->dirty_at[block] = clock;
		page->nr_dirty++;
	}
}

/* Blocks @first to before @end of now were written, past the cache. */
static inline void md_versions_put_through(struct md_versions *page,
					   unsigned int first, unsigned int end)
{
	unsigned int block;

	for (block = first; block < end; block++) {
		md_block_copy(page->durable, page->now, block);
		md_block_settle(page, block);
	}
}

/*
 * A flush is done that came at @clock. A block that was dirty then becomes
 * durable as it is now, which may be a later write's content.
 */
static inline void md_versions_flush(struct md_versions *page, unsigned int nr_blocks,
				     u64 clock)
{
	unsigned int block;

	for (block = 0; block < nr_blocks && page->nr_dirty; block++) {
		if (!page->dirty_at[block] || page->dirty_at[block] > clock)
			continue;
		md_block_copy(page->durable, page->now, block);
		md_block_settle(page, block);
	}
}

/* The power is cut: each dirty block of the page is kept or lost. */
static inline void md_versions_cut(struct md_versions *page, unsigned int nr_blocks,
				   u64 first_block, u64 seed,
				   struct md_cut_count *count)
{
	unsigned int block;

	for (block = 0; block < nr_blocks && page->nr_dirty; block++) {
		if (!page->dirty_at[block])
			continue;
		if (md_block_lands(seed, first_block + block)) {
			md_block_copy(page->durable, page->now, block);
			count->nr_kept++;
		} else {
			md_block_copy(page->now, page->durable, block);
			count->nr_lost++;
		}
		md_block_settle(page, block);
	}
}

#endif /* _MD_CACHE_H */
