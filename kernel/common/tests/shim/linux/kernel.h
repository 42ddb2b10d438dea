/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_KERNEL_H
#define SHIM_LINUX_KERNEL_H

#include <stdio.h>

#include <linux/minmax.h>
#include <linux/types.h>

/* Always ends the text, and returns what was written, as the kernel's does. */
#define scnprintf(buf, size, ...) ({				\
	int __n = snprintf(buf, size, __VA_ARGS__);		\
								\
	__n < (int)(size) ? __n : (int)(size) - 1;		\
})

/* A number below @ep_ro, by one of 32 bits. */
static inline u32 reciprocal_scale(u32 val, u32 ep_ro)
{
	return (u32)(((u64)val * ep_ro) >> 32);
}

/* The largest number whose square is not above @x. */
static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit = 1UL << (8 * sizeof(x) - 2);

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

static inline u32 int_sqrt64(u64 x)
{
	return int_sqrt(x);
}

#endif
