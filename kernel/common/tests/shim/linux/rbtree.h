/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's red-black trees, with its nodes: a parent and a colour in one word, and
 * two children. ../../rbtree_sim.c checks them.
 */
#ifndef SHIM_LINUX_RBTREE_H
#define SHIM_LINUX_RBTREE_H

#include <linux/types.h>

struct rb_node {
	unsigned long __rb_parent_color;	/* bit 0: black */
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define RB_ROOT		((struct rb_root){ NULL })
#define RB_ROOT_CACHED	((struct rb_root_cached){ { NULL }, NULL })

#define rb_parent(node)			((struct rb_node *)((node)->__rb_parent_color & ~1UL))
#define rb_entry(ptr, type, member)	container_of(ptr, type, member)
#define rb_first_cached(root)		((root)->rb_leftmost)
#define RB_EMPTY_ROOT(root)		(!(root)->rb_node)

/* No node is black, as a leaf is. */
static inline bool shim_rb_is_black(const struct rb_node *node)
{
	return !node || node->__rb_parent_color & 1;
}

static inline void shim_rb_set_black(struct rb_node *node, bool is_black)
{
	node->__rb_parent_color = (node->__rb_parent_color & ~1UL) | is_black;
}

static inline void shim_rb_set_parent(struct rb_node *node, struct rb_node *parent)
{
	node->__rb_parent_color = (unsigned long)parent | (node->__rb_parent_color & 1);
}

static inline struct rb_node **shim_rb_child(struct rb_node *node, bool is_right)
{
	return is_right ? &node->rb_right : &node->rb_left;
}

/* Have what points to @old as @parent's child, or as the root, point to @new. */
static inline void shim_rb_replace(struct rb_root *root, struct rb_node *old,
				   struct rb_node *new, struct rb_node *parent)
{
	if (!parent)
		root->rb_node = new;
	else
		*shim_rb_child(parent, parent->rb_right == old) = new;
	if (new)
		shim_rb_set_parent(new, parent);
}

/* @node goes down to the right, or to the left, and its other child comes up. */
static inline void shim_rb_rotate(struct rb_root *root, struct rb_node *node, bool to_right)
{
	struct rb_node *up = *shim_rb_child(node, !to_right);
	struct rb_node *inner = *shim_rb_child(up, to_right);

	*shim_rb_child(node, !to_right) = inner;
	if (inner)
		shim_rb_set_parent(inner, node);
	shim_rb_replace(root, node, up, rb_parent(node));
	*shim_rb_child(up, to_right) = node;
	shim_rb_set_parent(node, up);
}

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent,
				struct rb_node **link)
{
	node->__rb_parent_color = (unsigned long)parent;
	node->rb_left = NULL;
	node->rb_right = NULL;
	*link = node;
}

static inline void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent, *grand, *uncle;

	while (!shim_rb_is_black(parent = rb_parent(node))) {
		bool is_right;

		/* The root is black, so a red parent has one. */
		grand = rb_parent(parent);
		is_right = parent == grand->rb_right;
		uncle = *shim_rb_child(grand, !is_right);
		shim_rb_set_black(grand, false);
		if (!shim_rb_is_black(uncle)) {
			shim_rb_set_black(parent, true);
			shim_rb_set_black(uncle, true);
			node = grand;
			continue;
		}
		if (node == *shim_rb_child(parent, !is_right)) {
			shim_rb_rotate(root, parent, is_right);
			parent = node;
		}
		shim_rb_set_black(parent, true);
		shim_rb_rotate(root, grand, !is_right);
		break;
	}
	shim_rb_set_black(root->rb_node, true);
}

/* Paths through @node, which may be none, have a black node less than others. */
static inline void shim_rb_erase_color(struct rb_root *root, struct rb_node *node,
				       struct rb_node *parent)
{
	while (node != root->rb_node && shim_rb_is_black(node)) {
		bool is_right = node == parent->rb_right;
		struct rb_node *sibling = *shim_rb_child(parent, !is_right), *near, *far;

		if (!shim_rb_is_black(sibling)) {
			shim_rb_set_black(sibling, true);
			shim_rb_set_black(parent, false);
			shim_rb_rotate(root, parent, is_right);
			sibling = *shim_rb_child(parent, !is_right);
		}
		near = *shim_rb_child(sibling, is_right);
		far = *shim_rb_child(sibling, !is_right);
		if (shim_rb_is_black(near) && shim_rb_is_black(far)) {
			shim_rb_set_black(sibling, false);
			node = parent;
			parent = rb_parent(node);
			continue;
		}
		if (shim_rb_is_black(far)) {
			shim_rb_set_black(near, true);
			shim_rb_set_black(sibling, false);
			shim_rb_rotate(root, sibling, !is_right);
			far = sibling;
			sibling = near;
		}
		shim_rb_set_black(sibling, shim_rb_is_black(parent));
		shim_rb_set_black(parent, true);
		shim_rb_set_black(far, true);
		shim_rb_rotate(root, parent, is_right);
		return;
	}
	if (node)
		shim_rb_set_black(node, true);
}

static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *child, *parent = rb_parent(node), *next;
	bool was_black = shim_rb_is_black(node);

	if (!node->rb_left || !node->rb_right) {
		child = node->rb_left ?: node->rb_right;
		shim_rb_replace(root, node, child, parent);
	} else {
		for (next = node->rb_right; next->rb_left; next = next->rb_left)
			;
		child = next->rb_right;
		parent = rb_parent(next);
		if (parent == node) {
			parent = next;
		} else {
			shim_rb_replace(root, next, child, parent);
			next->rb_right = node->rb_right;
			shim_rb_set_parent(next->rb_right, next);
		}
		next->rb_left = node->rb_left;
		shim_rb_set_parent(next->rb_left, next);
		shim_rb_replace(root, node, next, rb_parent(node));
		/* It has @node's colour from now on: what is missing is its own. */
		was_black = shim_rb_is_black(next);
		shim_rb_set_black(next, shim_rb_is_black(node));
	}
	if (was_black)
		shim_rb_erase_color(root, child, parent);
}

/* The next one to the right, or to the left; NULL: there is none. */
static inline struct rb_node *shim_rb_beside(const struct rb_node *of, bool is_right)
{
	struct rb_node *node = (struct rb_node *)of, *parent = *shim_rb_child(node, is_right);

	if (parent) {
		for (node = parent; *shim_rb_child(node, !is_right);)
			node = *shim_rb_child(node, !is_right);
		return node;
	}
	while ((parent = rb_parent(node)) && node == *shim_rb_child(parent, is_right))
		node = parent;
	return parent;
}

#define rb_next(node)	shim_rb_beside(node, true)
#define rb_prev(node)	shim_rb_beside(node, false)

static inline void rb_insert_color_cached(struct rb_node *node, struct rb_root_cached *root,
					  bool is_leftmost)
{
	if (is_leftmost)
		root->rb_leftmost = node;
	rb_insert_color(node, &root->rb_root);
}

static inline void rb_erase_cached(struct rb_node *node, struct rb_root_cached *root)
{
	if (root->rb_leftmost == node)
		root->rb_leftmost = rb_next(node);
	rb_erase(node, &root->rb_root);
}

#endif
