// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables: the files in /sys/block/DEV/queue/iosched/, their ranges, and their
 * defaults with the measurements that chose them.
 */
#include "kyber-fairness.h"

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
	kq->depth_pct = KF_DEPTH_PCT_DFL;
	kq->write_wait_pct = KF_WRITE_WAIT_PCT_DFL;
	kq->hold_most_ns = KF_HOLD_MOST_NS_DFL;
}

/* Each name says the unit of its file. */
enum kf_tunable_id {
	KF_TUNABLE_READ_LAT_NSEC,
	KF_TUNABLE_WRITE_LAT_NSEC,
	KF_TUNABLE_DEPTH_PCT,
	KF_TUNABLE_LEAD_US,
	KF_TUNABLE_WRITE_WAIT_PCT,
	KF_TUNABLE_HOLD_MOST_MS,
	KF_TUNABLE_ROUNDS_MS,
};

static const struct kf_tunable {
	size_t offset;		/* of a u64 in struct kf_queue, times in ns */
	u64 unit;		/* of the file, in that of the u64 */
	u64 least;		/* in that unit */
	u64 most;
} kf_tunables[] = {
	/* Latency a domain is kept to; lower: fewer requests in the device. */
	[KF_TUNABLE_READ_LAT_NSEC] = {
		offsetof(struct kf_queue, domain[KF_READ].target_ns),
		1, 1, 10ULL * NSEC_PER_SEC
	},
	[KF_TUNABLE_WRITE_LAT_NSEC] = {
		offsetof(struct kf_queue, domain[KF_WRITE].target_ns),
		1, 1, 10ULL * NSEC_PER_SEC
	},
	/* More: more total, and fewer cgroups that the others wait for. */
	[KF_TUNABLE_DEPTH_PCT] = {
		offsetof(struct kf_queue, depth_pct), 1, 0, 1000
	},
	/* How far a cgroup may be ahead of the others; 0: by the device. */
	[KF_TUNABLE_LEAD_US] = {
		offsetof(struct kf_queue, lead_ns),
		NSEC_PER_USEC, 0, 10 * USEC_PER_SEC
	},
	/* Less: a cgroup's writes wait less, its reads more; 0: as Kyber has it. */
	[KF_TUNABLE_WRITE_WAIT_PCT] = {
		offsetof(struct kf_queue, write_wait_pct), 1, 0, 10000
	},
	/* How long a request may wait for its cgroup's share; 0: for ever. */
	[KF_TUNABLE_HOLD_MOST_MS] = {
		offsetof(struct kf_queue, hold_most_ns),
		NSEC_PER_MSEC, 0, 3600 * MSEC_PER_SEC
	},
	/* The report's rounds of this length in place of the clock; 0: the clock. */
	[KF_TUNABLE_ROUNDS_MS] = {
		offsetof(struct kf_queue, rounds_ns),
		NSEC_PER_MSEC, 0, 10 * MSEC_PER_SEC
	},
};

static u64 *kf_tunable(struct elevator_queue *e, enum kf_tunable_id id)
{
	return e->elevator_data + kf_tunables[id].offset;
}

static ssize_t kf_tunable_show(struct elevator_queue *e, char *page,
			       enum kf_tunable_id id)
{
	u64 value = READ_ONCE(*kf_tunable(e, id));

	return sysfs_emit(page, "%llu\n", div64_u64(value, kf_tunables[id].unit));
}

static ssize_t kf_tunable_store(struct elevator_queue *e, const char *page,
				size_t count, enum kf_tunable_id id)
{
	const struct kf_tunable *kt = &kf_tunables[id];
	u64 number;
	int ret;

	ret = text_number(page, count, kt->least, kt->most, &number);
	if (ret)
		return ret;

	WRITE_ONCE(*kf_tunable(e, id), number * kt->unit);
	return count;
}

#define KF_TUNABLE_FNS(name, NAME)					\
static ssize_t kf_##name##_show(struct elevator_queue *e, char *page)	\
{									\
	return kf_tunable_show(e, page, KF_TUNABLE_##NAME);		\
}									\
									\
static ssize_t kf_##name##_store(struct elevator_queue *e,		\
				 const char *page, size_t count)	\
{									\
	return kf_tunable_store(e, page, count, KF_TUNABLE_##NAME);	\
}

KF_TUNABLE_FNS(read_lat_nsec, READ_LAT_NSEC)
KF_TUNABLE_FNS(write_lat_nsec, WRITE_LAT_NSEC)
KF_TUNABLE_FNS(depth_pct, DEPTH_PCT)
KF_TUNABLE_FNS(lead_us, LEAD_US)
KF_TUNABLE_FNS(write_wait_pct, WRITE_WAIT_PCT)
KF_TUNABLE_FNS(hold_most_ms, HOLD_MOST_MS)
KF_TUNABLE_FNS(rounds_ms, ROUNDS_MS)
#undef KF_TUNABLE_FNS

static struct guard *kf_guard(struct elevator_queue *e)
{
	struct kf_queue *kq = e->elevator_data;

	return kq->guard;
}

GUARD_ATTR_FNS(kf, age_th)
GUARD_ATTR_FNS(kf, max_wait_ms)
GUARD_ATTR_FNS(kf, guard_stat)

#define KF_ATTR(name) __ATTR(name, 0644, kf_##name##_show, kf_##name##_store)

isolio_attrs_const struct elv_fs_entry kf_attrs[] = {
	KF_ATTR(read_lat_nsec),
	KF_ATTR(write_lat_nsec),
	KF_ATTR(depth_pct),
	KF_ATTR(lead_us),
	KF_ATTR(write_wait_pct),
	KF_ATTR(hold_most_ms),
	KF_ATTR(rounds_ms),
	KF_ATTR(share_by),
	KF_ATTR(cost_model),
	/* How often a request may be bypassed in the device, or how long it may take. */
	KF_ATTR(age_th),
	KF_ATTR(max_wait_ms),
	KF_ATTR(guard_stat),
	__ATTR_NULL
};

#undef KF_ATTR
