/* SPDX-License-Identifier: GPL-2.0-only */
/* Control groups as a policy of the block layer sees them; the essentials. */
#ifndef SHIM_LINUX_BLK_CGROUP_H
#define SHIM_LINUX_BLK_CGROUP_H

#include <linux/blkdev.h>
#include <linux/sched.h>

#define __rcu
#define rcu_read_lock()		barrier()
#define rcu_read_unlock()	barrier()
#define rcu_dereference(p)	READ_ONCE(p)
#define synchronize_rcu()	barrier()

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#define hlist_for_each_entry(pos, head, member)				\
	for (pos = (head)->first ? container_of((head)->first, typeof(*pos), member) : NULL; \
	     pos; pos = pos->member.next ?				\
	     container_of(pos->member.next, typeof(*pos), member) : NULL)

/* Counts on each CPU, as the kernel counts until the reference is killed. */
struct percpu_ref {
	u64 *count;
	bool is_dying;
};

static inline void percpu_ref_get(struct percpu_ref *ref)
{
	(*this_cpu_ptr(ref->count))++;
}

static inline bool percpu_ref_tryget(struct percpu_ref *ref)
{
	percpu_ref_get(ref);
	return true;
}

static inline void percpu_ref_put(struct percpu_ref *ref)
{
	(*this_cpu_ptr(ref->count))--;
}

#define percpu_ref_is_dying(ref)	((ref)->is_dying)

struct cgroup {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

#define cgroup_id(cgrp)		((cgrp)->id)

struct radix_tree_root {
	void *only;
};

#define radix_tree_lookup(root, index)	((void)(index), (root)->only)

struct seq_file;
struct kernfs_open_file;
struct cgroup_subsys_state *of_css(struct kernfs_open_file *of);
struct cgroup_subsys_state *seq_css(struct seq_file *sf);

struct cftype {
	const char *name;
	unsigned int flags;
	int (*seq_show)(struct seq_file *sf, void *v);
	ssize_t (*write)(struct kernfs_open_file *of, char *buf, size_t nbytes, long off);
};

#define CFTYPE_NOT_ON_ROOT	1

static inline int seq_printf(struct seq_file *sf, const char *format, ...)
{
	return 0;
}

#define seq_putc(sf, c)		((void)(sf))
#define seq_puts(sf, text)	((void)(sf))

#define io_cgrp_id		0

#endif
