// SPDX-License-Identifier: MIT

// Command layout draws the packages of cmd/ and internal/ and which imports which, as an
// SVG file that is light or dark as its reader's page is. An import that follows from
// others is left out: where a imports b and b imports c, an arrow from a to c says nothing
// more. It is run where cmd/ and internal/ are.
package main

import (
	"bytes"
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-graphviz"
)

const module = "isolio/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: layout FILE.svg")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "layout:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	svg, err := picture(".")
	if err != nil {
		return err
	}
	return os.WriteFile(file, svg, 0o644)
}

// picture is the drawing of the tree at root.
func picture(root string) ([]byte, error) {
	imports, err := read(root)
	if err != nil {
		return nil, err
	}
	return draw(dot(reduced(imports)))
}

// graph are packages by their paths below the module, each with those that it imports.
type graph map[string]map[string]bool

// read finds the packages below root, and their imports of each other. What only tests
// import is left out.
func read(root string) (graph, error) {
	imports := graph{}
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if imports[name] == nil {
				imports[name] = map[string]bool{}
			}
			for _, spec := range source.Imports {
				of, err := strconv.Unquote(spec.Path.Value)
				if own, ours := strings.CutPrefix(of, module); err == nil && ours {
					imports[name][own] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	// What no program is made of helps tests.
	used := map[string]bool{}
	for name := range imports {
		if strings.HasPrefix(name, "cmd/") {
			imports.reach(name, used)
		}
	}
	maps.DeleteFunc(imports, func(name string, _ map[string]bool) bool { return !used[name] })
	return imports, nil
}

// reach adds a package and all that it imports, and they import, to seen.
func (g graph) reach(name string, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for of := range g[name] {
		g.reach(of, seen)
	}
}

// reduced is the graph without imports that follow from others.
func reduced(g graph) graph {
	least := graph{}
	for name, imports := range g {
		further := map[string]bool{}
		for of := range imports {
			for next := range g[of] {
				g.reach(next, further)
			}
		}
		least[name] = maps.Clone(imports)
		maps.DeleteFunc(least[name], func(of string, _ bool) bool { return further[of] })
	}
	return least
}

// wing is a part of the tree that is drawn as a box around its packages.
type wing struct{ dir, title, colour string }

var wings = []wing{
	{"cmd/", "cmd: the programs", "--ink"},
	{"internal/host/", "internal/host: what runs on a host", "--host"},
	{"internal/lab", "internal/lab: what measures", "--lab"},
	{"internal/", "internal: common ground", "--muted"},
}

// room keeps a title away from its box: Graphviz, which knows no fonts here, takes text for
// narrower than it is.
const room = "&nbsp;"

// wingOf is the wing that a package is in: the first that it lies in.
func wingOf(name string) int {
	return slices.IndexFunc(wings, func(w wing) bool { return strings.HasPrefix(name, w.dir) })
}

// colours are those of the drawing, on a light page and in the dark. Graphviz draws with
// the light ones, and they become variables afterwards.
var colours = []struct{ name, light, dark string }{
	{"--paper", "#ffffff", "#14171b"},
	{"--ink", "#1b1f24", "#e6e9ed"},
	{"--muted", "#5b636d", "#9aa4b0"},
	{"--arrow", "#8792a2", "#76828f"},
	{"--wash", "#f4f6f8", "#1c2126"},
	{"--host", "#0072b2", "#4ba3e0"},
	{"--lab", "#b84300", "#e8703a"},
}

func light(name string) string {
	for _, c := range colours {
		if c.name == name {
			return c.light
		}
	}
	panic("no colour " + name)
}

// dot describes the drawing to Graphviz.
func dot(g graph) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph layout {\n\trankdir=LR; ranksep=0.45; nodesep=0.09; bgcolor=%q; fontname=\"Helvetica,Arial,sans-serif\"; fontsize=13;\n", light("--paper"))
	fmt.Fprintf(&b, "\tnode [shape=box, style=filled, fillcolor=%q, fontname=\"Helvetica,Arial,sans-serif\", fontsize=12, height=0.28, margin=\"0.09,0.03\", fontcolor=%q];\n", light("--paper"), light("--ink"))
	fmt.Fprintf(&b, "\tedge [color=%q, arrowsize=0.55];\n", light("--arrow"))
	names := slices.Sorted(maps.Keys(g))
	for i, w := range wings {
		fmt.Fprintf(&b, "\tsubgraph cluster_%d {\n\t\tlabel=%q; labeljust=l; fontcolor=%q; color=%q; bgcolor=%q;\n", i, room+w.title+room, light(w.colour), light(w.colour), light("--wash"))
		for _, name := range names {
			if wingOf(name) == i {
				fmt.Fprintf(&b, "\t\t%q [label=%q, color=%q];\n", name, label(name, w), light(w.colour))
			}
		}
		b.WriteString("\t}\n")
	}
	for _, name := range names {
		for _, of := range slices.Sorted(maps.Keys(g[name])) {
			fmt.Fprintf(&b, "\t%q -> %q;\n", name, of)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// label is a package's name in its wing.
func label(name string, w wing) string {
	short := strings.TrimPrefix(strings.TrimPrefix(name, w.dir), "/")
	if short == "" {
		return path.Base(name)
	}
	return short
}

// draw has Graphviz lay out the drawing, and makes its colours those of the page.
func draw(text string) ([]byte, error) {
	ctx := context.Background()
	g, err := graphviz.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("graphviz: %w", err)
	}
	defer g.Close()
	parsed, err := graphviz.ParseBytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("graphviz: %w", err)
	}
	var out bytes.Buffer
	if err := g.Render(ctx, parsed, graphviz.SVG, &out); err != nil {
		return nil, fmt.Errorf("graphviz: %w", err)
	}
	_, svg, there := strings.Cut(out.String(), "<svg")
	if !there {
		return nil, fmt.Errorf("graphviz: no drawing: %q", out.String())
	}
	var onPaper, inTheDark strings.Builder
	for _, c := range colours {
		fmt.Fprintf(&onPaper, " %s: %s;", c.name, c.light)
		fmt.Fprintf(&inTheDark, " %s: %s;", c.name, c.dark)
		svg = strings.ReplaceAll(svg, `"`+c.light+`"`, `"var(`+c.name+`)"`)
	}
	root, rest, _ := strings.Cut(svg, ">")
	style := fmt.Sprintf("\n<style>\n:root {%s }\n@media screen and (prefers-color-scheme: dark) { :root {%s } }\n</style>", onPaper.String(), inTheDark.String())
	return []byte("<svg role=\"img\" aria-label=\"The packages, and which imports which\"" + root + ">" + style + rest), nil
}
