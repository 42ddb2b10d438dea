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

#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
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

static inline u32 kf_cost_round(u64 cost)
{
	const u64 unit = 1ULL << KF_COST_UNIT_SHIFT;

	return clamp_t(u64, (cost + unit - 1) & ~(unit - 1), unit, KF_COST_MAX);
}

/**
 * kf_cost_bytes - what a request is charged, at least a unit
 * @rate: from kf_rate()
 * @bytes: of the request
 */
static inline u32 kf_cost_bytes(u64 rate, u32 bytes)
{
	return kf_cost_round((u32)rate + ((rate >> 32) * bytes >> KF_RATE_SHIFT));
}

/* How long a device takes, in picoseconds: for a request, for a MiB of it. */
struct kf_model {
	u64 io_ps[KF_NR_DIRS];
	u64 mib_ps[KF_NR_DIRS];
};

#define KF_PS_PER_SEC	1000000000000ULL
#define KF_MIB		1048576ULL

/* What a model that is given may be: 1 TB/s to 100 kB/s, 100 million requests a second to one. */
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

/*
 * The model of a device of which nothing else is known, in the time of an SSD of 3 GB/s: a
 * request is as long as so many bytes. What counts is only what one is to another.
 */
#define KF_MODEL_MIB_PS		349525333ULL
#define KF_MODEL_IO_PS		634667ULL
/*
 * A disk that turns serves one request at a time: one costs its time alone, and its bytes at
 * 150 MB/s. Disks of virtual machines often say that they turn; those are faster than this.
 */
#define KF_TURN_MIB_PS		6990506667ULL
#define KF_TURN_LEAST_NS	(1 * NSEC_PER_MSEC)
/*
 * A write that takes less than half of a read's time is only in a buffer. Flash takes about so
 * many times a read for writes that go on; no write is taken to be more than that.
 */
#define KF_WRITE_BUFFERED_PCT	600U

/* What a request takes by a model, in picoseconds. */
static inline u64 kf_model_ps(const struct kf_model *km, unsigned int dir, u32 bytes)
{
	return km->io_ps[dir] + mul_u64_u64_div_u64(km->mib_ps[dir], bytes, KF_MIB);
}

/**
 * kf_model_write_pct - what a write costs, in percent of a read of its size
 * @read_ns: what a read takes alone; 0: not known
 * @read_ps: what a read of that size costs
 * @write_ns: what a write takes alone; 0: not known
 * @write_ps: what a read of the write's size costs
 *
 * Where sizes differ, a read as large as the write takes more than one of the other size, but
 * not as much more as it costs: a device serves parts of it side by side. It is taken to be
 * in the middle. A device that takes as long for any size is not told from one with a buffer
 * then, and is taken to have one.
 */
static inline u32 kf_model_write_pct(u64 read_ns, u64 read_ps, u64 write_ns, u64 write_ps)
{
	u64 like_ns;

	if (!read_ns || !write_ns)
		return KF_WRITE_BUFFERED_PCT;
	read_ns = min_t(u64, read_ns, U32_MAX);
	like_ns = div64_u64(read_ns * int_sqrt64(write_ps), max_t(u32, int_sqrt64(read_ps), 1));
	if (2 * write_ns < like_ns)
		return KF_WRITE_BUFFERED_PCT;
	return clamp_t(u64, div64_u64(min(write_ns, BIT_ULL(50)) * 100, max(like_ns, 1ULL)), 100,
		       KF_WRITE_BUFFERED_PCT);
}

/* What a cgroup, or a device, did in some time. */
struct kf_work {
	u64 nr[KF_NR_DIRS];
	u64 bytes[KF_NR_DIRS];
};

static inline u64 kf_work_nr(const struct kf_work *kw)
{
	return kw->nr[0] + kw->nr[1];
}

static inline void kf_work_add(struct kf_work *kw, const struct kf_work *more)
{
	unsigned int dir;

	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		kw->nr[dir] += more->nr[dir];
		kw->bytes[dir] += more->bytes[dir];
	}
}

/**
 * kf_work_cost - what some work costs
 * @kw: work
 * @rate: of each direction, from kf_rate()
 */
static inline u64 kf_work_cost(const struct kf_work *kw, const u64 *rate)
{
	u64 cost = 0;
	unsigned int dir;

	for (dir = 0; dir < KF_NR_DIRS; dir++)
		cost += kw->nr[dir] * (u32)rate[dir] +
			mul_u64_u64_shr(kw->bytes[dir], rate[dir] >> 32, KF_RATE_SHIFT);
	return cost;
}

/*
 * Prices. Cgroups that send alike are to have exact shares of the bytes. But reads and writes
 * cost more or less, and by chance one of them sends more writes. So what a byte costs is found
 * for each cgroup, its price, and those whose prices are near to each other are all charged the
 * mean of them. Prices are in bins of an eighth of an octave; near are those in the same bin
 * and in the ones beside it.
 */
struct kf_price {
	struct kf_work work;		/* of some thousand requests, */
	struct kf_work fresh;		/* and since it was last looked at */
};

#define KF_PRICE_SHIFT		10
/* So many requests tell a price, and so many are kept in mind. */
#define KF_PRICE_NR		64
#define KF_PRICE_NR_MAX		4096
/* From a 16th of a byte to 2^24. */
#define KF_PRICE_LOG		6
#define KF_PRICE_BINS		(8 * 28)

struct kf_prices {
	u64 sum[KF_PRICE_BINS];
	u32 nr[KF_PRICE_BINS];
};

/* What a byte of some work costs, with KF_PRICE_SHIFT; 0: too little work. */
static inline u64 kf_price_of(const struct kf_work *kw, const u64 *rate)
{
	u64 bytes = kw->bytes[0] + kw->bytes[1];

	if (kf_work_nr(kw) < KF_PRICE_NR || !bytes)
		return 0;
	return clamp_t(u64, mul_u64_u64_div_u64(kf_work_cost(kw, rate), 1 << KF_PRICE_SHIFT,
						bytes),
		       1 << KF_PRICE_LOG, 1ULL << (KF_PRICE_LOG + 27));
}

static inline unsigned int kf_price_bin(u64 price)
{
	unsigned int log = fls64(price) - 1;

	/* Eighths of the way to twice as much, not quite of an octave. */
	return 8 * (log - KF_PRICE_LOG) + (price >> (log - 3) & 7);
}

/**
 * kf_price_update - what a cgroup's byte costs
 * @kp: price; what it did since the last look is added to its fresh work
 * @rate: of each direction, from kf_rate()
 *
 * One that does something else than before has another price at once.
 */
static inline u64 kf_price_update(struct kf_price *kp, const u64 *rate)
{
	u64 price = kf_price_of(&kp->work, rate), fresh = kf_price_of(&kp->fresh, rate);
	unsigned int dir;

	if (!fresh)
		return price;
	if (fresh > 2 * price || 2 * fresh < price)
		memset(&kp->work, 0, sizeof(kp->work));
	kf_work_add(&kp->work, &kp->fresh);
	memset(&kp->fresh, 0, sizeof(kp->fresh));
	price = kf_price_of(&kp->work, rate);
	if (kf_work_nr(&kp->work) < KF_PRICE_NR_MAX)
		return price;
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		kp->work.nr[dir] /= 2;
		kp->work.bytes[dir] /= 2;
	}
	return price;
}

static inline void kf_prices_add(struct kf_prices *all, u64 price)
{
	unsigned int bin;

	if (!price)
		return;
	bin = kf_price_bin(price);
	all->sum[bin] += price;
	all->nr[bin]++;
}

/* The mean of the prices near to one that is among them; 0: not known. */
static inline u64 kf_prices_near(const struct kf_prices *all, u64 price)
{
	unsigned int bin, i, nr = 0;
	u64 sum = 0;

	if (!price)
		return 0;
	bin = kf_price_bin(price);
	for (i = bin ? bin - 1 : 0; i <= bin + 1 && i < KF_PRICE_BINS; i++) {
		sum += all->sum[i];
		nr += all->nr[i];
	}
	return div64_u64(sum, max(nr, 1U));
}

/* What so many bytes cost at a price that is known. */
static inline u32 kf_price_bytes(u64 price, u32 bytes)
{
	return kf_cost_round(mul_u64_u64_shr(bytes, price, KF_PRICE_SHIFT));
}

#endif /* _KF_COST_H */
