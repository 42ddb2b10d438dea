// SPDX-License-Identifier: MIT

package report

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"
)

// A picture has all colours that it names, for a light page and a dark one, as no page
// gives them to a file of its own.
func TestPictureHasItsColours(t *testing.T) {
	got := string(standalone(`<svg class="plot" width="1"><path style="fill:var(--c0)"/><text style="fill:var(--ink)">&amp;</text></svg>`))
	if err := xml.Unmarshal([]byte(got), new(any)); err != nil && !strings.Contains(err.Error(), "unknown type") {
		t.Errorf("no XML: %v\n%s", err, got)
	}
	if !strings.HasPrefix(got, `<svg xmlns="http://www.w3.org/2000/svg" width="1">`) {
		t.Errorf("no SVG file: %.80s", got)
	}
	light, dark, there := strings.Cut(got, "prefers-color-scheme: dark")
	if !there {
		t.Fatal("no colours for the dark")
	}
	named := regexp.MustCompile(`var\((--[a-z0-9]+)\)`).FindAllStringSubmatch(got, -1)
	if len(named) != 3 {
		t.Errorf("it names %q, want the paper and two more", named)
	}
	for _, name := range named {
		for theme, css := range map[string]string{"light": light, "dark": dark} {
			if !strings.Contains(css, name[1]+": #") {
				t.Errorf("%s has no %s", theme, name[1])
			}
		}
	}
}
