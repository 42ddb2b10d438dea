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
 * So two kinds go. Any request after hold_most_ms. And what others are likely to wait for
 * sooner: after a period of latency_work, or twice the time that the device takes for as
 * many requests as there are tags, whichever is more. A cgroup with its share of the tags full
 * has a request done in that time, once, by its share of the device. This is for cgroups that
 * have less of it than the part below: a larger share is not so slow.
 *
 * That is for a sixteenth of the time, for all such cgroups together. Without a bound a cgroup
 * would have more than its share by what it has outstanding: its tags are full again after
 * each look. Those of hold_most_ms may go when the others have used that up, as far again.
 *
 * How much of the device a request takes is not known. Its time in the device is more, as it
 * waits for others there. What the device needs for as many bytes, at the rate of the last
 * look, is too much where large requests are cheap: a disk that turns does a mebibyte in
 * the time of a few pages. It counts as the lesser of the two.
 *
 * They are charged as other urgent ones are: see kf_urgent_vtime_of(). All of it is called
 * from latency_work.
 */
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
 * kf_overdue_see - what overdue requests may have of the device until the next look
 * @kq: device
 * @sample: what completed since the last look
 * @elapsed_ns: how long ago that was
 */
void kf_overdue_see(struct kf_queue *kq, const struct kf_cpu_sample *sample, u64 elapsed_ns)
{
	struct kf_overdue *ko = &kq->overdue;
	unsigned int kind;
	u64 nr_done = 0;
	s64 most_ns;

	/* Nothing was throttled while nothing completed for long. */
	elapsed_ns = min_t(u64, elapsed_ns, 2 * jiffies_to_nsecs(KF_LATENCY_PERIOD));
	most_ns = elapsed_ns / KF_OVERDUE_BURST;
	ko->left_ns = min_t(s64, ko->left_ns + elapsed_ns / KF_OVERDUE_PART, most_ns);
	ko->least_ns = -most_ns;
	ko->look_ns = elapsed_ns;
	ko->look_bytes = (u64)sample->cost_units << KF_COST_UNIT_SHIFT;
	for (kind = 0; kind < KF_NR_KINDS; kind++) {
		nr_done += sample->nr_kind[kind];
		if (sample->nr_blocking[kind])
			ko->kind_ns[kind] = div_u64((u64)sample->blocking_us[kind] * NSEC_PER_USEC,
						    sample->nr_blocking[kind]);
	}
	ko->wait_ns = max(div64_u64(KF_OVERDUE_TIMES * kq->q->nr_requests * elapsed_ns,
				    max(nr_done, 1ULL)),
			  jiffies_to_nsecs(KF_LATENCY_PERIOD));
}

/* How long it takes the device, as far as is known; of what is not known, one at a time. */
static s64 kf_overdue_cost_ns(struct kf_queue *kq, struct request *rq)
{
	struct kf_overdue *ko = &kq->overdue;
	unsigned int kind = kf_kind(op_is_write(rq->cmd_flags), blk_rq_bytes(rq));
	u64 io_ns = ko->kind_ns[kind] ?: ko->look_ns / KF_OVERDUE_BURST;
	u64 cost_bytes = kf_find_cost_bytes(kq, rq);

	return min(io_ns, mul_u64_u64_div_u64(ko->look_ns, cost_bytes, max(ko->look_bytes, 1ULL)));
}

/* Whether a request that has waited for so long is overdue, and may go. */
static bool kf_overdue_may_go(struct kf_queue *kq, struct request *rq, u64 wait_ns, u64 most_ns)
{
	if (wait_ns >= most_ns)
		return kq->overdue.left_ns > kq->overdue.least_ns;
	return kq->overdue.left_ns > 0 && kf_rq_blocks_others(rq);
}

static void kf_overdue_go_one(struct kf_hctx *kh, struct kf_backlog *kb, struct request *rq,
			      enum kf_domain_id id, u64 wait_ns)
{
	struct kf_queue *kq = kb->kg->kq;

	list_move_tail(&rq->queuelist, &kh->urgent[id]);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent + 1);
	if (!--kb->nr_waiting)
		kb->throttled_at_ns = 0;
	kq->overdue.left_ns -= kf_overdue_cost_ns(kq, rq);
	trace_kf_overdue(kb, kf_domain_names[id], wait_ns);
}

/* Those of a backlog: behind one that waits on, too. */
static void kf_overdue_go_of(struct kf_queue *kq, struct kf_hctx *kh, struct kf_backlog *kb,
			     u64 most_ns, u64 now_ns)
{
	bool has_little = READ_ONCE(kb->kg->share) < KF_SHARE_ONE / KF_OVERDUE_PART;
	u64 least_ns = has_little ? min(kq->overdue.wait_ns, most_ns) : most_ns;
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
			if (!kf_overdue_may_go(kq, rq, wait_ns, most_ns))
				continue;
			kf_overdue_go_one(kh, kb, rq, id, wait_ns);
			has_gone = true;
		}
	}
	if (has_gone)
		kf_ready_choose(kq, kh, kb);
}

/**
 * kf_overdue_go - let go what is overdue on a hardware context, and may
 * @kq: device
 * @kh: hardware context
 * @now_ns: ktime_get_ns()
 */
void kf_overdue_go(struct kf_queue *kq, struct kf_hctx *kh, u64 now_ns)
{
	u64 most_ns = READ_ONCE(kq->hold_most_ns);
	struct rb_node *node, *next;
	unsigned int id;

	lockdep_assert_held(&kh->lock);

	if (!most_ns)
		return;
	for (id = 0; id < KF_NR_DOMAINS; id++) {
		for (node = rb_first_cached(&kh->ready[id]); node; node = next) {
			next = rb_next(node);
			kf_overdue_go_of(kq, kh, rb_entry(node, struct kf_backlog, node[id]),
					 most_ns, now_ns);
		}
	}
}
