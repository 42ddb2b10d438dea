// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a request does to memory that CPUs share: no more than is recorded here. Four
 * CPUs are played in turn, see ../../common/tests/smp/played.h; counted are locked
 * operations, which those that take locks are among, and writes by WRITE_ONCE() and
 * the like. Plain writes to what is shared are under a lock, or they are races.
 *
 * A change that adds some fails here. One that saves some may lower the table. `make
 * bench-smp` has all figures, and the rates that come of them.
 */
#include "../../common/tests/smp/count.h"

#define SHIM_ACCESS(ptr, kind)	smp_count_access(ptr, kind)

#include "module.h"

#include "../../common/tests/smp/count.c"
#include "../../common/tests/smp/deadline.h"
#include "../../common/tests/smp/kyber.h"
#include "../../common/tests/smp/played.h"

#include <kunit/test.h>

#define PLAYED_CPUS	4U

enum structure {
	KYBER_FAIRNESS,
	KYBER,
	ONE_LOCK,
};

/* At most so many in a hundred requests. */
struct record {
	enum structure structure;
	unsigned int nr_hctx;
	enum smp_spread spread;
	enum smp_state state;
	unsigned int own, cgroup, device;	/* locked operations on lines of each */
	unsigned int writes;			/* on lines of a cgroup, or the device */
	unsigned int fetched;			/* lines */
};

static const struct record records[] = {
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_ONE_CGROUP, SMP_UNQUEUED,
	  700, 0, 0, 0, 0 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_UNQUEUED,
	  792, 27, 288, 167, 634 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_CGROUP_EACH, SMP_UNQUEUED,
	  907, 0, 268, 121, 522 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_ONE_CGROUP, SMP_QUEUED,
	  800, 0, 0, 0, 0 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_QUEUED,
	  790, 22, 200, 4, 347 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_CGROUP_EACH, SMP_QUEUED,
	  826, 0, 209, 35, 317 },
	{ KYBER_FAIRNESS, PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_DEEP,
	  865, 1, 254, 84, 309 },
	/* So many in flight are less than two for each CPU: most hardware contexts wait. */
	{ KYBER_FAIRNESS, 4 * PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_QUEUED,
	  867, 84, 268, 93, 659 },
	{ KYBER_FAIRNESS, 1, SMP_FOUR_CGROUPS, SMP_UNQUEUED,
	  0, 463, 1058, 1323, 1833 },
	/* The structures that it is compared with. */
	{ KYBER, PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_UNQUEUED,
	  902, 0, 102, 0, 103 },
	{ ONE_LOCK, PLAYED_CPUS, SMP_FOUR_CGROUPS, SMP_UNQUEUED,
	  0, 0, 500, 400, 220 },
};

static struct elevator_type *type_of(enum structure structure)
{
	switch (structure) {
	case KYBER:
		return &smp_kyber;
	case ONE_LOCK:
		return &smp_deadline;
	default:
		return smp_registered ?: kf_load_module();
	}
}

static void name_record(const struct record *record, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, %u hardware contexts, %s, %s",
		 type_of(record->structure)->elevator_name, record->nr_hctx,
		 smp_spread_names[record->spread], smp_state_names[record->state]);
}

KUNIT_ARRAY_PARAM(records, records, name_record);

static u64 per_hundred(u64 nr, const struct smp_result *result)
{
	return div64_u64(nr * 100, result->nr_done);
}

/* A request adds no access to shared memory that is not recorded. */
static void scaling_is_as_recorded(struct kunit *test)
{
	const struct record *record = test->param_value;
	const struct smp_setup setup = {
		.type = type_of(record->structure), .nr_cpus = max(record->nr_hctx, PLAYED_CPUS),
		.nr_hctx = record->nr_hctx, .spread = record->spread, .state = record->state,
	};
	struct smp_result result = smp_load_played(&setup);
	u64 locked[SMP_NR_OWNERS], writes[SMP_NR_OWNERS], fetched = 0;
	unsigned int owner;

	KUNIT_ASSERT_GT(test, result.nr_done, 100000ULL);
	for (owner = 0; owner < SMP_NR_OWNERS; owner++) {
		struct smp_count sum = smp_count_sum(&result.counts, owner);

		locked[owner] = per_hundred(sum.locks + sum.rmw, &result);
		writes[owner] = per_hundred(sum.writes, &result);
		fetched += sum.fetches;
	}
	printf("# %llu, %llu, %llu, %llu, %llu\n", locked[SMP_OWN], locked[SMP_CGROUP],
	       locked[SMP_DEVICE], writes[SMP_CGROUP] + writes[SMP_DEVICE],
	       per_hundred(fetched, &result));
	KUNIT_EXPECT_LE(test, locked[SMP_OWN], record->own);
	KUNIT_EXPECT_LE(test, locked[SMP_CGROUP], record->cgroup);
	KUNIT_EXPECT_LE(test, locked[SMP_DEVICE], record->device);
	KUNIT_EXPECT_LE(test, writes[SMP_CGROUP] + writes[SMP_DEVICE], record->writes);
	KUNIT_EXPECT_LE(test, per_hundred(fetched, &result), record->fetched);
}

static struct kunit_case scaling_cases[] = {
	KUNIT_CASE_PARAM(scaling_is_as_recorded, records_gen_params),
	{ }
};

static struct kunit_suite scaling_suite = {
	.name = "scaling",
	.test_cases = scaling_cases,
};

kunit_test_suite(scaling_suite);
