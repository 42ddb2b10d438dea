// SPDX-License-Identifier: MIT

package target

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// picked are those texts of a JSON object whose keys are wanted. The others take no memory:
// the author of an image chooses how many there are, and how long.
type picked struct {
	want func(key string) bool
	all  map[string]string
}

// UnmarshalJSON takes the object, which is known to be good JSON.
func (p *picked) UnmarshalJSON(text []byte) error {
	p.all = nil
	rest := bytes.TrimSpace(text)
	if string(rest) == "null" {
		return nil
	}
	if rest[0] != '{' {
		return fmt.Errorf("want an object of texts, got %.20q", rest)
	}
	for rest = rest[1:]; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			return nil
		}
		key, after := cutString(rest[at:])
		_, after, _ = bytes.Cut(after, []byte{':'})
		after = bytes.TrimLeft(after, " \t\r\n")
		var value []byte
		switch {
		case after[0] == '"':
			value, rest = cutString(after)
		case bytes.HasPrefix(after, []byte("null")):
			value, rest = []byte(`""`), after[len("null"):]
		default:
			return fmt.Errorf("%.40s: want a text, got %.20q", key, after)
		}
		if err := p.add(key, value); err != nil {
			return err
		}
	}
}

// add takes a key and its value, as they are in the file.
func (p *picked) add(key, value []byte) error {
	name, err := unmarshal[string](key)
	if err != nil || p.want == nil || !p.want(name) {
		return err
	}
	if p.all == nil {
		p.all = map[string]string{}
	}
	p.all[name], err = unmarshal[string](value)
	return err
}

// cutString cuts a JSON string off the text that it begins.
func cutString(text []byte) (quoted, rest []byte) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i+1], text[i+1:]
		}
	}
	return text, nil
}

// pickedFrom are those of an object that is a text itself; none of a text that is no such
// object.
func pickedFrom(text string, want func(key string) bool) map[string]string {
	p := picked{want: want}
	if json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	return p.all
}
