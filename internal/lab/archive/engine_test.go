// SPDX-License-Identifier: MIT

package archive

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What the program in the VM is made of is what the engine's sum is of: nothing that is
// measured with changes unseen.
func TestEngineIsWholeProgram(t *testing.T) {
	text, err := exec.Command("go", "list", "-deps", "-f", "{{if and .Module .Module.Main}}{{.ImportPath}}{{end}}", "isolio/cmd/isolio-guest").Output()
	must(t, err)
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == "engine" })
	for pkg := range strings.FieldsSeq(string(text)) {
		dir := strings.TrimPrefix(pkg, "isolio/")
		summed := slices.ContainsFunc(parts[i].dirs, func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
		if !summed || !parts[i].has(dir+"/source.go") {
			t.Errorf("%s is in isolio-guest, and not in the engine's sum", pkg)
		}
	}
}
