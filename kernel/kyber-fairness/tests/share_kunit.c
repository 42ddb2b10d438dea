// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of share.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../share.h"

struct share_case {
	const char *name;
	u64 parent;
	u64 weight;
	u64 weight_sum;
	u64 want;
};

static const struct share_case share_cases[] = {
	{ "alone", KF_SHARE_ONE, 100, 100, KF_SHARE_ONE },
	{ "half", KF_SHARE_ONE, 100, 200, KF_SHARE_ONE / 2 },
	{ "half of a quarter", KF_SHARE_ONE / 4, 500, 1000, KF_SHARE_ONE / 8 },
	{ "smallest among many", KF_SHARE_ONE, 1, 10000 * 1000, KF_SHARE_ONE / 10000000 },
	{ "largest weight, no overflow", KF_SHARE_ONE, 10000, 10000, KF_SHARE_ONE },
	{ "none counted", KF_SHARE_ONE, 100, 0, KF_SHARE_ONE },
	{ "less than a 2^30th", KF_SHARE_ONE, 1, U32_MAX, 1 },
	{ "the least of the least", 1, 1, 10000, 1 },
	{ "half of a sum that is halved", KF_SHARE_ONE, 1ULL << 40, 1ULL << 41, KF_SHARE_ONE / 2 },
	{ "the largest sum that is not", KF_SHARE_ONE, (1ULL << 34) - 1, (1ULL << 34) - 1,
	  KF_SHARE_ONE },
	{ "the largest sum there is", KF_SHARE_ONE, U64_MAX, U64_MAX, KF_SHARE_ONE },
	{ "nothing of that", KF_SHARE_ONE, 1, U64_MAX, 1 },
};

static void share_case_name(const struct share_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(share, share_cases, share_case_name);

static void share_of_level(struct kunit *test)
{
	const struct share_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, kf_share_of(c->parent, c->weight, c->weight_sum),
			c->want);
}

/* Eight levels of a 10,000th each: a vtime is divided by this, so it is not 0. */
static void share_of_many_levels(struct kunit *test)
{
	u64 share = KF_SHARE_ONE;
	int i;

	for (i = 0; i < 8; i++) {
		u64 parent = share;

		share = kf_share_of(share, 1, 10001);
		KUNIT_EXPECT_GE(test, share, 1ULL);
		KUNIT_EXPECT_LE(test, share, parent);
	}
	KUNIT_EXPECT_EQ(test, share, 1ULL);
}

/* One of weight 1000 wants little: 500, 250 and 100 share what it leaves. */
static void share_of_what_others_leave(struct kunit *test)
{
	const u64 one = KF_SHARE_ONE, rest = one * 850 / 1850;

	KUNIT_EXPECT_EQ(test, kf_share_among(one * 500 / 1850, rest) * 100 / one, 58ULL);
	KUNIT_EXPECT_EQ(test, kf_share_among(rest, rest), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(rest, 0), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(one, one), one);
	KUNIT_EXPECT_EQ(test, kf_share_among(0, one), 0ULL);
	/* The sum may be older than the share. */
	KUNIT_EXPECT_EQ(test, kf_share_among(one, rest), one);
}

/* The weights of the report's experiments: shares never sum to more than one. */
static void shares_never_exceed_one(struct kunit *test)
{
	static const u32 weights[] = { 1000, 500, 250, 100, 1, 7, 3333, 10000 };
	u64 sum = 0;
	u32 weight_sum = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		weight_sum += weights[i];
	for (i = 0; i < ARRAY_SIZE(weights); i++)
		sum += kf_share_of(KF_SHARE_ONE, weights[i], weight_sum);
	KUNIT_EXPECT_LE(test, sum, KF_SHARE_ONE);
	KUNIT_EXPECT_GE(test, sum, KF_SHARE_ONE - ARRAY_SIZE(weights));
}

/* Weights of sums too large to multiply: shares never sum to more than one either. */
static void shares_of_large_sums(struct kunit *test)
{
	static const u64 weights[] = {
		10000ULL * 10000 * 10000 * 10000, 3333333333333333, (1ULL << 34) + 1,
		(1ULL << 34) - 1, 1ULL << 50, 7777777777777777, 99999999999,
	};
	u64 sum = 0, weight_sum = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		weight_sum += weights[i];
	for (i = 0; i < ARRAY_SIZE(weights); i++)
		sum += kf_share_of(KF_SHARE_ONE, weights[i], weight_sum);
	KUNIT_EXPECT_LE(test, sum, KF_SHARE_ONE);
	KUNIT_EXPECT_GE(test, sum, KF_SHARE_ONE - 2 * ARRAY_SIZE(weights));
}

/* A group of a hierarchy, walked as kf_update_shares() does. */
struct node {
	struct node *parent;
	u32 weight;
	struct kf_tally tally;
};

static void count_node(struct node *leaf, u64 walk)
{
	u64 more = KF_WEIGHT_DFL;
	struct node *up;

	for (up = leaf; up && more; up = up->parent)
		more = kf_tally_add(&up->tally, walk, up->weight, more);
}

static u64 node_share(struct node *leaf)
{
	u64 share = kf_share_of(KF_SHARE_ONE, KF_WEIGHT_DFL, leaf->tally.sum);
	struct node *up;

	for (up = leaf; up->parent; up = up->parent)
		share = kf_share_of(share, kf_tally_weight(&up->tally), up->parent->tally.sum);
	return share;
}

/* Within what is lost by rounding at each level. */
static void expect_share(struct kunit *test, struct node *leaf, u64 part, u64 whole)
{
	KUNIT_EXPECT_LE(test, node_share(leaf), KF_SHARE_ONE * part / whole);
	KUNIT_EXPECT_GE(test, node_share(leaf) + 8, KF_SHARE_ONE * part / whole);
}

/*
 * Pods of a node: classes that weigh what their active pods do. Weights of numbers, one
 * for each class, make 300 : 100 an even share.
 */
static void pods_share_as_siblings(struct kunit *test)
{
	struct node root = { .weight = 100 };
	struct node pods = { &root, KF_WEIGHT_SUM };
	struct node burstable = { &pods, KF_WEIGHT_SUM }, best_effort = { &pods, KF_WEIGHT_SUM };
	struct node web = { &burstable, 300 }, idle = { &burstable, 10000 };
	struct node batch = { &best_effort, 100 }, late = { &best_effort, 200 };
	struct node system = { &root, 400 };

	count_node(&web, 1);
	count_node(&batch, 1);
	expect_share(test, &web, 3, 4);
	expect_share(test, &batch, 1, 4);
	KUNIT_EXPECT_EQ(test, kf_tally_weight(&pods.tally), 400ULL);
	/* One that is idle was not counted. */
	KUNIT_EXPECT_EQ(test, idle.tally.sum, 0ULL);

	/* Later in the same walk: it is in the sums up to the root, all others stay there. */
	count_node(&late, 1);
	KUNIT_EXPECT_EQ(test, kf_tally_weight(&best_effort.tally), 300ULL);
	KUNIT_EXPECT_EQ(test, root.tally.sum, 600ULL);
	expect_share(test, &web, 3, 6);
	expect_share(test, &late, 2, 6);

	/* In the next walk others are active; the order in which they come is no matter. */
	count_node(&system, 2);
	count_node(&late, 2);
	count_node(&web, 2);
	expect_share(test, &late, 2, 9);
	expect_share(test, &web, 3, 9);
	expect_share(test, &system, 4, 9);
	count_node(&web, 3);
	expect_share(test, &web, 1, 1);
	KUNIT_EXPECT_EQ(test, kf_tally_weight(&burstable.tally), 300ULL);

	/* Numbers, as they are without this. */
	burstable.weight = 100;
	best_effort.weight = 100;
	count_node(&batch, 4);
	count_node(&web, 4);
	expect_share(test, &web, 1, 2);
	/* And one number above a sum: what is below shares that. */
	pods.weight = 400;
	burstable.weight = KF_WEIGHT_SUM;
	best_effort.weight = KF_WEIGHT_SUM;
	count_node(&web, 5);
	count_node(&system, 5);
	count_node(&batch, 5);
	expect_share(test, &web, 3, 8);
	expect_share(test, &batch, 1, 8);
	expect_share(test, &system, 4, 8);
}

/* A group's own requests are one more child of it, also where that is all it has. */
static void own_requests_count_in_a_sum(struct kunit *test)
{
	struct node root = { .weight = 100 };
	struct node a = { &root, KF_WEIGHT_SUM }, below = { &a, 300 }, b = { &root, 100 };

	count_node(&a, 1);
	count_node(&b, 1);
	KUNIT_EXPECT_EQ(test, kf_tally_weight(&a.tally), (u64)KF_WEIGHT_DFL);
	expect_share(test, &a, 1, 2);
	count_node(&below, 1);
	KUNIT_EXPECT_EQ(test, kf_tally_weight(&a.tally), 400ULL);
	expect_share(test, &a, 1, 5);
	expect_share(test, &below, 3, 5);
	expect_share(test, &b, 1, 5);
	/* A leaf that has requests of its own weighs the default, as any other. */
	below.weight = KF_WEIGHT_SUM;
	count_node(&below, 2);
	count_node(&b, 2);
	expect_share(test, &below, 1, 2);
}

/* A weight that is changed while a walk runs is still the old one in what was counted. */
static void weights_change_during_a_walk(struct kunit *test)
{
	static const u32 weights[] = { 100, KF_WEIGHT_SUM, 1, KF_WEIGHT_MAX };
	struct node root = { .weight = 100 };
	struct node a = { &root, 300 }, a1 = { &a, 50 }, a2 = { &a, 70 }, b = { &root, 100 };
	struct node *leaves[] = { &a1, &a2, &b };
	unsigned int first, then, i;
	u64 walk = 0;

	for (first = 0; first < ARRAY_SIZE(weights); first++) {
		for (then = 0; then < ARRAY_SIZE(weights); then++) {
			u64 sum = 0;

			walk++;
			a.weight = weights[first];
			a1.weight = 50;
			count_node(&a1, walk);
			a.weight = weights[then];
			a1.weight = weights[then];
			count_node(&a2, walk);
			count_node(&b, walk);
			KUNIT_EXPECT_EQ(test, kf_tally_weight(&a.tally),
					weights[first] == KF_WEIGHT_SUM ? 120ULL : weights[first]);
			KUNIT_EXPECT_EQ(test, root.tally.sum, kf_tally_weight(&a.tally) + 100);
			for (i = 0; i < ARRAY_SIZE(leaves); i++)
				sum += node_share(leaves[i]);
			KUNIT_EXPECT_LE(test, sum, KF_SHARE_ONE);
			KUNIT_EXPECT_GE(test, sum, KF_SHARE_ONE - 8);
		}
	}
}

/* 10,000 children of the largest weight, below eight levels of sums. */
static void sums_of_many(struct kunit *test)
{
	enum { LEVELS = 8, CHILDREN = 10000 };
	struct node level[LEVELS] = {}, child = {}, beside = { &level[0], KF_WEIGHT_MAX };
	unsigned int i;

	for (i = 0; i < LEVELS; i++) {
		level[i].parent = i ? &level[i - 1] : NULL;
		level[i].weight = KF_WEIGHT_SUM;
	}
	child.parent = &level[LEVELS - 1];
	child.weight = KF_WEIGHT_MAX;
	for (i = 0; i < CHILDREN; i++) {
		child.tally.walk = 0; /* another one */
		count_node(&child, 1);
	}
	count_node(&beside, 1);
	for (i = 1; i < LEVELS; i++)
		KUNIT_EXPECT_EQ(test, kf_tally_weight(&level[i].tally),
				(u64)CHILDREN * KF_WEIGHT_MAX);
	KUNIT_EXPECT_EQ(test, level[0].tally.sum, (CHILDREN + 1ULL) * KF_WEIGHT_MAX);
	expect_share(test, &child, 1, CHILDREN + 1);
	expect_share(test, &beside, 1, CHILDREN + 1);
}

/* Nothing wraps: at the end of the numbers a sum stops, and no group outgrows its parent's. */
static void sums_stop_at_the_end(struct kunit *test)
{
	struct kf_tally t = {}, parent = {};
	u64 more;

	KUNIT_EXPECT_EQ(test, kf_tally_add(&t, 1, KF_WEIGHT_SUM, U64_MAX - 5), U64_MAX - 5);
	KUNIT_EXPECT_EQ(test, kf_tally_add(&parent, 1, 100, U64_MAX - 2), 100ULL);
	more = kf_tally_add(&t, 1, KF_WEIGHT_SUM, 10000);
	KUNIT_EXPECT_EQ(test, more, 5ULL);
	KUNIT_EXPECT_EQ(test, t.sum, U64_MAX);
	KUNIT_EXPECT_EQ(test, kf_tally_add(&parent, 1, 100, more), 0ULL);
	KUNIT_EXPECT_EQ(test, parent.sum, U64_MAX);
	KUNIT_EXPECT_EQ(test, kf_tally_add(&t, 1, KF_WEIGHT_SUM, 10000), 0ULL);
	KUNIT_EXPECT_EQ(test, kf_share_of(KF_SHARE_ONE, kf_tally_weight(&t), parent.sum),
			KF_SHARE_ONE);
	/* The next walk begins anew. */
	KUNIT_EXPECT_EQ(test, kf_tally_add(&t, 2, KF_WEIGHT_SUM, 100), 100ULL);
}

/* Within a request's granularity of what is sent, from either side. */
static void mean_cost_follows(struct kunit *test)
{
	u32 mean = 4096;
	int i;

	for (i = 0; i < 200; i++)
		mean = kf_mean_cost_bytes(mean, 131072);
	KUNIT_EXPECT_GE(test, mean, 131072U - 15);
	KUNIT_EXPECT_LE(test, mean, 131072U);
	for (i = 0; i < 200; i++)
		mean = kf_mean_cost_bytes(mean, 512);
	KUNIT_EXPECT_EQ(test, mean, 512U);
	/* One large request among small ones moves it by a sixteenth. */
	KUNIT_EXPECT_EQ(test, kf_mean_cost_bytes(4096, 4096 + 16000), 4096U + 1000);
	/* The largest cost there is, and back to nothing. */
	mean = kf_mean_cost_bytes(0, 1U << 28);
	KUNIT_EXPECT_EQ(test, mean, 1U << 24);
	KUNIT_EXPECT_EQ(test, kf_mean_cost_bytes(1U << 28, 0), (1U << 28) - (1U << 24));
}

/* Tags of one of @weight beside @nr of @others. */
static u32 tags_beside(u32 nr_tags, u32 weight, u32 nr, u32 others, u64 *sum)
{
	u64 share = kf_share_of(KF_SHARE_ONE, weight, weight + (u64)nr * others);
	u64 other_share = kf_share_of(KF_SHARE_ONE, others, weight + (u64)nr * others);
	struct kf_tags kt = { .nr_active = nr + 1 };
	u32 i, own;

	kf_tags_add(&kt, nr_tags, share);
	for (i = 0; i < nr; i++)
		kf_tags_add(&kt, nr_tags, other_share);
	own = kf_own_tags(&kt, nr_tags, share);
	if (sum)
		*sum = own + (u64)nr * kf_own_tags(&kt, nr_tags, other_share);
	return own;
}

static void tags_by_share(struct kunit *test)
{
	/* The largest weight of the report beside as much as its others. */
	KUNIT_EXPECT_EQ(test, tags_beside(64, 1000, 1, 850, NULL), 34U);
	KUNIT_EXPECT_EQ(test, tags_beside(64, 1, 1, 10000, NULL), KF_TAGS_MIN);
	KUNIT_EXPECT_EQ(test, tags_beside(64, 10000, 1, 1, NULL), 62U);
	KUNIT_EXPECT_EQ(test, tags_beside(64, 100, 0, 0, NULL), 64U);
	/* C2: a light one has one, and the heavy one the others. */
	KUNIT_EXPECT_EQ(test, tags_beside(64, 1000, 31, 10, NULL), 33U);
	KUNIT_EXPECT_EQ(test, tags_beside(64, 10, 31, 10, NULL), 2U);
	/* Light ones have none of their own, and share half. */
	KUNIT_EXPECT_EQ(test, tags_beside(64, 1000, 64, 10, NULL), 64U);
	KUNIT_EXPECT_EQ(test, tags_beside(64, 1, 64, 100, NULL), 0U);
	/* As few as there can be. */
	KUNIT_EXPECT_EQ(test, tags_beside(1, 1000, 1, 1, NULL), 0U);
	KUNIT_EXPECT_EQ(test, tags_beside(2, 1, 1, 1000, NULL), 0U);
	KUNIT_EXPECT_EQ(test, tags_beside(10240, 1, 1, 10000, NULL), KF_TAGS_MIN);
}

static void tags_are_not_promised_twice(struct kunit *test)
{
	static const u32 tags[] = { 4, 32, 64, 256, 1023, 10240 };
	struct kf_tags kt;
	u32 nr, i, j, weight;
	u64 sum;

	for (i = 0; i < ARRAY_SIZE(tags); i++) {
		/* With no tag for each, light ones are held to half of them. And rounding. */
		for (nr = 1; nr < tags[i] / 2; nr++) {
			for (weight = 1; weight <= 10000; weight *= 10) {
				tags_beside(tags[i], weight, nr, 10, &sum);
				KUNIT_ASSERT_LE(test, sum, tags[i] + 1ULL + nr / 128);
			}
		}
	}
	/* C13: weights 10 to 640. */
	kt = (struct kf_tags){ .nr_active = 64 };
	for (j = 1; j <= 64; j++)
		kf_tags_add(&kt, 256, kf_share_of(KF_SHARE_ONE, 10 * j, 20800));
	for (j = 1, sum = 0; j <= 64; j++)
		sum += kf_own_tags(&kt, 256, kf_share_of(KF_SHARE_ONE, 10 * j, 20800));
	KUNIT_EXPECT_LE(test, sum, 256ULL);
	KUNIT_EXPECT_GE(test, sum, 200ULL);
}

static struct kunit_case share_test_cases[] = {
	KUNIT_CASE_PARAM(share_of_level, share_gen_params),
	KUNIT_CASE(share_of_many_levels),
	KUNIT_CASE(share_of_what_others_leave),
	KUNIT_CASE(shares_never_exceed_one),
	KUNIT_CASE(shares_of_large_sums),
	KUNIT_CASE(pods_share_as_siblings),
	KUNIT_CASE(own_requests_count_in_a_sum),
	KUNIT_CASE(weights_change_during_a_walk),
	KUNIT_CASE(sums_of_many),
	KUNIT_CASE(sums_stop_at_the_end),
	KUNIT_CASE(mean_cost_follows),
	KUNIT_CASE(tags_by_share),
	KUNIT_CASE(tags_are_not_promised_twice),
	{ }
};

static struct kunit_suite share_suite = {
	.name = "kyber_fairness_share",
	.test_cases = share_test_cases,
};

kunit_test_suite(share_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of kyber-fairness' arithmetic of shares");
