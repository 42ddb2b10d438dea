// SPDX-License-Identifier: GPL-2.0-only
/* The starvation guard as a part of this module. */
#define GUARD_TRACE_SYSTEM kyber_fairness

#include "../common/guard.c"
