// SPDX-License-Identifier: MIT
/* See options.h. */
#include <errno.h>
#include <string.h>
#include "decide.h"
#include "options.h"

#define MAX_DEPTH 4096
#define MAX_FILES 32768
#define MIN_SAMPLE_NS 1000000
#define MAX_SAMPLE_NS 1000000000
#define ALL_FLAGS (APS_FALLBACK | APS_KEEP_TIMER_SLACK | APS_SINGLE_THREAD | APS_NO_RING)

/* What the first version had. A program that forgot aps_options_init() has less. */
#define LEAST_BYTES (offsetof(struct aps_options, root) + sizeof(const char *))

static const struct aps_options defaults = {
	.size = sizeof(struct aps_options),
	.mode = APS_ADAPTIVE,
	.hybrid_sleep_ppm = 500000,
	.deep_sleep_ppm = 900000,
	.min_sleep_ns = 2000,
	.max_sleep_ns = 10000000,
	.sample_ns = 20000000,
	.depth = 64,
	.files = 1024,
};

static const char *const mode_names[] = {
	[APS_INTERRUPT] = "interrupt",
	[APS_POLL] = "poll",
	[APS_HYBRID] = "hybrid",
	[APS_ADAPTIVE] = "aps",
	[APS_RING_HYBRID] = "ring-hybrid",
};

#define NR_MODES (sizeof(mode_names) / sizeof(mode_names[0]))

const char *aps_mode_name(enum aps_mode mode)
{
	return (size_t)mode < NR_MODES ? mode_names[mode] : "unknown";
}

int aps_parse_mode(const char *name)
{
	size_t i;

	for (i = 0; i < NR_MODES; i++)
		if (!strcmp(name, mode_names[i]))
			return (int)i;
	return -EINVAL;
}

void aps_options_init(struct aps_options *o, size_t bytes)
{
	memset(o, 0, bytes);
	memcpy(o, &defaults, bytes < sizeof(defaults) ? bytes : sizeof(defaults));
	if (bytes >= sizeof(o->size))
		o->size = (uint32_t)bytes;
}

static bool in_range(const struct aps_options *o)
{
	return o->mode < NR_MODES && !(o->flags & ~(uint32_t)ALL_FLAGS) &&
	       o->depth >= 1 && o->depth <= MAX_DEPTH && o->files <= MAX_FILES &&
	       o->sample_ns >= MIN_SAMPLE_NS && o->sample_ns <= MAX_SAMPLE_NS &&
	       o->hybrid_sleep_ppm <= APS_PPM_ONE && o->deep_sleep_ppm <= APS_PPM_ONE &&
	       o->min_sleep_ns <= o->max_sleep_ns;
}

int aps_options_take(struct aps_options *own, const struct aps_options *theirs)
{
	const unsigned char *bytes = (const unsigned char *)theirs;
	uint32_t i;

	*own = defaults;
	if (theirs) {
		if (theirs->size < LEAST_BYTES)
			return -EINVAL;
		for (i = sizeof(*own); i < theirs->size; i++)
			if (bytes[i])
				return -E2BIG;
		memcpy(own, theirs, theirs->size < sizeof(*own) ? theirs->size : sizeof(*own));
		own->size = sizeof(*own);
	}
	if (!own->root)
		own->root = "";
	return in_range(own) ? 0 : -EINVAL;
}
