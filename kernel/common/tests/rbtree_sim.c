// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the trees that stand for the kernel's in userspace, shim/linux/rbtree.h: what
 * a red-black tree has to be, after each of many insertions and deletions.
 */
#include <kunit/test.h>

#include <linux/rbtree.h>

#define NR_NODES	300
#define NR_STEPS	20000

struct numbered {
	struct rb_node node;
	unsigned int key;
	bool is_in;
};

static struct numbered numbered[NR_NODES];

static struct numbered *number_of(struct rb_node *node)
{
	return rb_entry(node, struct numbered, node);
}

static void add(struct rb_root_cached *root, struct numbered *nb)
{
	struct rb_node **link = &root->rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	while (*link) {
		parent = *link;
		if (nb->key < number_of(parent)->key) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&nb->node, parent, link);
	rb_insert_color_cached(&nb->node, root, is_first);
	nb->is_in = true;
}

static void del(struct rb_root_cached *root, struct numbered *nb)
{
	rb_erase_cached(&nb->node, root);
	memset(&nb->node, 0xff, sizeof(nb->node));
	nb->is_in = false;
}

/* Return: black nodes on each path down from here; -1: not on each as many, or two red. */
static int black_height(struct rb_node *node, unsigned int *nr)
{
	int left, right;

	if (!node)
		return 1;
	(*nr)++;
	if ((node->rb_left && rb_parent(node->rb_left) != node) ||
	    (node->rb_right && rb_parent(node->rb_right) != node))
		return -1;
	if (!shim_rb_is_black(node) &&
	    (!shim_rb_is_black(node->rb_left) || !shim_rb_is_black(node->rb_right)))
		return -1;
	left = black_height(node->rb_left, nr);
	right = black_height(node->rb_right, nr);
	if (left < 0 || left != right)
		return -1;
	return left + shim_rb_is_black(node);
}

/* The tree has those that are in, in order, from either end, and is balanced. */
static void check(struct kunit *test, struct rb_root_cached *root)
{
	struct rb_node *top = root->rb_root.rb_node, *node, *last = NULL;
	unsigned int nr_in = 0, nr = 0, i;

	for (i = 0; i < NR_NODES; i++)
		nr_in += numbered[i].is_in;
	KUNIT_ASSERT_TRUE(test, !top || (shim_rb_is_black(top) && !rb_parent(top)));
	KUNIT_ASSERT_GT(test, black_height(top, &nr), 0);
	KUNIT_ASSERT_EQ(test, nr, nr_in);

	nr = 0;
	for (node = rb_first_cached(root); node; node = rb_next(node)) {
		KUNIT_ASSERT_TRUE(test, number_of(node)->is_in);
		KUNIT_ASSERT_TRUE(test, rb_prev(node) == last);
		if (last)
			KUNIT_ASSERT_LE(test, number_of(last)->key, number_of(node)->key);
		last = node;
		nr++;
	}
	KUNIT_ASSERT_EQ(test, nr, nr_in);
}

static unsigned int random_below(u32 *state, unsigned int most)
{
	*state = *state * 1664525 + 1013904223;
	return ((u64)*state * most) >> 32;
}

/* Grows and shrinks at random; @nr_keys: of few, many are alike. */
static void change_at_random(struct kunit *test, unsigned int nr_keys)
{
	struct rb_root_cached root = RB_ROOT_CACHED;
	u32 state = nr_keys;
	unsigned int i;

	memset(numbered, 0, sizeof(numbered));
	for (i = 0; i < NR_STEPS; i++) {
		/* Up to all, and down to none, four times. */
		bool is_growing = i / (NR_STEPS / 8) % 2 == 0;
		struct numbered *nb = &numbered[random_below(&state, NR_NODES)];

		if (nb->is_in && (!is_growing || random_below(&state, 8) == 0)) {
			del(&root, nb);
		} else if (!nb->is_in && (is_growing || random_below(&state, 8) == 0)) {
			nb->key = random_below(&state, nr_keys);
			add(&root, nb);
		}
		check(test, &root);
	}
	for (i = 0; i < NR_NODES; i++)
		if (numbered[i].is_in) {
			del(&root, &numbered[i]);
			check(test, &root);
		}
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&root.rb_root));
	KUNIT_EXPECT_TRUE(test, !rb_first_cached(&root));
}

static void keys_that_differ(struct kunit *test)
{
	change_at_random(test, 1000000);
}

static void keys_that_are_alike(struct kunit *test)
{
	change_at_random(test, 5);
}

/* In order, as vtimes grow: the first one leaves, and comes back as the last one. */
static void first_to_last(struct kunit *test)
{
	struct rb_root_cached root = RB_ROOT_CACHED;
	unsigned int i;

	memset(numbered, 0, sizeof(numbered));
	for (i = 0; i < 3 * NR_NODES; i++) {
		struct numbered *nb = &numbered[i % NR_NODES];

		if (nb->is_in) {
			KUNIT_ASSERT_TRUE(test, rb_first_cached(&root) == &nb->node);
			del(&root, nb);
		}
		nb->key = i;
		add(&root, nb);
		check(test, &root);
	}
}

static struct kunit_case rbtree_cases[] = {
	KUNIT_CASE(keys_that_differ),
	KUNIT_CASE(keys_that_are_alike),
	KUNIT_CASE(first_to_last),
	{ }
};

static struct kunit_suite rbtree_suite = {
	.name = "rbtree",
	.test_cases = rbtree_cases,
};

kunit_test_suite(rbtree_suite);
