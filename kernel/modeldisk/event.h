/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What will happen in a model, in order of time: a binary heap in an array of
 * fixed size, so that a model never needs memory while it runs. Events of the
 * same time happen in the order in which they were added.
 */
#ifndef _MD_EVENT_H
#define _MD_EVENT_H

#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/types.h>

struct md_event {
	u64 at_ns;
	u64 order;
	u32 kind;	/* the model's own enum */
	u32 unit;	/* die, channel, ... the model's own numbers */
	void *what;	/* command or part */
};

struct md_events {
	struct md_event *heap;
	u32 nr;
	u32 size;
	u64 nr_added;
};

static inline int md_events_init(struct md_events *events, u32 size)
{
	events->heap = kvcalloc(size, sizeof(*events->heap), GFP_KERNEL);
	events->nr = 0;
	events->size = size;
	events->nr_added = 0;
	return events->heap ? 0 : -ENOMEM;
}

static inline void md_events_free(struct md_events *events)
{
	kvfree(events->heap);
}

static inline bool md_event_before(const struct md_event *a,
				   const struct md_event *b)
{
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns;
	return a->order < b->order;
}

/* There is room: a model knows how many events it can have. */
static inline void md_events_add(struct md_events *events, u64 at_ns, u32 kind,
				 u32 unit, void *what)
{
	struct md_event event = { at_ns, events->nr_added++, kind, unit, what };
	u32 i = events->nr++;

	if (WARN_ON_ONCE(i >= events->size)) {
		events->nr--;
		return;
	}
	for (; i; i = (i - 1) / 2) {
		struct md_event *up = &events->heap[(i - 1) / 2];

		if (!md_event_before(&event, up))
			break;
		events->heap[i] = *up;
	}
	events->heap[i] = event;
}

static inline u64 md_events_next_ns(const struct md_events *events)
{
	return events->nr ? events->heap[0].at_ns : ~0ULL;
}

/* Take the first event if it is not later than @now_ns. */
static inline bool md_events_take(struct md_events *events, u64 now_ns,
				  struct md_event *event)
{
	struct md_event last;
	u32 i = 0, child;

	if (!events->nr || events->heap[0].at_ns > now_ns)
		return false;

	*event = events->heap[0];
	last = events->heap[--events->nr];
	while ((child = 2 * i + 1) < events->nr) {
		if (child + 1 < events->nr &&
		    md_event_before(&events->heap[child + 1], &events->heap[child]))
			child++;
		if (!md_event_before(&events->heap[child], &last))
			break;
		events->heap[i] = events->heap[child];
		i = child;
	}
	if (events->nr)
		events->heap[i] = last;
	return true;
}

#endif /* _MD_EVENT_H */
