// SPDX-License-Identifier: MIT

package weight

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// Value is what a weight file holds, and what is asked for: a number, or Sum.
type Value int

// Sum is the weight that a cgroup has if it weighs what its active children weigh
// together. Just io.kyber.weight takes it.
const Sum Value = -1

// sumWord is Sum in files, rules and JSON.
const sumWord = "sum"

// ParseValue reads a number that is not negative, or the word for Sum.
func ParseValue(text string) (Value, error) {
	if text == sumWord {
		return Sum, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a weight", text)
	}
	return Value(n), nil
}

// String is the value as files have it.
func (v Value) String() string {
	if v == Sum {
		return sumWord
	}
	return strconv.Itoa(int(v))
}

// MarshalJSON writes a number, or "sum".
func (v Value) MarshalJSON() ([]byte, error) {
	if v == Sum {
		return json.Marshal(sumWord)
	}
	return json.Marshal(int(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(text []byte) error {
	if string(text) == strconv.Quote(sumWord) {
		*v = Sum
		return nil
	}
	var n int
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("%d is not a weight", n)
	}
	*v = Value(n)
	return nil
}

// meant is a number, right or wrong, or a word that a command takes for one.
var meant = regexp.MustCompile(`(?i)^(\s*[+-]?(0x)?[0-9]+([.,][0-9]*)?(e[0-9]{1,2}|[kmgt]i?b?|%)?\s*|sum|default)$`)

// Meant reports whether a command takes a word for a weight, and not for a target.
func Meant(word string) bool { return meant.MatchString(word) }
