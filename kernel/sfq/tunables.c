// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables: the files in /sys/block/DEV/queue/iosched/, their ranges and their
 * defaults. Those of turns are the SFQ paper's.
 */
#include "sfq.h"
#include "tunable.h"

/* The SFQ paper names none; mq-deadline's, which people know. */
#define SFQ_READ_EXPIRE_NS_DFL	(500 * NSEC_PER_MSEC)
#define SFQ_WRITE_EXPIRE_NS_DFL	(5 * NSEC_PER_SEC)
#define SFQ_WRITES_INSIDE_PCT_DFL	25
/* A process that reads again within this time, such as a person's, is reading. */
#define SFQ_QUIET_NS_DFL	(100 * NSEC_PER_MSEC)

/* Of the SFQ paper's requests. */
#define SFQ_UNIT_KIB_DFL	4
/*
 * More than a program that starts computes between two reads, less than a person
 * takes, or a program that reads for one.
 */
#define SFQ_PATIENCE_NS_DFL	(2 * NSEC_PER_MSEC)

void sfq_tunables_init(struct sfq_device *sd)
{
	sd->limits.sync_selections = 3;
	sd->limits.turn_requests = 3;
	sd->limits.turn_reads = 2;
	sd->limits.turn_writes = 1;
	sd->reads_first = 1;
	sd->writes_inside_pct = SFQ_WRITES_INSIDE_PCT_DFL;
	sd->quiet_ns = SFQ_QUIET_NS_DFL;
	sd->unit_bytes = SFQ_UNIT_KIB_DFL * 1024;
	sd->patience_ns = SFQ_PATIENCE_NS_DFL;
	sd->expire_ns[SFQ_READ] = SFQ_READ_EXPIRE_NS_DFL;
	sd->expire_ns[SFQ_WRITE] = SFQ_WRITE_EXPIRE_NS_DFL;
}

/* Turns go on by the new limits: some are over. */
static void sfq_update_turns(struct sfq_device *sd)
{
	struct sfq_queue *sq, *next;

	lockdep_assert_held(&sd->lock);

	list_for_each_entry_safe(sq, next, &sd->turns, turn_node)
		sfq_queue_update(sd, sq);
	sfq_queue_update(sd, &sd->async);
}

#define SFQ_SET(sd, member, value)			\
do {							\
	spin_lock_irq(&(sd)->lock);			\
	WRITE_ONCE((sd)->member, value);		\
	sfq_update_turns(sd);				\
	spin_unlock_irq(&(sd)->lock);			\
} while (0)
#define SFQ_TUNABLE(name, member, unit, least, most) \
	TUNABLE_FNS(sfq, name, sfq_device, member, unit, least, most, SFQ_SET)

/* More: asynchronous writes wait longer for processes. */
SFQ_TUNABLE(sync_selections, limits.sync_selections, 1, 1, 1000)
/* Longer turns: fewer changes of process, and a longer wait for a turn. */
SFQ_TUNABLE(turn_requests, limits.turn_requests, 1, 2, 1000)
SFQ_TUNABLE(turn_reads, limits.turn_reads, 1, 1, 1000)
/* More: writes sooner, and a read may have to wait for so many. */
SFQ_TUNABLE(turn_writes, limits.turn_writes, 1, 1, 1000)
/* 0: strictly in turn, as in the SFQ paper. */
SFQ_TUNABLE(reads_first, reads_first, 1, 0, 1)
/* Less: shorter waits behind writes that the device has; 100: no limit. */
SFQ_TUNABLE(writes_inside_pct, writes_inside_pct, 1, 1, 100)
/* So long after the last read, writes get the whole device. */
SFQ_TUNABLE(quiet_ms, quiet_ns, NSEC_PER_MSEC, 0, 600000)
/* 0: each request counts for one, whatever its size. */
SFQ_TUNABLE(unit_kib, unit_bytes, 1024, 0, 1024)
/* Longer: sfq waits for slower readers, as far as they gain; 0: for none. */
SFQ_TUNABLE(patience_us, patience_ns, NSEC_PER_USEC, 0, USEC_PER_SEC)
/* A request that waited so long is the next of its direction. */
SFQ_TUNABLE(read_expire_ms, expire_ns[SFQ_READ], NSEC_PER_MSEC, 1, 600000)
SFQ_TUNABLE(write_expire_ms, expire_ns[SFQ_WRITE], NSEC_PER_MSEC, 1, 600000)

static struct guard *sfq_guard(struct elevator_queue *e)
{
	struct sfq_device *sd = e->elevator_data;

	return sd->guard;
}

GUARD_ATTR_FNS(sfq, age_th)
GUARD_ATTR_FNS(sfq, max_wait_ms)
GUARD_ATTR_FNS(sfq, guard_stat)

#define SFQ_ATTR(name)	TUNABLE_ATTR(sfq, name)

isolio_attrs_const struct elv_fs_entry sfq_attrs[] = {
	SFQ_ATTR(sync_selections),
	SFQ_ATTR(turn_requests),
	SFQ_ATTR(turn_reads),
	SFQ_ATTR(turn_writes),
	SFQ_ATTR(reads_first),
	SFQ_ATTR(writes_inside_pct),
	SFQ_ATTR(quiet_ms),
	SFQ_ATTR(unit_kib),
	SFQ_ATTR(patience_us),
	SFQ_ATTR(read_expire_ms),
	SFQ_ATTR(write_expire_ms),
	SFQ_ATTR(age_th),
	SFQ_ATTR(max_wait_ms),
	SFQ_ATTR(guard_stat),
	__ATTR_NULL
};

#undef SFQ_ATTR
