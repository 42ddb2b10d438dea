// SPDX-License-Identifier: MIT
/*
 * Forks and threads, which a library without threads of its own has to survive.
 *
 * Fork. A ring is memory that the kernel shares with its process. A child that used it, or
 * closed it in the ordinary way, would take completions of the parent. So rings are not
 * copied into children (io_uring_ring_dontfork()), and a page that is empty in each new
 * child tells which process is one: it has the number of the process, counted here, and a context
 * has the number it was opened under. A page, because it costs an I/O one load, and
 * because it works however the child was made: handlers of pthread_atfork() do not run
 * for a bare clone().
 *
 * Threads. With APS_SINGLE_THREAD a ring gives its completions to one thread, and to
 * none once that has ended. So each thread has a list of its contexts, and when it ends
 * it waits for what they have in flight and leaves them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include "context.h"

#define EXACT_NS 1

/* Until the first context is opened. */
static struct aps_shared unset;
struct aps_shared *aps_shared = &unset;
static _Atomic uint32_t last_generation;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Of the calling thread. */
static _Thread_local struct aps *contexts;
static _Thread_local bool timers_are_exact;
static _Thread_local int usual_slack_ns;

static void leave_all(void *unused)
{
	(void)unused;
	while (contexts) {
		struct aps *ctx = contexts;

		/* What cannot be waited for is in a ring that stays open, and keeps
		 * the context from being closed. */
		if (aps_is_parents(ctx) || aps_drain(ctx))
			contexts = ctx->next_of_thread;
		else
			aps_thread_leaves(ctx);
	}
}

static void set_up(void)
{
	void *page = mmap(NULL, sizeof(*aps_shared), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && !madvise(page, sizeof(*aps_shared), MADV_WIPEONFORK))
		aps_shared = page;
	has_key = !pthread_key_create(&key, leave_all);
}

uint32_t aps_generation(void)
{
	uint32_t seen, next;

	pthread_once(&once, set_up);
	if (aps_shared == &unset)
		return 0;
	seen = atomic_load(&aps_shared->generation);
	if (seen)
		return seen;
	next = atomic_fetch_add(&last_generation, 1) + 1;
	/* Another thread of this child may have been first: then it is that number. */
	return atomic_compare_exchange_strong(&aps_shared->generation, &seen, next) ? next : seen;
}

int aps_thread_takes(struct aps *ctx)
{
	/* Any value but NULL has the destructor called. */
	if (!has_key || pthread_setspecific(key, &key))
		return -ENOMEM;
	ctx->thread = aps_this_thread();
	ctx->next_of_thread = contexts;
	contexts = ctx;
	return 0;
}

void aps_thread_leaves(struct aps *ctx)
{
	struct aps **at = &contexts;

	while (*at && *at != ctx)
		at = &(*at)->next_of_thread;
	if (*at)
		*at = ctx->next_of_thread;
	ctx->thread = 0;
}

void aps_exact_timers(void)
{
	if (timers_are_exact)
		return;
	timers_are_exact = true;
	usual_slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, EXACT_NS, 0, 0, 0);
}

/* Another context of the thread makes them exact again at its next sleep. */
void aps_usual_timers(void)
{
	if (!timers_are_exact)
		return;
	timers_are_exact = false;
	if (usual_slack_ns > 0 && prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == EXACT_NS)
		prctl(PR_SET_TIMERSLACK, usual_slack_ns, 0, 0, 0);
}
