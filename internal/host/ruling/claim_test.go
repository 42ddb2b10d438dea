// SPDX-License-Identifier: MIT

package ruling

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"isolio/internal/host/claim"
	"isolio/internal/host/container"
	"isolio/internal/host/rule"
	"isolio/internal/host/weight"
)

// aPod is a sandbox in a cgroup of its own.
func aPod(nr int, annotation string, given *claim.Pod) (c container.Container, group string) {
	group = fmt.Sprintf("kubepods.slice/kubepods-pod%08d_1111_1111_1111_111111111111.slice", nr)
	c = container.Container{ID: fmt.Sprint(nr), Namespace: "shop", Pod: fmt.Sprintf("p%d", nr), Sandbox: true, Cgroup: group + "/pause", Given: given}
	if annotation != "" {
		c.Annotations = map[string]string{"isolio.dev/weight": annotation}
	}
	return c, group
}

func shares(of ...claim.Share) *claim.Pod { return &claim.Pod{UID: "u", Shares: of} }

func on(disk string, n int) claim.Share {
	return claim.Share{Claim: "c", ClaimUID: "1", Device: "d", Disk: "sd" + disk[2:], MajMin: disk, Share: n}
}

// show is what a pod is to have, by disk.
func show(t *testing.T, m *Machine, group string) string {
	t.Helper()
	wants, _, err := m.Wants(group, files(nil))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, disk := range []string{EveryDisk, "8:0", "8:16"} {
		if w, ok := wants[disk]; ok {
			all = append(all, fmt.Sprintf("%s=%d by %s", disk, w.Weight, w.By))
		}
	}
	return strings.Join(all, ", ")
}

// The order of precedence, with what a cluster says in it.
func TestWhatDecidesInACluster(t *testing.T) {
	gold := &claim.Pod{UID: "u", Default: 500, Why: "PriorityClass gold: 500"}
	both := shares(on("8:0", 300))
	both.Default = 500
	for _, tt := range []struct {
		name, annotation, rules string
		given                   *claim.Pod
		want                    string
	}{
		{"nothing", "", "", nil, ""},
		{"a default of the cluster", "", "", gold, "default=500 by cluster-default"},
		{"an annotation over it", "200", "", gold, "default=200 by pod-annotation"},
		{"a bad annotation", "lots", "", gold, "default=500 by cluster-default"},
		{"a rule's default over it", "", "pod = 'shop/*'\ndefault = 50\n", gold, "default=50 by rule-default"},
		{"a rule's most", "", "pod = 'shop/*'\nmost = 400\n", gold, "default=400 by cluster-default"},
		{"a claim", "", "", shares(on("8:0", 300)), "8:0=300 by claim"},
		{"a claim and an annotation", "200", "", shares(on("8:0", 300)), "default=200 by pod-annotation, 8:0=300 by claim"},
		{"a claim and a default of the cluster", "", "", both, "default=500 by cluster-default, 8:0=300 by claim"},
		{"claims on two disks", "", "", shares(on("8:0", 300), on("8:16", 20)), "8:0=300 by claim, 8:16=20 by claim"},
		{"two claims on a disk", "", "", shares(on("8:0", 300), on("8:0", 20)), "8:0=320 by claim"},
		{"a share of every disk", "200", "", shares(claim.Share{Share: 70}), "default=70 by claim"},
		{"a claim on a disk that is gone", "200", "", shares(claim.Share{Claim: "c", ClaimUID: "1", Device: "d", Disk: "sda", Share: 300}), "default=200 by pod-annotation"},
		{"a claim is not cut by most", "", "pod = 'shop/*'\nmost = 100\n", shares(on("8:0", 300)), "8:0=300 by claim"},
		{"a rule's weight over a claim", "", "pod = 'shop/*'\nweight = 7\n", shares(on("8:0", 300)), "default=7 by rule"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.rules != "" {
				text = "[[rule]]\n" + tt.rules
			}
			config, err := rule.Parse("isolio.toml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			c, group := aPod(1, tt.annotation, tt.given)
			if got := show(t, New(config, nil, []container.Container{c}), group); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A container has no weight of a claim: it shares what its pod has.
func TestAContainerHasNoClaim(t *testing.T) {
	all := pod(nil)
	for i := range all {
		all[i].Given = shares(on("8:0", 300))
	}
	m := New(rule.Config{}, nil, all)
	if got := show(t, m, dbGroup); got != "" {
		t.Errorf("the container: %s", got)
	}
	if got := show(t, m, podGroup); got != "8:0=300 by claim" {
		t.Errorf("the pod: %s", got)
	}
}

// Pods without a claim keep their weights to each other within what is left.
func TestWhatIsLeft(t *testing.T) {
	var all []container.Container
	groups := map[string]string{}
	add := func(name, annotation string, given *claim.Pod) {
		c, group := aPod(len(all), annotation, given)
		all, groups[name] = append(all, c), group
	}
	add("web", "", shares(on("8:0", 600)))
	add("db", "500", shares(on("8:16", 100)))
	add("none", "", nil)
	add("heavy", "300", nil)
	m := New(rule.Config{}, nil, all)
	for name, want := range map[string]string{
		"web": "8:0=600 by claim", // 100 on the other: 500 there are less than the 900 that are left
		"db":  "default=500 by pod-annotation, 8:0=222 by pod-annotation, 8:16=100 by claim",
		// 400 are left to 500 + 100 + 300.
		"none":  "8:0=44 by cluster-default",
		"heavy": "default=300 by pod-annotation, 8:0=133 by pod-annotation",
	} {
		if got := show(t, m, groups[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Whatever there is, claims get what they were promised of what pods get, but for the
// least weight that pods without one have.
func TestClaimsAreKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		var all []container.Container
		var groups []string
		free := claim.Whole
		for i := range 1 + random.IntN(60) {
			var given *claim.Pod
			annotation := ""
			if n := 1 + random.IntN(400); random.IntN(3) == 0 && n <= free {
				given, free = shares(on("8:0", n)), free-n
			} else if random.IntN(2) == 0 {
				annotation = fmt.Sprint(1 + random.IntN(1000))
			}
			c, group := aPod(i, annotation, given)
			all, groups = append(all, c), append(groups, group)
		}
		m := New(rule.Config{}, nil, all)
		sum, least, promised := 0, 0, 0
		for _, group := range groups {
			wants, _, err := m.Wants(group, files(nil))
			if err != nil {
				t.Fatal(err)
			}
			w := ownOn(wants, "8:0")
			sum += int(w.Weight)
			switch {
			case w.By == ByClaim:
				promised += int(w.Weight)
			case w.Weight == weight.Min:
				least++
			}
		}
		if promised > 0 && sum > claim.Whole+least {
			t.Fatalf("round %d: weights are %d together, of which %d have the least", round, sum, least)
		}
	}
}
