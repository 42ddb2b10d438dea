// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large requests: as many are in flight as large.h says, reads and writes each, in any state
 * of the gate.
 *
 * A large request is counted from dispatch to completion, in an atomic that is written for
 * large ones only. One that would be too many stays where it is. Its hardware context is
 * put on a list, and goes on with the next backlogs whose requests are small. A large
 * request that completes has the one run that waits for longest.
 *
 * Requests that wait for no clock are not counted: see kf_is_urgent().
 */
#include "kyber-fairness.h"
#include "trace.h"

/* Whether there was room for one more; then it is taken. */
static bool kf_large_try_get(struct kf_queue *kq, enum kf_domain_id id)
{
	int nr = atomic_read(&kq->nr_large[id]);

	do {
		if ((u32)nr >= kf_large_most(READ_ONCE(kq->large[id].ceiling),
					     READ_ONCE(kq->gate.phase)))
			return false;
	} while (!atomic_try_cmpxchg(&kq->nr_large[id], &nr, nr + 1));
	return true;
}

/**
 * kf_large_get - leave for a large request to go to the device
 * @kq: device
 * @kh: hardware context that will dispatch it; its lock is held
 * @id: KF_READ or KF_WRITE
 *
 * Return: whether it may. If not, the hardware context is run when one completes.
 */
bool kf_large_get(struct kf_queue *kq, struct kf_hctx *kh, enum kf_domain_id id)
{
	lockdep_assert_held(&kh->lock);

	if (kf_large_try_get(kq, id))
		return true;
	if (!READ_ONCE(kq->saw_large_full[id]))
		WRITE_ONCE(kq->saw_large_full[id], true);
	/* A probe has to end, though no request may complete. */
	if (kf_wait_for(kq, kh, KF_FOR_LARGE + id))
		kf_update_soon(kq);
	return kf_large_try_get(kq, id);
}

/* A large request left the device, or could not go; any context. */
void kf_large_put(struct kf_queue *kq, enum kf_domain_id id)
{
	bool is_last = atomic_dec_return(&kq->nr_large[id]) == 0;

	/* After the last one no other comes to run those that wait. */
	kf_gate_kick(kq, KF_FOR_LARGE + id, is_last, NULL);
}

/* Run all that wait. One that was run before may have had no large request any more. */
void kf_large_kick(struct kf_queue *kq)
{
	kf_gate_kick(kq, KF_FOR_LARGE + KF_READ, true, NULL);
	kf_gate_kick(kq, KF_FOR_LARGE + KF_WRITE, true, NULL);
}

/**
 * kf_large_completed - a probe counts what a large request took
 * @kq: device
 * @id: KF_READ or KF_WRITE
 * @start_ns: when the device got it
 *
 * Called before kf_large_put(), in any context.
 */
void kf_large_completed(struct kf_queue *kq, enum kf_domain_id id, u64 start_ns)
{
	struct kf_large *kl = &kq->large[id];
	unsigned long flags;
	bool is_more;

	if (likely(!READ_ONCE(kl->is_probing)))
		return;
	spin_lock_irqsave(&kq->band_lock, flags);
	is_more = kf_large_done(kl, start_ns, ktime_get_ns());
	if (is_more)
		trace_kf_large(kq->dev, kf_domain_names[id], kl);
	spin_unlock_irqrestore(&kq->band_lock, flags);
	if (is_more)
		kf_large_kick(kq);
}

/**
 * kf_large_account - set the ceilings by what completed since the last look
 * @kq: device
 * @sample: the differences of all CPUs' counts
 *
 * Called from latency_work.
 */
void kf_large_account(struct kf_queue *kq, const struct kf_cpu_sample *sample)
{
	u64 nr_all = 0, now_ns = ktime_get_ns();
	int id;

	for (id = 0; id < KF_NR_KINDS; id++)
		nr_all += sample->nr_kind[id];
	spin_lock_irq(&kq->band_lock);
	for (id = 0; id < KF_NR_DIRS; id++) {
		struct kf_large *kl = &kq->large[id];
		u32 ceiling = kl->ceiling;

		kf_large_update(kl, sample->nr_kind[kf_kind(id, KF_LARGE_BYTES)], nr_all,
				READ_ONCE(kq->saw_large_full[id]), now_ns);
		WRITE_ONCE(kq->saw_large_full[id], false);
		if (kl->ceiling != ceiling)
			trace_kf_large(kq->dev, kf_domain_names[id], kl);
	}
	spin_unlock_irq(&kq->band_lock);
	kf_large_kick(kq);
}
