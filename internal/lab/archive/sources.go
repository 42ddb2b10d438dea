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

// part is something that a result depends on, and the sources that it is made of.
type part struct {
	name string
	// dirs are directories with all below them, and files.
	dirs []string
	// has says of a file there, by its slash-separated path, whether it belongs.
	has func(file string) bool
	// used says whether an experiment has to do with it; nil stands for any.
	used func(x *experiment.Experiment) bool
}

// parts are all but the experiment itself, in the order in which they are told.
var parts = []part{
	{name: "experiment"},
	{
		name: "modules",
		dirs: []string{"kernel"},
		has: func(file string) bool {
			return !strings.Contains(file, "/tests/") && !strings.HasSuffix(file, "/LICENSE")
		},
	},
	{
		name: "engine",
		// What cmd/isolio-guest is made of, and what boots it.
		dirs: []string{
			"cmd/isolio-guest", "internal/lab", "internal/host/block", "internal/host/cgroup", "internal/host/weight",
			"internal/plan", "internal/failure", "internal/tomlfile", "go.sum",
		},
		has: func(file string) bool {
			for _, dir := range []string{"archive/", "command/", "document/", "report/"} {
				if strings.HasPrefix(file, "internal/lab/"+dir) {
					return false
				}
			}
			return !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/")
		},
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

// Sources are the sums of the parts that the experiment's result depends on.
func (t Tree) Sources(x *experiment.Experiment) (map[string]string, error) {
	sums := map[string]string{"experiment": sumOf(withoutComments(x.Source))}
	for _, p := range parts {
		if p.dirs == nil || p.used != nil && !p.used(x) {
			continue
		}
		sum, err := t.sum(p)
		if err != nil {
			return nil, err
		}
		sums[p.name] = sum
	}
	return sums, nil
}

// sum is that of a part's files: of their paths and what is in them.
func (t Tree) sum(p part) (string, error) {
	var all []string
	for _, dir := range p.dirs {
		err := filepath.WalkDir(filepath.Join(string(t), filepath.FromSlash(dir)), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(string(t), file)
			if err == nil && p.has(filepath.ToSlash(name)) {
				all = append(all, name)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("sources of %s: %w", p.name, err)
		}
	}
	slices.Sort(all)
	var text bytes.Buffer
	for _, name := range all {
		in, err := os.ReadFile(filepath.Join(string(t), name))
		if err != nil {
			return "", fmt.Errorf("sources of %s: %w", p.name, err)
		}
		fmt.Fprintf(&text, "%s %d\n%s", filepath.ToSlash(name), len(in), in)
	}
	return sumOf(text.Bytes()), nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// withoutComments leaves lines out that say nothing to the lab.
func withoutComments(text []byte) []byte {
	var left []byte
	for line := range bytes.Lines(text) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			left = append(left, line...)
		}
	}
	return left
}
