/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A closed loop on each CPU: requests are submitted, dispatched and completed as the
 * block layer does it, and a completed one is submitted again. The device takes no time.
 * See smp_load_threads() and smp_load_played().
 */
#ifndef SMP_LOAD_H
#define SMP_LOAD_H

#include <pthread.h>

#include "count.h"
#include "machine.h"

/* How cgroups and CPUs belong together. */
enum smp_spread {
	SMP_ONE_CGROUP,		/* one cgroup on all CPUs */
	SMP_FOUR_CGROUPS,	/* four on all CPUs, of weights 1000, 500, 250, 100 */
	SMP_CGROUP_EACH,	/* a cgroup for each CPU */
	SMP_NR_SPREADS,
};

static const char * const smp_spread_names[SMP_NR_SPREADS] = {
	[SMP_ONE_CGROUP] = "one cgroup",
	[SMP_FOUR_CGROUPS] = "four cgroups",
	[SMP_CGROUP_EACH] = "a cgroup a CPU",
};

/*
 * How much waits. Unqueued: a request is submitted, dispatched and completed before
 * the CPU submits the next one. Queued: the CPU has 32 requests outstanding, of which
 * the device takes 8. Deep: it takes all 32, if the scheduler lets them in. Full: it
 * takes 160 of 192 on each CPU, so that tokens run out.
 */
enum smp_state {
	SMP_UNQUEUED,
	SMP_QUEUED,
	SMP_DEEP,
	SMP_FULL,
	SMP_NR_STATES,
};

static const char * const smp_state_names[SMP_NR_STATES] = {
	[SMP_UNQUEUED] = "unqueued",
	[SMP_QUEUED] = "queued",
	[SMP_DEEP] = "deep",
	[SMP_FULL] = "full",
};

static const struct {
	unsigned int nr_outstanding, nr_inside;	/* for each CPU */
} smp_states[SMP_NR_STATES] = {
	[SMP_UNQUEUED] = { 4, 4 },
	[SMP_QUEUED] = { 32, 8 },
	[SMP_DEEP] = { 32, 32 },
	[SMP_FULL] = { 192, 160 },
};

struct smp_setup {
	struct elevator_type *type;
	unsigned int nr_cpus, nr_hctx;
	enum smp_spread spread;
	enum smp_state state;
};

/* A request that comes again and again. */
struct smp_slot {
	struct request rq;
	struct bio bio;
	u32 is_busy;
	unsigned int cgroup;
	struct smp_slot *next_inside;
} ____cacheline_aligned;

struct smp_cpu {
	unsigned int cpu, nr_slots, next_slot, step;
	unsigned int nr_inside, nr_inside_max;
	struct smp_disk *sd;
	const struct elevator_mq_ops *ops;
	struct blk_mq_ctx *ctx;
	struct smp_slot *slots;
	struct smp_slot *first_inside, **last_inside;
	enum smp_state state;
	u64 now_ns;
	u64 nr_done;
	/* Of a thread: for each SMP_BIN_NS, one more than the requests done in it; 0: away. */
	u32 *bins;
	pthread_t thread;
	struct smp_run *run;
} ____cacheline_aligned;

#define SMP_BIN_NS	(100 * NSEC_PER_USEC)

/* What all CPUs are told. */
struct smp_run {
	u32 must_end;
	u32 nr_ready, nr_drained;
	u32 nr_bins;
	u64 start_ns;
	unsigned int nr_cpus;
	struct smp_cpu *cpus;
	struct smp_slot *slots;
	struct smp_disk *sd;
	const struct smp_setup *setup;
};

static unsigned int smp_nr_cgroups(const struct smp_setup *setup)
{
	switch (setup->spread) {
	case SMP_ONE_CGROUP:
		return 1;
	case SMP_FOUR_CGROUPS:
		return 4;
	default:
		return setup->nr_cpus;
	}
}

static void smp_set_weights(struct smp_disk *sd)
{
	static const char * const weights[] = { "1000", "500", "250", "100" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		smp_set_weight(sd, 1 + i, weights[i]);
}

static int smp_cgroup_of(const struct request *rq)
{
	return rq ? (int)container_of(rq, struct smp_slot, rq)->cgroup : SMP_NO_CGROUP;
}

static void smp_start_request(struct smp_cpu *sc, struct smp_slot *slot)
{
	struct smp_cgroup *cg = &sc->sd->cgroups[1 + slot->cgroup];

	slot->is_busy = 1;
	slot->bio = (struct bio){ .bi_blkg = cg->blkg, .bi_opf = REQ_OP_READ, .bytes = 4096 };
	slot->rq = (struct request){
		.q = &sc->sd->q,
		.mq_ctx = sc->ctx,
		.mq_hctx = sc->ctx->hctxs[HCTX_TYPE_READ],
		.rq_flags = RQF_USE_SCHED,
		.cmd_flags = REQ_OP_READ,
		.bytes = 4096,
		.sector = 8 * (slot - sc->slots),
		.start_time_ns = shim_now_ns(),
	};
	INIT_LIST_HEAD(&slot->rq.queuelist);
}

/* The next request that is not outstanding; the next four are of all cgroups. */
static struct smp_slot *smp_free_slot(struct smp_cpu *sc)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct smp_slot *slot = &sc->slots[sc->next_slot];

		if (++sc->next_slot == sc->nr_slots)
			sc->next_slot = 0;
		if (!__atomic_load_n(&slot->is_busy, __ATOMIC_ACQUIRE))
			return slot;
	}
	return NULL;
}

/* Return: whether there was a request to submit. */
static bool smp_submit(struct smp_cpu *sc)
{
	struct smp_slot *slot = smp_free_slot(sc);
	struct blk_mq_alloc_data data = { .q = &sc->sd->q };
	struct list_head list;
	struct bio bio;

	if (!slot)
		return false;
	smp_start_request(sc, slot);
	bio = slot->bio;
	INIT_LIST_HEAD(&list);
	smp_count_enter(SMP_SUBMIT, sc->cpu);
	if (sc->ops->bio_merge)
		sc->ops->bio_merge(&sc->sd->q, &bio, 1);
	if (sc->ops->limit_depth)
		sc->ops->limit_depth(REQ_OP_READ, &data);
	sc->ops->prepare_request(&slot->rq);
	slot->rq.bio = &slot->bio;
	list_add(&slot->rq.queuelist, &list);
	sc->ops->insert_requests(slot->rq.mq_hctx, &list, 0);
	smp_count_leave(slot->cgroup);
	return true;
}

/* Return: whether a request went to the device. */
static bool smp_dispatch(struct smp_cpu *sc)
{
	struct blk_mq_hw_ctx *hctx = sc->ctx->hctxs[HCTX_TYPE_READ];
	struct request *rq = NULL;
	struct smp_slot *slot;

	if (sc->nr_inside == sc->nr_inside_max)
		return false;
	smp_count_enter(SMP_DISPATCH, sc->cpu);
	if (sc->ops->has_work(hctx))
		rq = sc->ops->dispatch_request(hctx);
	smp_count_leave(smp_cgroup_of(rq));
	if (!rq)
		return false;
	slot = container_of(rq, struct smp_slot, rq);
	rq->io_start_time_ns = shim_now_ns();
	slot->next_inside = NULL;
	*sc->last_inside = slot;
	sc->last_inside = &slot->next_inside;
	sc->nr_inside++;
	return true;
}

/* The oldest one is done. Return: whether there was one. */
static bool smp_complete(struct smp_cpu *sc)
{
	struct smp_slot *slot = sc->first_inside;

	if (!slot)
		return false;
	sc->first_inside = slot->next_inside;
	if (!sc->first_inside)
		sc->last_inside = &sc->first_inside;
	sc->nr_inside--;
	sc->now_ns = shim_now_ns();
	smp_count_enter(SMP_COMPLETE, sc->cpu);
	sc->ops->completed_request(&slot->rq, sc->now_ns);
	sc->ops->finish_request(&slot->rq);
	smp_count_leave(slot->cgroup);
	sc->nr_done++;
	__atomic_store_n(&slot->is_busy, 0, __ATOMIC_RELEASE);
	return true;
}

/* Whether a run of the CPU's hardware context was asked for. */
static bool smp_must_run(struct smp_cpu *sc)
{
	struct blk_mq_hw_ctx *hctx = sc->ctx->hctxs[HCTX_TYPE_READ];

	return __atomic_load_n(&hctx->must_run, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&hctx->must_run, 0, __ATOMIC_SEQ_CST);
}

/* The clock is only looked at where nothing was completed: no timer interrupt does. */
static bool smp_poll_timers(struct smp_cpu *sc, bool was_idle)
{
	u64 next_ns = READ_ONCE(shim_timer_bases[sc->cpu].next_ns);
	bool ran;

	if (next_ns == U64_MAX)
		return false;
	if (was_idle)
		sc->now_ns = shim_now_ns();
	if (next_ns > sc->now_ns)
		return false;
	smp_count_enter(SMP_TIMER, sc->cpu);
	ran = shim_run_timers();
	smp_count_leave(SMP_NO_CGROUP);
	return ran;
}

static struct smp_run *smp_run_begin(const struct smp_setup *setup)
{
	unsigned int nr_slots = smp_states[setup->state].nr_outstanding;
	unsigned int nr_cgroups = smp_nr_cgroups(setup), cpu, i;
	struct smp_run *run = shim_kzalloc(sizeof(*run));

	run->setup = setup;
	run->nr_cpus = setup->nr_cpus;
	run->sd = smp_make_disk(setup->nr_cpus, setup->nr_hctx, nr_cgroups,
				4 * nr_slots * setup->nr_cpus);
	smp_set_scheduler(run->sd, setup->type);
	if (setup->spread == SMP_FOUR_CGROUPS)
		smp_set_weights(run->sd);
	run->cpus = shim_kzalloc(run->nr_cpus * sizeof(run->cpus[0]));
	run->slots = shim_kzalloc(array_size(run->nr_cpus * nr_slots, sizeof(run->slots[0])));
	smp_count_ignore(run->slots, run->nr_cpus * nr_slots * sizeof(run->slots[0]));
	for (cpu = 0; cpu < run->nr_cpus; cpu++) {
		struct smp_cpu *sc = &run->cpus[cpu];

		sc->run = run;
		sc->cpu = cpu;
		sc->sd = run->sd;
		sc->ops = &setup->type->ops;
		sc->ctx = per_cpu_ptr(run->sd->q.queue_ctx, cpu);
		sc->state = setup->state;
		sc->nr_inside_max = smp_states[setup->state].nr_inside;
		sc->last_inside = &sc->first_inside;
		sc->nr_slots = nr_slots;
		sc->slots = &run->slots[cpu * nr_slots];
		for (i = 0; i < nr_slots; i++)
			sc->slots[i].cgroup = setup->spread == SMP_CGROUP_EACH ?
					      cpu : (cpu + i) % nr_cgroups;
	}
	return run;
}

static void smp_run_end(struct smp_run *run)
{
	smp_this_cpu = 0;
	smp_free_disk(run->sd);
	kfree(run->cpus);
	kfree(run->slots);
	kfree(run);
}

static bool smp_has_busy(struct smp_cpu *sc)
{
	unsigned int i;

	for (i = 0; i < sc->nr_slots; i++)
		if (__atomic_load_n(&sc->slots[i].is_busy, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

#endif
