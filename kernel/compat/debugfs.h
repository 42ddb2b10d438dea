/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler's files in debugfs, whose tables outlive its module.
 *
 * The block layer has each file's inode point into the scheduler's table, and reads the table
 * when the file is closed. A file that is open holds neither scheduler nor module. So another
 * scheduler may be chosen, which removes the file, and the module unloaded; to close the file
 * is then an oops in blk_mq_debugfs_release(). No hook tells a scheduler of the last close. So
 * the tables are copies that are never freed: 300 bytes at most each time a module is loaded.
 *
 * The functions they name are not called for a file that was removed, and its name was copied.
 */
#ifndef _ISOLIO_DEBUGFS_H
#define _ISOLIO_DEBUGFS_H

#include "compat.h"

#if ISOLIO_HAVE_ELEVATOR_DEBUGFS
#include <linux/kmemleak.h>
#include <linux/slab.h>
#include <linux/string.h>

/* A copy of a table, which ends with an entry without a name; of none, none. */
static inline const struct blk_mq_debugfs_attr *
isolio_debugfs_copy(const struct blk_mq_debugfs_attr *table)
{
	const struct blk_mq_debugfs_attr *end = table;

	if (!table)
		return NULL;
	while (end->name)
		end++;
	return kmemdup(table, (end + 1 - table) * sizeof(*table), GFP_KERNEL);
}

/**
 * isolio_elv_register - register a scheduler whose files in debugfs may outlive it
 * @e: scheduler, its tables in the module
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
	e->hctx_debugfs_attrs = isolio_debugfs_copy(e->hctx_debugfs_attrs);
	ret = elv_register(e);
	if (ret) {
		kfree(e->queue_debugfs_attrs);
		kfree(e->hctx_debugfs_attrs);
		return ret;
	}
	kmemleak_not_leak(e->queue_debugfs_attrs);
	kmemleak_not_leak(e->hctx_debugfs_attrs);
	return 0;
}
#else
static inline int isolio_elv_register(struct elevator_type *e)
{
	return elv_register(e);
}
#endif

#endif /* _ISOLIO_DEBUGFS_H */
