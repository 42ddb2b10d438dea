/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One tracepoint for each decision: the clock set, a cgroup throttled, a cgroup awaited
 * or no longer, a hardware context that waits, a probe, a domain's depth changed by its
 * latency, no place or token free, the model of the device updated. They take structures,
 * so that their members are read only while the tracepoint is on.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kyber_fairness

#if !defined(_KF_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _KF_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

#include "kyber-fairness.h"

#ifndef kf_trace_cgroup
#define kf_trace_cgroup(kg)	cgroup_id((kg)->pd.blkg->blkcg->css.cgroup)
#endif

TRACE_EVENT(kf_clock,
	TP_PROTO(struct kf_queue *kq, struct kf_group *kg, u64 limit),
	TP_ARGS(kq, kg, limit),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup_id)
		__field(u64, vtime)
		__field(u64, limit)
		__field(u64, step_ns)
		__field(u64, walk_ns)
		__field(unsigned int, nr_active)
	),
	TP_fast_assign(
		__entry->dev = kq->dev;
		__entry->cgroup_id = kg ? kf_trace_cgroup(kg) : 0;
		__entry->vtime = kq->gate.vtime;
		__entry->limit = limit;
		__entry->step_ns = kq->gate.step_ns;
		__entry->walk_ns = kq->walk_ns;
		__entry->nr_active = kq->nr_active;
	),
	TP_printk("%d,%d vtime=%llu of cgroup=%llu limit=%llu step_ns=%llu walk_ns=%llu nr_active=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->vtime,
		  __entry->cgroup_id, __entry->limit, __entry->step_ns,
		  __entry->walk_ns, __entry->nr_active)
);

TRACE_EVENT(kf_throttle,
	TP_PROTO(struct kf_backlog *kb),
	TP_ARGS(kb),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(u64, cgroup_id)
		__field(s64, ahead_bytes)
		__field(unsigned int, nr_waiting)
	),
	TP_fast_assign(
		__entry->dev = kb->kg->kq->dev;
		__entry->hctx_nr = kb->hctx_nr;
		__entry->cgroup_id = kf_trace_cgroup(kb->kg);
		__entry->ahead_bytes = kb->vtime - kb->kg->kq->gate.vtime;
		__entry->nr_waiting = kb->nr_waiting;
	),
	TP_printk("%d,%d hctx=%u cgroup=%llu ahead_bytes=%lld nr_waiting=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx_nr,
		  __entry->cgroup_id, __entry->ahead_bytes, __entry->nr_waiting)
);

TRACE_EVENT(kf_awaited,
	TP_PROTO(struct kf_group *kg, bool is_awaited, u64 could, u64 full),
	TP_ARGS(kg, is_awaited, could, full),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup_id)
		__field(bool, is_awaited)
		__field(u32, depth_milli)
		__field(u64, share)
		__field(u64, could)
		__field(u64, full)
	),
	TP_fast_assign(
		__entry->dev = kg->kq->dev;
		__entry->cgroup_id = kf_trace_cgroup(kg);
		__entry->is_awaited = is_awaited;
		__entry->depth_milli = kg->depth.milli;
		__entry->share = kg->share;
		__entry->could = could;
		__entry->full = full;
	),
	TP_printk("%d,%d cgroup=%llu awaited=%d depth_milli=%u share_ppm=%llu could=%llu full=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->cgroup_id,
		  __entry->is_awaited, __entry->depth_milli,
		  (__entry->share * 1000000) >> 30, __entry->could, __entry->full)
);

TRACE_EVENT(kf_overdue,
	TP_PROTO(struct kf_backlog *kb, const char *domain, u64 wait_ns),
	TP_ARGS(kb, domain, wait_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
		__field(u64, cgroup_id)
		__array(char, domain, 8)
		__field(u64, wait_ns)
	),
	TP_fast_assign(
		__entry->dev = kb->kg->kq->dev;
		__entry->hctx_nr = kb->hctx_nr;
		__entry->cgroup_id = kf_trace_cgroup(kb->kg);
		strscpy(__entry->domain, domain, sizeof(__entry->domain));
		__entry->wait_ns = wait_ns;
	),
	TP_printk("%d,%d hctx=%u cgroup=%llu domain=%s wait_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx_nr,
		  __entry->cgroup_id, __entry->domain, __entry->wait_ns)
);

TRACE_EVENT(kf_wait,
	TP_PROTO(dev_t dev, unsigned int hctx_nr),
	TP_ARGS(dev, hctx_nr),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, hctx_nr)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->hctx_nr = hctx_nr;
	),
	TP_printk("%d,%d hctx=%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->hctx_nr)
);

/* A probe begins, goes on or ends. */
TRACE_EVENT(kf_band,
	TP_PROTO(dev_t dev, const struct kf_band *band),
	TP_ARGS(dev, band),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, phase)
		__field(u32, bdp_milli)
		__field(u64, alone_ns)
		__field(u64, bytes_per_s)
		__field(u32, ceiling)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->phase = band->phase;
		__entry->bdp_milli = band->bdp_milli;
		__entry->alone_ns = band->alone_ns;
		__entry->bytes_per_s = band->bytes_per_s;
		__entry->ceiling = band->ceiling;
	),
	TP_printk("%d,%d %s bdp_milli=%u alone_ns=%llu bytes_per_s=%llu ceiling=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->phase, { KF_BAND_STEADY, "steady" },
				   { KF_BAND_EMPTY, "empty" },
				   { KF_BAND_FILL, "fill" },
				   { KF_BAND_FULL, "full" }),
		  __entry->bdp_milli, __entry->alone_ns, __entry->bytes_per_s,
		  __entry->ceiling)
);

/* So many large reads or writes may be in flight. */
TRACE_EVENT(kf_large,
	TP_PROTO(dev_t dev, const char *domain, const struct kf_large *large),
	TP_ARGS(dev, domain, large),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(const char *, domain)
		__field(u32, ceiling)
		__field(u64, rate)
		__field(u64, alone_ns)
		__field(bool, is_probing)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->domain = domain;
		__entry->ceiling = large->ceiling;
		__entry->rate = large->rate;
		__entry->alone_ns = large->alone_ns;
		__entry->is_probing = large->is_probing;
	),
	TP_printk("%d,%d %s ceiling=%u rate=%llu alone_ns=%llu probing=%d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->domain,
		  __entry->ceiling, __entry->rate, __entry->alone_ns, __entry->is_probing)
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

TRACE_EVENT(kf_model,
	TP_PROTO(dev_t dev, u64 rbps, u64 riops, u64 wbps, u64 wiops),
	TP_ARGS(dev, rbps, riops, wbps, wiops),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, rbps)
		__field(u64, riops)
		__field(u64, wbps)
		__field(u64, wiops)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->rbps = rbps;
		__entry->riops = riops;
		__entry->wbps = wbps;
		__entry->wiops = wiops;
	),
	TP_printk("%d,%d rbps=%llu riops=%llu wbps=%llu wiops=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->rbps, __entry->riops,
		  __entry->wbps, __entry->wiops)
);

TRACE_EVENT(kf_no_place,
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
