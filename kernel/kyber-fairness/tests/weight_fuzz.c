// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is written to io.kyber.weight. Input: the text. Where it names a device,
 * what follows the first white space is read as the weight of that device, as the
 * block layer leaves it.
 */
#include <fuzz.h>

#include "../parse.h"

/* The same weight again, as the file shows it. */
static void check_weight(u64 weight)
{
	char text[32], *device;
	u64 again = 0;
	int len;

	if (weight == KF_WEIGHT_SUM) {
		len = snprintf(text, sizeof(text), "default sum\n");
	} else {
		FUZZ_CHECK(weight >= KF_WEIGHT_MIN && weight <= KF_WEIGHT_MAX);
		len = snprintf(text, sizeof(text), "default %u\n", (unsigned int)weight);
	}
	FUZZ_CHECK(!kf_parse_weight(text, len, &device, &again));
	FUZZ_CHECK(!device && again == weight);
}

/* Nothing but the weight, white space and the words may have been there. */
static void check_bytes(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		FUZZ_CHECK((text[i] >= '0' && text[i] <= '9') || !text[i] ||
			   text[i] == '+' || isspace(text[i]) ||
			   strchr("defaultsum", text[i]));
}

static void check_device(char *device)
{
	char *body = strpbrk(device, " \t\n");
	u64 weight = 4711;
	int ret;

	FUZZ_CHECK(strchr(device, ':'));
	if (!body)
		return;
	ret = kf_parse_device_weight(skip_spaces(body), &weight);
	if (ret)
		FUZZ_CHECK(weight == 4711 && (ret == -EINVAL || ret == -ERANGE));
	else if (weight)
		check_weight(weight);
}

static void weight_target(struct fuzz_input *in)
{
	char *text = fuzz_text(in), *device = text;
	u64 weight = 4711;
	int ret = kf_parse_weight(text, in->left, &device, &weight);

	if (ret) {
		FUZZ_CHECK(weight == 4711 && !device);
		FUZZ_CHECK(ret == -EINVAL || ret == -ERANGE);
	} else if (device) {
		FUZZ_CHECK(weight == 4711);
		FUZZ_CHECK(device >= text && device < text + in->left);
		check_device(device);
	} else {
		check_weight(weight);
		check_bytes((const char *)in->at, in->left);
	}
	free(text);
}

FUZZ_TARGET(weight_target);
