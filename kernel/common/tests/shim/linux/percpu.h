/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A chunk of memory for each CPU, all alike: as in the kernel, a pointer is that of
 * the first CPU, and other CPUs' are so many chunks away. Freed all at once.
 */
#ifndef SHIM_LINUX_PERCPU_H
#define SHIM_LINUX_PERCPU_H

#include <stdlib.h>
#include <string.h>

#include <linux/compiler.h>
#include <linux/smp.h>

#define SHIM_CHUNK_BYTES	(64UL * 1024)

static char *shim_chunks;
static size_t shim_chunk_used;

static inline void *shim_alloc_percpu(size_t bytes)
{
	void *ptr;

	bytes = (bytes + 63) & ~63UL;
	if (!shim_chunks) {
		size_t all = SHIM_CHUNK_BYTES * shim_nr_cpus;

		shim_chunks = aligned_alloc(4096, all);
		memset(shim_chunks, 0, all);
		shim_chunk_used = 0;
	}
	if (shim_chunk_used + bytes > SHIM_CHUNK_BYTES)
		abort();
	ptr = shim_chunks + shim_chunk_used;
	shim_chunk_used += bytes;
	return ptr;
}

static inline void shim_free_chunks(void)
{
	free(shim_chunks);
	shim_chunks = NULL;
}

#define __percpu
#define alloc_percpu(type)		((type *)shim_alloc_percpu(sizeof(type)))
#define free_percpu(ptr)		((void)(ptr))
#define per_cpu_ptr(ptr, cpu) \
	((typeof(ptr))((char *)(ptr) + (size_t)(cpu) * SHIM_CHUNK_BYTES))
#define this_cpu_ptr(ptr)		per_cpu_ptr(ptr, shim_this_cpu())
#define get_cpu_ptr(ptr)		this_cpu_ptr(ptr)
#define put_cpu_ptr(ptr)		((void)(ptr))
/* One instruction, and not a locked one. */
#define this_cpu_add(var, by) do {					\
	typeof(var) *__var = this_cpu_ptr(&(var));			\
									\
	shim_access(__var, SHIM_WRITE);					\
	__atomic_store_n(__var, *__var + (by), __ATOMIC_RELAXED);	\
} while (0)
#define this_cpu_inc(var)		this_cpu_add(var, 1)

#endif
