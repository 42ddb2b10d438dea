// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isolio/internal/host/enable"
	"isolio/internal/host/slo"
	"isolio/internal/host/top"
	"isolio/internal/host/view"
	"isolio/internal/must"
)

// documents are what commands print as JSON, by the heading of docs/json.md.
var documents = map[string]any{
	"isolio status, isolio weight":        view.Status{},
	"isolio explain":                      view.Explanation{},
	"isolio enable, isolio disable":       enable.Report{},
	"isolio top":                          top.Line{},
	"isolio log":                          journalEntry{},
	"isolio doctor, isolio doctor libaps": view.Diagnosis{},
	"isolio sla plan":                     slo.PlanDocument{},
	"isolio sla report":                   slo.Report{},
}

// elsewhere are objects whose keys the page has under another name.
var elsewhere = []string{"status", "write", "grounds"}

// keysOf are the keys of a type as JSON, with those of what is in it: "disks[].name".
func keysOf(t reflect.Type, prefix string) map[string]string {
	keys := map[string]string{}
	for field := range t.Fields() {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if field.Anonymous && tag == "" {
			maps.Copy(keys, keysOf(inner, prefix))
			continue
		}
		if tag == "" || tag == "-" {
			continue
		}
		key := prefix + tag
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				key += "[]"
			}
			inner = inner.Elem()
		}
		if keys[key] = kindOf(inner); keys[key] != "object" || slices.Contains(elsewhere, key) {
			continue
		}
		delete(keys, key)
		maps.Copy(keys, keysOf(inner, key+"."))
	}
	return keys
}

// kindOf is what a value of a type is in JSON.
func kindOf(t reflect.Type) string {
	switch {
	case t.Name() == "Value" && strings.HasSuffix(t.PkgPath(), "/weight"):
		return "weight"
	case t.PkgPath() == "time" && t.Name() == "Time":
		return "text"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Map:
		return "map of " + kindOf(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	}
	return "number"
}

// docs/json.md has each key that a command prints, with its kind, and none that there is
// not: so a key does not go, nor become something else, without a change of the page.
func TestJSONIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/json.md")
	must.OK(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (.+) \\|$")
	for title, document := range documents {
		keys := keysOf(reflect.TypeOf(document), "")
		var missing []string
		for _, found := range row.FindAllStringSubmatch(sections[title], -1) {
			if kind, there := keys[found[1]]; !there || kind != found[2] {
				t.Errorf("%s: the page has %s, %s; it is %q", title, found[1], found[2], kind)
			}
			delete(keys, found[1])
		}
		for key, kind := range keys {
			missing = append(missing, fmt.Sprintf("| `%s` | %s |  |", key, kind))
		}
		slices.Sort(missing)
		if len(missing) > 0 {
			t.Errorf("%s: not on the page:\n%s", title, strings.Join(missing, "\n"))
		}
	}
}
