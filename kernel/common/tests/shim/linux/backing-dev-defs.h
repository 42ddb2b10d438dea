/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_BACKING_DEV_DEFS_H
#define SHIM_LINUX_BACKING_DEV_DEFS_H

#include <linux/workqueue.h>

struct bdi_writeback {
	struct delayed_work dwork;
};

struct backing_dev_info {
	struct bdi_writeback wb;
};

#endif
