// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var anyShade = regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`)

// themes are the stylesheet's colours by their roles: on paper, and on a dark screen.
func themes(t *testing.T) map[string]map[string]string {
	t.Helper()
	light, rest, _ := strings.Cut(pageCSS, "}")
	dark, _, _ := strings.Cut(rest, "}")
	all := map[string]map[string]string{"light": {}, "dark": {}}
	for name, css := range map[string]string{"light": light, "dark": dark} {
		for _, s := range anyShade.FindAllStringSubmatch(css, -1) {
			all[name][s[1]] = s[2]
		}
	}
	return all
}

// luminance is relative luminance as WCAG 2 defines it.
func luminance(t *testing.T, shade string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(shade, "#"), 16, 32)
	if err != nil {
		t.Fatalf("%q is no colour", shade)
	}
	channel := func(c uint64) float64 {
		v := float64(c&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(n>>16) + 0.7152*channel(n>>8) + 0.0722*channel(n)
}

// Text can be read in either theme: what WCAG 2 asks for text, and for what is drawn.
func TestContrast(t *testing.T) {
	for theme, shades := range themes(t) {
		atLeast := func(least float64, above, below string) {
			t.Helper()
			a, b := luminance(t, shades[above]), luminance(t, shades[below])
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", theme, above, below, got, least)
			}
		}
		for _, role := range []string{"ink", "muted"} {
			atLeast(4.5, role, "paper")
		}
		atLeast(4.5, "ink", "wash")
		for i := range nColours {
			atLeast(4.5, fmt.Sprintf("t%d", i), fmt.Sprintf("c%d", i))
			atLeast(2.5, fmt.Sprintf("c%d", i), "paper")
		}
		atLeast(3, "plain", "paper")
	}
}
