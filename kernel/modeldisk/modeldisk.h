/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures of modeldisk's driver. The essay is in main.c.
 *
 * A local of a type always has the same name: md_config mc (a directory in
 * configfs), md_disk md (a disk that is powered on), md_rq mr (a request in
 * it), md_model model.
 */
#ifndef _MODELDISK_H
#define _MODELDISK_H

#include "compat.h"

#include <linux/configfs.h>
#include <linux/hrtimer.h>
#include <linux/rwsem.h>
#include <linux/xarray.h>

#include "age.h"
#include "model.h"

/* Sectors of one request at most: 1 MiB. */
#define MD_MAX_SECTS	2048U

/* What a disk is made from: the files of its directory in configfs. */
struct md_settings {
	u64 size_mib;
	u64 scale;		/* the model's times are stretched by this */
	u64 seed;
	u64 queues;		/* hardware queues that interrupt */
	u64 poll_queues;	/* hardware queues that are polled */
	u64 tags;		/* requests in each hardware queue */
	u64 memory_backed;	/* 1: what is written can be read back */
	u64 write_cache;	/* 1: the block layer is to send flushes */
	u64 discard;		/* 1: the block layer may send discards */
};

/*
 * What goes wrong on purpose, of the reads and writes that come: each so many-th
 * one, 0 for none. Files of the directory; changed at any time, read without lock.
 */
struct md_faults {
	bool is_on;		/* any of them */
	u64 refuse_every;	/* not taken now: the block layer tries again */
	u64 lose_every;		/* served, and nobody is told: it times out */
	u64 requeue_every;	/* served, and given back to be sent again */
	u64 error_every;	/* served with an error, and no data is moved */
};

/* Which of them happens to a request. */
enum md_fault {
	MD_FAULT_NONE,
	MD_FAULT_REFUSE,
	MD_FAULT_LOSE,
	MD_FAULT_LOST,		/* the same one when the model is done with it */
	MD_FAULT_REQUEUE,
	MD_FAULT_ERROR,
};

/* Data of a memory-backed disk; pages come when they are written. */
struct md_store {
	struct xarray pages;
	struct rw_semaphore sem;	/* writers remove pages */
};

/* Counts since power on; under md_disk.lock. Sizes in bytes, device time. */
struct md_stat {
	u64 nr[MD_NR_OPS];
	u64 bytes[MD_NR_OPS];
	u64 nr_reordered;	/* completed before one that came earlier */
	u64 overtaken_max;	/* most later ones that went before one request */
	u64 nr_errors;
	u64 nr_refused;		/* counted nowhere else */
	u64 nr_requeued;
	u64 nr_lost;		/* and timed out */
	u64 depth_max;
	u64 depth_ns;		/* sum over time of the requests inside */
	u64 last_ns;		/* when that was last summed */
};

/* One disk that is powered on. */
struct md_disk {
	const struct md_model_type *type;
	struct blk_mq_tag_set set;
	struct gendisk *disk;
	struct md_settings settings;
	struct md_store store;
	const struct md_faults *faults;
	atomic_t nr_asked;		/* reads and writes offered, while faults are on */
	u64 start_ns;			/* ktime at device time 0 */
	bool is_gone;			/* being removed: everything fails */

	/* lock protects everything below, and the polled lists. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct md_model *model;
	struct hrtimer timer;
	struct list_head inside;	/* md_rq.inside, in order of arrival */
	u64 nr_inside;
	u64 nr_interrupting;		/* of those, not of polled queues */
	u64 nr_completed;
	struct md_stat stat;
	u64 overtaken[AGE_NR_BUCKETS];	/* completed, by how often they were; age.h */
};

/* One hardware queue. */
struct md_hctx {
	struct list_head polled;	/* done, to be found by md_poll() */
};

/* What belongs to a request. */
struct md_rq {
	struct md_cmd cmd;
	struct list_head inside;
	blk_status_t status;
	enum md_fault fault;
};

/* main.c */
struct md_disk *md_power_on(const char *name, const struct md_model_type *type,
			    const void *params, const struct md_settings *settings,
			    const struct md_faults *faults);
void md_power_off(struct md_disk *md);
ssize_t md_stat_show(struct md_disk *md, char *page);
ssize_t md_overtaken_show(struct md_disk *md, char *page);
extern const struct md_model_type * const md_types[];
extern const unsigned int md_nr_types;

/* configfs.c */
int md_configfs_init(void);
void md_configfs_exit(void);

/* store.c */
void md_store_init(struct md_store *store);
void md_store_free(struct md_store *store);
blk_status_t md_store_transfer(struct md_store *store, struct request *rq);
void md_store_discard(struct md_store *store, u64 sect, u64 nr_sects);

#endif /* _MODELDISK_H */
