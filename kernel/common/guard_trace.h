/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guard's decisions: the gate closes or opens, age_th is chosen. The trace
 * system is that of the scheduler, GUARD_TRACE_SYSTEM.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM GUARD_TRACE_SYSTEM

#if !defined(_GUARD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _GUARD_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

TRACE_EVENT(guard_gate,
	TP_PROTO(dev_t dev, bool is_closed, u32 age_th, s64 age, u64 nr_inside,
		 u64 closed_ns),
	TP_ARGS(dev, is_closed, age_th, age, nr_inside, closed_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, is_closed)
		__field(u32, age_th)
		__field(s64, age)
		__field(u64, nr_inside)
		__field(u64, closed_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->is_closed = is_closed;
		__entry->age_th = age_th;
		__entry->age = age;
		__entry->nr_inside = nr_inside;
		__entry->closed_ns = closed_ns;
	),
	TP_printk("%d,%d %s age_th=%u oldest_age=%lld nr_inside=%llu closed_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->is_closed ? "close" : "open", __entry->age_th,
		  __entry->age, __entry->nr_inside, __entry->closed_ns)
);

TRACE_EVENT(guard_threshold,
	TP_PROTO(dev_t dev, u32 max_wait_ms, const struct services *services,
		 u32 depth, u32 age_th),
	TP_ARGS(dev, max_wait_ms, services, depth, age_th),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, max_wait_ms)
		__field(u64, service_ns)
		__field(u64, deviation_ns)
		__field(u32, depth)
		__field(u32, age_th)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->max_wait_ms = max_wait_ms;
		__entry->service_ns = services->mean_ns;
		__entry->deviation_ns = services->deviation_ns;
		__entry->depth = depth;
		__entry->age_th = age_th;
	),
	TP_printk("%d,%d max_wait_ms=%u service_ns=%llu deviation_ns=%llu depth=%u age_th=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->max_wait_ms, __entry->service_ns,
		  __entry->deviation_ns, __entry->depth, __entry->age_th)
);

#endif /* _GUARD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE guard_trace

#include <trace/define_trace.h>
