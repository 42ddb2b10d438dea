// SPDX-License-Identifier: MIT

package state

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// What is raised outlives the process, and leaves no file when nothing is.
func TestHeld(t *testing.T) {
	root := t.TempDir()
	if all, err := LoadBoosts(root); all != nil || err != nil {
		t.Errorf("%v, %v of a machine without any", all, err)
	}
	want := []Boost{{Cgroup: "a", Disk: "8:0", Promise: "unit a", Factor: 1.5, Max: 4, Cause: "disk", Since: time.Unix(1e9, 0).UTC()}}
	if err := SaveBoosts(root, want); err != nil {
		t.Fatal(err)
	}
	if all, err := LoadBoosts(root); err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := SaveBoosts(root, nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "run/isolio/*")); left != nil {
		t.Errorf("left: %q", left)
	}
}

// A file that is damaged raises no weight.
func TestHeldDamaged(t *testing.T) {
	for _, text := range []string{"", "[{]", `[{"cgroup": "a", "factor": 5, "most": 4}]`, `[{"cgroup": "a", "factor": 500, "most": 500}]`, `[{"cgroup": "a", "factor": 0.5, "most": 4}]`} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "run/isolio"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pathOf(root, boostsFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
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
