/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's <linux/types.h> for tests that run in userspace: as much of it
 * as pure arithmetic needs.
 */
#ifndef SHIM_LINUX_TYPES_H
#define SHIM_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
/* As in the kernel, so that %llu fits. */
typedef unsigned long long u64;
typedef long long s64;

typedef u64 sector_t;
typedef u64 ktime_t;
typedef unsigned int gfp_t;

#define U16_MAX	((u16)~0U)
#define U32_MAX	((u32)~0U)
#define U64_MAX	((u64)~0ULL)
#define S32_MAX	((s32)(U32_MAX >> 1))
#define S64_MAX	((s64)(U64_MAX >> 1))

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#endif
