// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
)

const severalExpected = `name = "s"
question = "What of each?"
schedulers = ["none", "bfq"]
duration_s = 4
weights = [200, 100]
device = { kind = "null_blk", completion_us = 1000, tags = 32 }
job.rw = "randread"

[[case]]
name = "a"

[[case]]
name = "b"

[[expect]]
cases = ["a", "b"]
scheduler = "bfq"
containers = ["w200", "w100"]
metrics = ["iops", "lat_us.max"]
max = 5

[[expect]]
case = "b"
schedulers = ["none", "bfq"]
metric = "jain_weighted"
min = 0.5
`

func TestExpectOfEach(t *testing.T) {
	e, err := Parse("x", []byte(severalExpected))
	must.OK(t, err)
	var got []string
	for _, x := range e.Expect {
		got = append(got, x.Subject()+" "+x.Wanted())
	}
	want := []string{
		"a: bfq: iops of w200 <= 5", "a: bfq: lat_us.max of reads of w200 <= 5", "a: bfq: iops of w100 <= 5", "a: bfq: lat_us.max of reads of w100 <= 5",
		"b: bfq: iops of w200 <= 5", "b: bfq: lat_us.max of reads of w200 <= 5", "b: bfq: iops of w100 <= 5", "b: bfq: lat_us.max of reads of w100 <= 5",
		"b: none: jain_weighted >= 0.5", "b: bfq: jain_weighted >= 0.5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParseRefusesExpectOfEach(t *testing.T) {
	names := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"n%d"`, i))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	refuses(t, severalExpected, []struct{ name, old, new, want string }{
		{"unknown case", `cases = ["a", "b"]`, `cases = ["a", "c"]`,
			`x:16: expect.case: "c" is not one of the experiment's cases; allowed: a, b`},
		{"unknown container", `["w200", "w100"]`, `["w200", "w1"]`,
			`x:18: expect.container: "w1" is not one of the experiment's containers; allowed: w200, w100`},
		{"unknown scheduler", `schedulers = ["none", "bfq"]` + "\nmetric", `schedulers = ["none", "cfq"]` + "\nmetric",
			`x:24: expect.scheduler: "cfq" is not one of the experiment's schedulers; allowed: none, bfq`},
		{"unknown metric", `"lat_us.max"`, `"lat_us.most"`,
			`x:19: expect.metric: "most" is not a statistic of latencies; allowed: ` + strings.Join(LatencyStatistics(), ", ")},
		{"empty", `["w200", "w100"]`, `[]`, "x:18: expect.containers: is empty; allowed: one or more, or leave it out"},
		{"twice", `["w200", "w100"]`, `["w200", "w200"]`, `x:18: expect.containers: "w200" is listed twice; allowed: each once`},
		{"one and several", `scheduler = "bfq"`, "scheduler = \"bfq\"\ncase = \"a\"", "x:18: expect.case: does not go with cases; allowed: one or the other"},
		{"too many", `["iops", "lat_us.max"]`, names(26), "x:19: expect.metrics: makes 104 expectations of one; allowed: up to 100"},
	})
}
