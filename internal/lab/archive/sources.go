// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
)

// part is something that a result depends on besides the experiment and the modules, and
// the sources that it is made of.
type part struct {
	name string
	// dirs are directories with all below them, and files.
	dirs []string
	// has says of a file there, by its slash-separated path, whether it belongs.
	has func(file string) bool
	// used says whether an experiment has to do with it; nil stands for any.
	used func(x *experiment.Experiment) bool
}

var parts = []part{
	{
		name: "engine",
		// What cmd/isolio-guest is made of, and what boots it.
		dirs: []string{
			"cmd/isolio-guest", "internal/lab", "internal/host/block", "internal/host/cgroup", "internal/host/tunable", "internal/host/weight",
			"internal/plan", "internal/failure", "internal/tomlfile",
		},
		has: func(file string) bool {
			for _, dir := range []string{"archive/", "command/", "document/", "report/", "vm/vmtest/"} {
				if strings.HasPrefix(file, "internal/lab/"+dir) {
					return false
				}
			}
			return !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/")
		},
	},
	{
		name: "programs",
		dirs: []string{"scripts/programs"},
		has:  func(string) bool { return true },
		used: (*experiment.Experiment).UsesPrograms,
	},
	{
		name: "libaps",
		dirs: []string{"libaps"},
		has: func(file string) bool {
			return !strings.Contains(file, "/test/") && !strings.Contains(file, "/man/") && !strings.HasSuffix(file, ".md")
		},
		used: (*experiment.Experiment).UsesLibaps,
	},
}

// allModules is what results have that were measured before each module had a sum of its
// own: one of all that is in kernel/.
var allModules = part{
	name: "modules",
	dirs: []string{"kernel"},
	has: func(file string) bool {
		return !strings.Contains(file, "/tests/") && !strings.HasSuffix(file, "/LICENSE")
	},
}

// source is the sum of something that a result depends on.
type source struct{ name, sum string }

// sources are the sums of what the experiment's result depends on, in the order in which
// they are told. A module has the name of its directory in kernel/.
func (t Tree) sources(x *experiment.Experiment) ([]source, error) {
	all := []source{{"experiment", sumOf(x.Source)}}
	for _, module := range x.Modules() {
		files, err := t.moduleFiles(module)
		if err != nil {
			return nil, fmt.Errorf("sources of %s: %w", module, err)
		}
		sum, err := t.sumFiles(files)
		if err != nil {
			return nil, fmt.Errorf("sources of %s: %w", module, err)
		}
		all = append(all, source{module, sum})
	}
	for _, p := range parts {
		if p.used != nil && !p.used(x) {
			continue
		}
		sum, err := t.sum(p)
		if err != nil {
			return nil, err
		}
		all = append(all, source{p.name, sum})
	}
	return all, nil
}

// Sources are the sums of what the experiment's result depends on, by name.
func (t Tree) Sources(x *experiment.Experiment) (map[string]string, error) {
	all, err := t.sources(x)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, s := range all {
		sums[s.name] = s.sum
	}
	return sums, nil
}

// changed names the sources that are others than those of a result.
func (t Tree) changed(x *experiment.Experiment, was map[string]string) (names []string, err error) {
	now, err := t.sources(x)
	if err != nil {
		return nil, err
	}
	modules := x.Modules()
	if was[allModules.name] != "" {
		sum, err := t.sum(allModules)
		if err != nil {
			return nil, err
		}
		now = slices.DeleteFunc(now, func(s source) bool { return slices.Contains(modules, s.name) })
		now = slices.Insert(now, 1, source{allModules.name, sum})
	}
	for _, s := range now {
		if s.sum != was[s.name] {
			names = append(names, s.name)
		}
	}
	return names, nil
}

// sum is that of a part's files.
func (t Tree) sum(p part) (string, error) {
	var all []string
	for _, dir := range p.dirs {
		err := filepath.WalkDir(t.path(dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(string(t), file)
			if err == nil && p.has(filepath.ToSlash(name)) {
				all = append(all, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("sources of %s: %w", p.name, err)
		}
	}
	sum, err := t.sumFiles(all)
	if err != nil {
		return "", fmt.Errorf("sources of %s: %w", p.name, err)
	}
	return sum, nil
}

// path is where a file of the tree is, whose name has slashes.
func (t Tree) path(name string) string { return filepath.Join(string(t), filepath.FromSlash(name)) }

// sumFiles is the sum of files of the tree: of their paths and what is in them but for
// comments, and of the versions of the modules that Go files import.
func (t Tree) sumFiles(files []string) (string, error) {
	slices.Sort(files)
	var text bytes.Buffer
	imports := map[string]bool{}
	for _, name := range files {
		in, err := os.ReadFile(t.path(name))
		if err != nil {
			return "", err
		}
		code, err := withoutComments(name, in, imports)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s %d\n%s", name, len(code), code)
	}
	if len(imports) > 0 {
		versions, err := os.ReadFile(t.path("go.sum"))
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(versions) {
			module, _, _ := strings.Cut(string(line), " ")
			for path := range imports {
				if path == module || strings.HasPrefix(path, module+"/") {
					text.Write(line)
					break
				}
			}
		}
	}
	return sumOf(text.Bytes()), nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
