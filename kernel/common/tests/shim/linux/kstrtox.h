/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As lib/kstrtox.c has it: one plus sign may be in front, one newline at the
 * end, and no white space.
 */
#ifndef SHIM_LINUX_KSTRTOX_H
#define SHIM_LINUX_KSTRTOX_H

#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/types.h>

static inline int kstrtou64(const char *s, unsigned int base, u64 *res)
{
	bool has_digits = false, is_over = false;
	u64 value = 0;

	WARN_ON(base != 10);
	if (*s == '+')
		s++;
	for (; *s >= '0' && *s <= '9'; s++) {
		has_digits = true;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *s - '0', &value))
			is_over = true;
	}
	/* In this order: too many digits are found before what is behind them. */
	if (is_over)
		return -ERANGE;
	if (!has_digits)
		return -EINVAL;
	if (*s == '\n')
		s++;
	if (*s)
		return -EINVAL;
	*res = value;
	return 0;
}

#endif
