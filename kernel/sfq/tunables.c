// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables: the files in /sys/block/DEV/queue/iosched/, their ranges and their
 * defaults. Those of turns are the SFQ paper's.
 */
#include "sfq.h"
#include "text.h"

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

enum sfq_tunable_id {
	SFQ_TUNABLE_SYNC_SELECTIONS,
	SFQ_TUNABLE_TURN_REQUESTS,
	SFQ_TUNABLE_TURN_READS,
	SFQ_TUNABLE_TURN_WRITES,
	SFQ_TUNABLE_READS_FIRST,
	SFQ_TUNABLE_WRITES_INSIDE_PCT,
	SFQ_TUNABLE_QUIET_MS,
	SFQ_TUNABLE_UNIT_KIB,
	SFQ_TUNABLE_PATIENCE_US,
	SFQ_TUNABLE_READ_EXPIRE_MS,
	SFQ_TUNABLE_WRITE_EXPIRE_MS,
};

static const struct sfq_tunable {
	size_t offset;		/* in struct sfq_device: a time of 64 bits, or 32 bits */
	bool is_time;
	u32 unit;		/* of the file, in ns, bytes or pieces */
	u64 least;		/* in that unit */
	u64 most;
} sfq_tunables[] = {
	/* More: asynchronous writes wait longer for processes. */
	[SFQ_TUNABLE_SYNC_SELECTIONS] = {
		offsetof(struct sfq_device, limits.sync_selections), false, 1, 1, 1000
	},
	/* Longer turns: fewer changes of process, and a longer wait for a turn. */
	[SFQ_TUNABLE_TURN_REQUESTS] = {
		offsetof(struct sfq_device, limits.turn_requests), false, 1, 2, 1000
	},
	[SFQ_TUNABLE_TURN_READS] = {
		offsetof(struct sfq_device, limits.turn_reads), false, 1, 1, 1000
	},
	/* More: writes sooner, and a read may have to wait for so many. */
	[SFQ_TUNABLE_TURN_WRITES] = {
		offsetof(struct sfq_device, limits.turn_writes), false, 1, 1, 1000
	},
	/* 0: strictly in turn, as in the SFQ paper. */
	[SFQ_TUNABLE_READS_FIRST] = {
		offsetof(struct sfq_device, reads_first), false, 1, 0, 1
	},
	/* Less: shorter waits behind writes that the device has; 100: no limit. */
	[SFQ_TUNABLE_WRITES_INSIDE_PCT] = {
		offsetof(struct sfq_device, writes_inside_pct), false, 1, 1, 100
	},
	/* So long after the last read, writes get the whole device. */
	[SFQ_TUNABLE_QUIET_MS] = {
		offsetof(struct sfq_device, quiet_ns), true, NSEC_PER_MSEC, 0, 600000
	},
	/* 0: each request counts for one, whatever its size. */
	[SFQ_TUNABLE_UNIT_KIB] = {
		offsetof(struct sfq_device, unit_bytes), false, 1024, 0, 1024
	},
	/* Longer: sfq waits for slower readers, as far as they gain; 0: for none. */
	[SFQ_TUNABLE_PATIENCE_US] = {
		offsetof(struct sfq_device, patience_ns),
		true, NSEC_PER_USEC, 0, USEC_PER_SEC
	},
	/* A request that waited so long is the next of its direction. */
	[SFQ_TUNABLE_READ_EXPIRE_MS] = {
		offsetof(struct sfq_device, expire_ns[SFQ_READ]),
		true, NSEC_PER_MSEC, 1, 600000
	},
	[SFQ_TUNABLE_WRITE_EXPIRE_MS] = {
		offsetof(struct sfq_device, expire_ns[SFQ_WRITE]),
		true, NSEC_PER_MSEC, 1, 600000
	},
};

static ssize_t sfq_tunable_show(struct elevator_queue *e, char *page,
				enum sfq_tunable_id id)
{
	const struct sfq_tunable *st = &sfq_tunables[id];
	void *at = e->elevator_data + st->offset;

	if (!st->is_time)
		return sysfs_emit(page, "%u\n",
				  READ_ONCE(*(u32 *)at) / st->unit);
	return sysfs_emit(page, "%llu\n",
			  div64_u64(READ_ONCE(*(u64 *)at), st->unit));
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

static ssize_t sfq_tunable_store(struct elevator_queue *e, const char *page,
				 size_t count, enum sfq_tunable_id id)
{
	const struct sfq_tunable *st = &sfq_tunables[id];
	struct sfq_device *sd = e->elevator_data;
	void *at = e->elevator_data + st->offset;
	u64 number;
	int ret;

	ret = text_number(page, count, st->least, st->most, &number);
	if (ret)
		return ret;

	spin_lock_irq(&sd->lock);
	if (st->is_time)
		WRITE_ONCE(*(u64 *)at, number * st->unit);
	else
		WRITE_ONCE(*(u32 *)at, number * st->unit);
	sfq_update_turns(sd);
	spin_unlock_irq(&sd->lock);
	return count;
}

#define SFQ_TUNABLE_FNS(name, NAME)					\
static ssize_t sfq_##name##_show(struct elevator_queue *e, char *page)	\
{									\
	return sfq_tunable_show(e, page, SFQ_TUNABLE_##NAME);		\
}									\
									\
static ssize_t sfq_##name##_store(struct elevator_queue *e,		\
				  const char *page, size_t count)	\
{									\
	return sfq_tunable_store(e, page, count, SFQ_TUNABLE_##NAME);	\
}

SFQ_TUNABLE_FNS(sync_selections, SYNC_SELECTIONS)
SFQ_TUNABLE_FNS(turn_requests, TURN_REQUESTS)
SFQ_TUNABLE_FNS(turn_reads, TURN_READS)
SFQ_TUNABLE_FNS(turn_writes, TURN_WRITES)
SFQ_TUNABLE_FNS(reads_first, READS_FIRST)
SFQ_TUNABLE_FNS(writes_inside_pct, WRITES_INSIDE_PCT)
SFQ_TUNABLE_FNS(quiet_ms, QUIET_MS)
SFQ_TUNABLE_FNS(unit_kib, UNIT_KIB)
SFQ_TUNABLE_FNS(patience_us, PATIENCE_US)
SFQ_TUNABLE_FNS(read_expire_ms, READ_EXPIRE_MS)
SFQ_TUNABLE_FNS(write_expire_ms, WRITE_EXPIRE_MS)
#undef SFQ_TUNABLE_FNS

static struct guard *sfq_guard(struct elevator_queue *e)
{
	struct sfq_device *sd = e->elevator_data;

	return sd->guard;
}

GUARD_ATTR_FNS(sfq, age_th)
GUARD_ATTR_FNS(sfq, max_wait_ms)
GUARD_ATTR_FNS(sfq, guard_stat)

#define SFQ_ATTR(name) __ATTR(name, 0644, sfq_##name##_show, sfq_##name##_store)

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
