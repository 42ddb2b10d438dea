/* SPDX-License-Identifier: GPL-2.0-only */
/* A kernel warning is a failed test here. */
#ifndef SHIM_LINUX_BUG_H
#define SHIM_LINUX_BUG_H

#include <stdio.h>
#include <stdlib.h>

#define WARN_ON_ONCE(condition) ({					\
	bool __warn = (condition);					\
									\
	if (__warn) {							\
		fprintf(stderr, "%s:%d: warning: %s\n", __FILE__,	\
			__LINE__, #condition);				\
		abort();						\
	}								\
	__warn;								\
})

#define WARN_ONCE(condition, ...) ({					\
	bool __warn = (condition);					\
									\
	if (__warn) {							\
		fprintf(stderr, __VA_ARGS__);				\
		abort();						\
	}								\
	__warn;								\
})

#define WARN_ON(condition)	WARN_ON_ONCE(condition)

#endif
