// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is written to cost_model, and what the arithmetic makes of it: every model
 * that is taken charges every request a cost there is room for, learns from
 * every window, and stays a model that may be written. Input: the text, ended by
 * a zero byte, and windows of work (3 + 4 + 4 + 5 + 5 bytes each).
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

static void learn(struct kf_model *km, struct fuzz_input *in)
{
	while (in->left) {
		u64 word = fuzz_number(in, 3);
		struct kf_work kw = {
			.nr = { fuzz_number(in, 4), fuzz_number(in, 4) },
			.bytes = { fuzz_number(in, 5), fuzz_number(in, 5) },
		};
		unsigned int dir;

		/* Up to 1.07 s: what is longer than a second is refused. */
		if (!kf_model_learn(km, &kw, (word >> 1) << 7, word & 1))
			continue;
		check_costs(km);
		for (dir = 0; dir < KF_NR_DIRS; dir++) {
			u64 bps = kf_model_bps(km, dir);

			FUZZ_CHECK(bps >= KF_BPS_MIN && bps <= KF_BPS_MAX);
			/* A learnt request also takes the time of its bytes. */
			FUZZ_CHECK(kf_model_iops(km, dir) <= KF_IOPS_MAX);
		}
	}
}

static void model_target(struct fuzz_input *in)
{
	static const struct kf_model none;
	u64 figures[KF_NR_FIGURES];
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
	km.is_scaled = true;
	check_costs(&km);
	learn(&km, in);
}

FUZZ_TARGET(model_target);
