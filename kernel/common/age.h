/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ages of the requests that a device has: who was overtaken, and how often.
 * Pure functions of their arguments; guard.c is what uses them.
 *
 * The RSD paper (table 2) has a counter for each tag. It begins at
 * minus the number of requests inside, since those may well complete first, and
 * is raised for every request inside whenever one completes: O(depth) for each.
 *
 * The same value in closed form. Number dispatches 0, 1, 2, ...; let E of them
 * have ended. When the request with the number i came in, i had been before it
 * and E0 of these had ended, so i - E0 were inside: the paper's counter begins
 * at E0 - i. Each request that ends adds one to it and to E. So at any time
 *
 *   age(i) = E - i
 *
 * which nobody has to keep. It is the largest for the least i, so a request
 * starves, which is age > age_th, exactly if the oldest one inside does.
 *
 * The age is the least that the delay count may be (how many later ones ended
 * before it): of all that ended, those that came before it do not count, and of
 * the i that did, those still inside have not ended. So, with B of these,
 *
 *   delay(i) = E - (i - B) = age(i) + B
 *
 * The bound. Let the device have room for D requests. The gate closes when one
 * ends, with an age of age_th + 1, and at most D - 1 inside: the starving one, B
 * earlier and L later ones, B + L <= D - 2. The L are all that may still
 * overtake it, so
 *
 *   delay <= age_th + 1 + B + L <= age_th + D - 1
 *
 * And in time: age_th + 1 + (requests inside when it came, D - 1 at most) ended
 * while it was inside and the gate was open, D - 2 at most after that, and then
 * itself: age_th + 2 D - 1 services. service.h says how long those are.
 *
 * Worked: depth 31 and age_th 50. A request that comes to 30 others has the age
 * -30; 81 completions later it is 51, and the gate closes. Its delay count is 80
 * at most, and it took 111 services: at 122 a second, 0.91 s.
 *
 * tests/age_kunit.c has the paper's algorithm and compares, as KUnit and as a
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
 * Numbers from the oldest request inside to the next one: a power of two. While
 * nobody starves they are at most age_th and the requests inside.
 */
#define AGE_WINDOW	(2 * AGE_TH_MAX)
#define AGE_NR_WORDS	(AGE_WINDOW / 64)

/*
 * Delay counts are counted in buckets of an eighth of an octave, those below
 * 16 each for itself.
 */
#define AGE_NR_BUCKETS	128

/* The requests inside; the words may be anywhere. */
struct ages {
	u64 nr_begun;		/* number of the next one */
	u64 nr_ended;
	u64 oldest;		/* its number; nr_begun: there is none */
	u64 *inside;		/* AGE_NR_WORDS; bit i % AGE_WINDOW: i is inside */
};

static inline u64 ages_inside(const struct ages *a)
{
	return a->nr_begun - a->nr_ended;
}

/* No room for another number: to be held until the oldest one ends. */
static inline bool ages_full(const struct ages *a)
{
	return a->nr_begun - a->oldest >= AGE_WINDOW;
}

/* Of the oldest one. There is one. */
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

/* A request goes to the device. Returns its number. */
static inline u64 ages_begin(struct ages *a)
{
	u64 number = a->nr_begun++;

	*ages_word(a, number) |= BIT_ULL(number % 64);
	return number;
}

/* How many are inside of those with numbers from @first to before @end. */
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

/* Of those that came before; counted from the end that is nearer. */
static inline u64 ages_earlier(const struct ages *a, u64 number)
{
	if (number - a->oldest < a->nr_begun - number)
		return ages_count(a, a->oldest, number);
	return ages_inside(a) - ages_count(a, number, a->nr_begun);
}

/* Go on to the oldest one inside; each number is passed once. */
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

/* A request comes back from the device. Returns its delay count. */
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
