// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data of a memory-backed disk, so that what went through a scheduler can
 * be compared with what was written. Pages come when they are first written;
 * what never was reads as zeros.
 *
 * Data moves when a request is submitted to the disk, not when the model
 * completes it: two requests for the same sectors that are in flight at the same
 * time have no order, in this disk as in any.
 */
#include "modeldisk.h"

#include <linux/highmem.h>

#define MD_PAGE_SECTS_SHIFT	(PAGE_SHIFT - MD_SECT_SHIFT)

void md_store_init(struct md_store *store)
{
	xa_init(&store->pages);
	init_rwsem(&store->sem);
}

void md_store_free(struct md_store *store)
{
	unsigned long index;
	struct page *page;

	xa_for_each(&store->pages, index, page) {
		__free_page(page);
		cond_resched();
	}
	xa_destroy(&store->pages);
}

/* The page of @index, made if it is not there. */
static struct page *md_store_page(struct md_store *store, unsigned long index)
{
	struct page *page = xa_load(&store->pages, index), *other;

	if (page)
		return page;

	page = alloc_page(GFP_NOIO | __GFP_ZERO);
	if (!page)
		return NULL;
	other = xa_cmpxchg(&store->pages, index, NULL, page, GFP_NOIO);
	if (!other)
		return page;
	__free_page(page);
	return xa_is_err(other) ? NULL : other;
}

/* One piece of a request that lies within one page of the disk. */
static bool md_store_copy(struct md_store *store, struct bio_vec *bv,
			  unsigned int bv_offset, u64 at_bytes,
			  unsigned int bytes, bool write)
{
	unsigned long index = at_bytes >> PAGE_SHIFT;
	unsigned int offset = offset_in_page(at_bytes);
	struct page *page;

	if (!write) {
		page = xa_load(&store->pages, index);
		if (page)
			memcpy_page(bv->bv_page, bv->bv_offset + bv_offset,
				    page, offset, bytes);
		else
			memzero_page(bv->bv_page, bv->bv_offset + bv_offset, bytes);
		return true;
	}

	page = md_store_page(store, index);
	if (!page)
		return false;
	memcpy_page(page, offset, bv->bv_page, bv->bv_offset + bv_offset, bytes);
	return true;
}

/**
 * md_store_transfer - move a request's data
 * @store: of the disk
 * @rq: a read or a write
 *
 * May sleep. Return: BLK_STS_RESOURCE if there is no memory for a page; what
 * was written before that stays, as with any write that fails.
 */
blk_status_t md_store_transfer(struct md_store *store, struct request *rq)
{
	bool write = op_is_write(req_op(rq));
	u64 at_bytes = blk_rq_pos(rq) << MD_SECT_SHIFT;
	blk_status_t status = BLK_STS_OK;
	struct req_iterator iter;
	struct bio_vec bv;

	down_read(&store->sem);
	rq_for_each_segment(bv, rq, iter) {
		unsigned int done = 0;

		while (done < bv.bv_len) {
			unsigned int bytes = min_t(unsigned int, bv.bv_len - done,
						   PAGE_SIZE - offset_in_page(at_bytes));

			if (!md_store_copy(store, &bv, done, at_bytes, bytes, write)) {
				status = BLK_STS_RESOURCE;
				goto out;
			}
			done += bytes;
			at_bytes += bytes;
		}
	}
out:
	up_read(&store->sem);
	return status;
}

/* Whole pages go; parts of pages keep what they had, as a discard may. */
void md_store_discard(struct md_store *store, u64 sect, u64 nr_sects)
{
	unsigned long index = DIV_ROUND_UP_ULL(sect, 1U << MD_PAGE_SECTS_SHIFT);
	unsigned long end = (sect + nr_sects) >> MD_PAGE_SECTS_SHIFT;
	struct page *page;

	if (index >= end)
		return;
	down_write(&store->sem);
	xa_for_each_range(&store->pages, index, page, index, end - 1) {
		xa_erase(&store->pages, index);
		__free_page(page);
	}
	up_write(&store->sem);
}

/* Sectors of one page, as far as the range goes into it. Return: how many. */
static u64 md_store_zero_part(struct md_store *store, u64 sect, u64 nr_sects)
{
	unsigned int offset = offset_in_page(sect << MD_SECT_SHIFT);
	u64 bytes = min_t(u64, PAGE_SIZE - offset, nr_sects << MD_SECT_SHIFT);
	struct page *page;

	down_write(&store->sem);
	page = xa_load(&store->pages, sect >> MD_PAGE_SECTS_SHIFT);
	if (page)
		memzero_page(page, offset, bytes);
	up_write(&store->sem);
	return bytes >> MD_SECT_SHIFT;
}

/**
 * md_store_zero - every sector of the range reads as zeros from here on
 * @store: of the disk
 * @sect: the first one
 * @nr_sects: how many
 *
 * May sleep.
 */
void md_store_zero(struct md_store *store, u64 sect, u64 nr_sects)
{
	u64 end = sect + nr_sects;

	if (offset_in_page(sect << MD_SECT_SHIFT))
		sect += md_store_zero_part(store, sect, nr_sects);
	if (sect < end && offset_in_page(end << MD_SECT_SHIFT)) {
		u64 last = round_down(end, 1U << MD_PAGE_SECTS_SHIFT);

		md_store_zero_part(store, last, end - last);
	}
	if (sect < end)
		md_store_discard(store, sect, end - sect);
}
