// SPDX-License-Identifier: GPL-2.0-only
/*
 * kyber-fairness: weighted sharing of a multi-queue SSD among cgroups.
 *
 * Problem
 *
 * Containers on one disk pay for a share of it and get whatever their
 * neighbours leave. Of the schedulers, only BFQ shares by weight, and on
 * random requests it loses a large part of a fast SSD's throughput, because
 * it serves one queue at a time. The ones that keep the SSD busy do not know
 * cgroups.
 *
 * Why simpler ways fail
 *
 * Serving cgroups in turn, by request or by byte, does not keep shares when
 * one of them has nothing queued for a moment: its turn goes to the others,
 * and on a fast SSD everybody has nothing queued most of the time. Serving
 * one cgroup at a time and waiting for it wastes a device that needs dozens of
 * requests inside. Fixed limits (io.max) leave idle what their owner does not
 * use. Keeping Kyber and one queue of throttled requests beside it puts a
 * global lock on every request (the report's first design, section III.1).
 *
 * Model
 *
 * Every cgroup has a budget of bytes on every device. A request is charged
 * to its cgroup's budget when it is dispatched (its bytes; or, if the device's
 * time or requests are what is shared, as many bytes as its part of them is
 * worth), and is dispatched as long as the budget is positive; a budget may so end
 * negative, by less than a request. A cgroup without budget is held back (throttled)
 * until the next refill. Budgets are in proportion to weights, so over a round of
 * refill to refill the cgroups that want more than they get have had exactly their
 * shares, in whatever order and on whatever CPUs it happened.
 *
 * Figure 14 of the report, worked: cgroups of weight 200 and 100 have 200 and
 * 100 of budget and have each sent a request of 100, which leaves 100 and 0.
 * The first one's next request goes out, the second one's is held back. Now
 * both have none: time to refill. It took 67 ms to use the 300; at that rate
 * a round of 100 ms has 450 in it, and they get 300 and 150.
 *
 * Control law
 *
 * A round ends when no cgroup has both requests waiting and budget ("is
 * runnable"): nobody is entitled to go before those who are held back, so the
 * next round begins at once and the device does not run dry.
 *
 * With one exception. A cgroup that wants more than its share still has nothing
 * waiting for moments: its requests are all inside the device, or they came back
 * together and its submitter is making new ones. Whoever else has requests would
 * take all places in the device in such a moment, time and again. So the refill is
 * held for a cgroup that has budget and would have taken more at the last refill
 * ("is expected"): it was spent, or has lately had enough requests at once for its
 * share. It is held for at most hold_pct percent of all time, saved up to a round's
 * length.
 *
 * Holds that somebody ends who had budget are not counted in that, if they lose
 * nothing. Where the CPU is the limit they do not: the submitters of large shares are
 * behind, and get the CPU that those of small ones would have taken. With the P4500 8
 * times slower than it is, kyber has 45,800 requests a second; 44,000 with exact shares
 * come of it, and 29,500 with hardly a share kept when all holds are counted: a timer
 * and a wake-up for each request, of microseconds. But next to a cgroup of 8 requests,
 * worth more than half of the device, which comes back as often, the total would be
 * 0.39 of that without it. So it is tried: free holds last until the rate falls by a
 * tenth (kf_hold_try()), and the total there is 0.85.
 *
 * Who sends a small request every 90 ms is not expected and costs the others nothing,
 * whatever it has left (the report's open problem, section V.2); nor does its share
 * count where the others' are compared, with what they may save and how many of their
 * requests are inside. With one of weight 1000, three of 500, 250 and 100 that keep 32
 * reads outstanding have their shares within 0.1 % and all of the total they have
 * without it, but for 0.2 % on the P4500, and it waits 1.6 ms on a null_blk of 1 ms, at
 * p99 (experiment kf-open-problem).
 *
 * If a runnable cgroup does not get on, say for want of tokens in its domain, a
 * timer ends the round after timeout_us.
 *
 * The refill equation (figure 30) is in budget.h: the total of the next round is what the
 * device would serve in round_us at the rate of the last few. What cgroups still have or
 * owe counts towards it, the rest is granted by share. Rounds are short (half of a
 * request's time in the device, at most 0.5 ms, not the report's 100), because a throttled
 * cgroup waits for the rest of a round, which is most of its latency. Debts are carried
 * from round to round, so short rounds share no less exactly: with requests that are
 * larger than a round's budget it takes turns of several rounds, given in one refill.
 *
 * A share is the weight among active siblings times the share of the parent.
 * A cgroup is active from its first request until a refill finds that it has
 * not dispatched for 10 ms, no request waiting or inside, and no debt. (Requests
 * of 1 MiB may be inside a slow device for seconds: who made them is not gone.)
 *
 * Who may wait where: the scheduler's tags are handed out to whoever asks. Cgroups that
 * are held back would keep all of them, and the cgroup with budget would have no request
 * to dispatch. So a cgroup may hold its share of the tags, and more only while half of
 * them are free; beyond that its next submitter sleeps until one of its own completes.
 *
 * Who goes first: the cgroup that has had the least of its share, counted in
 * quarters of a round; see ready.c.
 *
 * Which of its requests: reads and direct writes of a cgroup go in order of arrival. Kyber
 * lets reads pass where writes wait for tokens. Within a cgroup that keeps its requests
 * outstanding nobody gains by it: it has as many of them, and gets as much, so what its
 * reads wait less its writes wait more. In a half and half mix, 32 outstanding by
 * weights of 1000, 500, 250 and 100 on the slowed P4500, the first one's reads took 3.4 ms
 * and its writes 23, on the mean of both 13, and the writes of the one of 250 2.6 times that
 * at p99. In order of arrival it is 13.4 and 13.0 ms, and 1.5 times at most, and shares are
 * no less exact. Writes of the page cache let reads pass, as ever: there are hundreds of
 * them, of 1 MiB. write_wait_pct says how far the others do.
 *
 * How many may be inside: on a device of many tags all requests would be, and nobody
 * could be held back. So tokens are limited to the number of requests inside at which
 * every cgroup has its share, but for share_error_pct; that number is found by trying;
 * see domain.c and kf_inside_next(). Nor are there many more than the device works on at a
 * time, which is tried as well: a quarter fewer, as long as not even a hundredth of the
 * rate is lost (kf_inside_try()). More would only wait inside, where nobody chooses who
 * goes first. In a mix of reads and writes the rate is chance to some hundredths; what is
 * compared is the work, the sum of both in such parts that it varies least
 * (kf_mix_rate()); and what makes up less than a quarter of that is let in as far as
 * sharing allows: reads that the device serves beside its writes wait for nobody there.
 *
 * Of large requests there are twice as many inside as keep the device busy, at most: they
 * are too few a second to try. The page cache is written in requests of 1 MiB, as many
 * as the device takes, and with pauses. With sixty inside, a second's work of the slowed
 * P4500, who came back from a pause waited for it, and could save no more than four
 * requests' worth meanwhile: writers of weights 200 and 100 had 56 and 44 %, requests
 * took up to 1.6 s, and there were 8,000 refills a second. With sixteen it is 66.5 and
 * 33.5, 0.4 s, and 200 (experiment kf-writeback).
 *
 * One that sends a request at a time next to four that keep 128 reads each outstanding
 * waits 6.3 ms on the slowed P4500, 14.0 at p99; with kyber 7.6 and 16.2, with
 * inside_pct 100 3.8 and 10.4, all at the same total (experiment kf-latency).
 *
 * What is not held back: requests that others wait for, whatever their cgroup's budget.
 * Those that were given back; writes that a flush follows, as the block layer sends no
 * other flush meanwhile; pages that are swapped out; what a task submits that is killed
 * or ends; and metadata, those of the root (journals) always, those of a cgroup until it
 * owes as much as it may save. They are charged up to that debt, so rounds stay as short
 * as they are. Nor does any request wait longer than hold_most_ms. And one that the block
 * layer hands over without the scheduler's data goes through without accounts.
 *
 * Below the budgets, Kyber's domains, tokens and latency targets work as they
 * do in Kyber, but for what would cost shares; see domain.c as well. And with age_th
 * or max_wait_ms set, nothing goes in while a request starves inside; see
 * ../common/guard.c.
 *
 * What stands before it: the block layer's writeback throttling lets a few buffered
 * writes of the whole device through at a time, unseen here. So it is off while the
 * scheduler is on, as under BFQ: with it, a reader had 61 % next to two writers of the
 * same weight.
 *
 * Locking
 *
 * kf_hctx.lock covers the queues of a hardware context and is taken once for
 * an insertion of a batch and once for a dispatch. On a device with a
 * hardware queue for each CPU no two CPUs take the same one. Budgets are atomics.
 * kf_queue.lock is taken for a refill, for the timer, by each dispatch while a refill
 * is held, and when an idle cgroup becomes active. Dispatch never waits for a refill: it
 * does it, or goes away and is run again by the one who did.
 *
 * A request keeps its cgroup's blkg until it is freed: completion looks at
 * the group after the bios, and their references, are gone.
 *
 * What is shared
 *
 * Bytes, requests, or the device's time: a cgroup that sends 4 KiB and one that
 * sends 128 KiB, or a reader and a writer, cannot be judged by bytes alone. The
 * currency stays the same, only what a request is charged differs; see cost.h.
 *
 * For time somebody has to know what a request takes. io.cost asks the user for a
 * model. That is possible here as well, but who has none gets one that is learnt.
 * Latencies do not tell: a request of 80 us of which 40 are served at once takes 2.
 * Totals do: while the device is full, what it completes in a tenth of a second
 * takes a tenth of a second. That is one equation for four unknowns, and as long
 * as the mix of requests is the same, always the same one; so what is learnt is
 * the smallest change to what was known that meets it, and sizes and directions
 * are told apart by times in which one of them rules. A device that is not
 * full tells nothing but that it is no slower.
 *
 * What was tried
 *
 * Random reads of 4 KiB by weights of 1000, 500, 250 and 100, 32 outstanding each
 * (experiment kf-algorithm): total against no scheduler, weighted Jain index.
 *
 *				P4500, 1,023 tags	null_blk, 32 tags
 *	the report's 100 ms	1.00, 0.60		1.00, 0.66
 *	rounds of 8 ms		1.00, 0.60		1.00, 0.68
 *	rounds of 2 ms		1.00, 0.60		1.00, 0.65
 *	rounds of 0.5 ms	1.00, 0.60		1.00, 0.70
 *	as it is		0.82, 1.00		0.99, 1.00
 *
 * The first four are the report's rule with round_us (round_pct 0, hold_pct 0,
 * nothing limited inside): shorter rounds alone share nothing better. What does is
 * to limit the requests inside, where all would be; to hold the refill for who is
 * expected; and to serve first who has had least. On the P4500 exact shares cost 0.16
 * whoever keeps them: 0.83 is what 59 requests inside make of it. Virtual time with
 * a bounded lead is what budgets with a carry, served in the order of their levels,
 * come to; as a law of its own, without rounds, it was not tried.
 *
 * What it costs
 *
 * For each request the hctx lock twice: Kyber inserts under a lock of the CPU instead. With
 * a hctx a CPU, four cgroups and nothing queued, a request makes 12 locked operations on
 * lines of its hctx, 7 on lines of its cgroup and 5 on lines of the device; Kyber's structure
 * 9, 0 and 1. Where tokens and budgets bind it is 14, 8 and 9, of which 3 take a lock that
 * CPUs share (docs/results/scaling.md). No request loops over cgroups; a refill does. On one
 * hctx it is a constant for each request, as a round has at least a page for each cgroup. On
 * one CPU, with a null_blk that completes at once, a request takes 0.99 of kyber's CPU time
 * and 0.82 of bfq's with 4 cgroups, 7 % more with 64 (kf-scale), and 0.99 of 4's with 1,024.
 *
 * What it does not do
 *
 * It learns what reads and writes take by their sizes, not whether they are in
 * sequence, nor that one kind may slow down another: time is shared no
 * better than its linear model tells. It keeps little back for a cgroup that has no
 * request waiting: who cannot keep requests waiting, or inside in proportion
 * to its share, gets less than its share, and the total stays near full, or at 0.8
 * of it where the cgroup comes back often. Buffered writes are charged to the cgroup
 * that dirtied the pages where the filesystem tells (cgroup v2), and their tags to the
 * flusher; what the kernel's writeback does not send, in its pauses, goes to others. On
 * devices whose scheduler tags are shared by all hardware queues, the tag limit counts per
 * hardware queue.
 */
#include "kyber-fairness.h"

#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Of the scheduler's tags; a quarter is kept for those somebody waits for. */
#define KF_ASYNC_PCT		75

/*
 * Requests of one domain in a row, if there are that many: enough reads to
 * get somewhere, fewer writes, and not two trims.
 */
static const unsigned int kf_domain_batch[KF_NR_DOMAINS] = {
	[KF_READ] = 16,
	[KF_WRITE] = 8,
	[KF_DISCARD] = 1,
	[KF_OTHER] = 1,
};

/*
 * A request's two words. priv[0], from the low end: domain token + 1, what it
 * was charged in units of KF_COST_UNIT_SHIFT, and the microseconds it could not go
 * for want of budget. priv[1]: backlog.
 */
#define KF_RQ_TOKEN_BITS	12
#define KF_RQ_HELD_SHIFT	(KF_RQ_TOKEN_BITS + KF_COST_BITS)
static_assert(BITS_PER_LONG == 64);

static struct kf_backlog *kf_rq_backlog(struct request *rq)
{
	return rq->elv.priv[1];
}

static int kf_rq_token(struct request *rq)
{
	return (int)((unsigned long)rq->elv.priv[0] &
		     GENMASK(KF_RQ_TOKEN_BITS - 1, 0)) - 1;
}

static u64 kf_rq_held_ns(struct request *rq)
{
	return (u64)((unsigned long)rq->elv.priv[0] >> KF_RQ_HELD_SHIFT) *
	       NSEC_PER_USEC;
}

static u32 kf_rq_cost_bytes(struct request *rq)
{
	unsigned long units = (unsigned long)rq->elv.priv[0] >> KF_RQ_TOKEN_BITS &
			      GENMASK(KF_COST_BITS - 1, 0);

	return units << KF_COST_UNIT_SHIFT;
}

static void kf_rq_set_token(struct request *rq, int token, u32 cost_bytes,
			    u64 held_ns)
{
	unsigned long held_us = div_u64(held_ns, NSEC_PER_USEC);
	unsigned long units = cost_bytes >> KF_COST_UNIT_SHIFT;

	held_us = min(held_us, ~0UL >> KF_RQ_HELD_SHIFT);
	rq->elv.priv[0] = (void *)(held_us << KF_RQ_HELD_SHIFT |
				   units << KF_RQ_TOKEN_BITS |
				   (unsigned long)(token + 1));
}

static struct kf_group *kf_bio_group(struct kf_queue *kq, struct bio *bio)
{
	struct blkcg_gq *blkg = bio ? bio->bi_blkg : NULL;

	/* A request without a bio, or of another device's cgroup. */
	if (!blkg || isolio_blkg_q(blkg) != kq->q)
		return kq->root;
	return kf_group_of(kq, blkg) ?: kq->root;
}

/* Numbers the times the scheduler comes to a device. */
static atomic64_t kf_generation;

/* Called when nr_requests was set, and from kf_init_hctx(). */
static void isolio_depth_updated_fn(kf_depth_updated, hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);

	WRITE_ONCE(kq->async_depth, isolio_depth_of_pct(hctx, KF_ASYNC_PCT));
	isolio_set_min_depth(hctx, 1);
}

/*
 * Called by the block layer before it makes a request of a bio, in the task
 * that submits: the bio may go into a request of its own cgroup that waits.
 */
static bool kf_bio_merge(struct request_queue *q, struct bio *bio,
			 unsigned int nr_segs)
{
	struct kf_queue *kq = kf_of(q);
	struct kf_group *kg = kf_bio_group(kq, bio);
	struct blk_mq_hw_ctx *hctx = isolio_map_queue(q, bio->bi_opf);
	struct kf_hctx *kh = hctx->sched_data;
	struct kf_backlog *kb = kg->backlog[hctx->queue_num];
	struct list_head *rqs = &kb->rqs[kf_domain_of(bio->bi_opf)];
	bool merged;

	if (list_empty(rqs))
		return false;

	spin_lock(&kh->lock);
	merged = blk_bio_list_merge(q, rqs, bio, nr_segs);
	spin_unlock(&kh->lock);

	return merged;
}

/* Called when a request is allocated. */
static void kf_prepare_request(struct request *rq)
{
	kf_rq_set_token(rq, -1, 0, 0);
	rq->elv.priv[1] = NULL;
	guard_prepare(rq);
}

/* The request's backlog; the first time it takes references. */
static struct kf_backlog *kf_rq_claim(struct kf_queue *kq, struct kf_hctx *kh,
				      struct request *rq, unsigned int hctx_nr)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	struct kf_group *kg;

	if (kb)
		return kb;

	kg = kf_bio_group(kq, rq->bio);
	kb = kg->backlog[hctx_nr];
	isolio_blkg_get(kg->pd.blkg);
	if (unlikely(!kb->latency))
		kf_latency_alloc(kb);
	atomic_inc(&kb->nr_tags);
	atomic_inc(&kh->nr_tags);
	atomic_inc(&kg->nr_outstanding);
	rq->elv.priv[1] = kb;
	return kb;
}

static void kf_add_urgent(struct kf_hctx *kh, struct request *rq, bool at_head)
{
	struct list_head *urgent = &kh->urgent[kf_domain_of(rq->cmd_flags)];

	lockdep_assert_held(&kh->lock);

	if (at_head)
		list_add(&rq->queuelist, urgent);
	else
		list_add_tail(&rq->queuelist, urgent);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent + 1);
}

static void kf_insert_request(struct kf_queue *kq, struct kf_hctx *kh,
			      struct request *rq, unsigned int hctx_nr,
			      bool at_head)
{
	enum kf_domain_id id = kf_domain_of(rq->cmd_flags);
	struct kf_backlog *kb;
	struct kf_group *kg;

	lockdep_assert_held(&kh->lock);

	kh->nr_inserted++;
	trace_block_rq_insert(rq);

	if (unlikely(!isolio_rq_has_sched_data(rq))) {
		kf_add_urgent(kh, rq, at_head);
		return;
	}

	kb = kf_rq_claim(kq, kh, rq, hctx_nr);
	kg = kb->kg;
	if (at_head || kf_is_urgent(kg, rq)) {
		/* What it is charged comes back through refills. */
		if (!READ_ONCE(kg->is_active))
			kf_group_activate(kg);
		kf_add_urgent(kh, rq, at_head);
		return;
	}

	list_add_tail(&rq->queuelist, &kb->rqs[id]);
	if (!kb->nr_waiting++) {
		atomic_inc(&kg->nr_backlogged);
		/* Pairs with kf_group_deactivate(). */
		smp_mb__after_atomic();
		if (!READ_ONCE(kg->is_active))
			kf_group_activate(kg);
		kf_group_update_state(kg);
	}
	/* After it became active: then it has its budget. */
	if (list_is_singular(&kb->rqs[id]))
		kf_ready_choose(kq, kh, kb);
}

/* Called with requests to be queued on @hctx, in process context. */
static void kf_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, isolio_insert_arg)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;
	bool at_head = isolio_insert_at_head(flags);
	struct request *rq;

	spin_lock(&kh->lock);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		kf_insert_request(kq, kh, rq, hctx->queue_num, at_head);
	}
	spin_unlock(&kh->lock);
}

/* Return: whether there was a refill that this hardware context had not seen. */
static bool kf_see_refill(struct kf_queue *kq, struct kf_hctx *kh)
{
	/* Pairs with kf_refill(): the round's number before its budgets. */
	unsigned int round = smp_load_acquire(&kq->round);

	lockdep_assert_held(&kh->lock);

	if (kh->round == round)
		return false;
	WRITE_ONCE(kh->round, round);
	kf_ready_release(kq, kh);
	return true;
}

static void kf_hold_back(struct kf_queue *kq, struct kf_hctx *kh,
			 struct kf_backlog *kb, enum kf_domain_id id)
{
	struct kf_group *kg = kb->kg;

	kf_ready_hold_back(kh, kb, id);
	if (!kb->spent_at_ns)
		kb->spent_at_ns = ktime_get_ns();
	trace_kf_throttle(kq->dev, kb->hctx_nr,
			  cgroup_id(kg->pd.blkg->blkcg->css.cgroup),
			  atomic64_read(&kg->budget_bytes), kb->nr_waiting);
}

/* The next backlog of a domain whose cgroup has budget, or NULL. */
static struct kf_backlog *kf_next_backlog(struct kf_queue *kq,
					  struct kf_hctx *kh,
					  enum kf_domain_id id)
{
	struct kf_backlog *kb;

	lockdep_assert_held(&kh->lock);

	for (;;) {
		kb = kf_ready_first(kh, id);
		if (!kb)
			return NULL;
		if (kf_group_has_budget(kb->kg))
			break;
		/* Each does this once in a round: the loop costs no request more. */
		kf_hold_back(kq, kh, kb, id);
	}

	if (kb->spent_at_ns) {
		u64 round_start_ns = READ_ONCE(kq->round_start_ns);

		kb->eligible_at_ns = max(round_start_ns, kb->spent_at_ns);
		WRITE_ONCE(kb->throttled_ns, kb->throttled_ns +
			   kb->eligible_at_ns - kb->spent_at_ns);
		kb->spent_at_ns = 0;
	}
	return kb;
}

/*
 * What a request is charged, by the unit that is shared. One that moves no data,
 * such as a discard, which may name the whole device, counts as one of a page.
 */
static u32 kf_find_cost_bytes(struct kf_queue *kq, struct request *rq)
{
	return kf_cost_bytes(READ_ONCE(kq->cost_rate[rq_data_dir(rq)]),
			     bio_has_data(rq->bio) ? blk_rq_bytes(rq) :
						     KF_POOL_MIN_BYTES);
}

/* Charge the request's cgroup: it is dispatched. */
static void kf_charge(struct kf_backlog *kb, struct request *rq)
{
	struct kf_group *kg = kb->kg;

	if (bio_has_data(rq->bio)) {
		unsigned int dir = rq_data_dir(rq);

		WRITE_ONCE(kb->dispatched_bytes[dir],
			   kb->dispatched_bytes[dir] + blk_rq_bytes(rq));
		WRITE_ONCE(kb->nr_dispatched[dir], kb->nr_dispatched[dir] + 1);
	}
	atomic64_sub(kf_rq_cost_bytes(rq), &kg->budget_bytes);
}

static void kf_take_request(struct kf_queue *kq, struct kf_hctx *kh,
			    struct kf_backlog *kb, struct request *rq,
			    enum kf_domain_id id)
{
	struct kf_group *kg = kb->kg;
	bool has_budget;

	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	if (!--kb->nr_waiting)
		atomic_dec(&kg->nr_backlogged);
	kf_charge(kb, rq);
	WRITE_ONCE(kg->mean_cost_bytes,
		   kf_mean_cost_bytes(READ_ONCE(kg->mean_cost_bytes),
				      kf_rq_cost_bytes(rq)));
	has_budget = kf_group_has_budget(kg);
	if (!kb->nr_waiting || !has_budget)
		kf_group_update_state(kg);
	kf_ready_choose(kq, kh, kb);
	if (list_empty(&kb->node[id]))
		return;
	if (has_budget)
		kf_ready_move(kh, kb, id);
	else
		kf_hold_back(kq, kh, kb, id);
}

static void kf_take_urgent(struct kf_hctx *kh, struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);

	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent - 1);
	kf_charge(kb, rq);
	kf_group_update_state(kb->kg);
}

/*
 * A request that the block layer inserts without the scheduler's data, and which it
 * will not say the end of: on some kernels a FUA write that the device gave back. It
 * has no cgroup, no token and no charge, and its words are not the scheduler's.
 */
static struct request *kf_take_foreign(struct kf_hctx *kh, struct request *rq)
{
	lockdep_assert_held(&kh->lock);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(kh->nr_urgent, kh->nr_urgent - 1);
	kh->nr_dispatched++;
	return rq;
}

static struct request *kf_dispatch_domain(struct kf_queue *kq,
					  struct kf_hctx *kh,
					  unsigned int hctx_nr,
					  enum kf_domain_id id)
{
	struct kf_backlog *kb = NULL;
	struct request *rq;
	u64 held_ns = 0;
	u32 cost_bytes;
	int token;

	lockdep_assert_held(&kh->lock);

	rq = list_first_entry_or_null(&kh->urgent[id], struct request, queuelist);
	if (!rq) {
		kb = kf_next_backlog(kq, kh, id);
		if (!kb)
			return NULL;
		rq = list_first_entry(&kb->rqs[id], struct request, queuelist);
	} else if (unlikely(!isolio_rq_has_sched_data(rq))) {
		return kf_take_foreign(kh, rq);
	}

	token = kf_domain_get_token(kq, kh, id);
	if (token < 0) {
		trace_kf_no_token(kq->dev, hctx_nr, kf_domain_names[id]);
		return NULL;
	}
	if (!guard_dispatch(kq->guard, rq)) {
		kf_domain_put_token(kq, id, token, rq->mq_ctx->cpu);
		return NULL;
	}

	if (kb && kb->eligible_at_ns > rq->start_time_ns)
		held_ns = kb->eligible_at_ns - rq->start_time_ns;
	cost_bytes = kf_find_cost_bytes(kq, rq);
	if (!kb)
		cost_bytes = kf_group_urgent_charge_bytes(kf_rq_backlog(rq)->kg,
							  cost_bytes);
	kf_rq_set_token(rq, token, cost_bytes, held_ns);
	if (kb)
		kf_take_request(kq, kh, kb, rq, id);
	else
		kf_take_urgent(kh, rq);
	kh->nr_dispatched++;
	kh->nr_batched++;

	return rq;
}

static struct request *kf_dispatch(struct kf_queue *kq, struct kf_hctx *kh,
				   unsigned int hctx_nr)
{
	struct request *rq;
	int i;

	lockdep_assert_held(&kh->lock);

	if (kh->nr_batched < kf_domain_batch[kh->cur_domain]) {
		rq = kf_dispatch_domain(kq, kh, hctx_nr, kh->cur_domain);
		if (rq)
			return rq;
	}

	/*
	 * The batch is full, or the domain has nothing to give, no budget or
	 * no tokens: the next one, and at last this one again.
	 */
	kh->nr_batched = 0;
	for (i = 0; i < KF_NR_DOMAINS; i++) {
		kh->cur_domain = (kh->cur_domain + 1) % KF_NR_DOMAINS;
		rq = kf_dispatch_domain(kq, kh, hctx_nr, kh->cur_domain);
		if (rq)
			return rq;
	}

	return NULL;
}

/* Whether a request may be dispatched, for all that is known here; no lock. */
static bool kf_is_ready(struct kf_hctx *kh)
{
	int id;

	if (READ_ONCE(kh->nr_urgent))
		return true;
	for (id = 0; id < KF_NR_DOMAINS; id++)
		if (READ_ONCE(kh->ready_levels[id]))
			return true;
	return false;
}

/*
 * Whether what is left has to wait. Known at once, the block layer does not come again
 * to hear that there is nothing, and look at all hardware queues.
 */
static bool kf_must_wait(struct kf_hctx *kh, struct request *rq)
{
	lockdep_assert_held(&kh->lock);

	return kh->nr_spent && (!rq || !kf_is_ready(kh));
}

/*
 * Called by the block layer when @hctx can take a request, in process context
 * or on a worker; often. Tries, refills if nobody has budget, tries again, and
 * leaves: it never waits.
 */
static struct request *kf_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;
	bool refilled = false, waits;
	struct request *rq;

	if (guard_holds(kq->guard, hctx))
		return NULL;

	spin_lock(&kh->lock);
	kf_see_refill(kq, kh);
	rq = kf_dispatch(kq, kh, hctx->queue_num);
	if (rq && READ_ONCE(kq->hold_start_ns))
		kf_stop_holding(kq);
	waits = kf_must_wait(kh, rq);
	/* This may have been the last one entitled before the others. */
	if (!waits && rq && !llist_empty(&kq->throttled))
		refilled = kf_refill_if_spent(kq);
	while (waits) {
		refilled = kf_refill_if_spent(kq);
		if (!refilled && kf_wait_for_refill(kq, kh))
			refilled = kf_refill_if_spent(kq);
		/*
		 * By us, or by somebody before we were known to wait. Without one
		 * there is no second try: a token may have come free just now, and
		 * who is dispatched after the look at who is entitled may have been
		 * the last one. All others would wait for the timer then.
		 */
		if (!kf_see_refill(kq, kh))
			break;
		if (!rq)
			rq = kf_dispatch(kq, kh, hctx->queue_num);
		waits = !refilled && kf_must_wait(kh, rq);
	}
	spin_unlock(&kh->lock);

	if (refilled)
		kf_kick_throttled(kq);

	return rq;
}

/* Called by the block layer to see whether to call kf_dispatch_request(). */
static bool kf_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;

	if (guard_holds(kq->guard, hctx))
		return false;
	if (kf_is_ready(kh))
		return true;

	/*
	 * Held back: work once there was a refill, or may be one. And until
	 * this hardware context is known to wait for it: else nobody runs it.
	 */
	return READ_ONCE(kh->nr_spent) &&
	       (!test_bit(KF_HCTX_THROTTLED, &kh->flags) ||
		READ_ONCE(kh->round) != READ_ONCE(kq->round) ||
		!(atomic_read(&kq->nr_runnable) ||
		  atomic_read(&kq->nr_expected)));
}

/*
 * The time since @then_ns. Where a request completes in the task that submits others,
 * @now_ns may be older: the time at which that task began to submit.
 */
static u64 kf_since_ns(u64 now_ns, u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Called on completion, in any context. */
static void kf_completed_request(struct request *rq, u64 now_ns)
{
	enum kf_domain_id id = kf_domain_of(rq->cmd_flags);
	u64 total_ns = kf_since_ns(now_ns, rq->start_time_ns);

	if (!isolio_rq_has_sched_data(rq) || !kf_rq_backlog(rq))
		return;
	/* Not of one that failed before its driver started it. */
	if (id < KF_NR_TARGETS && rq->io_start_time_ns)
		kf_domain_add_sample(kf_of(rq->q), id, total_ns, kf_rq_held_ns(rq),
				     kf_since_ns(now_ns, rq->io_start_time_ns),
				     blk_rq_stats_sectors(rq));
	if (id < KF_NR_DIRS)
		kf_latency_add(kf_rq_backlog(rq), id, total_ns, now_ns);
}

static void kf_rq_return_token(struct request *rq)
{
	int token = kf_rq_token(rq);

	if (token < 0)
		return;
	kf_domain_put_token(kf_of(rq->q), kf_domain_of(rq->cmd_flags), token,
			    rq->mq_ctx->cpu);
	kf_rq_set_token(rq, -1, 0, 0);
}

/* Called when a request is freed, in any context. */
static void kf_finish_request(struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	struct kf_hctx *kh;

	guard_finish(kf_of(rq->q)->guard, rq);
	kf_rq_return_token(rq);
	if (!kb)
		return;
	kh = rq->mq_hctx->sched_data;
	rq->elv.priv[1] = NULL;
	atomic_dec(&kb->kg->nr_outstanding);
	atomic_dec(&kh->nr_tags);
	atomic_dec(&kb->nr_tags);
	/* The count before the look; prepare_to_wait_exclusive() pairs. */
	smp_mb__after_atomic();
	/* A sleeper that is not seen here has seen the count. */
	if (waitqueue_active(&kb->tag_wait))
		wake_up(&kb->tag_wait);
	isolio_blkg_put(kb->kg->pd.blkg);
}

/*
 * Called when the device gave a request back. If it will be inserted again, what
 * it was charged goes back as well: it will be charged again. Else it goes to
 * the device again as it is, with its charge and its token.
 */
static void kf_requeue_request(struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	u32 cost_bytes = kf_rq_cost_bytes(rq);

	if (!guard_is_left(rq))
		return;
	guard_requeue(kf_of(rq->q)->guard, rq);
	if (kf_rq_token(rq) < 0 || !kb)
		return;
	kf_rq_return_token(rq);
	kf_group_give_back(kb->kg, cost_bytes);
}

static int kf_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kf_hctx *kh;

	kh = kzalloc_node(sizeof(*kh), GFP_KERNEL, hctx->numa_node);
	if (!kh)
		return -ENOMEM;

	kh->hctx = hctx;
	spin_lock_init(&kh->lock);
	kf_ready_init(kh);
	kf_domain_wait_init(kh, hctx);

	hctx->sched_data = kh;
	isolio_depth_updated(kf_depth_updated)(hctx);
	return 0;
}

/* The queue is frozen and quiesced: no request, no dispatch. */
static void kf_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx)
{
	struct kf_queue *kq = kf_of(hctx->queue);
	struct kf_hctx *kh = hctx->sched_data;

	kf_hctx_stop_waiting(kq);
	WARN_ONCE(kh->nr_inserted != kh->nr_dispatched,
		  "kyber-fairness: hctx %u: %llu requests in, %llu out\n",
		  hctx_idx, kh->nr_inserted, kh->nr_dispatched);
	hctx->sched_data = NULL;
	kfree(kh);
}

static void *kf_alloc(struct request_queue *q)
{
	struct kf_queue *kq;

	kq = kzalloc_node(sizeof(*kq), GFP_KERNEL, q->node);
	if (!kq)
		return NULL;

	kq->q = q;
	kq->dev = disk_devt(q->disk);
	kq->generation = atomic64_inc_return(&kf_generation);
	kf_cost_init(kq);
	kf_tunables_init(kq);
	kf_groups_init(kq);
	kq->guard = guard_alloc(q);
	if (!kq->guard || kf_domains_init(kq)) {
		guard_free(kq->guard);
		kfree(kq);
		return NULL;
	}

	return kq;
}

static void kf_free(void *data)
{
	struct kf_queue *kq = data;

	if (!kq)
		return;
	kf_domains_exit(kq);
	guard_free(kq->guard);
	kfree(kq);
}

/* The scheduler is chosen for a device; the queue is frozen. */
static int kf_init_sched(struct request_queue *q, isolio_init_sched_arg)
{
	struct kf_queue *kq;
	int ret;

	kq = isolio_elevator_begin(q, eq, kf_alloc);
	if (!kq)
		return -ENOMEM;
	ret = guard_start(kq->guard);
	if (ret) {
		isolio_elevator_abort(q, kf_free);
		return ret;
	}

	/* Hardware contexts dispatch side by side. */
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);

	ret = isolio_activate_policy(q, &kf_policy);
	if (ret) {
		isolio_elevator_abort(q, kf_free);
		return ret;
	}

	/* What it would hold back is not seen here, and shared by nobody. */
	isolio_wbt_disable(q);
	/* io_start_time_ns is only kept while somebody asks for it. */
	blk_stat_enable_accounting(q);
	return 0;
}

/* Another scheduler is chosen, or the device goes; all kf_hctx are gone. */
static void kf_exit_sched(struct elevator_queue *e)
{
	struct kf_queue *kq = e->elevator_data;

	kf_groups_stop(kq);
	kf_domains_stop(kq);
	blk_stat_disable_accounting(kq->q);
	isolio_wbt_enable(kq->q);
	isolio_deactivate_policy(kq->q, &kf_policy);
	kf_groups_exit(kq);
	isolio_elevator_end(kq, kf_free);
}

static struct elevator_type kf_elevator = {
	.ops = {
		ISOLIO_SCHED_DATA_OPS(kf_alloc, kf_free)
		.init_sched		= kf_init_sched,
		.exit_sched		= kf_exit_sched,
		.init_hctx		= kf_init_hctx,
		.exit_hctx		= kf_exit_hctx,
		.depth_updated		= kf_depth_updated,
		.limit_depth		= kf_limit_depth,
		.bio_merge		= kf_bio_merge,
		.prepare_request	= kf_prepare_request,
		.insert_requests	= kf_insert_requests,
		.has_work		= kf_has_work,
		.dispatch_request	= kf_dispatch_request,
		.completed_request	= kf_completed_request,
		.requeue_request	= kf_requeue_request,
		.finish_request		= kf_finish_request,
	},
	ISOLIO_DEBUGFS_ATTRS(kf_queue_debugfs_attrs, kf_hctx_debugfs_attrs)
	.elevator_attrs	= kf_attrs,
	.elevator_name	= "kyber-fairness",
	.elevator_owner	= THIS_MODULE,
};

static int __init kf_init(void)
{
	int ret;

	ret = isolio_check_fit();
	if (ret)
		return ret;

	ret = blkcg_policy_register(&kf_policy);
	if (ret == -ENOSPC)
		pr_err("kyber-fairness: all %d blkcg policy slots of this kernel are taken: unload another policy (bfq is one) and load again\n",
		       BLKCG_MAX_POLS);
	if (ret)
		return ret;

	ret = elv_register(&kf_elevator);
	if (ret)
		blkcg_policy_unregister(&kf_policy);
	return ret;
}

static void __exit kf_exit(void)
{
	elv_unregister(&kf_elevator);
	kf_wait_for_groups();
	blkcg_policy_unregister(&kf_policy);
}

module_init(kf_init);
module_exit(kf_exit);

MODULE_AUTHOR("the isolio project");
MODULE_DESCRIPTION("Weighted sharing of multi-queue SSDs among cgroups");
MODULE_LICENSE("GPL");
MODULE_ALIAS("kyber-fairness-iosched");
