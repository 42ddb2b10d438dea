/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The law of sharing: virtual times with a bounded lead. Pure functions of their arguments;
 * tests/clock_kunit.c checks them, and tests/law/ runs them against model disks.
 *
 * Virtual time. A cgroup's vtime is the service that it was given divided by its
 * share: bytes of the device. The clock is the least vtime of all cgroups that are
 * *awaited* and *present*. A cgroup is present while it has a request queued or in
 * flight, or had one that completed just now. The cgroup with the least vtime goes
 * first, and only one that is less than a *lead* ahead of the clock goes at all. So over
 * any time two such cgroups have had service in proportion to their shares, but for
 * the lead and a request of each. A cgroup that comes back begins at the clock: being
 * idle earns nothing.
 *
 * A cgroup whose requests are all in flight has none queued, but it is present: the
 * others stop a lead ahead of it. So the number in flight falls until its requests
 * complete as fast as its share says (Little's law), with no search for that number.
 *
 * Not every cgroup is worth waiting for. One that keeps a single request outstanding
 * on a device that serves fifty at a time cannot have half of it, whatever the others
 * do. So a cgroup is awaited while that leaves each other at least what it would have alone
 * on a disk as fast as its share; see struct kf_level.
 *
 * A cgroup that is not awaited has such a disk of its own all the same: while its requests
 * take longer than they would there, fewer of the others' are in flight; see kf_owed_ns().
 *
 * How much may be in flight, and what the device can do, is in band.h.
 */
#ifndef _KF_CLOCK_H
#define _KF_CLOCK_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "share.h"

#define KF_PER_S_MAX	BIT_ULL(55)
/* So much in some time, in a second. The quotient has to fit, whatever clocks say. */
static inline u64 kf_per_s(u64 bytes, u64 elapsed_ns)
{
	if (!bytes)
		return 0;
	if (bytes >> 34 >= elapsed_ns)
		return KF_PER_S_MAX;
	return min(mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, elapsed_ns), KF_PER_S_MAX);
}

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

/**
 * kf_urgent_vtime_of - the same, for a request that does not wait for its cgroup's turn
 * @vtime: the cgroup's
 * @most: the vtime that such requests take it to, at most
 * @cost_bytes: what the request would be charged
 * @share: the cgroup's
 *
 * A journal may write more than its cgroup's share for ever. Without a bound its debt
 * would grow to hours, for which the cgroup's other requests would wait. What is beyond
 * the bound is work for all cgroups, and all of them lose by it.
 */
static inline u64 kf_urgent_vtime_of(u64 vtime, u64 most, u64 cost_bytes, u64 share)
{
	if (!kf_vtime_before(vtime, most))
		return 0;
	return min_t(u64, kf_vtime_of(cost_bytes, share), most - vtime);
}

/**
 * kf_clock_is_present - whether the others may have to wait for a cgroup
 * @nr_outstanding: its requests that are queued or in flight
 * @idle_ns: since the last of those completed
 * @grace_ns: how long a submitter has for the next one
 */
static inline bool kf_clock_is_present(u32 nr_outstanding, u64 idle_ns, u64 grace_ns)
{
	return nr_outstanding || idle_ns <= grace_ns;
}

/*
 * A lead is so many round trips through the device, or this much time: a cgroup whose
 * only request is in flight stops no other meanwhile, nor does a submitter's turnaround.
 * And it is no less than some requests: on a slow disk a request is more than that. Nor less
 * than two steps of the clock: what may go in a lead has to last until the clock is set again.
 */
#define KF_LEAD_TRIPS		4
#define KF_LEAD_NS		(2ULL * NSEC_PER_MSEC)
#define KF_LEAD_STEPS		2
#define KF_LEAD_REQUESTS	8
/*
 * The clock is read by all CPUs, so it is not set for each request, but so often in a
 * round trip: what others may dispatch comes in steps, and a device that is now full, now
 * half empty does less. Where the CPU is what is short, once: a walk is what it is short of.
 */
#define KF_CLOCK_STEPS		4

static inline u64 kf_clock_lead_ns(u64 alone_ns, u64 step_ns)
{
	return max(KF_LEAD_NS, max(KF_LEAD_TRIPS * alone_ns, KF_LEAD_STEPS * step_ns));
}

/**
 * kf_clock_grace_ns - how long a cgroup is present after its last completion
 * @alone_ns: what a request takes that is alone in the device
 *
 * So long it takes a submitter to send the next one: while the CPU is what is short, it
 * waits for its turn there, until the others have used their lead and sleep.
 */
static inline u64 kf_clock_grace_ns(u64 alone_ns)
{
	return max(alone_ns, KF_LEAD_NS);
}

/*
 * For a cgroup whose requests are all in flight, and none completes, the others do not wait
 * for ever: a request may be lost, or its disk retry it for half a minute. But any disk may be
 * slow at times: flash that collects garbage takes a quarter of a second for a write, and a
 * read waits for some of those. So they wait for twice the longest that a request took of
 * late, and at least, and at most, for this.
 */
#define KF_STUCK_NS		(500ULL * NSEC_PER_MSEC)
#define KF_STUCK_MOST_NS	(5ULL * NSEC_PER_SEC)
/* One part in so many of the longest is forgotten ten times a second. */
#define KF_SLOWEST_FORGET	64U

/**
 * kf_clock_stuck_ns - after what time without a completion others wait no longer
 * @slowest_ns: the longest that a request took of late
 */
static inline u64 kf_clock_stuck_ns(u64 slowest_ns)
{
	return clamp(2 * min(slowest_ns, KF_STUCK_MOST_NS), KF_STUCK_NS, KF_STUCK_MOST_NS);
}

/* To find the clock takes a walk over the active cgroups: no more than one part in so many. */
#define KF_CLOCK_WALK_PART	16

/* A walk that was not interrupted takes so long, at least. */
#define KF_CLOCK_WALK_NS	512ULL

/**
 * kf_clock_walk_ns - how long a walk takes
 * @walk_ns: so far
 * @took_ns: what the last one took, by the clock on the wall
 *
 * Completions interrupt a walk, and a host may take the CPU away for milliseconds. Were
 * that counted, the clock would not be set for sixteen times as long, many times over, and
 * the device would run empty each time. So one walk counts for no more than twice what is
 * known: what most of them take is found, and what some take is not.
 */
static inline u64 kf_clock_walk_ns(u64 walk_ns, u64 took_ns)
{
	return walk_ns - walk_ns / 8 + min(took_ns, 2 * max(walk_ns, KF_CLOCK_WALK_NS)) / 8;
}

static inline u64 kf_clock_step_ns(u64 alone_ns, u64 walk_ns, bool is_slack)
{
	return max(is_slack ? alone_ns : alone_ns / KF_CLOCK_STEPS,
		   KF_CLOCK_WALK_PART * max(walk_ns, KF_CLOCK_WALK_NS));
}

/**
 * kf_clock_lead_bytes - how far a cgroup may be ahead of the clock
 * @bytes_per_s: what the device does
 * @lead_ns: the same in time, as from kf_clock_lead_ns()
 * @mean_cost_bytes: of a request
 */
static inline u64 kf_clock_lead_bytes(u64 bytes_per_s, u64 lead_ns, u64 mean_cost_bytes)
{
	return max_t(u64, mul_u64_u64_div_u64(bytes_per_s, lead_ns, NSEC_PER_SEC),
		     KF_LEAD_REQUESTS * mean_cost_bytes);
}

/* Virtual times stay so near to each other that they do not wrap around. */
#define KF_LEAD_SHARE_MIN	4ULL
#define KF_LEAD_BYTES_MAX	BIT_ULL(33)

/**
 * kf_clock_lead_vtime - the same in virtual time
 * @lead_bytes: from kf_clock_lead_bytes()
 * @share_sum: of the cgroups that the others wait for
 *
 * Where a cgroup does not use its share, the others have it, and the clock moves by more
 * than the device serves. The same lead would be a shorter time.
 */
static inline u64 kf_clock_lead_vtime(u64 lead_bytes, u64 share_sum)
{
	return kf_vtime_of(min(lead_bytes, KF_LEAD_BYTES_MAX),
			   clamp_t(u64, share_sum, KF_LEAD_SHARE_MIN, KF_SHARE_ONE));
}

/**
 * kf_slice_bytes - what a hardware context takes of a cgroup's share at a time
 * @lead_vtime: from kf_clock_lead_vtime()
 * @lead_bytes: what that is of
 * @share: the cgroup's
 * @nr_hctx: hardware contexts there are
 * @cost_bytes: of the request that goes next
 *
 * A vtime is charged for a slice, not for each request, so that the CPUs do not all
 * write to it; and where the CPU is what is short, so that a process that was throttled is woken
 * for several requests. Elsewhere a device that gets them in bursts does less. All slices of
 * a cgroup together are half of a lead. A cgroup that comes where only one of small share was
 * has a larger part of that lead in virtual time than there is: it has no more than the lead is.
 */
static inline u64 kf_slice_bytes(u64 lead_vtime, u64 lead_bytes, u64 share, u32 nr_hctx,
				 u32 cost_bytes)
{
	u64 own_bytes = mul_u64_u64_shr(lead_vtime, share, KF_SHARE_SHIFT);

	return max_t(u64, min(own_bytes, lead_bytes) / (2 * nr_hctx), cost_bytes);
}

/* How far a cgroup may stay behind the others, in leads; in its own requests. */
#define KF_LAG_LEADS		2
#define KF_LAG_REQUESTS		4

/**
 * kf_clock_lag_bytes - how far behind a cgroup may be that is not awaited
 * @lead_bytes: from kf_clock_lead_bytes()
 * @mean_cost_bytes: of its requests
 * @peak_cost_bytes: of its largest one of late
 * @share: its share
 *
 * What it missed by that much it gets back. More is not saved for it: it cannot use it. By as
 * much it may be ahead after a change of shares: by what its largest request cost, or one
 * that sends a large one now and then would be let off most of it at each change.
 */
static inline u64 kf_clock_lag_bytes(u64 lead_bytes, u64 mean_cost_bytes,
				     u64 peak_cost_bytes, u64 share)
{
	return max_t(u64, KF_LAG_LEADS * lead_bytes,
		     kf_vtime_of(max(KF_LAG_REQUESTS * mean_cost_bytes, peak_cost_bytes),
				 share));
}

/* One part in so many is forgotten ten times a second. */
#define KF_PEAK_FORGET		16U

/*
 * A cgroup begins at the clock, and its first request goes whatever it costs. A tenant that
 * may make cgroups could have all requests in new ones. So the cgroups above have a virtual
 * time for the new ones below: the next begins there, and what a new one is charged moves it
 * on. It is bounded, as virtual times are less than half of the range apart.
 */
#define KF_NEWCOMER_MAX		BIT_ULL(60)

/* A cgroup is new until it was charged in so many looks: its last charge is a small part then. */
#define KF_NEW_LOOKS		32

/* Where the next one begins; the clock may be further, or have been for very long. */
static inline u64 kf_newcomer_at(u64 newcomer, u64 clock)
{
	return newcomer - clock < 2 * KF_NEWCOMER_MAX ? newcomer : clock;
}

/**
 * kf_newcomer_after - where the one after that begins
 * @newcomer: so far
 * @clock: the clock
 * @cost_bytes: what it is charged
 * @share: what new ones have of the device
 */
static inline u64 kf_newcomer_after(u64 newcomer, u64 clock, u64 cost_bytes, u64 share)
{
	u64 ahead = kf_newcomer_at(newcomer, clock) - clock;
	u64 step = min(kf_vtime_of(cost_bytes, share), KF_NEWCOMER_MAX);

	return clock + min(ahead + step, KF_NEWCOMER_MAX);
}

/*
 * How many requests a cgroup keeps outstanding: the mean over the time in which it is
 * present. Not the most: one that has a request for a 20th of the time has no use for more of
 * the device than that, and if others waited for it they would wait all the time.
 *
 * A load is the requests outstanding, and what it takes for the mean of them, in one word: so
 * that it costs no more than to count them. The lower bits count. The upper ones have the
 * times at which requests came less those at which they went. For @nr that are outstanding
 * now, what they and all before them took together is @nr times the time now, less that. All
 * of it is modulo 2^48 units of 1,024 ns, nine years.
 */
#define KF_LOAD_NR_BITS		16
#define KF_LOAD_NR_MASK		(BIT_ULL(KF_LOAD_NR_BITS) - 1)
#define KF_LOAD_NS_SHIFT	10
#define KF_LOAD_MASK		(BIT_ULL(64 - KF_LOAD_NR_BITS) - 1)

/* To be added for a request that comes, and taken away, with another time, once it went. */
static inline u64 kf_load_of(u64 now_ns)
{
	return (now_ns >> KF_LOAD_NS_SHIFT << KF_LOAD_NR_BITS) + 1;
}

static inline u32 kf_load_nr(u64 load)
{
	return load & KF_LOAD_NR_MASK;
}

/**
 * kf_load_since - what requests took since the last call, together
 * @load: now
 * @seen: what they had taken then; set to what they have now
 * @now_ns: time
 *
 * Return: units of 1,024 ns.
 */
static inline u64 kf_load_since(u64 load, u64 *seen, u64 now_ns)
{
	u64 sum = kf_load_nr(load) * (now_ns >> KF_LOAD_NS_SHIFT) - (load >> KF_LOAD_NR_BITS);
	u64 since = (sum - *seen) & KF_LOAD_MASK;

	*seen = sum & KF_LOAD_MASK;
	/* Clocks of CPUs differ a little: less than nothing is nothing. */
	return since > KF_LOAD_MASK / 2 ? 0 : since;
}

/* Of one cgroup. */
struct kf_depth {
	u64 sum;		/* what its requests took together, forgotten slowly */
	u64 present;		/* how long it was present, likewise; both in 1,024 ns */
	u64 absent_ns;		/* how long it was not, up to the last look */
	u64 look_ns;		/* when that was */
	u32 milli;		/* the mean outstanding, thousandths of a request */
};

/* One part in so many is forgotten at a look. */
#define KF_DEPTH_FORGET		4

/* The cgroup was not looked at for some time. */
static inline void kf_depth_begin(struct kf_depth *depth, u64 absent_ns, u64 now_ns)
{
	depth->absent_ns = absent_ns;
	depth->look_ns = now_ns;
}

/**
 * kf_depth_update - the mean of what a cgroup keeps outstanding
 * @depth: depth; what its requests took since the last look is in its sum
 * @absent_ns: how long the cgroup was not present so far, ever
 * @now_ns: time
 */
static inline void kf_depth_update(struct kf_depth *depth, u64 absent_ns, u64 now_ns)
{
	u64 elapsed_ns = now_ns - depth->look_ns;

	depth->present += (elapsed_ns - min(absent_ns - depth->absent_ns, elapsed_ns)) >>
		       KF_LOAD_NS_SHIFT;
	depth->absent_ns = absent_ns;
	depth->look_ns = now_ns;
	if (!depth->present)
		return;
	depth->milli = min_t(u64, mul_u64_u64_div_u64(depth->sum, 1000, depth->present), U32_MAX);
	depth->sum -= depth->sum / KF_DEPTH_FORGET;
	depth->present -= depth->present / KF_DEPTH_FORGET;
}

/* How long a cgroup has not been present by now; as kf_clock_is_present(). */
static inline u64 kf_clock_absent_ns(u32 nr_outstanding, u64 idle_ns, u64 grace_ns)
{
	return nr_outstanding || idle_ns <= grace_ns ? 0 : idle_ns - grace_ns;
}

/* More than any device does, and all cgroups could do it together: see kf_clock_could(). */
#define KF_COULD_MAX	BIT_ULL(44)

/**
 * kf_clock_could - what a cgroup could do with the device to itself, bytes of cost a second
 * @milli: requests it keeps outstanding, thousandths
 * @cost_bytes: what one of them is charged on the mean
 * @alone_ns: what one of them takes alone in the device; 0: not known
 *
 * Little's law: no more than this, if none waits for another.
 */
static inline u64 kf_clock_could(u32 milli, u32 cost_bytes, u64 alone_ns)
{
	/* The quotient has to fit, also while no time is known. */
	u64 bytes = min_t(u64, (u64)milli * cost_bytes, BIT_ULL(53));

	return min_t(u64, mul_u64_u64_div_u64(bytes, NSEC_PER_SEC / 1000,
					      max_t(u64, alone_ns, NSEC_PER_USEC)), KF_COULD_MAX);
}

/* What all that are active could do. */
struct kf_could {
	u64 most, all;			/* one of them, and together */
	u32 min_total_pct;		/* the device does so much of what it can at least */
};

/*
 * While the others wait for a cgroup, no cgroup has more than some multiple of its share: what
 * that one could do divided by its own share. The *level* is the least such multiple that does
 * no harm: each has a disk of its own, and the device does as much as it has to. Those
 * below the level are not awaited, and have what they could do whatever the level is. So it
 * is where the water stands that is poured into vessels as wide as the shares, and as high
 * as what each could do.
 */
struct kf_level {
	u64 at;				/* bytes of cost a second, of a share that is all */
	u64 due;			/* what the device has to do */
	u64 sum;			/* what it does at this level, so far as was added */
	u64 above_share;		/* of those that could do more */
};

/* It is found in so many steps, or is a little low: the more of them could do different things. */
#define KF_LEVEL_STEPS	8

/**
 * kf_level_begin - as low as the level may be
 * @lvl: level
 * @kc: what all could do
 * @full: what the device does when it is full
 *
 * If all waited for one, another would lose by it that could do more with the device to itself
 * than this level. But more than the device can do none of them would.
 */
static inline void kf_level_begin(struct kf_level *lvl, const struct kf_could *kc, u64 full)
{
	*lvl = (struct kf_level){
		.due = mul_u64_u64_div_u64(min(full, kc->all), kc->min_total_pct, 100),
	};
	lvl->at = max(lvl->due, min(full, kc->most));
}

static inline void kf_level_add(struct kf_level *lvl, u64 could, u64 share)
{
	u64 own = mul_u64_u64_shr(lvl->at, share, KF_SHARE_SHIFT);

	lvl->sum += min(could, own);
	if (could > own)
		lvl->above_share += share;
}

/**
 * kf_level_rise - raise it by what the device does too little
 * @lvl: level, to which all were added
 *
 * Return: whether it rose; then all are to be added again.
 */
static inline bool kf_level_rise(struct kf_level *lvl)
{
	u64 lack = lvl->due - min(lvl->due, lvl->sum);

	if (!lack || !lvl->above_share)
		return false;
	/* The quotient has to fit. */
	lack = min(lack, BIT_ULL(62) >> KF_SHARE_SHIFT) << KF_SHARE_SHIFT;
	lvl->at += min(div64_u64(lack, lvl->above_share), BIT_ULL(62) - min(lvl->at, BIT_ULL(62)));
	lvl->sum = 0;
	lvl->above_share = 0;
	return true;
}

/**
 * kf_clock_is_awaited - whether others wait for a cgroup that is present
 * @level: from struct kf_level
 * @could: what it could, from kf_clock_could()
 * @share: its share
 * @was_awaited: so far; then an eighth less will do, so that it does not change to and fro
 */
static inline bool kf_clock_is_awaited(u64 level, u64 could, u64 share, bool was_awaited)
{
	u64 need = mul_u64_u64_shr(level, share, KF_SHARE_SHIFT);

	return could >= need - (was_awaited ? need / 8 : 0);
}

/*
 * A disk of its own. A cgroup for which the others do not wait has few requests. Alone on a
 * disk as fast as its share each of them would take its time alone divided by the share.
 * What they take longer than that the cgroup is *owed*. The more it is owed the more the
 * others are slowed down, as long as those have disks of their own, too; see struct kf_pace.
 * It is owed no more than so many leads, or times that its requests take, and what it was owed
 * is worked off as it has less than that to wait.
 */
#define KF_OWED_LEADS		8
#define KF_HOLD_ONE		1024U
/* One part in so many of what they would take is let off: no time alone is known better. */
#define KF_OWED_SLACK		32

/**
 * kf_owed_ns - what a cgroup is owed
 * @owed_ns: so far; less than 0: its requests took less
 * @took_ns: what its requests took since then, together
 * @nr: how many of them were dispatched
 * @alone_ns: what one takes alone in the device
 * @share: the cgroup's share of the device
 * @most_ns: as far as it goes, to either side
 */
static inline s64 kf_owed_ns(s64 owed_ns, u64 took_ns, u64 nr, u64 alone_ns, u64 share,
			     u64 most_ns)
{
	u64 own_ns = min(min_t(u64, nr, U32_MAX) * min_t(u64, alone_ns, U32_MAX), BIT_ULL(33));

	own_ns = div64_u64(own_ns << KF_SHARE_SHIFT, max(share, 1ULL));
	own_ns += own_ns / KF_OWED_SLACK;
	owed_ns += (s64)min_t(u64, took_ns, S64_MAX / 4) - (s64)min_t(u64, own_ns, S64_MAX / 4);
	return clamp_t(s64, owed_ns, -(s64)most_ns, most_ns);
}

/**
 * kf_owed_most_ns - how far a cgroup may be owed
 * @lead_ns: a lead
 * @alone_ns: what a request of it takes alone
 * @milli: how many it keeps outstanding, thousandths
 */
static inline u64 kf_owed_most_ns(u64 lead_ns, u64 alone_ns, u32 milli)
{
	u64 unit_ns = max(lead_ns, min_t(u64, alone_ns, U32_MAX));

	return div64_u64(KF_OWED_LEADS * unit_ns * max(milli, 1000U), 1000);
}

/* How much the others are slowed down for one that is owed; KF_HOLD_ONE: as far as may be. */
static inline u32 kf_hold_of(s64 owed_ns, u64 most_ns)
{
	if (owed_ns <= 0)
		return 0;
	if (owed_ns >= (s64)most_ns)
		return KF_HOLD_ONE;
	return mul_u64_u64_div_u64(owed_ns, KF_HOLD_ONE, most_ns);
}

/*
 * How the others are slowed down while one is owed: first fewer of their requests are in
 * flight, down to one. If that is not enough, as one of theirs is as long as many of those
 * that are owed, or keeps the device busy when it is done, the clock goes slower as well: in
 * a second by no more than what the device can do in a second, and that is a disk of its own
 * for each.
 *
 * What it can do was measured while it was full, perhaps into an empty buffer. So while one
 * stays owed as much as may be, the pace falls, but not below what the device has to do in
 * any case.
 */
struct kf_pace {
	u64 bytes_per_s;		/* of the clock, at its slowest; 0: not known */
	u32 milli;			/* places of the others, at their fewest, thousandths */
	u64 hold_sum;			/* of all walks since the last look */
	u32 nr_walks;
};

/* At a look the pace changes by one part in so many. */
#define KF_PACE_STEP		32
/* Nor does it fall below so much of what the device can do, percent. */
#define KF_PACE_PCT_MIN		25U
/* The device is empty, and the others wait for the clock: it is set again after this. */
#define KF_PACE_NS		(500ULL * NSEC_PER_USEC)
/* At a hold of more than that one stays owed. */
#define KF_HOLD_STUCK		(KF_HOLD_ONE * 7 / 8)

static inline void kf_pace_count(struct kf_pace *kp, u32 hold)
{
	kp->hold_sum += hold;
	kp->nr_walks++;
}

/**
 * kf_pace_update - set the pace by what happened since the last look
 * @kp: pace
 * @bytes_per_s: what the awaited did
 * @full_bytes_per_s: what the device can do; 0: not known
 * @least_pct: what it does of that in any case, percent
 * @ceiling: places there are
 * @awaited_share: sum of the shares of those that are awaited
 */
static inline void kf_pace_update(struct kf_pace *kp, u64 bytes_per_s, u64 full_bytes_per_s,
				  u32 least_pct, u32 ceiling, u64 awaited_share)
{
	u64 most = max(mul_u64_u64_shr(ceiling, awaited_share, KF_SHARE_SHIFT), 1ULL);
	u64 hold = kp->nr_walks ? div64_u64(kp->hold_sum, kp->nr_walks) : 0, due;

	if (hold > KF_HOLD_STUCK)
		kp->bytes_per_s -= kp->bytes_per_s / KF_PACE_STEP;
	else
		kp->bytes_per_s += kp->bytes_per_s / KF_PACE_STEP;
	kp->bytes_per_s = clamp(kp->bytes_per_s,
				mul_u64_u64_div_u64(full_bytes_per_s, least_pct, 100),
				full_bytes_per_s);
	due = mul_u64_u64_shr(kp->bytes_per_s, awaited_share, KF_SHARE_SHIFT);
	if (hold > KF_HOLD_ONE / 2 && bytes_per_s > due + due / 8)
		kp->milli -= kp->milli / 8;
	else if (bytes_per_s < due)
		kp->milli += kp->milli / 8 + 100;
	kp->milli = clamp_t(u64, kp->milli, 1000, 1000 * most);
	kp->hold_sum = 0;
	kp->nr_walks = 0;
}

/**
 * kf_hold_places - how many requests of the others may be in flight while one is owed
 * @ceiling: while none is
 * @least: as few as may be
 * @hold: from kf_hold_of(); half is as far as places go
 */
static inline u32 kf_hold_places(u32 ceiling, u32 least, u32 hold)
{
	least = clamp(least, 1U, ceiling);
	return ceiling - (u64)(ceiling - least) * min(2 * hold, KF_HOLD_ONE) / KF_HOLD_ONE;
}

/**
 * kf_hold_limit - how far the others may go while one is owed
 * @limit: so far
 * @free: while none is owed
 * @pace_bytes_per_s: from struct kf_pace
 * @elapsed_ns: since the limit was set
 * @hold: from kf_hold_of(); more than half, as less is for kf_hold_places()
 */
static inline u64 kf_hold_limit(u64 limit, u64 free, u64 pace_bytes_per_s, u64 elapsed_ns,
				u32 hold)
{
	u64 bytes;

	if (hold <= KF_HOLD_ONE / 2 || !pace_bytes_per_s)
		return free;
	bytes = mul_u64_u64_div_u64(pace_bytes_per_s, min_t(u64, elapsed_ns, NSEC_PER_SEC),
				    NSEC_PER_SEC);
	bytes = min(bytes, KF_LEAD_BYTES_MAX) * (KF_HOLD_ONE / 2) / (hold - KF_HOLD_ONE / 2);
	limit += kf_vtime_of(min(bytes, KF_LEAD_BYTES_MAX), KF_SHARE_ONE);
	return kf_vtime_before(limit, free) ? limit : free;
}

/**
 * kf_clock_turn_vtime - a vtime that waits for no other
 * @clock: the clock
 * @limit: what is before it may go; before the clock while that is paced
 *
 * Before the cgroup that is the clock as well: that one may wait for a place.
 */
static inline u64 kf_clock_turn_vtime(u64 clock, u64 limit)
{
	return (kf_vtime_before(clock, limit) ? clock : limit) - 1;
}

#endif /* _KF_CLOCK_H */
