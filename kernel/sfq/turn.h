/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of sfq: pure functions of their arguments.
 *
 * tests/turn_kunit.c checks them twice from the same source, as KUnit and as a
 * userspace program. Algorithms are those of document 003.
 */
#ifndef _SFQ_TURN_H
#define _SFQ_TURN_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* In the order of rq_data_dir(). */
enum sfq_dir { SFQ_READ, SFQ_WRITE, SFQ_NR_DIRS, SFQ_NEITHER = SFQ_NR_DIRS };

struct sfq_limits {
	u32 sync_selections;	/* turns of processes before one of the async queue */
	u32 turn_requests;	/* in one turn, at least 2 */
	u32 turn_reads;		/* of them, at least 1 */
	u32 turn_writes;	/* of them, at least 1 */
};

/* What has gone in the turn of a queue. */
struct sfq_turn {
	u32 nr_reads;
	u32 nr_writes;
};

/**
 * sfq_turn_next - what a queue may dispatch in its turn (algorithm 3)
 * @limits: how much is in a turn
 * @turn: what has gone
 * @has_reads: the queue has a read
 * @has_writes: it has a write, and that may go
 *
 * Reads come first, then writes. A write that waits is left room: with
 * turn_requests <= turn_reads the document's algorithm would dispatch none.
 *
 * Return: SFQ_NEITHER if that was all: the turn is over.
 */
static inline enum sfq_dir sfq_turn_next(const struct sfq_limits *limits,
					 const struct sfq_turn *turn,
					 bool has_reads, bool has_writes)
{
	u32 nr_left = limits->turn_requests -
		      min(limits->turn_requests, turn->nr_reads + turn->nr_writes);
	bool writes_left = turn->nr_writes < limits->turn_writes;
	u32 nr_kept = has_writes && !turn->nr_writes ? 1 : 0;

	if (has_reads && turn->nr_reads < limits->turn_reads && nr_left > nr_kept)
		return SFQ_READ;
	if (has_writes && writes_left && nr_left)
		return SFQ_WRITE;
	return SFQ_NEITHER;
}

static inline void sfq_turn_add(struct sfq_turn *turn, enum sfq_dir dir)
{
	if (dir == SFQ_READ)
		turn->nr_reads++;
	else
		turn->nr_writes++;
}

/* What the device has been given since the first write of a cycle, in units. */
struct sfq_cycle {
	u64 nr_reads;
	u64 nr_writes;
};

/**
 * sfq_units - how many requests of the document a request counts for
 * @nr_bytes: of data
 * @unit_bytes: size of one; 0: each request is one
 */
static inline u64 sfq_units(u32 nr_bytes, u32 unit_bytes)
{
	return unit_bytes ? max_t(u64, nr_bytes / unit_bytes, 1) : 1;
}

/**
 * sfq_write_is_due - whether a write may go before the reads that wait
 * @limits: turn_writes of the device for turn_reads
 * @cycle: what it has had
 * @reads_wait: a process waits for a read that may go, or will in a moment
 *
 * The 2 : 1 of algorithm 3, for the device: of whatever queues.
 */
static inline bool sfq_write_is_due(const struct sfq_limits *limits,
				    const struct sfq_cycle *cycle, bool reads_wait)
{
	return !reads_wait || cycle->nr_writes < limits->turn_writes ||
	       cycle->nr_reads * limits->turn_writes >=
	       cycle->nr_writes * limits->turn_reads;
}

/* The device is given a request. Idle writers save up nothing: a new cycle. */
static inline void sfq_cycle_add(const struct sfq_limits *limits,
				 struct sfq_cycle *cycle, enum sfq_dir dir,
				 u64 nr_units)
{
	if (dir == SFQ_READ) {
		cycle->nr_reads += nr_units;
		return;
	}
	if (cycle->nr_writes >= limits->turn_writes) {
		cycle->nr_reads = 0;
		cycle->nr_writes = 0;
	}
	cycle->nr_writes += nr_units;
}

/**
 * sfq_think_next - how long a process takes from a read to the next, on average
 * @think_ns: until now
 * @gap_ns: this time
 * @patience_ns: how long a device waits for a read at most
 *
 * A pause counts as four times that: some quick reads make up for it.
 */
static inline u64 sfq_think_next(u64 think_ns, u64 gap_ns, u64 patience_ns)
{
	return (3 * min(think_ns, 4 * patience_ns) +
		min(gap_ns, 4 * patience_ns)) / 4;
}

/* Of a device's queues, who is next. */
enum sfq_pick {
	SFQ_PICK_NOBODY,
	SFQ_PICK_FIRST,		/* the process whose turn it is */
	SFQ_PICK_READER,	/* another process, as that one's write is not due */
	SFQ_PICK_ASYNC,
};

/**
 * sfq_pick - which queue dispatches next (algorithm 2)
 * @limits: sync_selections
 * @nr_selections: turns that processes have begun since the async queue's last,
 *	without those of readers that went before the write of another
 * @async_began: the async queue is in the middle of its turn
 * @async_may: it has a request that may go
 * @first_may: the process whose turn it is has a request that may go
 * @reader_may: some process has a read that may go
 */
static inline enum sfq_pick sfq_pick(const struct sfq_limits *limits,
				     u32 nr_selections, bool async_began,
				     bool async_may, bool first_may,
				     bool reader_may)
{
	if (async_may &&
	    (async_began || nr_selections >= limits->sync_selections))
		return SFQ_PICK_ASYNC;
	if (first_may)
		return SFQ_PICK_FIRST;
	if (reader_may)
		return SFQ_PICK_READER;
	return async_may ? SFQ_PICK_ASYNC : SFQ_PICK_NOBODY;
}

/**
 * sfq_writes_inside_max - how many writes the device may have inside
 * @depth: requests that it takes at all
 * @pct: of them, while somebody reads
 * @idle_ns: since the last read
 * @quiet_ns: after which nobody reads
 */
static inline u32 sfq_writes_inside_max(u32 depth, u32 pct, u64 idle_ns,
					u64 quiet_ns)
{
	u64 part = (u64)depth * pct;

	if (idle_ns >= quiet_ns)
		return depth;
	return max_t(u32, div_u64(part, 100), 1);
}

#endif /* _SFQ_TURN_H */
