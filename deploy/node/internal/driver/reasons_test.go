// SPDX-License-Identifier: MIT

package driver

import (
	"os"
	"strings"
	"testing"
)

// A reader who finds an Event finds what to do about it.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/kubernetes-operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, found := strings.Cut(string(text), "\n## Troubleshooting\n")
	if !found {
		t.Fatal("docs/kubernetes-operate.md has no part about what goes wrong")
	}
	rows, _, _ = strings.Cut(rows, "\n## ")
	for _, reason := range []string{BadAnnotation, VolumeOnOtherDisk, BadDefault, BadClass, NotEnabled, VolumeNotShared, ShareNotOffered} {
		if !strings.Contains(rows, "`"+reason+"`") {
			t.Errorf("the document does not say what to do about %s", reason)
		}
	}
}
