/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In the place of the header that is generated from a kernel's BTF: the elevator's and
 * the policies' structures, as of a kernel like 7.2 but for its files.
 */
#ifndef SHIM_ISOLIO_PRIVATE_H
#define SHIM_ISOLIO_PRIVATE_H

#include <linux/blk-cgroup.h>

#include "../../../compat/tests/shim_features.h"

struct blk_mq_alloc_data {
	struct request_queue *q;
	blk_mq_req_flags_t flags;
	unsigned int shallow_depth;
};

struct elevator_mq_ops {
	int (*init_sched)(struct request_queue *q, struct elevator_queue *eq);
	void (*exit_sched)(struct elevator_queue *eq);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_nr);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_nr);
	void (*depth_updated)(struct request_queue *q);
	void *(*alloc_sched_data)(struct request_queue *q);
	void (*free_sched_data)(void *data);
	bool (*bio_merge)(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
	void (*limit_depth)(blk_opf_t opf, struct blk_mq_alloc_data *data);
	void (*prepare_request)(struct request *rq);
	void (*finish_request)(struct request *rq);
	void (*insert_requests)(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				blk_insert_t flags);
	struct request *(*dispatch_request)(struct blk_mq_hw_ctx *hctx);
	bool (*has_work)(struct blk_mq_hw_ctx *hctx);
	void (*completed_request)(struct request *rq, u64 now_ns);
	void (*requeue_request)(struct request *rq);
};

struct elv_fs_entry;
struct module;

struct elevator_type {
	struct elevator_mq_ops ops;
	const struct elv_fs_entry *elevator_attrs;
	const char *elevator_name;
	struct module *elevator_owner;
};

struct elevator_queue {
	struct elevator_type *type;
	void *elevator_data;
};

struct elv_fs_entry {
	struct {
		const char *name;
		unsigned int mode;
	} attr;
	ssize_t (*show)(struct elevator_queue *e, char *page);
	ssize_t (*store)(struct elevator_queue *e, const char *page, size_t count);
};

#define __ATTR(_name, _mode, _show, _store) \
	{ .attr = { #_name, _mode }, .show = _show, .store = _store }
#define __ATTR_NULL	{ }

#define BLKCG_MAX_POLS	1

struct blkcg_policy_data {
	struct blkcg *blkcg;
};

struct blkg_policy_data {
	struct blkcg_gq *blkg;
};

struct blkcg {
	struct cgroup_subsys_state css;
	spinlock_t lock;
	struct radix_tree_root blkg_tree;
	struct blkcg_gq *blkg_hint;
	struct hlist_head blkg_list;
	struct blkcg_policy_data *cpd[BLKCG_MAX_POLS];
};

struct blkcg_gq {
	struct request_queue *q;
	struct hlist_node blkcg_node;
	struct blkcg *blkcg;
	struct blkcg_gq *parent;
	struct percpu_ref refcnt;
	struct blkg_policy_data *pd[BLKCG_MAX_POLS];
};

struct blkcg_policy {
	int plid;
	struct cftype *dfl_cftypes;
	struct cftype *legacy_cftypes;
	struct blkcg_policy_data *(*cpd_alloc_fn)(gfp_t gfp);
	void (*cpd_free_fn)(struct blkcg_policy_data *cpd);
	struct blkg_policy_data *(*pd_alloc_fn)(gfp_t gfp, struct request_queue *q,
						struct blkcg *blkcg);
	void (*pd_init_fn)(struct blkg_policy_data *pd);
	void (*pd_offline_fn)(struct blkg_policy_data *pd);
	void (*pd_free_fn)(struct blkg_policy_data *pd);
};

struct blkg_conf_ctx {
	struct blkcg_gq *blkg;
	char *body;
};

int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
int blkcg_policy_register(struct blkcg_policy *pol);
void blkcg_policy_unregister(struct blkcg_policy *pol);
int blkcg_activate_policy(struct request_queue *q, const struct blkcg_policy *pol);
void blkcg_deactivate_policy(struct request_queue *q, const struct blkcg_policy *pol);

static inline int blkg_conf_prep(struct blkcg *blkcg, const struct blkcg_policy *pol,
				 char *input, struct blkg_conf_ctx *ctx)
{
	return -EOPNOTSUPP;
}

#define blkg_conf_finish(ctx)	((void)(ctx))
#define blkcg_print_blkgs(sf, blkcg, fn, pol, data, total) \
	((void)(sf), (void)(blkcg), (void)(fn))

/* Files are not written here, nor read. */
static inline int sysfs_emit(char *page, const char *format, ...)
{
	return 0;
}

static inline int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	return 0;
}

#define sysfs_match_string(names, text)	((void)(names), (void)(text), -EINVAL)

#define THIS_MODULE		NULL
#define pr_err(...)		fprintf(stderr, __VA_ARGS__)
#define module_init(fn)		static inline int shim_module_init(void) { return fn(); } \
				struct shim_nothing
#define module_exit(fn)		static inline void shim_module_exit(void) { fn(); } \
				struct shim_nothing
#ifndef MODULE_LICENSE
#define MODULE_LICENSE(x)	struct shim_nothing
#define MODULE_DESCRIPTION(x)	struct shim_nothing
#define MODULE_AUTHOR(x)	struct shim_nothing
#endif
#define MODULE_ALIAS(x)		struct shim_nothing

#endif
