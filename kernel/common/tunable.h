/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of numbers in /sys/block/DEV/queue/iosched/. Each has the unit of its name, and is
 * kept in that of the code: "quiet_ms" in quiet_ns.
 */
#ifndef _ISOLIO_TUNABLE_H
#define _ISOLIO_TUNABLE_H

#include <linux/math64.h>

#include "text.h"

/**
 * TUNABLE_FNS - the show and store functions of a number
 * @prefix: of the functions' names
 * @name: of the file
 * @type: struct of the elevator's data
 * @member: where in that the number is, of 32 or 64 bits
 * @unit: of the file, in the member's
 * @least: in the file's unit
 * @most: in the file's unit
 * @set: macro of the elevator's data, the member and its new value, that stores it
 */
#define TUNABLE_FNS(prefix, name, type, member, unit, least, most, set)			\
static ssize_t prefix##_##name##_show(struct elevator_queue *e, char *page)		\
{											\
	struct type *data = e->elevator_data;						\
											\
	return sysfs_emit(page, "%llu\n",						\
			  div64_u64(READ_ONCE(data->member), unit));			\
}											\
											\
static ssize_t prefix##_##name##_store(struct elevator_queue *e, const char *page,	\
				       size_t count)					\
{											\
	struct type *data = e->elevator_data;						\
	u64 number;									\
	int ret = text_number(page, count, least, most, &number);			\
											\
	if (ret)									\
		return ret;								\
	set(data, member, number * (unit));						\
	return count;									\
}

/* The entry of a file in elevator_type.elevator_attrs. */
#define TUNABLE_ATTR(prefix, name) \
	__ATTR(name, 0644, prefix##_##name##_show, prefix##_##name##_store)

#endif /* _ISOLIO_TUNABLE_H */
