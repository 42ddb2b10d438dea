// SPDX-License-Identifier: MIT

package main

import (
	"slices"
	"strings"
	"testing"

	"isolio/tests/hostile/script"
)

func TestRead(t *testing.T) {
	got := read(strings.NewReader("=== kernel 6.1\nHOSTILE progress switch=3 cpu=1\nHOSTILE progress switch=9 cpu=2\n" +
		"HOSTILE FAIL something takes 61s\nvm tests: lab: the guest ended before its payload did\n"))
	if got.signature != "something takes Ns" || got.progress["switch"] != 9 || got.progress["cpu"] != 2 {
		t.Errorf("%+v", got)
	}
	a := read(strings.NewReader("vm tests: lab: the guest's kernel complained: [   97.78] BUG: unable to handle page fault for address: ffffc90000013db8\n"))
	b := read(strings.NewReader("vm tests: lab: the guest's kernel complained: [    3.10] BUG: unable to handle page fault for address: ffffc900a0013de0\n"))
	if a.signature != b.signature || !strings.Contains(a.signature, "BUG: unable to handle page fault") {
		t.Errorf("%q and %q", a.signature, b.signature)
	}
}

// A failure that takes two kinds and 40 of 100 operations is found.
func TestShorten(t *testing.T) {
	whole := script.Choice{Cuts: map[string]int{"switch": 100, "cpu": 10}}
	tries := 0
	got := fewerKinds(whole, func(try script.Choice) bool {
		tries++
		return !slices.Contains(try.Without, "removal") && !slices.Contains(try.Without, "switch")
	})
	left := slices.DeleteFunc(script.Kinds(), func(kind string) bool { return slices.Contains(got.Without, kind) })
	if !slices.Equal(left, []string{"removal", "switch"}) || tries > 40 {
		t.Errorf("%v is left after %d tries", left, tries)
	}
	got = fewerOperations(whole, func(try script.Choice) bool { return try.Cuts["switch"] >= 40 })
	if got.Cuts["switch"] < 40 || got.Cuts["switch"] > 46 {
		t.Errorf("cut to %v", got.Cuts)
	}
}

func TestComplete(t *testing.T) {
	for _, tt := range []struct{ without, cuts, refuse string }{
		{"switch,cpu", "switch=3", ""}, {"nothing", "", "nothing is no kind of operation"}, {"", "switch", "HOSTILE_CUTS: switch"},
	} {
		c := script.Choice{Seconds: 10}
		err := complete(&c, tt.without, tt.cuts)
		if tt.refuse == "" && (err != nil || c.Seed == 0) || tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
