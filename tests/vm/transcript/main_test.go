// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestFilled(t *testing.T) {
	const page = "# A\n<!-- step: enable -->\nold\n<!-- end of step -->\ntext\n<!-- step: left -->\n<!-- end of step -->\n"
	steps := map[string]step{"enable": {"enable", "sudo isolio enable x", "x: scheduler\n\nmore  \n"}, "left": {"left", "ls", ""}}
	got, err := filled(page, steps)
	if err != nil {
		t.Fatal(err)
	}
	const want = "# A\n<!-- step: enable -->\n\n    $ sudo isolio enable x\n    x: scheduler\n\n    more\n\n<!-- end of step -->\ntext\n" +
		"<!-- step: left -->\n\n    $ ls\n\n<!-- end of step -->\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := filled(got, steps); err != nil || again != got {
		t.Errorf("filled again: %v\n%s", err, again)
	}
	delete(steps, "left")
	steps["other"] = step{Step: "other"}
	if _, err := filled(page, steps); err == nil || !strings.Contains(err.Error(), `no step "left" among the data`) || !strings.Contains(err.Error(), `no place for the step "other"`) {
		t.Errorf("with another step: %v", err)
	}
}

// Each page has a place for each step of its test, which sends no other one.
func TestThePagesHaveAllSteps(t *testing.T) {
	for _, c := range []struct{ page, test string }{{"first-hour.md", "firsthour_test.go"}, {"promises-podman.md", "podman_test.go"}} {
		test, err := os.ReadFile("../" + c.test)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(c.page)
		if err != nil {
			t.Fatal(err)
		}
		steps := map[string]step{}
		for _, m := range regexp.MustCompile(`h\.(?:step|refused)\("([a-z ]+)"`).FindAllStringSubmatch(string(test), -1) {
			steps[m[1]] = step{Step: m[1]}
		}
		for name := range here {
			if strings.Contains(string(page), begin(name)) {
				steps[name] = step{Step: name}
			}
		}
		if _, err := filled(string(page), steps); err != nil || len(steps) < 10 {
			t.Errorf("%s: %d steps: %v", c.page, len(steps), err)
		}
	}
}
