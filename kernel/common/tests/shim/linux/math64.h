/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's 64-bit arithmetic. On the kernel's side a quotient that does
 * not fit faults; here it stops the test.
 */
#ifndef SHIM_LINUX_MATH64_H
#define SHIM_LINUX_MATH64_H

#include <stdio.h>
#include <stdlib.h>

#include <linux/types.h>

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline s64 div64_s64(s64 dividend, s64 divisor)
{
	return dividend / divisor;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline s64 div_s64(s64 dividend, s32 divisor)
{
	return dividend / divisor;
}

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 divisor)
{
	unsigned __int128 quotient = (unsigned __int128)a * b / divisor;

	if (quotient > U64_MAX) {
		fprintf(stderr, "mul_u64_u64_div_u64(%llu, %llu, %llu): overflow\n",
			a, b, divisor);
		abort();
	}
	return quotient;
}

static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * b) >> shift);
}

#define DIV_ROUND_UP(n, d)		(((n) + (d) - 1) / (d))
#define DIV64_U64_ROUND_UP(n, d)	({	\
	u64 __divisor = (d);			\
						\
	div64_u64((n) + __divisor - 1, __divisor); \
})

#endif
