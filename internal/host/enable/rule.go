// SPDX-License-Identifier: MIT

package enable

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/state"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
)

// RulePrefix is how isolio's own udev rules are called. udev goes by the order of names over all directories, and the
// last rule decides: a distribution's are at 60, vendors' and administrators' up to 99.
const RulePrefix = "99-zz-isolio-"

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

// sumLength is how much of a checksum tells two rules of one name apart.
const sumLength = 8

// freeRuleFile is where the rule of a device goes. Serial numbers that differ in punctuation alone
// have one name: the rule that is there may be another disk's.
func freeRuleFile(sys block.System, info block.Info, value string) (string, error) {
	file := ruleFile(sys, value)
	all, err := allRules(sys)
	if err != nil {
		return "", err
	}
	properties, err := sys.Udev(info.MajMin)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(all, func(w written) bool { return w.file == file && w.ours && !w.holds(info.Name, properties) }) {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(value)))[:sumLength]
		file = strings.TrimSuffix(file, ".rules") + "-" + sum + ".rules"
	}
	return file, nil
}

const beforeLine = "# before: "

// ruleText is a rule for one device only. On a kernel that is booted with isolio=off it does nothing, and under systemd
// nothing before isolio-boot.service has found that the boot before finished.
func ruleText(info block.Info, key, value string, rec *record) string {
	return fmt.Sprintf("# Written by: isolio enable %s --persist. Removed by: isolio disable %s\n%s%s\n"+
		"SUBSYSTEM==\"block\", IMPORT{cmdline}=\"isolio\"\n"+
		"SUBSYSTEM==\"block\", TEST==\"/run/systemd/system\", TEST!=\"/run/isolio/boot\", ENV{isolio}=\"off\"\n"+
		"ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{isolio}!=\"off\", ENV{DEVTYPE}==\"disk\", %s==\"%s\", ATTR{queue/scheduler}=\"%s\"\n",
		info.Name, info.Name, beforeLine, rec.Before, key, pattern.ReplaceAllString(value, "?"), rec.Scheduler)
}

// ruleLine is what ruleText writes: the last condition, and the scheduler.
var ruleLine = regexp.MustCompile(`(?m)^ACTION==.*, (?:ENV\{(\w+)\}|KERNEL)=="([^"]*)", ATTR\{queue/scheduler\}="([^"]*)"`)

// written is a rule that is there.
type written struct {
	file, text string
	// ours is false of one that has no line of ours, as another hand has changed it.
	ours bool
	// key is the property that tells its disk, "" for the name, and value what that is.
	key, value string
	// scheduler is what the rule chooses, before what the disk had without it.
	scheduler, before string
}

// allRules reads every rule that isolio wrote.
func allRules(sys block.System) ([]written, error) {
	entries, err := os.ReadDir(ruleDir(sys))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []written
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), RulePrefix) || filepath.Ext(entry.Name()) != ".rules" {
			continue
		}
		w := written{file: filepath.Join(ruleDir(sys), entry.Name())}
		text, err := os.ReadFile(w.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w.text = string(text)
		for line := range strings.Lines(w.text) {
			if rest, ok := strings.CutPrefix(line, beforeLine); ok {
				w.before = strings.TrimSpace(rest)
			}
		}
		if match := ruleLine.FindStringSubmatch(w.text); match != nil {
			w.ours, w.key, w.value, w.scheduler = true, match[1], match[2], match[3]
		}
		all = append(all, w)
	}
	return all, nil
}

// holds tells whether udev follows the rule for a disk of this name and these properties.
func (w written) holds(name string, properties map[string]string) bool {
	text := name
	if w.key != "" {
		text = properties[w.key]
	}
	// A "/" is a character as any other.
	ok, err := path.Match(strings.ReplaceAll(w.value, "/", "\x00"), strings.ReplaceAll(text, "/", "\x00"))
	return w.ours && text != "" && ok && err == nil
}

// rulesOf are the rules that udev follows for a disk, the one first that has its name: by what
// tells it from others now, or did when a rule was written. A second disk of its serial number may
// have come since.
func rulesOf(sys block.System, info block.Info) ([]written, error) {
	all, err := allRules(sys)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	_, value, err := identity(sys, info)
	if err != nil {
		return nil, err
	}
	properties, err := sys.Udev(info.MajMin)
	if err != nil {
		return nil, err
	}
	// A disk that udev knew nothing of, or no more, was taken by its name.
	files := []string{ruleFile(sys, value), ruleFile(sys, info.Name)}
	var rules []written
	for _, w := range all {
		switch {
		case !w.ours && !slices.Contains(files, w.file), w.ours && !w.holds(info.Name, properties):
		case w.file == files[0]:
			rules = append([]written{w}, rules...)
		default:
			rules = append(rules, w)
		}
	}
	return rules, nil
}

// beforeOf is the scheduler that a disk had before its rules, "" if they do not tell.
func beforeOf(rules []written) string {
	for _, w := range rules {
		if w.before != "" {
			return w.before
		}
	}
	return ""
}

// dependents are the other disks that have this rule, and no other one.
func (w written) dependents(sys block.System, name string) ([]string, error) {
	disks, err := sys.All()
	if err != nil {
		return nil, err
	}
	rules, err := allRules(sys)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range disks {
		properties, err := sys.Udev(info.MajMin)
		if err != nil {
			return nil, err
		}
		more := slices.ContainsFunc(rules, func(other written) bool { return other.file != w.file && other.holds(info.Name, properties) })
		if info.Name != name && w.holds(info.Name, properties) && !more {
			names = append(names, info.Name)
		}
	}
	return names, nil
}

// persist plans the rule, in place of those that the disk has under another name.
func (p *Plan) persist(sys block.System, info block.Info, rec *record, rules []written) error {
	key, value, err := identity(sys, info)
	if err != nil {
		return err
	}
	if key == "KERNEL" {
		p.Notes = append(p.Notes, fmt.Sprintf("udev knows no unique number of %s: the rule matches any disk of the name %s", info.Name, info.Name))
	}
	file, err := freeRuleFile(sys, info, value)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.Report.Rule = "set again at each boot: " + shown(sys, file)
	rivals, _ := Rivals(sys, rec.Scheduler)
	for _, r := range rivals {
		if r.Last {
			p.Notes = append(p.Notes, fmt.Sprintf("%s:%d may choose another scheduler after this rule: `isolio doctor` says what to do", r.File, r.Line))
		}
	}
	if text := ruleText(info, key, value, rec); text != string(old) {
		p.Steps = append(p.Steps, plan.Step{Create: true, Path: file, Value: text, Undo: string(old)})
	}
	for _, w := range rules {
		if w.file == file {
			continue
		}
		others, err := w.dependents(sys, info.Name)
		if err != nil {
			return err
		}
		switch {
		case len(others) == 0:
			p.Steps = append(p.Steps, plan.Step{Remove: true, Path: w.file, Undo: w.text})
		case w.scheduler != rec.Scheduler:
			p.Notes = append(p.Notes, fmt.Sprintf("the rule %s is for %s too, and stays: it chooses %s for %s as well, until `isolio enable %s --persist` writes one of its own",
				shown(sys, w.file), others[0], w.scheduler, info.Name, shell.Quote(others[0])))
		}
	}
	return nil
}

// tryBoots has what comes back with every boot do so, also after one that did not finish. Only systemd tells of boots.
func (p *Plan) tryBoots(sys block.System) {
	if _, err := os.Stat(sys.Path("run/systemd/system")); err != nil {
		return
	}
	tried := sys.Path(state.BootTried)
	if _, err := os.Stat(tried); err == nil {
		return
	}
	if state.BootFailed(sys.Root) {
		unfinished := sys.Path(state.BootUnfinished)
		p.Notes = append(p.Notes, fmt.Sprintf("the last boot did not finish, and since then no disk gets a scheduler at boot: from now on disks do again; %s goes", shown(sys, unfinished)))
		p.Steps = append(p.Steps, plan.Step{Remove: true, Path: unfinished, Undo: ""})
	}
	p.Steps = append(p.Steps, plan.Step{Create: true, Path: tried, Value: "tried\n"})
}

// forget plans to remove the rules of a disk.
func (p *Plan) forget(sys block.System, info block.Info, rules []written) error {
	var files []string
	for _, w := range rules {
		others, err := w.dependents(sys, info.Name)
		if err != nil {
			return err
		}
		for _, other := range others {
			p.Notes = append(p.Notes, fmt.Sprintf("the rule %s was for %s too: `isolio enable %s --persist` gives it one of its own", shown(sys, w.file), other, shell.Quote(other)))
		}
		files = append(files, shown(sys, w.file))
		p.Steps = append(p.Steps, plan.Step{Remove: true, Path: w.file, Undo: w.text})
	}
	if len(files) > 0 {
		p.Report.Rule = "removed " + strings.Join(files, ", ")
	}
	return nil
}

// ForgetAbsent plans to remove the rules of disks that are not there. Nothing else of isolio's is
// left of such a disk: when it comes back, it has what the kernel and other rules give it.
func ForgetAbsent(root string) (*Plan, error) {
	sys := block.System{Root: root}
	rules, err := allRules(sys)
	if err != nil {
		return nil, err
	}
	all, err := sys.All()
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	for _, w := range rules {
		there := !w.ours // it no longer tells its disk
		for _, info := range all {
			properties, err := sys.Udev(info.MajMin)
			if err != nil {
				return nil, err
			}
			there = there || w.holds(info.Name, properties)
		}
		if !there {
			p.Notes = append(p.Notes, fmt.Sprintf("the rule %s goes: its disk is not there", shown(sys, w.file)))
			p.Steps = append(p.Steps, plan.Step{Remove: true, Path: w.file, Undo: w.text})
		}
	}
	return p, nil
}

// shown is a file as the machine itself calls it.
func shown(sys block.System, file string) string {
	return strings.TrimPrefix(file, sys.Root)
}
