/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bug.h>
#include <linux/types.h>

#define GFP_KERNEL	0U
#define GFP_NOIO	0U
#define GFP_NOWAIT	0U
#define __GFP_NOWARN	0U

/* On lines of its own: what shares a line with what is a matter of the structure. */
static inline void *shim_kzalloc(size_t bytes)
{
	void *ptr;

	if (posix_memalign(&ptr, 64, bytes))
		abort();
	return memset(ptr, 0, bytes);
}

/* What is as large as lines are lies on lines, as in the kernel. */
static inline void *shim_kvcalloc(size_t n, size_t bytes)
{
	return bytes % 64 ? calloc(n, bytes) : shim_kzalloc(n * bytes);
}

#define array_size(n, bytes)		((size_t)(n) * (bytes))
#define kzalloc_node(bytes, gfp, node)	((void)(gfp), (void)(node), shim_kzalloc(bytes))
#define kvzalloc_node(bytes, gfp, node)	kzalloc_node(bytes, gfp, node)
#define kcalloc_node(n, bytes, gfp, node) kzalloc_node(array_size(n, bytes), gfp, node)
#define kmalloc_array(n, bytes, gfp)	((void)(gfp), calloc(n, bytes))
#define kstrndup(text, bytes, gfp)	((void)(gfp), strndup(text, bytes))

#define kzalloc(bytes, gfp)		((void)(gfp), calloc(1, bytes))
#define kvcalloc(n, bytes, gfp)		((void)(gfp), shim_kvcalloc(n, bytes))
#define kvzalloc(bytes, gfp)		((void)(gfp), calloc(1, bytes))
#define kvmalloc_array(n, bytes, gfp)	((void)(gfp), calloc(n, bytes))
#define kfree(ptr)			free(ptr)
#define kvfree(ptr)			free(ptr)

#endif
