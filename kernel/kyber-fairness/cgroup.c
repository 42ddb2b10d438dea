// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cgroup side: the blkcg policy, and the file io.kyber.weight. What
 * io.kyber.stat and io.kyber.latency show is in stat.c. On cgroup v1 the files
 * are blkio.kyber.*.
 */
#include "kyber-fairness.h"

/* Groups that exist, of all devices. */
static atomic_t kf_nr_groups;

static struct kf_cgroup *cpd_to_kcg(struct blkcg_policy_data *cpd)
{
	return container_of(cpd, struct kf_cgroup, pd);
}

static struct kf_cgroup *blkcg_to_kcg(struct blkcg *blkcg)
{
	return cpd_to_kcg(isolio_blkcg_to_cpd(blkcg, &kf_policy));
}

/* A cgroup is made, or the policy is registered. */
static struct blkcg_policy_data *kf_cpd_alloc(gfp_t gfp)
{
	struct kf_cgroup *kcg = kzalloc(sizeof(*kcg), gfp);

	if (!kcg)
		return NULL;
	kcg->weight = KF_WEIGHT_DFL;
	return &kcg->pd;
}

static void kf_cpd_free(struct blkcg_policy_data *cpd)
{
	kfree(cpd_to_kcg(cpd));
}

static void kf_group_free(struct kf_group *kg)
{
	unsigned int i;

	for (i = 0; kg->backlog && i < kg->nr_backlogs; i++)
		kfree(kg->backlog[i]);
	kfree(kg->backlog);
	kfree(kg->busy);
	kfree(kg);
}

/*
 * A cgroup sends its first request to a device, or the scheduler comes to the
 * device; may be atomic. On failure the block layer charges the parent. So no part
 * of it is large: backlogs are made on first use.
 */
static struct blkg_policy_data *isolio_pd_alloc_fn(kf_pd_alloc, q, gfp)
{
	unsigned int nr = q->nr_hw_queues;
	struct kf_group *kg;

	kg = kzalloc_node(sizeof(*kg), gfp, q->node);
	if (!kg)
		return NULL;
	kg->nr_backlogs = nr;
	kg->backlog = kcalloc_node(nr, sizeof(*kg->backlog), gfp, q->node);
	kg->busy = kcalloc_node(BITS_TO_LONGS(nr), sizeof(long), gfp, q->node);
	if (!kg->backlog || !kg->busy) {
		kf_group_free(kg);
		return NULL;
	}
	spin_lock_init(&kg->latency_lock);
	atomic_inc(&kf_nr_groups);
	return &kg->pd;
}

/* Under queue_lock and blkcg->lock; the parent's is there already. */
static void kf_pd_init(struct blkg_policy_data *pd)
{
	struct kf_queue *kq = isolio_blkg_q(pd->blkg)->elevator->elevator_data;
	struct kf_group *kg = pd_to_kg(pd);

	kg->weight = blkcg_to_kcg(pd->blkg->blkcg)->weight;
	kf_group_init(kg, kq, blkg_to_kg(pd->blkg->parent));
	if (!kg->parent)
		kq->root = kg;
	/*
	 * On some kernels (6.12.94 is one, 6.12.117 is not) the policy comes to
	 * deleted cgroups as well, if bios of theirs still wait to be let in;
	 * and the module is not told when these are gone.
	 */
	kg->is_dead = isolio_blkg_is_dying(pd->blkg);
}

/* Under queue_lock and blkcg->lock. */
static void kf_pd_offline(struct blkg_policy_data *pd)
{
	kf_group_offline(pd_to_kg(pd));
}

/* The last request is gone; the scheduler may be as well. */
static void kf_pd_free(struct blkg_policy_data *pd)
{
	kf_latency_free(pd_to_kg(pd));
	/* kf_wait_for_groups() lets us get out of the module. */
	rcu_read_lock();
	kf_group_free(pd_to_kg(pd));
	if (atomic_dec_and_test(&kf_nr_groups))
		wake_up_var(&kf_nr_groups);
	rcu_read_unlock();
}

/*
 * Groups of deleted cgroups go when the last reference to their blkg does,
 * through RCU and a worker that calls the policy without looking whether it
 * is still there. Called from kf_exit(), after the last device left.
 */
void kf_wait_for_groups(void)
{
	wait_var_event(&kf_nr_groups, !atomic_read(&kf_nr_groups));
	synchronize_rcu();
}

static void kf_group_apply_weight(struct kf_group *kg, unsigned int weight)
{
	weight = kg->dev_weight ?: weight;
	if (kg->weight == weight)
		return;
	WRITE_ONCE(kg->weight, weight);
	/* Pairs with kf_update_shares(): the weight before the flag. */
	smp_wmb();
	WRITE_ONCE(kg->kq->shares_are_stale, true);
}

/* "N", "default N": the weight on every device that has none of its own. N may be "sum". */
static void kf_set_default_weight(struct blkcg *blkcg, u64 weight)
{
	struct blkcg_gq *blkg;

	spin_lock_irq(&blkcg->lock);
	WRITE_ONCE(blkcg_to_kcg(blkcg)->weight, weight);
	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
		struct kf_group *kg = blkg_to_kg(blkg);

		if (kg)
			kf_group_apply_weight(kg, weight);
	}
	spin_unlock_irq(&blkcg->lock);
}

/* "MAJ:MIN N" or "MAJ:MIN default": the weight on one device. */
static int kf_set_device_weight(struct blkcg *blkcg, char *buf)
{
	struct blkg_conf_ctx ctx;
	struct kf_group *kg;
	u64 weight;
	int ret;

	ret = isolio_blkg_conf_begin(blkcg, &kf_policy, buf, &ctx);
	if (ret)
		return ret;

	ret = kf_parse_device_weight(ctx.body, &weight);
	if (!ret) {
		kg = blkg_to_kg(ctx.blkg);
		spin_lock(&blkcg->lock);
		kg->dev_weight = weight;
		kf_group_apply_weight(kg, blkcg_to_kcg(blkcg)->weight);
		spin_unlock(&blkcg->lock);
	}

	isolio_blkg_conf_end(&ctx);
	return ret;
}

static ssize_t kf_weight_write(struct kernfs_open_file *of, char *buf,
			       size_t nbytes, loff_t off)
{
	struct blkcg *blkcg = isolio_css_to_blkcg(of_css(of));
	char *device;
	u64 weight;
	int ret;

	ret = kf_parse_weight(buf, nbytes, &device, &weight);
	if (ret)
		return ret;
	if (device)
		ret = kf_set_device_weight(blkcg, device);
	else
		kf_set_default_weight(blkcg, weight);

	return ret ?: nbytes;
}

/* Behind "default" or "MAJ:MIN": as it is written. */
static void kf_show_weight(struct seq_file *sf, unsigned int weight)
{
	if (weight == KF_WEIGHT_SUM)
		seq_puts(sf, " sum\n");
	else
		seq_printf(sf, " %u\n", weight);
}

static u64 kf_prfill_weight(struct seq_file *sf, struct blkg_policy_data *pd,
			    int unused)
{
	struct kf_group *kg = pd_to_kg(pd);
	struct gendisk *disk = kg->kq->q->disk;

	if (kg->dev_weight && disk) {
		seq_printf(sf, "%d:%d", disk->major, disk->first_minor);
		kf_show_weight(sf, kg->dev_weight);
	}
	return 0;
}

static int kf_weight_show(struct seq_file *sf, void *unused)
{
	struct blkcg *blkcg = isolio_css_to_blkcg(seq_css(sf));

	seq_puts(sf, "default");
	kf_show_weight(sf, READ_ONCE(blkcg_to_kcg(blkcg)->weight));
	blkcg_print_blkgs(sf, blkcg, kf_prfill_weight, &kf_policy, 0, false);
	return 0;
}

#define KF_FILES							\
{									\
	{								\
		.name = "kyber.weight",					\
		.flags = CFTYPE_NOT_ON_ROOT,				\
		.seq_show = kf_weight_show,				\
		.write = kf_weight_write,				\
	},								\
	{ .name = "kyber.stat", .seq_show = kf_stat_show },		\
	{ .name = "kyber.latency", .seq_show = kf_latency_show },	\
	{ }	/* end */						\
}

/* Registration writes to the entries, so each hierarchy has its own. */
static struct cftype kf_files[] = KF_FILES;
static struct cftype kf_legacy_files[] = KF_FILES;

struct blkcg_policy kf_policy = {
	.dfl_cftypes	= kf_files,
	.legacy_cftypes	= kf_legacy_files,
	.cpd_alloc_fn	= kf_cpd_alloc,
	.cpd_free_fn	= kf_cpd_free,
	.pd_alloc_fn	= kf_pd_alloc,
	.pd_init_fn	= kf_pd_init,
	.pd_offline_fn	= kf_pd_offline,
	.pd_free_fn	= kf_pd_free,
};
