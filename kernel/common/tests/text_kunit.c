// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of text.h, and of the kernel's string functions as far as parsers rely on
 * them: as KUnit on kernels that have it, and as a userspace program under ASan
 * and UBSan, where they are those of the shim.
 */
#include <kunit/test.h>

#include <linux/ctype.h>

#include "../text.h"

/* A text, its length with what is behind a zero byte, and what is to come of it. */
#define TEXT(text, ret, number)	{ text, sizeof(text) - 1, ret, number }

struct number_case {
	const char *text;
	size_t nbytes;
	int ret;
	u64 number;
};

static const struct number_case numbers[] = {
	TEXT("0", 0, 0),
	TEXT("100", 0, 100),
	TEXT("100\n", 0, 100),
	TEXT("+100", 0, 100),
	TEXT("00000000000000000000000000000100", 0, 100),
	TEXT("18446744073709551615", 0, U64_MAX),
	TEXT("18446744073709551616", -ERANGE, 0),
	TEXT("99999999999999999999999999999999", -ERANGE, 0),
	TEXT("99999999999999999999999999999999x", -ERANGE, 0),
	TEXT("", -EINVAL, 0),
	TEXT("\n", -EINVAL, 0),
	TEXT("+", -EINVAL, 0),
	TEXT("++1", -EINVAL, 0),
	TEXT("+-1", -EINVAL, 0),
	TEXT("-1", -EINVAL, 0),
	TEXT(" 1", -EINVAL, 0),
	TEXT("1 ", -EINVAL, 0),
	TEXT("1\n\n", -EINVAL, 0),
	TEXT("1\r\n", -EINVAL, 0),
	TEXT("0x10", -EINVAL, 0),
	TEXT("1e3", -EINVAL, 0),
	TEXT("1.0", -EINVAL, 0),
	TEXT("100\0", 0, 100),
	TEXT("100\n\0\0", 0, 100),
	TEXT("100\0xxx", -EINVAL, 0),
	TEXT("100\0\0\0005", -EINVAL, 0),
	TEXT("100\0\n", -EINVAL, 0),
	TEXT("\0", -EINVAL, 0),
	TEXT("\000100", -EINVAL, 0),
};

static void number_of_text(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct number_case *c = &numbers[i];
		u64 number = 4711;

		if (text_number(c->text, c->nbytes, 0, U64_MAX, &number) != c->ret)
			KUNIT_FAIL(test, "case %u: another result", i);
		KUNIT_EXPECT_EQ(test, number, c->ret ? 4711 : c->number);
	}
}

static void number_in_range(struct kunit *test)
{
	u64 number = 4711;

	KUNIT_EXPECT_EQ(test, text_number("9", 1, 10, 12, &number), -ERANGE);
	KUNIT_EXPECT_EQ(test, text_number("13", 2, 10, 12, &number), -ERANGE);
	KUNIT_EXPECT_EQ(test, number, 4711ULL);
	KUNIT_EXPECT_EQ(test, text_number("10", 2, 10, 12, &number), 0);
	KUNIT_EXPECT_EQ(test, number, 10ULL);
	KUNIT_EXPECT_EQ(test, text_number("12\n", 3, 10, 12, &number), 0);
	KUNIT_EXPECT_EQ(test, number, 12ULL);
}

static void white_space(struct kunit *test)
{
	char text[] = " \t\n\v\f\r\xa0 a b\xa0\t\n";
	char empty[] = "", blank[] = "\t\n ";
	unsigned int c, nr = 0;

	for (c = 0; c < 256; c++)
		nr += !!isspace(c);
	KUNIT_EXPECT_EQ(test, nr, 7U);
	KUNIT_EXPECT_STREQ(test, skip_spaces(text), "a b\xa0\t\n");
	KUNIT_EXPECT_STREQ(test, strim(text), "a b");
	KUNIT_EXPECT_STREQ(test, strim(empty), "");
	KUNIT_EXPECT_STREQ(test, strim(blank), "");
}

static void same_word(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, sysfs_streq("auto", "auto"));
	KUNIT_EXPECT_TRUE(test, sysfs_streq("auto\n", "auto"));
	KUNIT_EXPECT_TRUE(test, sysfs_streq("auto", "auto\n"));
	KUNIT_EXPECT_FALSE(test, sysfs_streq("auto\n\n", "auto"));
	KUNIT_EXPECT_FALSE(test, sysfs_streq("auto ", "auto"));
	KUNIT_EXPECT_FALSE(test, sysfs_streq("aut", "auto"));
	KUNIT_EXPECT_FALSE(test, sysfs_streq("", "auto"));
}

static void other_bytes(struct kunit *test)
{
	char bytes[8] = { };

	KUNIT_EXPECT_TRUE(test, !memchr_inv(bytes, 0, sizeof(bytes)));
	KUNIT_EXPECT_TRUE(test, !memchr_inv(bytes, 1, 0));
	bytes[5] = 'x';
	KUNIT_EXPECT_TRUE(test, memchr_inv(bytes, 0, sizeof(bytes)) == &bytes[5]);
	KUNIT_EXPECT_TRUE(test, !memchr_inv(bytes, 0, 5));
}

static struct kunit_case text_cases[] = {
	KUNIT_CASE(number_of_text),
	KUNIT_CASE(number_in_range),
	KUNIT_CASE(white_space),
	KUNIT_CASE(same_word),
	KUNIT_CASE(other_bytes),
	{ }
};

static struct kunit_suite text_suite = {
	.name = "isolio_text",
	.test_cases = text_cases,
};

kunit_test_suite(text_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of isolio's parsing of numbers");
