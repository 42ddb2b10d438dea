// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who goes next: the backlogs of a hardware context that have requests.
 *
 * The cgroup that has had the least of its share goes first: the one with most
 * budget left, counted in rounds. In turn would do for the shares as well while
 * everybody keeps requests waiting. But a cgroup that has almost all of its
 * requests inside the device has one waiting now and then, and loses a part of
 * its share for good whenever that one waits for its turn.
 *
 * Backlogs are sorted by quarters of a round, KF_NR_LEVELS of them, into lists;
 * a bit for each list that is not empty finds the first one. So the choice
 * costs the same however many cgroups there are. A refill adds as many levels
 * to all who had budget left, which leaves their order as it is: only those
 * that had none are sorted in again.
 *
 * A backlog stands in the lists of every domain in which it has requests, but of
 * its reads and its direct writes only those do that are to go first; see
 * kf_ready_choose(). So the others wait even where there are tokens for them.
 *
 * Everything here is under kf_hctx.lock.
 */
#include "kyber-fairness.h"
#include "trace.h"

void kf_ready_init(struct kf_hctx *kh)
{
	int id, level;

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		for (level = 0; level < KF_NR_LEVELS; level++)
			INIT_LIST_HEAD(&kh->ready[id][level]);
		INIT_LIST_HEAD(&kh->spent[id]);
		INIT_LIST_HEAD(&kh->urgent[id]);
	}
}

/* Put a backlog that is on no list where its cgroup's budget says. */
static void kf_ready_add(struct kf_hctx *kh, struct kf_backlog *kb,
			 enum kf_domain_id id)
{
	unsigned int level;

	lockdep_assert_held(&kh->lock);

	level = kf_level(atomic64_read(&kb->kg->budget_bytes),
			 READ_ONCE(kb->kg->levels_per_byte));
	kb->level[id] = level;
	list_add_tail(&kb->node[id], &kh->ready[id][level]);
	WRITE_ONCE(kh->ready_levels[id], kh->ready_levels[id] | BIT_ULL(level));
}

/* Take a backlog from whichever list it is on. */
static void kf_ready_del(struct kf_hctx *kh, struct kf_backlog *kb,
			 enum kf_domain_id id)
{
	unsigned int level = kb->level[id];

	lockdep_assert_held(&kh->lock);

	list_del_init(&kb->node[id]);
	if (level == KF_NR_LEVELS)
		WRITE_ONCE(kh->nr_spent, kh->nr_spent - 1);
	else if (list_empty(&kh->ready[id][level]))
		WRITE_ONCE(kh->ready_levels[id],
			   kh->ready_levels[id] & ~BIT_ULL(level));
}

/*
 * Others may be waiting for these, so no budget holds them back; it is charged all the
 * same, up to a bound. What the block layer inserts at the head (requeues). Writes
 * that a flush follows: while one is queued or in flight, the block layer sends no
 * other flush for up to 5 s. Pages that are swapped out, for memory. What is submitted
 * by a task that has to get out. Metadata and journals of filesystems, but not without
 * end: see kf_group_may_go_first().
 */
bool kf_is_urgent(struct kf_group *kg, struct request *rq)
{
	if (rq->rq_flags & RQF_FLUSH_SEQ || rq->cmd_flags & REQ_SWAP ||
	    kf_task_must_get_out())
		return true;
	return rq->cmd_flags & REQ_META && kf_group_may_go_first(kg);
}

/*
 * A direct write: of these a program has outstanding what it chose to. Of the page
 * cache's there are as many as there are tags, and often of 1 MiB, whether somebody
 * waits for the file (fsync) or not. Writeback throttling tells them apart like this.
 */
static bool kf_is_direct_write(struct request *rq)
{
	return (rq->cmd_flags & (REQ_SYNC | REQ_IDLE)) == (REQ_SYNC | REQ_IDLE);
}

/*
 * Which of a cgroup's reads and writes has to wait for the other. KF_NR_DOMAINS:
 * neither. It has to be no domain at all: whatever is named here is not dispatched.
 */
static enum kf_domain_id kf_ready_deferred(struct kf_queue *kq,
					   struct kf_backlog *kb)
{
	u64 write_wait_pct = READ_ONCE(kq->write_wait_pct);
	struct request *read, *write;
	enum kf_domain_id deferred;
	u64 now_ns;

	read = list_first_entry_or_null(&kb->rqs[KF_READ], struct request,
					queuelist);
	write = list_first_entry_or_null(&kb->rqs[KF_WRITE], struct request,
					 queuelist);
	if (!read || !write || !kf_is_direct_write(write) || !write_wait_pct)
		return KF_NR_DOMAINS;

	now_ns = ktime_get_ns();
	deferred = kf_write_goes_first(now_ns, read->start_time_ns,
				       write->start_time_ns, write_wait_pct) ?
		   KF_READ : KF_WRITE;
	trace_kf_defer(kq->dev, kb->hctx_nr,
		       cgroup_id(kb->kg->pd.blkg->blkcg->css.cgroup),
		       kf_domain_names[deferred], now_ns - read->start_time_ns,
		       now_ns - write->start_time_ns);
	return deferred;
}

/*
 * Whether each domain of a backlog that has requests is on a list that dispatch looks
 * at, and no other is; of reads and writes one may wait for the other.
 */
static bool kf_ready_is_complete(struct kf_backlog *kb)
{
	bool waits_for_other = false;
	int id;

	for (id = KF_READ; id < KF_NR_DOMAINS; id++) {
		bool has_requests = !list_empty(&kb->rqs[id]);
		bool is_listed = !list_empty(&kb->node[id]);

		if (has_requests == is_listed)
			continue;
		if (is_listed || waits_for_other || id > KF_WRITE ||
		    list_empty(&kb->node[KF_READ + KF_WRITE - id]))
			return false;
		waits_for_other = true;
	}
	return true;
}

/**
 * kf_ready_choose - have a backlog stand where its requests want to go
 * @kq: device
 * @kh: hardware context
 * @kb: backlog; of one of its domains the first request is another than it was, or none
 */
void kf_ready_choose(struct kf_queue *kq, struct kf_hctx *kh,
		     struct kf_backlog *kb)
{
	enum kf_domain_id deferred = kf_ready_deferred(kq, kb);
	enum kf_domain_id id;

	lockdep_assert_held(&kh->lock);

	for (id = KF_READ; id < KF_NR_DOMAINS; id++) {
		bool is_due = id != deferred && !list_empty(&kb->rqs[id]);

		if (is_due == !list_empty(&kb->node[id]))
			continue;
		if (is_due)
			kf_ready_add(kh, kb, id);
		else
			kf_ready_del(kh, kb, id);
	}
	/* On a kernel that looks for mistakes; on others a request would hang. */
	if (IS_ENABLED(CONFIG_PROVE_LOCKING))
		WARN_ON_ONCE(!kf_ready_is_complete(kb));
}

/* Its cgroup has less budget than when it was put on its list. */
void kf_ready_move(struct kf_hctx *kh, struct kf_backlog *kb,
		   enum kf_domain_id id)
{
	unsigned int level;

	lockdep_assert_held(&kh->lock);

	level = kf_level(atomic64_read(&kb->kg->budget_bytes),
			 READ_ONCE(kb->kg->levels_per_byte));
	/* Alone there: it is where it would be put. */
	if (level == kb->level[id] && kb->node[id].next == kb->node[id].prev)
		return;
	kf_ready_del(kh, kb, id);
	kf_ready_add(kh, kb, id);
}

/* Its cgroup has no budget: keep it out of the way until the next refill. */
void kf_ready_hold_back(struct kf_hctx *kh, struct kf_backlog *kb,
			enum kf_domain_id id)
{
	lockdep_assert_held(&kh->lock);

	kf_ready_del(kh, kb, id);
	kb->level[id] = KF_NR_LEVELS;
	list_add_tail(&kb->node[id], &kh->spent[id]);
	WRITE_ONCE(kh->nr_spent, kh->nr_spent + 1);
}

/*
 * The first request of a backlog goes without budget if it has waited for as long as
 * any may: the block layer, a filesystem or a task that is killed may wait for it. It
 * is charged as others are that go without. One a refill, so a cgroup gains no more by
 * it than its requests outstanding in each hold_most_ms.
 */
static void kf_ready_hurry(struct kf_queue *kq, struct kf_hctx *kh,
			   struct kf_backlog *kb, enum kf_domain_id id, u64 now_ns)
{
	u64 most_ns = READ_ONCE(kq->hold_most_ns);
	struct request *rq;

	lockdep_assert_held(&kh->lock);

	rq = list_first_entry(&kb->rqs[id], struct request, queuelist);
	if (!most_ns || now_ns < rq->start_time_ns + most_ns)
		return;
	list_move_tail(&rq->queuelist, &kh->urgent[id]);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent + 1);
	if (!--kb->nr_waiting)
		atomic_dec(&kb->kg->nr_backlogged);
	kf_group_update_state(kb->kg);
	trace_kf_overdue(kq->dev, kb->hctx_nr,
			 cgroup_id(kb->kg->pd.blkg->blkcg->css.cgroup),
			 kf_domain_names[id], now_ns - rq->start_time_ns);
}

/* There was a refill: all that were held back are worth another look. */
void kf_ready_release(struct kf_queue *kq, struct kf_hctx *kh)
{
	struct kf_backlog *kb, *next;
	u64 now_ns;
	int id;

	lockdep_assert_held(&kh->lock);

	if (!kh->nr_spent)
		return;
	now_ns = ktime_get_ns();
	for (id = 0; id < KF_NR_DOMAINS; id++)
		list_for_each_entry_safe(kb, next, &kh->spent[id], node[id]) {
			kf_ready_del(kh, kb, id);
			kf_ready_hurry(kq, kh, kb, id, now_ns);
			kf_ready_choose(kq, kh, kb);
		}
}

/* The backlog whose cgroup has most budget, as far as known here, or NULL. */
struct kf_backlog *kf_ready_first(struct kf_hctx *kh, enum kf_domain_id id)
{
	lockdep_assert_held(&kh->lock);

	if (!kh->ready_levels[id])
		return NULL;
	return list_first_entry(&kh->ready[id][fls64(kh->ready_levels[id]) - 1],
				struct kf_backlog, node[id]);
}
