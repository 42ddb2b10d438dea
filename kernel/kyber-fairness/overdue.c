// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests that are throttled for too long go, whatever the clock says.
 *
 * Other cgroups may wait for them. In ordered mode a journal's commit waits for all that
 * was written to new blocks, and for each task that is within a transaction; metadata are
 * read beneath a lock of the filesystem; and a page that is read is locked for all that map
 * it. A cgroup of weight 1 beside 10000 would hold up each fsync of its filesystem
 * for minutes.
 *
 * So two kinds go. Any request after KF_HOLD_MOST_NS. And what others are likely to wait for
 * sooner: after a period of latency_work, or twice the time that the device takes for as
 * many requests as there are tags, whichever is more. A cgroup with its share of the tags full
 * has a request done in that time, once, by its share of the device. This is for cgroups that
 * have less of it than the part below: a larger share is not so slow.
 *
 * Each of the two kinds may have a sixteenth of the time, for all such cgroups together.
 * Without a bound a cgroup would have more than its share by what it has outstanding: its
 * tags are full again after each look. With one for both, a cgroup that has old requests
 * all the time would have no commit go.
 *
 * How much of the device a request takes is not known. It counts as the least of three. Its
 * time in the device, which is too much where it waits for others there. What the device
 * needs for as many bytes, at the rate of the last look, which is too much where large
 * requests are cheap, as on a disk that turns. There it is too little for small ones, so
 * it is no less than the mean time between two completions. And the time between two
 * looks, since a device that stalled, or was idle, shows none of these.
 *
 * They are charged as other urgent ones are: see kf_urgent_vtime_of(). All of it is called
 * from latency_work.
 */
#include <linux/hash.h>

#include "kyber-fairness.h"
#include "request.h"
#include "trace.h"

/* What overdue requests may have of the time: one part in so many. */
#define KF_OVERDUE_PART		16
/* And at once: of the time between two looks. */
#define KF_OVERDUE_BURST	4
/* What others wait for is overdue after so many times what as many requests as tags take. */
#define KF_OVERDUE_TIMES	2ULL

/**
 * kf_overdue_update - what overdue requests may have of the device until the next look
 * @kq: device
 * @sample: what completed since the last look
 * @elapsed_ns: how long ago that was
 */
void kf_overdue_update(struct kf_queue *kq, const struct kf_cpu_sample *sample, u64 elapsed_ns)
{
	struct kf_overdue *ko = &kq->overdue;
	unsigned int kind, as;
	u64 nr_done = 0;

	/* Nothing was throttled while nothing completed for long. */
	elapsed_ns = min_t(u64, elapsed_ns, 2 * jiffies_to_nsecs(KF_LATENCY_PERIOD));
	for (as = 0; as < KF_NR_OVERDUE; as++)
		ko->left_ns[as] = min_t(s64, ko->left_ns[as] + elapsed_ns / KF_OVERDUE_PART,
					elapsed_ns / KF_OVERDUE_BURST);
	ko->look_ns = elapsed_ns;
	ko->look_bytes = (u64)sample->cost_units << KF_COST_UNIT_SHIFT;
	for (kind = 0; kind < KF_NR_KINDS; kind++) {
		nr_done += sample->nr_kind[kind];
		if (sample->nr_blocking[kind])
			ko->kind_ns[kind] = div_u64((u64)sample->blocking_us[kind] * NSEC_PER_USEC,
						    sample->nr_blocking[kind]);
	}
	ko->mean_ns = div64_u64(elapsed_ns, max(nr_done, 1ULL));
	ko->wait_ns = max(KF_OVERDUE_TIMES * kq->q->nr_requests * ko->mean_ns,
			  jiffies_to_nsecs(KF_LATENCY_PERIOD));
}

/* How long it takes the device, as far as is known; of what is not known, one at a time. */
static s64 kf_overdue_cost_ns(struct kf_queue *kq, struct request *rq)
{
	struct kf_overdue *ko = &kq->overdue;
	unsigned int kind = kf_kind(op_is_write(rq->cmd_flags), blk_rq_bytes(rq));
	u64 io_ns = ko->kind_ns[kind] ?: ko->look_ns / KF_OVERDUE_BURST;
	/* As a read: what a write costs more is a guess, and a commit waits for this one. */
	u32 cost_bytes = kf_cost_bytes(READ_ONCE(kq->cost_rate[KF_READ]), blk_rq_bytes(rq));
	u64 bytes_ns = mul_u64_u64_div_u64(ko->look_ns, cost_bytes, max(ko->look_bytes, 1ULL));

	return min3(io_ns, max(bytes_ns, ko->mean_ns), ko->look_ns);
}

/*
 * What a request may go as that has waited for so long; KF_OVERDUE_NOT: it waits on. Never
 * as the one or the other: a cgroup that only writes pages would have two sixteenths.
 */
static enum kf_overdue_as kf_overdue_as(struct kf_queue *kq, struct request *rq,
					bool has_little, bool is_old)
{
	enum kf_overdue_as as = KF_OVERDUE_OLD;

	if (has_little && kf_rq_blocks_others(rq))
		as = KF_OVERDUE_BLOCKS;
	else if (!is_old)
		return KF_OVERDUE_NOT;
	return kq->overdue.left_ns[as] > 0 ? as : KF_OVERDUE_NOT;
}

static void kf_overdue_go_one(struct kf_hctx *kh, struct kf_backlog *kb, struct request *rq,
			      enum kf_domain_id id, u64 wait_ns)
{
	/* So that this is no latency of the device's. */
	kf_rq_set(rq, 0, -1, 0, wait_ns);
	list_move_tail(&rq->queuelist, &kh->urgent[id]);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent + 1);
	kb->nr_waiting--;
	trace_kf_overdue(kb, kf_domain_names[id], wait_ns);
}

/* Those of a backlog: behind one that waits on, too. */
static void kf_overdue_go_of(struct kf_queue *kq, struct kf_hctx *kh, struct kf_backlog *kb,
			     u64 now_ns)
{
	bool has_little = READ_ONCE(kb->kg->share) < KF_SHARE_ONE / KF_OVERDUE_PART;
	u64 least_ns = has_little ? min(kq->overdue.wait_ns, KF_HOLD_MOST_NS) :
				   KF_HOLD_MOST_NS;
	enum kf_overdue_as as;
	struct request *rq, *next;
	bool has_gone = false;
	unsigned int id;
	u64 wait_ns;

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		list_for_each_entry_safe(rq, next, &kb->rqs[id], queuelist) {
			/* Those behind it came later, more or less. */
			if (now_ns < rq->start_time_ns + least_ns)
				break;
			wait_ns = now_ns - rq->start_time_ns;
			as = kf_overdue_as(kq, rq, has_little, wait_ns >= KF_HOLD_MOST_NS);
			if (as == KF_OVERDUE_NOT)
				continue;
			kq->overdue.left_ns[as] -= kf_overdue_cost_ns(kq, rq);
			kf_overdue_go_one(kh, kb, rq, id, wait_ns);
			has_gone = true;
		}
	}
	if (!has_gone)
		return;
	kf_ready_choose(kh, kb);
	if (!kb->nr_waiting) {
		kf_throttle_end(kb, now_ns);
		kf_slice_save(kh, kb);
	}
}

/*
 * Those of a domain. Each time another backlog is first: one that always has metadata waiting
 * would take all that there is from a journal's pages. Those that were charged up to the
 * bound are in no order.
 */
static void kf_overdue_go_in(struct kf_queue *kq, struct kf_hctx *kh, enum kf_domain_id id,
			     u64 now_ns)
{
	struct rb_node *node, *next;
	unsigned int nr = 0, first, i;
	int pass;

	for (node = rb_first_cached(&kh->ready[id]); node; node = rb_next(node))
		nr++;
	/* Not in step with which hardware context and which domain are first. */
	first = reciprocal_scale(hash_32(kq->nr_looks, 32), nr);
	for (pass = 0; pass < 2; pass++) {
		for (node = rb_first_cached(&kh->ready[id]), i = 0; node; node = next, i++) {
			bool is_before = i < first;

			next = rb_next(node);
			if (is_before != !!pass)
				continue;
			kf_overdue_go_of(kq, kh, rb_entry(node, struct kf_backlog, node[id]),
					 now_ns);
		}
	}
}

/**
 * kf_overdue_go - let go what is overdue on a hardware context, and may
 * @kq: device
 * @kh: hardware context
 * @now_ns: ktime_get_ns()
 */
void kf_overdue_go(struct kf_queue *kq, struct kf_hctx *kh, u64 now_ns)
{
	const s64 *left_ns = kq->overdue.left_ns;
	unsigned int i;

	lockdep_assert_held(&kh->lock);

	if (max(left_ns[KF_OVERDUE_BLOCKS], left_ns[KF_OVERDUE_OLD]) <= 0)
		return;
	for (i = 0; i < KF_NR_DOMAINS; i++)
		kf_overdue_go_in(kq, kh, (kq->nr_looks + i) % KF_NR_DOMAINS, now_ns);
}
