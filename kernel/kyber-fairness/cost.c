// SPDX-License-Identifier: GPL-2.0-only
/*
 * The unit that is shared, and the model of the device for sharing its time: the
 * sysfs files share_by and cost_model, and learning. The arithmetic is in cost.h.
 *
 * What is learnt is learnt whatever is shared, so that a model is there when time
 * is chosen. A new unit or model holds for requests that are dispatched from
 * then on: budgets and debts stay what they are, for a round or two.
 */
#include "kyber-fairness.h"
#include "trace.h"

static const char * const kf_unit_names[KF_NR_UNITS] = {
	[KF_SHARE_BYTES] = "bytes",
	[KF_SHARE_IOPS] = "iops",
	[KF_SHARE_TIME] = "time",
};

/* Where learning starts: an NVMe SSD, neither the fastest nor the slowest. */
static const struct {
	u64 bps, iops;
} kf_cost_dfl[KF_NR_DIRS] = {
	[KF_READ] = { 3000000000ULL, 500000 },
	[KF_WRITE] = { 1500000000ULL, 250000 },
};

static void kf_set_rates(struct kf_queue *kq)
{
	unsigned int dir;

	lockdep_assert_held(&kq->cost_lock);

	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		u64 rate;

		switch (kq->share_by) {
		case KF_SHARE_IOPS:
			rate = kf_rate(KF_PAGE_BYTES, 0);
			break;
		case KF_SHARE_TIME:
			rate = kf_model_rate(&kq->model, dir);
			break;
		default:
			rate = kf_rate(0, 1 << KF_RATE_SHIFT);
		}
		WRITE_ONCE(kq->cost_rate[dir], rate);
	}
}

/**
 * kf_cost_learn - let the model be taught by what was completed
 * @kq: device
 * @elapsed_ns: since the last call
 * @is_full: as many requests are in flight as keep the device busy
 *
 * Called from latency_work, before it forgets nr_done and sects_done.
 */
void kf_cost_learn(struct kf_queue *kq, u64 elapsed_ns, bool is_full)
{
	struct kf_work kw;
	unsigned int dir;
	bool was_full = kq->was_full;

	kq->was_full = is_full;
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		kw.nr[dir] = kq->domain[dir].nr_done;
		kw.bytes[dir] = kq->domain[dir].sects_done << SECTOR_SHIFT;
	}

	mutex_lock(&kq->cost_lock);
	/* Discards take time of which the model says nothing. */
	if (!kq->is_model_given && !kq->domain[KF_DISCARD].nr_done &&
	    kf_model_learn(&kq->model, &kw, elapsed_ns, is_full && was_full)) {
		kf_set_rates(kq);
		trace_kf_model(kq->dev, elapsed_ns, is_full && was_full,
			       kf_model_bps(&kq->model, KF_READ),
			       kf_model_iops(&kq->model, KF_READ),
			       kf_model_bps(&kq->model, KF_WRITE),
			       kf_model_iops(&kq->model, KF_WRITE));
	}
	mutex_unlock(&kq->cost_lock);
}

/* Called from kf_alloc(). */
void kf_cost_init(struct kf_queue *kq)
{
	unsigned int dir;

	mutex_init(&kq->cost_lock);
	mutex_lock(&kq->cost_lock);
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		kf_model_set(&kq->model, dir, kf_cost_dfl[dir].bps,
			     kf_cost_dfl[dir].iops);
	kf_set_rates(kq);
	mutex_unlock(&kq->cost_lock);
}

/* All units, the one that is shared in brackets. */
ssize_t kf_share_by_show(struct elevator_queue *e, char *page)
{
	struct kf_queue *kq = e->elevator_data;
	unsigned int unit, share_by = READ_ONCE(kq->share_by);
	ssize_t len = 0;

	for (unit = 0; unit < KF_NR_UNITS; unit++)
		len += sysfs_emit_at(page, len, unit == share_by ? "%s[%s]" : "%s%s",
				     unit ? " " : "", kf_unit_names[unit]);
	return len + sysfs_emit_at(page, len, "\n");
}

ssize_t kf_share_by_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct kf_queue *kq = e->elevator_data;
	int unit = sysfs_match_string(kf_unit_names, page);

	if (!text_is_whole(page, count))
		return -EINVAL;
	if (unit < 0)
		return unit;
	mutex_lock(&kq->cost_lock);
	WRITE_ONCE(kq->share_by, unit);
	kf_set_rates(kq);
	mutex_unlock(&kq->cost_lock);
	return count;
}

ssize_t kf_cost_model_show(struct elevator_queue *e, char *page)
{
	struct kf_queue *kq = e->elevator_data;
	struct kf_model model;
	bool is_given;

	mutex_lock(&kq->cost_lock);
	model = kq->model;
	is_given = kq->is_model_given;
	mutex_unlock(&kq->cost_lock);

	return sysfs_emit(page, "%s rbps=%llu riops=%llu wbps=%llu wiops=%llu\n",
			  is_given ? "user" : "auto",
			  kf_model_bps(&model, KF_READ), kf_model_iops(&model, KF_READ),
			  kf_model_bps(&model, KF_WRITE), kf_model_iops(&model, KF_WRITE));
}

/*
 * "auto", or "rbps=N riops=N wbps=N wiops=N". Learning goes on from the model that
 * was given last.
 */
ssize_t kf_cost_model_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct kf_queue *kq = e->elevator_data;
	bool is_given = !sysfs_streq(page, "auto");
	u64 figures[KF_NR_FIGURES];
	char *text;
	int ret;

	if (!text_is_whole(page, count))
		return -EINVAL;
	if (is_given) {
		/* A scheduler that is switched waits for this file, with the queue frozen. */
		text = kstrndup(page, count, GFP_NOIO);
		if (!text)
			return -ENOMEM;
		ret = kf_parse_model(text, figures);
		kfree(text);
		if (ret)
			return ret;
	}

	mutex_lock(&kq->cost_lock);
	kq->is_model_given = is_given;
	if (is_given) {
		kf_model_set(&kq->model, KF_READ, figures[KF_RBPS], figures[KF_RIOPS]);
		kf_model_set(&kq->model, KF_WRITE, figures[KF_WBPS], figures[KF_WIOPS]);
		kq->model.is_scaled = true;
		kf_set_rates(kq);
	}
	mutex_unlock(&kq->cost_lock);
	return count;
}
