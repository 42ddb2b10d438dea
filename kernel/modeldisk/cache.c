// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data of a memory-backed disk that can lose power (`power_loss`).
 *
 * Problem
 *
 * A file system promises that what fsync() acknowledged is there after a power
 * cut. It keeps that only if the disk is sent each flush and each FUA write,
 * complete and in order, by everything between the two. A disk in memory that
 * never forgets a write cannot tell.
 *
 * Model
 *
 * Each page of the disk has two versions: what a read returns, and what is on
 * the medium. All data moves when the model completes the request, so
 * requests take effect one after another:
 *
 * - A write changes the first version and makes its blocks dirty. On a disk
 *   without `write_cache`, or with FUA, it changes both versions. Discards and
 *   write zeroes are writes of zeros. A secure erase always changes both.
 * - A flush that completes makes durable each block that was dirty when the
 *   flush came. A block that became dirty after that stays dirty: the flush
 *   promises nothing about writes that were in flight.
 * - Nothing else makes a block durable.
 * - A power cut keeps or drops what is dirty of each physical block (4 KiB) by
 *   itself. Then each physical block of each write, discard and write zeroes in
 *   flight lands, on the medium, or does not. Each choice is a hash of the seed and
 *   the block's number (md_block_lands()). The part of the blocks that land comes
 *   from the seed too: some cuts lose all, some nothing. No physical block is torn:
 *   ext4 and XFS rely on that, and a disk that names its physical block keeps it.
 *
 * Worked: block 8 holds A. A write of B to it completes at clock 1. A flush
 * comes. A write of C to block 9 completes at clock 2. The flush completes: B is
 * on the medium, since block 8 was dirty at clock 1; C is not. A write of D
 * to blocks 8 to 15 comes and is in flight. The power is cut. Block 9 is
 * dirty: the seed keeps C or gives back what was there before C. Then the
 * write in flight: the seed says whether D landed in the physical block of 8 to 15.
 * Block 8 holds B or D, never A, and never half of each.
 *
 * Why not copy data when a request is submitted, as store.c does: then a write
 * would be in the cache before it is done, a flush in between would make it
 * durable, and no write would ever be torn.
 *
 * Locking
 *
 * md_disk.lock protects the versions. Pages come at submission, which may sleep,
 * and stay until power off, so that completion finds them without a lock of the
 * tree.
 *
 * What it costs
 *
 * Two pages, and a clock for each block, for each page that was ever written.
 * Data is copied with interrupts off: of one request, or, for a flush, of all
 * that is dirty. Disks without `power_loss` pay a test for each request.
 */
#include "modeldisk.h"

#include <linux/highmem.h>

#define MD_PAGE_BLOCKS	(PAGE_SIZE >> MD_BLOCK_SHIFT)

/* One page of the disk; under md_disk.lock. */
struct md_cached {
	struct md_versions versions;
	u64 dirty_at[MD_PAGE_BLOCKS];
	u64 index;
	struct list_head dirty;		/* md_cache.dirty, while any block is */
};

/* The cut that tears requests in flight. */
struct md_tear {
	u64 seed;
	struct md_cut_count *count;
};

static bool md_tear_lands(const struct md_tear *tear, u64 block)
{
	bool lands = md_block_lands(tear->seed, block);

	if (lands)
		tear->count->nr_landed++;
	else
		tear->count->nr_torn_off++;
	return lands;
}

void md_cache_init(struct md_cache *cache)
{
	xa_init(&cache->pages);
	INIT_LIST_HEAD(&cache->dirty);
}

static void md_cached_free(struct md_cached *page)
{
	free_page((unsigned long)page->versions.now);
	free_page((unsigned long)page->versions.durable);
	kfree(page);
}

void md_cache_free(struct md_cache *cache)
{
	struct md_cached *page;
	unsigned long index;

	xa_for_each(&cache->pages, index, page) {
		md_cached_free(page);
		cond_resched();
	}
	xa_destroy(&cache->pages);
}

static struct md_cached *md_cached_alloc(u64 index)
{
	struct md_cached *page = kzalloc(sizeof(*page), GFP_NOIO);

	if (!page)
		return NULL;
	page->versions.now = (u8 *)get_zeroed_page(GFP_NOIO);
	page->versions.durable = (u8 *)get_zeroed_page(GFP_NOIO);
	page->versions.dirty_at = page->dirty_at;
	page->index = index;
	INIT_LIST_HEAD(&page->dirty);
	if (page->versions.now && page->versions.durable)
		return page;
	md_cached_free(page);
	return NULL;
}

/**
 * md_cache_prepare - find memory for a request's data
 * @cache: of the disk
 * @rq: any request
 *
 * May sleep. Return: BLK_STS_RESOURCE if there is no memory.
 */
blk_status_t md_cache_prepare(struct md_cache *cache, struct request *rq)
{
	u64 index = blk_rq_pos(rq) >> (PAGE_SHIFT - MD_SECT_SHIFT);
	u64 end_sect = blk_rq_pos(rq) + blk_rq_sectors(rq);
	u64 end = DIV_ROUND_UP_ULL(end_sect, PAGE_SIZE >> MD_SECT_SHIFT);
	struct md_cached *page, *other;

	if (req_op(rq) != REQ_OP_WRITE)
		return BLK_STS_OK;

	for (; index < end; index++) {
		if (xa_load(&cache->pages, index))
			continue;
		page = md_cached_alloc(index);
		if (!page)
			return BLK_STS_RESOURCE;
		other = xa_cmpxchg(&cache->pages, index, NULL, page, GFP_NOIO);
		if (!other)
			continue;
		md_cached_free(page);
		if (xa_is_err(other))
			return BLK_STS_RESOURCE;
	}
	return BLK_STS_OK;
}

/* Blocks of one page were written to its first version. */
static void md_cached_written(struct md_cache *cache, struct md_cached *page,
			      unsigned int first, unsigned int end, bool durable)
{
	if (durable)
		md_versions_put_through(&page->versions, first, end);
	else
		md_versions_dirty(&page->versions, first, end, cache->clock);
	if (!page->versions.nr_dirty)
		list_del_init(&page->dirty);
	else if (list_empty(&page->dirty))
		list_add_tail(&page->dirty, &cache->dirty);
}

/* Walks over the pages that a range of blocks lies in. */
struct md_range {
	u64 block;
	u64 end;
	u64 index;		/* this page */
	unsigned int first;	/* its blocks in the range, from first */
	unsigned int last;	/* to before last */
};

static bool md_range_next(struct md_range *range)
{
	if (range->block >= range->end)
		return false;
	range->index = range->block / MD_PAGE_BLOCKS;
	range->first = range->block % MD_PAGE_BLOCKS;
	range->last = min_t(u64, MD_PAGE_BLOCKS,
			    range->end - range->index * MD_PAGE_BLOCKS);
	range->block += range->last - range->first;
	return true;
}

/* The blocks of @range in @page become zeros, those that land. */
static void md_cached_zero(struct md_cached *page, const struct md_range *range,
			   const struct md_tear *tear)
{
	u64 first_block = range->index * MD_PAGE_BLOCKS;
	unsigned int block;

	for (block = range->first; block < range->last; block++) {
		if (tear && !md_tear_lands(tear, first_block + block))
			continue;
		memset(page->versions.now + (block << MD_BLOCK_SHIFT), 0,
		       MD_BLOCK_BYTES);
	}
}

/* Discards, write zeroes: a page that was never written holds zeros already. */
static void md_cache_zero(struct md_cache *cache, u64 sect, u64 nr_sects,
			  bool durable, const struct md_tear *tear)
{
	struct md_range range = { .block = sect, .end = sect + nr_sects };

	while (md_range_next(&range)) {
		struct md_cached *page = xa_load(&cache->pages, range.index);

		if (!page)
			continue;
		md_cached_zero(page, &range, tear);
		md_cached_written(cache, page, range.first, range.last, durable);
	}
}

/* One piece of a read or write that lies in one page of the disk. */
static void md_cached_copy(struct md_cached *page, struct bio_vec *bv,
			   unsigned int bv_offset, unsigned int offset,
			   unsigned int bytes, bool write)
{
	unsigned int at = bv->bv_offset + bv_offset;

	if (write)
		memcpy_from_page(page->versions.now + offset, bv->bv_page, at, bytes);
	else if (page)
		memcpy_to_page(bv->bv_page, at, page->versions.now + offset, bytes);
	else
		memzero_page(bv->bv_page, at, bytes);
}

/* The data of a read or write; with @tear, of the blocks that land. */
static void md_cache_copy(struct md_cache *cache, struct request *rq,
			  const struct md_tear *tear)
{
	unsigned int unit = tear ? MD_BLOCK_BYTES : PAGE_SIZE;
	u64 at = (u64)blk_rq_pos(rq) << MD_SECT_SHIFT;
	bool write = req_op(rq) == REQ_OP_WRITE;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		unsigned int done, bytes;

		for (done = 0; done < bv.bv_len; done += bytes, at += bytes) {
			struct md_cached *page = xa_load(&cache->pages,
							 at >> PAGE_SHIFT);

			bytes = min_t(unsigned int, bv.bv_len - done,
				      unit - (at & (unit - 1)));
			if (tear && !md_tear_lands(tear, at >> MD_BLOCK_SHIFT))
				continue;
			md_cached_copy(page, &bv, done, offset_in_page(at), bytes,
				       write);
		}
	}
}

/* A write's blocks are in the first version. */
static void md_cache_written(struct md_cache *cache, struct request *rq, bool durable)
{
	struct md_range range = {
		.block = blk_rq_pos(rq),
		.end = blk_rq_pos(rq) + blk_rq_sectors(rq),
	};

	while (md_range_next(&range))
		md_cached_written(cache, xa_load(&cache->pages, range.index),
				  range.first, range.last, durable);
}

static void md_cache_move(struct md_cache *cache, struct request *rq, bool durable,
			  const struct md_tear *tear)
{
	struct bio *bio;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		md_cache_copy(cache, rq, NULL);
		break;
	case REQ_OP_WRITE:
		md_cache_copy(cache, rq, tear);
		md_cache_written(cache, rq, durable);
		break;
	default:
		/* A discard may have several ranges. */
		__rq_for_each_bio(bio, rq)
			md_cache_zero(cache, bio->bi_iter.bi_sector,
				      bio_sectors(bio), durable, tear);
	}
}

/**
 * md_cache_apply - the model completed a request: its data moves
 * @cache: of the disk
 * @rq: any request but a flush
 * @durable: past the cache
 *
 * The caller holds md_disk.lock.
 */
void md_cache_apply(struct md_cache *cache, struct request *rq, bool durable)
{
	if (op_is_write(req_op(rq)))
		cache->clock++;
	md_cache_move(cache, rq, durable, NULL);
}

/**
 * md_cache_flush - the model completed a flush
 * @cache: of the disk
 * @clock: md_cache.clock when the flush came
 *
 * The caller holds md_disk.lock.
 */
void md_cache_flush(struct md_cache *cache, u64 clock)
{
	struct md_cached *page, *next;

	list_for_each_entry_safe(page, next, &cache->dirty, dirty) {
		md_versions_flush(&page->versions, MD_PAGE_BLOCKS, clock);
		if (!page->versions.nr_dirty)
			list_del_init(&page->dirty);
	}
}

/**
 * md_cache_cut - the power is cut: what is in the cache is kept or lost
 * @cache: of the disk
 * @seed: of the choice
 * @count: what became of the blocks is added to it
 *
 * The caller holds md_disk.lock, and calls md_cache_tear() for each request in
 * flight after this.
 */
void md_cache_cut(struct md_cache *cache, u64 seed, struct md_cut_count *count)
{
	struct md_cached *page, *next;

	list_for_each_entry_safe(page, next, &cache->dirty, dirty) {
		md_versions_cut(&page->versions, MD_PAGE_BLOCKS,
				page->index * MD_PAGE_BLOCKS, seed, count);
		list_del_init(&page->dirty);
	}
}

/**
 * md_cache_tear - the power is cut with this request in flight
 * @cache: of the disk, after md_cache_cut()
 * @rq: any request; its data has not moved
 * @seed: of the choice
 * @count: what became of the blocks is added to it
 *
 * The caller holds md_disk.lock.
 */
void md_cache_tear(struct md_cache *cache, struct request *rq, u64 seed,
		   struct md_cut_count *count)
{
	/* A block of the cache and one in flight are independent. */
	struct md_tear tear = { .seed = ~seed, .count = count };

	if (op_is_write(req_op(rq)))
		md_cache_move(cache, rq, true, &tear);
}
