/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Numbers as they are written to files of cgroups, sysfs and configfs: pure
 * functions of the text. tests/text_kunit.c checks them, tests/text_fuzz.c
 * fuzzes them.
 */
#ifndef _ISOLIO_TEXT_H
#define _ISOLIO_TEXT_H

#include <linux/errno.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/types.h>

/**
 * text_is_whole - whether the text ends where the write does
 * @text: what was written, and a zero byte behind it
 * @nbytes: how much was written
 *
 * The kernel's string functions stop at the first zero byte: they would take
 * "100\0xxx" as 100. Zero bytes at the end are allowed, because C programs write
 * the one that ends a string.
 */
static inline bool text_is_whole(const char *text, size_t nbytes)
{
	size_t len = strlen(text);

	return len >= nbytes || !memchr_inv(text + len, 0, nbytes - len);
}

/**
 * text_number - a decimal number in a range
 * @text: what was written, and a zero byte behind it
 * @nbytes: how much was written
 * @least: the range's begin
 * @most: the range's end
 * @number: set on success only
 *
 * Return: 0, -EINVAL for what is not a number, -ERANGE for one out of the range.
 */
static inline int text_number(const char *text, size_t nbytes, u64 least, u64 most,
			      u64 *number)
{
	u64 value;
	int ret;

	if (!text_is_whole(text, nbytes))
		return -EINVAL;
	ret = kstrtou64(text, 10, &value);
	if (ret)
		return ret;
	if (value < least || value > most)
		return -ERANGE;
	*number = value;
	return 0;
}

#endif /* _ISOLIO_TEXT_H */
