/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Kyber touches for a request, as a scheduler of its own: the request goes into a
 * list of the submitting CPU's software queue, under that queue's lock, and sets the
 * queue's bit in a map of the hardware context. Dispatch has the hardware context's
 * lock; it takes a token of the device, and moves the lists of the software queues whose
 * bits are set to its own. Completion counts two latencies on its CPU and gives the token
 * back. Without the control of depths: no depth changes.
 */
#ifndef SMP_KYBER_H
#define SMP_KYBER_H

#include "compat.h"

#define SK_NR_DOMAINS	4
#define SK_BATCH	16
#define SK_MAP_SHIFT	3	/* so many software queues' bits on a line, log2 */

static const unsigned int sk_depths[SK_NR_DOMAINS] = { 256, 128, 64, 16 };

struct sk_latency {
	atomic_t nr[SK_NR_DOMAINS][2][8];
};

struct sk_queue {
	struct request_queue *q;
	struct sbitmap_queue tokens[SK_NR_DOMAINS];
	struct sk_latency *latency;	/* per CPU */
	u64 target_ns;
};

/* A software queue on one hardware context. */
struct sk_ctx {
	/* Protects rqs. */
	spinlock_t lock;
	struct list_head rqs[SK_NR_DOMAINS];
} ____cacheline_aligned;

struct sk_hctx {
	/* Protects rqs, cur_domain, nr_batched; taken by dispatch alone. */
	spinlock_t lock;
	struct list_head rqs[SK_NR_DOMAINS];
	unsigned int cur_domain, nr_batched;
	struct sk_ctx *ctxs;
	struct sbitmap map[SK_NR_DOMAINS];
	struct sbq_wait wait[SK_NR_DOMAINS];
	struct sbq_wait_state *ws[SK_NR_DOMAINS];
	atomic_t wait_index[SK_NR_DOMAINS];
};

static unsigned int sk_domain(blk_opf_t opf)
{
	unsigned int op = opf & REQ_OP_MASK;

	return op == REQ_OP_READ ? 0 : op == REQ_OP_WRITE ? 1 : op == REQ_OP_DISCARD ? 2 : 3;
}

static void *sk_alloc(struct request_queue *q)
{
	struct sk_queue *sk = shim_kzalloc(sizeof(*sk));
	unsigned int i;

	sk->q = q;
	sk->latency = alloc_percpu(struct sk_latency);
	sk->target_ns = 2 * NSEC_PER_MSEC;
	for (i = 0; i < SK_NR_DOMAINS; i++)
		sbitmap_queue_init_node(&sk->tokens[i], sk_depths[i], -1, false, 0, 0);
	return sk;
}

static void sk_free(void *data)
{
	struct sk_queue *sk = data;
	unsigned int i;

	for (i = 0; i < SK_NR_DOMAINS; i++) {
		WARN_ON(sbitmap_weight(&sk->tokens[i].sb));
		sbitmap_queue_free(&sk->tokens[i]);
	}
	kfree(sk);
}

static int sk_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	q->elevator = eq;
	return 0;
}

static void sk_exit_sched(struct elevator_queue *eq)
{
}

static int sk_wake(wait_queue_entry_t *wqe, unsigned int mode, int flags, void *key)
{
	sbitmap_del_wait_queue(container_of(wqe, struct sbq_wait, wait));
	blk_mq_run_hw_queue(READ_ONCE(wqe->private), true);
	return 1;
}

static int sk_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int nr)
{
	struct sk_hctx *sh = shim_kzalloc(sizeof(*sh));
	unsigned int nr_ctx = max(hctx->nr_ctx, 1U), i, id;

	sh->ctxs = shim_kzalloc(nr_ctx * sizeof(sh->ctxs[0]));
	for (i = 0; i < nr_ctx; i++)
		for (id = 0; id < SK_NR_DOMAINS; id++)
			INIT_LIST_HEAD(&sh->ctxs[i].rqs[id]);
	for (id = 0; id < SK_NR_DOMAINS; id++) {
		INIT_LIST_HEAD(&sh->rqs[id]);
		sbitmap_init_node(&sh->map[id], nr_ctx, SK_MAP_SHIFT, GFP_KERNEL, 0, false, false);
		init_waitqueue_func_entry(&sh->wait[id].wait, sk_wake);
		sh->wait[id].wait.private = hctx;
		INIT_LIST_HEAD(&sh->wait[id].wait.entry);
	}
	hctx->sched_data = sh;
	return 0;
}

static void sk_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int nr)
{
	struct sk_hctx *sh = hctx->sched_data;
	unsigned int id;

	for (id = 0; id < SK_NR_DOMAINS; id++)
		sbitmap_free(&sh->map[id]);
	kfree(sh->ctxs);
	kfree(sh);
}

static bool sk_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct blk_mq_ctx *ctx = this_cpu_ptr(q->queue_ctx);
	struct sk_hctx *sh = ctx->hctxs[HCTX_TYPE_READ]->sched_data;
	struct sk_ctx *sc = &sh->ctxs[ctx->index_hw[HCTX_TYPE_READ]];
	bool merged;

	spin_lock(&sc->lock);
	merged = blk_bio_list_merge(q, &sc->rqs[sk_domain(bio->bi_opf)], bio, nr_segs);
	spin_unlock(&sc->lock);
	return merged;
}

static void sk_set_token(struct request *rq, int token)
{
	rq->elv.priv[0] = (void *)(long)token;
}

static void sk_prepare_request(struct request *rq)
{
	sk_set_token(rq, -1);
}

static void sk_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       blk_insert_t flags)
{
	struct sk_hctx *sh = hctx->sched_data;
	struct request *rq, *next;

	list_for_each_entry_safe(rq, next, list, queuelist) {
		unsigned int id = sk_domain(rq->cmd_flags);
		unsigned int index = rq->mq_ctx->index_hw[HCTX_TYPE_READ];
		struct sk_ctx *sc = &sh->ctxs[index];

		spin_lock(&sc->lock);
		list_move_tail(&rq->queuelist, &sc->rqs[id]);
		sbitmap_set_bit(&sh->map[id], index);
		spin_unlock(&sc->lock);
	}
}

static void sk_collect(struct sk_hctx *sh, unsigned int id)
{
	struct sbitmap *map = &sh->map[id];
	unsigned int i;

	for (i = 0; i < map->map_nr; i++) {
		unsigned long bits = READ_ONCE(map->map[i].word);

		for (; bits; bits &= bits - 1) {
			unsigned int index = (i << SK_MAP_SHIFT) + __ffs64(bits);
			struct sk_ctx *sc = &sh->ctxs[index];

			spin_lock(&sc->lock);
			list_splice_tail_init(&sc->rqs[id], &sh->rqs[id]);
			sbitmap_clear_bit(map, index);
			spin_unlock(&sc->lock);
		}
	}
}

static int sk_get_token(struct sk_queue *sk, struct sk_hctx *sh, unsigned int id)
{
	struct sbitmap_queue *tokens = &sk->tokens[id];
	struct sbq_wait *wait = &sh->wait[id];
	int token = __sbitmap_queue_get(tokens);

	if (token < 0 && list_empty_careful(&wait->wait.entry)) {
		sh->ws[id] = sbq_wait_ptr(tokens, &sh->wait_index[id]);
		sbitmap_add_wait_queue(tokens, sh->ws[id], wait);
		token = __sbitmap_queue_get(tokens);
	}
	if (token >= 0 && !list_empty_careful(&wait->wait.entry)) {
		spin_lock_irq(&sh->ws[id]->wait.lock);
		sbitmap_del_wait_queue(wait);
		spin_unlock_irq(&sh->ws[id]->wait.lock);
	}
	return token;
}

static struct request *sk_dispatch_domain(struct sk_queue *sk, struct sk_hctx *sh,
					  unsigned int id)
{
	struct request *rq;
	int token;

	if (list_empty(&sh->rqs[id]) && !sbitmap_any_bit_set(&sh->map[id]))
		return NULL;
	token = sk_get_token(sk, sh, id);
	if (token < 0)
		return NULL;
	if (list_empty(&sh->rqs[id]))
		sk_collect(sh, id);
	rq = list_first_entry_or_null(&sh->rqs[id], struct request, queuelist);
	if (!rq) {
		sbitmap_queue_clear(&sk->tokens[id], token, shim_this_cpu());
		return NULL;
	}
	list_del_init(&rq->queuelist);
	sk_set_token(rq, token);
	sh->nr_batched++;
	return rq;
}

static struct request *sk_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct sk_queue *sk = hctx->queue->elevator->elevator_data;
	struct sk_hctx *sh = hctx->sched_data;
	struct request *rq = NULL;
	unsigned int i;

	spin_lock(&sh->lock);
	if (sh->nr_batched < SK_BATCH)
		rq = sk_dispatch_domain(sk, sh, sh->cur_domain);
	if (!rq)
		sh->nr_batched = 0;
	for (i = 0; !rq && i < SK_NR_DOMAINS; i++) {
		sh->cur_domain = (sh->cur_domain + 1) % SK_NR_DOMAINS;
		rq = sk_dispatch_domain(sk, sh, sh->cur_domain);
	}
	spin_unlock(&sh->lock);
	return rq;
}

static bool sk_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct sk_hctx *sh = hctx->sched_data;
	unsigned int id;

	for (id = 0; id < SK_NR_DOMAINS; id++)
		if (!list_empty_careful(&sh->rqs[id]) || sbitmap_any_bit_set(&sh->map[id]))
			return true;
	return false;
}

static void sk_completed_request(struct request *rq, u64 now_ns)
{
	struct sk_queue *sk = rq->q->elevator->elevator_data;
	const u64 latency_ns[2] = { now_ns - rq->start_time_ns, now_ns - rq->io_start_time_ns };
	struct sk_latency *sl = get_cpu_ptr(sk->latency);
	unsigned int type;

	for (type = 0; type < 2; type++) {
		u64 bucket = div64_u64(latency_ns[type], sk->target_ns >> 2);

		atomic_inc(&sl->nr[sk_domain(rq->cmd_flags)][type][min_t(u64, bucket, 7)]);
	}
	put_cpu_ptr(sk->latency);
}

static void sk_finish_request(struct request *rq)
{
	struct sk_queue *sk = rq->q->elevator->elevator_data;
	long token = (long)rq->elv.priv[0];

	if (token >= 0)
		sbitmap_queue_clear(&sk->tokens[sk_domain(rq->cmd_flags)], token,
				    rq->mq_ctx->cpu);
	sk_set_token(rq, -1);
}

static struct elevator_type smp_kyber = {
	.ops = {
		.alloc_sched_data = sk_alloc,
		.free_sched_data = sk_free,
		.init_sched = sk_init_sched,
		.exit_sched = sk_exit_sched,
		.init_hctx = sk_init_hctx,
		.exit_hctx = sk_exit_hctx,
		.bio_merge = sk_bio_merge,
		.prepare_request = sk_prepare_request,
		.insert_requests = sk_insert_requests,
		.dispatch_request = sk_dispatch_request,
		.has_work = sk_has_work,
		.completed_request = sk_completed_request,
		.finish_request = sk_finish_request,
	},
	.elevator_name = "Kyber's structure",
};

#endif
