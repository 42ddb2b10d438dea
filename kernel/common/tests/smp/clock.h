/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The time, as cheap as a kernel has it. clock_gettime() is a system call on some virtual
 * machines: it then costs more than a scheduler does, and one that reads the clock twice
 * a request seems half as fast.
 */
#ifndef SMP_CLOCK_H
#define SMP_CLOCK_H

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define SMP_CLOCK_SHIFT		32
#define SMP_CALIBRATE_NS	20000000ULL

/* Nanoseconds a cycle, shifted; 0: cycles do not tell the time. */
static u64 smp_clock_mult, smp_clock_base;

shim_uncounted static u64 smp_system_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

#if defined(__x86_64__)
shim_uncounted static u64 smp_cycles(void)
{
	return __rdtsc();
}

/* CPUID 8000_0007h, EDX bit 8: the counter runs at one rate, whatever the CPU does. */
static inline bool smp_cycles_are_even(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & BIT(8);
}
#else
shim_uncounted static u64 smp_cycles(void)
{
	return 0;
}

static inline bool smp_cycles_are_even(void)
{
	return false;
}
#endif

shim_uncounted static u64 smp_clock_ns(void)
{
	if (!smp_clock_mult)
		return smp_system_ns();
	return (__uint128_t)(smp_cycles() - smp_clock_base) * smp_clock_mult >>
	       SMP_CLOCK_SHIFT;
}

/* Before there are threads. Without it, and on other machines, the system is asked. */
static inline void smp_clock_calibrate(void)
{
	u64 start_ns, end_ns, end;

	if (!smp_cycles_are_even())
		return;
	start_ns = smp_system_ns();
	smp_clock_base = smp_cycles();
	do {
		end_ns = smp_system_ns();
		end = smp_cycles();
	} while (end_ns - start_ns < SMP_CALIBRATE_NS);
	/* Times since boot, as the system's are: 0 is no time. */
	smp_clock_mult = ((end_ns - start_ns) << SMP_CLOCK_SHIFT) / (end - smp_clock_base);
	smp_clock_base -= (u64)(((__uint128_t)start_ns << SMP_CLOCK_SHIFT) / smp_clock_mult);
}

#endif
