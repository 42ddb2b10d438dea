// SPDX-License-Identifier: MIT

package vm

import (
	"regexp"
	"strings"
)

// complaint matches what a kernel prints when it finds itself in a state it
// should not be in. It is matched after the time stamp.
var complaint = regexp.MustCompile(strings.Join([]string{
	`^WARNING: `,
	`^BUG `,
	`^BUG: `, // also KASAN, soft lockup, sleeping in atomic context
	`^kernel BUG at `,
	`^Oops: `,
	`^Kernel panic`,
	`^general protection fault`,
	`^INFO: (task|disk) .* blocked( in I/O wait)? for more than`, // disk: of the guest tests' own watch,
	`^INFO: possible recursive locking`,
	`^INFO: trying to register non-static key`,
	`^(rcu: )?INFO: rcu_.* (detected|self-detected)`,
	`possible circular locking dependency`,
	`inconsistent lock state`,
	`suspicious RCU usage`,
	`^UBSAN: `,
	`^refcount_t: `,
	`^list_(add|del) corruption`,
	`Objects remaining in `,
	`Slab cache still has objects`,
	`^unregister_netdevice: waiting`,
	`^watchdog: BUG: `,
	`^Out of memory: `,
	`^Initramfs unpacking failed`,
}, "|"))

// timeStamp is what printk.time puts before a line, with the caller's id if
// the kernel is configured so.
var timeStamp = regexp.MustCompile(`^\[ *\d+\.\d{6}\](\[ *[TC]\d+\])? `)

// Complaints returns the lines of a kernel log that say that the kernel found
// something wrong with itself (WARN, BUG, oops, lockdep, hung task, ...). Of data
// races it returns the whole report of those in our modules; others are not ours
// to judge.
func Complaints(log string) []string {
	var found []string
	races, log := Races(log)
	for _, r := range races {
		if r.Ours {
			found = append(found, r.Lines...)
		}
	}
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		stamp := timeStamp.FindString(line)
		if stamp != "" && complaint.MatchString(line[len(stamp):]) {
			found = append(found, line)
		}
	}
	return found
}

// lastLines returns the last n lines of a log.
func lastLines(log string, n int) []string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(log, "\r", ""), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}
