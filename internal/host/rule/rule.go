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
	"strconv"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/container"
	"isolio/internal/host/weight"
	"isolio/internal/tomlfile"
)

// File is where the rules are.
const File = "/etc/isolio.toml"

// Config is what the file says.
type Config struct {
	// Metrics is the address that metrics are served on, "" for none.
	Metrics string
	// NRI is the socket of the runtime that tells of pods, "" for where runtimes have
	// it, NoNRI for none.
	NRI   string
	Rules []Rule
	// Promises are what containers and units were sold of a disk, with SLA's settings.
	Promises []Promise
	SLA      SLA
}

// NoNRI in place of a socket has no runtime asked.
const NoNRI = "off"

// Rule is for the containers, pods and units that match all that it says.
type Rule struct {
	// Patterns as of the shell; "" matches all.
	Name, Pod, Unit, Class string
	// Label and Annotation are KEY=PATTERN, or KEY for any value.
	Label, Annotation string
	// Device is the disk that the weight is for, "" for all.
	Device string
	// Weight decides, whatever is asked for. Default is for those that ask for none,
	// and Most is the largest that may be asked for. 0 is none of it.
	Weight        weight.Value
	Default, Most int
}

type file struct {
	Metrics *string       `toml:"metrics"`
	NRI     *string       `toml:"nri"`
	Rule    []fileRule    `toml:"rule"`
	Promise []filePromise `toml:"promise"`
	SLA     *fileSLA      `toml:"sla"`
}

type fileRule struct {
	Name       *string `toml:"name"`
	Label      *string `toml:"label"`
	Annotation *string `toml:"annotation"`
	Class      *string `toml:"class"`
	Pod        *string `toml:"pod"`
	Unit       *string `toml:"unit"`
	Device     *string `toml:"device"`
	Weight     any     `toml:"weight"`
	Default    *int64  `toml:"default"`
	Most       *int64  `toml:"most"`
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
func Parse(name string, text []byte) (Config, error) { return ParseWith(name, text, nil) }

// ParseWith is Parse for a reader who knows the disks: room says, for a message about an
// amount, what a disk has for it.
func ParseWith(name string, text []byte, room Room) (Config, error) {
	var f file
	if err := tomlfile.Decode(name, text, &f); err != nil {
		return Config{}, err
	}
	c := checker{lines: tomlfile.Lines(text), room: room}
	config := Config{Metrics: c.address("metrics", f.Metrics), NRI: c.socket("nri", f.NRI)}
	for i := range f.Rule {
		config.Rules = append(config.Rules, c.rule(tableOf(i), &f.Rule[i]))
	}
	c.each(config.Rules)
	config.SLA = c.sla(f.SLA)
	c.settings = config.SLA
	config.Promises = c.promises(f.Promise)
	if c.first != nil {
		return Config{}, c.first.In(name)
	}
	return config, nil
}

// checker keeps the problem nearest to the file's top.
type checker struct {
	lines map[string]int
	first *tomlfile.Problem
	// room and settings are for messages about promises.
	room     Room
	settings SLA
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
		r.Weight, r.Default, r.Most = 0, 0, 0
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

// longestSocket is the longest path of a socket that the kernel takes.
const longestSocket = 107

func (c *checker) socket(key string, v *string) string {
	if v == nil {
		return ""
	}
	if *v != NoNRI && (!path.IsAbs(*v) || len(*v) > longestSocket) {
		c.fail("", key, fmt.Sprintf("%q is no socket", *v), `the path of one, such as "/run/nri/nri.sock", or "off"`)
	}
	return *v
}

// who are the keys that say who a rule is for.
const who = "name, label, annotation, class, pod, unit"

func (c *checker) rule(table string, f *fileRule) Rule {
	r := c.selector(table, f)
	r.Weight, r.Default, r.Most = c.weight(table, f.Weight), c.number(table, "default", f.Default), c.number(table, "most", f.Most)
	switch {
	case f.Weight == nil && f.Default == nil && f.Most == nil:
		c.fail(table, "weight", "is missing", weights+"; or default, most")
	case f.Weight != nil && f.Default != nil:
		c.fail(table, "default", "stands beside weight, which decides whatever is asked for", "one of them")
	case f.Weight != nil && f.Most != nil:
		c.fail(table, "most", "stands beside weight, which decides whatever is asked for", "one of them")
	case f.Most != nil && f.Device != nil:
		c.fail(table, "most", "stands beside device", "most for all disks")
	case r.Most > 0 && r.Default > r.Most:
		c.fail(table, "default", fmt.Sprintf("%d is larger than most, %d", r.Default, r.Most), "no more than most")
	}
	if f.Device != nil {
		r.Device = strings.TrimPrefix(*f.Device, "/dev/")
		if r.Device == "" || strings.Contains(r.Device, "/") {
			c.fail(table, "device", fmt.Sprintf("%q is no disk", *f.Device), `a name as in /sys/block, such as "nvme0n1"`)
		}
	}
	return r
}

// selector is who a rule or a promise is for.
func (c *checker) selector(table string, f *fileRule) Rule {
	r := Rule{
		Name: c.pattern(table, "name", f.Name), Pod: c.pattern(table, "pod", f.Pod),
		Unit: c.pattern(table, "unit", f.Unit), Class: c.pattern(table, "class", f.Class),
		Label: c.pair(table, "label", f.Label), Annotation: c.pair(table, "annotation", f.Annotation),
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

const (
	numbers = "an integer 1..10000"
	weights = numbers + `, or "sum"`
)

// weight is an integer in the range of io.kyber.weight, or its word; 0 for a key that
// is not there.
func (c *checker) weight(table string, v any) weight.Value {
	switch v := v.(type) {
	case nil:
	case int64:
		if v >= weight.Min && v <= weight.Max {
			return weight.Value(v)
		}
		c.fail(table, "weight", fmt.Sprintf("%d is out of range", v), weights)
	case string:
		if v == weight.Sum.String() {
			return weight.Sum
		}
		c.fail(table, "weight", fmt.Sprintf("%q is no weight", v), weights)
	default:
		c.fail(table, "weight", "has the wrong type", weights)
	}
	return 0
}

// number is a weight that is not the word.
func (c *checker) number(table, key string, v *int64) int {
	switch {
	case v == nil:
		return 0
	case *v < weight.Min || *v > weight.Max:
		c.fail(table, key, fmt.Sprintf("%d is out of range", *v), numbers)
	}
	return int(*v)
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

// Keeps reports whether a rule asks for a label or an annotation with this key, or
// a pod asks for its weight in it.
func (c Config) Keeps(key string) bool {
	if key == ownWeight || key == ownClass || strings.HasPrefix(key, ownWeight+".") {
		return true
	}
	return key != "" && slices.ContainsFunc(c.selectors(), func(r Rule) bool {
		label, _, _ := strings.Cut(r.Label, "=")
		annotation, _, _ := strings.Cut(r.Annotation, "=")
		return key == label || key == annotation || r.Class != "" && (key == criClass || key == podClass+"pod" || strings.HasPrefix(key, podClass+containerClass))
	})
}

// Keys of annotations. The author of a pod writes them.
const (
	// ownWeight is the pod's weight, and with "." and the name of a container that
	// container's among those of its pod.
	ownWeight = "isolio.dev/weight"
	// ownClass is the pod's class.
	ownClass = "isolio.dev/class"

	criClass       = "io.kubernetes.cri.blockio-class"
	podClass       = "blockio.resources.beta.kubernetes.io/"
	containerClass = "container."
)

// PerContainer returns the name of the container that a pod's annotation is about,
// "" if it is about the pod.
func PerContainer(key string) string {
	for _, prefix := range []string{ownWeight + ".", podClass + containerClass} {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return name
		}
	}
	return ""
}

// Class is a container's class, "" for none: the pod's own one, or its blockio class.
// That containerd and CRI-O take from the container's own annotation, else from the
// pod's for it, else from the pod's.
func Class(c container.Container) string {
	for _, key := range []string{ownClass, criClass, podClass + containerClass + c.Name, podClass + "pod"} {
		if class := c.Annotations[key]; class != "" {
			return class
		}
	}
	return ""
}

// PodWeight is the weight that the pod of a container asks for in its annotations,
// 0 for none. The error says what is allowed; its key is the annotation's.
func PodWeight(c container.Container) (n int, key string, err error) { return annotated(c, ownWeight) }

// ContainerWeight is the weight among those of its pod that a pod asks for on behalf
// of one container.
func ContainerWeight(c container.Container) (n int, key string, err error) {
	return annotated(c, ownWeight+"."+c.Name)
}

// annotated reads a weight. Only a pod has a say in it: of other containers, the
// engine was asked.
func annotated(c container.Container, key string) (int, string, error) {
	text, ok := c.Annotations[key]
	if !ok || c.Pod == "" {
		return 0, key, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < weight.Min || n > weight.Max {
		if len(text) > 20 {
			text = text[:20] + "..."
		}
		return 0, key, fmt.Errorf("%q is no weight; allowed: %s", text, numbers)
	}
	return n, key, nil
}
