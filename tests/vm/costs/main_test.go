// SPDX-License-Identifier: MIT

package main

import "testing"

func TestTable(t *testing.T) {
	const want = "| containers | look at everything | at one a minute | a container that comes | scrape | at one in 15 s | memory at most |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|\n" +
		"| 200 | 150 ms | 0.25 % | 30 ms | 200 ms | 1.3 % | 30 MB |\n" +
		"| 1000 | 600 ms | 1.00 % | 100 ms | 900 ms | 6.0 % | 50 MB |\n"
	if got := table([]cost{{1000, 600, 100, 900, 51200}, {200, 150, 30, 200, 30720}}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if costs.Check(&cost{}) == nil || costs.Check(&cost{Containers: 1}) != nil {
		t.Error("a line without containers is taken, or one with them is not")
	}
}
