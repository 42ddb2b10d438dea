// SPDX-License-Identifier: MIT

package doc

import (
	"path"
	"path/filepath"

	"isolio/internal/lab/report"
)

// shares makes the picture of a case: the total of each contender, and of what shares of
// containers it is made.
func (f *Filler) shares(p place, b *block, filled *Filled) (string, error) {
	s, err := f.source(p, b.Result, b.Case, filled)
	if err != nil {
		return "", err
	}
	if b.File == "" || path.Ext(b.File) != ".svg" || path.IsAbs(b.File) {
		return "", p.wrong("file", "is not an SVG file beside the document", "such as plots/shares.svg")
	}
	if b.Alt == "" {
		return "", p.wrong("alt", "is missing", "what the picture shows, for those who cannot see it")
	}
	svg, err := report.Shares(s.doc, b.Case, b.Alt)
	if err != nil {
		return "", err
	}
	filled.Plots[filepath.Join(filepath.Dir(p.file), filepath.FromSlash(b.File))] = svg
	return "![" + b.Alt + "](" + b.File + ")\n", nil
}
