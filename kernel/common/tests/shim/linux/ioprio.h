/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_IOPRIO_H
#define SHIM_LINUX_IOPRIO_H

/* As uapi/linux/ioprio.h. */
#define IOPRIO_PRIO_CLASS(ioprio)	(((ioprio) >> 13) & 7)

enum {
	IOPRIO_CLASS_NONE,
	IOPRIO_CLASS_RT,
	IOPRIO_CLASS_BE,
	IOPRIO_CLASS_IDLE,
};

#define get_current_ioprio()		0

#endif
