/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_MINMAX_H
#define SHIM_LINUX_MINMAX_H

/* Every argument is evaluated once. */
#define min_t(type, a, b) ({			\
	type __min_a = (a);			\
	type __min_b = (b);			\
						\
	__min_a < __min_b ? __min_a : __min_b;	\
})

#define max_t(type, a, b) ({			\
	type __max_a = (a);			\
	type __max_b = (b);			\
						\
	__max_a > __max_b ? __max_a : __max_b;	\
})

/* The kernel wants one type for both, and so does this. */
#define shim_same_type(a, b) \
	_Static_assert(__builtin_types_compatible_p(typeof(a), typeof(b)), \
		       "min() or max() of different types")

#define min(a, b) ({				\
	shim_same_type((a) + 0, (b) + 0);	\
	min_t(typeof((a) + 0), a, b);		\
})

#define max(a, b) ({				\
	shim_same_type((a) + 0, (b) + 0);	\
	max_t(typeof((a) + 0), a, b);		\
})

#define min3(a, b, c)	min(min(a, b), c)

#define clamp_t(type, val, lo, hi)	min_t(type, max_t(type, val, lo), hi)
#define clamp(val, lo, hi)		min(max(val, lo), hi)

#endif
