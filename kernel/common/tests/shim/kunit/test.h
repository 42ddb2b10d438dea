/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KUnit in userspace: a *_kunit.c that is a test module on kernels with
 * CONFIG_KUNIT becomes a program that runs its suites and prints TAP. It exits
 * 1 if a case failed or if there was none.
 */
#ifndef SHIM_KUNIT_TEST_H
#define SHIM_KUNIT_TEST_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define KUNIT_PARAM_DESC_SIZE 128

struct kunit {
	void *priv;
	const void *param_value;
	const char *name;
	bool failed;
	jmp_buf abandon;	/* where a failed assertion goes */
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(struct kunit *test, const void *prev, char *desc);
};

struct kunit_suite {
	const char *name;
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;	/* ended by an empty one */
};

#define KUNIT_CASE(fn)			{ .run_case = fn, .name = #fn }
#define KUNIT_CASE_PARAM(fn, gen)	{ .run_case = fn, .name = #fn, .generate_params = gen }

/* A generator's first call has no previous parameter; it returns NULL at the end. */
#define KUNIT_ARRAY_PARAM(prefix, array, describe)			\
	static const void *prefix##_gen_params(struct kunit *test,	\
					       const void *prev, char *desc) \
	{								\
		void (*name_it)(typeof(&(array)[0]), char *) = describe; \
		typeof(&(array)[0]) param = prev;			\
									\
		(void)test;						\
		param = param ? param + 1 : &(array)[0];		\
		if (param == &(array)[ARRAY_SIZE(array)])		\
			return NULL;					\
		if (name_it)						\
			name_it(param, desc);				\
		return param;						\
	}

#define SHIM_FAIL(test, fmt, ...) do {					\
	(test)->failed = true;						\
	printf("# %s: %s:%d: " fmt "\n", (test)->name, __FILE__, __LINE__, \
	       ##__VA_ARGS__);						\
} while (0)

#define SHIM_GIVE_UP(test)	longjmp((test)->abandon, 1)

#define SHIM_COMPARE(test, left, op, right, otherwise) do {		\
	const typeof(left) shim_left = (left);				\
	const typeof(right) shim_right = (right);			\
									\
	if (shim_left op shim_right)					\
		break;							\
	SHIM_FAIL(test, "expected %s %s %s, got %lld and %lld", #left, #op, \
		  #right, (long long)shim_left, (long long)shim_right);	\
	otherwise;							\
} while (0)

#define SHIM_CHECK(test, condition, text, otherwise) do {		\
	if (condition)							\
		break;							\
	SHIM_FAIL(test, "expected %s", text);				\
	otherwise;							\
} while (0)

#define KUNIT_FAIL(test, fmt, ...)	SHIM_FAIL(test, fmt, ##__VA_ARGS__)

#define KUNIT_EXPECT_EQ(test, left, right)	SHIM_COMPARE(test, left, ==, right, )
#define KUNIT_EXPECT_NE(test, left, right)	SHIM_COMPARE(test, left, !=, right, )
#define KUNIT_EXPECT_LT(test, left, right)	SHIM_COMPARE(test, left, <, right, )
#define KUNIT_EXPECT_LE(test, left, right)	SHIM_COMPARE(test, left, <=, right, )
#define KUNIT_EXPECT_GT(test, left, right)	SHIM_COMPARE(test, left, >, right, )
#define KUNIT_EXPECT_GE(test, left, right)	SHIM_COMPARE(test, left, >=, right, )
#define KUNIT_EXPECT_TRUE(test, c)		SHIM_CHECK(test, c, #c, )
#define KUNIT_EXPECT_FALSE(test, c)		SHIM_CHECK(test, !(c), "not " #c, )
#define KUNIT_EXPECT_STREQ(test, a, b)		SHIM_CHECK(test, !strcmp(a, b), #a " to be " #b, )

#define KUNIT_ASSERT_EQ(test, left, right)	SHIM_COMPARE(test, left, ==, right, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_LE(test, left, right)	SHIM_COMPARE(test, left, <=, right, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_GT(test, left, right)	SHIM_COMPARE(test, left, >, right, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_GE(test, left, right)	SHIM_COMPARE(test, left, >=, right, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_TRUE(test, c)		SHIM_CHECK(test, c, #c, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_FALSE(test, c)		SHIM_CHECK(test, !(c), "not " #c, SHIM_GIVE_UP(test))
#define KUNIT_ASSERT_NOT_NULL(test, p)		SHIM_CHECK(test, p, #p " not to be NULL", SHIM_GIVE_UP(test))

/* What a test module has besides, as far as it means something here. */
#define MODULE_LICENSE(x)	struct shim_nothing
#define MODULE_DESCRIPTION(x)	struct shim_nothing
#define MODULE_AUTHOR(x)	struct shim_nothing

/* Copy as much of a name as fits and end it, as strscpy(9). */
#define strscpy(to, from, size)	((void)snprintf(to, size, "%s", from))

static int shim_number;
static int shim_failures;

static void shim_run_case(struct kunit_suite *suite, struct kunit_case *c,
			  const void *param, const char *desc)
{
	struct kunit test = { .param_value = param, .name = c->name };

	/* What setjmp() returns to is not changed by the case. */
	if (!setjmp(test.abandon)) {
		if (suite->init && suite->init(&test))
			KUNIT_FAIL(&test, "the suite's init failed");
		else
			c->run_case(&test);
	}
	if (suite->exit)
		suite->exit(&test);
	shim_failures += test.failed;
	printf("%s %d - %s.%s%s%s\n", test.failed ? "not ok" : "ok",
	       ++shim_number, suite->name, c->name, *desc ? ": " : "", desc);
}

static int shim_run(struct kunit_suite *const *suites, size_t nr)
{
	char desc[KUNIT_PARAM_DESC_SIZE];
	struct kunit_case *c;
	const void *param;
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n");
	for (i = 0; i < nr; i++) {
		for (c = suites[i]->test_cases; c->run_case; c++) {
			if (!c->generate_params) {
				shim_run_case(suites[i], c, NULL, "");
				continue;
			}
			param = NULL;
			while (*desc = '\0', (param = c->generate_params(NULL, param, desc)))
				shim_run_case(suites[i], c, param, desc);
		}
	}
	printf("1..%d\n", shim_number);
	return shim_failures || !shim_number;
}

#define kunit_test_suites(...)						\
	int main(void)							\
	{								\
		struct kunit_suite *const suites[] = { __VA_ARGS__ };	\
									\
		return shim_run(suites, ARRAY_SIZE(suites));		\
	}								\
	struct shim_nothing
#define kunit_test_suite(suite)	kunit_test_suites(&(suite))

#endif
