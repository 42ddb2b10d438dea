// SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"testing"
)

const nestedCgroups = `name = "p"
question = "How soon?"
schedulers = ["bfq"]
duration_s = 3.5
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "a1"
weight = 100
cgroup = "a/1"
[[container]]
name = "a2"
weight = 300
cgroup = "a/2"
[[container]]
name = "b"
weight = 100
[[parent]]
cgroup = "a"
weight = 200
`

func TestEntitled(t *testing.T) {
	for _, tt := range []struct {
		name, more string
		want       []float64
	}{
		{"nested", "", []float64{1.0 / 6, 1.0 / 2, 1.0 / 3}},
		{"flat", "[[case]]\nname = \"flat\"\n[[case.container]]\nname = \"x\"\nweight = 1\n[[case.container]]\nname = \"y\"\nweight = 3\n" +
			"[[case.container]]\nname = \"a\"\nweight = 4\ncgroup = \"a/b\"\n[[case.parent]]\ncgroup = \"a\"\nweight = 16\n",
			[]float64{0.05, 0.15, 0.8}},
		{"deep, one parent without a weight",
			"[[case]]\nname = \"deep\"\n[[case.container]]\nname = \"x\"\nweight = 1\ncgroup = \"a/b/c\"\n[[case.container]]\nname = \"y\"\nweight = 1\ncgroup = \"a/b/d\"\n" +
				"[[case.container]]\nname = \"z\"\nweight = 300\ncgroup = \"a/e\"\n", []float64{0.125, 0.125, 0.75}},
	} {
		e, err := Parse("x", []byte(nestedCgroups+tt.more))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := e.Cases[0].Entitled()
		for i := range tt.want {
			if math.Abs(got[i]-tt.want[i]) > 1e-12 {
				t.Errorf("%s: entitled %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestParseRefusesParents(t *testing.T) {
	refuses(t, nestedCgroups, []struct{ name, old, new, want string }{
		{"of nobody", `cgroup = "a"`, `cgroup = "b"`,
			`x:23: parent.cgroup: "b" holds no container's cgroup; allowed: a container with cgroup = "PARENT/NAME"`},
		{"twice", "[[parent]]\n", "[[parent]]\ncgroup = \"a\"\nweight = 1\n[[parent]]\n",
			`x:26: parent.cgroup: "a" is the cgroup of an earlier parent; allowed: each once`},
		{"weight", "weight = 200", "weight = 0", "x:24: parent.weight: 0 is out of range; allowed: an integer 1..10000"},
		{"no weight", "weight = 200\n", "", "x:22: parent.weight: is missing; allowed: an integer 1..10000"},
	})
}
