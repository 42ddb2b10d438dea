// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooks for a request that leaves the device: it is completed, freed, or given back. What it
 * had of the device, its place and token, is free then, and what waits for that is run.
 */
#include "kyber-fairness.h"
#include "request.h"

/*
 * The time since @then_ns. Where a request completes in the task that submits others,
 * @now_ns may be older: the time at which that task began to submit.
 */
static u64 kf_since_ns(u64 now_ns, u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Whether it was throttled, or others are so that its cgroup gets its share. */
static bool kf_rq_is_bound(struct kf_queue *kq, struct request *rq)
{
	return kf_rq_throttled_ns(rq) ||
	       (READ_ONCE(kq->is_held) && READ_ONCE(kf_rq_backlog(rq)->kg->is_awaited));
}

static unsigned int kf_bucket_of(u64 latency_ns, u64 width_ns)
{
	u64 above_ns = max_t(u64, latency_ns, 1) - 1;

	if (above_ns >= width_ns * (KF_NR_BUCKETS - 1))
		return KF_NR_BUCKETS - 1;
	return div64_u64(above_ns, width_ns);
}

/*
 * For kf_latency_work(): a domain's latencies, from the moment at which the request's cgroup
 * could send it, and from when the device got it.
 */
static void kf_add_latencies(struct kf_queue *kq, struct request *rq, enum kf_domain_id id,
			     u64 total_ns, u64 io_ns)
{
	u64 width_ns = max_t(u64, READ_ONCE(kq->domain[id].aim_ns) >> KF_BUCKET_SHIFT, 1);
	u64 throttled_ns = kf_rq_throttled_ns(rq);
	struct kf_cpu_sample __percpu *cs = kq->cpu_sample;
	unsigned int bucket;

	total_ns = max(kf_since_ns(total_ns, throttled_ns), io_ns);
	bucket = kf_bucket_of(total_ns, width_ns);
	this_cpu_inc(cs->nr[id][KF_LATENCY_TOTAL][bucket]);
	if (kf_rq_is_bound(kq, rq)) {
		this_cpu_inc(cs->nr_throttled[id]);
	} else {
		bucket = kf_bucket_of(io_ns, width_ns);
		this_cpu_inc(cs->nr[id][KF_LATENCY_IO][bucket]);
	}
	this_cpu_inc(cs->nr_done[id]);
}

/* For kf_gate_account() and kf_overdue_update(): what the device did, and how fast. */
static void kf_add_kind(struct kf_queue *kq, struct request *rq, unsigned int kind, u64 io_ns)
{
	struct kf_cpu_sample __percpu *cs = kq->cpu_sample;

	this_cpu_inc(cs->nr_kind[kind]);
	if (io_ns < READ_ONCE(kq->quick_ns[kind]))
		this_cpu_inc(cs->nr_quick[kind]);
	this_cpu_add(cs->cost_units, kf_rq_cost_bytes(rq) >> KF_COST_UNIT_SHIFT);
	if (!kf_rq_blocks_others(rq))
		return;
	this_cpu_inc(cs->nr_blocking[kind]);
	/* More than a look counts for none; see kf_overdue_cost_ns(). */
	this_cpu_add(cs->blocking_us[kind],
		     div_u64(min_t(u64, io_ns, NSEC_PER_SEC), NSEC_PER_USEC));
}

/* What a request took in the device: the least of all its group's, and the most of late. */
static void kf_group_account_time(struct kf_group *kg, u64 io_ns)
{
	u64 least_ns = READ_ONCE(kg->least_ns);

	if (unlikely(io_ns > READ_ONCE(kg->kq->slowest_ns)))
		WRITE_ONCE(kg->kq->slowest_ns, io_ns);
	if (unlikely(io_ns && (!least_ns || io_ns < least_ns)))
		WRITE_ONCE(kg->least_ns, io_ns);
}

/* Called on completion, in any context. */
void kf_completed_request(struct request *rq, u64 now_ns)
{
	enum kf_domain_id id = kf_domain_of(rq->cmd_flags);
	u64 total_ns = kf_since_ns(now_ns, rq->start_time_ns);
	u64 io_ns = kf_since_ns(now_ns, rq->io_start_time_ns);
	unsigned int bytes = blk_rq_stats_sectors(rq) << SECTOR_SHIFT;
	struct kf_queue *kq = kf_of(rq->q);
	/* Not of one that failed before its driver started it. */
	bool was_started = rq->io_start_time_ns;
	struct kf_backlog *kb;

	if (!isolio_rq_has_sched_data(rq) || !kf_rq_backlog(rq))
		return;
	kb = kf_rq_backlog(rq);
	WRITE_ONCE(kb->done_ns, now_ns);
	if (id < KF_NR_TARGETS && was_started) {
		kf_add_latencies(kq, rq, id, total_ns, io_ns);
		kf_update_soon(kq);
	}
	if (id >= KF_NR_DIRS)
		return;
	kf_latency_add(kb, id, total_ns, now_ns);
	kf_group_account_time(kb->kg, io_ns);
	if (!was_started)
		return;
	kf_add_kind(kq, rq, kf_kind(id == KF_WRITE, bytes), io_ns);
	if (unlikely(kf_rq_is_counted(rq)))
		kf_large_completed(kq, id, rq->io_start_time_ns);
	if (unlikely(READ_ONCE(kq->gate.phase) != KF_BAND_STEADY))
		kf_probe_done(kb->kg, id == KF_WRITE, bytes, kf_rq_was_alone(rq), io_ns);
}

/* A request is no longer in flight: what it had of the device is free. */
static void kf_rq_leave(struct request *rq, struct kf_backlog *kb)
{
	struct kf_queue *kq = kf_of(rq->q);
	bool has_place = kf_rq_has_place(rq), is_counted = kf_rq_is_counted(rq);
	int token = kf_rq_token(rq);

	if (!kf_rq_is_out(rq))
		return;
	if (token >= 0)
		kf_domain_put_token(kq, kf_domain_of(rq->cmd_flags), token,
				    rq->mq_ctx->cpu);
	if (has_place)
		kf_put_place(kq);
	kf_rq_set(rq, 0, -1, 0, 0);
	if (is_counted)
		kf_large_put(kq, kf_domain_of(rq->cmd_flags));
	if (has_place)
		kf_gate_done(kq, READ_ONCE(kb->done_ns));
}

/* Called when a request is freed, in any context. */
void kf_finish_request(struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	bool is_first = kf_rq_is_first(rq);
	struct kf_hctx *kh;
	u64 done_ns;

	guard_finish(kf_of(rq->q)->guard, rq);
	kf_rq_leave(rq, kb);
	if (!kb)
		return;
	kh = rq->mq_hctx->sched_data;
	kf_class_finish(kb->kg, kf_rq_class(rq));
	rq->elv.priv[1] = NULL;
	atomic_dec(kh->nr_tags);
	/* It may have failed before it completed. */
	done_ns = max(READ_ONCE(kb->done_ns), rq->start_time_ns);
	atomic64_sub(kf_load_of(done_ns), &kb->load);
	if (unlikely(is_first))
		atomic64_sub(kf_load_of(done_ns), &kb->first_load);
	if (unlikely(kf_rq_is_other(rq)))
		atomic_dec(&kb->nr_other);
	if (kf_is_buffered_write(rq->cmd_flags))
		atomic_dec(&kb->nr_buffered);
	/* The counts before the looks; prepare_to_wait() and its like pair. */
	smp_mb__after_atomic();
	/* A sleeper that is not seen here has seen the count. */
	if (waitqueue_active(kb->tag_wait))
		wake_up(kb->tag_wait);
	kf_class_wake(kb->kg);
	isolio_blkg_put(kb->kg->pd.blkg);
}

/*
 * Called when the device gave a request back. If it will be inserted again, what
 * it was charged goes back as well: it will be charged again. Else it goes to
 * the device again as it is, with its charge and its place.
 */
void kf_requeue_request(struct request *rq)
{
	struct kf_backlog *kb = kf_rq_backlog(rq);
	u32 cost_bytes = kf_rq_cost_bytes(rq);

	if (!guard_is_left(rq))
		return;
	guard_requeue(kf_of(rq->q)->guard, rq);
	if (!kf_rq_is_out(rq) || !kb)
		return;
	kf_rq_leave(rq, kb);
	kf_group_give_back(kb->kg, cost_bytes);
}
