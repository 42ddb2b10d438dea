// SPDX-License-Identifier: MIT

// Package rule reads /etc/isolio.toml and /etc/isolio.d: what weights containers and units
// have, whatever was asked for elsewhere, and what disks have.
package rule

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/plan/shell"
)

// File is where the rules are. More are in files of the directory of the same name, with
// .d: see Load.
const File = "/etc/isolio.toml"

// Config is what the files say.
type Config struct {
	// Files are those that were read, in order.
	Files []ReadFile
	// Metrics is the address that metrics are served on, "" for none.
	Metrics string
	// NRI is the socket of the runtime that tells of pods, "" for where runtimes have
	// it, NoNRI for none.
	NRI   string
	Rules []Rule
	// Classes are weights with a name.
	Classes map[string]Class
	// Disks are what disks have. The first that is for a disk wins.
	Disks []Disk
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
	// Device is the disk that the weight is for, as block.System.Match takes it, "" for all.
	Device string
	// Weight decides, whatever is asked for. Default is for those that ask for none,
	// and MaxWeight is the largest that may be asked for. 0 is none of it.
	Weight             weight.Value
	Default, MaxWeight int
	// Metrics is whether they have metrics of their own.
	Metrics Series
	// From is the class that Weight or Default was taken from, "" for none.
	From string
	// At is where the rule stands.
	At Place
}

// Series is what a rule says of metrics.
type Series int

// What a rule says: nothing, that each has metrics of its own, or that all are counted
// together.
const (
	Unsaid Series = iota
	Apart
	Together
)

// Place is where something stands in the files.
type Place struct {
	// File is as a reader of the machine finds it.
	File string
	// Nr counts what is of the kind in its file, from 1.
	Nr int
	// Line is that of its head.
	Line int
	// Own is true for the file of the rules, and false for one of the directory.
	Own bool
}

// Rule is the rule there in few words: "rule 1", or "rule 1 of isolio.d/web.toml".
func (p Place) Rule() string {
	if p.Own || p.File == "" {
		return fmt.Sprintf("rule %d", p.Nr)
	}
	return fmt.Sprintf("rule %d of %s", p.Nr, path.Join(path.Base(path.Dir(p.File)), path.Base(p.File)))
}

// FullRule has the file's whole path.
func (p Place) FullRule() string { return fmt.Sprintf("rule %d of %s", p.Nr, p.File) }

// Disk is what a disk has, for good.
type Disk struct {
	// Device is as block.System.Match takes it.
	Device string
	// Scheduler is the one to have; Keep leaves the disk as it is.
	Scheduler string
	// Tunables are the scheduler's files and what is written there, in order.
	Tunables []Tunable
	At       Place
}

// Keep in place of a scheduler has isolio leave the disk alone.
const Keep = "keep"

// Tunable is a file of a scheduler, and what is written there.
type Tunable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Class is a weight with a name.
type Class struct {
	Weight int
	// Labels is whether a container's label or its pod's annotation gets it the class.
	Labels bool
	At     Place
}

// Idle is a rule or table that does nothing now, and what to do, "" where its disk may come.
type Idle struct{ Finding, Remedy string }

// Idle tells of each rule and table for a disk that is not there, and of each rule for one that does not share.
func (c Config) Idle(sys block.System) (idle []Idle) {
	missing := func(name, device string) bool {
		if found, err := sys.On(device); device == "" || err == nil && len(found) > 0 {
			return false
		}
		_, err := sys.Resolve(device)
		if err != nil {
			idle = append(idle, Idle{Finding: fmt.Sprintf("%s does nothing now: %v", name, err)})
		}
		return err != nil
	}
	for _, r := range c.Rules {
		if r.Device == "" || missing(r.At.Rule(), r.Device) {
			continue
		}
		found, err := sys.On(r.Device)
		if err != nil {
			continue // missing has told
		}
		for _, d := range found {
			if active, _, err := d.Schedulers(); err == nil && active != string(weight.Kyber) {
				idle = append(idle, Idle{fmt.Sprintf("%s does nothing on %s now: its scheduler is %s", r.At.Rule(), d.Name, active), "isolio enable " + shell.Quote(d.Name)})
			}
		}
	}
	for _, d := range c.Disks {
		missing(fmt.Sprintf("[[disk]] in line %d of %s", d.At.Line, d.At.File), d.Device)
	}
	return idle
}

// secretive are engines that keep labels where no other program reads them.
var secretive = []string{"podman", "containerd"}

// Blind tells of each rule that may be for containers whose labels are not known.
func (c Config) Blind(containers []target.Container) []string {
	var blind []string
	for _, r := range c.Rules {
		if r.Label == "" {
			continue
		}
		name := r.At.Rule()
		r.Label = ""
		for _, engine := range secretive {
			if slices.ContainsFunc(containers, func(x target.Container) bool {
				return x.Engine == engine && x.Labels == nil && r.ForContainer(x)
			}) {
				blind = append(blind, fmt.Sprintf("%s does nothing for containers of %s, which keeps labels to itself: match by annotation, or name", name, engine))
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
func (r Rule) ForPod(c target.Container) bool {
	return r.Pod != "" && r.Name == "" && r.all(c)
}

// ForContainer reports whether the rule is for a container.
func (r Rule) ForContainer(c target.Container) bool {
	return r.Unit == "" && (r.Pod == "" || r.Name != "") && !c.Sandbox && r.all(c)
}

func (r Rule) all(c target.Container) bool {
	if r.Pod != "" && c.Pod == "" {
		return false
	}
	pod := c.Namespace + "/" + c.Pod
	if !strings.Contains(r.Pod, "/") { // of any namespace
		pod = c.Pod
	}
	return matches(r.Name, c.Name) && matches(r.Class, ClassOf(c)) && matches(r.Pod, pod) &&
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
	if key == ownWeight || key == ClassAnnotation || strings.HasPrefix(key, ownWeight+".") {
		return true
	}
	for _, class := range c.Classes {
		if class.Labels && key == labelClass {
			return true
		}
	}
	return key != "" && slices.ContainsFunc(c.selectors(), func(r Rule) bool {
		label, _, _ := strings.Cut(r.Label, "=")
		annotation, _, _ := strings.Cut(r.Annotation, "=")
		return key == label || key == annotation || r.Class != "" && (key == labelClass || key == criClass || key == podClass+"pod" || strings.HasPrefix(key, podClass+containerClass))
	})
}

// Knows reports whether a class has a weight, or a rule is for it.
func (c Config) Knows(class string) bool {
	if _, ok := c.Classes[class]; ok {
		return true
	}
	return slices.ContainsFunc(c.selectors(), func(r Rule) bool { return r.Class != "" && matches(r.Class, class) })
}

// Keys of annotations. The author of a pod writes them.
const (
	// ownWeight is the pod's weight, and with "." and the name of a container that
	// container's among those of its pod.
	ownWeight = "isolio.dev/weight"
	// ClassAnnotation is the pod's class.
	ClassAnnotation = "isolio.dev/class"
	// labelClass is the class in a label, which the builder of an image writes as well.
	labelClass = "isolio.class"

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

// ClassOf is a container's class, "" for none: the one that its pod or its label says, or
// its blockio class. That containerd and CRI-O take from the container's own annotation,
// else from the pod's for it, else from the pod's.
func ClassOf(c target.Container) string {
	if class, _ := Named(c); class != "" {
		return class
	}
	for _, key := range []string{criClass, podClass + containerClass + c.Name, podClass + "pod"} {
		if class := c.Annotations[key]; class != "" {
			return class
		}
	}
	return ""
}

// Named is the class that an annotation or a label names, and which one does.
func Named(c target.Container) (class, by string) {
	if class := c.Annotations[ClassAnnotation]; class != "" {
		return class, "annotation " + ClassAnnotation
	}
	if class := c.Labels[labelClass]; class != "" {
		return class, "label " + labelClass
	}
	return "", ""
}

// PodWeight is the weight that the pod of a container asks for in its annotations,
// 0 for none. The error says what is allowed; its key is the annotation's.
func PodWeight(c target.Container) (n int, key string, err error) { return annotated(c, ownWeight) }

// ContainerWeight is the weight among those of its pod that a pod asks for on behalf
// of one container.
func ContainerWeight(c target.Container) (n int, key string, err error) {
	return annotated(c, ownWeight+"."+c.Name)
}

// annotated reads a weight. Only a pod has a say in it: of other containers, the
// engine was asked.
func annotated(c target.Container, key string) (int, string, error) {
	text, ok := c.Annotations[key]
	if !ok || c.Pod == "" {
		return 0, key, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < weight.Min || n > weight.Max {
		if len(text) > 20 {
			text = text[:20] + "..."
		}
		return 0, key, fmt.Errorf("%q is not a weight; allowed: %s", text, numbers)
	}
	return n, key, nil
}
