// SPDX-License-Identifier: MIT

package state

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/host/cgroup"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func machine(t *testing.T, groups ...string) (root string, tree cgroup.Tree) {
	t.Helper()
	root = t.TempDir()
	tree = cgroup.Tree{Root: filepath.Join(root, "sys/fs/cgroup")}
	for _, group := range groups {
		must.OK(t, os.MkdirAll(tree.Path(group), 0o755))
	}
	return root, tree
}

// A mark outlives the process, and goes with its cgroup.
func TestStore(t *testing.T) {
	root, tree := machine(t, "a", "b")
	defer syscall.Umask(syscall.Umask(0o077))
	s := OpenApplied(root, tree)
	want := Applied{"default": {Weight: 700, Before: 100}}
	for _, group := range []string{"a", "b"} {
		must.OK(t, s.Set(group, want))
	}
	info, err := os.Stat(filepath.Join(root, "run/isolio/marks"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v: not everybody may read marks", info, err)
	}
	again := OpenApplied(root, tree)
	if got, err := again.Get("a"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Get = %v, %v, want %v", got, err, want)
	}
	must.OK(t, again.Set("b", nil))
	if got, err := again.Get("b"); got != nil || err != nil {
		t.Errorf("taken back: %v, %v", got, err)
	}
	must.OK(t, os.Remove(tree.Path("a")))
	if got, err := again.Get("a"); got != nil || err != nil {
		t.Errorf("of a cgroup that is gone: %v, %v", got, err)
	}
	again.Sweep([]string{"b"})
	if left, err := os.ReadDir(filepath.Join(root, "run/isolio/marks")); err != nil || len(left) != 0 {
		t.Errorf("left after the sweep: %v, %v", left, err)
	}
}

// A mark of a version that wrote no schema counts, one of a later version is an error.
func TestMarkSchema(t *testing.T) {
	root, tree := machine(t, "a")
	s := OpenApplied(root, tree)
	name, err := s.path("a")
	must.OK(t, err)
	testtree.File(t, name, `{"cgroup": "a", "weights": {"default": {"weight": 700, "before": 100}}}`)
	if got, err := s.Get("a"); err != nil || got["default"].Weight != 700 {
		t.Errorf("%v, %v", got, err)
	}
	testtree.File(t, name, `{"schema": 2, "cgroup": "a", "weights": {}}`)
	if got, err := OpenApplied(root, tree).Get("a"); got != nil || err == nil || !strings.Contains(err.Error(), "schema 2 is not known") {
		t.Errorf("%v, %v", got, err)
	}
}

// Without a place to write, a mark holds for the process.
func TestStoreWithoutAPlace(t *testing.T) {
	root, tree := machine(t, "a")
	must.OK(t, os.WriteFile(filepath.Join(root, "run"), nil, 0o644))
	s := OpenApplied(root, tree)
	want := Applied{"default": {Weight: 700, Before: 100}}
	if err := s.Set("a", want); err == nil {
		t.Error("no error")
	}
	if got, err := s.Get("a"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Get = %v, %v, want %v", got, err, want)
	}
}
