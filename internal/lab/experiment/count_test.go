// SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"slices"
	"testing"

	"isolio/internal/must"
)

const severalOfOne = `name = "p"
question = "How many?"
schedulers = ["bfq"]
duration_s = 3.5
[device]
kind = "null_blk"
completion_us = 0
tags = 32
[job]
rw = "randread"
[[container]]
name = "many"
weight = 100
count = 3
[[container]]
name = "one"
weight = 100
`

func TestParseCount(t *testing.T) {
	e, err := Parse("x", []byte(severalOfOne))
	must.OK(t, err)
	k := &e.Cases[0]
	many, one := &k.Containers[0], &k.Containers[1]
	if got, want := many.MemberCgroups(), []string{"many-0000", "many-0001", "many-0002"}; many.Members() != 3 || !slices.Equal(got, want) {
		t.Errorf("%d members %q, want %q", many.Members(), got, want)
	}
	if got := one.MemberCgroups(); one.Members() != 1 || !slices.Equal(got, []string{"one"}) {
		t.Errorf("%d members %q, want one", one.Members(), got)
	}
	if got := k.Entitled(); math.Abs(got[0]-0.75) > 1e-12 || math.Abs(got[1]-0.25) > 1e-12 {
		t.Errorf("entitled %v, want 3/4 and 1/4", got)
	}
}

func TestParseRefusesCount(t *testing.T) {
	refuses(t, severalOfOne, []struct{ name, old, new, want string }{
		{"none", "count = 3", "count = 0", "x:14: container.count: 0 is out of range; allowed: an integer 1..4096"},
		{"too many", "count = 3", "count = 4097", "x:14: container.count: 4097 is out of range; allowed: an integer 1..4096"},
		{"long name", `"many"`, `"a23456789012345678901234567890123456789012345678901234567890"`,
			`x:12: container.name: "a23456789012345678901234567890123456789012345678901234567890" is too long for several containers; allowed: up to 59 characters`},
		{"more processes than a fio starts", "count = 3", "count = 3000\njob.numjobs = 2",
			"x:14: container.count: 6000 processes are too many for one fio; allowed: count times numjobs up to 4096"},
	})
	refuses(t, "sample_ms = 5\n"+severalOfOne, []struct{ name, old, new, want string }{
		{"too many to sample", "count = 3", "count = 64",
			"x:1: sample_ms: 65 containers are too many to read so often; allowed: up to 64 containers"},
	})
}
