// SPDX-License-Identifier: MIT
/* The APS paper's decision, of fio's engine: fio/published.h. */
#include "../fio/published.h"
#include "tap.h"

static void counts_what_the_program_uses_itself(void)
{
	struct published p = { .stat_fd = -1 };

	/* Four CPUs: all idle, then one poller alone, a quarter of them. */
	EXPECT_EQ(published_ticks(&p, "cpu  10 0 10 4000 0 0 0 0 0 0\n"), 0);
	EXPECT_EQ(p.now_ppm, 0);
	EXPECT_EQ(published_ticks(&p, "cpu  20 0 20 4060 0 0 0 0 0 0\n"), 0);
	EXPECT_EQ(p.now_ppm, 250000);
	EXPECT_EQ(published_margin_ppm(&p), 750000);
	EXPECT_EQ(published_ticks(&p, "intr 5"), -1);
}

static void a_reading_without_a_tick_changes_nothing(void)
{
	struct published p = { .stat_fd = -1 };

	published_ticks(&p, "cpu  0 0 0 100 0 0 0 0\n");
	published_ticks(&p, "cpu  10 0 0 110 0 0 0 0\n");
	published_ticks(&p, "cpu  10 0 0 110 0 0 0 0\n");
	EXPECT_EQ(p.now_ppm, 500000);
}

static void the_margin_is_of_now_and_the_last_sixteen(void)
{
	struct published p = { .stat_fd = -1, .now_ppm = 1000000 };
	int i;

	EXPECT_EQ(published_choose(&p, 200000, 30000), PUBLISHED_DEEP);
	p.now_ppm = 0;
	for (i = 0; i < 20; i++)
		published_done(&p);
	EXPECT_EQ(p.nr, 16);
	EXPECT_EQ(published_choose(&p, 200000, 30000), PUBLISHED_POLL);
	/* One reading of a machine in full use is a 17th. */
	p.now_ppm = 1000000;
	EXPECT_EQ(published_margin_ppm(&p), 1000000 - 1000000 / 17);
	for (i = 0; i < 15; i++)
		published_done(&p);
	EXPECT_EQ(published_margin_ppm(&p), 1000000 - 16 * 1000000 / 17);
	EXPECT_EQ(published_choose(&p, 200000, 30000), PUBLISHED_HYBRID);
	published_done(&p);
	EXPECT_EQ(published_margin_ppm(&p), 0);
	EXPECT_EQ(published_choose(&p, 200000, 30000), PUBLISHED_DEEP);
}

int main(void)
{
	static const struct tap_test tests[] = {
		TEST(counts_what_the_program_uses_itself),
		TEST(a_reading_without_a_tick_changes_nothing),
		TEST(the_margin_is_of_now_and_the_last_sixteen),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
