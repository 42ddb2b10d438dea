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
#define KF_DEPTH_PCT_DFL	45
/* In order of arrival: see order.c. */
#define KF_WRITE_WAIT_PCT_DFL	100
/*
 * A twelfth of the time after which the kernel calls a task hung. A cgroup of one
 * request outstanding that is entitled to less than one in ten seconds gets that.
 */
#define KF_HOLD_MOST_NS_DFL	(10ULL * NSEC_PER_SEC)

/* Called from kf_alloc(). */
void kf_tunables_init(struct kf_queue *kq)
{
	kq->share_by = KF_SHARE_TIME;
	kq->depth_pct = KF_DEPTH_PCT_DFL;
	kq->write_wait_pct = KF_WRITE_WAIT_PCT_DFL;
	kq->hold_most_ns = KF_HOLD_MOST_NS_DFL;
}

#define KF_SET(kq, member, value)	WRITE_ONCE((kq)->member, value)
#define KF_TUNABLE(name, member, unit, least, most) \
	TUNABLE_FNS(kf, name, kf_queue, member, unit, least, most, KF_SET)

/* Latency a domain is kept to; lower: fewer requests in the device. */
KF_TUNABLE(read_lat_nsec, domain[KF_READ].target_ns, 1, 1, 10 * NSEC_PER_SEC)
KF_TUNABLE(write_lat_nsec, domain[KF_WRITE].target_ns, 1, 1, 10 * NSEC_PER_SEC)
/* More: more total, and fewer cgroups that the others wait for. */
KF_TUNABLE(depth_pct, depth_pct, 1, 0, 1000)
/* How far a cgroup may be ahead of the others; 0: by the device. */
KF_TUNABLE(lead_us, lead_ns, NSEC_PER_USEC, 0, 10 * USEC_PER_SEC)
/* Less: a cgroup's writes wait less, its reads more; 0: as Kyber has it. */
KF_TUNABLE(write_wait_pct, write_wait_pct, 1, 0, 10000)
/* How long a request may wait for its cgroup's share; 0: for ever. */
KF_TUNABLE(hold_most_ms, hold_most_ns, NSEC_PER_MSEC, 0, 3600 * MSEC_PER_SEC)

static struct guard *kf_guard(struct elevator_queue *e)
{
	struct kf_queue *kq = e->elevator_data;

	return kq->guard;
}

GUARD_ATTR_FNS(kf, age_th)
GUARD_ATTR_FNS(kf, max_wait_ms)
GUARD_ATTR_FNS(kf, guard_stat)

#define KF_ATTR(name)	TUNABLE_ATTR(kf, name)

isolio_attrs_const struct elv_fs_entry kf_attrs[] = {
	KF_ATTR(read_lat_nsec),
	KF_ATTR(write_lat_nsec),
	KF_ATTR(depth_pct),
	KF_ATTR(lead_us),
	KF_ATTR(write_wait_pct),
	KF_ATTR(hold_most_ms),
	KF_ATTR(share_by),
	KF_ATTR(cost_model),
	/* How often a request may be bypassed in the device, or how long it may take. */
	KF_ATTR(age_th),
	KF_ATTR(max_wait_ms),
	KF_ATTR(guard_stat),
	__ATTR_NULL
};

#undef KF_ATTR
