// SPDX-License-Identifier: GPL-2.0-only
/*
 * State for people: files in /sys/kernel/debug/block/DEV/sched/. Not an
 * interface.
 */
#include "sfq.h"

static void sfq_show_queue(struct seq_file *m, const char *name, struct sfq_queue *sq)
{
	seq_printf(m, "%s pid=%d reads=%u writes=%u turn_reads=%u turn_writes=%u\n",
		   name, sq->pid, sq->nr_waiting[SFQ_READ],
		   sq->nr_waiting[SFQ_WRITE], sq->turn.nr_reads,
		   sq->turn.nr_writes);
}

/* The device, the async queue, and the processes in the order of their turns. */
static int sfq_queues_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	u64 now_ns = ktime_get_ns();
	struct sfq_device *sd;
	struct sfq_queue *sq;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	sd = sfq_of(q);
	spin_lock_irq(&sd->lock);
	seq_printf(m, "waiting=%u inside=%d depth=%u writes_inside=%d writes_inside_max=%u selections=%u cycle_reads=%llu cycle_writes=%llu\n",
		   sd->nr_waiting, atomic_read(&sd->nr_inside), sfq_depth(sd),
		   atomic_read(&sd->nr_writes_inside),
		   sfq_device_writes_max(sd, now_ns), sd->nr_selections,
		   sd->cycle.nr_reads, sd->cycle.nr_writes);
	seq_printf(m, "reads_among_none_us=%llu of=%u reads_since=%u reads_among_most_us=%llu of=%u reads_untold=%u patience_us=%llu\n",
		   div_u64(sd->reads.none.ns, NSEC_PER_USEC), sd->reads.none.nr,
		   sd->reads.nr_since_none,
		   div_u64(sd->reads.most.ns, NSEC_PER_USEC), sd->reads.most.nr,
		   sd->reads.nr_untold,
		   div_u64(sfq_patience_ns(&sd->reads, READ_ONCE(sd->patience_ns)),
			   NSEC_PER_USEC));
	sfq_show_queue(m, "async", &sd->async);
	list_for_each_entry(sq, &sd->turns, turn_node)
		sfq_show_queue(m, "process", sq);
	spin_unlock_irq(&sd->lock);
	isolio_debugfs_end(q);
	return 0;
}

static int sfq_decisions_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq_device *sd;
	struct sfq_stats stats;
	int ret;

	ret = isolio_debugfs_begin(q);
	if (ret)
		return ret;
	sd = sfq_of(q);
	spin_lock_irq(&sd->lock);
	stats = sd->stats;
	spin_unlock_irq(&sd->lock);
	isolio_debugfs_end(q);

	seq_printf(m, "inserted %llu\nmerged %llu\ndispatched %llu\n",
		   stats.nr_inserted, stats.nr_merged, stats.nr_dispatched);
	seq_printf(m, "turns %llu\nreaders_before_a_write %llu\nasync_turns %llu\n",
		   stats.nr_selected[SFQ_PICK_FIRST],
		   stats.nr_selected[SFQ_PICK_READER],
		   stats.nr_selected[SFQ_PICK_ASYNC]);
	seq_printf(m, "expired_reads %llu\nexpired_writes %llu\nheld %llu\norphans %llu\norphaned_requests %llu\n",
		   stats.nr_expired[SFQ_READ], stats.nr_expired[SFQ_WRITE], stats.nr_held,
		   stats.nr_orphans, stats.nr_orphaned);
	return 0;
}

/* Since the scheduler came to the device. */
static int sfq_latency_show(void *data, struct seq_file *m)
{
	static const char *const names[] = { "read", "write" };
	struct request_queue *q = data;
	struct sfq_latency *sum;
	struct sfq_device *sd;
	int cpu, dir, ret;
	u32 bucket;

	/* Of a queue that may be frozen: see isolio_debugfs_begin(). */
	sum = kzalloc(sizeof(*sum), GFP_NOIO);
	if (!sum)
		return -ENOMEM;
	ret = isolio_debugfs_begin(q);
	if (ret) {
		kfree(sum);
		return ret;
	}
	sd = sfq_of(q);
	for_each_possible_cpu(cpu) {
		struct sfq_latency *one = per_cpu_ptr(sd->latency, cpu);

		for (dir = 0; dir < SFQ_NR_DIRS; dir++) {
			for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
				sum->nr[dir][bucket] += READ_ONCE(one->nr[dir][bucket]);
			sum->max_ns[dir] = max(sum->max_ns[dir],
					       READ_ONCE(one->max_ns[dir]));
		}
	}
	isolio_debugfs_end(q);
	for (dir = 0; dir < SFQ_NR_DIRS; dir++)
		seq_printf(m, "%s requests=%llu p50_us=%llu p99_us=%llu p99_9_us=%llu max_us=%llu\n",
			   names[dir], lat_sum(sum->nr[dir]),
			   div_u64(lat_quantile_ns(sum->nr[dir], 500), NSEC_PER_USEC),
			   div_u64(lat_quantile_ns(sum->nr[dir], 990), NSEC_PER_USEC),
			   div_u64(lat_quantile_ns(sum->nr[dir], 999), NSEC_PER_USEC),
			   div_u64(sum->max_ns[dir], NSEC_PER_USEC));
	kfree(sum);
	return 0;
}

const struct blk_mq_debugfs_attr sfq_queue_debugfs_attrs[] = {
	{ "queues", 0400, sfq_queues_show },
	{ "decisions", 0400, sfq_decisions_show },
	{ "latency", 0400, sfq_latency_show },
	{ },
};
