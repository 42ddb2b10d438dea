/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_LINUX_SCHED_H
#define SHIM_LINUX_SCHED_H

#define cond_resched()	do { } while (0)

/* The submitting task: it is never killed, and is in the cgroup that the test says. */
struct task_struct {
	unsigned int flags;
	void *journal_info;
	void *plug;
};

#define PF_EXITING	1U
#define PF_MEMALLOC	2U
#define PF_KTHREAD	4U

extern const struct task_struct shim_task;
struct cgroup_subsys_state *shim_task_css(void);

#define current				(&shim_task)
#define fatal_signal_pending(task)	0
#define task_is_running(task)		1
#define task_css(task, id)		shim_task_css()

#endif
