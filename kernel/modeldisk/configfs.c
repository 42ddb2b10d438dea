// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks are made in /sys/kernel/config/modeldisk: mkdir NAME makes a disk that
 * is off, its files say what it is, and 1 to `power` makes /dev/NAME. Each model
 * has a directory in it with its parameters; only those of the chosen
 * `model` count. The file `models` lists what there is.
 *
 * Only faults, `scale`, `scale_milli` and `power_cut` can be changed while the power is
 * on. What is refused is named in the kernel's log, with the values that are allowed.
 */
#include "modeldisk.h"
#include "configfs.h"
#include "text.h"

#define MD_NR_TYPES_MAX		8
#define MD_FAULT_EVERY_MAX	1000000
#define MD_SCALE_MAX		100000

/* The parameters of one model, for one disk: a directory. */
struct md_params {
	struct config_group group;
	struct md_config *mc;
	const struct md_model_type *type;
	const struct md_preset *preset;	/* that the values were last set to */
	void *values;
};

/* One disk's directory. */
struct md_config {
	struct config_group group;
	struct mutex lock;		/* of everything below */
	struct md_settings settings;
	struct md_faults faults;
	unsigned int type_nr;		/* the chosen one of params */
	struct md_disk *md;		/* NULL: power is off */
	u64 cut_seed;			/* not 0: power is cut */
	struct md_params params[MD_NR_TYPES_MAX];
};

static struct md_config *md_config_of(struct config_item *item)
{
	return container_of(to_config_group(item), struct md_config, group);
}

static struct md_params *md_params_of(struct config_item *item)
{
	return container_of(to_config_group(item), struct md_params, group);
}

static const char *md_name(struct md_config *mc)
{
	return config_item_name(&mc->group.cg_item);
}

/* Like text_number(), and says what is allowed. @dir ends with a slash or is "". */
static int md_parse(struct md_config *mc, const char *dir, const char *file,
		    const char *page, size_t count, u64 least, u64 most, u64 *value)
{
	if (!text_number(page, count, least, most, value))
		return 0;
	pr_err("modeldisk: %s/%s%s: %.*s is not allowed; allowed: %llu to %llu\n",
	       md_name(mc), dir, file, (int)strcspn(page, "\n"), page, least, most);
	return -EINVAL;
}

static int md_check_off(struct md_config *mc, const char *dir, const char *file)
{
	lockdep_assert_held(&mc->lock);

	if (!mc->md)
		return 0;
	pr_err("modeldisk: %s/%s%s: cannot be changed while power is 1\n",
	       md_name(mc), dir, file);
	return -EBUSY;
}

static ssize_t md_setting_store(struct config_item *item, const char *page,
				size_t count, const char *file, u64 least,
				u64 most, size_t offset)
{
	struct md_config *mc = md_config_of(item);
	int ret;

	mutex_lock(&mc->lock);
	ret = md_check_off(mc, "", file);
	if (!ret)
		ret = md_parse(mc, "", file, page, count, least, most,
			       (void *)&mc->settings + offset);
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

MD_SETTINGS(MD_SETTING_FNS)

/* @unit is what one stands for in the file, in thousandths. */
static ssize_t md_scale_read(struct config_item *item, char *page, u64 unit)
{
	return sysfs_emit(page, "%llu\n",
			  div64_u64(READ_ONCE(md_config_of(item)->settings.scale_milli), unit));
}

static ssize_t md_scale_write(struct config_item *item, const char *page,
			      size_t count, const char *file, u64 unit)
{
	struct md_config *mc = md_config_of(item);
	u64 scale;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_parse(mc, "", file, page, count, MD_MILLI / unit,
		       MD_SCALE_MAX * MD_MILLI / unit, &scale);
	if (!ret && mc->md)
		ret = md_set_scale(mc->md, scale * unit);
	if (ret == -ERANGE)
		pr_err("modeldisk: %s/%s: %llu: the disk has been on for too long; 0 and 1 to power start it anew\n",
		       md_name(mc), file, scale);
	if (!ret)
		WRITE_ONCE(mc->settings.scale_milli, scale * unit);
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

static ssize_t md_scale_show(struct config_item *item, char *page)
{
	return md_scale_read(item, page, MD_MILLI);
}

static ssize_t md_scale_store(struct config_item *item, const char *page, size_t count)
{
	return md_scale_write(item, page, count, "scale", MD_MILLI);
}

static ssize_t md_scale_milli_show(struct config_item *item, char *page)
{
	return md_scale_read(item, page, 1);
}

static ssize_t md_scale_milli_store(struct config_item *item, const char *page, size_t count)
{
	return md_scale_write(item, page, count, "scale_milli", 1);
}

CONFIGFS_ATTR(md_, scale);
CONFIGFS_ATTR(md_, scale_milli);

static ssize_t md_fault_store(struct config_item *item, const char *page,
			      size_t count, const char *file, u64 most,
			      size_t offset)
{
	struct md_config *mc = md_config_of(item);
	struct md_faults *faults = &mc->faults;
	u64 value;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_parse(mc, "", file, page, count, 0, most, &value);
	if (!ret) {
		WRITE_ONCE(*(u64 *)((void *)faults + offset), value);
		WRITE_ONCE(faults->is_on,
			   faults->refuse_every || faults->lose_every ||
			   faults->requeue_every || faults->error_every ||
			   faults->stall_every);
	}
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

MD_FAULTS(MD_FAULT_FNS)

static ssize_t md_model_show(struct config_item *item, char *page)
{
	struct md_config *mc = md_config_of(item);

	return sysfs_emit(page, "%s\n", md_types[READ_ONCE(mc->type_nr)]->name);
}

static ssize_t md_model_store(struct config_item *item, const char *page,
			      size_t count)
{
	struct md_config *mc = md_config_of(item);
	unsigned int i;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_check_off(mc, "", "model");
	if (ret)
		goto out;
	ret = -EINVAL;
	for (i = 0; i < md_nr_types; i++) {
		if (!sysfs_streq(page, md_types[i]->name))
			continue;
		mc->type_nr = i;
		mc->settings.size_mib = mc->params[i].preset->size_mib;
		ret = 0;
		goto out;
	}
	pr_err("modeldisk: %s/model: %.*s is not a model; allowed: see the file models\n",
	       md_name(mc), (int)strcspn(page, "\n"), page);
out:
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

CONFIGFS_ATTR(md_, model);

static ssize_t md_preset_show(struct config_item *item, char *page)
{
	struct md_config *mc = md_config_of(item);
	struct md_params *params;
	bool changed;
	ssize_t ret;

	mutex_lock(&mc->lock);
	params = &mc->params[mc->type_nr];
	changed = memcmp(params->values, params->preset->params,
			 params->type->params_bytes);
	ret = sysfs_emit(page, "%s%s\n", params->preset->name,
			 changed ? " (changed)" : "");
	mutex_unlock(&mc->lock);
	return ret;
}

static void md_use_preset(struct md_params *params, const struct md_preset *preset)
{
	params->preset = preset;
	memcpy(params->values, preset->params, params->type->params_bytes);
}

static ssize_t md_preset_store(struct config_item *item, const char *page,
			       size_t count)
{
	struct md_config *mc = md_config_of(item);
	struct md_params *params;
	unsigned int i;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_check_off(mc, "", "preset");
	if (ret)
		goto out;
	ret = -EINVAL;
	params = &mc->params[mc->type_nr];
	for (i = 0; i < params->type->nr_presets; i++) {
		if (!sysfs_streq(page, params->type->presets[i].name))
			continue;
		md_use_preset(params, &params->type->presets[i]);
		mc->settings.size_mib = params->preset->size_mib;
		ret = 0;
		goto out;
	}
	pr_err("modeldisk: %s/preset: %.*s is no preset of %s; allowed: see the file models\n",
	       md_name(mc), (int)strcspn(page, "\n"), page, params->type->name);
out:
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

CONFIGFS_ATTR(md_, preset);

static ssize_t md_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", !!READ_ONCE(md_config_of(item)->md));
}

static int md_set_power(struct md_config *mc, bool on)
{
	struct md_params *params = &mc->params[mc->type_nr];
	struct md_disk *md;

	lockdep_assert_held(&mc->lock);

	if (on == !!mc->md)
		return 0;
	if (!on) {
		md = mc->md;
		WRITE_ONCE(mc->md, NULL);
		WRITE_ONCE(mc->cut_seed, 0);
		md_power_off(md);
		return 0;
	}
	md = md_power_on(md_name(mc), params->type, params->values, &mc->settings,
			 &mc->faults);
	if (IS_ERR(md))
		return PTR_ERR(md);
	WRITE_ONCE(mc->md, md);
	return 0;
}

static ssize_t md_power_store(struct config_item *item, const char *page,
			      size_t count)
{
	struct md_config *mc = md_config_of(item);
	u64 on;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_parse(mc, "", "power", page, count, 0, 1, &on);
	if (!ret)
		ret = md_set_power(mc, on);
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

CONFIGFS_ATTR(md_, power);

/* The seed that the power was cut with, 0 if it is there. */
static ssize_t md_power_cut_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", READ_ONCE(md_config_of(item)->cut_seed));
}

static int md_set_cut(struct md_config *mc, u64 seed)
{
	int ret = 0;

	lockdep_assert_held(&mc->lock);

	if (!mc->md)
		return -ENODEV;
	if (seed && mc->cut_seed) {
		pr_err("modeldisk: %s/power_cut: the power is cut already; 0 brings it back\n",
		       md_name(mc));
		return -EBUSY;
	}
	if (seed)
		ret = md_power_cut(mc->md, seed);
	else if (mc->cut_seed)
		md_power_return(mc->md);
	if (!ret)
		WRITE_ONCE(mc->cut_seed, seed);
	else
		pr_err("modeldisk: %s/power_cut: needs a disk with power_loss 1\n",
		       md_name(mc));
	return ret;
}

static ssize_t md_power_cut_store(struct config_item *item, const char *page,
				  size_t count)
{
	struct md_config *mc = md_config_of(item);
	u64 seed;
	int ret;

	mutex_lock(&mc->lock);
	ret = md_parse(mc, "", "power_cut", page, count, 0, U64_MAX, &seed);
	if (!ret)
		ret = md_set_cut(mc, seed);
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

CONFIGFS_ATTR(md_, power_cut);

static ssize_t md_config_show(struct config_item *item, char *page,
			      ssize_t (*show)(struct md_disk *md, char *page))
{
	struct md_config *mc = md_config_of(item);
	ssize_t ret = -ENODEV;

	mutex_lock(&mc->lock);
	if (mc->md)
		ret = show(mc->md, page);
	mutex_unlock(&mc->lock);
	return ret;
}

static ssize_t md_config_stat_show(struct config_item *item, char *page)
{
	return md_config_show(item, page, md_stat_show);
}

static ssize_t md_config_overtaken_show(struct config_item *item, char *page)
{
	return md_config_show(item, page, md_overtaken_show);
}

CONFIGFS_ATTR_RO(md_config_, stat);
CONFIGFS_ATTR_RO(md_config_, overtaken);

static struct configfs_attribute *md_config_attrs[] = {
	&md_attr_model,
	&md_attr_preset,
	&md_attr_power,
	&md_attr_power_cut,
	&md_config_attr_stat,
	&md_config_attr_overtaken,
	&md_attr_scale,
	&md_attr_scale_milli,
	MD_SETTINGS(MD_SETTING_REF)
	MD_FAULTS(MD_FAULT_REF)
	NULL
};

/* The files of a model's parameters, from its list. */
static ssize_t md_param_show(struct config_item *item, char *page, size_t offset)
{
	struct md_params *params = md_params_of(item);

	return sysfs_emit(page, "%llu\n",
			  READ_ONCE(*(u64 *)(params->values + offset)));
}

static ssize_t md_param_store(struct config_item *item, const char *page,
			      size_t count, const char *file, u64 least,
			      u64 most, size_t offset)
{
	struct md_params *params = md_params_of(item);
	struct md_config *mc = params->mc;
	char dir[16];
	int ret;

	scnprintf(dir, sizeof(dir), "%s/", params->type->name);
	mutex_lock(&mc->lock);
	ret = md_check_off(mc, dir, file);
	if (!ret)
		ret = md_parse(mc, dir, file, page, count, least, most,
			       params->values + offset);
	mutex_unlock(&mc->lock);
	return ret ?: count;
}

MD_FIXED_PARAMS(MD_FIXED_FNS)
static struct configfs_attribute *md_fixed_attrs[] = {
	MD_FIXED_PARAMS(MD_FIXED_REF)
	NULL
};

MD_HDD_PARAMS(MD_HDD_FNS)
static struct configfs_attribute *md_hdd_attrs[] = {
	MD_HDD_PARAMS(MD_HDD_REF)
	NULL
};

MD_FLASH_PARAMS(MD_FLASH_FNS)
static struct configfs_attribute *md_flash_attrs[] = {
	MD_FLASH_PARAMS(MD_FLASH_REF)
	NULL
};

MD_NVME_PARAMS(MD_NVME_FNS)
static struct configfs_attribute *md_nvme_attrs[] = {
	MD_NVME_PARAMS(MD_NVME_REF)
	NULL
};

MD_ULL_PARAMS(MD_ULL_FNS)
static struct configfs_attribute *md_ull_attrs[] = {
	MD_ULL_PARAMS(MD_ULL_REF)
	NULL
};

/* In the order of md_types. */
static const struct config_item_type md_params_types[] = {
	{ .ct_attrs = md_fixed_attrs, .ct_owner = THIS_MODULE },
	{ .ct_attrs = md_hdd_attrs, .ct_owner = THIS_MODULE },
	{ .ct_attrs = md_flash_attrs, .ct_owner = THIS_MODULE },
	{ .ct_attrs = md_nvme_attrs, .ct_owner = THIS_MODULE },
	{ .ct_attrs = md_ull_attrs, .ct_owner = THIS_MODULE },
};

static void md_config_free(struct md_config *mc)
{
	unsigned int i;

	for (i = 0; i < md_nr_types; i++)
		kfree(mc->params[i].values);
	mutex_destroy(&mc->lock);
	kfree(mc);
}

/* The last reference to the directory is gone. */
static void md_config_release(struct config_item *item)
{
	md_config_free(md_config_of(item));
}

static struct configfs_item_operations md_config_item_ops = {
	.release = md_config_release,
};

static const struct config_item_type md_config_type = {
	.ct_item_ops = &md_config_item_ops,
	.ct_attrs = md_config_attrs,
	.ct_owner = THIS_MODULE,
};

/* Called for mkdir. */
static struct config_group *md_make_group(struct config_group *group,
					  const char *name)
{
	struct md_config *mc;
	unsigned int i;

	if (strlen(name) >= DISK_NAME_LEN || strpbrk(name, "!%")) {
		pr_err("modeldisk: %s: not a disk's name; allowed: less than %d characters, without ! and %%\n",
		       name, DISK_NAME_LEN);
		return ERR_PTR(-EINVAL);
	}

	mc = kzalloc(sizeof(*mc), GFP_KERNEL);
	if (!mc)
		return ERR_PTR(-ENOMEM);
	mutex_init(&mc->lock);
	mc->settings = (struct md_settings) {
		.scale_milli = MD_MILLI, .seed = 1, .queues = 1, .tags = 64,
		.discard_kib = 64 << 10, .discard_granularity_kib = 4,
		.discard_segments = 1,
	};
	for (i = 0; i < md_nr_types; i++) {
		struct md_params *params = &mc->params[i];

		params->mc = mc;
		params->type = md_types[i];
		params->values = kzalloc(params->type->params_bytes, GFP_KERNEL);
		if (!params->values) {
			md_config_free(mc);
			return ERR_PTR(-ENOMEM);
		}
		md_use_preset(params, &params->type->presets[0]);
	}
	mc->settings.size_mib = mc->params[0].preset->size_mib;

	config_group_init_type_name(&mc->group, name, &md_config_type);
	for (i = 0; i < md_nr_types; i++) {
		config_group_init_type_name(&mc->params[i].group, md_types[i]->name,
					    &md_params_types[i]);
		configfs_add_default_group(&mc->params[i].group, &mc->group);
	}
	return &mc->group;
}

/* Called for rmdir. */
static void md_drop_item(struct config_group *group, struct config_item *item)
{
	struct md_config *mc = md_config_of(item);

	mutex_lock(&mc->lock);
	md_set_power(mc, false);
	mutex_unlock(&mc->lock);
	config_item_put(item);
}

static struct configfs_group_operations md_group_ops = {
	.make_group = md_make_group,
	.drop_item = md_drop_item,
};

/* A line for each model: its name and its presets. */
static ssize_t md_models_show(struct config_item *item, char *page)
{
	ssize_t at = 0;
	unsigned int i, j;

	for (i = 0; i < md_nr_types; i++) {
		at += sysfs_emit_at(page, at, "%s:", md_types[i]->name);
		for (j = 0; j < md_types[i]->nr_presets; j++)
			at += sysfs_emit_at(page, at, " %s",
					    md_types[i]->presets[j].name);
		at += sysfs_emit_at(page, at, "\n");
	}
	return at;
}

CONFIGFS_ATTR_RO(md_, models);

static struct configfs_attribute *md_subsys_attrs[] = {
	&md_attr_models,
	NULL
};

static const struct config_item_type md_subsys_type = {
	.ct_group_ops = &md_group_ops,
	.ct_attrs = md_subsys_attrs,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem md_subsys = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "modeldisk",
			.ci_type = &md_subsys_type,
		},
	},
};

int __init md_configfs_init(void)
{
	BUILD_BUG_ON(ARRAY_SIZE(md_params_types) > MD_NR_TYPES_MAX);
	if (WARN_ON(md_nr_types != ARRAY_SIZE(md_params_types)))
		return -EINVAL;
	config_group_init(&md_subsys.su_group);
	mutex_init(&md_subsys.su_mutex);
	return configfs_register_subsystem(&md_subsys);
}

void md_configfs_exit(void)
{
	configfs_unregister_subsystem(&md_subsys);
}
