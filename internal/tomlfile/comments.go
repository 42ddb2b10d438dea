// SPDX-License-Identifier: MIT

package tomlfile

import (
	"bytes"

	"github.com/pelletier/go-toml/v2/unstable"
)

// WithoutComments is a file's text without comments, empty lines and space at the end of
// lines: two files that differ in nothing else have the same. What is in a string stays
// as it is, a '#' as well.
func WithoutComments(text []byte) ([]byte, error) {
	p := unstable.Parser{KeepComments: true}
	p.Reset(text)
	kind := make([]unstable.Kind, len(text)) // of each byte: Comment, String or another
	for p.NextExpression() {
		for n := p.Expression(); n != nil; n = n.Next() { // a comment behind it is its sibling
			mark(kind, n)
		}
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	var left, line []byte
	end := func() {
		if line = bytes.TrimRight(line, " \t\r"); len(line) > 0 {
			left = append(append(left, line...), '\n')
		}
		line = line[:0]
	}
	for i, b := range text {
		switch {
		case kind[i] == unstable.Comment:
		case b == '\n' && kind[i] != unstable.String:
			end()
		default:
			line = append(line, b)
		}
	}
	end()
	return left, nil
}

// mark notes which bytes of the text belong to a comment or a string of the node.
func mark(kind []unstable.Kind, n *unstable.Node) {
	if n.Kind == unstable.Comment || n.Kind == unstable.String {
		for i := range n.Raw.Length {
			kind[n.Raw.Offset+i] = n.Kind
		}
	}
	for child := n.Children(); child.Next(); {
		mark(kind, child.Node())
	}
}
