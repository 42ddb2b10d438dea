// SPDX-License-Identifier: MIT

package vm

import (
	"slices"
	"strings"
	"testing"
)

func TestComplaints(t *testing.T) {
	bad := []string{
		"[    5.123456] WARNING: CPU: 0 PID: 12 at block/blk-mq.c:100 blk_mq_exit_queue+0x1/0x2",
		"[    5.123456] BUG: kernel NULL pointer dereference, address: 0000000000000010",
		"[    5.123456] BUG: KASAN: use-after-free in kf_dispatch+0x1/0x2",
		"[   15.123456] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [fio:99]",
		"[    5.123456] kernel BUG at mm/slub.c:379!",
		"[    5.123456] Oops: 0002 [#1] PREEMPT SMP NOPTI",
		"[    5.123456] general protection fault, probably for non-canonical address",
		"[    5.123456] Kernel panic - not syncing: Attempted to kill init!",
		"[  120.123456] INFO: task fio:77 blocked for more than 60 seconds.",
		"[  120.123456] INFO: task fio:77 blocked in I/O wait for more than 60 seconds.", // Linux 7
		"[  120.123456] INFO: disk nvme0n1 blocked for more than 60 seconds.",
		"[   30.123456] rcu: INFO: rcu_preempt self-detected stall on CPU",
		"[    5.123456] WARNING: possible circular locking dependency detected",
		"[    5.123456] refcount_t: underflow; use-after-free.",
		"[    5.123456] list_del corruption. prev->next should be ffff",
		"[    5.123456][   T12] BUG: scheduling while atomic: fio/12/0x00000002",
		"[    5.123456] BUG kf_queue (Tainted: G): Objects remaining in kf_queue on __kmem_cache_shutdown()",
		"[    5.123456] kmem_cache_destroy kf: Slab cache still has objects when called from kf_exit",
		"[    5.123456] UBSAN: shift-out-of-bounds in block/kyber-iosched.c:1:2",
	}
	good := []string{
		"[    0.000000] Linux version 6.1.0-56-cloud-amd64 (debian-kernel@lists.debian.org)",
		"[    1.000000] kyber_fairness_iosched: loading out-of-tree module taints kernel.",
		"[    1.000000] kyber_fairness_iosched: module verification failed: signature and/or required key missing - tainting kernel",
		"[    0.100000] debug: BUG: is a word in the middle",
		"[    0.100000] NMI watchdog: Perf NMI watchdog permanently disabled",
		"WARNING: printed by a program on the console, not by the kernel",
		"",
	}
	log := strings.Join(good, "\r\n") + "\n" + strings.Join(bad, "\r\n") + "\n" + strings.Join(good, "\n")
	if got := Complaints(log); !slices.Equal(got, bad) {
		for _, line := range bad {
			if !slices.Contains(got, line) {
				t.Errorf("missed: %s", line)
			}
		}
		for _, line := range got {
			if !slices.Contains(bad, line) {
				t.Errorf("wrongly found: %s", line)
			}
		}
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\r\nb\r\nc\r\n", 2); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("got %q", got)
	}
	if got := lastLines("only\n", 20); !slices.Equal(got, []string{"only"}) {
		t.Errorf("got %q", got)
	}
}
