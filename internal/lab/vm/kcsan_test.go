// SPDX-License-Identifier: MIT

package vm

import (
	"slices"
	"strings"
	"testing"
)

const raceLog = `[   20.000001] modeldisk: loaded
[   21.000001] ==================================================================
[   21.000002] BUG: KCSAN: data-race in kf_take_stock [kyber_fairness_iosched] / kf_charge [kyber_fairness_iosched]
[   21.000003]
[   21.000004] write to 0xffff888004a3c0d8 of 4 bytes by task 120 on cpu 1:
[   21.000005]  kf_charge+0x5c/0xa0 [kyber_fairness_iosched]
[   21.000006]  kf_take_request+0x5c/0xa0 [kyber_fairness_iosched]
[   21.000007]
[   21.000008] read to 0xffff888004a3c0d8 of 4 bytes by interrupt on cpu 0:
[   21.000009]  kf_take_stock+0x5c/0xa0 [kyber_fairness_iosched]
[   21.000010]
[   21.000011] value changed: 0x00000001 -> 0x00000002
[   21.000012] ==================================================================
[   22.000001] ==================================================================
[   22.000002] BUG: KCSAN: data-race in blk_mq_run_hw_queue / blk_mq_dispatch_rq_list
[   22.000004] read-write (marked) to 0xffff888004a3c0d8 of 4 bytes by task 120 on cpu 1:
[   22.000005]  blk_mq_run_hw_queue+0x5c/0xa0
[   22.000006]  blk_mq_sched_insert_requests+0x5c/0xa0
[   22.000007]  kf_domain_wake+0x1/0x2 [kyber_fairness_iosched]
[   22.000008] read to 0xffff888004a3c0d8 of 4 bytes by task 121 on cpu 0:
[   22.000009]  blk_mq_dispatch_rq_list+0x5c/0xa0
[   22.000012] ==================================================================
[   23.000001] WARNING: CPU: 0 PID: 12 at block/blk-mq.c:100 blk_mq_exit_queue+0x1/0x2
[   24.000001] ==================================================================
[   24.000002] BUG: KCSAN: data-race in elv_rb_add+0x1/0x2
[   24.000004] race at unknown origin, with write to 0xffff888004a3c0d8 of 8 bytes by task 120 on cpu 1:
[   24.000005]  elv_rb_add+0x5c/0xa0
[   24.000006]  sfq_insert+0x5c/0xa0 [sfq_iosched]
`

func TestRaces(t *testing.T) {
	races, rest := Races(strings.ReplaceAll(raceLog, "\n", "\r\n"))
	want := []struct {
		title string
		ours  bool
		lines int
	}{
		{"data-race in kf_take_stock [kyber_fairness_iosched] / kf_charge [kyber_fairness_iosched]", true, 10},
		{"data-race in blk_mq_run_hw_queue / blk_mq_dispatch_rq_list", false, 7},
		{"data-race in elv_rb_add+0x1/0x2", true, 4},
	}
	if len(races) != len(want) {
		t.Fatalf("%d races, want %d: %+v", len(races), len(want), races)
	}
	for i, w := range want {
		if r := races[i]; r.Title != w.title || r.Ours != w.ours || len(r.Lines) != w.lines {
			t.Errorf("race %d is %q, ours %t, %d lines; want %q, %t, %d", i, r.Title, r.Ours, len(r.Lines), w.title, w.ours, w.lines)
		}
	}
	if strings.Count(rest, "\n") != 2 || !strings.Contains(rest, "modeldisk: loaded") || !strings.Contains(rest, "WARNING: ") {
		t.Errorf("the rest of the log is %q", rest)
	}
}

// A race in our modules is a complaint, all of its report; one elsewhere is not.
func TestComplaintsRaces(t *testing.T) {
	got := Complaints(raceLog)
	if len(got) != 1+10+4 || !strings.HasPrefix(got[0], raceTitle+"data-race in kf_take_stock") ||
		!strings.HasPrefix(got[10], raceTitle+"data-race in elv_rb_add") || !strings.Contains(got[14], "WARNING: ") {
		t.Errorf("complaints: %q", got)
	}
	if slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "blk_mq_run_hw_queue") }) {
		t.Errorf("a race of the block layer's own is a complaint: %q", got)
	}
}
