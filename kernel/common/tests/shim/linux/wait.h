/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wait queues. Only functions are woken: a CPU of a test has one task, so a task that
 * would sleep is a mistake of the test.
 */
#ifndef SHIM_LINUX_WAIT_H
#define SHIM_LINUX_WAIT_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/list.h>
#include <linux/spinlock.h>

struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
};

typedef struct wait_queue_head wait_queue_head_t;

typedef struct wait_queue_entry wait_queue_entry_t;
typedef int (*wait_queue_func_t)(wait_queue_entry_t *wqe, unsigned int mode, int flags,
				 void *key);

struct wait_queue_entry {
	unsigned int flags;
	void *private;
	wait_queue_func_t func;
	struct list_head entry;
};

#define TASK_KILLABLE	2

static inline void init_waitqueue_head(wait_queue_head_t *wq)
{
	spin_lock_init(&wq->lock);
	INIT_LIST_HEAD(&wq->head);
}

static inline void init_waitqueue_func_entry(wait_queue_entry_t *wqe,
					     wait_queue_func_t func)
{
	wqe->flags = 0;
	wqe->private = NULL;
	wqe->func = func;
}

static inline bool waitqueue_active(wait_queue_head_t *wq)
{
	return READ_ONCE(wq->head.next) != &wq->head;
}

static inline void add_wait_queue(wait_queue_head_t *wq, wait_queue_entry_t *wqe)
{
	spin_lock(&wq->lock);
	list_add(&wqe->entry, &wq->head);
	spin_unlock(&wq->lock);
}

/* Return: how many were woken. */
static inline unsigned int shim_wake_up_nr(wait_queue_head_t *wq, unsigned int nr)
{
	wait_queue_entry_t *wqe, *next;
	unsigned int woken = 0;

	spin_lock(&wq->lock);
	list_for_each_entry_safe(wqe, next, &wq->head, entry) {
		if (woken == nr)
			break;
		if (wqe->func(wqe, 0, 0, NULL))
			woken++;
	}
	spin_unlock(&wq->lock);
	return woken;
}

#define wake_up(wq)		((void)shim_wake_up_nr(wq, 1))
#define wake_up_all(wq)		((void)shim_wake_up_nr(wq, UINT_MAX))
#define DEFINE_WAIT(name)	wait_queue_entry_t name = { .func = NULL }

static inline void shim_would_sleep(const char *what)
{
	fprintf(stderr, "%s: a task would sleep: the test has too few tags\n", what);
	abort();
}

#define prepare_to_wait_exclusive(wq, wqe, state) \
	((void)(wq), (void)(wqe), shim_would_sleep(__func__))
#define prepare_to_wait(wq, wqe, state)	prepare_to_wait_exclusive(wq, wqe, state)
#define finish_wait(wq, wqe)	((void)(wq), (void)(wqe))
#define io_schedule()		shim_would_sleep(__func__)
#define io_schedule_timeout(left)	(shim_would_sleep(__func__), (left))
#define schedule_timeout_killable(left)	(shim_would_sleep(__func__), (left))

#define wake_up_var(var)	((void)(var))
#define wait_var_event(var, condition) do {				\
	if (!(condition))						\
		shim_would_sleep(__func__);				\
} while (0)

#endif
