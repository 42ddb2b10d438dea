/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files io.kyber.weight and cost_model take: pure functions of the
 * text. tests/parse_kunit.c checks them, tests/weight_fuzz.c and model_fuzz.c
 * fuzz them.
 */
#ifndef _KF_PARSE_H
#define _KF_PARSE_H

#include <linux/ctype.h>

#include "cost.h"
#include "share.h"
#include "text.h"

/* "N" or "sum", which becomes KF_WEIGHT_SUM. */
static inline int kf_parse_one_weight(const char *word, u64 *weight)
{
	if (!strcmp(word, "sum")) {
		*weight = KF_WEIGHT_SUM;
		return 0;
	}
	return text_number(word, strlen(word), KF_WEIGHT_MIN, KF_WEIGHT_MAX, weight);
}

/**
 * kf_parse_weight - what a write to io.kyber.weight asks for
 * @buf: what was written, and a zero byte behind it; may be changed
 * @nbytes: how much was written
 * @device: NULL for "N" and "default N", else the text "MAJ:MIN ..."
 * @weight: N, which is a number or "sum"; not set if there is a device
 *
 * The block layer finds the device and what is behind it, which is for
 * kf_parse_device_weight().
 */
static inline int kf_parse_weight(char *buf, size_t nbytes, char **device,
				  u64 *weight)
{
	const char *word;

	*device = NULL;
	if (!text_is_whole(buf, nbytes))
		return -EINVAL;
	buf = strim(buf);
	word = buf;
	if (!strncmp(buf, "default", 7) && isspace(buf[7]))
		word = skip_spaces(buf + 7);

	if (word == buf && strchr(buf, ':')) {
		*device = buf;
		return 0;
	}
	return kf_parse_one_weight(word, weight);
}

/**
 * kf_parse_device_weight - the part of "MAJ:MIN N" behind the device
 * @body: "N", "sum" or "default"; may be changed
 * @weight: N, or 0 for "default"
 */
static inline int kf_parse_device_weight(char *body, u64 *weight)
{
	body = strim(body);
	if (!strcmp(body, "default")) {
		*weight = 0;
		return 0;
	}
	return kf_parse_one_weight(body, weight);
}

/* The four figures of a model. */
enum kf_figure {
	KF_RBPS,
	KF_RIOPS,
	KF_WBPS,
	KF_WIOPS,
	KF_NR_FIGURES,
};

/* One "NAME=NUMBER"; a figure that is not there yet is 0. */
static inline int kf_parse_figure(char *word, u64 *figures)
{
	static const struct {
		const char *name;
		u64 least, most;
	} known[KF_NR_FIGURES] = {
		[KF_RBPS] = { "rbps", KF_BPS_MIN, KF_BPS_MAX },
		[KF_RIOPS] = { "riops", KF_IOPS_MIN, KF_IOPS_MAX },
		[KF_WBPS] = { "wbps", KF_BPS_MIN, KF_BPS_MAX },
		[KF_WIOPS] = { "wiops", KF_IOPS_MIN, KF_IOPS_MAX },
	};
	char *name = strsep(&word, "=");
	unsigned int i;

	for (i = 0; i < KF_NR_FIGURES && strcmp(name, known[i].name); i++)
		;
	if (i == KF_NR_FIGURES || !word || figures[i])
		return -EINVAL;
	return text_number(word, strlen(word), known[i].least, known[i].most,
			   &figures[i]);
}

/**
 * kf_parse_model - all four figures of a model, in any order, each once
 * @text: "rbps=N riops=N wbps=N wiops=N"; is changed
 * @figures: KF_NR_FIGURES of them
 */
static inline int kf_parse_model(char *text, u64 *figures)
{
	unsigned int i;
	char *word;
	int ret;

	memset(figures, 0, KF_NR_FIGURES * sizeof(*figures));
	while ((word = strsep(&text, " \t\n"))) {
		if (!*word)
			continue;
		ret = kf_parse_figure(word, figures);
		if (ret)
			return ret;
	}
	for (i = 0; i < KF_NR_FIGURES; i++)
		if (!figures[i])
			return -EINVAL;
	return 0;
}

#endif /* _KF_PARSE_H */
