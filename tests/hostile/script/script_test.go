// SPDX-License-Identifier: MIT

package script

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func take(a Actor, seed uint64, n int) (list []Op) {
	for ops := a.Ops(seed); len(list) < n; {
		list = append(list, ops.Next())
	}
	return list
}

func TestOpsRepeat(t *testing.T) {
	seen := map[string]bool{}
	for _, actor := range Actors {
		list := take(actor, 7, 500)
		if !slices.Equal(list, take(actor, 7, 500)) {
			t.Errorf("%s: a seed gives two lists", actor.Name)
		}
		if slices.Equal(list, take(actor, 8, 500)) {
			t.Errorf("%s: two seeds give one list", actor.Name)
		}
		for _, op := range list {
			seen[op.Kind] = true
		}
	}
	for _, kind := range Kinds() {
		if !seen[kind] {
			t.Errorf("%s: not in the first 500 operations of any actor", kind)
		}
	}
}

func TestChoice(t *testing.T) {
	want := Choice{Seed: 1<<64 - 1, Seconds: 900, Without: []string{"cpu", "removal"}, Cuts: map[string]int{"switch": 12, "group": 0}}
	env := map[string]string{}
	for _, line := range want.Environment() {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	got, err := FromEnvironment(func(name string) string { return env[name] })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	for _, tt := range []struct {
		actor string
		index int
		kind  string
		runs  bool
	}{
		{"switch", 11, "switch", true}, {"switch", 12, "switch", false}, {"group", 0, "make", false},
		{"cpu", 0, "cpu", false}, {"read", 1000, "poke", true},
	} {
		if got := tt.runs; got != want.Runs(tt.actor, tt.index, tt.kind) {
			t.Errorf("%s, %d, %s: runs %t, want %t", tt.actor, tt.index, tt.kind, !got, got)
		}
	}
	env["HOSTILE_CUTS"] = "switch=x"
	if _, err := FromEnvironment(func(name string) string { return env[name] }); err == nil {
		t.Error("a cut that is no number is taken")
	}
}
