/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In the place of the compiler's thread sanitizer: what it would be told is counted.
 * Included by ../smp/count.c.
 */
#ifndef SHIM_SANITIZER_CALLS_H
#define SHIM_SANITIZER_CALLS_H

/* What the compiler calls before each access, and in the place of each atomic one. */
#define COUNT_PLAIN(bytes)						\
void __tsan_read##bytes(void *at);					\
void __tsan_read##bytes(void *at)					\
{									\
	smp_count_access((const void *)at, SHIM_READ);				\
}									\
void __tsan_write##bytes(void *at);					\
void __tsan_write##bytes(void *at)					\
{									\
	smp_count_access((const void *)at, SHIM_WRITE);				\
}									\
void __tsan_unaligned_read##bytes(void *at);				\
void __tsan_unaligned_read##bytes(void *at)				\
{									\
	smp_count_access((const void *)at, SHIM_READ);				\
}									\
void __tsan_unaligned_write##bytes(void *at);				\
void __tsan_unaligned_write##bytes(void *at)				\
{									\
	smp_count_access((const void *)at, SHIM_WRITE);				\
}

COUNT_PLAIN(1)
COUNT_PLAIN(2)
COUNT_PLAIN(4)
COUNT_PLAIN(8)
COUNT_PLAIN(16)

#define COUNT_RANGE(name, kind)						\
void __tsan_##name##_range(void *at, size_t bytes);			\
void __tsan_##name##_range(void *at, size_t bytes)			\
{									\
	size_t i;							\
									\
	for (i = 0; i < bytes; i += 64)		\
		smp_count_access((char *)at + i, kind);			\
}

COUNT_RANGE(read, SHIM_READ)
COUNT_RANGE(write, SHIM_WRITE)

#define COUNT_FETCH(bits, name)						\
uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t *at, \
						  uint##bits##_t by, int order); \
uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t *at, \
						  uint##bits##_t by, int order) \
{									\
	(void)order;							\
	smp_count_access((const void *)at, SHIM_RMW);				\
	return __atomic_fetch_##name(at, by, __ATOMIC_SEQ_CST);		\
}

#define COUNT_ATOMIC(bits)						\
uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order); \
uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order) \
{									\
	(void)order;							\
	smp_count_access((const void *)at, SHIM_READ);				\
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);			\
}									\
void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t to, int order); \
void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t to, int order) \
{									\
	(void)order;							\
	smp_count_access((const void *)at, SHIM_WRITE);				\
	__atomic_store_n(at, to, __ATOMIC_SEQ_CST);			\
}									\
uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at, \
					      uint##bits##_t to, int order); \
uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at, \
					      uint##bits##_t to, int order) \
{									\
	(void)order;							\
	smp_count_access((const void *)at, SHIM_RMW);				\
	return __atomic_exchange_n(at, to, __ATOMIC_SEQ_CST);		\
}									\
bool __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, \
						   uint##bits##_t *from, uint##bits##_t to, \
						   int order, int fail_order); \
bool __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, \
						   uint##bits##_t *from, uint##bits##_t to, \
						   int order, int fail_order) \
{									\
	(void)order;							\
	(void)fail_order;						\
	smp_count_access((const void *)at, SHIM_RMW);				\
	return __atomic_compare_exchange_n(at, from, to, false,		\
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
}									\
COUNT_FETCH(bits, add)							\
COUNT_FETCH(bits, sub)							\
COUNT_FETCH(bits, and)							\
COUNT_FETCH(bits, or)

COUNT_ATOMIC(8)
COUNT_ATOMIC(16)
COUNT_ATOMIC(32)
COUNT_ATOMIC(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

#endif
