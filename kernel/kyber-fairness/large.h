/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many large requests may be in flight. Pure functions of their arguments;
 * tests/large_kunit.c checks them, and tests/law/ runs them against model disks.
 *
 * The ceiling of band.h counts requests. That is right for small ones. Of a mebibyte
 * each, as a buffered writer's, so many are a second's work of a disk. What another cgroup
 * sends meanwhile waits for them in the device: a journal's write, for which all cgroups
 * wait. It comes to that where the clock throttles no cgroup: one is alone, or no other is
 * awaited, or a probe fills the device.
 *
 * So large requests have ceilings of their own, reads and writes each, by the same rule: a
 * multiple of rate times the time alone. There are few of them among many small ones, and
 * a probe of the band hardly sees any. So the time alone is that of one with no other large
 * one in flight, small ones or not. That is longer than alone in the device, and errs
 * towards more in flight. If a ceiling was
 * reached, there is a probe now and then, of one large request at a time.
 *
 * Example. A disk writes 33 MB/s, so 32 requests of a mebibyte in a second, and one takes
 * 31 ms. The product is one, and three may be in flight. A journal's write waits for 93 ms
 * at most, where it would wait a second for 32.
 *
 * A network's disk takes 10 ms for each, and does 200 at a time. Two in flight are 200
 * a second: a product of two, so the ceiling is six. Then it is 600 a second, and a ceiling of
 * 18, and so on to 600, more than there are tags. Each step is a tenth of a second.
 */
#ifndef _KF_LARGE_H
#define _KF_LARGE_H

#include "band.h"

/* So many may be in flight on any device: while one is served it has the next one. */
#define KF_LARGE_MIN		2U
/* A probe is of so many. */
#define KF_LARGE_PROBE_NR	8U
/* Counts are thousandths; one part in so many is forgotten at a look. */
#define KF_LARGE_COUNT		1000U
#define KF_LARGE_FORGET		8U

/* Large reads, or large writes. */
struct kf_large {
	u64 nr_milli, nr_all_milli;	/* completions of late, and those of all sizes */
	u64 rate;			/* completions a second */
	u64 alone_ns;			/* 0: not known */
	u32 alone_us[KF_LARGE_PROBE_NR];
	u32 nr_alone;			/* in this probe */
	u32 ceiling;
	bool is_probing;
	bool has_probed;		/* since the last look */
	u64 probe_ns;			/* when the probe began, or the next one may */
	u64 look_ns;			/* when the last look was */
};

static inline void kf_large_init(struct kf_large *kl)
{
	*kl = (struct kf_large){ .ceiling = KF_LARGE_MIN };
}

/*
 * A lead is eight requests, at least. So if all are large, as many may be in flight: a disk
 * that turns chooses from its queue, and with three it does 8 % less.
 */
static inline u64 kf_large_least(const struct kf_large *kl)
{
	if (!kl->nr_all_milli)
		return KF_LARGE_MIN;
	return max_t(u64, div64_u64(KF_LEAD_REQUESTS * kl->nr_milli, kl->nr_all_milli),
		     KF_LARGE_MIN);
}

static inline void kf_large_set(struct kf_large *kl)
{
	u64 bdp_milli = mul_u64_u64_div_u64(kl->rate, kl->alone_ns, NSEC_PER_SEC / 1000);

	kl->ceiling = kl->is_probing ? 1 :
		      clamp_t(u64, bdp_milli * KF_CEILING_PCT / 100000, kf_large_least(kl),
			      U32_MAX);
}

/**
 * kf_large_most - how many may be in flight now
 * @ceiling: of large requests; 1 in a probe of theirs
 * @phase: of the band
 *
 * A fill finds what the device can do. Two large ones do not fill one that is fast, so for as
 * long as it takes as many go as a lead is at least.
 */
static inline u32 kf_large_most(u32 ceiling, enum kf_band_phase phase)
{
	if (ceiling < KF_LARGE_MIN || (phase != KF_BAND_FILL && phase != KF_BAND_FULL))
		return ceiling;
	return max_t(u32, ceiling, KF_LEAD_REQUESTS);
}

static inline void kf_large_end_probe(struct kf_large *kl, u64 now_ns)
{
	u32 sorted_us[KF_LARGE_PROBE_NR], i, j;

	for (i = 0; i < kl->nr_alone; i++) {
		for (j = i; j && sorted_us[j - 1] > kl->alone_us[i]; j--)
			sorted_us[j] = sorted_us[j - 1];
		sorted_us[j] = kl->alone_us[i];
	}
	if (kl->nr_alone)
		kl->alone_ns = (u64)sorted_us[kl->nr_alone / 2] * NSEC_PER_USEC;
	kl->is_probing = false;
	kl->has_probed = true;
	kl->probe_ns = now_ns + max_t(u64, KF_PROBE_NS, (now_ns - kl->probe_ns) * KF_PROBE_PART);
	kf_large_set(kl);
}

/**
 * kf_large_done - a large request completed
 * @kl: large requests
 * @start_ns: when it was dispatched
 * @now_ns: time
 *
 * Return: whether a probe ended, so that more may go.
 */
static inline bool kf_large_done(struct kf_large *kl, u64 start_ns, u64 now_ns)
{
	/* Of those dispatched before the probe others were in flight. */
	if (!kl->is_probing || start_ns < kl->probe_ns)
		return false;
	kl->alone_us[kl->nr_alone++] = clamp_t(u64, div_u64(now_ns - start_ns, NSEC_PER_USEC),
					       1, U32_MAX);
	if (kl->nr_alone < KF_LARGE_PROBE_NR)
		return false;
	kf_large_end_probe(kl, now_ns);
	return true;
}

/* What a rate tells: that of a device with fewer in flight than may be is no less. */
static inline void kf_large_update_rate(struct kf_large *kl, u64 rate, bool was_full)
{
	if (rate > kl->rate)
		kl->rate = rate;
	else if (was_full)
		/* There may be a few in a look: one more or less is no other rate. */
		kl->rate -= (kl->rate - rate) >> KF_BAND_BYTES_SHIFT;
}

/**
 * kf_large_update - set the ceiling by what completed since the last look
 * @kl: large requests, from kf_large_init()
 * @nr: large requests that completed since then
 * @nr_all: requests of all sizes
 * @was_full: as many large ones were in flight as may be
 * @now_ns: time
 */
static inline void kf_large_update(struct kf_large *kl, u64 nr, u64 nr_all, bool was_full,
				   u64 now_ns)
{
	u64 elapsed_ns = max_t(s64, now_ns - kl->look_ns, 1);

	kl->look_ns = now_ns;
	kl->nr_milli += nr * KF_LARGE_COUNT - kl->nr_milli / KF_LARGE_FORGET;
	kl->nr_all_milli += nr_all * KF_LARGE_COUNT - kl->nr_all_milli / KF_LARGE_FORGET;
	if (kl->is_probing) {
		/* Its submitters went away, or a request takes for ever. */
		if (now_ns - kl->probe_ns >= KF_PROBE_MOST_NS)
			kf_large_end_probe(kl, now_ns);
		return;
	}
	/* What completed is partly the probe's. */
	if (!kl->has_probed)
		kf_large_update_rate(kl, min_t(u64, div64_u64(nr * NSEC_PER_SEC, elapsed_ns),
					       U32_MAX), was_full);
	kl->has_probed = false;
	if (was_full && now_ns >= kl->probe_ns) {
		kl->is_probing = true;
		kl->nr_alone = 0;
		kl->probe_ns = now_ns;
	}
	kf_large_set(kl);
}

#endif /* _KF_LARGE_H */
