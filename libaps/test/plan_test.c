// SPDX-License-Identifier: MIT
/* Options, and the policy as programs with an I/O path of their own have it. */
#include "../src/cpu.c"
#include "../src/decide.c"
#include "../src/options.c"
#include "../src/plan.c"
#include "tap.h"

#define US 1000ull

static struct aps_options of_mode(enum aps_mode mode)
{
	struct aps_options o;

	aps_options_init(&o, sizeof(o));
	o.mode = mode;
	return o;
}

static struct aps_policy *policy_of(enum aps_mode mode)
{
	struct aps_options o = of_mode(mode);
	struct aps_policy *policy = NULL;

	EXPECT_EQ(aps_policy_create(&policy, &o), 0);
	return policy;
}

static struct aps_io read_at(uint64_t submit_ns)
{
	return (struct aps_io){ .submit_ns = submit_ns, .bytes = 4096, .op = APS_OP_READ };
}

static void learn(struct aps_policy *policy, unsigned int nr, uint64_t ns)
{
	struct aps_io io = read_at(0);

	while (nr--)
		EXPECT_EQ(aps_policy_done(policy, &io, NULL, 0, ns, NULL), 0);
}

static struct aps_plan plan_of(const struct aps_policy *policy, uint32_t util_ppm, uint64_t now_ns)
{
	struct aps_load load = { .util_ppm = util_ppm };
	struct aps_io io = read_at(1000 * US);
	struct aps_plan plan;

	EXPECT_EQ(aps_policy_plan(policy, &io, 1, &load, now_ns, &plan), 0);
	return plan;
}

static void options_out_of_range_are_refused(void)
{
	const struct aps_options good = of_mode(APS_ADAPTIVE);
	struct aps_options own, o;

	EXPECT_EQ(aps_options_take(&own, NULL), 0);
	EXPECT(!memcmp(&own.mode, &good.mode, offsetof(struct aps_options, root) - sizeof(own.size)));
#define REFUSED(member, value)					\
	do {							\
		o = good;					\
		o.member = (value);				\
		EXPECT_EQ(aps_options_take(&own, &o), -EINVAL);	\
	} while (0)
	REFUSED(mode, APS_RING_HYBRID + 1);
	REFUSED(flags, 1u << 31);
	REFUSED(depth, 0);
	REFUSED(depth, 4097);
	REFUSED(files, 32769);
	REFUSED(sample_ns, 999999);
	REFUSED(sample_ns, 1000000001);
	REFUSED(hybrid_sleep_ppm, APS_PPM_ONE + 1);
	REFUSED(deep_sleep_ppm, APS_PPM_ONE + 1);
	REFUSED(min_sleep_ns, good.max_sleep_ns + 1);
	REFUSED(size, 0);
}

/* A program that was compiled with a later header, and one that knows fewer. */
static void options_have_a_size(void)
{
	struct { struct aps_options o; uint64_t later; } newer;
	struct aps_options own;
	unsigned char older[sizeof(own) + 8];

	aps_options_init(&newer.o, sizeof(newer));
	EXPECT_EQ(newer.o.size, sizeof(newer));
	EXPECT_EQ(newer.later, 0);
	EXPECT_EQ(aps_options_take(&own, &newer.o), 0);
	newer.later = 1;
	EXPECT_EQ(aps_options_take(&own, &newer.o), -E2BIG);
	/* Nothing is written beyond what the program has. */
	memset(older, 0xa5, sizeof(older));
	aps_options_init((struct aps_options *)older, 16);
	EXPECT_EQ(older[15] == 0xa5, 0);
	EXPECT_EQ(older[16], 0xa5);
}

static void modes_have_names(void)
{
	enum aps_mode mode;

	for (mode = APS_INTERRUPT; mode <= APS_RING_HYBRID; mode++)
		EXPECT_EQ(aps_parse_mode(aps_mode_name(mode)), mode);
	EXPECT_EQ(aps_parse_mode("spin"), -EINVAL);
	EXPECT(!strcmp(aps_mode_name(APS_RING_HYBRID + 1), "unknown"));
}

/* The same decision as inside the library, whatever was learnt and is asked. */
static void plans_are_the_decisions(void)
{
	static const uint32_t utils[] = { 0, 300000, 800000, 900000, 975000, 1000000, 5000000 };
	static const uint32_t needs[] = { 0, 125000, 250000, 500000, 1000000, UINT32_MAX };
	struct aps_policy *policy = policy_of(APS_ADAPTIVE);
	unsigned int u, n, round;

	for (round = 0; round < 40; round++) {
		learn(policy, 1, 10 * US + round * round * 40);
		for (u = 0; u < sizeof(utils) / sizeof(utils[0]); u++)
			for (n = 0; n < sizeof(needs) / sizeof(needs[0]); n++) {
				struct aps_load load = { .util_ppm = utils[u], .need_ppm = needs[n] };
				struct aps_io io = read_at(1000 * US);
				struct aps_choice c = aps_policy_choose(policy, APS_DIR_READ, 0, utils[u], needs[n]);
				struct aps_plan p;

				EXPECT_EQ(aps_policy_plan(policy, &io, 1, &load, 1000 * US, &p), 0);
				EXPECT_EQ(p.kind, c.kind);
				EXPECT_EQ(p.sleep_ns, c.sleep_ns);
				EXPECT_EQ(p.nap_ns, c.nap_ns);
				EXPECT_EQ(p.margin_ppm, c.margin_ppm);
				EXPECT_EQ(p.sleep_until_ns, c.sleep_ns ? 1000 * US + c.sleep_ns : 0);
			}
	}
	aps_policy_free(policy);
}

static void sleeps_count_from_the_oldest(void)
{
	struct aps_policy *policy = policy_of(APS_HYBRID);
	struct aps_io ios[3] = { read_at(1020 * US), read_at(1000 * US), read_at(1010 * US) };
	struct aps_plan p;

	learn(policy, 16, 100 * US);
	ios[0].bytes = ios[2].bytes = 1 << 20; /* of which nothing is known */
	EXPECT_EQ(aps_policy_plan(policy, ios, 3, NULL, 1030 * US, &p), 0);
	EXPECT_EQ(p.kind, APS_WAIT_HYBRID);
	EXPECT_EQ(p.sleep_until_ns, 1050 * US);
	EXPECT_EQ(p.poll_until_ns, 1450 * US);
	/* What is left is not worth a sleep. */
	EXPECT_EQ(aps_policy_plan(policy, ios, 3, NULL, 1049 * US, &p), 0);
	EXPECT_EQ(p.sleep_until_ns, 0);
	EXPECT_EQ(p.poll_until_ns, 1449 * US);
	aps_policy_free(policy);
}

static void polling_ends(void)
{
	struct aps_policy *policy = policy_of(APS_POLL);

	/* Nothing is known: as long as a reading of the CPUs holds. */
	EXPECT_EQ(plan_of(policy, 0, 1000 * US).poll_until_ns, 21000 * US);
	learn(policy, 16, 10 * US);
	EXPECT_EQ(plan_of(policy, 0, 1000 * US).poll_until_ns, 1040 * US);
	/* An outlier is planned for again. */
	EXPECT_EQ(plan_of(policy, 0, 1040 * US).poll_until_ns, 1080 * US);
	aps_policy_free(policy);
	policy = policy_of(APS_POLL);
	learn(policy, 16, 10000 * US);
	EXPECT_EQ(plan_of(policy, 0, 1000 * US).poll_until_ns, 21000 * US);
	aps_policy_free(policy);
	policy = policy_of(APS_INTERRUPT);
	EXPECT_EQ(plan_of(policy, 0, 1000 * US).poll_until_ns, 0);
	aps_policy_free(policy);
}

static void overslept_io_took_at_most_the_sleep(void)
{
	struct aps_policy *policy = policy_of(APS_HYBRID);
	struct aps_io io = read_at(1000 * US);
	struct aps_plan p;

	learn(policy, 16, 100 * US);
	p = plan_of(policy, 0, 1000 * US);
	EXPECT_EQ(p.sleep_until_ns, 1050 * US);
	/* The sleep ended in time: the I/O took no longer. */
	EXPECT_EQ(aps_policy_done(policy, &io, &p, 1, 1051 * US, NULL), 0);
	EXPECT_EQ(aps_policy_expected_ns(policy, APS_OP_READ, 4096), (15 * 100 + 50) * US / 16);
	/* It ended late: nothing is known of the I/O. */
	EXPECT_EQ(aps_policy_done(policy, &io, &p, 1, 1060 * US, NULL), 0);
	EXPECT_EQ(aps_policy_expected_ns(policy, APS_OP_READ, 4096), (15 * 100 + 50) * US / 16);
	aps_policy_free(policy);
}

/* Only by the I/O that the plan is for, and not by one that was not slept for. */
static void light_sleeps_learn_from_their_ends(void)
{
	struct aps_policy *policy = policy_of(APS_ADAPTIVE);
	struct aps_io io = read_at(1000 * US), later = read_at(1001 * US);
	struct aps_load load = { 0 };
	struct aps_plan p;
	int i;

	learn(policy, 16, 100 * US);
	p = plan_of(policy, 0, 1000 * US);
	EXPECT_EQ(p.sleep_ns, 50 * US);
	EXPECT_EQ(p.submit_ns, 1000 * US);
	for (i = 0; i < 16; i++)
		EXPECT_EQ(aps_policy_done(policy, &later, &p, 0, 1101 * US, &load), 0);
	EXPECT_EQ(plan_of(policy, 0, 1000 * US).sleep_ns, 50 * US);
	for (i = 0; i < 16; i++)
		EXPECT_EQ(aps_policy_done(policy, &io, &p, 0, 1100 * US, &load), 0);
	EXPECT_BETWEEN(plan_of(policy, 0, 1000 * US).sleep_ns, 56200, 56250);
	EXPECT_EQ(aps_policy_done(policy, &io, &p, 1, 1060 * US, &load), 0);
	EXPECT_BETWEEN(plan_of(policy, 0, 1000 * US).sleep_ns, 49900, 50000);
	p.sleep_until_ns = 0;
	EXPECT_EQ(aps_policy_done(policy, &io, &p, 1, 1100 * US, &load), 0);
	EXPECT(plan_of(policy, 0, 1000 * US).sleep_ns > 50 * US);
	aps_policy_free(policy);
}

static void bad_questions_are_refused(void)
{
	struct aps_options o = of_mode(APS_RING_HYBRID);
	struct aps_io io = read_at(1000 * US);
	struct aps_load load = { 0 };
	struct aps_policy *policy;
	struct aps_plan p;

	EXPECT_EQ(aps_policy_create(&policy, &o), -EINVAL);
	policy = policy_of(APS_ADAPTIVE);
	EXPECT_EQ(aps_policy_plan(policy, &io, 0, &load, 0, &p), -EINVAL);
	EXPECT_EQ(aps_policy_plan(policy, &io, 1, NULL, 0, &p), -EINVAL);
	EXPECT_EQ(aps_policy_done(policy, &io, NULL, 0, 999 * US, &load), -EINVAL);
	io.op = APS_OP_FSYNC;
	EXPECT_EQ(aps_policy_plan(policy, &io, 1, &load, 0, &p), -EINVAL);
	EXPECT_EQ(aps_policy_done(policy, &io, NULL, 0, 2000 * US, &load), -EINVAL);
	EXPECT_EQ(aps_policy_expected_ns(policy, APS_OP_FSYNC, 0), 0);
	aps_policy_free(policy);
	aps_policy_free(NULL);
}

static void cpus_are_read_every_so_often(void)
{
	struct aps_options o = of_mode(APS_ADAPTIVE);
	struct aps_cpus *cpus = NULL;
	struct aps_load load = { .util_ppm = 7 };

	o.root = "/nonexistent";
	EXPECT_EQ(aps_cpus_open(&cpus, &o), -ENOENT);
	EXPECT_EQ(aps_cpus_open(&cpus, NULL), 0);
	EXPECT_EQ(aps_cpus_load(cpus, 0, 0, &load), -EINVAL);
	EXPECT_EQ(aps_cpus_load(cpus, 0, 1, &load), 0);
	EXPECT_EQ(cpus->cpu.nr, 1);
	EXPECT_EQ(load.util_ppm, 0);
	EXPECT_EQ(load.need_ppm, APS_PPM_ONE * (uint64_t)APS_PPM_ONE / cpus->cpu.load.capacity_ppm);
	EXPECT_EQ(aps_cpus_load(cpus, 19999 * US, 1, &load), 0);
	EXPECT_EQ(cpus->cpu.nr, 1);
	EXPECT_EQ(aps_cpus_load(cpus, 20000 * US, 1, &load), 0);
	EXPECT_EQ(cpus->cpu.nr, 2);
	aps_cpus_close(cpus);
	aps_cpus_close(NULL);
}

int main(void)
{
	static const struct tap_test tests[] = {
		TEST(options_out_of_range_are_refused),
		TEST(options_have_a_size),
		TEST(modes_have_names),
		TEST(plans_are_the_decisions),
		TEST(sleeps_count_from_the_oldest),
		TEST(polling_ends),
		TEST(overslept_io_took_at_most_the_sleep),
		TEST(light_sleeps_learn_from_their_ends),
		TEST(bad_questions_are_refused),
		TEST(cpus_are_read_every_so_often),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
