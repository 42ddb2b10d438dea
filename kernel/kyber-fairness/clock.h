/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A law for sharing without rounds: virtual times with a bounded lead, and a band
 * for the number of requests in flight. Pure functions of their arguments;
 * tests/clock_kunit.c checks them, tests/law/ runs them against model disks.
 * Nothing in the module uses them so far.
 *
 * Virtual time. A cgroup's vtime is the service that it was given divided by its
 * share: bytes of the device. The clock is the least vtime of all cgroups that are
 * *present*: with a request waiting or in flight, or one that completed just now.
 * The cgroup with the least vtime goes first, and only one that is less than `lead`
 * ahead of the clock goes at all. So over any time two present cgroups have had
 * service in proportion to their shares, but for the lead and a request of each. A
 * cgroup that comes back begins at the clock: being idle earns nothing.
 *
 * A cgroup whose requests are all in flight has none waiting, but it is present: the
 * others stop a lead ahead of it. So the number in flight falls until its requests
 * complete as fast as its share says (Little's law), with no search for that number.
 *
 * The band. Below `floor` requests in flight any cgroup goes: the device is not
 * emptied for the sake of shares. At `ceiling` none does: further requests would only
 * wait in the device, where nobody chooses their order. Both are multiples of the
 * bandwidth-delay product: the rate times the time of a request that finds the device
 * nearly empty.
 */
#ifndef _KF_CLOCK_H
#define _KF_CLOCK_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "budget.h"

/*
 * Virtual time.
 */

/* Virtual times wrap around; two of them are less than half of the range apart. */
static inline bool kf_vtime_before(u64 vtime, u64 than)
{
	return (s64)(vtime - than) < 0;
}

static inline u64 kf_vtime_max(u64 a, u64 b)
{
	return kf_vtime_before(a, b) ? b : a;
}

/**
 * kf_vtime_of - what a cost is in virtual time
 * @cost_bytes: what a request is charged, below 2^33
 * @share: the cgroup's share of the device, KF_SHARE_ONE for all of it; not 0
 */
static inline u64 kf_vtime_of(u64 cost_bytes, u64 share)
{
	return div64_u64(cost_bytes << KF_SHARE_SHIFT, share);
}

/* Who may dispatch, and how far ahead. */
struct kf_clock {
	u64 vtime;		/* the least of those present */
	u64 lead_bytes;
	u32 floor;		/* in flight */
	u32 ceiling;
};

/**
 * kf_clock_may_go - whether a cgroup may dispatch a request
 * @kc: clock
 * @vtime: the cgroup's
 * @nr_in_flight: on the device
 */
static inline bool kf_clock_may_go(const struct kf_clock *kc, u64 vtime, u32 nr_in_flight)
{
	if (nr_in_flight >= kc->ceiling)
		return false;
	return nr_in_flight < kc->floor ||
	       kf_vtime_before(vtime, kc->vtime + kc->lead_bytes);
}

/**
 * kf_clock_is_present - whether the others wait for a cgroup
 * @nr_waiting: its requests that the scheduler has
 * @nr_in_flight: its requests that the device has
 * @idle_ns: since the last of those completed
 * @grace_ns: how long a submitter has for the next one
 */
static inline bool kf_clock_is_present(u32 nr_waiting, u32 nr_in_flight, u64 idle_ns,
				       u64 grace_ns)
{
	return nr_waiting || nr_in_flight || idle_ns <= grace_ns;
}

/*
 * A lead is this much of the device's time: short beside what a person or a window of
 * accounting sees, long beside a submitter's turnaround. And no less than some requests:
 * on a slow disk one request is more than that time.
 */
#define KF_LEAD_NS		(2 * NSEC_PER_MSEC)
#define KF_LEAD_REQUESTS	8

/**
 * kf_clock_lead_bytes - how far a cgroup may be ahead of the clock
 * @bytes_per_s: what the device does
 * @mean_cost_bytes: of a request
 */
static inline u64 kf_clock_lead_bytes(u64 bytes_per_s, u64 mean_cost_bytes)
{
	return max_t(u64, mul_u64_u64_div_u64(bytes_per_s, KF_LEAD_NS, NSEC_PER_SEC),
		     KF_LEAD_REQUESTS * mean_cost_bytes);
}

/* How far a cgroup may stay behind the others, in leads; in its own requests. */
#define KF_LAG_LEADS		2
#define KF_LAG_REQUESTS		4

/**
 * kf_clock_lag_bytes - how far behind a cgroup may be that has nothing waiting
 * @lead_bytes: from kf_clock_lead_bytes()
 * @mean_cost_bytes: of its requests
 * @share: its share
 *
 * What it missed by that much it gets back. More is not saved for it: it cannot use it.
 */
static inline u64 kf_clock_lag_bytes(u64 lead_bytes, u64 mean_cost_bytes, u64 share)
{
	return max_t(u64, KF_LAG_LEADS * lead_bytes,
		     KF_LAG_REQUESTS * kf_vtime_of(mean_cost_bytes, share));
}

/*
 * A cgroup that would need the device emptied below this part of the floor is limited by
 * its own depth: nobody waits for it, for so long.
 */
#define KF_EXCLUDE_PART		2
#define KF_EXCLUDE_NS		(100 * NSEC_PER_MSEC)

/**
 * kf_clock_is_hopeless - whether a cgroup cannot come near its share
 * @nr_own: requests it keeps outstanding
 * @request_share: its share of the requests in flight
 * @floor: of the band
 */
static inline bool kf_clock_is_hopeless(u32 nr_own, u64 request_share, u32 floor)
{
	return kf_inside_for(nr_own, request_share) * KF_EXCLUDE_PART < floor;
}

/*
 * The band.
 */

/* Kinds of requests that take different times: reads, writes; of those, large ones. */
#define KF_NR_KINDS		4U
#define KF_LARGE_BYTES		262144U

static inline unsigned int kf_kind(bool is_write, u32 bytes)
{
	return is_write + 2 * (bytes >= KF_LARGE_BYTES);
}

/* The time alone is the median of so many requests, odd. */
#define KF_ALONE_SAMPLES	15U

/* One kind. */
struct kf_band_kind {
	u64 nr_done;			/* since the last look */
	u64 rate_max;			/* completions a second, forgotten slowly */
	u32 alone_us[KF_ALONE_SAMPLES];	/* a ring */
	u32 nr_alone;			/* samples ever; wraps */
	u64 alone_ns;			/* their median; 0: not known */
	u64 sampled_ns;			/* when half of them were taken at the latest */
};

struct kf_band {
	struct kf_band_kind kind[KF_NR_KINDS];
	u64 look_ns;			/* when the last look was */
	u64 done_bytes;			/* since then */
	u64 bytes_max;			/* a second, forgotten slowly */
	u64 mean_cost_bytes;
	u32 bdp_milli;			/* thousandths of a request */
	u32 floor, ceiling;
	/* A probe empties the device to see what a request takes there. */
	u64 probe_ns;			/* when it began; 0: there is none */
	u64 next_probe_ns;
	u32 probe_nr;			/* requests since it began */
};

/* A look is of so many requests and so long, at least. */
#define KF_LOOK_NS		(5 * NSEC_PER_MSEC)
#define KF_LOOK_NR		100
#define KF_FORGET_SHIFT		6

#define KF_FLOOR_PCT		150
#define KF_CEILING_PCT		300
#define KF_FLOOR_MIN		2U
#define KF_CEILING_MIN		32U

#define KF_PROBE_NS		(10ULL * NSEC_PER_SEC)
#define KF_PROBE_NR		(KF_ALONE_SAMPLES / 2 + 1)
/* Of all time, a probe may take one part in so many. */
#define KF_PROBE_PART		256

/* Whether a request that found so many others in flight was nearly alone. */
static inline bool kf_band_is_alone(const struct kf_band *kb, u32 nr_before)
{
	return nr_before <= 1 || nr_before * 8000ULL <= kb->bdp_milli;
}

static inline u64 kf_band_median_ns(const struct kf_band_kind *kind)
{
	u32 sorted[KF_ALONE_SAMPLES], nr = min(kind->nr_alone, KF_ALONE_SAMPLES), i, j;

	for (i = 0; i < nr; i++) {
		for (j = i; j && sorted[j - 1] > kind->alone_us[i]; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = kind->alone_us[i];
	}
	return nr ? (u64)sorted[nr / 2] * NSEC_PER_USEC : 0;
}

/**
 * kf_band_done - a request completed
 * @kb: band, all zeroes at first
 * @id: from kf_kind()
 * @cost_bytes: what it was charged
 * @nr_before: requests in flight when it was dispatched
 * @io_ns: from dispatch to completion
 * @now_ns: time
 */
static inline void kf_band_done(struct kf_band *kb, unsigned int id, u32 cost_bytes,
				u32 nr_before, u64 io_ns, u64 now_ns)
{
	struct kf_band_kind *kind = &kb->kind[id];

	kind->nr_done++;
	kb->done_bytes += cost_bytes;
	if (kb->probe_ns)
		kb->probe_nr++;
	if (!kf_band_is_alone(kb, nr_before))
		return;
	kind->alone_us[kind->nr_alone % KF_ALONE_SAMPLES] =
		clamp_t(u64, div_u64(io_ns, NSEC_PER_USEC), 1, U32_MAX);
	kind->nr_alone++;
	if (!(kind->nr_alone % KF_PROBE_NR))
		kind->sampled_ns = now_ns;
	kind->alone_ns = kf_band_median_ns(kind);
}

/* One kind's rate, and what it adds to the bandwidth-delay product, in thousandths. */
static inline u64 kf_band_see_kind(struct kf_band_kind *kind, u64 elapsed_ns)
{
	u64 rate = div64_u64(kind->nr_done * NSEC_PER_SEC, elapsed_ns);

	kind->rate_max = max(rate, kind->rate_max - (kind->rate_max >> KF_FORGET_SHIFT));
	kind->nr_done = 0;
	return mul_u64_u64_div_u64(kind->rate_max, kind->alone_ns, NSEC_PER_SEC / 1000);
}

/**
 * kf_band_look - set the band by what completed since the last look
 * @kb: band
 * @now_ns: time
 *
 * Return: whether enough did.
 */
static inline bool kf_band_look(struct kf_band *kb, u64 now_ns)
{
	u64 elapsed_ns = now_ns - kb->look_ns, nr_done = 0, bdp_milli = 0, bytes;
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++)
		nr_done += kb->kind[id].nr_done;
	if (nr_done < KF_LOOK_NR || elapsed_ns < KF_LOOK_NS)
		return false;

	kb->mean_cost_bytes = div64_u64(kb->done_bytes, nr_done);
	bytes = mul_u64_u64_div_u64(kb->done_bytes, NSEC_PER_SEC, elapsed_ns);
	kb->bytes_max = max(bytes, kb->bytes_max - (kb->bytes_max >> KF_FORGET_SHIFT));
	for (id = 0; id < KF_NR_KINDS; id++)
		bdp_milli += kf_band_see_kind(&kb->kind[id], elapsed_ns);
	kb->bdp_milli = min_t(u64, bdp_milli, U32_MAX);
	kb->floor = max_t(u32, KF_FLOOR_MIN, kb->bdp_milli * (u64)KF_FLOOR_PCT / 100000);
	kb->ceiling = max_t(u32, KF_CEILING_MIN, kb->bdp_milli * (u64)KF_CEILING_PCT / 100000);
	kb->look_ns = now_ns;
	kb->done_bytes = 0;
	return true;
}

#endif /* _KF_CLOCK_H */
