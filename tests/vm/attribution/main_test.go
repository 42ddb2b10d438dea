// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const data = `{"attribution":"a","kernel":"6.1","did":"everything as planned","want":"kept","promised_iops":100,"got_iops":104.4,"depth":3,"plan_depth":2,"found":{"kept":20}}
{"attribution":"a","kernel":"6.1","did":"half the depth","want":"depth","found":{"depth":12,"not demanded":6,"disk":2}}
{"attribution":"a","kernel":"6.1","did":"slow, held","want":"kept","held":true,"promised_iops":100,"got_iops":99,"found":{"kept":18,"disk":2}}
{"attribution":"b","kernel":"6.1","did":"half the depth","want":"depth","found":{"depth":20}}
{"attribution":"b","kernel":"6.1","did":"a few too few","want":"kept","if_missed":"depth","found":{"kept":14,"depth":5,"disk":1}}
`

func TestTables(t *testing.T) {
	var all []found
	for in := json.NewDecoder(strings.NewReader(data)); in.More(); {
		var f found
		if err := in.Decode(&f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	text := tables(all)
	for _, want := range []string{
		"over all disks (a, b)",
		"| no violation | 20 | 0 | 0 | 0 | 0 | 0 | 0 | 100.0 % |",
		"kept, or `depth` | 14 | 0 | 0 | 1 | 0 | 5 | 0 | 95.0 % |",
		"| `depth` | 0 | 6 | 0 | 2 | 0 | 32 | 0 | 95.0 % |",
		"| half the depth | a | 0 | 0 | 0 of 0 | 0 | 6 | 0 | 2 | 0 | 12 | 0 | 90.0 % |\n| half the depth | b |",
		"| slow, held | a | 100 | 99 | 18 | 2 |", "| 104 | 3 of 2 |", "kernel 6.1.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if attribution.Check(&found{}) == nil || attribution.Check(&all[0]) != nil {
		t.Error("a line without a disk is taken, or one with it is not")
	}
}
