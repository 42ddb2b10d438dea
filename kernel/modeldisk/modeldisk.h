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
#include "cache.h"
#include "model.h"
#include "pace.h"

/* Sectors of one request at most: 1 MiB. */
#define MD_MAX_SECTS	2048U

/* What a disk is made from: the files of its directory in configfs. */
struct md_settings {
	u64 size_mib;
	u64 scale_milli;	/* of the model's times, in thousandths; md_set_scale() */
	u64 seed;
	u64 queues;		/* hardware queues that interrupt */
	u64 poll_queues;	/* hardware queues that are polled */
	u64 tags;		/* requests in each hardware queue */
	u64 memory_backed;	/* 1: what is written can be read back */
	u64 power_loss;		/* 1: memory backed, and `power_cut` works; cache.c */
	u64 write_cache;	/* 1: the block layer is to send flushes */
	u64 fua;		/* 1: with write_cache, it may send FUA writes */
	u64 discard;		/* 1: the block layer may send discards */
	u64 discard_kib;	/* of one discard, at most */
	u64 discard_granularity_kib;
	u64 discard_segments;	/* ranges of one discard, at most */
	u64 write_zeroes_kib;	/* of one write zeroes, at most; 0: none are sent */
	u64 secure_erase_kib;	/* of one secure erase, at most; 0: none are sent */
};

/*
 * What goes wrong on purpose, of the requests that come: each so many-th one, 0
 * for none. Files of the directory; changed at any time, read without lock.
 */
struct md_faults {
	bool is_on;		/* any of them */
	u64 fault_all;		/* 0: of the reads and writes; 1: of all requests */
	u64 refuse_every;	/* not taken now: the block layer tries again */
	u64 lose_every;		/* served, and the driver is not told: it times out */
	u64 lose_resets;	/* timeouts of a lost request before the one that ends it */
	u64 lose_ok;		/* 1: a lost request ends well, 0: with an error */
	u64 requeue_every;	/* served, and given back to be sent again */
	u64 error_every;	/* served with an error, and no data is moved */
	u64 stall_every;	/* served, and completed stall_us later */
	u64 stall_us;		/* device time */
};

/* Which of them happens to a request. */
enum md_fault {
	MD_FAULT_NONE,
	MD_FAULT_REFUSE,
	MD_FAULT_LOSE,
	MD_FAULT_LOST,		/* the same one when the model is done with it */
	MD_FAULT_REQUEUE,
	MD_FAULT_ERROR,
	MD_FAULT_STALL,
	MD_FAULT_STALLED,	/* the same one when the model is done with it */
};

/* What is counted: the models' operations, and what is a discard to them. */
enum md_count {
	MD_COUNT_ZEROES = MD_NR_OPS,
	MD_COUNT_SECURE_ERASE,
	MD_NR_COUNTS,
};

/* Data of a memory-backed disk; pages come when they are written. */
struct md_store {
	struct xarray pages;
	struct rw_semaphore sem;	/* writers remove pages */
};

/* Data of a memory-backed disk that can lose power; under md_disk.lock. */
struct md_cache {
	struct xarray pages;	/* md_cached by index; stay until power off */
	struct list_head dirty;	/* md_cached.dirty */
	u64 clock;		/* writes that were done */
};

/* Counts since power on; under md_disk.lock. Sizes in bytes, device time. */
struct md_stat {
	u64 nr[MD_NR_COUNTS];
	u64 bytes[MD_NR_COUNTS];
	u64 nr_reordered;	/* completed before one that came earlier */
	u64 overtaken_max;	/* most later ones that went before one request */
	u64 nr_errors;
	u64 nr_refused;		/* counted nowhere else */
	u64 nr_requeued;
	u64 nr_lost;		/* and timed out */
	u64 nr_stalled;
	u64 nr_cuts;
	struct md_cut_count cut;
	u64 depth_max;
	u64 depth_ns;		/* sum over time of the requests in flight */
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
	atomic_t nr_asked;		/* requests that could fail, while faults are on */
	u64 start_ns;			/* ktime at device time 0; under lock, as scale_milli */
	bool is_off;			/* being removed, or power is cut: everything fails */

	/* lock protects everything below, and the polled lists. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct md_model *model;
	struct hrtimer timer;
	struct list_head inside;	/* md_rq.inside, in order of arrival */
	u64 nr_inside;
	u64 nr_interrupting;		/* of those, not of polled queues */
	u64 nr_completed;
	struct md_cache cache;
	struct list_head stalled;	/* md_cmd.node, by done_ns */
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
	u8 count;		/* enum md_op or md_count: as what it is counted */
	u32 nr_resets;		/* of a lost one: timeouts so far */
	u64 clock;		/* of a flush: md_cache.clock when it came */
};

/* main.c */
struct md_disk *md_power_on(const char *name, const struct md_model_type *type,
			    const void *params, const struct md_settings *settings,
			    const struct md_faults *faults);
void md_power_off(struct md_disk *md);
int md_power_cut(struct md_disk *md, u64 seed);
void md_power_return(struct md_disk *md);
int md_set_scale(struct md_disk *md, u64 milli);
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
void md_store_zero(struct md_store *store, u64 sect, u64 nr_sects);

/* cache.c */
void md_cache_init(struct md_cache *cache);
void md_cache_free(struct md_cache *cache);
blk_status_t md_cache_prepare(struct md_cache *cache, struct request *rq);
void md_cache_apply(struct md_cache *cache, struct request *rq, bool durable);
void md_cache_flush(struct md_cache *cache, u64 clock);
void md_cache_cut(struct md_cache *cache, u64 seed, struct md_cut_count *count);
void md_cache_tear(struct md_cache *cache, struct request *rq, u64 seed,
		   struct md_cut_count *count);

#endif /* _MODELDISK_H */
