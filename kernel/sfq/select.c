// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selection of the next request: the queues of processes, their turns, the async
 * queue, the deadlines. turn.h has the rules; this file applies them to lists.
 */
#include "sfq.h"
#include "trace.h"

static const char *const sfq_pick_names[] = {
	[SFQ_PICK_NOBODY] = "nobody",
	[SFQ_PICK_FIRST] = "turn",
	[SFQ_PICK_READER] = "reader",
	[SFQ_PICK_ASYNC] = "async",
};

void sfq_queue_init(struct sfq_queue *sq, pid_t pid)
{
	int dir;

	for (dir = 0; dir < SFQ_NR_DIRS; dir++)
		INIT_LIST_HEAD(&sq->rqs[dir]);
	INIT_LIST_HEAD(&sq->turn_node);
	INIT_LIST_HEAD(&sq->reader_node);
	/* A new process is expected to read on: its first reads matter as well. */
	sq->think_ns = 0;
	sq->pid = pid;
}

/* The queue that a request belongs to; algorithm 1 without its list. */
static struct sfq_queue *sfq_queue_of(struct sfq_device *sd, struct request *rq)
{
	struct sfq_queue *sq;

	lockdep_assert_held(&sd->lock);

	if (!op_is_sync(rq->cmd_flags))
		return &sd->async;
	if (!rq->elv.icq)
		return &sd->nobodys;
	sq = sfq_icq_queue(rq->elv.icq);
	return sq->is_orphan ? &sd->async : sq;
}

/* What a queue may dispatch in its turn, if writes may go at all. */
static enum sfq_dir sfq_queue_next(struct sfq_device *sd, struct sfq_queue *sq,
				   bool may_write)
{
	return sfq_turn_next(&sd->limits, &sq->turn, sq->nr_waiting[SFQ_READ],
			     may_write && sq->nr_waiting[SFQ_WRITE]);
}

/*
 * The requests or the turn of a queue changed. A queue that is new, or has had its
 * turn, goes to the end; another one stays in its place.
 */
void sfq_queue_update(struct sfq_device *sd, struct sfq_queue *sq)
{
	enum sfq_dir next = sfq_queue_next(sd, sq, true);
	bool may_read;

	lockdep_assert_held(&sd->lock);

	if (next == SFQ_NEITHER) {
		sq->turn = (struct sfq_turn){};
		list_del_init(&sq->turn_node);
		list_del_init(&sq->reader_node);
		next = sfq_queue_next(sd, sq, true);
	}
	if (sq == &sd->async || next == SFQ_NEITHER)
		return;

	may_read = next == SFQ_READ;
	if (list_empty(&sq->turn_node))
		list_add_tail(&sq->turn_node, &sd->turns);
	if (!may_read)
		list_del_init(&sq->reader_node);
	else if (list_empty(&sq->reader_node))
		list_add_tail(&sq->reader_node, &sd->readers);
}

static void sfq_count_waiting(struct sfq_device *sd, enum sfq_dir dir, int by)
{
	WRITE_ONCE(sd->nr_waiting, sd->nr_waiting + by);
	if (dir != SFQ_WRITE)
		WRITE_ONCE(sd->nr_not_writes, sd->nr_not_writes + by);
}

/* A process reads: what is its think time? */
static void sfq_see_read(struct sfq_device *sd, struct sfq_queue *sq, u64 now_ns)
{
	u64 done_ns = READ_ONCE(sq->done_ns);
	u64 think_ns;

	lockdep_assert_held(&sd->lock);

	WRITE_ONCE(sd->last_read_ns, now_ns);
	WRITE_ONCE(sd->expected_until_ns, 0);
	if (!done_ns)
		return;
	think_ns = sfq_think_next(sq->think_ns,
				  now_ns > done_ns ? now_ns - done_ns : 0,
				  READ_ONCE(sd->patience_ns));
	WRITE_ONCE(sq->think_ns, think_ns);
	WRITE_ONCE(sq->done_ns, 0);
}

/* Queue a request (algorithm 1). */
void sfq_queue_add(struct sfq_device *sd, struct request *rq)
{
	struct sfq_queue *sq = sfq_queue_of(sd, rq);
	enum sfq_dir dir = rq_data_dir(rq);
	u64 now_ns = ktime_get_ns();

	lockdep_assert_held(&sd->lock);

	rq->fifo_time = now_ns + READ_ONCE(sd->expire_ns[dir]);
	list_add_tail(&rq->queuelist, &sq->rqs[dir]);
	list_add_tail(sfq_rq_deadline(rq), &sd->deadline[dir]);
	elv_rb_add(&sd->sorted[dir], rq);
	if (isolio_rq_mergeable(rq)) {
		elv_rqhash_add(sd->q, rq);
		if (!sd->q->last_merge)
			sd->q->last_merge = rq;
	}

	if (dir == SFQ_READ && sq != &sd->async)
		sfq_see_read(sd, sq, now_ns);
	WRITE_ONCE(sq->nr_waiting[dir], sq->nr_waiting[dir] + 1);
	sfq_count_waiting(sd, dir, 1);
	sfq_queue_update(sd, sq);
}

/* Take a request out: it goes to the device, or into another one. */
void sfq_queue_del(struct sfq_device *sd, struct request *rq)
{
	struct sfq_queue *sq = sfq_queue_of(sd, rq);
	enum sfq_dir dir = rq_data_dir(rq);

	lockdep_assert_held(&sd->lock);

	list_del_init(&rq->queuelist);
	list_del(sfq_rq_deadline(rq));
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	elv_rb_del(&sd->sorted[dir], rq);
	elv_rqhash_del(sd->q, rq);
	if (sd->q->last_merge == rq)
		sd->q->last_merge = NULL;

	WRITE_ONCE(sq->nr_waiting[dir], sq->nr_waiting[dir] - 1);
	sfq_count_waiting(sd, dir, -1);
	sfq_queue_update(sd, sq);
}

/*
 * The process has ended. It no longer waits for its requests, so they join the
 * async queue and keep their deadlines. The process's queue may be freed at any
 * time after that.
 */
void sfq_queue_orphan(struct sfq_device *sd, struct sfq_queue *sq)
{
	u32 nr_orphaned = sq->nr_waiting[SFQ_READ] + sq->nr_waiting[SFQ_WRITE];
	int dir;

	lockdep_assert_held(&sd->lock);

	WRITE_ONCE(sq->is_orphan, true);
	list_del_init(&sq->turn_node);
	list_del_init(&sq->reader_node);
	if (!nr_orphaned)
		return;

	trace_sfq_orphan(sd->dev, sq->pid, sq->nr_waiting);
	sd->stats.nr_orphans++;
	sd->stats.nr_orphaned += nr_orphaned;
	for (dir = 0; dir < SFQ_NR_DIRS; dir++) {
		list_splice_tail_init(&sq->rqs[dir], &sd->async.rqs[dir]);
		WRITE_ONCE(sd->async.nr_waiting[dir],
			   sd->async.nr_waiting[dir] + sq->nr_waiting[dir]);
		WRITE_ONCE(sq->nr_waiting[dir], 0);
	}
}

/* How many writes may be in the device. */
u32 sfq_device_writes_max(struct sfq_device *sd, u64 now_ns)
{
	u64 last_ns = READ_ONCE(sd->last_read_ns);

	return sfq_writes_inside_max(sfq_depth(sd), READ_ONCE(sd->writes_inside_pct),
				     now_ns > last_ns ? now_ns - last_ns : 0,
				     READ_ONCE(sd->quiet_ns));
}

/*
 * Whether writes are kept out so that it is seen what reads take alone. As long as
 * reads complete, at most for SFQ_READS_TRIED_NR of them: a device that completes none
 * for quiet_ms tells nothing, and no write waits for that, nor past its deadline.
 */
static bool sfq_device_wants_none(struct sfq_device *sd, bool has_late_write,
				  u64 now_ns)
{
	u64 since_ns = READ_ONCE(sd->untold_since_ns);

	lockdep_assert_held(&sd->lock);

	if (has_late_write || sfq_depth(sd) < 2 || !sd->is_reader_quick ||
	    !sfq_reads_want_none(&sd->reads))
		return false;
	if (!since_ns) {
		since_ns = now_ns;
		WRITE_ONCE(sd->untold_since_ns, now_ns);
	}
	return now_ns - since_ns < READ_ONCE(sd->quiet_ns);
}

/* Whether a write may go, of whatever queue. */
static bool sfq_device_write_is_due(struct sfq_device *sd, bool is_expected,
				    bool has_late_write, u64 now_ns)
{
	bool reads_wait = is_expected || !list_empty(&sd->readers);
	bool reads = reads_wait ||
		     atomic_read(&sd->nr_inside) > atomic_read(&sd->nr_writes_inside);

	lockdep_assert_held(&sd->lock);

	if (reads && sfq_device_wants_none(sd, has_late_write, now_ns))
		return false;
	return sfq_write_is_due(&sd->limits, &sd->cycle, reads_wait);
}

/* The queue that dispatches next, or NULL (algorithm 2). */
static struct sfq_queue *sfq_pick_queue(struct sfq_device *sd, bool may_write)
{
	struct sfq_queue *first, *reader, *sq;
	bool async_began = sd->async.turn.nr_reads || sd->async.turn.nr_writes;
	enum sfq_pick pick;

	lockdep_assert_held(&sd->lock);

	first = list_first_entry_or_null(&sd->turns, struct sfq_queue, turn_node);
	reader = list_first_entry_or_null(&sd->readers, struct sfq_queue, reader_node);
	pick = sfq_pick(&sd->limits, sd->nr_selections, async_began,
			sfq_queue_next(sd, &sd->async, may_write) != SFQ_NEITHER,
			first && sfq_queue_next(sd, first, may_write) != SFQ_NEITHER,
			reader);
	switch (pick) {
	case SFQ_PICK_FIRST:
		sq = first;
		break;
	case SFQ_PICK_READER:
		sq = reader;
		break;
	case SFQ_PICK_ASYNC:
		sq = &sd->async;
		break;
	default:
		return NULL;
	}

	/*
	 * A reader that goes before another's write has not had a turn. It may read all that
	 * its turn has before it is the first, and has it then.
	 */
	if (pick == SFQ_PICK_FIRST && !sq->turn.is_counted) {
		sq->turn.is_counted = true;
		sd->nr_selections++;
	}
	if (!sq->turn.nr_reads && !sq->turn.nr_writes) {
		if (pick == SFQ_PICK_ASYNC)
			sd->nr_selections = 0;
		sd->stats.nr_selected[pick]++;
		trace_sfq_turn(sd->dev, sfq_pick_names[pick], sq->pid,
			       sq->nr_waiting, sd->nr_selections);
	}
	return sq;
}

/* The request that has waited longest, if it is past its deadline; or NULL. */
static struct request *sfq_expired(struct sfq_device *sd, enum sfq_dir dir,
				   u64 now_ns)
{
	struct list_head *node = sd->deadline[dir].next;
	struct request *rq;

	lockdep_assert_held(&sd->lock);

	if (node == &sd->deadline[dir])
		return NULL;
	rq = sfq_deadline_rq(node);
	return rq->fifo_time <= now_ns ? rq : NULL;
}

static void sfq_count_expired(struct sfq_device *sd, struct request *rq, u64 now_ns)
{
	sd->stats.nr_expired[rq_data_dir(rq)]++;
	trace_sfq_expired(sd->dev, rq_data_dir(rq), now_ns - rq->fifo_time);
}

/*
 * Withhold writes though the device has room, as a read is expected. The first
 * dispatch after @until_ns takes them.
 */
static void sfq_hold(struct sfq_device *sd, u64 until_ns)
{
	lockdep_assert_held(&sd->lock);

	if (sd->held_until_ns == until_ns)
		return;
	WRITE_ONCE(sd->held_until_ns, until_ns);
	sd->stats.nr_held++;
	hrtimer_start(&sd->timer, ns_to_ktime(until_ns), HRTIMER_MODE_ABS);
}

/*
 * The request that goes next, taken out of its queue; NULL if none may. Expired
 * ones go before others of their direction, but not more often than others
 * would: after a stall of the device everything is late.
 */
struct request *sfq_select(struct sfq_device *sd)
{
	u64 now_ns = ktime_get_ns();
	bool has_room = atomic_read(&sd->nr_writes_inside) <
			sfq_device_writes_max(sd, now_ns);
	u64 expected_ns = READ_ONCE(sd->expected_until_ns);
	struct request *late = sfq_expired(sd, SFQ_WRITE, now_ns);
	bool is_due = sfq_device_write_is_due(sd, expected_ns > now_ns, late, now_ns);
	struct sfq_queue *sq = NULL;
	enum sfq_dir dir = SFQ_WRITE;
	bool may_write = has_room && (is_due || !READ_ONCE(sd->reads_first));
	struct request *rq;

	lockdep_assert_held(&sd->lock);

	if (!has_room || !is_due)
		late = NULL;
	if (!late) {
		sq = sfq_pick_queue(sd, may_write);
		if (!sq) {
			trace_sfq_hold(sd->dev, atomic_read(&sd->nr_writes_inside),
				       sd->nr_waiting);
			if (has_room && expected_ns > now_ns)
				sfq_hold(sd, expected_ns);
			return NULL;
		}
		dir = sfq_queue_next(sd, sq, may_write);
		if (dir == SFQ_READ)
			late = sfq_expired(sd, dir, now_ns);
	}
	rq = late ?: list_first_entry(&sq->rqs[dir], struct request, queuelist);
	if (late)
		sfq_count_expired(sd, late, now_ns);

	WRITE_ONCE(sd->held_until_ns, 0);
	sfq_cycle_add(&sd->limits, &sd->cycle, dir,
		      sfq_units(bio_has_data(rq->bio) ? blk_rq_bytes(rq) : 0,
				READ_ONCE(sd->unit_bytes)));
	if (sq)
		sfq_turn_add(&sq->turn, dir);
	sfq_queue_del(sd, rq);
	if (dir == SFQ_READ)
		sd->is_reader_quick = rq->elv.icq &&
				      sfq_queue_is_quick(sd, sfq_icq_queue(rq->elv.icq));
	if (late && sq)
		sfq_queue_update(sd, sq);
	return rq;
}
