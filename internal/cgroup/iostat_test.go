// SPDX-License-Identifier: MIT

package cgroup

import (
	"strings"
	"testing"
)

func TestIOStat(t *testing.T) {
	const mine = "rbytes=8192 wbytes=12288 rios=2 wios=3 dbytes=4096 dios=1"
	want := IOStat{ReadBytes: 8192, WriteBytes: 12288, ReadIOs: 2, WriteIOs: 3}
	tests := []struct {
		name, text string
		want       IOStat
	}{
		{"no request yet", "", IOStat{}},
		{"only others", "8:0 " + mine + "\n252:1 " + mine + "\n1252:0 " + mine + "\n", IOStat{}},
		{"among others", "8:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n252:0 " + mine + "\n259:0 rbytes=9\n", want},
		{"with what io.cost adds", "252:0 " + mine + " cost.vrate=100.00 cost.usage=52304\n", want},
		{"nothing but what io.cost adds", "252:0 cost.usage=0\n", IOStat{}},
		{"a line without counters", "252:0 \n", IOStat{}},
	}
	for _, tt := range tests {
		got, err := fakeTree(t, map[string]string{"x/io.stat": tt.text}).IOStat("x", "252:0")
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestIOStatRefuses(t *testing.T) {
	tree := fakeTree(t, map[string]string{"x/io.stat": "252:0 rbytes=-1\n"})
	if _, err := tree.IOStat("x", "252:0"); err == nil || !strings.Contains(err.Error(), `io.stat: 252:0: "rbytes=-1" is not a number`) {
		t.Errorf("IOStat = %v", err)
	}
	if _, err := tree.IOStat("y", "252:0"); err == nil {
		t.Error("IOStat of a group that is not there")
	}
}
