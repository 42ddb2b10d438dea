// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables: the files in /sys/block/DEV/queue/iosched/, their ranges, and their
 * defaults with the measurements that chose them.
 */
#include "kyber-fairness.h"

/*
 * Rounds at most this long: see the essay and kf_round_ns(). On a null_blk of
 * 1 ms and 32 tags, 2 ms, 1 ms and 0.5 ms give 97.3, 97.7 and 98.3 % of the
 * total without a scheduler, and a p99 of 2.7, 2.3 and 2.3 ms for the heaviest
 * cgroup. On a disk of 1.3 ms that collides (modeldisk's p4500-2tb at scale
 * 16), 8 and 0.65 ms give a weighted Jain index of 0.974 and 0.990.
 */
#define KF_ROUND_NS_DFL		(500 * NSEC_PER_USEC)
#define KF_ROUND_PCT_DFL	50
/* The report's period, a limit for mishaps here. */
#define KF_TIMEOUT_NS_DFL	(20 * NSEC_PER_MSEC)

/*
 * Two cgroups of weights 300 and 100 that keep 32 reads each outstanding, on a
 * device of 32 tags that completes them in bursts, come to 1.5, 2.1, 2.4, 2.6
 * and 2.8 : 1 with 0, 5, 10, 20 and 40 %, all with the same total; with 16
 * tags to 2.8 with 0 and 3.0 from 10 % up.
 */
#define KF_HOLD_PCT_DFL		20
/*
 * The device is not emptied further than this for the sake of shares, nor of those who
 * wait in it; see kf_inside_least().
 */
#define KF_INSIDE_PCT_DFL	150
/*
 * By how much of its share a cgroup may stay behind. With
 * experiment report-rand-read, where exact shares cost 16 % of the total,
 * 1 keeps every cgroup within 0.4 % of its share at 98 % of what is possible.
 */
#define KF_SHARE_ERROR_PCT_DFL	1
/* In order of arrival: see the essay. */
#define KF_WRITE_WAIT_PCT_DFL	100
/*
 * A twelfth of the time after which the kernel calls a task hung. A cgroup of one
 * request outstanding that is entitled to less than one in ten seconds gets that.
 */
#define KF_HOLD_MOST_NS_DFL	(10ULL * NSEC_PER_SEC)

/* Called from kf_alloc(). */
void kf_tunables_init(struct kf_queue *kq)
{
	kq->round_ns = KF_ROUND_NS_DFL;
	kq->round_pct = KF_ROUND_PCT_DFL;
	kq->timeout_ns = KF_TIMEOUT_NS_DFL;
	kq->hold_pct = KF_HOLD_PCT_DFL;
	kq->inside_pct = KF_INSIDE_PCT_DFL;
	kq->share_error_pct = KF_SHARE_ERROR_PCT_DFL;
	kq->write_wait_pct = KF_WRITE_WAIT_PCT_DFL;
	kq->hold_most_ns = KF_HOLD_MOST_NS_DFL;
}

/* Each name says the unit of its file. */
enum kf_tunable_id {
	KF_TUNABLE_READ_LAT_NSEC,
	KF_TUNABLE_WRITE_LAT_NSEC,
	KF_TUNABLE_ROUND_US,
	KF_TUNABLE_ROUND_PCT,
	KF_TUNABLE_TIMEOUT_US,
	KF_TUNABLE_HOLD_PCT,
	KF_TUNABLE_INSIDE_PCT,
	KF_TUNABLE_SHARE_ERROR_PCT,
	KF_TUNABLE_WRITE_WAIT_PCT,
	KF_TUNABLE_HOLD_MOST_MS,
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
	/* Shorter: smoother and lower latency; longer: fewer refills. */
	[KF_TUNABLE_ROUND_US] = {
		offsetof(struct kf_queue, round_ns),
		NSEC_PER_USEC, 100, 10 * USEC_PER_SEC
	},
	/* In percent of a request's time; 0: rounds of round_us on any device. */
	[KF_TUNABLE_ROUND_PCT] = {
		offsetof(struct kf_queue, round_pct), 1, 0, 1000
	},
	/* How long a cgroup that cannot use its budget may hold up others. */
	[KF_TUNABLE_TIMEOUT_US] = {
		offsetof(struct kf_queue, timeout_ns),
		NSEC_PER_USEC, 1000, 10 * USEC_PER_SEC
	},
	/* More: more exact shares; less: more total when cgroups reach depth limits. */
	[KF_TUNABLE_HOLD_PCT] = {
		offsetof(struct kf_queue, hold_pct), 1, 0, 50
	},
	/* Less: shorter waits inside, shares more exact with many tags; more: more total. */
	[KF_TUNABLE_INSIDE_PCT] = {
		offsetof(struct kf_queue, inside_pct), 1, 100, 1000
	},
	/* More: more total where exact shares cost some; 100: shares never do. */
	[KF_TUNABLE_SHARE_ERROR_PCT] = {
		offsetof(struct kf_queue, share_error_pct), 1, 1, 100
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
KF_TUNABLE_FNS(round_us, ROUND_US)
KF_TUNABLE_FNS(round_pct, ROUND_PCT)
KF_TUNABLE_FNS(timeout_us, TIMEOUT_US)
KF_TUNABLE_FNS(hold_pct, HOLD_PCT)
KF_TUNABLE_FNS(inside_pct, INSIDE_PCT)
KF_TUNABLE_FNS(share_error_pct, SHARE_ERROR_PCT)
KF_TUNABLE_FNS(write_wait_pct, WRITE_WAIT_PCT)
KF_TUNABLE_FNS(hold_most_ms, HOLD_MOST_MS)
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
	KF_ATTR(round_us),
	KF_ATTR(round_pct),
	KF_ATTR(timeout_us),
	KF_ATTR(hold_pct),
	KF_ATTR(inside_pct),
	KF_ATTR(share_error_pct),
	KF_ATTR(write_wait_pct),
	KF_ATTR(hold_most_ms),
	KF_ATTR(share_by),
	KF_ATTR(cost_model),
	/* How often a request may be overtaken inside, or how long it may take. */
	KF_ATTR(age_th),
	KF_ATTR(max_wait_ms),
	KF_ATTR(guard_stat),
	__ATTR_NULL
};

#undef KF_ATTR
