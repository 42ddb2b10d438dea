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
 * Everything here is under kf_hctx.lock.
 */
#include "kyber-fairness.h"

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
void kf_ready_add(struct kf_hctx *kh, struct kf_backlog *kb,
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

void kf_ready_del(struct kf_hctx *kh, struct kf_backlog *kb,
		  enum kf_domain_id id)
{
	unsigned int level = kb->level[id];

	lockdep_assert_held(&kh->lock);

	list_del_init(&kb->node[id]);
	if (list_empty(&kh->ready[id][level]))
		WRITE_ONCE(kh->ready_levels[id],
			   kh->ready_levels[id] & ~BIT_ULL(level));
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
	list_add_tail(&kb->node[id], &kh->spent[id]);
	WRITE_ONCE(kh->nr_spent, kh->nr_spent + 1);
}

/* There was a refill: everybody held back is worth another look. */
void kf_ready_release(struct kf_hctx *kh)
{
	struct kf_backlog *kb, *next;
	int id;

	lockdep_assert_held(&kh->lock);

	if (!kh->nr_spent)
		return;
	for (id = 0; id < KF_NR_DOMAINS; id++)
		list_for_each_entry_safe(kb, next, &kh->spent[id], node[id]) {
			list_del_init(&kb->node[id]);
			kf_ready_add(kh, kb, id);
		}
	WRITE_ONCE(kh->nr_spent, 0);
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
