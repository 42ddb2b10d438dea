// SPDX-License-Identifier: GPL-2.0-only
/* What survives a power cut, on one page: cache.h. */
#include <kunit/test.h>

#include "../cache.h"

#define NR_BLOCKS	8

struct disk_page {
	u8 now[NR_BLOCKS * MD_BLOCK_BYTES];
	u8 durable[NR_BLOCKS * MD_BLOCK_BYTES];
	u64 dirty_at[NR_BLOCKS];
	struct md_versions versions;
};

static void begin(struct disk_page *page)
{
	memset(page, 0, sizeof(*page));
	page->versions = (struct md_versions){
		.now = page->now, .durable = page->durable, .dirty_at = page->dirty_at,
	};
}

/* A write of @value to blocks @first to before @end is done. */
static void put(struct disk_page *page, unsigned int first, unsigned int end,
		u8 value, u64 clock)
{
	memset(page->now + first * MD_BLOCK_BYTES, value,
	       (end - first) * MD_BLOCK_BYTES);
	md_versions_dirty(&page->versions, first, end, clock);
}

/* The value of a block that is not torn; -1 for one that is. */
static int value_of(const u8 *page, unsigned int block)
{
	const u8 *at = page + block * MD_BLOCK_BYTES;
	unsigned int i;

	for (i = 1; i < MD_BLOCK_BYTES; i++)
		if (at[i] != at[0])
			return -1;
	return at[0];
}

/* A seed of which all blocks, or no blocks, land. */
static u64 extreme_seed(bool all)
{
	u64 part = all ? MD_LAND_STEPS : 0, seed = 1;

	while (md_hash(seed) % (MD_LAND_STEPS + 1) != part)
		seed++;
	return seed;
}

static void a_flush_keeps_what_was_done_before(struct kunit *test)
{
	struct md_cut_count count = {};
	struct disk_page page;

	begin(&page);
	put(&page, 0, 2, 'a', 1);
	put(&page, 2, 4, 'b', 2);
	/* Came when the clock was 1: of the second write it promises nothing. */
	md_versions_flush(&page.versions, NR_BLOCKS, 1);
	KUNIT_EXPECT_EQ(test, page.versions.nr_dirty, 2U);
	md_versions_cut(&page.versions, NR_BLOCKS, 0, extreme_seed(false), &count);
	KUNIT_EXPECT_EQ(test, value_of(page.now, 0), 'a');
	KUNIT_EXPECT_EQ(test, value_of(page.now, 1), 'a');
	KUNIT_EXPECT_EQ(test, value_of(page.now, 2), 0);
	KUNIT_EXPECT_EQ(test, value_of(page.now, 3), 0);
	KUNIT_EXPECT_EQ(test, count.nr_lost, 2ULL);
	KUNIT_EXPECT_EQ(test, count.nr_kept, 0ULL);
	KUNIT_EXPECT_EQ(test, page.versions.nr_dirty, 0U);
}

/* A block that was dirty when the flush came, and is written again before it is done. */
static void a_flush_keeps_the_later_write(struct kunit *test)
{
	struct md_cut_count count = {};
	struct disk_page page;

	begin(&page);
	put(&page, 0, 1, 'a', 1);
	put(&page, 0, 1, 'b', 2);
	KUNIT_EXPECT_EQ(test, page.dirty_at[0], 1ULL);
	md_versions_flush(&page.versions, NR_BLOCKS, 1);
	md_versions_cut(&page.versions, NR_BLOCKS, 0, extreme_seed(false), &count);
	KUNIT_EXPECT_EQ(test, value_of(page.now, 0), 'b');
	KUNIT_EXPECT_EQ(test, count.nr_lost, 0ULL);
}

static void a_write_through_is_kept(struct kunit *test)
{
	struct md_cut_count count = {};
	struct disk_page page;

	begin(&page);
	put(&page, 0, 4, 'a', 1);
	memset(page.now + MD_BLOCK_BYTES, 'f', MD_BLOCK_BYTES);
	md_versions_put_through(&page.versions, 1, 2);
	KUNIT_EXPECT_EQ(test, page.versions.nr_dirty, 3U);
	md_versions_cut(&page.versions, NR_BLOCKS, 0, extreme_seed(false), &count);
	KUNIT_EXPECT_EQ(test, value_of(page.now, 0), 0);
	KUNIT_EXPECT_EQ(test, value_of(page.now, 1), 'f');
	KUNIT_EXPECT_EQ(test, count.nr_lost, 3ULL);
}

static void a_seed_can_keep_all(struct kunit *test)
{
	struct md_cut_count count = {};
	struct disk_page page;
	unsigned int block;

	begin(&page);
	put(&page, 0, NR_BLOCKS, 'a', 1);
	md_versions_cut(&page.versions, NR_BLOCKS, 0, extreme_seed(true), &count);
	for (block = 0; block < NR_BLOCKS; block++) {
		KUNIT_EXPECT_EQ(test, value_of(page.now, block), 'a');
		KUNIT_EXPECT_EQ(test, value_of(page.durable, block), 'a');
	}
	KUNIT_EXPECT_EQ(test, count.nr_kept, (u64)NR_BLOCKS);
}

/*
 * Each block is the old or the new one, in both versions; those of a physical block
 * have one fate, and two physical blocks may have another.
 */
static void blocks_are_whole_and_independent(struct kunit *test)
{
	u64 seed, nr_mixed = 0;

	for (seed = 1; seed <= 200; seed++) {
		struct md_cut_count count = {};
		struct disk_page page;
		unsigned int block;

		begin(&page);
		put(&page, 0, NR_BLOCKS, 'a', 1);
		md_versions_flush(&page.versions, NR_BLOCKS, 1);
		put(&page, 0, NR_BLOCKS, 'b', 2);
		md_versions_cut(&page.versions, NR_BLOCKS, 64, seed, &count);
		for (block = 0; block < NR_BLOCKS; block++) {
			bool lands = md_block_lands(seed, 64 + block);

			KUNIT_EXPECT_EQ(test, value_of(page.now, block), lands ? 'b' : 'a');
			KUNIT_EXPECT_EQ(test, value_of(page.durable, block),
					lands ? 'b' : 'a');
			KUNIT_EXPECT_EQ(test, lands, md_block_lands(seed, 64));
		}
		KUNIT_EXPECT_EQ(test, count.nr_kept + count.nr_lost, (u64)NR_BLOCKS);
		nr_mixed += md_block_lands(seed, 64) != md_block_lands(seed, 72);
	}
	KUNIT_EXPECT_GT(test, nr_mixed, 40ULL);
	KUNIT_EXPECT_LT(test, nr_mixed, 120ULL);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_flush_keeps_what_was_done_before),
	KUNIT_CASE(a_flush_keeps_the_later_write),
	KUNIT_CASE(a_write_through_is_kept),
	KUNIT_CASE(a_seed_can_keep_all),
	KUNIT_CASE(blocks_are_whole_and_independent),
	{}
};

static struct kunit_suite suite = {
	.name = "modeldisk_cache",
	.test_cases = cases,
};

kunit_test_suite(suite);
