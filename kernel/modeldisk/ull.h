/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the model `ull`; what they mean is in ull.c. */
#ifndef _MD_ULL_H
#define _MD_ULL_H

#include "model.h"

#define MD_ULL_PARAMS(X)						\
	X(units, 1, 256)						\
	X(channels, 1, 256)		/* that the units are divided among */	\
	X(read_ns, 1, MD_MAX_NS)	/* of 4 KiB, by a unit */	\
	X(write_ns, 1, MD_MAX_NS)	/* likewise, or into the buffer */	\
	X(spread, 0, 1000)		/* of both by a unit, in thousandths */	\
	X(move_ns, 0, MD_MAX_NS)	/* of 4 KiB, the unit besides */	\
	X(serial_read_ns, 1, MD_MAX_NS)	/* of 4 KiB, in the controller */	\
	X(serial_write_ns, 1, MD_MAX_NS)				\
	X(discard_ns, 1, MD_MAX_NS)	/* of a discard, there */	\
	X(before_ns, 0, MD_MAX_NS)	/* until the controller has a command */ \
	X(after_ns, 0, MD_MAX_NS)	/* until the host has the answer */	\
	X(outlier_ppm, 0, 1000000)	/* accesses of a unit that take longer */ \
	X(outlier_least_ns, 0, MD_MAX_NS) /* mean of the exponential that they */ \
	X(outlier_most_ns, 0, MD_MAX_NS) /* take longer, from and to */	\
	X(stall_every_ns, 0, MD_MAX_NS)	/* of one channel; 0: never */	\
	X(stall_least_ns, 0, MD_MAX_NS)					\
	X(stall_most_ns, 0, MD_MAX_NS)					\
	X(buffer_kib, 0, 1048576)	/* below 4: writes are done by the units */	\
	X(drain_ns, 1, MD_MAX_NS)	/* of 4 KiB that continue a stream */	\
	X(random_wa, 1000, 100000)	/* that of others, in thousandths of it */ \
	X(suspend_ns, 0, MD_MAX_NS)	/* a read's wait for a program, at most */ \
	X(streams, 0, 64)		/* sequential writers that are recognised */

struct md_ull_params {
	MD_ULL_PARAMS(MD_PARAM_FIELD)
};

#endif /* _MD_ULL_H */
