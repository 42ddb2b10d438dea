// SPDX-License-Identifier: MIT

package policy

import (
	"reflect"
	"testing"

	"isolio/internal/host/state"
	"isolio/internal/host/weight"
)

func TestDecide(t *testing.T) {
	dflt := func(n weight.Value) weight.Values { return weight.Values{Default: n} }
	all := func(n weight.Value) map[string]weight.Value { return map[string]weight.Value{EveryDisk: n} }
	marked := func(to, before weight.Value) state.Applied {
		return state.Applied{EveryDisk: {Weight: to, Before: before}}
	}
	one := func(n weight.Value) []Change { return []Change{{EveryDisk, n}} }
	const disk = "259:0"
	for _, tt := range []struct {
		name    string
		want    map[string]weight.Value
		have    weight.Values
		last    state.Applied
		changes []Change
		next    state.Applied
	}{
		{"no weight is asked for", nil, dflt(100), nil, nil, state.Applied{}},
		{"no weight is asked for, set by hand", nil, dflt(300), nil, nil, state.Applied{}},
		{"asked", all(500), dflt(100), nil, one(500), marked(500, 100)},
		{"asked and there", all(500), dflt(500), marked(500, 100), nil, marked(500, 500)},
		{"asked for the default", all(100), dflt(100), nil, nil, marked(100, 100)},
		{"killed between mark and weight", all(500), dflt(100), marked(500, 100), one(500), marked(500, 100)},
		{"asked anew", all(700), dflt(500), marked(500, 500), one(700), marked(700, 500)},
		{"killed there", all(700), dflt(500), marked(700, 500), one(700), marked(700, 500)},
		{"the module was loaded again", all(500), dflt(100), marked(500, 500), one(500), marked(500, 100)},
		{"set by hand before", all(500), dflt(300), nil, nil, marked(500, 500)},
		{"still", all(500), dflt(300), marked(500, 500), nil, marked(500, 500)},
		{"asked anew, over what was set by hand", all(600), dflt(300), marked(500, 500), one(600), marked(600, 300)},
		{"overridden", all(500), dflt(42), marked(500, 100), nil, marked(500, 100)},
		{"no weight is asked for any more", nil, dflt(500), marked(500, 100), one(0), marked(0, 500)},
		{"killed there too", nil, dflt(500), marked(0, 500), one(0), marked(0, 500)},
		{"taken back", nil, dflt(100), marked(0, 500), nil, state.Applied{}},
		{"no weight is asked for any more, overridden", nil, dflt(42), marked(500, 500), nil, state.Applied{}},
		{"asked for the sum", all(weight.Sum), dflt(100), nil, one(weight.Sum), marked(weight.Sum, 100)},
		{"the sum is there", all(weight.Sum), dflt(weight.Sum), marked(weight.Sum, 100), nil, marked(weight.Sum, weight.Sum)},
		{"the sum, overridden", all(weight.Sum), dflt(300), marked(weight.Sum, weight.Sum), nil, marked(weight.Sum, weight.Sum)},
		{"overridden with the sum", all(500), dflt(weight.Sum), marked(500, 500), nil, marked(500, 500)},
		{"no weight is asked for for the sum any more", nil, dflt(weight.Sum), marked(weight.Sum, 100), one(0), marked(0, weight.Sum)},
		{"one disk", map[string]weight.Value{disk: 900}, dflt(100), nil, []Change{{disk, 900}}, state.Applied{disk: {Weight: 900}}},
		{"one disk, no more", nil, weight.Values{Default: 100, Devices: map[string]weight.Value{disk: 900}}, state.Applied{disk: {Weight: 900}},
			[]Change{{disk, 0}}, state.Applied{disk: {Before: 900}}},
		{"one disk, by hand", nil, weight.Values{Default: 100, Devices: map[string]weight.Value{disk: 7}}, state.Applied{disk: {Weight: 900}}, nil, state.Applied{}},
		{"one disk, asked for the default", map[string]weight.Value{disk: 100}, dflt(100), nil, []Change{{disk, 100}}, state.Applied{disk: {Weight: 100}}},
	} {
		wants := map[string]Want{}
		for disk, n := range tt.want {
			wants[disk] = Want{Weight: n}
		}
		changes, next := Decide(wants, tt.have, tt.last)
		if !reflect.DeepEqual(changes, tt.changes) || !reflect.DeepEqual(next, tt.next) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, changes, next, tt.changes, tt.next)
		}
	}
}

// A weight is compared with siblings', and where the parent weighs what its children do,
// with the parent's.
func TestAmong(t *testing.T) {
	groups := []string{"sums", "sums/class", "sums/class/pod", "number", "number/class", "number/class/pod", "number/class/pod/one", "top"}
	read := func(group, file string) (weight.Values, bool, error) {
		v, there := map[string]weight.Values{
			"sums": {Default: weight.Sum}, "sums/class": {Default: 100, Devices: map[string]weight.Value{"8:0": weight.Sum}},
			"number": {Default: 100}, "number/class": {Default: weight.Sum}, "number/class/pod": {Default: weight.Sum},
		}[group]
		return v, there && file == "io.kyber.weight", nil
	}
	for _, tt := range []struct {
		group string
		by    weight.Mechanism
		in    string
		want  bool
	}{
		{"top", weight.Kyber, ".", true},
		{"sums/class/pod", weight.Kyber, ".", true},
		{"sums/class/pod", weight.BFQ, "sums/class", false},
		{"number/class/pod/one", weight.Kyber, "number", false},
		{"number/class", weight.Kyber, "number", false},
	} {
		if in, others := ComparedIn(groups, tt.group, tt.by, read); in != tt.in || others != tt.want {
			t.Errorf("%s, %s: %s, %v; want %s, %v", tt.group, tt.by, in, others, tt.in, tt.want)
		}
	}
	if in, others := ComparedIn(append(groups, "number/beside"), "number/class/pod/one", weight.Kyber, read); in != "number" || !others {
		t.Errorf("with one beside its parent's parent: %s, %v", in, others)
	}
}

// What decided a weight is told in few words.
func TestShort(t *testing.T) {
	want := &Want{Weight: 700, Why: "rule 1"}
	for text, g := range map[string]Reasons{
		"-": {State: Default}, "by hand": {State: ByHand}, "rule 1": {State: InEffect, Want: want}, "rule 1, not yet": {State: Pending, Want: want},
		"by hand, over rule 1": {State: Overridden, Want: want}, "left by the daemon": {State: Leftover},
	} {
		if got := g.Short(); got != text {
			t.Errorf("%s: %q, want %q", g.State, got, text)
		}
	}
}
