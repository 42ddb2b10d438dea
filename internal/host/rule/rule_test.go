// SPDX-License-Identifier: MIT

package rule

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestParse(t *testing.T) {
	config, err := Parse("r.toml", []byte(`
metrics = "127.0.0.1:9188"
nri = "/run/nri.sock"

[[rule]]
name = "db-*"
device = "/dev/nvme0n1"
weight = 800

[[rule]]
name = "db-*"
weight = 700

[[rule]]
unit = "backup.service"
weight = 20

[[rule]]
unit = "machine.slice"
weight = "sum"

[[rule]]
pod = "team-*/*"
default = 50
max_weight = 200

[[rule]]
unit = "session-*"
metrics = false
`))
	at := func(nr, line int) Place { return Place{File: "r.toml", Nr: nr, Line: line, Own: true} }
	want := Config{Files: []ReadFile{{"r.toml", 6}}, Metrics: "127.0.0.1:9188", NRI: "/run/nri.sock", Rules: []Rule{
		{Name: "db-*", Device: "nvme0n1", Weight: 800, At: at(1, 5)},
		{Name: "db-*", Weight: 700, At: at(2, 10)},
		{Unit: "backup.service", Weight: 20, At: at(3, 14)},
		{Unit: "machine.slice", Weight: weight.Sum, At: at(4, 18)},
		{Pod: "team-*/*", Default: 50, MaxWeight: 200, At: at(5, 22)},
		{Unit: "session-*", Metrics: Together, At: at(6, 27)},
	}, SLA: DefaultSLA}
	if err != nil || !reflect.DeepEqual(config, want) {
		t.Errorf("Parse = %+v, %v, want %+v", config, err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"metrics = \"9188\"\n":               "r.toml:1: metrics: \"9188\" is not an address; allowed: HOST:PORT, such as \"127.0.0.1:9188\"",
		"metrics = \"127.0.0.1:99999\"\n":    "r.toml:1: metrics: \"127.0.0.1:99999\" is not an address; allowed: HOST:PORT, such as \"127.0.0.1:9188\"",
		"nri = \"run/nri.sock\"\n":           "r.toml:1: nri: \"run/nri.sock\" is not a socket; allowed: the path of one, such as \"/run/nri/nri.sock\", or \"off\"",
		"nri = \"\"\n":                       "r.toml:1: nri: \"\" is not a socket; allowed: the path of one, such as \"/run/nri/nri.sock\", or \"off\"",
		"metrics = \":\"\n":                  "r.toml:1: metrics: \":\" is not an address; allowed: HOST:PORT, such as \"127.0.0.1:9188\"",
		"[rule]\nname = \"a\"\nweight = 7\n": "r.toml:1: rule: is one table; allowed: [[rule]], of which there may be more",
		"[[rule]]\nname=\"a\"\nweight=1\n[[rule]]\nname=\"b\"\nweight=1\n[[rule]]\nname=\"a\"\nweight=2\n": "r.toml:7: rule: matches the same as that in line 1, which wins; allowed: one rule for each",
		"\n[[rule]]\nname = \"a\"\n":                             "r.toml:2: rule.weight: is missing; allowed: an integer 1..10000, or \"sum\"; or default, max_weight, metrics",
		"[[rule]]\nname = \"a\"\nweight = 0\n":                   "r.toml:3: rule.weight: 0 is out of range; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = 10001\n":               "r.toml:3: rule.weight: 10001 is out of range; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = -1\n":                  "r.toml:3: rule.weight: -1 is out of range; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = \"300\"\n":             "r.toml:3: rule.weight: \"300\" is not a weight; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = 1.5\n":                 "r.toml:3: rule.weight: has the wrong type; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = [7]\n":                 "r.toml:3: rule.weight: has the wrong type; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname = \"a\"\nweight = { sum = true }\n":      "r.toml:3: rule.weight: has the wrong type; allowed: an integer 1..10000, or \"sum\"",
		"[[rule]]\nname=\"a\"\ndevice=\"sda\"\nmetrics = true\n": "r.toml:4: rule.metrics: cannot be combined with device; allowed: metrics of all disks",
		"[[rule]]\nweight = 5\n":                                 "r.toml:1: rule: names no container, pod or unit; allowed: " + who,
		"[[rule]]\nname = \"[\"\nweight = 5\n":                   "r.toml:2: rule.name: \"[\" is not a pattern; allowed: a name, in which * stands for any text, ? for a character, [a-z] for one of these",
		"[[rule]]\nlabel = \"=x\"\nweight = 5\n":                 "r.toml:2: rule.label: \"=x\" is not a key and a pattern; allowed: KEY=PATTERN, or KEY for any value",
		"[[rule]]\nname=\"a\"\ndevice=\"a/b\"\nweight = 5\n":     "r.toml:3: rule.device: \"a/b\" is not a disk; allowed: " + allowedDevice,
		"[[rule]]\nname=\"a\"\nunit=\"b\"\nweight = 5\n":         "r.toml:3: rule.unit: cannot be combined with keys of containers; allowed: unit alone, or one or more of name, label, annotation, class, pod",
		"[[rule]]\nname=\"a\"\nwheight = 5\n":                    "r.toml:3: rule.wheight: unknown key; allowed: name, label, annotation, class, pod, unit, device, weight, default, max_weight, metrics",
		"[[rule]]\nname=\"a\"\nweight=1\ndefault=1\n":            "r.toml:4: rule.default: cannot be combined with weight, which decides whatever is asked for; allowed: one of them",
		"[[rule]]\nname=\"a\"\nmost = 5\n":                       "r.toml:3: rule.most: unknown key; allowed: max_weight, its new name",
		"[[rule]]\nname=\"a\"\nmax_weight=5\nweight=1\n":         "r.toml:3: rule.max_weight: cannot be combined with weight, which decides whatever is asked for; allowed: one of them",
		"[[rule]]\nname=\"a\"\nmax_weight=5\ndevice=\"sda\"\n":   "r.toml:3: rule.max_weight: cannot be combined with device; allowed: max_weight for all disks",
		"[[rule]]\nname=\"a\"\nmax_weight=5\ndefault=6\n":        "r.toml:4: rule.default: 6 is larger than max_weight, 5; allowed: no more than max_weight",
		"[[rule]]\nname=\"a\"\nmax_weight=-1\n":                  "r.toml:3: rule.max_weight: -1 is out of range; allowed: an integer 1..10000",
		"[[rule]]\nname=\"a\"\n[[rule]]\nname=\"\"\nweight=5":    "r.toml:1: rule.weight: is missing; allowed: an integer 1..10000, or \"sum\"; or default, max_weight, metrics",
	} {
		if _, err := Parse("r.toml", []byte(text)); err == nil || err.Error() != want || failure.Code(err) != failure.Usage {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if c, err := Load("", filepath.Join(dir, "absent.toml")); err != nil || c.Rules != nil {
		t.Errorf("a file that is not there: %+v, %v", c, err)
	}
	if _, err := Load("", dir); failure.Code(err) != failure.Usage {
		t.Errorf("a directory: %v", err)
	}
	file := filepath.Join(dir, "isolio.toml")
	testtree.File(t, file, "[[rule]]\nname = \"a\"\nweight = 7\n")
	if c, err := Load("", file); err != nil || len(c.Rules) != 1 || c.Rules[0].Weight != 7 {
		t.Errorf("Load = %+v, %v", c, err)
	}
}

func TestMatch(t *testing.T) {
	web := target.Container{Name: "web-1", Labels: map[string]string{"tier": "gold/eu"}}
	cart := target.Container{Name: "cart", Pod: "shop", Namespace: "prod", Annotations: map[string]string{
		"blockio.resources.beta.kubernetes.io/pod": "low", "owner": "me"}}
	pause := cart
	pause.Name, pause.Sandbox = "", true
	for _, tt := range []struct {
		rule           Rule
		c              target.Container
		container, pod bool
	}{
		{Rule{Name: "web-*"}, web, true, false},
		{Rule{Name: "web"}, web, false, false},
		{Rule{Label: "tier"}, web, true, false},
		{Rule{Label: "tier=*"}, web, true, false},
		{Rule{Label: "tier=gold/*"}, web, true, false},
		{Rule{Label: "tier=silver"}, web, false, false},
		{Rule{Label: "team=*"}, web, false, false},
		{Rule{Name: "web-*", Label: "tier=silver"}, web, false, false},
		{Rule{Unit: "web-*"}, web, false, false},
		{Rule{Pod: "*/*"}, web, false, false},
		{Rule{Class: "low"}, cart, true, false},
		{Rule{Class: "high"}, cart, false, false},
		{Rule{Annotation: "owner=me"}, cart, true, false},
		{Rule{Pod: "prod/*"}, cart, false, true},
		{Rule{Pod: "test/*"}, cart, false, false},
		{Rule{Pod: "shop"}, cart, false, true},
		{Rule{Pod: "sho?", Name: "cart"}, cart, true, false},
		{Rule{Pod: "prod"}, cart, false, false},
		{Rule{Pod: "*"}, web, false, false},
		{Rule{Pod: "*/*", Name: "*"}, web, false, false},
		{Rule{Pod: "prod/shop", Name: "cart"}, cart, true, false},
		{Rule{Class: "low"}, pause, false, false},
		{Rule{Pod: "prod/shop"}, pause, false, true},
	} {
		if c, p := tt.rule.ForContainer(tt.c), tt.rule.ForPod(tt.c); c != tt.container || p != tt.pod {
			t.Errorf("%+v for %s: container %v, pod %v", tt.rule, tt.c.DisplayName(), c, p)
		}
	}
	if r := (Rule{Unit: "nginx"}); !r.ForUnit("nginx.service") || r.ForUnit("nginx.slice") || r.ForUnit("nginx-1.service") {
		t.Error("units without .service")
	}
	if r := (Rule{Unit: "back*.service"}); !r.ForUnit("backup.service") || r.ForUnit("backup.timer") || (Rule{Name: "x"}).ForUnit("x") {
		t.Error("units")
	}
}

// podman's labels are in no file; Docker's are.
func TestBlind(t *testing.T) {
	c := Config{Rules: []Rule{{Name: "web"}, {Label: "tier=gold", At: Place{Nr: 2}}, {Label: "tier", Name: "db-*", At: Place{Nr: 3}}}}
	for engine, want := range map[string]int{"docker": 0, "cri-o": 0, "podman": 1, "containerd": 1} {
		got := c.Blind([]target.Container{{Name: "web", Engine: engine}, {Name: "batch", Engine: engine}})
		if len(got) != want || want > 0 && !strings.HasPrefix(got[0], "rule 2 does nothing for containers of "+engine+",") {
			t.Errorf("%s: %q", engine, got)
		}
	}
	if got := c.Blind([]target.Container{{Name: "db-1", Engine: "podman"}}); len(got) != 2 {
		t.Errorf("both rules: %q", got)
	}
	if got := c.Blind([]target.Container{{Engine: "podman", Sandbox: true}}); got != nil {
		t.Errorf("a pod's own container: %q", got)
	}
}

func TestClass(t *testing.T) {
	const prefix = "blockio.resources.beta.kubernetes.io/"
	c := target.Container{Name: "cart", Annotations: map[string]string{prefix + "pod": "low"}}
	if got := ClassOf(c); got != "low" {
		t.Errorf("pod's: %q", got)
	}
	c.Annotations[prefix+"container.cart"] = "high"
	if got := ClassOf(c); got != "high" {
		t.Errorf("pod's for the container: %q", got)
	}
	c.Annotations["io.kubernetes.cri.blockio-class"] = "own"
	if got := ClassOf(c); got != "own" {
		t.Errorf("its own: %q", got)
	}
	c.Annotations["isolio.dev/class"] = "gold"
	if got := ClassOf(c); got != "gold" {
		t.Errorf("isolio's: %q", got)
	}
}

// A pod asks for a weight in annotations; a container outside of pods does not.
func TestWeightsOfPods(t *testing.T) {
	c := target.Container{Name: "db", Pod: "shop", Annotations: map[string]string{"isolio.dev/weight": "300", "isolio.dev/weight.db": "20"}}
	if n, key, err := PodWeight(c); n != 300 || key != "isolio.dev/weight" || err != nil {
		t.Errorf("the pod's: %d, %s, %v", n, key, err)
	}
	if n, key, err := ContainerWeight(c); n != 20 || key != "isolio.dev/weight.db" || err != nil {
		t.Errorf("the container's: %d, %s, %v", n, key, err)
	}
	c.Name = "web"
	if n, _, err := ContainerWeight(c); n != 0 || err != nil {
		t.Errorf("another container's: %d, %v", n, err)
	}
	c.Pod = ""
	if n, _, err := PodWeight(c); n != 0 || err != nil {
		t.Errorf("outside of a pod: %d, %v", n, err)
	}
	for text, want := range map[string]string{
		"": `"" is not a weight`, "0": `"0" is not a weight`, "10001": `"10001" is not a weight`, "3e2": `"3e2" is not a weight`, " 300": `" 300" is not a weight`,
		"99999999999999999999":    `"99999999999999999999" is not a weight`,
		"\x1b[2J\n":               `"\x1b[2J\n" is not a weight`,
		strings.Repeat("9", 4000): `"99999999999999999999..." is not a weight`,
	} {
		c := target.Container{Pod: "shop", Annotations: map[string]string{"isolio.dev/weight": text}}
		if n, _, err := PodWeight(c); n != 0 || err == nil || err.Error() != want+"; allowed: an integer 1..10000" {
			t.Errorf("%.30q: %d, %v", text, n, err)
		}
	}
	for key, want := range map[string]string{
		"isolio.dev/weight.db": "db", "blockio.resources.beta.kubernetes.io/container.db": "db",
		"isolio.dev/weight": "", "blockio.resources.beta.kubernetes.io/pod": "", "isolio.dev/weight.": "",
	} {
		if got := PerContainer(key); got != want {
			t.Errorf("%s is about the container %q", key, got)
		}
	}
}

// Only labels and annotations that a rule asks for are kept.
func TestKeeps(t *testing.T) {
	config, err := Parse("", []byte("[[rule]]\nlabel = \"tier=gold\"\nweight = 1\n[[rule]]\nannotation = \"team\"\nweight = 1\n"))
	must.OK(t, err)
	classes, err := Parse("", []byte("[[rule]]\nclass = \"low\"\nweight = 1\n"))
	must.OK(t, err)
	for key, want := range map[string]struct{ config, classes bool }{
		"tier": {true, false}, "team": {true, false}, "gold": {}, "": {}, "tier=gold": {},
		"io.kubernetes.cri.blockio-class": {false, true}, "blockio.resources.beta.kubernetes.io/container.x": {false, true},
		"blockio.resources.beta.kubernetes.io/pod": {false, true}, "blockio.resources.beta.kubernetes.io/other": {},
		"isolio.dev/weight": {true, true}, "isolio.dev/weight.db": {true, true}, "isolio.dev/class": {true, true}, "isolio.dev/weights": {},
	} {
		if config.Keeps(key) != want.config || classes.Keeps(key) != want.classes {
			t.Errorf("%q: %v and %v", key, config.Keeps(key), classes.Keeps(key))
		}
	}
}
