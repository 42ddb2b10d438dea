/* SPDX-License-Identifier: GPL-2.0-only */
/* Real atomics, all fully ordered: on x86 they are in the kernel as well. */
#ifndef SHIM_LINUX_ATOMIC_H
#define SHIM_LINUX_ATOMIC_H

#include <linux/compiler.h>
#include <linux/types.h>

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define shim_atomic_fetch_add(ptr, by)					\
	(shim_access(ptr, SHIM_RMW), __atomic_fetch_add(ptr, by, __ATOMIC_SEQ_CST))
#define shim_atomic_read(ptr)						\
	(shim_access(ptr, SHIM_READ), __atomic_load_n(ptr, __ATOMIC_RELAXED))
#define shim_atomic_set(ptr, to)					\
	(shim_access(ptr, SHIM_WRITE), __atomic_store_n(ptr, to, __ATOMIC_RELAXED))
#define xchg(ptr, to)							\
	(shim_access(ptr, SHIM_RMW), __atomic_exchange_n(ptr, to, __ATOMIC_SEQ_CST))
#define cmpxchg(ptr, from, to) ({					\
	/* NULL as well, of which kernel code asks for a pointer. */	\
	typeof(*(ptr)) __from = (typeof(*(ptr)))(from);			\
									\
	shim_access(ptr, SHIM_RMW);					\
	__atomic_compare_exchange_n(ptr, &__from, to, false,		\
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	__from;								\
})

#define atomic_read(v)			shim_atomic_read(&(v)->counter)
#define atomic_set(v, i)		shim_atomic_set(&(v)->counter, i)
#define atomic_add(i, v)		((void)shim_atomic_fetch_add(&(v)->counter, i))
#define atomic_sub(i, v)		((void)shim_atomic_fetch_add(&(v)->counter, -(i)))
#define atomic_inc(v)			atomic_add(1, v)
#define atomic_dec(v)			atomic_sub(1, v)
#define atomic_add_return(i, v)		(shim_atomic_fetch_add(&(v)->counter, i) + (i))
#define atomic_inc_return(v)		atomic_add_return(1, v)
#define atomic_dec_return(v)		atomic_add_return(-1, v)
#define atomic_dec_and_test(v)		(!atomic_dec_return(v))
#define atomic_fetch_add(i, v)		shim_atomic_fetch_add(&(v)->counter, i)
#define atomic_xchg(v, i)		xchg(&(v)->counter, i)
#define atomic_cmpxchg(v, old, new)	cmpxchg(&(v)->counter, old, new)
#define atomic_try_cmpxchg(v, old, new)					\
	(shim_access(&(v)->counter, SHIM_RMW),				\
	 __atomic_compare_exchange_n(&(v)->counter, old, new, false,	\
				     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))

#define atomic64_read(v)		shim_atomic_read(&(v)->counter)
#define atomic64_set(v, i)		shim_atomic_set(&(v)->counter, i)
#define atomic64_add(i, v)		((void)shim_atomic_fetch_add(&(v)->counter, (s64)(i)))
#define atomic64_sub(i, v)		((void)shim_atomic_fetch_add(&(v)->counter, -(s64)(i)))
#define atomic64_add_return(i, v) ({					\
	s64 __by = (i);							\
									\
	shim_atomic_fetch_add(&(v)->counter, __by) + __by;		\
})
#define atomic64_inc_return(v)		atomic64_add_return(1, v)
#define atomic64_fetch_add(i, v)	shim_atomic_fetch_add(&(v)->counter, (s64)(i))
#define atomic64_xchg(v, i)		xchg(&(v)->counter, i)
#define atomic64_try_cmpxchg(v, old, new)				\
	(shim_access(&(v)->counter, SHIM_RMW),				\
	 __atomic_compare_exchange_n(&(v)->counter, old, (s64)(new), false, \
				     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))

#define barrier()		__asm__ __volatile__("" ::: "memory")
#define smp_mb()		__sync_synchronize()
#define smp_wmb()		barrier()
#define smp_mb__after_atomic()	barrier()
#define smp_load_acquire(ptr)						\
	(shim_access(ptr, SHIM_READ), __atomic_load_n(ptr, __ATOMIC_ACQUIRE))
#define smp_store_release(ptr, to)					\
	(shim_access(ptr, SHIM_WRITE), __atomic_store_n(ptr, to, __ATOMIC_RELEASE))

/* Bits of an array of longs. */
#define BITS_PER_LONG		64
#define shim_word(nr, addr)	(&((unsigned long *)(addr))[(nr) / BITS_PER_LONG])
#define shim_bit(nr)		(1UL << ((nr) % BITS_PER_LONG))

static inline bool test_bit(unsigned int nr, const unsigned long *addr)
{
	const unsigned long *word = &addr[nr / BITS_PER_LONG];

	shim_access(word, SHIM_READ);
	return __atomic_load_n(word, __ATOMIC_RELAXED) & shim_bit(nr);
}

static inline void set_bit(unsigned int nr, unsigned long *addr)
{
	shim_access(shim_word(nr, addr), SHIM_RMW);
	__atomic_fetch_or(shim_word(nr, addr), shim_bit(nr), __ATOMIC_SEQ_CST);
}

static inline void clear_bit(unsigned int nr, unsigned long *addr)
{
	shim_access(shim_word(nr, addr), SHIM_RMW);
	__atomic_fetch_and(shim_word(nr, addr), ~shim_bit(nr), __ATOMIC_SEQ_CST);
}

static inline bool test_and_set_bit(unsigned int nr, unsigned long *addr)
{
	shim_access(shim_word(nr, addr), SHIM_RMW);
	return __atomic_fetch_or(shim_word(nr, addr), shim_bit(nr), __ATOMIC_SEQ_CST) &
	       shim_bit(nr);
}

/* The next bit that is set, from @from on; @nr: there is none. */
static inline unsigned int shim_next_bit(const unsigned long *addr, unsigned int nr,
					 unsigned int from)
{
	while (from < nr) {
		const unsigned long *word = &addr[from / BITS_PER_LONG];
		unsigned long left;

		shim_access(word, SHIM_READ);
		left = __atomic_load_n(word, __ATOMIC_RELAXED) >> from % BITS_PER_LONG;
		if (left) {
			from += __builtin_ctzl(left);
			return from < nr ? from : nr;
		}
		from = (from / BITS_PER_LONG + 1) * BITS_PER_LONG;
	}
	return nr;
}

#define BITS_TO_LONGS(nr)	(((nr) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define find_next_bit(addr, nr, from)	shim_next_bit(addr, nr, from)

/* These differ by their order alone; a locked operation has all of it. */
#define clear_bit_unlock(nr, addr)	clear_bit(nr, addr)
#define test_and_set_bit_lock(nr, addr)	test_and_set_bit(nr, addr)

#endif
