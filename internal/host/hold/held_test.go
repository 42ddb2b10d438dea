// SPDX-License-Identifier: MIT

package hold

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
	if all, err := Load(root); all != nil || err != nil {
		t.Errorf("%v, %v of a machine without any", all, err)
	}
	want := []Held{{Cgroup: "a", Disk: "8:0", Promise: "unit a", Factor: 1.5, Most: 4, Cause: "disk", Since: time.Unix(1e9, 0).UTC()}}
	if err := Save(root, want); err != nil {
		t.Fatal(err)
	}
	if all, err := Load(root); err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := Save(root, nil); err != nil {
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
		if err := os.WriteFile(file(root), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if all, err := Load(root); err == nil || all != nil {
			t.Errorf("%q: %+v, %v", text, all, err)
		}
	}
}
