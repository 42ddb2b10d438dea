// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"
)

func TestFilled(t *testing.T) {
	text := "before\n" + begins + "old\n" + ends + "after\n"
	got, err := filled(text, []cost{{1000, 600, 100, 900, 51200}, {200, 150, 30, 200, 30720}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n<!-- costs", "| 200 | 150 ms | 0.25 % | 30 ms | 200 ms | 1.3 % | 30 MB |\n| 1000 | 600 ms | 1.00 %", ends + "after\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Errorf("the old table is there still:\n%s", got)
	}
	if _, err := filled("no marks", []cost{{1, 1, 1, 1, 1}}); err == nil || !strings.Contains(err.Error(), "has not both marks") {
		t.Errorf("without marks: %v", err)
	}
	if _, err := filled(text, nil); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("without data: %v", err)
	}
}
