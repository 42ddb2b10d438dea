// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of turn.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../turn.h"

/* The SFQ paper's. */
static const struct sfq_limits defaults = {
	.sync_selections = 3, .turn_requests = 3, .turn_reads = 2, .turn_writes = 1,
};

struct turn_case {
	const char *name;
	struct sfq_limits limits;
	u32 nr_reads, nr_writes;	/* that wait */
	const char *want;		/* a turn, R and W */
};

static const struct turn_case turn_cases[] = {
	{ "two reads, one write", { 3, 3, 2, 1 }, 9, 9, "RRW" },
	{ "one read does not keep the write", { 3, 3, 2, 1 }, 1, 9, "RW" },
	{ "no read does not either", { 3, 3, 2, 1 }, 0, 9, "W" },
	{ "reads only", { 3, 3, 2, 1 }, 9, 0, "RR" },
	{ "nothing", { 3, 3, 2, 1 }, 0, 0, "" },
	{ "as many writes as there is room for", { 3, 3, 2, 3 }, 0, 9, "WWW" },
	{ "as many as there is room for, after a read", { 3, 3, 2, 3 }, 1, 9, "RWW" },
	{ "a write is left room", { 3, 3, 5, 1 }, 9, 9, "RRW" },
	{ "no room is left for nobody", { 3, 3, 5, 1 }, 9, 0, "RRR" },
	{ "the shortest turn", { 3, 2, 2, 1 }, 9, 9, "RW" },
	{ "a long turn", { 3, 8, 5, 2 }, 9, 9, "RRRRRWW" },
};

static void turn_case_name(const struct turn_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(turn, turn_cases, turn_case_name);

static void turn_of_a_queue(struct kunit *test)
{
	const struct turn_case *c = test->param_value;
	u32 nr[SFQ_NR_DIRS] = { c->nr_reads, c->nr_writes };
	struct sfq_turn turn = {};
	char got[32] = "";
	unsigned int i;

	for (i = 0; i < sizeof(got) - 1; i++) {
		enum sfq_dir dir = sfq_turn_next(&c->limits, &turn, nr[SFQ_READ],
						 nr[SFQ_WRITE]);

		if (dir == SFQ_NEITHER)
			break;
		got[i] = dir == SFQ_READ ? 'R' : 'W';
		nr[dir]--;
		sfq_turn_add(&turn, dir);
	}
	KUNIT_EXPECT_STREQ(test, got, c->want);
}

/* While a process reads, one write of any process is due after each two reads. */
static void cycle_of_the_device(struct kunit *test)
{
	struct sfq_cycle cycle = {};
	u32 nr_writes = 0, run = 0, i;

	for (i = 0; i < 300; i++) {
		enum sfq_dir dir = sfq_write_is_due(&defaults, &cycle, true) ?
				   SFQ_WRITE : SFQ_READ;

		run = dir == SFQ_WRITE ? run + 1 : 0;
		nr_writes += dir == SFQ_WRITE;
		KUNIT_EXPECT_LE(test, run, 1);
		sfq_cycle_add(&defaults, &cycle, dir, 1);
	}
	KUNIT_EXPECT_EQ(test, nr_writes, 100);
}

/* Without readers writes are due at once, and save up nothing for later. */
static void cycle_without_readers(struct kunit *test)
{
	struct sfq_cycle cycle = {};
	u32 i;

	for (i = 0; i < 1000; i++) {
		KUNIT_EXPECT_TRUE(test, sfq_write_is_due(&defaults, &cycle, false));
		sfq_cycle_add(&defaults, &cycle, SFQ_WRITE, 1);
	}
	KUNIT_EXPECT_FALSE(test, sfq_write_is_due(&defaults, &cycle, true));
	for (i = 0; i < 1000; i++)
		sfq_cycle_add(&defaults, &cycle, SFQ_READ, 1);
	/* A thousand reads earn one write, not five hundred. */
	KUNIT_EXPECT_TRUE(test, sfq_write_is_due(&defaults, &cycle, true));
	sfq_cycle_add(&defaults, &cycle, SFQ_WRITE, 1);
	KUNIT_EXPECT_FALSE(test, sfq_write_is_due(&defaults, &cycle, true));
}

/* A write of 128 KiB counts for 32: 64 reads of 4 KiB go before the next. */
static void large_writes_count_more(struct kunit *test)
{
	struct sfq_cycle cycle = {};
	u32 i;

	KUNIT_EXPECT_EQ(test, sfq_units(128 << 10, 4096), 32ULL);
	KUNIT_EXPECT_EQ(test, sfq_units(512, 4096), 1ULL);
	KUNIT_EXPECT_EQ(test, sfq_units(0, 4096), 1ULL);
	KUNIT_EXPECT_EQ(test, sfq_units(128 << 10, 0), 1ULL);

	sfq_cycle_add(&defaults, &cycle, SFQ_WRITE, 32);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_FALSE(test, sfq_write_is_due(&defaults, &cycle, true));
		sfq_cycle_add(&defaults, &cycle, SFQ_READ, 1);
	}
	KUNIT_EXPECT_TRUE(test, sfq_write_is_due(&defaults, &cycle, true));
	/* A large read counts for as much. */
	sfq_cycle_add(&defaults, &cycle, SFQ_WRITE, 32);
	sfq_cycle_add(&defaults, &cycle, SFQ_READ, 64);
	KUNIT_EXPECT_TRUE(test, sfq_write_is_due(&defaults, &cycle, true));
}

/* Quick reads are expected after some of them; one pause does not undo that. */
static void thinking(struct kunit *test)
{
	const u64 patience = 2000;
	u64 think = U64_MAX;
	u32 i;

	for (i = 0; i < 6 && think > patience; i++)
		think = sfq_think_next(think, 500, patience);
	KUNIT_EXPECT_LE(test, think, patience);
	for (i = 0; i < 100; i++)
		think = sfq_think_next(think, 500, patience);
	KUNIT_EXPECT_LE(test, think, 503ULL);
	think = sfq_think_next(think, 1000000000, patience);
	KUNIT_EXPECT_GT(test, think, patience);
	think = sfq_think_next(sfq_think_next(think, 500, patience), 500, patience);
	KUNIT_EXPECT_LE(test, think, patience);
	/* A process that always pauses never is. */
	for (i = 0; i < 100; i++) {
		think = sfq_think_next(think, 20000, patience);
		KUNIT_EXPECT_GT(test, think, patience);
	}
}

static void reads_add(struct sfq_reads *reads, enum sfq_among among, u64 ns, u32 nr)
{
	while (nr--)
		sfq_reads_add(reads, among, ns, false);
}

/* A read is worth as long a wait as it gains by it. */
static void patience_is_what_a_read_gains(struct kunit *test)
{
	struct sfq_reads reads = {};

	/* Nothing is known until enough have been seen of both. */
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 2000ULL);
	reads_add(&reads, SFQ_AMONG_MOST, 900, 100);
	reads_add(&reads, SFQ_AMONG_NONE, 600, SFQ_READS_KNOWN_NR - 1);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 2000ULL);
	reads_add(&reads, SFQ_AMONG_NONE, 600, 1);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 300ULL);
	/* The tunable is the most. */
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 200), 200ULL);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 0), 0ULL);
	/* Among some writes tells nothing about either. */
	reads_add(&reads, SFQ_AMONG_SOME, 1000000, 100);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 300ULL);

	/* Both follow the device. */
	reads_add(&reads, SFQ_AMONG_MOST, 5600, 1000);
	reads_add(&reads, SFQ_AMONG_NONE, 600, SFQ_READS_KNOWN_NR);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 2000ULL);
	reads_add(&reads, SFQ_AMONG_MOST, 500, 500);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 0ULL);
}

/* With patience no read finds writes, so some must be dispatched without it. */
static void patience_is_tried(struct kunit *test)
{
	struct sfq_reads reads = {};
	u32 nr, nr_tried = 0;

	/* There is nothing to try where no write waits, or none could be inside as well. */
	reads_add(&reads, SFQ_AMONG_NONE, 600, 10000);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 2000ULL);

	/* As long as it tells nothing, a ninth of the reads at most. */
	for (nr = 0; nr < 10000; nr++) {
		nr_tried += !sfq_patience_ns(&reads, 2000);
		sfq_reads_add(&reads, SFQ_AMONG_NONE, 600, true);
	}
	KUNIT_EXPECT_GE(test, nr_tried, 10000U / 10);
	KUNIT_EXPECT_LE(test, nr_tried, 10000U / 8);

	/* Where it does, it ends. */
	for (nr = 0; nr < 1000; nr++)
		sfq_reads_add(&reads, sfq_patience_ns(&reads, 2000) ? SFQ_AMONG_NONE :
			      SFQ_AMONG_MOST, 600, true);
	KUNIT_EXPECT_EQ(test, reads.most.nr, SFQ_MEAN_NR);
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 0ULL);
}

/* A read alone may never come by itself. */
static void reads_alone_are_looked_for(struct kunit *test)
{
	struct sfq_reads reads = {};
	u32 nr, nr_wanted = 0;

	/* Where none comes alone, for some of all. */
	for (nr = 0; nr < 10 * SFQ_READS_OLD_NR; nr++) {
		nr_wanted += sfq_reads_want_none(&reads);
		sfq_reads_add(&reads, SFQ_AMONG_SOME, 600, true);
	}
	KUNIT_EXPECT_EQ(test, nr_wanted, 10 * SFQ_READS_TRIED_NR);

	/* Enough of them came: no more, */
	for (nr = 0; sfq_reads_want_none(&reads); nr++)
		sfq_reads_add(&reads, SFQ_AMONG_NONE, 300, true);
	KUNIT_EXPECT_EQ(test, nr, SFQ_READS_KNOWN_NR);
	/* and not while it is still to be seen how long they take among most, */
	for (nr = 0; nr < 10 * SFQ_READS_OLD_NR; nr++) {
		KUNIT_EXPECT_FALSE(test, sfq_reads_want_none(&reads));
		sfq_reads_add(&reads, SFQ_AMONG_SOME, 600, true);
	}
	/* nor when reads gain too little from patience. */
	reads_add(&reads, SFQ_AMONG_MOST, 600, 10 * SFQ_READS_OLD_NR);
	KUNIT_EXPECT_FALSE(test, sfq_reads_want_none(&reads));
	KUNIT_EXPECT_EQ(test, sfq_patience_ns(&reads, 2000), 300ULL);
}

/* Without patience no read is alone, so patience must be tried again. */
static void patience_is_looked_for_again(struct kunit *test)
{
	struct sfq_reads reads = {};
	u32 nr;

	reads_add(&reads, SFQ_AMONG_MOST, 600, 100);
	reads_add(&reads, SFQ_AMONG_NONE, 600, 100);
	for (nr = 0; !sfq_patience_ns(&reads, 2000); nr++)
		sfq_reads_add(&reads, SFQ_AMONG_MOST, 600, true);
	KUNIT_EXPECT_EQ(test, nr, SFQ_READS_OLD_NR);
	/* That takes few reads of all. */
	for (nr = 0; sfq_patience_ns(&reads, 2000); nr++)
		sfq_reads_add(&reads, SFQ_AMONG_NONE, 600, true);
	KUNIT_EXPECT_LE(test, nr, SFQ_READS_OLD_NR / 16);

	/* A mean is of the last ones: an outlier is forgotten. */
	sfq_mean_add(&reads.none, 600 + 32000);
	KUNIT_EXPECT_LE(test, reads.none.ns, 600 + 32000 / SFQ_READS_KNOWN_NR);
	reads_add(&reads, SFQ_AMONG_NONE, 600, 300);
	KUNIT_EXPECT_LE(test, reads.none.ns, 640ULL);
}

/* Algorithm 2: three turns of processes, one of the async queue. */
static void async_after_three(struct kunit *test)
{
	u32 nr_selections = 0, nr_async = 0, i;

	for (i = 0; i < 400; i++) {
		if (sfq_pick(&defaults, nr_selections, false, true, true, true) ==
		    SFQ_PICK_ASYNC) {
			KUNIT_EXPECT_EQ(test, nr_selections, 3);
			nr_selections = 0;
			nr_async++;
		} else {
			nr_selections++;
		}
	}
	KUNIT_EXPECT_EQ(test, nr_async, 100);
}

static void pick_when_some_may_not(struct kunit *test)
{
	/* Without processes: async at once. A process alone: always. */
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 0, false, true, false, false),
			SFQ_PICK_ASYNC);
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 9, false, false, true, false),
			SFQ_PICK_FIRST);
	/* The first one's write is not due: a reader, and nothing is lost. */
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 0, false, false, false, true),
			SFQ_PICK_READER);
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 0, false, true, false, true),
			SFQ_PICK_READER);
	/* A turn that has begun goes on. */
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 0, true, true, true, true),
			SFQ_PICK_ASYNC);
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 0, true, false, true, true),
			SFQ_PICK_FIRST);
	KUNIT_EXPECT_EQ(test, sfq_pick(&defaults, 9, true, false, false, false),
			SFQ_PICK_NOBODY);
}

static void writes_inside(struct kunit *test)
{
	/* Depth 32: a quarter while a process reads, all when none has for 100. */
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(32, 25, 0, 100), 8);
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(32, 25, 99, 100), 8);
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(32, 25, 100, 100), 32);
	/* There is always room for one. */
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(1, 1, 0, 100), 1);
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(3, 25, 0, 100), 1);
	KUNIT_EXPECT_EQ(test, sfq_writes_inside_max(U32_MAX, 100, 0, 100), U32_MAX);
}

/*
 * Whatever the limits, a write that waits goes: after at most turn_reads reads
 * of the device, though readers never end.
 */
static void no_write_starves(struct kunit *test)
{
	struct sfq_limits limits = { .sync_selections = 3 };
	u32 i;

	for (limits.turn_requests = 2; limits.turn_requests < 6; limits.turn_requests++) {
		for (limits.turn_reads = 1; limits.turn_reads < 6; limits.turn_reads++) {
			for (limits.turn_writes = 1; limits.turn_writes < 6; limits.turn_writes++) {
				struct sfq_cycle cycle = {};
				struct sfq_turn turn = {};

				for (i = 0; i <= limits.turn_reads; i++) {
					if (sfq_write_is_due(&limits, &cycle, true))
						break;
					sfq_cycle_add(&limits, &cycle, SFQ_READ, 1);
				}
				KUNIT_EXPECT_LE(test, i, limits.turn_reads);
				while (sfq_turn_next(&limits, &turn, true, true) == SFQ_READ)
					sfq_turn_add(&turn, SFQ_READ);
				KUNIT_EXPECT_EQ(test, sfq_turn_next(&limits, &turn, true, true),
						SFQ_WRITE);
			}
		}
	}
}

static struct kunit_case turn_test_cases[] = {
	KUNIT_CASE_PARAM(turn_of_a_queue, turn_gen_params),
	KUNIT_CASE(cycle_of_the_device),
	KUNIT_CASE(cycle_without_readers),
	KUNIT_CASE(large_writes_count_more),
	KUNIT_CASE(thinking),
	KUNIT_CASE(patience_is_what_a_read_gains),
	KUNIT_CASE(patience_is_tried),
	KUNIT_CASE(reads_alone_are_looked_for),
	KUNIT_CASE(patience_is_looked_for_again),
	KUNIT_CASE(async_after_three),
	KUNIT_CASE(pick_when_some_may_not),
	KUNIT_CASE(writes_inside),
	KUNIT_CASE(no_write_starves),
	{}
};

static struct kunit_suite turn_suite = {
	.name = "sfq_turn",
	.test_cases = turn_test_cases,
};

kunit_test_suite(turn_suite);

MODULE_DESCRIPTION("Tests of sfq's rules");
MODULE_LICENSE("GPL");
