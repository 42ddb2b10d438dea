/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the device can do, and how many requests may be in flight: pure functions of their
 * arguments, as those of clock.h, and tested with them.
 *
 * At the ceiling no cgroup goes: more requests would only wait in the device, where
 * no scheduler chooses their order. The ceiling is a multiple of the bandwidth-delay product:
 * the rate of the device times the time of a request that is alone in it.
 *
 * The product is measured. A probe every ten seconds, or soon after the rate has changed
 * by half, lets one request in at a time for a moment: their times are the time alone.
 * The rate has to be that of a full device. While cgroups wait for each other the device
 * is not full. So if the rate decides whether a cgroup is awaited, a probe also lets all
 * requests in for about two round trips, once a minute. They are charged as ever, so shares
 * stay what they are.
 */
#ifndef _KF_BAND_H
#define _KF_BAND_H

#include "clock.h"
#include "cost.h"

/*
 * The ceiling.
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
	u64 nr_done, nr_quick;		/* since the last look; of those, by kf_quick_ns() */
	u64 rate;			/* completions a second, of a full device */
	u32 alone_us[KF_ALONE_SAMPLES];	/* a ring */
	u32 nr_alone;			/* samples ever; wraps */
	u32 nr_probed;			/* in this probe */
	u32 alone_bytes;		/* the mean size of those */
	u64 alone_ns;			/* their median; 0: not known */
	u64 quiet_ns;			/* of those that waited for nothing; 0: likewise */
};

/*
 * A probe empties the device to see what a request takes, and fills it for the rate if
 * that decides whether a cgroup is awaited. While cgroups wait for each other the
 * device is not full, so its rate does not tell what it can do.
 */
enum kf_band_phase {
	KF_BAND_STEADY,
	KF_BAND_EMPTY,		/* one in flight at a time */
	KF_BAND_FILL,
	KF_BAND_FULL,		/* and the rate counts */
};

struct kf_band {
	struct kf_band_kind kind[KF_NR_KINDS];
	u64 look_ns;			/* when the last look was */
	u64 done_bytes;			/* since then */
	bool was_held;			/* a cgroup had to wait for another since then */
	bool was_full;			/* nearly as many were in flight as may be */
	bool is_busy;			/* from kf_band_is_busy() */
	bool was_slack;			/* filled, it had few in flight */
	bool keeps_out;			/* large requests do, or a group that is owed */
	u64 held_bytes_per_s;		/* at the last look while cgroups waited for each other */
	u64 io_ns;			/* since then, together, while the device is filled */
	u64 bytes_per_s;		/* forgotten slowly */
	u64 full_bytes_per_s;		/* of a full device; 0: not known */
	u64 mean_cost_bytes;
	u32 bdp_milli;			/* thousandths of a request */
	u64 alone_ns;			/* of a request of the mix */
	u32 ceiling;
	u32 nr_all;			/* requests outstanding, rounded up */
	bool must_fill;			/* see kf_band_must_fill() */
	bool turns;			/* the disk says so */
	enum kf_band_phase phase;
	u64 probe_ns;			/* when the probe began, or the device was filled */
	u64 due_ns;			/* when the next one is to */
	u64 probed_ns;			/* when the last one ended */
	u64 probe_took_ns;		/* of that, with the device empty or filled for it */
	u64 fill_ns;			/* not before that is it filled again */
	u32 probe_left;			/* requests until the device is emptied no more */
	u64 rate_seen;			/* soon after the last probe; 0: not yet */
	u32 looks_left;			/* until then */
	u32 nr_other;			/* looks in a row at which it was another */
	u32 nr_probes, nr_fills;
};

/* A look is of so many requests and so long, at least. */
#define KF_LOOK_NS		(90 * NSEC_PER_MSEC)
/* One that is longer has a time without requests. */
#define KF_LOOK_MOST_NS		NSEC_PER_SEC
#define KF_LOOK_NR		32
#define KF_FULL_NR		32U
/* What is known of rates moves by one part in so many at a look. */
#define KF_BAND_RATE_SHIFT	2
#define KF_BAND_BYTES_SHIFT		3

/*
 * Requests collide: three times the product keep all dies of an SSD busy, once it 65 %.
 * What the product does not tell: a disk that turns chooses from its queue, and one that
 * writes from a buffer has reads wait for programs; both do more with every request. So
 * any disk has as many as a SATA disk's queue holds.
 */
#define KF_CEILING_PCT		300
#define KF_CEILING_MIN		32U

/*
 * A probe empties the device until there are so many samples of each kind, or so many
 * requests were served. There is one in this time, or soon after the rate has changed by
 * half; and of all time the device is empty for no more than one part in so many.
 */
#define KF_PROBE_NR		(KF_ALONE_SAMPLES / 2 + 1)
#define KF_PROBE_NR_MAX		(8 * KF_PROBE_NR)
#define KF_PROBE_MISSED		(2U * KF_PROBE_NR)
#define KF_PROBE_NS		(10ULL * NSEC_PER_SEC)
#define KF_PROBE_SOON_NS	(500 * NSEC_PER_MSEC)
/* What one is served in a fill it waits for later: less often. */
#define KF_FILL_NS		(60ULL * NSEC_PER_SEC)
#define KF_PROBE_PART		64
#define KF_PROBE_MOST_NS	NSEC_PER_SEC
/* After so many looks what a probe stopped is served, and another rate is no accident. */
#define KF_PROBE_LOOKS		8U

/* The newest of a ring, the least first. Return: how many. */
static inline u32 kf_ring_sort(const u32 *ring, u32 nr_ever, u32 nr, u32 *sorted)
{
	u32 i, j;

	nr = min3(nr, nr_ever, KF_ALONE_SAMPLES);
	for (i = 0; i < nr; i++) {
		u32 sample = ring[(nr_ever - 1 - i) % KF_ALONE_SAMPLES];

		for (j = i; j && sorted[j - 1] > sample; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = sample;
	}
	return nr;
}

/* Their median; 0: none. */
static inline u32 kf_ring_median(const u32 *ring, u32 nr_ever, u32 nr)
{
	u32 sorted[KF_ALONE_SAMPLES];

	nr = kf_ring_sort(ring, nr_ever, nr, sorted);
	return nr ? sorted[nr / 2] : 0;
}

/* One part in so many of the samples is taken to have waited for nothing. */
#define KF_QUIET_PART		4
/* And so are those that are longer by no more than one part in so many. */
#define KF_QUIET_NEAR		4
/* What was known rises by one part in so many in a probe. */
#define KF_QUIET_RISE		8

/*
 * A disk that was emptied of requests may still write from its buffer, or collect, and most
 * requests of a probe wait for that. So would not those of a cgroup that has a disk of its
 * own. Their time is the median of those that are near the quickest quarter, as long as it
 * has been seen to be of late. On a disk that turns times differ in any case, and the median
 * of all counts.
 */
static inline void kf_band_update_quiet(struct kf_band_kind *kind, bool turns)
{
	u32 sorted[KF_ALONE_SAMPLES], nr, i;
	u64 quiet_ns, most_us;

	if (!kind->nr_probed)
		return;
	if (turns && kind->alone_ns >= KF_TURN_LEAST_NS) {
		kind->quiet_ns = kind->alone_ns;
		return;
	}
	nr = kf_ring_sort(kind->alone_us, kind->nr_alone, KF_ALONE_SAMPLES, sorted);
	most_us = sorted[nr / KF_QUIET_PART];
	most_us += most_us / KF_QUIET_NEAR;
	for (i = 0; i < nr && sorted[i] <= most_us; i++)
		;
	quiet_ns = (u64)sorted[i / 2] * NSEC_PER_USEC;
	if (!kind->quiet_ns || quiet_ns < kind->quiet_ns)
		kind->quiet_ns = quiet_ns;
	else
		kind->quiet_ns += (quiet_ns - kind->quiet_ns) / KF_QUIET_RISE;
}

/*
 * A probe may see none that waited for nothing, where a disk writes from its buffer all the time.
 * But what takes less beside others than was known takes no more alone. So the time falls by one
 * part in so many while a quarter of the requests took less than it will be.
 */
static inline u64 kf_quick_ns(const struct kf_band_kind *kind)
{
	return kind->quiet_ns - kind->quiet_ns / KF_QUIET_RISE;
}

static inline void kf_band_lower_quiet(struct kf_band_kind *kind)
{
	if (kind->nr_done >= KF_PROBE_NR && kind->nr_quick * KF_QUIET_PART > kind->nr_done)
		kind->quiet_ns = kf_quick_ns(kind);
}

/* What reads, writes, and requests of the mix take alone; 0: not known. */
struct kf_alone {
	u64 dir_ns[2], mix_ns;
};

static inline struct kf_alone kf_band_alone(const struct kf_band *band)
{
	struct kf_alone ka = { .mix_ns = band->alone_ns };
	unsigned int dir;

	for (dir = 0; dir < 2; dir++) {
		const struct kf_band_kind *small = &band->kind[dir], *large = &band->kind[dir + 2];
		u64 rate = small->rate + large->rate;

		if (small->quiet_ns && large->quiet_ns && rate)
			ka.dir_ns[dir] = div64_u64(small->rate * small->quiet_ns +
						   large->rate * large->quiet_ns, rate);
		else
			ka.dir_ns[dir] = small->quiet_ns ?: large->quiet_ns;
	}
	return ka;
}

#define KF_SLOW_MILLI_MAX	1000000U
/*
 * What requests of a cgroup take alone, to others of their kind: the median of some, in
 * thousandths. Compared within a probe: a disk may become another meanwhile.
 */
struct kf_slowness {
	u32 ring[KF_ALONE_SAMPLES];
	u32 nr;				/* ever; wraps, but not to 0 */
	u32 milli;			/* the median; 0: not known */
};

/**
 * kf_slowness_account - a request that was alone completed in a probe
 * @ks: slowness of its cgroup
 * @kind: of the device; it has seen the request
 * @io_ns: what it took
 */
static inline void kf_slowness_account(struct kf_slowness *ks, const struct kf_band_kind *kind,
				       u64 io_ns)
{
	u64 like_us = kf_ring_median(kind->alone_us, kind->nr_alone, kind->nr_probed);

	ks->ring[ks->nr % KF_ALONE_SAMPLES] =
		clamp_t(u64, div64_u64(io_ns, max(like_us, 1ULL)), 1, KF_SLOW_MILLI_MAX);
	ks->nr = ks->nr + 1 ?: KF_ALONE_SAMPLES;
	ks->milli = kf_ring_median(ks->ring, ks->nr, KF_ALONE_SAMPLES);
}

/**
 * kf_alone_ns - what a request of a cgroup takes alone in the device
 * @ka: what requests take alone
 * @kp: its price, which has how many reads, and writes, it sends of some
 * @slow_milli: from its slowness
 * @least_ns: the least that one of them took, perhaps beside others; 0: not known
 *
 * Those that are too few for a price count. A write that is synced takes a disk without power-loss
 * protection milliseconds.
 */
static inline u64 kf_alone_ns(const struct kf_alone *ka, const struct kf_price *kp, u32 slow_milli,
			      u64 least_ns)
{
	u64 sum = 0, nr_known = 0, alone_ns = ka->mix_ns;
	unsigned int dir;

	for (dir = 0; dir < 2; dir++) {
		u64 nr = kp->work.nr[dir] + kp->fresh.nr[dir];

		if (!ka->dir_ns[dir])
			continue;
		sum += nr * ka->dir_ns[dir];
		nr_known += nr;
	}
	if (nr_known)
		alone_ns = div64_u64(sum, nr_known);
	if (!slow_milli)
		return max(alone_ns, least_ns);
	return mul_u64_u64_div_u64(alone_ns, slow_milli, 1000);
}

static inline bool kf_differs(u64 a, u64 b)
{
	return max(a, b) - min(a, b) > b / 8;
}

/**
 * kf_model_guess - a model by what requests take alone
 * @km: model, all 0 at first
 * @kind: of the device
 * @turns: the disk says that it turns
 *
 * Return: whether it is another than it was, by more than an eighth.
 */
static inline bool kf_model_guess(struct kf_model *km, const struct kf_band_kind *kind, bool turns)
{
	bool by_large = kind[3].alone_ns && (!kind[1].alone_ns || kind[3].rate > kind[1].rate);
	const struct kf_band_kind *write = &kind[by_large ? 3 : 1];
	const struct kf_band_kind *read = &kind[by_large && kind[2].alone_ns ? 2 : 0];
	u64 first_ns = kind[0].alone_ns ?: kind[1].alone_ns;
	struct kf_model guess = {
		.mib_ps = { KF_MODEL_MIB_PS },
		.io_ps = { KF_MODEL_IO_PS },
	};
	unsigned int dir;
	u32 pct;

	pct = kf_model_write_pct(read->alone_ns, kf_model_ps(&guess, 0, read->alone_bytes),
				 write->alone_ns, kf_model_ps(&guess, 0, write->alone_bytes));
	if (turns && first_ns >= KF_TURN_LEAST_NS) {
		guess.mib_ps[0] = KF_TURN_MIB_PS;
		guess.io_ps[0] = div_u64(min_t(u64, first_ns, NSEC_PER_SEC) * 2000, 3);
		pct = 100;
	}
	guess.io_ps[1] = div_u64(guess.io_ps[0] * pct, 100);
	guess.mib_ps[1] = div_u64(guess.mib_ps[0] * pct, 100);
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		if (kf_differs(guess.io_ps[dir], km->io_ps[dir]))
			break;
	if (dir == KF_NR_DIRS)
		return false;
	*km = guess;
	return true;
}

/*
 * Whether a probe has seen every kind that is an eighth of the load or more, and any that none
 * has seen so far: few requests may be all that a cgroup sends. One that by its
 * rate should have come KF_PROBE_MISSED times by now, and has not, is not part of the load
 * any more: the device is not kept empty for it.
 */
static inline bool kf_band_has_probed(const struct kf_band *band)
{
	u32 nr_probed = KF_PROBE_NR_MAX - band->probe_left;
	u64 sum = 0;
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++)
		sum += band->kind[id].rate;
	for (id = 0; id < KF_NR_KINDS; id++) {
		const struct kf_band_kind *kind = &band->kind[id];

		if (!kind->rate || kind->nr_probed >= KF_PROBE_NR ||
		    (kind->alone_ns && kind->rate * 8 <= sum))
			continue;
		if (kind->nr_probed || kind->rate * nr_probed < KF_PROBE_MISSED * sum)
			return false;
	}
	return sum;
}

/*
 * Which direction is to go next in a probe: reads first, as they take longer after a write that
 * only is in a buffer.
 */
static inline bool kf_band_probes_writes(const struct kf_band *band)
{
	const struct kf_band_kind *kind = band->kind;

	return kind[0].nr_probed + kind[2].nr_probed >= KF_PROBE_NR &&
	       kind[1].nr_probed + kind[3].nr_probed < KF_PROBE_NR;
}

/* No more than so many in flight now. */
static inline u32 kf_band_ceiling(const struct kf_band *band)
{
	return band->phase == KF_BAND_EMPTY ? 1 : band->ceiling;
}

/*
 * Whether so many in flight keep the device reasonably busy. Then its rate is that of a full
 * one, though cgroups wait for each other: less than a fill has shown, where that found a write
 * buffer empty.
 */
#define KF_BUSY_PCT		150
#define KF_BUSY_MIN		8U

static inline bool kf_band_is_busy(const struct kf_band *band, u32 nr_in_flight)
{
	return nr_in_flight >= max_t(u64, (u64)band->bdp_milli * KF_BUSY_PCT / 100000, KF_BUSY_MIN);
}

/*
 * Whether a device that was filled was not full: few of the requests that might have been were
 * in flight, and nothing keeps any out, so the CPU is what is short. Then the device can do what
 * it does, and that is less while cgroups wait for each other, which costs the CPU more.
 */
static inline bool kf_band_is_slack(const struct kf_band *band)
{
	return band->was_slack && !band->keeps_out;
}

/* What the device does when it is full, as far as is known. */
static inline u64 kf_band_full(const struct kf_band *band)
{
	return band->full_bytes_per_s ?: band->bytes_per_s;
}

static inline bool kf_band_fills(const struct kf_band *band)
{
	return band->phase == KF_BAND_FILL || band->phase == KF_BAND_FULL;
}

/* So many requests of a kind completed, some of them quick, and were charged so much. */
static inline void kf_band_count(struct kf_band *band, unsigned int id, u64 nr, u64 nr_quick,
				 u64 cost_bytes)
{
	band->kind[id].nr_done += nr;
	band->kind[id].nr_quick += nr_quick;
	band->done_bytes += cost_bytes;
}

static inline void kf_band_init(struct kf_band *band)
{
	*band = (struct kf_band){
		.ceiling = KF_CEILING_MIN,
		.looks_left = KF_PROBE_LOOKS,
	};
}

/* What completes from now on is another look. */
static inline void kf_band_begin_sample(struct kf_band *band, u64 now_ns)
{
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++) {
		band->kind[id].nr_done = 0;
		band->kind[id].nr_quick = 0;
	}
	band->look_ns = now_ns;
	band->done_bytes = 0;
	band->io_ns = 0;
	band->was_held = false;
	band->was_full = false;
}

/* The device is emptied no more. @is_idle: nothing was there to be held, and it cost nothing. */
static inline void kf_band_end_empty(struct kf_band *band, bool is_idle, u64 now_ns)
{
	unsigned int id;

	if (band->phase != KF_BAND_EMPTY)
		return;
	for (id = 0; id < KF_NR_KINDS; id++)
		kf_band_update_quiet(&band->kind[id], band->turns);
	band->probe_took_ns = is_idle ? 0 : now_ns - band->probe_ns;
}

static inline void kf_band_end_probe(struct kf_band *band, bool is_idle, u64 now_ns)
{
	kf_band_end_empty(band, is_idle, now_ns);
	if (kf_band_fills(band) && !is_idle)
		band->probe_took_ns += now_ns - band->probe_ns;
	band->phase = KF_BAND_STEADY;
	band->probed_ns = now_ns;
	band->due_ns = now_ns + max_t(u64, KF_PROBE_NS, band->probe_took_ns * KF_PROBE_PART);
	band->rate_seen = 0;
	band->nr_other = 0;
	band->looks_left = KF_PROBE_LOOKS;
}

static inline void kf_band_begin_fill(struct kf_band *band, u64 now_ns)
{
	band->phase = KF_BAND_FILL;
	band->fill_ns = now_ns + KF_FILL_NS;
	band->nr_fills++;
	band->probe_ns = now_ns;
}

/*
 * Whether a request that is served now in a probe tells what one of its kind takes alone. Of
 * those that come while others are looked for, the first ones do: later reads wait for the writes
 * that were let in meanwhile.
 */
static inline bool kf_band_samples(const struct kf_band *band, unsigned int id, bool is_alone)
{
	return band->phase == KF_BAND_EMPTY && is_alone &&
	       band->kind[id].nr_probed < KF_PROBE_NR;
}

/**
 * kf_band_done - a request completed in a probe
 * @band: band, not in KF_BAND_STEADY
 * @id: from kf_kind()
 * @bytes: its size
 * @cost_bytes: what it was charged
 * @is_alone: no other was in flight when it was dispatched
 * @io_ns: from dispatch to completion
 * @now_ns: time
 *
 * Return: whether the phase is another now.
 */
static inline bool kf_band_done(struct kf_band *band, unsigned int id, u32 bytes, u32 cost_bytes,
				bool is_alone, u64 io_ns, u64 now_ns)
{
	struct kf_band_kind *kind = &band->kind[id];

	kf_band_count(band, id, 1, 0, cost_bytes);
	band->io_ns += io_ns;
	if (kf_band_samples(band, id, is_alone)) {
		kind->alone_us[kind->nr_alone++ % KF_ALONE_SAMPLES] =
			clamp_t(u64, div_u64(io_ns, NSEC_PER_USEC), 1, U32_MAX);
		kind->alone_ns = (u64)kf_ring_median(kind->alone_us, kind->nr_alone,
						     KF_ALONE_SAMPLES) * NSEC_PER_USEC;
		kind->nr_probed++;
		kind->alone_bytes = kf_mean_cost_bytes(kind->alone_bytes ?: bytes, bytes);
	}
	if (band->phase != KF_BAND_EMPTY || !is_alone ||
	    (--band->probe_left && !kf_band_has_probed(band)))
		return false;
	kf_band_begin_sample(band, now_ns);
	if (band->must_fill && (!band->full_bytes_per_s || now_ns >= band->fill_ns)) {
		kf_band_end_empty(band, false, now_ns);
		kf_band_begin_fill(band, now_ns);
	} else {
		kf_band_end_probe(band, false, now_ns);
	}
	return true;
}

/*
 * A probe that does not end: the submitters went away in it, and the device @is_idle, or a
 * request takes for ever.
 * Return: whether the phase is another now.
 */
static inline bool kf_band_give_up(struct kf_band *band, bool is_idle, u64 now_ns)
{
	u64 most_ns = band->alone_ns ? min_t(u64, KF_PROBE_NR_MAX * band->alone_ns + KF_LEAD_NS,
					     KF_PROBE_MOST_NS) : KF_PROBE_MOST_NS;

	if (band->phase == KF_BAND_STEADY || now_ns - band->probe_ns < most_ns)
		return false;
	/* More than was done so far is not known, but it is not filled again at once. */
	if (kf_band_fills(band))
		band->full_bytes_per_s = max(band->full_bytes_per_s,
					     kf_per_s(band->done_bytes, now_ns - band->look_ns));
	kf_band_begin_sample(band, now_ns);
	kf_band_end_probe(band, is_idle, now_ns);
	return true;
}

static inline void kf_band_begin_probe(struct kf_band *band, u64 now_ns)
{
	unsigned int id;

	band->phase = KF_BAND_EMPTY;
	band->nr_probes++;
	band->probe_ns = now_ns;
	band->probe_left = KF_PROBE_NR_MAX;
	for (id = 0; id < KF_NR_KINDS; id++)
		band->kind[id].nr_probed = 0;
}

/* What is known may be wrong. */
static inline void kf_band_probe_soon(struct kf_band *band)
{
	u64 soon_ns = band->probed_ns + max_t(u64, KF_PROBE_SOON_NS,
					      band->probe_took_ns * KF_PROBE_PART);

	band->due_ns = min(band->due_ns, soon_ns);
}

/* A kind that no probe has seen is an eighth of the load or more. */
static inline bool kf_band_is_unknown(const struct kf_band *band)
{
	u64 sum = 0;
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++)
		sum += band->kind[id].rate;
	for (id = 0; id < KF_NR_KINDS; id++)
		if (band->kind[id].rate * 8 > sum && !band->kind[id].alone_ns)
			return true;
	return false;
}

/* The rate is another than after the last probe: the next one is due soon. */
static inline void kf_band_check_rate(struct kf_band *band, u64 rate)
{
	bool is_other = 2 * rate > 3 * band->rate_seen || 3 * rate < 2 * band->rate_seen;

	if (!band->rate_seen) {
		if (!--band->looks_left)
			band->rate_seen = rate;
		return;
	}
	/* Not at one look: collection stalls a disk for a moment. */
	band->nr_other = is_other ? band->nr_other + 1 : 0;
	if (band->nr_other == KF_PROBE_LOOKS) {
		kf_band_probe_soon(band);
		band->fill_ns = 0;
	}
}

/**
 * kf_band_must_fill - whether what the device can do decides anything
 * @band: band
 * @must_fill: it does
 * @all_milli: requests that all cgroups keep outstanding, thousandths, and may have in the device
 *
 * If it did not so far the next probe is due soon.
 */
static inline void kf_band_must_fill(struct kf_band *band, bool must_fill, u64 all_milli)
{
	if (must_fill && !band->must_fill) {
		kf_band_probe_soon(band);
		band->fill_ns = 0;
	}
	band->must_fill = must_fill;
	band->nr_all = min_t(u64, div_u64(all_milli + 999, 1000), U32_MAX);
}

/*
 * What each kind's rate tells of the device. One that is not full could do more: then
 * rates tell nothing unless they are higher together, but what part of them each kind is.
 */
static inline void kf_band_update_rates(struct kf_band *band, u64 elapsed_ns, u64 rate)
{
	bool is_full = band->was_full || !band->was_held;
	u64 bytes_per_s = kf_per_s(band->done_bytes, elapsed_ns);
	u64 full = band->full_bytes_per_s, known = 0;
	/* For one look more than it can do goes into a buffer that a probe found empty. */
	u64 twice = min(bytes_per_s, band->held_bytes_per_s);
	unsigned int id;

	if (band->phase == KF_BAND_FULL) {
		full = bytes_per_s;
		band->was_slack = 2 * band->io_ns < elapsed_ns * min(band->nr_all, band->ceiling);
		if (kf_band_is_slack(band) && band->held_bytes_per_s)
			full = min(full, band->held_bytes_per_s);
	} else if (full &&
		   (!band->was_held || band->is_busy || kf_band_is_slack(band))) {
		full = full - (full >> KF_BAND_RATE_SHIFT) + (bytes_per_s >> KF_BAND_RATE_SHIFT);
	} else if (full && twice > full) {
		full += (twice - full) >> KF_BAND_RATE_SHIFT;
	}
	band->full_bytes_per_s = full;
	if (band->phase == KF_BAND_STEADY && band->was_held && elapsed_ns < KF_LOOK_MOST_NS)
		band->held_bytes_per_s = bytes_per_s;
	for (id = 0; id < KF_NR_KINDS; id++)
		known += band->kind[id].rate;
	for (id = 0; id < KF_NR_KINDS; id++) {
		struct kf_band_kind *kind = &band->kind[id];
		u64 now = div64_u64(kind->nr_done * NSEC_PER_SEC, elapsed_ns);

		if (!is_full && rate < known)
			now = mul_u64_u64_div_u64(now, known, rate);
		if (band->phase == KF_BAND_FULL || !known || rate > known + known / 2)
			kind->rate = now;
		else
			kind->rate = kind->rate - (kind->rate >> KF_BAND_RATE_SHIFT) +
				     (now >> KF_BAND_RATE_SHIFT);
	}
}

/* A kind that no probe has seen is taken to be as the others. */
static inline void kf_band_set(struct kf_band *band)
{
	u64 bdp_milli = 0, known = 0, rate = 0;
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++) {
		const struct kf_band_kind *kind = &band->kind[id];

		rate += kind->rate;
		if (!kind->alone_ns)
			continue;
		known += kind->rate;
		bdp_milli += mul_u64_u64_div_u64(kind->rate, kind->alone_ns,
						 NSEC_PER_SEC / 1000);
	}
	if (known)
		band->alone_ns = div64_u64(bdp_milli * (NSEC_PER_SEC / 1000), known);
	bdp_milli = mul_u64_u64_div_u64(rate, band->alone_ns, NSEC_PER_SEC / 1000);
	band->bdp_milli = min_t(u64, bdp_milli, U32_MAX);
	band->ceiling = max_t(u64, KF_CEILING_MIN, (u64)band->bdp_milli * KF_CEILING_PCT / 100000);
}

/*
 * Enough completed. While the device is filled, shares are not kept: then once as many
 * as are in flight, and a few more to tell the rate. Where submitters wait for the CPU, what had
 * queued up goes faster than they can send more. So the rate counts after a turn of theirs.
 */
static inline bool kf_band_sample_is_full(const struct kf_band *band, u64 nr_done, u64 elapsed_ns)
{
	u32 nr_in_flight = min(band->nr_all, band->ceiling);

	switch (band->phase) {
	case KF_BAND_EMPTY:
		return false;
	case KF_BAND_FILL:
		return nr_done >= nr_in_flight && elapsed_ns >= KF_LEAD_NS;
	case KF_BAND_FULL:
		return nr_done >= max(nr_in_flight, KF_FULL_NR);
	default:
		return nr_done >= KF_LOOK_NR && elapsed_ns >= KF_LOOK_NS;
	}
}

/**
 * kf_band_update - set the band by what completed since the last look
 * @band: band, from kf_band_init()
 * @may_probe: cgroups share the device, so the product matters
 * @now_ns: time
 *
 * Return: whether enough did.
 */
static inline bool kf_band_update(struct kf_band *band, bool may_probe, u64 now_ns)
{
	u64 elapsed_ns = max_t(s64, now_ns - band->look_ns, 1), nr_done = 0, rate;
	u32 ceiling = band->ceiling;
	unsigned int id;

	for (id = 0; id < KF_NR_KINDS; id++)
		nr_done += band->kind[id].nr_done;
	if (!kf_band_sample_is_full(band, nr_done, elapsed_ns))
		return false;

	rate = div64_u64(nr_done * NSEC_PER_SEC, elapsed_ns);
	band->mean_cost_bytes = div64_u64(band->done_bytes, nr_done);
	band->bytes_per_s = max(kf_per_s(band->done_bytes, elapsed_ns),
				band->bytes_per_s - (band->bytes_per_s >> KF_BAND_BYTES_SHIFT));
	if (band->phase != KF_BAND_FILL)
		kf_band_update_rates(band, elapsed_ns, rate);
	kf_band_set(band);

	for (id = 0; id < KF_NR_KINDS && !band->turns; id++)
		kf_band_lower_quiet(&band->kind[id]);
	if (band->phase == KF_BAND_FILL)
		band->phase = KF_BAND_FULL;
	else if (band->phase == KF_BAND_STEADY)
		kf_band_check_rate(band, rate);
	else if (band->ceiling > ceiling + ceiling / 4 && band->nr_all > ceiling)
		/* It was not full: more will show more. */
		band->phase = KF_BAND_FILL;
	else
		kf_band_end_probe(band, false, now_ns);
	if (kf_band_is_unknown(band))
		kf_band_probe_soon(band);
	if (may_probe && band->phase == KF_BAND_STEADY) {
		if (now_ns >= band->due_ns) {
			kf_band_begin_probe(band, now_ns);
		} else if (band->must_fill && !band->full_bytes_per_s &&
			   now_ns - band->probed_ns >= band->probe_took_ns * KF_PROBE_PART) {
			band->probe_took_ns = 0;
			kf_band_begin_fill(band, now_ns);
		}
	}
	kf_band_begin_sample(band, now_ns);
	return true;
}

#endif /* _KF_BAND_H */
