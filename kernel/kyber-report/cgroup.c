// SPDX-License-Identifier: GPL-2.0-only
/*
 * The blkcg policy and the file io.kyber-report.weight (figures 15 to 22 of the report),
 * blkio.kyber-report.weight on cgroup v1.
 */
#include "kyber-report.h"
#include "text.h"

struct kr_cgroup {
	struct blkcg_policy_data pd;
	unsigned int weight;		/* blkcg->lock; the file reads it without */
};

/* Groups that exist, of all devices. */
static atomic_t kr_nr_groups;

static struct kr_cgroup *cpd_to_kcg(struct blkcg_policy_data *cpd)
{
	return container_of(cpd, struct kr_cgroup, pd);
}

static struct kr_cgroup *blkcg_to_kcg(struct blkcg *blkcg)
{
	return cpd_to_kcg(isolio_blkcg_to_cpd(blkcg, &kr_policy));
}

static struct kr_group *blkg_to_kg(struct blkcg_gq *blkg)
{
	struct blkg_policy_data *pd = isolio_blkg_to_pd(blkg, &kr_policy);

	return pd ? container_of(pd, struct kr_group, pd) : NULL;
}

/*
 * The root's for a bio without a cgroup. A deleted cgroup's group may be left from an
 * earlier time the scheduler ran the device: its requests are the root's as well.
 */
struct kr_group *kr_bio_group(struct kr_device *kd, struct bio *bio)
{
	struct blkcg_gq *blkg = bio ? bio->bi_blkg : NULL;
	struct kr_group *kg;

	if (!blkg || isolio_blkg_q(blkg) != kd->q)
		return kd->root;
	kg = blkg_to_kg(blkg);
	return kg && kg->generation == kd->generation ? kg : kd->root;
}

static struct blkcg_policy_data *kr_cpd_alloc(gfp_t gfp)
{
	struct kr_cgroup *kcg = kzalloc(sizeof(*kcg), gfp);

	if (!kcg)
		return NULL;
	kcg->weight = KR_WEIGHT_DFL;
	return &kcg->pd;
}

static void kr_cpd_free(struct blkcg_policy_data *cpd)
{
	kfree(cpd_to_kcg(cpd));
}

static struct blkg_policy_data *isolio_pd_alloc_fn(kr_pd_alloc, q, gfp)
{
	struct kr_group *kg = kzalloc_node(sizeof(*kg), gfp, q->node);

	if (!kg)
		return NULL;
	kg->nr_queues = q->nr_hw_queues;
	kg->queue = kcalloc_node(kg->nr_queues, sizeof(*kg->queue), gfp, q->node);
	if (!kg->queue) {
		kfree(kg);
		return NULL;
	}
	atomic_inc(&kr_nr_groups);
	return &kg->pd;
}

/* Figure 19. The group is on the device's list from its first request on. */
static void kr_pd_init(struct blkg_policy_data *pd)
{
	struct kr_group *kg = container_of(pd, struct kr_group, pd);

	kg->kd = kr_of(isolio_blkg_q(pd->blkg));
	kg->generation = kg->kd->generation;
	kg->weight = blkcg_to_kcg(pd->blkg->blkcg)->weight;
	kg->next_budget = kr_initial_budget(kg->weight);
	atomic64_set(&kg->cur_budget, kg->next_budget);
	kg->is_idle = true;
	INIT_LIST_HEAD(&kg->node);
	/* Some kernels give a deleted cgroup a group, and do not tell when it is gone. */
	kg->is_dead = isolio_blkg_is_dying(pd->blkg);
	if (!pd->blkg->parent)
		kg->kd->root = kg;
}

static void kr_pd_offline(struct blkg_policy_data *pd)
{
	kr_group_offline(container_of(pd, struct kr_group, pd));
}

/* The last request is gone; the scheduler may be as well. */
static void kr_pd_free(struct blkg_policy_data *pd)
{
	struct kr_group *kg = container_of(pd, struct kr_group, pd);
	unsigned int i;

	/* kr_wait_for_groups() lets this return. */
	rcu_read_lock();
	for (i = 0; i < kg->nr_queues; i++)
		kfree(kg->queue[i]);
	kfree(kg->queue);
	kfree(kg);
	if (atomic_dec_and_test(&kr_nr_groups))
		wake_up_var(&kr_nr_groups);
	rcu_read_unlock();
}

/* A deleted cgroup's group is freed by a worker that does not ask for the policy. */
void kr_wait_for_groups(void)
{
	wait_var_event(&kr_nr_groups, !atomic_read(&kr_nr_groups));
	synchronize_rcu();
}

/* "N" or "default N". */
static ssize_t kr_weight_write(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)
{
	struct blkcg *blkcg = isolio_css_to_blkcg(of_css(of));
	size_t skip = strncmp(buf, "default ", 8) ? 0 : 8;
	struct blkcg_gq *blkg;
	u64 weight;
	int ret;

	ret = text_number(buf + skip, nbytes - skip, KR_WEIGHT_MIN, KR_WEIGHT_MAX, &weight);
	if (ret)
		return ret;
	spin_lock_irq(&blkcg->lock);
	WRITE_ONCE(blkcg_to_kcg(blkcg)->weight, weight);
	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
		struct kr_group *kg = blkg_to_kg(blkg);

		if (kg)
			WRITE_ONCE(kg->weight, weight);
	}
	spin_unlock_irq(&blkcg->lock);
	return nbytes;
}

static int kr_weight_show(struct seq_file *sf, void *unused)
{
	struct blkcg *blkcg = isolio_css_to_blkcg(seq_css(sf));

	seq_printf(sf, "default %u\n", READ_ONCE(blkcg_to_kcg(blkcg)->weight));
	return 0;
}

#define KR_FILES						\
{								\
	{							\
		.name = "kyber-report.weight",			\
		.flags = CFTYPE_NOT_ON_ROOT,			\
		.seq_show = kr_weight_show,			\
		.write = kr_weight_write,			\
	},							\
	{ }	/* end */					\
}

/* Registration writes to the entries, so each hierarchy has its own. */
static struct cftype kr_files[] = KR_FILES;
static struct cftype kr_legacy_files[] = KR_FILES;

struct blkcg_policy kr_policy = {
	.dfl_cftypes	= kr_files,
	.legacy_cftypes	= kr_legacy_files,
	.cpd_alloc_fn	= kr_cpd_alloc,
	.cpd_free_fn	= kr_cpd_free,
	.pd_alloc_fn	= kr_pd_alloc,
	.pd_init_fn	= kr_pd_init,
	.pd_offline_fn	= kr_pd_offline,
	.pd_free_fn	= kr_pd_free,
};
