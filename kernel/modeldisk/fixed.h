/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the model `fixed`; what they mean is in fixed.c. */
#ifndef _MD_FIXED_H
#define _MD_FIXED_H

#include "model.h"

#define MD_FIXED_PARAMS(X)						\
	X(read_ns, 1, MD_MAX_NS)	/* of a read, without its data */	\
	X(write_ns, 1, MD_MAX_NS)	/* of a write, without its data */	\
	X(other_ns, 0, MD_MAX_NS)	/* of a discard or a flush */		\
	X(parallel, 1, 65536)		/* commands served at a time */	\
	X(bytes_per_us, 0, 1000000)	/* of each server; 0: no limit */

struct md_fixed_params {
	MD_FIXED_PARAMS(MD_PARAM_FIELD)
};

#endif /* _MD_FIXED_H */
