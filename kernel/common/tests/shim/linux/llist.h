/* SPDX-License-Identifier: GPL-2.0-only */
/* Singly linked lists to which any CPU may add without a lock. */
#ifndef SHIM_LINUX_LLIST_H
#define SHIM_LINUX_LLIST_H

#include <linux/atomic.h>

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

static inline void init_llist_head(struct llist_head *list)
{
	list->first = NULL;
}

static inline bool llist_empty(const struct llist_head *list)
{
	return !READ_ONCE(list->first);
}

/* Return: whether the list was empty. */
static inline bool llist_add(struct llist_node *node, struct llist_head *list)
{
	struct llist_node *first = READ_ONCE(list->first);

	do {
		node->next = first;
		shim_access(&list->first, SHIM_RMW);
	} while (!__atomic_compare_exchange_n(&list->first, &first, node, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return !first;
}

static inline struct llist_node *llist_del_all(struct llist_head *list)
{
	return xchg(&list->first, NULL);
}

static inline struct llist_node *llist_reverse_order(struct llist_node *head)
{
	struct llist_node *reversed = NULL, *next;

	for (; head; head = next) {
		next = head->next;
		head->next = reversed;
		reversed = head;
	}
	return reversed;
}

#define shim_llist_entry(ptr, type, member) ({				\
	struct llist_node *__node = (ptr);				\
									\
	__node ? container_of(__node, type, member) : NULL;		\
})

#define llist_for_each_entry_safe(pos, n, node, member)			\
	for (pos = shim_llist_entry(node, typeof(*pos), member);	\
	     pos && (n = shim_llist_entry(pos->member.next, typeof(*n), member), true); \
	     pos = n)

#endif
