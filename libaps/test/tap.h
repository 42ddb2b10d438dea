/* SPDX-License-Identifier: MIT */
/* A test is a function; run_tests() runs them all and prints TAP. */
#ifndef TAP_H
#define TAP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static bool tap_failed;

#define EXPECT(condition)								\
	do {										\
		if (!(condition)) {							\
			printf("# %s:%d: not so: %s\n", __FILE__, __LINE__, #condition);	\
			tap_failed = true;						\
		}									\
	} while (0)

#define EXPECT_EQ(got, want)								\
	do {										\
		int64_t got_ = (int64_t)(got), want_ = (int64_t)(want);			\
		if (got_ != want_) {							\
			printf("# %s:%d: %s is %" PRId64 ", want %" PRId64 "\n", __FILE__,	\
			       __LINE__, #got, got_, want_);				\
			tap_failed = true;						\
		}									\
	} while (0)

#define EXPECT_BETWEEN(got, low, high)							\
	do {										\
		int64_t got_ = (int64_t)(got), low_ = (int64_t)(low), high_ = (int64_t)(high);	\
		if (got_ < low_ || got_ > high_) {					\
			printf("# %s:%d: %s is %" PRId64 ", want %" PRId64 "..%" PRId64 "\n",	\
			       __FILE__, __LINE__, #got, got_, low_, high_);		\
			tap_failed = true;						\
		}									\
	} while (0)

struct tap_test {
	const char *name;
	void (*run)(void);
};

#define TEST(function) { #function, function }

static inline int run_tests(const struct tap_test *tests, unsigned int nr)
{
	unsigned int i;
	int status = 0;

	for (i = 0; i < nr; i++) {
		tap_failed = false;
		tests[i].run();
		printf("%s %u %s\n", tap_failed ? "not ok" : "ok", i + 1, tests[i].name);
		fflush(stdout);
		status |= tap_failed;
	}
	printf("1..%u\n", nr);
	return status;
}

#endif
