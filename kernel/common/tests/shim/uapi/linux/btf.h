/* SPDX-License-Identifier: GPL-2.0-only */
/* This machine's own, which is that of some kernel, with the shim's types. */
#ifndef SHIM_UAPI_LINUX_BTF_H
#define SHIM_UAPI_LINUX_BTF_H

#include <linux/types.h>

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef s32 __s32;

#include <linux/btf.h>

#endif
