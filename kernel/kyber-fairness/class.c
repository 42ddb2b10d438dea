// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O classes, as ionice and io.prio.class set them. Between cgroups the weight alone counts.
 * Within a cgroup a task of a lower class does not submit while there are requests of a higher
 * one, but for one request in ten seconds. mq-deadline does the same for a whole disk.
 *
 * It is the submitter that waits, and not its request: so a request needs no other order. What
 * others may wait for does not: metadata, pages of the page cache, what belongs to a flush or
 * a transaction. Nor does a request that may not sleep; io_uring sends it again from a worker.
 */
#include "kyber-fairness.h"
#include "request.h"

/* Whether a group has requests of a higher class, queued or in flight. */
static bool kf_class_is_behind(struct kf_group *kg, enum kf_class class)
{
	switch (class) {
	case KF_CLASS_RT:
		return false;
	case KF_CLASS_IDLE:
		return (int)kf_group_outstanding(kg) > atomic_read(&kg->nr_idle);
	default:
		return atomic_read(&kg->nr_real_time);
	}
}

static wait_queue_head_t *kf_class_queue(struct kf_group *kg, enum kf_class class)
{
	return class == KF_CLASS_IDLE ? &kg->idle_wait : &kg->be_wait;
}

static bool kf_class_counts(blk_opf_t opf)
{
	/* data_race(): other flags of the task may change when it is preempted. */
	unsigned int flags = data_race(current->flags);

	return kf_domain_of(opf) < KF_NR_DIRS && !kf_is_buffered_write(opf) &&
	       !op_is_flush(opf) && !(opf & (REQ_META | REQ_SWAP)) && !current->journal_info &&
	       !(flags & PF_KTHREAD) && !kf_task_must_get_out();
}

/* Whether the task is of the idle class. */
bool kf_class_is_idle(void)
{
	return kf_class_of(get_current_ioprio()) == KF_CLASS_IDLE;
}

/* Whether one that is, and may not sleep, is to come again when it may. */
bool kf_class_refuses(struct kf_group *kg, blk_opf_t opf)
{
	return kf_class_counts(opf) && kf_class_is_behind(kg, KF_CLASS_IDLE);
}

/*
 * Whether the task may have requests in advance, which the block layer takes back when it
 * sleeps: while io_uring submits several. What it sends then may sleep, such as readahead.
 */
static bool kf_class_may_not_sleep(void)
{
#ifdef CONFIG_IO_URING
	return current->io_uring && current->plug;
#else
	return false;
#endif
}

static void __kf_class_wait(struct kf_group *kg, enum kf_class class)
{
	wait_queue_head_t *queue = kf_class_queue(kg, class);
	long left = nsecs_to_jiffies(KF_HOLD_MOST_NS);
	DEFINE_WAIT(wait);

	while (left > 0 && kf_class_is_behind(kg, class) && !kf_task_must_get_out()) {
		prepare_to_wait(queue, &wait, TASK_KILLABLE);
		/* On the list before the look; kf_finish_request() pairs. */
		if (kf_class_is_behind(kg, class))
			left = io_schedule_timeout(left);
		finish_wait(queue, &wait);
		/* Those may be about to send the next ones. */
		if (left > 0 && !kf_class_is_behind(kg, class))
			left -= 1 - schedule_timeout_killable(1);
	}
}

/**
 * kf_class_wait - have a submitter wait for its cgroup's requests of a higher class
 * @kg: group, not the root
 * @bio: bio of the submitting task, which may sleep unless the bio says not
 */
void kf_class_wait(struct kf_group *kg, struct bio *bio)
{
	enum kf_class class = kf_class_of(bio->bi_ioprio);

	if (likely(!kf_class_is_behind(kg, class)) || bio->bi_opf & REQ_NOWAIT ||
	    kf_class_may_not_sleep() || !kf_class_counts(bio->bi_opf))
		return;
	__kf_class_wait(kg, class);
}

/* A request comes. */
void kf_class_insert(struct kf_group *kg, enum kf_class class)
{
	if (class == KF_CLASS_RT)
		atomic_inc(&kg->nr_real_time);
	else if (class == KF_CLASS_IDLE)
		atomic_inc(&kg->nr_idle);
}

/* A request is freed; after that it is taken from those of its backlog. */
void kf_class_finish(struct kf_group *kg, enum kf_class class)
{
	if (class == KF_CLASS_RT)
		atomic_dec(&kg->nr_real_time);
	else if (class == KF_CLASS_IDLE)
		atomic_dec(&kg->nr_idle);
}

/* It was, and a full barrier is behind it: a sleeper that is not seen has seen the counts. */
void kf_class_wake(struct kf_group *kg)
{
	/* See above. */
	if (waitqueue_active(&kg->be_wait) && !kf_class_is_behind(kg, KF_CLASS_BE))
		wake_up_all(&kg->be_wait);
	/* Likewise. */
	if (waitqueue_active(&kg->idle_wait) && !kf_class_is_behind(kg, KF_CLASS_IDLE))
		wake_up_all(&kg->idle_wait);
}
