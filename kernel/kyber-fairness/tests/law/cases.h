/* SPDX-License-Identifier: GPL-2.0-only */
/* The cases of the comparison. */
#ifndef _KF_LAW_CASES_H
#define _KF_LAW_CASES_H

#include "engine.h"

#define LAW_CASES_MAX	512

struct law_cases {
	struct law_case *of;
	char (*name)[64];
	u32 nr;
};

/* Every case; @sweep: every disk with every depth and mix, else what is special. */
void law_make_cases(struct law_cases *cases);

#endif /* _KF_LAW_CASES_H */
