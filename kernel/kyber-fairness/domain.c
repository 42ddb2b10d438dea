// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains and tokens: Kyber's part of kyber-fairness.
 *
 * Requests of one kind (reads, writes, discards, the rest) form a domain. A
 * request needs a token of its domain to go to the device and gives it back
 * on completion, so the number of tokens is the domain's depth inside the
 * device. Ten times a second the latencies of the domains are compared with
 * their targets: when the device is congested, domains that are within their
 * target get fewer tokens, and domains that miss it get more.
 *
 * Another limit on the tokens comes from sharing. All requests inside the device
 * see about the same latency, so a cgroup gets there what it has inside. With
 * weights 1000, 500, 250 and 100 and 32 requests outstanding each, the first one
 * is entitled to 54 %: with more than 32 / 0.54 = 59 inside, it cannot have it.
 * On a device with 1,023 tags all 128 would be. So the tokens are limited to
 * the number that sharing allows, but not to less than keeps the device
 * reasonably busy: see kf_inside_least() and kf_groups_inside(). Nor to more than
 * it can use: see kf_inside_try(), and kf_inside_large() for those that are too few
 * a second to try.
 *
 * Three things differ from Kyber. A request's total latency counts from the
 * moment its cgroup had budget for it, not from its submission: otherwise
 * a cgroup that is held back, which is what weights are for, would look like
 * a device that is slow, and its domain would be given tokens for it. And a target
 * that the device cannot meet is taken for one that it can: see kf_attainable_ns().
 *
 * And shares come before targets. A cgroup whose reads wait for its share has them
 * answered at the rate of that share, so fewer writes for the reads' sake make the
 * device do less and those reads wait longer. Requests that waited for a share do not
 * tell of congestion, and a domain of hardly any other has nobody held back for it:
 * see kf_domain_find_bound(). On a SATA SSD without its buffer, a reader entitled to two
 * thirds and held to them, and a target that no read meets that has one write before it:
 * kyber comes to 0.08 of what the device does, and this came to 0.16 (without a target
 * 0.72), with the reads' p99 twice as long (experiment kf-targets).
 */
#include "kyber-fairness.h"
#include "trace.h"

/*
 * Tokens a domain has at most. A fast device is saturated well below its
 * number of tags; reads get the most, since somebody waits for each.
 */
static const unsigned int kf_domain_depth_max[KF_NR_DOMAINS] = {
	[KF_READ] = 256,
	[KF_WRITE] = 128,
	[KF_DISCARD] = 64,
	[KF_OTHER] = 16,
};

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

/* How often latencies are looked at while requests complete. */
#define KF_LATENCY_PERIOD	(HZ / 10)
/* What a request takes unloaded is seen in the last two of these ... */
#define KF_SPREAD_PERIOD_NS	(5 * NSEC_PER_SEC)
/* ... as this quantile. */
#define KF_UNLOADED_PERMILLE	20
/* It becomes longer by one part in so many in each of those periods at most. */
#define KF_UNLOADED_GROWTH	32
/* A target is no less than so many times that. */
#define KF_TARGET_LEAST		2ULL
/* Requests that are let in whatever else is said; of a domain, a quarter of it. */
#define KF_INSIDE_MIN		8
/* Large requests; of those there are at most so many times as many as keep it busy. */
#define KF_LARGE_SECTS		(SZ_256K >> SECTOR_SHIFT)
#define KF_LARGE_INSIDE		2
/* Rates are compared that are of so many completions: fewer change by more for no reason. */
#define KF_LOOK_REQUESTS	1000
/* They complete within this time, or the device is too slow for that. */
#define KF_LOOK_NS_MAX		NSEC_PER_SEC
/* A domain is bound by shares when less than one part in so many was not held back. */
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

static void kf_collect_domain(struct kf_domain *kd, struct kf_cpu_latency *cl,
			      int id)
{
	unsigned int nr;
	int type, bucket;

	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++) {
		nr = atomic_xchg(&cl->spread[id][bucket], 0);
		kd->spread[0][bucket] += nr;
		kd->nr_done += nr;
		kd->nr_seen += nr;
	}
	kd->nr_held += atomic_xchg(&cl->nr_held[id], 0);
	for (type = 0; type < KF_NR_LATENCY_TYPES; type++)
		for (bucket = 0; bucket < KF_NR_BUCKETS; bucket++)
			kd->nr[type][bucket] +=
				atomic_xchg(&cl->nr[id][type][bucket], 0);
	if (id < KF_NR_DIRS)
		kd->sects_done += atomic_xchg(&cl->sects[id], 0);
}

static void kf_collect_samples(struct kf_queue *kq)
{
	int cpu, id;

	for_each_possible_cpu(cpu)
		for (id = 0; id < KF_NR_TARGETS; id++)
			kf_collect_domain(&kq->domain[id],
					  per_cpu_ptr(kq->cpu_latency, cpu), id);
}

/* Tokens by both rules. */
static void kf_set_tokens(struct kf_domain *kd)
{
	unsigned int depth = min(kd->target_depth, kd->share_depth);

	if (depth != kd->tokens.sb.depth)
		sbitmap_queue_resize(&kd->tokens, depth);
}

/*
 * New depth in proportion to the p99 against the target: at half the target
 * half the tokens do, at twice the target it takes twice as many.
 */
static void kf_resize_domain(struct kf_queue *kq, int id, int p99_bucket,
			     bool congested)
{
	struct kf_domain *kd = &kq->domain[id];
	unsigned int depth = kd->target_depth * (p99_bucket + 1);

	depth = clamp(depth >> KF_BUCKET_SHIFT, 1U, kf_domain_depth_max[id]);
	if (depth == kd->target_depth)
		return;

	kd->target_depth = depth;
	kf_set_tokens(kd);
	trace_kf_domain_depth(kq->dev, kf_domain_names[id], p99_bucket,
			      congested, depth);
}

/*
 * Of the requests of the last seconds, KF_UNLOADED_PERMILLE took less: those
 * waited for no other. Not the least one of all: a device has caches. Where all
 * wait for all, in a queue in order of arrival, they took as long as it is
 * full, so what is known from emptier times is forgotten slowly.
 */
static void kf_find_unloaded(struct kf_domain *kd, bool forget)
{
	u64 most_ns = kd->unloaded_ns ?: U64_MAX;
	unsigned int bucket, rank = 0;

	if (forget && kd->unloaded_ns)
		most_ns += most_ns / KF_UNLOADED_GROWTH;
	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
		rank += kd->spread[0][bucket] + kd->spread[1][bucket];
	rank = DIV_ROUND_UP(rank * (u64)KF_UNLOADED_PERMILLE, 1000);
	if (!rank)
		return;
	for (bucket = 0; bucket < LAT_NR_BUCKETS - 1; bucket++) {
		unsigned int nr = kd->spread[0][bucket] + kd->spread[1][bucket];

		if (nr >= rank)
			break;
		rank -= nr;
	}
	WRITE_ONCE(kd->unloaded_ns, min(lat_bucket_ns(bucket), most_ns));
}

static void kf_forget_spread(struct kf_queue *kq, u64 now_ns)
{
	int id;

	kq->spread_start_ns = now_ns;
	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		memcpy(kd->spread[1], kd->spread[0], sizeof(kd->spread[1]));
		memset(kd->spread[0], 0, sizeof(kd->spread[0]));
	}
}

/* Requests inside the device, of the domains that have targets. */
static unsigned int kf_nr_inside(struct kf_queue *kq)
{
	unsigned int inside = 0;
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++)
		inside += sbitmap_weight(&kq->domain[id].tokens.sb);
	return inside;
}

/* Of some domain as many requests are inside as may be, or nearly. */
static bool kf_tokens_are_out(struct kf_queue *kq)
{
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct sbitmap *sb = &kq->domain[id].tokens.sb;

		if (sbitmap_weight(sb) >= sb->depth - sb->depth / 8)
			return true;
	}
	return false;
}

static u64 kf_per_second(u64 nr_done, u64 elapsed_ns)
{
	return div64_u64(nr_done * NSEC_PER_SEC, elapsed_ns);
}

/* Long enough to compare rates; then @rate is that of all of it. */
static bool kf_look_is_long(struct kf_look *look, u64 nr_done, u64 elapsed_ns, u64 *rate)
{
	bool is_long;

	look->nr_done += nr_done;
	look->elapsed_ns += elapsed_ns;
	look->work += *rate * elapsed_ns;
	is_long = look->nr_done >= KF_LOOK_REQUESTS;
	*rate = div64_u64(look->work, look->elapsed_ns);
	if (is_long || look->elapsed_ns >= KF_LOOK_NS_MAX)
		*look = (struct kf_look){};
	return is_long;
}

/*
 * What the rate tells of holds, and of how many should be inside; one at a time, as either
 * changes the rate.
 */
static void kf_look_at_rate(struct kf_queue *kq, u64 nr_done, u64 elapsed_ns, bool is_shared)
{
	u64 reads = kq->domain[KF_READ].nr_done;
	struct kf_inside_trial *it = &kq->inside_trial;
	u64 most = it->most, inside = kf_nr_inside(kq);
	u64 rate;

	rate = kf_mix_rate(&kq->mix, kf_per_second(reads, elapsed_ns),
			   kf_per_second(nr_done - reads, elapsed_ns),
			   !it->step && !it->began);
	if (!it->step)
		kf_look_at_holds(kq, rate);
	/* Nobody to choose among: as many as there are. */
	if (!is_shared) {
		kf_inside_forget(it, rate);
		return;
	}
	if (kf_inside_settles(it)) {
		kq->look = (struct kf_look){};
		return;
	}
	/* Not as many are inside as may be: others decide, sharing or those who send. */
	if (!it->step && most && !kf_tokens_are_out(kq))
		return;
	if (!kf_look_is_long(&kq->look, nr_done, elapsed_ns, &rate))
		return;
	kf_inside_try(it, inside, kq->inside_least, rate);
	if (it->most != most)
		trace_kf_inside_most(kq->dev, it->most, it->step, rate, it->best_rate);
}

/*
 * How many may be inside of what a domain is of: as many as sharing allows, and as are
 * of use where that kind is what the device is busy with. Others wait for nobody there.
 */
static u64 kf_inside_of(struct kf_queue *kq, int id)
{
	u64 most = kq->inside_trial.most;

	if (!most || !kf_mix_is_busy_with(&kq->mix, id == KF_READ ? 0 : 1))
		return kq->inside;
	return min(kq->inside, most);
}

/*
 * How many of a domain may be inside by their size. A few requests of 1 MiB keep a device
 * busy; sixty are a second's work of a slow one, and who comes then waits for it: with
 * writes of the page cache everybody, as the kernel makes pauses. On such a device there
 * are not enough of them to find by trying what is of use.
 */
static u64 kf_inside_large(struct kf_domain *kd, u64 least)
{
	if (kd->sects_done < kd->nr_done * KF_LARGE_SECTS)
		return U32_MAX;
	return max_t(u64, least, KF_INSIDE_MIN) * KF_LARGE_INSIDE;
}

/*
 * Let no more requests into the device than sharing allows. Each domain gets
 * tokens in proportion to what it completed, and a few to begin with.
 */
static void kf_limit_inside(struct kf_queue *kq)
{
	u64 now_ns = ktime_get_ns();
	u64 elapsed_ns = max_t(u64, now_ns - kq->inside_start_ns, 1);
	u64 inside_pct = READ_ONCE(kq->inside_pct);
	u64 least = 0, nr_done = 0, unloaded_ns = 0, inside;
	u64 least_of[KF_NR_TARGETS] = {};
	bool forget = now_ns - kq->spread_start_ns >= KF_SPREAD_PERIOD_NS;
	/* Nothing was inside, or this would have run soon after the first of that was done. */
	bool was_idle = elapsed_ns > 3 * jiffies_to_nsecs(KF_LATENCY_PERIOD) &&
			!kq->nr_left_inside;
	bool is_shared = kf_groups_share(kq, now_ns);
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		nr_done += kd->nr_done;
		if (!kd->nr_done)
			continue;
		kf_find_unloaded(kd, forget);
		least_of[id] = kf_inside_least(kd->nr_done, elapsed_ns, kd->unloaded_ns,
					       inside_pct);
		least += least_of[id];
		unloaded_ns = min_not_zero(unloaded_ns, kd->unloaded_ns);
	}
	if (nr_done)
		WRITE_ONCE(kq->unloaded_ns, unloaded_ns);
	least = max_t(u64, least, KF_INSIDE_MIN);
	WRITE_ONCE(kq->inside_least, least);
	/* After an idle time the rate would be that of it as well. */
	if (was_idle)
		kf_inside_forget(&kq->inside_trial, kf_per_second(nr_done, elapsed_ns));
	else if (nr_done)
		kf_look_at_rate(kq, nr_done, elapsed_ns, is_shared);
	inside = kf_groups_inside(kq, kq->inside, least);
	/* What was saved up takes a while to be spent: do not act on it twice. */
	if (kq->inside_is_new)
		inside = max(inside, kq->inside);
	if (was_idle || inside > kf_domain_depth_max[KF_READ])
		inside = U32_MAX;
	kq->inside_is_new = inside < kq->inside;
	kq->inside = inside;

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];
		u64 depth;

		inside = kf_inside_of(kq, id);
		depth = div64_u64(inside * kd->nr_done, max_t(u64, nr_done, 1));
		if (is_shared)
			depth = min(depth, kf_inside_large(kd, least_of[id]));
		/* Nothing to say about it: none was seen, or nothing new: they take long. */
		if (!kd->nr_done)
			depth = sbitmap_weight(&kd->tokens.sb) ? kd->share_depth : U32_MAX;
		depth = clamp_t(u64, depth, KF_INSIDE_MIN / 4, kf_domain_depth_max[id]);
		if (depth != kd->share_depth) {
			kd->share_depth = depth;
			kf_set_tokens(kd);
			trace_kf_share_depth(kq->dev, kf_domain_names[id], inside,
					     least, kd->tokens.sb.depth);
		}
		kd->nr_done = 0;
		kd->sects_done = 0;
	}
	kq->inside_start_ns = now_ns;
	kq->nr_left_inside = kf_nr_inside(kq);
	if (forget)
		kf_forget_spread(kq, now_ns);
}

/* As many requests are inside as keep the device reasonably busy. */
static bool kf_is_full(struct kf_queue *kq)
{
	return kf_nr_inside(kq) >= kq->inside_least;
}

/*
 * Whether a domain's requests wait for their cgroups' shares, all but a few. Returns
 * true when there were enough to say so anew, and they do.
 */
static bool kf_domain_find_bound(struct kf_domain *kd)
{
	if (!kd->nr_seen)
		return false;
	if (!kd->bound_end_jiffies)
		kd->bound_end_jiffies = (jiffies + KF_SAMPLE_TIME) ?: 1;
	if (kd->nr_seen < KF_SAMPLES_MIN &&
	    time_before(jiffies, kd->bound_end_jiffies))
		return false;

	kd->is_share_bound = kd->nr_held > kd->nr_seen - kd->nr_seen / KF_BOUND_PART;
	kd->nr_seen = 0;
	kd->nr_held = 0;
	kd->bound_end_jiffies = 0;
	return kd->is_share_bound;
}

/* Nobody is held back for the sake of those who wait for their shares anyway. */
static void kf_give_back(struct kf_queue *kq)
{
	int id;

	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];
		unsigned int depth = min(2 * kd->target_depth, kf_domain_depth_max[id]);

		if (depth == kd->target_depth)
			continue;
		kd->target_depth = depth;
		kf_set_tokens(kd);
		trace_kf_domain_depth(kq->dev, kf_domain_names[id], -1, false, depth);
	}
}

static void kf_latency_work(struct work_struct *work)
{
	struct kf_queue *kq = container_of(to_delayed_work(work),
					   struct kf_queue, latency_work);
	bool congested = false, is_bound = false;
	int id;

	kf_collect_samples(kq);
	kf_cost_learn(kq, ktime_get_ns() - kq->inside_start_ns, kf_is_full(kq));
	kf_limit_inside(kq);

	/* The p90, not the p99: a few outliers do not make a congestion. */
	for (id = 0; id < KF_NR_TARGETS; id++) {
		struct kf_domain *kd = &kq->domain[id];
		int p90 = kf_percentile_bucket(kd, KF_LATENCY_IO, 90);

		if (kf_domain_find_bound(kd))
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
}

/*
 * What a domain is kept to: its target, or what can be had. On a device whose reads take
 * 2 ms each a target of 2 ms is missed whatever else is inside, and to hold back writes
 * for it until one is left helps nobody. Under Kyber reads have the device then. Here
 * they have no more than their share next to those writes: a reader and a writer of the
 * same weight came to 0.27 of what the device does.
 */
static u64 kf_attainable_ns(struct kf_domain *kd)
{
	return max(READ_ONCE(kd->target_ns),
		   KF_TARGET_LEAST * READ_ONCE(kd->unloaded_ns));
}

/**
 * kf_domain_add_sample - record the latencies of a completed request
 * @kq: device
 * @id: domain, one that has a target
 * @total_ns: from when the request had a scheduler's tag
 * @held_ns: of that, how long its cgroup had no budget for it
 * @io_ns: from when the device got it
 * @sects: what it moved
 *
 * Called on completion, in any context.
 */
void kf_domain_add_sample(struct kf_queue *kq, enum kf_domain_id id,
			  u64 total_ns, u64 held_ns, u64 io_ns,
			  unsigned int sects)
{
	const u64 latency_ns[KF_NR_LATENCY_TYPES] = {
		[KF_LATENCY_TOTAL] = total_ns > held_ns ? total_ns - held_ns : 0,
		[KF_LATENCY_IO] = io_ns,
	};
	u64 width_ns = max_t(u64, kf_attainable_ns(&kq->domain[id]) >>
			     KF_BUCKET_SHIFT, 1);
	struct kf_cpu_latency *cl = get_cpu_ptr(kq->cpu_latency);
	int type;

	for (type = 0; type < KF_NR_LATENCY_TYPES; type++) {
		u64 above_ns = max_t(u64, latency_ns[type], 1) - 1;
		unsigned int bucket = KF_NR_BUCKETS - 1;

		if (type == KF_LATENCY_IO && held_ns) {
			atomic_inc(&cl->nr_held[id]);
			continue;
		}
		if (above_ns < width_ns * bucket)
			bucket = div64_u64(above_ns, width_ns);
		atomic_inc(&cl->nr[id][type][bucket]);
	}
	atomic_inc(&cl->spread[id][lat_bucket(io_ns)]);
	if (id < KF_NR_DIRS)
		atomic_add(sects, &cl->sects[id]);
	put_cpu_ptr(kq->cpu_latency);

	if (!delayed_work_pending(&kq->latency_work))
		schedule_delayed_work(&kq->latency_work, KF_LATENCY_PERIOD);
}

/* Called by sbitmap when a token comes free, in the context that frees it. */
static int kf_domain_wake(wait_queue_entry_t *wqe, unsigned int mode, int flags,
			  void *key)
{
	struct sbq_wait *wait = container_of(wqe, struct sbq_wait, wait);
	struct blk_mq_hw_ctx *hctx = READ_ONCE(wqe->private);

	sbitmap_del_wait_queue(wait);
	blk_mq_run_hw_queue(hctx, true);
	return 1;
}

/* Called from kf_init_hctx(). */
void kf_domain_wait_init(struct kf_hctx *kh, struct blk_mq_hw_ctx *hctx)
{
	int id;

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		struct sbq_wait *wait = &kh->domain_wait[id];

		wait->sbq = NULL;
		init_waitqueue_func_entry(&wait->wait, kf_domain_wake);
		wait->wait.private = hctx;
		INIT_LIST_HEAD(&wait->wait.entry);
		atomic_set(&kh->wait_index[id], 0);
	}
}

/**
 * kf_domain_get_token - leave for a request to go to the device
 * @kq: device
 * @kh: hardware context that will dispatch it; its lock is held
 * @id: domain of the request
 *
 * Return: the token, or -1: all are out, and the hardware queue will be run
 * when one comes back.
 */
int kf_domain_get_token(struct kf_queue *kq, struct kf_hctx *kh,
			enum kf_domain_id id)
{
	struct sbitmap_queue *tokens = &kq->domain[id].tokens;
	struct sbq_wait *wait = &kh->domain_wait[id];
	struct sbq_wait_state *ws;
	int token;

	lockdep_assert_held(&kh->lock);

	token = __sbitmap_queue_get(tokens);
	if (token < 0 && list_empty_careful(&wait->wait.entry)) {
		ws = sbq_wait_ptr(tokens, &kh->wait_index[id]);
		kh->domain_ws[id] = ws;
		sbitmap_add_wait_queue(tokens, ws, wait);
		/* One may have come back before we were on the queue. */
		token = __sbitmap_queue_get(tokens);
	}

	/*
	 * With a token in hand we must not stay on the queue and swallow a
	 * wake-up that another hardware context needs. The waker may have
	 * taken us off meanwhile; deleting twice is harmless.
	 */
	if (token >= 0 && !list_empty_careful(&wait->wait.entry)) {
		ws = kh->domain_ws[id];
		spin_lock_irq(&ws->wait.lock);
		sbitmap_del_wait_queue(wait);
		spin_unlock_irq(&ws->wait.lock);
	}

	return token;
}

void kf_domain_put_token(struct kf_queue *kq, enum kf_domain_id id, int token,
			 unsigned int cpu)
{
	sbitmap_queue_clear(&kq->domain[id].tokens, token, cpu);
}

/* Called from kf_alloc(), in process context. */
int kf_domains_init(struct kf_queue *kq)
{
	int id, ret;

	kq->cpu_latency = alloc_percpu(struct kf_cpu_latency);
	if (!kq->cpu_latency)
		return -ENOMEM;

	INIT_DELAYED_WORK(&kq->latency_work, kf_latency_work);
	kq->inside = U32_MAX;
	kq->inside_least = KF_INSIDE_MIN;
	kq->inside_start_ns = ktime_get_ns();
	kq->spread_start_ns = kq->inside_start_ns;
	for (id = 0; id < KF_NR_DOMAINS; id++) {
		struct kf_domain *kd = &kq->domain[id];

		ret = sbitmap_queue_init_node(&kd->tokens,
					      kf_domain_depth_max[id], -1,
					      false, GFP_KERNEL, kq->q->node);
		if (ret)
			goto err;
		kd->last_p99_bucket = -1;
		kd->target_depth = kf_domain_depth_max[id];
		kd->share_depth = kf_domain_depth_max[id];
		if (id < KF_NR_TARGETS)
			kd->target_ns = kf_domain_target_ns[id];
	}

	return 0;
err:
	while (--id >= 0)
		sbitmap_queue_free(&kq->domain[id].tokens);
	free_percpu(kq->cpu_latency);
	return ret;
}

/* No request is left; nothing adds samples any more. */
void kf_domains_stop(struct kf_queue *kq)
{
	int id;

	cancel_delayed_work_sync(&kq->latency_work);

	for (id = 0; id < KF_NR_DOMAINS; id++) {
		unsigned int nr = sbitmap_weight(&kq->domain[id].tokens.sb);

		WARN_ONCE(nr, "kyber-fairness: %u %s tokens leaked\n", nr,
			  kf_domain_names[id]);
	}
}

void kf_domains_exit(struct kf_queue *kq)
{
	int id;

	for (id = 0; id < KF_NR_DOMAINS; id++)
		sbitmap_queue_free(&kq->domain[id].tokens);
	free_percpu(kq->cpu_latency);
}
