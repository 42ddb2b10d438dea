// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"
	"strings"
	"testing"

	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/must"
)

// aPod is a sandbox in a cgroup of its own.
func aPod(nr int, annotation string, given *state.PodClaims) (c target.Container, group string) {
	group = fmt.Sprintf("kubepods.slice/kubepods-pod%08d_1111_1111_1111_111111111111.slice", nr)
	c = target.Container{ID: fmt.Sprint(nr), Namespace: "shop", Pod: fmt.Sprintf("p%d", nr), Sandbox: true, Cgroup: group + "/pause", Given: given}
	if annotation != "" {
		c.Annotations = map[string]string{"isolio.dev/weight": annotation}
	}
	return c, group
}

func shares(of ...state.ClaimedShare) *state.PodClaims { return &state.PodClaims{UID: "u", Shares: of} }

func on(disk string, n int) state.ClaimedShare {
	return state.ClaimedShare{Claim: "c", ClaimUID: "1", Device: "d", Disk: "sd" + disk[2:], MajMin: disk, Share: n}
}

// show is what a pod is to have, by disk.
func show(t *testing.T, m *Policy, group string) string {
	t.Helper()
	wants, _, err := m.Wants(group, files(nil))
	must.OK(t, err)
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
	gold := &state.PodClaims{UID: "u", Default: 500, Why: "PriorityClass gold: 500"}
	both := shares(on("8:0", 300))
	both.Default = 500
	for _, tt := range []struct {
		name, annotation, rules string
		given                   *state.PodClaims
		want                    string
	}{
		{"nothing", "", "", nil, ""},
		{"a default of the cluster", "", "", gold, "default=500 by cluster-default"},
		{"an annotation over it", "200", "", gold, "default=200 by pod-annotation"},
		{"a bad annotation", "lots", "", gold, "default=500 by cluster-default"},
		{"a rule's default over it", "", "pod = 'shop/*'\ndefault = 50\n", gold, "default=50 by rule-default"},
		{"max_weight", "", "pod = 'shop/*'\nmax_weight = 400\n", gold, "default=400 by cluster-default"},
		{"a claim", "", "", shares(on("8:0", 300)), "8:0=300 by claim"},
		{"a claim and an annotation", "200", "", shares(on("8:0", 300)), "default=200 by pod-annotation, 8:0=300 by claim"},
		{"a claim and a default of the cluster", "", "", both, "default=500 by cluster-default, 8:0=300 by claim"},
		{"claims on two disks", "", "", shares(on("8:0", 300), on("8:16", 20)), "8:0=300 by claim, 8:16=20 by claim"},
		{"two claims on a disk", "", "", shares(on("8:0", 300), on("8:0", 20)), "8:0=320 by claim"},
		{"a share of every disk", "200", "", shares(state.ClaimedShare{Share: 70}), "default=70 by claim"},
		{"a claim on a disk that is gone", "200", "", shares(state.ClaimedShare{Claim: "c", ClaimUID: "1", Device: "d", Disk: "sda", Share: 300}), "default=200 by pod-annotation"},
		{"a claim is not cut by max_weight", "", "pod = 'shop/*'\nmax_weight = 100\n", shares(on("8:0", 300)), "8:0=300 by claim"},
		{"a rule's weight over a claim", "", "pod = 'shop/*'\nweight = 7\n", shares(on("8:0", 300)), "default=7 by rule"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.rules != "" {
				text = "[[rule]]\n" + tt.rules
			}
			config, err := rule.Parse("isolio.toml", []byte(text))
			must.OK(t, err)
			c, group := aPod(1, tt.annotation, tt.given)
			if got := show(t, New(config, nil, []target.Container{c}), group); got != tt.want {
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
	var all []target.Container
	groups := map[string]string{}
	add := func(name, annotation string, given *state.PodClaims) {
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

// A rule's weight is the administrator's word: no claim of another pod cuts it. What claims and
// rules give is not there for other pods, which keep a reserve.
func TestAClaimDoesNotCutARule(t *testing.T) {
	config := rules(t, "pod = 'kube-system/*'\nweight = 500\n")
	for _, tt := range []struct{ claimed, other int }{
		{1000, 50}, // of the reserve of 100, to two pods
		{450, 50},
		{380, 60},
		{300, 100}, // all have what they ask for
	} {
		var all []target.Container
		var groups []string
		for i, given := range []*state.PodClaims{shares(on("8:0", tt.claimed)), nil, nil, nil} {
			c, group := aPod(i, "", given)
			if i == 1 {
				c.Namespace = "kube-system"
			}
			all, groups = append(all, c), append(groups, group)
		}
		m := New(config, nil, all)
		if got, want := show(t, m, groups[0]), fmt.Sprintf("8:0=%d by claim", tt.claimed); got != want {
			t.Errorf("the claim: %s, want %s", got, want)
		}
		if got, want := show(t, m, groups[1]), "default=500 by rule"; got != want {
			t.Errorf("a claim of %d beside it: %s, want %s", tt.claimed, got, want)
		}
		wants, _, err := m.Wants(groups[0], files(nil))
		if told := strings.Contains(wants["8:0"].Why, "claims and rules give 1500 of 1000 shares"); err != nil || told != (tt.claimed == 1000) {
			t.Errorf("a claim of %d: %q, %v", tt.claimed, wants["8:0"].Why, err)
		}
		want := fmt.Sprintf("8:0=%d by cluster-default", tt.other)
		if tt.other == weight.Default {
			want = ""
		}
		if got := show(t, m, groups[2]); got != want {
			t.Errorf("another pod, and a claim of %d: %q, want %q", tt.claimed, got, want)
		}
	}
}

// A claim that was raised for a promise is a claim still.
func TestARaisedClaimIsNotCut(t *testing.T) {
	db, group := aPod(0, "", shares(on("8:0", 300)))
	heavy, _ := aPod(1, "10000", nil)
	m := New(rule.Config{}, nil, []target.Container{db, heavy})
	m.Hold([]state.Boost{{Cgroup: group, Disk: "8:0", Promise: "pod p0", Factor: 1.5, Max: 2, Cause: "disk"}})
	wants, _, err := m.Wants(group, files(map[string]int{group + "/io.kyber.weight": 100}))
	if got := wants["8:0"]; err != nil || got.Weight != 450 || got.By != ByBoost {
		t.Errorf("%+v, %v; want 450", got, err)
	}
}

// rules are one rule.
func rules(t *testing.T, text string) rule.Config {
	t.Helper()
	config, err := rule.Parse("isolio.toml", []byte("[[rule]]\n"+text))
	must.OK(t, err)
	return config
}
