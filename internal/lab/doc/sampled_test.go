// SPDX-License-Identifier: MIT

package doc

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/archive"
)

// Samples are read by tables of promises and by columns that are computed from them.
func TestSampled(t *testing.T) {
	dir := t.TempDir()
	for name, asked := range map[string]string{
		"README.md":   contendersBlock,
		"docs/gap.md": strings.NewReplacer("total_vs_none", "gap_ms", `"one"`, `"gap"`).Replace(contendersBlock),
		"docs/p.md":   "table = \"promises\"\nresult = \"sold\"",
		"docs/d.md":   "data = \"charges\"",
		"docs/r/c.md": "table = \"cases\"\nrows = [{ name = \"a\", result = \"settled\" }]\ncolumns = [{ metric = \"settle_ms\" }]",
	} {
		put(t, filepath.Join(dir, name), between(asked, ""))
	}
	names, err := Sampled(archive.Tree(dir))
	noError(t, err)
	if want := []string{"gap", "settled", "sold"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
