// SPDX-License-Identifier: MIT
/*
 * The time of day that the lab's QEMU is given, through LD_PRELOAD.
 *
 * QEMU's TCG resizes the table it translates guest addresses with as that was
 * used during the last 100 ms, and takes those from gettimeofday()
 * (tlb_mmu_resize_locked() in accel/tcg/cputlb.c). How long a translation lives
 * shows in the guest: x86 Linux leaves an old, narrower one in place and takes
 * a page fault if it is still there, some thousand instructions. So how fast
 * the host was decided how many the guest took, in one of some hundred seconds
 * of virtual time on a busy host.
 *
 * Here a thread's time is the number of times it asked, so the table's size is
 * a function of what the guest did.
 */
#include <sys/time.h>

/* The 100 ms become 5,000 flushes of the table. */
#define US_PER_CALL	20

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static __thread long calls;

	(void)tz;
	calls++;
	tv->tv_sec = calls / (1000000 / US_PER_CALL);
	tv->tv_usec = calls % (1000000 / US_PER_CALL) * US_PER_CALL;
	return 0;
}
