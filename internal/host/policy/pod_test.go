// SPDX-License-Identifier: MIT

package policy

import (
	"maps"
	"strings"
	"testing"

	"isolio/internal/host/rule"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/must"
)

const (
	podGroup = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_1111_1111_1111_111111111111.slice"
	dbGroup  = podGroup + "/cri-containerd-db.scope"
)

// pod is what is known of a pod of two containers with these annotations.
func pod(annotations map[string]string) []target.Container {
	c := target.Container{ID: "db", Name: "db", Namespace: "shop", Pod: "cart", Engine: "containerd", Cgroup: dbGroup, Annotations: annotations}
	pause := c
	pause.ID, pause.Name, pause.Sandbox, pause.Cgroup = "pause", "", true, podGroup+"/cri-containerd-pause.scope"
	return []target.Container{c, pause}
}

// files are the weight files of cgroups: "GROUP/FILE".
func files(all map[string]int) Reader {
	return func(group, file string) (weight.Values, bool, error) {
		n, there := all[group+"/"+file]
		return weight.Values{Default: weight.Value(n)}, there, nil
	}
}

// What decides the weight of a pod and its containers, in this order: a rule's
// weight, the annotation, what the runtime was asked for, a rule's default.
func TestWhatDecidesOfAPod(t *testing.T) {
	const own = "isolio.dev/weight"
	for _, tt := range []struct {
		name        string
		rules       string
		annotations map[string]string
		asked       int // --blkio-weight of the container
		pod, db     string
	}{
		{"nothing", "", nil, 0, "", ""},
		{"the pod's", "", map[string]string{own: "300"}, 0, "300 annotation isolio.dev/weight: 300", ""},
		{"the container's", "", map[string]string{own: "300", own + ".db": "20", own + ".web": "30"}, 0,
			"300 annotation isolio.dev/weight: 300", "20 annotation isolio.dev/weight.db: 20"},
		{"the container's over the runtime's", "", map[string]string{own + ".db": "20"}, 200, "", "20 annotation isolio.dev/weight.db: 20"},
		{"the runtime's", "", nil, 200, "", "200 --blkio-weight 200"},
		{"a rule's over both", "pod = 'shop/*'\nweight = 7\n[[rule]]\npod = 'shop/*'\nname = 'db'\nweight = 8\n",
			map[string]string{own: "300", own + ".db": "20"}, 200, "7 rule 1", "8 rule 2"},
		{"a namespace's default", "pod = 'shop/*'\ndefault = 50\n", nil, 0, "50 default of rule 1", ""},
		{"not where the pod asks", "pod = 'shop/*'\ndefault = 50\n", map[string]string{own: "300"}, 0, "300 annotation isolio.dev/weight: 300", ""},
		{"where it asks for no weight", "pod = 'shop/*'\ndefault = 50\n", map[string]string{own: "lots"}, 0, "50 default of rule 1", ""},
		{"a class's", "pod = '*'\nclass = 'gold'\ndefault = 500\n[[rule]]\npod = 'shop/*'\ndefault = 50\n", map[string]string{"isolio.dev/class": "gold"}, 0,
			"500 default of rule 1", ""},
		{"a blockio class's", "class = 'low'\ndefault = 30\n", map[string]string{"blockio.resources.beta.kubernetes.io/pod": "low"}, 0, "", "30 default of rule 1"},
		{"the own annotation over a blockio class's", "class = 'low'\ndefault = 30\n",
			map[string]string{"blockio.resources.beta.kubernetes.io/pod": "low", own + ".db": "40"}, 0, "", "40 annotation isolio.dev/weight.db: 40"},
		{"a weight's rule after a default's", "pod = 'shop/*'\ndefault = 50\n[[rule]]\npod = '*'\nweight = 60\n", nil, 0, "60 rule 2", ""},
		{"more than it may have", "pod = 'shop/*'\nmax_weight = 200\n[[rule]]\npod = '*'\nmax_weight = 9000\n", map[string]string{own: "300"}, 0,
			"200 annotation isolio.dev/weight: 300; 200 is the most by rule 1", ""},
		{"more than any may have", "", map[string]string{own: "10000"}, 0, "1000 annotation isolio.dev/weight: 10000; 1000 is the most without a rule", ""},
		{"more, where a rule allows it", "pod = 'shop/*'\nmax_weight = 10000\n", map[string]string{own: "9999"}, 0, "9999 annotation isolio.dev/weight: 9999", ""},
		{"of the runtime, too", "name = 'd*'\nmax_weight = 150\n", nil, 200, "", "150 --blkio-weight 200; 150 is the most by rule 1"},
		{"what it may have", "pod = 'shop/*'\nmax_weight = 200\n", map[string]string{own: "200"}, 0, "200 annotation isolio.dev/weight: 200", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.rules != "" {
				text = "[[rule]]\n" + tt.rules
			}
			config, err := rule.Parse("r.toml", []byte(text))
			must.OK(t, err)
			m := New(config, nil, pod(tt.annotations))
			read := files(map[string]int{dbGroup + "/io.bfq.weight": max(tt.asked, 100), podGroup + "/io.bfq.weight": 100})
			for group, want := range map[string]string{podGroup: tt.pod, dbGroup: tt.db, podGroup + "/cri-containerd-pause.scope": ""} {
				wants, _, err := m.Wants(group, read)
				must.OK(t, err)
				got := ""
				if w, ok := wants[EveryDisk]; ok {
					got = weightAndWhy(w)
				}
				if got != want {
					t.Errorf("%s: %q, want %q", group, got, want)
				}
			}
		})
	}
}

func weightAndWhy(w Want) string { return weight.Values{Default: w.Weight}.String() + " " + w.Why }

// A class that a label or an annotation names has its weight, where the class allows that:
// after what was asked for in numbers, and before a rule's default. A rule limits it.
func TestClassByLabel(t *testing.T) {
	const classes = "[class.gold]\nweight = 5000\nlabels = true\n[class.private]\nweight = 9000\n"
	alone := target.Container{ID: "db", Name: "db", Engine: "docker", Cgroup: "system.slice/docker-db.scope"}
	for _, tt := range []struct {
		name, rules, label, annotation string
		asked                          int
		want, ofPod                    string
	}{
		{name: "a label", label: "gold", want: "5000 class gold: 5000, by its label isolio.class", ofPod: "5000 class gold: 5000, by its label isolio.class"},
		{name: "an annotation", annotation: "gold", want: "5000 class gold: 5000, by its annotation isolio.dev/class", ofPod: "5000 class gold: 5000, by its annotation isolio.dev/class"},
		{name: "the annotation first", annotation: "gold", label: "private", want: "5000 class gold: 5000, by its annotation isolio.dev/class", ofPod: "5000 class gold: 5000, by its annotation isolio.dev/class"},
		{name: "a class that is not open", label: "private"},
		{name: "no class", label: "platinum"},
		{name: "what was asked first", label: "gold", asked: 200, want: "200 --blkio-weight 200", ofPod: "5000 class gold: 5000, by its label isolio.class"},
		{name: "before a default", label: "gold", rules: "name = 'd*'\ndefault = 30\n[[rule]]\npod = '*'\ndefault = 40\n", want: "5000 class gold: 5000, by its label isolio.class", ofPod: "5000 class gold: 5000, by its label isolio.class"},
		{name: "a rule over it", label: "gold", rules: "name = 'd*'\nweight = 30\n[[rule]]\npod = '*'\nweight = 'private'\n", want: "30 rule 1", ofPod: "9000 rule 2, class private"},
		{name: "limited", label: "gold", rules: "name = 'd*'\nmax_weight = 50\n[[rule]]\npod = '*'\nmax_weight = 60\n", want: "50 class gold: 5000, by its label isolio.class; 50 is the most by rule 1", ofPod: "60 class gold: 5000, by its label isolio.class; 60 is the most by rule 2"},
		{name: "a rule by class", label: "gold", rules: "class = 'g*'\nweight = 70\n", want: "70 rule 1", ofPod: "5000 class gold: 5000, by its label isolio.class"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := classes
			if tt.rules != "" {
				text += "[[rule]]\n" + tt.rules
			}
			config, err := rule.Parse("r.toml", []byte(text))
			must.OK(t, err)
			one := alone
			all := pod(nil)
			for _, c := range []*target.Container{&one, &all[0], &all[1]} {
				c.Labels, c.Annotations = map[string]string{"isolio.class": tt.label}, map[string]string{"isolio.dev/class": tt.annotation}
			}
			read := files(map[string]int{one.Cgroup + "/io.bfq.weight": max(tt.asked, 100), podGroup + "/io.bfq.weight": 100})
			for group, want := range map[string]string{one.Cgroup: tt.want, podGroup: tt.ofPod} {
				wants, _, err := New(config, nil, append(all, one)).Wants(group, read)
				must.OK(t, err)
				got := ""
				if w, ok := wants[EveryDisk]; ok {
					got = weightAndWhy(w)
				}
				if got != want {
					t.Errorf("%s: %q, want %q", group, got, want)
				}
			}
			// Inside its pod, a container has no weight by the pod's class.
			if wants, _, err := New(config, nil, all).Wants(dbGroup, read); err != nil || wants[EveryDisk].By == weight.ByClass {
				t.Errorf("%+v, %v", wants, err)
			}
		})
	}
}

// A rule for disks by what they are is for each that has the scheduler.
func TestRuleForDisks(t *testing.T) {
	config, err := rule.Parse("r.toml", []byte("[[rule]]\nname = 'db'\ndevice = 'sdb'\nweight = 7\n[[rule]]\nname = 'db'\ndevice = 'model:ST*'\nweight = 8\n[[rule]]\nname = 'db'\ndevice = 'wwn:0x3'\nweight = 9\n"))
	must.OK(t, err)
	disks := DiskNumbers{"sda": {"8:0"}, "sdb": {"8:16"}, "model:ST*": {"8:0", "8:16"}}
	wants, _, err := New(config, disks, pod(nil)).Wants(dbGroup, files(nil))
	if disks.Count() != 2 {
		t.Errorf("%d disks", disks.Count())
	}
	if err != nil || len(wants) != 2 || wants["8:0"].Weight != 8 || wants["8:16"].Weight != 7 {
		t.Errorf("%+v, %v", wants, err)
	}
}

// What is wrong with annotations is told, with what is allowed.
func TestRefused(t *testing.T) {
	m := New(rule.Config{}, nil, pod(map[string]string{"isolio.dev/weight": "lots", "isolio.dev/weight.db": "2000"}))
	want := map[string]string{
		podGroup: `shop/cart: annotation isolio.dev/weight: "lots" is not a weight; allowed: an integer 1..10000`,
		dbGroup:  `shop/cart/db: annotation isolio.dev/weight.db: 2000; 1000 is the most without a rule`,
	}
	if got := m.Refused(); !maps.Equal(got, want) {
		t.Errorf("Refused = %v, want %v", got, want)
	}
	if got := New(rule.Config{}, nil, pod(map[string]string{"isolio.dev/weight": "300"})).Refused(); len(got) != 0 {
		t.Errorf("Refused = %v", got)
	}
	if got := New(rule.Config{}, nil, pod(map[string]string{"isolio.dev/weight": "\x1b[31m"})).Refused()[podGroup]; strings.Contains(got, "\x1b") {
		t.Errorf("Refused = %q", got)
	}
}
