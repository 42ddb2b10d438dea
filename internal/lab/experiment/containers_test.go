// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"strings"
	"testing"

	"isolio/internal/must"
)

const withWeights = `name = "w"
question = "Who is there?"
schedulers = ["none"]
duration_s = 4
weights = [200, 100]
device = { kind = "null_blk", completion_us = 1000, tags = 32 }

[job]
rw = "randread"

[[container]]
name = "w100"
job.bs = "8k"

[[container]]
name = "other"
weight = 5
cgroup = "a/other"
end_s = 3.5
job = { rw = "randwrite", bs = "64k" }

[[case]]
name = "all"

[[case]]
name = "some"
container = [
  { name = "other", job.bs = "4k" },
  { name = "w200", start_s = 1.0 },
  { name = "new", weight = 1 },
]

[[case]]
name = "its-own"
weights = [30, 200]
container = [{ name = "w200", count = 4 }, { name = "other", weight = 7 }]
`

func told(containers []Container) string {
	var all []string
	for _, t := range containers {
		all = append(all, fmt.Sprintf("%s %d %s x%d %g-%g %s/%s", t.Name, t.Weight, t.Cgroup, t.Members(), t.StartS, t.EndS, t.Job["rw"], t.Job["bs"]))
	}
	return strings.Join(all, "; ")
}

// A table without a weight is a container that is there, changed; one with a weight is new.
func TestContainers(t *testing.T) {
	e, err := Parse("x", []byte(withWeights))
	must.OK(t, err)
	for i, want := range []string{
		"w200 200 w200 x1 0-4 randread/; w100 100 w100 x1 0-4 randread/8k; other 5 a/other x1 0-3.5 randwrite/64k",
		"other 5 a/other x1 0-3.5 randwrite/4k; w200 200 w200 x1 1-4 randread/; new 1 new x1 0-4 randread/",
		"w30 30 w30 x1 0-4 randread/; w200 200 w200 x4 0-4 randread/; other 7 other x1 0-4 randread/",
	} {
		if got := told(e.Cases[i].Containers); got != want {
			t.Errorf("case %s\n got %s\nwant %s", e.Cases[i].Name, got, want)
		}
	}
}

func TestParseRefusesContainers(t *testing.T) {
	refuses(t, withWeights, []struct{ name, old, new, want string }{
		{"weight 0", "[200, 100]", "[0, 100]", "x:5: weights: 0 is out of range; allowed: integers 1..10000"},
		{"weight twice", "[200, 100]", "[100, 100]",
			"x:5: weights: 100 is listed twice; allowed: each weight once: the container's name is made of it"},
		{"a weight of a case", "[30, 200]", "[30, 10001]", "x:35: case.weights: 10001 is out of range; allowed: integers 1..10000"},
		{"a name", "[200, 100]", `["w200"]`, "x:5: weights: has the wrong type; allowed: a list of integers"},
		{"weight and container", "name = \"other\"\nweight = 5", "name = \"w200\"\nweight = 5",
			`x:16: container.name: "w200" is the name of an earlier container; allowed: a name of its own`},
		{"no such container", `{ name = "w200", start_s = 1.0 }`, `{ name = "w300", start_s = 1.0 }`,
			"x:29: case.container.weight: is missing; allowed: an integer 1..10000; or the name of w200, w100, other"},
		{"a container twice", `{ name = "w200", start_s = 1.0 }`, `{ name = "other" }`,
			`x:29: case.container.name: "other" is the name of an earlier container; allowed: a name of its own`},
		{"its own key", "start_s = 1.0", "start_s = 9.0",
			"x:29: case.container.start_s: 9 is out of range; allowed: 0 to below ramp_s + duration_s = 4"},
		// What the case has from the top does not fit it: the message is about the case's table.
		{"the top's key", "name = \"some\"", "name = \"some\"\nduration_s = 3",
			"x:29: case.container.end_s: 3.5 is out of range; allowed: above start_s and ramp_s, at most ramp_s + duration_s = 3"},
	})
	none := strings.Replace(withWeights[:strings.Index(withWeights, "[[container]]")], "weights = [200, 100]\n", "", 1)
	if _, err := Parse("x", []byte(none)); err == nil || err.Error() != "x: container: is missing; allowed: weights, or one [[container]] or more, each with name and weight" {
		t.Errorf("no container: %v", err)
	}
}

// The parents at the top hold the top's containers, not those of a case.
func TestWeightsOfACaseHaveNoParents(t *testing.T) {
	text := strings.Replace(withWeights, "[[case]]", "[[parent]]\ncgroup = \"a\"\nweight = 50\n\n[[case]]", 1)
	text = strings.Replace(text, `container = [{ name = "w200", count = 4 }, { name = "other", weight = 7 }]`, "", 1)
	e, err := Parse("x", []byte(text))
	must.OK(t, err)
	if len(e.Cases[0].Parents) != 1 || len(e.Cases[2].Parents) != 0 {
		t.Errorf("parents %v and %v", e.Cases[0].Parents, e.Cases[2].Parents)
	}
}
