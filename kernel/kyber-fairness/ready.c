// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which backlog goes next on a hardware context: the one of least vtime.
 *
 * The backlogs that have requests in a domain are in a tree by vtime, one tree for each
 * domain. If the first of a tree is throttled, all of them are: so nothing is moved
 * when a cgroup is throttled or may go again.
 *
 * A backlog's place in the tree is where its slice of vtime began. Without a slice it
 * is its cgroup's vtime when the backlog was put there. Other hardware contexts may have
 * moved that since, so a backlog that comes first is looked at again. Seldom they moved
 * it back, as they gave back what they did not use; then the backlog is found a little late.
 *
 * Of a cgroup's reads and direct writes only those are in their tree that are to go
 * first; see kf_ready_deferred(). So the others wait even where there are tokens for them.
 *
 * Everything here is under kf_hctx.lock.
 */
#include "kyber-fairness.h"
#include "request.h"
#include "trace.h"

void kf_ready_init(struct kf_hctx *kh)
{
	int id;

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		kh->ready[id] = RB_ROOT_CACHED;
		INIT_LIST_HEAD(&kh->urgent[id]);
	}
	INIT_LIST_HEAD(&kh->saved);
}

static struct kf_backlog *kf_ready_entry(struct rb_node *node, enum kf_domain_id id)
{
	return rb_entry(node, struct kf_backlog, node[id]);
}

/* Have has_work() know of the first one; it holds no lock. */
static void kf_ready_publish(struct kf_hctx *kh, enum kf_domain_id id)
{
	struct rb_node *first = rb_first_cached(&kh->ready[id]);

	if (!first) {
		WRITE_ONCE(kh->has_ready, kh->has_ready & ~BIT(id));
		return;
	}
	WRITE_ONCE(kh->first_vtime[id], kf_ready_entry(first, id)->vtime);
	WRITE_ONCE(kh->has_ready, kh->has_ready | BIT(id));
}

static void kf_ready_add(struct kf_hctx *kh, struct kf_backlog *kb,
			 enum kf_domain_id id)
{
	struct rb_node **link = &kh->ready[id].rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	lockdep_assert_held(&kh->lock);

	while (*link) {
		parent = *link;
		if (kf_vtime_before(kb->vtime, kf_ready_entry(parent, id)->vtime)) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&kb->node[id], parent, link);
	rb_insert_color_cached(&kb->node[id], &kh->ready[id], is_first);
	kb->ready_domains |= BIT(id);
	kf_ready_publish(kh, id);
}

static void kf_ready_del(struct kf_hctx *kh, struct kf_backlog *kb,
			 enum kf_domain_id id)
{
	lockdep_assert_held(&kh->lock);

	rb_erase_cached(&kb->node[id], &kh->ready[id]);
	kb->ready_domains &= ~BIT(id);
	kf_ready_publish(kh, id);
}

/*
 * Other tasks may be waiting for these, so they wait for no clock; they are charged all
 * the same, up to a bound. What the block layer inserts at the head (requeues). Writes
 * that a flush follows: while one is queued or in flight, the block layer sends no
 * other flush for up to 5 s. Pages that are swapped out, for memory. And what is submitted
 * by a task that has to get out, metadata and journals of filesystems, but not without
 * end: see kf_group_go_first().
 */
bool kf_is_urgent(struct request *rq)
{
	return rq->rq_flags & RQF_FLUSH_SEQ || rq->cmd_flags & REQ_SWAP;
}

/*
 * Whether each domain of a backlog that has requests is in a tree that dispatch looks
 * at, and no other is; of reads and writes one may wait for the other.
 */
static bool kf_ready_is_complete(struct kf_backlog *kb)
{
	bool waits_for_other = false;
	int id;

	for (id = KF_READ; id < KF_NR_DOMAINS; id++) {
		bool has_requests = !list_empty(&kb->rqs[id]);
		bool is_ready = kb->ready_domains & BIT(id);

		if (has_requests == is_ready)
			continue;
		if (is_ready || waits_for_other || id > KF_WRITE ||
		    !(kb->ready_domains & BIT(KF_READ + KF_WRITE - id)))
			return false;
		waits_for_other = true;
	}
	return true;
}

/* A backlog has both: one of them may have to wait for the other. */
#define KF_READ_AND_WRITE	(BIT(KF_READ) | BIT(KF_WRITE))

/*
 * Which of a backlog's reads and writes waits for the other; KF_NR_DOMAINS: neither.
 *
 * Kyber lets reads pass where writes wait for tokens. A cgroup that keeps its requests
 * outstanding gains nothing by it: what its reads wait less its writes wait more. So they go
 * in order of arrival, but for the writes of the page cache, of which there are hundreds of
 * 1 MiB, and for large requests, which wait for others of their kind (large.h).
 */
static enum kf_domain_id kf_ready_deferred(struct kf_backlog *kb)
{
	struct request *read, *write;

	read = list_first_entry(&kb->rqs[KF_READ], struct request, queuelist);
	write = list_first_entry(&kb->rqs[KF_WRITE], struct request, queuelist);
	if (!kf_is_direct_write(write->cmd_flags) || kf_rq_is_large(read) ||
	    kf_rq_is_large(write))
		return KF_NR_DOMAINS;
	return write->start_time_ns <= read->start_time_ns ? KF_READ : KF_WRITE;
}

/* Domains in which a backlog has requests. */
static unsigned int kf_backlog_domains(struct kf_backlog *kb)
{
	/* Not a loop: this is done twice for each request. */
	return !list_empty(&kb->rqs[KF_READ]) << KF_READ |
	       !list_empty(&kb->rqs[KF_WRITE]) << KF_WRITE |
	       !list_empty(&kb->rqs[KF_DISCARD]) << KF_DISCARD |
	       !list_empty(&kb->rqs[KF_OTHER]) << KF_OTHER;
}

/* Not inline: kf_ready_choose() mostly has nothing to change, and then saves no registers. */
static noinline void kf_ready_set(struct kf_hctx *kh, struct kf_backlog *kb,
				  unsigned int is_due)
{
	unsigned long changed = is_due ^ kb->ready_domains;
	unsigned int id;

	for (; changed; changed &= changed - 1) {
		id = __ffs(changed);
		if (is_due & BIT(id))
			kf_ready_add(kh, kb, id);
		else
			kf_ready_del(kh, kb, id);
	}
}

/**
 * kf_ready_choose - have a backlog stand where its requests want to go
 * @kh: hardware context
 * @kb: backlog; of one of its domains the first request is another than it was, or none
 */
void kf_ready_choose(struct kf_hctx *kh, struct kf_backlog *kb)
{
	unsigned int is_due = kf_backlog_domains(kb);

	lockdep_assert_held(&kh->lock);

	if ((is_due & KF_READ_AND_WRITE) == KF_READ_AND_WRITE)
		is_due &= ~BIT(kf_ready_deferred(kb));
	if (is_due != kb->ready_domains)
		kf_ready_set(kh, kb, is_due);
	/* On a kernel that looks for mistakes; on others a request would hang. */
	if (IS_ENABLED(CONFIG_PROVE_LOCKING))
		WARN_ON_ONCE(!kf_ready_is_complete(kb));
}

/* Whether a backlog is where its vtime says, among its neighbours. */
static bool kf_ready_is_in_order(struct kf_backlog *kb, enum kf_domain_id id)
{
	struct rb_node *prev = rb_prev(&kb->node[id]), *next = rb_next(&kb->node[id]);

	return (!prev || !kf_vtime_before(kb->vtime, kf_ready_entry(prev, id)->vtime)) &&
	       (!next || kf_vtime_before(kb->vtime, kf_ready_entry(next, id)->vtime));
}

/* Its vtime is another than when it was put there. */
void kf_ready_move(struct kf_hctx *kh, struct kf_backlog *kb)
{
	unsigned int id;

	lockdep_assert_held(&kh->lock);

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		if (!(kb->ready_domains & BIT(id)))
			continue;
		if (kf_ready_is_in_order(kb, id)) {
			kf_ready_publish(kh, id);
			continue;
		}
		kf_ready_del(kh, kb, id);
		kf_ready_add(kh, kb, id);
	}
}

/**
 * kf_ready_lower - put the trees in order after vtimes were set back
 * @kh: hardware context
 * @nr_lowered: gate.nr_lowered
 *
 * A vtime that grew is seen when its backlog would be the first. One that was set back
 * has to be looked for: else its requests stand behind others' for which there is no turn.
 */
void kf_ready_lower(struct kf_hctx *kh, unsigned int nr_lowered)
{
	struct rb_node *node, *next;
	unsigned int id;

	lockdep_assert_held(&kh->lock);

	WRITE_ONCE(kh->nr_lowered, nr_lowered);
	for (id = 0; id < KF_NR_DOMAINS; id++) {
		for (node = rb_first_cached(&kh->ready[id]); node; node = next) {
			struct kf_backlog *kb = kf_ready_entry(node, id);
			u64 vtime = atomic64_read(&kb->kg->vtime);

			next = rb_next(node);
			if (!kf_vtime_before(vtime, kb->vtime))
				continue;
			kb->vtime = vtime;
			kf_ready_move(kh, kb);
		}
	}
}

/* The backlog of least vtime that has requests in a domain, or NULL. */
struct kf_backlog *kf_ready_first(struct kf_hctx *kh, enum kf_domain_id id)
{
	struct rb_node *first;

	lockdep_assert_held(&kh->lock);

	while ((first = rb_first_cached(&kh->ready[id]))) {
		struct kf_backlog *kb = kf_ready_entry(first, id);
		u64 vtime = atomic64_read(&kb->kg->vtime);

		if (kb->left_bytes > 0 || kb->vtime == vtime)
			return kb;
		kb->vtime = vtime;
		kf_ready_move(kh, kb);
	}
	return NULL;
}

/*
 * The next backlog after one whose request may not go: @is_owed, that of a group that is owed; else
 * whose request is not large; or NULL.
 *
 * Scans the eligible backlogs, which are few. Small requests pass a large one that waits for
 * others of its kind, and fill the device beside those. What is owed passes one that waits for
 * a place, as what is left of a slice may stand before it.
 */
static struct kf_backlog *kf_ready_next(struct kf_queue *kq, struct kf_hctx *kh,
					struct kf_backlog *kb, enum kf_domain_id id, bool is_owed)
{
	struct rb_node *node = &kb->node[id];

	lockdep_assert_held(&kh->lock);

	while ((node = rb_next(node))) {
		u64 vtime;

		kb = kf_ready_entry(node, id);
		if (!kf_gate_allows(kq, kb->vtime))
			return NULL;
		if (is_owed ? !kf_group_is_owed(kb->kg) :
		    kf_rq_is_large(list_first_entry(&kb->rqs[id], struct request, queuelist)))
			continue;
		vtime = kb->left_bytes > 0 ? kb->vtime : atomic64_read(&kb->kg->vtime);
		if (!kf_gate_allows(kq, vtime))
			continue;
		if (kb->vtime != vtime) {
			kb->vtime = vtime;
			kf_ready_move(kh, kb);
		}
		return kb;
	}
	return NULL;
}

/**
 * kf_ready_pass - what goes in place of the first backlog, if its request waits for something
 * @kq: device
 * @kh: hardware context
 * @kb: the first one, from kf_ready_first()
 * @id: domain
 * @is_counted: set if its request is a large one, and has leave to go
 *
 * Return: @kb if its request may go, or NULL.
 */
struct kf_backlog *kf_ready_pass(struct kf_queue *kq, struct kf_hctx *kh,
				 struct kf_backlog *kb, enum kf_domain_id id, bool *is_counted)
{
	struct kf_backlog *small;

	lockdep_assert_held(&kh->lock);

	if (unlikely(test_bit(KF_HAS_OWED, &kh->flags)) && kf_waits_for_place(kh) &&
	    !kf_group_is_owed(kb->kg))
		kb = kf_ready_next(kq, kh, kb, id, true) ?: kb;
	if (likely(!kf_rq_is_large(list_first_entry(&kb->rqs[id], struct request, queuelist))))
		return kb;
	*is_counted = kf_large_get(kq, kh, id);
	if (*is_counted)
		return kb;
	small = kf_ready_next(kq, kh, kb, id, false);
	/* Small requests behind it may wait for the clock. */
	if (!small && kf_wait_for(kq, kh, KF_FOR_CLOCK))
		small = kf_ready_next(kq, kh, kb, id, false);
	return small;
}
