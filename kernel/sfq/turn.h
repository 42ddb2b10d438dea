/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of sfq: pure functions of their arguments.
 *
 * tests/turn_kunit.c checks them twice from the same source, as KUnit and as a
 * userspace program. Algorithms are those of the SFQ paper.
 */
#ifndef _SFQ_TURN_H
#define _SFQ_TURN_H

#include <linux/compiler.h>
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
	/* It was selected first, and so counts for the asynchronous queue's next turn. */
	bool is_counted;
};

/**
 * sfq_turn_next - what a queue may dispatch in its turn (algorithm 3)
 * @limits: how much is in a turn
 * @turn: what has gone
 * @has_reads: the queue has a read
 * @has_writes: it has a write, and that may go
 *
 * Reads come first, then writes. A write that waits is left room: with
 * turn_requests <= turn_reads the SFQ paper's algorithm would dispatch none.
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
 * sfq_units - how many requests of the SFQ paper a request counts for
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

#define SFQ_MEAN_NR		32U	/* samples of a mean */
#define SFQ_READS_KNOWN_NR	16U	/* fewer tell nothing */
#define SFQ_READS_OLD_NR	512U	/* so many reads later, nor does a mean */
#define SFQ_READS_TRIED_NR	64U	/* so many are not waited for to find one */

/* Of about the last SFQ_MEAN_NR. */
struct sfq_mean {
	u64 ns;
	u32 nr;			/* samples, at most SFQ_MEAN_NR */
};

/* Among what a read came into the device. */
enum sfq_among { SFQ_AMONG_SOME, SFQ_AMONG_NONE, SFQ_AMONG_MOST };

/* How long the device takes for reads, by how many writes it has. */
struct sfq_reads {
	struct sfq_mean none;	/* no write in flight */
	struct sfq_mean most;	/* as many as may be */
	u32 nr_since_none;	/* at stake, since the last one with no write in flight */
	u32 nr_untold;		/* at stake, while most is not known */
};

/* Others may do it at the same time: then one of the samples is lost. */
static inline void sfq_mean_add(struct sfq_mean *mean, u64 ns)
{
	u64 mean_ns = READ_ONCE(mean->ns);
	u32 nr = min(READ_ONCE(mean->nr) + 1, SFQ_MEAN_NR);

	if (ns > mean_ns)
		mean_ns += div_u64(ns - mean_ns, nr);
	else
		mean_ns -= div_u64(mean_ns - ns, nr);
	WRITE_ONCE(mean->ns, mean_ns);
	WRITE_ONCE(mean->nr, nr);
}

/**
 * sfq_reads_add - the device is done with a read
 * @reads: how long it takes for them
 * @among: the writes that it had when this one came
 * @ns: how long this one took
 * @is_at_stake: writes that could be in flight with the next one wait, and may have to
 *	wait for it
 */
static inline void sfq_reads_add(struct sfq_reads *reads, enum sfq_among among,
				 u64 ns, bool is_at_stake)
{
	bool is_most_known;
	u32 nr;

	if (among == SFQ_AMONG_MOST)
		sfq_mean_add(&reads->most, ns);
	is_most_known = READ_ONCE(reads->most.nr) >= SFQ_READS_KNOWN_NR;
	if (is_at_stake && !is_most_known) {
		nr = READ_ONCE(reads->nr_untold) + 1;
		WRITE_ONCE(reads->nr_untold,
			   nr % (SFQ_READS_OLD_NR + SFQ_READS_TRIED_NR));
	}
	if (among == SFQ_AMONG_NONE) {
		sfq_mean_add(&reads->none, ns);
		WRITE_ONCE(reads->nr_since_none, 0);
		return;
	}
	if (!is_at_stake)
		return;
	/* Without patience all reads are of this kind. */
	nr = READ_ONCE(reads->nr_since_none) + 1;
	if (nr >= SFQ_READS_OLD_NR) {
		if (is_most_known)
			WRITE_ONCE(reads->none.nr, 0);
		nr = 0;
	}
	WRITE_ONCE(reads->nr_since_none, nr);
}

/**
 * sfq_reads_want_none - whether no write should be in flight with reads
 * @reads: how long the device takes for them
 *
 * So that it is seen how long they take then. It may not be seen by itself: where one of
 * two writes ends after each read, and another takes its place, one is always in flight.
 * Wanted until it is known, for SFQ_READS_TRIED_NR of SFQ_READS_OLD_NR reads at stake.
 */
static inline bool sfq_reads_want_none(const struct sfq_reads *reads)
{
	return READ_ONCE(reads->none.nr) < SFQ_READS_KNOWN_NR &&
	       READ_ONCE(reads->nr_since_none) < SFQ_READS_TRIED_NR;
}

/**
 * sfq_patience_ns - how long a read is worth waiting for
 * @reads: how long the device takes for them
 * @patience_ns: at most
 *
 * No longer than the read gains by it: by how much longer it takes among writes.
 * As long as that is not known, it may be a lot. But where a reader is always back in
 * time no read ever comes among writes; so now and then some are not waited for.
 */
static inline u64 sfq_patience_ns(const struct sfq_reads *reads, u64 patience_ns)
{
	u64 none_ns = READ_ONCE(reads->none.ns);
	u64 most_ns = READ_ONCE(reads->most.ns);

	if (READ_ONCE(reads->none.nr) < SFQ_READS_KNOWN_NR)
		return patience_ns;
	if (READ_ONCE(reads->most.nr) < SFQ_READS_KNOWN_NR)
		return READ_ONCE(reads->nr_untold) < SFQ_READS_OLD_NR ? patience_ns : 0;
	return most_ns > none_ns ? min(patience_ns, most_ns - none_ns) : 0;
}

/* Which of a device's queues is next. */
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
 * sfq_writes_inside_max - how many writes may be in flight
 * @depth: requests that the device takes
 * @pct: part of them that is for writes while a process reads
 * @idle_ns: time since the last read
 * @quiet_ns: time without a read after which no process reads
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
