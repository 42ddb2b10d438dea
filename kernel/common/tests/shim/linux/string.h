/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's string functions that the C library has not. */
#ifndef SHIM_LINUX_STRING_H
#define SHIM_LINUX_STRING_H

#include <string.h>

#include <linux/ctype.h>
#include <linux/types.h>

static inline void *memchr_inv(const void *start, int c, size_t bytes)
{
	const u8 *at = start;

	for (; bytes; at++, bytes--)
		if (*at != (u8)c)
			return (void *)at;
	return NULL;
}

static inline char *skip_spaces(const char *str)
{
	while (isspace(*str))
		str++;
	return (char *)str;
}

/* White space behind is cut off, white space in front is skipped. */
static inline char *strim(char *s)
{
	size_t len = strlen(s);

	while (len && isspace(s[len - 1]))
		len--;
	s[len] = '\0';
	return skip_spaces(s);
}

/* Equal, but for one newline at the end. */
static inline bool sysfs_streq(const char *s1, const char *s2)
{
	while (*s1 && *s1 == *s2) {
		s1++;
		s2++;
	}
	if (*s1 == *s2)
		return true;
	if (!*s1 && *s2 == '\n' && !s2[1])
		return true;
	return *s1 == '\n' && !s1[1] && !*s2;
}

#endif
