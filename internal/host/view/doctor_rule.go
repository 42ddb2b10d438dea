// SPDX-License-Identifier: MIT

package view

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/enable"
	"isolio/internal/host/state"
	"isolio/internal/plan/shell"
)

// boot tells of one that did not finish, after which rules and tables do nothing.
func (m *examination) boot() []Check {
	if !state.BootFailed(m.sys.Root) {
		return nil
	}
	remedy := "isolio enable " + m.example() + " --persist"
	if _, own := enable.Rivals(m.sys, scheduler); own == 0 {
		remedy = "isolio enable --configured"
	}
	return warning("boot", "the one before this did not finish, so no disk gets a scheduler at boot: rules and [[disk]] tables do nothing",
		"journalctl -b -1 may tell why; then "+remedy+": all disks have theirs again from the next boot on")
}

// rules tells what chooses schedulers at boot. Rules of isolio come later than others, but only if
// a disk is enabled for good.
func (m *examination) rules() []Check {
	const name = "udev rules"
	rivals, own := enable.Rivals(m.sys, scheduler)
	var checks []Check
	for _, r := range rivals {
		finding := fmt.Sprintf("%s:%d chooses %s at every boot", r.File, r.Line, cmp.Or(r.Scheduler, "a scheduler by a program"))
		check := Check{Name: name, State: Warning, Finding: finding}
		switch {
		case !r.Udev:
			check.Name, check.Remedy = "boot files", "remove that line: it may come after isolio's rule"
		case r.Scheduler == "":
			check.Remedy = "remove that line: udev starts programs after all rules"
		case r.Last:
			check.Remedy = "rename it to a number up to 99, so that isolio's rule comes later"
		default:
			check.Remedy = "isolio enable " + m.example() + " --persist: its rule comes later"
		}
		checks = append(checks, check)
	}
	if len(checks) == 0 {
		return ok(name, "none chooses another scheduler; isolio's own: %d", own)
	}
	return checks
}

// example is a disk for a command in a message.
func (m *examination) example() string {
	return shell.Quote(cmp.Or(block.Fit(m.disks, func(string) bool { return false }), "DEV"))
}

// profileDirs hold tuned's profiles, one directory each.
var profileDirs = []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}

// elevatorLine is how a profile of tuned chooses a scheduler, in [disk] or in [sysfs].
var elevatorLine = regexp.MustCompile(`(?m)^\s*(elevator|/sys/\S*queue/scheduler)\s*=\s*(\S+)`)

// tuned may choose a scheduler when it starts, and when its profile changes.
func (m *examination) tuned() []Check {
	const name = "tuned"
	active := m.read("etc/tuned/active_profile")
	if active == "" {
		return ok(name, "no profile is active")
	}
	for profile := range strings.FieldsSeq(active) {
		for _, file := range m.profiles(profile, nil) {
			text, _ := os.ReadFile(file)
			if match := elevatorLine.FindSubmatch(text); match != nil && string(match[2]) != scheduler {
				section := "[disk]"
				if string(match[1]) != "elevator" {
					section = "[sysfs]"
				}
				return warning(name, fmt.Sprintf("%s has %s=%s: tuned replaces %s by it when it starts", m.shown(file), match[1], match[2], scheduler),
					fmt.Sprintf("use a profile of your own that includes %s and has an empty %s= in %s, or tuned-adm off", profile, match[1], section))
			}
		}
	}
	return ok(name, "the profile %s leaves schedulers alone", active)
}

// includeLine names the profiles that one is made of.
var includeLine = regexp.MustCompile(`(?m)^\s*include\s*=\s*(.+)$`)

// profiles are a profile's file and those that it includes.
func (m *examination) profiles(name string, seen []string) []string {
	for _, dir := range profileDirs {
		file := m.sys.Path(dir, name, "tuned.conf")
		text, err := os.ReadFile(file)
		if err != nil || slices.Contains(seen, file) {
			continue
		}
		files := []string{file}
		if match := includeLine.FindSubmatch(text); match != nil {
			for _, included := range strings.FieldsFunc(string(match[1]), func(r rune) bool { return r == ',' || r == ' ' }) {
				files = append(files, m.profiles(included, append(seen, files...))...)
			}
		}
		return files
	}
	return nil
}
