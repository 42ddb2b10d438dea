/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_U64_STATS_SYNC_H
#define SHIM_LINUX_U64_STATS_SYNC_H

#include <linux/blk-cgroup.h>

#endif
