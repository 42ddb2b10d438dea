/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's single accesses to what others may change meanwhile. Each says what
 * it does to which memory, for tests that count that: see shim_access.h.
 */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#include <shim_access.h>

#define READ_ONCE(x)							\
	(*(shim_access(&(x), SHIM_READ), (const volatile __typeof__(x) *)&(x)))
#define WRITE_ONCE(x, val)						\
	(*(shim_access(&(x), SHIM_WRITE), (volatile __typeof__(x) *)&(x)) = (val))

/* A read that tolerates a race, which only KCSAN looks for: as the expression is. */
#define data_race(expr)	(expr)

#endif
