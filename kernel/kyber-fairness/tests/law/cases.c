// SPDX-License-Identifier: GPL-2.0-only
/* The cases: disks, and what containers ask of them. */
#include "cases.h"

#define MS	((u64)NSEC_PER_MSEC)
#define SEC	((u64)NSEC_PER_SEC)

/*
 * The disks. Fast ones are slowed down as in the lab, and with them the submitters'
 * 5 us from a completion to the next request. Slow ones are run for longer, so that
 * the lightest container has a thousand requests.
 */
struct law_disk {
	const char *name;
	const struct md_model_type *type;
	const char *preset;
	u64 scale;
	u32 tags;
	u64 warm_ns, run_ns, write_run_ns;
};

static const struct law_disk law_disks[] = {
	{ "p4500", &md_nvme_type, "p4500-2tb", 16, 1023, 4 * SEC, 8 * SEC, 16 * SEC },
	{ "sata-ssd", &md_flash_type, "sata-ssd", 4, 32, 16 * SEC, 8 * SEC, 64 * SEC },
	{ "emmc", &md_flash_type, "emmc", 1, 64, 10 * SEC, 20 * SEC, 120 * SEC },
	{ "hdd", &md_hdd_type, "desktop-2008", 1, 64, 30 * SEC, 240 * SEC, 240 * SEC },
	{ "optane", &md_ull_type, "optane-p4800x", 16, 1023, 4 * SEC, 8 * SEC, 8 * SEC },
	{ "z-ssd", &md_ull_type, "z-ssd", 16, 1023, 4 * SEC, 8 * SEC, 8 * SEC },
	{ "fixed", &md_fixed_type, "ideal", 1, 32, 4 * SEC, 8 * SEC, 8 * SEC },
};

static const struct law_disk *law_disk(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(law_disks); i++)
		if (!strcmp(law_disks[i].name, name))
			return &law_disks[i];
	abort();
}

/* A case of this disk, to be filled in. */
static struct law_case *law_new(struct law_cases *cases, const char *name,
				const struct law_disk *disk)
{
	struct law_case *c = &cases->of[cases->nr];

	if (cases->nr == LAW_CASES_MAX)
		abort();
	snprintf(cases->name[cases->nr], sizeof(cases->name[0]), "%s", name);
	*c = (struct law_case){
		.name = cases->name[cases->nr],
		.disk = disk->name,
		.type = disk->type,
		.preset = disk->preset,
		.scale = disk->scale,
		.tags = disk->tags,
		.nr_hctx = 1,
		.turn_ns = 5 * NSEC_PER_USEC * disk->scale,
		.warm_ns = disk->warm_ns,
		.run_ns = disk->run_ns,
		.seed = 1,
	};
	cases->nr++;
	return c;
}

static struct law_load *law_load(struct law_case *c, u32 weight, u32 depth, u32 bytes,
				 u32 write_permille)
{
	struct law_load *load = &c->load[c->nr_loads++];

	snprintf(load->name, sizeof(load->name), "w%u", weight);
	load->weight = weight;
	load->depth = depth;
	load->bytes = bytes;
	load->write_permille = write_permille;
	return load;
}

static void law_four(struct law_case *c, u32 depth, u32 write_permille)
{
	static const u32 weights[] = { 1000, 500, 250, 100 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		law_load(c, weights[i], depth, 4096, write_permille);
}

static void law_sweep(struct law_cases *cases)
{
	static const struct {
		const char *name;
		u32 write_permille;
	} mixes[] = { { "read", 0 }, { "70:30", 300 }, { "write", 1000 } };
	static const u32 depths[] = { 4, 8, 32, 128 };
	char name[64];
	u32 i, j, k;

	for (i = 0; i < ARRAY_SIZE(law_disks); i++)
		for (j = 0; j < ARRAY_SIZE(mixes); j++)
			for (k = 0; k < ARRAY_SIZE(depths); k++) {
				struct law_case *c;

				snprintf(name, sizeof(name), "%s %s 4x%u", law_disks[i].name,
					 mixes[j].name, depths[k]);
				c = law_new(cases, name, &law_disks[i]);
				if (mixes[j].write_permille)
					c->run_ns = law_disks[i].write_run_ns;
				law_four(c, depths[k], mixes[j].write_permille);
			}
}

/* One that is always present, and entitled to little, next to three that read all they can. */
static void law_small_thinker(struct law_case *c)
{
	struct law_load *load = law_load(c, 20, 1, 4096, 0);

	load->think_ns = 3 * MS / 2;
	load->is_limited = true;
	law_load(c, 500, 32, 4096, 0);
	law_load(c, 250, 32, 4096, 0);
	law_load(c, 100, 32, 4096, 0);
}

/* Containers that do not keep their requests outstanding. */
static void law_limited(struct law_cases *cases, const struct law_disk *disk)
{
	struct law_load *load;
	struct law_case *c;
	char name[64];
	u32 i;

	for (i = 0; i < 3; i++) {
		static const u64 think_ms[] = { 90, 6, 0 };

		if (think_ms[i])
			snprintf(name, sizeof(name), "%s thinker of %llu ms, 3x32", disk->name,
				 think_ms[i]);
		else
			snprintf(name, sizeof(name), "%s one at a time, 3x128", disk->name);
		c = law_new(cases, name, disk);
		load = law_load(c, 1000, 1, 4096, 0);
		load->think_ns = think_ms[i] * MS;
		/* A disk that serves one at a time gives such a container all it may have. */
		load->is_limited = disk->type != &md_hdd_type || think_ms[i] > 6;
		law_load(c, 500, think_ms[i] ? 32 : 128, 4096, 0);
		law_load(c, 250, think_ms[i] ? 32 : 128, 4096, 0);
		law_load(c, 100, think_ms[i] ? 32 : 128, 4096, 0);
	}

	snprintf(name, sizeof(name), "%s w20 thinker of 1.5 ms, 3x32", disk->name);
	c = law_new(cases, name, disk);
	law_small_thinker(c);

	snprintf(name, sizeof(name), "%s burst of 20 in 100 ms, 3x32", disk->name);
	c = law_new(cases, name, disk);
	load = law_load(c, 500, 32, 4096, 0);
	load->on_ns = 20 * MS;
	load->off_ns = 80 * MS;
	load->is_limited = true;
	law_load(c, 1000, 32, 4096, 0);
	law_load(c, 250, 32, 4096, 0);
	law_load(c, 100, 32, 4096, 0);

	snprintf(name, sizeof(name), "%s w1000 of 8, 3x32", disk->name);
	c = law_new(cases, name, disk);
	law_load(c, 1000, 8, 4096, 0);
	law_load(c, 500, 32, 4096, 0);
	law_load(c, 250, 32, 4096, 0);
	law_load(c, 100, 32, 4096, 0);
}

static void law_sizes(struct law_cases *cases, const struct law_disk *disk)
{
	/* Of 256 KiB there are few a second. */
	u64 run_ns = 64 * SEC;
	struct law_case *c;
	char name[64];
	u32 i;

	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s 4 KiB and 256 KiB, %s", disk->name,
			 i ? "write" : "read");
		c = law_new(cases, name, disk);
		c->run_ns = run_ns;
		law_load(c, 1000, 32, 4096, i * 1000);
		law_load(c, 500, 32, 262144, i * 1000);
		law_load(c, 250, 32, 4096, i * 1000);
		law_load(c, 100, 32, 262144, i * 1000);
	}
	snprintf(name, sizeof(name), "%s two readers, two writers", disk->name);
	c = law_new(cases, name, disk);
	c->run_ns = disk->write_run_ns;
	law_load(c, 1000, 32, 4096, 0);
	law_load(c, 500, 32, 4096, 1000);
	law_load(c, 250, 32, 4096, 0);
	law_load(c, 100, 32, 4096, 1000);
}

/*
 * Requests of a mebibyte: as a buffered writer's, next to one that writes a page at a time
 * as a journal does, and by themselves.
 */
static void law_large(struct law_cases *cases, const struct law_disk *disk)
{
	struct law_load *load;
	struct law_case *c;
	char name[64];
	u32 i;

	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s 4 KiB at a time, 1 MiB writes%s", disk->name,
			 i ? ", reader" : "");
		c = law_new(cases, name, disk);
		c->warm_ns = 16 * SEC;
		c->run_ns = 128 * SEC;
		load = law_load(c, 1000, 1, 4096, 1000);
		load->think_ns = 10 * MS;
		load->is_limited = true;
		load = law_load(c, 100, 64, 1048576, 1000);
		load->is_limited = !i;
		if (i)
			law_load(c, 100, 32, 4096, 0);
	}
	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s 1 MiB %s 4x32", disk->name,
			 i ? "write" : "read");
		c = law_new(cases, name, disk);
		c->warm_ns = 16 * SEC;
		c->run_ns = 256 * SEC;
		law_load(c, 1000, 32, 1048576, i * 1000);
		law_load(c, 500, 32, 1048576, i * 1000);
		law_load(c, 250, 32, 1048576, i * 1000);
		law_load(c, 100, 32, 1048576, i * 1000);
	}
}

static void law_numbers(struct law_cases *cases, const struct law_disk *disk)
{
	struct law_case *c;
	char name[64];
	u32 i;

	snprintf(name, sizeof(name), "%s 16 of one weight, x8", disk->name);
	c = law_new(cases, name, disk);
	for (i = 0; i < 16; i++)
		law_load(c, 100, 8, 4096, 0);
	snprintf(name, sizeof(name), "%s 900:90:9, x32", disk->name);
	c = law_new(cases, name, disk);
	law_load(c, 900, 32, 4096, 0);
	law_load(c, 90, 32, 4096, 0);
	law_load(c, 9, 32, 4096, 0);
}

static void law_contexts(struct law_cases *cases, const struct law_disk *disk)
{
	static const struct {
		u32 nr_hctx;
		bool pinned;
		u32 depth;
	} of[] = {
		{ 16, false, 32 }, { 16, true, 32 }, { 64, false, 128 }, { 64, true, 128 },
	};
	char name[64];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(of); i++) {
		struct law_case *c;

		snprintf(name, sizeof(name), "%s 4x%u, %u contexts%s", disk->name, of[i].depth,
			 of[i].nr_hctx, of[i].pinned ? ", own" : "");
		c = law_new(cases, name, disk);
		c->nr_hctx = of[i].nr_hctx;
		c->pinned = of[i].pinned;
		law_four(c, of[i].depth, 0);
	}
}

static void law_changes(struct law_cases *cases, const struct law_disk *disk)
{
	char name[64];
	u32 i;

	for (i = 0; i < 4; i++) {
		struct law_case *c;

		snprintf(name, sizeof(name), "%s 4x%u, %s by 3 from 6 s on", disk->name,
			 i / 2 ? 128 : 32, i % 2 ? "sped up" : "slowed down");
		c = law_new(cases, name, disk);
		c->change_ns = 6 * SEC;
		c->scale = disk->scale * (i % 2 ? 3 : 1);
		c->scale2 = disk->scale * (i % 2 ? 1 : 3);
		/* What is counted begins two seconds after the change. */
		c->warm_ns = 8 * SEC;
		law_four(c, i / 2 ? 128 : 32, 0);
	}
}

/* One CPU takes 2.8 us for each request, and the disk is faster. */
static void law_cpu(struct law_cases *cases, const struct law_disk *disk, const char *preset)
{
	char name[64];
	u32 i;

	for (i = 0; i < 2; i++) {
		struct law_case *c;

		snprintf(name, sizeof(name), "%s at full speed, one CPU, 4x%u", preset,
			 i ? 128 : 32);
		c = law_new(cases, name, disk);
		c->preset = preset;
		c->scale = 1;
		c->turn_ns = 0;
		c->cpu_ns = 2800;
		c->warm_ns = SEC;
		c->run_ns = SEC;
		law_four(c, i ? 128 : 32, 0);
	}
}

static void law_full_speed(struct law_cases *cases, const struct law_disk *disk)
{
	struct law_case *c;
	char name[64];
	u32 i;

	for (i = 0; i < 3; i++) {
		static const u32 depths[] = { 8, 32, 128 };

		snprintf(name, sizeof(name), "%s at full speed, read 4x%u", disk->name, depths[i]);
		c = law_new(cases, name, disk);
		c->scale = 1;
		c->turn_ns = 5 * NSEC_PER_USEC;
		c->warm_ns = SEC;
		c->run_ns = SEC;
		law_four(c, depths[i], 0);
	}

	snprintf(name, sizeof(name), "%s at full speed, w20 thinker of 1.5 ms, 3x32", disk->name);
	c = law_new(cases, name, disk);
	c->scale = 1;
	c->turn_ns = 5 * NSEC_PER_USEC;
	c->warm_ns = SEC;
	c->run_ns = SEC;
	law_small_thinker(c);
}

/* Containers that are not alike: what each is sold is a disk of its share. */
static void law_unlike(struct law_cases *cases, const struct law_disk *disk)
{
	static const struct {
		const char *name;
		struct law_load load[5];
	} of[] = {
		{ "mix", { { .weight = 500, .depth = 2, .bytes = 4096 },
			   { .weight = 200, .depth = 4, .bytes = 262144 },
			   { .weight = 100, .depth = 2, .bytes = 65536, .write_permille = 1000 },
			   { .weight = 200, .depth = 128, .bytes = 4096 } } },
		{ "api, bulk", { { .weight = 800, .depth = 4, .bytes = 4096 },
				 { .weight = 200, .depth = 128, .bytes = 4096 } } },
		{ "api, large writer", { { .weight = 800, .depth = 4, .bytes = 4096 },
					 { .weight = 200, .depth = 16, .bytes = 1048576,
					   .write_permille = 1000 } } },
		{ "thinker, two bulk", { { .weight = 800, .depth = 1, .bytes = 4096,
					   .think_ns = 90 * MS },
					 { .weight = 200, .depth = 128, .bytes = 4096 },
					 { .weight = 100, .depth = 128, .bytes = 4096 } } },
		{ "small, big, mid", { { .weight = 100, .depth = 2, .bytes = 4096 },
				       { .weight = 500, .depth = 64, .bytes = 4096 },
				       { .weight = 400, .depth = 64, .bytes = 8192,
					 .write_permille = 300 } } },
		{ "reader, 64 KiB writer", { { .weight = 500, .depth = 8, .bytes = 4096 },
					     { .weight = 500, .depth = 32, .bytes = 65536,
					       .write_permille = 1000 } } },
		{ "slow one, bulk", { { .weight = 20, .depth = 1, .bytes = 4096,
					.write_permille = 1000, .slow_ns = 2 * MS },
				      { .weight = 1000, .depth = 128, .bytes = 4096 } } },
		{ "scan, small", { { .weight = 300, .depth = 8, .bytes = 1048576 },
				   { .weight = 700, .depth = 16, .bytes = 8192 } } },
		{ "odd depths", { { .weight = 500, .depth = 64, .bytes = 4096 },
				  { .weight = 250, .depth = 40, .bytes = 4096 },
				  { .weight = 150, .depth = 16, .bytes = 4096 },
				  { .weight = 70, .depth = 8, .bytes = 4096 },
				  { .weight = 30, .depth = 3, .bytes = 4096 } } },
	};
	struct law_case *c;
	char name[64];
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(of); i++) {
		snprintf(name, sizeof(name), "%s unlike: %s", disk->name, of[i].name);
		c = law_new(cases, name, disk);
		c->is_unlike = true;
		c->run_ns = max(disk->run_ns, 32 * SEC);
		for (j = 0; j < ARRAY_SIZE(of[i].load) && of[i].load[j].weight; j++) {
			struct law_load *load = law_load(c, of[i].load[j].weight, 1, 4096, 0);
			char of_name[16];

			memcpy(of_name, load->name, sizeof(of_name));
			*load = of[i].load[j];
			memcpy(load->name, of_name, sizeof(of_name));
			load->slow_ns *= disk->scale;
		}
	}
	snprintf(name, sizeof(name), "%s unlike: one at a time, 8 of 256", disk->name);
	c = law_new(cases, name, disk);
	c->is_unlike = true;
	c->run_ns = max(disk->run_ns, 32 * SEC);
	law_load(c, 8000, 1, 4096, 0);
	for (i = 0; i < 8; i++)
		law_load(c, 100, 256, 4096, 0);
}

void law_make_cases(struct law_cases *cases)
{
	static const char * const some[] = { "p4500", "sata-ssd", "optane", "hdd", "fixed" };
	u32 i;

	cases->of = calloc(LAW_CASES_MAX, sizeof(*cases->of));
	cases->name = calloc(LAW_CASES_MAX, sizeof(*cases->name));
	cases->nr = 0;
	if (!cases->of || !cases->name)
		abort();
	law_sweep(cases);
	for (i = 0; i < ARRAY_SIZE(law_disks); i++)
		law_unlike(cases, &law_disks[i]);
	for (i = 0; i < ARRAY_SIZE(some); i++) {
		law_limited(cases, law_disk(some[i]));
		law_numbers(cases, law_disk(some[i]));
	}
	law_sizes(cases, law_disk("p4500"));
	law_sizes(cases, law_disk("sata-ssd"));
	law_sizes(cases, law_disk("z-ssd"));
	law_large(cases, law_disk("p4500"));
	law_large(cases, law_disk("sata-ssd"));
	law_large(cases, law_disk("emmc"));
	law_large(cases, law_disk("hdd"));
	law_large(cases, law_disk("fixed"));
	law_contexts(cases, law_disk("p4500"));
	law_contexts(cases, law_disk("fixed"));
	law_changes(cases, law_disk("p4500"));
	law_full_speed(cases, law_disk("p4500"));
	law_full_speed(cases, law_disk("optane"));
	law_cpu(cases, law_disk("p4500"), "p4500-2tb");
	law_cpu(cases, law_disk("p4500"), "p4500-4tb");
	law_cpu(cases, law_disk("z-ssd"), "z-ssd");
}
