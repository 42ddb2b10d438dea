/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler's files in debugfs, whose table outlives its module.
 *
 * The block layer has each file's inode point into the scheduler's table, and reads the table
 * when the file is closed. A file that is open holds neither scheduler nor module. So another
 * scheduler may be chosen, which removes the file, and the module unloaded; to close the file
 * is then an oops in blk_mq_debugfs_release(). No hook tells a scheduler of the last close. So
 * the table is a copy that is never freed: 200 bytes at most each time a module is loaded.
 *
 * The functions it names are not called for a file that was removed, and its name was copied.
 */
#ifndef _ISOLIO_DEBUGFS_H
#define _ISOLIO_DEBUGFS_H

#include "compat.h"

#if ISOLIO_HAVE_ELEVATOR_DEBUGFS
#include <linux/kmemleak.h>
#include <linux/slab.h>
#include <linux/string.h>

/* A copy of a table, which ends with an entry without a name. */
static inline const struct blk_mq_debugfs_attr *
isolio_debugfs_copy(const struct blk_mq_debugfs_attr *table)
{
	const struct blk_mq_debugfs_attr *end = table;

	while (end->name)
		end++;
	return kmemdup(table, (end + 1 - table) * sizeof(*table), GFP_KERNEL);
}

/**
 * isolio_elv_register - register a scheduler whose files in debugfs may outlive it
 * @e: scheduler, its table in the module
 *
 * Called last in module_init.
 *
 * Return: 0, or what elv_register() says.
 */
static inline int isolio_elv_register(struct elevator_type *e)
{
	int ret;

	/* Without memory there are no files. */
	e->queue_debugfs_attrs = isolio_debugfs_copy(e->queue_debugfs_attrs);
	ret = elv_register(e);
	if (ret) {
		kfree(e->queue_debugfs_attrs);
		return ret;
	}
	kmemleak_not_leak(e->queue_debugfs_attrs);
	return 0;
}
#else
static inline int isolio_elv_register(struct elevator_type *e)
{
	return elv_register(e);
}
#endif

#endif /* _ISOLIO_DEBUGFS_H */
