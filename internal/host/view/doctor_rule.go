// SPDX-License-Identifier: MIT

package view

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/enable"
)

// ruleDirs hold udev's rules; a file hides those of its name further on.
var ruleDirs = []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"}

// setsScheduler is an assignment in a udev rule; two "=" compare.
var setsScheduler = regexp.MustCompile(`ATTR\{queue/scheduler\}\s*:?=\s*"([^"]*)"`)

// rules tells which udev rules choose schedulers. Those of isolio come later,
// but only if a disk is enabled for good.
func (m *examination) rules() []Check {
	const name = "udev rules"
	seen := map[string]bool{}
	var checks []Check
	own := 0
	for _, dir := range ruleDirs {
		files, _ := filepath.Glob(m.sys.Path(dir, "*.rules")) // the pattern is well formed
		for _, file := range files {
			base := filepath.Base(file)
			if seen[base] {
				continue
			}
			seen[base] = true
			for _, found := range schedulersIn(file) {
				switch {
				case strings.HasPrefix(base, enable.RulePrefix):
					own++
				case found.scheduler != scheduler:
					checks = append(checks, m.rival(found, base)...)
				}
			}
		}
	}
	if len(checks) == 0 {
		return ok(name, "none chooses another scheduler; isolio's own: %d", own)
	}
	return checks
}

// rival is a rule that isolio did not write.
func (m *examination) rival(found assignment, base string) []Check {
	finding := fmt.Sprintf("%s:%d chooses %s at every boot", m.shown(found.file), found.line, found.scheduler)
	remedy := "isolio enable DEV --persist: its rule comes later"
	if base > enable.RulePrefix {
		remedy = "rename it to a number below 95, so that isolio's rule comes later"
	}
	return warning("udev rules", finding, remedy)
}

// assignment is where a rule chooses a scheduler.
type assignment struct {
	file, scheduler string
	line            int
}

func schedulersIn(file string) []assignment {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // one that is hidden by a link to /dev/null, or just gone
	}
	var found []assignment
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if match := setsScheduler.FindStringSubmatch(line); match != nil {
			found = append(found, assignment{file, match[1], n})
		}
	}
	return found
}

// profileDirs hold tuned's profiles, one directory each.
var profileDirs = []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}

// elevatorLine is how a profile of tuned chooses a scheduler.
var elevatorLine = regexp.MustCompile(`(?m)^\s*elevator\s*=\s*(\S+)`)

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
			if match := elevatorLine.FindSubmatch(text); match != nil && string(match[1]) != scheduler {
				return warning(name, fmt.Sprintf("%s has elevator=%s: tuned replaces %s by it when it starts", m.shown(file), match[1], scheduler),
					"use a profile of your own that includes "+profile+" and has an empty elevator= in [disk], or tuned-adm off")
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
