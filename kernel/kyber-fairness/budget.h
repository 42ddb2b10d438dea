/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budget arithmetic of kyber-fairness: pure functions of their arguments.
 *
 * tests/budget_kunit.c checks them twice from the same source, as KUnit and
 * as a userspace program. Figure numbers are those of the final report
 * (document 004).
 *
 * Units: budgets are bytes, times nanoseconds. A share of the device is a
 * fixed-point number with KF_SHARE_ONE for the whole device; every division
 * rounds down, so the shares of all cgroups never sum to more than one.
 */
#ifndef _KF_BUDGET_H
#define _KF_BUDGET_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define KF_SHARE_SHIFT	30
#define KF_SHARE_ONE	0x40000000ULL	/* 2^KF_SHARE_SHIFT */

/*
 * A round is not split finer than one page for each active cgroup: a refill
 * looks at every active cgroup, so this keeps its cost per request constant
 * however many cgroups there are.
 */
#define KF_POOL_MIN_BYTES	4096ULL

/**
 * kf_share_of - share of one member of a level of the hierarchy
 * @share: share of the parent
 * @weight: weight of the member, 1..10000
 * @weight_sum: sum of the weights of the active members, at least @weight
 */
static inline u64 kf_share_of(u64 share, u32 weight, u32 weight_sum)
{
	return weight_sum ? div_u64(share * weight, weight_sum) : share;
}

/**
 * kf_share_among - share of one of several that have less than the device
 * @share: its share of the device
 * @shares: the sum of theirs; 0: not known, it has the device
 */
static inline u64 kf_share_among(u64 share, u64 shares)
{
	if (share >= shares)
		return KF_SHARE_ONE;
	return div64_u64(share << KF_SHARE_SHIFT, shares);
}

/**
 * kf_pool_estimate_bytes - what the device would serve in a full round
 * @used_bytes: dispatched since the last refill, by all cgroups
 * @elapsed_ns: time since the last refill (T_spend of figure 30)
 * @round_ns: length of a round (the 100 ms of figure 30)
 *
 * The first factor of figure 30. An immeasurably short round counts as 1 ns.
 */
static inline u64 kf_pool_estimate_bytes(u64 used_bytes, u64 elapsed_ns,
					 u64 round_ns)
{
	/* 2^44 bytes a round is more than any device: keep the product sane. */
	used_bytes = min_t(u64, used_bytes, 1ULL << 44);
	elapsed_ns = max_t(u64, elapsed_ns, 1);

	/* The quotient must fit 64 bits: at most 2^63 / used_bytes times. */
	if (round_ns / elapsed_ns >= (1ULL << 18))
		return used_bytes << 18;
	return mul_u64_u64_div_u64(used_bytes, round_ns, elapsed_ns);
}

/**
 * kf_pool_follow_bytes - an estimate, as far as its round tells
 * @estimate_bytes: from kf_pool_estimate_bytes()
 * @last_bytes: total budget of the round that ended
 * @elapsed_ns: time since the last refill
 * @round_ns: length of a round
 *
 * A round that ended early, or is short, is the time between a few requests:
 * of several in a row the rate is known. A pool that follows each of them is
 * small by chance, and what cgroups may save (kf_carry_bytes()) with it. Of the
 * report's 100 ms, half are enough for all of the estimate.
 */
#define KF_POOL_ROUNDS	4
#define KF_POOL_SPAN_NS	(50 * NSEC_PER_MSEC)

static inline u64 kf_pool_follow_bytes(u64 estimate_bytes, u64 last_bytes,
				       u64 elapsed_ns, u64 round_ns)
{
	u64 span_ns = clamp_t(u64, round_ns * KF_POOL_ROUNDS, 1, KF_POOL_SPAN_NS);

	if (elapsed_ns >= span_ns)
		return estimate_bytes;
	if (estimate_bytes < last_bytes)
		return last_bytes - mul_u64_u64_div_u64(last_bytes - estimate_bytes,
							elapsed_ns, span_ns);
	return last_bytes + mul_u64_u64_div_u64(estimate_bytes - last_bytes,
						elapsed_ns, span_ns);
}

/**
 * kf_pool_next_bytes - total budget of the next round
 * @estimate_bytes: from kf_pool_follow_bytes()
 * @last_bytes: total budget of the round that ended
 * @nr_active: cgroups that will share it
 *
 * The first requests after an idle time go into an empty device at memory
 * speed. So the pool at most doubles or halves from one round to the next.
 */
static inline u64 kf_pool_next_bytes(u64 estimate_bytes, u64 last_bytes,
				     u32 nr_active)
{
	u64 pool_bytes = clamp_t(u64, estimate_bytes, last_bytes / 2,
				 last_bytes * 2);

	return max_t(u64, pool_bytes, KF_POOL_MIN_BYTES * max_t(u32, nr_active, 1));
}

/**
 * kf_round_ns - how long the next round is
 * @most_ns: not longer than this
 * @unloaded_ns: what a request takes that is alone in the device; 0: unknown
 * @pct: the round's length in percent of that; 0: @most_ns whatever it is
 *
 * Half of a request's time by default, so that a cgroup that waits for the next round
 * waits little beside what the device takes, on a fast device as on a slow
 * one. Not shorter than KF_ROUND_NS_MIN: a refill looks at every active cgroup.
 */
#define KF_ROUND_NS_MIN		(200 * NSEC_PER_USEC)

static inline u64 kf_round_ns(u64 most_ns, u64 unloaded_ns, u64 pct)
{
	if (!unloaded_ns || !pct)
		return most_ns;
	return clamp_t(u64, div_u64(unloaded_ns * pct, 100),
		       min_t(u64, KF_ROUND_NS_MIN, most_ns), most_ns);
}

#define KF_CARRY_ROUNDS		8
#define KF_CARRY_REQUESTS	4

/* How much of it a cgroup may save up, and what it may owe for urgent requests. */
static inline s64 kf_carry_most_bytes(s64 grant_bytes, u32 cost_bytes)
{
	return max_t(s64, grant_bytes * KF_CARRY_ROUNDS,
		     (s64)cost_bytes * KF_CARRY_REQUESTS);
}

/**
 * kf_carry_bytes - what is left of a budget that the next round respects
 * @left_bytes: budget left, negative for a debt
 * @grant_bytes: what the cgroup is granted for a round
 * @cost_bytes: what a request of it is charged on the mean
 *
 * A debt is always carried: it is service already had. What a cgroup did not
 * spend it was entitled to and may still spend, up to KF_CARRY_ROUNDS: the
 * device and the submitters run in bursts that are longer than a round. It
 * does not grow further, so a cgroup that cannot use its share saves no
 * more than a few milliseconds of it. With requests that are larger than rounds, such as
 * the kernel makes of what was left in the page cache, that would be less than one:
 * up to KF_CARRY_REQUESTS of those.
 */
static inline s64 kf_carry_bytes(s64 left_bytes, s64 grant_bytes, u32 cost_bytes)
{
	return min_t(s64, left_bytes, kf_carry_most_bytes(grant_bytes, cost_bytes));
}

/**
 * kf_urgent_charge_bytes - what a request is charged that no budget holds back
 * @left_bytes: budget left, negative for a debt
 * @most_bytes: how much a cgroup may owe for such requests
 * @cost_bytes: what the request would be charged
 *
 * Everybody's round is longer by what is owed, and a debtor's own requests wait until
 * it is paid. A journal may write more than its cgroup's share for ever: without a
 * bound rounds would grow to seconds, and the debt to hours. What is beyond is work for
 * all, and the device's loss is shared by all.
 */
static inline u32 kf_urgent_charge_bytes(s64 left_bytes, s64 most_bytes,
					 u32 cost_bytes)
{
	return clamp_t(s64, left_bytes + most_bytes, 0, cost_bytes);
}

/* No hold with less credit than this part of a round: each takes a timer. */
#define KF_HOLD_LEAST_PART	8

/**
 * kf_hold_credit_ns - how long refills may be held for cgroups expected back
 * @credit_ns: what is left of it
 * @elapsed_ns: time since the last refill
 * @round_ns: length of a round
 * @hold_pct: 0..50, the part of all time it may come to
 *
 * At most a round's length is saved up.
 */
static inline u64 kf_hold_credit_ns(u64 credit_ns, u64 elapsed_ns, u64 round_ns,
				    u64 hold_pct)
{
	/* A second fills any credit: keep the product sane. */
	elapsed_ns = min_t(u64, elapsed_ns, NSEC_PER_SEC);
	return min_t(u64, credit_ns + div_u64(elapsed_ns * hold_pct, 100),
		     hold_pct ? round_ns : 0);
}

/*
 * Whether holds in which somebody comes back cost nothing: of one device, found out by
 * trying.
 */
struct kf_hold_trial {
	bool is_free;
	u32 left;		/* looks until they are tried again, if they are not */
	u32 pause;		/* of how many looks the next such time is */
	u64 best_rate;		/* of completions while this lasts, forgotten slowly */
};

#define KF_HOLD_PAUSE_MIN	4U
#define KF_HOLD_PAUSE_MAX	512U
#define KF_HOLD_FORGET_SHIFT	6

/**
 * kf_hold_try - whether holds are free from now on
 * @ht: all zeroes at first
 * @rate: requests completed since the last look, in any unit of time
 *
 * Where the CPU is what is short, holding back who has had its share loses nothing.
 * Where a cgroup comes back often but has too few requests for its share, the device is
 * emptied for it. Both look the same but for the rate. So holds are paid for at
 * first, then they are free; when the rate falls by more than a tenth, they are not
 * for twice as long as the last time. A rate that falls for another reason does the same.
 */
static inline void kf_hold_try(struct kf_hold_trial *ht, u64 rate)
{
	bool fell = rate < ht->best_rate - ht->best_rate / 10;

	ht->best_rate = max_t(u64, rate, ht->best_rate -
			      (ht->best_rate >> KF_HOLD_FORGET_SHIFT));
	if (!ht->pause) {
		ht->pause = KF_HOLD_PAUSE_MIN;
		ht->left = ht->pause;
	}
	if (ht->is_free && fell) {
		ht->is_free = false;
		ht->pause = min_t(u32, 2 * ht->pause, KF_HOLD_PAUSE_MAX);
		ht->left = ht->pause;
	} else if (!ht->is_free && !--ht->left) {
		ht->is_free = true;
		ht->best_rate = rate;
	}
}

/**
 * kf_spendable_bytes - the part of the pool that is granted by weight
 * @pool_bytes: total budget of the round
 * @carried_bytes: sum of what the waiting cgroups carry, may be negative
 * @nr_active: cgroups that share it
 *
 * The bracket of figure 30: what is already in the hands of those who will
 * spend it is not granted again, and debts add to what is granted, so that
 * after the refill their budgets together are the pool. It never falls under
 * the smallest pool: a refill always moves every cgroup forward.
 */
static inline u64 kf_spendable_bytes(u64 pool_bytes, s64 carried_bytes,
				     u32 nr_active)
{
	s64 least_bytes = KF_POOL_MIN_BYTES * max_t(u32, nr_active, 1);

	return max_t(s64, (s64)pool_bytes - carried_bytes, least_bytes);
}

/**
 * kf_grant_bytes - what one cgroup gets of @spendable_bytes
 * @spendable_bytes: from kf_spendable_bytes()
 * @share: the cgroup's share; at least one byte is granted, so that the
 *	smallest weight makes progress as well
 */
static inline s64 kf_grant_bytes(u64 spendable_bytes, u64 share)
{
	return max_t(u64, mul_u64_u64_shr(spendable_bytes, share, KF_SHARE_SHIFT), 1);
}

/*
 * Levels: budgets in quarters of what a refill grants, for the order in which
 * cgroups go; the last level is open.
 */
#define KF_NR_LEVELS		64U
#define KF_LEVELS_PER_ROUND	4U
#define KF_LEVEL_SHIFT		32

/* Levels a byte is worth to a cgroup that is granted @grant_bytes, positive. */
static inline u64 kf_levels_per_byte(s64 grant_bytes)
{
	return div64_u64((u64)KF_LEVELS_PER_ROUND << KF_LEVEL_SHIFT, grant_bytes);
}

/**
 * kf_level - the level of a budget
 * @budget_bytes: any
 * @levels_per_byte: from kf_levels_per_byte()
 */
static inline unsigned int kf_level(s64 budget_bytes, u64 levels_per_byte)
{
	if (budget_bytes <= 0)
		return 0;
	return min_t(u64, KF_NR_LEVELS - 1,
		     mul_u64_u64_shr(budget_bytes, levels_per_byte, KF_LEVEL_SHIFT));
}

/**
 * kf_write_goes_first - which of a cgroup's oldest read and write goes
 * @now_ns: ktime_get_ns()
 * @read_ns: when the read came
 * @write_ns: when the write came
 * @pct: a write goes once it waits for so many percent of the read's time; 100: in order
 *	of arrival; 0..10000
 */
static inline bool kf_write_goes_first(u64 now_ns, u64 read_ns, u64 write_ns, u64 pct)
{
	u64 read_wait_ns = now_ns > read_ns ? now_ns - read_ns : 0;
	u64 write_wait_ns = now_ns > write_ns ? now_ns - write_ns : 0;

	/* More than days does not fit, and makes no difference. */
	return min_t(u64, write_wait_ns, 1ULL << 50) * 100 >=
	       min_t(u64, read_wait_ns, 1ULL << 50) * pct;
}

/**
 * kf_rounds_to_spend - rounds until a budget is positive
 * @budget_bytes: budget after this refill
 * @grant_bytes: what every further round adds, positive
 *
 * 0 if the cgroup can dispatch now. A request may be larger than many
 * rounds' budget; when every waiting cgroup is still in debt after a refill,
 * waiting for more refills would leave the device idle, so the refill gives
 * all of them the smallest number of further rounds that lets one go on.
 */
static inline u64 kf_rounds_to_spend(s64 budget_bytes, s64 grant_bytes)
{
	if (budget_bytes > 0)
		return 0;
	return div64_u64((u64)-budget_bytes, grant_bytes) + 1;
}

/**
 * kf_rounds_to_fill - rounds that use up what is spendable
 * @waiting_share: sum of the shares of the cgroups that have requests waiting
 *
 * The others' parts would lie there unused: given once, a cgroup of small
 * share that is alone in waiting would need a refill for every request.
 */
static inline u64 kf_rounds_to_fill(u64 waiting_share)
{
	return div64_u64(KF_SHARE_ONE, max_t(u64, waiting_share, 1)) ?: 1;
}

/**
 * kf_inside_least - requests that keep the device reasonably busy
 * @nr_done: requests completed in @elapsed_ns
 * @elapsed_ns: at least 1
 * @unloaded_ns: what a request takes that is alone in the device
 * @inside_pct: of the product below, 100..1000
 *
 * The rate times the unloaded latency is the number inside if none waited for
 * another (Little's law). On a device that serves all of so many at once it is
 * enough; on one where requests collide, on the dies of an SSD say, 1.5 times
 * as many give about 85 % of the most it can do, and 3 times all of it.
 * A rate that is low because few are inside does not hold it down: then
 * the product is about those few, and what this returns is more.
 */
static inline u64 kf_inside_least(u64 nr_done, u64 elapsed_ns, u64 unloaded_ns,
				  u64 inside_pct)
{
	u64 busy_ns = min_t(u64, nr_done, 1 << 24) *
		      min_t(u64, unloaded_ns, 10ULL * NSEC_PER_SEC);

	return mul_u64_u64_div_u64(busy_ns, inside_pct, elapsed_ns * 100) + 1;
}

/*
 * How much work the device does, by what it completes. In a mix of reads and writes how
 * many of each are completed in a tenth of a second is chance: as they were sent. Where
 * the device is the limit one thing is not, the time they take it, of which each kind
 * has a part.
 */
struct kf_mix {
	u64 mean[2];		/* completions a second: reads, writes */
	u64 last[2];
	u64 vary[2];		/* mean square of the change from look to look, ... */
	s64 vary_both;		/* ... and mean product, in parts of the mean: KF_MIX_ONE */
	u32 nr;			/* looks the means are of, at most KF_MIX_LOOKS */
	u32 nr_changes;		/* looks that vary and vary_both are of; at most as many */
};

#define KF_MIX_SHIFT		16
#define KF_MIX_ONE		65536ULL	/* 2^KF_MIX_SHIFT */
#define KF_MIX_LOOKS		32U
/* A change by a two hundredth tells nothing. */
#define KF_MIX_LEAST		((KF_MIX_ONE / 200) * (KF_MIX_ONE / 200))

/* How @mix->mean[@dir] changed to @rate since the last look, in KF_MIX_ONE. */
static inline s64 kf_mix_change(const struct kf_mix *mix, unsigned int dir, u64 rate)
{
	const s64 most = 2 * KF_MIX_ONE;
	u64 last = mix->last[dir], mean = max_t(u64, mix->mean[dir], 1);
	u64 change = rate > last ? rate - last : last - rate;

	change = min_t(u64, div64_u64(change << KF_MIX_SHIFT, mean), most);
	return rate > last ? (s64)change : -(s64)change;
}

/* One more look to a mean of so many. */
static inline s64 kf_mix_mean(s64 mean, s64 value, u32 nr)
{
	return mean + div_s64(value - mean, nr);
}

/* The part of the device's time that reads are, in KF_MIX_ONE. */
static inline u64 kf_mix_reads(const struct kf_mix *mix)
{
	u64 by_number = div64_u64(mix->mean[0] << KF_MIX_SHIFT,
				  max_t(u64, mix->mean[0] + mix->mean[1], 1));
	s64 reads = (s64)mix->vary[1] - mix->vary_both;
	s64 both = (s64)(mix->vary[0] + mix->vary[1]) - 2 * mix->vary_both;

	if (!mix->mean[0] || !mix->mean[1])
		return by_number;
	/* The sum of two parts that varies least; all alike where nothing varies. */
	reads += (s64)((by_number * KF_MIX_LEAST) >> KF_MIX_SHIFT);
	both += KF_MIX_LEAST;
	if (reads <= 0)
		return 0;
	if (reads >= both)
		return KF_MIX_ONE;
	return div64_u64((u64)reads << KF_MIX_SHIFT, both);
}

/* That kind, 0: reads, is at least a quarter of what the device has to do. */
static inline bool kf_mix_is_busy_with(const struct kf_mix *mix, unsigned int dir)
{
	u64 reads = kf_mix_reads(mix);

	return 4 * (dir ? KF_MIX_ONE - reads : reads) >= KF_MIX_ONE;
}

/* What the rate of all would be if it were in proportion to that of one kind. */
static inline u64 kf_mix_part(const struct kf_mix *mix, unsigned int dir, u64 rate)
{
	u64 mean = mix->mean[dir];

	if (!mean)
		return 0;
	/* Few of many are no measure: sane products. */
	return mul_u64_u64_div_u64(min_t(u64, rate, 8 * mean),
				   mix->mean[0] + mix->mean[1], mean);
}

/* How much the rates change by chance. */
static inline void kf_mix_see_change(struct kf_mix *mix, const u64 *rate)
{
	const s64 change[2] = {
		kf_mix_change(mix, 0, rate[0]),
		kf_mix_change(mix, 1, rate[1]),
	};
	unsigned int dir;

	mix->nr_changes = min(mix->nr_changes + 1, KF_MIX_LOOKS);
	for (dir = 0; dir < 2; dir++)
		mix->vary[dir] = kf_mix_mean(mix->vary[dir], change[dir] * change[dir],
					     mix->nr_changes);
	mix->vary_both = kf_mix_mean(mix->vary_both, change[0] * change[1],
				     mix->nr_changes);
}

/**
 * kf_mix_rate - the work a device does, in requests a second of its mix
 * @mix: all zeroes at first
 * @reads: completed since the last look, in a second; at most 2^32
 * @writes: the same
 * @same: it was in the same circumstances at the last look
 */
static inline u64 kf_mix_rate(struct kf_mix *mix, u64 reads, u64 writes, bool same)
{
	const u64 rate[2] = { min_t(u64, reads, U32_MAX), min_t(u64, writes, U32_MAX) };
	u64 sum = rate[0] + rate[1], mean_sum = mix->mean[0] + mix->mean[1];
	u64 apart = sum > mean_sum ? sum - mean_sum : mean_sum - sum;
	unsigned int dir;
	u64 part;

	/* Another load; and what is more than a quarter is not chance. */
	if (sum > 2 * mean_sum || 2 * sum < mean_sum)
		*mix = (struct kf_mix){};
	else if (same && apart <= mean_sum / 4)
		kf_mix_see_change(mix, rate);
	mix->nr = min(mix->nr + 1, KF_MIX_LOOKS);
	for (dir = 0; dir < 2; dir++) {
		mix->last[dir] = rate[dir];
		mix->mean[dir] = kf_mix_mean(mix->mean[dir], rate[dir], mix->nr);
	}

	part = kf_mix_reads(mix);
	return (kf_mix_part(mix, 0, rate[0]) * part +
		kf_mix_part(mix, 1, rate[1]) * (KF_MIX_ONE - part)) >> KF_MIX_SHIFT;
}

/*
 * How many requests inside are of use on one device: found out by trying. More than
 * the device works on at a time only wait inside, where nobody chooses who goes first.
 */
struct kf_inside_trial {
	u64 most;		/* not more inside than this; 0: any number */
	u64 before;		/* @most before what is being tried; 0: any number */
	u64 best_rate;		/* of completions, while nothing is tried */
	u64 rate_sum;		/* of the looks since the last step or judgement ... */
	u32 nr;			/* ... which are so many */
	u32 pause;		/* looks until the next step; 0: a new trial */
	s8 step;		/* being tried: -1 fewer, 1 more, 0 nothing */
	s8 next_step;		/* to be tried next */
	bool began;		/* see kf_inside_settles() */
	bool was_other;		/* the last look was at another load, or device, it seems */
};

/* A step is judged by so many looks. */
#define KF_INSIDE_LOOKS		2U
#define KF_INSIDE_PAUSE_MIN	4U
#define KF_INSIDE_PAUSE_MAX	512U
/* A rate that differs by so small a part is the same, ... */
#define KF_INSIDE_SAME_SHIFT	7
/* ... one that is less by this is clear at the first look, ... */
#define KF_INSIDE_LOST_SHIFT	5
/*
 * ... and one that differs by so large a part is another load's, or another device's by
 * now. Not at one look: a write buffer that was drained by fewer inside fills in no time.
 */
#define KF_INSIDE_OTHER_SHIFT	3

/* Nothing is known: any number may be inside. */
static inline void kf_inside_forget(struct kf_inside_trial *it, u64 rate)
{
	*it = (struct kf_inside_trial) {
		.best_rate = rate,
		.pause = KF_INSIDE_PAUSE_MIN,
		.next_step = -1,
	};
}

/* How the step went in which requests completed at @rate. */
static inline void kf_inside_judge(struct kf_inside_trial *it, u64 rate)
{
	u64 same = it->best_rate >> KF_INSIDE_SAME_SHIFT;
	bool is_better = it->step < 0 ? rate + same >= it->best_rate :
					rate > it->best_rate + same;

	/* With more inside it is no less than the best that can be had. */
	if (it->step > 0)
		it->best_rate = rate;
	if (is_better) {
		it->pause = 1;
		it->next_step = it->step;
	} else {
		it->began = true;
		it->most = it->before;
		it->pause = clamp_t(u32, 2 * it->pause, KF_INSIDE_PAUSE_MIN,
				    KF_INSIDE_PAUSE_MAX);
		it->next_step = it->most ? -it->step : -1;
	}
	it->step = 0;
}

/*
 * Fewer or more than @inside, or neither if there can be no fewer: where twice the
 * requests that @least is 1.5 times of are needed, on the dies of an SSD, each such try
 * costs.
 */
static inline void kf_inside_step(struct kf_inside_trial *it, u64 inside, u64 least)
{
	if (it->most)
		inside = it->most;
	if (it->next_step < 0 && inside - inside / 4 < least + least / 3) {
		if (!it->most)
			return;
		it->next_step = 1;
	}
	it->step = it->next_step;
	it->began = true;
	it->before = it->most;
	it->most = it->step < 0 ? inside - inside / 4 : inside + inside / 3;
}

/* Whether what has completed by now is of before the last step, there or back: once each. */
static inline bool kf_inside_settles(struct kf_inside_trial *it)
{
	bool began = it->began;

	it->began = false;
	return began;
}

/**
 * kf_inside_try - how many requests are let into the device from now on
 * @it: all zeroes at first
 * @inside: requests that are inside
 * @least: from kf_inside_least(); not fewer than that and a third are tried
 * @rate: requests completed since the last look, or since kf_inside_settles() told that
 *	there was a step; in any unit of time
 *
 * A quarter fewer, as long as the rate stays the same; then a third more, in case the
 * device, or what it is asked to do, has changed. What did not help is tried again
 * after twice as long. To be called only while as many are inside as may be.
 */
static inline void kf_inside_try(struct kf_inside_trial *it, u64 inside, u64 least,
				 u64 rate)
{
	u64 other = it->best_rate >> KF_INSIDE_OTHER_SHIFT;
	u64 lost = it->best_rate >> KF_INSIDE_LOST_SHIFT;
	bool is_other = rate > it->best_rate + other ||
			(!it->step && rate + other < it->best_rate);

	if (!it->pause || (is_other && it->was_other)) {
		kf_inside_forget(it, rate);
		return;
	}
	it->was_other = is_other;
	if (is_other)
		return;
	it->rate_sum += rate;
	it->nr++;
	if (it->step ? it->nr < KF_INSIDE_LOOKS && rate + lost >= it->best_rate :
		       it->nr < it->pause)
		return;
	rate = div64_u64(it->rate_sum, it->nr);
	it->rate_sum = 0;
	it->nr = 0;
	if (it->step) {
		kf_inside_judge(it, rate);
	} else {
		/* The first rate of all, or the mean of some of the same number inside. */
		it->best_rate = it->most ? max(it->best_rate, rate) : rate;
		kf_inside_step(it, inside, least);
	}
}

/**
 * kf_inside_for - requests inside the device at which a cgroup has its share
 * @nr_own: requests it has outstanding
 * @share: its share, not 0
 *
 * All inside see about the same latency, so a share of the throughput is a
 * share of the places. With more inside than this, the cgroup cannot have its
 * share, whoever goes first.
 */
static inline u64 kf_inside_for(u64 nr_own, u64 share)
{
	return div64_u64(nr_own << KF_SHARE_SHIFT, share);
}

/**
 * kf_requests_for - requests that a share is, in no unit but that of others
 * @share: the cgroup's share of what is shared
 * @cost_bytes: what a request of it is charged on the mean
 */
static inline u64 kf_requests_for(u64 share, u64 cost_bytes)
{
	return div64_u64(share << 20, max_t(u64, cost_bytes, 1));
}

/**
 * kf_request_share - a cgroup's share of the requests inside, not 0
 * @requests: from kf_requests_for()
 * @requests_sum: the sum of all cgroups'
 *
 * Of two cgroups with the same share of bytes, one that sends 4 KiB has 32 of 33
 * requests, and one that sends 128 KiB the other.
 */
static inline u64 kf_request_share(u64 requests, u64 requests_sum)
{
	requests = min_t(u64, requests, requests_sum);
	/* Sane products; what is less than a 2^20th counts as that. */
	while (requests_sum >= 1ULL << 34) {
		requests >>= 1;
		requests_sum >>= 1;
	}
	return max_t(u64, div64_u64(requests << KF_SHARE_SHIFT,
				    max_t(u64, requests_sum, 1)),
		     KF_SHARE_ONE >> 20);
}

/* Moves the mean of what requests are charged by a sixteenth of the difference. */
static inline u32 kf_mean_cost_bytes(u32 mean_bytes, u32 cost_bytes)
{
	return mean_bytes + ((s32)(cost_bytes - mean_bytes) >> 4);
}

/* Which part of what it was to have a cgroup did not get. */
static inline u64 kf_permille(u64 lost_bytes, u64 used_bytes)
{
	/* Sane products: 2^50 bytes are more than any device does in a second. */
	lost_bytes = min_t(u64, lost_bytes, 1ULL << 50);
	used_bytes = min_t(u64, used_bytes, 1ULL << 50);
	return div64_u64(lost_bytes * 1000, max_t(u64, lost_bytes + used_bytes, 1));
}

/**
 * kf_inside_most - requests inside that are never exceeded while shares are missed
 * @own: from kf_inside_for(), for the cgroup with the least
 * @least_cost_bytes: of the cgroup whose requests are charged least
 * @most_cost_bytes: of the one whose are charged most
 *
 * At @own the cgroup has its share only while all its requests are inside, all
 * the time: a little less. With large requests among small ones there is no way
 * back from there by small steps: the large ones take each place that the small
 * ones leave for a moment, all take longer for it, and small ones come less
 * often. So not as close to it.
 */
static inline u64 kf_inside_most(u64 own, u32 least_cost_bytes,
				 u32 most_cost_bytes)
{
	return own - own / (most_cost_bytes / 2 > least_cost_bytes ? 8 : 32);
}

/**
 * kf_inside_next - how many requests to let into the device from now on
 * @inside: how many it were; U32_MAX: any
 * @most: from kf_inside_most()
 * @least: from kf_inside_least()
 * @error_permille: by how much the cgroup that is worst off misses its share
 * @saved_permille: the same, with what it missed before and may still have
 * @most_permille: how much of that is tolerated
 *
 * With fewer than @most some of a cgroup's requests wait, and who waits can be
 * chosen. How many fewer depends on how fast its submitter answers, so it is
 * found out: a thirty-second less at a time while a share is missed by more than
 * is tolerated, twice that if by far more, a quarter if most of it is missed;
 * and more while none is missed by half of that, by as much if by next to nothing,
 * else by half as much; down to half of @most, and never below @least. What a
 * cgroup has missed and gets back is no reason for fewer, nor for more before it
 * has it.
 *
 * Return: the number, U32_MAX for any.
 */
static inline u64 kf_inside_next(u64 inside, u64 most, u64 least,
				 u64 error_permille, u64 saved_permille,
				 u64 most_permille)
{
	u64 floor = max_t(u64, least, most / 2);

	if (error_permille > most_permille) {
		if (inside > most)
			inside = most;
		else if (error_permille > 500)
			inside -= inside / 4 + 1;
		else if (error_permille > 4 * most_permille)
			inside -= inside / 16 + 1;
		else
			inside -= inside / 32 + 1;
	} else if (2 * saved_permille < most_permille && inside < most) {
		u64 more = 8 * saved_permille < most_permille ? inside / 32 :
								inside / 64;

		inside = min_t(u64, inside + more + 1, most);
	}
	return clamp_t(u64, inside, floor, U32_MAX);
}

/*
 * A cgroup with so few requests that sharing exactly with it would mean less
 * than a quarter of kf_inside_least() is limited by its own depth, not by
 * others: the device is not emptied for it.
 */
#define KF_INSIDE_HOPELESS	4

/**
 * kf_own_tags - scheduler tags that a cgroup may hold whoever else wants some
 * @nr_tags: tags there are
 * @share: the cgroup's share
 *
 * Tags are handed out to whoever asks next. Without a limit the cgroups that
 * are held back fill all tags with requests that may not be dispatched, and
 * the cgroup with budget finds none. So a cgroup may hold its share of the
 * tags, and more while half of all are free: a device has half as many tags
 * of its own as the scheduler or more, so that one which is active but does
 * not use its share does not keep the device from those who would.
 */
#define KF_TAGS_MIN	2

static inline u32 kf_own_tags(u32 nr_tags, u64 share)
{
	u64 own = (nr_tags * share + KF_SHARE_ONE / 2) >> KF_SHARE_SHIFT;

	return max_t(u32, own, KF_TAGS_MIN);
}

#endif /* _KF_BUDGET_H */
