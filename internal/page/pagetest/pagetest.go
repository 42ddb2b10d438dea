// SPDX-License-Identifier: MIT

// Package pagetest reads pages in tests.
package pagetest

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

// open is what HTML does not close.
var open = regexp.MustCompile(`^<!doctype html>|<meta [^<>]*>`)

// Elements are those of a page that package page wrote, in order. The page must be
// well-formed: what is not closed in it is an error.
func Elements(t *testing.T, text string) (all []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(open.ReplaceAllString(text, "")))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}
