/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the model `flash`; what they mean is in flash.c. */
#ifndef _MD_FLASH_H
#define _MD_FLASH_H

#include "model.h"

/* Pages are of 4 KiB. */
#define MD_FLASH_PARAMS(X)						\
	X(channels, 1, 64)						\
	X(dies, 1, 16)			/* of a channel */		\
	X(row_pages, 1, 64)		/* a die reads or programs at a time */ \
	X(block_pages, 8, 4096)		/* erased together, a power of two */ \
	X(op_permille, 1, 1000)		/* over-provisioning, of the size */ \
	X(gc_low, 2, 1024)		/* free blocks of a die: collect below, */ \
	X(gc_high, 2, 4096)		/* until there are so many */	\
	X(read_ns, 1, MD_MAX_NS)	/* of a row */			\
	X(program_ns, 1, MD_MAX_NS)	/* of a row */			\
	X(erase_ns, 0, MD_MAX_NS)	/* of a block */		\
	X(channel_ns, 0, MD_MAX_NS)	/* a page between die and controller */ \
	X(command_ns, 0, MD_MAX_NS)	/* of the controller, one at a time */ \
	X(link_ns, 0, MD_MAX_NS)	/* a page to or from the host */ \
	X(queue_depth, 1, 1024)		/* commands taken; others wait outside */ \
	X(buffer_pages, 0, 65536)	/* 0: a write is done when programmed */ \
	X(reads_first, 0, 1)		/* before writes and collection on a die */ \
	X(fill_pct, 0, 100)		/* of the size, written at the start, */ \
	X(overwrite_pct, 0, 1000)	/* and then so much, at random, in */ \
	X(overwrite_area_permille, 1, 1000)	/* this first part of it */

struct md_flash_params {
	MD_FLASH_PARAMS(MD_PARAM_FIELD)
};

#endif /* _MD_FLASH_H */
