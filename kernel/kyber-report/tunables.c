// SPDX-License-Identifier: GPL-2.0-only
/* The files in queue/iosched/. */
#include "kyber-report.h"
#include "tunable.h"

#define KR_SET(kd, member, value)	WRITE_ONCE((kd)->member, value)
#define KR_TUNABLE(name, member, unit, least, most) \
	TUNABLE_FNS(kr, name, kr_device, member, unit, least, most, KR_SET)
#define KR_ATTR(name)	TUNABLE_ATTR(kr, name)

KR_TUNABLE(read_lat_nsec, domain[KR_READ].target_ns, 1, 1, 10 * NSEC_PER_SEC)
KR_TUNABLE(write_lat_nsec, domain[KR_WRITE].target_ns, 1, 1, 10 * NSEC_PER_SEC)
/* The report's 100 ms. */
KR_TUNABLE(refill_ms, refill_ns, NSEC_PER_MSEC, 1, KR_NS_MAX / NSEC_PER_MSEC)

isolio_attrs_const struct elv_fs_entry kr_attrs[] = {
	KR_ATTR(read_lat_nsec),
	KR_ATTR(write_lat_nsec),
	KR_ATTR(refill_ms),
	__ATTR_NULL
};
