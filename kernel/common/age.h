/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ages of the requests in flight: how often each was bypassed.
 * Pure functions of their arguments; guard.c uses them.
 *
 * The RSD paper (table 2) keeps a counter for each tag. A request's counter begins
 * at minus the number of requests in flight, since those may well complete first.
 * Each completion raises the counter of every request in flight: O(depth) a
 * completion.
 *
 * The same value in closed form. Number dispatches 0, 1, 2, ...; let E of the
 * requests have completed. When request i was dispatched, i had been dispatched
 * before it and E0 of those had completed. So i - E0 were in flight, and the
 * paper's counter begins at E0 - i. Each completion adds one to the counter and
 * one to E. So at any time
 *
 *   age(i) = E - i
 *
 * and no counter is needed for each request. The age is largest for the least i.
 * A request starves when age > age_th, so one starves exactly if the oldest one
 * in flight does.
 *
 * The age is a lower bound of the delay count, which is the number of later
 * requests that completed before this one. Of the E completions, those of earlier
 * requests do not count. Of the i earlier requests, those still in flight have not
 * completed; let B be their number. So
 *
 *   delay(i) = E - (i - B) = age(i) + B
 *
 * Bound on the delay count. Let the device have room for D requests. The gate
 * closes on a completion, with an age of age_th + 1 and at most D - 1 requests in
 * flight: the starving one, B earlier and L later ones, B + L <= D - 2. Only the L
 * later ones can still bypass it, so
 *
 *   delay <= age_th + 1 + B + L <= age_th + D - 1
 *
 * Bound on the time. While the request was in flight and the gate open, age_th + 1
 * requests completed, plus as many as were in flight when it was dispatched, D - 1
 * at most. D - 2 at most complete after that, and then the request itself:
 * age_th + 2 D - 1 services. service.h says how long those take.
 *
 * Worked: depth 31 and age_th 50. A request is dispatched to 30 others, so its age
 * is -30. After 81 completions its age is 51, and the gate closes. Its delay count
 * is at most 80. It took at most 111 services: at 122 a second, 0.91 s.
 *
 * tests/age_kunit.c compares this with the paper's algorithm, as KUnit and as a
 * userspace program.
 */
#ifndef _ISOLIO_AGE_H
#define _ISOLIO_AGE_H

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define AGE_TH_MAX	65536U
/*
 * Numbers from the oldest request in flight to the next one: a power of two. While
 * no request starves, they are at most age_th plus the requests in flight.
 */
#define AGE_WINDOW	(2 * AGE_TH_MAX)
#define AGE_NR_WORDS	(AGE_WINDOW / 64)

/* Histogram of delay counts: below 16 a bucket each, then eight to an octave. */
#define AGE_NR_BUCKETS	128

/* The requests in flight; the caller provides the words. */
struct ages {
	u64 nr_begun;		/* number of the next one */
	u64 nr_ended;
	u64 oldest;		/* its number; nr_begun: there is none */
	u64 *inside;		/* AGE_NR_WORDS; bit i % AGE_WINDOW: i is in flight */
};

static inline u64 ages_inside(const struct ages *a)
{
	return a->nr_begun - a->nr_ended;
}

/* No number is free until the oldest request completes. */
static inline bool ages_full(const struct ages *a)
{
	return a->nr_begun - a->oldest >= AGE_WINDOW;
}

/* The age of the oldest request; the caller knows that there is one. */
static inline s64 ages_oldest(const struct ages *a)
{
	return a->nr_ended - a->oldest;
}

static inline bool ages_starve(const struct ages *a, u32 age_th)
{
	return ages_inside(a) && ages_oldest(a) > (s64)age_th;
}

static inline u64 *ages_word(const struct ages *a, u64 number)
{
	return &a->inside[number / 64 % AGE_NR_WORDS];
}

/* Count a dispatched request. Returns its number. */
static inline u64 ages_begin(struct ages *a)
{
	u64 number = a->nr_begun++;

	*ages_word(a, number) |= BIT_ULL(number % 64);
	return number;
}

/* Requests in flight with numbers from @first to @end - 1. */
static inline u64 ages_count(const struct ages *a, u64 first, u64 end)
{
	u64 nr = 0;

	while (first < end) {
		u64 bits = min_t(u64, 64 - first % 64, end - first);
		u64 word = *ages_word(a, first) >> first % 64;

		nr += hweight64(word << (64 - bits));
		first += bits;
	}
	return nr;
}

/* Requests in flight that were dispatched earlier; counts from the nearer end. */
static inline u64 ages_earlier(const struct ages *a, u64 number)
{
	if (number - a->oldest < a->nr_begun - number)
		return ages_count(a, a->oldest, number);
	return ages_inside(a) - ages_count(a, number, a->nr_begun);
}

/* Advance to the oldest request in flight; each number is passed once. */
static inline void ages_find_oldest(struct ages *a)
{
	while (a->oldest < a->nr_begun) {
		u64 word = *ages_word(a, a->oldest) >> a->oldest % 64;

		if (word) {
			a->oldest += __ffs64(word);
			return;
		}
		a->oldest += 64 - a->oldest % 64;
	}
	a->oldest = a->nr_begun;
}

/* Count a completed request. Returns its delay count. */
static inline u64 ages_end(struct ages *a, u64 number)
{
	u64 delay = a->nr_ended - number + ages_earlier(a, number);

	*ages_word(a, number) &= ~BIT_ULL(number % 64);
	a->nr_ended++;
	if (number == a->oldest)
		ages_find_oldest(a);
	return delay;
}

static inline unsigned int age_bucket(u64 delay)
{
	unsigned int octave;

	if (delay < 16)
		return delay;
	octave = fls64(delay) - 1;
	return min_t(unsigned int, AGE_NR_BUCKETS - 1,
		     8 * (octave - 2) + ((delay >> (octave - 3)) & 7));
}

/* The least delay count of a bucket. */
static inline u64 age_bucket_least(unsigned int bucket)
{
	if (bucket < 16)
		return bucket;
	return (u64)(8 + bucket % 8) << (bucket / 8 - 1);
}

#endif /* _ISOLIO_AGE_H */
