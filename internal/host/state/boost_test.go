// SPDX-License-Identifier: MIT

package state

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

// What is raised outlives the process, and leaves no file when nothing is.
func TestHeld(t *testing.T) {
	root := t.TempDir()
	if all, err := LoadBoosts(root); all != nil || err != nil {
		t.Errorf("%v, %v of a machine without any", all, err)
	}
	want := []Boost{{Cgroup: "a", Disk: "8:0", Promise: "unit a", Factor: 1.5, Max: 4, Cause: "disk", Since: time.Unix(1e9, 0).UTC()}}
	must.OK(t, SaveBoosts(root, want))
	if all, err := LoadBoosts(root); err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	must.OK(t, SaveBoosts(root, nil))
	if left, _ := filepath.Glob(filepath.Join(root, "run/isolio/*")); left != nil {
		t.Errorf("left: %q", left)
	}
}

// A file of a version that wrote no schema is read.
func TestHeldWithoutSchema(t *testing.T) {
	root := testtree.New(t, map[string]string{boostsFile: `[{"cgroup": "a", "disk": "8:0", "factor": 2, "most": 4}]`})
	if all, err := LoadBoosts(root); err != nil || len(all) != 1 || all[0].Factor != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A file that is damaged, or of a later version, raises no weight.
func TestHeldDamaged(t *testing.T) {
	for _, text := range []string{"", "[{]", `[{"cgroup": "a", "factor": 5, "most": 4}]`, `[{"cgroup": "a", "factor": 500, "most": 500}]`, `[{"cgroup": "a", "factor": 0.5, "most": 4}]`,
		`{"weights": []}`, `{"schema": 2, "weights": []}`, `{"schema": 1, "weights": [{"cgroup": "a", "factor": 5, "most": 4}]}`} {
		root := testtree.New(t, map[string]string{boostsFile: text})
		if all, err := LoadBoosts(root); err == nil || all != nil {
			t.Errorf("%q: %+v, %v", text, all, err)
		}
	}
}

func TestWeight(t *testing.T) {
	for _, c := range []struct {
		base         int
		factor, most float64
		want         int
	}{{100, 1, 4, 100}, {100, 1.001, 4, 101}, {383, 2, 4, 766}, {3, 1.5, 1.5, 4}, {5000, 3, 4, 10000}, {1, 1.2, 4, 2}, {100, 4, 4, 400}} {
		if got := Boosted(c.base, c.factor, c.most, 10000); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
