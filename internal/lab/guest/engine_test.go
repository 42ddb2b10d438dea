// SPDX-License-Identifier: MIT

package guest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
)

// The engine refuses what it cannot do with a line on file 3, not in silence.
func TestEngineReports(t *testing.T) {
	var line strings.Builder
	missing := filepath.Join(t.TempDir(), "plan.json")
	code := engine(missing, json.NewEncoder(&line), os.Stderr)
	var got Report
	if err := json.Unmarshal([]byte(line.String()), &got); err != nil {
		t.Fatal(err)
	}
	if code != failure.Failed || !strings.Contains(got.Error, missing) {
		t.Errorf("code %d, report %q", code, line.String())
	}
}
