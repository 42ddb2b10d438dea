// SPDX-License-Identifier: GPL-2.0-only
/* The simulation's loop; see engine.h. */
#include "engine.h"

static bool law_before(const struct law_event *a, const struct law_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void law_add(struct law_sim *sim, u64 at_ns, struct law_rq *rq, u64 what)
{
	struct law_event event = { at_ns, sim->seq++, rq, what };
	u32 i = sim->nr_events++;

	if (i >= sim->size_events) {
		sim->size_events = max(2 * sim->size_events, 64U);
		sim->heap = realloc(sim->heap, sim->size_events * sizeof(*sim->heap));
		if (!sim->heap)
			abort();
	}
	for (; i && law_before(&event, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = event;
}

static struct law_event law_take(struct law_sim *sim)
{
	struct law_event first = sim->heap[0];
	struct law_event last = sim->heap[--sim->nr_events];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < sim->nr_events) {
		if (child + 1 < sim->nr_events &&
		    law_before(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!law_before(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	if (sim->nr_events)
		sim->heap[i] = last;
	return first;
}

void law_timer(struct law_sim *sim, u64 at_ns, u64 what)
{
	law_add(sim, at_ns, NULL, what);
}

static u64 law_to_dev_ns(const struct law_sim *sim, u64 now_ns)
{
	return sim->base_dev_ns + (u64)((now_ns - sim->base_ns) / sim->scale);
}

static u64 law_from_dev_ns(const struct law_sim *sim, u64 dev_ns)
{
	if (dev_ns == MD_NEVER_NS)
		return MD_NEVER_NS;
	if (dev_ns < sim->base_dev_ns)
		return sim->base_ns;
	/* Never early: the disk would have nothing done by then. */
	return sim->base_ns + (u64)((dev_ns - sim->base_dev_ns) * sim->scale) + 1;
}

static u32 law_bucket(u64 ns)
{
	u32 octave;

	if (ns < 1ULL << LAW_LAT_SHIFT)
		return ns;
	octave = fls64(ns) - 1;
	return (octave - LAW_LAT_SHIFT + 1) << LAW_LAT_SHIFT |
	       (ns >> (octave - LAW_LAT_SHIFT) & ((1 << LAW_LAT_SHIFT) - 1));
}

static void law_count(struct law_histogram *h, u64 ns)
{
	h->nr[law_bucket(ns)]++;
	h->nr_all++;
	h->sum_ns += ns;
}

u64 law_quantile_ns(const struct law_histogram *h, unsigned int permille)
{
	u64 rank = h->nr_all * permille / 1000;
	u32 i, octave;

	if (!h->nr_all)
		return 0;
	for (i = 0; i < LAW_LAT_BUCKETS - 1 && rank >= h->nr[i]; i++)
		rank -= h->nr[i];
	if (i < 1 << LAW_LAT_SHIFT)
		return i;
	octave = (i >> LAW_LAT_SHIFT) + LAW_LAT_SHIFT - 1;
	/* The bucket's middle. */
	return (1ULL << octave) + ((2ULL * (i & ((1 << LAW_LAT_SHIFT) - 1)) + 1) <<
				   (octave - LAW_LAT_SHIFT)) / 2;
}

static void law_see_depth(struct law_sim *sim)
{
	if (sim->now_ns > sim->c->warm_ns)
		sim->depth_sum_ns += sim->nr_inside *
			(sim->now_ns - max(sim->depth_at_ns, sim->c->warm_ns));
	sim->depth_at_ns = sim->now_ns;
}

void law_dispatch(struct law_sim *sim, struct law_rq *rq)
{
	law_see_depth(sim);
	rq->dispatch_ns = sim->now_ns;
	sim->nr_inside++;
	sim->model->type->advance(sim->model, law_to_dev_ns(sim, sim->now_ns));
	sim->model->type->submit(sim->model, &rq->cmd, law_to_dev_ns(sim, sim->now_ns));
}

/*
 * Submitters.
 */

static void law_make(struct law_sim *sim, struct law_rq *rq)
{
	const struct law_load *load = &sim->c->load[rq->load];
	u64 nr_sects = load->bytes >> MD_SECT_SHIFT;

	rq->bytes = load->bytes;
	rq->dir = load->write_permille &&
		  md_rng_chance(&sim->rng, load->write_permille, 1000);
	rq->cmd.op = rq->dir ? MD_WRITE : MD_READ;
	rq->cmd.nr_sects = nr_sects;
	rq->cmd.sect = md_rng_below(&sim->rng, sim->area_bytes / load->bytes) * nr_sects;
}

static void law_insert(struct law_sim *sim, struct law_rq *rq)
{
	rq->insert_ns = sim->now_ns;
	sim->sched->insert(sim, rq);
	sim->sched->run(sim, rq->hctx);
}

/* The CPU takes the next container's oldest request. */
static void law_cpu_next(struct law_sim *sim)
{
	u32 i;

	for (i = 0; i < sim->c->nr_loads; i++) {
		u32 load = (sim->cpu_next + i) % sim->c->nr_loads;

		if (list_empty(&sim->cpu_queue[load]))
			continue;
		sim->cpu_rq = list_first_entry(&sim->cpu_queue[load], struct law_rq, node);
		list_del(&sim->cpu_rq->node);
		sim->cpu_next = load + 1;
		sim->cpu_busy_ns += sim->c->cpu_ns;
		law_add(sim, sim->now_ns + sim->c->cpu_ns, sim->cpu_rq, 0);
		return;
	}
}

/* A submitter makes a request, or the CPU is done with one. */
static void law_arrive(struct law_sim *sim, struct law_rq *rq)
{
	if (sim->cpu_rq == rq) {
		sim->cpu_rq = NULL;
		law_cpu_next(sim);
		law_insert(sim, rq);
		return;
	}
	law_make(sim, rq);
	rq->submit_ns = sim->now_ns;
	if (!sim->c->cpu_ns) {
		law_insert(sim, rq);
		return;
	}
	list_add_tail(&rq->node, &sim->cpu_queue[rq->load]);
	if (!sim->cpu_rq)
		law_cpu_next(sim);
}

/* When the submitter of a request that completed makes the next one. */
static u64 law_next_ns(struct law_sim *sim, const struct law_load *load)
{
	u64 ns = sim->now_ns;

	if (sim->c->turn_ns)
		ns += md_rng_around(&sim->rng, sim->c->turn_ns, sim->c->turn_ns / 2);
	if (load->think_ns)
		ns += md_rng_around(&sim->rng, load->think_ns, load->think_ns / 2);
	if (load->off_ns && ns % (load->on_ns + load->off_ns) >= load->on_ns)
		ns += load->on_ns + load->off_ns - ns % (load->on_ns + load->off_ns);
	return ns;
}

static void law_complete(struct law_sim *sim, struct law_rq *rq)
{
	const struct law_case *c = sim->c;
	u64 window = sim->now_ns / LAW_WINDOW_NS;

	law_see_depth(sim);
	sim->nr_inside--;
	if (window < LAW_WINDOWS_MAX)
		sim->window_bytes[window][rq->load] += rq->bytes;
	if (sim->now_ns >= c->warm_ns && sim->now_ns < c->warm_ns + c->run_ns) {
		struct law_got *got = &sim->got[rq->load];

		got->nr++;
		got->bytes += rq->bytes;
		law_count(&got->lat, sim->now_ns - rq->submit_ns);
		law_count(&sim->device, sim->now_ns - rq->dispatch_ns);
	}
	sim->sched->complete(sim, rq);
	law_add(sim, law_next_ns(sim, &c->load[rq->load]), rq, 0);
	sim->sched->run(sim, rq->hctx);
}

/*
 * Begin and end.
 */

static const struct md_preset *law_preset(const struct law_case *c)
{
	unsigned int i;

	for (i = 0; i < c->type->nr_presets; i++)
		if (!strcmp(c->type->presets[i].name, c->preset))
			return &c->type->presets[i];
	fprintf(stderr, "law: no preset %s: choose one of the model %s\n", c->preset,
		c->type->name);
	exit(2);
}

static void law_begin_disk(struct law_sim *sim)
{
	const struct md_preset *preset = law_preset(sim->c);
	struct md_setup setup = {
		.params = preset->params,
		.nr_sects = preset->size_mib << 11,
		.seed = sim->c->seed,
		.nr_cmds = sim->c->tags,
		.max_sects = 2048,
	};

	sim->model = sim->c->type->create(&setup);
	if (!sim->model) {
		fprintf(stderr, "law: %s: cannot make the disk: %s\n", sim->c->preset,
			setup.problem);
		exit(2);
	}
	sim->area_bytes = preset->size_mib << 20;
	sim->scale = sim->c->scale / (sim->c->share ?: 1);
}

/* Container @load's request number @i is made on this hardware context. */
static u32 law_hctx_of(const struct law_case *c, u32 load, u32 i)
{
	u32 own = max(c->nr_hctx / c->nr_loads, 1U);

	if (!c->pinned)
		return i % c->nr_hctx;
	return (load * own + i % own) % c->nr_hctx;
}

static void law_begin_loads(struct law_sim *sim)
{
	const struct law_case *c = sim->c;
	u32 load, i, at = 0;

	for (load = 0; load < c->nr_loads; load++) {
		sim->nr_rqs += c->load[load].depth;
		INIT_LIST_HEAD(&sim->cpu_queue[load]);
	}
	sim->rqs = calloc(sim->nr_rqs, sizeof(*sim->rqs));
	if (!sim->rqs)
		abort();
	md_rng_seed(&sim->rng, c->seed * 7 + 5);
	for (load = 0; load < c->nr_loads; load++)
		for (i = 0; i < c->load[load].depth; i++) {
			struct law_rq *rq = &sim->rqs[at++];

			rq->load = load;
			rq->hctx = law_hctx_of(c, load, i);
			law_add(sim, md_rng_below(&sim->rng, 50 * NSEC_PER_USEC), rq, 0);
		}
}

static void law_change_speed(struct law_sim *sim)
{
	sim->base_dev_ns = law_to_dev_ns(sim, sim->now_ns);
	sim->base_ns = sim->now_ns;
	sim->scale = sim->c->scale2 / (sim->c->share ?: 1);
}

/* Complete what the disk has done by now. */
static void law_reap(struct law_sim *sim)
{
	struct md_model *model = sim->model;

	model->type->advance(model, law_to_dev_ns(sim, sim->now_ns));
	while (!list_empty(&model->done)) {
		struct law_rq *rq = list_first_entry(&model->done, struct law_rq, cmd.node);

		list_del(&rq->cmd.node);
		if (sim->c->load[rq->load].slow_ns)
			law_add(sim, sim->now_ns + sim->c->load[rq->load].slow_ns, rq, 1);
		else
			law_complete(sim, rq);
	}
}

static void law_loop(struct law_sim *sim, u64 end_ns)
{
	bool changed = !sim->c->change_ns;

	for (;;) {
		u64 dev_ns = law_from_dev_ns(sim, sim->model->type->next_ns(sim->model));
		u64 own_ns = sim->nr_events ? sim->heap[0].at_ns : MD_NEVER_NS;
		u64 next_ns = min(dev_ns, own_ns);

		if (next_ns == MD_NEVER_NS) {
			fprintf(stderr, "law: %s hangs in %s at %llu ns with %u in flight\n",
				sim->sched->name, sim->c->name, sim->now_ns,
				sim->nr_inside);
			abort();
		}
		if (!changed && next_ns >= sim->c->change_ns) {
			sim->now_ns = sim->c->change_ns;
			law_change_speed(sim);
			changed = true;
			continue;
		}
		if (next_ns >= end_ns)
			return;
		sim->now_ns = max(sim->now_ns, next_ns);
		if (dev_ns <= own_ns) {
			law_reap(sim);
		} else {
			struct law_event event = law_take(sim);

			if (event.rq && event.what)
				law_complete(sim, event.rq);
			else if (event.rq)
				law_arrive(sim, event.rq);
			else
				sim->sched->timer(sim, event.what);
		}
	}
}

static void law_finish(struct law_sim *sim, struct law_result *result)
{
	const struct law_case *c = sim->c;
	u32 i;

	result->nr_loads = c->nr_loads;
	result->elapsed_ns = c->run_ns;
	result->bytes = 0;
	result->nr = 0;
	memcpy(result->got, sim->got, sizeof(sim->got));
	memcpy(result->window_bytes, sim->window_bytes, sizeof(sim->window_bytes));
	result->device = sim->device;
	for (i = 0; i < c->nr_loads; i++) {
		result->bytes += sim->got[i].bytes;
		result->nr += sim->got[i].nr;
	}
	result->mean_depth = (double)sim->depth_sum_ns / c->run_ns;
	result->cpu_free = 1 - (double)sim->cpu_busy_ns / (c->warm_ns + c->run_ns);
}

/**
 * law_run - run a case under a scheduler
 * @c: case
 * @sched: scheduler
 * @result: what came of it
 * @verbose: have the scheduler tell its state at the end
 */
void law_run(const struct law_case *c, const struct law_sched *sched,
	     struct law_result *result, bool verbose)
{
	struct law_sim *sim = calloc(1, sizeof(*sim));

	if (!sim)
		abort();
	sim->c = c;
	sim->sched = sched;
	sim->verbose = verbose;
	law_begin_disk(sim);
	sim->data = sched->create(sim);
	law_begin_loads(sim);
	law_loop(sim, c->warm_ns + c->run_ns);
	law_finish(sim, result);
	if (verbose && sched->show)
		sched->show(sim, stderr);
	sched->destroy(sim->data);
	/* Commands inside go with their disk. */
	free(sim->rqs);
	free(sim->heap);
	c->type->destroy(sim->model);
	free(sim);
}

/*
 * No scheduler: everything goes to the disk in order, as long as it has tags.
 */

struct law_fifo {
	struct list_head waiting;
};

static void *law_none_create(struct law_sim *sim)
{
	struct law_fifo *fifo = calloc(1, sizeof(*fifo));

	(void)sim;
	if (!fifo)
		abort();
	INIT_LIST_HEAD(&fifo->waiting);
	return fifo;
}

static void law_none_insert(struct law_sim *sim, struct law_rq *rq)
{
	struct law_fifo *fifo = sim->data;

	list_add_tail(&rq->node, &fifo->waiting);
}

static void law_none_run(struct law_sim *sim, u32 hctx)
{
	struct law_fifo *fifo = sim->data;

	(void)hctx;
	while (law_has_tag(sim) && !list_empty(&fifo->waiting)) {
		struct law_rq *rq = list_first_entry(&fifo->waiting, struct law_rq, node);

		list_del(&rq->node);
		law_dispatch(sim, rq);
	}
}

static void law_none_complete(struct law_sim *sim, struct law_rq *rq)
{
	(void)sim;
	(void)rq;
}

const struct law_sched law_none = {
	.name = "none",
	.create = law_none_create,
	.destroy = free,
	.insert = law_none_insert,
	.run = law_none_run,
	.complete = law_none_complete,
};
