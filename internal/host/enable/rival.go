// SPDX-License-Identifier: MIT

package enable

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/block"
)

// Rival is a place that chooses a scheduler, beside isolio's own rules.
type Rival struct {
	// File is as the machine calls it.
	File string
	Line int
	// Scheduler is what it chooses, "" where a program decides.
	Scheduler string
	// Udev is whether it is a rule of udev.
	Udev bool
	// Last is whether it comes after isolio's rule.
	Last bool
}

// RuleDirs hold udev's rules; a file hides those of its name further on.
var RuleDirs = []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"}

var (
	// assigns is an assignment in a udev rule; two "=" compare.
	assigns = regexp.MustCompile(`ATTR\{queue/scheduler\}\s*:?=\s*"([^"=]*)"`)
	// runs is a program of a udev rule, which udev starts after all rules.
	runs = regexp.MustCompile(`RUN(?:\{\w+\})?\s*\+?:?=\s*"[^"]*queue/scheduler`)
)

// setters are other files that choose a scheduler at boot, with the lines that do.
var setters = []struct {
	files []string
	line  *regexp.Regexp
}{
	{[]string{"etc/tmpfiles.d/*.conf", "run/tmpfiles.d/*.conf", "usr/lib/tmpfiles.d/*.conf"}, regexp.MustCompile(`^[wW]\S*\s+/sys/\S*queue/scheduler\s+(?:\S+\s+){4}(\S+)`)},
	{[]string{"etc/tlp.conf", "etc/tlp.d/*.conf", "etc/default/tlp"}, regexp.MustCompile(`^DISK_IOSCHED="?([^"\s]+)`)},
	{[]string{"etc/sysfs.conf", "etc/sysfs.d/*.conf"}, regexp.MustCompile(`^\S*queue/scheduler\s*=\s*(\S+)`)},
	{[]string{"etc/rc.local", "etc/rc.d/rc.local"}, regexp.MustCompile(`^echo\s+"?'?([\w-]+)\S*\s*>\s*\S*queue/scheduler`)},
}

// Rivals are all that choose a scheduler other than ours, and the number of isolio's own rules.
func Rivals(sys block.System, ours string) (all []Rival, own int) {
	var seen []string
	for _, dir := range RuleDirs {
		files, _ := filepath.Glob(sys.Path(dir, "*.rules")) // the pattern is well formed
		for _, file := range files {
			base := filepath.Base(file)
			if slices.Contains(seen, base) {
				continue
			}
			seen = append(seen, base)
			for n, line := range lines(file) {
				r := Rival{File: shown(sys, file), Line: n + 1, Udev: true, Last: base > RulePrefix}
				match := assigns.FindStringSubmatch(line)
				switch {
				case runs.MatchString(line):
					r.Last = true
				case match == nil || match[1] == ours && !strings.HasPrefix(base, RulePrefix):
					continue
				case strings.HasPrefix(base, RulePrefix):
					own++
					continue
				default:
					r.Scheduler = match[1]
				}
				all = append(all, r)
			}
		}
	}
	for _, s := range setters {
		for _, pattern := range s.files {
			files, _ := filepath.Glob(sys.Path(pattern)) // the patterns are well formed
			for _, file := range files {
				for n, line := range lines(file) {
					if match := s.line.FindStringSubmatch(line); match != nil && match[1] != ours && match[1] != "keep" {
						all = append(all, Rival{File: shown(sys, file), Line: n + 1, Scheduler: match[1], Last: true})
					}
				}
			}
		}
	}
	return all, own
}

// lines are a file's, without comments and the space around them.
func lines(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // one that is hidden by a link to /dev/null, or just gone
	}
	all := strings.Split(string(text), "\n")
	for i, line := range all {
		all[i] = strings.TrimSpace(line)
		if strings.HasPrefix(all[i], "#") {
			all[i] = ""
		}
	}
	return all
}
