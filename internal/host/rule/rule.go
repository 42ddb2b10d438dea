// SPDX-License-Identifier: MIT

// Package rule reads /etc/isolio.toml: what weights containers and units have,
// whatever was asked for elsewhere.
package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/container"
	"isolio/internal/tomlfile"
)

// File is where the rules are.
const File = "/etc/isolio.toml"

// Config is what the file says.
type Config struct {
	// Metrics is the address that metrics are served on, "" for none.
	Metrics string
	Rules   []Rule
}

// Rule gives a weight to who matches all that it says.
type Rule struct {
	// Patterns as of the shell; "" matches all.
	Name, Pod, Unit, Class string
	// Label and Annotation are KEY=PATTERN, or KEY for any value.
	Label, Annotation string
	// Device is the disk that the weight is for, "" for all.
	Device string
	Weight int
}

type file struct {
	Metrics *string    `toml:"metrics"`
	Rule    []fileRule `toml:"rule"`
}

type fileRule struct {
	Name       *string `toml:"name"`
	Label      *string `toml:"label"`
	Annotation *string `toml:"annotation"`
	Class      *string `toml:"class"`
	Pod        *string `toml:"pod"`
	Unit       *string `toml:"unit"`
	Device     *string `toml:"device"`
	Weight     *int64  `toml:"weight"`
}

// Load reads the file. One that is not there says nothing.
func Load(name string) (Config, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, failure.Usagef("read rules: %w", err)
	}
	return Parse(name, text)
}

// Parse reads rules from text; name stands for the file in messages. The error
// is one line: FILE:LINE: KEY: what is wrong; allowed: ...
func Parse(name string, text []byte) (Config, error) {
	var f file
	if err := tomlfile.Decode(name, text, &f); err != nil {
		return Config{}, err
	}
	c := checker{lines: tomlfile.Lines(text)}
	config := Config{Metrics: c.address("metrics", f.Metrics)}
	for i := range f.Rule {
		config.Rules = append(config.Rules, c.rule(tableOf(i), &f.Rule[i]))
	}
	c.each(config.Rules)
	if c.first != nil {
		return Config{}, c.first.In(name)
	}
	return config, nil
}

// checker keeps the problem nearest to the file's top.
type checker struct {
	lines map[string]int
	first *tomlfile.Problem
}

// fail is about the member of a table, "" for the table itself, which is where
// a member that is missing would be.
func (c *checker) fail(table, member, what, allowed string) {
	key := strings.TrimPrefix(table+"."+member, ".")
	line, ok := c.lines[key]
	if !ok {
		line = c.lines[table]
	}
	name, _, _ := strings.Cut(table, "[")
	p := &tomlfile.Problem{Line: line, Key: strings.Trim(name+"."+member, "."), What: what, Allowed: allowed}
	if c.first == nil || line < c.first.Line {
		c.first = p
	}
}

// tableOf is what the i-th rule is called among the lines.
func tableOf(i int) string { return fmt.Sprintf("rule[%d]", i) }

// each refuses rules that do nothing because of how the file is made.
func (c *checker) each(rules []Rule) {
	if _, there := c.lines[tableOf(0)]; len(rules) > 0 && !there {
		c.fail("rule", "", "is one table", "[[rule]], of which there may be more")
		return
	}
	first := map[Rule]int{}
	for i, r := range rules {
		r.Weight = 0
		if before, ok := first[r]; ok {
			c.fail(tableOf(i), "", fmt.Sprintf("is for the same as that in line %d, which wins", c.lines[tableOf(before)]), "one rule for each")
			continue
		}
		first[r] = i
	}
}

func (c *checker) address(key string, v *string) string {
	if v == nil || *v == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(*v)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		c.fail("", key, fmt.Sprintf("%q is no address", *v), `HOST:PORT, such as "127.0.0.1:9188"`)
	}
	return *v
}

// who are the keys that say who a rule is for.
const who = "name, label, annotation, class, pod, unit"

func (c *checker) rule(table string, f *fileRule) Rule {
	r := Rule{
		Name: c.pattern(table, "name", f.Name), Pod: c.pattern(table, "pod", f.Pod),
		Unit: c.pattern(table, "unit", f.Unit), Class: c.pattern(table, "class", f.Class),
		Label: c.pair(table, "label", f.Label), Annotation: c.pair(table, "annotation", f.Annotation),
	}
	const weights = "an integer 1..10000"
	switch {
	case f.Weight == nil:
		c.fail(table, "weight", "is missing", weights)
	case *f.Weight < 1 || *f.Weight > 10000:
		c.fail(table, "weight", fmt.Sprintf("%d is out of range", *f.Weight), weights)
	default:
		r.Weight = int(*f.Weight)
	}
	if f.Device != nil {
		r.Device = strings.TrimPrefix(*f.Device, "/dev/")
		if r.Device == "" || strings.Contains(r.Device, "/") {
			c.fail(table, "device", fmt.Sprintf("%q is no disk", *f.Device), `a name as in /sys/block, such as "nvme0n1"`)
		}
	}
	ofContainer := r.Name + r.Label + r.Annotation + r.Class
	switch {
	case ofContainer+r.Pod+r.Unit == "":
		c.fail(table, "", "says nothing of who it is for", who)
	case r.Unit != "" && ofContainer+r.Pod != "":
		c.fail(table, "unit", "stands beside what containers have", "unit alone, or one or more of "+strings.TrimSuffix(who, ", unit"))
	}
	return r
}

func (c *checker) pattern(table, key string, v *string) string {
	if v == nil {
		return ""
	}
	_, err := path.Match(*v, "")
	if *v == "" || err != nil {
		c.fail(table, key, fmt.Sprintf("%q is no pattern", *v), "a name, in which * stands for any text, ? for a character, [a-z] for one of these")
	}
	return *v
}

// pair is KEY or KEY=PATTERN.
func (c *checker) pair(table, key string, v *string) string {
	if v == nil {
		return ""
	}
	name, pattern, _ := strings.Cut(*v, "=")
	if _, err := path.Match(pattern, ""); name == "" || err != nil {
		c.fail(table, key, fmt.Sprintf("%q is no key and pattern", *v), "KEY=PATTERN, or KEY for any value")
	}
	return *v
}

// Idle tells of each rule that is for a disk that is not there now: it may come.
func (c Config) Idle(sys block.System) []string {
	var idle []string
	for i, r := range c.Rules {
		if r.Device == "" {
			continue
		}
		if _, err := sys.Find(r.Device); err != nil {
			idle = append(idle, fmt.Sprintf("rule %d does nothing now: %v", i+1, err))
		}
	}
	return idle
}

// secretive are engines that keep labels where no other program reads them.
var secretive = []string{"podman", "containerd"}

// Blind tells of each rule that may be for containers whose labels are not known.
func (c Config) Blind(containers []container.Container) []string {
	var blind []string
	for i, r := range c.Rules {
		if r.Label == "" {
			continue
		}
		r.Label = ""
		for _, engine := range secretive {
			if slices.ContainsFunc(containers, func(x container.Container) bool {
				return x.Engine == engine && x.Labels == nil && r.ForContainer(x)
			}) {
				blind = append(blind, fmt.Sprintf("rule %d does nothing for containers of %s, which keeps labels to itself: match by annotation, or name", i+1, engine))
			}
		}
	}
	return blind
}

// ForUnit reports whether the rule is for a systemd unit, whose ".service" may
// be left out, as systemctl has it.
func (r Rule) ForUnit(unit string) bool {
	return r.Unit != "" && (matches(r.Unit, unit) || matches(r.Unit+".service", unit))
}

// ForPod reports whether the rule is for the pod itself, whose containers share
// what it has, and not for one of them.
func (r Rule) ForPod(c container.Container) bool {
	return r.Pod != "" && r.Name == "" && r.all(c)
}

// ForContainer reports whether the rule is for a container.
func (r Rule) ForContainer(c container.Container) bool {
	return r.Unit == "" && (r.Pod == "" || r.Name != "") && !c.Sandbox && r.all(c)
}

func (r Rule) all(c container.Container) bool {
	if r.Pod != "" && c.Pod == "" {
		return false
	}
	pod := c.Namespace + "/" + c.Pod
	if !strings.Contains(r.Pod, "/") { // of any namespace
		pod = c.Pod
	}
	return matches(r.Name, c.Name) && matches(r.Class, Class(c)) && matches(r.Pod, pod) &&
		matchesPair(r.Label, c.Labels) && matchesPair(r.Annotation, c.Annotations)
}

func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	// path.Match lets * stop at a slash, which only pods' names have: between
	// namespace and name, where it may stop.
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}

func matchesPair(pair string, in map[string]string) bool {
	if pair == "" {
		return true
	}
	key, pattern, _ := strings.Cut(pair, "=")
	value, ok := in[key]
	// A value may hold slashes, and * is for all of it.
	return ok && matches(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(value, "/", "\x00"))
}

// Class is a container's blockio class, "" for none: containerd and CRI-O take
// it from its own annotation, else from the pod's for it, else from the pod's.
func Class(c container.Container) string {
	const prefix = "blockio.resources.beta.kubernetes.io/"
	for _, key := range []string{"io.kubernetes.cri.blockio-class", prefix + "container." + c.Name, prefix + "pod"} {
		if class := c.Annotations[key]; class != "" {
			return class
		}
	}
	return ""
}
