// SPDX-License-Identifier: MIT

package prose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"

	"go.yaml.in/yaml/v3"
)

// siteOwn are pages that the site makes itself.
var siteOwn = []string{"man/pages.md", "docs/results/gallery.md"}

// navigation returns the pages in a nav of mkdocs: a list of pages, of titles with a page,
// and of titles with a list.
func navigation(n *yaml.Node) []string {
	var pages []string
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue // a title
		}
		pages = append(pages, navigation(child)...)
	}
	return pages
}

// Each document is in the site's list, and what the list names is there. `make site` checks
// the links as well.
func TestSiteHasEachDocument(t *testing.T) {
	var site struct {
		Nav yaml.Node `yaml:"nav"`
	}
	must.OK(t, yaml.Unmarshal([]byte(read(t, "../../packaging/site/mkdocs.yml")), &site))
	pages := navigation(&site.Nav)
	for i, page := range pages {
		if slices.Contains(pages[:i], page) {
			t.Errorf("%s is twice in the list", page)
		}
		if _, err := os.Stat(filepath.Join("../..", page)); err != nil && !slices.Contains(siteOwn, page) {
			t.Errorf("%s: there is no such document", page)
		}
	}
	for _, file := range append(documents(t), "../../README.ko.md") {
		if page := strings.TrimPrefix(file, "../../"); !slices.Contains(pages, page) {
			t.Errorf("%s is not in packaging/site/mkdocs.yml", page)
		}
	}
}

// The same sources make the same site: each package of its tools has one version.
func TestSiteToolsArePinned(t *testing.T) {
	for line := range strings.Lines(read(t, "../../packaging/site/requirements.txt")) {
		if name, version, pinned := strings.Cut(strings.TrimSpace(line), "=="); !strings.HasPrefix(line, "#") && (!pinned || name == "" || version == "") {
			t.Errorf("%q has no version", line)
		}
	}
}
