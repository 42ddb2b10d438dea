// SPDX-License-Identifier: GPL-2.0-only
/*
 * State for people: files in /sys/kernel/debug/block/DEV/sched/ and
 * /sys/kernel/debug/block/DEV/hctxN/sched/. Not an interface, but `isolio status` of the same
 * version reads clock.
 */
#include <linux/uaccess.h>

#include "kyber-fairness.h"

/* data_race(): a figure that latency_work is changing is the one before or after. */
#define kf_figure(figure)	data_race(figure)

/* One line of device state, one for each active cgroup. */
static int kf_clock_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct kf_group *kg;
	struct kf_queue *kq;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	spin_lock_bh(&kq->lock);
	seq_printf(m, "vtime=%llu lead_bytes=%llu age_us=%llu step_us=%llu walk_ns=%llu active=%u shared=%d open=%d throttled=%d hold_pct=%u pace_bytes_per_s=%llu\n",
		   kq->gate.vtime, kq->gate.lead,
		   div_u64(ktime_get_ns() - kq->gate.clock_ns, NSEC_PER_USEC),
		   div_u64(kq->gate.step_ns, NSEC_PER_USEC), kq->walk_ns,
		   kq->nr_active, kf_figure(kq->gate.is_shared),
		   kf_figure(kq->gate.is_open), kf_waits_for(kq, KF_FOR_CLOCK),
		   kq->hold * 100 / KF_HOLD_ONE, kq->pace.bytes_per_s);
	list_for_each_entry(kg, &kq->active, active_node)
		seq_printf(m, "cgroup=%llu weight=%llu share_ppm=%llu ahead_bytes=%lld awaited=%d outstanding=%u depth_milli=%u owed_us=%lld alone_us=%llu\n",
			   cgroup_id(kg->pd.blkg->blkcg->css.cgroup),
			   kf_group_weight(kg),
			   kg->share * 1000000 >> KF_SHARE_SHIFT,
			   (s64)(atomic64_read(&kg->vtime) - kq->gate.vtime),
			   kg->is_awaited, kf_group_outstanding(kg),
			   kg->depth.milli, div_s64(kg->owed_ns, NSEC_PER_USEC),
			   div_u64(READ_ONCE(kg->alone_ns), NSEC_PER_USEC));
	spin_unlock_bh(&kq->lock);
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
	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		seq_printf(m, "%s tokens=%u of=%u target_ns=%llu\n",
			   kf_domain_names[id], kf_figure(kd->tokens.sb.depth),
			   kd->depth_max, READ_ONCE(kd->target_ns));
	}
	isolio_debugfs_end(q);
	return 0;
}

/* What is known of the device. */
static int kf_band_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct kf_queue *kq;
	unsigned int id;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	spin_lock_irq(&kq->band_lock);
	seq_printf(m, "in_flight=%u ceiling=%u bdp_milli=%u alone_ns=%llu bytes_per_s=%llu full_bytes_per_s=%llu phase=%d probes=%u fills=%u\n",
		   atomic_read(&kq->nr_in_flight), kq->ceiling,
		   kq->band.bdp_milli, kq->band.alone_ns, kq->band.bytes_per_s,
		   kq->band.full_bytes_per_s, kq->band.phase, kq->band.nr_probes,
		   kq->band.nr_fills);
	for (id = 0; id < KF_NR_KINDS; id++)
		seq_printf(m, "%s %s rate=%llu alone_ns=%llu\n",
			   kf_domain_names[id % 2], id < 2 ? "small" : "large",
			   kq->band.kind[id].rate, kq->band.kind[id].alone_ns);
	for (id = 0; id < KF_NR_DIRS; id++)
		seq_printf(m, "%s large in_flight=%d ceiling=%u limited_rate=%llu among_small_ns=%llu probing=%d\n",
			   kf_domain_names[id], atomic_read(&kq->nr_large[id]),
			   kq->large[id].ceiling, kq->large[id].rate,
			   kq->large[id].alone_ns, kq->large[id].is_probing);
	spin_unlock_irq(&kq->band_lock);
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
	spin_lock_irq(&kq->band_lock);
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		seq_printf(m, "%s charged_per_request_bytes=%u charged_per_kib_bytes=%llu model_io_ps=%llu model_mib_ps=%llu\n",
			   kf_domain_names[dir], (u32)kq->cost_rate[dir],
			   (kq->cost_rate[dir] >> 32) * 1024 >> KF_RATE_SHIFT,
			   kq->model.io_ps[dir], kq->model.mib_ps[dir]);
	spin_unlock_irq(&kq->band_lock);
	isolio_debugfs_end(q);
	return 0;
}

static void kf_hctx_show(struct kf_hctx *kh, struct seq_file *m)
{
	int id;

	spin_lock(&kh->lock);
	seq_printf(m, "hctx=%u domain=%s batched=%u throttled=%d inserted=%llu dispatched=%llu\n",
		   kh->hctx->queue_num, kf_domain_names[kh->cur_domain], kh->nr_batched,
		   test_bit(KF_FOR_CLOCK, &kh->flags), kh->nr_inserted,
		   kh->nr_dispatched);
	for (id = 0; id < KF_NR_DOMAINS; id++)
		seq_printf(m, "%s ready=%d first_vtime=%llu urgent_requests=%zu\n",
			   kf_domain_names[id], !!(kh->has_ready & BIT(id)),
			   kh->first_vtime[id], list_count_nodes(&kh->urgent[id]));
	spin_unlock(&kh->lock);
}

/*
 * All hardware contexts, in a file of the queue. The block layer would make files in each
 * one's directory. But a SCSI device keeps its hardware contexts while its disk is away, with
 * pointers to directories that went with the disk, and the next such file is a panic.
 */
static int kf_queues_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct blk_mq_hw_ctx *hctx;
	struct kf_queue *kq;
	unsigned long i;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	kq = kf_of(q);
	mutex_lock(&kq->hctx_lock);
	queue_for_each_hw_ctx(q, hctx, i)
		if (hctx->sched_data)
			kf_hctx_show(hctx->sched_data, m);
	mutex_unlock(&kq->hctx_lock);
	isolio_debugfs_end(q);
	return 0;
}

/*
 * Files of the guard, as rsd has them in sysfs. A switch of the scheduler waits for their
 * readers with the queue frozen, so to get memory may not need the disk.
 */
static int kf_guard_show(struct request_queue *q, struct seq_file *m,
			 ssize_t (*show)(struct guard *guard, char *page))
{
	char *page = (char *)__get_free_page(GFP_NOIO);
	ssize_t ret;

	if (!page)
		return -ENOMEM;
	ret = isolio_debugfs_begin(q);
	if (!ret) {
		ret = show(kf_of(q)->guard, page);
		isolio_debugfs_end(q);
	}
	if (ret > 0)
		seq_write(m, page, ret);
	free_page((unsigned long)page);
	return min_t(ssize_t, ret, 0);
}

static ssize_t kf_guard_write(struct request_queue *q, const char __user *buf, size_t count,
			      ssize_t (*store)(struct guard *guard, const char *page,
					       size_t count))
{
	char text[16];
	ssize_t ret;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, count))
		return -EFAULT;
	text[count] = '\0';
	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	ret = store(kf_of(q)->guard, text, count);
	isolio_debugfs_end(q);
	return ret;
}

#define KF_GUARD_FILE(name)								\
static int kf_##name##_show(void *data, struct seq_file *m)				\
{											\
	return kf_guard_show(data, m, guard_##name##_show);				\
}											\
											\
static ssize_t kf_##name##_write(void *data, const char __user *buf, size_t count,	\
				 loff_t *pos)						\
{											\
	return kf_guard_write(data, buf, count, guard_##name##_store);			\
}

KF_GUARD_FILE(age_th)
KF_GUARD_FILE(guard_stat)

const struct blk_mq_debugfs_attr kf_queue_debugfs_attrs[] = {
	{ "age_th", 0600, kf_age_th_show, kf_age_th_write },
	{ "band", 0400, kf_band_show },
	{ "clock", 0400, kf_clock_show },
	{ "costs", 0400, kf_costs_show },
	{ "domains", 0400, kf_domains_show },
	{ "guard_stat", 0600, kf_guard_stat_show, kf_guard_stat_write },
	{ "queues", 0400, kf_queues_show },
	{ },
};
