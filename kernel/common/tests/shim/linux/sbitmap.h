/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bitmaps of tokens, with the lines that the kernel's have since 6.10: a word and what
 * was cleared of it lie on a line each, with a lock for moving the one to the other; a
 * hint for each CPU where to look next; and eight wait queues, of which one is woken for
 * a batch of tokens that came back.
 */
#ifndef SHIM_LINUX_SBITMAP_H
#define SHIM_LINUX_SBITMAP_H

#include <linux/bitops.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/wait.h>

struct shim_sb_word {
	unsigned long word;
	unsigned long cleared __attribute__((aligned(64)));
	spinlock_t swap_lock;
} __attribute__((aligned(64)));

struct sbitmap {
	unsigned int depth;
	unsigned int shift;
	unsigned int map_nr;
	unsigned int *alloc_hint;	/* per CPU; NULL: none */
	struct shim_sb_word *map;
};

#define SBQ_WAIT_QUEUES		8
#define SHIM_WAKE_BATCH		8

struct sbq_wait_state {
	wait_queue_head_t wait;
} __attribute__((aligned(64)));

struct sbitmap_queue {
	struct sbitmap sb;
	unsigned int wake_batch;
	atomic_t wake_index;
	struct sbq_wait_state *ws;
	atomic_t ws_active;
	unsigned int min_shallow_depth;
	atomic_t completion_cnt;
	atomic_t wakeup_cnt;
};

struct sbq_wait {
	struct sbitmap_queue *sbq;
	wait_queue_entry_t wait;
};

/* Whole words, for a @shift of -1 as many as give each CPU another one to begin at. */
static inline int sbitmap_init_node(struct sbitmap *sb, unsigned int depth, int shift,
				    gfp_t gfp, int node, bool round_robin, bool has_hint)
{
	unsigned int cpu;

	if (shift < 0)
		for (shift = 6; shift > 0 && 4U << shift > depth; shift--)
			;
	sb->shift = shift;
	sb->depth = depth;
	sb->map_nr = (depth + (1U << shift) - 1) >> shift;
	sb->map = shim_kzalloc(sb->map_nr * sizeof(*sb->map));
	sb->alloc_hint = has_hint ? alloc_percpu(unsigned int) : NULL;
	for (cpu = 0; has_hint && cpu < shim_nr_cpus; cpu++)
		*per_cpu_ptr(sb->alloc_hint, cpu) = cpu * 2654435761U % depth;
	return 0;
}

static inline int sbitmap_queue_init_node(struct sbitmap_queue *sbq, unsigned int depth,
					  int shift, bool round_robin, gfp_t gfp, int node)
{
	unsigned int i;

	sbitmap_init_node(&sbq->sb, depth, shift, gfp, node, round_robin, true);
	sbq->wake_batch = min(max(depth / SBQ_WAIT_QUEUES, 1U), (unsigned int)SHIM_WAKE_BATCH);
	sbq->ws = shim_kzalloc(SBQ_WAIT_QUEUES * sizeof(*sbq->ws));
	for (i = 0; i < SBQ_WAIT_QUEUES; i++)
		init_waitqueue_head(&sbq->ws[i].wait);
	return 0;
}

static inline void sbitmap_free(struct sbitmap *sb)
{
	kfree(sb->map);
}

static inline void sbitmap_queue_free(struct sbitmap_queue *sbq)
{
	sbitmap_free(&sbq->sb);
	kfree(sbq->ws);
}

/* Give what was cleared back to the word. Return: false if there was nothing. */
static inline bool shim_deferred_clear(struct shim_sb_word *map)
{
	unsigned long mask;

	spin_lock(&map->swap_lock);
	if (!READ_ONCE(map->cleared)) {
		spin_unlock(&map->swap_lock);
		return false;
	}
	mask = xchg(&map->cleared, 0);
	shim_access(&map->word, SHIM_RMW);
	__atomic_fetch_and(&map->word, ~mask, __ATOMIC_SEQ_CST);
	spin_unlock(&map->swap_lock);
	return true;
}

/* Words behind the last one that is left are seen no more, whatever is set in them. */
static inline void sbitmap_queue_resize(struct sbitmap_queue *sbq, unsigned int depth)
{
	unsigned int i;

	for (i = 0; i < sbq->sb.map_nr; i++)
		shim_deferred_clear(&sbq->sb.map[i]);
	WRITE_ONCE(sbq->wake_batch, min(max(depth / SBQ_WAIT_QUEUES, 1U),
					(unsigned int)SHIM_WAKE_BATCH));
	sbq->sb.map_nr = (depth + (1U << sbq->sb.shift) - 1) >> sbq->sb.shift;
	WRITE_ONCE(sbq->sb.depth, depth);
}

/* Bits that may be taken in a word. */
static inline unsigned int shim_word_depth(struct sbitmap *sb, unsigned int index)
{
	unsigned int rest = READ_ONCE(sb->depth) - (index << sb->shift);

	return min(rest, 1U << sb->shift);
}

static inline int shim_get_in_word(struct shim_sb_word *map, unsigned int depth,
				   unsigned int hint)
{
	unsigned long all = depth < 64 ? BIT(depth) - 1 : ~0UL;

	for (;;) {
		unsigned long free = ~READ_ONCE(map->word) & all;
		unsigned int bit;

		if (!free)
			return -1;
		if (free >> hint)
			free = free >> hint << hint;
		bit = __ffs64(free);
		if (!test_and_set_bit_lock(bit, &map->word))
			return bit;
	}
}

static inline int __sbitmap_queue_get(struct sbitmap_queue *sbq)
{
	struct sbitmap *sb = &sbq->sb;
	unsigned int *this_hint = this_cpu_ptr(sb->alloc_hint);
	unsigned int depth = READ_ONCE(sb->depth);
	unsigned int hint = *this_hint < depth ? *this_hint : 0;
	unsigned int index = hint >> sb->shift, i;
	int bit = -1, nr = -1;

	hint &= (1U << sb->shift) - 1;
	for (i = 0; i < sb->map_nr; i++) {
		struct shim_sb_word *map = &sb->map[index];

		do {
			bit = shim_get_in_word(map, shim_word_depth(sb, index), hint);
		} while (bit < 0 && shim_deferred_clear(map));
		if (bit >= 0) {
			nr = (index << sb->shift) + bit;
			break;
		}
		hint = 0;
		index = index + 1 < sb->map_nr ? index + 1 : 0;
	}
	if (nr < 0)
		*this_hint = 0;
	else if (nr == (int)*this_hint)
		*this_hint = (unsigned int)nr + 1 < depth ? nr + 1 : 0;
	return nr;
}

static inline void shim_sbq_wake_up(struct sbitmap_queue *sbq)
{
	unsigned int batch = READ_ONCE(sbq->wake_batch), i, index;
	int wakeups;

	if (!atomic_read(&sbq->ws_active))
		return;
	atomic_inc(&sbq->completion_cnt);
	wakeups = atomic_read(&sbq->wakeup_cnt);
	do {
		if ((unsigned int)(atomic_read(&sbq->completion_cnt) - wakeups) < batch)
			return;
		index = wakeups;
		wakeups = atomic_cmpxchg(&sbq->wakeup_cnt, wakeups, wakeups + batch);
	} while ((unsigned int)wakeups != index);

	index = atomic_read(&sbq->wake_index);
	for (i = 0; batch && i < SBQ_WAIT_QUEUES; i++) {
		struct sbq_wait_state *ws = &sbq->ws[index];

		index = (index + 1) % SBQ_WAIT_QUEUES;
		if (waitqueue_active(&ws->wait))
			batch -= shim_wake_up_nr(&ws->wait, batch);
	}
	if (atomic_read(&sbq->wake_index) != (int)index)
		atomic_set(&sbq->wake_index, index);
}

static inline void sbitmap_queue_clear(struct sbitmap_queue *sbq, unsigned int nr,
				       unsigned int cpu)
{
	struct sbitmap *sb = &sbq->sb;

	set_bit(nr & ((1U << sb->shift) - 1), &sb->map[nr >> sb->shift].cleared);
	smp_mb__after_atomic();
	shim_sbq_wake_up(sbq);
	if (nr < READ_ONCE(sb->depth))
		*per_cpu_ptr(sb->alloc_hint, cpu) = nr;
}

static inline unsigned int sbitmap_weight(struct sbitmap *sb)
{
	unsigned int i, weight = 0;

	for (i = 0; i < sb->map_nr; i++)
		weight += hweight64(READ_ONCE(sb->map[i].word)) -
			  hweight64(READ_ONCE(sb->map[i].cleared));
	return weight;
}

static inline struct sbq_wait_state *sbq_wait_ptr(struct sbitmap_queue *sbq,
						  atomic_t *wait_index)
{
	int index = atomic_read(wait_index);

	atomic_cmpxchg(wait_index, index, (index + 1) % SBQ_WAIT_QUEUES);
	return &sbq->ws[index];
}

static inline void sbitmap_add_wait_queue(struct sbitmap_queue *sbq,
					  struct sbq_wait_state *ws, struct sbq_wait *wait)
{
	if (wait->sbq)
		return;
	wait->sbq = sbq;
	atomic_inc(&sbq->ws_active);
	add_wait_queue(&ws->wait, &wait->wait);
}

static inline void sbitmap_del_wait_queue(struct sbq_wait *wait)
{
	list_del_init(&wait->wait.entry);
	if (wait->sbq) {
		atomic_dec(&wait->sbq->ws_active);
		wait->sbq = NULL;
	}
}

/* Of a map without tokens: bits that are set and cleared. */
#define sbitmap_set_bit(sb, nr) \
	set_bit((nr) & ((1U << (sb)->shift) - 1), &(sb)->map[(nr) >> (sb)->shift].word)
#define sbitmap_clear_bit(sb, nr) \
	clear_bit((nr) & ((1U << (sb)->shift) - 1), &(sb)->map[(nr) >> (sb)->shift].word)

#define sbitmap_test_bit(sb, nr) \
	test_bit((nr) & ((1U << (sb)->shift) - 1), &(sb)->map[(nr) >> (sb)->shift].word)

/* Calls @fn for each bit that is set, until it returns false. */
static inline void sbitmap_for_each_set(struct sbitmap *sb,
					bool (*fn)(struct sbitmap *sb, unsigned int nr, void *data),
					void *data)
{
	unsigned int i;

	for (i = 0; i < sb->map_nr; i++) {
		unsigned long bits = READ_ONCE(sb->map[i].word) & ~READ_ONCE(sb->map[i].cleared);

		for (; bits; bits &= bits - 1)
			if (!fn(sb, (i << sb->shift) + __ffs64(bits), data))
				return;
	}
}

static inline bool sbitmap_any_bit_set(struct sbitmap *sb)
{
	unsigned int i;

	for (i = 0; i < sb->map_nr; i++)
		if (READ_ONCE(sb->map[i].word) & ~READ_ONCE(sb->map[i].cleared))
			return true;
	return false;
}

#define sbitmap_queue_min_shallow_depth(sbq, min)	((void)(sbq), (void)(min))

#endif
