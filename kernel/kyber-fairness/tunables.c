// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables: the files in /sys/block/DEV/queue/iosched/, their ranges, and their
 * defaults with the measurements that chose them.
 */
#include "kyber-fairness.h"
#include "tunable.h"

/*
 * In percent. 45 is the largest round number with which four cgroups of weights 1000,
 * 500, 250 and 100 that keep equally many requests outstanding are shared exactly,
 * however few those are: 1 / (4 x 0.54) = 0.46.
 */
#define KF_MIN_TOTAL_PCT_DFL	45

/* Called from kf_alloc(). */
void kf_tunables_init(struct kf_queue *kq)
{
	kq->share_by = KF_SHARE_TIME;
	kq->min_total_pct = KF_MIN_TOTAL_PCT_DFL;
}

#define KF_SET(kq, member, value)	WRITE_ONCE((kq)->member, value)
#define KF_TUNABLE(name, member, unit, least, most) \
	TUNABLE_FNS(kf, name, kf_queue, member, unit, least, most, KF_SET)

/* Latency a domain is kept to; lower: fewer requests in the device. */
KF_TUNABLE(read_lat_nsec, domain[KF_READ].target_ns, 1, 1, 10 * NSEC_PER_SEC)
KF_TUNABLE(write_lat_nsec, domain[KF_WRITE].target_ns, 1, 1, 10 * NSEC_PER_SEC)
/* The device does so much of what it can, while the others wait for a cgroup. */
KF_TUNABLE(min_total_pct, min_total_pct, 1, 0, 100)

static struct guard *kf_guard(struct elevator_queue *e)
{
	struct kf_queue *kq = e->elevator_data;

	return kq->guard;
}

GUARD_ATTR_FNS(kf, max_wait_ms)

#define KF_ATTR(name)	TUNABLE_ATTR(kf, name)

isolio_attrs_const struct elv_fs_entry kf_attrs[] = {
	KF_ATTR(read_lat_nsec),
	KF_ATTR(write_lat_nsec),
	KF_ATTR(min_total_pct),
	KF_ATTR(share_by),
	KF_ATTR(cost_model),
	/* How long a request may be in the device; what the guard counts is in debugfs. */
	KF_ATTR(max_wait_ms),
	__ATTR_NULL
};

#undef KF_ATTR
