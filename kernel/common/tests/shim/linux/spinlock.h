/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A queued spinlock of four bytes, as the kernel's: free, it takes one locked
 * operation; else each waiter spins on a line of its own until it is first. It differs
 * in that a thread gives its CPU away after a while: another process may run where the
 * owner was.
 */
#ifndef SHIM_LINUX_SPINLOCK_H
#define SHIM_LINUX_SPINLOCK_H

#include <sched.h>

#include <linux/atomic.h>
#include <linux/smp.h>

typedef struct {
	union {
		u32 word;
		struct {
			u8 locked;
			u8 unused;
			u16 tail;	/* the last waiter's CPU + 1 */
		};
	};
} spinlock_t;

/* Locks are not taken in interrupts here, so a CPU waits for one at a time. */
struct shim_waiter {
	struct shim_waiter *next;
	u32 is_first;
} __attribute__((aligned(64)));

extern struct shim_waiter shim_waiters[SHIM_NR_CPUS_MAX];

#define SHIM_SPINS	2000

static inline void shim_relax(unsigned int *spins)
{
	if (++*spins % SHIM_SPINS == 0)
		sched_yield();
	else
		__builtin_ia32_pause();
}

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->word = 0;
}

shim_uncounted static __attribute__((__noinline__, unused)) void shim_lock_slow(spinlock_t *lock)
{
	unsigned int cpu = shim_this_cpu(), spins = 0;
	struct shim_waiter *me = &shim_waiters[cpu], *next;
	u16 tail;
	u32 word;

	me->next = NULL;
	me->is_first = 0;
	tail = __atomic_exchange_n(&lock->tail, cpu + 1, __ATOMIC_SEQ_CST);
	if (tail) {
		__atomic_store_n(&shim_waiters[tail - 1].next, me, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&me->is_first, __ATOMIC_ACQUIRE))
			shim_relax(&spins);
	}
	while (__atomic_load_n(&lock->locked, __ATOMIC_ACQUIRE))
		shim_relax(&spins);
	word = (u32)(cpu + 1) << 16;
	if (__atomic_compare_exchange_n(&lock->word, &word, 1, false,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	/* Another waiter is behind this one, or about to be. */
	__atomic_store_n(&lock->locked, 1, __ATOMIC_SEQ_CST);
	while (!(next = __atomic_load_n(&me->next, __ATOMIC_ACQUIRE)))
		shim_relax(&spins);
	__atomic_store_n(&next->is_first, 1, __ATOMIC_RELEASE);
}

#ifndef SHIM_LOCK
#define SHIM_LOCK(ptr)	shim_access(ptr, SHIM_LOCKED)
#endif

shim_uncounted static inline bool shim_try_lock(spinlock_t *lock)
{
	u32 word = 0;

	return __atomic_compare_exchange_n(&lock->word, &word, 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void spin_lock(spinlock_t *lock)
{
	SHIM_LOCK(lock);
	if (!shim_try_lock(lock))
		shim_lock_slow(lock);
}

static inline bool spin_trylock(spinlock_t *lock)
{
	SHIM_LOCK(lock);
	return shim_try_lock(lock);
}

static inline void spin_unlock(spinlock_t *lock)
{
	shim_access(&lock->locked, SHIM_WRITE);
	__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
}

static inline bool spin_is_locked(spinlock_t *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
}

#define spin_lock_irq(lock)			spin_lock(lock)
#define spin_unlock_irq(lock)			spin_unlock(lock)
#define spin_lock_bh(lock)			spin_lock(lock)
#define spin_unlock_bh(lock)			spin_unlock(lock)
#define spin_trylock_bh(lock)			spin_trylock(lock)
#define spin_lock_irqsave(lock, flags)		((flags) = 0, spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags)	((void)(flags), spin_unlock(lock))
#define spin_trylock_irqsave(lock, flags)	((flags) = 0, spin_trylock(lock))

#define lockdep_assert_held(lock)		((void)(lock))

#endif
