// SPDX-License-Identifier: MIT

package vm

import (
	"regexp"
	"slices"
	"strings"
)

// ourModules are the project's modules as the kernel names them in a stack.
var ourModules = []string{"kyber_fairness_iosched", "kyber_report_iosched", "rsd_iosched", "sfq_iosched", "modeldisk"}

// Race is a report of KCSAN: two accesses to the same memory, one of them a
// write, and nothing that orders them.
type Race struct {
	// Title names the two functions, "a / b", or one where the other access
	// was made by code that is not instrumented.
	Title string
	// Ours is whether a function of our modules made one of the accesses, itself
	// or through a function of the kernel that it called.
	Ours bool
	// Lines is the whole report.
	Lines []string
}

const (
	raceTitle = "BUG: KCSAN: "
	raceRule  = "=================================================================="
)

// accessLine is the line before each of a report's stacks.
var accessLine = regexp.MustCompile(`^(race at unknown origin, with )?(read|write|read-write)( \(.*\))? to 0x[0-9a-f]+ of \d+ bytes by `)

// calledByUs is how many frames of a stack are looked at for a function of
// ours: that of the access, and its caller.
const calledByUs = 2

// Races returns the data races that a kernel log reports, and the log without
// those reports.
func Races(log string) (races []Race, rest string) {
	var other, report []string
	within := false
	for line := range strings.Lines(log) {
		text := message(line)
		switch {
		case strings.HasPrefix(text, raceTitle):
			within, report = true, []string{text}
		case within && text == raceRule:
			within = false
			races = append(races, newRace(report))
		case within:
			report = append(report, text)
			if complaint.MatchString(text) { // of another CPU, in between
				other = append(other, line)
			}
		case text != raceRule:
			other = append(other, line)
		}
	}
	if within { // the log ends before the report does
		races = append(races, newRace(report))
	}
	return races, strings.Join(other, "")
}

// message is a line of the log without its time stamp and its end.
func message(line string) string {
	line = strings.TrimRight(line, "\r\n")
	return line[len(timeStamp.FindString(line)):]
}

func newRace(report []string) Race {
	r := Race{Title: strings.TrimPrefix(report[0], raceTitle), Lines: report}
	frame := calledByUs
	for _, line := range report[1:] {
		switch {
		case accessLine.MatchString(line):
			frame = 0
		case frame < calledByUs && strings.HasPrefix(line, " "):
			frame++
			r.Ours = r.Ours || slices.ContainsFunc(ourModules, func(m string) bool { return strings.Contains(line, "["+m+"]") })
		}
	}
	return r
}
