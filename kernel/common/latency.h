/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Latency histograms: pure functions of their arguments. The caller keeps the counts
 * and orders access to them.
 *
 * Buckets are a quarter of an octave wide, from 1 us to 17 s: 96 counts hold any
 * latency a disk can have to within an eighth of it, and finding the bucket takes
 * a bit scan and shifts. What is outside goes to the first or the last one.
 *
 * tests/latency_kunit.c checks them, as KUnit and as a userspace program.
 */
#ifndef _ISOLIO_LATENCY_H
#define _ISOLIO_LATENCY_H

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define LAT_FIRST_SHIFT	10	/* log2 of the first bucket's begin */
#define LAT_NR_BUCKETS	96

static inline unsigned int lat_bucket(u64 ns)
{
	unsigned int octave;

	if (ns < 1ULL << LAT_FIRST_SHIFT)
		return 0;
	octave = fls64(ns) - 1;
	return min_t(unsigned int, LAT_NR_BUCKETS - 1,
		     4 * (octave - LAT_FIRST_SHIFT) + ((ns >> (octave - 2)) & 3));
}

/* Where a bucket begins, and so where the one before it ends. */
static inline u64 lat_bucket_ns(unsigned int bucket)
{
	return (u64)(4 + bucket % 4) << (LAT_FIRST_SHIFT - 2 + bucket / 4);
}

static inline u64 lat_sum(const u32 *nr)
{
	unsigned int bucket;
	u64 sum = 0;

	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
		sum += nr[bucket];
	return sum;
}

/**
 * lat_quantile_ns - the latency that so many of a thousand requests kept to
 * @nr: LAT_NR_BUCKETS counts
 * @permille: 1..1000: 500 is the median, 999 the 99.9th percentile
 *
 * Inside a bucket the requests are taken to be spread evenly. Of what is in
 * the last one, only where it begins is known.
 *
 * Return: 0 if nothing was counted.
 */
static inline u64 lat_quantile_ns(const u32 *nr, unsigned int permille)
{
	u64 rank = div_u64(lat_sum(nr) * permille + 999, 1000);
	unsigned int bucket;
	u64 begin_ns, width_ns;

	if (!rank)
		return 0;
	for (bucket = 0; bucket < LAT_NR_BUCKETS - 1; bucket++) {
		if (rank <= nr[bucket])
			break;
		rank -= nr[bucket];
	}

	begin_ns = lat_bucket_ns(bucket);
	if (bucket == LAT_NR_BUCKETS - 1)
		return begin_ns;
	width_ns = lat_bucket_ns(bucket + 1) - begin_ns;
	/* The middle of the request's place among those of the bucket. */
	return begin_ns + mul_u64_u64_div_u64(width_ns, 2 * rank - 1,
					      2 * (u64)nr[bucket]);
}

#endif /* _ISOLIO_LATENCY_H */
