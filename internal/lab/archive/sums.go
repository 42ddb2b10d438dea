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
	"isolio/internal/lab/guest"
	"isolio/internal/lab/result"
)

// libapsDir has the library, whose name in a result's sums is libaps.
const libapsDir = "libaps"

// Provenance is that of a result of the experiment, measured now: the engine's version and
// the sums. Versions of programs are not in it.
func (t Tree) Provenance(x *experiment.Experiment) (*result.Provenance, error) {
	plan, err := x.Plan()
	if err != nil {
		return nil, err
	}
	p := &result.Provenance{Engine: guest.EngineVersion, Plan: sumOf(plan), Code: map[string]string{}}
	for _, module := range x.Modules() {
		files, err := t.moduleFiles(module)
		if err == nil {
			p.Code[module], err = t.sumFiles(files)
		}
		if err != nil {
			return nil, fmt.Errorf("code of %s: %w", module, err)
		}
	}
	if x.UsesLibaps() {
		files, err := t.libapsFiles()
		if err == nil {
			p.Code[libapsDir], err = t.sumFiles(files)
		}
		if err != nil {
			return nil, fmt.Errorf("code of libaps: %w", err)
		}
	}
	return p, nil
}

// Old says why a result of the experiment is older than the tree, a few words for each
// reason; nothing if it is not. A nil document was never measured.
func (t Tree) Old(x *experiment.Experiment, doc *result.Document) (why []string, err error) {
	if doc == nil {
		return []string{"not measured"}, nil
	}
	was := doc.Provenance
	if was == nil {
		return []string{"measured at an unknown version"}, nil
	}
	now, err := t.Provenance(x)
	if err != nil {
		return nil, err
	}
	if was.Plan != now.Plan {
		why = append(why, "experiment changed")
	}
	for _, module := range append(x.Modules(), libapsDir) {
		if was.Code[module] != now.Code[module] {
			why = append(why, module+" changed")
		}
	}
	if was.Engine != now.Engine {
		why = append(why, fmt.Sprintf("engine %d, now %d", was.Engine, now.Engine))
	}
	return why, nil
}

// libapsFiles are the sources of libaps and of its engines for fio.
func (t Tree) libapsFiles() (files []string, err error) {
	err = filepath.WalkDir(t.path(libapsDir), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"test", "man", "examples"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(string(t), file)
		if !strings.HasSuffix(name, ".md") {
			files = append(files, filepath.ToSlash(name))
		}
		return err
	})
	return files, err
}

// path is where a file of the tree is, whose name has slashes.
func (t Tree) path(name string) string { return filepath.Join(string(t), filepath.FromSlash(name)) }

// sumFiles is the sum of files of the tree: of their paths and their code.
func (t Tree) sumFiles(files []string) (string, error) {
	slices.Sort(files)
	var text bytes.Buffer
	for _, name := range files {
		source, err := os.ReadFile(t.path(name))
		if err != nil {
			return "", err
		}
		words := code(name, source)
		fmt.Fprintf(&text, "%s %d\n%s", name, len(words), words)
	}
	return sumOf(text.Bytes()), nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
