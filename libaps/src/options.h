/* SPDX-License-Identifier: MIT */
/* Options as the library knows them, from those of a program of any version. */
#ifndef APS_OPTIONS_H
#define APS_OPTIONS_H

#include "aps_policy.h"

/*
 * Copy theirs, NULL for the defaults. What their version does not have is the default.
 * Return: 0, -EINVAL if one is out of range, or -E2BIG if they have what is not known
 * here. own->root is "" where theirs is NULL.
 */
int aps_options_take(struct aps_options *own, const struct aps_options *theirs);

#endif
