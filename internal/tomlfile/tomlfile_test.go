// SPDX-License-Identifier: MIT

package tomlfile

import (
	"testing"

	"isolio/internal/failure"
)

func TestDecode(t *testing.T) {
	type rule struct {
		Name   *string `toml:"name"`
		Weight *int64  `toml:"weight"`
	}
	type file struct {
		Listen *string          `toml:"listen"`
		Rule   []rule           `toml:"rule"`
		Class  map[string]rule  `toml:"class"`
		Disk   []map[string]any `toml:"disk"`
	}
	for text, want := range map[string]string{
		"listen = 'x'\n[[rule]]\nweight = 5\n": "",
		"\nlissen = 'x'\n":                     "f.toml:2: lissen: unknown key; allowed: listen, rule, class, disk",
		"[[rule]]\n\nwheight = 5\n":            "f.toml:3: rule.wheight: unknown key; allowed: name, weight",
		"[[rule]]\nweight = 'five'\n":          "f.toml:2: rule.weight: has the wrong type; allowed: an integer",
		"listen = \n":                          "f.toml:1: ",
		"[class.gold]\nweight = 5\n":           "",
		"[class.gold]\nwheight = 5\n":          "f.toml:2: class.gold.wheight: unknown key; allowed: name, weight",
		"[class.gold]\nweight = 'five'\n":      "f.toml:2: class.gold.weight: has the wrong type; allowed: an integer",
		"class = 5\n":                          "f.toml:1: class: has the wrong type; allowed: a table",
		"disk = 5\n":                           "f.toml:1: disk: has the wrong type; allowed: a list of tables: [[disk]]",
		"rule = 5\n":                           "f.toml:1: rule: has the wrong type; allowed: a list of tables: [[rule]]",
		"[rule]\na = 5\n[rule]\n":              "f.toml:3: rule: has the wrong type; allowed: a list of tables: [[rule]]",
	} {
		var f file
		err := Decode("f.toml", []byte(text), &f)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || err.Error()[:min(len(want), len(err.Error()))] != want || failure.Code(err) != failure.Usage):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestLines(t *testing.T) {
	lines := Lines([]byte("listen = 'x'\n\n[[rule]]\nname = 'a'\n[[rule]]\nweight = 5\nlist = [\n1,\n2]\n"))
	for key, want := range map[string]int{"listen": 1, "rule[0].name": 4, "rule[1]": 5, "rule[1].weight": 6, "rule[1].list[1]": 9} {
		if lines[key] != want {
			t.Errorf("%s is on line %d, want %d", key, lines[key], want)
		}
	}
}
