/* SPDX-License-Identifier: GPL-2.0-only */
#define trace_block_rq_insert(rq)	((void)(rq))
