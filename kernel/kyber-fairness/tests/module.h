/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The module in one piece, for tests in userspace: all of it that runs for a request,
 * and what makes and frees it. Registering it gives them its elevator_type.
 */
#ifndef KF_TESTS_MODULE_H
#define KF_TESTS_MODULE_H

#include "../../common/tests/smp/machine.h"

#include "../main.c"
#include "../done.c"
#include "../tags.c"
#include "../ready.c"
#include "../overdue.c"
#include "../gate.c"
#include "../group.c"
#include "../own.c"
#include "../class.c"
#include "../domain.c"
#include "../large.c"
#include "../cost.c"
#include "../cgroup.c"
#include "../guard.c"
#include "../tunables.c"
#include "../stat.c"

static struct elevator_type *kf_load_module(void)
{
	if (shim_module_init())
		abort();
	return smp_registered;
}

#endif
