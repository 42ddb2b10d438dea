/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs: threads, or one thread that plays all of them in turn. The test that has CPUs
 * defines shim_this_cpu() before, see shim_cpus.h; the others have one.
 */
#ifndef SHIM_LINUX_SMP_H
#define SHIM_LINUX_SMP_H

#include <linux/types.h>

#define SHIM_NR_CPUS_MAX	256

extern unsigned int shim_nr_cpus;
unsigned int shim_this_cpu(void);
u64 shim_now_ns(void);

#define nr_cpu_ids			shim_nr_cpus
#define raw_smp_processor_id()		shim_this_cpu()
#define for_each_possible_cpu(cpu) \
	for ((cpu) = 0; (unsigned int)(cpu) < shim_nr_cpus; (cpu)++)

#endif
