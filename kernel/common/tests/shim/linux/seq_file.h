/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_SEQ_FILE_H
#define SHIM_LINUX_SEQ_FILE_H

#include <linux/blk-cgroup.h>

#endif
