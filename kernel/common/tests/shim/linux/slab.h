/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bug.h>
#include <linux/types.h>

#define GFP_KERNEL	0U

#define kzalloc(bytes, gfp)		((void)(gfp), calloc(1, bytes))
#define kcalloc(n, bytes, gfp)		((void)(gfp), calloc(n, bytes))
#define kvcalloc(n, bytes, gfp)		((void)(gfp), calloc(n, bytes))
#define kvzalloc(bytes, gfp)		((void)(gfp), calloc(1, bytes))
#define kvmalloc_array(n, bytes, gfp)	((void)(gfp), calloc(n, bytes))
#define kfree(ptr)			free(ptr)
#define kvfree(ptr)			free(ptr)

#endif
