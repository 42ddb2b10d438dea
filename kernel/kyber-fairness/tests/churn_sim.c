// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tenant that makes and deletes cgroups all the time, beside a reader, on a disk that
 * serves one request at a time. The module is whole, and one thread plays the CPU.
 */
#include "../../common/tests/smp/count.h"

#include "module.h"

#include "../../common/tests/smp/count.c"

#include <kunit/test.h>

#define CHURN_BYTES		1048576U
#define CHURN_SERVICE_NS	NSEC_PER_MSEC
#define CHURN_STEP_NS		(20 * NSEC_PER_USEC)
#define CHURN_ALONE_NS		NSEC_PER_SEC
#define CHURN_RUN_NS		(20 * NSEC_PER_SEC)
#define CHURN_NR_TAGS		32
#define CHURN_NR_WORKERS	8
#define CHURN_NR_RQS		512
#define CHURN_READER_DEPTH	8

/* Cgroups that stay. */
enum churn_cgroup {
	CHURN_READER = 1,
	CHURN_TENANT,
	CHURN_SIBLING,		/* the tenant's own that lives on */
	CHURN_NR_CGROUPS = CHURN_SIBLING,
};

struct churn_case {
	const char *name;
	unsigned int nr_rqs;		/* of each cgroup that is made */
	unsigned int nr_queued;		/* 0: deleted after they completed; else so many wait */
	unsigned int sibling_depth;
	const char *sibling_weight;
	unsigned int warm_s;		/* before it is measured */
	unsigned int most;		/* of 10000 that the tenant has; 0: 3 % above its share */
};

/* One that is made and deleted. */
struct churn_child {
	struct smp_cgroup sc;
	struct churn_child *next;
	unsigned int nr_left;		/* of its requests */
	bool is_deleted;
};

struct churn_rq {
	struct request rq;
	struct bio bio;
	bool is_busy;
	struct blkcg_gq *blkg;
	struct churn_child *child;
	struct churn_rq *next_inside;
};

static struct churn {
	struct smp_disk *sd;
	const struct elevator_mq_ops *ops;
	struct churn_rq *rqs;
	struct churn_child *children;
	struct churn_rq *first_inside, **last_inside;
	unsigned int nr_inside, nr_churning, nr_outstanding[CHURN_NR_CGROUPS + 1];
	u64 done_ns, nr_done, nr_of[CHURN_NR_CGROUPS + 1];
} ch;

/* In the tenant's cgroup. */
static void churn_set_parent(unsigned int nr)
{
	ch.sd->cgroups[nr].blkg->parent = ch.sd->cgroups[CHURN_TENANT].blkg;
}

/* One whose last reference is gone is made anew. */
static struct churn_child *churn_make(void)
{
	struct churn_child *child = ch.children;

	while (child && (child->nr_left || !child->is_deleted ||
			 pd_to_kg(child->sc.blkg->pd[0])->is_active))
		child = child->next;
	if (child) {
		smp_exit_policy(&child->sc, smp_policy);
	} else {
		child = shim_kzalloc(sizeof(*child));
		smp_init_cgroup(ch.sd, &child->sc, CHURN_NR_CGROUPS + 1,
				ch.sd->cgroups[CHURN_TENANT].blkg);
		child->next = ch.children;
		ch.children = child;
	}
	smp_init_policy(&child->sc, &ch.sd->q, smp_policy);
	child->is_deleted = false;
	return child;
}

static void churn_delete(struct churn_child *child)
{
	child->is_deleted = true;
	smp_policy->pd_offline_fn(child->sc.blkg->pd[0]);
}

static void churn_submit(struct blkcg_gq *blkg, struct churn_child *child)
{
	struct blk_mq_ctx *ctx = per_cpu_ptr(ch.sd->q.queue_ctx, 0);
	struct churn_rq *cr = ch.rqs;
	LIST_HEAD(list);

	while (cr->is_busy)
		cr++;
	*cr = (struct churn_rq){ .is_busy = true, .blkg = blkg, .child = child };
	cr->bio = (struct bio){ .bi_blkg = blkg, .bi_opf = REQ_OP_READ, .bytes = CHURN_BYTES };
	cr->rq = (struct request){
		.q = &ch.sd->q, .mq_ctx = ctx, .mq_hctx = ctx->hctxs[HCTX_TYPE_READ],
		.rq_flags = RQF_USE_SCHED, .cmd_flags = REQ_OP_READ, .bytes = CHURN_BYTES,
		.sector = 4096 * (cr - ch.rqs), .start_time_ns = shim_now_ns(),
	};
	INIT_LIST_HEAD(&cr->rq.queuelist);
	ch.ops->prepare_request(&cr->rq);
	cr->rq.bio = &cr->bio;
	list_add(&cr->rq.queuelist, &list);
	ch.ops->insert_requests(cr->rq.mq_hctx, &list, 0);
}

static void churn_submit_to(enum churn_cgroup nr, unsigned int depth)
{
	for (; ch.nr_outstanding[nr] < depth; ch.nr_outstanding[nr]++)
		churn_submit(ch.sd->cgroups[nr].blkg, NULL);
}

static void churn_next_child(const struct churn_case *c)
{
	struct churn_child *child = churn_make();
	unsigned int i;

	child->nr_left = c->nr_rqs;
	ch.nr_churning += c->nr_queued ? c->nr_rqs : 1;
	for (i = 0; i < c->nr_rqs; i++)
		churn_submit(child->sc.blkg, child);
	if (c->nr_queued)
		churn_delete(child);
}

static void churn_dispatch(void)
{
	struct blk_mq_hw_ctx *hctx = per_cpu_ptr(ch.sd->q.queue_ctx, 0)->hctxs[HCTX_TYPE_READ];
	struct request *rq;

	while (ch.nr_inside < CHURN_NR_TAGS && ch.ops->has_work(hctx)) {
		struct churn_rq *cr;

		rq = ch.ops->dispatch_request(hctx);
		if (!rq)
			return;
		cr = container_of(rq, struct churn_rq, rq);
		rq->io_start_time_ns = shim_now_ns();
		cr->next_inside = NULL;
		*ch.last_inside = cr;
		ch.last_inside = &cr->next_inside;
		if (!ch.nr_inside++)
			ch.done_ns = shim_now_ns() + CHURN_SERVICE_NS;
	}
}

static void churn_complete(const struct churn_case *c)
{
	struct churn_rq *cr = ch.first_inside;
	unsigned int nr;

	if (!cr || shim_now_ns() < ch.done_ns)
		return;
	ch.done_ns += CHURN_SERVICE_NS;
	ch.first_inside = cr->next_inside;
	if (!ch.first_inside)
		ch.last_inside = &ch.first_inside;
	ch.nr_inside--;
	ch.ops->completed_request(&cr->rq, shim_now_ns());
	ch.ops->finish_request(&cr->rq);
	cr->is_busy = false;
	ch.nr_done++;
	for (nr = CHURN_READER; nr <= CHURN_NR_CGROUPS; nr++) {
		if (cr->blkg == ch.sd->cgroups[nr].blkg) {
			ch.nr_outstanding[nr]--;
			ch.nr_of[nr]++;
		}
	}
	if (!cr->child)
		return;
	cr->child->nr_left--;
	if (c->nr_queued) {
		ch.nr_churning--;
	} else if (!cr->child->nr_left) {
		ch.nr_churning--;
		churn_delete(cr->child);
	}
}

/* @c: NULL while the reader is alone. */
static void churn_play(const struct churn_case *c, u64 ns, bool may_submit)
{
	u64 end_ns = smp_played_ns + ns;

	for (; smp_played_ns < end_ns; smp_played_ns += CHURN_STEP_NS) {
		if (may_submit)
			churn_submit_to(CHURN_READER, CHURN_READER_DEPTH);
		if (may_submit && c) {
			churn_submit_to(CHURN_SIBLING, c->sibling_depth);
			while (ch.nr_churning < (c->nr_queued ?: CHURN_NR_WORKERS))
				churn_next_child(c);
		}
		churn_complete(c);
		churn_dispatch();
		if (READ_ONCE(shim_timer_bases[0].next_ns) <= smp_played_ns)
			shim_run_timers();
	}
}

static void churn_begin(const struct churn_case *c)
{
	smp_played_ns = NSEC_PER_SEC;
	ch = (struct churn){ .last_inside = &ch.first_inside };
	ch.sd = smp_make_disk(1, 1, CHURN_NR_CGROUPS, CHURN_NR_RQS);
	churn_set_parent(CHURN_SIBLING);
	smp_set_scheduler(ch.sd, smp_registered ?: kf_load_module());
	ch.ops = &ch.sd->eq.type->ops;
	smp_set_weight(ch.sd, CHURN_READER, "950");
	smp_set_weight(ch.sd, CHURN_TENANT, "50");
	if (c->sibling_weight)
		smp_set_weight(ch.sd, CHURN_SIBLING, c->sibling_weight);
	ch.rqs = shim_kzalloc(CHURN_NR_RQS * sizeof(*ch.rqs));
}

static void churn_end(const struct churn_case *c)
{
	struct churn_child *child, *next;

	/* All complete, and the deleted ones are found to have none. */
	churn_play(c, 2 * NSEC_PER_SEC, false);
	for (child = ch.children; child; child = next) {
		next = child->next;
		smp_exit_policy(&child->sc, smp_policy);
		kfree(child->sc.blkg);
		kfree(child->sc.blkcg);
		kfree(child);
	}
	kfree(ch.rqs);
	smp_this_cpu = 0;
	smp_free_disk(ch.sd);
	smp_played_ns = 0;
}

static const struct churn_case churn_cases[] = {
	{ "one request, then deleted", 1 },
	{ "one request, deleted while it waits", 1, 400 },
	{ "eight requests, then deleted", 8 },
	/* All that waits at first began before any of it was charged. */
	{ "eight requests, deleted while they wait, at first", 8, 400, .most = 580 },
	{ "eight requests, deleted while they wait", 8, 400, .warm_s = 40 },
	{ "beside one that stays", 1, .sibling_depth = 8 },
	/* Which is new at first. */
	{ "beside a heavy one that stays, at first", 1, .sibling_depth = 8,
	  .sibling_weight = "9900", .most = 530 },
	{ "beside a heavy one that stays", 1, .sibling_depth = 8, .sibling_weight = "9900",
	  .warm_s = 5 },
};

static void churn_name(const struct churn_case *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(churn, churn_cases, churn_name);

/* Of weights 950 and 50: within 3 %, but for the first seconds. */
static void tenant_has_its_share(struct kunit *test)
{
	const struct churn_case *c = test->param_value;
	u64 all, reader, sibling, tenant;

	churn_begin(c);
	churn_play(NULL, CHURN_ALONE_NS, true);
	churn_play(c, c->warm_s * NSEC_PER_SEC, true);
	all = ch.nr_done;
	reader = ch.nr_of[CHURN_READER];
	sibling = ch.nr_of[CHURN_SIBLING];
	churn_play(c, CHURN_RUN_NS, true);
	all = ch.nr_done - all;
	reader = ch.nr_of[CHURN_READER] - reader;
	sibling = ch.nr_of[CHURN_SIBLING] - sibling;
	tenant = (all - reader) * 10000 / all;
	sibling = sibling * 10000 / all;
	printf("# %s: of 10000 the tenant has %llu, its sibling %llu\n", c->name, tenant,
	       sibling);
	/* By the weights: one that stays is not hurt by those that do not. */
	if (c->sibling_depth)
		KUNIT_EXPECT_GE(test, sibling, c->sibling_weight ? 450ULL : 50ULL);
	KUNIT_EXPECT_GE(test, tenant, 485ULL);
	KUNIT_EXPECT_LE(test, tenant, c->most ?: 515ULL);
	churn_end(c);
}

static struct kunit_case churn_kunit_cases[] = {
	KUNIT_CASE_PARAM(tenant_has_its_share, churn_gen_params),
	{ }
};

static struct kunit_suite churn_suite = {
	.name = "kyber_fairness_churn",
	.test_cases = churn_kunit_cases,
};

kunit_test_suite(churn_suite);
