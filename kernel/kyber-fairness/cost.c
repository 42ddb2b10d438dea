// SPDX-License-Identifier: GPL-2.0-only
/*
 * The unit that is shared, and the model of the device for sharing its time: the
 * sysfs files share_by and cost_model. The arithmetic is in cost.h.
 *
 * A new unit or model holds for requests that are dispatched from then on: what was charged
 * stays what it is.
 */
#include "kyber-fairness.h"
#include "trace.h"

static const char * const kf_unit_names[KF_NR_UNITS] = {
	[KF_SHARE_BYTES] = "bytes",
	[KF_SHARE_IOPS] = "iops",
	[KF_SHARE_TIME] = "time",
};

static void kf_set_rates(struct kf_queue *kq)
{
	unsigned int dir;

	lockdep_assert_held(&kq->band_lock);

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
	/* What a full device does is counted in what requests cost. */
	kq->band.full_bytes_per_s = 0;
	kf_band_probe_soon(&kq->band);
}

/**
 * kf_cost_set - set the model by what requests take alone, unless one was given
 * @kq: device; its band_lock is held
 */
void kf_cost_set(struct kf_queue *kq)
{
	lockdep_assert_held(&kq->band_lock);

	kq->band.turns = isolio_turns(kq->q);
	if (kq->is_model_given || !kf_model_guess(&kq->model, kq->band.kind, kq->band.turns))
		return;
	kf_set_rates(kq);
	trace_kf_model(kq->dev, kf_model_bps(&kq->model, KF_READ),
		       kf_model_iops(&kq->model, KF_READ), kf_model_bps(&kq->model, KF_WRITE),
		       kf_model_iops(&kq->model, KF_WRITE));
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
	spin_lock_irq(&kq->band_lock);
	WRITE_ONCE(kq->share_by, unit);
	kf_set_rates(kq);
	spin_unlock_irq(&kq->band_lock);
	return count;
}

ssize_t kf_cost_model_show(struct elevator_queue *e, char *page)
{
	struct kf_queue *kq = e->elevator_data;
	struct kf_model model;
	bool is_given;

	spin_lock_irq(&kq->band_lock);
	model = kq->model;
	is_given = kq->is_model_given;
	spin_unlock_irq(&kq->band_lock);

	return sysfs_emit(page, "%s rbps=%llu riops=%llu wbps=%llu wiops=%llu\n",
			  is_given ? "user" : "auto",
			  kf_model_bps(&model, KF_READ), kf_model_iops(&model, KF_READ),
			  kf_model_bps(&model, KF_WRITE), kf_model_iops(&model, KF_WRITE));
}

/* "auto", or "rbps=N riops=N wbps=N wiops=N". */
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

	spin_lock_irq(&kq->band_lock);
	kq->is_model_given = is_given;
	if (is_given) {
		kf_model_set(&kq->model, KF_READ, figures[KF_RBPS], figures[KF_RIOPS]);
		kf_model_set(&kq->model, KF_WRITE, figures[KF_WBPS], figures[KF_WIOPS]);
		kf_set_rates(kq);
	} else {
		kf_cost_set(kq);
	}
	spin_unlock_irq(&kq->band_lock);
	return count;
}
