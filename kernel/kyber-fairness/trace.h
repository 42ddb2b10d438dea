/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One tracepoint for each decision: a refill, a refill held, a cgroup held back,
 * a hardware context that waits, a domain's depth changed by its latency or by
 * sharing, a domain out of tokens, the model of the device taught.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kyber_fairness

#if !defined(_KF_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _KF_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

TRACE_EVENT(kf_refill,
	TP_PROTO(dev_t dev, bool timeout, u64 used_bytes, u64 elapsed_ns,
		 u64 pool_bytes, u64 spendable_bytes, u64 rounds,
		 unsigned int nr_active),
	TP_ARGS(dev, timeout, used_bytes, elapsed_ns, pool_bytes,
		spendable_bytes, rounds, nr_active),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, timeout)
		__field(u64, used_bytes)
		__field(u64, elapsed_ns)
		__field(u64, pool_bytes)
		__field(u64, spendable_bytes)
		__field(u64, rounds)
		__field(unsigned int, nr_active)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->timeout = timeout;
		__entry->used_bytes = used_bytes;
		__entry->elapsed_ns = elapsed_ns;
		__entry->pool_bytes = pool_bytes;
		__entry->spendable_bytes = spendable_bytes;
		__entry->rounds = rounds;
		__entry->nr_active = nr_active;
	),
	TP_printk("%d,%d %s used_bytes=%llu elapsed_ns=%llu pool_bytes=%llu spendable_bytes=%llu rounds=%llu nr_active=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->timeout ? "timeout" : "spent",
		  __entry->used_bytes, __entry->elapsed_ns,
		  __entry->pool_bytes, __entry->spendable_bytes,
		  __entry->rounds, __entry->nr_active)
);

TRACE_EVENT(kf_group,
	TP_PROTO(dev_t dev, u64 cgroup_id, s64 budget_bytes, u64 share),
	TP_ARGS(dev, cgroup_id, budget_bytes, share),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup_id)
		__field(s64, budget_bytes)
		__field(u64, share)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->cgroup_id = cgroup_id;
		__entry->budget_bytes = budget_bytes;
		__entry->share = share;
	),
	TP_printk("%d,%d cgroup=%llu budget_bytes=%lld share_ppm=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->cgroup_id, __entry->budget_bytes,
		  (__entry->share * 1000000) >> 30)
);

TRACE_EVENT(kf_throttle,
	TP_PROTO(dev_t dev, unsigned int hctx_nr, u64 cgroup_id,
		 s64 budget_bytes, unsigned int nr_waiting),
	TP_ARGS(dev, hctx_nr, cgroup_id, budget_bytes, nr_waiting),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(u64, cgroup_id)
		__field(s64, budget_bytes)
		__field(unsigned int, nr_waiting)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
		__entry->cgroup_id = cgroup_id;
		__entry->budget_bytes = budget_bytes;
		__entry->nr_waiting = nr_waiting;
	),
	TP_printk("%d,%d hctx=%u cgroup=%llu budget_bytes=%lld nr_waiting=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx_nr,
		  __entry->cgroup_id, __entry->budget_bytes,
		  __entry->nr_waiting)
);

/* A cgroup's reads, or its writes, wait for the other that has waited longer. */
TRACE_EVENT(kf_defer,
	TP_PROTO(dev_t dev, unsigned int hctx_nr, u64 cgroup_id,
		 const char *domain, u64 read_wait_ns, u64 write_wait_ns),
	TP_ARGS(dev, hctx_nr, cgroup_id, domain, read_wait_ns, write_wait_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(u64, cgroup_id)
		__array(char, domain, 8)
		__field(u64, read_wait_ns)
		__field(u64, write_wait_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
		__entry->cgroup_id = cgroup_id;
		strscpy(__entry->domain, domain, sizeof(__entry->domain));
		__entry->read_wait_ns = read_wait_ns;
		__entry->write_wait_ns = write_wait_ns;
	),
	TP_printk("%d,%d hctx=%u cgroup=%llu domain=%s read_wait_ns=%llu write_wait_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx_nr,
		  __entry->cgroup_id, __entry->domain,
		  __entry->read_wait_ns, __entry->write_wait_ns)
);

TRACE_EVENT(kf_overdue,
	TP_PROTO(dev_t dev, unsigned int hctx_nr, u64 cgroup_id,
		 const char *domain, u64 wait_ns),
	TP_ARGS(dev, hctx_nr, cgroup_id, domain, wait_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(u64, cgroup_id)
		__array(char, domain, 8)
		__field(u64, wait_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
		__entry->cgroup_id = cgroup_id;
		strscpy(__entry->domain, domain, sizeof(__entry->domain));
		__entry->wait_ns = wait_ns;
	),
	TP_printk("%d,%d hctx=%u cgroup=%llu domain=%s wait_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx_nr,
		  __entry->cgroup_id, __entry->domain, __entry->wait_ns)
);

TRACE_EVENT(kf_wait,
	TP_PROTO(dev_t dev, unsigned int hctx_nr, int nr_runnable),
	TP_ARGS(dev, hctx_nr, nr_runnable),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(int, nr_runnable)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
		__entry->nr_runnable = nr_runnable;
	),
	TP_printk("%d,%d hctx=%u nr_runnable=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->hctx_nr, __entry->nr_runnable)
);

TRACE_EVENT(kf_hold,
	TP_PROTO(dev_t dev, int nr_expected, u64 credit_ns),
	TP_ARGS(dev, nr_expected, credit_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, nr_expected)
		__field(u64, credit_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->nr_expected = nr_expected;
		__entry->credit_ns = credit_ns;
	),
	TP_printk("%d,%d nr_expected=%d credit_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->nr_expected, __entry->credit_ns)
);

TRACE_EVENT(kf_hold_free,
	TP_PROTO(dev_t dev, bool is_free, u64 rate, u64 best_rate),
	TP_ARGS(dev, is_free, rate, best_rate),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, is_free)
		__field(u64, rate)
		__field(u64, best_rate)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->is_free = is_free;
		__entry->rate = rate;
		__entry->best_rate = best_rate;
	),
	TP_printk("%d,%d free=%d rate=%llu best_rate=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->is_free, __entry->rate,
		  __entry->best_rate)
);

TRACE_EVENT(kf_inside_most,
	TP_PROTO(dev_t dev, u64 most, int step, u64 rate, u64 best_rate),
	TP_ARGS(dev, most, step, rate, best_rate),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, most)
		__field(int, step)
		__field(u64, rate)
		__field(u64, best_rate)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->most = most;
		__entry->step = step;
		__entry->rate = rate;
		__entry->best_rate = best_rate;
	),
	TP_printk("%d,%d most=%llu trying=%d rate=%llu best_rate=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->most,
		  __entry->step, __entry->rate, __entry->best_rate)
);

TRACE_EVENT(kf_domain_depth,
	TP_PROTO(dev_t dev, const char *domain, int p99_bucket,
		 bool congested, unsigned int depth),
	TP_ARGS(dev, domain, p99_bucket, congested, depth),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(const char *, domain)
		__field(int, p99_bucket)
		__field(bool, congested)
		__field(unsigned int, depth)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->domain = domain;
		__entry->p99_bucket = p99_bucket;
		__entry->congested = congested;
		__entry->depth = depth;
	),
	TP_printk("%d,%d %s p99=%d/4 of target congested=%d depth=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->domain,
		  __entry->p99_bucket + 1, __entry->congested, __entry->depth)
);

TRACE_EVENT(kf_share_depth,
	TP_PROTO(dev_t dev, const char *domain, u64 inside, u64 least,
		 unsigned int depth),
	TP_ARGS(dev, domain, inside, least, depth),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(const char *, domain)
		__field(u64, inside)
		__field(u64, least)
		__field(unsigned int, depth)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->domain = domain;
		__entry->inside = inside;
		__entry->least = least;
		__entry->depth = depth;
	),
	TP_printk("%d,%d %s inside=%llu least=%llu depth=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->domain, __entry->inside,
		  __entry->least, __entry->depth)
);

TRACE_EVENT(kf_model,
	TP_PROTO(dev_t dev, u64 elapsed_ns, bool is_full, u64 rbps, u64 riops,
		 u64 wbps, u64 wiops),
	TP_ARGS(dev, elapsed_ns, is_full, rbps, riops, wbps, wiops),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, elapsed_ns)
		__field(bool, is_full)
		__field(u64, rbps)
		__field(u64, riops)
		__field(u64, wbps)
		__field(u64, wiops)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->elapsed_ns = elapsed_ns;
		__entry->is_full = is_full;
		__entry->rbps = rbps;
		__entry->riops = riops;
		__entry->wbps = wbps;
		__entry->wiops = wiops;
	),
	TP_printk("%d,%d elapsed_ns=%llu full=%d rbps=%llu riops=%llu wbps=%llu wiops=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->elapsed_ns, __entry->is_full, __entry->rbps,
		  __entry->riops, __entry->wbps, __entry->wiops)
);

TRACE_EVENT(kf_no_token,
	TP_PROTO(dev_t dev, unsigned int hctx_nr, const char *domain),
	TP_ARGS(dev, hctx_nr, domain),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(const char *, domain)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
		__entry->domain = domain;
	),
	TP_printk("%d,%d hctx=%u %s", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->hctx_nr, __entry->domain)
);

#endif /* _KF_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
