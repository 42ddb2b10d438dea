// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// Each module of the tree is known to experiments, which load those that they need.
func TestModulesAreKnown(t *testing.T) {
	files, err := filepath.Glob("../../../kernel/*/Kbuild")
	must.OK(t, err)
	var modules []string
	for _, file := range files {
		modules = append(modules, filepath.Base(filepath.Dir(file)))
	}
	known := append(experiment.Own(), experiment.ModelDisk)
	slices.Sort(known)
	if !slices.Equal(modules, known) {
		t.Errorf("kernel/ has modules %q, experiments know %q", modules, known)
	}
}

// What a module is built from is what its sum is of. Where it was built from
// these sources, gcc wrote down what it read.
func TestModuleFilesAreWhatIsCompiled(t *testing.T) {
	tree := Tree("../../..")
	for _, module := range append(experiment.Own(), experiment.ModelDisk) {
		files, err := tree.moduleFiles(module)
		must.OK(t, err)
		for _, file := range files {
			if strings.Contains(file, "/tests/") {
				t.Errorf("%s: %s", module, file)
			}
		}
		for _, want := range []string{"kernel/Kbuild", "kernel/compat/compat.h", "kernel/compat/fit.c", "kernel/compat/layout.h", "kernel/" + module + "/Kbuild", "kernel/" + module + "/main.c"} {
			if !slices.Contains(files, want) {
				t.Errorf("%s: %s is not among its files", module, want)
			}
		}
		built, err := filepath.Glob(tree.path("build/roots/*/isolio/obj"))
		must.OK(t, err)
		for _, obj := range built {
			if sameSources(tree, files, obj) {
				compiled(t, files, obj, module)
			}
		}
	}
}

// sameSources reports whether obj was staged from the tree's sources as they are.
func sameSources(tree Tree, files []string, obj string) bool {
	return !slices.ContainsFunc(files, func(file string) bool {
		if filepath.Ext(file) == ".txt" {
			return false
		}
		is, err := os.ReadFile(tree.path(file))
		staged, other := os.ReadFile(filepath.Join(obj, strings.TrimPrefix(file, kernelDir+"/")))
		return err != nil || other != nil || !bytes.Equal(is, staged)
	})
}

// compiled compares files with what gcc read for the objects of a module.
func compiled(t *testing.T, files []string, obj, module string) {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(obj, module, ".*.o.cmd"))
	must.OK(t, err)
	for _, object := range objects {
		text, err := os.ReadFile(object)
		must.OK(t, err)
		for name := range strings.FieldsSeq(string(text)) {
			_, below, ours := strings.Cut(name, "/isolio/obj/")
			if ext := filepath.Ext(name); !ours || ext != ".c" && ext != ".h" || strings.HasPrefix(below, "gen/") || strings.HasSuffix(name, ".mod.c") {
				continue
			}
			if file := filepath.Join(kernelDir, below); !slices.Contains(files, file) {
				t.Errorf("%s: %s was compiled with %s, which is not among its files", obj, filepath.Base(object), file)
			}
		}
	}
}
