/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Macros that make configfs files out of lists: a file's show and store are
 * not told which file they are of, so each needs functions of its own.
 */
#ifndef _MD_CONFIGFS_H
#define _MD_CONFIGFS_H

#include "fixed.h"
#include "flash.h"
#include "hdd.h"
#include "nvme.h"
#include "ull.h"

/* The settings that the power must be off for: each name, and what it may be. */
#define MD_SETTINGS(X)							\
	X(size_mib, 1, 1ULL << 30)					\
	X(seed, 0, U64_MAX)						\
	X(queues, 1, 1024)						\
	X(poll_queues, 0, 1024)						\
	X(tags, 1, 10240)						\
	X(memory_backed, 0, 1)						\
	X(power_loss, 0, 1)						\
	X(write_cache, 0, 1)						\
	X(fua, 0, 1)							\
	X(discard, 0, 1)						\
	X(discard_kib, 4, MD_RANGE_MAX_KIB)				\
	X(discard_granularity_kib, 4, MD_RANGE_MAX_KIB)			\
	X(discard_segments, 1, 256)					\
	X(write_zeroes_kib, 0, MD_RANGE_MAX_KIB)			\
	X(secure_erase_kib, 0, MD_RANGE_MAX_KIB)

/* A request without data has up to 4 GiB: half of that. */
#define MD_RANGE_MAX_KIB	(2ULL << 20)

/* The faults: each name, and what it may be from 0. */
#define MD_FAULTS(X)							\
	X(refuse_every, MD_FAULT_EVERY_MAX)				\
	X(lose_every, MD_FAULT_EVERY_MAX)				\
	X(lose_resets, 1000)						\
	X(lose_ok, 1)							\
	X(requeue_every, MD_FAULT_EVERY_MAX)				\
	X(error_every, MD_FAULT_EVERY_MAX)				\
	X(stall_every, MD_FAULT_EVERY_MAX)				\
	X(stall_us, 60 * 1000 * 1000)					\
	X(fault_all, 1)

#define MD_FAULT_FNS(name, most)					\
static ssize_t md_fault_##name##_show(struct config_item *item, char *page) \
{									\
	return sysfs_emit(page, "%llu\n",				\
			  READ_ONCE(md_config_of(item)->faults.name));	\
}									\
									\
static ssize_t md_fault_##name##_store(struct config_item *item,	\
				       const char *page, size_t count)	\
{									\
	return md_fault_store(item, page, count, #name, most,		\
			      offsetof(struct md_faults, name));	\
}									\
									\
CONFIGFS_ATTR(md_fault_, name);

#define MD_FAULT_REF(name, most)	&md_fault_attr_##name,

#define MD_SETTING_FNS(name, least, most)				\
static ssize_t md_setting_##name##_show(struct config_item *item, char *page) \
{									\
	return sysfs_emit(page, "%llu\n",				\
			  READ_ONCE(md_config_of(item)->settings.name)); \
}									\
									\
static ssize_t md_setting_##name##_store(struct config_item *item,	\
					 const char *page, size_t count) \
{									\
	return md_setting_store(item, page, count, #name, least, most,	\
				offsetof(struct md_settings, name));	\
}									\
									\
CONFIGFS_ATTR(md_setting_, name);

#define MD_SETTING_REF(name, least, most)	&md_setting_attr_##name,

#define MD_PARAM_FNS(model, name, least, most)				\
static ssize_t md_##model##_##name##_show(struct config_item *item, char *page) \
{									\
	return md_param_show(item, page,				\
			     offsetof(struct md_##model##_params, name)); \
}									\
									\
static ssize_t md_##model##_##name##_store(struct config_item *item,	\
					   const char *page, size_t count) \
{									\
	return md_param_store(item, page, count, #name, least, most,	\
			      offsetof(struct md_##model##_params, name)); \
}									\
									\
CONFIGFS_ATTR(md_##model##_, name);

/* For each model: its list's entries as functions, and as references to them. */
#define MD_FIXED_FNS(name, least, most)	MD_PARAM_FNS(fixed, name, least, most)
#define MD_FIXED_REF(name, least, most)	&md_fixed_attr_##name,
#define MD_HDD_FNS(name, least, most)	MD_PARAM_FNS(hdd, name, least, most)
#define MD_HDD_REF(name, least, most)	&md_hdd_attr_##name,
#define MD_FLASH_FNS(name, least, most)	MD_PARAM_FNS(flash, name, least, most)
#define MD_FLASH_REF(name, least, most)	&md_flash_attr_##name,
#define MD_NVME_FNS(name, least, most)	MD_PARAM_FNS(nvme, name, least, most)
#define MD_NVME_REF(name, least, most)	&md_nvme_attr_##name,
#define MD_ULL_FNS(name, least, most)	MD_PARAM_FNS(ull, name, least, most)
#define MD_ULL_REF(name, least, most)	&md_ull_attr_##name,

#endif /* _MD_CONFIGFS_H */
