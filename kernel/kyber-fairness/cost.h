/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a request is charged, by the unit that is shared: pure functions of their
 * arguments; tests/cost_kunit.c checks them.
 *
 * Budgets are in bytes whatever is shared. A request's cost is a number for each
 * request plus so much for each byte of it:
 *
 *   bytes	0, 1
 *   iops	a page, 0
 *   time	as the model of the device says, in bytes of large reads: those
 *		that the device could have read in the time the request takes
 *
 * so that the unit is no question for each request, only two other numbers.
 *
 * The model is linear: a request occupies the device for a time of its own, and
 * for a time for each byte; reads and writes differ. It is about throughput, not
 * latency: an SSD that serves 40 reads of 80 us at once takes 2 us for each.
 */
#ifndef _KF_COST_H
#define _KF_COST_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/* Reads and writes: KF_READ and KF_WRITE. */
#define KF_NR_DIRS	2

/* Bytes charged for a byte are a fixed-point number. */
#define KF_RATE_SHIFT	16
/* A cost is a multiple of this, as many as a request's word has room for. */
#define KF_COST_UNIT_SHIFT	4
#define KF_COST_BITS	23
#define KF_COST_MAX	(((1ULL << KF_COST_BITS) - 1) << KF_COST_UNIT_SHIFT)

/**
 * kf_rate - both numbers of a direction, in a word that is read at once
 * @request_bytes: charged for each request
 * @per_byte: charged for each byte, with KF_RATE_SHIFT
 */
static inline u64 kf_rate(u64 request_bytes, u64 per_byte)
{
	return min_t(u64, request_bytes, KF_COST_MAX) |
	       min_t(u64, per_byte, U32_MAX) << 32;
}

/**
 * kf_cost_bytes - what a request is charged, at least a unit
 * @rate: from kf_rate()
 * @bytes: of the request
 */
static inline u32 kf_cost_bytes(u64 rate, u32 bytes)
{
	const u64 unit = 1ULL << KF_COST_UNIT_SHIFT;
	u64 cost = (u32)rate + ((rate >> 32) * bytes >> KF_RATE_SHIFT);

	return clamp_t(u64, (cost + unit - 1) & ~(unit - 1), unit, KF_COST_MAX);
}

/* How long a device takes, in picoseconds: for a request, for a MiB of it. */
struct kf_model {
	u64 io_ps[KF_NR_DIRS];
	u64 mib_ps[KF_NR_DIRS];
	bool is_scaled;		/* see kf_model_learn() */
};

#define KF_PS_PER_SEC	1000000000000ULL
#define KF_MIB		1048576ULL

/* What a model may be: 1 TB/s to 100 kB/s, 100 million requests a second to one. */
#define KF_BPS_MIN	100000ULL
#define KF_BPS_MAX	1000000000000ULL
#define KF_IOPS_MIN	1ULL
#define KF_IOPS_MAX	100000000ULL

/**
 * kf_model_set - one direction of a model, from what a product's sheet says
 * @km: model
 * @dir: KF_READ or KF_WRITE
 * @bps: bytes a second with large requests
 * @iops: requests of 4 KiB a second
 *
 * As io.cost has it: with more @iops than @bps has room for, requests cost nothing
 * beside their bytes.
 */
static inline void kf_model_set(struct kf_model *km, unsigned int dir, u64 bps,
				u64 iops)
{
	u64 page_ps;

	km->mib_ps[dir] = div64_u64(KF_MIB * KF_PS_PER_SEC, max_t(u64, bps, 1));
	page_ps = div64_u64(KF_PS_PER_SEC, max_t(u64, iops, 1));
	km->io_ps[dir] = page_ps - min_t(u64, page_ps, km->mib_ps[dir] / 256);
}

static inline u64 kf_model_bps(const struct kf_model *km, unsigned int dir)
{
	return div64_u64(KF_MIB * KF_PS_PER_SEC, max_t(u64, km->mib_ps[dir], 1));
}

static inline u64 kf_model_iops(const struct kf_model *km, unsigned int dir)
{
	return div64_u64(KF_PS_PER_SEC,
			 max_t(u64, km->io_ps[dir] + km->mib_ps[dir] / 256, 1));
}

/* The rate of a direction when time is shared. */
static inline u64 kf_model_rate(const struct kf_model *km, unsigned int dir)
{
	u64 mib_ps = max_t(u64, km->mib_ps[0], 1);

	return kf_rate(mul_u64_u64_div_u64(km->io_ps[dir], KF_MIB, mib_ps),
		       mul_u64_u64_div_u64(km->mib_ps[dir], 1ULL << KF_RATE_SHIFT,
					   mib_ps));
}

/* What a device did in a window of time. */
struct kf_work {
	u64 nr[KF_NR_DIRS];
	u64 bytes[KF_NR_DIRS];
};

/* A learnt model's parameters stay in what a model may be. */
static inline u64 kf_model_clamp_ps(u64 ps, bool is_io)
{
	return is_io ? clamp_t(u64, ps, KF_PS_PER_SEC / KF_IOPS_MAX, KF_PS_PER_SEC) :
		       clamp_t(u64, ps, div64_u64(KF_MIB * KF_PS_PER_SEC, KF_BPS_MAX),
			       div64_u64(KF_MIB * KF_PS_PER_SEC, KF_BPS_MIN));
}

/* Steps towards a window that did more than the model allows, and less. */
#define KF_LEARN_FASTER_SHIFT	2
#define KF_LEARN_SLOWER_SHIFT	3
#define KF_LEARN_ONE		65536LL
/* As far as a step goes, of KF_LEARN_ONE; so near is a model of the right scale. */
#define KF_LEARN_STEP_MAX	(KF_LEARN_ONE / 8)

/* A window as the model explains it: for each parameter, in picoseconds. */
struct kf_learn {
	u64 part[2 * KF_NR_DIRS];
	u64 sum;
	/* The same, if a request took as long as 16 KiB longer; see kf_model_learn(). */
	u64 wide[2 * KF_NR_DIRS];
	u64 wide_sum;
};

/* What a request's own time is counted as at least, when it is to be learnt. */
static inline u64 kf_learn_io_ps(const struct kf_model *km, unsigned int dir)
{
	return km->io_ps[dir] + km->mib_ps[dir] / 64;
}

static inline void kf_learn_parts(const struct kf_model *km,
				  const struct kf_work *kw, struct kf_learn *kl)
{
	const u64 most_ps = 1ULL << 60;
	unsigned int dir, i;

	kl->sum = 0;
	kl->wide_sum = 0;
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		u64 nr = min_t(u64, kw->nr[dir], 1 << 20);
		u64 bytes = min_t(u64, kw->bytes[dir], 1ULL << 40);

		kl->part[2 * dir] = nr * km->io_ps[dir];
		kl->wide[2 * dir] = nr * kf_learn_io_ps(km, dir);
		kl->part[2 * dir + 1] = mul_u64_u64_shr(bytes, km->mib_ps[dir], 20);
		kl->wide[2 * dir + 1] = kl->part[2 * dir + 1];
	}
	for (i = 0; i < 2 * KF_NR_DIRS; i++) {
		kl->sum += min_t(u64, kl->part[i], most_ps);
		kl->wide[i] = min_t(u64, kl->wide[i], most_ps);
		kl->wide_sum += kl->wide[i];
	}
}

/* All parameters longer or shorter: what they are to each other remains. */
static inline void kf_learn_scale(struct kf_model *km, u64 sum_ps, u64 window_ps)
{
	u64 factor = clamp_t(u64, mul_u64_u64_div_u64(window_ps, KF_LEARN_ONE, sum_ps),
			     KF_LEARN_ONE / 2, 2 * KF_LEARN_ONE);
	unsigned int dir;

	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		km->io_ps[dir] = kf_model_clamp_ps(mul_u64_u64_shr(km->io_ps[dir], factor, 16),
						   true);
		km->mib_ps[dir] = kf_model_clamp_ps(mul_u64_u64_shr(km->mib_ps[dir], factor, 16),
						    false);
	}
}

/* A parameter's new value, a step of @scale_ps away and no more than an eighth less. */
static inline u64 kf_learn_step(u64 ps, u64 scale_ps, s64 step, bool is_io)
{
	step = clamp_t(s64, step, -KF_LEARN_STEP_MAX, KF_LEARN_STEP_MAX);
	if (step < 0)
		ps -= min_t(u64, mul_u64_u64_shr(scale_ps, -step, 16), ps / 8);
	else
		ps += mul_u64_u64_shr(scale_ps, step, 16);
	return kf_model_clamp_ps(ps, is_io);
}

/**
 * kf_model_learn - let a model be taught by a window of time
 * @km: model
 * @kw: what the device completed in the window
 * @elapsed_ns: how long it was, a second at most
 * @is_full: as many requests were in flight as keep the device busy
 *
 * The device was at it for no longer than the window: a model that says more is
 * too slow, whatever else is true. If it says less and the device was full, it is
 * too fast; that is less sure, and such steps are half as large.
 *
 * A window tells how long a mix of requests takes, not how that divides among
 * them. First, all parameters are scaled until one window fits: disks differ a
 * thousandfold in speed, much less in what a write is to a read. After that the
 * smallest change is made that lets the model meet the window (a normalised LMS
 * filter), small relative to the parameter; a request's own time may be small
 * by chance, so it counts as that of 16 KiB more. What is always the same mix
 * leaves the rest as it was; mixes that differ in time teach all four.
 *
 * Return: whether the model changed.
 */
static inline bool kf_model_learn(struct kf_model *km, const struct kf_work *kw,
				  u64 elapsed_ns, bool is_full)
{
	u64 window_ps = elapsed_ns * 1000, square_sum = 0, off_ps;
	unsigned int dir, i, shift;
	struct kf_learn kl;
	s64 error;

	if (!elapsed_ns || elapsed_ns > NSEC_PER_SEC)
		return false;
	kf_learn_parts(km, kw, &kl);
	if (!kl.sum || (kl.sum <= window_ps && !is_full))
		return false;

	off_ps = kl.sum > window_ps ? kl.sum - window_ps : window_ps - kl.sum;
	if (!km->is_scaled) {
		kf_learn_scale(km, kl.sum, window_ps);
		km->is_scaled = is_full && off_ps < window_ps / 8;
		return true;
	}

	/* From here on everything is in parts of wide_sum. */
	shift = kl.sum > window_ps ? KF_LEARN_FASTER_SHIFT : KF_LEARN_SLOWER_SHIFT;
	error = mul_u64_u64_div_u64(min_t(u64, off_ps, kl.sum), KF_LEARN_ONE,
				    kl.wide_sum);
	if (kl.sum > window_ps)
		error = -error;
	for (i = 0; i < 2 * KF_NR_DIRS; i++) {
		kl.wide[i] = mul_u64_u64_div_u64(kl.wide[i], KF_LEARN_ONE, kl.wide_sum);
		square_sum += kl.wide[i] * kl.wide[i];
	}
	square_sum = max_t(u64, square_sum / KF_LEARN_ONE, 1);
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		s64 io = div64_s64(error * (s64)kl.wide[2 * dir], square_sum);
		s64 mib = div64_s64(error * (s64)kl.wide[2 * dir + 1], square_sum);

		km->io_ps[dir] = kf_learn_step(km->io_ps[dir], kf_learn_io_ps(km, dir),
					       io / (1 << shift), true);
		km->mib_ps[dir] = kf_learn_step(km->mib_ps[dir], km->mib_ps[dir],
						mib / (1 << shift), false);
	}
	return true;
}

#endif /* _KF_COST_H */
