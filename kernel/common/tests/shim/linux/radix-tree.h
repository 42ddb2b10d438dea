/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_RADIX_TREE_H
#define SHIM_LINUX_RADIX_TREE_H

#include <linux/blk-cgroup.h>

#endif
