/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine for schedulers in userspace: CPUs, which are threads or are played by one
 * thread, a disk with hardware contexts, and cgroups. Included once by a program, after
 * what it wants to count (see count.h) and before the schedulers' sources.
 *
 * Schedulers are known by their elevator_type alone.
 */
#ifndef SMP_MACHINE_H
#define SMP_MACHINE_H

#include "compat.h"

#include <linux/hrtimer.h>

#include "clock.h"

#define SMP_NR_CGROUPS_MAX	64

unsigned int shim_nr_cpus;
struct shim_waiter shim_waiters[SHIM_NR_CPUS_MAX];
struct shim_timer_base shim_timer_bases[SHIM_NR_CPUS_MAX];
/* A CPU dispatches after it submitted, as the block layer does where a task has a plug. */
static int smp_plug;
const struct task_struct shim_task = { .plug = &smp_plug };
struct blkcg blkcg_root;

static __thread unsigned int smp_this_cpu;
/* 0: the time is that of the clock. */
static u64 smp_played_ns;

shim_uncounted unsigned int shim_this_cpu(void)
{
	return smp_this_cpu;
}

shim_uncounted u64 shim_now_ns(void)
{
	return smp_played_ns ?: smp_clock_ns();
}

/* A scheduler and the policy it comes with. */
static struct elevator_type *smp_registered;
static struct blkcg_policy *smp_policy;

int elv_register(struct elevator_type *type)
{
	smp_registered = type;
	return 0;
}

void elv_unregister(struct elevator_type *type)
{
	smp_registered = NULL;
}

int blkcg_policy_register(struct blkcg_policy *pol)
{
	pol->plid = 0;
	smp_policy = pol;
	return 0;
}

void blkcg_policy_unregister(struct blkcg_policy *pol)
{
	smp_policy = NULL;
}

int isolio_check_fit(void)
{
	return 0;
}

/* Of the cgroup whose file is written. */
static struct cgroup_subsys_state *smp_written_css;

struct cgroup_subsys_state *of_css(struct kernfs_open_file *of)
{
	return smp_written_css;
}

struct cgroup_subsys_state *seq_css(struct seq_file *sf)
{
	return NULL;
}

/* Asked for where tags are scarce, which they are not. */
struct cgroup_subsys_state *shim_task_css(void)
{
	return &blkcg_root.css;
}

/* A cgroup with its part of the disk; the first one is the root. */
struct smp_cgroup {
	struct cgroup cgroup;
	struct blkcg *blkcg;
	struct blkcg_gq *blkg;
};

struct smp_disk {
	struct request_queue q;
	struct gendisk disk;
	struct blk_mq_tag_set tag_set;
	struct elevator_queue eq;
	struct smp_cgroup cgroups[SMP_NR_CGROUPS_MAX + 1];
	unsigned int nr_cgroups;	/* besides the root */
	bool has_policy;
};

static struct smp_disk *smp_disk;

static void smp_init_policy(struct smp_cgroup *sc, struct request_queue *q,
			    const struct blkcg_policy *pol)
{
	struct blkg_policy_data *pd;

	sc->blkcg->cpd[0] = pol->cpd_alloc_fn(GFP_KERNEL);
	sc->blkcg->cpd[0]->blkcg = sc->blkcg;
	pd = pol->pd_alloc_fn(GFP_KERNEL, q, sc->blkcg);
	pd->blkg = sc->blkg;
	sc->blkg->pd[0] = pd;
	pol->pd_init_fn(pd);
}

/* Of a cgroup that is deleted, if it has not been before. */
static void smp_exit_policy(struct smp_cgroup *sc, const struct blkcg_policy *pol)
{
	pol->pd_offline_fn(sc->blkg->pd[0]);
	pol->pd_free_fn(sc->blkg->pd[0]);
	pol->cpd_free_fn(sc->blkcg->cpd[0]);
}

int blkcg_activate_policy(struct request_queue *q, const struct blkcg_policy *pol)
{
	unsigned int i;

	for (i = 0; i <= smp_disk->nr_cgroups; i++)
		smp_init_policy(&smp_disk->cgroups[i], q, pol);
	smp_disk->has_policy = true;
	return 0;
}

void blkcg_deactivate_policy(struct request_queue *q, const struct blkcg_policy *pol)
{
	int i;

	for (i = smp_disk->nr_cgroups; i >= 0; i--)
		smp_exit_policy(&smp_disk->cgroups[i], pol);
}

static void smp_init_cgroup(struct smp_disk *sd, struct smp_cgroup *sc, unsigned int nr,
			    struct blkcg_gq *parent)
{
	sc->blkcg = nr ? shim_kzalloc(sizeof(*sc->blkcg)) : &blkcg_root;
	sc->blkg = shim_kzalloc(sizeof(*sc->blkg));
	sc->cgroup.id = nr + 1;
	sc->blkcg->css.cgroup = &sc->cgroup;
	spin_lock_init(&sc->blkcg->lock);
	sc->blkg->q = &sd->q;
	sc->blkg->blkcg = sc->blkcg;
	sc->blkg->parent = parent;
	sc->blkg->refcnt.count = alloc_percpu(u64);
	sc->blkcg->blkg_hint = sc->blkg;
	sc->blkcg->blkg_list.first = &sc->blkg->blkcg_node;
}

/* CPUs and hardware contexts in proportion, as blk-mq maps them where they are near. */
static void smp_map_cpu(struct request_queue *q, unsigned int cpu)
{
	struct blk_mq_ctx *ctx = per_cpu_ptr(q->queue_ctx, cpu);
	unsigned int nr = q->nr_hw_queues >= nr_cpu_ids ?
			  cpu : cpu * q->nr_hw_queues / nr_cpu_ids;
	struct blk_mq_hw_ctx *hctx = q->queue_hw_ctx[nr];
	unsigned int type;

	ctx->cpu = cpu;
	hctx->type = HCTX_TYPE_READ;
	for (type = 0; type < HCTX_MAX_TYPES; type++) {
		ctx->hctxs[type] = hctx;
		ctx->index_hw[type] = hctx->nr_ctx;
	}
	hctx->nr_ctx++;
}

/* A disk with @nr_hctx hardware contexts and @nr_cgroups cgroups besides the root. */
static struct smp_disk *smp_make_disk(unsigned int nr_cpus, unsigned int nr_hctx,
				      unsigned int nr_cgroups, unsigned int nr_tags)
{
	struct smp_disk *sd = shim_kzalloc(sizeof(*sd));
	struct request_queue *q = &sd->q;
	unsigned int i;

	shim_nr_cpus = nr_cpus;
	shim_timers_init();
	smp_disk = sd;
	sd->nr_cgroups = nr_cgroups;
	/* As an NVMe SSD has them, for each hardware context. */
	sd->tag_set.queue_depth = 1023;
	sd->disk = (struct gendisk){ .queue = q, .major = 1 };
	q->disk = &sd->disk;
	q->tag_set = &sd->tag_set;
	q->nr_hw_queues = nr_hctx;
	q->nr_requests = nr_tags;
	q->nr_runs = alloc_percpu(u64);
	q->queue_ctx = alloc_percpu(struct blk_mq_ctx);
	q->queue_hw_ctx = shim_kzalloc(nr_hctx * sizeof(q->queue_hw_ctx[0]));
	for (i = 0; i < nr_hctx; i++) {
		struct blk_mq_hw_ctx *hctx = shim_kzalloc(sizeof(*hctx));

		hctx->queue = q;
		hctx->queue_num = i;
		hctx->tags = shim_kzalloc(sizeof(*hctx->tags));
		hctx->tags->nr_tags = nr_tags;
		hctx->sched_tags = hctx->tags;
		q->queue_hw_ctx[i] = hctx;
	}
	for (i = 0; i < nr_cpus; i++)
		smp_map_cpu(q, i);
	for (i = 0; i <= nr_cgroups; i++)
		smp_init_cgroup(sd, &sd->cgroups[i], i, i ? sd->cgroups[0].blkg : NULL);
	q->root_blkg = sd->cgroups[0].blkg;
	return sd;
}

static void smp_set_scheduler(struct smp_disk *sd, struct elevator_type *type)
{
	unsigned int i;

	sd->eq.type = type;
	sd->eq.elevator_data = type->ops.alloc_sched_data(&sd->q);
	if (!sd->eq.elevator_data || type->ops.init_sched(&sd->q, &sd->eq))
		abort();
	for (i = 0; i < sd->q.nr_hw_queues; i++)
		if (type->ops.init_hctx(sd->q.queue_hw_ctx[i], i))
			abort();
}

/* The scheduler's own checks that nothing is left are made here. */
static void smp_free_disk(struct smp_disk *sd)
{
	struct elevator_type *type = sd->eq.type;
	unsigned int i;

	for (i = 0; i < sd->q.nr_hw_queues; i++) {
		type->ops.exit_hctx(sd->q.queue_hw_ctx[i], i);
		kfree(sd->q.queue_hw_ctx[i]->tags);
		kfree(sd->q.queue_hw_ctx[i]);
	}
	type->ops.exit_sched(&sd->eq);
	type->ops.free_sched_data(sd->eq.elevator_data);
	for (i = 0; i <= sd->nr_cgroups; i++) {
		kfree(sd->cgroups[i].blkg);
		if (i)
			kfree(sd->cgroups[i].blkcg);
	}
	kfree(sd->q.queue_hw_ctx);
	kfree(sd);
	shim_free_chunks();
}

/* Write the file of a cgroup that its policy has for weights, if there is a policy. */
static void smp_set_weight(struct smp_disk *sd, unsigned int nr, const char *weight)
{
	const struct cftype *file = sd->has_policy ? smp_policy->dfl_cftypes : NULL;
	char text[16];

	for (; file && file->name; file++) {
		if (!strstr(file->name, "weight"))
			continue;
		snprintf(text, sizeof(text), "%s", weight);
		smp_written_css = &sd->cgroups[nr].blkcg->css;
		if (file->write(NULL, text, strlen(text), 0) < 0)
			abort();
	}
}

static inline u64 smp_nr_runs(struct smp_disk *sd)
{
	unsigned int cpu;
	u64 nr = 0;

	for_each_possible_cpu(cpu)
		nr += *per_cpu_ptr(sd->q.nr_runs, cpu);
	return nr;
}

#endif
