// SPDX-License-Identifier: MIT
/*
 * Each system call of a context's life fails once, with each error that it has reason for:
 * the call of the library then fails or does not, and the same call again succeeds. No
 * I/O, memory, descriptor or ring is lost. See disk.h. Prints TAP.
 *
 * The kernel hands this thread's system calls to a handler (PR_SET_SYSCALL_USER_DISPATCH,
 * Linux 5.11, x86), which does them, but for the one that fails: so liburing, libc and
 * malloc() are those that programs have. No sanitizer: it has system calls of its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include "disk.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

#ifdef __x86_64__

static volatile char traps;	/* what the kernel reads at each system call */
static unsigned int nr_calls, fail_at;	/* fail_at 0: none */
static size_t fail_how;		/* which of its errors */
static bool has_failed;
static long failed_call, unknown_call;	/* 0: none */

/* Every call that is made, and how it fails: one that is not here is a fault of this table. */
static const struct {
	long call;
	int errors[4];
} faults[] = {
	{ SYS_io_uring_setup, { ENOMEM, EMFILE, EPERM } },
	{ SYS_io_uring_enter, { EAGAIN, EINTR, ENOMEM, EBUSY } },
	{ SYS_io_uring_register, { ENOMEM, EINVAL } },
	{ SYS_mmap, { ENOMEM } },
	{ SYS_brk, { ENOMEM } },
	{ SYS_madvise, { ENOMEM } },
	{ SYS_openat, { EMFILE, ENOMEM } },
	{ SYS_newfstatat, { ENOMEM } },
	{ SYS_fstat, { ENOMEM } },
	{ SYS_fcntl, { EBADF } },
	{ SYS_read, { EIO } },
	{ SYS_pread64, { EIO } },
	{ SYS_prctl, { EINVAL } },
	{ SYS_sched_getaffinity, { EINVAL } },
	{ SYS_epoll_create1, { EMFILE } },
	{ SYS_epoll_ctl, { ENOMEM } },
	{ SYS_eventfd2, { ENFILE } },
	{ SYS_timerfd_create, { ENOMEM } },
	{ SYS_timerfd_settime, { ECANCELED } },
	{ SYS_clock_nanosleep, { EINTR } },
	{ SYS_preadv2, { EIO, EINTR } },
	{ SYS_pwritev2, { EIO, EINTR } },
	{ SYS_fsync, { EIO } },
	{ SYS_fdatasync, { EIO } },
	{ SYS_uname, { EFAULT } },
	{ SYS_prlimit64, { EPERM } },
	{ SYS_write, { EAGAIN } },
	/* They do not fail, or are the test's. */
	{ SYS_close, { 0 } },
	{ SYS_munmap, { 0 } },
	{ SYS_sched_yield, { 0 } },
	{ SYS_poll, { 0 } },
	{ SYS_clock_gettime, { 0 } },
};

/* Return: what the call fails with now, 0 if it does not. */
static int fault_of(long call)
{
	size_t i;

	for (i = 0; i < NR_OF(faults); i++)
		if (faults[i].call == call)
			break;
	if (i == NR_OF(faults)) {
		unknown_call = call;
		return 0;
	}
	if (!faults[i].errors[0] || ++nr_calls != fail_at)
		return 0;
	failed_call = call;
	has_failed = fail_how < 4 && faults[i].errors[fail_how];
	return has_failed ? faults[i].errors[fail_how] : 0;
}

static long do_call(long call, const greg_t *regs)
{
	register long r10 __asm__("r10") = regs[REG_R10];
	register long r8 __asm__("r8") = regs[REG_R8];
	register long r9 __asm__("r9") = regs[REG_R9];
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(call), "D"(regs[REG_RDI]), "S"(regs[REG_RSI]), "d"(regs[REG_RDX]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static void on_call(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	int err;

	(void)signal;
	traps = 0;
	err = fault_of(info->si_syscall);
	/* brk() tells by the old end. */
	if (err && info->si_syscall == SYS_brk)
		regs[REG_RAX] = (greg_t)syscall(SYS_brk, 0);
	else
		regs[REG_RAX] = err ? -err : do_call(info->si_syscall, regs);
	traps = 1;
}

/* A return from the handler, whose system call the kernel does not hand over. */
__asm__(".text\n"
	"return_from_call:\n\tmov $15, %eax\n\tsyscall\n\tud2\n" /* it looks where the call returns to */
	"return_from_call_end:\n");
extern const char return_from_call[], return_from_call_end[];

/* Return: whether the kernel can. */
static bool set_traps(void)
{
	struct {
		void (*handler)(int, siginfo_t *, void *);
		unsigned long flags;
		const char *restorer;
		unsigned long mask;
	} act = { on_call, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, return_from_call, 0 };

	return !syscall(SYS_rt_sigaction, SIGSYS, &act, NULL, 8) &&
	       !prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, return_from_call,
		      return_from_call_end - return_from_call, &traps);
}

static unsigned int nr_errors; /* that the library returned, in one life */

/* The result of a call that failed once, at most. */
#define ONCE_MORE(call)							\
	({								\
		int64_t got_ = (call);					\
		if (got_ < 0) {						\
			nr_errors++;					\
			got_ = (call);					\
		}							\
		got_;							\
	})

static void wait_for_all(struct aps *ctx, unsigned int nr, bool polls_descriptor)
{
	struct aps_event events[DEPTH];
	unsigned int seen = 0, tries;
	int i, n;

	for (tries = 0; tries < 1000 && seen < nr; tries++) {
		struct pollfd p = { .fd = polls_descriptor ? aps_event_fd(ctx) : -1, .events = POLLIN };

		if (polls_descriptor)
			poll(&p, 1, 10);
		n = polls_descriptor ? aps_wait(ctx, events, 0, DEPTH) :
		    tries % 2 ? aps_wait(ctx, events, 1, DEPTH) :
				aps_wait_timeout(ctx, events, 1, DEPTH, 1000000000);
		nr_errors += n < 0;
		for (i = 0; i < n; i++) {
			seen++;
			nr_errors += events[i].result != BLOCK;
			EXPECT(events[i].result == BLOCK || events[i].result == -EIO);
		}
	}
	EXPECT_EQ(seen, nr);
}

static void queue_some(struct aps *ctx, int file, unsigned char *buf)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		EXPECT_EQ(ONCE_MORE(aps_queue_read(ctx, file, buf, BLOCK, (int64_t)i * BLOCK, NULL)), 0);
	nr_errors += aps_submit(ctx) < 0;
}

/* A context, from its opening to its close. */
static void live(int fd, const struct aps_options *o, unsigned char *out, unsigned char *in)
{
	struct iovec iov = { in, BLOCK };
	struct aps *ctx = NULL;
	struct aps_stats s;
	int file;

	EXPECT_EQ(ONCE_MORE(aps_open(&ctx, o)), 0);
	if (!ctx)
		return;
	file = (int)ONCE_MORE(aps_add_file(ctx, fd));
	EXPECT(file >= 0);
	EXPECT_EQ(ONCE_MORE(aps_register_buffers(ctx, &iov, 1)), 0);
	EXPECT_EQ(ONCE_MORE(aps_write(ctx, file, out, BLOCK, 0)), BLOCK);
	EXPECT_EQ(ONCE_MORE(aps_read_fixed(ctx, file, 0, in, BLOCK, 0)), BLOCK);
	EXPECT(!memcmp(in, out, BLOCK));
	EXPECT_EQ(ONCE_MORE(aps_fsync(ctx, file)), 0);
	queue_some(ctx, file, in);
	wait_for_all(ctx, 4, false);
	EXPECT(ONCE_MORE(aps_event_fd(ctx)) >= 0);
	queue_some(ctx, file, in);
	wait_for_all(ctx, 4, true);
	EXPECT_EQ(ONCE_MORE(aps_unregister_buffers(ctx)), 0);
	queue_some(ctx, file, in);
	EXPECT_EQ(ONCE_MORE(aps_detach(ctx)), 0);
	wait_for_all(ctx, 4, false);
	EXPECT_EQ(aps_get_stats(ctx, &s, sizeof(s)), 0);
	EXPECT_EQ(s.nr_outstanding, 0);
	EXPECT_EQ(ONCE_MORE(aps_remove_file(ctx, file)), 0);
	EXPECT_EQ(ONCE_MORE(aps_add_file(ctx, fd)), file);
	queue_some(ctx, file, in);
	EXPECT_EQ(ONCE_MORE(aps_close(ctx)), 0);
}

static unsigned int nr_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr;
}

/* A life in which that call fails in that way. Return: whether there is such a call. */
static bool live_with(int fd, const struct aps_options *o, unsigned int at, size_t how)
{
	static unsigned char *out, *in;
	unsigned int nr_fds = nr_descriptors();
	size_t bytes = mallinfo2().uordblks;
	bool failed = tap_failed;

	if (!out) {
		out = block_of(0x37);
		in = block_of(0);
		bytes = mallinfo2().uordblks;
	}
	tap_failed = false;
	nr_calls = nr_errors = 0;
	fail_at = at;
	fail_how = how;
	has_failed = false;
	traps = 1;
	live(fd, o, out, in);
	traps = 0;
	EXPECT(nr_errors <= has_failed);
	EXPECT_EQ(nr_descriptors(), nr_fds);
	EXPECT_EQ(mallinfo2().uordblks, bytes);
	if (tap_failed)
		printf("# %s, flags %u: call %u, which is %ld, failed in way %zu\n", aps_mode_name(o->mode),
		       o->flags, at, failed_call, how);
	tap_failed |= failed;
	return nr_calls >= at;
}

static void every_system_call_fails_once(void)
{
	static const unsigned int flags[] = { 0, APS_SINGLE_THREAD, APS_FALLBACK, APS_FALLBACK | APS_NO_RING };
	int fd = must_open(disk, O_RDWR | O_DIRECT);
	unsigned int at, nr_lives = 0, nr_faults = 0;
	size_t i, k, how;

	for (i = 0; i < NR_MODES; i++)
		for (k = 0; k < NR_OF(flags); k++) {
			struct aps_options o = options_of(modes[i], flags[k] | (polls ? 0 : APS_FALLBACK));

			live_with(fd, &o, 0, 0); /* what is allocated once in a process */
			for (how = 0; how < 4; how++)
				for (at = 1; at < 2000 && live_with(fd, &o, at, how) && !tap_failed; at++) {
					nr_lives++;
					nr_faults += has_failed;
				}
		}
	printf("# %u lives, %u faults\n", nr_lives, nr_faults);
	EXPECT(nr_faults > 1000);
	EXPECT_EQ(unknown_call, 0);
	close(fd);
}

#endif

int main(int argc, char **argv)
{
#ifdef __x86_64__
	static const struct tap_test tests[] = { TEST(every_system_call_fails_once) };

	/* malloc() counts what it keeps for a thread as in use. */
	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
		execv("/proc/self/exe", argv);
	}
	mallopt(M_MXFAST, 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!take_arguments(argc, argv))
		return 2;
	if (set_traps())
		return run_on_disk(tests, NR_OF(tests));
#else
	(void)argc;
	(void)argv;
#endif
	printf("# skipped: no PR_SET_SYSCALL_USER_DISPATCH\n");
	return 0;
}
