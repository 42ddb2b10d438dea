/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One tracepoint for each decision: a turn of a process begins, a request past its
 * deadline is dispatched first, writes are withheld though the device has room, a
 * process ends with requests queued.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sfq

#if !defined(_SFQ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SFQ_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

TRACE_EVENT(sfq_turn,
	TP_PROTO(dev_t dev, const char *pick, pid_t pid, const u32 *nr_waiting,
		 unsigned int nr_selections),
	TP_ARGS(dev, pick, pid, nr_waiting, nr_selections),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(const char *, pick)
		__field(pid_t, pid)
		__field(u32, nr_reads)
		__field(u32, nr_writes)
		__field(unsigned int, nr_selections)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->pick = pick;
		__entry->pid = pid;
		__entry->nr_reads = nr_waiting[0];
		__entry->nr_writes = nr_waiting[1];
		__entry->nr_selections = nr_selections;
	),
	TP_printk("%d,%d %s pid=%d nr_reads=%u nr_writes=%u nr_selections=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->pick,
		  __entry->pid, __entry->nr_reads, __entry->nr_writes,
		  __entry->nr_selections)
);

TRACE_EVENT(sfq_expired,
	TP_PROTO(dev_t dev, unsigned int dir, u64 late_ns),
	TP_ARGS(dev, dir, late_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, dir)
		__field(u64, late_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->dir = dir;
		__entry->late_ns = late_ns;
	),
	TP_printk("%d,%d %s late_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->dir ? "write" : "read",
		  __entry->late_ns)
);

TRACE_EVENT(sfq_hold,
	TP_PROTO(dev_t dev, unsigned int nr_writes_inside, unsigned int nr_waiting),
	TP_ARGS(dev, nr_writes_inside, nr_waiting),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, nr_writes_inside)
		__field(unsigned int, nr_waiting)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->nr_writes_inside = nr_writes_inside;
		__entry->nr_waiting = nr_waiting;
	),
	TP_printk("%d,%d nr_writes_inside=%u nr_waiting=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->nr_writes_inside,
		  __entry->nr_waiting)
);

TRACE_EVENT(sfq_orphan,
	TP_PROTO(dev_t dev, pid_t pid, const u32 *nr_waiting),
	TP_ARGS(dev, pid, nr_waiting),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(pid_t, pid)
		__field(u32, nr_reads)
		__field(u32, nr_writes)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->pid = pid;
		__entry->nr_reads = nr_waiting[0];
		__entry->nr_writes = nr_waiting[1];
	),
	TP_printk("%d,%d pid=%d nr_reads=%u nr_writes=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->pid, __entry->nr_reads,
		  __entry->nr_writes)
);

#endif /* _SFQ_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
