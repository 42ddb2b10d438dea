/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accesses to memory that several CPUs may use. A test that counts them defines
 * SHIM_ACCESS(ptr, kind) before it includes anything; for others they cost nothing.
 *
 * The compiler's thread sanitizer says the same of every access, marked or not. Where
 * its calls are counted, SHIM_ACCESS() is left alone and only locks are told apart,
 * by SHIM_LOCK(ptr).
 */
#ifndef SHIM_ACCESS_H
#define SHIM_ACCESS_H

enum shim_access_kind {
	SHIM_READ,
	SHIM_WRITE,
	SHIM_RMW,	/* a locked operation */
	SHIM_LOCKED,	/* the one that takes a lock */
	SHIM_NR_KINDS,
};

#ifdef SHIM_ACCESS
#define shim_access(ptr, kind)	SHIM_ACCESS(ptr, kind)
#else
#define shim_access(ptr, kind)	((void)0)
#endif

/* What stands for other parts of the kernel is not counted. */
#ifdef __SANITIZE_THREAD__
#define shim_uncounted	__attribute__((no_sanitize("thread")))
#else
#define shim_uncounted
#endif

#endif
