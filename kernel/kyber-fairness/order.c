// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which of a cgroup's reads and direct writes goes first: the file write_wait_pct.
 *
 * Kyber lets reads pass where writes wait for tokens. Within a cgroup that keeps its
 * requests outstanding this gains nothing: it has as many of them, and gets as much, so
 * what its reads wait less its writes wait more. So they go in order of arrival, but
 * for the writes of the page cache: there are hundreds of them, of 1 MiB. Nor do large
 * ones, which large.h has wait for each other.
 */
#include "kyber-fairness.h"
#include "request.h"
#include "trace.h"

/**
 * kf_order_deferred - which of a backlog's reads and writes has to wait for the other
 * @kq: device
 * @kb: backlog that has reads and writes; the hardware context's lock is held
 *
 * Return: KF_READ or KF_WRITE; KF_NR_DOMAINS: neither. What is named here is not
 * dispatched, so it is no other domain.
 */
enum kf_domain_id kf_order_deferred(struct kf_queue *kq, struct kf_backlog *kb)
{
	u64 write_wait_pct = READ_ONCE(kq->write_wait_pct);
	struct request *read, *write;
	enum kf_domain_id deferred;
	u64 now_ns;

	read = list_first_entry(&kb->rqs[KF_READ], struct request, queuelist);
	write = list_first_entry(&kb->rqs[KF_WRITE], struct request, queuelist);
	if (!kf_is_direct_write(write->cmd_flags) || !write_wait_pct)
		return KF_NR_DOMAINS;
	/* One that waits for others of its kind is no reason for the other to wait. */
	if (kf_rq_is_large(read) || kf_rq_is_large(write))
		return KF_NR_DOMAINS;

	now_ns = ktime_get_ns();
	deferred = kf_write_goes_first(now_ns, read->start_time_ns,
				       write->start_time_ns, write_wait_pct) ?
		   KF_READ : KF_WRITE;
	trace_kf_defer(kb, kf_domain_names[deferred], now_ns - read->start_time_ns,
		       now_ns - write->start_time_ns);
	return deferred;
}
