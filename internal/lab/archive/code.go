// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"path"
	"text/scanner"
)

// code is what of a source file a result depends on: without comments, messages, and the
// space between words. So a comment and a message can be rewritten and no result is older.
func code(name string, source []byte) []byte {
	switch path.Ext(name) {
	case ".c", ".h", ".cc", ".map":
		return cWords(source)
	default:
		return hashlessLines(source)
	}
}

// cWords are the words of C, a line each, without its strings but for what is included. C's
// comments are those of Go.
func cWords(source []byte) []byte {
	var words []byte
	var s scanner.Scanner
	s.Init(bytes.NewReader(source))
	s.Mode = scanner.GoTokens &^ scanner.ScanRawStrings
	s.Error = func(*scanner.Scanner, string) {} // 'ab' is a word as well
	before := ""
	for kind := s.Scan(); kind != scanner.EOF; kind = s.Scan() {
		if kind != scanner.String || before == "include" {
			words = append(words, s.TokenText()...)
			words = append(words, '\n')
		}
		before = s.TokenText()
	}
	return words
}

// hashlessLines leaves out lines that are empty, or a comment of a shell or make.
func hashlessLines(text []byte) []byte {
	var left []byte
	for line := range bytes.Lines(text) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			left = append(left, line...)
		}
	}
	return left
}
