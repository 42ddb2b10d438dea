/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the model `nvme`; what they mean is in nvme.c. */
#ifndef _MD_NVME_H
#define _MD_NVME_H

#include "model.h"

#define MD_NVME_PARAMS(X)						\
	X(channels, 1, 64)						\
	X(dies, 1, 64)			/* of a channel */		\
	X(page_kib, 4, 64)		/* of a die; a multiple of 4 */	\
	X(planes, 1, 8)			/* pages that one program writes */	\
	X(read_ns, 1, MD_MAX_NS)	/* of a page, by a die */	\
	X(read_spread, 0, 1000)		/* of that, up and down, in thousandths */ \
	X(program_ns, 1, MD_MAX_NS)	/* of planes * page_kib, by a die */	\
	X(program_slices, 1, 64)	/* of a program, between which reads pass */ \
	X(channel_ns, 1, MD_MAX_NS)	/* of 4 KiB on a channel */	\
	X(command_ns, 1, MD_MAX_NS)	/* of the controller, for each command */ \
	X(discard_ns, 0, MD_MAX_NS)	/* of it, for a discard besides */	\
	X(read_fixed_ns, 0, MD_MAX_NS)	/* in which nothing is busy */	\
	X(write_fixed_ns, 0, MD_MAX_NS)					\
	X(link_bytes_per_us, 1, 1000000)	/* in each direction */	\
	X(buffer_kib, 8, 1048576)	/* for what is written */	\
	X(random_wa, 1000, 100000)	/* write amplification, in thousandths */ \
	X(streams, 0, 64)		/* sequential writers that are recognised */

struct md_nvme_params {
	MD_NVME_PARAMS(MD_PARAM_FIELD)
};

#endif /* _MD_NVME_H */
