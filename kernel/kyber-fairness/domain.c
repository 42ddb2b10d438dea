// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains, tokens and latency targets: Kyber's part of kyber-fairness; and the places
 * of all requests in flight.
 *
 * Requests of one kind (reads, writes, discards, the rest) form a domain. Ten times a
 * second the latencies of the domains are compared with their targets. When the device
 * is congested, domains that are within their target may have fewer requests in flight,
 * and domains that miss it more: as many as the domain has tokens.
 *
 * Three things differ from Kyber. A request takes a token only while its domain has fewer
 * than there are places. What bounds the requests in flight otherwise is their places, as
 * many as the band's ceiling (band.h), for all domains together. A request's total latency
 * counts from the moment its cgroup could send it, not from its submission: otherwise a
 * cgroup that is throttled, which is what weights are for, would look like a device that
 * is slow, and its domain would get tokens for it. And a target that the device cannot meet
 * is taken for one that it can: see kf_domain_aim().
 *
 * Shares come before targets. A cgroup whose reads wait for its share has them
 * answered at the rate of that share, so fewer writes for the reads' sake make the
 * device do less and those reads wait longer. So requests do not tell of congestion that
 * were throttled, nor those of a cgroup that the clock waits for while others are
 * throttled. A domain of hardly any other requests has no other domain limited for it:
 * see kf_domain_update_bound().
 */
#include "kyber-fairness.h"
#include "trace.h"

/* Of the device's tags, a domain has one part in so many. Reads get all: a task waits. */
static const unsigned int kf_domain_part[KF_NR_TARGETS] = {
	[KF_READ] = 1,
	[KF_WRITE] = 2,
	[KF_DISCARD] = 4,
};

/* Kyber's most reads in flight: no device has fewer tokens than that stands for. */
#define KF_DEPTH_LEAST		256U
/* Places and tokens are numbers that have to fit into a request's word. */
#define KF_DEPTH_MOST		((1U << KF_TOKEN_BITS) - 4)

/* Kyber's defaults: an interactive read, a write-back, a trim. */
static const u64 kf_domain_target_ns[KF_NR_TARGETS] = {
	[KF_READ] = 2 * NSEC_PER_MSEC,
	[KF_WRITE] = 10 * NSEC_PER_MSEC,
	[KF_DISCARD] = 5ULL * NSEC_PER_SEC,
};

const char * const kf_domain_names[KF_NR_DOMAINS] = {
	[KF_READ] = "read",
	[KF_WRITE] = "write",
	[KF_DISCARD] = "discard",
	[KF_OTHER] = "other",
};

/* A target is no less than so many times what a request takes that is alone. */
#define KF_TARGET_LEAST		2ULL
/* A domain is bound by shares when less than one part in so many was not throttled. */
#define KF_BOUND_PART		8
/* A percentile needs this many samples, or KF_SAMPLE_TIME of waiting. */
#define KF_SAMPLES_MIN		500
#define KF_SAMPLE_TIME		HZ

/**
 * kf_percentile_bucket - histogram bucket that holds a percentile
 * @kd: domain
 * @type: which latency
 * @pct: percentile, 1..100
 *
 * Return: the bucket, or -1 while there are too few samples. A histogram that
 * was used starts anew.
 */
static int kf_percentile_bucket(struct kf_domain *kd, enum kf_latency_type type,
				unsigned int pct)
{
	unsigned int *nr = kd->nr[type];
	unsigned int samples = 0, rank, bucket;

	for (bucket = 0; bucket < KF_NR_BUCKETS; bucket++)
		samples += nr[bucket];
	if (!samples)
		return -1;

	if (!kd->sample_end_jiffies[type])
		kd->sample_end_jiffies[type] = (jiffies + KF_SAMPLE_TIME) ?: 1;
	if (samples < KF_SAMPLES_MIN &&
	    time_before(jiffies, kd->sample_end_jiffies[type]))
		return -1;
	kd->sample_end_jiffies[type] = 0;

	rank = DIV_ROUND_UP(samples * pct, 100);
	for (bucket = 0; bucket < KF_NR_BUCKETS - 1 && rank > nr[bucket]; bucket++)
		rank -= nr[bucket];
	memset(nr, 0, sizeof(kd->nr[type]));

	return bucket;
}

/*
 * What completed on all CPUs since the last time. Counts wrap around, and those of a CPU
 * that went offline stay.
 */
static void kf_collect(struct kf_queue *kq, struct kf_cpu_sample *sample)
{
	u32 *sum = (u32 *)sample, *seen = (u32 *)&kq->seen;
	unsigned int i;
	int cpu;

	memset(sample, 0, sizeof(*sample));
	for_each_possible_cpu(cpu) {
		const u32 *counts = (const u32 *)per_cpu_ptr(kq->cpu_sample, cpu);

		for (i = 0; i < KF_NR_SAMPLES; i++)
			sum[i] += READ_ONCE(counts[i]);
	}
	for (i = 0; i < KF_NR_SAMPLES; i++) {
		u32 now = sum[i];

		sum[i] = now - seen[i];
		seen[i] = now;
	}
}

static void kf_domain_add(struct kf_domain *kd, const struct kf_cpu_sample *sample, int id)
{
	int type, bucket;

	kd->nr_seen += sample->nr_done[id];
	kd->nr_throttled += sample->nr_throttled[id];
	for (type = 0; type < KF_NR_LATENCY_TYPES; type++)
		for (bucket = 0; bucket < KF_NR_BUCKETS; bucket++)
			kd->nr[type][bucket] += sample->nr[id][type][bucket];
}

/* Tokens limit what places do not. */
static void kf_domain_update_limited(struct kf_queue *kq, struct kf_domain *kd)
{
	unsigned int depth = kd->tokens.sb.depth;
	bool is_limited = depth < kd->depth_max && depth < READ_ONCE(kq->ceiling);

	if (kd->is_limited != is_limited)
		WRITE_ONCE(kd->is_limited, is_limited);
}

static void kf_domain_set_depth(struct kf_queue *kq, int id, int p99_bucket, bool congested,
				unsigned int depth)
{
	struct kf_domain *kd = &kq->domain[id];

	if (depth == kd->tokens.sb.depth)
		return;
	sbitmap_queue_resize(&kd->tokens, depth);
	kf_domain_update_limited(kq, kd);
	/* There may be more than before, and those that wait are not told. */
	kf_gate_kick(kq, KF_FOR_TOKEN + id, true, NULL);
	trace_kf_domain_depth(kq->dev, kf_domain_names[id], p99_bucket, congested, depth);
}

/*
 * New depth in proportion to the p99 against the target: at half the target
 * half the tokens do, at twice the target it takes twice as many.
 */
static void kf_resize_domain(struct kf_queue *kq, int id, int p99_bucket,
			     bool congested)
{
	struct kf_domain *kd = &kq->domain[id];
	unsigned int depth;

	/* More tokens than places stand for nothing. */
	depth = min(kd->tokens.sb.depth, max(READ_ONCE(kq->ceiling), KF_DEPTH_LEAST));
	depth = clamp((depth * (p99_bucket + 1)) >> KF_BUCKET_SHIFT, 1U, kd->depth_max);
	kf_domain_set_depth(kq, id, p99_bucket, congested, depth);
}

/*
 * Whether a domain's requests wait for their cgroups' shares, all but a few. Returns
 * true when there were enough to say so anew, and they do.
 */
static bool kf_domain_update_bound(struct kf_domain *kd)
{
	if (!kd->nr_seen)
		return false;
	if (!kd->bound_end_jiffies)
		kd->bound_end_jiffies = (jiffies + KF_SAMPLE_TIME) ?: 1;
	if (kd->nr_seen < KF_SAMPLES_MIN &&
	    time_before(jiffies, kd->bound_end_jiffies))
		return false;

	kd->is_share_bound = kd->nr_throttled > kd->nr_seen - kd->nr_seen / KF_BOUND_PART;
	kd->nr_seen = 0;
	kd->nr_throttled = 0;
	kd->bound_end_jiffies = 0;
	return kd->is_share_bound;
}

/* No domain is limited for the sake of requests that wait for their shares anyway. */
static void kf_give_back(struct kf_queue *kq)
{
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		kf_domain_set_depth(kq, id, -1, false,
				    min(2 * kd->tokens.sb.depth, kd->depth_max));
	}
}

/* What has to be done for a hardware context now and then. */
static void kf_hctx_update(struct kf_queue *kq, struct blk_mq_hw_ctx *hctx, u64 now_ns)
{
	struct kf_hctx *kh = hctx->sched_data;

	if (!READ_ONCE(kh->has_ready) && list_empty(&kh->saved))
		return;
	spin_lock(&kh->lock);
	kf_overdue_go(kq, kh, now_ns);
	kf_slices_give_back(kh);
	spin_unlock(&kh->lock);
	if (READ_ONCE(kh->nr_urgent) || kf_hctx_must_drain(kh))
		blk_mq_run_hw_queue(hctx, true);
}

/* Each time another one is first: what is overdue may take only so much. */
static void kf_hctxs_update(struct kf_queue *kq, u64 now_ns)
{
	unsigned int first = kq->nr_looks++ % kq->q->nr_hw_queues;
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(kq->q, hctx, i)
		if (i >= first)
			kf_hctx_update(kq, hctx, now_ns);
	queue_for_each_hw_ctx(kq->q, hctx, i)
		if (i < first)
			kf_hctx_update(kq, hctx, now_ns);
}

/* What is aimed at stays while what can be had changes by less than one part in so many. */
#define KF_AIM_PART		4

/*
 * What a domain is kept to: its target, or what can be had. On a device whose reads take
 * 2 ms each a target of 2 ms is missed whatever else is in flight, and to let in fewer
 * writes for it until one is left helps no cgroup. Under Kyber reads have the device then.
 * Here they have no more than their share next to those writes.
 *
 * What was measured against another aim says nothing of this one, nor do the tokens that
 * came of it.
 */
static void kf_domain_aim(struct kf_queue *kq, enum kf_domain_id id)
{
	struct kf_domain *kd = &kq->domain[id];
	u64 aim_ns = READ_ONCE(kd->target_ns), alone_ns;

	if (id < KF_NR_DIRS) {
		/* No probe has seen such requests: what others take. */
		alone_ns = READ_ONCE(kq->band.kind[kf_kind(id == KF_WRITE, 0)].alone_ns) ?:
			   READ_ONCE(kq->band.alone_ns);
		aim_ns = max(aim_ns, KF_TARGET_LEAST * alone_ns);
	}
	if (max(aim_ns, kd->aim_ns) - min(aim_ns, kd->aim_ns) <= kd->aim_ns / KF_AIM_PART)
		return;
	WRITE_ONCE(kd->aim_ns, aim_ns);
	memset(kd->nr, 0, sizeof(kd->nr));
	memset(kd->sample_end_jiffies, 0, sizeof(kd->sample_end_jiffies));
	kd->last_p99_bucket = -1;
	kf_domain_set_depth(kq, id, -1, false, kd->depth_max);
}

static void kf_latency_work(struct work_struct *work)
{
	struct kf_queue *kq = container_of(to_delayed_work(work),
					   struct kf_queue, latency_work);
	bool congested = false, is_bound = false;
	struct kf_cpu_sample sample;
	u64 now_ns = ktime_get_ns(), elapsed_ns = now_ns - kq->look_ns;
	/* While requests complete, this runs every period. */
	bool was_idle = elapsed_ns > 3 * jiffies_to_nsecs(KF_LATENCY_PERIOD);
	int id;

	kf_collect(kq, &sample);
	for (id = 0; id < KF_NR_TARGETS; id++)
		kf_domain_add(&kq->domain[id], &sample, id);
	kq->look_ns = now_ns;
	kf_gate_account(kq, &sample, was_idle);
	kf_groups_update(kq);
	kf_overdue_update(kq, &sample, elapsed_ns);
	kf_hctxs_update(kq, now_ns);
	for (id = 0; id < KF_NR_TARGETS; id++) {
		kf_domain_aim(kq, id);
		kf_domain_update_limited(kq, &kq->domain[id]);
	}

	/* The p90, not the p99: a few outliers do not make a congestion. */
	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];
		int p90 = kf_percentile_bucket(kd, KF_LATENCY_IO, 90);

		if (kf_domain_update_bound(kd))
			is_bound = true;
		if (p90 >= KF_GOOD_BUCKETS && !kd->is_share_bound)
			congested = true;
	}
	if (is_bound && !congested)
		kf_give_back(kq);

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];
		int p99 = kf_percentile_bucket(kd, KF_LATENCY_TOTAL, 99);

		/*
		 * Domains do not have enough samples at the same time. The
		 * p99 of a quiet moment is kept for the next congestion, and
		 * is used up by it: acting twice on one measurement would
		 * take the depth down twice.
		 */
		if (congested) {
			if (p99 < 0)
				p99 = kd->last_p99_bucket;
			kd->last_p99_bucket = -1;
		} else if (p99 >= 0) {
			kd->last_p99_bucket = p99;
		}

		if (p99 >= KF_GOOD_BUCKETS || (congested && p99 >= 0))
			kf_resize_domain(kq, id, p99, congested);
	}

	if (kf_waits_for(kq, KF_FOR_PLACE) && kf_nr_free(kq) > 0)
		kf_gate_kick(kq, KF_FOR_PLACE, true, NULL);
	/* All of these have to end, though no request may complete. */
	if (READ_ONCE(kq->gate.phase) != KF_BAND_STEADY ||
	    kf_waits_for(kq, KF_FOR_CLOCK) || kf_waits_for(kq, KF_FOR_PLACE))
		kf_update_soon(kq);
}

/* Have latency_work run within a period, unless the scheduler leaves; any context. */
void kf_update_soon(struct kf_queue *kq)
{
	unsigned long flags;

	if (delayed_work_pending(&kq->latency_work))
		return;
	spin_lock_irqsave(&kq->look_lock, flags);
	if (!kq->is_stopping)
		/* Memory may be waiting for what this lets go. */
		kblockd_mod_delayed_work_on(WORK_CPU_UNBOUND, &kq->latency_work,
					    KF_LATENCY_PERIOD);
	spin_unlock_irqrestore(&kq->look_lock, flags);
}

/*
 * latency_work runs no more. The queue is frozen, but a cgroup may be deleted at any time,
 * which asks for a look.
 */
void kf_update_stop(struct kf_queue *kq)
{
	spin_lock_irq(&kq->look_lock);
	kq->is_stopping = true;
	spin_unlock_irq(&kq->look_lock);
	cancel_delayed_work_sync(&kq->latency_work);
}

static bool kf_try_get_place(struct kf_queue *kq)
{
	/* A probe wants each request alone, and the ceiling says so a moment later. */
	int most = READ_ONCE(kq->gate.phase) == KF_BAND_EMPTY ? 1 : READ_ONCE(kq->ceiling);
	int nr = atomic_read(&kq->nr_in_flight);

	do {
		if (nr >= most)
			return false;
	} while (!atomic_try_cmpxchg(&kq->nr_in_flight, &nr, nr + 1));
	return true;
}

/*
 * A turn, one part in so many of the places: those that wait are run one by one, each when a
 * turn is free, as to run one for each place that comes back costs a switch of tasks each.
 * While others wait, a hardware context takes a turn and then waits behind them.
 */
#define KF_TURN_SHIFT	3

static int kf_turn(struct kf_queue *kq)
{
	return (kf_nr_places(kq) >> KF_TURN_SHIFT) + 1;
}

static bool kf_turn_is_free(struct kf_queue *kq)
{
	return kf_nr_free(kq) >= kf_turn(kq);
}

/* Whether a hardware context is to leave what is free to others that wait. */
static bool kf_has_had_turn(struct kf_queue *kq, struct kf_hctx *kh)
{
	if (kf_waits_for(kq, KF_FOR_PLACE))
		kh->nr_taken++;
	else
		kh->nr_taken = 0;
	return kh->nr_taken > kf_turn(kq);
}

/**
 * kf_get_place - leave for a request to go to the device
 * @kq: device
 * @kh: hardware context that will dispatch it; its lock is held
 * @is_owed: it is of a group that is owed, or urgent: others wait that it does not
 *
 * Return: false: as many are in flight as may be, or it is the turn of others. The hardware
 * queue will be run when it is its own.
 */
bool kf_get_place(struct kf_queue *kq, struct kf_hctx *kh, bool is_owed)
{
	lockdep_assert_held(&kh->lock);

	if (kf_waits_for_place(kh) && !is_owed)
		return false;
	if (!is_owed && unlikely(READ_ONCE(kq->gate.most_places) != U32_MAX) &&
	    kf_nr_free(kq) <= 0) {
		/* The device could do more: its rate tells nothing. */
		if (!READ_ONCE(kq->saw_throttled))
			WRITE_ONCE(kq->saw_throttled, true);
	} else if (is_owed || !kf_has_had_turn(kq, kh)) {
		if (kf_try_get_place(kq))
			return true;
		if (!READ_ONCE(kq->saw_full))
			WRITE_ONCE(kq->saw_full, true);
	}
	kh->nr_taken = 0;
	/* If no more than is left of a turn comes back for long, latency_work runs it. */
	if (kf_wait_for(kq, kh, KF_FOR_PLACE))
		kf_update_soon(kq);
	/* A turn may have come before it was on the list. */
	if (kf_turn_is_free(kq))
		kf_gate_kick(kq, KF_FOR_PLACE, false, NULL);
	return false;
}

void kf_put_place(struct kf_queue *kq)
{
	atomic_dec(&kq->nr_in_flight);
	/* Before the looks at lists, here and in kf_gate_done(); kf_wait_for() pairs. */
	smp_mb__after_atomic();
	if (kf_waits_for(kq, KF_FOR_PLACE) && kf_turn_is_free(kq))
		kf_gate_kick(kq, KF_FOR_PLACE, false, NULL);
}

/**
 * kf_domain_get_token - leave for a request of a domain that is limited
 * @kq: device
 * @kh: hardware context that will dispatch it; its lock is held
 * @id: domain of the request
 *
 * Return: the token, or -1: the hardware queue will be run when one is free.
 */
int kf_domain_get_token(struct kf_queue *kq, struct kf_hctx *kh,
			enum kf_domain_id id)
{
	int token;

	lockdep_assert_held(&kh->lock);

	token = __sbitmap_queue_get(&kq->domain[id].tokens);
	if (token >= 0)
		return token;
	kf_wait_for(kq, kh, KF_FOR_TOKEN + id);
	return __sbitmap_queue_get(&kq->domain[id].tokens);
}

void kf_domain_put_token(struct kf_queue *kq, enum kf_domain_id id, int token,
			 unsigned int cpu)
{
	struct sbitmap_queue *tokens = &kq->domain[id].tokens;

	sbitmap_queue_clear(tokens, token, cpu);
	/* After the last one no other comes to run those that wait. */
	if (kf_waits_for(kq, KF_FOR_TOKEN + id))
		kf_gate_kick(kq, KF_FOR_TOKEN + id, kf_is_unused(tokens), NULL);
}

/* Requests that the device takes at a time. */
static unsigned int kf_device_depth(struct request_queue *q)
{
	struct blk_mq_tag_set *set = q->tag_set;
	unsigned int nr = q->nr_hw_queues, nr_polled = 0;

	if (set->flags & BLK_MQ_F_TAG_HCTX_SHARED)
		nr = 1;
	/* They take only what a submitter polls for. */
	else if (set->nr_maps > HCTX_TYPE_POLL)
		nr_polled = set->map[HCTX_TYPE_POLL].nr_queues;
	nr = nr > nr_polled ? nr - nr_polled : 1;
	return min_t(size_t, array_size(nr, set->queue_depth), KF_DEPTH_MOST);
}

/* Called from kf_alloc(), in process context. */
int kf_samples_init(struct kf_queue *kq)
{
	INIT_DELAYED_WORK(&kq->latency_work, kf_latency_work);
	spin_lock_init(&kq->look_lock);
	kq->look_ns = ktime_get_ns();
	kq->cpu_sample = alloc_percpu(struct kf_cpu_sample);
	return kq->cpu_sample ? 0 : -ENOMEM;
}

/* One that has no memory is as if never made: the kernel leaves it half made. */
static int kf_bits_init(struct sbitmap_queue *bits, unsigned int nr, int node)
{
	int ret = sbitmap_queue_init_node(bits, nr, -1, false, GFP_NOIO, node);

	if (ret)
		memset(bits, 0, sizeof(*bits));
	return ret;
}

/*
 * Called from kf_init_sched(): a disk that is to have another number of hardware queues
 * has it by then, and on some kernels not yet in kf_alloc(). The queue is frozen.
 */
int kf_domains_init(struct kf_queue *kq)
{
	unsigned int depth = kf_device_depth(kq->q);
	int id, ret;

	/* One more than the tags: that these are all taken does not say that the ceiling is low. */
	kq->nr_places = depth + 1;
	kq->ceiling = kq->nr_places;
	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		kd->depth_max = max(depth, KF_DEPTH_LEAST) / kf_domain_part[id];
		ret = kf_bits_init(&kd->tokens, kd->depth_max, kq->q->node);
		if (ret)
			return ret;
		kd->last_p99_bucket = -1;
		kd->target_ns = kf_domain_target_ns[id];
		kd->aim_ns = kd->target_ns;
	}

	return 0;
}

/* No request is left; nothing adds samples any more. */
void kf_domains_stop(struct kf_queue *kq)
{
	unsigned int nr;
	int id;

	kf_update_stop(kq);

	nr = atomic_read(&kq->nr_in_flight);
	WARN_ONCE(nr, "kyber-fairness: %u places leaked\n", nr);
	for (id = 0; id < KF_NR_DIRS; id++) {
		nr = atomic_read(&kq->nr_large[id]);
		WARN_ONCE(nr, "kyber-fairness: %u large %ss leaked\n", nr, kf_domain_names[id]);
	}
	for (id = 0; id < KF_NR_TARGETS; id++) {
		nr = sbitmap_weight(&kq->domain[id].tokens.sb);
		WARN_ONCE(nr, "kyber-fairness: %u %s tokens leaked\n", nr,
			  kf_domain_names[id]);
	}
}

/* Also of what was not made. */
void kf_domains_exit(struct kf_queue *kq)
{
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++)
		sbitmap_queue_free(&kq->domain[id].tokens);
	free_percpu(kq->cpu_sample);
}
