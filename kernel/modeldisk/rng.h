/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The models' own random numbers: the kernel's differ from boot to boot.
 *
 * SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter and a mix of it,
 * with a period of 2^64, and any seed, 0 as well, is as good as another.
 */
#ifndef _MD_RNG_H
#define _MD_RNG_H

#include <linux/math64.h>
#include <linux/types.h>

struct md_rng {
	u64 state;
};

static inline void md_rng_seed(struct md_rng *rng, u64 seed)
{
	rng->state = seed;
}

/* The mix alone: a hash of @x, the same for the same @x. */
static inline u64 md_hash(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static inline u64 md_rng_next(struct md_rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15ULL;
	return md_hash(rng->state);
}

/* Uniform in 0..@below-1; @below is at least 1. */
static inline u64 md_rng_below(struct md_rng *rng, u64 below)
{
	return mul_u64_u64_shr(md_rng_next(rng), below, 64);
}

/* Uniform in @mean - @spread .. @mean + @spread; @spread is at most @mean. */
static inline u64 md_rng_around(struct md_rng *rng, u64 mean, u64 spread)
{
	return mean - spread + md_rng_below(rng, 2 * spread + 1);
}

/* True @parts of @of times. */
static inline bool md_rng_chance(struct md_rng *rng, u64 parts, u64 of)
{
	return md_rng_below(rng, of) < parts;
}

/*
 * Exponential with mean @mean, by von Neumann's comparison method: integers
 * only, exact but for the 2^-64 of the numbers compared. At most about 10^8
 * times the mean of a nanosecond: @mean below 2^40.
 */
static inline u64 md_rng_exp(struct md_rng *rng, u64 mean)
{
	u64 whole = 0;

	for (;;) {
		u64 first = md_rng_next(rng), last = first, next;
		unsigned int run = 0;

		/* A run of falling numbers; even length: accept the first. */
		while ((next = md_rng_next(rng)) < last) {
			last = next;
			run++;
		}
		if (!(run & 1))
			return whole * mean + mul_u64_u64_shr(first, mean, 64);
		whole++;
	}
}

#endif /* _MD_RNG_H */
