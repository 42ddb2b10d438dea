// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of parse.h: as KUnit on kernels that have it, and as a userspace
 * program under ASan and UBSan.
 */
#include <kunit/test.h>

#include "../parse.h"

/* What a write asks for: the weight of all devices, or that of one. */
struct weight_case {
	const char *text;
	size_t nbytes;
	int ret;
	u64 weight;
	const char *device;
};

#define WEIGHT(text, ret, weight, device) \
	{ text, sizeof(text) - 1, ret, weight, device }

static const struct weight_case weights[] = {
	WEIGHT("1", 0, 1, NULL),
	WEIGHT("10000\n", 0, 10000, NULL),
	WEIGHT("  100\t\n\n", 0, 100, NULL),
	WEIGHT("default 100", 0, 100, NULL),
	WEIGHT("default\t 100\n", 0, 100, NULL),
	WEIGHT("100\0", 0, 100, NULL),
	WEIGHT("sum", 0, KF_WEIGHT_SUM, NULL),
	WEIGHT(" sum\n", 0, KF_WEIGHT_SUM, NULL),
	WEIGHT("default sum\n", 0, KF_WEIGHT_SUM, NULL),
	WEIGHT("sum\0", 0, KF_WEIGHT_SUM, NULL),
	WEIGHT("0", -ERANGE, 0, NULL),
	WEIGHT("10001", -ERANGE, 0, NULL),
	WEIGHT("18446744073709551616", -ERANGE, 0, NULL),
	WEIGHT("18446744073709551716", -ERANGE, 0, NULL),
	WEIGHT("default 0", -ERANGE, 0, NULL),
	WEIGHT("", -EINVAL, 0, NULL),
	WEIGHT("\n", -EINVAL, 0, NULL),
	WEIGHT("default", -EINVAL, 0, NULL),
	WEIGHT("default\n", -EINVAL, 0, NULL),
	WEIGHT("default100", -EINVAL, 0, NULL),
	WEIGHT("default default", -EINVAL, 0, NULL),
	WEIGHT("sums", -EINVAL, 0, NULL),
	WEIGHT("su", -EINVAL, 0, NULL),
	WEIGHT("Sum", -EINVAL, 0, NULL),
	WEIGHT("sum 100", -EINVAL, 0, NULL),
	WEIGHT("sum default", -EINVAL, 0, NULL),
	WEIGHT("sum sum", -EINVAL, 0, NULL),
	WEIGHT("defaultsum", -EINVAL, 0, NULL),
	WEIGHT("sum\0x", -EINVAL, 0, NULL),
	/* What the word becomes is no number to write. */
	WEIGHT("4294967295", -ERANGE, 0, NULL),
	WEIGHT("default 8:0 100", -EINVAL, 0, NULL),
	WEIGHT("100 200", -EINVAL, 0, NULL),
	WEIGHT("-1", -EINVAL, 0, NULL),
	WEIGHT("100\0xxx", -EINVAL, 0, NULL),
	WEIGHT("100\000100", -EINVAL, 0, NULL),
	WEIGHT("8:0 100\0xxx", -EINVAL, 0, NULL),
	WEIGHT(" 8:0 100\n", 0, 0, "8:0 100"),
	WEIGHT("8:0 default", 0, 0, "8:0 default"),
	WEIGHT("8:0 sum", 0, 0, "8:0 sum"),
	WEIGHT(":", 0, 0, ":"),
};

static void weight_of_text(struct kunit *test)
{
	unsigned int i;
	char buf[64];

	for (i = 0; i < ARRAY_SIZE(weights); i++) {
		const struct weight_case *c = &weights[i];
		u64 weight = 0;
		char *device;
		int ret;

		memcpy(buf, c->text, c->nbytes + 1);
		ret = kf_parse_weight(buf, c->nbytes, &device, &weight);
		if (ret != c->ret || weight != c->weight)
			KUNIT_FAIL(test, "case %u: returned %d, weight %llu", i, ret, weight);
		KUNIT_EXPECT_EQ(test, !device, !c->device);
		if (device && c->device)
			KUNIT_EXPECT_STREQ(test, device, c->device);
	}
}

static int device_weight(const char *text, u64 *weight)
{
	char buf[64];

	strscpy(buf, text, sizeof(buf));
	return kf_parse_device_weight(buf, weight);
}

static void weight_of_a_device(struct kunit *test)
{
	u64 weight = 4711;

	KUNIT_EXPECT_EQ(test, device_weight("100", &weight), 0);
	KUNIT_EXPECT_EQ(test, weight, 100ULL);
	KUNIT_EXPECT_EQ(test, device_weight(" default ", &weight), 0);
	KUNIT_EXPECT_EQ(test, weight, 0ULL);
	KUNIT_EXPECT_EQ(test, device_weight(" sum\n", &weight), 0);
	KUNIT_EXPECT_EQ(test, weight, (u64)KF_WEIGHT_SUM);
	weight = 4711;
	KUNIT_EXPECT_EQ(test, device_weight("0", &weight), -ERANGE);
	KUNIT_EXPECT_EQ(test, device_weight("10001", &weight), -ERANGE);
	KUNIT_EXPECT_EQ(test, device_weight("", &weight), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_weight("defaults", &weight), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_weight("100 100", &weight), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_weight("sum 100", &weight), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_weight("sums", &weight), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_weight("4294967295", &weight), -ERANGE);
	KUNIT_EXPECT_EQ(test, weight, 4711ULL);
}

struct model_case {
	const char *text;
	int ret;
	u64 figures[KF_NR_FIGURES];
};

static const struct model_case models[] = {
	{ "rbps=1000000 riops=2000 wbps=3000000 wiops=4000", 0,
	  { 1000000, 2000, 3000000, 4000 } },
	{ " wiops=4000\twbps=3000000  riops=2000\nrbps=1000000\n", 0,
	  { 1000000, 2000, 3000000, 4000 } },
	{ "rbps=100000 riops=1 wbps=1000000000000 wiops=100000000", 0,
	  { KF_BPS_MIN, KF_IOPS_MIN, KF_BPS_MAX, KF_IOPS_MAX } },
	{ "rbps=99999 riops=1 wbps=100000 wiops=1", -ERANGE },
	{ "rbps=1000000000001 riops=1 wbps=100000 wiops=1", -ERANGE },
	{ "rbps=100000 riops=0 wbps=100000 wiops=1", -ERANGE },
	{ "rbps=100000 riops=100000001 wbps=100000 wiops=1", -ERANGE },
	{ "rbps=100000 riops=1 wbps=100000", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 wiops", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 wiops=", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 wiops=1=1", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 =1", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 wiops=1 none=1", -EINVAL },
	{ "rbps=100000 riops=1 wbps=100000 wiops=1 rbps=100000", -EINVAL },
	{ "rbps=100000 rbps=200000 riops=1 wbps=100000 wiops=1", -EINVAL },
	{ "rbps=100000 rbps=100000 rbps=100000 rbps=100000", -EINVAL },
	{ "", -EINVAL },
	{ "automatic", -EINVAL },
};

static void model_of_text(struct kunit *test)
{
	u64 figures[KF_NR_FIGURES];
	unsigned int i, j;
	char buf[96];

	for (i = 0; i < ARRAY_SIZE(models); i++) {
		const struct model_case *c = &models[i];

		strscpy(buf, c->text, sizeof(buf));
		if (kf_parse_model(buf, figures) != c->ret)
			KUNIT_FAIL(test, "%s: another result", c->text);
		for (j = 0; j < KF_NR_FIGURES && !c->ret; j++)
			KUNIT_EXPECT_EQ(test, figures[j], c->figures[j]);
	}
}

static struct kunit_case parse_cases[] = {
	KUNIT_CASE(weight_of_text),
	KUNIT_CASE(weight_of_a_device),
	KUNIT_CASE(model_of_text),
	{ }
};

static struct kunit_suite parse_suite = {
	.name = "kyber_fairness_parse",
	.test_cases = parse_cases,
};

kunit_test_suite(parse_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of what kyber-fairness' files take");
