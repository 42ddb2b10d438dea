// SPDX-License-Identifier: MIT

package guest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

// The engine refuses what it cannot do with a line on file 3, not in silence.
func TestEngineReports(t *testing.T) {
	var line strings.Builder
	missing := filepath.Join(t.TempDir(), "plan.json")
	code := engine(missing, json.NewEncoder(&line), os.Stderr)
	var got Report
	must.OK(t, json.Unmarshal([]byte(line.String()), &got))
	if code != failure.Failed || !strings.Contains(got.Error, missing) {
		t.Errorf("code %d, report %q", code, line.String())
	}
}

// What measures in a VM has nothing of what an operator's machine runs: a change there
// changes no result.
func TestGuestHasNoHostCode(t *testing.T) {
	text, err := exec.Command("go", "list", "-deps", "isolio/cmd/isolio-guest").Output()
	must.OK(t, err)
	packages := strings.Fields(string(text))
	for _, name := range packages {
		if strings.HasPrefix(name, "isolio/internal/host") || strings.HasSuffix(name, "/run") && strings.HasPrefix(name, "isolio/") {
			t.Errorf("isolio-guest has %s", name)
		}
	}
	if len(packages) < 20 {
		t.Errorf("go list knows %d packages", len(packages))
	}
}
