// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains, tokens and latency targets, by Kyber's rules.
 *
 * A request holds a token of its domain from dispatch to completion. While requests
 * complete, the latencies are compared with the targets ten times a second. If the p90 in
 * the device misses a target, or the p99 of a domain does, the domain's depth is scaled by
 * its p99 over its target. Unlike Kyber's, a token is a count and not a bit.
 */
#include "kyber-report.h"

static const struct {
	unsigned int depth;
	u64 target_ns;
} kr_domains[KR_NR_DOMAINS] = {
	[KR_READ] = { 256, 2 * NSEC_PER_MSEC },
	[KR_WRITE] = { 128, 10 * NSEC_PER_MSEC },
	[KR_DISCARD] = { 64, 5ULL * NSEC_PER_SEC },
	[KR_OTHER] = { 16, 0 },
};

/* A percentile needs this many samples, or a second. */
#define KR_SAMPLES_MIN	500

enum kr_domain_id kr_domain_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return KR_READ;
	case REQ_OP_WRITE:
		return KR_WRITE;
	case REQ_OP_DISCARD:
		return KR_DISCARD;
	default:
		return KR_OTHER;
	}
}

static bool kr_try_token(struct kr_domain *domain)
{
	int nr = atomic_read(&domain->nr_tokens);

	do {
		if (nr >= (int)READ_ONCE(domain->depth))
			return false;
	} while (!atomic_try_cmpxchg(&domain->nr_tokens, &nr, nr + 1));
	return true;
}

/* false: the hardware queues will be run when there is one. */
bool kr_get_token(struct kr_device *kd, enum kr_domain_id id)
{
	struct kr_domain *domain = &kd->domain[id];

	if (kr_try_token(domain))
		return true;
	WRITE_ONCE(domain->is_awaited, true);
	/* The flag before the look; kr_put_token() has them the other way round. */
	smp_mb();
	return kr_try_token(domain);
}

static void kr_tell(struct kr_device *kd, struct kr_domain *domain)
{
	if (!READ_ONCE(domain->is_awaited))
		return;
	WRITE_ONCE(domain->is_awaited, false);
	blk_mq_run_hw_queues(kd->q, true);
}

void kr_put_token(struct kr_device *kd, enum kr_domain_id id)
{
	struct kr_domain *domain = &kd->domain[id];

	atomic_dec(&domain->nr_tokens);
	/* The count before the flag; kr_get_token() pairs. */
	smp_mb__after_atomic();
	kr_tell(kd, domain);
}

/* A request of a domain with a target is completed. */
void kr_count(struct kr_device *kd, enum kr_domain_id id, u64 total_ns, u64 io_ns)
{
	u64 width = max_t(u64, READ_ONCE(kd->domain[id].target_ns) / KR_GOOD_BUCKETS, 1);
	u64 total = div64_u64(total_ns, width), io = div64_u64(io_ns, width);

	this_cpu_inc(kd->counts->nr[id][KR_LATENCY_TOTAL][min_t(u64, total, KR_NR_BUCKETS - 1)]);
	this_cpu_inc(kd->counts->nr[id][KR_LATENCY_IO][min_t(u64, io, KR_NR_BUCKETS - 1)]);
	if (!delayed_work_pending(&kd->latency_work))
		schedule_delayed_work(&kd->latency_work, HZ / 10);
}

static void kr_collect(struct kr_device *kd, enum kr_domain_id id)
{
	struct kr_domain *domain = &kd->domain[id];
	int type, bucket, cpu;

	for (type = 0; type < KR_NR_LATENCY_TYPES; type++) {
		for (bucket = 0; bucket < KR_NR_BUCKETS; bucket++) {
			u32 nr = 0;

			for_each_possible_cpu(cpu)
				nr += READ_ONCE(per_cpu_ptr(kd->counts, cpu)->nr[id][type][bucket]);
			domain->nr[type][bucket] += nr - domain->seen[type][bucket];
			domain->seen[type][bucket] = nr;
		}
	}
}

/* The bucket of a percentile, or -1: too few samples. What was counted is used up. */
static int kr_percentile(struct kr_domain *domain, enum kr_latency_type type, unsigned int pct)
{
	unsigned int samples = 0, rank;
	u32 *nr = domain->nr[type];
	int bucket;

	for (bucket = 0; bucket < KR_NR_BUCKETS; bucket++)
		samples += nr[bucket];
	if (!samples)
		return -1;
	if (!domain->end_jiffies[type])
		domain->end_jiffies[type] = (jiffies + HZ) ?: 1;
	if (samples < KR_SAMPLES_MIN && time_before(jiffies, domain->end_jiffies[type]))
		return -1;
	domain->end_jiffies[type] = 0;

	rank = DIV_ROUND_UP(samples * pct, 100);
	for (bucket = 0; bucket < KR_NR_BUCKETS - 1 && rank > nr[bucket]; bucket++)
		rank -= nr[bucket];
	memset(nr, 0, sizeof(domain->nr[type]));
	return bucket;
}

static void kr_latency_work(struct work_struct *work)
{
	struct kr_device *kd = container_of(to_delayed_work(work), struct kr_device, latency_work);
	bool is_congested = false;
	int id;

	for (id = 0; id < KR_NR_TARGETS; id++) {
		kr_collect(kd, id);
		if (kr_percentile(&kd->domain[id], KR_LATENCY_IO, 90) >= KR_GOOD_BUCKETS)
			is_congested = true;
	}
	for (id = 0; id < KR_NR_TARGETS; id++) {
		struct kr_domain *domain = &kd->domain[id];
		int p99 = kr_percentile(domain, KR_LATENCY_TOTAL, 99);
		unsigned int depth;

		/* The p99 of a quiet moment is kept for the next congestion, which uses it up. */
		if (is_congested) {
			if (p99 < 0)
				p99 = domain->last_p99;
			domain->last_p99 = -1;
		} else if (p99 >= 0) {
			domain->last_p99 = p99;
		}
		if (p99 < 0 || (!is_congested && p99 < KR_GOOD_BUCKETS))
			continue;
		depth = domain->depth * (p99 + 1) / KR_GOOD_BUCKETS;
		WRITE_ONCE(domain->depth, clamp(depth, 1U, kr_domains[id].depth));
		/* The depth before the flag, as in kr_put_token(). */
		smp_mb();
		kr_tell(kd, domain);
	}
}

int kr_domains_init(struct kr_device *kd)
{
	int id;

	kd->counts = alloc_percpu(struct kr_cpu_counts);
	if (!kd->counts)
		return -ENOMEM;
	INIT_DELAYED_WORK(&kd->latency_work, kr_latency_work);
	for (id = 0; id < KR_NR_DOMAINS; id++) {
		kd->domain[id].depth = kr_domains[id].depth;
		kd->domain[id].target_ns = kr_domains[id].target_ns;
		kd->domain[id].last_p99 = -1;
	}
	return 0;
}
