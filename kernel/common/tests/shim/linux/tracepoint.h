/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints that are off. */
#ifndef SHIM_LINUX_TRACEPOINT_H
#define SHIM_LINUX_TRACEPOINT_H

#define TP_PROTO(...)	__VA_ARGS__
#define TP_ARGS(...)	__VA_ARGS__
#define TRACE_EVENT(name, proto, args, ...) \
	static inline void trace_##name(proto) { }

#endif
