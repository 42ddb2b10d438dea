// SPDX-License-Identifier: MIT

package cgroup

import (
	"os"
	"strings"
	"testing"

	"isolio/internal/failure"
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

// One reader tells what the counters are at each reading, whatever their length.
func TestIOStatReaderReadsAgain(t *testing.T) {
	tree := fakeTree(t, map[string]string{"x/io.stat": "252:0 rbytes=4096 rios=1\n"})
	r, err := tree.OpenIOStat("x", "252:0")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tt := range []struct {
		text string
		want IOStat
	}{
		{"252:0 rbytes=4096 rios=1\n", IOStat{ReadBytes: 4096, ReadIOs: 1}},
		{"252:0 rbytes=12288 rios=3\n", IOStat{ReadBytes: 12288, ReadIOs: 3}},
		{strings.Repeat("8:16 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n", 400) + "252:0 rbytes=16384 rios=4\n", IOStat{ReadBytes: 16384, ReadIOs: 4}},
	} {
		if err := os.WriteFile(tree.Path("x", "io.stat"), []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read(); err != nil || got != tt.want {
			t.Errorf("%d bytes: %+v, %v, want %+v", len(tt.text), got, err, tt.want)
		}
	}
}

func TestFreeze(t *testing.T) {
	tree := fakeTree(t, map[string]string{"x/cgroup.freeze": "0\n", "y/io.stat": ""})
	for on, want := range map[bool]string{true: "1\n", false: "0\n"} {
		if err := tree.Freeze("x", on); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(tree.Path("x", "cgroup.freeze")); err != nil || string(got) != want {
			t.Errorf("Freeze(%t) wrote %q, %v", on, got, err)
		}
	}
	if err := tree.Freeze("y", true); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "Linux 5.2 or newer") {
		t.Errorf("a kernel without the file: %v", err)
	}
}
