/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_BITOPS_H
#define SHIM_LINUX_BITOPS_H

#include <linux/types.h>

/* The number of the last bit set, from 1; 0: none. */
static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* The number of the first bit set, from 0; there is one. */
static inline unsigned long __ffs64(u64 x)
{
	return __builtin_ctzll(x);
}

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

#define GENMASK(high, low)	((~0UL << (low)) & (~0UL >> (63 - (high))))

static inline unsigned long hweight64(u64 x)
{
	return __builtin_popcountll(x);
}

#endif
