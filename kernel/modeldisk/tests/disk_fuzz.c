// SPDX-License-Identifier: GPL-2.0-only
/*
 * Model disks with any parameters that configfs lets through: a model is made or
 * says why not, and every command completes, in time order and no sooner than it
 * came. Input: the model (1 byte), the preset (1), how many parameters differ
 * from it (1), for each its number (1), whether it is an end of its range (1) and
 * its value (8); the size in MiB (1), commands in flight (1), the seed (1); and
 * for each command what it is and how long after the last (1), sector (4),
 * length (2).
 */
#include <fuzz.h>

#include "../fixed.c"
#include "../flash.c"
#include "../ftl.c"
#include "../hdd.c"
#include "../nvme.c"
#include "../ull.c"

#define FUZZ_NR_CMDS	64
#define FUZZ_MAX_SECTS	2048

static const struct md_model_type *const types[] = {
	&md_fixed_type, &md_hdd_type, &md_flash_type, &md_nvme_type, &md_ull_type,
};

/* A disk and the commands that it has. */
struct fuzz_disk {
	struct md_model *model;
	struct md_cmd cmds[FUZZ_NR_CMDS];
	bool is_inside[FUZZ_NR_CMDS];
	u32 nr_cmds;
	u32 nr_inside;
	u64 nr_sects;
	u64 now_ns;
};

static void choose_params(struct fuzz_input *in, const struct md_model_type *type,
			  void *params)
{
	unsigned int preset = fuzz_between(in, 1, 0, type->nr_presets - 1);
	unsigned int n = fuzz_between(in, 1, 0, 15);

	memcpy(params, type->presets[preset].params, type->params_bytes);
	while (n--) {
		unsigned int nr = fuzz_between(in, 1, 0, type->nr_params - 1);
		const struct md_param *param = &type->params[nr];
		u64 *value = params + param->offset;

		switch (fuzz_between(in, 1, 0, 3)) {
		case 0:
			*value = param->least;
			break;
		case 1:
			*value = param->most;
			break;
		default:
			*value = fuzz_between(in, 8, param->least, param->most);
		}
	}
}

/* Let everything happen until now. */
static void take_done(struct fuzz_disk *disk)
{
	struct md_cmd *cmd;
	u64 last_ns = 0;

	disk->model->type->advance(disk->model, disk->now_ns);
	while ((cmd = list_first_entry_or_null(&disk->model->done, struct md_cmd, node))) {
		u32 i = cmd - disk->cmds;

		list_del(&cmd->node);
		FUZZ_CHECK(i < disk->nr_cmds && disk->is_inside[i]);
		FUZZ_CHECK(cmd->done_ns >= cmd->arrive_ns && cmd->done_ns <= disk->now_ns);
		FUZZ_CHECK(cmd->done_ns >= last_ns);
		last_ns = cmd->done_ns;
		disk->is_inside[i] = false;
		disk->nr_inside--;
	}
}

/* Until one command less is in flight. */
static void wait_for_one(struct fuzz_disk *disk)
{
	u32 nr_inside = disk->nr_inside;
	unsigned int nr_events = 0;

	while (disk->nr_inside == nr_inside) {
		u64 next_ns = disk->model->type->next_ns(disk->model);

		FUZZ_CHECK(next_ns != MD_NEVER_NS);
		FUZZ_CHECK(++nr_events < 10000000);
		disk->now_ns = max(disk->now_ns, next_ns);
		take_done(disk);
	}
}

static void submit(struct fuzz_disk *disk, struct fuzz_input *in)
{
	static const u64 pauses_ns[] = { 0, 100, 50 * 1000, 20 * 1000 * 1000 };
	u8 what = fuzz_number(in, 1);
	u64 sect = fuzz_number(in, 4);
	u32 nr_sects = fuzz_between(in, 2, 1, FUZZ_MAX_SECTS), i = 0;

	if (disk->nr_inside == disk->nr_cmds)
		wait_for_one(disk);
	disk->now_ns += pauses_ns[what >> 6];
	take_done(disk);
	while (disk->is_inside[i])
		i++;
	memset(&disk->cmds[i], 0, sizeof(disk->cmds[i]));
	disk->cmds[i].op = (what & 63) % MD_NR_OPS;
	if (disk->cmds[i].op != MD_FLUSH) {
		nr_sects = min_t(u64, nr_sects, disk->nr_sects);
		disk->cmds[i].sect = sect % (disk->nr_sects - nr_sects + 1);
		disk->cmds[i].nr_sects = nr_sects;
	}
	disk->is_inside[i] = true;
	disk->nr_inside++;
	disk->model->type->submit(disk->model, &disk->cmds[i], disk->now_ns);
}

static void disk_target(struct fuzz_input *in)
{
	const struct md_model_type *type = types[fuzz_between(in, 1, 0, ARRAY_SIZE(types) - 1)];
	u64 params[64] = { };
	struct md_setup setup = { .params = params, .max_sects = FUZZ_MAX_SECTS };
	static struct fuzz_disk disk;
	unsigned int nr = 0;

	FUZZ_CHECK(type->params_bytes <= sizeof(params));
	choose_params(in, type, params);
	setup.nr_sects = fuzz_between(in, 1, 1, 32) << 11;
	setup.nr_cmds = fuzz_between(in, 1, 1, FUZZ_NR_CMDS);
	setup.seed = fuzz_number(in, 1);
	memset(&disk, 0, sizeof(disk));
	disk.nr_sects = setup.nr_sects;
	disk.nr_cmds = setup.nr_cmds;
	disk.model = type->create(&setup);
	if (!disk.model) {
		FUZZ_CHECK(setup.problem[0]);
		FUZZ_CHECK(memchr(setup.problem, '\0', sizeof(setup.problem)));
		return;
	}
	while (in->left && nr++ < 256)
		submit(&disk, in);
	while (disk.nr_inside)
		wait_for_one(&disk);
	type->destroy(disk.model);
}

FUZZ_TARGET(disk_target);
