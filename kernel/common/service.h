/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a device takes for so many requests: not on the mean, but so that it
 * seldom takes longer. Pure functions of their arguments; guard.c has the use.
 *
 * A service is the time from one completion to the next while the device is
 * busy. A period of n services, for some n, says what their mean was. Of these
 * means the estimate is what TCP makes of its round trips (RFC 6298): an average
 * that takes an eighth of each new one, and a mean deviation that takes a
 * quarter of each new difference from that average, and is half of the first
 * mean before there is one.
 *
 * Means of n services that have nothing to do with each other deviate by the
 * root of n less than a single service does. So differences are taken times that
 * root: they are of a single service then, and periods may be of any length.
 * What neighbours have in common, as the slow services of a disk that is not
 * fed, is in them: they come from sums.
 *
 * The worst of n services, which deviate from n times the mean by the root of n
 * as much as one does, with TCP's four deviations:
 *
 *   worst(n) = n * mean + 4 * deviation * sqrt(n)
 *
 * Four mean deviations are 3.2 standard deviations of a normal distribution: one
 * sum in 1,400 is longer, and of the requests few take so many services.
 *
 * Worked: periods of 64 services of a disk have a mean of 8.3 ms, from which they
 * differ by 0.23 ms: a single one deviates by 8 * 0.23 = 1.8 ms. 87 services are
 * 722 ms, and 722 + 4 * 1.8 * 9.3 = 789 ms at worst.
 *
 * tests/service_kunit.c checks them, as KUnit and as a userspace program.
 */
#ifndef _ISOLIO_SERVICE_H
#define _ISOLIO_SERVICE_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "age.h"

/* What is known of a device's services. */
struct services {
	u64 mean_ns;		/* 0: nothing yet */
	u64 deviation_ns;	/* mean deviation of a single one */
};

/* A period ended: the device was busy for @busy_ns, with @nr services. */
static inline void services_observe(struct services *s, u64 busy_ns, u32 nr)
{
	u64 mean_ns = max_t(u64, div_u64(busy_ns, nr), 1);
	u64 difference_ns;

	if (!s->mean_ns) {
		s->mean_ns = mean_ns;
		s->deviation_ns = mean_ns / 2;
		return;
	}
	difference_ns = max(mean_ns, s->mean_ns) - min(mean_ns, s->mean_ns);
	s->deviation_ns = (3 * s->deviation_ns + difference_ns * int_sqrt(nr)) / 4;
	s->mean_ns = (7 * s->mean_ns + mean_ns) / 8;
}

/* So long @nr services take at worst. */
static inline u64 services_worst_ns(const struct services *s, u32 nr)
{
	/* The root in units of 1/256. */
	u64 root = int_sqrt64((u64)nr << 16);

	return nr * s->mean_ns + (4 * s->deviation_ns * root >> 8);
}

/* The longest that a request is in flight, by the bound of age.h. */
static inline u64 age_wait_ns(u32 age_th, const struct services *s, u32 depth)
{
	return services_worst_ns(s, age_th + 2 * max_t(u32, depth, 1) - 1);
}

/**
 * age_th_of_wait - the threshold that bounds the time in flight
 * @wait_ns: the bound
 * @s: the measured services of the device
 * @depth: most requests that the device has in flight
 *
 * Return: the largest threshold for which age_wait_ns() is not above that; 1 if
 * there is none.
 */
static inline u32 age_th_of_wait(u64 wait_ns, const struct services *s, u32 depth)
{
	u32 fits = 1, too_large = AGE_TH_MAX + 1;

	while (fits + 1 < too_large) {
		u32 age_th = (fits + too_large) / 2;

		if (age_wait_ns(age_th, s, depth) <= wait_ns)
			fits = age_th;
		else
			too_large = age_th;
	}
	return fits;
}

#endif /* _ISOLIO_SERVICE_H */
