// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is written to cost_model, and what the arithmetic makes of it: every model
 * that is taken charges every request a cost there is room for, and so does every price by
 * it. Input: the text, ended by a zero byte, and work (3 + 3 + 5 + 5 bytes each).
 */
#include <fuzz.h>

#include "../parse.h"

static void check_costs(const struct kf_model *km)
{
	static const u32 sizes[] = { 0, 512, 4096, 1 << 20, U32_MAX };
	unsigned int dir, i;

	for (dir = 0; dir < KF_NR_DIRS; dir++) {
		u64 rate = kf_model_rate(km, dir);

		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			u32 cost = kf_cost_bytes(rate, sizes[i]);

			FUZZ_CHECK(cost && cost <= KF_COST_MAX);
			FUZZ_CHECK(!i || cost >= kf_cost_bytes(rate, sizes[i - 1]));
		}
	}
}

/* Text that the file shows is taken again, in another order. */
static void check_shown(const u64 *figures)
{
	u64 again[KF_NR_FIGURES];
	char text[128];

	snprintf(text, sizeof(text), "wiops=%llu wbps=%llu\triops=%llu rbps=%llu\n",
		 figures[KF_WIOPS], figures[KF_WBPS], figures[KF_RIOPS], figures[KF_RBPS]);
	FUZZ_CHECK(!kf_parse_model(text, again));
	FUZZ_CHECK(!memcmp(figures, again, sizeof(again)));
}

/* Every price is one that there is room for, and those that are near are near. */
static void check_prices(const u64 *rate, struct fuzz_input *in)
{
	static struct kf_prices all;
	struct kf_price kp = { };

	while (in->left) {
		u64 price;

		kp.fresh.nr[0] += fuzz_number(in, 3);
		kp.fresh.nr[1] += fuzz_number(in, 3);
		kp.fresh.bytes[0] += fuzz_number(in, 5);
		kp.fresh.bytes[1] += fuzz_number(in, 5);
		price = kf_price_update(&kp, rate);
		if (!price)
			continue;
		FUZZ_CHECK(kf_price_bin(price) < KF_PRICE_BINS);
		FUZZ_CHECK(kf_price_bytes(price, U32_MAX) <= KF_COST_MAX);
		memset(&all, 0, sizeof(all));
		kf_prices_add(&all, price);
		FUZZ_CHECK(kf_prices_near(&all, price) == price);
	}
}

static void model_target(struct fuzz_input *in)
{
	static const struct kf_model none;
	u64 figures[KF_NR_FIGURES], rate[KF_NR_DIRS];
	struct kf_model km = none;
	char *text = fuzz_text(in);
	size_t len = strlen(text);
	unsigned int i;
	int ret = kf_parse_model(text, figures);

	free(text);
	if (ret) {
		FUZZ_CHECK(ret == -EINVAL || ret == -ERANGE);
		return;
	}
	in->at += min_t(size_t, len + 1, in->left);
	in->left -= min_t(size_t, len + 1, in->left);
	for (i = 0; i < KF_NR_FIGURES; i += 2) {
		FUZZ_CHECK(figures[i] >= KF_BPS_MIN && figures[i] <= KF_BPS_MAX);
		FUZZ_CHECK(figures[i + 1] >= KF_IOPS_MIN && figures[i + 1] <= KF_IOPS_MAX);
	}
	check_shown(figures);
	kf_model_set(&km, 0, figures[KF_RBPS], figures[KF_RIOPS]);
	kf_model_set(&km, 1, figures[KF_WBPS], figures[KF_WIOPS]);
	check_costs(&km);
	rate[0] = kf_model_rate(&km, 0);
	rate[1] = kf_model_rate(&km, 1);
	check_prices(rate, in);
}

FUZZ_TARGET(model_target);
