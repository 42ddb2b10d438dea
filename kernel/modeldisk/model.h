/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a model of a disk is: a machine in its own time that takes commands
 * and completes them.
 *
 * A model knows nothing of the block layer, of timers or of locks: the driver
 * (main.c) calls it under one lock, with device times that never go back.
 * The same source is compiled in userspace, where tests/ drive it with a loop
 * that needs no kernel. All arithmetic is on integers, everything random comes
 * from the model's own generator, so the same commands at the same times
 * complete at the same times anywhere.
 *
 * Device time is nanoseconds since the disk was powered on, divided by the
 * disk's scale: a model is written in the times of the real device.
 */
#ifndef _MD_MODEL_H
#define _MD_MODEL_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/types.h>

#include "rng.h"

#define MD_SECT_SHIFT	9
#define MD_NEVER_NS	(~0ULL)

enum md_op {
	MD_READ,
	MD_WRITE,
	MD_DISCARD,
	/* Completes when all writes that completed before are on the medium. */
	MD_FLUSH,
	MD_NR_OPS,
};

/* One command in a disk. */
struct md_cmd {
	/* Set by the submitter. */
	enum md_op op;
	u64 sect;		/* first sector, 512 bytes */
	u32 nr_sects;		/* 0 for a flush */

	/* Set by the model, device time. */
	u64 arrive_ns;		/* md_model_type.submit() */
	u64 start_ns;		/* the medium, or the buffer, began with it */
	u64 done_ns;

	/* Owned by the model from submit() until it is done. */
	struct list_head node;
	u64 seq;		/* count of commands submitted before it */
	u32 nr_parts;		/* parts not yet done, for models that split commands */
	u64 word[4];
};

/* What a disk did inside; every field is a count since power on. */
struct md_counts {
	u64 nr_gc_runs;		/* blocks collected */
	u64 nr_gc_pages;	/* pages copied by that */
	u64 nr_erases;
	u64 nr_host_pages;	/* pages that commands wrote */
	u64 nr_media_pages;	/* pages programmed: the two above, and padding */
	u64 nr_stalls;		/* rare events of the model: see its file */
	u64 stall_max_ns;	/* longest a command waited for one of those, or for GC */
};

/* The part of a model that the driver sees; the model's own struct has it first. */
struct md_model {
	const struct md_model_type *type;
	struct md_rng rng;
	struct md_counts counts;
	struct list_head done;	/* commands completed, in order of done_ns */
	u64 nr_submitted;
};

/* What a model is made for. */
struct md_setup {
	const void *params;	/* its md_model_type's parameters, each in its range */
	u64 nr_sects;		/* capacity, a multiple of 8 */
	u64 seed;
	u32 nr_cmds;		/* at most so many commands are in flight at a time */
	u32 max_sects;		/* of a read or write */
	/* Out: why it cannot be made, with the names and values; "": no memory. */
	char problem[160];
};

/* A disk that exists: parameters for one model. */
struct md_preset {
	const char *name;
	u64 size_mib;
	const void *params;
};

/* One parameter, as it appears in configfs. */
struct md_param {
	const char *name;
	size_t offset;		/* of a u64 in the model's parameters */
	u64 least;
	u64 most;
};

/**
 * struct md_model_type - one kind of disk
 * @name: in configfs
 * @params: its parameters, in the order of the structure
 * @presets: the first one is the default
 * @params_bytes: size of the structure that params and presets describe
 * @rotational: told to the block layer
 * @create: make one; NULL, with @setup->problem, if it cannot be. May sleep.
 * @destroy: no command is in flight
 * @submit: take a command at @now_ns. Never fails; never sleeps. The caller has
 *	called advance() for @now_ns before.
 * @next_ns: when advance() is to be called at the latest, MD_NEVER_NS: nothing
 *	will happen by itself
 * @advance: let everything happen that happens until @now_ns, each thing at its
 *	own time; completed commands go to md_model.done by md_done()
 */
struct md_model_type {
	const char *name;
	const struct md_param *params;
	unsigned int nr_params;
	const struct md_preset *presets;
	unsigned int nr_presets;
	size_t params_bytes;
	bool rotational;

	struct md_model *(*create)(struct md_setup *setup);
	void (*destroy)(struct md_model *model);
	void (*submit)(struct md_model *model, struct md_cmd *cmd, u64 now_ns);
	u64 (*next_ns)(struct md_model *model);
	void (*advance)(struct md_model *model, u64 now_ns);
};

extern const struct md_model_type md_fixed_type;
extern const struct md_model_type md_hdd_type;
extern const struct md_model_type md_flash_type;
extern const struct md_model_type md_nvme_type;
extern const struct md_model_type md_ull_type;

static inline void md_model_init(struct md_model *model,
				 const struct md_model_type *type, u64 seed)
{
	model->type = type;
	md_rng_seed(&model->rng, seed);
	INIT_LIST_HEAD(&model->done);
}

/* Every submit() begins with this. */
static inline void md_arrive(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	cmd->arrive_ns = now_ns;
	cmd->start_ns = now_ns;
	cmd->done_ns = 0;
	cmd->nr_parts = 0;
	cmd->seq = model->nr_submitted++;
}

/* The command is complete. */
static inline void md_done(struct md_model *model, struct md_cmd *cmd, u64 at_ns)
{
	cmd->done_ns = at_ns;
	list_add_tail(&cmd->node, &model->done);
}

/*
 * A model declares its parameters once, as a list of X(name, least, most) in its
 * header, from which come the structure (MD_PARAM_FIELD), the table for
 * configfs (MD_PARAM_ENTRY) and the files themselves (configfs.c); see fixed.h.
 */
#define MD_MAX_NS	(10ULL * 1000 * 1000 * 1000)
#define MD_PARAM_FIELD(name_, least_, most_)	u64 name_;

#define MD_PARAM_ENTRY(name_, least_, most_)				\
	{ #name_, offsetof(struct MD_PARAMS_STRUCT, name_), least_, most_ },

#endif /* _MD_MODEL_H */
