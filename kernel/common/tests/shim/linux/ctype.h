/* SPDX-License-Identifier: GPL-2.0-only */
/* As lib/ctype.c has it: ISO 8859-1, in which 0xa0 is a space. */
#ifndef SHIM_LINUX_CTYPE_H
#define SHIM_LINUX_CTYPE_H

#include <linux/types.h>

static inline bool shim_isspace(u8 c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xa0;
}

#define isspace(c)	shim_isspace((u8)(c))

#endif
