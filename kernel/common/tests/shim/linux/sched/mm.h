/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_SCHED_MM_H
#define SHIM_LINUX_SCHED_MM_H

static inline unsigned int memalloc_noio_save(void)
{
	return 0;
}

static inline void memalloc_noio_restore(unsigned int flags)
{
}

#endif
