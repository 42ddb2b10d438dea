// SPDX-License-Identifier: GPL-2.0-only
/* Whether this module fits the running kernel. */
#include "../compat/fit.c"
