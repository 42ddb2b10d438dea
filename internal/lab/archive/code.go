// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"go/parser"
	goscanner "go/scanner"
	"go/token"
	"path"
	"strconv"
	"text/scanner"
)

// withoutComments is what of a source file a result depends on: its words, without
// comments and the space between them, so that a comment can be rewritten without
// measuring for hours. What a Go file imports is added to imports.
func withoutComments(name string, source []byte, imports map[string]bool) ([]byte, error) {
	switch path.Ext(name) {
	case ".c", ".h", ".map":
		return cWords(source), nil
	case ".go":
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, i := range file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return nil, err
			}
			imports[imported] = true
		}
		return goWords(source), nil
	default:
		return hashlessLines(source), nil
	}
}

// cWords are the words of C, a line each. A comment there is one in Go.
func cWords(source []byte) []byte {
	var words []byte
	var s scanner.Scanner
	s.Init(bytes.NewReader(source))
	s.Mode = scanner.GoTokens
	s.Error = func(*scanner.Scanner, string) {} // 'ab' is a word as well
	for s.Scan() != scanner.EOF {
		words = append(words, s.TokenText()...)
		words = append(words, '\n')
	}
	return words
}

func goWords(source []byte) []byte {
	var words []byte
	var s goscanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", -1, len(source)), source, func(token.Position, string) {}, 0)
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return words
		}
		if literal == "" {
			literal = kind.String()
		}
		words = append(words, literal...)
		words = append(words, '\n')
	}
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
