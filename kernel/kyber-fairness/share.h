/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of weights, shares, tags and order: pure functions of their arguments.
 * tests/share_kunit.c checks them.
 *
 * Units: costs are bytes, times nanoseconds. A share of the device is a fixed-point
 * number, KF_SHARE_ONE for the whole device. Every division rounds down, so the shares
 * of all cgroups never sum to more than one.
 */
#ifndef _KF_SHARE_H
#define _KF_SHARE_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define KF_SHARE_SHIFT	30
#define KF_SHARE_ONE	0x40000000ULL	/* 2^KF_SHARE_SHIFT */

/* What a request is taken to cost before one was seen, or if it moves no data. */
#define KF_PAGE_BYTES	4096U

#define KF_WEIGHT_MIN	1U
#define KF_WEIGHT_DFL	100U
#define KF_WEIGHT_MAX	10000U
/* "sum": what the active children weigh together. No number can be this. */
#define KF_WEIGHT_SUM	U32_MAX

/**
 * kf_share_of - share of one member of a level of the hierarchy
 * @share: share of the parent, at most KF_SHARE_ONE
 * @weight: weight of the member, at least 1
 * @weight_sum: sum of the weights of the active members, at least @weight
 *
 * Return: the share, not 0: the smallest weight makes progress as well.
 */
static inline u64 kf_share_of(u64 share, u64 weight, u64 weight_sum)
{
	/*
	 * The product has to fit. By rounding down the members lose at least what their
	 * sum loses, so their shares still do not sum to more than one.
	 */
	while (weight_sum >= 1ULL << 34) {
		weight >>= 1;
		weight_sum >>= 1;
	}
	return weight_sum ? max_t(u64, div64_u64(share * weight, weight_sum), 1) : share;
}

/**
 * struct kf_tally - one group in a walk over the active ones, which sums weights
 * @walk: the walk that the others are of, counted from 1
 * @weight: its weight when the walk came to it; a later change is for the next walk
 * @sum: of the weights of its active children, and KF_WEIGHT_DFL for its own requests
 */
struct kf_tally {
	u64 walk;
	u32 weight;
	u64 sum;
};

/**
 * kf_tally_add - the weight of a group's active children grows
 * @t: the group's
 * @walk: this walk
 * @weight: the group's weight now, or KF_WEIGHT_SUM
 * @more: by what its children's weight grows
 *
 * Return: by what the weight of its parent's children grows: its own weight when the walk
 * comes to it, then nothing. A group that weighs what its children do grows as they do.
 */
static inline u64 kf_tally_add(struct kf_tally *t, u64 walk, u32 weight, u64 more)
{
	bool is_first = t->walk != walk;

	if (is_first) {
		t->walk = walk;
		t->weight = weight;
		t->sum = 0;
	}
	/* The sum saturates, and then the parent's grows by no more than this one does. */
	more = min_t(u64, more, U64_MAX - t->sum);
	t->sum += more;
	if (t->weight == KF_WEIGHT_SUM)
		return more;
	return is_first ? t->weight : 0;
}

/* What a group weighs among its siblings, in the walk that its tally is of. */
static inline u64 kf_tally_weight(const struct kf_tally *t)
{
	return t->weight == KF_WEIGHT_SUM ? t->sum : t->weight;
}

/**
 * kf_share_among - share of one of several cgroups that have less than the device
 * @share: its share of the device
 * @shares: the sum of theirs; 0: not known, it has the device
 */
static inline u64 kf_share_among(u64 share, u64 shares)
{
	if (share >= shares)
		return KF_SHARE_ONE;
	return div64_u64(share << KF_SHARE_SHIFT, shares);
}

/* Moves the mean cost of a request by a sixteenth of the difference. */
static inline u32 kf_mean_cost_bytes(u32 mean_bytes, u32 cost_bytes)
{
	return mean_bytes + ((s32)(cost_bytes - mean_bytes) >> 4);
}

/*
 * Scheduler tags go to whichever submitter asks next. Without a limit the throttled cgroups fill
 * all tags with requests that may not be dispatched, and the cgroup that may go finds
 * none. So a cgroup may hold its share of the tags, and more while half of all are free: the
 * scheduler has twice the device's tags or more, so a cgroup that is active but does not use
 * its share does not keep the device from the others.
 *
 * A cgroup is *light* if its share is no more than two tags, or what half of them are for each.
 * Light ones have that, and the others divide the rest. So all together have no more than there
 * are. Where that is not one for each, light ones share half of the tags, as they come.
 */
#define KF_TAGS_MIN	2U
#define KF_TAGS_LIGHT_PCT	50

struct kf_tags {
	u32 nr_active, nr_light;
	u64 light_share;		/* of those that are light, together */
};

/* What a light cgroup may hold; 0: what it finds of half of the tags, and one then. */
static inline u32 kf_light_tags(const struct kf_tags *kt, u32 nr_tags)
{
	return min(KF_TAGS_MIN, nr_tags / (2 * max(kt->nr_active, 1U)));
}

static inline bool kf_tags_are_light(const struct kf_tags *kt, u32 nr_tags, u64 share)
{
	return mul_u64_u64_shr(nr_tags, share, KF_SHARE_SHIFT) <= kf_light_tags(kt, nr_tags);
}

/* One more is active; nr_active is known. */
static inline void kf_tags_add(struct kf_tags *kt, u32 nr_tags, u64 share)
{
	if (!kf_tags_are_light(kt, nr_tags, share))
		return;
	kt->nr_light++;
	kt->light_share += share;
}

/**
 * kf_own_tags - scheduler tags that a cgroup may hold whatever the others want
 * @kt: those that are active
 * @nr_tags: tags there are
 * @share: the cgroup's share
 */
static inline u32 kf_own_tags(const struct kf_tags *kt, u32 nr_tags, u64 share)
{
	u64 each = kf_light_tags(kt, nr_tags), light_tags;

	if (kf_tags_are_light(kt, nr_tags, share))
		return each;
	/* They may be of different times: never less than a light one's. */
	light_tags = min_t(u64, each * kt->nr_light, nr_tags);
	share = kf_share_among(share, KF_SHARE_ONE -
			       min(kt->light_share, KF_SHARE_ONE));
	/* Shares are rounded down: what is almost one more is. */
	return max(((nr_tags - light_tags) * share + KF_SHARE_ONE / 128) >> KF_SHARE_SHIFT,
		   each + 1);
}

#endif /* _KF_SHARE_H */
