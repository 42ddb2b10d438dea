// SPDX-License-Identifier: MIT

package activation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/plan"
)

// RulePrefix is how isolio's own udev rules are called: late, so that they have
// the last word over a distribution's, which are at 60.
const RulePrefix = "95-isolio-"

// identities are the properties by which udev tells one device from all
// others, best first.
var identities = []string{"DM_UUID", "ID_WWN", "ID_SERIAL", "ID_PATH"}

// identity is a property that no other disk has, and its value; the kernel's
// name if udev knows none.
func identity(sys block.System, info block.Info) (key, value string, err error) {
	mine, err := sys.Udev(info.MajMin)
	if err != nil {
		return "", "", err
	}
	all, err := sys.All()
	if err != nil {
		return "", "", err
	}
	for _, key := range identities {
		unique := mine[key] != ""
		for _, other := range all {
			theirs, err := sys.Udev(other.MajMin)
			if err != nil {
				return "", "", err
			}
			if other.Name != info.Name && theirs[key] == mine[key] {
				unique = false
			}
		}
		if unique {
			return "ENV{" + key + "}", mine[key], nil
		}
	}
	return "KERNEL", info.Name, nil
}

var (
	// notInName is what a rule's file name has "-" for.
	notInName = regexp.MustCompile(`[^A-Za-z0-9.]+`)
	// pattern is what udev takes for a pattern, or for the value's end.
	pattern = regexp.MustCompile(`[*?\[\]|"\\$%]`)
)

// ruleFile is where the rule of a device is.
func ruleFile(sys block.System, value string) string {
	return filepath.Join(ruleDir(sys), RulePrefix+strings.Trim(notInName.ReplaceAllString(value, "-"), "-")+".rules")
}

const beforeLine = "# before: "

// ruleText is a rule for one device only.
func ruleText(info block.Info, key, value string, rec *record) string {
	return fmt.Sprintf("# Written by: isolio enable %s --persist. Removed by: isolio disable %s\n%s%s\n"+
		"ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", %s==\"%s\", ATTR{queue/scheduler}=\"%s\"\n",
		info.Name, info.Name, beforeLine, rec.Before, key, pattern.ReplaceAllString(value, "?"), rec.Scheduler)
}

// persist plans the rule.
func (p *Plan) persist(sys block.System, info block.Info, rec *record) error {
	key, value, err := identity(sys, info)
	if err != nil {
		return err
	}
	if key == "KERNEL" {
		p.Notes = append(p.Notes, fmt.Sprintf("udev knows no unique number of %s: the rule matches any disk of the name %s", info.Name, info.Name))
	}
	file := ruleFile(sys, value)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.Report.Rule = "set again at each boot: " + strings.TrimPrefix(file, sys.Root)
	if text := ruleText(info, key, value, rec); text != string(old) {
		p.Steps = append(p.Steps, plan.Step{Create: true, Path: file, Value: text, Undo: string(old)})
	}
	return nil
}

// forget plans to remove the rule, and returns the scheduler of before it.
func (p *Plan) forget(sys block.System, info block.Info) (before string, err error) {
	_, value, err := identity(sys, info)
	if err != nil {
		return "", err
	}
	// A disk that udev knew nothing of, or no more, was taken by its name.
	for _, value := range []string{value, info.Name} {
		file := ruleFile(sys, value)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, beforeLine); ok {
				before = strings.TrimSpace(rest)
			}
		}
		p.Report.Rule = "removed " + strings.TrimPrefix(file, sys.Root)
		p.Steps = append(p.Steps, plan.Step{Remove: true, Path: file, Undo: string(text)})
		break
	}
	return before, nil
}
