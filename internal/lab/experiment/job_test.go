// SPDX-License-Identifier: MIT

package experiment

import "testing"

func TestParseSize(t *testing.T) {
	tests := []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"512", 512, true},
		{"4k", 4096, true},
		{"4K", 4096, true},
		{"1m", 1 << 20, true},
		{"3g", 3 << 30, true},
		{"2T", 2 << 40, true},
		{"", 0, false},
		{"k", 0, false},
		{"-4k", 0, false},
		{"4kib", 0, false},
		{"4.5k", 0, false},
		{"9223372036854775807", 1<<63 - 1, true},
		{"9223372036854775807k", 0, false},
		{"9223372036854775808", 0, false},
	}
	for _, tt := range tests {
		got, err := parseSize(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("parseSize(%q) = %d, %v; want %d, ok %t", tt.text, got, err, tt.want, tt.ok)
		}
	}
}

func TestFormatSizeIsRead(t *testing.T) {
	for _, n := range []int64{0, 1, 512, 1000, 4096, 64 << 20, 1024 << 40, 1<<40 + 1} {
		got, err := parseSize(formatSize(n))
		if err != nil || got != n {
			t.Errorf("parseSize(formatSize(%d) = %q) = %d, %v", n, formatSize(n), got, err)
		}
	}
}

func TestJobAccessors(t *testing.T) {
	j := Job{"rw": "randrw", "bs": "8k", "iodepth": "16"}
	if got := j.Bytes("bs", 4096); got != 8192 {
		t.Errorf("Bytes(bs) = %d", got)
	}
	if got := j.Bytes("size", 77); got != 77 {
		t.Errorf("Bytes(size) = %d, want the default", got)
	}
	if got := j.Count("iodepth", 1); got != 16 {
		t.Errorf("Count(iodepth) = %d", got)
	}
	if got := j.Count("numjobs", 1); got != 1 {
		t.Errorf("Count(numjobs) = %d, want the default", got)
	}
	for rw, writes := range map[string]bool{"read": false, "randread": false, "write": true, "randwrite": true, "randrw": true, "rw": true} {
		if got := (Job{"rw": rw}).Writes(); got != writes {
			t.Errorf("rw=%s: Writes = %t", rw, got)
		}
	}
}

func TestOverlaidLeavesTheCommonJobAlone(t *testing.T) {
	common := Job{"rw": "read", "bs": "4k"}
	own := common.overlaid(Job{"rw": "write"})
	if own["rw"] != "write" || own["bs"] != "4k" || common["rw"] != "read" {
		t.Errorf("own = %v, common = %v", own, common)
	}
}
