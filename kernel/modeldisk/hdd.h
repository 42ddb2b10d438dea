/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters of the model `hdd`; what they mean is in hdd.c. */
#ifndef _MD_HDD_H
#define _MD_HDD_H

#include "model.h"

#define MD_HDD_MAX_NS	(1000ULL * 1000 * 1000)

#define MD_HDD_PARAMS(X)							\
	X(rpm, 1000, 30000)			/* revolutions a minute */	\
	X(outer_track_sects, 64, 65536)		/* of an outermost track */	\
	X(zone_permille, 0, 900)		/* an innermost track has less */ \
	X(nr_zones, 1, 256)			/* of tracks of equal size */	\
	X(switch_ns, 0, MD_HDD_MAX_NS)		/* from a track to the next, in a transfer */ \
	X(same_track_ns, 0, MD_HDD_MAX_NS)	/* a seek of length 0 */	\
	X(seek_ns, 0, MD_HDD_MAX_NS)		/* any other seek, and ... */	\
	X(seek_sqrt_ns, 0, MD_HDD_MAX_NS)	/* ... times the root of its stroke */ \
	X(seek_stroke_ns, 0, MD_HDD_MAX_NS)	/* ... times its stroke, 0 to 1 */ \
	X(overhead_ns, 0, MD_HDD_MAX_NS)	/* of a command, before its seek */ \
	X(hit_ns, 0, MD_HDD_MAX_NS)		/* of a read that is in the buffer */ \
	X(link_bytes_per_us, 1, 100000)		/* from the buffer to the host */ \
	X(ahead_sects, 0, 1048576)		/* read ahead, and kept behind */ \
	X(ncq_depth, 1, 256)			/* commands that the firmware sees */ \
	X(guard_ns, 0, MD_HDD_MAX_NS)		/* the firmware adds to a seek */ \
	X(wait_permille, 0, 1000)		/* of a rotational wait that it counts */ \
	X(age_limit_ns, 0, MD_MAX_NS)		/* then a command is next; 0: never */

struct md_hdd_params {
	MD_HDD_PARAMS(MD_PARAM_FIELD)
};

#endif /* _MD_HDD_H */
