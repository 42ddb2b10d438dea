// SPDX-License-Identifier: MIT

package ruling

import (
	"maps"
	"strings"
	"testing"

	"isolio/internal/host/container"
	"isolio/internal/host/rule"
	"isolio/internal/host/weight"
)

const (
	podGroup = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_1111_1111_1111_111111111111.slice"
	dbGroup  = podGroup + "/cri-containerd-db.scope"
)

// pod is what is known of a pod of two containers with these annotations.
func pod(annotations map[string]string) []container.Container {
	c := container.Container{ID: "db", Name: "db", Namespace: "shop", Pod: "cart", Engine: "containerd", Cgroup: dbGroup, Annotations: annotations}
	pause := c
	pause.ID, pause.Name, pause.Sandbox, pause.Cgroup = "pause", "", true, podGroup+"/cri-containerd-pause.scope"
	return []container.Container{c, pause}
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
		{"more than it may have", "pod = 'shop/*'\nmost = 200\n[[rule]]\npod = '*'\nmost = 9000\n", map[string]string{own: "300"}, 0,
			"200 annotation isolio.dev/weight: 300; 200 is the most by rule 1", ""},
		{"more than any may have", "", map[string]string{own: "10000"}, 0, "1000 annotation isolio.dev/weight: 10000; 1000 is the most without a rule", ""},
		{"more, where a rule allows it", "pod = 'shop/*'\nmost = 10000\n", map[string]string{own: "9999"}, 0, "9999 annotation isolio.dev/weight: 9999", ""},
		{"of the runtime, too", "name = 'd*'\nmost = 150\n", nil, 200, "", "150 --blkio-weight 200; 150 is the most by rule 1"},
		{"what it may have", "pod = 'shop/*'\nmost = 200\n", map[string]string{own: "200"}, 0, "200 annotation isolio.dev/weight: 200", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.rules != "" {
				text = "[[rule]]\n" + tt.rules
			}
			config, err := rule.Parse("r.toml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			m := New(config.Rules, nil, pod(tt.annotations))
			read := files(map[string]int{dbGroup + "/io.bfq.weight": max(tt.asked, 100), podGroup + "/io.bfq.weight": 100})
			for group, want := range map[string]string{podGroup: tt.pod, dbGroup: tt.db, podGroup + "/cri-containerd-pause.scope": ""} {
				wants, _, err := m.Wants(group, read)
				if err != nil {
					t.Fatal(err)
				}
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

// What is wrong with annotations is told, with what is allowed.
func TestRefused(t *testing.T) {
	m := New(nil, nil, pod(map[string]string{"isolio.dev/weight": "lots", "isolio.dev/weight.db": "2000"}))
	want := map[string]string{
		podGroup: `shop/cart: annotation isolio.dev/weight: "lots" is no weight; allowed: an integer 1..10000`,
		dbGroup:  `shop/cart/db: annotation isolio.dev/weight.db: 2000; 1000 is the most without a rule`,
	}
	if got := m.Refused(); !maps.Equal(got, want) {
		t.Errorf("Refused = %v, want %v", got, want)
	}
	if got := New(nil, nil, pod(map[string]string{"isolio.dev/weight": "300"})).Refused(); len(got) != 0 {
		t.Errorf("Refused = %v", got)
	}
	if got := New(nil, nil, pod(map[string]string{"isolio.dev/weight": "\x1b[31m"})).Refused()[podGroup]; strings.Contains(got, "\x1b") {
		t.Errorf("Refused = %q", got)
	}
}
