// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestSlowest(t *testing.T) {
	var out bytes.Buffer
	watches := []stopwatch{{out: &out}, {out: &out}}
	lines := []string{
		"=== RUN   TestA\n", "=== RUN   TestA/part\n", "--- PASS: TestA (7.00s)\n",
		"=== RUN   TestB\n", "--- SKIP: TestB (0.00s)\n",
	}
	for i, line := range lines {
		if n, err := watches[0].Write([]byte(line)); err != nil || n != len(line) {
			t.Errorf("line %d: %d, %v", i, n, err)
		}
	}
	watches[1].tests = []timed{{"TestC", 3 * time.Second}}
	if got := slowest(watches); got != "TestC 3 s, TestA 0 s" {
		t.Errorf("slowest: %q", got)
	}
	if got := out.String(); got != strings.Join(lines, "") {
		t.Errorf("passed on: %q", got)
	}
}

func TestSkippedTests(t *testing.T) {
	told := []transcript{{printed: "--- PASS: TestA (1.00s)\n    --- SKIP: TestA/b (0.00s)\n--- SKIP: TestB (0.00s)\n"}, {printed: "--- SKIP: TestC (0.00s)\n"}}
	if got := skippedTests(told); len(got) != 2 || got[0] != "TestB" || got[1] != "TestC" {
		t.Errorf("left out: %q", got)
	}
}
