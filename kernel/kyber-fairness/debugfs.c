// SPDX-License-Identifier: GPL-2.0-only
/*
 * State for people: files in /sys/kernel/debug/block/DEV/sched/ and
 * /sys/kernel/debug/block/DEV/hctxN/sched/. Not an interface.
 */
#include "kyber-fairness.h"

/* data_race(): a figure that latency_work is changing is the one before or after. */
#define kf_figure(figure)	data_race(figure)

/* One line of device state, one for each active cgroup. */
static int kf_budgets_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct kf_group *kg;
	struct kf_queue *kq;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	spin_lock_irq(&kq->lock);
	seq_printf(m, "round=%u age_us=%llu pool_bytes=%llu active=%u runnable=%d expected=%d hold_credit_us=%llu waiting=%d\n",
		   kq->round,
		   div_u64(ktime_get_ns() - kq->round_start_ns, NSEC_PER_USEC),
		   kq->pool_bytes, kq->nr_active,
		   atomic_read(&kq->nr_runnable), atomic_read(&kq->nr_expected),
		   div_u64(kq->hold_credit_ns, NSEC_PER_USEC),
		   !llist_empty(&kq->throttled));
	list_for_each_entry(kg, &kq->active, active_node)
		seq_printf(m, "cgroup=%llu weight=%u share_ppm=%llu budget_bytes=%lld refilled_bytes=%lld backlogged_hctxs=%d\n",
			   cgroup_id(kg->pd.blkg->blkcg->css.cgroup),
			   READ_ONCE(kg->weight),
			   kg->share * 1000000 >> KF_SHARE_SHIFT,
			   (s64)atomic64_read(&kg->budget_bytes),
			   kg->refilled_bytes,
			   atomic_read(&kg->nr_backlogged));
	spin_unlock_irq(&kq->lock);
	isolio_debugfs_end(q);
	return 0;
}

static int kf_domains_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct kf_queue *kq;
	int id, ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	for (id = 0; id < KF_NR_DOMAINS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		seq_printf(m, "%s tokens=%u by_target=%u by_share=%u used=%u target_ns=%llu unloaded_ns=%llu\n",
			   kf_domain_names[id], kf_figure(kd->tokens.sb.depth),
			   kf_figure(kd->target_depth), kf_figure(kd->share_depth),
			   sbitmap_weight(&kd->tokens.sb), READ_ONCE(kd->target_ns),
			   READ_ONCE(kd->unloaded_ns));
	}
	seq_printf(m, "inside least=%llu by_share=%llu of_use=%llu trying=%d best_per_s=%llu\n",
		   READ_ONCE(kq->inside_least), kf_figure(kq->inside),
		   kf_figure(kq->inside_trial.most), kf_figure(kq->inside_trial.step),
		   kf_figure(kq->inside_trial.best_rate));
	isolio_debugfs_end(q);
	return 0;
}

/* What a request is charged, and the model of the device. */
static int kf_costs_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct kf_queue *kq;
	int dir, ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	mutex_lock(&kq->cost_lock);
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		seq_printf(m, "%s charged_per_request_bytes=%u charged_per_kib_bytes=%llu model_io_ps=%llu model_mib_ps=%llu scaled=%d\n",
			   kf_domain_names[dir], (u32)kq->cost_rate[dir],
			   (kq->cost_rate[dir] >> 32) * 1024 >> KF_RATE_SHIFT,
			   kq->model.io_ps[dir], kq->model.mib_ps[dir],
			   kq->model.is_scaled);
	mutex_unlock(&kq->cost_lock);
	isolio_debugfs_end(q);
	return 0;
}

const struct blk_mq_debugfs_attr kf_queue_debugfs_attrs[] = {
	{ "budgets", 0400, kf_budgets_show },
	{ "costs", 0400, kf_costs_show },
	{ "domains", 0400, kf_domains_show },
	{ },
};

static int kf_queues_show(void *data, struct seq_file *m)
{
	struct blk_mq_hw_ctx *hctx = data;
	struct kf_hctx *kh;
	int id, ret;

	ret = isolio_debugfs_begin(hctx->queue);
	if (ret)
		return ret;
	kh = hctx->sched_data;
	spin_lock(&kh->lock);
	seq_printf(m, "domain=%s batched=%u round=%u throttled=%d inserted=%llu dispatched=%llu\n",
		   kf_domain_names[kh->cur_domain], kh->nr_batched, kh->round,
		   test_bit(KF_HCTX_THROTTLED, &kh->flags), kh->nr_inserted,
		   kh->nr_dispatched);
	for (id = 0; id < KF_NR_DOMAINS; id++)
		seq_printf(m, "%s ready_levels=%llx spent_cgroups=%zu urgent_requests=%zu\n",
			   kf_domain_names[id], kh->ready_levels[id],
			   list_count_nodes(&kh->spent[id]),
			   list_count_nodes(&kh->urgent[id]));
	spin_unlock(&kh->lock);
	isolio_debugfs_end(hctx->queue);
	return 0;
}

const struct blk_mq_debugfs_attr kf_hctx_debugfs_attrs[] = {
	{ "queues", 0400, kf_queues_show },
	{ },
};
