// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a cgroup's requests took, and the files that tell: io.kyber.stat and
 * io.kyber.latency.
 *
 * A completion costs one increment: each backlog has the counts of the period
 * that runs. The first completion in a new period moves them to the group, where
 * the last period's lie for the percentiles, and from there to those of all
 * times, which are wide enough never to wrap. A reader does the same for
 * backlogs that complete nothing, so no timer does.
 *
 * Memory: 776 bytes for a cgroup on each hardware context that it used, allocated
 * with its first request, and 2.3 KiB for a cgroup on each device. Without memory
 * latencies are not counted there until there is some.
 */
#include "kyber-fairness.h"

/* Percentiles are about this period and the last one. */
#define KF_LATENCY_PERIOD_NS	(5 * NSEC_PER_SEC)

static const char kf_dir_letters[KF_NR_DIRS] = { 'r', 'w' };

/* Called when a request is dispatched, with kf_hctx.lock. */
void kf_count_dispatch(struct kf_backlog *kb, struct request *rq)
{
	unsigned int dir = rq_data_dir(rq);

	if (!bio_has_data(rq->bio))
		return;
	WRITE_ONCE(kb->dispatched_bytes[dir],
		   kb->dispatched_bytes[dir] + blk_rq_bytes(rq));
	WRITE_ONCE(kb->nr_dispatched[dir], kb->nr_dispatched[dir] + 1);
}

/* Called when the backlog gets a request; in process context. */
void kf_latency_alloc(struct kf_backlog *kb)
{
	struct kf_latency *lat;

	lat = kzalloc_node(sizeof(*lat), GFP_NOWAIT | __GFP_NOWARN,
			   kb->kg->kq->q->node);
	if (!lat)
		return;
	/* Another CPU may have been first. */
	if (cmpxchg(&kb->latency, NULL, lat))
		kfree(lat);
}

/* Called when the last reference to the group is gone. */
void kf_latency_free(struct kf_group *kg)
{
	unsigned int i;

	for (i = 0; i < kg->nr_backlogs; i++)
		if (kg->backlog[i])
			kfree(kg->backlog[i]->latency);
}

/* What is left of periods before @period is no longer recent. */
static void kf_group_begin_period(struct kf_group *kg, u64 period)
{
	unsigned int dir, bucket;

	lockdep_assert_held(&kg->latency_lock);

	if (kg->latency_period >= period)
		return;
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
			kg->past[dir][bucket] += kg->last[dir][bucket];
	memset(kg->last, 0, sizeof(kg->last));
	kg->latency_period = period;
}

/* Move a backlog's counts to the group if they are of an earlier period. */
static void kf_latency_rotate(struct kf_group *kg, struct kf_latency *lat, u64 now_ns)
{
	u64 period = div64_u64(now_ns, KF_LATENCY_PERIOD_NS);
	u64 begin_ns = period * KF_LATENCY_PERIOD_NS;
	bool is_last = lat->end_ns == begin_ns;
	unsigned int dir, bucket, nr;

	lockdep_assert_held(&kg->latency_lock);

	kf_group_begin_period(kg, period);
	if (lat->end_ns > begin_ns)
		return;
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++) {
			if (!atomic_read(&lat->nr[dir][bucket]))
				continue;
			nr = atomic_xchg(&lat->nr[dir][bucket], 0);
			if (is_last)
				kg->last[dir][bucket] += nr;
			else
				kg->past[dir][bucket] += nr;
		}
	}
	WRITE_ONCE(lat->end_ns, begin_ns + KF_LATENCY_PERIOD_NS);
}

/*
 * Begin a period with its first request. A function of its own, so that counting
 * saves no registers. It never waits for the lock: its holder may move the counts too.
 */
static noinline void kf_latency_begin_period(struct kf_group *kg,
					     struct kf_latency *lat, u64 now_ns,
					     atomic_t *nr)
{
	unsigned long flags;

	if (spin_trylock_irqsave(&kg->latency_lock, flags)) {
		kf_latency_rotate(kg, lat, now_ns);
		spin_unlock_irqrestore(&kg->latency_lock, flags);
	}
	atomic_inc(nr);
}

/**
 * kf_latency_add - count a completed request
 * @kb: its backlog
 * @dir: KF_READ or KF_WRITE
 * @latency_ns: from submission to completion
 * @now_ns: the time
 *
 * Called on completion, in any context.
 */
void kf_latency_add(struct kf_backlog *kb, unsigned int dir, u64 latency_ns,
		    u64 now_ns)
{
	struct kf_latency *lat = READ_ONCE(kb->latency);
	atomic_t *nr;

	if (unlikely(!lat))
		return;

	nr = &lat->nr[dir][lat_bucket(latency_ns)];
	if (unlikely(now_ns >= READ_ONCE(lat->end_ns)))
		kf_latency_begin_period(kb->kg, lat, now_ns, nr);
	else
		atomic_inc(nr);
}

static struct kf_latency *kf_latency_of(struct kf_group *kg, unsigned int hctx_nr)
{
	struct kf_backlog *kb = READ_ONCE(kg->backlog[hctx_nr]);

	return kb ? READ_ONCE(kb->latency) : NULL;
}

/* A group's requests in one bucket, of this period and the last one. */
static u32 kf_latency_recent(struct kf_group *kg, unsigned int dir,
			     unsigned int bucket)
{
	u32 nr = kg->last[dir][bucket];
	unsigned int i;

	lockdep_assert_held(&kg->latency_lock);

	for (i = 0; i < kg->nr_backlogs; i++) {
		struct kf_latency *lat = kf_latency_of(kg, i);

		if (lat)
			nr += atomic_read(&lat->nr[dir][bucket]);
	}
	return nr;
}

static void kf_latency_rotate_all(struct kf_group *kg)
{
	u64 now_ns = ktime_get_ns();
	unsigned int i;

	lockdep_assert_held(&kg->latency_lock);

	for (i = 0; i < kg->nr_backlogs; i++) {
		struct kf_latency *lat = kf_latency_of(kg, i);

		if (lat)
			kf_latency_rotate(kg, lat, now_ns);
	}
}

static void kf_show_quantiles(struct seq_file *sf, struct kf_group *kg,
			      unsigned int dir)
{
	static const unsigned int permille[] = { 500, 900, 990, 999 };
	static const char * const names[] = { "p50", "p90", "p99", "p999" };
	char letter = kf_dir_letters[dir];
	u32 nr[LAT_NR_BUCKETS];
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&kg->latency_lock, flags);
	kf_latency_rotate_all(kg);
	for (i = 0; i < LAT_NR_BUCKETS; i++)
		nr[i] = kf_latency_recent(kg, dir, i);
	spin_unlock_irqrestore(&kg->latency_lock, flags);

	seq_printf(sf, " %clat_ios=%llu", letter, lat_sum(nr));
	for (i = 0; i < ARRAY_SIZE(permille); i++)
		seq_printf(sf, " %clat_%s_usec=%llu", letter, names[i],
			   div_u64(lat_quantile_ns(nr, permille[i]),
				   NSEC_PER_USEC));
}

/*
 * One line a device, as io.stat: what was dispatched, how long requests
 * waited for budget (summed over hardware contexts), the share of the device
 * that the cgroup is entitled to among those active now, and what the
 * requests of the last seconds took.
 */
static u64 kf_prfill_stat(struct seq_file *sf, struct blkg_policy_data *pd,
			  int unused)
{
	struct kf_group *kg = pd_to_kg(pd);
	struct gendisk *disk = kg->kq->q->disk;
	u64 bytes[KF_NR_DIRS] = {}, nr[KF_NR_DIRS] = {};
	u64 throttled_ns = 0, share = 0;
	unsigned int i, dir;

	if (!disk)
		return 0;

	/* Counters only grow; a sum a request late is still true. */
	for (i = 0; i < kg->nr_backlogs; i++) {
		struct kf_backlog *kb = READ_ONCE(kg->backlog[i]);

		if (!kb)
			continue;
		for (dir = 0; dir < KF_NR_DIRS; dir++) {
			bytes[dir] += READ_ONCE(kb->dispatched_bytes[dir]);
			nr[dir] += READ_ONCE(kb->nr_dispatched[dir]);
		}
		throttled_ns += READ_ONCE(kb->throttled_ns);
	}
	if (READ_ONCE(kg->is_active))
		share = READ_ONCE(kg->share) * 1000000 >> KF_SHARE_SHIFT;

	seq_printf(sf, "%d:%d rbytes=%llu wbytes=%llu rios=%llu wios=%llu throttled_usec=%llu weight=%llu share_ppm=%llu",
		   disk->major, disk->first_minor, bytes[0], bytes[1],
		   nr[0], nr[1], div_u64(throttled_ns, NSEC_PER_USEC),
		   kf_group_weight(kg), share);
	for (dir = 0; dir < KF_NR_DIRS; dir++)
		kf_show_quantiles(sf, kg, dir);
	seq_putc(sf, '\n');
	return 0;
}

int kf_stat_show(struct seq_file *sf, void *unused)
{
	blkcg_print_blkgs(sf, isolio_css_to_blkcg(seq_css(sf)), kf_prfill_stat,
			  &kf_policy, 0, false);
	return 0;
}

/*
 * One line a device: how many requests of all times took less than so many
 * nanoseconds, and not less than the bucket before; only buckets with any.
 */
static u64 kf_prfill_latency(struct seq_file *sf, struct blkg_policy_data *pd,
			     int unused)
{
	struct kf_group *kg = pd_to_kg(pd);
	struct gendisk *disk = kg->kq->q->disk;
	unsigned int dir, bucket;
	unsigned long flags;

	if (!disk)
		return 0;

	seq_printf(sf, "%d:%d", disk->major, disk->first_minor);
	spin_lock_irqsave(&kg->latency_lock, flags);
	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++) {
			u64 nr = kg->past[dir][bucket] +
				 kf_latency_recent(kg, dir, bucket);

			if (!nr)
				continue;
			if (bucket == LAT_NR_BUCKETS - 1)
				seq_printf(sf, " %cmore=%llu",
					   kf_dir_letters[dir], nr);
			else
				seq_printf(sf, " %c%llu=%llu",
					   kf_dir_letters[dir],
					   lat_bucket_ns(bucket + 1), nr);
		}
	}
	spin_unlock_irqrestore(&kg->latency_lock, flags);
	seq_putc(sf, '\n');
	return 0;
}

int kf_latency_show(struct seq_file *sf, void *unused)
{
	blkcg_print_blkgs(sf, isolio_css_to_blkcg(seq_css(sf)),
			  kf_prfill_latency, &kf_policy, 0, false);
	return 0;
}
