// SPDX-License-Identifier: MIT
/*
 * What a decision costs: "NS ns a decision". In the lab's machine an instruction
 * is a nanosecond. All that an I/O does on behalf of the policy: whether to
 * read utilisation, the choice, and what is learnt at the completion.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include "context.h"

/* A pass takes half a millisecond, so most have no timer tick and no other task within. */
#define ROUNDS 2000u
#define PASSES 50u

static volatile uint64_t sink;

static uint64_t rounds_ns(struct aps *ctx, bool decides)
{
	uint64_t began_ns = aps_now_ns(), now_ns = began_ns;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		if (decides) {
			struct aps_choice c;

			aps_sample(ctx, now_ns);
			c = aps_policy_choose(&ctx->policy, APS_DIR_READ, 0,
					      ctx->cpu.load.util_ppm, aps_need_ppm(ctx));
			sink += c.sleep_ns;
			aps_policy_time(&ctx->policy, APS_DIR_READ, 0, 10000 + i % 64);
			aps_policy_load(&ctx->policy, ctx->cpu.load.util_ppm);
		}
		sink += i;
	}
	return aps_now_ns() - began_ns;
}

/* The pass that was disturbed least. */
static uint64_t least_ns(struct aps *ctx, bool decides)
{
	uint64_t least = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < PASSES; i++) {
		uint64_t ns = rounds_ns(ctx, decides);

		if (ns < least)
			least = ns;
	}
	return least;
}

int main(void)
{
	static const uint32_t utils[] = { 0, 60000, 1000000 };
	struct aps *ctx = calloc(1, sizeof(*ctx));
	struct aps_options o;
	uint64_t worst_ns = 0;
	unsigned int i;

	if (!ctx)
		return 1;
	aps_options_init(&o, sizeof(o));
	o.sample_ns = 1000000000; /* no reading within a round */
	aps_policy_init(&ctx->policy, &o);
	if (aps_cpu_open(&ctx->cpu, ""))
		return 1;
	ctx->mode = APS_ADAPTIVE;
	/* On one CPU a poll, a part of hybrid's sleep and a deep wait; utilisation is
	 * read once, before. */
	for (i = 0; i < sizeof(utils) / sizeof(utils[0]); i++) {
		uint64_t with_ns, without_ns;

		aps_sample(ctx, aps_now_ns());
		ctx->cpu.load.util_ppm = utils[i];
		with_ns = least_ns(ctx, true);
		without_ns = least_ns(ctx, false);
		printf("utilisation %u ppm: %llu ns\n", utils[i],
		       (unsigned long long)((with_ns - without_ns) / ROUNDS));
		if (with_ns - without_ns > worst_ns)
			worst_ns = with_ns - without_ns;
	}
	printf("%llu ns a decision\n", (unsigned long long)((worst_ns + ROUNDS - 1) / ROUNDS));
	aps_cpu_close(&ctx->cpu);
	free(ctx);
	return 0;
}
