// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of age.h: as KUnit on kernels that have it, and as a userspace program
 * under ASan and UBSan. The RSD paper's algorithm (table 2) is here,
 * word for word, with its counters; random traces go through both.
 */
#include <kunit/test.h>

#include "../age.h"

#define MAX_DEPTH	64
#define MS		1000000ULL	/* ns */

/* The paper's variables, and the delay count by its definition. */
static struct {
	bool tag_table[MAX_DEPTH];
	bool wait_tag[MAX_DEPTH];
	s64 age_value[MAX_DEPTH];
	s64 act_req_counter;
	s64 age_th;

	u64 number[MAX_DEPTH];		/* order of arrival */
	u64 nr_passed_by[MAX_DEPTH];	/* later ones that ended before it */
	u64 nr_assigned;
} paper;

static u64 words[AGE_NR_WORDS];
static u64 number_of[MAX_DEPTH];

static bool paper_waits(void)
{
	unsigned int tag;

	for (tag = 0; tag < MAX_DEPTH; tag++)
		if (paper.wait_tag[tag])
			return true;
	return false;
}

/* ASSIGN_TAG(), lines 4 to 7: no request waits for a tag. */
static void paper_assign_tag(unsigned int tag)
{
	paper.tag_table[tag] = true;
	paper.age_value[tag] = -paper.act_req_counter;
	paper.act_req_counter++;
	paper.number[tag] = paper.nr_assigned++;
	paper.nr_passed_by[tag] = 0;
}

/* FREE_TAG(), lines 9 to 21. */
static void paper_free_tag(unsigned int tag)
{
	unsigned int i;

	paper.wait_tag[tag] = false;
	paper.age_value[tag] = 0;
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i == tag)
			continue;
		if (paper.tag_table[i]) {
			paper.age_value[i]++;
			if (paper.number[i] < paper.number[tag])
				paper.nr_passed_by[i]++;
		}
		if (paper.age_value[i] > paper.age_th)
			paper.wait_tag[i] = true;
	}
	paper.act_req_counter--;
	paper.tag_table[tag] = false;
}

static void begin_both(struct ages *a, s64 age_th)
{
	memset(&paper, 0, sizeof(paper));
	paper.age_th = age_th;
	memset(words, 0, sizeof(words));
	memset(a, 0, sizeof(*a));
	a->inside = words;
}

/* Numerical Recipes' generator: the same traces everywhere. */
static u32 next_random(u32 *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static unsigned int oldest_tag(unsigned int depth)
{
	unsigned int tag, oldest = MAX_DEPTH;

	for (tag = 0; tag < depth; tag++)
		if (paper.tag_table[tag] &&
		    (oldest == MAX_DEPTH || paper.number[tag] < paper.number[oldest]))
			oldest = tag;
	return oldest;
}

/* What is the same after every step. */
static void compare(struct kunit *test, const struct ages *a, unsigned int depth)
{
	unsigned int oldest = oldest_tag(depth), tag;

	KUNIT_ASSERT_EQ(test, ages_inside(a), (u64)paper.act_req_counter);
	KUNIT_ASSERT_EQ(test, ages_starve(a, paper.age_th), paper_waits());
	for (tag = 0; tag < depth; tag++)
		if (paper.tag_table[tag])
			KUNIT_ASSERT_EQ(test, (s64)(a->nr_ended - number_of[tag]),
					paper.age_value[tag]);
	if (oldest == MAX_DEPTH) {
		KUNIT_ASSERT_EQ(test, a->oldest, a->nr_begun);
	} else {
		KUNIT_ASSERT_EQ(test, a->oldest, number_of[oldest]);
		KUNIT_ASSERT_EQ(test, ages_oldest(a), paper.age_value[oldest]);
	}
}

struct trace_case {
	const char *name;
	unsigned int depth;
	s64 age_th;
	unsigned int unfair;	/* of 100 completions, so many are of the newest half */
};

static const struct trace_case trace_cases[] = {
	{ "depth 31, threshold 90", 31, 90, 90 },
	{ "depth 31, threshold 10", 31, 10, 90 },
	{ "depth 31, threshold 1, any order", 31, 1, 0 },
	{ "depth 64, threshold 200, stack order", 64, 200, 99 },
	{ "depth 2", 2, 3, 99 },
	{ "depth 1", 1, 1, 0 },
	{ "depth 16, no limit", 16, 60000, 99 },
};

static void trace_case_name(const struct trace_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(trace, trace_cases, trace_case_name);

/* The tag that ends: mostly one of the newest, so that old ones starve. */
static unsigned int choose_tag(const struct trace_case *c, u32 *seed)
{
	bool newest = next_random(seed) % 100 < c->unfair;
	unsigned int tag, best = MAX_DEPTH;
	u64 least = paper.nr_assigned > c->depth / 2 ?
		    paper.nr_assigned - c->depth / 2 : 0;

	for (tag = 0; tag < c->depth; tag++) {
		if (!paper.tag_table[tag])
			continue;
		if (best != MAX_DEPTH && next_random(seed) % 2)
			continue;
		if (newest && best != MAX_DEPTH && paper.number[tag] < least)
			continue;
		best = tag;
	}
	return best;
}

/* The closed form says what the paper's counters say, after every single step. */
static void closed_form_is_the_paper(struct kunit *test)
{
	const struct trace_case *c = test->param_value;
	u64 nr_closed = 0, delay_max = 0;
	struct ages a;
	u32 seed = 1;
	int step;

	begin_both(&a, c->age_th);
	for (step = 0; step < 40000; step++) {
		unsigned int tag = 0;

		while (tag < c->depth && paper.tag_table[tag])
			tag++;
		/* Mostly full, at times drained. */
		if (tag < c->depth && !paper_waits() &&
		    next_random(&seed) % 100 < (step % 4000 < 3500 ? 80 : 20)) {
			paper_assign_tag(tag);
			number_of[tag] = ages_begin(&a);
		} else if (paper.act_req_counter) {
			bool was_open = !paper_waits();
			u64 delay;

			tag = choose_tag(c, &seed);
			paper_free_tag(tag);
			delay = ages_end(&a, number_of[tag]);
			KUNIT_ASSERT_EQ(test, delay, paper.nr_passed_by[tag]);
			delay_max = max(delay_max, delay);
			nr_closed += was_open && paper_waits();
		}
		compare(test, &a, c->depth);
	}
	KUNIT_EXPECT_GT(test, a.nr_ended, 10000ULL);
	KUNIT_EXPECT_LE(test, delay_max, (u64)c->age_th + c->depth - 1);
	/* A trace that closes nothing shows nothing; the last case is to close none. */
	if (c->age_th <= 200 && c->depth > 2)
		KUNIT_EXPECT_GT(test, nr_closed, 5ULL);
	if (c->age_th == 60000)
		KUNIT_EXPECT_EQ(test, nr_closed, 0ULL);
}

/* A device that serves the newest first reaches the bound, and not more. */
static void bound_is_tight(struct kunit *test)
{
	const unsigned int depth = 31, age_th = 90;
	u64 newest[MAX_DEPTH];
	unsigned int nr = 0;
	struct ages a;
	u64 delay = 0;

	begin_both(&a, age_th);
	while (nr < depth)
		newest[nr++] = ages_begin(&a);
	while (!ages_starve(&a, age_th)) {
		ages_end(&a, newest[--nr]);
		if (!ages_starve(&a, age_th))
			newest[nr++] = ages_begin(&a);
	}
	while (nr)
		delay = ages_end(&a, newest[--nr]);
	KUNIT_EXPECT_EQ(test, delay, (u64)age_th + depth - 1);
	KUNIT_EXPECT_FALSE(test, ages_starve(&a, age_th));
}

/* One request stays in flight for the whole window; no later number takes its bit. */
static void window_fills(struct kunit *test)
{
	struct ages a;
	u64 stuck, other = 0;
	u32 i;

	begin_both(&a, AGE_TH_MAX);
	for (i = 0; i < 100; i++)
		ages_end(&a, ages_begin(&a));
	stuck = ages_begin(&a);
	for (i = 1; i < AGE_WINDOW; i++) {
		KUNIT_ASSERT_FALSE(test, ages_full(&a));
		other = ages_begin(&a);
		KUNIT_ASSERT_EQ(test, ages_end(&a, other), 0ULL);
		KUNIT_ASSERT_EQ(test, ages_starve(&a, AGE_TH_MAX), i > AGE_TH_MAX);
	}
	KUNIT_EXPECT_TRUE(test, ages_full(&a));
	KUNIT_EXPECT_EQ(test, other - stuck, AGE_WINDOW - 1ULL);
	KUNIT_EXPECT_EQ(test, ages_end(&a, stuck), AGE_WINDOW - 1ULL);
	KUNIT_EXPECT_FALSE(test, ages_full(&a));
	KUNIT_EXPECT_EQ(test, ages_inside(&a), 0ULL);
}

static void buckets_meet(struct kunit *test)
{
	unsigned int bucket;

	for (bucket = 0; bucket < 16; bucket++)
		KUNIT_EXPECT_EQ(test, age_bucket(bucket), bucket);
	for (bucket = 1; bucket < AGE_NR_BUCKETS; bucket++) {
		u64 least = age_bucket_least(bucket);

		KUNIT_EXPECT_EQ(test, age_bucket(least), bucket);
		KUNIT_EXPECT_EQ(test, age_bucket(least - 1), bucket - 1);
		KUNIT_EXPECT_LE(test, least - age_bucket_least(bucket - 1),
				max(age_bucket_least(bucket - 1) / 8, 1ULL));
	}
	KUNIT_EXPECT_EQ(test, age_bucket(U64_MAX), AGE_NR_BUCKETS - 1U);
	/* More than a window can hold. */
	KUNIT_EXPECT_GT(test, age_bucket_least(AGE_NR_BUCKETS - 1), (u64)AGE_WINDOW - 1);
}

static struct kunit_case age_cases[] = {
	KUNIT_CASE_PARAM(closed_form_is_the_paper, trace_gen_params),
	KUNIT_CASE(bound_is_tight),
	KUNIT_CASE(window_fills),
	KUNIT_CASE(buckets_meet),
	{ }
};

static struct kunit_suite age_suite = {
	.name = "isolio_age",
	.test_cases = age_cases,
};

kunit_test_suite(age_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of isolio's ages of requests");
