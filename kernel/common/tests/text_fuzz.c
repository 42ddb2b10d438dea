// SPDX-License-Identifier: GPL-2.0-only
/*
 * Numbers in text, as every tunable takes them, against a second reading that
 * shares no code with it. Input: the range's begin and end, eight bytes each, and
 * the text.
 */
#include <fuzz.h>

#include <linux/minmax.h>

#include "../text.h"

/* A plus sign at most, digits, a newline at most, zero bytes; -1: something else. */
static __int128 read_again(const struct fuzz_input *in)
{
	const u8 *at = in->at, *end = in->at + in->left;
	const __int128 most = (__int128)1 << 100;
	__int128 value = 0;

	if (at < end && *at == '+')
		at++;
	if (at == end || *at < '0' || *at > '9')
		return -1;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		value = min_t(__int128, value * 10 + (*at - '0'), most);
	if (at < end && *at == '\n')
		at++;
	for (; at < end; at++)
		if (*at)
			return -1;
	return value;
}

static void text_target(struct fuzz_input *in)
{
	u64 least = fuzz_number(in, 8), most = fuzz_number(in, 8), number = 4711;
	__int128 value = read_again(in);
	char *text = fuzz_text(in);
	int ret = text_number(text, in->left, least, most, &number);

	if (!ret) {
		FUZZ_CHECK(value == number);
		FUZZ_CHECK(number >= least && number <= most);
	} else {
		FUZZ_CHECK(number == 4711);
		FUZZ_CHECK(ret == -EINVAL || ret == -ERANGE);
		FUZZ_CHECK(value < least || value > most);
		/* A number that is too large is not told from one and more. */
		FUZZ_CHECK(ret == -EINVAL ? value < 0 : value >= 0 || in->left > 19);
	}
	free(text);
}

FUZZ_TARGET(text_target);
