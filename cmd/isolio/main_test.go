// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// most is how large the program may be, in bytes, as `make build` builds it. The linker leaves
// out methods that nothing calls, unless the program calls some by name, as html/template does:
// that alone made it a quarter larger. D-Bus takes 0.4 MB.
const most = 15.5e6

// The program for hosts has nothing of the laboratory, and is small.
func TestNothingOfTheLab(t *testing.T) {
	text, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, text)
	}
	for pkg := range strings.FieldsSeq(string(text)) {
		for _, not := range []string{"isolio/internal/lab", "gonum.org/v1/plot"} {
			if pkg == not || strings.HasPrefix(pkg, not+"/") {
				t.Errorf("isolio imports %s", pkg)
			}
		}
	}

	if testing.Short() {
		t.Skip("builds the program")
	}
	file := filepath.Join(t.TempDir(), "isolio")
	const version = "1.2.3+git4.gabcdef0"
	if text, err := exec.Command("go", "build", "-tags=nethttpomithttp2", "-ldflags=-s -w -X isolio/internal/cli.Version="+version, "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	if text, err := exec.Command(file, "--version").Output(); err != nil || string(text) != "isolio version "+version+"\n" {
		t.Errorf("--version prints %q, %v", text, err)
	}
	info, err := os.Stat(file)
	must.OK(t, err)
	if info.Size() > most {
		t.Errorf("isolio has %d bytes, want %.0f at most", info.Size(), most)
	}
}
