/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast a disk's own time goes: device time against the kernel's clock.
 *
 * Device time is the kernel's time since `start_ns`, divided by the disk's scale, which is
 * in thousandths here: `milli`, 1000 or more. Both change together while the disk runs, so
 * that device time goes on from where it is: it never goes back, as models need, and what
 * a model has planned happens at the same device time, at the new speed.
 *
 * Worked: after 12 ms at scale 2 a disk is at 6 ms. At scale 6 from then on it
 * started 6 x 6 = 36 ms ago, and an event at 8 ms is 48 ms after that start, which
 * is 12 ms from now instead of 4.
 *
 * start_ns is a point on a circle of 64 bits: a disk that is slowed down may have
 * started before the clock did.
 */
#ifndef _MD_PACE_H
#define _MD_PACE_H

#include <linux/math64.h>
#include <linux/types.h>

#define MD_MILLI	1000ULL

/* Rounded down. The two divisions keep the product within 64 bits. */
static inline u64 md_pace_device_ns(u64 start_ns, u64 milli, u64 now_ns)
{
	u64 rest, whole = div64_u64_rem(now_ns - start_ns, milli, &rest);

	return whole * MD_MILLI + div64_u64(rest * MD_MILLI, milli);
}

/* How long the kernel's clock takes for @device_ns, rounded up: then it is that late. */
static inline u64 md_pace_stretched_ns(u64 milli, u64 device_ns)
{
	u64 rest, whole = div64_u64_rem(device_ns, MD_MILLI, &rest);

	return whole * milli + div64_u64(rest * milli + MD_MILLI - 1, MD_MILLI);
}

/* When it is @device_ns on the disk. */
static inline u64 md_pace_kernel_ns(u64 start_ns, u64 milli, u64 device_ns)
{
	return start_ns + md_pace_stretched_ns(milli, device_ns);
}

/*
 * The start of a disk that is at @device_ns now and goes on at @milli.
 *
 * Return: false if that was too long ago: it could not be told from the future. At
 * scale 1000 that is after 106 days of device time.
 */
static inline bool md_pace_start(u64 device_ns, u64 milli, u64 now_ns, u64 *start_ns)
{
	if (device_ns > div64_u64(~0ULL >> 1, milli) * MD_MILLI)
		return false;
	*start_ns = now_ns - md_pace_stretched_ns(milli, device_ns);
	return true;
}

#endif /* _MD_PACE_H */
