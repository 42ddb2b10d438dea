/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The stages of each request: accepted by the disk, and completed, with the
 * time it waited in the disk, the time it was served, and how late the timer was.
 * Times of the device, not stretched by scale, but for late_ns.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM modeldisk

#if !defined(_MD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MD_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

#define md_show_op(op)							\
	__print_symbolic(op, { MD_READ, "read" }, { MD_WRITE, "write" },	\
			 { MD_DISCARD, "discard" }, { MD_FLUSH, "flush" })

TRACE_EVENT(modeldisk_accept,
	TP_PROTO(dev_t dev, const struct md_cmd *cmd, u64 nr_inside),
	TP_ARGS(dev, cmd, nr_inside),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, op)
		__field(u64, sect)
		__field(u32, nr_sects)
		__field(u64, seq)
		__field(u64, arrive_ns)
		__field(u64, nr_inside)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->op = cmd->op;
		__entry->sect = cmd->sect;
		__entry->nr_sects = cmd->nr_sects;
		__entry->seq = cmd->seq;
		__entry->arrive_ns = cmd->arrive_ns;
		__entry->nr_inside = nr_inside;
	),
	TP_printk("%d,%d %s sect=%llu nr_sects=%u seq=%llu arrive_ns=%llu nr_inside=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  md_show_op(__entry->op), __entry->sect, __entry->nr_sects,
		  __entry->seq, __entry->arrive_ns, __entry->nr_inside)
);

TRACE_EVENT(modeldisk_complete,
	TP_PROTO(dev_t dev, const struct md_cmd *cmd, u64 delay, u64 late_ns),
	TP_ARGS(dev, cmd, delay, late_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, op)
		__field(u64, sect)
		__field(u32, nr_sects)
		__field(u64, seq)
		__field(u64, wait_ns)
		__field(u64, service_ns)
		__field(u64, done_ns)
		__field(u64, delay)
		__field(u64, late_ns)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->op = cmd->op;
		__entry->sect = cmd->sect;
		__entry->nr_sects = cmd->nr_sects;
		__entry->seq = cmd->seq;
		__entry->wait_ns = cmd->start_ns - cmd->arrive_ns;
		__entry->service_ns = cmd->done_ns - cmd->start_ns;
		__entry->done_ns = cmd->done_ns;
		__entry->delay = delay;
		__entry->late_ns = late_ns;
	),
	TP_printk("%d,%d %s sect=%llu nr_sects=%u seq=%llu wait_ns=%llu service_ns=%llu done_ns=%llu delay=%llu late_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  md_show_op(__entry->op), __entry->sect, __entry->nr_sects,
		  __entry->seq, __entry->wait_ns, __entry->service_ns,
		  __entry->done_ns, __entry->delay, __entry->late_ns)
);

#endif /* _MD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
