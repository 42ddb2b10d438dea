// SPDX-License-Identifier: MIT

package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// notAnchor is what GitHub leaves out of a heading for its anchor.
var notAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

// linksAndAnchors are the destinations of a document's links and pictures, and the anchors of its headings.
func linksAndAnchors(source []byte) (links, anchors []string) {
	document := goldmark.New().Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			links = append(links, string(n.Destination))
		case *ast.Image:
			links = append(links, string(n.Destination))
		case *ast.Heading:
			var heading strings.Builder
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				heading.Write(line.Value(source))
			}
			anchor := notAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading.String())), "")
			anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
		}
		return ast.WalkContinue, nil
	})
	return links, anchors
}

// A link leads to a file of the tree, and to a heading that is there.
func TestLinks(t *testing.T) {
	all := append(documents(t), "../../README.ko.md")
	checked := 0
	for _, file := range all {
		links, own := linksAndAnchors([]byte(read(t, file)))
		for _, link := range links {
			if strings.Contains(link, "://") {
				continue
			}
			checked++
			path, anchor, hasAnchor := strings.Cut(link, "#")
			anchors := own
			if path != "" {
				path = filepath.Join(filepath.Dir(file), path)
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %s: there is no such file", file, link)
					continue
				}
				if filepath.Ext(path) == ".md" {
					_, anchors = linksAndAnchors([]byte(read(t, path)))
				}
			}
			if hasAnchor && !slices.Contains(anchors, anchor) {
				t.Errorf("%s: %s: there is no such heading", file, link)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d links: the documents have more", checked)
	}
}

func TestLinksAndAnchors(t *testing.T) {
	links, anchors := linksAndAnchors([]byte("# What's `a_b` for?\n\n[x](y.md#z) ![p](q.svg)\n\n    [code](no.md)\n"))
	if want := []string{"y.md#z", "q.svg"}; !slices.Equal(links, want) {
		t.Errorf("links %q, want %q", links, want)
	}
	if want := []string{"whats-a_b-for"}; !slices.Equal(anchors, want) {
		t.Errorf("anchors %q, want %q", anchors, want)
	}
}
